// A profile as a heatmap: a column a second (or a minute, or an hour), a row a part of it. Cells
// follow each other in time: cell = column * rows + row.

import { eachRow } from './selection.js';
import { valuesOf, weightsOf } from './measures.js';
import { Area, sumSteps } from './steps.js';
import { tickAfter } from './ticks.js';

/** What a cell is, when it has no number. */
export const CELL = { value: 0, outside: 1, empty: 2, missed: 3 };

/**
 * Of a value the number is the sum over all sampled processes, as its mean over the time of the
 * cell: between two samples a process has the value of the first. Of the others it is the sum of
 * the cell.
 *
 * @param selection the whole profile's time, see select()
 * @param scale of heat_scale.js
 */
export async function makeHeat(selection, measure, scale) {
  const { profile } = selection;
  const isValue = measure.kind === 'value';
  const weights = isValue ? profile.looks : await weightsOf(profile, measure);
  const ticks = await profile.ticks();
  const heat = new Heat(scale, measure);
  const { looks, since, columns: { time_us: time } } = profile;
  const coarse = await profile.coarse();
  if (coarse !== null) heat.setCoarse(coarse);
  eachRow(selection, (row) => {
    const weight = weights === null ? 1 : weights[row];
    if (coarse?.has(time[row])) heat.addCoarse(time[row], weight, looks?.[row] ?? 1);
    else if (looks === null || looks[row] === 1) heat.add(time[row], weight, 1);
    else heat.spread(ticks.starts, since[row], time[row], weight, looks[row]);
  });
  heat.setTicks(ticks, profile.durationUs);
  if (isValue) heat.setLevels(await levelsOf(selection, measure, ticks, heat, coarse),
      coarse === null ? ticks.endUs : profile.durationUs);
  return heat;
}

// A sample that is left out for its status ends what its process had before it.
async function levelsOf(selection, measure, ticks, { cellUs, fromUs, values: { length: cells } },
    coarse) {
  const { profile, status: isShown } = selection;
  await profile.need('process', 'time_us', 'schema', ...(isShown === null ? [] : ['status']));
  const values = await valuesOf(profile, measure);
  const { process, time_us: time, schema, status } = profile.columns;
  const has = profile.header.schemas.map((metrics) =>
      measure.metrics.every((metric) => metrics.includes(metric)));
  const isLeftOut = (row) => !has[schema[row]] || values[row] < 0
      || (isShown !== null && isShown[status[row]] === 0);
  const all = { ...selection, status: null };
  const samples = {
    rows: (each) => eachInTime(all, time, each),
    processes: profile.processCount,
    process,
    time,
    value: (row) => (isLeftOut(row) ? NaN : values[row]),
    partsOf: coarse === null ? null : (row) => (coarse.has(time[row])
        ? { spans: coarse.spansOf(time[row]),
          part: (profile.looks?.[row] ?? 1) / coarse.ticksOf(time[row]) } : null),
  };
  return sumSteps(samples, ticks.starts, { cells, cellUs, fromUs });
}

function eachInTime(selection, time, each) {
  if (selection.profile.isOrdered) return eachRow(selection, each);
  const rows = [];
  eachRow(selection, (row) => rows.push(row));
  rows.sort((a, b) => time[a] - time[b]).forEach(each);
}

class Heat {
  constructor({ columnUs, rows, columns, fromUs }, measure) {
    this.rows = rows;
    this.columns = columns;
    this.columnUs = columnUs;
    this.fromUs = fromUs;
    this.measure = measure;
    this.cellUs = columnUs / rows;
    this.values = new Float64Array(rows * columns);
    this.samples = new Float64Array(rows * columns);
    this.ticks = new Float64Array(rows * columns);
    this.coarse = null;
    this.kinds = new Uint8Array(rows * columns).fill(CELL.empty);
  }

  add(us, weight, count) {
    const cell = this.cellAt(us);
    if (cell < 0) return;
    this.values[cell] += weight;
    this.samples[cell] += count;
  }

  // What was merged, and the ticks of then, are spread over their interval.
  setCoarse(coarse) {
    this.coarse = coarse;
    const area = () => new Area(this.values.length, this.cellUs, this.fromUs);
    this.merged = { values: area(), samples: area(), ticks: area() };
    coarse.eachSpan((from, to, ticks) => this.merged.ticks.add(from, to, ticks * this.cellUs));
  }

