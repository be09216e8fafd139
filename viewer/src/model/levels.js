// The groups that samples are put into, between the root and their stacks:
// by the process and its metrics. Spelled as exports spell them.

import { worded } from './activity.js';
import { applicationOf, isOtp } from './kinds.js';
import { decodeName } from './symbols.js';

const SIZES = ['1s', '10s', '100s'];
const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const COUNTS = ['', 'k', 'M', 'G', 'T', 'P'];

/** All of them, in the order in which they are offered. */
export const LEVELS = {
  sign: { title: 'sign of the delta', make: signLevel },
  memory: { title: 'memory class', make: (profile) =>
      classLevel(profile, 'memory', 1024, memoryText) },
  queue: { title: 'queue class', make: (profile) =>
      classLevel(profile, 'message_queue_len', 1000, queueText) },
  status: { title: 'status', make: statusLevel },
  heap: { title: 'kept or garbage', make: heapLevel },
  application: { title: 'application', make: applicationLevel },
  process: { title: 'process', make: processLevel },
  message: { title: 'message', make: (profile) => wordLevel(profile, 'message') },
  trace: { title: 'trace', make: (profile) => wordLevel(profile, 'trace') },
  span: { title: 'span', make: (profile) => wordLevel(profile, 'span') },
  pid: { title: 'pid', make: pidLevel },
  node: { title: 'node', make: nodeLevel },
};

/** Those that only a profile with that word has. */
const WORD_LEVELS = ['message', 'trace', 'span'];

/** Does this profile have such groups? */
export function hasLevel({ header, isOfAllocations }, level) {
  if (WORD_LEVELS.includes(level)) return header[level] !== undefined;
  return isOfAllocations ? !['memory', 'queue', 'status'].includes(level) : level !== 'heap';
}

/** Those of the words that are levels, each once. */
export function levelNames(words) {
  return [...new Set(words)].filter((word) => Object.hasOwn(LEVELS, word));
}

/**
 * A dimension's groups: {codeOf(row, weight) => number, textOf(code), shownOf(code): as pictures
 * have it, orderOf(code)}; the order is for sorting, among texts if it is absent. The last two may
 * be absent.
 */
export function makeLevel(name, profile, context) {
  return LEVELS[name].make(profile, context);
}

function signLevel() {
  return {
    codeOf: (_row, weight) => (weight < 0 ? 0 : 1),
    textOf: (code) => (code === 0 ? 'negative' : 'positive'),
    orderOf: (code) => code,
  };
}

async function statusLevel(profile) {
  await profile.need('status');
  const { status } = profile.columns;
  const textOf = (code) => profile.statuses[code] || 'no status';
  return { codeOf: (row) => status[row], textOf, shownOf: (code) => worded(textOf(code)) };
}

// What became of memory that was allocated: the outermost frame tells, and is no function.
async function heapLevel(profile) {
  await profile.need('node');
  const { node } = profile.columns;
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const fate = Uint32Array.from(parent);
  for (let n = 1; n < fate.length; n++) fate[n] = parent[n] === 0 ? frame[n] + 1 : fate[parent[n]];
  return {
    codeOf: (row) => fate[node[row]],
    textOf: (code) => (code > 0 && profile.frame(code - 1).text.replace('_', ' ')) || 'not known',
  };
}

// Classes: 0 is nothing or unknown; 1 + 3 * power + (0, 1, 2 for 1s, 10s, 100s).
async function classLevel(profile, metric, base, textOf) {
  const number = profile.metric(metric);
  const values = number < 0 ? null : await profile.values(number);
  return {
    codeOf: (row) => (values === null ? 0 : classOf(values[row], base)),
    textOf,
    shownOf: (code) => shownClass(textOf(code)),
    orderOf: (code) => code,
  };
}

// memory_10s_KiB: memory 10 to 99 KiB; the last class of a unit ends where the next unit begins.
function shownClass(text) {
  const [, what, from, unit = ''] = /^(memory|queue)_(\d+)s?_?(.*)$/.exec(text);
  if (from === '0') return `${what} 0`;
  const most = Number(from) === 100 && what === 'memory' ? 1023 : 10 * from - 1;
  return `${what} ${from} to ${most}${what === 'memory' ? ' ' : ''}${unit}`;
}

function classOf(value, base) {
  if (!(value > 0)) return 0;
  let power = 0;
  let rest = value;
  while (rest >= base && power < 5) {
    rest = Math.floor(rest / base);
    power++;
  }
  return 1 + 3 * power + (rest >= 100 ? 2 : rest >= 10 ? 1 : 0);
}

function memoryText(code) {
  return code === 0 ? 'memory_0'
      : `memory_${SIZES[(code - 1) % 3]}_${BYTES[Math.floor((code - 1) / 3)]}`;
}

function queueText(code) {
  return code === 0 ? 'queue_0'
      : `queue_${SIZES[(code - 1) % 3]}${unit(COUNTS[Math.floor((code - 1) / 3)])}`;
}

function unit(text) {
  return text === '' ? '' : `_${text}`;
}

async function processLevel(profile) {
  const labels = new Numbered();
  return perProcess(profile, (process) => labels.codeOf(profile.label(process)), (code) =>
      labels.texts[code]);
}

async function pidLevel(profile) {
  return perProcess(profile, (process) => process, (code) => profile.pid(code));
}

// What a server has in work, or the trace or the span that a process works for.
async function wordLevel(profile, name) {
  const column = await profile.word(name);
  return {
    codeOf: (row) => column?.[row] ?? 0,
    textOf: (code) => decodeName(profile.text(code)) || `no ${name}`,
  };
}

async function nodeLevel(profile) {
  const { process_pid: pid } = profile.tables;
  return perProcess(profile, (process) => pid[process], (code) =>
      (code === 0 ? 'node' : `os_pid_${code}`));
}

async function perProcess(profile, codeOf, textOf) {
  await profile.need('process');
  const { process } = profile.columns;
  const codes = Float64Array.from({ length: profile.processCount }, (_, p) => codeOf(p));
  return { codeOf: (row) => codes[process[row]], textOf };
}

// The application of the stack's outermost frame that is not OTP's; of its
// outermost one where all are.
async function applicationLevel(profile, { modules }) {
  await profile.need('node');
  const { node } = profile.columns;
  const { node_parent: parent, node_frame: frame } = profile.tables;
  const applications = new Numbered(['unknown']);
  const own = new Int32Array(parent.length).fill(-1); // the outermost that is not OTP's
  const any = new Int32Array(parent.length).fill(-1);
  for (let n = 1; n < parent.length; n++) {
    const { module, isFunction } = profile.frame(frame[n]);
    own[n] = own[parent[n]];
    any[n] = any[parent[n]];
    if (!isFunction) continue;
    const code = applications.codeOf(applicationOf(module, modules));
    if (own[n] < 0 && !isOtp(module, modules)) own[n] = code;
    if (any[n] < 0) any[n] = code;
  }
  return {
    codeOf: (row) => Math.max(0, own[node[row]] < 0 ? any[node[row]] : own[node[row]]),
    textOf: (code) => applications.texts[code],
  };
}

// Texts by number, from 0 on.
class Numbered {
  constructor(texts = []) {
    this.texts = texts;
    this.codes = new Map(texts.map((text, code) => [text, code]));
  }

  codeOf(text) {
    const known = this.codes.get(text);
    if (known !== undefined) return known;
    this.codes.set(text, this.texts.push(text) - 1);
    return this.texts.length - 1;
  }
}
