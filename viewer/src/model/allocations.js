// What a file of allocations tells: how much over time and by process, and long collections of
// garbage.

import { makeLevel } from './levels.js';
import { measureOf, weightsOf } from './measures.js';
import { percent } from './numbers.js';
import { eachRow } from './selection.js';

/** Bytes a second, by cell of the grid. */
export async function allocatedOver(profile, { fromUs, cells, cellUs }) {
  const bytes = await weightsOf(profile, measureOf(profile, ''));
  await profile.need('time_us');
  const { time_us: time } = profile.columns;
  const rates = new Float64Array(cells);
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      const cell = Math.floor((time[row] - fromUs) / cellUs);
      if (cell >= 0 && cell < cells) rates[cell] += (bytes[row] * 1e6) / cellUs;
    }
  });
  return rates;
}

/** [{process, pid, name, bytes, kept, garbage, notKnown: bytes of it; samples}] */
export async function allocatedBy(selection) {
  const { profile } = selection;
  await profile.need('process');
  const bytes = await weightsOf(profile, measureOf(profile, ''));
  const heap = await makeLevel('heap', profile);
  const { process } = profile.columns;
  const found = new Map();
  eachRow(selection, (row) => {
    const p = process[row];
    let one = found.get(p);
    if (one === undefined) {
      one = { process: p, pid: profile.pid(p), name: profile.label(p), bytes: 0, kept: 0,
          garbage: 0, notKnown: 0, samples: 0 };
      found.set(p, one);
    }
    const fate = heap.textOf(heap.codeOf(row));
    one[fate === 'kept' || fate === 'garbage' ? fate : 'notKnown'] += bytes[row];
    one.bytes += bytes[row];
    one.samples++;
  });
  return [...found.values()];
}

/** [{us: how long it took, kind, cause, atUs, process, pid, name, top: the function in it}] */
export async function collectionsOf(selection) {
  const { profile } = selection;
  const texts = await profile.word('collection');
  if (texts === null) return [];
  await profile.need('process', 'node', 'time_us');
  const { process, node, time_us: time } = profile.columns;
  const found = [];
  eachRow(selection, (row) => {
    if (texts[row] === 0) return;
    const [us, kind, cause] = profile.text(texts[row]).split(' ');
    const p = process[row];
    found.push({ us: Number(us), kind, cause, atUs: time[row], process: p, pid: profile.pid(p),
        name: profile.label(p), top: topOf(profile, node[row]) });
  });
  return found;
}

// What it was allocated for, and not where the memory lies.
function topOf(profile, leaf) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  for (let n = leaf; n !== 0; n = parent[n]) {
    const { text, file } = profile.frame(frame[n]);
    if (file !== 'heap') return text;
  }
  return '';
}

const DOUBTED = 0.01; // a part of the words that is worth a sentence

const DOUBTS = [
  ['in_step_words', 'in step', 'of the words are of processes that are collected after the same '
      + 'number of words each time: do not trust the shares of their functions'],
  ['dropped_words', 'not told', 'of the words are not in the picture: there was no room for their '
      + 'samples'],
];

/** What the profiler says against its own numbers, as findings. */
export async function doubtsOf(profile) {
  const last = Array.from(profile.ownRows).slice(-1);
  const told = async (name) => {
    const metric = profile.metric(name);
    return metric < 0 || last.length === 0 ? 0
        : (await profile.numbersAt(metric, 'value', last))[0] || 0;
  };
  const all = await told('words');
  const doubts = [];
  for (const [name, title, text] of DOUBTS) {
    const part = all > 0 ? (await told(name)) / all : 0;
    if (part >= DOUBTED) {
      doubts.push({ kind: 'losses', severity: 'warning', title, pids: [], range: null, view: {},
        sentences: [`${percent(part)} ${text}`] });
    }
  }
  return doubts;
}
