// What is left of a name that is too long.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitted, isolated } from '../../src/model/fitted.js';

const CASES = [
  ['gen_server:handle_call/3', [
    [24, 'gen_server:handle_call/3'], [20, 'gen_s…:handle_call/3'], [15, '…:handle_call/3'],
    [14, 'handle_call/3'], [13, 'handle_call/3'], [12, 'handle_call…'], [3, 'ha…'], [2, ''],
    [0, ''],
  ]],
  ['proc_lib:init_p_do_apply/3:240', [[26, 'pro…:init_p_do_apply/3:240']]],
  ['orders:-run/2-fun-0-/1', [[20, 'ord…:-run/2-fun-0-/1'], [10, '-run/2-fu…']]],
  ['erlang:\'/\'/2', [[9, 'er…:\'/\'/2']]],
  ['Enum.map/2', [[9, 'En….map/2'], [6, 'map/2'], [4, 'map…']]],
  ['Phoenix.Endpoint.Cowboy2Handler.init/4', [[14, 'Phoeni….init/4'], [6, 'init/4']]],
  ['anonymous fn/2 in Shop.Cart.total/1', [
    [21, 'fn/2 in Shop….total/1'], [15, 'fn/2 in total/1'], [11, 'fn/2 in to…'], [6, 'fn/2 …'],
  ]],
  ['BeamModuleAssembler::emit_i_bs_init', [
    [20, 'Bea…::emit_i_bs_init'], [9, 'emit_i_b…'],
  ]],
  ['/usr/lib/x86_64-linux-gnu/libc.so.6', [[14, '/us…/libc.so.6'], [9, 'libc.so.6']]],
  ['garbage_collecting', [[8, 'garbage…']]],
  ['шина_данных:прочесть_всё/2', [[17, 'ш…:прочесть_всё/2'], [14, 'прочесть_всё/2']]],
  ['😀😀😀😀', [[4, '😀…']]],
];

for (const [name, rooms] of CASES) {
  test(`what is left of ${name}`, () => {
    for (const [room, expected] of rooms) assert.equal(fitted(name, room), expected, `${room}`);
  });
}

test('nothing is longer than its room', () => {
  for (const [name] of CASES) {
    for (let room = 0; room <= name.length; room++) assert.ok(fitted(name, room).length <= room);
  }
});

test('the function is there as soon as there is room for it', () => {
  for (const [name, of] of [['proc_lib:init_p/5', 'init_p/5'], ['Enum.map/2', 'map/2'],
    ['asmjit::x86::Emitter::mov', 'mov']]) {
    for (let room = of.length; room <= name.length; room++) {
      assert.ok(fitted(name, room).endsWith(of), `${room}: ${fitted(name, room)}`);
    }
  }
});

test('a name from right to left keeps its arity behind it', () => {
  assert.equal(isolated('m:\u0645\u0631/2'), 'm:\u2068\u0645\u0631\u2069/2');
  assert.equal(isolated('lists:map/2'), 'lists:map/2');
});
