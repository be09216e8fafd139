// Stacks of those waited for below the waiting ones. That they are those of the library is tested
// in the browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sessionOf } from '../../src/app/session.js';
import { chained } from '../../src/model/chains.js';
import { groupSamples } from '../../src/model/groups.js';
import { measureOf } from '../../src/model/measures.js';
import { Names } from '../../src/model/names.js';
import { select } from '../../src/model/selection.js';
import { addGroups, FlameTree } from '../../src/model/tree.js';
import { buildProfile } from './build_profile.mjs';

const LETTERS = 'abcdefgh';
const processes = (count) => Array.from({ length: count }, (_, p) =>
    ({ pid: `<0.${p + 1}.0>`, name: `p${p + 1}` }));
const waiting = (p, waitsFor, more = {}) => ({ process: p, us: 1000,
  stack: [`${LETTERS[p % 8]}:f/0`], waits_for: waitsFor, ...more });

async function chainsOf(profile) {
  const selection = await select(await chained(profile), null, { pids: [], show: 'all' });
  const groups = await groupSamples(selection, measureOf(profile, 'samples'), [],
      { modules: null });
  const tree = new FlameTree(new Names());
  addGroups(tree, 0, groups.profile, groups, { isInverted: false, recursion: '0',
    hasLines: true, hidden: new Set() });
  tree.finish();
  return tree.self[0].flatMap((n, node) => (n > 0 ? [`${tree.path(node).join(' > ')} ${n}`] : []))
      .sort();
}

test('a chain ends with a process that works, with a port, and with one without a sample',
    async () => {
  assert.deepEqual(await chainsOf(await buildProfile({ processes: processes(4), samples: [
    waiting(0, '<0.2.0>'), waiting(1, '<0.3.0>'), waiting(2), waiting(3, '#Port<0.5>'),
    waiting(3, '<0.1.0>', { us: 2000 }), waiting(2, '<0.9.0>', { us: 3000 }),
    waiting(1, 'x@h/<0.1.0>', { us: 4000 }),
  ] })), [
    'a:f/0 > waits for p2 <0.2.0> > b:f/0 > waits for p3 <0.3.0> > c:f/0 1',
    'b:f/0 > waits for p3 <0.3.0> > c:f/0 1',
    'b:f/0 > waits for x@h/<0.1.0> 1',
    'c:f/0 > waits for <0.9.0> > not_sampled 1',
    'd:f/0 > waits for #Port<0.5> 1',
    'd:f/0 > waits for p1 <0.1.0> > not_sampled 1',
  ]);
});

test('a cycle and a chain of more than 64 links end', async () => {
  assert.deepEqual(await chainsOf(await buildProfile({ processes: processes(2),
    samples: [waiting(0, '<0.2.0>'), waiting(1, '<0.1.0>')] })), [
    'a:f/0 > waits for p2 <0.2.0> > b:f/0 > waits for p1 <0.1.0> > cycle 1',
    'b:f/0 > waits for p1 <0.1.0> > a:f/0 > waits for p2 <0.2.0> > cycle 1',
  ]);
  const long = await chainsOf(await buildProfile({ processes: processes(80),
    samples: Array.from({ length: 80 }, (_, p) => waiting(p, `<0.${p + 2}.0>`)) }));
  const links = long.map((chain) => chain.split(' > waits for ').length - 1);
  assert.equal(Math.max(...links), 64);
  assert.equal(long.filter((chain) => chain.includes('truncated')).length, 80 - 64);
});

test('a tick is of one file', async () => {
  assert.deepEqual(await chainsOf(await buildProfile({ processes: processes(2), files: [{}, {}],
    samples: [waiting(0, '<0.2.0>'), waiting(1, undefined, { file: 1 })] })),
  ['a:f/0 > waits for p2 <0.2.0> > not_sampled 1']);
});

test('at another node it is the tick nearest in time, if that holds', async () => {
  const there = [10, 20, 40].map((ms) => ({ process: 1, us: 1000 * ms, file: 1,
    stack: [`tick:at_${ms}/0`] }));
  const endOf = async (ms, whom) => {
    const [chain] = await chainsOf(await buildProfile({ processes: processes(2),
      files: [{ node: 'a@h' }, { node: 'b@h' }],
      samples: [waiting(0, whom, { us: 1000 * ms }), ...there] }));
    return chain.split(' > ').slice(1).join(' > ');
  };
  const pid = 'b@h/<0.2.0>';
  assert.equal(await endOf(14, pid), `waits for ${pid} > tick:at_10/0 1`);
  assert.equal(await endOf(16, 'b@h/p2'), 'waits for b@h/p2 > tick:at_20/0 1');
  assert.equal(await endOf(31, pid), `waits for ${pid} > tick:at_40/0 1`);
  assert.equal(await endOf(61, pid), `waits for ${pid} > not_sampled 1`);
  assert.equal(await endOf(16, 'b@h/p3'), 'waits for b@h/p3 > not_sampled 1');
  assert.equal(await endOf(16, 'c@h/<0.2.0>'), 'waits for c@h/<0.2.0> 1');
});

test('the profile is as it was', async () => {
  const samples = [1, 2, 3].flatMap((ms) => [
    waiting(0, ms === 2 ? '<0.2.0>' : undefined, { us: 1000 * ms }),
    waiting(1, undefined, { us: 1000 * ms })]);
  const build = () => buildProfile({ processes: processes(2), samples });
  const profile = await build();
  const view = await chained(profile);
  assert.deepEqual(await view.ticks(), await (await build()).ticks());
  assert.deepEqual([...profile.columns.node], [...(await withNodes(await build())).columns.node]);
  assert.equal(view.tables.process_pid, profile.tables.process_pid);
});

async function withNodes(profile) {
  await profile.need('node');
  return profile;
}

test('samples that do not tell have no chains', async () => {
  assert.deepEqual(await chainsOf(await buildProfile({ processes: processes(1),
    samples: [waiting(0)] })), []);
});

test('the header names the nodes of all files', async () => {
  const nodeOf = async (files) => sessionOf(await buildProfile({ processes: processes(1), files,
    samples: [waiting(0)], own: [{ us: 2000, values: {} }],
    ownWords: 'name=flame_prof node=b@h engine=native' })).node;
  assert.equal(await nodeOf([{ node: 'a@h' }, { node: 'b@h' }, { node: 'a@h' }]), 'a@h, b@h');
  assert.equal(await nodeOf([{}]), 'b@h');
});
