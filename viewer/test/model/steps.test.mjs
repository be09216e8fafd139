// The truth is what made the samples: functions of time, integrated in small steps. A loaded
// machine's samples of them are late, inconsistent, merged, of some processes at a time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sumSteps } from '../../src/model/steps.js';

const TICK_US = 9000;
const CELL_US = 20000;
const SECONDS = 20;
const CELLS = (SECONDS * 1e6) / CELL_US;
const GRID = { cells: CELLS, cellUs: CELL_US };

const ticksOf = (seconds) =>
  Array.from({ length: Math.floor((seconds * 1e6) / TICK_US) }, (_, n) => (n + 1) * TICK_US);

function summed(samples, ticks) {
  const sorted = [...samples].sort((a, b) => a.time - b.time);
  return sumSteps({
    rows: (each) => sorted.forEach((_, row) => each(row)),
    processes: 1 + Math.max(...sorted.map((sample) => sample.process)),
    process: sorted.map((sample) => sample.process),
    time: sorted.map((sample) => sample.time),
    value: (row) => sorted[row].value,
  }, ticks, GRID);
}

function meanOf(truth, cell) {
  let sum = 0;
  for (let us = 500; us < CELL_US; us += 1000) sum += truth(cell * CELL_US + us);
  return (sum * 1000) / CELL_US;
}

// Cells at the ends are known in part only.
function compare(sums, truth, { from = 1, until = SECONDS - 0.1, off }) {
  for (let cell = from * 1e6 / CELL_US; cell < (until * 1e6) / CELL_US; cell++) {
    const wanted = meanOf(truth, cell);
    assert.ok(Math.abs(sums[cell] - wanted) <= off, `cell ${cell}: ${sums[cell]}, not ${wanted}`);
  }
}

test('a value between two samples is that of the first', () => {
  const at = (time, value) => ({ process: 0, time, value });
  const { sums } = summed([at(0, 10), at(30000, 4), at(50000, 7)], ticksOf(1));
  assert.deepEqual([...sums.slice(0, 4)], [10, 7, 2, 0]);
});

test('a queue that grows is seen whatever the cells do to the ticks', () => {
  const truth = (us) => us / 1000;
  const samples = ticksOf(SECONDS).map((time) => ({ process: 0, time, value: truth(time) }));
  compare(summed(samples, ticksOf(SECONDS)).sums, truth, { off: TICK_US / 1000 });
});

test('merged samples leave no holes and count nothing twice', () => {
  const ticks = ticksOf(SECONDS);
  const moving = ticks.map((time) => ({ process: 0, time, value: 5 }));
  // As the budget merges: each second's repeats are one sample, at the last of them.
  const idle = [1, 2, 3, 4].flatMap((process) =>
      ticks.filter((_, n) => n % 111 === process).map((time) => ({ process, time, value: 1000 })));
  compare(summed([...moving, ...idle], ticks).sums, () => 4005, { from: 2, until: SECONDS - 1,
      off: 1e-6 });
});

test('answers that come late in a pile are no pile of values', () => {
  const ticks = ticksOf(SECONDS);
  const samples = ticks.flatMap((time, n) => {
    const late = ticks[Math.min(ticks.length - 1, n - (n % 22) + 21)];
    return [{ process: 0, time: late + (n % 22), value: 70 }, { process: 1, time, value: 30 }];
  });
  compare(summed(samples, ticks).sums, () => 100, { off: 1e-6 });
});

test('inconsistent samples leave no holes', () => {
  const ticks = ticksOf(SECONDS);
  const samples = [0, 1, 2].flatMap((process) => ticks.filter((_, n) => (n * 7 + process) % 5 > 1)
      .map((time) => ({ process, time, value: 50 })));
  compare(summed(samples, ticks).sums, () => 150, { off: 1e-6 });
});

test('a process is unknown while it is not sampled', () => {
  const ticks = ticksOf(SECONDS);
  const samples = ticks.filter((time) => time < 5e6 || time > 15e6)
      .map((time) => ({ process: 0, time, value: 9 }));
  const { sums, known } = summed(samples, ticks);
  compare(sums, (us) => (us < 5e6 || us > 15e6 ? 9 : 0), { from: 5.1, until: 14.9, off: 0 });
  assert.equal(known[(10 * 1e6) / CELL_US], 0);
  compare(sums, () => 9, { from: 15.1, off: 1e-6 });
});

test('rare ticks are no gaps', () => {
  const ticks = [0, 4, 8, 12, 16].map((second) => second * 1e6);
  const { sums } = summed(ticks.map((time) => ({ process: 0, time, value: 3 })), ticks);
  compare(sums, () => 3, { until: 15.9, off: 1e-6 });
});

test('what is unknown counts for nothing', () => {
  const ticks = ticksOf(SECONDS);
  const samples = ticks.map((time) => ({ process: 0, time, value: time < 1e7 ? 9 : NaN }));
  const { sums, known } = summed(samples, ticks);
  assert.equal(sums[(12 * 1e6) / CELL_US], 0);
  assert.equal(known[(12 * 1e6) / CELL_US], 0);
});
