// When the sampler looked: the times of the samples tell.

import { usualGap } from './steps.js';

// Two samples of one tick may be a microsecond apart (doc/format.md), two ticks
// are a millisecond apart at least.
const TICK_APART_US = 500;

// A gap between ticks this many times as long as usual has lost some. What is
// usual changes, since a `cpu_budget` is kept by looking less often: it is the
// median of so many gaps on both sides.
const GAP_MISSED = 2;
const GAPS_AROUND = 15;

/** @returns {starts: Float64Array of the ticks' times, missed: [[fromUs, toUs)] without some,
    usualUs: the median of the times between ticks, 0: there is one tick at most} */
export async function findTicks(profile) {
  await profile.need('time_us');
  const seen = startsOf(profile);
  const spans = profile.looks === null ? [] : spansOf(profile, await profile.coarse());
  const starts = Float64Array.from(spans.length === 0 ? seen : filled(seen, spans));
  return { starts, missed: missedOf(starts), usualUs: usualGap(starts) };
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
  const see = (now) => {
    if (now - last > TICK_APART_US) starts.push((last = now));
  };
  if (!profile.isOrdered) {
    const times = [];
    profile.eachRun(0, profile.rows, (first, end) => {
      for (let row = first; row < end; row++) times.push(time[row]);
    });
    Float64Array.from(times).sort().forEach(see);
    return starts;
  }
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) see(time[row]);
  });
  return starts;
}

// The times [since, until] of which one sample tells that it was looked every
// `step`, in the order of their begins.
// Samples merged in a report tell no such thing.
function spansOf({ looks, since, columns: { time_us: time } }, coarse) {
  const spans = [];
  looks.forEach((count, row) => {
    const length = time[row] - since[row];
    if (count > 1 && length > 0 && !coarse?.has(time[row])) {
      spans.push({ since: since[row], until: time[row], step: length / count });
    }
  });
  return spans.sort((a, b) => a.since - b.since);
}

// Ticks at which nothing moved left no sample of their own: a span tells of them.
function filled(starts, spans) {
  const all = [];
  let next = 0;
  let longest = spans[0]; // of those that have begun
  starts.forEach((start, i) => {
    all.push(start);
    const end = starts[i + 1] ?? start;
    for (; next < spans.length && spans[next].since <= start + TICK_APART_US; next++) {
      if (spans[next].until >= longest.until) longest = spans[next];
    }
    if (longest.until < end - TICK_APART_US || longest.since > start + TICK_APART_US) return;
    const count = Math.round((end - start) / longest.step);
    for (let n = 1; n < count; n++) all.push(start + (n * (end - start)) / count);
  });
  return all;
}

function quantile(numbers, share) {
  return Float64Array.from(numbers).sort()[Math.floor(share * numbers.length)] ?? 0;
}
