// The rows of a packed index, as doc/viewer_index.md says: process by process, what changed.

import { RangeDecoder, context, sizeOf } from './range_decoder.js';

const LEAST_OF_32 = -(2 ** 31);
const MOST_OF_32 = 2 ** 31 - 1;

// What the numbers of a column are like.
const COLLECTIONS = 1, WORK = 2, BLOCK = 3, DEPTH = 4, RECENT = 5, OLD = 6, YOUNG = 7;

// Kinds of contexts and keys.
const TICKS = 1, TICK = 2, GAP = 3, LATER = 4, PERIOD = 5, ANY = 6, SAME_STATUS = 7, STATUS = 8,
  SAME_NODE = 9, NODE = 10, GUESS_NODE = 11, NODE_OF_TWO = 12, NODE_OF_ONE = 13,
  NODE_OF_PROCESS = 14, SAME_OTHER = 15, OTHER = 16, CHANGED_FIRST = 17, CHANGED_DEPTH = 18,
  CHANGED = 19, GUESS = 20, BLOCK_OF_PROCESS = 21, BLOCK_OF_LAST = 22, DEPTH_OF_PROCESS = 23,
  DEPTH_OF_NODE = 24, DEPTH_OF_LAST = 25, CHANGE_OF_WORK = 26, CHANGE_OF_NODES = 27,
  CHANGE_OF_PROCESS = 28, NUMBER = 29, NUMBER_BLOCK = 30, NUMBER_OLD = 31, NUMBER_YOUNG = 32,
  ARRAY = 33;

const BITS = 4; // of a number that contexts tell apart
const BITS_WHOLE = 20;
const RUN_MOST = 5;
const OTHERS = ['schema', 'event', 'file', 'scheduler'];
const FIRST_OTHER = 3; // cells: status, node, period, the others

const isPacked = (column) => column.type === 'packed';

/** @returns {columns: {name: array}, values: [by metric], deltas: [by metric]} */
export function unpackColumns(header, data) {
  const values = [];
  const deltas = [];
  const unpacking = new Unpacking(header, data);
  const columns = header.rows > 0 ? unpacking.rows() : {};
  header.models.forEach(([, metric, isDelta], i) => {
    (isDelta ? deltas : values)[metric] = narrowed(unpacking.metrics[i]);
  });
  header.metrics.forEach(({ sum }, m) => {
    if (sum === undefined) return;
    if (values[m] !== undefined) values[m] = added(values[m], sum, values);
    if (deltas[m] !== undefined) deltas[m] = added(deltas[m], sum, deltas);
  });
  header.metrics.forEach(({ differences }, m) => {
    if (differences) deltas[m] = withDifferences(header, columns, m, values[m], deltas[m]);
  });
  return { columns, values, deltas };
}

class Unpacking {
  constructor(header, data) {
    const { process_samples: samples } = header.tables;
    this.header = header;
    this.coder = new RangeDecoder(data, header.data_bytes);
    const read = new Map(); // by place: two columns may share one array
    for (const column of codedIn(header).sort((a, b) => a.place - b.place)) {
      const { place } = column;
      if (!read.has(place)) read.set(place, this.array(column));
      column.array = read.get(place);
    }
    this.counts = samples.array
        ?? new Float64Array(data.buffer, data.byteOffset + samples.offset, samples.count);
    this.models = header.models.map(([model]) => model);
    this.metrics = this.models.map(() => new Float64Array(header.rows));
  }

  array(column) {
    const array = new Float64Array(column.count);
    let now = 0, change = 0;
    for (let i = 0; i < array.length; i++) {
      change = this.coder.signed(context(ARRAY, column.place, sizeOf(change), 0, 0), BITS);
      array[i] = now += change;
    }
    return narrowed(array);
  }

  rows() {
    const { header: { columns: described, rows }, counts } = this;
    const columns = this.times();
    const column = (name) => (isPacked(described[name]) ? new Uint32Array(rows) : undefined);
    this.status = column('status');
    this.node = column('node');
    this.others = OTHERS.map(column);
    for (let process = 0, begin = 0; process < counts.length; process++) {
      this.process(process, begin, begin + counts[process]);
      begin += counts[process];
    }
    OTHERS.forEach((name, i) => (columns[name] = this.others[i]));
    return { ...columns, status: this.status, node: this.node };
  }

