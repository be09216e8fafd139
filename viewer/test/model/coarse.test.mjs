// Where a report has merged samples: what the page says of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { coarseOf, coarseText } from '../../src/model/coarse.js';

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
