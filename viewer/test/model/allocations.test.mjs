// Files of allocations: what the page counts of them, against the program that has allocated.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allocatedBy, allocatedOver, collectionsOf, doubtsOf } from
  '../../src/model/allocations.js';
import { groupSamples } from '../../src/model/groups.js';
import { hasLevel, LEVELS } from '../../src/model/levels.js';
import { measureOf, measuresOf } from '../../src/model/measures.js';
import { Names } from '../../src/model/names.js';
import { questionOf } from '../../src/model/questions.js';
import { select } from '../../src/model/selection.js';
import { addGroups, FlameTree } from '../../src/model/tree.js';
import { functionTable } from '../../src/model/functions.js';
import { levelsOf, parseState } from '../../src/app/state.js';
import { buildProfile } from './build_profile.mjs';

const WORD = 8;
const PROCESSES = [{ pid: '<0.1.0>', name: 'parser' }, { pid: '<0.2.0>', name: 'cache' }];

// The program: each step a process calls a function, which allocates so many words; of these a part
// is kept. A sample is what the next look at the heap makes of a step.
const STEPS = Array.from({ length: 200 }, (_, i) => (i % 4 === 3
  ? { us: 10000 * i, process: 1, call: ['maps:put/3', 'cache:insert/2'], kept: 400, garbage: 100 }
  : { us: 10000 * i, process: 0, call: ['json:decode/1', 'parser:loop/1'], kept: 50,
    garbage: 900 + i }));
const LONG = [{ us: 305000, process: 1, words: 4096, text: '45000 major heap' },
  { us: 705000, process: 0, words: 1, text: '2500 minor binaries' }];

function samples() {
  const of = ({ us, process, call }, fate, words) => ({ us, process, weight: words,
      status: 'garbage_collecting', stack: [...call, `${fate} (heap)`], values: { words } });
  const steps = STEPS.flatMap((step) => [of(step, 'kept', step.kept),
    of(step, 'garbage', step.garbage)]);
  const long = LONG.map(({ us, process, words, text }) => ({ us, process, weight: words,
    status: 'garbage_collecting', collection: text, values: { words },
    stack: ['fragments (heap)', 'cache:insert/2', 'not_known (heap)'] }));
  return [...steps, ...long].sort((a, b) => a.us - b.us);
}

const build = () => buildProfile({ processes: PROCESSES, samples: samples(), event: 'alloc-words',
  own: [{ us: 1990000, values: { looks: 402, words: 999999 } }] });
const ALL = { pids: [], show: 'all' };
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const bytes = (steps, fate) => WORD * sum(steps.map((step) => step[fate]));

async function flameTree(profile, range, levels, isInverted = false) {
  const tree = new FlameTree(new Names());
  const groups = await groupSamples(await select(profile, range, ALL),
      measureOf(profile, 'samples'), levels, {});
  addGroups(tree, 0, profile, groups, { isInverted, hidden: new Set() });
  tree.finish();
  const at = (...path) => {
    const node = tree.find(path);
    assert.deepEqual(tree.path(node), path);
    return tree.total[0][node];
  };
  return { tree, at };
}

test('a file of allocations weighs bytes, whatever measure was shown before', async () => {
  const profile = await build();
  assert.deepEqual(measuresOf(profile).map(({ id, unit }) => [id, unit]), [['allocated', 'bytes']]);
  const { at } = await flameTree(profile, null, []);
  assert.equal(at(), bytes(STEPS, 'kept') + bytes(STEPS, 'garbage')
      + WORD * sum(LONG.map(({ words }) => words)));
});

test('a sample is one, however many words it weighs', async () => {
  const profile = await build();
  assert.equal(profile.lookCount, 2 * STEPS.length + LONG.length);
  const { tree } = await flameTree(profile, null, []);
  assert.equal(tree.totalSamples[0][0], 2 * STEPS.length + LONG.length);
});

test('what was kept and what was garbage are groups, and no frames', async () => {
  const profile = await build();
  const { at } = await flameTree(profile, null, levelsOf(parseState(''), measureOf(profile, '')));
  const parsed = STEPS.filter(({ process }) => process === 0);
  assert.equal(at('garbage', 'parser:loop/1', 'json:decode/1'), bytes(parsed, 'garbage'));
  assert.equal(at('kept', 'parser:loop/1', 'json:decode/1'), bytes(parsed, 'kept'));
  assert.equal(at('not known', 'cache:insert/2', 'fragments'), WORD * 4097);
  const { at: bare } = await flameTree(profile, null, []);
  assert.equal(bare('parser:loop/1'), bytes(parsed, 'garbage') + bytes(parsed, 'kept'));
});

test('inverted, the root frame of a stack is the function, and not what became of it', async () => {
  const { tree } = await flameTree(await build(), null, [], true);
  const names = [...new Set(Array.from({ length: tree.size }, (_, node) =>
      tree.names.text[tree.name[node]]))].sort();
  assert.deepEqual(names, ['all', 'cache:insert/2', 'fragments', 'json:decode/1', 'maps:put/3',
    'parser:loop/1']);
});

