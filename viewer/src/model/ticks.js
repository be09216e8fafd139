// When the sampler looked: the times of the samples tell.

import { usualGap } from './steps.js';

// The samples of one tick have the same time, or times of a microsecond apart (doc/sampling.md);
// two ticks are at least 100 microseconds apart.
const TICK_APART_US = 50;

// A gap between ticks this many times as long as usual has lost some. What is
// usual changes, since a `cpu_budget` is kept by looking less often: it is the
// median of so many gaps on both sides.
const GAP_MISSED = 2;
const GAPS_AROUND = 15;

/** @returns {starts: Float64Array of the ticks' times, endUs: of the last sample,
    missed: [[fromUs, toUs)] without some, usualUs: the median of the times between ticks, 0: there
    is one tick at most} */
export async function findTicks(profile) {
  await profile.need('time_us');
  const { starts: seen, endUs } = startsOf(profile);
  const spans = profile.looks === null ? [] : spansOf(profile, await profile.coarse());
  const starts = Float64Array.from(spans.length === 0 ? seen : filled(seen, spans));
  return { starts, endUs, missed: missedOf(starts), usualUs: usualGap(starts) };
}

function missedOf(starts) {
  const gaps = starts.slice(1).map((start, i) => start - starts[i]);
  const least = GAP_MISSED * quantile(gaps, 0.1); // most gaps need no closer look
  const missed = [];
  gaps.forEach((gap, i) => {
    if (gap <= least) return;
    const around = gaps.subarray(Math.max(0, i - GAPS_AROUND), i + GAPS_AROUND + 1);
    if (isLonger(gap, around)) missed.push([starts[i] + quantile(around, 0.5), starts[i + 1]]);
  });
  return missed;
}

// Than so many times their median; counting them is faster than finding that.
function isLonger(gap, around) {
  let shorter = 0;
  for (const one of around) if (GAP_MISSED * one < gap) shorter++;
  return shorter > Math.floor(around.length / 2);
}

function startsOf(profile) {
  const { time_us: time } = profile.columns;
  const starts = [];
  let last = -Infinity;
  let endUs = 0;
  const see = (now) => {
    if (now - last > TICK_APART_US) starts.push(now);
    endUs = last = now;
  };
  if (!profile.isOrdered) {
    const times = [];
    profile.eachRun(0, profile.rows, (first, end) => {
      for (let row = first; row < end; row++) times.push(time[row]);
    });
    Float64Array.from(times).sort().forEach(see);
    return { starts, endUs };
  }
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) see(time[row]);
  });
  return { starts, endUs };
}

// The times (since, until] in which a process was sampled `count` times, the shortest first.
// Samples that a report has merged have no such times.
function spansOf({ looks, since, columns: { time_us: time } }, coarse) {
  const spans = [];
  looks.forEach((count, row) => {
    if (count > 1 && time[row] - since[row] > TICK_APART_US && !coarse?.has(time[row])) {
      spans.push({ since: since[row], until: time[row], count });
    }
  });
  return spans.sort((a, b) => a.until - a.since - (b.until - b.since));
}

// Ticks at which nothing moved left no sample of their own: the count of a span has them. A span
// whose ticks are all known says that none is missing between them: the sampler was late there.
function filled(starts, spans) {
  const more = new Uint32Array(starts.length); // ticks behind each one, before the next
  const full = new Int32Array(starts.length + 1); // by how many spans more than before
  const some = [];
  for (const span of spans) {
    const [first, end] = [tickAfter(starts, span.since), tickAfter(starts, span.until)];
    const missing = span.count - (end - first);
    if (missing > 0 && first > 0) some.push([first - 1, end - 1, missing]);
    if (missing === 0 || missing === -1) {
      full[Math.max(0, first - 1)]++;
      full[Math.max(0, end - 1)]--;
    }
  }
  for (let i = 1; i < full.length; i++) full[i] += full[i - 1];
  for (const [first, end, missing] of some) {
    let left = missing - more.subarray(first, end).reduce((sum, n) => sum + n, 0);
    const widest = (best, i) => (full[i] > 0 || share(i) <= share(best) ? best : i);
    const share = (i) => (i < 0 ? 2 * TICK_APART_US : (starts[i + 1] - starts[i]) / (more[i] + 1));
    for (; left > 0; left--) {
      let best = -1;
      for (let i = first; i < end; i++) best = widest(best, i);
      if (best < 0) break;
      more[best]++;
    }
  }
  return starts.flatMap((start, i) => Array.from({ length: more[i] + 1 }, (_, n) =>
      (n === 0 ? start : start + (n * (starts[i + 1] - start)) / (more[i] + 1))));
}

/** The number of the first tick of sorted `starts` that is later than `us`. */
export function tickAfter(starts, us) {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (starts[middle] <= us) low = middle + 1;
    else high = middle;
  }
  return low;
}

function quantile(numbers, share) {
  return Float64Array.from(numbers).sort()[Math.floor(share * numbers.length)] ?? 0;
}
