// Processes are functions of time, and their samples are what a sampler sees of them: a finding has
// to say what made the samples, and nothing that did not.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findFindings } from '../../src/model/findings.js';
import { callers, quiet, simulate } from './simulate.mjs';

const MIB = 1024 * 1024;
const MIB_WORDS = MIB / 8;

const stackOf = (name, ...leaf) => [...leaf, `${name}:work/1:7`, `${name}:init/1`];

// Waits; `values` is a function of seconds.
const holder = (name, values, more = {}) => ({ pid: `<0.${name.length}.7>`, name,
  call: `${name}:init/1`, at: (us) => ({ status: 'waiting', stack: stackOf(name, 'timer:sleep/1'),
    values: quiet(values(us / 1e6)) }), ...more });

// Each status for its share of the ticks, by a fixed shuffle.
const worker = (name, shares, more = {}) => {
  let n = 0;
  return { pid: `<0.${name.length}.9>`, name, call: `${name}:init/1`, at: () => {
    const place = ((n++ * 617) % 1000) / 1000;
    let sum = 0;
    const [status] = Object.entries(shares).find(([, share]) => place < (sum += share))
        ?? ['waiting'];
    return { status, stack: stackOf(name, 'lists:map/2:3'), values: quiet(), ...more };
  } };
};

const idle = holder('idle', () => ({}));

async function found(processes, options) {
  return findFindings(await simulate(processes, options));
}

const kinds = (findings) => findings.map(({ kind }) => kind);

// ---------------------------------------------------------------- mailboxes

const burst = (seconds) => (seconds < 5 ? 0 : seconds < 9 ? 4000 * (seconds - 5)
    : Math.max(0, Math.round(16000 - 2000 * (seconds - 9))));
const mailbox = (length) => (seconds) => ({ message_queue_len: Math.round(length(seconds)) });

const inAllWays = [
  ['every sample', {}],
  ['merged samples', { isMerged: true }],
  ['rare ticks', { tickUs: 150000 }],
  ['inconsistent samples', { change: (samples) => samples.filter((_, i) => (i * 7) % 5 > 1) }],
  ['answers that come late in piles', { change: (samples) => piled(samples) }],
  ['files that overlap', { files: [{}, {}], change: (samples) => [
    ...samples.filter((_, i) => i % 3 > 0), ...samples.filter((_, i) => i % 3 === 0)
        .map((sample) => ({ ...sample, file: 1 }))] }],
];

// 22 ticks at the end of them, a microsecond apart.
function piled(samples) {
  const late = samples.map((sample, i) => ({ ...sample,
    us: samples[Math.min(samples.length - 1, i - (i % 44) + 43)].us + (i % 44) }));
  return late.sort((a, b) => a.us - b.us);
}

for (const [how, options] of inAllWays) {
  test(`a mailbox that grows has its owner, size and time, in ${how}`, async () => {
    const [one, ...others] = await found([idle, holder('audit', mailbox(burst))],
        { seconds: 22, ...options });
    assert.deepEqual(others, []);
    assert.equal(one.kind, 'mailbox');
    assert.deepEqual(one.pids, ['<0.5.7>']);
    assert.equal(one.function, 'audit:work/1');
    const peak = Number(/of ([\d,]+)$/.exec(one.title)[1].replace(',', ''));
    assert.ok(peak <= 16000 && peak > 15000, one.title);
    assert.ok(Math.abs(one.range[0] - 5e6) < 6e5 && Math.abs(one.range[1] - 17e6) < 1.5e6,
        `${one.range}`);
    const [, rate] = /drained by about ([\d,]+) a second/.exec(one.text);
    assert.ok(Math.abs(Number(rate.replace(',', '')) - 2000) <= 200, one.text);
  });
}

test('a mailbox that was long before its owner was sampled says so', async () => {
  const audit = holder('audit', mailbox((seconds) => 15613 - 500 * (seconds - 8)));
  const [one] = await found([idle, { ...audit, at: (us) => (us < 8e6 ? null : audit.at(us)) }]);
  assert.match(one.text, /was 15,6\d\d long when first seen at 8\.0 s/);
});

test('a mailbox that never falls is told before it is long', async () => {
  const [one] = await found([idle, holder('audit', mailbox((seconds) => 30 * seconds))]);
  assert.match(one.text, /grew from \d+ to 600 in .* and is 600 at the end/);
});

test('rushes that come and go, and mailboxes that stay, are none', async () => {
  const rush = mailbox((seconds) => 3000 * Math.max(0, 1 - (seconds % 4) / 2));
  assert.deepEqual(await found([idle, holder('order', rush), holder('log', mailbox(() => 900)),
    holder('timer', mailbox((seconds) => 40 * (seconds % 5)))]), []);
});

