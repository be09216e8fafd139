// A profile that has grown by pieces of its index is the profile of the whole index. The indexes
// are written here, by doc/dev/viewer_index.md, of rows that are made by chance.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBytes } from '../../src/decode/bytes.js';
import { openIndex } from '../../src/decode/index_file.js';
import { openProfile } from '../../src/model/profile.js';

const METRICS = ['reductions', 'memory', 'rare', 'late'];
const ARRAYS = { u8: Uint8Array, u16: Uint16Array, i32: Int32Array, u32: Uint32Array,
  f64: Float64Array };

// The same numbers at each run.
function chance(seed) {
  let state = seed;
  return (n) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor((state / 2 ** 31) * n);
  };
}

function makeRows(count, { period = () => 1 } = {}) {
  const random = chance(7);
  const last = new Map();
  return Array.from({ length: count }, (_, row) => {
    const process = random(3 + (row >> 5));
    const schema = row > 200 && random(30) === 0 ? 1 : 0;
    const values = [row * 1000, random(row > 150 ? 2 ** 40 : 200), row % 40 === 0 ? 9 : 0,
      schema === 1 ? row : 0];
    const has = schema === 1 ? [0, 1, 2, 3] : [0, 1, 2];
    const deltas = values.map((value, metric) => {
      if (!has.includes(metric)) return 0;
      const key = `${process} ${metric}`;
      const plain = value - (last.get(key) ?? value);
      last.set(key, value);
      return random(50) === 0 ? plain + 1 : plain;
    });
    return { process, schema, values, deltas, time_us: 1000 * (row >> 2), status: row & 1,
      node: 1 + random(1 + (row >> 1)), period: period(row), event: 0, file: 0,
      is_own: process === 0 };
  });
}

class Writer {
  constructor() {
    this.arrays = [];
    this.bytes = 0;
  }

  column(type, numbers) {
    if (type === 'const') return { type, count: numbers.length, value: numbers[0] };
    const array = ARRAYS[type].from(numbers);
    const column = { type, count: numbers.length, offset: this.bytes };
    this.arrays.push([this.bytes, array]);
    this.bytes = (this.bytes + array.byteLength + 7) & ~7;
    return column;
  }

  file(header) {
    const text = new TextEncoder().encode(JSON.stringify({ ...header, data_bytes: this.bytes }));
    const size = (text.length + 7) & ~7;
    const buffer = new ArrayBuffer(16 + size + this.bytes);
    const whole = new Uint8Array(buffer).fill(32, 16, 16 + size);
    whole.set(new TextEncoder().encode('FPINDEX1'));
    new DataView(buffer).setUint32(8, size, true);
    whole.set(text, 16);
    for (const [at, array] of this.arrays) whole.set(new Uint8Array(array.buffer), 16 + size + at);
    return buffer;
  }
}

// `kinds`: how each metric is written. Names of processes are of the last row so far.
function indexOf(rows, from, to, kinds) {
  const w = new Writer();
  const some = rows.slice(from, to);
  const all = rows.slice(0, to);
  const processes = Math.max(...all.map((row) => row.process)) + 1;
  const texts = (end) => Array.from({ length: 1 + end }, (_, i) => (i === 0 ? '' : `m:f${i}/0`));
  const [before, now] = [from === 0 ? [] : texts(from), texts(to)];
  const size = (list) => list.join('').length;
  const ends = now.map((_, i) => size(now.slice(0, i + 1)));
  const perProcess = (of) => Array.from({ length: processes }, (_, p) => of(p));
  const column = (name, type) => w.column(type, some.map((row) => row[name]));
  const has = (metric) => (row) => (metric === 3 ? row.schema === 1 : true);
  const listed = (test) => some.flatMap((row, i) => (test(row) ? [i] : []));
  const metric = (name, m) => {
    const value = (i) => some[i].values[m];
    const delta = (i) => some[i].deltas[m];
    const count = some.length;
    const pair = (type, key, at, of) => ({ type, count,
      rows: w.column('u32', at.map((i) => from + i)), [key]: w.column('f64', at.map(of)) });
    const every = some.map((_, i) => i);
    const about = { name, unit: 'count', samples: 1 };
    if (kinds[m] === 'sparse') {
      const at = listed((row) => has(m)(row) && (m !== 2 || row.values[2] !== 0
          || row.deltas[2] !== 0));
      return { ...about, value: pair('sparse', 'values', at, value),
        delta: pair('sparse', 'values', at, delta) };
    }
    const values = w.column('f64', every.map(value));
    if (kinds[m] === 'whole') return { ...about, value: values,
      delta: w.column('f64', every.map(delta)) };
    const odd = oddRows(rows, m, has(m)).filter((row) => row >= from && row < to);
    return { ...about, value: values,
      delta: pair('derived', 'deltas', odd.map((row) => row - from), delta) };
  };
  const metrics = METRICS.slice(0, to > 200 ? 4 : 3).map(metric);
  const [frames, nodes] = [to, to + 1];
  const part = (list, begin) => list.slice(begin);
  const numbers = (n) => Array.from({ length: n }, (_, i) => i);
  return w.file({
    format: 'flame_prof index', version: 4, rows: some.length, packed: 0, ordered: 1,
    start_us: 5e15, end_us: 5e15 + rows[to - 1].time_us,
    ...(from > 0 && { from: { rows: from } }),
    files: [{ dialect: 'flame_prof' }], events: ['x'], statuses: ['waiting', 'running'],
    schemas: [[0, 1, 2], [0, 1, 2, 3]],
    own_rows: w.column('u32', listed((row) => row.is_own).map((i) => from + i)),
    tables: {
      string_end: w.column('u32', part(ends, before.length)),
      string_bytes: w.column('u8', new TextEncoder().encode(now.join('').slice(size(before)))),
      frame_symbol: w.column('u32', part(numbers(frames), from)),
      frame_dso: w.column('u32', part(numbers(frames).fill(0), from)),
      node_parent: w.column('u32', part(numbers(nodes).map((n) => Math.max(0, n - 1)),
          from === 0 ? 0 : from + 1)),
      node_frame: w.column('u32', part(numbers(nodes).map((n) => Math.max(0, n - 1)),
          from === 0 ? 0 : from + 1)),
      process_pid: w.column('f64', perProcess(() => 7)),
      process_tid: w.column('f64', perProcess((p) => p)),
      process_is_own: w.column('u8', perProcess((p) => Number(p === 0))),
      process_erl_pid: w.column('u32', perProcess(() => 0)),
      ...Object.fromEntries(['label', 'proc_lib_initial_call', 'initial_call', 'comm'].map(
          (name) => [`process_${name}`, w.column('u32', perProcess(() => 0))])),
      process_name: w.column('u32', perProcess((p) => (to > 100 ? p + 1 : 0))),
    },
    columns: {
      process: column('process', processes < 256 ? 'u8' : 'u16'),
      time_us: column('time_us', 'u32'),
      status: column('status', 'u8'),
      node: column('node', to > 128 ? 'u16' : 'u8'),
      period: column('period', some.every((row) => row.period === 1) ? 'const' : 'i32'),
      schema: column('schema', 'u8'),
      event: column('event', 'const'),
      file: column('file', 'const'),
    },
    metrics,
  });
}

