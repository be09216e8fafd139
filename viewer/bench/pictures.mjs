// node pictures.mjs REPORT OUT_DIRECTORY: the pictures of doc/guide/pictures.md, of a report
// of a minute of the demo.

import { join, resolve } from 'node:path';
import { launch, openPage } from '../test/browser.mjs';

const PICTURES = {
  samples: 'measure=samples&levels=status.process&rows=25',
  reductions_delta: 'measure=reductions.delta&levels=sign.status.process&rows=25',
  bin_vheap: 'measure=bin_vheap_size&levels=memory.process&rows=25',
  bin_vheap_delta: 'measure=bin_vheap_size.delta&levels=sign.status.process&rows=25',
  mbuf: 'measure=mbuf_size&levels=queue.process&rows=25',
};

const [, , report, out] = process.argv;
const browser = await launch();
for (const [name, hash] of Object.entries(PICTURES)) {
  const page = await openPage(browser, `file://${resolve(report)}#${hash}`,
      { viewport: { width: 1280, height: 860 } });
  await page.screenshot({ path: join(out, `${name}.png`) });
  console.log(name, await page.textContent('.summary'));
  await page.context().close();
}
await browser.close();
