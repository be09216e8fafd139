// Which lanes there are and in which order.

import { applicationOf, isOtp } from './kinds.js';

const ODD_MESSAGES = 1000; // growth of a mailbox that is as odd as ...
const ODD_BYTES = 32 * 1024 * 1024; // ... so much more memory or binaries, or as ...
const ODD_COLLECTING = 0.2; // ... collecting for such a share of the time on a CPU
const COLLECTING_LEAST = 50; // observations on a CPU, for a share to mean something
const WORD_BYTES = 8;

/**
 * @param order 'odd', 'cpu' or 'name'; fold '', 'application' or 'call'
 * @param totals of activityTotals(); trends {mailbox, memory, binaries}: of trendOf(), or null
 * @param first numbers of processes that come first where order is 'odd'
 * @returns [{text, processes: [number], busy: observations on a CPU or ready}]
 */
export function laneList(profile, { order, fold, totals, trends, first, modules }) {
  const lanes = grouped(profile, totals, fold, modules);
  const rank = new Map(first.map((process, i) => [process, i]));
  for (const lane of lanes) {
    Object.assign(lane, { rank: Infinity, odd: 0, busy: 0 });
    for (const process of lane.processes) {
      lane.rank = Math.min(lane.rank, rank.get(process) ?? Infinity);
      lane.odd = Math.max(lane.odd, oddness(process, totals, trends));
      lane.busy += busyOf(totals, process);
    }
  }
  return lanes.sort(ORDERS[order]);
}

const byCpu = (a, b) => b.busy - a.busy || byName(a, b);
const byName = (a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0);
const ORDERS = {
  odd: (a, b) => (a.rank === b.rank ? 0 : a.rank - b.rank) || odds(b) - odds(a) || byCpu(a, b),
  cpu: byCpu,
  name: byName,
};

// What is usual is not sorted by how usual it is.
function odds({ odd }) {
  return odd >= 1 ? odd : 0;
}

function busyOf(totals, process) {
  return totals.running[process] + totals.ready[process] + totals.collecting[process];
}

function oddness(process, totals, trends) {
  const grew = (name) => {
    const trend = trends?.[name];
    return trend ? trend.most[process] - Math.min(trend.first[process], trend.least[process]) : 0;
  };
  const onCpu = totals.running[process] + totals.collecting[process];
  const collecting = onCpu >= COLLECTING_LEAST ? totals.collecting[process] / onCpu : 0;
  const odd = [grew('mailbox') / ODD_MESSAGES, grew('memory') / ODD_BYTES,
      (grew('binaries') * WORD_BYTES) / ODD_BYTES, collecting / ODD_COLLECTING];
  return odd.reduce((most, one) => (one > most ? one : most), 0);
}

function grouped(profile, totals, fold, modules) {
  const groups = new Map();
  for (let process = 0; process < profile.processCount; process++) {
    if (totals.observations[process] === 0) continue; // of the profiler itself
    const key = fold === '' ? process : foldOf(profile, process, fold, modules);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [process]);
    else group.push(process);
  }
  return [...groups].map(([key, processes]) => ({
    text: fold === '' ? profile.label(processes[0]) : many(key, processes.length),
    processes,
  }));
}

function foldOf(profile, process, fold, modules) {
  const call = profile.initialCall(process);
  if (fold === 'call') return call || 'unknown';
  const module = call.includes(':') ? call.slice(0, call.indexOf(':'))
      : `Elixir.${call.slice(0, call.lastIndexOf('.'))}`;
  return isOtp(module, modules) ? `OTP: ${applicationOf(module, modules)}`
      : applicationOf(module, modules);
}

function many(text, n) {
  return n === 1 ? text : `${text} (${n})`;
}
