// Where the frames of a flame graph lie. Only those that are wide enough to be seen are looked at,
// so that the size of the tree does not matter. Neighbours that are too narrow are one block.

const LEAST_PIXELS = 0.4;

/**
 * @param widths by node; of a node at least the sum of its children's
 * @param zoom the node that takes the whole width
 * @param sort 'name' or 'width'
 * @param from, to the part of the zoomed node that takes the whole width, of 0 to 1
 * @returns [{node, x, width, depth, rest}], pixels; depth 0 is what is zoomed. Of a
 * block, rest is {count: of its frames, with those below them, weight}, and node its first one
 */
export function visibleFrames(tree, widths, { zoom, pixels, sort, from = 0, to = 1 }) {
  const frames = [];
  if (!(widths[zoom] > 0)) return frames;
  const scale = pixels / (widths[zoom] * (to - from));
  const todo = [{ node: zoom, x: -from * widths[zoom] * scale, depth: 0 }];
  while (todo.length > 0) {
    const { node, x, depth } = todo.pop();
    frames.push({ node, x, width: widths[node] * scale, depth });
    let at = x;
    let block = null;
    for (const child of sorted(tree, widths, node, sort)) {
      const width = widths[child] * scale;
      const isInside = at < pixels && at + width > 0;
      if (isInside && width >= LEAST_PIXELS) {
        todo.push({ node: child, x: at, depth: depth + 1 });
        block = null;
      } else if (isInside && width > 0) {
        block ??= frames[frames.push({ node: child, x: at, width: 0, depth: depth + 1,
          rest: { count: 0, weight: 0 } }) - 1];
        block.width += width;
        block.rest.count += tree.count[child];
        block.rest.weight += widths[child];
      }
      at += width;
    }
  }
  return frames;
}

/** Where a node lies in the zoomed one, of 0 to 1; null: it is not in it. */
export function extentOf(tree, widths, { zoom, sort }, node) {
  let before = 0;
  for (let n = node; n !== zoom; n = tree.parent[n]) {
    if (n <= 0) return null;
    for (const sibling of sorted(tree, widths, tree.parent[n], sort)) {
      if (sibling === n) break;
      before += widths[sibling];
    }
  }
  return [before / widths[zoom], (before + widths[node]) / widths[zoom]];
}

/** The window [from, to) of 0 to 1 made `factor` as wide, so that what is at `at` of it stays. */
export function zoomed([from, to], at, factor, least) {
  const width = Math.min(1, Math.max(least, (to - from) * factor));
  return moved([from + (to - from - width) * at, 0], 0, width);
}

/** The window moved by a part of its width. */
export function moved([from, to], by, width = to - from) {
  const start = Math.min(1 - width, Math.max(0, from + by * width));
  return [start, start + width];
}

// Levels that have an order come in it: memory_1s_MiB before memory_10s_MiB.
export function sorted(tree, widths, node, sort) {
  const children = tree.children[node];
  if (children.length < 2) return children;
  const byOrder = (a, b) => (tree.order[a] ?? 0) - (tree.order[b] ?? 0);
  const byName = (a, b) => compareTexts(tree.names.text[tree.name[a]],
      tree.names.text[tree.name[b]]);
  const byWidth = (a, b) => widths[b] - widths[a];
  const [first, second] = sort === 'width' ? [byWidth, byName] : [byOrder, byName];
  return [...children].sort((a, b) => first(a, b) || second(a, b));
}

function compareTexts(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

export function depthOf(frames) {
  return frames.reduce((most, frame) => Math.max(most, frame.depth + 1), 1);
}