  // Sets rowOf: by the place of a row among those of its process, and of the processes before.
  times() {
    const { coder, counts, header } = this;
    const { rows } = header;
    const ticks = new Float64Array(coder.number(context(TICKS, 0, 0, 0, 0), BITS));
    for (let i = 0, now = 0; i < ticks.length; i++) {
      ticks[i] = now += coder.signed(context(TICK, 0, 0, 0, 0), BITS);
    }
    const hasPeriod = isPacked(header.columns.period);
    const tickOf = (this.tickOf = new Uint32Array(rows));
    const later = new Uint32Array(rows);
    const periods = hasPeriod ? new Float64Array(rows) : undefined;
    for (let process = 0, i = 0; process < counts.length; process++) {
      let before = 0, last = 0, period = 1;
      for (let n = 0; n < counts[process]; n++, i++) {
        const gap = coder.number(context(GAP, Math.min(last, 2), Math.min(before, 2),
          Math.min(period, 2), 0), BITS);
        tickOf[i] = (n > 0 ? tickOf[i - 1] : 0) + gap;
        if (gap === 0) {
          later[i] = (n > 0 ? later[i - 1] : 0) + coder.number(context(LATER, 0, 0, 0, 0), BITS);
        }
        if (hasPeriod) {
          period = 1 + coder.signed(context(PERIOD, Math.min(gap, 9), Math.min(last, 2), 0, 0),
            BITS);
          periods[i] = period;
        }
        before = last;
        last = gap;
      }
    }
    return this.ordered(ticks, later, periods);
  }

  // Rows stand in the order of their ticks, of how much later they are, and of their processes.
  ordered(ticks, later, periods) {
    const { counts, tickOf, header: { rows } } = this;
    const rowOf = (this.rowOf = new Uint32Array(rows));
    for (let i = 0; i < rows; i++) rowOf[i] = i;
    const order = sorted(sorted(rowOf.slice(), later), tickOf);
    for (let row = 0; row < rows; row++) rowOf[order[row]] = row;
    const columns = { process: new Uint32Array(rows), time_us: new Float64Array(rows) };
    if (periods !== undefined) columns.period = new Float64Array(rows);
    for (let process = 0, i = 0; process < counts.length; process++) {
      for (let n = 0; n < counts[process]; n++, i++) {
        const row = rowOf[i];
        columns.process[row] = process;
        columns.time_us[row] = ticks[tickOf[i]] + later[i];
        if (periods !== undefined) columns.period[row] = periods[i];
      }
    }
    if (periods !== undefined) columns.period = narrowed(columns.period);
    return columns;
  }

  process(process, begin, end) {
    const { coder, rowOf, tickOf } = this;
    const { status: statuses, node: nodes, others } = this;
    const other = [0, 0, 0, 0];
    const metrics = new Metrics(this, process);
    let status = statuses === undefined ? 0 : -1;
    let node = nodes === undefined ? 0 : -1;
    let before = -1, run = 0, lastRun = 0;
    for (let i = begin; i < end; i++) {
      const row = rowOf[i];
      const gap = Math.min(i > begin ? tickOf[i] - tickOf[i - 1] : tickOf[i], 2);
      const from = i === begin ? -1 : node;
      const any = coder.decide(context(ANY, from, gap, run, lastRun));
      if (any === 1) lastRun = Math.min(run, 2);
      run = any === 1 ? 0 : Math.min(run + 1, RUN_MOST);
      if (statuses !== undefined) {
        if (coder.decide(context(SAME_STATUS, any, from, gap, status)) === 0) {
          status = coder.number(context(STATUS, any, from, gap, status), BITS);
        }
        statuses[row] = status;
      }
      if (nodes !== undefined) {
        if (coder.decide(context(SAME_NODE, any, from, status, gap)) === 0) {
          const none = from >>> 0;
          node = coder.guessed(context(GUESS_NODE, 0, 0, 0, 0),
            context(NODE_OF_TWO, from, before, status, 0), context(NODE_OF_ONE, from, status, 0, 0),
            context(NODE_OF_PROCESS, process, status, 0, 0), none);
          if (node === none) node = coder.number(context(NODE, status, process, 0, 0), BITS_WHOLE);
          coder.learned(node);
        }
        nodes[row] = node;
      }
      for (let o = 0; o < others.length; o++) {
        if (others[o] === undefined) continue;
        const cell = FIRST_OTHER + o;
        if (coder.decide(context(SAME_OTHER, cell, status, other[o], 0)) === 0) {
          other[o] = coder.number(context(OTHER, cell, status, 0, 0), BITS);
        }
        others[o][row] = other[o];
      }
      if (any === 1) metrics.change(from, node);
      metrics.write(row);
      if (node !== from) before = from;
    }
  }
}

