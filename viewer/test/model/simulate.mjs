// Samples of processes whose states are functions of time: what a sampler would have written.

import { buildProfile } from './build_profile.mjs';

export const TICK_US = 9259; // 108 a second
const MERGED_US = 1e6;

/**
 * @param processes [{pid, name, call, at(us) => {status, stack, values, scheduler} or null where it
 *   is not sampled}]
 * @param options {seconds, tickUs, isMerged: what waits unchanged is written once a second,
 *   change(samples) => samples: what goes wrong, own, files, units}
 */
export async function simulate(processes, { seconds = 20, tickUs = TICK_US, isMerged = false,
  change = (samples) => samples, ...more } = {}) {
  const samples = [];
  const held = new Map();
  for (let us = 0; us < seconds * 1e6; us += tickUs) {
    processes.forEach((one, process) => {
      const state = one.at(us);
      if (state === null) return;
      const sample = { process, us, ...state };
      if (isMerged) merge(samples, held, sample);
      else samples.push(sample);
    });
  }
  for (const { sample, weight } of held.values()) samples.push({ ...sample, weight });
  samples.sort((a, b) => a.us - b.us);
  return buildProfile({ processes: processes.map(({ at, ...words }) => words),
    samples: change(samples), ...more });
}

// What is held is written at its last observation, or just before the change that ends it.
function merge(samples, held, sample) {
  const before = held.get(sample.process);
  const isSame = before !== undefined && sample.status === 'waiting'
      && JSON.stringify({ ...before.sample, us: 0 }) === JSON.stringify({ ...sample, us: 0 });
  if (isSame && sample.us - before.since < MERGED_US) {
    before.weight++;
    before.sample = sample;
    return;
  }
  if (before !== undefined) {
    samples.push({ ...before.sample, weight: before.weight,
      us: Math.max(before.sample.us, sample.us - 1) });
  }
  held.set(sample.process, { sample, weight: 1, since: sample.us });
}

const CALL = ['gen:do_call/4:240', 'gen_server:call/3:419'];
const LOOP = ['gen_server:loop/7:871', 'proc_lib:init_p_do_apply/3:240'];
const HANDLE = ['gen_server:try_handle_call/4:661', 'gen_server:handle_msg/6:690',
  'proc_lib:init_p_do_apply/3:240'];

/**
 * Callers in a closed queue of a chain of servers, each of which calls the next, step by step of a
 * millisecond. A hop from server to server takes one.
 *
 * @returns {processes: for simulate(), waiting(us): how many callers wait}
 */
export function callers(many, servers, { serviceMs, thinkMs, seconds = 20 }) {
  const last = servers.length - 1;
  const thinking = Array.from({ length: many }, (_, i) => 1 + (i * 7) % (thinkMs + 1));
  const queue = [];
  const history = []; // by ms {waits: of each caller, queued, active, isBack}
  let current = null;
  for (let ms = 0; ms < seconds * 1000; ms++) {
    thinking.forEach((left, i) => {
      thinking[i] = left - 1;
      if (left === 1) queue.push(i);
    });
    if (current === null && queue.length > 0) {
      current = { caller: queue.shift(), server: 0, left: last === 0 ? serviceMs : 1,
        isBack: false };
    }
    history.push({ waits: thinking.map((left) => left <= 0), queued: queue.length,
      active: current === null ? -1 : current.server, isBack: current?.isBack });
    if (current !== null) current = next(current, last, serviceMs, thinking, thinkMs);
  }
  const at = (us) => history[Math.min(history.length - 1, Math.floor(us / 1000))];
  return {
    waiting: (us) => at(us).waits.filter(Boolean).length,
    processes: [...servers.map((name, k) => ({ pid: `<0.${500 + k}.0>`, name,
      call: `${name}:init/1`, at: (us) => serverState(name, k, at(us), k === last) })),
    ...thinking.map((_, i) => ({ pid: `<0.${700 + i}.0>`, call: 'client:init/1',
      at: (us) => clientState(at(us).waits[i]) }))],
  };
}

function next(current, last, serviceMs, thinking, thinkMs) {
  const { caller, server, left, isBack } = current;
  if (left > 1) return { ...current, left: left - 1 };
  if (!isBack && server < last) {
    return { caller, server: server + 1, left: server + 1 === last ? serviceMs : 1, isBack };
  }
  if (server > 0) return { caller, server: server - 1, left: 1, isBack: true };
  thinking[caller] = Math.max(1, thinkMs);
  return null;
}

function serverState(name, k, { active, queued, isBack }, isLast) {
  const values = { message_queue_len: k === 0 ? queued : 0, memory: 5000 };
  const root = [...HANDLE, `${name}:init/1`];
  const call = [...CALL, `${name}:handle_call/3:20`, ...root];
  if (active < k) return { status: 'waiting', stack: [...LOOP, `${name}:init/1`], values };
  if (active > k) return { status: 'waiting', stack: call, values };
  if (isBack) return { status: 'runnable', stack: call, values };
  return { status: isLast ? 'running' : 'runnable', values,
    stack: [`${name}:work/1:30`, `${name}:handle_call/3:20`, ...root] };
}

function clientState(waits) {
  const root = ['client:loop/1:9', 'client:init/1'];
  return waits ? { status: 'waiting', stack: [...CALL, ...root], values: quiet() }
      : { status: 'waiting', stack: ['timer:sleep/1:219', ...root], values: quiet() };
}

export function quiet(values = {}) {
  return { message_queue_len: 0, memory: 3000, bin_vheap_size: 0, bin_old_vheap_size: 0,
    ...values };
}
