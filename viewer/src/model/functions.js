// Functions by their weight, and the sandwich of one: who calls it, what it
// calls. A stack counts once, however often the function is on it.

import { FlameTree, frameNames } from './tree.js';

/** [{name, self, total}] of all functions of the groups, by number of the name. */
export function functionTable(names, profile, groups, options) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const nameOf = frameNames(names, profile, options);
  const self = new Map();
  const total = new Map();
  const seen = new Map(); // name -> the stack that it was counted in last
  let stack = 0;
  for (const { nodes, weights } of groups.drawers) {
    nodes.forEach((node, i) => {
      stack++;
      let isLeaf = true;
      for (let n = node; n !== 0; n = parent[n]) {
        const name = nameOf(frame[n]);
        if (name < 0) continue;
        if (isLeaf) self.set(name, (self.get(name) ?? 0) + weights[i]);
        isLeaf = false;
        if (seen.get(name) === stack) continue;
        seen.set(name, stack);
        total.set(name, (total.get(name) ?? 0) + weights[i]);
      }
    });
  }
  return [...total].map(([name, weight]) => ({ name, total: weight, self: self.get(name) ?? 0 }));
}

/** @returns {callers, callees}: trees whose only child of the root is the function */
export function sandwich(names, profile, groups, options, wanted) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const nameOf = frameNames(names, profile, options);
  const callers = new FlameTree(names);
  const callees = new FlameTree(names);
  for (const { nodes, weights, samples } of groups.drawers) {
    nodes.forEach((node, i) => {
      const stack = []; // leaf first
      for (let n = node; n !== 0; n = parent[n]) {
        const name = nameOf(frame[n]);
        if (name >= 0) stack.push(name);
      }
      const at = stack.lastIndexOf(wanted); // its outermost call
      if (at < 0) return;
      addPath(callers, stack.slice(at), weights[i], samples[i]);
      addPath(callees, stack.slice(0, at + 1).reverse(), weights[i], samples[i]);
    });
  }
  return { callers: callers.finish(), callees: callees.finish() };
}

function addPath(tree, path, weight, samples) {
  let place = 0;
  for (const name of path) place = tree.child(place, name);
  tree.add(place, 0, weight, samples);
}
