// When the sampler looked: the times of the samples tell.

// Two samples of one tick may be a microsecond apart (doc/format.md), two ticks
// are a millisecond apart at least.
const TICK_APART_US = 500;

/** @returns {starts: Float64Array of the ticks' times, intervalUs: the usual one} */
export async function findTicks(profile) {
  await profile.need('time_us');
  const seen = startsOf(profile);
  const spans = profile.looks === null ? [] : spansOf(profile);
  const starts = Float64Array.from(spans.length === 0 ? seen : filled(seen, spans));
  const gaps = starts.slice(1).map((start, i) => start - starts[i]);
  return { starts, intervalUs: median(gaps) };
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
function spansOf({ looks, since, columns: { time_us: time } }) {
  const spans = [];
  looks.forEach((count, row) => {
    const length = time[row] - since[row];
    if (count > 1 && length > 0) spans.push({ since: since[row], until: time[row], step: length / count });
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

function median(numbers) {
  return numbers.length === 0 ? 0 : numbers.sort()[numbers.length >> 1];
}
