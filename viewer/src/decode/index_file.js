// The index file of doc/dev/viewer_index.md: a header, and columns that are typed arrays.
// Only what is asked for is read; a packed index (of a report) is read whole.

import { joined } from './grown.js';
import { unpackColumns } from './packed.js';

const MAGIC = 'FPINDEX1';
const PREFIX_BYTES = 16;
const VERSION = 4;
const FIRST_READ_BYTES = 64 * 1024;

const TYPES = {
  u8: Uint8Array,
  i8: Int8Array,
  u16: Uint16Array,
  i16: Int16Array,
  u32: Uint32Array,
  i32: Int32Array,
  f64: Float64Array,
};

class FormatError extends Error {}

/** @param bytes of bytes.js */
export async function openIndex(bytes) {
  const first = await bytes.read(0, Math.min(FIRST_READ_BYTES, bytes.size));
  const size = headerSize(first, bytes.size);
  const end = PREFIX_BYTES + size;
  const whole = end <= first.byteLength ? first : await bytes.read(0, end);
  const header = parseHeader(new Uint8Array(whole, PREFIX_BYTES, size));
  const index = new IndexFile(bytes, header, end);
  if (header.packed) await index.unpack();
  return index;
}

function headerSize(buffer, total) {
  const view = new DataView(buffer);
  if (buffer.byteLength < PREFIX_BYTES) throw new FormatError('not an index: too short');
  const magic = new TextDecoder().decode(new Uint8Array(buffer, 0, MAGIC.length));
  if (magic !== MAGIC) throw new FormatError('not an index of flame_prof');
  const size = view.getUint32(MAGIC.length, true);
  if (size % 8 !== 0 || PREFIX_BYTES + size > total) throw new FormatError('the index is cut off');
  return size;
}

function parseHeader(bytes) {
  let header;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    throw new FormatError('the header of the index is damaged');
  }
  if (header.format !== 'flame_prof index') throw new FormatError('not an index of flame_prof');
  if (header.version !== VERSION) {
    throw new FormatError(`an index of version ${header.version}; this viewer reads ${VERSION}`);
  }
  return header;
}

class IndexFile {
  constructor(bytes, header, base) {
    this.bytes = bytes;
    this.header = header;
    this.base = base;
    this.unpacked = null;
    this.from = header.from?.rows ?? 0; // of a piece: rows of the pieces before it
  }

  async unpack() {
    const data = await this.bytes.read(this.base, this.bytes.size - this.base);
    this.unpacked = unpackColumns(this.header, new Uint8Array(data));
  }

  table(name) {
    return this.column(this.header.tables[name]);
  }

  rows(name) {
    return this.unpacked?.columns[name] ?? this.column(this.header.columns[name]);
  }

  values(metric) {
    return this.unpacked?.values[metric] ?? this.column(this.header.metrics[metric].value);
  }

  /**
   * What the deltas are, by part: {from, count, whole: array} or, where they are derived but for
   * some rows, {from, count, whole: null, rows, deltas}.
   */
  async changes(metric) {
    const { delta } = this.header.metrics[metric];
    const part = { from: this.from, count: this.header.rows };
    if (delta.type !== 'derived') {
      return [{ ...part, whole: await (this.unpacked?.deltas[metric] ?? this.column(delta)) }];
    }
    const [rows, deltas] = await Promise.all([this.column(delta.rows), this.column(delta.deltas)]);
    return [{ ...part, whole: null, rows, deltas }];
  }

  ownRows() {
    return this.column(this.header.own_rows);
  }

  /** A metric's values or deltas, of which few rows have one: [rows, numbers]; else null. */
  async few(metric, kind) {
    const described = this.header.metrics[metric][kind];
    return described.type === 'sparse' ? this.pairs(described) : null;
  }

  /** A word of few samples: [rows, texts]. */
  async words(name) {
    const described = this.header[name];
    return described === undefined ? [[], []] : this.pairs(described);
  }