test('a mailbox is none of its owner while it lacks a CPU', async () => {
  const order = holder('order', mailbox((seconds) => 1500 + 100 * (seconds % 6)));
  const ready = { ...order, at: (us) => ({ ...order.at(us), status: 'runnable' }) };
  assert.deepEqual(await found([idle, ready]), []);
  assert.deepEqual(kinds(await found([idle, order])), ['mailbox']);
});

// ------------------------------------------------------------------- memory

const binaries = (words) => (seconds) => {
  const all = Math.round(words(seconds));
  const old = Math.floor(seconds / 3) % 2 === 0 ? all : 0; // between the young and the old heap
  return { bin_vheap_size: all - old, bin_old_vheap_size: old };
};

for (const isMerged of [false, true]) {
  test(`binaries that only grow have a rate${isMerged ? ', merged' : ''}`, async () => {
    const cache = holder('cache', binaries((seconds) => (10 + 3 * seconds) * MIB_WORDS));
    const [one, ...others] = await found([idle, cache], { isMerged });
    assert.deepEqual(others, []);
    assert.equal(one.kind, 'memory');
    assert.match(one.title, /^cache: binaries \+(2\.9\d|3\.0\d) MiB a second$/);
    assert.equal(one.view.measure, 'bin_vheap_size.delta');
  });
}

test('a heap that only grows is found below its collections', async () => {
  const heap = (seconds) => ({ memory: (5 + 4 * seconds + 6 * (seconds % 1)) * MIB });
  const [one] = await found([idle, holder('leaky', heap)]);
  assert.equal(one.kind, 'memory');
  assert.match(one.title, /^leaky: heap \+4\.\d+ MiB a second$/);
  assert.equal(one.function, 'leaky:work/1');
});

test('memory that is collected, little, or of a start is none', async () => {
  const heap = (bytes) => (seconds) => ({ memory: Math.round(bytes(seconds) * MIB) });
  assert.deepEqual(await found([
    holder('saw', heap((seconds) => 15 + 10 * (seconds % 7))),
    holder('little', heap((seconds) => 1 + 0.3 * seconds)),
    holder('large', heap((seconds) => 900 + 5 * seconds)),
    holder('starts', heap((seconds) => Math.min(80, 10 + 20 * seconds))),
    holder('images', binaries((seconds) => (20 + 30 * Math.sin(seconds) ** 2) * MIB_WORDS)),
  ]), []);
});

const flushes = (values) => values.map((of, i) => ({ us: 3e6 * (i + 1),
  values: { node_runtime_ms: 1000 * i, ...of } }));
const tables = (...mib) => flushes(mib.map((n) => ({ node_memory_ets: n * MIB })));
const writer = worker('dedup', { running: 0.1 },
    { stack: stackOf('dedup', 'ets:insert_new/2 (bif)') });
const reader = worker('reader', { running: 0.3 });

test('tables that only grow are said with the process that writes to them', async () => {
  const [one] = await found([writer, reader], { own: tables(20, 40, 60, 80) });
  assert.equal(one.title, 'dedup: ETS tables 20.0 MiB → 80.0 MiB');
  assert.deepEqual([one.pids, one.function], [['<0.5.9>'], 'dedup:work/1']);
});

test('tables whose writer is not clear are the node\'s', async () => {
  const [one] = await found([reader], { own: tables(20, 40, 60, 80) });
  assert.deepEqual([one.kind, one.pids], ['memory', []]);
  assert.match(one.title, /^the node: ETS tables/);
});

test('tables that grow little, shrink, or were not asked for again are none', async () => {
  for (const mib of [[20, 21, 22, 23], [20, 80, 30, 60], [400, 410, 420, 430]]) {
    assert.deepEqual(await found([writer], { own: tables(...mib) }), []);
  }
  const stale = [20, 80].map((n, i) => ({ us: 3e6 * (i + 1),
    values: { node_runtime_ms: 7000, node_memory_ets: n * MIB } }));
  assert.deepEqual(await found([writer], { own: stale }), []);
});

// -------------------------------------------------------------- collections

test('a process that collects for more than a fifth of its time is one', async () => {
  const [one, ...others] = await found([idle, worker('report',
      { running: 0.3, garbage_collecting: 0.2 })]);
  assert.deepEqual(others, []);
  assert.equal(one.kind, 'gc');
  assert.match(one.text, /for 40 % of its time on a CPU, 20 % of all the time/);
});

test('less than a fifth, or of a process that does little, is none', async () => {
  assert.deepEqual(await found([worker('most', { running: 0.5, garbage_collecting: 0.11 }),
    worker('seldom', { running: 0.01, garbage_collecting: 0.04 })]), []);
  const few = worker('few', { running: 0.5, garbage_collecting: 0.14 });
  assert.deepEqual(await found([few], { seconds: 0.3 }), []);
});

