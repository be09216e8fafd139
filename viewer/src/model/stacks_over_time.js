// The stacks of one process or scheduler over time, as a tree whose nodes are not merged: each is a
// function that was on the stack without a break, and weighs the cells of the grid in which it was.
// A cell has the stack that was held for most of it.

import { samplesOf } from './lanes.js';
import { frameNames, FlameTree, plainPlaces } from './tree.js';

/**
 * @param of {process} or {scheduler: its number, from 1 on}
 * @returns a tree with `spans`: by node the cells [first, end); `isBlank(node)`: nothing is known;
 *   `rowOf(cell)`: a sample that holds there, or -1
 */
export async function stacksOverTime(profile, grid, of, { names, title, options }) {
  await profile.need('node', 'process', 'time_us', 'status', 'scheduler');
  const rows = rowsOf(await piecesOf(profile, grid, of), profile.columns.node, grid);
  const merged = new FlameTree(names);
  const placeOf = plainPlaces(merged, profile, 0, frameNames(names, profile, options),
      { recursion: '0' });
  const tree = new FlameTree(names);
  tree.name[0] = names.level(title);
  tree.spans = [[0, grid.cells]];
  const blank = names.level('not sampled');
  let open = []; // from the root down: [name, node]
  rows.forEach((row, cell) => {
    const path = row < 0 ? [blank] : pathOf(merged, placeOf(profile.columns.node[row]));
    const same = path.findIndex((name, depth) => open[depth]?.[0] !== name);
    open = open.slice(0, same < 0 ? path.length : same);
    for (const name of path.slice(open.length)) {
      const node = tree.fresh(open.at(-1)?.[1] ?? 0, name, cell);
      tree.spans.push([cell, cell]);
      open.push([name, node]);
    }
    for (const [, node] of open) tree.spans[node][1] = cell + 1;
    tree.add(open.at(-1)?.[1] ?? 0, 0, 1, row < 0 ? 0 : 1);
  });
  tree.isBlank = (node) => tree.name[node] === blank;
  tree.rowOf = (cell) => rows[cell] ?? -1;
  return tree.finish();
}

function pathOf({ parent, name }, place) {
  const path = [];
  for (let node = place; node > 0; node = parent[node]) path.unshift(name[node]);
  return path;
}

// [row, fromUs, untilUs], in the order of time.
async function piecesOf(profile, grid, { process, scheduler }) {
  const samples = await samplesOf(profile, grid);
  const pieces = [];
  const longest = scheduler ? 2 * samples.tickUs : Infinity; // as in the schedulers' track
  const all = process === undefined ? Array.from({ length: profile.processCount }, (_, p) => p)
      : [process];
  for (const one of all) {
    samples.eachHeld(one, (row, from, until) => {
      if (scheduler && profile.columns.scheduler[row] !== scheduler) return;
      pieces.push([row, from, Math.min(until, from + longest)]);
    });
  }
  return pieces.sort((a, b) => a[1] - b[1]);
}

// By cell a row whose stack was held the longest, -1: none.
function rowsOf(pieces, node, { fromUs, cells, cellUs }) {
  const rows = new Int32Array(cells).fill(-1);
  const most = new Float64Array(cells);
  const sums = Array.from({ length: cells }, () => new Map()); // by node
  for (const [row, from, until] of pieces) {
    const first = Math.max(0, Math.floor((from - fromUs) / cellUs));
    const last = Math.min(cells - 1, Math.floor((until - fromUs) / cellUs));
    for (let cell = first; cell <= last; cell++) {
      const begin = fromUs + cell * cellUs;
      const held = (sums[cell].get(node[row]) ?? 0) + Math.min(until, begin + cellUs)
          - Math.max(from, begin);
      sums[cell].set(node[row], held);
      if (held <= most[cell]) continue;
      most[cell] = held;
      rows[cell] = row;
    }
  }
  return rows;
}
