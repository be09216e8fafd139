// A profile made of samples that a test thinks up, as openProfile() makes one of an index.

import { openProfile } from '../../src/model/profile.js';

const OWN_TID = 2 ** 31 - 1;
const OF_FLAME_PROF = { dialect: 'flame_prof', bad: 0, damaged: 0, cut_off: 0 };

/**
 * @param processes [{pid: '<0.71.0>', name, call, words}]: of a process its number is its place
 * @param samples [{process, us, status, stack, values: {metric: number}, weight, scheduler, file,
 *   message, waits_for, request, trace, span, collection}],
 *   in the order of the file; us counts from startUs; a stack is frames, leaf first:
 *   'lists:map/2:10', 'ets:lookup/2 (bif)'
 * @param own [{us, values}]: the profiler's samples of itself
 * @param files [{dialect, bad, damaged, cut_off}]: what differs from a healthy one
 * @param units {metric: unit} where it is not a count
 */
export async function buildProfile({ processes, samples, own = [], files = [{}], units = {},
  startUs = 1.7e15, ownWords = '', event = 'cpu-clock' }) {
  const all = [...processes, ...(own.length === 0 ? [] : [{ isOwn: 1, words: ownWords }])];
  const rows = merged(samples, own.map((one) => ({ ...one, process: processes.length })));
  const texts = new Texts();
  const stacks = new Stacks(texts);
  const statuses = [...new Set(rows.map(statusOf))];
  const metrics = metricsOf(rows, units);
  const schemas = [...new Set(rows.map((row) => Object.keys(row.values ?? {}).join(' ')))];
  const numberOf = new Map(metrics.map(({ name }, number) => [name, number]));
  const columns = {
    time_us: column(rows.map((row) => row.us)),
    process: column(rows.map((row) => row.process)),
    status: column(rows.map((row) => statuses.indexOf(statusOf(row)))),
    node: column(rows.map((row) => stacks.leaf(row.stack ?? ['no_frames']))),
    period: periods(rows),
    schema: column(rows.map((row) => schemas.indexOf(Object.keys(row.values ?? {}).join(' ')))),
    file: column(rows.map((row) => row.file ?? 0)),
    scheduler: column(rows.map((row) => row.scheduler ?? 0)),
  };
  const wordNames = ['message', 'waits_for', 'request', 'trace', 'span', 'collection'];
  const words = Object.fromEntries(wordNames.map((name) =>
      [name, rows.flatMap((row, i) => (row[name] ? [[i, texts.id(row[name])]] : []))]));
  const header = {
    rows: rows.length,
    words,
    start_us: startUs,
    end_us: startUs + rows.reduce((most, row) => Math.max(most, row.us), 0),
    ordered: Number(rows.every((row, i) => i === 0 || rows[i - 1].us <= row.us)),
    files: files.map((file, i) => ({ path: `${i}.log`, ...OF_FLAME_PROF, ...file })),
    warning_count: 0,
    warnings: [],
    events: [event],
    statuses,
    schemas: schemas.map((names) => names.split(' ').filter(Boolean).map((n) => numberOf.get(n))),
    own_rows: column(rows.flatMap((row, i) => (all[row.process].isOwn ? [i] : []))),
    tables: { ...processTables(all, rows, texts), ...stacks.tables(), ...texts.tables() },
    columns,
    metrics: metrics.map((metric) => described(metric, rows, all)),
  };
  return openProfile(memoryIndex(header), 'built');
}

// Behind the samples of a moment comes what the profiler says of it.
function merged(samples, own) {
  const rows = [];
  let next = 0;
  for (const one of own) {
    while (next < samples.length && samples[next].us <= one.us) rows.push(samples[next++]);
    rows.push(one);
  }
  for (; next < samples.length; next++) rows.push(samples[next]);
  return rows;
}

function statusOf({ status = 'waiting' }) {
  return status;
}

function metricsOf(rows, units) {
  const names = new Set(rows.flatMap((row) => Object.keys(row.values ?? {})));
  return [...names].map((name) => ({ name, unit: units[name] ?? 'count' }));
}

