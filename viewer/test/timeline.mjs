// The time axis: what people do with it, and what follows.

import assert from 'node:assert/strict';
import { change, judged, openMenu, openPage, parseCsv, saved } from './browser.mjs';

const state = (page) =>
    page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
const text = (page, selector) => page.textContent(selector);

export function timelineTests(test, { browser, url, profile, hostile }) {
  const withPage = (run, more = '', file = profile) => async () => {
    const page = await openPage(browser, `${url}#file=${encodeURIComponent(file)}${more}`,
        { viewport: { width: 1440, height: 900 } });
    try {
      await judged(page); // findings move what is below them
      await run(page);
      assert.deepEqual(page.complaints, []);
    } finally {
      await page.context().close();
    }
  };

  // Where a share of the time that is shown lies on the tracks, and on the lane of that number.
  async function place(page, selector, share, dy = 20) {
    const box = await page.locator(selector).boundingBox();
    const { left, pixels } = await page.evaluate(() =>
        ({ ...document.querySelector('.timeline-view').dataset }));
    return [box.x + Number(left) + share * Number(pixels), box.y + dy];
  }

  async function drag(page, from, to, { selector = '.tracks', isHeld = false } = {}) {
    await page.mouse.move(...(await place(page, selector, from)));
    await page.mouse.down();
    await page.mouse.move(...(await place(page, selector, (from + to) / 2)));
    await page.mouse.move(...(await place(page, selector, to)));
    if (!isHeld) await change(page, () => page.mouse.up());
  }

  const duration = async (page) => {
    const rows = parseCsv(await saved(page, 'save the heatmap as CSV'));
    return Math.max(...rows.map((row) => Number(row.to_us)));
  };

  test('a drag over the tracks selects that time', withPage(async (page) => {
    const whole = await duration(page);
    await drag(page, 0.25, 0.5);
    const [from, to] = (await state(page)).range.split('-').map(Number);
    const near = (us, share) => assert.ok(Math.abs(us / whole - share) < 0.02, `${us} of ${whole}`);
    near(from, 0.25);
    near(to, 0.5);
  }, '&heat=1&rows=50&show=all'));

  test('the flame graph follows while the hand is still dragging', withPage(async (page) => {
    const before = await text(page, '.summary');
    await drag(page, 0.2, 0.4, { isHeld: true });
    await page.waitForFunction((was) => document.querySelector('.summary').textContent !== was,
        before);
    assert.equal((await state(page)).range, undefined, 'the address is that of before');
    await change(page, () => page.mouse.up());
    assert.notEqual((await state(page)).range, undefined);
  }));

  test('a drag over lanes selects time, a click a process, another click all', withPage(
      async (page) => {
        await drag(page, 0.3, 0.6, { selector: '.lanes' });
        assert.notEqual((await state(page)).range, undefined);
        const click = async () => page.mouse.click(...(await place(page, '.lanes', 0.1)));
        await change(page, click);
        const { pids } = await state(page);
        assert.match(pids, /^<[\d.]+>$/);
        await page.waitForTimeout(600); // two clicks soon after each other are a double click
        await change(page, click);
        assert.equal((await state(page)).pids, undefined);
      }));

  test('Alt and a drag compare with that time at once', withPage(async (page) => {
    await drag(page, 0.1, 0.3);
    await page.keyboard.down('Alt');
    await drag(page, 0.6, 0.9);
    await page.keyboard.up('Alt');
    const { view, range, otherRange } = await state(page);
    assert.equal(view, 'compare');
    assert.ok(Number(range.split('-')[1]) < Number(otherRange.split('-')[0]));
    assert.match(await text(page, '.summary'), /compared with/);
  }));

  test('Ctrl and the wheel magnify time around the pointer, for the heatmap, too', withPage(
      async (page) => {
        const whole = await duration(page);
        await page.mouse.move(...(await place(page, '.tracks', 0.75)));
        await page.keyboard.down('Control');
        await change(page, () => page.mouse.wheel(0, -400));
        await page.keyboard.up('Control');
        await page.waitForFunction(() => location.hash.includes('time=')); // where the wheel rests
        const [from, to] = (await state(page)).time.split('-').map(Number);
        assert.ok(to - from < 0.8 * whole && from > 0 && to <= whole, `${from} to ${to}`);
        assert.ok(Math.abs((0.75 * whole - from) / (to - from) - 0.75) < 0.02);
        const column = await page.evaluate(() =>
            Number(document.querySelector('.heat').dataset.column));
        const { pixels } = await page.evaluate(() =>
            ({ ...document.querySelector('.timeline-view').dataset }));
        assert.ok(Math.abs(column - (1e6 * Number(pixels)) / (to - from)) < 0.5);
        await change(page, () => page.click('text=all of the time'));
        assert.equal((await state(page)).time, undefined);
      }, '&heat=1&rows=50&show=all'));

  async function lanesByKeys(page, count) {
    await page.focus('.lane-scroller');
    const names = [];
    for (let n = 0; n < count; n++) {
      await page.keyboard.press('ArrowDown');
      names.push((await text(page, '.timeline-view [aria-live]')).split(',')[0]);
    }
    return names;
  }

  test('keys go from lane to lane, and Enter shows that process', withPage(async (page) => {
    const names = await lanesByKeys(page, 5);
    assert.deepEqual(names, [...names].sort());
    await change(page, () => page.keyboard.press('Enter'));
    const rows = parseCsv(await saved(page, 'save the processes as CSV'));
    assert.deepEqual(rows.map((row) => row.name), [names[4]]);
  }, '&lanes=name&view=processes&show=all'));

  test('lanes fold by initial call', withPage(async (page) => {
    const count = () => page.evaluate(() => Number(document.querySelector('.timeline')
        .dataset.lanes));
    const before = await count();
    await openMenu(page, 'Timeline');
    await change(page, () => page.selectOption('[aria-label="fold lanes"]', 'call'));
    assert.ok(await count() < before);
    const [first] = await lanesByKeys(page, 1);
    assert.match(first, /:|\./);
  }));

  test('a lane tells who was sampled, and when', withPage(async (page) => {
    const box = await page.locator('.lanes').boundingBox();
    await page.mouse.move(box.x + 40, box.y + 10);
    assert.match(await text(page, '.tip'), /sampled from [\d.]+ s to [\d.]+ s, [\d,]+ samples?/);
    assert.match(await text(page, '.timeline-bar'), /[\d,]+ (of [\d,]+ )?processes sampled/);
  }));

  test('stacks over time lie below the lanes, and a click selects the time of a frame', withPage(
      async (page) => {
    const [tracks, flame] = await Promise.all(['.tracks', '.flame'].map((one) =>
        page.locator(one).boundingBox()));
    const { left, pixels } = await page.$eval('.timeline-view', ({ dataset }) => ({ ...dataset }));
    assert.equal(flame.x, tracks.x + Number(left));
    assert.equal(flame.width, Number(pixels));
    await page.focus('.flame');
    await page.keyboard.press('ArrowDown');
    const said = await text(page, '.flame-box [aria-live]');
    const [, from, to] = /, ([\d.]+) s to ([\d.]+) s: /.exec(said);
    await change(page, () => page.keyboard.press('Enter'));
    const range = (await state(page)).range.split('-').map(Number);
    assert.deepEqual(range.map((us) => (us / 1e6).toFixed(3)),
        [from, to].map((one) => Number(one).toFixed(3)));
    assert.match(await page.inputValue('[aria-label="stacks of"]'), /^p/);
    await change(page, () => page.selectOption('[aria-label="stacks of"]', 's1'));
    assert.equal((await state(page)).stacks, '1');
  }, '&view=stacks&show=all'));

  test('a lane tells the function at the pointer', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the processes as CSV'));
    const { name } = rows[0];
    await page.mouse.move(...(await place(page, '.lanes', 0.5, 10)));
    await page.waitForFunction(() => /\nin /.test(document.querySelector('.tip')?.innerText));
    assert.ok((await page.innerText('.tip')).startsWith(`${name}\nin `));
  }, '&view=processes&file=gaps.log', 'gaps.log'));

  test('a search lights up its samples over time', withPage(async (page) => {
    const height = async () => (await page.locator('.tracks').boundingBox()).height;
    const before = await height();
    await page.evaluate(() => (location.hash += '&search=demo_encoder'));
    await page.waitForFunction((least) => document.querySelector('.tracks').clientHeight > least,
        before);
  }));

  test('a profile without figures of a node has its lanes', withPage(async (page) => {
    assert.ok(await page.isVisible('.lanes'));
  }, '&show=all', hostile));

  for (const [width, height] of [[1440, 900], [1024, 700]]) {
    for (const [about, more, file] of [['', '', profile], [', of a finding', '',
      'trouble_mailbox.log.zst'], [', in a comparison', '&view=compare', profile]]) {
      test(`lanes, and twenty rows of a flame graph, at ${width}x${height}${about}`, withPage(
          async (page) => {
        await page.setViewportSize({ width, height });
        const [flame, lanes, panel] = await Promise.all(['.flame', '.lanes', '#panel'].map(
            (selector) => page.locator(selector).boundingBox()));
        assert.ok(lanes.height >= 3 * 20 && lanes.y + lanes.height < panel.y);
        assert.ok(panel.y + panel.height <= height && panel.y + panel.height - flame.y >= 20 * 18,
            JSON.stringify({ flame, panel }));
      }, more, file));
    }
  }

  test('the split between timeline and panel is dragged, and moved by keys', withPage(
      async (page) => {
    const top = async () => (await page.locator('#panel').boundingBox()).y;
    const before = await top();
    const { x, y, width, height } = await page.locator('.splitter').boundingBox();
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width / 2, y + height / 2 + 100, { steps: 3 });
    await page.mouse.up();
    assert.equal(Math.round(await top() - before), 100);
    await page.focus('.splitter');
    await page.keyboard.press('ArrowUp');
    assert.equal(Math.round(await top() - before), 80);
    await page.mouse.dblclick(x + width / 2, y + height / 2 + 80);
    assert.equal(await top(), before);
  }));
}
