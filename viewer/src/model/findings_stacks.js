// The function that explains a finding: the innermost one of the application that is on at least
// half of the stacks.

import { isOtp } from './kinds.js';

const MOST_SHARE = 0.5;
// A list comprehension, or a fun: the function around it says more.
const IS_GENERATED = /^-.*-(?:lc|lbc|mc|blc|fun|inlined|anonymous)/;

/**
 * @param isCounted(row): which samples of the process
 * @param weightOf(row) or null: observations
 * @returns its text, or ''
 */
export async function functionOf(profile, process, modules, isCounted, weightOf = null) {
  await profile.need('node');
  const { rows, starts } = await profile.byProcess();
  const weights = new Map();
  for (let i = starts[process]; i < starts[process + 1]; i++) {
    const row = rows[i];
    if (!isCounted(row)) continue;
    const weight = weightOf === null ? looksOf(profile, row) : weightOf(row);
    const node = profile.columns.node[row];
    weights.set(node, (weights.get(node) ?? 0) + weight);
  }
  return innermost(profile, weights, (frame) => isOwn(frame, modules))
      || innermost(profile, weights, ({ isFunction }) => isFunction);
}

export function looksOf(profile, row) {
  return profile.looks === null ? 1 : profile.looks[row];
}

function isOwn(frame, modules) {
  if (!frame.isFunction || frame.file === 'bif' || frame.file === 'nif') return false;
  return !isOtp(frame.module, modules) && !IS_GENERATED.test(frame.text.split(':')[1] ?? '');
}

// The frame at the root is the initial call, which is on all stacks of a process.
function innermost(profile, weights, isWanted) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const found = new Map(); // text => {weight, depth: sum of weight * depth}
  let total = 0;
  for (const [node, weight] of weights) {
    const stack = [];
    for (let n = node; parent[n] > 0; n = parent[n]) stack.push(profile.frame(frame[n]));
    const texts = new Map(stack.reverse().flatMap((one, depth) =>
      (isWanted(one) ? [[one.text, depth]] : [])));
    if (texts.size > 0) total += weight;
    for (const [text, depth] of texts) {
      const one = found.get(text) ?? { weight: 0, depth: 0 };
      found.set(text, { weight: one.weight + weight, depth: one.depth + weight * depth });
    }
  }
  const often = [...found].filter(([, { weight }]) => weight > MOST_SHARE * total);
  often.sort(([, a], [, b]) => b.depth / b.weight - a.depth / a.weight);
  return often[0]?.[0] ?? '';
}

/** By node of the stacks, 1: its leaf, or with `anywhere` a frame of it, is one of these. */
export function nodesWith(profile, isWanted, anywhere = false) {
  const { node_parent: parent, node_frame: frame, frame_symbol: symbols } = profile.tables;
  const wanted = new Uint8Array(symbols.length).map((_, id) => Number(isWanted(profile.frame(id))));
  const nodes = new Uint8Array(parent.length);
  for (let n = 1; n < nodes.length; n++) {
    nodes[n] = wanted[frame[n]] | (anywhere ? nodes[parent[n]] : 0);
  }
  return nodes;
}
