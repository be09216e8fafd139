// The node's memory on the timeline, and its allocators: what the text of the file says.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { change, judged, openMenu, openPage, parseCsv, saved } from './browser.mjs';

const FILE = 'memory.log';
const MIB = 1024 * 1024;

export function memoryTests(test, { browser, url, dir }) {
  const readings = readingsOf(readFileSync(join(dir, 'profiles', FILE), 'utf8'));
  const withPage = (more, run, file = FILE) => async () => {
    const page = await openPage(browser, `${url}#file=${file}${more}`,
        { viewport: { width: 1440, height: 900 } });
    try {
      await judged(page); // findings move what is below them
      await run(page);
      assert.deepEqual(page.complaints, []);
    } finally {
      await page.context().close();
    }
  };
  const opened = '[aria-label="allocators"]';
  const openTable = async (page) => {
    await openMenu(page, 'Timeline');
    await change(page, () => page.click('.menu button:text-is("allocators")'));
    await page.click('.timeline-bar .sampled'); // closes the menu
  };

  // What the track tells at a second, so far above the axis: that of memory, or below it.
  async function toldAt(page, second, above = 50) {
    const { left, pixels } = await page.$eval('.timeline-view', ({ dataset }) => ({ ...dataset }));
    const view = await page.locator('.tracks').boundingBox();
    await page.mouse.move(view.x + Number(left) + (second / 12.9) * Number(pixels),
        view.y + view.height - above);
    return page.textContent('.tip');
  }

  const tableOf = async (page) => parseCsv(await saved(page, 'save the allocators as CSV'));

  function expected(at, since) {
    const [last, first] = [readings[at], readings[since]];
    const row = (title, names) => {
      const [allocated, used, hole, pool, single, mseg, sys] = names.map((name) => last[name]);
      return { title, allocated, allocatedChange: allocated - first[names[0]], used,
        usedChange: used - first[names[1]], fragmentation: 1 - used / allocated, hole, pool,
        single, mseg, sys };
    };
    return [
      row('all', ['node_allocator_carriers', 'node_allocator_blocks']),
      ...['binary', 'eheap', 'ets'].map((name) => row(name, ['carriers', 'blocks', 'largest_free',
        'pool', 'sbc_carriers', 'mseg', 'sys'].map((what) => `node_alloc_${name}_${what}`))),
    ].map((one) => Object.fromEntries(Object.entries(one).map(([key, value]) =>
        [key, value === undefined ? '' : String(value)])));
  }
  const byTitle = (rows) => [...rows].sort((a, b) => (a.title < b.title ? -1 : 1));

  test('the memory lane tells kinds, RSS, its limit, and carriers', withPage('', async (page) => {
    const at = readings[7];
    const told = await toldAt(page, 7);
    for (const [what, name] of [['RSS', 'node_rss'], ['limit of the cgroup', 'node_rss_limit'],
      ['binary', 'node_memory_binary'], ['ets', 'node_memory_ets']]) {
      assert.ok(told.includes(`${what}: ${inMib(at[name])}`), `${what} in ${told}`);
    }
    assert.match(told, /carriers from 6\.0 to 7\.0 s: 1 taken, 0 given back/);
    assert.match(await toldAt(page, 11), /carriers from 10\.0 to 11\.0 s: 0 taken, 2 given back/);
  }));

  test('a button opens the table of all allocators, and closes it', withPage('', async (page) => {
    assert.equal(await page.locator(opened).count(), 0);
    await openTable(page);
    assert.deepEqual(byTitle(await tableOf(page)), expected(12, 0));
    assert.match(await page.textContent('.allocators .bar'), /as read at 12 s, changes since 0 s/);
    const row = await page.textContent(`${opened} tbody tr:has-text("binary")`);
    assert.match(row, /binary\s*204 MiB\s*\+194 MiB\s*8\.00 MiB\s*0 B\s*96\.1 %\s*196 MiB/);
    assert.match(await page.textContent(`${opened} tbody tr:has-text("eheap")`), /not known/);
    await openTable(page);
    assert.ok(await page.locator('.allocators').isHidden());
  }));

  test('the table is of the end of the selection, its changes are since its begin',
      withPage('&allocators=all&range=4200000-8700000', async (page) => {
    assert.deepEqual(byTitle(await tableOf(page)), expected(8, 4));
  }));

  test('between two readings it is the one before',
      withPage('&allocators=all&range=5100000-5900000', async (page) => {
    assert.deepEqual(byTitle(await tableOf(page)), expected(5, 5));
  }));

  test('a click shows an allocator over time', withPage('&allocators=all', async (page) => {
    assert.match(await toldAt(page, 7), /^all at 7\.0 s/);
    await change(page, () => page.click(`${opened} tbody tr:has-text("binary")`));
    const told = await toldAt(page, 9);
    const { node_alloc_binary_carriers: allocated, node_alloc_binary_blocks: used } = readings[9];
    for (const text of ['binary at 9.0 s', `${inMib(allocated)} allocated`,
      `used: ${inMib(used)}`, `free: ${inMib(allocated - used)}`]) {
      assert.ok(told.includes(text), `${text} in ${told}`);
    }
  }));

  test('a report has the table, too', async () => {
    const page = await openPage(browser, `file://${join(dir, 'memory.html')}`);
    await openTable(page);
    assert.deepEqual(byTitle(await tableOf(page)), expected(12, 0));
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('a file that does not tell has no button', withPage('', async (page) => {
    assert.equal(await page.locator('.menu button:text-is("allocators")').count(), 0);
  }, 'gaps.log'));
}

function inMib(bytes) {
  const mib = bytes / MIB;
  return `${mib.toFixed(mib >= 100 ? 0 : mib >= 10 ? 1 : 2)} MiB`;
}

// The profiler's own samples: by reading, the value of each name.
function readingsOf(text) {
  return text.split('\n').filter((line) => line.includes('name=flame_prof')).map((line) =>
    Object.fromEntries(Array.from(line.matchAll(/(\w+)=(\d+)\/0/g), ([, name, n]) =>
        [name, Number(n)])));
}