// The descriptions of columns, wherever they are.
function codedIn(value) {
  if (typeof value !== 'object' || value === null) return [];
  return value.type === 'coded' ? [value] : Object.values(value).flatMap(codedIn);
}

// Of one process, its last numbers.
class Metrics {
  constructor({ coder, models, metrics }, process) {
    this.coder = coder;
    this.models = models;
    this.columns = metrics;
    this.process = process;
    this.last = new Float64Array(models.length);
    this.changes = new Float64Array(models.length);
    this.changed = new Uint8Array(models.length);
  }

  write(row) {
    const { columns, last } = this;
    for (let m = 0; m < columns.length; m++) columns[m][row] = last[m];
  }

  change(from, to) {
    const { coder, models, last, changes, changed } = this;
    this.from = from;
    this.to = to;
    this.collections = this.work = this.recent = this.block = 0;
    this.hasBlock = false;
    let columns = 0;
    for (let m = 0; m < models.length; m++) {
      const model = models[m];
      const is = coder.decide(this.changedContext(model, m, columns));
      const change = is === 1 ? this.changeOf(model, m) : 0;
      if (is === 1) {
        last[m] += change;
        changes[m] = change;
      }
      changed[m] = is;
      columns = (columns << 1) | is;
      if (model === COLLECTIONS) this.collections = change < 0 ? 3 : Math.min(change, 2);
      else if (model === WORK) this.work = change;
      else if (model === RECENT) this.recent = last[m];
      else if (model === BLOCK && !this.hasBlock) {
        this.block = last[m];
        this.hasBlock = true;
      }
    }
  }

  changedContext(model, m, columns) {
    const { from, to, collections, changed } = this;
    if (model === COLLECTIONS || model === WORK) {
      return context(CHANGED_FIRST, m, from, to, changed[m]);
    }
    if (model === DEPTH) return context(CHANGED_DEPTH, collections, from, to, 0);
    return context(CHANGED, m, columns, collections, changed[m]);
  }

  changeOf(model, m) {
    const { coder, process, from, to, collections } = this;
    const last = this.last[m];
    const place = context(GUESS, m, 0, 0, 0);
    let change;
    if (model === DEPTH) {
      const depth = coder.guessed(place, context(DEPTH_OF_PROCESS, to, process, 0, 0),
        context(DEPTH_OF_NODE, to, 0, 0, 0), context(DEPTH_OF_LAST, to, last, 0, 0), last);
      return coder.learned(depth === last ? last + this.spelled(model, m) : depth) - last;
    }
    if (model === BLOCK) {
      change = coder.guessed(place, context(BLOCK_OF_PROCESS, m, last, process, collections),
        context(BLOCK_OF_LAST, m, last, collections, 0), context(BLOCK_OF_LAST, m, last, 4, 0), 0);
    } else {
      change = coder.guessed(place,
        context(CHANGE_OF_WORK, (m << 8) | collections, from, to, this.work),
        context(CHANGE_OF_NODES, m, from, to, collections),
        context(CHANGE_OF_PROCESS, m, process, collections, 0), 0);
    }
    return coder.learned(change === 0 ? this.spelled(model, m) : change);
  }

  spelled(model, m) {
    const { coder, collections } = this;
    const last = this.last[m];
    let kind = NUMBER, about = last;
    if (model === BLOCK) return coder.signed(context(NUMBER_BLOCK, m, last, 0, 0), BITS_WHOLE);
    if (model === YOUNG && collections > 0 && this.hasBlock) {
      return coder.signed(context(NUMBER_YOUNG, collections, sizeOf(this.block - this.recent), 0,
        0), BITS) + this.recent - last;
    }
    if (model === WORK) about = this.changes[m];
    else if (model === YOUNG) about = this.work;
    else if (model === OLD && collections === 1) {
      kind = NUMBER_OLD;
      about = this.recent;
    }
    return coder.signed(context(kind, m, collections, sizeOf(about), 0), BITS);
  }
}

// Stable, by small numbers.
function sorted(order, keys) {
  let most = 0;
  for (let i = 0; i < keys.length; i++) most = Math.max(most, keys[i]);
  if (most === 0) return order;
  const next = new Uint32Array(most + 2);
  for (let i = 0; i < keys.length; i++) next[keys[i] + 1]++;
  for (let key = 1; key < next.length; key++) next[key] += next[key - 1];
  const result = new Uint32Array(order.length);
  for (let i = 0; i < order.length; i++) result[next[keys[order[i]]]++] = order[i];
  return result;
}

function added(column, sum, values) {
  const total = new Float64Array(column);
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
