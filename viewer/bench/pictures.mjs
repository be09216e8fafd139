// node pictures.mjs DIR OUT: pictures of the reports in DIR; pictures.sh calls it.

import { join, resolve } from 'node:path';
import { change, launch, openPage } from '../test/browser.mjs';

// name: report, address, is its finding selected
const PICTURES = {
  timeline: ['mailbox', '', false],
  mailbox: ['mailbox', '', true],
  binaries: ['binary_leak', '', true],
  garbage_collection: ['gc', '', true],
  server: ['chain', '', true],
  heap: ['heap_growth', '', true],
  tables: ['table', '', true],
  allocators: ['fragmentation', 'allocators=binary', false],
  heatmap: ['mailbox', 'heat=1&measure=reductions.delta&lanes=cpu&levels=sign.process', false],
};

const [, , reports, out] = process.argv;
const browser = await launch();
for (const [name, [report, hash, isSelected]] of Object.entries(PICTURES)) {
  const page = await openPage(browser, `file://${resolve(reports, report)}.html#${hash}`,
      { viewport: { width: 1280, height: 900 } });
  if (isSelected) await change(page, () => page.click('.finding'));
  await page.mouse.move(0, 0);
  await page.screenshot({ path: join(out, `${name}.png`) });
  console.log(name, await page.textContent('.summary'));
  await page.context().close();
}
await browser.close();
