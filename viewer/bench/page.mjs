// node page.mjs URL [SECONDS]: how long the page takes, in Debian's chromium, from
// an address to a heatmap, and from a choice to a flame graph.

import { change, launch, openPage } from '../test/browser.mjs';

const [, , url, range = '10'] = process.argv;
const browser = await launch();

async function timed(title, action) {
  const began = performance.now();
  await action();
  console.log(`  ${title.padEnd(58)} ${Math.round(performance.now() - began)} ms`);
}

const hash = (text) => `${url}#follow=0&${text}`;
let page;
await timed('first address, the server reads the file', async () => {
  page = await openPage(browser, hash(''), {});
});
await page.close();
const seconds = `${range}000000`;
await timed('address to heatmap', async () => {
  page = await browser.newPage();
  await page.goto(hash(''));
  await page.waitForSelector('#app[data-heat]', { timeout: 60000 });
});
await page.close();
await timed(`address to heatmap and flame graph of ${range} s`, async () => {
  page = await openPage(browser, hash(`range=0-${seconds}`));
});
const go = (title, text) =>
  timed(title, () => change(page, () => page.evaluate((to) => (location.hash = to), text)));
await go(`another range of ${range} s, status`,
    `follow=0&range=20000000-${20000000 + Number(seconds)}`);
await go(`the same, process and status`,
    `follow=0&levels=process.status&range=20000000-${20000000 + Number(seconds)}`);
await go(`another range of 60 s, status`, `follow=0&range=60000000-120000000`);
await go('heatmap by reductions delta (a new column)',
    `follow=0&measure=reductions.delta&range=0-${seconds}`);
await go(`a range of ${range} s by reductions delta`,
    `follow=0&measure=reductions.delta&range=30000000-${30000000 + Number(seconds)}`);
await go('heatmap by memory (a new column)', `follow=0&measure=memory&range=0-${seconds}`);
await go('the whole profile, samples by status', 'follow=0');
const client = await page.context().newCDPSession(page);
await client.send('HeapProfiler.collectGarbage');
const { usedSize, backingStorageSize } = await client.send('Runtime.getHeapUsage');
console.log(`  memory of the page: ${Math.round(usedSize / 2 ** 20)} MiB of objects, ${Math.round((backingStorageSize ?? 0) / 2 ** 20)} MiB of arrays`);
await browser.close();
