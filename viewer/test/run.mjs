// node run.mjs DIRECTORY: tests of the viewer against a running server. What
// there is to test with, tools/test_viewer.sh has made: DIRECTORY/about.json.
//
// The last line is "PASSED FAILED", or, with status 77, why the browser does not start.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { launch, openPage } from './browser.mjs';
import { allocationTests } from './allocations.mjs';
import { latencyTests } from './latency.mjs';
import { numberTests } from './numbers.mjs';
import { chainTests } from './chains.mjs';
import { findingTests } from './findings.mjs';
import { frameTests } from './frames.mjs';
import { memoryTests } from './memory.mjs';
import { pageTests } from './page.mjs';
import { timelineTests } from './timeline.mjs';
import { troubleTests } from './trouble.mjs';

const dir = process.argv[2];
const only = new RegExp(process.env.ONLY ?? '');
const read = (name) => JSON.parse(readFileSync(join(dir, name), 'utf8'));
const expected = read('expected.json');
const about = read('about.json');
const tests = [];
const browser = await launch().catch((error) => {
  console.log(String(error.message).split('\n').slice(0, 3).join(' '));
  process.exit(77);
});

const shared = (address) => {
  let page;
  return () => (page ??= openPage(browser, address));
};
const group = (title) => (name, run) => tests.push([`${title}: ${name}`, run]);

const { url } = about;
const { profile, weighted } = about;
numberTests(group('page'), withFile(expected, profile),
    shared(`${url}#file=${encodeURIComponent(profile)}`));
numberTests(group('weighted'), withFile(read('expected_weighted.json'), weighted),
    shared(`${url}#file=${encodeURIComponent(weighted)}`));
numberTests(group('report'), expected, shared(`file://${about.report}`));
pageTests(group('page'), { ...about, browser, expected });
frameTests(group('frames'), { ...about, browser });
chainTests(group('chains'), { ...about, browser, dir, expected: read('chains.json') });
timelineTests(group('timeline'), { ...about, browser });
allocationTests(group('allocations'), { ...about, browser, dir, story: read('allocations.json') });
latencyTests(group('latency'), { ...about, browser });
memoryTests(group('memory'), { ...about, browser, dir });
findingTests(group('findings'), { ...about, browser });
troubleTests(group('trouble'), { ...about, browser, dir, trouble: read('truth.json').problems });

// The server has several profiles: each address names its own.
function withFile(all, file) {
  const named = (query) => (query.hash ? { ...query,
      hash: `${query.hash}&file=${encodeURIComponent(file)}` } : query);
  return Object.fromEntries(Object.entries(all).map(([key, value]) =>
      [key, Array.isArray(value) ? value.map(named) : value]));
}

// A session that has run for as long as all else takes, on a slow machine, is a long one.
const isOfRunning = ([title]) => Number(title.includes('a running session'));
tests.sort((a, b) => isOfRunning(b) - isOfRunning(a));

let failed = 0;
let passed = 0;
for (const [name, run] of tests.filter(([title]) => only.test(title))) {
  try {
    await run();
    passed++;
  } catch (error) {
    failed++;
    console.log(`    FAIL  ${name}\n${String(error.stack).split('\n').slice(0, 14).join('\n')}`);
  }
}
await browser.close();
console.log(`${passed} ${failed}`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
