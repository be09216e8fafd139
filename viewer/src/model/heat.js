// A profile as a heatmap: a column a second, a row a part of it. Cells follow
// each other in time: cell = column * rows + row.

import { eachRow } from './selection.js';
import { weightsOf } from './measures.js';

export const SECOND_US = 1e6;

/** What a cell is, when it has no number. */
export const CELL = { value: 0, outside: 1, empty: 2, missed: 3 };

/**
 * Of a value the number is the sum over all sampled processes at one tick, as
 * the mean of the cell's ticks; of the others it is the sum of the cell.
 *
 * @param selection the whole profile's time, see select()
 */
export async function makeHeat(selection, measure, rows) {
  const { profile } = selection;
  const weights = await weightsOf(profile, measure);
  const ticks = await profile.ticks();
  const columns = Math.max(1, Math.ceil(profile.durationUs / SECOND_US));
  const heat = new Heat(rows, columns, measure);
  const { looks, since, columns: { time_us: time } } = profile;
  eachRow(selection, (row) => {
    const weight = weights === null ? 1 : weights[row];
    if (weight < 0 && measure.kind !== 'delta') return;
    if (looks === null || looks[row] === 1) heat.add(time[row], weight, 1);
    else heat.spread(since[row], time[row], weight, looks[row]);
  });
  heat.setTicks(ticks, profile.durationUs);
  return heat;
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
      if (this.measure.kind === 'value'
          && this.ticks[cell] > 0) this.values[cell] /= this.ticks[cell];
    }
    missed.forEach(([from, to]) => this.markMissed(from, to));
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
