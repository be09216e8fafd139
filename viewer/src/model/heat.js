// A profile as a heatmap: a column a second, a row a part of it. Cells follow
// each other in time: cell = column * rows + row.

import { eachRow } from './selection.js';
import { weightsOf } from './measures.js';
import { sumSteps } from './steps.js';

export const SECOND_US = 1e6;

/** What a cell is, when it has no number. */
export const CELL = { value: 0, outside: 1, empty: 2, missed: 3 };

/**
 * Of a value the number is the sum over all sampled processes, as its mean over the time of the
 * cell: between two samples a process has the value of the first. Of the others it is the sum of
 * the cell.
 *
 * @param selection the whole profile's time, see select()
 */
export async function makeHeat(selection, measure, rows) {
  const { profile } = selection;
  const isValue = measure.kind === 'value';
  const weights = isValue ? profile.looks : await weightsOf(profile, measure);
  const ticks = await profile.ticks();
  const columns = Math.max(1, Math.ceil(profile.durationUs / SECOND_US));
  const heat = new Heat(rows, columns, measure);
  const { looks, since, columns: { time_us: time } } = profile;
  eachRow(selection, (row) => {
    const weight = weights === null ? 1 : weights[row];
    if (looks === null || looks[row] === 1) heat.add(time[row], weight, 1);
    else heat.spread(since[row], time[row], weight, looks[row]);
  });
  heat.setTicks(ticks, profile.durationUs);
  if (isValue) heat.setLevels(await levelsOf(selection, measure, ticks, heat));
  return heat;
}

// A sample that is left out for its status ends what its process had before it.
async function levelsOf(selection, measure, ticks, { cellUs, values: { length: cells } }) {
  const { profile, status: isShown } = selection;
  await profile.need('process', 'time_us', 'schema', ...(isShown === null ? [] : ['status']));
  const values = await profile.values(measure.metric);
  const { process, time_us: time, schema, status } = profile.columns;
  const has = profile.header.schemas.map((metrics) => metrics.includes(measure.metric));
  const isLeftOut = (row) => !has[schema[row]] || values[row] < 0
      || (isShown !== null && isShown[status[row]] === 0);
  const all = { ...selection, status: null };
  const samples = {
    rows: (each) => eachInTime(all, time, each),
    processes: profile.processCount,
    process,
    time,
    value: (row) => (isLeftOut(row) ? NaN : values[row]),
  };
  return sumSteps(samples, ticks.starts, { cells, cellUs });
}

function eachInTime(selection, time, each) {
  if (selection.profile.isOrdered) return eachRow(selection, each);
  const rows = [];
  eachRow(selection, (row) => rows.push(row));
  rows.sort((a, b) => time[a] - time[b]).forEach(each);
}

class Heat {
  constructor(rows, columns, measure) {
    this.rows = rows;
    this.columns = columns;
    this.measure = measure;
    this.cellUs = SECOND_US / rows;
    this.values = new Float64Array(rows * columns);
    this.samples = new Uint32Array(rows * columns);
    this.ticks = new Uint32Array(rows * columns);
    this.kinds = new Uint8Array(rows * columns).fill(CELL.empty);
  }

  add(us, weight, count) {
    const cell = Math.floor(us / this.cellUs);
    this.values[cell] += weight;
    this.samples[cell] += count;
  }

  // Looks at the same distance from each other. What had changed had changed at
  // the last of them.
  spread(since, until, weight, count) {
    if (since === until) return this.add(until, weight, count);
    const isDelta = this.measure.kind === 'delta';
    for (let n = 1; n <= count; n++) {
      const share = isDelta ? (n === count ? weight : 0) : weight / count;
      this.add(since + (n * (until - since)) / count, share, 1);
    }
  }

  // Of observations and ticks of which a span tells the times are estimates, apart: where one
  // has an observation, there was a tick.
  setTicks({ starts, missed }, durationUs) {
    for (const start of starts) this.ticks[Math.floor(start / this.cellUs)]++;
    for (let cell = 0; cell < this.values.length; cell++) {
      if (this.samples[cell] > 0) this.ticks[cell] = Math.max(1, this.ticks[cell]);
      if (this.samples[cell] > 0) this.kinds[cell] = CELL.value;
      else if (cell * this.cellUs >= durationUs) this.kinds[cell] = CELL.outside;
      else if (this.ticks[cell] > 0) this.kinds[cell] = CELL.empty;
    }
    missed.forEach(([from, to]) => this.markMissed(from, to));
  }

  setLevels({ sums, known }) {
    for (let cell = 0; cell < sums.length; cell++) {
      const isKnown = known[cell] > 0;
      this.values[cell] = isKnown ? sums[cell] : 0;
      if (isKnown) this.kinds[cell] = CELL.value;
      else if (this.kinds[cell] === CELL.value) this.kinds[cell] = CELL.empty;
    }
  }

  markMissed(from, to) {
    for (let cell = Math.floor(from / this.cellUs); cell <= Math.floor(to / this.cellUs); cell++) {
      if (this.kinds[cell] === CELL.empty && this.ticks[cell] === 0) this.kinds[cell] = CELL.missed;
    }
  }

  /** [fromUs, toUs) of a cell. */
  timeOf(cell) {
    return [cell * this.cellUs, (cell + 1) * this.cellUs];
  }

  /** Where colours end: the greatest sizes, without the last half percent. */
  limits() {
    const sizes = this.values.filter((value, cell) => this.kinds[cell] === CELL.value
        && value !== 0).map(Math.abs);
    sizes.sort();
    const most = sizes.length === 0 ? 0 : sizes[sizes.length - 1];
    const usual = sizes.length === 0 ? 0 : sizes[Math.floor((sizes.length - 1) * 0.995)];
    return { most, usual };
  }
}
