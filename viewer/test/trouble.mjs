// Problems that were planted (examples/trouble), as they were recorded: the doctor finds each one,
// or says that a file does not tell, and a person sees it on the first screen. Of a healthy node
// there is nothing to find.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { change, judged, openPage, parseCsv, saved } from './browser.mjs';

const SCREEN = { width: 1440, height: 900 };

export function troubleTests(test, { browser, url, dir, trouble }) {
  const withPage = (name, run) => async () => {
    const page = await openPage(browser, `${url}#file=trouble_${name}.log.zst`,
        { viewport: SCREEN });
    try {
      await run(await judged(page));
      assert.deepEqual(page.complaints, []);
    } finally {
      await page.context().close();
    }
  };

  // The process is null where none is the cause, the function where none does it now.
  for (const { problem, finding, process, function: name } of trouble) {
    test(`${problem}: the finding is on the first screen, and shows who and where`,
        withPage(problem, async (page) => {
      const cards = page.locator(`.finding[data-kind="${finding}"]`,
          process === null ? {} : { hasText: process });
      // Waits, for one, may be known of a running node only: then the page says so.
      const unseen = await page.$$eval('.verdict dd', (all) =>
          all.flatMap((one) => one.textContent.split(', ')));
      if (unseen.includes(finding) && (await cards.count()) === 0) return;
      assert.equal(await cards.count(), 1, await page.textContent('.timeline'));
      const box = await cards.boundingBox();
      assert.ok(box.y + box.height <= SCREEN.height, 'without scrolling');
      await change(page, () => cards.locator('button').first().click());
      const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
      const stacks = rows.map((row) => row.stack.split(';'));
      assert.ok(name === null || stacks.some((stack) => stack.includes(name)),
          `${name} is in the flame graph`);
      if (process === null) return;
      await change(page, () => page.evaluate(() => (location.hash += '&view=processes')));
      const shown = parseCsv(await saved(page, 'save the processes as CSV'));
      assert.ok(shown.some((row) => row.name === process), `${process} is among the processes`);
    }));
  }

  test('a healthy node has no finding', withPage('none', async (page) => {
    assert.equal(await page.locator('.finding').count(), 0, await page.textContent('.timeline'));
    assert.match(await page.textContent('.verdict'), /Nothing was found/);
  }));

  test('a report finds what the server finds', withPage('mailbox', async (page) => {
    const report = await judged(await openPage(browser, `file://${join(dir, 'trouble.html')}`));
    const texts = (one) => one.$$eval('.finding', (all) => all.map((card) => card.textContent));
    const [served, reported] = [await texts(page), await texts(report)];
    await report.context().close();
    assert.ok(served.length > 0);
    assert.deepEqual(reported, served);
  }));
}
