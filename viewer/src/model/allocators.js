// What the VM's allocators had at each reading (doc/format.md, node_alloc_*): nothing is known
// between two of them.

import { isKnown } from './numbers.js';

const WHATS = ['carriers', 'blocks', 'largest_free', 'pool', 'sbc_carriers', 'mseg', 'sys'];
const OF_ONE = /^node_alloc_([a-z]+)_carriers$/;

/**
 * @returns {timesUs, list: [{id, title, allocated, used, hole, pool, single, mseg, sys: bytes by
 * time, NaN where a reading does not tell; from hole on undefined where there is none}]}, all of
 * them together first, or null: the file tells of none
 */
export async function allocatorsOf(profile) {
  const figures = await profile.nodeFigures();
  const one = async (id, title, names) => {
    const [allocated, used, hole, pool, single, mseg, sys] =
        await Promise.all(names.map((name) => figures.of(name)));
    return { id, title, allocated, used, hole, pool, single, mseg, sys };
  };
  const ids = profile.header.metrics.flatMap(({ name }) => OF_ONE.exec(name)?.[1] ?? []).sort();
  const list = await Promise.all([
    one('all', 'all', ['node_allocator_carriers', 'node_allocator_blocks']),
    ...ids.map((id) => one(id, id, WHATS.map((what) => `node_alloc_${id}_${what}`))),
    one('super_carrier', 'super carrier',
        ['node_super_carrier', 'node_super_carrier_used']),
  ]);
  const known = list.filter(({ allocated }) => allocated.some(isKnown));
  return known.length === 0 ? null : { timesUs: figures.timesUs, list: known };
}

/**
 * @param range [fromUs, toUs) or null: all of the time
 * @returns {atUs, sinceUs, rows: [{id, title, allocated, used, fragmentation: of 1, hole, pool,
 * single, mseg, sys: at the range's end, undefined: there is none; allocatedChange, usedChange:
 * over it}]}, or null: there is no reading by then
 */
export function allocatorTable({ timesUs, list }, range) {
  const [fromUs, toUs] = range ?? [-Infinity, Infinity];
  const isTold = (i) => list.some(({ allocated }) => isKnown(allocated[i]));
  const end = timesUs.findLastIndex((us, i) => us < toUs && isTold(i));
  if (end < 0) return null;
  // What it had when the range began is the reading before; the first one, where there is none.
  const before = timesUs.findLastIndex((us, i) => us <= fromUs && i <= end && isTold(i));
  const begin = before >= 0 ? before : timesUs.findIndex((_, i) => isTold(i));
  const rows = list.map(({ id, title, ...of }) => ({ id, title, allocated: of.allocated[end],
    used: of.used[end], hole: of.hole?.[end], pool: of.pool?.[end], single: of.single?.[end],
    mseg: of.mseg?.[end], sys: of.sys?.[end],
    fragmentation: 1 - of.used[end] / of.allocated[end],
    allocatedChange: of.allocated[end] - of.allocated[begin],
    usedChange: of.used[end] - of.used[begin] }));
  return { atUs: timesUs[end], sinceUs: timesUs[begin],
    rows: rows.filter(({ allocated }) => isKnown(allocated)) };
}
