import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countMatches, matchesOf } from '../../src/model/search.js';

// Two processes, a stack of main and leaf each: [process, leaf, weight] by row.
function profileOf(rows, names, functions) {
  return {
    processCount: names.length,
    isOwn: names.map(() => 0),
    isOrdered: true,
    label: (p) => names[p],
    pid: (p) => `<0.${p}.0>`,
    initialCall: () => 'proc_lib:init_p/5',
    frame: (id) => ({ text: functions[id], module: functions[id].split(':')[0] }),
    need: async () => {},
    columns: { process: rows.map(([p]) => p), node: rows.map(([, leaf]) => leaf + 2) },
    tables: {
      node_parent: [0, 0, ...functions.slice(1).map(() => 1)],
      node_frame: [0, 0, ...functions.slice(1).map((_, i) => i + 1)],
      frame_symbol: functions,
    },
    eachRun: (from, to, each) => each(from, to),
    rows,
  };
}

const FUNCTIONS = ['main:run/0', 'lists:map/2', 'gen_server:loop/7', 'shop_lists:all/0'];
const ROWS = [[0, 0, 1], [0, 1, 2], [1, 2, 4], [1, 1, 8], [2, 0, 16]];
const profile = profileOf(ROWS, ['audit_log', 'cache', 'lists_server'], FUNCTIONS);

async function found(text) {
  const selection = { profile, from: 0, to: ROWS.length, process: null, status: null,
      isTimeChecked: false };
  return countMatches(selection, ROWS.map(([, , weight]) => weight), matchesOf(profile, text));
}

test('a text is searched in names, modules and functions, in capitals or not', async () => {
  // By hand: rows 0 and 4 are in lists:map/2, row 4 is of lists_server, row 2 of shop_lists.
  const { functions, processes, weight, share } = await found('LISTS');
  assert.deepEqual([functions, processes, weight, share], [2, [2], 21, 21 / 31]);
});

test('a process is found by its name and by its pid', async () => {
  assert.deepEqual((await found('audit')).processes, [0]);
  assert.equal((await found('audit')).weight, 3);
  assert.deepEqual((await found('<0.1.0>')).processes, [1]);
});

test('between slashes it is a regular expression, which may be wrong', async () => {
  assert.equal((await found('/^lists$/')).functions, 1);
  assert.equal((await found('l.sts')).functions, 0);
  const wrong = matchesOf(profile, '/((/');
  assert.equal(wrong.processes, null);
  assert.match(wrong.error, /Invalid regular expression/);
});

test('what is not sampled in the selection is no match in it', async () => {
  const selection = { profile, from: 0, to: 1, process: null, status: null, isTimeChecked: false };
  const { processes, functions } = await countMatches(selection, null, matchesOf(profile, 'a'));
  assert.deepEqual([processes, functions], [[0], 2]);
});
