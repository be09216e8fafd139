// A profile as a heatmap: a column a second, a row a part of it. Cells follow
// each other in time: cell = column * rows + row.

import { eachRow } from './selection.js';
import { weightsOf } from './measures.js';

export const SECOND_US = 1e6;

/** What a cell is, when it has no number. */
export const CELL = { value: 0, outside: 1, empty: 2, missed: 3 };

// A gap between ticks this many times as long as usual has lost some.
const GAP_MISSED = 2;

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
  const { time_us: time } = profile.columns;
  const { values, samples, cellUs } = heat;
  eachRow(selection, (row) => {
    const cell = Math.floor(time[row] / cellUs);
    const weight = weights === null ? 1 : weights[row];
    if (weight < 0 && measure.kind !== 'delta') return;
    values[cell] += weight;
    samples[cell]++;
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

  setTicks({ starts, intervalUs }, durationUs) {
    for (const start of starts) this.ticks[Math.floor(start / this.cellUs)]++;
    for (let cell = 0; cell < this.values.length; cell++) {
      if (this.samples[cell] > 0) this.kinds[cell] = CELL.value;
      else if (cell * this.cellUs >= durationUs) this.kinds[cell] = CELL.outside;
      else if (this.ticks[cell] > 0) this.kinds[cell] = CELL.empty;
      if (this.measure.kind === 'value' && this.ticks[cell] > 0) this.values[cell] /= this.ticks[cell];
    }
    this.markGaps(starts, intervalUs);
  }

  markGaps(starts, intervalUs) {
    for (let i = 1; i < starts.length; i++) {
      if (starts[i] - starts[i - 1] <= GAP_MISSED * intervalUs) continue;
      const first = Math.floor((starts[i - 1] + intervalUs) / this.cellUs);
      const last = Math.floor(starts[i] / this.cellUs);
      for (let cell = first; cell <= last; cell++) {
        if (this.kinds[cell] === CELL.empty && this.ticks[cell] === 0) this.kinds[cell] = CELL.missed;
      }
    }
  }

  /** [fromUs, toUs) of a cell. */
  timeOf(cell) {
    return [cell * this.cellUs, (cell + 1) * this.cellUs];
  }

  /** Where colours end: the greatest sizes, without the last half percent. */
  limits() {
    const sizes = this.values.filter((value, cell) => this.kinds[cell] === CELL.value && value !== 0).map(Math.abs);
    sizes.sort();
    const most = sizes.length === 0 ? 0 : sizes[sizes.length - 1];
    const usual = sizes.length === 0 ? 0 : sizes[Math.floor((sizes.length - 1) * 0.995)];
    return { most, usual };
  }
}

/** Lines over the heatmap: one number a second. */
export async function makeLines(selection) {
  const { profile } = selection;
  await profile.need('status');
  const columns = Math.max(1, Math.ceil(profile.durationUs / SECOND_US));
  const metric = profile.metric('memory');
  const memory = metric < 0 ? null : await profile.values(metric);
  const ready = profile.statuses.map((status) => Number(READY.has(status)));
  const lines = {
    ticks: new Float64Array(columns),
    samples: new Float64Array(columns),
    ready: new Float64Array(columns),
    memory: new Float64Array(columns),
  };
  const { time_us: time, status } = profile.columns;
  eachRow(selection, (row) => {
    const second = Math.floor(time[row] / SECOND_US);
    lines.samples[second]++;
    lines.ready[second] += ready[status[row]];
    if (memory !== null) lines.memory[second] += memory[row];
  });
  const { starts } = await profile.ticks();
  for (const start of starts) lines.ticks[Math.floor(start / SECOND_US)]++;
  for (let second = 0; second < columns; second++) {
    const ticks = Math.max(1, lines.ticks[second]);
    lines.ready[second] /= ticks;
    lines.memory[second] /= ticks;
  }
  return lines;
}

const READY = new Set(['running', 'runnable', 'garbage_collecting']);
