// Where a report has merged samples: what the page says of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeHeat } from '../../src/model/heat.js';
import { measureOf, weightsOf } from '../../src/model/measures.js';
import { select } from '../../src/model/selection.js';
import { coarseOf, coarseText } from '../../src/model/coarse.js';
import { makeLanes, makeSchedulers } from '../../src/model/lanes.js';
import { buildProfile } from './build_profile.mjs';

const profile = (coarseUs, fine, durationUs = 100e6) =>
    ({ header: { coarse_us: coarseUs, fine }, durationUs });

test('a profile whose rows are samples is coarse nowhere', () => {
  assert.equal(coarseOf(profile(0, [])), null);
  assert.equal(coarseOf(profile(undefined, undefined)), null);
  assert.equal(coarseText(profile(0, [])), null);
});

test('what is not fine is coarse', () => {
  const { times } = coarseOf(profile(5e6, [[10e6, 12e6], [40e6, 50e6]]));
  assert.deepEqual(times, [[0, 10e6], [12e6, 40e6], [50e6, 100e6]]);
});

test('fine seconds at both ends leave no empty coarse time', () => {
  // The last second of a profile is not whole.
  const { times } = coarseOf(profile(1e6, [[0, 3e6], [99e6, 101e6]], 100.4e6));
  assert.deepEqual(times, [[3e6, 99e6]]);
});

test('the header says how coarse, for how much of the time, and what stays exact', () => {
  const { short, long } = coarseText(profile(100000, [[0, 25e6]]));
  assert.equal(short, 'coarse: 0.1 s');
  assert.match(long, /coarse in 75\.0 % of its time/);
  assert.match(long, /in 0\.1 s are one, at the time of the last/);
  assert.match(long, /Flame graphs and tables have all samples/);
});

// Ten seconds, merged in intervals of five but for the second from 7 on. Of 100 ticks, `a` ran in
// 60 and waited in 40; `b` was sampled in half of them, and ran.
async function coarseProfile() {
  const one = (process, us, status, weight = 1) => ({ process, us, status, weight,
    scheduler: status === 'running' ? 1 + process : 0, stack: ['lists:map/2'] });
  const fine = Array.from({ length: 20 }, (_, n) => one(0, 7e6 + 5e4 * n, 'running'));
  const built = await buildProfile({
    processes: [{ pid: '<0.1.0>', name: 'a' }, { pid: '<0.2.0>', name: 'b' }],
    samples: [one(1, 2e6, 'running', 50), one(0, 3.2e6, 'running', 60),
      one(0, 4.9e6, 'waiting', 40), ...fine, one(0, 9.9e6, 'waiting', 80)],
  });
  Object.assign(built.header, { coarse_us: 5e6, fine: [[7e6, 8e6]] });
  return built;
}

const SECONDS = { fromUs: 0, cells: 9, cellUs: 1e6 };
const near = (values, expected) => expected.forEach((one, i) =>
    assert.ok(Math.abs(values[i] - one) < 0.01, `${i}: ${values[i]}, not ${one}`));

test('a merged sample is a part of all its interval, not a time in it', async () => {
  const { running, waiting } = (await makeLanes(await coarseProfile(), SECONDS)).sums();
  near(running, [1.1, 1.1, 1.1, 1.1, 1.1, 0, 0, 1, 0]);
  near(waiting, [0.4, 0.4, 0.4, 0.4, 0.4, 1, 1, 0, 1]);
});

test('a window within an interval shows the same of it', async () => {
  const { running } = (await makeLanes(await coarseProfile(),
      { fromUs: 3.5e6, cells: 2, cellUs: 1e5 })).sums();
  near(running, [1.1, 1.1]);
});

test('a scheduler ran a merged sample for its part of the interval', async () => {
  const [first, second] = await makeSchedulers(await coarseProfile(), SECONDS);
  near(first.ran, [0.6, 0.6, 0.6, 0.6, 0.6, 0, 0, 1, 0]);
  near(second.ran, [0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0]);
  assert.deepEqual([...first.owner], [0, 0, 0, 0, 0, -1, -1, 0, -1]);
});

test('times of merged samples are no ticks', async () => {
  const { hertz, missed } = await (await coarseProfile()).samplingTrack();
  assert.deepEqual({ hertz, missed }, { hertz: 0, missed: [] });
});

// ------------------------------------------------------------------ heatmap

const TENTHS = { columnUs: 1e6, rows: 10, columns: 10, fromUs: 0 };
const ALL = { pids: [], show: 'all' };
const heatOf = async (profile, id, show = 'all') =>
    makeHeat(await select(profile, null, { ...ALL, show }), measureOf(profile, id), TENTHS);
const sum = (values) => values.reduce((a, b) => a + b, 0);

test('the heatmap spreads a merged sample over its interval, too', async () => {
  const heat = await heatOf(await coarseProfile(), 'samples');
  const levels = Array.from({ length: 99 }, (_, cell) => heat.level(cell));
  near(levels.slice(0, 50), Array(50).fill(1.5)); // 150 observations in 100 ticks
  near(levels.slice(50), Array(49).fill(1));
  assert.ok(Math.abs(sum(heat.values) - 250) < 0.01, 'none is lost');
});

test('those on a CPU are their part of the interval in each cell of the heatmap', async () => {
  const heat = await heatOf(await coarseProfile(), 'samples', 'busy');
  near(Array.from({ length: 50 }, (_, cell) => heat.level(cell)), Array(50).fill(1.1));
});

// In the first 5 s a process had 4000 messages in a quarter of its 100 ticks, then 0.
async function withQueue() {
  const one = (us, queue, weight, status = 'waiting') => ({ process: 0, us, weight, status,
    values: { message_queue_len: queue } });
  const built = await buildProfile({
    processes: [{ pid: '<0.1.0>', name: 'a' }],
    samples: [one(1.3e6, 4000, 25, 'garbage_collecting'), one(4.9e6, 0, 75), one(9.9e6, 0, 100)],
  });
  Object.assign(built.header, { coarse_us: 5e6, fine: [] });
  return built;
}

test('a value of merged samples is their mean over the interval', async () => {
  const heat = await heatOf(await withQueue(), 'message_queue_len');
  near(Array.from(heat.values.slice(0, 98)), [...Array(50).fill(1000), ...Array(48).fill(0)]);
});

test('a change of merged samples is spread over the interval, and its sum stays', async () => {
  const heat = await heatOf(await withQueue(), 'message_queue_len.delta');
  assert.ok(Math.abs(sum(heat.values) + 4000) < 0.01);
  near(Array.from(heat.values.slice(0, 50)), Array(50).fill(-80));
});

test('a merged sample that collects stands for its part of the interval', async () => {
  const profile = await withQueue();
  const collecting = measureOf(profile, 'collecting');
  assert.equal(collecting.kind, 'time');
  const [first, ...others] = await weightsOf(profile, collecting);
  assert.ok(Math.abs(first - 1.25e6) < 1, String(first)); // a quarter of 5 s
  assert.deepEqual(others, [0, 0]);
});
