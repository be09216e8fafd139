// What a measurement of calls has told so far: lines of flame_prof_view_latency, each of what came
// since the line before. Buckets are [lowNs, endNs or null, count].

import { exact } from './numbers.js';

const ROWS_AN_OCTAVE = 4;
// Calls without a bucket: some of running threads come a line later; with more there was no room.
const LATE_MOST = 4;
const LATE_SHARE = 0.01;
// Of other ends the first of a line's limits says which it was.
const WITHOUT_SENTENCE = new Set(['running', 'asked', 'seconds', 'failed', 'refused']);
const UNITS = [['ns', 1], ['µs', 1e3], ['ms', 1e6], ['s', 1e9]];

/** In three digits: 428 ns, 1.23 µs, 12.3 ms. */
export function nanoseconds(ns) {
  const at = Math.max(0, UNITS.findLastIndex(([, size]) => ns >= size));
  const [unit, size] = UNITS[at];
  const number = ns / size;
  return `${size === 1 ? Math.round(number) : number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0)
  } ${unit}`;
}

/** A quarter of an octave: its edges are edges of buckets, so that a row's count is exact. */
export function rowOf(ns) {
  if (ns < 1) return 0;
  const octave = Math.floor(Math.log2(ns));
  return ROWS_AN_OCTAVE * octave + Math.floor(ROWS_AN_OCTAVE * (ns / 2 ** octave - 1));
}

export function lowOf(row) {
  const octave = Math.floor(row / ROWS_AN_OCTAVE);
  return 2 ** octave * (1 + (row % ROWS_AN_OCTAVE) / ROWS_AN_OCTAVE);
}

/** @returns the duration of this rank: the middle of its bucket, not above the longest */
export function quantile(buckets, count, maxNs, q) {
  const rank = Math.max(1, Math.ceil(q * count));
  if (count === 0 || rank >= count) return maxNs;
  let seen = 0;
  for (const [low, end, n] of buckets) {
    seen += n;
    if (seen < rank) continue;
    return end === null ? maxNs : Math.min(maxNs, low + Math.floor((end - low) / 2));
  }
  return maxNs;
}

export class Measured {
  constructor() {
    this.functions = new Map(); // name -> MeasuredFunction
    this.ms = 0;
    this.lines = []; // {fromMs, toMs}
    this.ended = 'running';
    this.why = '';
    this.end = ''; // the sentence of the limit that ended it
    this.sampledOf = 1; // the most
    this.lost = new Map(); // what -> calls
    this.open = 0;
  }

  add(line) {
    if (line.why) this.why = line.why;
    this.ended = line.ended;
    if (!WITHOUT_SENTENCE.has(line.ended)) this.end = line.limits?.[0] ?? this.end;
    this.sampledOf = Math.max(this.sampledOf, line.sampled_of ?? 1);
    for (const [what, n] of Object.entries(line.lost ?? {})) {
      this.lost.set(what, (this.lost.get(what) ?? 0) + n);
    }
    if (line.functions === undefined) return;
    const fromMs = this.ms;
    this.ms += line.ms;
    this.open = line.open ?? 0;
    const column = this.lines.push({ fromMs, toMs: this.ms }) - 1;
    for (const one of this.functions.values()) one.latest = null;
    for (const part of line.functions) {
      if (!this.functions.has(part.function)) {
        this.functions.set(part.function, new MeasuredFunction(part.function));
      }
      this.functions.get(part.function).add(part, column, line.ms);
    }
  }

  /** What a reader has to know before the numbers, as flame_prof_latency_text says it. */
  get limits() {
    const sampled = this.sampledOf > 1 ? `calls came too fast: down to 1 of ${
      exact(this.sampledOf)} was measured; counts and sums are of these` : '';
    const lost = [...this.lost].filter(([, n]) => n > 0).sort()
        .map(([what, n]) => `${exact(n)} ${what.replaceAll('_', ' ')}: not measured`);
    return [this.end, sampled, ...lost].filter(Boolean);
  }

  /** The longest total first. */
  get rows() {
    return [...this.functions.values()].sort((a, b) => b.total - a.total);
  }
}

/** Durations: of a function, or of those of its calls that a group or a caller made. */
class Durations {
  constructor(name) {
    this.name = name;
    this.calls = 0;
    this.total = 0;
    this.max = 0;
    this.counts = new Map(); // low -> bucket
    this.counted = 0; // calls in these buckets
    this.sorted = null;
  }

  addDurations({ calls, total_ns: total, max_ns: max, histogram }) {
    this.calls += calls;
    this.total += total;
    this.max = Math.max(this.max, max);
    for (const [low, end, n] of histogram ?? []) {
      const [, , before] = this.counts.get(low) ?? [low, end, 0];
      this.counts.set(low, [low, end, before + n]);
      this.counted += n;
    }
    this.sorted = null;
  }

  get buckets() {
    this.sorted ??= [...this.counts.values()].sort(([a], [b]) => a - b);
    return this.sorted;
  }

  /** Null where it would be of a part of the calls. */
  quantile(q) {
    const late = this.calls - this.counted;
    return this.counted === 0 || late > LATE_MOST + LATE_SHARE * this.calls ? null
        : quantile(this.buckets, this.counted, this.max, q);
  }
}

class MeasuredFunction extends Durations {
  constructor(name) {
    super(name);
    this.exceptions = 0;
    this.own = 0;
    this.columns = new Map(); // column -> {calls, max, buckets, rows: row -> count}
    this.groups = new Map();
    this.callers = new Map();
    this.latest = null; // calls a second, of the last line
  }

  add(part, column, ms) {
    this.addDurations(part);
    this.exceptions += part.exceptions ?? 0;
    this.own = part.own_ns === undefined ? null : this.own + part.own_ns;
    this.latest = ms > 0 ? (1000 * part.calls) / ms : null;
    const rows = new Map();
    for (const [low, , n] of part.histogram) {
      rows.set(rowOf(low), (rows.get(rowOf(low)) ?? 0) + n);
    }
    this.columns.set(column, { rows, calls: part.calls, max: part.max_ns,
        buckets: part.histogram });
    for (const one of part.groups ?? []) sum(this.groups, one.group, one);
    for (const one of part.callers ?? []) sum(this.callers, one.caller, one);
  }
}

function sum(parts, name, more) {
  if (!parts.has(name)) parts.set(name, new Durations(name));
  parts.get(name).addDurations(more);
}

/** The longest total first. */
export function partsOf(parts) {
  return [...parts.values()].sort((a, b) => b.total - a.total);
}

/** The rows that these functions need together: [first, last]; null: no call yet. */
export function rowsOf(functions) {
  const all = functions.flatMap(({ buckets }) => (buckets.length === 0 ? []
      : [rowOf(buckets[0][0]), rowOf(buckets.at(-1)[0])]));
  return all.length === 0 ? null : [Math.min(...all), Math.max(...all)];
}
