// What people do with the frames of a flame graph.

import assert from 'node:assert/strict';
import { change, openMenu, parseCsv, saved } from './browser.mjs';
import { clickFrame, state, text, visitor } from './visitor.mjs';

export function frameTests(test, { browser, url, profile, hostile }) {
  const { withPage, at } = visitor(browser, url, profile);
  const { withPage: withEqual } = visitor(browser, url, hostile); // of 13 processes as much each

  test('a click on a frame zooms, Escape goes back out', withPage(async (page) => {
    const wide = await biggest(page);
    await clickFrame(page, wide);
    assert.equal((await state(page)).zoom, wide);
    await page.focus('.flame');
    await change(page, () => page.keyboard.press('Escape'));
    assert.equal((await state(page)).zoom, undefined);
  }, '&sort=width'));

  test('the keys walk the flame graph', withPage(async (page) => {
    await page.focus('.flame');
    await page.keyboard.press('ArrowDown');
    const said = await text(page, '.flame-box [aria-live]');
    assert.match(said, /^(waiting|running|ready|collecting), [\d.]+ % of all: /);
    await change(page, () => page.keyboard.press('Enter'));
    const words = { ready: 'runnable', collecting: 'garbage_collecting' };
    const [word] = said.split(',');
    assert.equal((await state(page)).zoom, words[word] ?? word);
  }));

  test('Ctrl and the wheel magnify, a drag pans, a double click shows all', withEqual(
    async (page) => {
      const before = await svgFrames(page);
      const [x, y] = await at(page, '.flame', 300, 27);
      await page.mouse.move(x, y);
      const scrolled = await page.evaluate(() => scrollY);
      await page.keyboard.down('Control');
      await page.mouse.wheel(0, -200);
      await page.keyboard.up('Control');
      assert.equal(await page.evaluate(() => scrollY), scrolled);
      const magnified = await svgFrames(page);
      const under = (all) => all.find((one) => one.y === 18 && one.x <= 300
          && one.x + one.width > 300);
      assert.equal(under(magnified).title, under(before).title);
      assert.ok(under(magnified).width > under(before).width);
      await page.mouse.down();
      await page.mouse.move(x - 100, y, { steps: 4 });
      await page.mouse.up();
      assert.equal((await state(page)).zoom, undefined); // a drag is no click
      const places = (all, by) => new Map(all.filter((one) => one.y === 18 && one.x + by > 0)
          .map((one) => [one.title, Math.round(one.x + by)]));
      const [expected, is] = [places(magnified, -100), places(await svgFrames(page), 0)];
      assert.ok(expected.size > 0);
      for (const [title, place] of expected) assert.equal(is.get(title), place, title);
      await change(page, () => page.mouse.dblclick(x, y));
      assert.equal((await state(page)).zoom, undefined);
      assert.deepEqual(await svgFrames(page), before);
    }, '&levels=pid'));

  test('shares are of all, of the parent and of what is zoomed, and the path leads back', withPage(
      async (page) => {
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const total = new Map(rows.map((row) => [row.stack, Number(row.total)]));
    const deep = rows.filter(({ stack }) => stack.split(';').length === 4)
        .sort((a, b) => Number(b.total) - Number(a.total))[0].stack.split(';');
    const zoom = encodeURIComponent(deep.slice(0, 2).join('\u001f'));
    await change(page, () => page.evaluate((to) => (location.hash += `&zoom=${to}`), zoom));
    const frame = (await svgFrames(page)).map(({ title }) => title.split('\n'))
        .find(([name, , , of]) => name === deep[3] && /zoomed/.test(of));
    const part = (n) => 100 * total.get(deep.join(';')) / total.get(deep.slice(0, n).join(';'));
    [part(0), part(3), part(2)].forEach((wanted, i) =>
        assert.ok(Math.abs(parseFloat(frame[1 + i]) - wanted) < 0.06, `${frame}: ${wanted}`));
    const crumbs = page.locator('.crumbs button');
    assert.equal(await crumbs.count(), 4); // the root, two frames, and the menu
    await change(page, () => crumbs.nth(1).click());
    assert.equal((await state(page)).zoom, deep[0]);
  }, '&sort=width'));

  test('a block of narrow frames says how many they are, and opens', withPage(async (page) => {
    const blocks = (all) => all.filter(({ title }) => /^\d+ frames?, /.test(title));
    const before = await svgFrames(page);
    const [block] = blocks(before).sort((a, b) => b.width - a.width);
    assert.ok(block, 'there is one');
    const names = new Set(before.map(({ title }) => title));
    await page.mouse.click(...(await at(page, '.flame', block.x + block.width / 2, block.y + 9)));
    const opened = (await svgFrames(page)).filter(({ title, y }) => y === block.y
        && !names.has(title));
    assert.ok(opened.some(({ title, width }) => width >= 15 && !/^\d+ frames?, /.test(title)));
  }, '&sort=width'));

  test('a frame has a menu, by pointer and by keys', withPage(async (page) => {
    const items = () => page.locator('[role=menuitem]').allTextContents();
    await page.mouse.click(...(await at(page, '.flame', 100, 45)), { button: 'right' });
    await page.locator('[role=menuitem]').first().waitFor();
    const byPointer = await items();
    assert.ok(byPointer.includes('sandwich') && byPointer.includes('copy stack'), byPointer);
    await page.keyboard.press('Escape');
    assert.deepEqual(await items(), []);
    await page.keyboard.press('Shift+F10'); // of the frame that has the focus since
    await page.locator('[role=menuitem]').first().waitFor();
    assert.deepEqual(await items(), byPointer);
    await page.keyboard.press('End');
    await page.keyboard.press('Home');
    await change(page, () => page.keyboard.press('Enter')); // its first entry
    assert.deepEqual(await items(), []);
    assert.equal((await state(page)).view, 'sandwich');
  }, '&sort=width'));

  test('only the process of a frame is shown', withPage(async (page) => {
    await page.mouse.click(...(await at(page, '.flame', 30, 81)), { button: 'right' });
    await change(page, () => page.click('text=only this process'));
    const { pids } = await state(page);
    assert.match(pids, /^<\d+\.\d+\.\d+>$/);
  }, '&levels=pid&sort=width'));

  test('Enter goes to the widest frame that a search has found', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const widest = Math.max(...rows.filter(({ stack }) => /demo_encoder[^;]*$/.test(stack))
        .map(({ total }) => Number(total)));
    await page.focus('#search');
    await page.keyboard.press('Enter');
    const said = await text(page, '.flame-box [aria-live]');
    assert.match(said, /^demo_encoder/);
    assert.ok(said.includes(`: ${widest.toLocaleString('en-US')} samples,`), said);
  }, '&search=demo_encoder'));

  test('levels are turned on, ordered and turned off', withPage(async (page) => {
    await openMenu(page, 'Options');
    await change(page, () => page.click('text=+ memory class'));
    assert.equal((await state(page)).levels, 'status.memory');
    await change(page, () => page.click('[aria-label="memory outwards"]'));
    assert.equal((await state(page)).levels, 'memory.status');
    await change(page, () => page.click('[aria-label="without status"]'));
    assert.equal((await state(page)).levels, 'memory');
  }));

  test('the application level knows the demo from OTP', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const tops = rows.filter((row) => row.stack !== '' && !row.stack.includes(';'));
    const demo = rows.filter((row) => row.self !== '0' && /;demo_/.test(row.stack));
    assert.ok(demo.length > 0 && tops.length > 1);
    const seen = demo.map((row) => row.stack.split(';')[0]);
    assert.deepEqual([...new Set(seen)].filter((one) => ['stdlib', 'kernel', 'erts'].includes(one)),
        []);
  }, '&levels=application'));
}

// The widest category at the root, which then is the leftmost, by sort=width.
async function biggest(page) {
  const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
  const tops = rows.filter((row) => row.stack !== '' && !row.stack.includes(';'));
  return tops.sort((a, b) => Number(b.total) - Number(a.total))[0].stack;
}

async function svgFrames(page) {
  const svg = await saved(page, 'save the flame graph as SVG');
  const groups = [...svg.matchAll(/<g><title>([^<]*)<\/title><rect ([^>]*)>/g)];
  return groups.map(([, title, rect]) => ({
    title,
    ...Object.fromEntries(['x', 'y', 'width'].map((key) =>
      [key, Number(rect.match(new RegExp(`${key}="([^"]*)"`))[1])])),
  }));
}
