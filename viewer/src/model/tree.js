// The tree of a flame graph: node 0 is the root of all, a node's parent comes
// before it. Texts are numbers of Names. A tree carries one or two sides, so
// that what is compared has the same places.

const EMPTY = -1;

export class FlameTree {
  constructor(names) {
    this.names = names;
    this.parent = [EMPTY];
    this.name = [names.level('all')];
    this.order = [undefined];
    this.self = [[0], [0]]; // by side, by node
    this.samples = [[0], [0]];
    this.total = null; // by side; of finish()
    this.byParentAndName = new Map();
  }

  get size() {
    return this.parent.length;
  }

  child(parent, name, order) {
    const key = parent * 2097152 + name;
    let node = this.byParentAndName.get(key);
    if (node === undefined) this.byParentAndName.set(key, (node = this.fresh(parent, name, order)));
    return node;
  }

  /** Another node, also if the parent has one of this name. */
  fresh(parent, name, order) {
    this.parent.push(parent);
    this.name.push(name);
    this.order.push(order);
    for (const side of [0, 1]) {
      this.self[side].push(0);
      this.samples[side].push(0);
    }
    return this.parent.length - 1;
  }

  add(node, side, weight, samples) {
    this.self[side][node] += weight;
    this.samples[side][node] += samples;
  }

  /** Sums up; nothing is added afterwards. */
  finish() {
    this.total = this.self.map((self) => upward(Float64Array.from(self), this.parent));
    this.totalSamples = this.samples.map((samples) =>
        upward(Float64Array.from(samples), this.parent));
    this.children = childLists(this.parent);
    this.count = upward(new Uint32Array(this.size).fill(1), this.parent); // itself and those below
    return this;
  }

  /** Texts from the root down to the node, without the root of all. */
  path(node) {
    const path = [];
    for (let n = node; n > 0; n = this.parent[n]) path.unshift(this.names.text[this.name[n]]);
    return path;
  }

  /** The node at the end of such a path, or of as much of it as there is. */
  find(path) {
    let node = 0;
    for (const text of path) {
      const next = this.children[node].find((child) => this.names.text[this.name[child]] === text);
      if (next === undefined) break;
      node = next;
    }
    return node;
  }
}

function upward(totals, parent) {
  for (let node = totals.length - 1; node > 0; node--) totals[parent[node]] += totals[node];
  return totals;
}

function childLists(parent) {
  const lists = Array.from(parent, () => NO_CHILDREN);
  for (let node = 1; node < parent.length; node++) {
    const p = parent[node];
    if (lists[p] === NO_CHILDREN) lists[p] = [];
    lists[p].push(node);
  }
  return lists;
}

const NO_CHILDREN = Object.freeze([]);

/**
 * Put the groups of a profile into a tree.
 *
 * options: isInverted (leaf first), recursion ('1': neighbours of one function are one; 'all': a
 * function below itself is its outermost frame, and what was between is beside it),
 * hasLines (each line is a frame of its own), hidden (a Set of modules)
 */
export function addGroups(tree, side, profile, groups, options) {
  const nameOf = frameNames(tree.names, profile, options);
  for (const drawer of groups.drawers) {
    let root = 0;
    for (const level of drawer.levels) root =
        tree.child(root, tree.names.level(level.text, level.shown), level.order);
    const place = options.isInverted
      ? (node) => invertedPlace(tree, profile, root, node, nameOf, options)
      : plainPlaces(tree, profile, root, nameOf, options);
    drawer.nodes.forEach((node, i) => tree.add(place(node), side, drawer.weights[i],
        drawer.samples[i]));
  }
}

/** number of a frame => its name, or -1 where its module is hidden */
export function frameNames(names, profile, { hasLines, hidden }) {
  const known = new Int32Array(profile.tables.frame_symbol.length).fill(-2);
  return (frame) => {
    if (known[frame] === -2) {
      const parsed = profile.frame(frame);
      known[frame] = hidden.has(parsed.module) || isFate(parsed) ? -1
          : names.frame(parsed, hasLines);
    }
    return known[frame];
  };
}

// Of memory that was allocated: a group of levels.js.
function isFate({ file, text }) {
  return file === 'heap' && text !== 'fragments';
}

// Stacks share their root ends: each node of the profile has one place below
// this root, which is found once.
export function plainPlaces(tree, profile, root, nameOf, { recursion }) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const places = new Map([[0, root]]);
  const placeOf = (node) => {
    const todo = [];
    let n = node;
    while (!places.has(n)) {
      todo.push(n);
      n = parent[n];
    }
    let place = places.get(n);
    while (todo.length > 0) {
      n = todo.pop();
      place = step(tree, place, root, nameOf(frame[n]), recursion);
      places.set(n, place);
    }
    return place;
  };
  return placeOf;
}

function invertedPlace(tree, profile, root, node, nameOf, { recursion }) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  let place = root;
  for (let n = node; n !== 0; n = parent[n]) {
    place = step(tree, place, root, nameOf(frame[n]), recursion);
  }
  return place;
}

function step(tree, place, root, name, recursion) {
  if (name < 0) return place;
  for (let n = place; n !== root && recursion !== '0'; n = tree.parent[n]) {
    if (tree.name[n] === name) return n;
    if (recursion === '1') break;
  }
  return tree.child(place, name);
}

// What people see and what the file has.
function isNamed({ text, shown }, name, pattern) {
  return pattern.test(shown[name]) || (shown[name] !== text[name] && pattern.test(text[name]));
}

/** What matches the pattern, and the share of the whole it has, each sample once. */
export function search(tree, side, pattern) {
  const matches = new Uint8Array(tree.size);
  const isWithin = new Uint8Array(tree.size);
  const byName = new Map();
  let weight = 0;
  for (let node = 1; node < tree.size; node++) {
    const name = tree.name[node];
    if (!byName.has(name)) byName.set(name, isNamed(tree.names, name, pattern));
    isWithin[node] = isWithin[tree.parent[node]];
    if (!byName.get(name)) continue;
    matches[node] = 1;
    if (!isWithin[node]) weight += tree.total[side][node];
    isWithin[node] = 1;
  }
  return { matches, weight, share: tree.total[side][0] > 0 ? weight / tree.total[side][0] : 0 };
}
