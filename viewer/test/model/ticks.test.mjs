// Ticks are those at which the sampler looked: of a profile in which repetitions are one sample
// with a weight, as of the same profile without.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CELL, makeHeat } from '../../src/model/heat.js';
import { makeLanes } from '../../src/model/lanes.js';
import { measureOf } from '../../src/model/measures.js';
import { select } from '../../src/model/selection.js';
import { buildProfile } from './build_profile.mjs';

const TICK_US = 10000;
const SCALE = { columnUs: 1e6, rows: 10, columns: 6, fromUs: 0 };
const PROCESSES = ['idle', 'idle too', 'works', 'busy'].map((name, i) =>
    ({ pid: `<0.${i}.0>`, name }));

// The sampler is late from 1.2 to 1.5 s, from 2.9 to 3.3 s and from 4.05 to 4.11 s. `busy` runs at
// each tick, but from 5 s on, where it sleeps; `works` runs at one of seven.
const GAPS = [[1.2e6, 1.5e6], [2.9e6, 3.3e6], [4.05e6, 4.11e6]];
const TIMES = Array.from({ length: 600 }, (_, n) => n * TICK_US + 1).filter((us) =>
    !GAPS.some(([from, to]) => from < us && us < to));
const runs = (process, us) => (process === 3 && us < 5e6)
    || (process === 2 && Math.round(us / TICK_US) % 7 === 0);

const each = TIMES.flatMap((us) => PROCESSES.map((_, process) => ({ process, us, weight: 1,
    status: runs(process, us) ? 'running' : 'waiting', values: { messages: 40 - process } })));

// As doc/sampling.md says: repetitions of what waits are written once a second, before a change.
function coalesced(samples) {
  const all = [];
  const pending = new Map();
  const write = (process) => pending.has(process) && all.push(pending.get(process))
      && pending.delete(process);
  const last = new Map();
  for (const one of samples) {
    const before = pending.get(one.process);
    if (one.status !== 'waiting' || last.get(one.process) !== 'waiting') {
      write(one.process);
      all.push(one);
    } else {
      pending.set(one.process, { ...one, weight: (before?.weight ?? 0) + 1,
          begun: before?.begun ?? one.us });
      if (one.us - pending.get(one.process).begun >= 1e6) write(one.process);
    }
    last.set(one.process, one.status);
  }
  PROCESSES.forEach((_, process) => write(process));
  return all.sort((a, b) => a.us - b.us);
}

async function heatOf(samples, id) {
  const profile = await buildProfile({ processes: PROCESSES, samples });
  const { starts } = await profile.ticks();
  const selection = await select(profile, null, { pids: [], show: 'all' });
  return { starts, heat: await makeHeat(selection, measureOf(profile, id), SCALE) };
}

test('ticks of weighted samples are those of the samples', async () => {
  const [whole, weighted] = await Promise.all([each, coalesced(each)].map((samples) =>
      heatOf(samples, 'samples')));
  assert.deepEqual([...whole.starts], TIMES);
  assert.equal(weighted.starts.length, TIMES.length);
  const moving = TIMES.filter((us) => us < 5e6);
  assert.deepEqual([...weighted.starts.subarray(0, moving.length)], moving);
});

test('a late tick and the next are two; times of a stall are one', async () => {
  const samples = [1, 19800, 20000, 30000, ...Array.from({ length: 90 }, (_, n) => 40000 + n)]
      .map((us) => ({ process: 0, us, weight: 1, status: 'running', values: { messages: 0 } }));
  const { starts } = await heatOf(samples, 'samples');
  assert.deepEqual([...starts], [1, 19800, 20000, 30000, 40000]);
});

test('a cell has as many observations in as many ticks, and a gap is missed', async () => {
  const [{ heat: whole }, { heat: weighted }] = await Promise.all([each, coalesced(each)].map(
      (samples) => heatOf(samples, 'samples')));
  assert.ok(whole.kinds.includes(CELL.missed));
  assert.deepEqual([...weighted.kinds.subarray(0, 50)], [...whole.kinds.subarray(0, 50)]);
  for (let cell = 0; cell < 50; cell++) {
    assert.equal(weighted.ticks[cell], whole.ticks[cell], `ticks in cell ${cell}`);
    assert.equal(weighted.samples[cell], whole.samples[cell], `samples in cell ${cell}`);
    assert.equal(weighted.level(cell) || 0, whole.level(cell) || 0, `processes in cell ${cell}`);
  }
});

test('the last cell of a value is the mean of the time that was recorded', async () => {
  const cut = each.filter(({ us }) => us < 5.83e6);
  const { heat } = await heatOf(cut, 'messages');
  for (const cell of [0, 57, 58]) assert.ok(Math.abs(heat.values[cell] - 154) < 0.01, `${cell}`);
});

test('the most at a tick is the same in columns of any width', async () => {
  const profile = await buildProfile({ processes: PROCESSES, samples: each });
  for (const cells of [7, 100, 1440]) {
    const lanes = await makeLanes(profile, { fromUs: 0, cells, cellUs: 6e6 / cells });
    assert.equal(Math.max(...(await lanes.peaks())), 2);
  }
});
