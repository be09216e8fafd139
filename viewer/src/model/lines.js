// How the node fared, by second, by what the profiler told of itself
// at each flush (doc/format.md), or where it did not, by the samples.

import { eachRow, select } from './selection.js';

const SECOND_US = 1e6;
const ON_CPU = new Set(['running', 'runnable', 'garbage_collecting']);

/** @returns [{id, title, unit, values: a number a second, NaN where none is known}] */
export async function makeLines(profile, only) {
  const lines = profile.ownRows.length > 0 ? await ownLines(profile)
      : await sampleLines(await select(profile, null, only));
  return lines.filter(({ values }) => values.some((value) => value === value));
}

/** A second a row, as in a file. */
export function lineRows(lines) {
  const count = lines[0]?.values.length ?? 0;
  const seconds = Array.from({ length: count }, (_, second) =>
      [second, ...lines.map(({ values }) => values[second])]);
  return [['second', ...lines.map(({ id }) => id)], ...seconds];
}

function line(profile, id, title, unit) {
  const columns = Math.max(1, Math.ceil(profile.durationUs / SECOND_US));
  return { id, title, unit, values: new Float64Array(columns).fill(NaN) };
}

// ------------------------------------------------------- the profiler's samples

async function ownLines(profile) {
  const told = await profile.nodeFigures();
  const time = told.timesUs;
  const figures = await figuresOf(told);
  return shownOf(figures, time).map(([id, title, unit, numbers]) => {
    const one = line(profile, id, title, unit);
    time.forEach((us, i) => {
      const from = i === 0 ? 0 : Math.floor(time[i - 1] / SECOND_US) + 1;
      one.values.fill(numbers[i], from, Math.floor(us / SECOND_US) + 1);
    });
    return one;
  });
}

const FIGURES = {
  value: ['rate_millihertz', 'node_run_queues', 'node_memory_total'],
  delta: ['node_schedulers_active', 'node_schedulers_total', 'node_runtime_ms', 'missed',
      'dropped'],
};

async function figuresOf(told) {
  const figures = {};
  for (const [kind, names] of Object.entries(FIGURES)) {
    for (const name of names) figures[name] = await told.of(name, kind);
  }
  return figures;
}

// What changed since the flush before is not known of the first one. The node's figures are asked
// for beside the session, and may be those of the flush before: then its CPU time has not changed,
// and the next change is that since the last one.
function shownOf(figures, time) {
  const { node_schedulers_active: active, node_schedulers_total: total, node_runtime_ms: cpuMs } =
      figures;
  let changed = 0;
  const cpus = cpuMs.map((ms, i) => {
    if (i === 0 || !(ms > 0)) return NaN;
    const us = time[i] - time[changed];
    changed = i;
    return (1000 * ms) / us;
  });
  return [
    ['rate', 'ticks a second', 'count', figures.rate_millihertz.map((n) => n / 1000)],
    ['run_queues', 'in run queues', 'count', figures.node_run_queues],
    total.some((n) => n > 0)
      ? ['scheduler_use', 'scheduler use', 'percent', active.map((n, i) => (100 * n) / total[i])]
      : ['cpus', 'CPUs used', 'count', cpus],
    ['memory', 'memory of the node', 'bytes', figures.node_memory_total],
    ['missed', 'ticks missed', 'count', figures.missed],
    ['dropped', 'samples dropped', 'count', figures.dropped],
  ];
}

// ----------------------------------------------------------------- the samples

async function sampleLines(selection) {
  const { profile } = selection;
  await profile.need('status');
  const metric = profile.metric('memory');
  const memory = metric < 0 ? null : await profile.values(metric);
  const isOnCpu = profile.statuses.map((status) => Number(ON_CPU.has(status)));
  const ticks = line(profile, 'rate', 'ticks a second', 'count');
  const samples = line(profile, 'samples', 'samples a second', 'count');
  const ready = line(profile, 'on_cpu', 'of them on or waiting for a CPU', 'count');
  const sizes = line(profile, 'memory', 'memory of them', 'bytes');
  const lines = [ticks, samples, ready, ...(memory === null ? [] : [sizes])];
  for (const { values } of lines) values.fill(0);
  const { time_us: time, status } = profile.columns;
  eachRow(selection, (row) => {
    const second = Math.floor(time[row] / SECOND_US);
    samples.values[second]++;
    ready.values[second] += isOnCpu[status[row]];
    if (memory !== null) sizes.values[second] += memory[row];
  });
  const { starts } = await profile.ticks();
  for (const start of starts) ticks.values[Math.floor(start / SECOND_US)]++;
  for (const mean of [ready, sizes]) mean.values.forEach((sum, second) =>
      (mean.values[second] = sum / Math.max(1, ticks.values[second])));
  return lines;
}
