// The samples of each process, so that one can be shown without looking at all others.

import { lowerBound } from './sorted.js';

/** @returns {rows: of all samples, process after process, each in the order of time;
    starts: where a process begins, and the end of all} */
export async function rowsByProcess(profile) {
  await profile.need('process', 'time_us');
  const { process, time_us: time } = profile.columns;
  const starts = new Uint32Array(profile.processCount + 1);
  eachSample(profile, (row) => starts[process[row] + 1]++);
  for (let p = 0; p < profile.processCount; p++) starts[p + 1] += starts[p];
  const next = starts.slice(0, -1);
  const rows = new Uint32Array(starts[profile.processCount]);
  eachSample(profile, (row) => (rows[next[process[row]]++] = row));
  if (!profile.isOrdered) {
    for (let p = 0; p < profile.processCount; p++) {
      rows.subarray(starts[p], starts[p + 1]).sort((a, b) => time[a] - time[b]);
    }
  }
  return { rows, starts };
}

/** Where in `rows` the last sample of a process at or before a time stands; -1: there is none. */
export function placeAt({ rows, starts }, time, process, us) {
  const next = lowerBound(starts[process], starts[process + 1], (i) => time[rows[i]] <= us);
  return next > starts[process] ? next - 1 : -1;
}

function eachSample(profile, each) {
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) each(row);
  });
}
