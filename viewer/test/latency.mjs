// The latency panel of a page whose node runs: it measures what viewer_fixture:worked/1 takes,
// which that node calls all the time, and a page that goes ends it.

import assert from 'node:assert/strict';
import { openPage, parseCsv, saved } from './browser.mjs';
import { visitor } from './visitor.mjs';

const WORKED = 'viewer_fixture:worked/1';
const SLEPT = 'viewer_fixture:slept/1';

export function latencyTests(test, { browser, live, report }) {
  const { at } = visitor(browser, live, '');
  const withPage = (run, hash = '') => async () => {
    const page = await openPage(browser, `${live}#view=latency${hash}`);
    try {
      await page.waitForSelector('.latency-input');
      await run(page);
      assert.deepEqual(page.complaints, []);
    } finally {
      await page.context().close();
    }
  };

  test('calls of two functions have figures, groups, callers and heatmaps side by side',
      withPage(async (page) => {
    await measure(page, `${WORKED} ${SLEPT}`);
    await page.waitForFunction(() => document.querySelectorAll('.latency-card').length === 2);
    await seconds(page, 2);
    const rows = await calls(page);
    assert.deepEqual(rows.map((row) => row.function).sort(), [SLEPT, WORKED]);
    for (const row of rows) {
      assert.ok(Number(row.calls) > 0, JSON.stringify(row));
      const order = ['p50', 'p90', 'p99', 'p99.9', 'p99.99', 'max'].map((q) => Number(row[q]));
      assert.deepEqual(order, [...order].sort((a, b) => a - b));
    }
    // It sleeps that long: no machine is faster.
    assert.ok(Number(rows.find((row) => row.function === SLEPT).p50) >= 5e6);
    const card = page.locator('.latency-card', { hasText: SLEPT });
    const part = (title) => card.locator('table', { hasText: title });
    for (const title of ['by process group', 'by caller']) {
      const heads = await part(title).locator('th').allTextContents();
      const cells = await part(title).locator('tbody tr').first().locator('td').allTextContents();
      // It sleeps for 5 ms at least, each time.
      for (const name of ['p50', 'p99.99', 'max']) {
        assert.match(cells[heads.indexOf(name)], / m?s$/, `${title}: ${cells}`);
      }
    }
    const heights = await page.$$eval('.latency-heat', (all) => all.map(({ height }) => height));
    assert.equal(new Set(heights).size, 1);
    // Also where one name takes several lines.
    await page.$eval('.latency-card h3', (title) => (title.style.width = '80px'));
    const tops = await page.$$eval('.latency-heat', (all) => all.map((heat) =>
        Math.round(heat.getBoundingClientRect().top)));
    assert.equal(new Set(tops).size, 1, String(tops));
    assert.ok(await page.locator('.latency-heat').first().evaluate(hasColours));
  }));

  test('a function that the node has not is refused by its name', withPage(async (page) => {
    await measure(page, 'no_such_module_at_all:f/1');
    await page.waitForSelector('.latency-note');
    assert.match(await page.textContent('.latency-note'), /no_such_module_at_all/);
  }));

  test('it ends on request, and begins again, also at once', withPage(async (page) => {
    await measure(page, WORKED);
    await seconds(page, 1);
    await page.click('.latency button:text-is("end")');
    assert.match(await page.textContent('.latency form'), /ended after/);
    for (let times = 0; times < 4; times++) {
      await page.click('.latency button[type=submit]');
      await page.waitForFunction(() => /measuring: [0-9.]+ s, [1-9]|ended after/.test(
          document.querySelector('.latency form').textContent));
      assert.match(await page.textContent('.latency form'), /measuring/);
    }
  }));

  test('its seconds are a limit that it tells', withPage(async (page) => {
    await page.selectOption('.latency select', '10');
    await measure(page, WORKED);
    // Of a busy node there are other notes, too.
    await page.waitForSelector('.latency-note:text("max_seconds")');
    assert.match(await page.textContent('.latency form'), /ended after/);
  }));

  test('a page that is closed ends its measurement', async () => {
    const [first, second] = [await openPage(browser, `${live}#view=latency`),
      await openPage(browser, `${live}#view=latency`)];
    try {
      await measure(first, WORKED);
      await seconds(first, 1);
      await measure(second, SLEPT);
      await second.waitForSelector('.latency-note');
      assert.match(await second.textContent('.latency-note'), /one tracing at a time/);
      await first.context().close();
      // It is refused until the node has seen that.
      await second.waitForFunction(() => {
        const form = document.querySelector('.latency form');
        const isRunning = [...form.querySelectorAll('button')].some(({ textContent }) =>
            textContent === 'end');
        if (!isRunning) form.requestSubmit();
        return /measuring: [1-9]/.test(form.textContent);
      }, null, { polling: 250 });
    } finally {
      await second.context().close();
    }
  });

  test('what is typed is completed from the profile', withPage(async (page) => {
    await page.locator('.latency-input').pressSequentially('gen_');
    await page.waitForFunction(() => document.querySelectorAll('#latency-functions option')
        .length > 0);
    const offered = await page.$$eval('#latency-functions option', (all) =>
        all.map(({ value }) => value));
    for (const name of offered) assert.match(name, /gen_.*\/\d+$/);
  }));

  test('a frame of the flame graph can be measured', async () => {
    const page = await openPage(browser, live);
    await page.mouse.click(...(await at(page, '.flame', 20, 47)), { button: 'right' });
    await page.locator('.context-menu button').first().waitFor();
    const entries = await page.locator('.context-menu button').allTextContents();
    if (entries.includes('measure its latency')) {
      await page.click('.context-menu button:text-is("measure its latency")');
      await page.waitForSelector('.latency .chip');
      assert.match(await page.textContent('.latency .chip'), /\/\d+ ×$/);
    }
    await page.context().close();
  });

  test('a report has no such panel', async () => {
    const page = await openPage(browser, `file://${report}#view=latency`);
    assert.equal(await page.locator('[role=tab]:text-is("Latency")').count(), 0);
    assert.equal(await page.locator('.flame').count() > 0, true);
    await page.context().close();
  });
}

async function measure(page, text) {
  await page.waitForSelector('.latency-input');
  await page.fill('.latency-input', text);
  await page.click('.latency button[type=submit]');
}

// Of the measurement.
const seconds = (page, least) => page.waitForFunction((wanted) =>
    Number(/measuring: ([0-9.]+) s, [1-9]/.exec(document.querySelector('.latency form')
        .textContent)?.[1] ?? 0) >= wanted, least);

async function calls(page) {
  return parseCsv(await saved(page, 'save the calls as CSV'));
}

function hasColours(canvas) {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(data.slice(i, i + 3).join());
  return colours.size > 8;
}
