// The packed index of doc/dev/viewer_index.md, by streams that are written here number by number.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unpackColumns } from '../../src/decode/packed.js';

const number = (n) => (n < 128 ? [n] : [128 + (n % 128), ...number(Math.floor(n / 128))]);
// A double doubled is exact, and so is one below a sum of two numbers that are even.
const change = (n) => {
  const [first, ...rest] = number(2 * Math.abs(n));
  return [first + Number(n < 0), ...rest];
};
const changes = (...list) => list.flatMap(change);
const constant = { type: 'const', value: 0 };
const packed = { type: 'packed' };

function headerOf({ columns = {}, metrics = [], ...others }) {
  const names = ['process', 'time_us', 'status', 'node', 'period', 'schema', 'event', 'file',
    'scheduler'];
  return {
    data_bytes: 0, schemas: [metrics.map((_, m) => m)], ...others,
    tables: { process_samples: { type: 'coded', place: 0, count: others.processes } },
    columns: { ...Object.fromEntries(names.map((name) => [name, constant])), ...columns },
    metrics,
  };
}

const unpacked = (header, ...parts) => unpackColumns(header, Uint8Array.from(parts.flat()));

test('rows of a run are in the order of their processes', () => {
  const header = headerOf({ rows: 5, runs: 3, processes: 2 });
  const { columns } = unpacked(header, changes(3, -1), changes(100, 20, -50),
    number(0), number(1), number(0), number(1), number(1));
  assert.deepEqual([...columns.process], [0, 0, 0, 1, 1]);
  assert.deepEqual([...columns.time_us], [100, 120, 120, 120, 70]);
});

test('a number is the last one of its process until it changes', () => {
  const header = headerOf({ rows: 4, runs: 2, processes: 2, columns: { node: packed },
    metrics: [{ value: packed, delta: constant }] });
  const { columns, values } = unpacked(header, changes(2, 0), changes(0, 10),
    [0, 1, 0, 1].flatMap(number), [0b01, 0b10, 0b11, 0b00].flatMap(number),
    changes(300, 7), changes(-70000, 2 ** 40));
  assert.deepEqual([...columns.node], [300, 7, 300, 7]);
  assert.deepEqual([...values[0]], [0, 2 ** 40, -70000, 2 ** 40]);
});

test('more than 28 columns are in groups', () => {
  const metrics = Array.from({ length: 30 }, () => ({ value: packed, delta: constant }));
  const header = headerOf({ rows: 1, runs: 1, processes: 1, metrics });
  const { values } = unpacked(header, changes(1), changes(0), number(0),
    number(2 ** 28 - 1), ...metrics.slice(0, 28).map((_, m) => change(m + 1)),
    number(0b10), change(-5));
  assert.deepEqual(values.map(([value]) => value),
    [...Array.from({ length: 28 }, (_, m) => m + 1), 0, -5]);
});

test('numbers of any size are those of a double', () => {
  const header = headerOf({ rows: 2, runs: 2, processes: 1,
    metrics: [{ value: packed, delta: constant }] });
  const { values } = unpacked(header, changes(2), changes(0, 1), [0, 1].flatMap(number),
    [1, 1].flatMap(number), changes(-(2 ** 63), 2 ** 64));
  assert.deepEqual([...values[0]], [-(2 ** 63), 2 ** 63]);
});

test('values have their base, and deltas the differences', () => {
  const header = headerOf({ rows: 3, runs: 3, processes: 1, metrics: [
    { value: packed, delta: packed, differences: 1, base: [1, 8] },
    { value: packed, delta: constant },
  ] });
  const { values, deltas } = unpacked(header, changes(3), changes(0, 1, 1),
    [0, 1, 1].flatMap(number), [0b101, 0b010, 0b111].flatMap(number),
    changes(40, 1), changes(2, -2), changes(100, 10));
  assert.deepEqual([...values[1]], [100, 100, 110]);
  assert.deepEqual([...values[0]], [840, 840, 921]);
  assert.deepEqual([...deltas[0]], [0, 2, 81]);
});

test('a stream that ends too early or too late is refused', () => {
  const header = headerOf({ rows: 2, runs: 1, processes: 1 });
  const stream = [changes(2), changes(0), number(0), number(0)];
  assert.equal(unpacked(header, ...stream).columns.process.length, 2);
  assert.throws(() => unpacked(header, ...stream.slice(1)), /damaged/);
  assert.throws(() => unpacked(header, ...stream, [0]), /damaged/);
});
