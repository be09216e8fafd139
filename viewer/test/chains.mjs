// Chains in the flame graph: those of the library, live and in reports, and what people do.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { change, openMenu, openPage, parseCsv, saved, show } from './browser.mjs';
import { state, text, visitor } from './visitor.mjs';

const FILE = 'chains.log';
const ALL = 'levels=&lines=1&chains=1';

export function chainTests(test, { browser, url, profile, dir, expected }) {
  const { withPage } = visitor(browser, url, FILE);
  const same = (address, wanted) => async () => {
    const page = await openPage(browser, address);
    assert.deepEqual(await chainsOf(page), wanted.sort());
    assert.ok(wanted.length > 20);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  };

  test('those of the library, on the page', same(`${url}#file=${FILE}&${ALL}`, expected.one));
  test('those of the library, in a report',
      same(`file://${join(dir, 'chains.html')}#${ALL}`, expected.one));
  test('across two nodes, in a report of both',
      same(`file://${join(dir, 'chains_of_two.html')}#${ALL}`, expected.two));

  test('the button and the key c show them, and a sentence says what they are',
      withPage(async (page) => {
    const waiting = expected.one.reduce((sum, [, n]) => sum + n, 0).toLocaleString('en-US');
    await openMenu(page, 'Options');
    await change(page, () => page.click('button:text-is("chains")'));
    assert.equal((await state(page)).chains, '1');
    const said = await text(page, '.summary');
    assert.ok(said.startsWith(`${waiting} samples. Chains: samples of processes that wait`), said);
    await page.keyboard.press('c');
    await page.waitForFunction(() => !location.hash.includes('chains='));
    assert.doesNotMatch(await text(page, '.summary'), /Chains/);
    await change(page, () => page.keyboard.press('c'));
    assert.equal((await state(page)).chains, '1');
  }));

  test('they are searched: Enter goes to one that is waited for', withPage(async (page) => {
    assert.match(await text(page, '.found'), /^0 processes, 4 functions, 100\.0 %/);
    await page.focus('#search');
    await page.keyboard.press('Enter');
    assert.match(await text(page, '.flame-box [aria-live]'), /^waits for p_/);
  }, `&${ALL}&search=waits for p_`));

  test('a question and a status show samples again', withPage(async (page) => {
    await change(page, () => page.selectOption('[aria-label="measure"]', '?cpu'));
    assert.equal((await state(page)).chains, undefined);
    assert.match(await text(page, '.summary'), /^[\d,]+ samples$/);
  }, '&chains=1'));

  test('of one process', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const total = rows.find(({ stack }) => stack === '').total;
    assert.deepEqual(rows.filter(({ stack }) => stack !== '' && !stack.includes(';'))
        .map((row) => row.total), [total]);
  }, `&levels=pid&chains=1&pids=${encodeURIComponent('<0.7.0>')}`));

  test('the sandwich has who waits for a function', withPage(async (page) => {
    const names = await page.locator('.functions tbody tr').allTextContents();
    assert.ok(names.some((name) => name.startsWith('waits for p_')), names.join());
    assert.match(await text(page, '.sandwich h2'), /^work:/);
  }, '&chains=1&view=sandwich&function=work:get/1'));

  test('of a profile without words there is no button, and an address says why', async () => {
    const page = await openPage(browser, `${url}#file=hostile.log`);
    assert.equal(await page.locator('button:text-is("chains")').count(), 0);
    await show(page, 'file=hostile.log&chains=1');
    assert.match(await text(page, '.summary'), /^0 samples\..* No sample tells/);
    await openMenu(page, 'Options');
    await change(page, () => page.click('button:text-is("chains")'));
    assert.equal((await state(page)).chains, undefined);
    await page.context().close();
  });

  test('a selection in which nothing waits says so', withPage(async (page) => {
    assert.match(await text(page, '.summary'), /No process of the selection waits for something\./);
  }, `&chains=1&pids=${encodeURIComponent('<0.4.0>')}`));

  // A running session writes what its processes wait for, too.
  test('they can be compared', async () => {
    const page = await openPage(browser, `${url}#file=${FILE}&${ALL}&view=compare`
      + '&range=0-2000000&otherRange=2000000-4000000');
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const [whole] = rows;
    assert.ok(Number(whole.total) > 0 && Number(whole.other_total) > 0);
    const all = expected.one.reduce((sum, [, n]) => sum + n, 0);
    assert.equal(Number(whole.total) + Number(whole.other_total), all);
    await page.context().close();
  });
}

async function chainsOf(page) {
  const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
  return rows.filter(({ self }) => self !== '0').map(({ stack, self }) => [stack, Number(self)])
      .sort();
}
