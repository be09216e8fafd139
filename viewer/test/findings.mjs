// What the page makes of findings, whatever the doctor says: here they are made up.

import assert from 'node:assert/strict';
import { change, judged, openPage, parseCsv, saved, show } from './browser.mjs';

const FILE = 'trouble_none.log.zst';
const HOSTILE = '<img src=x onerror=window.pwned=1></script><script>window.pwned=1</script>';
const finding = (more) => ({ kind: 'mailbox', severity: 'warning', title: 'a title',
  sentences: ['One.', 'Two.'], command: 'flame_prof top NODE', pids: [], function: '', range: null,
  view: {}, ...more });
const diagnosis = (findings) => ({ state: 'judged', findings, more: 0, judged: ['mailbox', 'gc'],
  unseen: [{ kind: 'deadlock', why: 'not looked at' }, { kind: 'chain', why: 'not looked at' },
    { kind: 'throttled', why: 'no cgroup' }], samples: 1e9, observations: 1234, processes: 7 });

export function findingTests(test, { browser, url, profile }) {
  const withAnswers = (answers, run) => async () => {
    const left = [...answers];
    const prepare = (page) => page.route(/\/api\/findings\?/, (route) => route.fulfill({
      contentType: 'application/json',
      body: JSON.stringify(left.length > 1 ? left.shift() : left[0]),
    }));
    const page = await judged(await openPage(browser, `${url}#file=${FILE}`,
        { viewport: { width: 1440, height: 900 }, prepare,
          permissions: ['clipboard-read', 'clipboard-write'] }));
    try {
      await run(page);
      assert.deepEqual(page.complaints, []);
      assert.equal(await page.evaluate(() => window.pwned), undefined);
    } finally {
      await page.context().close();
    }
  };
  const stateOf = (page) =>
      page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
  const textOf = (page) => page.textContent('.verdict');

  // Of this name; those who made the findings know the pid.
  async function pidOf(name) {
    const page = await openPage(browser, `${url}#file=${FILE}&view=processes`);
    const rows = parseCsv(await saved(page, 'save the processes as CSV'));
    await page.context().close();
    return rows.find((row) => row.name === name).pid;
  }

  test('a click selects process, time and question, another one everything', async () => {
    const pid = await pidOf('order_1');
    await withAnswers([diagnosis([finding({ pids: [pid], range: [1000000, 2500000],
      view: { measure: 'message_queue_len', show: 'all', levels: ['process', 'status'],
        view: 'flame', file: 'other' } })])], async (page) => {
      await change(page, () => page.click('.finding > button'));
      assert.deepEqual(await stateOf(page), { file: FILE, measure: 'message_queue_len',
        range: '1000000-2500000', levels: 'process.status', show: 'all', pids: pid });
      assert.equal(await page.getAttribute('.finding > button', 'aria-pressed'), 'true');
      await change(page, () => page.click('.finding > button'));
      assert.deepEqual(await stateOf(page), { file: FILE });
    })();
  });

  // Also on a high screen.
  for (const height of [720, 1440]) {
    test(`what is found late does not move what is pointed at, ${height} high`, () =>
        keepsPlace(height));
  }

  async function keepsPlace(height) {
    let answer;
    const isToAnswer = new Promise((done) => (answer = done));
    const body = JSON.stringify(diagnosis([finding({})]));
    const viewport = { width: 1280, height };
    const page = await openPage(browser, `${url}#file=${FILE}`, { viewport, prepare: (one) =>
      one.route(/\/api\/findings\?/, async (route) => {
        await isToAnswer;
        await route.fulfill({ contentType: 'application/json', body });
      }) });
    const flame = page.locator('.flame');
    await flame.hover({ position: { x: 300, y: 9 } });
    const { y: before } = await flame.boundingBox();
    answer();
    await page.waitForSelector('.finding');
    const { y: is } = await flame.boundingBox();
    assert.ok(Math.abs(is - before) < 1, `${before}, then ${is}`);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  }

  // Nothing but the choice asks: what follows a session would, later.
  test('another profile that is chosen while the first is judged has its findings', async () => {
    const page = await openPage(browser, `${url}#file=${FILE}&follow=0`, { prepare: (one) =>
      one.route(/\/api\/findings\?/, (route) => {
        const name = new URL(route.request().url()).searchParams.get('name');
        const answer = name === FILE ? { state: 'judging' } : diagnosis([finding({})]);
        return route.fulfill({ contentType: 'application/json', body: JSON.stringify(answer) });
      }) });
    await show(page, `file=${encodeURIComponent(profile)}&follow=0`);
    await page.waitForSelector('.finding');
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('the lane of what is found is the first one', async () => {
    const pid = await pidOf('encoder_3');
    await withAnswers([diagnosis([finding({ pids: [pid] })])], async (page) => {
      const { left } = await page.$eval('.timeline-view', ({ dataset }) => ({ ...dataset }));
      const box = await page.locator('.lane-scroller').boundingBox();
      await change(page, () => page.mouse.click(box.x + Number(left) / 2, box.y + 10));
      assert.equal((await stateOf(page)).pids, pid);
    })();
  });

  test('it says how bad it is, what it is, and all sentences',
      withAnswers([diagnosis([finding({ severity: 'critical' })])], async (page) => {
    assert.match(await page.textContent('.finding'),
        /critical: mailbox:\s+a title\s+One\. Two\.\s+flame_prof top nonode@nohost/);
  }));

  test('texts of a profile are texts', withAnswers([diagnosis([finding({ kind: HOSTILE,
    severity: HOSTILE, title: HOSTILE, sentences: [HOSTILE], command: HOSTILE, pids: [HOSTILE],
    function: HOSTILE, view: { measure: HOSTILE, show: HOSTILE, levels: [HOSTILE] } })])],
  async (page) => {
    assert.equal((await page.textContent('.finding')).split(HOSTILE).length, 6);
    assert.equal(await page.locator('.timeline img, .timeline script').count(), 0);
    await change(page, () => page.click('.finding > button'));
  }));

  test('a command is copied', withAnswers([diagnosis([finding({})])], async (page) => {
    await page.click('.finding .command button');
    const command = 'flame_prof top nonode@nohost';
    assert.equal(await page.evaluate(() => getSelection().toString()), command);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), command);
  }));

  test('without a command there is nothing to copy',
      withAnswers([diagnosis([finding({ command: '' })])], async (page) => {
    assert.equal(await page.locator('.finding .command').count(), 0);
  }));

  test('where nothing is wrong it says what was looked at, and what was not',
      withAnswers([diagnosis([])], async (page) => {
    assert.match(await textOf(page), /Nothing was found; [0-9]+ kinds? need a running node\./);
    await page.click('.verdict summary');
    const box = await page.locator('.verdict .menu-box').boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 1440, 'all of it is on the screen');
    assert.match(await textOf(page), /1,234 samples of 7 processes,\s+for mailbox, gc/);
    assert.match(await textOf(page), /not looked at:\s*deadlock, chain\s*no cgroup:\s*throttled/);
  }));

  test('where all was looked at, nothing is wrong', withAnswers([{ ...diagnosis([]), unseen: [] }],
      async (page) => {
    assert.match(await textOf(page), /Nothing is wrong\./);
  }));

  test('nothing judged is not healthy', withAnswers([{ ...diagnosis([]), judged: [] }],
      async (page) => {
    assert.doesNotMatch(await textOf(page), /Nothing (is wrong|was found)/);
    assert.match(await textOf(page), /could be judged/);
  }));

  test('a doctor that fails says why', withAnswers([{ state: 'failed', why: 'it is late' }],
      async (page) => {
    assert.match(await textOf(page), /not judged: it is late/);
    assert.doesNotMatch(await textOf(page), /Nothing (is wrong|was found)/);
  }));

  test('no answer of the doctor is not healthy, and is asked for again',
      withAnswers([{ state: 'none' }, diagnosis([finding({})])], async (page) => {
    assert.match(await textOf(page), /This profile is not judged\./);
    await page.waitForSelector('.finding');
  }));

  test('the page asks again until they are there',
      withAnswers([{ state: 'judging' }, { state: 'judging' }, diagnosis([finding({})])],
          async (page) => {
    assert.equal(await page.locator('.finding').count(), 1);
  }));

  test('how many are left out', withAnswers([{
    ...diagnosis(Array.from({ length: 8 }, (_, i) => finding({ title: `title ${i}` }))), more: 3,
  }], async (page) => {
    assert.equal(await page.locator('.finding').count(), 8);
    assert.match(await page.textContent('.diagnosis'),
        /3 more, which the page leaves out:\s+flame_prof doctor trouble_none\.log\.zst/);
  }));
}
