// node live.mjs URL DEMO VIEWER FOLLOWED SECONDS: the CPU time of the viewer's node and of the
// session's writer thread, without a page, with one that follows, and without one again.

import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

const [, , url, demo, viewer, followed, seconds] = process.argv;
const LOOK_MS = 2000;
const LOOKS_PER_LIST = 3;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Nanoseconds of the threads of an OS process that have such a name.
function cpuOf(pid, name) {
  const threads = readdirSync(`/proc/${pid}/task`);
  return threads.reduce((sum, thread) => {
    const dir = `/proc/${pid}/task/${thread}`;
    if (!name.test(readFileSync(`${dir}/comm`, 'utf8'))) return sum;
    return sum + Number(readFileSync(`${dir}/schedstat`, 'utf8').split(' ')[0]);
  }, 0);
}

const json = async (path) => (await fetch(url + path)).json();
const query = (of) => new URLSearchParams(of);

async function header(name, { version, size }) {
  const most = 4 * 1024 * 1024;
  let first;
  for (let at = 0; at < size; at += most) {
    const headers = { Range: `bytes=${at}-${Math.min(size, at + most) - 1}` };
    const response = await fetch(`${url}api/index?${query({ name, version })}`, { headers });
    const bytes = Buffer.from(await response.arrayBuffer());
    first ??= bytes;
  }
  return headerOf(first);
}

const headerOf = (bytes) => JSON.parse(bytes.subarray(16, 16 + bytes.readUInt32LE(8)));

async function open() {
  const [{ name }] = (await json('api/profiles')).profiles;
  for (;;) {
    const answer = await json(`api/prepare?${query({ name })}`);
    if (answer.state === 'ready') {
      await header(name, answer);
      return { name, version: answer.version };
    }
    await sleep(300);
  }
}

let looks = 0;
const sizes = [];

// As the page does: what there is, then what is new of it.
async function look(page, delays, rows) {
  if (looks++ % LOOKS_PER_LIST === 0) {
    const [{ name }] = (await json('api/profiles')).profiles;
    if (name !== page.name) return open();
  }
  const bytes = Buffer.from(await (await fetch(`${url}api/append?${query(page)}`)).arrayBuffer());
  let at = bytes.indexOf('\n') + 1;
  const answer = JSON.parse(at > 0 ? bytes.subarray(0, at) : bytes);
  if (answer.state !== 'ready') return open();
  for (const piece of answer.pieces) {
    const { end_us: endUs, rows: count } = at > 0
        ? headerOf(bytes.subarray(at, (at += piece.size))) : await header(page.name, piece);
    delays.push(Date.now() - endUs / 1000);
    sizes.push(piece.size);
    rows.push(count);
    page = { name: page.name, version: piece.version };
  }
  return page;
}

async function measured(title, work) {
  const cpu = () => [cpuOf(viewer, /./), cpuOf(demo, /flame_prof_wr/)];
  const [before, began] = [cpu(), performance.now()];
  await work(began + 1000 * seconds);
  const passed = (performance.now() - began) * 1e6;
  const shares = cpu().map((ns, i) => (100 * (ns - before[i])) / passed);
  console.log(`  ${title.padEnd(16)} viewer's node ${shares[0].toFixed(2)} % of a core, `
      + `session's writer ${shares[1].toFixed(2)} %`);
  return shares;
}

const idle = (until) => sleep(until - performance.now());
const closed = [await measured('no page', idle)];
writeFileSync(followed, '');
let page = await open();
await sleep(LOOK_MS);
const [delays, rows] = [[], []];
const opened = await measured('a page follows', async (until) => {
  while (performance.now() < until) {
    page = await look(page, delays, rows);
    await sleep(LOOK_MS);
  }
});
rmSync(followed);
await sleep(70000); // the reader ends
closed.push(await measured('no page', idle));
const sum = (of) => of.reduce((a, b) => a + b, 0);
const cost = [0, 1].map((i) => opened[i] - sum(closed.map((shares) => shares[i])) / 2);
delays.sort((a, b) => a - b);
console.log(`  a page that is open costs ${sum(cost).toFixed(2)} % of a core: ${cost[0].toFixed(2)} %`
    + ` the viewer, ${cost[1].toFixed(2)} % the session`);
console.log(`  ${sizes.length} pieces, ${Math.round(sum(rows) / seconds)} samples a second, `
    + `${Math.round(sum(sizes) / sizes.length / 1024)} KiB each, `
    + `${Math.round(delays[delays.length >> 1])} ms behind the samples, `
    + `${Math.round(delays.at(-1))} ms at most`);
