// A session's file of allocations beside that of its samples: what the page shows is compared with
// the story of test/support/made_allocations.erl, which made both.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { change, openPage, parseCsv, saved } from './browser.mjs';
import { state, text } from './visitor.mjs';

const NAME = '2026-11-21@0154.07.shop@host.erl_';
const SAMPLES = `${NAME}perf.log`;
const ALLOCATIONS = `${NAME}alloc.log`;
const LATER_US = 1e6; // the samples begin so much earlier
const WORD = 8;
const LEFT_OUT = ['CPU', 'waiting', 'mailbox', 'garbage collection', 'heatmap'];

export function allocationTests(test, { browser, allocations: url, dir, story }) {
  const withPage = (hash, run, options) => async () => {
    const page = await openPage(browser, `${url}#${hash}`, options);
    try {
      await run(page);
      assert.deepEqual(page.complaints, []);
    } finally {
      await page.context().close();
    }
  };
  const ofFile = `file=${encodeURIComponent(ALLOCATIONS)}`;
  const bytes = (is = () => true) => story.reduce((sum, one) =>
      sum + (is(one) ? WORD * one.words : 0), 0);

  test('the page opens the samples, and loads nothing for allocations', withPage('',
      async (page) => {
    assert.match(await text(page, '.facts'), /200 samples, 2 processes/);
    assert.equal(await page.locator('select[aria-label=profile]').inputValue(), SAMPLES);
    assert.ok(page.requested.every((address) => !address.includes('allocations.js')));
  }));

  test('who allocates is shown at the same time, and the way back, too',
      withPage('range=1500000-2500000', async (page) => {
    const button = '.questions button:text("who allocates")';
    await change(page, () => page.click(button));
    const { file, range } = await state(page);
    assert.equal(file, ALLOCATIONS);
    assert.equal(range, '500000-1500000');
    const total = bytes(({ at_us: at }) => at >= 1.5e6 - LATER_US && at < 2.5e6 - LATER_US);
    assert.equal(await totalOf(page), total);
    assert.equal(await page.getAttribute(button, 'aria-pressed'), 'true');
    await change(page, () => page.click(button));
    const back = await state(page);
    assert.equal(back.file, SAMPLES);
    assert.equal(back.range, '1500000-2500000');
    assert.equal(await page.getAttribute(button, 'aria-pressed'), 'false');
  }));

  test('the flame graph is the story\'s, in bytes', withPage(`${ofFile}&lines=1`, async (page) => {
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const self = new Map(rows.filter((row) => Number(row.self) > 0).map((row) =>
        [row.stack, Number(row.self)]));
    const wanted = new Map();
    for (const { fate, frames, words } of story) {
      const stack = [fate.replace('_', ' '), ...[...frames].reverse().map((frame) =>
          frame.split(' ')[0])].join(';');
      wanted.set(stack, (wanted.get(stack) ?? 0) + WORD * words);
    }
    assert.deepEqual([...self].sort(), [...wanted].sort());
    assert.match(await text(page, '.summary'), /^allocated: 80,098,312 bytes \(76\.4 MiB\)/);
  }));

  test('it is grouped by process, and searched', withPage(`${ofFile}&levels=process&search=cache`,
      async (page) => {
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    for (const who of ['parser', 'cache', 'reader']) {
      assert.equal(Number(rows.find(({ stack }) => stack === who).total),
          bytes((one) => one.who === who));
    }
    const share = (100 * bytes(({ who }) => who === 'cache')) / bytes();
    assert.ok((await text(page, '.found')).includes(`${share.toFixed(1)} %`));
  }));

  test('nothing is asked that only samples answer', withPage(ofFile, async (page) => {
    const buttons = await page.$$eval('.questions button', (all) => all.map((one) =>
        one.textContent));
    for (const title of LEFT_OUT) assert.ok(!buttons.includes(title), title);
    assert.equal(await page.locator('select[aria-label=statuses]').count(), 0);
    assert.equal(await page.locator('select[aria-label=measure]').count(), 0);
    assert.ok(await page.locator('.lane-scroller').isHidden());
    assert.ok(await page.locator('.tracks').isVisible());
    assert.doesNotMatch(await text(page, '.levels'), /status|queue/);
  }));

  test('drag in its timeline selects time', withPage(ofFile, async (page) => {
    const box = await page.locator('.tracks').boundingBox();
    const { left, pixels } = await page.$eval('.timeline-view', ({ dataset }) => ({ ...dataset }));
    const x = (part) => box.x + Number(left) + part * Number(pixels);
    await change(page, async () => {
      await page.mouse.move(x(0.25), box.y + 20);
      await page.mouse.down();
      await page.mouse.move(x(0.5), box.y + 20, { steps: 4 });
      await page.mouse.up();
    });
    const [from, to] = (await state(page)).range.split('-').map(Number);
    assert.ok(from > 0 && to > from);
    assert.equal(await totalOf(page), bytes(({ at_us: at }) => at >= from && at < to));
  }));

  test('who allocated how much, and the long collections, the longest first',
      withPage(`${ofFile}&view=processes`, async (page) => {
    const processes = parseCsv(await saved(page, 'save the processes as CSV'));
    for (const { name, allocated, kept, garbage, notKnown } of processes) {
      const of = (fate) => bytes((one) => one.who === name && one.fate === fate);
      assert.deepEqual([allocated, kept, garbage, notKnown].map(Number),
          [bytes((one) => one.who === name), of('kept'), of('garbage'), of('not_known')]);
    }
    assert.equal(processes.length, 3);
    const collections = parseCsv(await saved(page, 'save the collections as CSV'));
    const long = story.filter(({ long_us: us }) => us > 0).sort((a, b) => b.long_us - a.long_us);
    assert.deepEqual(collections.map(({ took, name, at }) => [Number(took), name, Number(at)]),
        long.map(({ long_us: us, who, at_us: at }) => [us, who, at]));
    assert.deepEqual(collections.map(({ kind, cause, top }) => [kind, cause, top]), [
      ['major', 'fragments', 'reader:loop/1'],
      ['major', 'heap', 'maps:put/3'],
      ['minor', 'binaries', 'json:decode/1'],
    ]);
    await change(page, () => page.click('table[aria-label=collections] tbody tr'));
    assert.equal((await state(page)).pids, '<0.103.0>');
  }));

  test('a report of a file of allocations shows who allocates', async () => {
    const page = await openPage(browser, `file://${join(dir, 'allocations.html')}`);
    assert.equal(await totalOf(page), bytes());
    assert.equal(await page.locator('[role=tab]:text("Processes")').count(), 0);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });
}

async function totalOf(page) {
  return Number(await page.$eval('.panel[data-total]', ({ dataset }) => dataset.total));
}
