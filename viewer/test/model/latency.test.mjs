// What the latency panel makes of the lines of a measurement: against the list of all durations.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lowOf, Measured, nanoseconds, partsOf, quantile, rowOf, rowsOf } from
  '../../src/model/latency.js';

// By the words of c_src/base/histogram.h: one wide up to 128, then 64 an octave.
function bucketOf(ns) {
  let width = 1;
  while (ns / width >= 128) width *= 2;
  const low = ns - (ns % width);
  return [low, low + width];
}

function line(durations, more = {}) {
  const counts = new Map();
  for (const ns of durations) {
    const [low, end] = bucketOf(ns);
    counts.set(low, [low, end, (counts.get(low)?.[2] ?? 0) + 1]);
  }
  return { ms: 500, ended: 'running', limits: [], open: 0, ...more, functions: [{
    function: 'm:f/1', calls: durations.length, exceptions: 1,
    total_ns: durations.reduce((sum, ns) => sum + ns, 0), own_ns: 1,
    max_ns: Math.max(...durations), histogram: [...counts.values()].sort(([a], [b]) => a - b),
    groups: [{ group: 'g', calls: durations.length, total_ns: 10, max_ns: Math.max(...durations),
      histogram: [...counts.values()] }],
    callers: [{ caller: 'm:a/0', calls: 1, total_ns: 3, max_ns: 3 },
      { caller: 'm:b/0', calls: durations.length - 1, total_ns: 7, max_ns: 7 }],
  }] };
}

let seed = 1;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const some = (n) => Array.from({ length: n }, () => Math.floor(2 ** (30 * random())) + 1);

test('quantiles of all lines are those of the sorted durations', () => {
  const parts = [some(1000), some(10), some(5000)];
  const measured = new Measured();
  for (const part of parts) measured.add(line(part));
  const sorted = parts.flat().sort((a, b) => a - b);
  const [one] = measured.rows;
  assert.equal(one.calls, sorted.length);
  assert.equal(one.exceptions, 3);
  assert.equal(one.total, sorted.reduce((sum, ns) => sum + ns, 0));
  assert.equal(one.max, sorted.at(-1));
  for (const q of [0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1]) {
    const expected = sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)];
    assert.ok(Math.abs(one.quantile(q) - expected) <= expected / 100, `${q}`);
  }
});

test('quantiles of a group are those of its durations, and none without all of them', () => {
  const lines = [some(1000), some(500)];
  const measured = new Measured();
  for (const durations of lines) measured.add(line(durations));
  const sorted = lines.flat().sort((a, b) => a - b);
  const [one] = measured.rows;
  const group = one.groups.get('g');
  assert.equal(group.max, sorted.at(-1));
  for (const q of [0.5, 0.9, 0.99, 0.999, 0.9999]) {
    const expected = sorted[Math.ceil(q * sorted.length) - 1];
    assert.ok(Math.abs(group.quantile(q) - expected) <= expected / 100, `${q}`);
  }
  assert.equal(one.callers.get('m:a/0').quantile(0.5), null);
  // A thread that has counted a call, and its bucket a moment later.
  const late = { calls: 1, total_ns: 1, max_ns: 1, histogram: [] };
  group.addDurations(late);
  assert.notEqual(group.quantile(0.5), null);
  group.addDurations({ ...late, calls: 100 });
  assert.equal(group.quantile(0.5), null);
});

test('nothing has no quantile, and what is too long has the longest', () => {
  assert.equal(quantile([], 0, 0, 0.5), 0);
  assert.equal(quantile([[2 ** 40, null, 3]], 3, 3e12, 0.5), 3e12);
});

test('a row has the durations between its edges', () => {
  for (const ns of [...some(5000), 1, 2, 3, 4, 127, 128, 129, 1024, 1279, 1280, 2 ** 39]) {
    const row = rowOf(ns);
    assert.ok(lowOf(row) <= ns, `${ns}`);
    if (ns >= 4) assert.ok(ns < lowOf(row + 1), `${ns}`);
    // All of a bucket is in one row.
    const [low, end] = bucketOf(ns);
    if (ns >= 4) assert.equal(rowOf(low), rowOf(end - 1));
  }
});

test('columns have the rows of their line only', () => {
  const measured = new Measured();
  measured.add(line([1000, 1001, 5000]));
  measured.add({ ms: 500, ended: 'running', limits: [], functions: [] });
  measured.add(line([1000000]));
  const [one] = measured.rows;
  assert.deepEqual([...one.columns.keys()], [0, 2]);
  assert.deepEqual([...one.columns.get(0).rows], [[rowOf(1000), 2], [rowOf(5000), 1]]);
  assert.deepEqual([...one.columns.get(2).rows], [[rowOf(1000000), 1]]);
  assert.deepEqual(rowsOf([one]), [rowOf(1000), rowOf(1000000)]);
  assert.deepEqual(measured.lines.map(({ fromMs, toMs }) => [fromMs, toMs]),
      [[0, 500], [500, 1000], [1000, 1500]]);
});

test('a function that was not called just now has no rate', () => {
  const measured = new Measured();
  measured.add(line([1000, 1001, 5000]));
  assert.equal(measured.rows[0].latest, 6);
  measured.add({ ms: 500, ended: 'running', limits: [], functions: [] });
  assert.equal(measured.rows[0].latest, null);
});

test('groups and callers add up, the longest first', () => {
  const measured = new Measured();
  measured.add(line([1000, 1001, 5000]));
  measured.add(line([1000, 1001]));
  const callers = partsOf(measured.rows[0].callers);
  assert.deepEqual(callers.map(({ name, calls, total }) => [name, calls, total]),
      [['m:b/0', 3, 14], ['m:a/0', 2, 6]]);
});

test('why it ended and its limits stay', () => {
  const measured = new Measured();
  measured.add(line([1000], { ended: 'max_seconds', limits: ['a limit'] }));
  measured.add({ ended: 'failed', why: 'gone' });
  assert.equal(measured.ended, 'failed');
  assert.equal(measured.why, 'gone');
  assert.deepEqual(measured.limits, ['a limit']);
});

test('what was left out in any line is told, and added up', () => {
  const measured = new Measured();
  const busy = (n) => ({ limits: ['of this line'], sampled_of: n,
    lost: { calls_left_out_by_sampling: 1000, calls_nested_too_deep: 0 } });
  for (const n of [2, 8, 4]) measured.add(line([1000], busy(n)));
  measured.add(line([1000], { sampled_of: 1, lost: { calls_left_out_by_sampling: 0 } }));
  measured.add({ ended: 'max_cpu_percent', limits: ['a limit ended it: cpu'], sampled_of: 1 });
  const [end, sampled, lost, ...more] = measured.limits;
  assert.equal(end, 'a limit ended it: cpu');
  assert.match(sampled, /1 of 8 was measured/);
  assert.match(lost, /^3\D?000 calls left out by sampling: not measured$/);
  assert.deepEqual(more, []);
});

test('durations have three digits and a unit', () => {
  const texts = [[0, '0 ns'], [428, '428 ns'], [1234, '1.23 µs'], [12345, '12.3 µs'],
    [123456, '123 µs'], [1.5e9, '1.50 s'], [1.2e12, '1200 s']];
  for (const [ns, text] of texts) assert.equal(nanoseconds(ns), text);
});
