// Messages in work, and who waits for whom.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeLevel } from '../../src/model/levels.js';
import { waitsOf } from '../../src/model/waits.js';
import { buildProfile } from './build_profile.mjs';

const PROCESSES = [{ pid: '<0.1.0>', name: 'client' }, { pid: '<0.2.0>', name: 'server' },
  { pid: '<0.3.0>', name: 'store' }];

// A tick each 10 ms. From 20 to 49 ms the client waits for the server, which from 30 ms on waits
// for the store; from 50 ms on the client waits for a lock.
function samples() {
  return Array.from({ length: 8 }, (_, tick) => {
    const us = 10000 * tick;
    const toServer = tick >= 2 && tick < 5 ? { waits_for: '<0.2.0>', request: '{get,_}' } : {};
    const toStore = tick >= 3 && tick < 5 ? { waits_for: '<0.3.0>' } : {};
    const toLock = tick >= 5 ? { waits_for: 'lock' } : {};
    return [{ process: 0, us, ...toServer, ...toLock },
      { process: 1, us, message: tick >= 2 && tick < 5 ? 'call:{get,_}' : '', ...toStore },
      { process: 2, us, status: 'running' }];
  }).flat();
}

const build = (more = []) => buildProfile({ processes: PROCESSES,
  samples: [...samples(), ...more] });
const shown = (waits) => waits.map(({ process, target, text }) => [process, target, text]);

test('a wait names whom, what for, and how long it was seen on end', async () => {
  const waits = await waitsOf(await build());
  assert.deepEqual(shown(waits.of(25000, [0])), [[0, 1, 'waits for server: {get,_}, 30.0 ms']]);
  assert.deepEqual(shown(waits.of(49999, [0])), [[0, 1, 'waits for server: {get,_}, 30.0 ms']]);
  assert.deepEqual(shown(waits.of(45000, [1])), [[1, 2, 'waits for store, 20.0 ms']]);
});

test('before it, and behind the last sample, a process waits for nobody', async () => {
  const waits = await waitsOf(await build());
  assert.deepEqual(waits.of(19999, [0, 1, 2]), []);
  assert.deepEqual(shown(waits.of(79999, [0])), [[0, undefined, 'waits for lock, 30.0 ms']]);
  assert.deepEqual(waits.of(80000, [0]), []);
});

test('a process has a part in its own wait and in those for it', async () => {
  const waits = await waitsOf(await build());
  assert.deepEqual(waits.at(45000, [1]).map(({ process }) => process), [0, 1]);
  assert.deepEqual(waits.at(45000, [2]).map(({ process }) => process), [1]);
  assert.deepEqual(waits.at(60000, [2]), []);
});

test('a process that was not sampled for long is not said to wait', async () => {
  const waits = await waitsOf(await build([{ process: 0, us: 5e6, waits_for: 'lock' }]));
  assert.deepEqual(waits.of(2e6, [0]), []);
  assert.equal(waits.of(5e6, [0])[0].fromUs, 5e6);
});

test('the same pid on another node is another process', async () => {
  const profile = await build();
  profile.tables.process_pid[1] = 4243;
  const [wait] = (await waitsOf(profile)).of(25000, [0]);
  assert.equal(wait.target, undefined);
  assert.equal(wait.text, 'waits for <0.2.0>: {get,_}, 30.0 ms');
});

test('a file without waits has none', async () => {
  assert.equal(await waitsOf(await buildProfile({ processes: PROCESSES,
      samples: [{ process: 0, us: 0 }] })), null);
});

test('samples are grouped by the message in work', async () => {
  const level = await makeLevel('message', await build(), {});
  const texts = samples().map((_, row) => level.textOf(level.codeOf(row)));
  assert.deepEqual(texts.filter((text) => text !== 'no message'),
      ['call:{get,_}', 'call:{get,_}', 'call:{get,_}']);
  assert.equal(texts[7], 'call:{get,_}'); // of the server at the third tick
});
