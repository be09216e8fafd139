// The values of one process over time, and what they do.

// As sumSteps() has it: a process whose next sample comes later was not sampled in between.
const SAMPLED_WITHIN_US = 1.5e6;

// What only grows does so in each of these parts of its time.
const PARTS = 8;
const PARTS_THAT_GROW = 4; // steps between parts: a heap grows in few large steps
const LEAST_SPAN_US = 5e6; // garbage may pile up for that long before it is collected
const STEP = 0.02; // of the whole growth: more is a step
const DRAWDOWN = 0.1; // of the whole growth: less is no fall
const LATE_SHARE = 0.25; // of the growth is in the later half: what just starts up stops growing

/** {times, values} of a process in the order of time; `values` are those of all rows. */
export async function seriesOf(profile, process, values) {
  const { rows, starts } = await profile.byProcess();
  const of = rows.subarray(starts[process], starts[process + 1]);
  const { time_us: time } = profile.columns;
  return { times: new Float64Array(of.length).map((_, i) => time[of[i]]),
    values: new Float64Array(of.length).map((_, i) => values[of[i]]) };
}

/** [first, last]: places of the samples of each stretch with values of `least` or more. */
export function stretches({ times, values }, least) {
  const found = [];
  let first = -1;
  const end = (last) => {
    if (first >= 0) found.push([first, last]);
    first = -1;
  };
  for (let i = 0; i < values.length; i++) {
    const isLong = values[i] >= least;
    if (!isLong || (i > 0 && times[i] - times[i - 1] > SAMPLED_WITHIN_US)) end(i - 1);
    if (isLong && first < 0) first = i;
  }
  end(values.length - 1);
  return found;
}

/**
 * What is left whenever least is left (of a heap, behind its collections) only grows, and still
 * does: {from, to: values}; or null.
 */
export function growthOf({ times, values }) {
  const start = times[0];
  const span = times[times.length - 1] - start;
  if (!(span >= LEAST_SPAN_US)) return null;
  const floors = new Float64Array(PARTS).fill(Infinity);
  times.forEach((time, i) => {
    const part = Math.min(PARTS - 1, Math.floor((PARTS * (time - start)) / span));
    if (values[i] < floors[part]) floors[part] = values[i];
  });
  return growing(Array.from(floors).filter(Number.isFinite));
}

/** The same of values that are few: each is a part. */
export function growing(floors) {
  const from = floors[0];
  const to = floors[floors.length - 1];
  const growth = to - from;
  if (!(growth > 0)) return null;
  let most = from;
  let grown = 0;
  for (const floor of floors.slice(1)) {
    if (floor < most - DRAWDOWN * growth) return null;
    if (floor > most + STEP * growth) grown++;
    most = Math.max(most, floor);
  }
  const middle = floors[Math.floor((floors.length - 1) / 2)];
  const isLate = floors.length < 3 || to - middle >= LATE_SHARE * growth;
  return grown >= Math.min(PARTS_THAT_GROW, floors.length - 1) && isLate ? { from, to } : null;
}

/** Of an ascending array the last place whose time is `time` or before it. */
export function placeAt(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
