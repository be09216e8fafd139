// The table of allocators: what they had at the readings that a selection ends and begins with.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allocatorsOf, allocatorTable } from '../../src/model/allocators.js';
import { buildProfile } from './build_profile.mjs';

const at = (seconds, values) => ({ us: seconds * 1e6, values: Object.fromEntries(
    Object.entries(values).map(([name, n]) => [`node_${name}`, n])) });
const of = async (own) => allocatorsOf(await buildProfile({ processes: [{ pid: '<0.1.0>' }],
  samples: [{ process: 0, us: 0 }, { process: 0, us: 9e6 }], own }));
const READINGS = [
  at(1, { allocator_carriers: 100, allocator_blocks: 80, alloc_ll_carriers: 60,
    alloc_ll_blocks: 50, alloc_ll_sbc_carriers: 7, alloc_ll_largest_free: 9, alloc_ll_pool: 1 }),
  at(4, { allocator_carriers: 300, allocator_blocks: 90, alloc_ll_carriers: 200,
    alloc_ll_blocks: 55, alloc_ll_sbc_carriers: 7, alloc_ll_largest_free: 99, alloc_ll_pool: 2 }),
  at(7, { allocator_carriers: 200, allocator_blocks: 20, alloc_ll_carriers: 100,
    alloc_ll_blocks: 10, alloc_ll_sbc_carriers: 7, alloc_ll_largest_free: 80, alloc_ll_pool: 0,
    alloc_ll_mseg: 70, alloc_ll_sys: 30 }),
];
const brief = ({ rows }) => rows.map(({ id, allocated, allocatedChange, used, usedChange }) =>
    [id, allocated, allocatedChange, used, usedChange]);

test('of the whole time it is the last reading, and changes are since the first', async () => {
  const table = allocatorTable(await of(READINGS), null);
  assert.deepEqual([table.sinceUs, table.atUs], [1e6, 7e6]);
  assert.deepEqual(brief(table), [['all', 200, 100, 20, -60], ['ll', 100, 40, 10, -40]]);
  const [, { fragmentation, hole, pool, single, mseg, sys }] = table.rows;
  assert.deepEqual([fragmentation, hole, pool, single, mseg, sys], [0.9, 80, 0, 7, 70, 30]);
});

test('a selection ends and begins with the readings before', async () => {
  const found = await of(READINGS);
  assert.deepEqual(brief(allocatorTable(found, [4e6, 7e6])), [['all', 300, 0, 90, 0],
    ['ll', 200, 0, 55, 0]]);
  assert.deepEqual(brief(allocatorTable(found, [3e6, 5e6])), [['all', 300, 200, 90, 10],
    ['ll', 200, 140, 55, 5]]);
});

test('a reading that tells of no allocator is none', async () => {
  const found = await of([at(0.5, { memory_total: 5 }), ...READINGS, at(8, { memory_total: 5 })]);
  const { sinceUs, atUs } = allocatorTable(found, null);
  assert.deepEqual([sinceUs, atUs], [1e6, 7e6]);
  assert.equal(allocatorTable(found, [0.7e6, 9e6]).sinceUs, 1e6);
});

test('before the first reading nothing is known', async () => {
  assert.equal(allocatorTable(await of(READINGS), [0, 1e6]), null);
});

test('an allocator that the last reading does not tell of is left out', async () => {
  const found = await of([READINGS[0], at(5, { allocator_carriers: 7, allocator_blocks: 7 })]);
  assert.deepEqual(brief(allocatorTable(found, null)), [['all', 7, -93, 7, -73]]);
});

test('a hole that is not told is not known, and all of them together have none', async () => {
  const [all, one] = allocatorTable(await of([at(1, { allocator_carriers: 10,
    allocator_blocks: 5, alloc_ets_carriers: 10, alloc_ets_blocks: 5 })]), null).rows;
  assert.ok(Number.isNaN(one.hole));
  assert.equal(all.hole, undefined);
});

test('a file without allocators has no table', async () => {
  assert.equal(await of([at(1, { memory_total: 5 })]), null);
});
