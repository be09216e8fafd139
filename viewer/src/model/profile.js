// A profile as typed arrays. Columns come when they are asked for; code that
// counts says what it needs first (`need`) and then runs without waiting.

import { grown, joined } from '../decode/grown.js';
import { decodeName, parseSymbol, shownName } from './symbols.js';
import { coarseHolds } from './coarse.js';
import { lowerBound } from './sorted.js';
import { findTicks } from './ticks.js';
import { rowsByProcess } from './by_process.js';
import { activityTotals, trendOf } from './trends.js';
import { nodeFigures } from './node_figures.js';
import { samplingTrack } from './node_tracks.js';

const METRICS_KEPT = 6; // columns of metrics: a long profile has many rows
const OURS = 'flame_prof'; // the dialect of files that this library writes
const SPREAD_MOST = 10000; // observations of one sample; flame_prof writes one a second

export async function openProfile(index, name) {
  const profile = new Profile(index, await tablesOf(index), name);
  profile.ownRows = (await index.ownRows()).sort();
  await profile.findLooks(0);
  return profile;
}

async function tablesOf(index) {
  const tables = {};
  const names = Object.keys(index.header.tables);
  const arrays = await Promise.all(names.map((table) => index.table(table)));
  names.forEach((table, i) => (tables[table] = arrays[i]));
  return tables;
}

class Profile {
  constructor(index, tables, name) {
    this.setIndex(index, tables);
    this.name = name;
    this.columns = {};
    this.ownRows = []; // of the profiler itself: they are no samples
    this.looks = null; // by row, its number of observations; null: each has one
    this.lookCount = 0;
    this.since = null; // by row, the time of the observation before; its own: unknown
    this.lastUs = null; // by process, the time of its last observation
    this.lastValues = new Map(); // by metric whose deltas were derived: by process, its last value
    this.metricColumns = new Map(); // key -> Promise of an array; the last used is last
    this.cache = new Map(); // what was found in it: what => Promise
    this.texts = new Map();
    this.decoder = new TextDecoder();
    this.frames = new Map();
  }

  setIndex(index, tables) {
    const { header } = index;
    this.index = index;
    this.header = header;
    this.tables = tables;
    this.rows = header.rows;
    this.startUs = header.start_us;
    this.durationUs = header.rows > 0 ? header.end_us - header.start_us + 1 : 0;
    this.isOrdered = Boolean(header.ordered);
    this.statuses = header.statuses.map(decodeName);
    this.isOwn = tables.process_is_own;
    this.isOfAllocations = header.events[0] === 'alloc-words';
  }

  // ---------------------------------------------------------------- growing

  /** Another profile: this one with a piece of its index behind it. What was loaded has grown. */
  async appended(piece) {
    const next = Object.assign(Object.create(Profile.prototype), this);
    next.setIndex(this.index.extended(piece), this.tablesWith(await tablesOf(piece)));
    next.ownRows = grown(this.ownRows, (await piece.ownRows()).sort());
    next.cache = new Map();
    next.columns = {};
    await Promise.all(Object.keys(this.columns).map(async (name) => {
      next.columns[name] = grown(await this.columns[name], await piece.rows(name));
    }));
    await next.findLooks(this.rows);
    next.metricColumns = new Map();
    next.lastValues = new Map();
    for (const key of this.metricColumns.keys()) await this.appendMetric(key, next, piece);
    return next;
  }

  // Processes come whole: their names change.
  tablesWith(more) {
    return Object.fromEntries(Object.entries(more).map(([name, table]) =>
        [name, name.startsWith('process_') ? table : grown(this.tables[name], table)]));
  }

