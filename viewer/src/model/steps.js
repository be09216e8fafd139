// What processes have at a time: each has the value of its last sample until its next one.

// A process whose next sample comes later than this was not sampled in between: another process
// had its place. Merged samples are written every second (doc/sampling.md).
const SAMPLED_WITHIN_US = 1.5e6;
// The same where ticks are rare.
const SAMPLED_WITHIN_TICKS = 3;

/**
 * The sum of the values of all processes over time, in cells: of each the mean over its time, and
 * how many processes are known. Behind its last sample a process is not.
 *
 * @param samples {rows: each(row) in the order of time; processes: how many; process: of each row,
 *   a number; time: of each row in microseconds; value(row): NaN where it is unknown or left out;
 *   partsOf(row): null, or of merged samples {spans: [[fromUs, untilUs]], part: of that time}}
 * @param ticks times at which processes were sampled, ascending
 * @returns {sums, known: Float64Arrays of so many cells}
 */
export function sumSteps({ rows, processes, process, time, value, partsOf = null }, ticks,
    { cells, cellUs, fromUs }) {
  const sums = new Area(cells, cellUs, fromUs);
  const known = new Area(cells, cellUs, fromUs);
  const lastRow = new Int32Array(processes).fill(-1);
  const within = sampledWithin(usualGap(ticks));
  const addParts = (row, { spans, part }) => {
    if (Number.isNaN(value(row))) return;
    for (const [from, until] of spans) {
      sums.add(from, until, part * value(row));
      known.add(from, until, part);
    }
  };
  rows((row) => {
    const before = lastRow[process[row]];
    lastRow[process[row]] = row;
    const merged = partsOf?.(row);
    if (merged) {
      lastRow[process[row]] = -1; // it holds in its own interval only
      addParts(row, merged);
      return;
    }
    if (before < 0 || time[row] - time[before] > within) return;
    const held = value(before);
    if (Number.isNaN(held)) return;
    sums.add(time[before], time[row], held);
    known.add(time[before], time[row], 1);
  });
  return { sums: sums.means(), known: known.means() };
}

/** Rectangles over time, added up: what lies outside of the cells is left out. */
export class Area {
  /** @param fromUs where the first cell begins */
  constructor(cells, cellUs, fromUs = 0) {
    this.cellUs = cellUs;
    this.fromUs = fromUs;
    this.endUs = cells * cellUs;
    this.part = new Float64Array(cells + 1); // of cells that a rectangle covers in part
    this.rise = new Float64Array(cells + 1); // by how much those covered wholly differ from before
  }

  add(beginUs, untilUs, height) {
    const { cellUs, part, rise, fromUs, endUs } = this;
    const from = Math.max(0, beginUs - fromUs);
    const until = Math.min(endUs, untilUs - fromUs);
    if (!(from < until)) return;
    const first = Math.floor(from / cellUs);
    const last = Math.floor(until / cellUs);
    if (first >= last) {
      part[first] += (height * (until - from)) / cellUs;
      return;
    }
    part[first] += height * (first + 1 - from / cellUs);
    part[last] += height * (until / cellUs - last);
    rise[first + 1] += height;
    rise[last] -= height;
  }

  // Sums of rises leave a rest that is no value.
  means() {
    let whole = 0;
    return this.part.slice(0, -1).map((part, cell) => {
      whole += this.rise[cell];
      const mean = whole + part;
      return Math.abs(mean) < 1e-6 ? 0 : mean;
    });
  }
}

/** How long a sample holds at most, until the next one of its process. */
export function sampledWithin(usualUs) {
  return Math.max(SAMPLED_WITHIN_US, SAMPLED_WITHIN_TICKS * usualUs);
}

/** The median of the times between ticks, in microseconds. */
export function usualGap(ticks) {
  const gaps = ticks.slice(1).map((tick, i) => tick - ticks[i]).sort();
  return gaps[Math.floor(gaps.length / 2)] ?? 0;
}
