// What people do with the page: pointer, keys, addresses, files; and what a
// hostile profile cannot do.

import assert from 'node:assert/strict';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSymbol, shownName } from '../src/model/symbols.js';
import { change, openMenu, openPage, parseCsv, saved, show } from './browser.mjs';
import { clickFrame, state, text, visitor, WHOLE } from './visitor.mjs';

export function pageTests(test, { browser, url, profile, report, directory, hostile, live,
    series, begun }) {
  const { address, withPage, at } = visitor(browser, url, profile);

  test('a drag over the heatmap selects that time', withPage(async (page) => {
    const { left, width } = await columns(page);
    await page.mouse.move(...(await at(page, '.heat', left + 1.5 * width, 199)));
    await page.mouse.down();
    await page.mouse.move(...(await at(page, '.heat', left + 2.5 * width, 99)), { steps: 4 });
    await change(page, () => page.mouse.up());
    assert.equal((await state(page)).range, '1000000-2520000');
    assert.match(await text(page, '#range'), /1 s to 2.520 s/);
  }));

  test('a click selects a cell, the next all to another, Shift extends, Escape clears', withPage(
      async (page) => {
    const { left, width } = await columns(page);
    const click = async (column, y) => change(page, async () =>
      page.mouse.click(...(await at(page, '.heat', left + (column + 0.5) * width, y))));
    await click(2, 150); // 12 cells of 20 ms from below
    assert.equal((await state(page)).range, '2240000-2260000');
    await click(1, 50);
    assert.equal((await state(page)).range, '1740000-2260000');
    await click(2, 50);
    assert.equal((await state(page)).range, '2740000-2760000');
    await page.keyboard.down('Shift');
    await click(1, 199);
    await page.keyboard.up('Shift');
    assert.equal((await state(page)).range, '1000000-2760000');
    await page.focus('.heat');
    await change(page, () => page.keyboard.press('Escape'));
    assert.equal((await state(page)).range, undefined);
  }));

  test('the keys select in the heatmap', withPage(async (page) => {
    await page.focus('.heat');
    await change(page, () => page.keyboard.press('ArrowRight'));
    assert.equal((await state(page)).range, '0-1000000');
    await change(page, () => page.keyboard.press('Shift+ArrowRight'));
    assert.equal((await state(page)).range, '0-2000000');
  }));

  test('hovering tells the second, the milliseconds and the value', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the heatmap as CSV'));
    // On a busy machine a cell can be without a tick.
    const cell = rows.find((row) => Math.floor(Number(row.from_us) / 1e6) === 1
        && Number(row.samples) > 0);
    const from = (Number(cell.from_us) % 1e6) / 1000;
    const { left, width } = await columns(page);
    await page.mouse.move(...(await at(page, '.heat', left + 1.5 * width, 200 - from / 5 - 2)));
    const tip = await text(page, '.tip');
    assert.ok(tip.includes(`second 1, ${from} to ${from + 20} ms`), tip);
    assert.ok(tip.includes(`${cell.samples} samples in `), tip);
  }));

  test('functions of Elixir have the names that hot shows', () => {
    assert.equal(parseSymbol('Elixir.Enum:map/2:7', 'enum.ex').text, 'Enum.map/2');
    assert.equal(shownName('Elixir.Foo:-run/2-fun-0-/1'), 'anonymous fn/1 in Foo.run/2');
    assert.equal(shownName('Elixir.MyApp.Repo'), 'MyApp.Repo');
    assert.equal(shownName('lists:map/2'), 'lists:map/2');
  });

  test('characters that turn a line are shown encoded', () => {
    const name = (symbol) => parseSymbol(symbol, 'm.erl').text;
    assert.equal(name('m:a\u202eb\u2066c/0'), 'm:a%E2%80%AEb%E2%81%A6c/0');
    assert.equal(name('m:a%E2%80%AEb/0'), 'm:a%E2%80%AEb/0');
    assert.equal(name('m:a%20\u061cb/0'), 'm:a%20%D8%9Cb/0');
    assert.equal(name('m:gr\u00fc%C3%9F/0'), 'm:gr\u00fc\u00df/0');
  });

  test('search counts what is of a process or has a function, each sample once',
      withPage(async (page) => {
    const stacks = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const isOf = new Map(parseCsv(await processesOf(page)).map(
        ({ pid, name }) => [pid, /encoder/i.test(name)]));
    const matched = stacks.filter(({ stack }) => {
      const [pid, ...frames] = stack.split(';');
      return isOf.get(pid) || frames.some((frame) => /encoder/i.test(frame));
    }).reduce((sum, { self }) => sum + Number(self), 0);
    await page.keyboard.press('/');
    await change(page, () => page.keyboard.type('Encoder', { delay: 0 }));
    await page.waitForFunction(() => location.hash.includes('search=Encoder'));
    await page.waitForFunction(() => /shown/.test(document.querySelector('.found').textContent));
    const found = await text(page, '.found');
    assert.ok(found.includes(`: ${matched.toLocaleString('en-US')} samples`),
        `${found}: ${matched}`);
  }, '&levels=pid&show=all'));

  test('a process that matches can be selected', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the processes as CSV'));
    const { pid } = rows.find(({ name }) => name === 'demo_statistics');
    assert.match(await text(page, '.found'), /^1 process, /);
    await change(page, () => page.click('.result .chip:text-is("demo_statistics")'));
    assert.equal((await state(page)).pids, pid);
  }, '&view=processes&search=demo_statistics'));

  test('a search without slashes is no regular expression', withPage(async (page) => {
    assert.match(await text(page, '.found'), /^0 processes, 0 functions, 0/);
    await change(page, () => page.fill('#search', '/demo.statistics$/'));
    await page.waitForFunction(() => /shown/.test(document.querySelector('.found').textContent));
    assert.match(await text(page, '.found'), /^1 process, /);
  }, '&search=demo.statistics'));

  test('a wrong regular expression is named', withPage(async (page) => {
    assert.match(await text(page, '.found'), /[Ii]nvalid regular expression/);
    assert.equal(await page.getAttribute('#search', 'aria-invalid'), 'true');
  }, '&search=/((/'));

  test('a question is chosen if the view answers it', withPage(async (page) => {
    const chosen = () => page.inputValue('[aria-label="measure"]');
    assert.equal(await chosen(), '?cpu');
    for (const [question, measure, show] of [['waiting', undefined, 'waiting'],
        ['mailbox', 'message_queue_len', 'all'], ['memory', 'memory', 'all'],
        ['binaries', 'binaries', 'all'], ['collecting', 'collecting', 'all']]) {
      await change(page, () => page.selectOption('[aria-label="measure"]', `?${question}`));
      assert.equal(await chosen(), `?${question}`);
      const is = await state(page);
      assert.deepEqual([is.measure, is.show], [measure, show]);
    }
    await change(page, () => page.selectOption('[aria-label="measure"]', 'recent_size'));
    assert.equal(await chosen(), 'recent_size');
    assert.match(await page.getAttribute('[aria-label="measure"]', 'title'),
        /^recent_size: data that outlived one collection/);
  }, '&show=busy'));

  test('binaries are those of both heaps', withPage(async (page) => {
    const total = async (measure) => {
      await change(page, () => page.selectOption('[aria-label="measure"]', measure));
      return Number(parseCsv(await saved(page, 'save the flame graph as CSV'))[0].total);
    };
    const [young, old, both] = [await total('bin_vheap_size'), await total('bin_old_vheap_size'),
        await total('binaries')];
    assert.ok(both > 0);
    assert.equal(both, 8 * (young + old)); // words to bytes
  }, '&show=all'));

  test('a panel is chosen by the arrow keys', withPage(async (page) => {
    await page.focus('[role=tab][aria-selected=true]');
    await change(page, () => page.keyboard.press('ArrowRight'));
    assert.equal((await state(page)).view, 'compare');
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Compare');
    await change(page, () => page.keyboard.press('End'));
    assert.equal((await state(page)).view, 'latency');
    assert.equal(await page.getAttribute('[role=tabpanel]', 'aria-labelledby'), 'tab-latency');
    assert.equal(await page.locator('[role=tablist] > :not([role=tab])').count(), 0);
  }));

  test('? tells the keys, and Escape closes only that', withPage(async (page) => {
    await page.keyboard.press('?');
    assert.match(await text(page, 'dialog[open]'), /search/);
    await page.keyboard.press('Escape');
    assert.equal(await page.locator('dialog[open]').count(), 0);
    assert.equal((await state(page)).range, '0-1000000');
  }, '&range=0-1000000'));

  test('the page and its title tell which node this is', withPage(async (page) => {
    const node = await text(page, '.node');
    assert.match(node, /@/);
    assert.match(await page.title(), new RegExp(`^${node}, \\d{4}-\\d{2}-\\d{2} `));
    assert.match(await text(page, '.about'), /OTP \d+/);
    assert.equal(await text(page, '.badge'), 'finished');
  }));

  test('a click on a process shows only that one', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the processes as CSV'));
    await change(page, () => page.click('tbody tr:first-child'));
    const { pids } = await state(page);
    const row = rows.find((one) => one.pid === pids);
    const file = encodeURIComponent(profile);
    await show(page, `file=${file}&show=all&pids=${encodeURIComponent(pids)}`);
    assert.match(await text(page, '.summary'),
        new RegExp(`^${Number(row.samples).toLocaleString('en-US')} samples?$`));
  }, '&view=processes'));

  test('the processes show the column of the question first, and all of them fit', withPage(
      async (page) => {
    for (const [question, title] of [['cpu', 'reductions'], ['waiting', 'waiting'],
        ['mailbox', 'longest queue'], ['memory', 'most memory'], ['binaries', 'most binaries'],
        ['collecting', 'collecting']]) {
      await change(page, () => page.selectOption('[aria-label="measure"]', `?${question}`));
      const heads = await page.locator('.processes th').allTextContents();
      assert.equal(heads[2].trim(), `${title} ▾`);
      assert.ok(await page.$eval('#panel', (box) => box.scrollWidth <= box.clientWidth));
    }
  }, '&view=processes', { viewport: { width: 1024, height: 700 } }));

  test('the sandwich adds up', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the functions as CSV'));
    const one = rows.find((row) => /^demo_encoder:/.test(row.function));
    await change(page, () => page.click(`td:text-is("${one.function}")`));
    const title = await text(page, '.slices h2');
    assert.ok(title.includes(Number(one.total).toLocaleString('en-US')), title);
    assert.equal((await state(page)).function, one.function);
  }, '&view=sandwich'));

  test('Back goes to the view before', withPage(async (page) => {
    await change(page, () => page.click('[role=tab]:text-is("Processes")'));
    await change(page, () => page.goBack());
    assert.equal((await state(page)).view, undefined);
    assert.ok(await page.isVisible('.flame'));
  }));

  test('a network that comes back is asked again', async () => {
    const page = await openPage(browser, address('&follow=0'), { prepare: withoutIndex });
    page.mayFail = true;
    const measures = ['stack_size', 'samples', 'stack_size'];
    const choose = (measure) => change(page, () =>
        page.selectOption('[aria-label="measure"]', measure));
    await page.route('**/api/**', (route) => route.abort());
    await choose(measures[0]);
    assert.match(await text(page, '.message'), /the node that serves this page does not answer/);
    assert.equal(await page.getAttribute('#app', 'data-old'), '');
    await page.unroute('**/api/**');
    for (const measure of measures.slice(1)) await choose(measure);
    assert.equal(await page.isVisible('.message'), false);
    assert.equal(await page.getAttribute('#app', 'data-old'), null);
    assert.match(await text(page, '.summary'), /^stack_size: .* at a time/);
    await page.context().close();
  });

  test('a page that opens while its server does not answer is tried again', async () => {
    const page = await openPage(browser, address(), { prepare: async (one) => {
      one.mayFail = true;
      await one.route('**/api/**', (route) => route.abort());
    } });
    assert.match(await text(page, '.message'), /^the node that serves this page does not answer$/);
    await page.unroute('**/api/**');
    await page.waitForFunction(() => document.querySelector('.message').hidden);
    assert.match(await text(page, '.summary'), /samples/);
    await page.context().close();
  });

  test('a connection that is lost within an answer is tried again', async () => {
    const page = await openPage(browser, address(), { prepare: withoutIndex });
    page.mayFail = true;
    await page.evaluate(() => {
      const { arrayBuffer } = Response.prototype;
      Response.prototype.arrayBuffer = () => {
        Response.prototype.arrayBuffer = arrayBuffer;
        return Promise.reject(new TypeError('network error'));
      };
    });
    await change(page, () => page.selectOption('[aria-label="measure"]', 'stack_size'));
    assert.match(await text(page, '.message'), /the node that serves this page does not answer/);
    await page.waitForFunction(() => document.querySelector('.message').hidden);
    assert.match(await text(page, '.summary'), /^stack_size: /);
    await page.context().close();
  });

  test('the other file of a comparison may have a newer index', withPage(async (page) => {
    const other = (address) => address.pathname.endsWith('/api/index')
        && address.searchParams.get('name') === hostile;
    await page.route(other, (route) => route.fulfill({ status: 410, body: '{}' }), { times: 1 });
    await show(page, `file=${encodeURIComponent(profile)}&view=compare&otherFile=${hostile}`);
    assert.match(await text(page, '.summary'), /compared with [\d,]+ samples?/);
    page.complaints.splice(0); // the browser's, of 410
  }));

  test('those who wait for one opening renew an index once', async () => {
    let refused = 0;
    const page = await openPage(browser, address(), { prepare: async (one) => {
      await withoutIndex(one);
      await one.route(({ pathname }) => pathname.endsWith('/api/index'), async (route) => {
        if (refused === 3) return route.continue();
        refused++;
        await one.evaluate(() => dispatchEvent(new HashChangeEvent('hashchange')));
        return route.fulfill({ status: 410, body: '{}' });
      });
    } });
    assert.equal(refused, 3);
    assert.match(await text(page, '.summary'), /samples/);
    await page.context().close();
  });

  test('what the server still reads is not told of another profile', withPage(async (page) => {
    const isRead = (address) => address.pathname.endsWith('/api/prepare')
        && address.searchParams.get('name') === hostile;
    const asked = () => page.waitForResponse((response) => isRead(new URL(response.url())));
    await page.route(isRead, (route) => route.fulfill({ contentType: 'application/json',
      body: JSON.stringify({ state: 'reading', read: 87, size: 100 }) }));
    await page.evaluate((name) => (location.hash = `file=${name}`), hostile);
    await page.waitForFunction(() =>
        / 87 %$/.test(document.querySelector('.busy').textContent));
    await show(page, `file=${encodeURIComponent(profile)}`);
    await asked();
    await asked();
    assert.equal(await text(page, '.busy'), '');
  }));

  test('a profile that is not there leaves no picture that looks as if it were', async () => {
    const page = await openPage(browser, address());
    page.mayFail = true;
    await show(page, 'file=nope');
    assert.equal(await page.getAttribute('#app', 'data-old'), '');
    assert.match(await text(page, '.message'), /The pictures show what was there before/);
    const asked = page.requested.length;
    await page.waitForTimeout(5000);
    assert.deepEqual(page.requested.slice(asked).filter((one) => /prepare/.test(one)), []);
    await page.context().close();
  });

  test('numbers of what was shown before go', withPage(async (page) => {
    await page.hover('.heat', { position: { x: 260, y: 60 } });
    assert.ok(await page.isVisible('.tip'));
    await change(page, () => page.evaluate(() => (location.hash += '&range=0-1000000')));
    assert.equal(await page.isVisible('.tip'), false);
  }));

  test('a search is one step of Back', withPage(async (page) => {
    const before = await page.evaluate(() => history.length);
    await page.locator('#search').pressSequentially('gen_server');
    await page.waitForFunction(() => location.hash.includes('search=gen_server'));
    assert.equal(await page.evaluate(() => history.length), before + 1);
    await change(page, () => page.goBack());
    assert.equal((await state(page)).search, undefined);
  }));

  test('a value is what there was at a time', withPage(async (page) => {
    const rows = parseCsv(await saved(page, 'save the heatmap as CSV'));
    const ticks = rows.reduce((sum, row) => sum + Number(row.ticks), 0);
    const [root] = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const shown = /memory: ([\d,]+) bytes/.exec(await text(page, '.summary'))[1];
    const mean = Number(shown.replaceAll(',', ''));
    assert.ok(Math.abs(mean / (Number(root.total) / ticks) - 1) < 0.05, `${mean}`);
  }, '&measure=memory'));

  test('an address is a view', withPage(async (page) => {
    assert.equal(await page.inputValue('[aria-label="measure"]'), 'memory.delta');
    assert.equal(await page.inputValue('[aria-label="rows"]'), '25');
    assert.equal(await page.getAttribute('text=icicle', 'aria-pressed'), 'false');
    assert.match(await text(page, '#range'), /0 s to 2 s/);
  }, '&measure=memory.delta&rows=25&icicle=0&range=0-2000000'));

  test('nonsense in an address is left out', withPage(async (page) => {
    assert.match(await text(page, '.summary'), /^[\d,]+ samples$/);
  }, '&measure=__proto__&rows=7&range=9-1&levels=constructor.status.<b>' +
    '&view=x&palette=../&zoom=%00'));

  test('pictures are saved as SVG and PNG', async () => {
    const page = await openPage(browser, address(), { isDownloading: true, acceptDownloads: true });
    for (const [label, magic] of [
      ['save the flame graph as SVG', '<svg '],
      ['save the flame graph as PNG', '\u0089PNG'],
      ['save the heatmap as PNG', '\u0089PNG'],
    ]) {
      if (!(await page.isVisible(`[aria-label="${label}"]`))) await openMenu(page, 'Save');
      const [download] = await Promise.all([page.waitForEvent('download'),
          page.click(`[aria-label="${label}"]`)]);
      const bytes = readFileSync(await download.path());
      assert.ok(bytes.toString('latin1').startsWith(magic), label);
      if (magic === '<svg ') assert.equal(await wellFormed(page, bytes.toString()), true);
    }
    await page.context().close();
  });

  test('a comparison begins with the halves of the profile, and says how to choose', withPage(
      async (page) => {
    await change(page, () => page.click('[role=tab]:text-is("Compare")'));
    const { range, otherRange } = await state(page);
    assert.equal(otherRange, `0-${range.split('-')[0]}`);
    assert.match(await text(page, '.hint'), /^Drag selects a range, Alt and\s+drag the other one/);
    assert.deepEqual((await page.locator('.kinds .key').allTextContents()),
        ['−100 %', '−10 %', '−1 %', '0', '+1 %', '+10 %', '+100 %']);
    await page.focus('.flame');
    await page.keyboard.press('ArrowDown');
    assert.match(await text(page, '.flame-box [aria-live]'),
        /other side [\d,]+ samples?; [\d,.]+ (more|fewer), both taken/);
    await show(page, `file=${encodeURIComponent(profile)}&view=compare`);
    assert.match(await text(page, '.hint'), /^Both sides are the same\./);
  }));

  test('two files are compared', withPage(async (page) => {
    assert.match(await text(page, '.summary'),
        /compared with [\d,]+ samples?/);
    const rows = parseCsv(await saved(page, 'save the flame graph as CSV'));
    const [root] = rows;
    assert.ok(Number(root.total) > 0 && Number(root.other_total) > 0);
  }, `&show=all&view=compare&otherFile=${encodeURIComponent(hostile)}`));

  test('symbols with HTML in them are text', async () => {
    for (const where of [`${url}#file=${encodeURIComponent(hostile)}&levels=process${WHOLE}`,
        `file://${join(directory, 'hostile.html')}#levels=process${WHOLE}`]) {
      const page = await openPage(browser, where);
      for (const view of ['flame', 'processes', 'sandwich', 'compare', 'stacks']) {
        await show(page, `${where.split('#')[1]}&view=${view}`);
        if (view === 'sandwich') await change(page, () => page.click('tbody tr:first-child'));
        if (view === 'flame') {
          await page.focus('.flame');
          for (const key of ['ArrowDown', 'ArrowDown', 'ArrowDown']) await page.keyboard.press(key);
        }
        assert.equal(await page.evaluate(() => window.pwned), undefined);
        assert.equal(await page.locator('img, iframe, b, #app script').count(), 0);
      }
      await show(page, `${where.split('#')[1]}&view=flame`);
      const svg = await saved(page, 'save the flame graph as SVG');
      assert.equal(await wellFormed(page, svg), true);
      assert.ok(!svg.includes('<img') && svg.includes('&lt;img'), 'the SVG has the name as text');
      const csv = await saved(page, 'save the flame graph as CSV');
      assert.ok(csv.includes('<img'), 'the name is there');
      assert.deepEqual(page.complaints, []);
      await page.context().close();
    }
  });

  test('a report asks the network for nothing', async () => {
    const page = await openPage(browser, `file://${report}`);
    for (const view of ['flame', 'compare', 'processes', 'sandwich']) await show(page,
        `view=${view}`);
    assert.deepEqual(page.requested.filter((one) => !/^(file|blob|data):/.test(one)), []);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('a page asks nobody but its server, for all of a first picture at once', withPage(
      async (page) => {
    assert.deepEqual(page.requested.filter((one) => !one.startsWith(url)
        && !/^(blob|data):/.test(one)), []);
    const asked = page.requested.filter((one) => /\/api\/(?!findings|profiles)/.test(one));
    assert.deepEqual(asked.map((one) => new URL(one).pathname.split('/').at(-1)), ['first']);
  }, '&follow=0'));

  test('a running session is followed without a reload, from file to file', async () => {
    const page = await openPage(browser, `${live}#range=0-1000000`);
    await page.evaluate(() => (window.isTheSame = true));
    const first = await secondsShown(page);
    await page.waitForFunction((least) =>
        Number(/([\d.]+) s from/.exec(document.querySelector('.facts').textContent)[1]) > least,
        first + 6);
    assert.match(await page.locator('[aria-label="profile"] option:checked').textContent(),
        /\+ \(\d+ files, /);
    assert.equal(await page.evaluate(() => window.isTheSame), true);
    assert.equal((await state(page)).range, '0-1000000');
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('the controls of a running session stay the same elements', async () => {
    const page = await openPage(browser, live);
    await page.focus('[aria-label="profile"]');
    const names = ['profile', 'measure', 'statuses', 'sort', 'search'];
    await page.evaluate((labels) => {
      window.controls = labels.map((label) => document.querySelector(`[aria-label="${label}"]`));
    }, names);
    const first = await secondsShown(page);
    await page.waitForFunction((least) =>
        Number(/([\d.]+) s from/.exec(document.querySelector('.facts').textContent)[1]) > least,
        first + 6);
    const same = await page.evaluate((labels) => labels.map((label, i) =>
        document.querySelector(`[aria-label="${label}"]`) === window.controls[i]), names);
    assert.deepEqual(same, names.map(() => true));
    assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), 'profile');
    assert.match(await text(page, '.badge'), /^recording, \d+ s behind$/);
    assert.deepEqual(page.complaints, []);
    await page.context().close();
  });

  test('what is not followed says so until it is again', async () => {
    const page = await openPage(browser, live);
    page.mayFail = true;
    await page.route('**/api/**', (route) => route.abort());
    await page.waitForFunction(() =>
        /^not followed: the node/.test(document.querySelector('.badge').textContent));
    await page.unroute('**/api/**');
    await page.waitForFunction(() =>
        /^recording/.test(document.querySelector('.badge').textContent));
    await page.context().close();
  });

  test('the selection stays where it was when the oldest file is removed', async () => {
    const page = await openPage(browser, `${series.url}#range=10000000-11000000`);
    const before = await text(page, '.summary');
    rmSync(series.first);
    await page.waitForFunction(() => location.hash === '#range=0-1000000');
    await page.waitForFunction((summary) =>
        document.querySelector('.summary').textContent === summary, before);
    await page.context().close();
  });

  test('a selection is kept when the first sample of a session comes', async () => {
    const page = await openPage(browser, `${begun.url}#range=0-1000000&show=all`);
    assert.match(await text(page, '.summary'), /There is nothing to show/);
    assert.equal(await text(page, '.facts'), '0 samples, 0 processes');
    writeFileSync(begun.file, begun.text);
    await page.waitForFunction(() =>
        /^[1-9]\d* samples/.test(document.querySelector('.summary').textContent));
    assert.equal((await state(page)).range, '0-1000000');
    await page.context().close();
  });

  test('a profile that is being opened is not opened again', withPage(async (page) => {
    const asked = await page.evaluate(async (hashes) => {
      const { fetch } = window;
      let [times, go] = [0, null];
      const held = new Promise((done) => (go = done));
      window.fetch = async (address, options) => {
        if (!address.startsWith('api/prepare')) return fetch(address, options);
        times++;
        await held;
        return fetch(address, options);
      };
      for (const hash of hashes) {
        const isChanged = new Promise((done) => addEventListener('hashchange', done));
        location.hash = hash;
        await isChanged;
      }
      window.fetch = fetch;
      go();
      return times;
    }, [`file=${hostile}`, `file=${hostile}&view=processes`]);
    assert.equal(asked, 1);
    await page.waitForSelector('.processes tbody tr');
  }));

  test('looking less often is no gap; a gap is told from cells without a sample', async () => {
    const page = await openPage(browser, `${url}#file=gaps.log${WHOLE}`);
    const cells = parseCsv(await saved(page, 'save the heatmap as CSV'));
    const of = (kind) => cells.filter((cell) => cell.cell === kind).map((cell) =>
        Number(cell.from_us));
    assert.deepEqual(of('missed'), Array.from({ length: 25 }, (_, i) => 2e6 + i * 20000));
    assert.ok(of('empty').length > 10 && of('empty').every((us) => us > 1e6
        && (us < 2e6 || us >= 2.5e6)), `${of('empty')}`);
    await page.context().close();
  });

  test('what the profiler tells of itself is no sample', async () => {
    const page = await openPage(browser, `${url}#file=own.log${WHOLE}`);
    assert.match(await text(page, '.facts'), /^400 samples, 13 processes/);
    assert.match(await text(page, '.summary'), /^400 samples/);
    assert.equal(await page.locator('[aria-label="measure"] option[value^="ticks"]').count(), 0);
    await page.context().close();
  });

  test('a file without a sample says so', async () => {
    await assert.rejects(openPage(browser, `${url}#file=broken.log${WHOLE}`),
        /the page says: no sample of it can be read: it is no profile, or damaged/);
  });

  for (const [file, said] of [
    ['zero.log', /the file is empty: 0 bytes/],
    ['text.log.zst', /no sample of it can be read: it is no profile, or damaged/],
    ['flipped.log.zst', /[KM]iB of text missing, with them about [1-9][\d,]* samples in [\d.]+ s/],
  ]) {
    test(`damage has a size: ${file}`, async () => {
      const page = await openPage(browser, `${url}#file=${file}${WHOLE}`,
          { prepare: (one) => (one.mayFail = true) });
      assert.match(await text(page, '.header .warning, .message:not([hidden])'), said);
      assert.doesNotMatch(await text(page, '#app'), /Nothing (is wrong|was found)\./);
      await page.context().close();
    });
  }

  for (const [title, options] of [
    ['1280x720', {}],
    ['a phone', { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true,
        deviceScaleFactor: 2 }],
  ]) {
    test(`nothing is wider than ${title}`, async () => {
      const page = await openPage(browser, address(), options);
      for (const view of ['flame', 'compare', 'processes', 'sandwich', 'stacks']) {
        await show(page, `file=${encodeURIComponent(profile)}&view=${view}`);
        const [wide, room] = await page.evaluate(() =>
            [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(wide <= room, `${view}: ${wide} of ${room}`);
      }
      await page.context().close();
    });
  }

  // A browser that prints lays the page out anew, and runs nothing that would draw it anew.
  test('paper cuts no picture off', async () => {
    const page = await openPage(browser, address(), { viewport: { width: 1440, height: 900 },
        prepare: (one) => one.addInitScript(() => (window.ResizeObserver = class {
          observe() {}
        })) });
    await page.emulateMedia({ media: 'print' });
    await page.setViewportSize({ width: 794, height: 1123 });
    const rights = await page.$$eval('canvas', (all) => all.map((one) =>
        one.getBoundingClientRect().right));
    assert.ok(rights.length >= 3 && rights.every((right) => right <= 794), `${rights}`);
    await page.context().close();
  });

  test('light and dark follow the system and the choice', async () => {
    const page = await openPage(browser, address(), { colorScheme: 'dark' });
    const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await colour();
    await openMenu(page, 'View');
    await change(page, () => page.selectOption('[aria-label="theme"]', 'light'));
    assert.notEqual(await colour(), dark);
    await page.context().close();
  });
}

// The first answer tells that there is an index, and has nothing of it.
async function withoutIndex(page) {
  await page.route(({ pathname }) => pathname.endsWith('/api/first'), async (route) => {
    const response = await route.fetch();
    const body = await response.body();
    await route.fulfill({ response, body: body.subarray(0, body.indexOf(10)) });
  });
}

// Of a session that may have no sample yet.
async function secondsShown(page) {
  await page.waitForSelector('.facts:text(" s from ")');
  return Number(/([\d.]+) s from/.exec(await page.textContent('.facts'))[1]);
}

// Of the heatmap: where its first column begins, and how wide each is.
async function columns(page) {
  const { left, column } = await page.evaluate(() =>
      ({ ...document.querySelector('.heat').dataset }));
  return { left: Number(left), width: Number(column) };
}

// Of the same selection; the view is as before.
async function processesOf(page) {
  const before = await page.evaluate(() => location.hash.slice(1));
  await show(page, `${before}&view=processes`);
  const rows = await saved(page, 'save the processes as CSV');
  await show(page, before);
  return rows;
}

function wellFormed(page, xml) {
  return page.evaluate((source) => {
    const parsed = new DOMParser().parseFromString(source, 'image/svg+xml');
    return parsed.querySelector('parsererror') === null;
  }, xml);
}