// --------------------------------------------------------------------- CPUs

test('a process that never waits keeps a CPU, beside others too', async () => {
  for (const shares of [{ running: 1 }, { running: 0.3, runnable: 0.7 }]) {
    const [one, ...others] = await found([idle, worker('engine', shares)]);
    assert.deepEqual(others, []);
    assert.deepEqual([one.kind, one.title], ['scheduler', 'engine keeps a CPU']);
    assert.equal(one.function, 'engine:work/1');
  }
});

test('heavy load keeps no CPU', async () => {
  const backlog = { values: quiet({ message_queue_len: 40 }) };
  assert.deepEqual(await found([worker('busy', { running: 0.6, runnable: 0.38 }),
    worker('late', { running: 0.03, runnable: 0.97 }),
    worker('server', { running: 0.3, runnable: 0.7 }, backlog)]), []);
});

const native = (forSeconds, scheduler) => ({ pid: '<0.1.3>', name: 'codec', call: 'codec:init/1',
  at: (us) => (us % 8e6 < forSeconds * 1e6 ? { status: 'running', scheduler, values: quiet(),
    stack: stackOf('codec', 'deflate (libz.so)', 'zlib:deflate_nif/4 (nif)') }
    : { status: 'waiting', values: quiet(), stack: stackOf('codec') }) });

test('a scheduler that stays in one NIF is stuck', async () => {
  const [one, ...others] = await found([idle, native(1.5, 2)]);
  assert.deepEqual(others, []);
  assert.equal(one.title, 'scheduler 2 is stuck in zlib:deflate_nif/4');
  assert.match(one.text, /runs codec in zlib:deflate_nif\/4 for 1\.5 s/);
});

test('short NIFs, and those on dirty schedulers, are none', async () => {
  assert.deepEqual(await found([idle, native(0.8, 2)]), []);
  assert.deepEqual(await found([idle, native(1.5, 0)]), []);
});

const spawner = (share) => {
  const [spawns, works] = [worker('fanout', { running: share }), worker('fanout', {})];
  return { ...spawns, at: (us) => {
    const state = spawns.at(us);
    return state.status !== 'running' ? works.at(us)
        : { ...state, stack: stackOf('fanout', 'erl_create_process (beam.smp)',
          'erlang:spawn_opt/4 (bif)') };
  } };
};

test('a process that spawns all the time is one, while the node stays as large', async () => {
  const nodeOf = (...processes) => ({ own: flushes(processes.map((n) =>
    ({ node_processes: n }))) });
  const [one, ...others] = await found([idle, spawner(0.03)], nodeOf(5000, 5010));
  assert.deepEqual(others, []);
  assert.deepEqual([one.kind, one.function, one.pids], ['spawn', 'fanout:work/1', ['<0.6.9>']]);
  assert.deepEqual(await found([idle, spawner(0.03)], nodeOf(5000, 9000)), []);
  assert.deepEqual(await found([idle, spawner(0.004)], nodeOf(5000, 5010)), []);
  const loaded = [0.9, 0.8, 0.7].map((running) => worker('encoder', { running }));
  assert.deepEqual(await found([...loaded, spawner(0.008)], nodeOf(5000, 5010)), []);
});

// ------------------------------------------------------------------ servers

for (const isMerged of [false, true]) {
  const how = isMerged ? ', merged' : '';

  test(`a server that many wait for is named by its mailbox${how}`, async () => {
    const { processes, waiting } = callers(30, ['store'], { serviceMs: 11, thinkMs: 3 });
    const other = callers(3, ['quick'], { serviceMs: 1, thinkMs: 40 });
    const [one, ...others] = await found([...other.processes.map((process, i) =>
      ({ ...process, pid: `<0.${i}.8>` })), ...processes], { isMerged });
    assert.deepEqual(others, []);
    assert.deepEqual([one.kind, one.pids, one.function],
        ['server', ['<0.500.0>'], 'store:work/1']);
    assert.match(one.text, /^30 processes wait in gen:do_call\/4/);
    const mean = [...Array(100).keys()].reduce((sum, n) => sum + waiting(n * 2e5), 0) / 100;
    const said = Number(/mailbox is ([\d.]+) on average/.exec(one.text)[1]);
    assert.ok(Math.abs(said + 1 - mean) < 1, `${said}, ${mean} callers`);
  });

  test(`of a chain of calls the one that waits for no other is named${how}`, async () => {
    const { processes } = callers(12, ['front', 'auth', 'disk'], { serviceMs: 4, thinkMs: 2 });
    const busy = worker('stats', { running: 0.6, runnable: 0.35 });
    const [one, ...others] = await found([busy, ...processes], { isMerged });
    assert.deepEqual(others, []);
    assert.match(one.title, /^front → auth → disk: 1[12] wait$/);
    assert.deepEqual(one.pids, ['<0.502.0>', '<0.501.0>', '<0.500.0>']);
    assert.equal(one.function, 'disk:work/1');
  });
}

