// A page of the viewer in Debian's chromium, and what tests do with it.

import { chromium } from 'playwright-core';

// Long enough for a machine that has other things to do.
const PAGE_MS = Number(process.env.PAGE_MS ?? 180000);
const CHROMIUM = process.env.CHROMIUM ?? '/usr/bin/chromium';

export async function launch() {
  // Root has no sandbox for itself; the pages are our own. A container's /dev/shm is small.
  const args = ['--disable-dev-shm-usage', ...(process.getuid() === 0 ? ['--no-sandbox'] : [])];
  return chromium.launch({ executablePath: CHROMIUM, args, timeout: PAGE_MS });
}

/**
 * Opens the address; complaints of the page are collected in `complaints`.
 *
 * @param options of the browser's context, and prepare(page) before the page is opened
 */
export async function openPage(browser, address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PAGE_MS);
  page.complaints = [];
  page.requested = [];
  if (!options.isDownloading) await page.addInitScript(keepSaved);
  page.on('pageerror', (error) => page.complaints.push(error.message));
  page.on('console', (message) => message.type() === 'error'
      && page.complaints.push(message.text()));
  page.on('request', (request) => page.requested.push(request.url()));
  await options.prepare?.(page);
  await page.goto(address);
  await rendered(page, '');
  return page;
}

export async function rendered(page, before) {
  await page.waitForFunction(
    (last) => {
      const { rendered } = document.getElementById('app').dataset;
      return rendered !== undefined && rendered !== last
          && document.querySelector('.busy').textContent === '';
    },
    before,
    { timeout: PAGE_MS },
  );
  const failure = await page.evaluate(() => {
    const message = document.querySelector('.message');
    return message.hidden ? '' : message.textContent;
  });
  if (failure !== '' && !page.mayFail) throw new Error(`the page says: ${failure}`);
}

/** When the doctor has judged, the page. */
export async function judged(page) {
  await page.waitForFunction(() =>
    (document.querySelector('.diagnosis')?.dataset.state ?? 'judging') !== 'judging', null,
  { timeout: PAGE_MS });
  return page;
}

/** Do something that makes the page count anew, and wait until it has. */
export async function change(page, action) {
  const before = await page.evaluate(() => document.getElementById('app').dataset.rendered);
  await action();
  await rendered(page, before);
}

export async function show(page, hash) {
  const is = await page.evaluate(() => location.hash);
  if (is === `#${hash}`) return;
  await change(page, () => page.evaluate((text) => (location.hash = text), hash));
}

// Hundreds of downloads would be slow: what is to be saved is kept in the page.
function keepSaved() {
  const create = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    window.lastSaved = blob;
    return create.call(URL, blob);
  };
  HTMLAnchorElement.prototype.click = () => {};
}

/** The text of the file that the button of this label saves. */
export async function saved(page, label) {
  await page.evaluate(() => delete window.lastSaved);
  await page.$eval(`[aria-label="${label}"]`, (button) => button.click()); // in a closed menu, too
  await page.waitForFunction(() => window.lastSaved !== undefined);
  return page.evaluate(() => window.lastSaved.text());
}

/** Opens the menu of this name. */
export async function openMenu(page, name) {
  await page.click(`.menu > summary:text-is("${name}")`);
}

/** Rows as objects by the head. */
export function parseCsv(text) {
  const rows = [];
  let row = [];
  for (const match of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    row.push(match[1] === undefined ? match[2] : match[1].replaceAll('""', '"'));
    if (match[3] === ',') continue;
    rows.push(row);
    row = [];
  }
  const [head, ...body] = rows;
  return body.map((cells) => Object.fromEntries(head.map((key, i) => [key, unquoted(cells[i])])));
}

// What the page guards against spreadsheets' formulas.
function unquoted(text) {
  return /^'[=+\-@\t\r]/.test(text) ? text.slice(1) : text;
}
