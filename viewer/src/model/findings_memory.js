// Memory that only grows: a heap or the binaries of a process, or memory of the node by kind.

import { functionOf, looksOf, nodesWith } from './findings_stacks.js';
import { growing, growthOf, seriesOf } from './findings_series.js';
import { at, share } from './findings_text.js';
import { short } from './numbers.js';
import { trendValues } from './trends.js';

// Less is within what collections and caches do on a healthy node.
const GROWN_BYTES = 8 * 1024 * 1024;
const GROWN_SHARE = 0.2;
// A heap holds as much garbage again as it has data before a full sweep: it has to outgrow that.
const GROWN_OF_HEAP = 1.5;
const WORD_BYTES = 8;

const OF_PROCESS = {
  binaries: { what: 'binaries', bytes: WORD_BYTES, grows: 'bin_vheap_size', least: GROWN_SHARE },
  memory: { what: 'heap', bytes: 1, grows: 'memory', least: GROWN_OF_HEAP },
};

// Atoms are never freed, and their table is small.
const OF_NODE = {
  ets: { what: 'ETS tables', least: GROWN_BYTES },
  binary: { what: 'binaries', least: GROWN_BYTES },
  processes: { what: 'processes', least: GROWN_BYTES },
  atom: { what: 'atoms', least: 1024 * 1024 },
  code: { what: 'code', least: GROWN_BYTES },
};
// A sawtooth has two flushes upwards as often as not; tables and atoms have none.
const FLUSHES = { ets: 2, atom: 2 };
const FLUSHES_ELSE = 5;

// Files do not tell whose tables grow. A process that does little else than write to them is likely
// to be it, if there is one; a process that looks up and replaces is not.
const WRITES_SEEN = 8;
const WRITES_SHARE = 0.5; // of its time on a CPU
const WRITES_TIMES = 2; // as many as the next such process
const IS_WRITE = /^ets:(insert|insert_new|update_counter|update_element)\//;

export async function memoryFindings(profile, { modules }) {
  const [binaries, heaps] = [await ofProcesses(profile, modules, 'binaries'),
    await ofProcesses(profile, modules, 'memory')];
  const isKnown = { binary: binaries.length > 0, processes: heaps.length > 0 };
  const found = [...binaries, ...heaps];
  for (const kind of Object.keys(OF_NODE)) {
    if (!isKnown[kind]) found.push(...(await ofNode(profile, modules, kind)));
  }
  return found;
}

// ---------------------------------------------------------------- processes

async function ofProcesses(profile, modules, key) {
  const { bytes, least } = OF_PROCESS[key];
  const trend = await profile.trend(key);
  if (trend === null) return [];
  const values = await trendValues(profile, key);
  const found = [];
  for (let process = 0; process < profile.processCount; process++) {
    if (!((trend.most[process] - trend.first[process]) * bytes >= GROWN_BYTES)) continue;
    const series = await seriesOf(profile, process, values);
    const growth = growthOf(series);
    if (growth === null || (growth.to - growth.from) * bytes < GROWN_BYTES) continue;
    if (growth.to < (1 + least) * growth.from) continue;
    found.push(await ofProcess(profile, modules, key, process, series));
  }
  return found;
}

async function ofProcess(profile, modules, key, process, { times, values }) {
  const { what, bytes, grows } = OF_PROCESS[key];
  const range = [times[0], times[times.length - 1] + 1];
  const from = bytes * values[0];
  const to = bytes * values[values.length - 1];
  const rate = `${short(((to - from) * 1e6) / (range[1] - range[0]), 'bytes')} a second`;
  const name = profile.label(process);
  const deltas = await profile.deltas(profile.metric(grows));
  return {
    kind: 'memory',
    size: to - from,
    title: `${name}: ${what} +${rate}`,
    text: `The ${what} of ${name} only grow${what === 'heap' ? 's' : ''}: from `
      + `${short(from, 'bytes')} at ${at(range[0])} to ${short(to, 'bytes')} at ${at(range[1])}, `
      + `${rate}.`,
    processes: [process],
    range,
    view: { measure: `${grows}.delta`, show: 'all', levels: ['sign', 'process'], view: 'flame' },
    function: await functionOf(profile, process, modules, (row) => deltas[row] > 0, (row) =>
        deltas[row]),
  };
}

// --------------------------------------------------------------------- node

async function ofNode(profile, modules, kind) {
  const { what, least } = OF_NODE[kind];
  const { times, values } = await freshFigures(profile, `node_memory_${kind}`);
  if (values.length < (FLUSHES[kind] ?? FLUSHES_ELSE)) return [];
  const growth = growing(values);
  if (growth === null || growth.to - growth.from < least) return [];
  if (growth.to < (1 + GROWN_SHARE) * growth.from) return [];
  const [from, to] = [short(growth.from, 'bytes'), short(growth.to, 'bytes')];
  const holder = kind === 'ets' ? await writerOf(profile) : null;
  const name = holder === null ? '' : profile.label(holder.process);
  const range = [times[0], times[times.length - 1] + 1];
  return [{
    kind: 'memory',
    size: growth.to - growth.from,
    title: `${name === '' ? 'the node' : name}: ${what} ${from} → ${to}`,
    text: `The memory of the node's ${what} only grows: from ${from} to ${to}, told at `
      + `${at(range[0])} and ${at(range[1])}${holder === null ? ''
        : `; ${name} writes to tables in ${share(holder.share)} of its time on a CPU`}.`,
    processes: holder === null ? [] : [holder.process],
    range: null,
    view: { measure: 'samples', show: 'busy', levels: ['process', 'status'], view: 'flame' },
    function: holder === null ? '' : await functionOf(profile, holder.process, modules, (row) =>
        holder.nodes[profile.columns.node[row]] === 1),
  }];
}

// A busy node answers late: its figures are then those of the flush before.
async function freshFigures(profile, name) {
  const figures = await profile.nodeFigures();
  const [values, runtime] = await Promise.all([figures.of(name), figures.of('node_runtime_ms')]);
  const fresh = figures.timesUs.map((_, i) => i).filter((i) =>
      !Number.isNaN(values[i]) && !(i > 0 && runtime[i] === runtime[i - 1]));
  return { times: fresh.map((i) => figures.timesUs[i]), values: fresh.map((i) => values[i]) };
}

// {process, share, nodes}: who writes to tables most, if that is clear.
async function writerOf(profile) {
  await profile.need('node', 'process', 'status');
  const nodes = nodesWith(profile, ({ text }) => IS_WRITE.test(text), true);
  const isRunning = profile.statuses.map((status) => status === 'running');
  const { node, process, status } = profile.columns;
  const writes = new Float64Array(profile.processCount);
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      if (nodes[node[row]] === 1 && isRunning[status[row]]) {
        writes[process[row]] += looksOf(profile, row);
      }
    }
  });
  const { running, collecting } = await profile.activityTotals();
  const shares = writes.map((n, p) => n / (running[p] + collecting[p]));
  const [most, second] = [...writes.keys()]
      .filter((p) => writes[p] >= WRITES_SEEN && shares[p] >= WRITES_SHARE)
      .sort((a, b) => writes[b] - writes[a]);
  const isClear = most !== undefined && writes[most] >= WRITES_TIMES * (writes[second] ?? 0);
  return isClear ? { process: most, share: shares[most], nodes } : null;
}