// Metrics of the profiler's own samples are in few rows, and columns of few rows are sparse.
function described({ name, unit }, rows, processes) {
  const at = rows.flatMap(({ values }, i) => (values?.[name] === undefined ? [] : [i]));
  const samples = at.filter((i) => !processes[rows[i].process].isOwn).length;
  const sparse = (numbers) => ({ type: 'sparse', rows: Uint32Array.from(at),
      values: Float64Array.from(numbers) });
  if (samples > 0) {
    return { name, unit, samples, value: column(rows.map(({ values }) => values?.[name] ?? 0)),
      delta: { type: 'derived', rows: column([]), deltas: column([]) } };
  }
  const values = at.map((i) => rows[i].values[name]);
  return { name, unit, samples, value: sparse(values),
    delta: sparse(values.map((value, i) => (i === 0 ? 0 : value - values[i - 1]))) };
}

function periods(rows) {
  if (rows.every(({ weight = 1 }) => weight === 1)) {
    return { type: 'const', value: 1, array: new Uint8Array(rows.length).fill(1) };
  }
  return column(rows.map(({ weight = 1 }) => weight));
}

function processTables(all, rows, texts) {
  const of = (key) => column(all.map((one) => texts.id(one[key])));
  const samples = new Float64Array(all.length);
  for (const { process } of rows) samples[process]++;
  return {
    process_pid: column(all.map(() => 4242)),
    process_tid: column(all.map((one, i) => (one.isOwn ? OWN_TID : i))),
    process_erl_pid: of('pid'),
    process_name: of('name'),
    process_label: of('label'),
    process_initial_call: of('call'),
    process_proc_lib_initial_call: of('proc_lib'),
    process_comm: of('comm'),
    process_words: of('words'),
    process_is_own: column(all.map((one) => one.isOwn ?? 0)),
    process_samples: column(samples),
  };
}

// Texts have numbers; 0 is the empty one.
class Texts {
  constructor() {
    this.texts = [''];
    this.ids = new Map([['', 0]]);
  }

  id(text = '') {
    if (!this.ids.has(text)) this.ids.set(text, this.texts.push(text) - 1);
    return this.ids.get(text);
  }

  tables() {
    const bytes = this.texts.map((text) => new TextEncoder().encode(text));
    let end = 0;
    return { string_end: column(bytes.map(({ length }) => (end += length))),
      string_bytes: { array: Uint8Array.from(bytes.flatMap((some) => [...some])) } };
  }
}

// Node 0 is the root of all stacks; a frame is as often in the table as it is on stacks.
class Stacks {
  constructor(texts) {
    this.texts = texts;
    this.nodes = [{ parent: 0, frame: 0 }];
    this.frames = [{ symbol: '', dso: '' }];
    this.children = new Map();
  }

  leaf(stack) {
    return stack.reduceRight((node, symbol) => this.child(node, symbol), 0);
  }

  child(parent, text) {
    const key = `${parent} ${text}`;
    if (!this.children.has(key)) {
      const [symbol, dso = `${text.split(':')[0]}.erl)`] = text.split(' (');
      const frame = this.frames.push({ symbol, dso: dso.slice(0, -1) }) - 1;
      this.children.set(key, this.nodes.push({ parent, frame }) - 1);
    }
    return this.children.get(key);
  }

  tables() {
    return {
      node_parent: column(this.nodes.map(({ parent }) => parent)),
      node_frame: column(this.nodes.map(({ frame }) => frame)),
      frame_symbol: column(this.frames.map(({ symbol }) => this.texts.id(symbol))),
      frame_dso: column(this.frames.map(({ dso }) => this.texts.id(dso))),
    };
  }
}

function column(numbers) {
  return { type: 'f64', count: numbers.length, array: Float64Array.from(numbers) };
}

// What decode/index_file.js gives of a file.
function spread(count, rows, values) {
  const whole = new Float64Array(count);
  rows.forEach((row, i) => (whole[row] = values[i]));
  return whole;
}

function memoryIndex(header) {
  const arrayOf = async (described) => described.array;
  return {
    header,
    column: arrayOf,
    table: (name) => arrayOf(header.tables[name]),
    rows: (name) => arrayOf(header.columns[name]),
    values: (metric) => arrayOf(header.metrics[metric].value),
    ownRows: () => arrayOf(header.own_rows),
    changes: async (metric) => {
      const { type, rows, deltas, ...sparse } = header.metrics[metric].delta;
      const part = { from: 0, count: header.rows };
      return [type === 'derived' ? { ...part, whole: null, rows: rows.array, deltas: deltas.array }
          : { ...part, whole: spread(header.rows, rows, sparse.values) }];
    },
    words: async (name) => [0, 1].map((i) => header.words[name].map((pair) => pair[i])),
    few: async (metric, kind) => {
      const { type, rows, values } = header.metrics[metric][kind];
      return type === 'sparse' ? [rows, values] : null;
    },
  };
}