test('a table of functions counts all that a function has allocated once', async () => {
  const profile = await build();
  const names = new Names();
  const groups = await groupSamples(await select(profile, null, ALL), measureOf(profile, ''),
      ['heap'], {});
  const rows = functionTable(names, profile, groups, { hasLines: false, hidden: new Set() });
  const put = rows.find(({ name }) => names.text[name] === 'maps:put/3');
  const cached = STEPS.filter(({ process }) => process === 1);
  assert.equal(put.self, bytes(cached, 'kept') + bytes(cached, 'garbage'));
});

test('a range of time has what was allocated in it', async () => {
  const steps = STEPS.filter(({ us }) => us >= 1000000 && us < 1500000);
  const { at } = await flameTree(await build(), [1000000, 1500000], []);
  assert.equal(at(), bytes(steps, 'kept') + bytes(steps, 'garbage'));
});

test('over time: bytes a second, of all cells together all bytes', async () => {
  const rates = await allocatedOver(await build(), { fromUs: 0, cells: 20, cellUs: 100000 });
  const first = STEPS.filter(({ us }) => us < 100000);
  assert.equal(rates[0], 10 * (bytes(first, 'kept') + bytes(first, 'garbage')));
  assert.equal(Math.round(sum(rates) / 10), bytes(STEPS, 'kept') + bytes(STEPS, 'garbage')
      + WORD * sum(LONG.map(({ words }) => words)));
});

test('by process: what it allocated, and what became of it', async () => {
  const rows = await allocatedBy(await select(await build(), null, ALL));
  const of = (pid) => rows.find((row) => row.pid === pid);
  const cached = STEPS.filter(({ process }) => process === 1);
  assert.equal(rows.length, 2);
  assert.equal(of('<0.2.0>').name, 'cache');
  assert.equal(of('<0.2.0>').kept, bytes(cached, 'kept'));
  assert.equal(of('<0.2.0>').garbage, bytes(cached, 'garbage'));
  assert.equal(of('<0.2.0>').notKnown, WORD * 4096);
  assert.equal(of('<0.2.0>').bytes, bytes(cached, 'kept') + bytes(cached, 'garbage') + WORD * 4096);
  assert.equal(of('<0.2.0>').samples, 2 * cached.length + 1);
});

test('long collections have their length, cause, process and the top of its stack', async () => {
  const profile = await build();
  const told = ({ us, kind, cause, atUs, name, pid, top }) =>
      [us, kind, cause, atUs, name, pid, top];
  assert.deepEqual((await collectionsOf(await select(profile, null, ALL))).map(told), [
    [45000, 'major', 'heap', 305000, 'cache', '<0.2.0>', 'cache:insert/2'],
    [2500, 'minor', 'binaries', 705000, 'parser', '<0.1.0>', 'cache:insert/2'],
  ]);
  assert.deepEqual((await collectionsOf(await select(profile, [700000, 800000], ALL))).map(
      ({ us }) => us), [2500]);
});

test('without a long collection there is none', async () => {
  const profile = await buildProfile({ processes: PROCESSES, event: 'alloc-words',
    samples: [{ process: 0, us: 0, weight: 5 }] });
  assert.deepEqual(await collectionsOf(await select(profile, null, ALL)), []);
});

test('groups and questions of samples are none of allocations, and the other way round',
  async () => {
    const [allocations, ran] = [await build(), await buildProfile({ processes: PROCESSES,
      samples: [{ process: 0, us: 0, status: 'running' }] })];
    const levels = (profile) => Object.keys(LEVELS).filter((level) => hasLevel(profile, level));
    assert.ok(!levels(ran).includes('heap') && levels(ran).includes('status'));
    assert.ok(levels(allocations).includes('heap') && levels(allocations).includes('process'));
    assert.ok(!['status', 'queue', 'memory', 'message'].some((level) =>
        levels(allocations).includes(level)));
    assert.equal(questionOf(measureOf(allocations, 'samples').id, 'busy'), undefined);
  });

test('what the profiler says against its numbers is told, from one percent on', async () => {
  const told = async (values) => (await doubtsOf(await buildProfile({ processes: PROCESSES,
    samples: samples(), event: 'alloc-words', own: [{ us: 100, values: { ...values, words: 500 } },
      { us: 1990000, values: { ...values, words: 1000 } }] }))).map(({ title, sentences }) =>
    [title, sentences[0].split(' of ')[0]]);
  assert.deepEqual(await told({ in_step_words: 250, dropped_words: 0 }), [['in step', '25.0 %']]);
  assert.deepEqual(await told({ in_step_words: 9, dropped_words: 10 }), [['not told', '1.00 %']]);
  assert.deepEqual(await told({ in_step_words: 0, dropped_words: 0 }), []);
});
