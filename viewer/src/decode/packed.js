// The rows of a packed index, as doc/viewer_index.md says: which columns of a row differ from the
// row before of its process, and by how much.

const LEAST_OF_32 = -(2 ** 31);
const MOST_OF_32 = 2 ** 31 - 1;

class Numbers {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }

  unsigned() {
    let byte = this.bytes[this.at++];
    if (byte < 128) return byte;
    let number = byte & 127;
    let weight = 128;
    do {
      byte = this.bytes[this.at++];
      number += (byte & 127) * weight;
      weight *= 128;
    } while (byte >= 128);
    return number;
  }
}

function signed(number) {
  return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
}

/** @returns {columns: {name: array}, values: [by metric], deltas: [by metric]} */
export function unpackColumns(header, data) {
  const numbers = new Numbers(data, header.data_bytes);
  const { columns: described, rows } = header;
  const columns = {};
  columns.process = isPacked(described.process) ? processes(numbers, rows) : new Uint8Array(rows);
  if (isPacked(described.time_us)) columns.time_us = times(numbers, rows);
  const changes = new Changes(numbers, columns.process);
  const next = (column) => (isPacked(column) ? changes.next() : undefined);
  for (const name of ['status', 'node', 'period', 'schema', 'event', 'file', 'scheduler']) {
    columns[name] = next(described[name]);
  }
  const values = [];
  const deltas = [];
  for (const metric of header.metrics) {
    values.push(next(metric.value));
    deltas.push(next(metric.delta));
  }
  header.metrics.forEach(({ sum }, m) => {
    if (sum === undefined) return;
    values[m] = added(values[m], sum, values);
    if (deltas[m] !== undefined) deltas[m] = added(deltas[m], sum, deltas);
  });
  header.metrics.forEach(({ differences }, m) => {
    if (differences) deltas[m] = withDifferences(header, columns, m, values[m], deltas[m]);
  });
  return { columns, values, deltas };
}

const isPacked = (column) => column.type === 'packed';

// 0: the process that followed last time, too.
function processes(numbers, rows) {
  const process = new Uint32Array(rows);
  const follower = new Map();
  let before = -1;
  for (let row = 0; row < rows; row++) {
    const number = numbers.unsigned();
    const guess = follower.get(before) ?? before + 1;
    process[row] = number === 0 ? guess : number - 1;
    follower.set(before, process[row]);
    before = process[row];
  }
  return process;
}

function times(numbers, rows) {
  const time = new Float64Array(rows);
  let now = 0;
  for (let row = 0; row < rows; row++) time[row] = now += signed(numbers.unsigned());
  return time;
}

// Rows in the order of their processes, and in time within each.
function byProcess(process) {
  const next = [];
  for (const p of process) next[p] = (next[p] ?? 0) + 1;
  let sum = 0;
  for (let p = 0; p < next.length; p++) {
    const count = next[p] ?? 0;
    next[p] = sum;
    sum += count;
  }
  const order = new Uint32Array(process.length);
  process.forEach((p, row) => (order[next[p]++] = row));
  return order;
}

class Changes {
  constructor(numbers, process) {
    this.numbers = numbers;
    this.process = process;
    this.order = byProcess(process);
    this.place = 0; // of the next column
    this.readSets();
  }

  // By row, process by process, the number of its set of columns; a new one is spelled.
  readSets() {
    const { numbers } = this;
    this.sets = [];
    this.uses = [];
    this.setOf = new Uint32Array(this.order.length);
    for (let i = 0; i < this.setOf.length; i++) {
      const set = (this.setOf[i] = numbers.unsigned());
      if (set === this.sets.length) {
        const places = new Set();
        for (let count = numbers.unsigned(), place = 0; count > 0; count--) {
          place += numbers.unsigned();
          places.add(place++);
        }
        this.sets.push(places);
        this.uses.push(0);
      }
      this.uses[set]++;
    }
  }

  next() {
    const { numbers, process, order, setOf, place } = this;
    const has = this.sets.map((set) => set.has(place));
    const count = this.uses.reduce((sum, uses, set) => (has[set] ? sum + uses : sum), 0);
    const column = new Float64Array(order.length);
    let low = numbers.at;
    let before = -1;
    let now = 0;
    numbers.at += count;
    for (let i = 0; i < order.length; i++) {
      const row = order[i];
      if (process[row] !== before) now = 0;
      before = process[row];
      if (has[setOf[i]]) now += signed(numbers.bytes[low++] + 256 * numbers.unsigned());
      column[row] = now;
    }
    this.place++;
    return narrowed(column);
  }
}

function added(column, sum, values) {
  const total = Float64Array.from(column);
  for (const [metric, factor] of sum) {
    const term = values[metric];
    if (term === undefined) continue; // not packed
    for (let row = 0; row < total.length; row++) total[row] += factor * term[row];
  }
  return narrowed(total);
}

// To the value in the row before of the process that has the metric.
function withDifferences(header, { process, schema }, metric, values, rest) {
  const has = header.schemas.map((metrics) => metrics.includes(metric));
  const deltas = Float64Array.from(rest);
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
  return Int32Array.from(column);
}
