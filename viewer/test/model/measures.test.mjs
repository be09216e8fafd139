import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findTicks } from '../../src/model/ticks.js';
import { measureOf, weightsOf } from '../../src/model/measures.js';
import { QUESTIONS } from '../../src/model/questions.js';
import { full, short } from '../../src/model/numbers.js';

const STATUSES = ['waiting', 'garbage_collecting'];

// A process that collects while collects(us) is true, sampled at these times.
function profileOf(times, collects, metrics = []) {
  return {
    header: { columns: { period: { type: 'const', value: 1 } }, metrics },
    statuses: STATUSES,
    looks: null,
    isOrdered: true,
    rows: times.length,
    columns: { time_us: times, status: times.map((us) => Number(collects(us))) },
    need: async () => {},
    eachRun: (from, to, each) => each(from, to),
    ticks() {
      return findTicks(this);
    },
    coarse: async () => null,
    kept: (_key, make) => make(),
    metric: (name) => metrics.findIndex((one) => one.name === name),
    values: async (metric) => metrics[metric].values,
  };
}

async function collected(profile) {
  const weights = await weightsOf(profile, measureOf(profile, 'collecting'));
  return weights.reduce((sum, us) => sum + us, 0);
}

const every = (ms, from, to) =>
  Array.from({ length: Math.floor((to - from) / ms) }, (_, n) => (from + n * ms) * 1000);

test('the time collecting is that of the process, at any rate of ticks', async () => {
  const collects = (us) => us % 1e6 < 400000; // 0.4 s of each second
  for (const ms of [1, 9, 17, 36]) {
    const us = await collected(profileOf(every(ms, 0, 20000), collects));
    assert.ok(Math.abs(us / 8e6 - 1) < 0.02, `${ms} ms: ${us}`);
  }
  // The sampler looks half as often from 10 s on.
  const slower = [...every(9, 0, 10000), ...every(18, 10000, 20000)];
  assert.ok(Math.abs((await collected(profileOf(slower, collects))) / 8e6 - 1) < 0.02);
});

test('missed ticks are no time collecting', async () => {
  const times = [...every(10, 0, 3000), ...every(10, 8000, 10000)]; // five seconds are missing
  const us = await collected(profileOf(times, () => true));
  assert.ok(Math.abs(us / 5e6 - 1) < 0.02, `${us}`);
});

test('binaries are those of both heaps, in bytes', async () => {
  const metrics = ['bin_vheap_size', 'bin_old_vheap_size'].map((name, i) => ({ name,
    unit: 'words', samples: 2, values: [[1, 2], [10, 20]][i] }));
  const profile = profileOf([0, 10000], () => false, metrics);
  const measure = measureOf(profile, 'binaries');
  assert.deepEqual([...(await weightsOf(profile, measure))], [88, 176]);
  assert.equal(short(2 ** 20, measure.unit), '1.00 MiB');
});

test('every question is about a measure that there is', () => {
  const metrics = ['message_queue_len', 'memory', 'bin_vheap_size', 'bin_old_vheap_size'].map(
      (name) => ({ name, unit: 'words', samples: 1 }));
  const profile = profileOf([0], () => true, metrics);
  for (const { state } of QUESTIONS) {
    assert.equal(measureOf(profile, state.measure).id, state.measure);
  }
});

test('less is written with a minus, and a time with its unit', () => {
  assert.equal(short(-1536, 'bytes'), '−1.50 KiB');
  assert.equal(full(-1234, 'count'), '−1,234');
  assert.deepEqual([short(36200, 'us'), short(2639600, 'us'), full(2639600, 'us')],
      ['36.2 ms', '2.64 s', '2,639.6 ms']);
});
