// How processes fared over the whole profile: what lanes are sorted by.

import { ACTIVITIES, activitiesOf } from './activity.js';

/** What is followed of a process: the metrics whose sum it is, and their unit. */
export const TRENDS = {
  mailbox: { metrics: ['message_queue_len'], unit: 'count' },
  memory: { metrics: ['memory'], unit: 'bytes' },
  binaries: { metrics: ['bin_vheap_size', 'bin_old_vheap_size'], unit: 'words' },
};

/**
 * By process: {observations: all; running, ready, collecting, waiting, other: those of each
 * activity; firstUs, lastUs: of its samples}, Float64Arrays.
 */
export async function activityTotals(profile) {
  await profile.need('process', 'status', 'time_us');
  const { process, status, time_us: time } = profile.columns;
  const many = () => new Float64Array(profile.processCount);
  const totals = { observations: many(), firstUs: many().fill(Infinity),
      lastUs: many().fill(-Infinity) };
  const counts = ACTIVITIES.map((activity) => (totals[activity] = many()));
  const activity = activitiesOf(profile.statuses);
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      const p = process[row];
      const looks = profile.looks === null ? 1 : profile.looks[row];
      totals.observations[p] += looks;
      counts[activity[status[row]]][p] += looks;
      if (time[row] < totals.firstUs[p]) totals.firstUs[p] = time[row];
      if (time[row] > totals.lastUs[p]) totals.lastUs[p] = time[row];
    }
  });
  return totals;
}

/** The values by row of what is followed, or null: the file does not have it. */
export async function trendValues(profile, name) {
  const numbers = TRENDS[name].metrics.map((metric) => profile.metric(metric));
  if (numbers.includes(-1)) return null;
  const columns = await Promise.all(numbers.map((number) => profile.values(number)));
  if (columns.length === 1) return columns[0];
  const sums = new Float64Array(profile.rows); // from() with a function takes ten times as long
  for (let row = 0; row < sums.length; row++) sums[row] = columns[0][row] + columns[1][row];
  return sums;
}

/** By process: {first, least, most: values}, Float64Arrays, NaN where it has none; or null. */
export async function trendOf(profile, name) {
  const values = await trendValues(profile, name);
  if (values === null) return null;
  await profile.need('process', 'schema');
  const { process, schema } = profile.columns;
  const number = profile.metric(TRENDS[name].metrics[0]);
  const has = profile.header.schemas.map((metrics) => metrics.includes(number));
  const many = () => new Float64Array(profile.processCount).fill(NaN);
  const trend = { first: many(), least: many(), most: many() };
  const { first: firsts, least, most } = trend;
  profile.eachRun(0, profile.rows, (from, end) => {
    for (let row = from; row < end; row++) {
      if (!has[schema[row]]) continue;
      const p = process[row];
      const value = values[row];
      if (Number.isNaN(firsts[p])) firsts[p] = least[p] = value;
      if (value < least[p]) least[p] = value;
      if (!(value <= most[p])) most[p] = value;
    }
  });
  return trend;
}
