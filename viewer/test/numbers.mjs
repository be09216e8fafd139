// The numbers on the page are those of the file, as viewer_oracle.erl has them.

import assert from 'node:assert/strict';
import { parseCsv, saved, show } from './browser.mjs';

export function numberTests(test, expected, openShown) {
  test(`every sample is shown (${expected.samples})`, async () => {
    const page = await openShown();
    await show(page, expected.heat[0].hash);
    const cells = await heat(page);
    assert.equal(sum(cells.map((cell) => Number(cell.samples))), expected.samples);
  });
  test(`ticks are those that the session counted (${expected.ticks})`, async () => {
    const page = await openShown();
    await show(page, expected.heat[0].hash);
    const ticks = sum((await heat(page)).map((cell) => Number(cell.ticks)));
    assert.ok(ticks > 0 && ticks <= expected.ticks, `${ticks}`);
    if (expected.isWhole) assert.equal(ticks, expected.ticks);
  });
  test(`lines of ${expected.lines.length} seconds`, async () =>
      compareLines(await openShown(), expected.heat[0], expected.lines));
  for (const query of expected.heat) {
    test(`heatmap ${query.hash}`, async () =>
        compareHeat(await openShown(), query, expected.samples));
  }
  for (const query of expected.flame) {
    test(`flame graph ${query.hash}`, async () => compareFlame(await openShown(), query));
  }
  for (const query of expected.compare) {
    test(`comparison ${query.hash}`, async () => compareBoth(await openShown(), query));
    test(`elided ${query.hash}`, async () => compareElided(await openShown(), query));
  }
  for (const query of expected.processes) {
    test(`table ${query.hash}`, async () => compareProcesses(await openShown(), query));
  }
  for (const query of expected.functions) {
    test(`functions ${query.hash}`, async () => compareFunctions(await openShown(), query));
  }
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

async function heat(page) {
  return parseCsv(String(await saved(page, 'save the heatmap as CSV')));
}

async function stacks(page) {
  return parseCsv(String(await saved(page, 'save the flame graph as CSV')));
}

// Of several observations in one sample the file has the time of the last; none is lost.
async function compareHeat(page, { hash, cells }, samples) {
  await show(page, hash);
  const [, id] = /measure=([^&]*)/.exec(hash);
  const all = await heat(page);
  if (id !== 'samples' && !id.endsWith('.delta')) return compareMeans(all, id, cells);
  assert.equal(sum(all.map((cell) => Number(cell.samples))), samples);
  const wanted = new Map(cells.map(([at, ...numbers]) => [at, numbers]));
  for (const cell of all) {
    const [value, least] = wanted.get(Number(cell.from_us)) ?? [0, 0];
    assert.ok(Number(cell.samples) >= least, `cell at ${cell.from_us}`);
    near(Number(cell[id]), id === 'samples' ? Number(cell.samples) : value,
        `cell at ${cell.from_us}`);
  }
}

// A cell in which no process is known has none.
function compareMeans(got, id, cells) {
  const wanted = new Map(cells);
  assert.ok(wanted.size > 0);
  for (const cell of got) {
    near(Number(cell[id]), wanted.get(Number(cell.from_us)) ?? 0, `cell at ${cell.from_us}`);
  }
}

async function compareLines(page, { hash }, wanted) {
  await show(page, hash);
  const rows = parseCsv(String(await saved(page, 'save the lines as CSV')));
  const known = rows.filter((row) => row.rate !== '');
  const got = known.map((row) => [row.second, row.rate, row.run_queues, row.memory, row.missed,
      row.dropped].map(Number));
  assert.deepEqual(got, wanted.map(([second, millihertz, ...others]) =>
      [second, millihertz / 1000, ...others.slice(0, 4)]));
  wanted.forEach(([second, , , , , , active, total], i) => {
    if (total > 0) near(Number(known[i].scheduler_use), (100 * active) / total,
        `schedulers in second ${second}`);
  });
}

function near(got, wanted, what) {
  assert.ok(Math.abs(got - wanted) <= 1e-9 * Math.max(1, Math.abs(wanted)),
      `${what}: ${got}, not ${wanted}`);
}

const sorted = (rows) => rows.sort(([a], [b]) => (a < b ? -1 : 1));

async function compareFlame(page, { hash, stacks: wanted }) {
  await show(page, hash);
  const rows = await stacks(page);
  const own = rows.filter((row) => row.self !== '0').map((row) => [row.stack, Number(row.self)]);
  assert.deepEqual(sorted(own), sorted(wanted.map(([path, weight]) => [path, weight])));
  const totals = totalsOf(wanted, 1);
  for (const row of rows) assert.equal(Number(row.total), totals.get(row.stack) ?? 0, row.stack);
  const counts = totalsOf(wanted, 2);
  for (const row of rows) assert.equal(Number(row.samples), counts.get(row.stack) ?? 0, row.stack);
}

// Of every path that begins a stack. A frame's name may hold no ";".
function totalsOf(wanted, place) {
  const totals = new Map([['', 0]]);
  for (const row of wanted) {
    const parts = row[0] === '' ? [] : row[0].split(';');
    for (let n = 0; n <= parts.length; n++) {
      const path = parts.slice(0, n).join(';');
      totals.set(path, (totals.get(path) ?? 0) + row[place]);
    }
  }
  return totals;
}

async function compareBoth(page, { hash, stacks: wanted }) {
  const [here, there] = [totalsOf(wanted, 1), totalsOf(wanted, 2)];
  for (const isAbsolute of [false, true]) {
    await show(page, `${hash}&absolute=${Number(isAbsolute)}`);
    // A machine that stood still may have left nothing in the other range.
    const scale = isAbsolute || there.get('') === 0 ? 1 : here.get('') / there.get('');
    const rows = await stacks(page);
    assert.equal(rows.length, new Set([...here.keys(), ...there.keys()]).size);
    for (const row of rows) {
      assert.equal(Number(row.total), here.get(row.stack), row.stack);
      assert.equal(Number(row.other_total), there.get(row.stack), row.stack);
      near(Number(row.change), here.get(row.stack) - there.get(row.stack) * scale, row.stack);
    }
  }
}

async function compareElided(page, { hash, stacks: wanted }) {
  await show(page, `${hash}&compare=elided`);
  const there = totalsOf(wanted, 2);
  const left = totalsOf(wanted.filter(([path]) => there.get(path) === 0), 1);
  for (const row of await stacks(page)) assert.equal(Number(row.width), left.get(row.stack) ?? 0,
      row.stack);
}

async function compareProcesses(page, { hash, rows: wanted }) {
  await show(page, hash);
  const rows = parseCsv(String(await saved(page, 'save the processes as CSV')));
  const got = Object.fromEntries(rows.map((row) => [row.pid, row]));
  assert.deepEqual(Object.keys(got).sort(), wanted.map((row) => row.pid).sort());
  for (const { pid, name, statuses, ...numbers } of wanted) {
    assert.equal(got[pid].name, name);
    for (const [key, number] of Object.entries({ ...numbers, ...statuses })) {
      assert.equal(Number(got[pid][key]), number, `${key} of ${pid}`);
    }
  }
}

async function compareFunctions(page, { hash, rows: wanted }) {
  await show(page, hash);
  const rows = parseCsv(String(await saved(page, 'save the functions as CSV')));
  const got = rows.map((row) => [row.function, Number(row.total), Number(row.self)]);
  assert.deepEqual(sorted(got), sorted(wanted));
}
