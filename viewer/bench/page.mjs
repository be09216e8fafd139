// node page.mjs URL [SECONDS]: how long the page takes, in Debian's chromium, from
// an address to a timeline, from a choice to a flame graph, and for a frame while lanes scroll.

import { change, launch, openPage } from '../test/browser.mjs';

const [, , url, range = '10'] = process.argv;
const browser = await launch();

async function timed(title, action) {
  const began = performance.now();
  await action();
  console.log(`  ${title.padEnd(58)} ${Math.round(performance.now() - began)} ms`);
}

const ALL = 'follow=0&show=all';
const hash = (text) => `${url}#${ALL}&${text}`;
let page;
await timed('first address, the server reads the file', async () => {
  page = await openPage(browser, hash(''), {});
});
await page.close();
const seconds = `${range}000000`;
await timed('address to timeline', async () => {
  page = await browser.newPage();
  await page.goto(hash(''));
  await page.waitForSelector('.timeline-view[data-left]', { timeout: 60000 });
});
await page.close();
await timed('address to heatmap', async () => {
  page = await browser.newPage();
  await page.goto(hash('heat=1'));
  await page.waitForSelector('#app[data-heat]', { timeout: 60000 });
});
await page.close();
await timed(`address to all, with the flame graph of ${range} s`, async () => {
  page = await openPage(browser, hash(`range=0-${seconds}`));
});
const go = (title, text) =>
  timed(title, () => change(page, () => page.evaluate((to) => (location.hash = to), text)));
await go(`another range of ${range} s, status`,
    `${ALL}&range=20000000-${20000000 + Number(seconds)}`);
await go(`the same, process and status`,
    `${ALL}&levels=process.status&range=20000000-${20000000 + Number(seconds)}`);
await go(`another range of 60 s, status`, `${ALL}&range=60000000-120000000`);
await go('by reductions delta (a new column)',
    `${ALL}&measure=reductions.delta&range=0-${seconds}`);
await go(`a range of ${range} s by reductions delta`,
    `${ALL}&measure=reductions.delta&range=30000000-${30000000 + Number(seconds)}`);
await go('by memory (a new column)', `${ALL}&measure=memory&range=0-${seconds}`);
await go('the whole profile, samples by status', ALL);
await drag();
await scrollLanes();
const client = await page.context().newCDPSession(page);
await client.send('HeapProfiler.collectGarbage');
const { usedSize, backingStorageSize } = await client.send('Runtime.getHeapUsage');
console.log(`  memory of the page: ${Math.round(usedSize / 2 ** 20)} MiB of objects, ${Math.round((backingStorageSize ?? 0) / 2 ** 20)} MiB of arrays`);
await browser.close();

// From each movement of the hand to the flame graph of the range that it selects, by the page's own
// clock: until it is counted and drawn, and until the browser has painted that frame. The way of an
// input through the remote control of the browser is not the page's.
async function drag() {
  const box = await page.locator('.tracks').boundingBox();
  const { left, pixels } = await page.evaluate(() =>
      ({ ...document.querySelector('.timeline-view').dataset }));
  const at = (share) => [box.x + Number(left) + share * Number(pixels), box.y + 30];
  await page.evaluate(() => {
    const times = (window.times = { drawn: [], painted: [] });
    let began = null;
    addEventListener('pointermove', () => (began ??= performance.now()), true);
    new MutationObserver(() => {
      if (began === null) return;
      const from = began;
      began = null;
      times.drawn.push(performance.now() - from);
      const { port1, port2 } = new MessageChannel(); // its message comes behind the painting
      port1.onmessage = () => times.painted.push(performance.now() - from);
      requestAnimationFrame(() => port2.postMessage(''));
    }).observe(document.getElementById('app'), { attributeFilter: ['data-rendered'] });
  });
  await page.mouse.move(...at(0.1));
  await page.mouse.down();
  for (let n = 1; n <= 100; n++) {
    await page.mouse.move(...at(0.1 + 0.008 * n));
    await page.waitForTimeout(100);
  }
  await page.mouse.up();
  const { drawn, painted } = await page.evaluate(() => window.times);
  tell('a drag, each movement to its flame graph', drawn);
  tell('the same, until it is painted', painted);
}

async function scrollLanes() {
  tell('a frame while lanes scroll', await page.evaluate(async () => {
    const box = document.querySelector('.lane-scroller');
    const times = [];
    for (let n = 0; n < 200; n++) {
      const began = performance.now();
      await new Promise(requestAnimationFrame);
      box.scrollTop = (box.scrollTop + 60) % Math.max(60, box.scrollHeight - box.clientHeight);
      times.push(performance.now() - began);
    }
    return times.slice(1);
  }));
}

function tell(title, times) {
  const sorted = times.sort((a, b) => a - b);
  const at = (share) => Math.round(sorted[Math.floor(share * (sorted.length - 1))]);
  console.log(`  ${title.padEnd(58)} ${at(0.5)} ms, 95 %: ${at(0.95)} ms`);
}
