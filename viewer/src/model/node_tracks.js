// What the profiler told of the node, as points in time: nothing is known between two of them.

import { coarseOf } from './coarse.js';

const KINDS = ['processes', 'binary', 'ets', 'code', 'atom'];

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

/** {hertz: how often processes were usually sampled; missed: [[fromUs, toUs)]; coarse} */
export async function samplingTrack(profile) {
  const { missed, usualUs } = await profile.ticks();
  const coarse = coarseOf(profile);
  if (coarse === null) return { hertz: usualUs > 0 ? 1e6 / usualUs : 0, missed, coarse };
  // Times of merged samples are not those of ticks.
  const isFine = ([from, to]) => !coarse.times.some(([begin, end]) => from < end && to > begin);
  return { hertz: 0, missed: missed.filter(isFine), coarse };
}

function greatest(numbers) {
  return numbers.reduce((most, n) => (n > most ? n : most), 0);
}
