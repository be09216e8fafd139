// Problems that were planted (examples/trouble), as they were recorded: a person finds each one on
// the first screen. Of a healthy node there is nothing to find.

import assert from 'node:assert/strict';
import { change, openPage, parseCsv, saved } from './browser.mjs';

const SCREEN = { width: 1440, height: 900 };

export function troubleTests(test, { browser, url, trouble }) {
  const open = (name) => openPage(browser, `${url}#file=trouble_${name}.log.zst`,
      { viewport: SCREEN });

  for (const { problem, finding, process, function: name } of trouble) {
    test(`${problem}: the finding is on the first screen, and shows who and where`, async () => {
      const page = await open(problem);
      const cards = page.locator(`.finding[data-kind="${finding}"]`, { hasText: process });
      assert.equal(await cards.count(), 1, await page.textContent('.findings'));
      const box = await cards.boundingBox();
      assert.ok(box.y + box.height <= SCREEN.height, 'without scrolling');
      await change(page, () => cards.click());
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
    assert.equal(await page.locator('.finding').count(), 0, await page.textContent('.findings'));
    await page.context().close();
  });
}
