// Where a report has merged samples (doc/viewer_index.md, Coarse).

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
