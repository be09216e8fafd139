// Names of C++ as binutils reads them.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { demangled } from '../../src/model/demangle.js';

const file = new URL('cxx_names.txt', import.meta.url);
const lines = readFileSync(file, 'utf8').split('\n').filter((line) => /^[^#]/.test(line));

// Without the arguments of templates and tags of the ABI. An operator may be named by brackets.
function plain(name) {
  const [, scope, operator = ''] = /^(.*?)(operator(?:[<>=-]+|.*))?$/.exec(name);
  let text = scope.replace(/\[abi:\w+\]/g, '');
  while (/<[^<>]*>/.test(text)) text = text.replace(/<[^<>]*>/g, '');
  return text + operator;
}

test('names of C++ are those of binutils', () => {
  assert.ok(lines.length > 300);
  for (let i = 0; i < lines.length; i += 2) {
    assert.equal(demangled(lines[i]), plain(lines[i + 1]), lines[i]);
  }
});

test('what follows a name of C++ stays', () => {
  assert.equal(demangled('_ZN3foo3barEv.cold'), 'foo::bar.cold');
});

test('the hash at the end of a name of Rust is left out', () => {
  assert.equal(demangled('_ZN4core3fmt5write17h0123456789abcdefE'), 'core::fmt::write');
});

test('what is no name of C++, or damaged, stays as it is', () => {
  for (const symbol of ['lists:map/2', '', '_Z', '_Zed', '_ZN', '_ZN3foE', 'malloc', '_ZTV3foo',
    '_ZN99999999999foo', '_ZNS_3fooE', '_ZN3fooC', '[gc]', '_ZNE', '_ZNC1E', '_ZND1E',
    `_Z${'N'.repeat(100000)}`, `_Z1fI${'I'.repeat(100000)}`]) {
    assert.equal(demangled(symbol), symbol);
  }
  for (const symbol of lines.filter((line) => line.startsWith('_Z'))) {
    for (let end = 2; end < symbol.length; end++) demangled(symbol.slice(0, end));
  }
});
