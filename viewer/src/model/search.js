// What is searched for: processes, modules and functions. A text is searched as it is, in capitals
// or not; /text/ is a regular expression.

import { eachRow } from './selection.js';

/** @returns {text, test(text), error: why the expression is none, or ''} */
function parseSearch(text) {
  const nothing = { text, test: () => false, error: '' };
  if (text === '') return nothing;
  const expression = /^\/(.+)\/$/s.exec(text);
  if (expression === null) {
    const wanted = text.toLowerCase();
    return { text, test: (one) => one.toLowerCase().includes(wanted), error: '' };
  }
  try {
    const pattern = new RegExp(expression[1], 'i');
    return { text, test: (one) => pattern.test(one), error: '' };
  } catch (error) {
    return { ...nothing, error: error.message };
  }
}

/** A search with {processes: by number 1 where its pid, name or first call matches; or null}. */
export function matchesOf(profile, text) {
  const search = parseSearch(text);
  const isNone = text === '' || search.error !== '';
  return { ...search, processes: isNone ? null : processesOf(profile, search) };
}

function processesOf(profile, { test }) {
  return Uint8Array.from({ length: profile.processCount }, (_, p) =>
      Number(profile.isOwn[p] === 0 && (test(profile.label(p)) || test(profile.pid(p))
          || test(profile.initialCall(p)))));
}

/**
 * What of a selection is of a process that matches, or has a frame that does.
 *
 * @param weights by row, or null: each weighs 1
 * @returns {functions: how many match, share: of the selection's weight, processes: numbers of
 *   those that match and have a sample in it, the one with the most first}
 */
export async function countMatches(selection, weights, { processes, test }) {
  const { profile } = selection;
  await profile.need('node', 'process');
  const { functions, isWithin } = stacksOf(profile, test);
  const { node, process } = profile.columns;
  const ofProcess = new Map();
  let matched = 0;
  let total = 0;
  const seen = new Set(); // nodes
  eachRow(selection, (row) => {
    const weight = weights === null ? 1 : Math.abs(weights[row]);
    const p = process[row];
    total += weight;
    seen.add(node[row]);
    if (processes[p] === 1) ofProcess.set(p, (ofProcess.get(p) ?? 0) + weight);
    if (processes[p] === 1 || isWithin[node[row]] === 1) matched += weight;
  });
  return {
    functions: functionsIn(profile, seen, functions),
    share: total > 0 ? matched / total : 0,
    weight: matched,
    processes: [...ofProcess].sort(([, a], [, b]) => b - a).map(([p]) => p),
  };
}

/** Whether a row is of a process that matches, or has a frame that does. */
export async function matchingRows(profile, { processes, test }) {
  await profile.need('node', 'process');
  const { isWithin } = stacksOf(profile, test);
  const { node, process } = profile.columns;
  return (row) => processes[process[row]] === 1 || isWithin[node[row]] === 1;
}

// functions: by frame its text if it matches, else ''. isWithin: by node, 1 if a frame from there
// to the root matches.
function stacksOf(profile, test) {
  const { node_parent: parent, node_frame: frame, frame_symbol: symbol } = profile.tables;
  const functions = Array.from(symbol, (_, id) => {
    const { text, module } = profile.frame(id);
    return test(text) || (module !== '' && test(module)) ? text : '';
  });
  const isWithin = new Uint8Array(parent.length);
  for (let n = 1; n < parent.length; n++) {
    isWithin[n] = functions[frame[n]] !== '' ? 1 : isWithin[parent[n]];
  }
  return { functions, isWithin };
}

function functionsIn(profile, leaves, functions) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const seen = new Set();
  const found = new Set();
  for (const leaf of leaves) {
    for (let n = leaf; n !== 0 && !seen.has(n); n = parent[n]) {
      seen.add(n);
      if (functions[frame[n]] !== '') found.add(functions[frame[n]]);
    }
  }
  return found.size;
}
