// The time axis, and which cells a heatmap has.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TimeAxis } from '../../src/geometry/time_axis.js';
import { movedState } from '../../src/app/state.js';
import { heatScale, rowsOfTicks } from '../../src/model/heat_scale.js';

const every = (us, count) => Array.from({ length: count }, (_, n) => n * us);

test('a moment is where its place says', () => {
  const axis = new TimeAxis([2e6, 6e6], 100, 800);
  assert.equal(axis.x(2e6), 100);
  assert.equal(axis.x(6e6), 900);
  for (const us of [2e6, 3.3e6, 5.999e6]) assert.ok(Math.abs(axis.us(axis.x(us)) - us) < 1);
  assert.equal(axis.us(-50), 2e6);
  assert.equal(axis.us(5000), 6e6);
});

test('zooming keeps the moment under the pointer, and stays within the profile', () => {
  const whole = 60e6;
  const axis = new TimeAxis([0, whole], 0, 1000);
  const [from, to] = axis.zoomed(250, 0.5, whole);
  const zoomed = new TimeAxis([from, to], 0, 1000);
  assert.ok(Math.abs(zoomed.us(250) - axis.us(250)) <= 1);
  assert.equal(zoomed.zoomed(250, 4, whole), null, 'all of it');
  const [begin, end] = zoomed.moved(1e6, whole);
  assert.equal(end, whole);
  assert.equal(end - begin, to - from);
});

test('marks are far enough from each other, whatever the time is', () => {
  for (const length of [50e3, 1e6, 20e6, 180e6, 1800e6, 86400e6]) {
    const axis = new TimeAxis([length / 3, length], 0, 1200);
    const marks = axis.marks();
    assert.ok(marks.length >= 2, `${length}`);
    marks.slice(1).forEach(({ us }, i) => assert.ok(axis.x(us) - axis.x(marks[i].us) >= 60));
    assert.equal(new Set(marks.map(({ text }) => text)).size, marks.length, `${length}`);
  }
});

test('each cell of the heatmap has as many ticks as its neighbour', () => {
  for (const hertz of [10, 19, 50, 97, 99, 100, 108, 200, 1000]) {
    const rows = rowsOfTicks(every(1e6 / hertz, 5 * hertz));
    assert.ok(rows >= 1 && rows <= 60, `${hertz} Hz: ${rows}`);
    const inCell = hertz / rows;
    assert.ok(inCell >= 2, `${hertz} Hz: ${inCell} in a cell`);
    const isPrime = [19, 97].includes(hertz);
    assert.ok(isPrime || Number.isInteger(inCell), `${hertz} Hz: ${inCell} in a cell`);
  }
});

test('columns are seconds, minutes or hours, whatever is wide enough', () => {
  const ticks = every(10000, 1000);
  const columnOf = (seconds) => {
    const axis = new TimeAxis([0, seconds * 1e6], 150, 1200);
    return heatScale(seconds * 1e6, axis, 0, ticks).columnUs / 1e6;
  };
  assert.deepEqual([10, 180, 1800, 7200, 86400].map(columnOf), [1, 1, 60, 60, 3600]);
});

test('a selection stays at its moments when the first file is removed', () => {
  const state = { range: [5e6, 8e6], time: [2e6, 3e6], otherRange: null, view: 'flame' };
  assert.deepEqual(movedState(state, -4e6),
      { range: [1e6, 4e6], time: null, otherRange: null, view: 'flame' });
});

test('a short view of a long profile has seconds again', () => {
  const axis = new TimeAxis([40000e6, 40060e6], 150, 1200);
  const scale = heatScale(86400e6, axis, 50, every(10000, 1000));
  assert.equal(scale.columnUs, 1e6);
  assert.ok(scale.fromUs <= 40000e6 && scale.fromUs + scale.columns * 1e6 >= 40060e6);
  assert.ok(scale.rows * scale.columns <= 1e6);
});
