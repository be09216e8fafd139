// One server that many wait for. Stacks tell who waits in a call, and not for whom. But a server
// that is called has as many requests, those in its mailbox and the one that it handles, as callers
// wait, at each tick: the server whose number of requests follows the number of those who wait
// is theirs. Of a chain of calls each one waits for the next.

import { functionOf, looksOf, nodesWith } from './findings_stacks.js';
import { placeAt } from './findings_series.js';
import { share } from './findings_text.js';
import { exact } from './numbers.js';

const IS_CALL = /^gen:do_call\//;
const IS_IDLE = /^(?:gen_server:loop|gen_statem:loop_receive|gen_event:fetch_msg)\//;
const IS_SERVER = new RegExp('^(?:gen_server:(?:loop|handle_msg|decode_msg|try_handle_|'
    + 'try_dispatch)|gen_statem:loop_)');

const MANY = 5; // callers that wait at a time
const CALLER = 0.5; // of its time a client waits in a call
const CALLING_SERVER = 0.2; // of its time a server of a chain does
const LEAST_SAMPLES = 50;
const LEAST_REQUESTS = 0.2; // of a server on average: less keeps nobody waiting
const SEEN = 0.2; // of a group at a tick
const OFF = 0.3; // requests and callers differ by less, of the callers
const CLOSE = 0.1; // the same
const CLOSE_COUNT = 0.5; // callers
const TOGETHER = 0.5; // of the deviation of the number of callers
const GROUPS = 12; // of clients: the largest
// Where no server follows them: clients that do nothing but wait, and of the servers the one that
// has a request whenever they wait.
const ALWAYS = 0.9;
const CROWD = 10;
const MISSING = 0.02;
// Of one caller: how often its server is idle while it does not wait, in so many ticks.
const IDLE = 0.1;
const FREE_TICKS = 20;

export async function serverFindings(profile, { modules }) {
  await profile.need('node', 'process', 'status', 'time_us');
  const kinds = kindsOf(profile);
  const processes = await callsOf(profile, kinds);
  const clients = clientGroups(profile, processes).filter(({ mean }) => mean >= MANY);
  if (clients.length === 0) return [];
  const servers = processes.filter((one) => one.isServer && one.all >= LEAST_SAMPLES
      && one.requests >= LEAST_REQUESTS);
  const groups = [...clients, ...servers.filter((one) => one.share >= CALLING_SERVER)
      .map((one) => ({ processes: [one.process], mean: one.share, share: one.share }))];
  const ticks = (await profile.ticks()).starts;
  const { rows, starts } = await profile.byProcess();
  const coarse = await profile.coarse();
  // Times of merged samples are none at which numbers can be compared.
  const fine = (own) => (coarse === null ? own
      : own.filter((row) => !coarse.has(profile.columns.time_us[row])));
  const walk = (process, each) => eachTick(profile, ticks, fine(rows.subarray(starts[process],
      starts[process + 1])), each);
  for (const group of groups) group.waiting = waitingOf(profile, kinds, group, ticks, walk);
  await match(profile, kinds, groups, servers, walk);
  const named = clients.map((group) => ({ ...group, chain: chainOf(group, groups) }));
  return Promise.all(byLast(named).map((one) => toFinding(profile, modules, kinds, one)));
}

// By node, 1: waits in a call; waits for a request; is a server's.
function kindsOf(profile) {
  return {
    call: nodesWith(profile, ({ text }) => IS_CALL.test(text)),
    idle: nodesWith(profile, ({ text }) => IS_IDLE.test(text)),
    server: nodesWith(profile, ({ text }) => IS_SERVER.test(text), true),
    waiting: profile.statuses.indexOf('waiting'),
  };
}

// Of each process the share of its observations that wait in a call, and the stack of most; the
// requests that it has on average.
async function callsOf(profile, kinds) {
  const { node, process, status } = profile.columns;
  const { observations } = await profile.activityTotals();
  const queue = await profile.values(profile.metric('message_queue_len'));
  const many = () => new Float64Array(profile.processCount);
  const [calls, serves, requests] = [many(), many(), many()];
  const stack = new Uint32Array(profile.processCount);
  const { call, server, waiting } = kinds;
  const isKnown = server.map((is, n) => is | call[n]);
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      const n = node[row];
      if (isKnown[n] === 0) continue;
      const p = process[row];
      const looks = looksOf(profile, row);
      if (server[n] === 1) {
        serves[p] += looks;
        requests[p] += looks * requestsOf(kinds, n, status[row], queue[row]);
      }
      if (call[n] === 0 || status[row] !== waiting) continue;
      calls[p] += looks;
      stack[p] = n;
    }
  });
  return Array.from(observations, (all, p) => ({ process: p, all, share: calls[p] / all,
    stack: stack[p], isServer: 2 * serves[p] > all, requests: requests[p] / all }))
      .filter(({ all }) => all > 0);
}

