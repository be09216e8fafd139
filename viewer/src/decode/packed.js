// The rows of a packed index, as doc/viewer_index.md says: every column as the
// difference to what it was, in numbers of 7 bits a byte.

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

  signed() {
    const number = this.unsigned();
    return number % 2 === 0 ? number / 2 : -(number + 1) / 2;
  }
}

/** @returns {columns: {name: array}, values: [by metric], deltas: [by metric]} */
export function unpackColumns(header, data) {
  const numbers = new Numbers(data, header.data_bytes);
  const { columns: described, rows } = header;
  const columns = {};
  const isPacked = (column) => column.type === 'packed';
  columns.process = isPacked(described.process) ? processes(numbers, rows) : new Uint8Array(rows);
  if (isPacked(described.time_us)) columns.time_us = times(numbers, rows);
  const order = byProcess(columns.process);
  const next = (column) => (isPacked(column) ? differences(numbers, columns.process, order)
      : undefined);
  for (const name of ['status', 'node', 'period', 'schema', 'event', 'file']) {
    columns[name] = next(described[name]);
  }
  const values = [];
  const deltas = [];
  for (const metric of header.metrics) {
    values.push(next(metric.value));
    deltas.push(next(metric.delta));
  }
  return { columns, values, deltas };
}

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
  for (let row = 0; row < rows; row++) time[row] = now += numbers.signed();
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

function differences(numbers, process, order) {
  const column = new Float64Array(order.length);
  let before = -1;
  let now = 0;
  let least = 0;
  let most = 0;
  for (const row of order) {
    if (process[row] !== before) now = 0;
    before = process[row];
    column[row] = now += numbers.signed();
    if (now < least) least = now;
    if (now > most) most = now;
  }
  return least >= LEAST_OF_32 && most <= MOST_OF_32 ? Int32Array.from(column) : column;
}