function oddRows(rows, m, has) {
  const last = new Map();
  return rows.flatMap((row, at) => {
    if (!has(row)) return [];
    const plain = row.values[m] - (last.get(row.process) ?? row.values[m]);
    last.set(row.process, row.values[m]);
    return row.deltas[m] === plain ? [] : [at];
  });
}

const opened = (buffer) => openIndex(memoryBytes(buffer));
const KINDS = ['derived', 'whole', 'sparse', 'derived'];

async function everything(profile) {
  await profile.need('process', 'time_us', 'status', 'node', 'period', 'schema', 'event', 'file');
  const { columns, tables, rows, looks, since, lookCount, header, durationUs } = profile;
  const list = (array) => array && Array.from(array);
  const metrics = header.metrics.map((_, m) => m);
  const asked = [3, 40, 200, 399].filter((row) => row < rows);
  return {
    rows, lookCount, durationUs, looks: list(looks), since: list(since),
    ownRows: list(profile.ownRows),
    columns: Object.fromEntries(Object.entries(columns).map(([name, of]) => [name, list(of)])),
    tables: Object.fromEntries(Object.entries(tables).map(([name, of]) => [name, list(of)])),
    values: await Promise.all(metrics.map(async (m) => list(await profile.values(m)))),
    deltas: await Promise.all(metrics.map(async (m) => list(await profile.deltas(m)))),
    numbers: await Promise.all(metrics.flatMap((m) => ['value', 'delta'].map(async (kind) =>
        list(await profile.numbersAt(m, kind, asked)).map((n) => n || 0)))),
    labels: Array.from({ length: profile.processCount }, (_, p) => profile.label(p)),
    ticks: (await profile.ticks()).starts.length,
  };
}

async function compare(rows, cuts, { load, kinds = () => KINDS }) {
  let profile = await openProfile(await opened(indexOf(rows, 0, cuts[0], kinds(0))), 'a');
  await load(profile);
  for (let i = 1; i < cuts.length; i++) {
    const piece = await opened(indexOf(rows, cuts[i - 1], cuts[i], kinds(i)));
    const before = profile;
    const old = Object.fromEntries(Object.entries(before.columns).map(([name, of]) =>
        [name, Array.from(of)]));
    profile = await before.appended(piece);
    for (const name of Object.keys(old)) {
      assert.deepEqual(Array.from(before.columns[name]), old[name]);
    }
  }
  const end = cuts.at(-1);
  const whole = await openProfile(await opened(indexOf(rows, 0, end, KINDS)), 'a');
  assert.deepEqual(await everything(profile), await everything(whole));
}

const CUTS = [[50, 400], [1, 2, 3, 120, 121, 260, 400], [100, 150, 200, 250, 300, 350, 400]];
const nothing = async () => {};
const loadAll = everything;
const loadSome = async (profile) => {
  await profile.need('process', 'node');
  await profile.deltas(0);
  await profile.values(1);
};

for (const [name, load] of Object.entries({ nothing, some: loadSome, everything: loadAll })) {
  test(`a profile that has grown is the whole one, with ${name} loaded before`, async () => {
    for (const cuts of CUTS) await compare(makeRows(400), cuts, { load });
  });
}

test('so it is when samples that stand for several come first, or later', async () => {
  for (const least of [0, 130]) {
    const period = (row) => (row >= least && row % 3 === 0 ? 4 : 1);
    for (const cuts of CUTS) await compare(makeRows(400, { period }), cuts, { load: loadAll });
  }
});

test('so it is when a metric is written in another way in each piece', async () => {
  const kinds = (i) => KINDS.map((_, m) => ['derived', 'whole', 'sparse'][(i + m) % 3]);
  for (const load of [nothing, loadSome, loadAll]) {
    for (const cuts of CUTS) await compare(makeRows(400), cuts, { load, kinds });
  }
});
