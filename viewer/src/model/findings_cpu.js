// What a process does with a CPU: it collects, it keeps it, it spawns; and a scheduler that is
// stuck.

import { functionOf, looksOf, nodesWith } from './findings_stacks.js';
import { at, lasting, share } from './findings_text.js';
import { counted, exact } from './numbers.js';
import { trendValues } from './trends.js';

// Collecting is a finding above a fifth of a process' time on a CPU, with 95 % certainty, and where
// it costs the node a tenth of a CPU: many small heaps collect often, and healthily.
const COLLECTS = 0.2;
const COLLECTS_OF_CPU = 0.1;
const CERTAIN = 1.96;

// A process keeps a CPU when it never waits, for seconds: beside many others it is ready for most
// of its time. A server that has messages all the time is kept busy.
const KEEPS = 0.995;
const KEEPS_US = 5e6;
const KEEPS_OF_CPU = 0.05;
const KEEPS_ALL_OF_CPU = 0.9;
const WITH_MESSAGES = 0.5;

// Erlang code gives its scheduler back within a millisecond, a BIF or NIF when it likes.
const STUCK_US = 1e6;
const STUCK_SAMPLES = 5;

// A spawn takes microseconds: a process that is in one in 1 % of all ticks spawns thousands a
// second. The demo's thousand a second are a healthy 0.1 to 0.3 %, on a loaded machine up to
// 0.7 %, but of the node's time on CPUs never more than 0.35 %.
const SPAWNS_OF_TIME = 0.006;
const SPAWNS_OF_NODE = 0.005;
const SPAWNS = 0.4; // of its time on a CPU
const SPAWNS_SEEN = 8;
const IS_SPAWN = /^(?:erlang|erts_internal):spawn/;
// Those who stay were spawned for good: a node that starts up.
const STAY = 0.1;

const BUSY_VIEW = { measure: 'samples', show: 'busy', levels: ['process', 'status'],
  view: 'flame' };

// -------------------------------------------------------------- collections

export async function gcFindings(profile, { modules }) {
  const { observations, running, collecting } = await profile.activityTotals();
  const isBusy = profile.statuses.map((status) => status !== 'waiting');
  const found = [];
  for (let process = 0; process < profile.processCount; process++) {
    const onCpu = running[process] + collecting[process];
    const ofCpu = collecting[process] / observations[process];
    if (!(ofCpu >= COLLECTS_OF_CPU) || atLeast(collecting[process], onCpu) <= COLLECTS) continue;
    const name = profile.label(process);
    const part = share(collecting[process] / onCpu);
    found.push({
      kind: 'gc',
      size: ofCpu,
      title: `${name}: ${part} garbage collection`,
      text: `${name} collects garbage for ${part} of its time on a CPU, `
        + `${share(ofCpu)} of all the time.`,
      processes: [process],
      range: null,
      view: BUSY_VIEW,
      function: await functionOf(profile, process, modules, (row) =>
          isBusy[profile.columns.status[row]]),
    });
  }
  return found;
}

/** What a share is at least, by this many of all (Wilson's interval). */
function atLeast(some, all) {
  if (all === 0) return 0;
  const square = CERTAIN ** 2;
  const part = some / all;
  const spread = CERTAIN * Math.sqrt((part * (1 - part)) / all + square / (4 * all * all));
  return (part + square / (2 * all) - spread) / (1 + square / all);
}

// ---------------------------------------------------------- those who keep it

export async function cpuFindings(profile, { modules }) {
  const totals = await profile.activityTotals();
  const { observations, running, ready, collecting, firstUs, lastUs } = totals;
  const found = [];
  for (let process = 0; process < profile.processCount; process++) {
    const all = observations[process];
    const onCpu = running[process] + collecting[process];
    if (!(lastUs[process] - firstUs[process] >= KEEPS_US)) continue;
    if (onCpu + ready[process] < KEEPS * all || onCpu < KEEPS_OF_CPU * all) continue;
    if (onCpu < KEEPS_ALL_OF_CPU * all && (await isKeptBusy(profile, process))) continue;
    const range = [firstUs[process], lastUs[process] + 1];
    const name = profile.label(process);
    const isBusy = profile.statuses.map((status) => status !== 'waiting');
    const where = await functionOf(profile, process, modules, (row) =>
        isBusy[profile.columns.status[row]]);
    found.push({
      kind: 'scheduler',
      size: onCpu / all,
      title: `${name} keeps a CPU`,
      text: `${name} never waits: on a CPU for ${share(onCpu / all)} of `
        + `${lasting(range[1] - range[0])}, ready for ${share(ready[process] / all)}`
        + `${where === '' ? '' : `, mostly in ${where}`}.`,
      processes: [process],
      range,
      view: BUSY_VIEW,
      function: where,
    });
  }
  return found;
}

