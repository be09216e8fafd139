// The node by second, as the profiler's samples of itself tell at each flush (doc/format.md).

const SECOND_US = 1e6;
const FIGURES = {
  value: ['rate_millihertz', 'node_run_queues', 'node_memory_total'],
  delta: ['node_schedulers_active', 'node_schedulers_total', 'node_runtime_ms', 'missed',
    'dropped'],
};

/** A head, and a second a row as in a file: NaN if it is not known. */
export async function lineRows(profile) {
  const told = await profile.nodeFigures();
  const figures = {};
  for (const [kind, names] of Object.entries(FIGURES)) {
    for (const name of names) figures[name] = await told.of(name, kind);
  }
  const lines = shownOf(figures, told.timesUs).filter(([, numbers]) =>
      numbers.some((n) => n === n));
  const rows = Array.from({ length: Math.ceil(profile.durationUs / SECOND_US) }, (_, second) => {
    const flush = told.timesUs.findIndex((us) => second <= Math.floor(us / SECOND_US));
    return [second, ...lines.map(([, numbers]) => numbers[flush] ?? NaN)];
  });
  return [['second', ...lines.map(([id]) => id)], ...rows];
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
    ['rate', figures.rate_millihertz.map((n) => n / 1000)],
    ['run_queues', figures.node_run_queues],
    total.some((n) => n > 0) ? ['scheduler_use', active.map((n, i) => (100 * n) / total[i])]
      : ['cpus', cpus],
    ['memory', figures.node_memory_total],
    ['missed', figures.missed],
    ['dropped', figures.dropped],
  ];
}
