// A row a process: its statuses, its greatest values and where it waits, in the selection.

import { eachRow } from './selection.js';
import { trendValues } from './trends.js';

const WORD_BYTES = 8;
const WAITING = 'waiting';

export async function processTable(selection) {
  const { profile } = selection;
  const columns = await neededColumns(profile);
  const waits = new Waits(profile);
  const found = new Map();
  const { process, status, node } = profile.columns;
  const waiting = profile.statuses.indexOf(WAITING);
  eachRow(selection, (row) => {
    const p = process[row];
    let one = found.get(p);
    if (one === undefined) found.set(p, (one = newRow(profile)));
    const looks = profile.looks === null ? 1 : profile.looks[row];
    count(one, columns, status[row], row, looks);
    if (status[row] === waiting) waits.add(p, node[row], looks);
  });
  return [...found].map(([p, one]) => ({
    process: p,
    pid: profile.pid(p),
    name: profile.label(p),
    call: profile.initialCall(p),
    waitsIn: waits.of(p),
    ...one,
    binariesPeak: WORD_BYTES * one.binariesPeak,
  }));
}

async function neededColumns(profile) {
  await profile.need('process', 'status', 'node');
  const of = async (name, kind) => {
    const metric = profile.metric(name);
    if (metric < 0) return null;
    return kind === 'delta' ? profile.deltas(metric) : profile.values(metric);
  };
  return {
    reductions: await of('reductions', 'delta'),
    queue: await of('message_queue_len', 'value'),
    memory: await of('memory', 'value'),
    growth: await of('memory', 'delta'),
    binaries: await trendValues(profile, 'binaries'),
  };
}

function newRow(profile) {
  return {
    samples: 0,
    statuses: new Array(profile.statuses.length).fill(0),
    reductions: 0,
    queuePeak: 0,
    memoryPeak: 0,
    binariesPeak: 0, // words
    growth: 0,
  };
}

function count(one, { reductions, queue, memory, growth, binaries }, status, row, looks) {
  one.samples += looks;
  one.statuses[status] += looks;
  if (reductions !== null) one.reductions += reductions[row];
  if (queue !== null && queue[row] > one.queuePeak) one.queuePeak = queue[row];
  if (memory !== null && memory[row] > one.memoryPeak) one.memoryPeak = memory[row];
  if (binaries !== null && binaries[row] > one.binariesPeak) one.binariesPeak = binaries[row];
  if (growth !== null) one.growth += growth[row];
}

// How often each process waited in each function: the leaf of its stack.
class Waits {
  constructor(profile) {
    this.profile = profile;
    this.counts = new Map(); // process -> Map of frame -> observations
  }

  add(process, node, looks) {
    const frame = this.profile.tables.node_frame[node];
    let frames = this.counts.get(process);
    if (frames === undefined) this.counts.set(process, (frames = new Map()));
    frames.set(frame, (frames.get(frame) ?? 0) + looks);
  }

  /** The function with the most, whatever its lines; '' without one. */
  of(process) {
    const functions = new Map();
    for (const [frame, looks] of this.counts.get(process) ?? []) {
      const { text } = this.profile.frame(frame);
      functions.set(text, (functions.get(text) ?? 0) + looks);
    }
    return [...functions].reduce((most, one) => (one[1] > most[1] ? one : most), ['', 0])[0];
  }
}
