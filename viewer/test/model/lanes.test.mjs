// Lanes: the truth is a story of each process, which made the samples; what a lane shows of a
// column is compared with that story, integrated in steps of 200 microseconds.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ACTIVITIES } from '../../src/model/activity.js';
import { makeLanes, makeSchedulers, lineValues } from '../../src/model/lanes.js';
import { firstSeen } from '../../src/model/first_seen.js';
import { measureOf } from '../../src/model/measures.js';
import { select } from '../../src/model/selection.js';
import { laneList } from '../../src/model/lane_list.js';
import { buildProfile } from './build_profile.mjs';

const TICK_US = 10000;
const SECONDS = 10;
const STATUS = { running: 'running', ready: 'runnable', collecting: 'garbage_collecting',
  waiting: 'waiting' };

const ticks = (from = 0, to = SECONDS * 1e6) =>
  Array.from({ length: Math.floor((to - from) / TICK_US) }, (_, n) => from + n * TICK_US);

const story = {
  worker: (us) => (us % 2e6 < 0.5e6 ? 'collecting' : us % 2e6 < 1.2e6 ? 'running' : 'waiting'),
  crowd: (us) => (us % 1e6 < 0.3e6 ? 'ready' : 'waiting'),
};
const mailbox = (us) => Math.floor(us / 1000) % 5000;

function sampled({ of, process, times = ticks(), values = () => undefined }) {
  return times.map((us) => ({ process, us, status: STATUS[of(us)], values: values(us),
    scheduler: of(us) === 'running' || of(us) === 'collecting' ? 1 + (process % 2) : 0 }));
}

const together = (...lists) => lists.flat().sort((a, b) => a.us - b.us);

function part(of, activity, from, to) {
  let hits = 0;
  let all = 0;
  for (let us = from + 100; us < to; us += 200) {
    all++;
    if (of(us) === activity) hits++;
  }
  return hits / all;
}

const GRID = { fromUs: 0, cells: 100, cellUs: 1e5 };

function assertStory(lane, of, grid, { from = 0, to = SECONDS * 1e6 } = {}) {
  for (let cell = 0; cell < grid.cells; cell++) {
    const begin = grid.fromUs + cell * grid.cellUs;
    if (begin < from || begin + grid.cellUs > to) continue;
    for (const [n, name] of ACTIVITIES.entries()) {
      const wanted = part(of, name, begin, begin + grid.cellUs);
      assert.ok(Math.abs(lane.shares[n][cell] - wanted) <= TICK_US / grid.cellUs + 1e-9,
          `${name} in cell ${cell}: ${lane.shares[n][cell]}, not ${wanted}`);
    }
  }
}

test('a lane shows what its process did', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }, { pid: '<0.2.0>' }],
    samples: together(sampled({ of: story.worker, process: 0 }),
        sampled({ of: story.crowd, process: 1 })) });
  const lanes = await makeLanes(profile, GRID);
  assertStory(lanes.lane([0]), story.worker, GRID);
  assertStory(lanes.lane([1]), story.crowd, GRID);
});

test('a part of the time shows what the whole shows of it', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }],
    samples: sampled({ of: story.worker, process: 0 }) });
  const grid = { fromUs: 3.25e6, cells: 80, cellUs: 25e3 };
  assertStory((await makeLanes(profile, grid)).lane([0]), story.worker, grid);
});

test('merged samples of a process that waits are all of the time', async () => {
  const moving = sampled({ of: story.worker, process: 0 });
  const merged = [0, 1, 3, 4, 7, 9].map((second, i, all) => ({ process: 1, us: second * 1e6,
    status: 'waiting', weight: i === 0 ? 1 : (100 * (second - all[i - 1])) }));
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }, { pid: '<0.2.0>' }],
    samples: together(moving, merged) });
  const lane = (await makeLanes(profile, GRID)).lane([1]);
  for (let cell = 0; cell < 90; cell++) assert.ok(Math.abs(lane.known[cell] - 1) < 1e-9, `${cell}`);
});

test('a process is not sampled where another had its place', async () => {
  const times = [...ticks(0, 2e6), ...ticks(6e6, 8e6)];
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }, { pid: '<0.2.0>' }],
    samples: together(sampled({ of: story.crowd, process: 0 }),
        sampled({ of: story.worker, process: 1, times })) });
  const { known } = (await makeLanes(profile, GRID)).lane([1]);
  const isKnown = (us) => known[Math.floor(us / GRID.cellUs)] > 0.5;
  assert.deepEqual([1e6, 2.5e6, 5.5e6, 7e6, 8.5e6].map(isKnown), [true, false, false, true, false]);
});

