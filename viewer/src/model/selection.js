// Which samples are looked at: a range of time, processes, statuses.

import { isBusy } from './activity.js';

/**
 * Rows of the profiler itself are never among them, see eachRow().
 *
 * @param range [fromUs, toUs) since the profile's start, or null: all of it
 * @param only {pids: [text], trace: the id of a trace or a span, if any, show: 'all', 'busy': on a
 *   CPU or ready, or 'waiting'}
 */
export async function select(profile, range, only) {
  await profile.need('time_us');
  if (only.pids.length > 0) await profile.need('process');
  if (only.show !== 'all') await profile.need('status');
  const [fromUs, toUs] = range ?? [0, Infinity];
  const [from, to] = profile.rowRange(fromUs, toUs);
  return {
    profile,
    from,
    to,
    fromUs,
    toUs,
    isTimeChecked: !profile.isOrdered && range !== null,
    process: processMask(profile, only.pids),
    traced: await rowsOfTrace(profile, only.trace ?? ''),
    status: only.show === 'all' ? null : statusMask(profile, only.show),
  };
}

// By number of the process: 1 where it is selected. null: all are.
function processMask(profile, pids) {
  if (pids.length === 0) return null;
  const wanted = new Set(pids);
  return Uint8Array.from({ length: profile.processCount }, (_, p) =>
      Number(wanted.has(profile.pid(p))));
}

// By row 1 where it is of this trace or span. null: no id is given.
async function rowsOfTrace(profile, id) {
  if (id === '') return null;
  const columns = await Promise.all([profile.word('trace'), profile.word('span')]);
  const rows = new Uint8Array(profile.rows);
  for (const column of columns) {
    const isIt = new Map();
    column?.forEach((text, row) => {
      if (text === 0 || rows[row] === 1) return;
      if (!isIt.has(text)) isIt.set(text, Number(profile.text(text) === id));
      rows[row] = isIt.get(text);
    });
  }
  return rows;
}

// A file without statuses, of perf, has what was on a CPU.
function statusMask(profile, show) {
  const isShown = show === 'waiting' ? (status) => status === 'waiting'
      : (status) => isBusy(status) || status === '';
  return Uint8Array.from(profile.statuses, (status) => Number(isShown(status)));
}

/** Calls `each(row)` for every sample of it, in the order of the file. */
export function eachRow(selection, each) {
  const { profile, from, to } = selection;
  profile.eachRun(from, to, (first, end) => eachOf(selection, first, end, each));
}

function eachOf(selection, first, end, each) {
  const { process, traced, status, isTimeChecked, fromUs, toUs, profile: { columns } } = selection;
  if (process === null && !traced && status === null && !isTimeChecked) {
    for (let row = first; row < end; row++) each(row);
    return;
  }
  for (let row = first; row < end; row++) {
    if (process !== null && process[columns.process[row]] === 0) continue;
    if (traced && traced[row] === 0) continue;
    if (status !== null && status[columns.status[row]] === 0) continue;
    if (isTimeChecked && (columns.time_us[row] < fromUs || columns.time_us[row] >= toUs)) continue;
    each(row);
  }
}
