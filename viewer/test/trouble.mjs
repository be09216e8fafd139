// Problems that were planted (examples/trouble), as they were recorded: the server's doctor finds
// each one, and a person sees it on the first screen. Of a healthy node there is nothing to find.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { change, judged, openPage, parseCsv, saved } from './browser.mjs';

const SCREEN = { width: 1440, height: 900 };

export function troubleTests(test, { browser, url, dir, trouble }) {
  const open = async (name) => judged(await openPage(browser,
      `${url}#file=trouble_${name}.log.zst`, { viewport: SCREEN }));

  for (const { problem, finding, process, function: name } of trouble) {
    test(`${problem}: the finding is on the first screen, and shows who and where`, async () => {
      const page = await open(problem);
      const cards = page.locator(`.finding[data-kind="${finding}"]`, { hasText: process });
      assert.equal(await cards.count(), 1, await page.textContent('.diagnosis'));
      const box = await cards.boundingBox();
      assert.ok(box.y + box.height <= SCREEN.height, 'without scrolling');
      await change(page, () => cards.locator('button').first().click());
      const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
      const where = rows.filter((row) => row.stack.split(';').includes(name));
      assert.ok(where.length > 0, `${name} is in the flame graph`);
      await change(page, () => page.evaluate(() => (location.hash += '&view=processes')));
      const shown = parseCsv(await saved(page, 'save the processes as CSV'));
      assert.ok(shown.some((row) => row.name === process), `${process} is among the processes`);
      assert.deepEqual(page.complaints, []);
      await page.context().close();
    });
  }

  test('a healthy node has no finding', async () => {
    const page = await open('none');
    assert.equal(await page.locator('.finding').count(), 0, await page.textContent('.diagnosis'));
    assert.match(await page.textContent('.diagnosis'), /Nothing is wrong/);
    await page.context().close();
  });

  test('a report finds what the server finds', async () => {
    const pages = [await open('mailbox'),
      await judged(await openPage(browser, `file://${join(dir, 'trouble.html')}`))];
    const [served, reported] = await Promise.all(pages.map((page) =>
        page.$$eval('.finding', (cards) => cards.map((card) => card.textContent))));
    assert.ok(served.length > 0);
    assert.deepEqual(reported, served);
    for (const page of pages) await page.context().close();
  });
}