test('several processes of a lane are their mean', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }, { pid: '<0.2.0>' }],
    samples: together(sampled({ of: () => 'running', process: 0 }),
        sampled({ of: () => 'waiting', process: 1 })) });
  const lane = (await makeLanes(profile, GRID)).lane([0, 1]);
  assert.ok(Math.abs(lane.shares[0][50] - 0.5) < 1e-9);
  assert.ok(Math.abs(lane.known[50] - 2) < 1e-9);
});

test('a mailbox is the longest of a column', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }],
    samples: sampled({ of: story.worker, process: 0,
      values: (us) => ({ message_queue_len: mailbox(us) }) }) });
  const lane = (await makeLanes(profile, GRID)).lane([0], await lineValues(profile));
  for (let cell = 0; cell < 99; cell++) {
    const wanted = Math.max(...ticks(cell * 1e5, (cell + 1) * 1e5).map(mailbox));
    const before = mailbox(Math.max(0, cell * 1e5 - TICK_US)); // it holds until the next sample
    assert.ok(lane.mailbox.values[cell] === wanted || lane.mailbox.values[cell] === before,
        `cell ${cell}: ${lane.mailbox.values[cell]}, not ${wanted}`);
  }
  assert.equal(lane.mailbox.most, 4990);
});

test('all processes together are what was on a CPU and ready', async () => {
  const profile = await buildProfile({
    processes: Array.from({ length: 5 }, (_, n) => ({ pid: `<0.${n}.0>` })),
    samples: together(...[0, 1, 2, 3, 4].map((process) =>
        sampled({ of: process < 3 ? story.crowd : story.worker, process }))) });
  const sums = (await makeLanes(profile, GRID)).sums();
  for (const cell of [1, 15, 42, 77]) {
    const [from, to] = [cell * 1e5, (cell + 1) * 1e5];
    const near = (got, wanted) => assert.ok(Math.abs(got - wanted) <= 0.5, `${got}, not ${wanted}`);
    near(sums.ready[cell], 3 * part(story.crowd, 'ready', from, to));
    near(sums.collecting[cell], 2 * part(story.worker, 'collecting', from, to));
  }
});

test('a scheduler shows which process it ran most', async () => {
  const on = (us) => (us < 4e6 ? 'running' : 'waiting');
  const off = (us) => (us < 4e6 ? 'waiting' : 'running');
  const profile = await buildProfile({
    processes: [0, 1, 2].map((n) => ({ pid: `<0.${n}.0>` })),
    samples: together(sampled({ of: on, process: 0 }), sampled({ of: off, process: 2 }),
        sampled({ of: story.worker, process: 1 })) });
  const [first, second] = await makeSchedulers(profile, GRID);
  assert.equal(first.owner[10], 0);
  assert.equal(first.owner[70], 2);
  assert.equal(second.owner[2], 1);
  assert.ok(second.collecting[2] > 0.9 && second.collecting[8] < 0.1);
  assert.ok(second.ran[15] < 0.2, 'it waited');
});

test('a scheduler shows the one that ran most, also without a majority', async () => {
  const parts = [4, 3, 3]; // ticks of each ten
  const of = (process) => (us) => {
    const tick = Math.floor(us / TICK_US) % 10;
    const begin = parts.slice(0, process).reduce((sum, n) => sum + n, 0);
    return tick >= begin && tick < begin + parts[process] ? 'running' : 'waiting';
  };
  const profile = await buildProfile({ processes: [0, 1, 2].map((n) => ({ pid: `<0.${n}.0>` })),
    samples: together(...[0, 1, 2].map((process) => sampled({ of: of(process), process })
        .map((sample) => ({ ...sample, scheduler: sample.status === 'running' ? 1 : 0 })))) });
  const [{ owner }] = await makeSchedulers(profile, GRID);
  assert.deepEqual([...new Set(owner.slice(0, 99))], [0]);
});

test('what has no status was on a CPU, as in files of perf', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }],
    samples: ticks().map((us) => ({ process: 0, us, status: '' })) });
  const sums = (await makeLanes(profile, GRID)).sums();
  assert.ok(Math.abs(sums.running[50] - 1) < 1e-9);
});

test('a single sample is shown', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }],
    samples: [{ process: 0, us: 0, status: 'running' }] });
  const { known } = (await makeLanes(profile, { fromUs: 0, cells: 10, cellUs: 0.1 })).lane([0]);
  assert.ok(known[5] > 0.9);
});

test('the rate of ticks does not depend on what is shown', async () => {
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }],
    samples: sampled({ of: story.crowd, process: 0 }) });
  assert.equal((await profile.samplingTrack()).hertz, 1e6 / TICK_US);
});