// Those in its mailbox, and the one that it handles or has just been woken for.
function requestsOf(kinds, node, status, queue) {
  const isHandling = kinds.idle[node] === 0 || (status !== kinds.waiting && queue === 0);
  return isHandling ? queue + 1 : queue;
}

// Those with the same functions on their stacks call the same server, if they call one.
function clientGroups(profile, processes) {
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const groups = new Map();
  for (const { process, all, share: part, stack, isServer } of processes) {
    if (isServer || part < CALLER || all < LEAST_SAMPLES) continue;
    const functions = [];
    for (let n = stack; n > 0; n = parent[n]) functions.push(profile.frame(frame[n]).text);
    const key = functions.join('\n');
    const group = groups.get(key) ?? { processes: [], mean: 0, share: 0, isOfClients: true };
    group.processes.push(process);
    group.mean += part;
    group.share = group.mean / group.processes.length;
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.mean - a.mean).slice(0, GROUPS);
}

// ------------------------------------------------------------- tick by tick

// Calls each(row, from, to) with the ticks (from, to] that the row is of. Merged samples are of all
// since the one before them; of several at one tick it is the last.
function eachTick(profile, ticks, rows, each) {
  const { time_us: time } = profile.columns;
  let done = -1;
  let tick = Math.max(0, placeAt(ticks, time[rows[0]]));
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i];
    while (ticks[tick + 1] <= time[row]) tick++;
    const isLast = i + 1 === rows.length || time[rows[i + 1]] >= (ticks[tick + 1] ?? Infinity);
    const to = isLast ? tick : tick - 1;
    if (to <= done) continue;
    const from = looksOf(profile, row) > 1 ? placeAt(ticks, profile.since[row]) : to - 1;
    each(row, Math.max(done, from), to);
    done = to;
  }
}

// How many of the group wait in a call, by tick; -1: too few of them were sampled. Those that were
// stand for the others.
function waitingOf(profile, kinds, { processes }, ticks, walk) {
  const { node, status } = profile.columns;
  const waiting = new Float32Array(ticks.length);
  const seen = new Uint16Array(ticks.length);
  for (const process of processes) {
    walk(process, (row, from, to) => {
      const waits = kinds.call[node[row]] * Number(status[row] === kinds.waiting);
      for (let tick = from + 1; tick <= to; tick++) {
        seen[tick]++;
        waiting[tick] += waits;
      }
    });
  }
  const size = processes.length;
  return waiting.map((n, tick) => (seen[tick] > SEEN * size ? (n * size) / seen[tick] : -1));
}

async function match(profile, kinds, groups, servers, walk) {
  const { node, status } = profile.columns;
  const queue = await profile.values(profile.metric('message_queue_len'));
  for (const { process } of servers) {
    const sums = groups.map(() => ({ ticks: 0, callers: 0, off: 0, missing: 0, free: 0, idle: 0 }));
    let queued = 0;
    let observed = 0;
    walk(process, (row, from, to) => {
      const requests = requestsOf(kinds, node[row], status[row], queue[row]);
      queued += queue[row] * (to - from);
      observed += to - from;
      groups.forEach(({ waiting }, g) => addTicks(sums[g], waiting, requests, from, to));
    });
    groups.forEach((group, g) => {
      if (group.isOfClients !== true && group.processes[0] === process) return;
      const { ticks, callers, off, missing, free, idle } = sums[g];
      if (!(callers > 0)) return;
      (group.servers ??= []).push({ process, off: off / ticks, share: off / callers,
        missing: missing / callers, idle: free < FREE_TICKS ? 0 : idle / free,
        queue: queued / observed });
    });
  }
}

function addTicks(sum, waiting, requests, from, to) {
  for (let tick = from + 1; tick <= to; tick++) {
    const callers = waiting[tick];
    if (callers < 0) continue;
    sum.ticks++;
    sum.callers += callers;
    sum.off += Math.abs(requests - callers);
    sum.missing += Math.max(0, callers - requests);
    sum.free += Number(callers === 0);
    sum.idle += Number(callers === 0 && requests === 0);
  }
}