  /** This one, and a piece behind it. */
  extended(piece) {
    return new GrownIndex([this, piece]);
  }

  async sparse(described) {
    return spread(described.count, this.from, ...(await this.pairs(described)));
  }

  pairs({ rows, values }) {
    return Promise.all([this.column(rows), this.column(values)]);
  }

  async runs({ count, values, ends }) {
    return repeated(count, ...(await Promise.all([this.column(values), this.column(ends)])));
  }

  /** A column by its description: {type, count, offset | value}. */
  async column(described) {
    const { type, count } = described;
    if (type === 'coded') return described.array;
    if (type === 'const') return filled(count, described.value);
    if (type === 'sparse') return this.sparse(described);
    if (type === 'runs') return this.runs(described);
    const Type = TYPES[type];
    if (Type === undefined) throw new FormatError(`a column of unknown type ${type}`);
    if (count === 0) return new Type(0);
    const size = count * Type.BYTES_PER_ELEMENT;
    if (this.base + described.offset + size > this.bytes.size) {
      throw new FormatError('a column of the index is cut off');
    }
    return new Type(await this.bytes.read(this.base + described.offset, size));
  }
}

/** An index and its pieces, in their order. The last one's header says how much there is. */
class GrownIndex {
  constructor(pieces) {
    this.pieces = pieces;
    this.header = headerOf(pieces.map((piece) => piece.header));
  }

  extended(piece) {
    return new GrownIndex([...this.pieces, piece]);
  }

  async rows(name) {
    return joined(await Promise.all(this.pieces.map((piece) => piece.rows(name))));
  }

  async values(metric) {
    return joined(await Promise.all(this.pieces.map((piece) => (
        piece.header.metrics.length > metric ? piece.values(metric)
            : new Uint8Array(piece.header.rows)))));
  }

  async changes(metric) {
    const parts = await Promise.all(this.pieces.map((piece) => (
        piece.header.metrics.length > metric ? piece.changes(metric)
            : [{ from: piece.from, count: piece.header.rows,
              whole: new Uint8Array(piece.header.rows) }])));
    return parts.flat();
  }

  async ownRows() {
    return joined(await Promise.all(this.pieces.map((piece) => piece.ownRows())));
  }

  async few(metric, kind) {
    const having = this.pieces.filter((piece) => piece.header.metrics.length > metric);
    const parts = await Promise.all(having.map((piece) => piece.few(metric, kind)));
    if (parts.includes(null)) return null;
    return [0, 1].map((i) => joined(parts.map((part) => part[i])));
  }

  async words(name) {
    const parts = await Promise.all(this.pieces.map((piece) => piece.words(name)));
    return [0, 1].map((i) => parts.flatMap((part) => [...part[i]]));
  }
}

const WORDS = ['message', 'waits_for', 'trace', 'span'];

function headerOf(headers) {
  const last = headers[headers.length - 1];
  const periods = headers.map(({ columns }) => columns.period);
  const period = periods.find(({ type, value }) => type !== 'const' || value !== 1);
  return {
    ...last,
    rows: last.from.rows + last.rows,
    ...Object.fromEntries(WORDS.map((name) =>
        [name, headers.find((header) => header[name])?.[name]])),
    columns: { ...last.columns, period: period ?? last.columns.period },
  };
}

function spread(count, from, rows, values) {
  const column = new values.constructor(count);
  rows.forEach((row, i) => (column[row - from] = values[i]));
  return column;
}

function repeated(count, values, ends) {
  const column = new values.constructor(count);
  values.forEach((value, i) => column.fill(value, i === 0 ? 0 : ends[i - 1], ends[i]));
  return column;
}

function filled(count, value) {
  if (value === 0) return new Uint8Array(count);
  if (value > 0 && value < 256) return new Uint8Array(count).fill(value);
  return new Float64Array(count).fill(value);
}
