// Where a report has merged samples (doc/dev/viewer_index.md, Coarse).

import { percent } from './numbers.js';

/** {us: the interval, times: [[fromUs, toUs)] in which samples are merged}; null: nowhere. */
export function coarseOf({ header: { coarse_us: us, fine = [] }, durationUs }) {
  if (!us) return null;
  const times = [];
  let at = 0;
  for (const [from, to] of [...fine, [durationUs, durationUs]]) {
    if (from > at) times.push([at, Math.min(from, durationUs)]);
    at = to;
  }
  return { us, times };
}

/**
 * How a coarse sample holds: in its interval, for its part of the ticks there. {has(us): is a
 * sample of that time coarse; beginOf(us): where an interval begins; spansOf(us): the coarse times
 * of the interval, [[fromUs, toUs)]; lengthOf(us), ticksOf(us): how long they are, and how many
 * ticks were in them; tickUs: how long one lasted; eachSpan(each(fromUs, toUs, ticks in a
 * microsecond))}; null: none is.
 *
 * @param byProcess of by_process.js
 */
export function coarseHolds(profile, { rows, starts }) {
  const coarse = coarseOf(profile);
  if (coarse === null) return null;
  const { us, times } = coarse;
  const { time_us: time } = profile.columns;
  const cell = (at) => Math.floor(at / us);
  const count = cell(profile.durationUs) + 1;
  const spans = Array.from({ length: count }, (_, i) => times.filter(([from, to]) =>
      from < (i + 1) * us && to > i * us).map(([from, to]) =>
      [Math.max(from, i * us), Math.min(to, (i + 1) * us)]));
  const has = (at) => spans[cell(at)].some(([from, to]) => from <= at && at < to);
  // A process that was always sampled has as many observations as there were ticks.
  const ticks = new Float64Array(count);
  for (let process = 0; process + 1 < starts.length; process++) {
    if (profile.isOwn[process]) continue;
    let [now, sum] = [-1, 0];
    for (let at = starts[process]; at < starts[process + 1]; at++) {
      if (!has(time[rows[at]])) continue;
      const next = cell(time[rows[at]]);
      sum = (next === now ? sum : 0) + (profile.looks?.[rows[at]] ?? 1);
      now = next;
      ticks[now] = Math.max(ticks[now], sum);
    }
  }
  const lengths = spans.map((all) => all.reduce((sum, [from, to]) => sum + to - from, 0));
  const coarseUs = times.reduce((sum, [from, to]) => sum + to - from, 0);
  return { has, beginOf: (at) => cell(at) * us, spansOf: (at) => spans[cell(at)],
    lengthOf: (at) => lengths[cell(at)], ticksOf: (at) => ticks[cell(at)],
    tickUs: coarseUs / ticks.reduce((a, b) => a + b, 0),
    eachSpan: (each) => spans.forEach((all, i) => all.forEach(([from, to]) =>
      each(from, to, ticks[i] / lengths[i]))) };
}

/** What that means: {short, long}. */
export function coarseText(profile) {
  const coarse = coarseOf(profile);
  if (coarse === null) return null;
  const each = `${coarse.us / 1e6} s`;
  const part = coarse.times.reduce((sum, [from, to]) => sum + to - from, 0) / profile.durationUs;
  return {
    short: `coarse: ${each}`,
    long: `This report is small because it is coarse in ${percent(part)} of its time, where the `
        + 'line of the ticks is dashed: the equal samples of a process (stack, status, scheduler) '
        + `in ${each} are one, at the time of the last. Flame graphs and tables have all samples; `
        + `what came first within ${each}, and short peaks, are not known there.`,
  };
}
