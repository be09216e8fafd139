// node speedscope.mjs TEXT...: open each in speedscope, in Debian's chromium, as a
// user does, and compare what it saves with TEXT.speedscope, which
// test/foreign/foreign_oracle.erl explains. The last line is "PASSED FAILED".

import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const PAGE_MS = Number(process.env.PAGE_MS ?? 180000);
const PAGE = new URL('./node_modules/speedscope/dist/release/index.html', import.meta.url);

// Times near 1.8e9 s are good to 0.24 us in the doubles that speedscope counts in.
const ERROR_PER_SAMPLE = 0.5e-6;
const HALF_MICROSECOND = 0.5e-6;

/** What speedscope makes of the file, as it saves it. */
async function imported(browser, file) {
  const page = await browser.newPage();
  page.setDefaultTimeout(PAGE_MS);
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.on('dialog', (dialog) => complaints.push(dialog.message()) && dialog.dismiss());
  try {
    await page.goto(PAGE.href);
    await page.setInputFiles('#file', file);
    const opened = page.getByText('Export', { exact: false }).first();
    const failed = page.getByText('Something went wrong');
    await opened.or(failed).waitFor();
    if (await failed.isVisible()) throw new Error(`speedscope refuses it: ${complaints}`);
    const [download] = await Promise.all([page.waitForEvent('download'), opened.click()]);
    if (complaints.length > 0) throw new Error(`speedscope complains: ${complaints}`);
    return JSON.parse(readFileSync(await download.path(), 'utf8'));
  } finally {
    await page.close();
  }
}

/** Self and total weights by frame, of a profile as speedscope saves it. */
function weights({ events }, frames) {
  const found = new Map();
  const open = [];
  let last = 0;
  for (const { type, frame, at } of events) {
    for (const key of new Set(open)) found.get(key).total += at - last;
    if (open.length > 0) found.get(open.at(-1)).self += at - last;
    last = at;
    const key = `${frames[frame].name} ${frames[frame].file}`;
    if (type === 'O') {
      open.push(key);
      if (!found.has(key)) found.set(key, { self: 0, total: 0 });
    } else if (open.pop() !== key) throw new Error(`${key} is closed, and not open`);
  }
  return found;
}

/** By the name that speedscope gives a profile. */
function expectations(text) {
  const profiles = new Map();
  let profile;
  for (const line of text.split('\n').slice(0, -1)) {
    const [kind, ...fields] = line.split(' ');
    if (kind === 'profile') {
      const [command, pid, tid, samples, unit, total] = fields;
      profile = { samples: Number(samples), unit, total: weight(unit, total), frames: new Map() };
      // To speedscope 0 is no tid; ours has it for init.
      profiles.set(`${command} pid: ${pid}${tid === '0' ? '' : ` tid: ${tid}`}`, profile);
    } else {
      const [symbol, dso, self, total] = fields;
      profile.frames.set(`${symbol} ${dso}`,
          { self: weight(profile.unit, self), total: weight(profile.unit, total) });
    }
  }
  return profiles;
}

const weight = (unit, text) => Number(text) * (unit === 'none' ? 1 : HALF_MICROSECOND);

function same(what, got, wanted, error = 0) {
  if (typeof wanted === 'number' ? Math.abs(got - wanted) > error : got !== wanted)
    throw new Error(`${what}: ${got}, and not ${wanted}`);
}

/** The same names, and each as often. */
function sameNames(what, got, wanted) {
  const [mine, theirs] = [[...wanted].sort(), [...got].sort()];
  const at = theirs.findIndex((name, i) => name !== mine[i]);
  same(`${what}, number ${at}`, theirs[at], mine[at]);
  same(what, theirs.length, mine.length);
}

function compare(saved, expected) {
  let worst = 0;
  sameNames('processes', saved.profiles.map(({ name }) => name), expected.keys());
  for (const profile of saved.profiles) {
    const { samples, unit, total, frames } = expected.get(profile.name);
    const error = samples * ERROR_PER_SAMPLE;
    const found = weights(profile, saved.shared.frames);
    same(`${profile.name}, unit`, profile.unit, unit);
    same(`${profile.name}, total`, profile.endValue, total, error);
    sameNames(`${profile.name}, frames`, found.keys(), frames.keys());
    for (const [key, wanted] of frames) {
      same(`${profile.name}, self of ${key}`, found.get(key).self, wanted.self, error);
      same(`${profile.name}, total of ${key}`, found.get(key).total, wanted.total, error);
      worst = Math.max(worst, Math.abs(found.get(key).total - wanted.total) / samples);
    }
  }
  return worst;
}

const sum = (numbers) => [...numbers].reduce((a, b) => a + b, 0);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  // Root has no sandbox for itself; the page is on this disk.
  args: process.getuid() === 0 ? ['--no-sandbox'] : [],
});
let passed = 0;
let failed = 0;
for (const file of process.argv.slice(2)) {
  try {
    const expected = expectations(readFileSync(`${file}.speedscope`, 'utf8'));
    const error = compare(await imported(browser, file), expected);
    const all = [...expected.values()];
    console.log(
      `    ok    ${file.split('/').slice(-2).join('/')}: ${all.length} processes, ${sum(all.map((p) => p.samples))} samples, ` +
        `${sum(all.map((p) => p.frames.size))} frames; off by ${(error * 1e6).toFixed(3)} us a sample at most`,
    );
    passed++;
  } catch (error) {
    console.log(`    FAIL  ${file}\n${String(error.stack).split('\n').slice(0, 14).join('\n')}`);
    failed++;
  }
}
await browser.close();
console.log(`${passed} ${failed}`);
