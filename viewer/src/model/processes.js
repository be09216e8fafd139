// A row a process: how it fared in the selection.

import { eachRow } from './selection.js';

export async function processTable(selection) {
  const { profile } = selection;
  const columns = await neededColumns(profile);
  const found = new Map();
  const { process, status } = profile.columns;
  eachRow(selection, (row) => {
    const p = process[row];
    let one = found.get(p);
    if (one === undefined) found.set(p, (one = newRow(profile)));
    count(one, columns, status[row], row, profile.looks === null ? 1 : profile.looks[row]);
  });
  return [...found].map(([p, one]) => ({
    process: p,
    pid: profile.pid(p),
    name: profile.label(p),
    call: profile.initialCall(p),
    ...one,
  }));
}

async function neededColumns(profile) {
  await profile.need('process', 'status');
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
  };
}

function newRow(profile) {
  return {
    samples: 0,
    statuses: new Array(profile.statuses.length).fill(0),
    reductions: 0,
    queuePeak: 0,
    memoryPeak: 0,
    growth: 0,
  };
}

function count(one, { reductions, queue, memory, growth }, status, row, looks) {
  one.samples += looks;
  one.statuses[status] += looks;
  if (reductions !== null) one.reductions += reductions[row];
  if (queue !== null && queue[row] > one.queuePeak) one.queuePeak = queue[row];
  if (memory !== null && memory[row] > one.memoryPeak) one.memoryPeak = memory[row];
  if (growth !== null) one.growth += growth[row];
}