test('hundreds of thousands of processes fold into one lane', () => {
  const processCount = 300000;
  const many = () => new Float64Array(processCount).fill(1);
  const totals = { observations: many(), running: many(), ready: many(), collecting: many() };
  const profile = { processCount, initialCall: () => 'shop:request/1' };
  const lanes = laneList(profile, { order: 'odd', fold: 'call', first: [], modules: null, totals });
  assert.deepEqual(lanes.map(({ text }) => text), [`shop:request/1 (${processCount})`]);
});

test('what a process had when it was first seen is told beside its changes', async () => {
  const queue = (of) => (us) => ({ message_queue_len: of(us), reductions: us });
  const profile = await buildProfile({
    processes: [{ pid: '<0.1.0>', name: 'audit_log' }, { pid: '<0.2.0>', name: 'quiet' }],
    samples: together(
        sampled({ of: story.crowd, process: 1, values: queue(() => 3) }),
        sampled({ of: story.worker, process: 0, times: ticks(5e6), values: queue((us) =>
          15613 - Math.floor((us - 5e6) / 1e4)) })) });
  const of = async (range, pids, id) => firstSeen(await select(profile, range,
      { pids, show: 'all' }), measureOf(profile, id));
  const delta = 'message_queue_len.delta';
  assert.deepEqual(await of(null, [], delta), { sum: 15616, most: { process: 0, value: 15613 } });
  assert.deepEqual(await of([4e6, 6e6], ['<0.1.0>'], delta),
      { sum: 15613, most: { process: 0, value: 15613 } });
  assert.equal(await of([6e6, 8e6], [], delta), null, 'they were seen before');
  assert.equal(await of(null, [], 'reductions.delta'), null, 'a counter of all its life');
});

test('lanes begin with what is odd, then what ran most', async () => {
  const queue = (most) => (us) =>
      ({ message_queue_len: Math.floor((most * us) / (SECONDS * 1e6)) });
  const profile = await buildProfile({
    processes: [{ pid: '<0.1.0>', name: 'busy' }, { pid: '<0.2.0>', name: 'quiet' },
      { pid: '<0.3.0>', name: 'flooded' }],
    samples: together(
        sampled({ of: () => 'running', process: 0, values: queue(5) }),
        sampled({ of: () => 'waiting', process: 1, values: queue(0) }),
        sampled({ of: story.crowd, process: 2, values: queue(20000) })) });
  const given = { fold: '', totals: await profile.activityTotals(), first: [], modules: null,
    trends: { mailbox: await profile.trend('mailbox'), memory: null, binaries: null } };
  const names = (order, more = {}) => laneList(profile, { ...given, ...more, order })
      .map(({ text }) => text);
  assert.deepEqual(names('odd'), ['flooded', 'busy', 'quiet']);
  assert.deepEqual(names('cpu'), ['busy', 'flooded', 'quiet']);
  assert.deepEqual(names('name'), ['busy', 'flooded', 'quiet']);
  assert.deepEqual(names('odd', { first: [1] }), ['quiet', 'flooded', 'busy']);
});

test('processes of one initial call fold into a lane', async () => {
  const profile = await buildProfile({
    processes: [0, 1, 2].map((n) => ({ pid: `<0.${n}.0>`, call: n < 2 ? 'shop:init/1'
        : 'other:run/0' })),
    samples: together(...[0, 1, 2].map((process) => sampled({ of: story.crowd, process }))) });
  const lanes = laneList(profile, { order: 'name', fold: 'call', first: [], modules: null,
    trends: null, totals: await profile.activityTotals() });
  assert.deepEqual(lanes.map(({ text, processes }) => [text, processes]),
      [['other:run/0', [2]], ['shop:init/1 (2)', [0, 1]]]);
});

test('ten thousand processes have their lanes', async () => {
  const count = 10000;
  const samples = together(...Array.from({ length: count }, (_, process) =>
      sampled({ of: story.crowd, process, times: [process * 900, process * 900 + TICK_US] })));
  const profile = await buildProfile({ samples,
    processes: Array.from({ length: count }, (_, n) => ({ pid: `<0.${n}.0>` })) });
  const lanes = await makeLanes(profile, GRID);
  const list = laneList(profile, { order: 'cpu', fold: '', first: [], modules: null, trends: null,
    totals: await profile.activityTotals() });
  assert.equal(list.length, count);
  for (const { processes } of list) {
    const { known } = lanes.lane(processes);
    assert.ok(known[Math.floor((processes[0] * 900) / GRID.cellUs)] > 0);
  }
});
