import { launch, openPage } from './test/browser.mjs';
const browser = await launch();
const out = '/tmp/wt-viewer-x';
const shots = process.argv.slice(2).length ? process.argv.slice(2) : [];
for (const s of shots) {
  const [name, file, hash, size, scheme] = s.split('|');
  const [w, h] = size.split('x').map(Number);
  const phone = w < 700 ? { isMobile: true, hasTouch: true, deviceScaleFactor: 1.5 } : {};
  const page = await openPage(browser, `file://${out}/${file}.html#${hash}`, { viewport: { width: w, height: h }, colorScheme: scheme, ...phone });
  await page.waitForTimeout(400);
  await page.screenshot({ path: `${out}/${name}.png` });
  await page.context().close();
}
await browser.close();
