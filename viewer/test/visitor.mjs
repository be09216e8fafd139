// Somebody who looks at the page: what tests of it share.

import assert from 'node:assert/strict';
import { change, judged, openPage } from './browser.mjs';

export const state = (page) =>
    page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
export const text = (page, selector) => page.textContent(selector);

/** All samples, and the heatmap: in an address behind what a test says itself. */
export const WHOLE = '&heat=1&rows=50&show=all';

/** Tests of a page of this profile: it has nothing to complain of. */
export function visitor(browser, url, profile) {
  const address = (more = '') => `${url}#file=${encodeURIComponent(profile)}${more}${WHOLE}`;
  const withPage = (run, more, options) => async () => {
    const page = await openPage(browser, address(more), options);
    try {
      // What is found moves what is below it.
      await judged(page);
      await run(page);
      assert.deepEqual(page.complaints, []);
    } finally {
      await page.context().close();
    }
  };
  // The page tells that it has scrolled with its next frame, which closes a menu.
  const at = async (page, selector, x, y) => {
    const { left, top } = await page.locator(selector).evaluate(async (element) => {
      element.scrollIntoView();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return element.getBoundingClientRect().toJSON();
    });
    return [left + x, top + y];
  };
  return { address, withPage, at };
}

export async function clickFrame(page) {
  await change(page, () => page.locator('.flame').click({ position: { x: 20, y: 27 } }));
}
