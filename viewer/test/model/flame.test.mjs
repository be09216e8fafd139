// Where frames lie, and what changes look like.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extentOf, moved, visibleFrames, zoomed } from '../../src/geometry/flame_layout.js';
import { changes, shares } from '../../src/model/compare.js';
import { groupSamples } from '../../src/model/groups.js';
import { measureOf } from '../../src/model/measures.js';
import { Names } from '../../src/model/names.js';
import { select } from '../../src/model/selection.js';
import { addGroups, FlameTree, search } from '../../src/model/tree.js';
import { buildProfile } from './build_profile.mjs';

// all: a 60 (a1 20, a2 40), b 40
function example() {
  const names = new Names();
  const tree = new FlameTree(names);
  const frame = (parent, text) => tree.child(parent, names.add(text, text, 0, '', ''));
  const a = frame(0, 'm:a/0');
  const b = frame(0, 'm:b/0');
  const [a1, a2] = [frame(a, 'm:a1/0'), frame(a, 'm:a2/0')];
  tree.add(a1, 0, 20, 1);
  tree.add(a2, 0, 40, 1);
  tree.add(b, 0, 40, 1);
  return { tree: tree.finish(), nodes: { a, b, a1, a2 } };
}

const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one}, not ${other}`);

test('a window shows its part of the zoomed frame, and no frames outside', () => {
  const { tree, nodes } = example();
  const view = { zoom: 0, pixels: 1000, sort: 'name' };
  const all = visibleFrames(tree, tree.total[0], view);
  const part = visibleFrames(tree, tree.total[0], { ...view, from: 0.1, to: 0.35 });
  const at = (frames, node) => frames.find((frame) => frame.node === node);
  assert.equal(all.length, 5);
  assert.deepEqual(part.map(({ node }) => node).sort(), [0, nodes.a, nodes.a1, nodes.a2].sort());
  for (const frame of part) near(frame.x, (at(all, frame.node).x - 100) * 4);
  for (const frame of part) near(frame.width, at(all, frame.node).width * 4);
});

test('frames that are too narrow are blocks: none is lost', () => {
  const tree = new FlameTree(new Names());
  const frame = (parent, text) => tree.child(parent, tree.names.add(text, text, 0, '', ''));
  const server = frame(0, 'm:server/0');
  for (let i = 0; i < 3000; i++) tree.add(frame(frame(server, `m:f${i}/0`), 'm:leaf/0'), 0, 1, 1);
  tree.add(frame(server, 'm:wide/0'), 0, 9000, 1);
  tree.finish();
  for (const sort of ['name', 'width']) {
    for (const [pixels, blocks] of [[1000, 1], [1e6, 0], [1, 1]]) {
      const frames = visibleFrames(tree, tree.total[0], { zoom: 0, pixels, sort });
      const rest = frames.filter((one) => one.rest);
      assert.equal(rest.length, blocks, `${sort}, ${pixels}`);
      const drawn = frames.length - rest.length;
      assert.equal(drawn + rest.reduce((sum, one) => sum + one.rest.count, 0), 6003);
      const below = frames.filter(({ depth }) => depth === 2);
      near(below.reduce((sum, { width }) => sum + width, 0) / pixels, 1);
    }
  }
});

test('a node lies where it is drawn', () => {
  const { tree, nodes } = example();
  for (const zoom of [0, nodes.a]) {
    for (const sort of ['name', 'width']) {
      const frames = visibleFrames(tree, tree.total[0], { zoom, pixels: 1, sort });
      for (const { node, x, width } of frames) {
        const extent = extentOf(tree, tree.total[0], { zoom, sort }, node);
        if (width > 0.4) extent.forEach((end, i) => near(end, [x, x + width][i]));
      }
    }
  }
  assert.equal(extentOf(tree, tree.total[0], { zoom: nodes.a, sort: 'name' }, nodes.b), null);
});

test('what is below the pointer stays there', () => {
  const place = ([from, to], at) => from + (to - from) * at;
  let window = [0, 1];
  for (const [at, factor] of [[0.3, 0.5], [0.9, 0.2], [0.1, 0.7], [0.5, 1.1]]) {
    const next = zoomed(window, at, factor, 1e-5);
    near(place(next, at), place(window, at));
    near(next[1] - next[0], (window[1] - window[0]) * factor);
    window = next;
  }
});

test('a window stays inside', () => {
  for (const by of [-9, -0.2, 0, 0.2, 9]) {
    const [from, to] = moved([0.4, 0.6], by);
    assert.ok(from >= 0 && to <= 1);
    near(to - from, 0.2);
  }
  assert.deepEqual(zoomed([0.4, 0.6], 0.2, 100, 1e-5), [0, 1]);
  const [from, to] = zoomed([0.4, 0.6], 0.5, 0, 1e-5);
  assert.ok(to - from >= 0.99e-5);
});

test('a sliver that is all new is pale, a tenth of the whole is not', () => {
  const names = new Names();
  const tree = new FlameTree(names);
  const [sliver, more, less] = ['sliver', 'more', 'less'].map((text) =>
    tree.child(0, names.add(text, text, 0, '', '')));
  tree.add(sliver, 0, 1, 1);
  tree.add(more, 0, 5000, 1);
  tree.add(more, 1, 4000, 1);
  tree.add(less, 0, 4999, 1);
  tree.add(less, 1, 6000, 1);
  tree.finish();
  const parts = shares(tree, changes(tree, true));
  assert.ok(parts[sliver] > 0 && parts[sliver] < 0.05);
  assert.ok(parts[more] > 0.3 && parts[more] <= 1);
  assert.ok(parts[less] < -0.3 && parts[less] >= -1);
  near(parts[0], 0);
});

test('a C++ function is found by its name and by its symbol', () => {
  const names = new Names();
  const tree = new FlameTree(names);
  const symbol = '_ZN13BeamAssembler11embed_zerosEm';
  const frame = { text: symbol, module: '', line: 0, file: 'beam.smp', isFunction: false };
  const node = tree.child(0, names.frame(frame, false));
  tree.add(node, 0, 1, 1);
  tree.finish();
  for (const pattern of [/BeamAssembler::embed/, /^_ZN13Beam/]) {
    assert.equal(search(tree, 0, pattern).matches[node], 1);
  }
});

// Root first: behind a function that comes again is what it was called for the first time.
const CUT = [
  ['abc', 'abc'], ['aab', 'ab'], ['abab', 'ab'], ['ababc', 'abc'], ['abcbd', 'abd'],
  ['abacb', 'acb'], ['abcabd', 'abd'],
];

test('a function below itself is one frame, whatever was between', async () => {
  const samples = CUT.map(([calls], i) => ({ process: 0, us: 1000 * i,
    stack: [...calls].reverse().map((name) => `m:${name}/0`) }));
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }], samples });
  const selection = await select(profile, null, { pids: [], show: 'all' });
  const groups = await groupSamples(selection, measureOf(profile, 'samples'), [], {});
  for (const isInverted of [false, true]) {
    const tree = new FlameTree(new Names());
    addGroups(tree, 0, profile, groups, { isInverted, recursion: 'all', hasLines: false,
      hidden: new Set() });
    tree.finish();
    const found = tree.self[0].flatMap((n, node) => (n === 0 ? []
        : Array(n).fill(tree.path(node).map((text) => text[2]).join(''))));
    const wanted = isInverted ? ['cba', 'ba', 'ba', 'cba', 'dba', 'ba', 'dba']
        : CUT.map(([, left]) => left);
    assert.deepEqual(found.sort(), wanted.sort());
  }
});
