// What the profiler told of the node, as points in time: nothing is known between two of them.

import { coarseOf } from './coarse.js';

const KINDS = ['processes', 'binary', 'ets', 'code', 'atom'];
const RATE_STEP = 0.7; // so much fewer ticks a second than before is a step of the budget

/**
 * @returns {timesUs, memory: [{name, bytes: by time}], in the order in which they are stacked, or
 * []; runQueues, rss, limit: of it; taken, givenBack: carriers until then, by time, NaN where a
 * flush does not tell; hasAllocators; schedulers: online, 0: unknown}
 */
export async function nodeTracks(profile) {
  const figures = await profile.nodeFigures();
  const total = await figures.of('node_memory_total');
  const memory = [];
  for (const name of KINDS) memory.push({ name, bytes: await figures.of(`node_memory_${name}`) });
  // What is not known of one kind is in the rest.
  const rest = total.map((bytes, i) =>
    memory.reduce((left, kind) => left - (kind.bytes[i] || 0), bytes));
  const isKnown = total.some((bytes) => bytes > 0);
  return {
    timesUs: figures.timesUs,
    memory: isKnown ? [...memory, { name: 'other', bytes: rest }] : [],
    runQueues: await figures.of('node_run_queues'),
    rss: await figures.of('node_rss'),
    limit: await figures.of('node_rss_limit'),
    taken: await figures.of('node_carriers_taken'),
    givenBack: await figures.of('node_carriers_given_back'),
    hasAllocators: profile.metric('node_allocator_carriers') >= 0,
    schedulers: greatest(await figures.of('node_schedulers_online')),
  };
}

/**
 * How often processes were sampled: {hertz: usually; missed: [[fromUs, toUs)]; steps: [{us, from,
 * to}], where the rate fell or rose and stayed, in ticks a second; coarse: of coarse.js}.
 */
export async function samplingTrack(profile) {
  const { starts, missed, usualUs } = await profile.ticks();
  const coarse = coarseOf(profile);
  const hertz = usualUs > 0 ? 1e6 / usualUs : 0;
  if (coarse === null) return { hertz, missed, steps: stepsOf(starts), coarse };
  // Times of merged samples are not those of ticks.
  const isFine = ([from, to]) => !coarse.times.some(([begin, end]) => from < end && to > begin);
  return { hertz: 0, missed: missed.filter(isFine), steps: [], coarse };
}

const AROUND = 60; // ticks on both sides, whose median gaps are compared

function greatest(numbers) {
  return numbers.reduce((most, n) => (n > most ? n : most), 0);
}

// Where gaps between ticks become longer or shorter, and stay so.
function stepsOf(starts) {
  const gaps = starts.slice(1).map((start, i) => start - starts[i]);
  const steps = [];
  for (let i = AROUND; i + AROUND <= gaps.length; i += AROUND / 4) {
    const before = median(gaps.subarray(i - AROUND, i));
    const after = median(gaps.subarray(i, i + AROUND));
    const change = before / after;
    if (change > RATE_STEP && change < 1 / RATE_STEP) continue;
    const step = { us: starts[i], from: 1e6 / before, to: 1e6 / after };
    const last = steps[steps.length - 1];
    if (last !== undefined && starts[i] - last.us < 2 * AROUND * Math.max(before, after)) {
      if (Math.abs(Math.log(change)) > Math.abs(Math.log(last.to / last.from))) {
        steps[steps.length - 1] = step;
      }
    } else {
      steps.push(step);
    }
  }
  return steps;
}

function median(numbers) {
  return Float64Array.from(numbers).sort()[Math.floor(numbers.length / 2)];
}
