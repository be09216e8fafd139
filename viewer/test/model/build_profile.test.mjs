// What tests think up is what the model reads.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildProfile } from './build_profile.mjs';

const worker = { pid: '<0.71.0>', name: 'worker', call: 'worker:init/1' };
const spare = { pid: '<0.72.0>', call: 'spare:init/1' };
const sample = (us, process, status, queue, weight) => ({ process, us, status, weight,
  stack: ['lists:map/2:10', 'worker:loop/1'], values: { message_queue_len: queue, memory: 8000 } });

test('a built profile has the samples, names and figures that made it', async () => {
  const profile = await buildProfile({
    processes: [worker, spare],
    samples: [sample(1000, 0, 'running', 3), sample(9000, 1, 'waiting', 0),
      sample(10000, 0, 'running', 7), sample(900000, 1, 'waiting', 0, 99)],
    own: [{ us: 10000, values: { ticks: 2, node_memory_ets: 5 } },
      { us: 900000, values: { ticks: 100, node_memory_ets: 8 } }],
  });
  assert.deepEqual([profile.label(0), profile.label(1), profile.pid(1)],
      ['worker', 'spare:init/1', '<0.72.0>']);
  const totals = await profile.activityTotals();
  assert.deepEqual([...totals.running], [2, 0, 0]);
  assert.deepEqual([...totals.waiting], [0, 100, 0]);
  const { first, most } = await profile.trend('mailbox');
  assert.deepEqual([first[0], most[0]], [3, 7]);
  const figures = await profile.nodeFigures();
  assert.deepEqual(figures.timesUs, [10000, 900000]);
  assert.deepEqual([...(await figures.of('node_memory_ets', 'delta'))], [0, 3]);
  assert.ok((await figures.of('missed')).every(Number.isNaN));
});