async function isKeptBusy(profile, process) {
  const values = await trendValues(profile, 'mailbox');
  if (values === null) return false;
  const { rows, starts } = await profile.byProcess();
  const own = rows.subarray(starts[process], starts[process + 1]);
  const some = own.reduce((sum, row) => sum + Number(values[row] > 0), 0);
  return some > WITH_MESSAGES * own.length;
}

// ------------------------------------------------------ a scheduler that is stuck

export async function stuckFindings(profile) {
  if (profile.header.columns.scheduler === undefined) return [];
  await profile.need('scheduler', 'process', 'node', 'time_us', 'status');
  const worst = longestCall(profile);
  if (worst === null) return [];
  const { process, scheduler, since, until, text } = worst;
  const name = profile.label(process);
  return [{
    kind: 'scheduler',
    size: 1 + (until - since) / 1e6,
    title: `scheduler ${scheduler} is stuck in ${text}`,
    text: `Scheduler ${scheduler} runs ${name} in ${text} for ${lasting(until - since)} without a `
      + `pause (${at(since)} to ${at(until)}).`,
    processes: [process],
    range: [since, until + 1],
    view: BUSY_VIEW,
    function: text,
  }];
}

// The longest time of one BIF or NIF on one scheduler; a process' other samples end it. Those on a
// dirty scheduler have the number 0.
function longestCall(profile) {
  const native = nativeOf(profile);
  const { scheduler, process, node, time_us: time } = profile.columns;
  const since = new Float64Array(profile.processCount);
  const key = new Float64Array(profile.processCount).fill(-1);
  const samples = new Uint32Array(profile.processCount);
  let worst = null;
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      const p = process[row];
      const frame = scheduler[row] === 0 ? 0 : native[node[row]];
      const now = frame === 0 ? -1 : frame * 65536 + scheduler[row];
      if (now !== key[p]) {
        key[p] = now;
        since[p] = time[row];
        samples[p] = 0;
      }
      samples[p]++;
      if (now < 0 || time[row] - since[p] < STUCK_US || samples[p] < STUCK_SAMPLES) continue;
      if (worst !== null && time[row] - since[p] <= worst.until - worst.since) continue;
      worst = { process: p, scheduler: scheduler[row], since: since[p], until: time[row], frame };
    }
  });
  return worst === null ? null : { ...worst, text: profile.frame(worst.frame).text };
}

// By node the frame of the BIF or NIF that it is in, or 0.
function nativeOf(profile) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const native = new Uint32Array(parent.length);
  for (let n = 1; n < native.length; n++) {
    const { isFunction, file } = profile.frame(frame[n]);
    if (file === 'bif' || file === 'nif') native[n] = frame[n];
    else if (!isFunction) native[n] = native[parent[n]];
  }
  return native;
}

// ----------------------------------------------------------- those who spawn

export async function spawnFindings(profile, { modules }) {
  const { observations, running, collecting } = await profile.activityTotals();
  await profile.need('node', 'process', 'status');
  if (await stays(profile)) return [];
  const nodes = nodesWith(profile, ({ text }) => IS_SPAWN.test(text), true);
  const isRunning = profile.statuses.map((status) => status === 'running');
  const { node, process, status } = profile.columns;
  const spawns = new Float64Array(profile.processCount);
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      if (nodes[node[row]] === 1 && isRunning[status[row]]) {
        spawns[process[row]] += looksOf(profile, row);
      }
    }
  });
  const ofNode = running.reduce((sum, n, p) => sum + n + collecting[p], 0);
  const found = [];
  for (let p = 0; p < profile.processCount; p++) {
    const onCpu = running[p] + collecting[p];
    if (spawns[p] < SPAWNS_SEEN || spawns[p] < SPAWNS * onCpu) continue;
    if (spawns[p] < SPAWNS_OF_TIME * observations[p] || spawns[p] < SPAWNS_OF_NODE * ofNode) {
      continue;
    }
    const name = profile.label(p);
    found.push({
      kind: 'spawn',
      size: spawns[p] / observations[p],
      title: `${name}: spawns all the time`,
      text: `${name} is in a spawn in ${exact(spawns[p])} of its ${counted(onCpu, 'sample')} on a `
        + `CPU, ${share(spawns[p] / observations[p])} of all the time; processes that soon end are `
        + 'not sampled.',
      processes: [p],
      range: null,
      view: { ...BUSY_VIEW, show: 'all' },
      function: await functionOf(profile, p, modules, (row) => nodes[node[row]] === 1),
    });
  }
  return found;
}

async function stays(profile) {
  const processes = (await (await profile.nodeFigures()).of('node_processes'))
      .filter((n) => !Number.isNaN(n));
  return processes.length > 1
      && processes[processes.length - 1] > (1 + STAY) * processes[0];
}