test('clients of a fast server are none', async () => {
  const { processes } = callers(30, ['quick'], { serviceMs: 1, thinkMs: 60 });
  assert.deepEqual(await found(processes), []);
});

test('callers whose server was not sampled are said without it', async () => {
  const { processes } = callers(30, ['store'], { serviceMs: 11, thinkMs: 3 });
  const [one] = await found([idle, ...processes.slice(1)]);
  assert.equal(one.title, '30 processes wait in calls');
  assert.equal(one.pids.length, 30);
});

// ------------------------------------------------------------------- losses

const counters = { ticks: 1000, missed: 20, attempted: 100000, written: 99000, inconsistent: 900,
  dropped: 0, lost: 0, budget_step: 4 };
const lost = (last, first = {}) => found([idle], { own: [
  { us: 1e6, values: { ...counters, ticks: 0, missed: 0, attempted: 0, written: 0, inconsistent: 0,
    ...first } }, { us: 19e6, values: { ...counters, ...last } }] });

test('losses of a profile are told when they leave holes', async () => {
  assert.deepEqual(await lost({}), []);
  for (const [last, text] of [[{ missed: 1500 }, /missed 60 % of its ticks/],
    [{ dropped: 5000 }, /dropped 5 % of the samples/],
    [{ inconsistent: 8000 }, /discarded 8 % of the samples as inconsistent/],
    [{ budget_step: 7 }, /fewer processes to stay within the CPU budget \(step 7\)/]]) {
    const [one, ...others] = await lost(last);
    assert.deepEqual(others, []);
    assert.equal(one.kind, 'losses');
    assert.match(one.text, text);
  }
  assert.match((await found([idle], { files: [{ bad: 300 }] }))[0].text, /300 damaged samples/);
});

// ---------------------------------------------------------------------- all

test('a healthy node has none', async () => {
  const fast = callers(20, ['store'], { serviceMs: 1, thinkMs: 45 });
  const healthy = [idle, ...fast.processes,
    holder('order', mailbox((seconds) => 2000 * Math.max(0, Math.sin(3 * seconds)))),
    worker('encoder', { running: 0.12, runnable: 0.7, garbage_collecting: 0.03 }),
    holder('stats', (seconds) => ({ memory: (13 + 15 * (seconds % 4)) * MIB })), spawner(0.003)];
  for (const [, options] of inAllWays) assert.deepEqual(await found(healthy, options), []);
  assert.deepEqual(await found([]), []);
});

test('samples of what runs, or of perf, tell nothing of the time of a process', async () => {
  const own = flushes([{ ticks: 1 }, { ticks: 2000 }]);
  const running = [idle, worker('engine', { running: 1 }),
    worker('report', { running: 0.6, garbage_collecting: 0.4 })];
  assert.deepEqual(await found(running, { own, ownWords: 'name=flame_prof mode=schedulers' }), []);
  assert.equal((await found(running, { own })).length, 2);
  const bare = { ...idle, at: () => ({ status: '', stack: ['main (a.out)'] }) };
  assert.deepEqual(await found([bare], { files: [{ dialect: 'perf' }] }), []);
});

test('the most severe come first, six at most, two of a kind', async () => {
  const { processes } = callers(30, ['store'], { serviceMs: 11, thinkMs: 3 });
  const leak = (name, rate) => holder(name, binaries((seconds) =>
    (9 + rate * seconds) * MIB_WORDS));
  const findings = await found([...processes, leak('one', 2), leak('three', 9), leak('eleven', 5),
    holder('audit', mailbox(burst)), worker('engine', { running: 1 }),
    worker('report', { running: 0.3, garbage_collecting: 0.2 }), spawner(0.03)]);
  assert.deepEqual(kinds(findings), ['mailbox', 'memory', 'memory', 'server', 'scheduler', 'gc']);
  assert.deepEqual(findings.slice(1, 3).map(({ pids }) => pids[0]), ['<0.5.7>', '<0.6.7>']);
  assert.ok(findings.every(({ severity }, i) => i === 0 || severity <= findings[i - 1].severity));
});

test('a view says how the page shows it', async () => {
  for (const one of await found([worker('engine', { running: 1 }),
    holder('audit', mailbox(burst)), writer], { own: tables(20, 40, 60) })) {
    assert.ok(['busy', 'waiting', 'all'].includes(one.view.show));
    assert.equal(one.view.view, 'flame');
    assert.ok(one.range === null || one.range[0] < one.range[1]);
  }
});