  addCoarse(us, weight, count) {
    const rate = this.cellUs / this.coarse.lengthOf(us);
    for (const [from, to] of this.coarse.spansOf(us)) {
      this.merged.values.add(from, to, weight * rate);
      this.merged.samples.add(from, to, count * rate);
    }
  }

  /** The cell of a moment; -1: it is not among them. */
  cellAt(us) {
    const cell = Math.floor((us - this.fromUs) / this.cellUs);
    return cell < this.values.length ? cell : -1;
  }

  // Observations at the ticks of that time, as evenly as may be. What had changed had changed at
  // the last of them.
  spread(starts, since, until, weight, count) {
    const first = tickAfter(starts, since);
    const among = tickAfter(starts, until) - first;
    if (since === until || among === 0) return this.add(until, weight, count);
    const isDelta = this.measure.kind === 'delta';
    for (let n = 1; n < count; n++) {
      const tick = first + Math.ceil((n * among) / count) - 1;
      this.add(starts[tick], isDelta ? 0 : weight / count, 1);
    }
    this.add(until, isDelta ? weight : weight / count, 1);
  }

  // Of observations and ticks of which a span tells the times are estimates, apart: where one
  // has an observation, there was a tick.
  setTicks({ starts, missed }, durationUs) {
    for (const start of starts) {
      const cell = this.cellAt(start);
      if (cell >= 0 && !this.coarse?.has(start)) this.ticks[cell]++;
    }
    for (let cell = 0; cell < this.values.length; cell++) {
      if (this.samples[cell] > 0) this.ticks[cell] = Math.max(1, this.ticks[cell]);
      if (this.samples[cell] > 0) this.kinds[cell] = CELL.value;
      else if (this.timeOf(cell)[0] >= durationUs) this.kinds[cell] = CELL.outside;
      else if (this.ticks[cell] > 0) this.kinds[cell] = CELL.empty;
    }
    if (this.coarse !== null) this.addMerged();
    missed.filter((range) => !range.some((us) => this.coarse?.has(us)))
        .forEach(([from, to]) => this.markMissed(from, to));
  }

  addMerged() {
    for (const [name, area] of Object.entries(this.merged)) {
      area.means().forEach((mean, cell) => (this[name][cell] += mean));
    }
    this.samples.forEach((n, cell) => n > 0 && (this.kinds[cell] = CELL.value));
  }

  // The mean of a cell is that of its time in the profile.
  setLevels({ sums, known }, endUs) {
    for (let cell = 0; cell < sums.length; cell++) {
      const isKnown = known[cell] > 0;
      const part = Math.min(1, (endUs - this.timeOf(cell)[0]) / this.cellUs);
      this.values[cell] = isKnown ? sums[cell] / part : 0;
      if (isKnown) this.kinds[cell] = CELL.value;
      else if (this.kinds[cell] === CELL.value) this.kinds[cell] = CELL.empty;
    }
  }

  markMissed(from, to) {
    const first = Math.max(0, Math.floor((from - this.fromUs) / this.cellUs));
    const last = Math.min(this.values.length - 1, Math.floor((to - this.fromUs) / this.cellUs));
    for (let cell = first; cell <= last; cell++) {
      if (this.kinds[cell] === CELL.empty && this.ticks[cell] === 0) this.kinds[cell] = CELL.missed;
    }
  }

  /** [fromUs, toUs) of a cell. */
  timeOf(cell) {
    return [this.fromUs + cell * this.cellUs, this.fromUs + (cell + 1) * this.cellUs];
  }

  /** What is shown of a cell: of samples how many processes at a time, else the value. */
  level(cell) {
    return this.isPerTick ? this.values[cell] / this.ticks[cell] : this.values[cell];
  }

  // A cell in which there were more ticks has more samples: that says nothing of the node.
  get isPerTick() {
    return this.measure.kind === 'samples';
  }

  /** Where colours end: the greatest sizes, without the last half percent. */
  limits() {
    const sizes = this.values.map((_, cell) => (this.kinds[cell] === CELL.value
        ? Math.abs(this.level(cell)) : 0)).filter((size) => size > 0);
    sizes.sort();
    const most = sizes.length === 0 ? 0 : sizes[sizes.length - 1];
    const usual = sizes.length === 0 ? 0 : sizes[Math.floor((sizes.length - 1) * 0.995)];
    return { most, usual };
  }
}
