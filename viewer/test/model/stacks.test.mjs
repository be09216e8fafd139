// Stacks over time: the truth is a story, the function in which a process was at each time.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Names } from '../../src/model/names.js';
import { stacksOverTime } from '../../src/model/stacks_over_time.js';
import { buildProfile } from './build_profile.mjs';

const TICK_US = 10000;
const PATHS = { a: ['m:main/0', 'm:a/0'], b: ['m:main/0', 'm:b/0'], ab: ['m:main/0', 'm:a/0',
  'm:b/0'] };
const story = [
  (us) => (us < 0.4e6 ? 'a' : us < 0.6e6 ? 'ab' : us < 1e6 ? 'a' : 'b'),
  (us) => (us % 0.2e6 < 0.1e6 ? 'b' : 'a'),
];

// The second process runs on scheduler 1 while the first one does not.
const profileOf = () => buildProfile({ processes: [{ pid: '<0.1.0>' }, { pid: '<0.2.0>' }],
  samples: Array.from({ length: 200 }, (_, n) => n * TICK_US).flatMap((us) =>
    story.map((of, process) => ({ process, us, status: 'running',
      scheduler: 1 + Number((us < 1e6) !== (process === 0)),
      stack: [...PATHS[of(us)]].reverse() }))) });

const grid = { fromUs: 0, cells: 200, cellUs: TICK_US };
const options = { names: new Names(), title: 'it', options: { hasLines: false,
  hidden: new Set() } };

function pathAt(tree, cell) {
  const path = [];
  tree.spans.forEach(([first, end], node) => node > 0 && first <= cell && cell < end
      && path.push(tree.names.text[tree.name[node]]));
  return path;
}

test('each cell has the stack of its time, of a process and of a scheduler', async () => {
  const profile = await profileOf();
  for (const [of, wanted] of [[{ process: 0 }, story[0]], [{ process: 1 }, story[1]],
      [{ scheduler: 1 }, (us) => story[us < 1e6 ? 0 : 1](us)]]) {
    const tree = await stacksOverTime(profile, grid, of, options);
    for (let cell = 0; cell < grid.cells; cell++) {
      assert.deepEqual(pathAt(tree, cell), PATHS[wanted(cell * TICK_US)], `cell ${cell}`);
    }
  }
});

test('a function that stays on the stack is one frame, one that comes again another', async () => {
  const tree = await stacksOverTime(await profileOf(), grid, { process: 0 }, options);
  const spans = (name) => tree.spans.filter((_, node) =>
      tree.names.text[tree.name[node]] === name);
  assert.deepEqual(spans('m:main/0'), [[0, 200]]);
  assert.deepEqual(spans('m:a/0'), [[0, 100]]);
  assert.deepEqual(spans('m:b/0'), [[40, 60], [100, 200]]);
});

test('of a cell that has several stacks it is that of most of it; none is blank', async () => {
  const profile = await profileOf();
  for (const [fromUs, wanted] of [[0.35e6, PATHS.ab], [0.45e6, PATHS.ab], [0.55e6, PATHS.a]]) {
    const coarse = await stacksOverTime(profile, { fromUs, cells: 1, cellUs: 0.2e6 },
        { process: 0 }, options);
    assert.deepEqual(pathAt(coarse, 0), wanted, `from ${fromUs}`);
  }
  const behind = await stacksOverTime(profile, { fromUs: 1.9e6, cells: 4, cellUs: 1e5 },
      { process: 0 }, options);
  assert.deepEqual([pathAt(behind, 0), pathAt(behind, 3)], [PATHS.b, ['not sampled']]);
});

test('a process whose next sample is late may have left its scheduler', async () => {
  const samples = [...Array.from({ length: 50 }, (_, n) => n * TICK_US), 1e6].map((us) =>
      ({ process: 0, us, status: 'running', scheduler: 1, stack: [...PATHS.a].reverse() }));
  const profile = await buildProfile({ processes: [{ pid: '<0.1.0>' }], samples });
  const at = async (of) => pathAt(await stacksOverTime(profile, grid, of, options), 80);
  assert.deepEqual(await at({ process: 0 }), PATHS.a);
  assert.deepEqual(await at({ scheduler: 1 }), ['not sampled']);
});