// ------------------------------------------------------------------- naming

function serverOf(group) {
  return group.isOfClients === true ? serverOfMany(group) : serverOfOne(group);
}

// Numbers that stay the same agree by chance: they have to agree closely, or to move together.
function serverOfMany({ servers = [], share: part, waiting }) {
  const [best] = [...servers].sort((a, b) => a.off - b.off);
  if (best !== undefined && best.share <= OFF) {
    const { mean, deviation } = spreadOf(waiting.filter((n) => n >= 0));
    if (best.off <= Math.max(CLOSE * mean, CLOSE_COUNT, TOGETHER * deviation)) return best;
  }
  if (part < ALWAYS) return null;
  const covering = servers.filter(({ missing }) => missing <= MISSING);
  return covering.length === 1 ? covering[0] : null;
}

// The server of one caller is never idle while that one waits, and is it at other times.
function serverOfOne({ servers = [] }) {
  const [best] = servers.filter(({ missing, idle }) => missing <= MISSING && idle >= IDLE)
      .sort((a, b) => b.idle - a.idle);
  return best ?? null;
}

function spreadOf(numbers) {
  const mean = numbers.reduce((sum, n) => sum + n, 0) / numbers.length;
  const deviation = numbers.reduce((sum, n) => sum + Math.abs(n - mean), 0) / numbers.length;
  return { mean, deviation };
}

// The server, the one that it waits for, and so on.
function chainOf(group, groups) {
  const chain = [];
  for (let next = group; next !== undefined;) {
    const server = serverOf(next);
    if (server === null || chain.some(({ process }) => process === server.process)) break;
    chain.push(server);
    next = groups.find(({ processes, isOfClients }) =>
        isOfClients !== true && processes[0] === server.process);
  }
  return chain;
}

// Clients of several kinds may wait for one server.
function byLast(groups) {
  const found = new Map();
  for (const { chain, processes, mean, share: part } of groups) {
    if (chain.length === 0 && (part < ALWAYS || processes.length < CROWD)) continue;
    const key = chain[chain.length - 1]?.process ?? `of ${processes[0]}`;
    const one = found.get(key);
    if (one === undefined) found.set(key, { chain, processes, mean });
    else Object.assign(one, { processes: [...one.processes, ...processes], mean: one.mean + mean });
  }
  return [...found.values()];
}

async function toFinding(profile, modules, kinds, { chain, processes, mean }) {
  const names = chain.map(({ process }) => profile.label(process));
  const last = names[names.length - 1];
  const waiters = `${exact(processes.length)} processes wait in gen:do_call/4 for `
      + `${share(mean / processes.length)} of their time`;
  if (last === undefined) {
    return {
      kind: 'server',
      size: mean,
      title: `${exact(processes.length)} processes wait in calls`,
      text: `${waiters}${profile.header.coarse_us ? '' : '; no sampled server has as many requests'}.`,
      processes,
      range: null,
      view: { measure: 'samples', show: 'waiting', levels: ['process'], view: 'flame' },
      function: 'gen:do_call/4',
    };
  }
  const { process, queue } = chain[chain.length - 1];
  const where = await functionOf(profile, process, modules, (row) =>
      kinds.idle[profile.columns.node[row]] === 0);
  const mailbox = `whose mailbox is ${exact(Math.round(10 * chain[0].queue) / 10)} on average`;
  const way = names.length === 1 ? `for ${last}, ${mailbox}`
      : `for ${names[0]}, ${mailbox}; ${names.slice(0, -1).map((name, i) =>
        `${name} waits for ${names[i + 1]}`).join(', ')}`;
  return {
    kind: 'server',
    size: mean,
    title: names.length === 1 ? `${last}: ${exact(Math.round(mean))} processes wait for it`
        : `${names.join(' → ')}: ${exact(Math.round(mean))} wait`,
    text: `${waiters}, ${way}${where === '' ? '' : `; ${last} is in ${where}`}.`,
    processes: [process, ...chain.slice(0, -1).map((one) => one.process).reverse()],
    range: null,
    view: { measure: 'samples', show: 'all', levels: ['process', 'status'], view: 'flame' },
    function: where,
  };
}
