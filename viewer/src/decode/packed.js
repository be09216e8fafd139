// The rows of a packed index, as doc/dev/viewer_index.md says: process by process, what changed.

const GROUP_COLUMNS = 28;
const NAMED = ['status', 'node', 'period', 'schema', 'event', 'file', 'scheduler'];
const LEAST_OF_32 = -(2 ** 31);
const MOST_OF_32 = 2 ** 31 - 1;

/** @returns {columns: {name: array}, values: [by metric], deltas: [by metric]} */
export function unpackColumns(header, data) {
  const stream = new Stream(data, header.data_bytes);
  const unpacked = { columns: {}, values: [], deltas: [] };
  unpackArrays(header, stream);
  const rows = new Rows(header, stream, unpacked.columns);
  const packed = packedIn(header, unpacked);
  for (let first = 0; first < packed.length; first += GROUP_COLUMNS) {
    rows.group(packed.slice(first, first + GROUP_COLUMNS));
  }
  if (stream.at !== data.length) throw new Error('the packed index is damaged');
  header.metrics.forEach((metric, m) => calculate(header, unpacked, metric, m));
  return unpacked;
}

// Numbers of seven bits a byte, the lowest first.
class Stream {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }

  number() {
    let byte = this.bytes[this.at++];
    let number = byte & 127;
    for (let unit = 128; byte > 127; unit *= 128) {
      byte = this.bytes[this.at++];
      number += (byte & 127) * unit;
    }
    return number;
  }

  /** The lowest bit is the sign. */
  change() {
    const byte = this.bytes[this.at++];
    let size = (byte & 127) >> 1;
    if (byte > 127) size += 64 * this.number();
    return (byte & 1) === 1 ? -size : size;
  }

  sums(count) {
    const array = new Float64Array(count);
    for (let i = 0, now = 0; i < count; i++) array[i] = now += this.change();
    return array;
  }
}

// Two columns may share one array.
function unpackArrays(header, stream) {
  const read = new Map();
  for (const column of codedIn(header).sort((a, b) => a.place - b.place)) {
    if (!read.has(column.place)) read.set(column.place, narrowed(stream.sums(column.count)));
    column.array = read.get(column.place);
  }
}

// The descriptions of columns, wherever they are.
function codedIn(value) {
  if (typeof value !== 'object' || value === null) return [];
  return value.type === 'coded' ? [value] : Object.values(value).flatMap(codedIn);
}

// The packed columns in their order: [where the array is to be, its key].
function packedIn({ columns, metrics }, unpacked) {
  const isPacked = (column) => column.type === 'packed';
  return [
    ...NAMED.filter((name) => isPacked(columns[name])).map((name) => [unpacked.columns, name]),
    ...metrics.flatMap(({ value, delta }, m) => [
      ...(isPacked(value) ? [[unpacked.values, m]] : []),
      ...(isPacked(delta) ? [[unpacked.deltas, m]] : []),
    ]),
  ];
}

class Rows {
  constructor({ rows, runs, tables: { process_samples: samples } }, stream, columns) {
    this.stream = stream;
    this.count = rows;
    this.counts = samples.array ?? [];
    const times = stream.sums(runs);
    const runOf = this.runs();
    this.rowOf = ordered(runOf, runs);
    columns.process = new Uint32Array(rows);
    columns.time_us = new Float64Array(rows);
    this.each((i, process) => {
      columns.process[this.rowOf[i]] = process;
      columns.time_us[this.rowOf[i]] = times[runOf[i]];
    });
  }

  // Rows, process by process.
  each(visit) {
    let i = 0;
    this.counts.forEach((count, process) => {
      for (const end = i + count; i < end; i++) visit(i, process);
    });
  }

  runs() {
    const runOf = new Uint32Array(this.count);
    let run = 0, last = -1;
    this.each((i, process) => {
      run = this.stream.number() + (process === last ? run : 0);
      last = process;
      runOf[i] = run;
    });
    return runOf;
  }

  group(columns) {
    const changed = new Uint32Array(this.count);
    for (let i = 0; i < changed.length; i++) changed[i] = this.stream.number();
    columns.forEach(([arrays, key], bit) => {
      arrays[key] = narrowed(this.column(changed, 1 << bit));
    });
  }

  column(changed, bit) {
    const { stream, counts, rowOf } = this;
    const array = new Float64Array(this.count);
    for (let process = 0, i = 0; process < counts.length; process++) {
      const end = i + counts[process];
      for (let now = 0; i < end; i++) {
        if ((changed[i] & bit) !== 0) now += stream.change();
        array[rowOf[i]] = now;
      }
    }
    return array;
  }
}

// The number of each row: those of a run are beside each other, by their processes.
function ordered(runOf, runs) {
  const next = new Uint32Array(runs + 1);
  for (let i = 0; i < runOf.length; i++) next[runOf[i] + 1]++;
  for (let run = 1; run < runs; run++) next[run] += next[run - 1];
  return runOf.map((run) => next[run]++);
}

function calculate(header, { columns, values, deltas }, { base, differences }, m) {
  if (base !== undefined) {
    const [of, factor] = base;
    values[m] = narrowed(Float64Array.from(values[m], (rest, row) =>
        rest + factor * values[of][row]));
  }
  if (differences) deltas[m] = withDifferences(header, columns, m, values[m], deltas[m]);
}

// To the value in the row before of the process that has the metric.
function withDifferences(header, { process, schema }, metric, values, rest) {
  const has = header.schemas.map((metrics) => metrics.includes(metric));
  const deltas = new Float64Array(rest);
  const last = new Map();
  for (let row = 0; row < deltas.length; row++) {
    if (!has[schema === undefined ? header.columns.schema.value : schema[row]]) continue;
    const before = last.get(process[row]);
    if (before !== undefined) deltas[row] += values[row] - before;
    last.set(process[row], values[row]);
  }
  return narrowed(deltas);
}

function narrowed(column) {
  for (let row = 0; row < column.length; row++) {
    if (column[row] < LEAST_OF_32 || column[row] > MOST_OF_32) return column;
  }
  return new Int32Array(column);
}
