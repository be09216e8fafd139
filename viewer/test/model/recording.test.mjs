import assert from 'node:assert/strict';
import { test } from 'node:test';
import { badgeText } from '../../src/app/recording.js';

const START_S = 1795237782;

function badge({ live, ago, listed = ago, files = 1, others = [], flush = 2000, failure = null,
  rows = 9 }) {
  const words = `name=flame_prof engine=native options=top=100,flush_interval=${flush}`;
  const profile = { name: 'a', rows, isOwn: [0, 1],
      startUs: rows > 0 ? START_S * 1e6 : 0, durationUs: rows > 0 ? 10e6 : 0,
      header: { files: [{ path: 'a' }] },
      tables: { process_words: [0, 1] }, text: () => words };
  const entry = { name: 'a', live, files, modified: START_S + 10 };
  return badgeText({ profiles: [...others, entry], profile, failure, isFollowed: true,
      nowUs: (START_S + 10 + ago) * 1e6, listedUs: (START_S + 10 + listed) * 1e6 });
}

test('a file that is written is that far behind', () => {
  assert.equal(badge({ live: true, ago: 4 }), 'recording, 4 s behind');
  assert.equal(badge({ live: true, ago: 1 }), 'recording, 1 s behind');
});

test('a file without a sample is not behind', () => {
  assert.equal(badge({ live: true, ago: 4, rows: 0 }), 'recording, no sample yet');
});

test('a file that is not written is finished', () => {
  assert.equal(badge({ live: false, ago: 4 }), 'finished');
});

test('a session between two files is recording, until that takes too long', () => {
  const next = { name: 'b', live: true, files: 1, modified: START_S + 11 };
  assert.equal(badge({ live: false, ago: 2, others: [next] }), 'recording, 2 s behind');
  assert.equal(badge({ live: false, ago: 2, files: 3 }), 'recording, 2 s behind');
  assert.equal(badge({ live: false, ago: 60, files: 3 }), 'finished');
});

test('a file whose session has died is unfinished', () => {
  assert.equal(badge({ live: true, ago: 60 }), 'unfinished');
  assert.equal(badge({ live: true, ago: 60, flush: 30000 }), 'recording, 60 s behind');
});

test('a list of some seconds ago says nothing of what was written since', () => {
  assert.equal(badge({ live: true, ago: 8, listed: 2 }), 'recording, 8 s behind');
});

test('why it is not followed is told', () => {
  assert.equal(badge({ live: true, ago: 4, failure: new Error('no answer') }),
      'not followed: no answer');
});
