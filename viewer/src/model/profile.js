// A profile as typed arrays. Columns come when they are asked for; code that
// counts says what it needs first (`need`) and then runs without waiting.

import { decodeName, parseSymbol, shownName } from './symbols.js';
import { findTicks } from './ticks.js';

const METRICS_KEPT = 4; // columns of metrics: a long profile has many rows
const OURS = 'flame_prof'; // the dialect of files that this library writes
const SPREAD_MOST = 10000; // observations of one sample; flame_prof writes one a second

export async function openProfile(index, name) {
  const tables = {};
  const names = Object.keys(index.header.tables);
  const arrays = await Promise.all(names.map((table) => index.table(table)));
  names.forEach((table, i) => (tables[table] = arrays[i]));
  const profile = new Profile(index, tables, name);
  profile.ownRows = (await index.column(index.header.own_rows)).sort();
  await profile.findLooks();
  return profile;
}

class Profile {
  constructor(index, tables, name) {
    const { header } = index;
    this.index = index;
    this.header = header;
    this.tables = tables;
    this.name = name;
    this.rows = header.rows;
    this.startUs = header.start_us;
    this.durationUs = header.rows > 0 ? header.end_us - header.start_us + 1 : 0;
    this.isOrdered = Boolean(header.ordered);
    this.statuses = header.statuses.map(decodeName);
    this.columns = {};
    this.isOwn = tables.process_is_own;
    this.ownRows = []; // of the profiler itself: they are no samples
    this.looks = null; // by row, its number of observations; null: each has one
    this.lookCount = 0;
    this.since = null; // by row, the time of the observation before; its own: unknown
    this.metricColumns = new Map(); // key -> Promise of an array; the last used is last
    this.texts = new Map();
    this.decoder = new TextDecoder();
    this.frames = new Map();
  }

  // ---------------------------------------------------------------- columns

  async need(...names) {
    await Promise.all(names.map(async (name) => {
      const column = (this.columns[name] ??= this.index.rows(name));
      try {
        this.columns[name] = await column;
      } catch (error) {
        if (this.columns[name] === column) delete this.columns[name]; // it is asked for again
        throw error;
      }
    }));
  }

  /** Calls `each(first, end)` for the runs of rows in [from, to) that are samples. */
  eachRun(from, to, each) {
    let first = from;
    for (const own of this.ownRows) {
      if (own < first) continue;
      if (own >= to) break;
      if (own > first) each(first, own);
      first = own + 1;
    }
    if (first < to) each(first, to);
  }

  // A sample of flame_prof stands for as many observations as its period says, all of them like
  // it, since the process' sample before (doc/sampling.md). A period of perf is
  // time, and its sample one observation.
  async findLooks() {
    const { period } = this.header.columns;
    const isOurs = this.header.files.map(({ dialect }) => dialect === OURS);
    this.lookCount = this.rows - this.ownRows.length;
    if ((period.type === 'const' && period.value === 1) || !isOurs.includes(true)) return;
    await this.need('period', 'file', 'process', 'time_us');
    const { period: periods, file, process, time_us: time } = this.columns;
    const last = new Float64Array(this.processCount).fill(NaN);
    this.looks = isOurs.every(Boolean) ? periods
        : Float64Array.from(periods, (n, row) => (isOurs[file[row]] ? n : 1));
    this.since = new time.constructor(this.rows);
    this.lookCount = 0;
    this.eachRun(0, this.rows, (first, end) => {
      for (let row = first; row < end; row++) {
        this.lookCount += this.looks[row];
        const before = last[process[row]];
        this.since[row] = before < time[row] && this.looks[row] <= SPREAD_MOST ? before : time[row];
        last[process[row]] = time[row];
      }
    });
  }

  metric(name) {
    return this.header.metrics.findIndex((metric) => metric.name === name);
  }

  values(metric) {
    return this.kept(`${metric}`, () => this.index.values(metric));
  }

  deltas(metric) {
    return this.kept(`${metric} delta`, () => this.makeDeltas(metric));
  }

  async kept(key, make) {
    const column = this.metricColumns.get(key) ?? make();
    this.metricColumns.delete(key);
    this.metricColumns.set(key, column);
    if (this.metricColumns.size > METRICS_KEPT) {
      this.metricColumns.delete(this.metricColumns.keys().next().value);
    }
    try {
      return await column;
    } catch (error) {
      if (this.metricColumns.get(key) === column) this.metricColumns.delete(key);
      throw error;
    }
  }