  // What cannot simply grow is made anew when it is asked for.
  async appendMetric(key, next, piece) {
    const [text, isDelta] = key.split(' ');
    const metric = Number(text);
    if (Number.isNaN(metric)) return; // of several: made anew
    const column = await this.metricColumns.get(key);
    const values = await piece.values(metric);
    if (!isDelta) {
      next.metricColumns.set(key, Promise.resolve(grown(column, values)));
      return;
    }
    const [part] = await piece.changes(metric);
    const last = this.lastValues.get(metric);
    if (last === undefined && part.whole === null) return;
    let more = part.whole;
    if (last !== undefined) {
      const [before, deltas] = [withRoom(last, next.processCount), new Float64Array(part.count)];
      next.derive(metric, part, values, before, deltas);
      next.lastValues.set(metric, before);
      more = deltas.every(isSmall) ? Int32Array.from(deltas) : deltas;
    }
    next.metricColumns.set(key, Promise.resolve(grown(column, more)));
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
  // time, and of allocations words: its sample is one observation. Rows before `from` are known.
  async findLooks(from) {
    const { period } = this.header.columns;
    const isOurs = this.header.files.map(({ dialect }) => dialect === OURS);
    this.lookCount = this.rows - this.ownRows.length;
    if ((period.type === 'const' && period.value === 1) || !isOurs.includes(true)
        || this.isOfAllocations) return;
    await this.need('period', 'file', 'process', 'time_us');
    const { period: periods, file, process, time_us: time } = this.columns;
    const begin = this.since === null ? 0 : from;
    const since = new time.constructor(this.rows - begin);
    const last = withRoom(begin === 0 ? new Float64Array(0) : this.lastUs, this.processCount);
    this.looks = isOurs.every(Boolean) ? periods
        : Float64Array.from(periods, (n, row) => (isOurs[file[row]] ? n : 1));
    this.eachRun(begin, this.rows, (first, end) => {
      for (let row = first; row < end; row++) {
        const before = last[process[row]];
        since[row - begin] = before < time[row] && this.looks[row] <= SPREAD_MOST ? before
            : time[row];
        last[process[row]] = time[row];
      }
    });
    this.since = begin === 0 ? since : grown(this.since, since);
    this.lastUs = last;
    this.lookCount = 0;
    this.eachRun(0, this.rows, (first, end) => {
      for (let row = first; row < end; row++) this.lookCount += this.looks[row];
    });
  }

  /** By row the text of a word of its sample, 0: it has none. null: no sample has one. */
  word(name) {
    return this.found(name, async () => {
      const [rows, texts] = await this.index.words(name);
      if (rows.length === 0) return null;
      const column = new Uint32Array(this.rows);
      rows.forEach((row, i) => (column[row] = texts[i]));
      return column;
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
    const few = await this.index.few(metric, kind);
    if (few !== null) {
      const [at, numbers] = few;
      const places = new Map(Array.from(at, (row, i) => [row, i]));
      return Float64Array.from(rows, (row) => numbers[places.get(row)] ?? NaN);
    }
    const column = await (kind === 'delta' ? this.deltas(metric) : this.values(metric));
    return Float64Array.from(rows, (row) => column[row]);
  }

  async makeDeltas(metric) {
    const parts = await this.index.changes(metric);
    if (parts.every(({ whole }) => whole !== null)) return joined(parts.map(({ whole }) => whole));
    const values = await this.values(metric);
    await this.need('process', 'schema');
    const fits = fits32(values) && parts.every(({ whole, deltas }) =>
        (whole ?? deltas).every(isSmall));
    const deltas = fits ? new Int32Array(this.rows) : new Float64Array(this.rows);
    const last = withRoom(new Float64Array(0), this.processCount);
    for (const part of parts) {
      const end = part.from + part.count;
      this.derive(metric, part, values.subarray(part.from, end), last,
          deltas.subarray(part.from, end));
    }
    this.lastValues.set(metric, last);
    return deltas;
  }

  // The difference to the process' value before, in rows that have the metric, but for those that
  // the part has. `last`: by process its last value.
  derive(metric, { from, whole, rows, deltas: odd }, values, last, deltas) {
    const { process, schema } = this.columns;
    const has = this.header.schemas.map((metrics) => metrics.includes(metric));
    for (let i = 0; i < deltas.length; i++) {
      if (!has[schema[from + i]]) continue;
      const p = process[from + i];
      const before = last[p];
      last[p] = values[i];
      if (before === before) deltas[i] = values[i] - before; // not at its first
    }
    if (whole !== null) deltas.set(whole);
    else rows.forEach((row, i) => (deltas[row - from] = odd[i]));
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
    return [fromUs, toUs].map((us) => lowerBound(0, time.length, (row) => time[row] < us));
  }

  /** Of ticks.js. */
  ticks() {
    return this.found('ticks', findTicks);
  }

  /** Of by_process.js. */
  byProcess() {
    return this.found('by process', rowsByProcess);
  }

  /** Of coarse.js: how samples that were merged hold; null: none were. */
  coarse() {
    return this.found('coarse', async () => coarseHolds(this, await this.byProcess()));
  }

  /** Of trends.js. */
  activityTotals() {
    return this.found('activity', activityTotals);
  }

  /** Of trends.js: mailbox, memory, binaries. */
  trend(name) {
    return this.found(`trend ${name}`, () => trendOf(this, name));
  }

  /** Of node_tracks.js. */
  samplingTrack() {
    return this.found('sampling', samplingTrack);
  }

  /** Of node_figures.js. */
  nodeFigures() {
    return this.found('node figures', nodeFigures);
  }

  // Once; what failed is tried again.
  found(what, find) {
    const found = this.cache.get(what) ?? find(this);
    this.cache.set(what, found);
    found.catch(() => this.cache.get(what) === found && this.cache.delete(what));
    return found;
  }
}

// May differences of these values be kept in 32 bits?
function fits32(values) {
  return !(values instanceof Float64Array)
      && !(values instanceof Uint32Array && values.some((v) => v >= 2 ** 31));
}

function isSmall(n) {
  return n > -(2 ** 31) && n < 2 ** 31;
}

// A copy for so many processes, NaN where there was none.
function withRoom(array, count) {
  const copy = new Float64Array(count).fill(NaN);
  copy.set(array);
  return copy;
}