  /** The values or deltas of a metric in these rows; NaN where they have none. */
  async numbersAt(metric, kind, rows) {
    const described = this.header.metrics[metric][kind];
    if (described.type === 'sparse') {
      const [at, numbers] = await this.index.pairs(described);
      const places = new Map(Array.from(at, (row, i) => [row, i]));
      return Float64Array.from(rows, (row) => numbers[places.get(row)] ?? NaN);
    }
    const column = await (kind === 'delta' ? this.deltas(metric) : this.values(metric));
    return Float64Array.from(rows, (row) => column[row]);
  }

  async makeDeltas(metric) {
    const { delta } = this.header.metrics[metric];
    if (delta.type !== 'derived') return this.index.deltas(metric);
    const [values, odd, oddDeltas] = await Promise.all([
      this.values(metric),
      this.index.column(delta.rows),
      this.index.column(delta.deltas),
    ]);
    await this.need('process', 'schema');
    return this.derive(metric, values, odd, oddDeltas);
  }

  // The difference to the process' value before, in rows that have the metric,
  // but for the rows that are listed.
  derive(metric, values, odd, oddDeltas) {
    const { process, schema } = this.columns;
    const has = this.header.schemas.map((metrics) => metrics.includes(metric));
    const before = new Float64Array(this.tables.process_pid.length).fill(NaN);
    const deltas = fits32(this.header, oddDeltas, values)
      ? new Int32Array(values.length)
      : new Float64Array(values.length);
    for (let row = 0; row < deltas.length; row++) {
      if (!has[schema[row]]) continue;
      const p = process[row];
      const last = before[p];
      before[p] = values[row];
      if (last === last) deltas[row] = values[row] - last; // not at its first
    }
    odd.forEach((row, i) => (deltas[row] = oddDeltas[i]));
    return deltas;
  }

  // ------------------------------------------------------------------ texts

  text(id) {
    let text = this.texts.get(id);
    if (text === undefined) {
      const { string_end: end, string_bytes: bytes } = this.tables;
      text = this.decoder.decode(bytes.subarray(id === 0 ? 0 : end[id - 1], end[id]));
      this.texts.set(id, text);
    }
    return text;
  }

  /** Of symbols.js. */
  frame(id) {
    let frame = this.frames.get(id);
    if (frame === undefined) {
      const { frame_symbol: symbol, frame_dso: dso } = this.tables;
      frame = parseSymbol(this.text(symbol[id]), this.text(dso[id]));
      this.frames.set(id, frame);
    }
    return frame;
  }

  // -------------------------------------------------------------- processes

  get processCount() {
    return this.tables.process_pid.length;
  }

  pid(process) {
    const { process_erl_pid: pid, process_pid: os, process_tid: tid } = this.tables;
    const text = this.text(pid[process]);
    return text === '' ? `${os[process]}/${tid[process]}` : text;
  }

  /** Its registered name or label, else what it was started with, else its pid. */
  label(process) {
    const tables = this.tables;
    for (const table of ['name', 'label', 'proc_lib_initial_call', 'initial_call', 'erl_pid',
        'comm']) {
      const id = tables[`process_${table}`][process];
      if (id !== 0) return shownName(decodeName(this.text(id)));
    }
    return this.pid(process);
  }

  initialCall(process) {
    const tables = this.tables;
    const id = tables.process_proc_lib_initial_call[process]
        || tables.process_initial_call[process];
    return shownName(decodeName(this.text(id)));
  }

  // ------------------------------------------------------------------- time

  /** Rows [from, to) that can lie in the range of microseconds [fromUs, toUs). */
  rowRange(fromUs, toUs) {
    if (!this.isOrdered) return [0, this.rows];
    const { time_us: time } = this.columns;
    return [lowerBound(time, fromUs), lowerBound(time, toUs)];
  }

  /** Of ticks.js. */
  ticks() {
    const found = (this.tickCache ??= findTicks(this));
    found.catch(() => this.tickCache === found && (this.tickCache = undefined));
    return found;
  }
}

// May differences of these values be kept in 32 bits?
function fits32(header, oddDeltas, values) {
  const isSmall = (n) => n > -(2 ** 31) && n < 2 ** 31;
  return !(values instanceof Float64Array)
      && !(values instanceof Uint32Array && values.some((v) => v >= 2 ** 31)) &&
    oddDeltas.every(isSmall);
}

/** The first place in sorted `array` with a number of `least` or more. */
function lowerBound(array, least) {
  let low = 0;
  let high = array.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (array[middle] < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
