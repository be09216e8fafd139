// Which cells a heatmap has: columns of a second, a minute or an hour, whatever fits, and cells of
// whole ticks. A cell with one tick more than its neighbour would show the sampler's clock.

const COLUMNS_US = [1e6, 60e6, 3600e6];
const COLUMN_LEAST = 2; // pixels
const ROWS_OF_LONG = 60; // a row a second of a minute, a minute of an hour
const ROWS_MOST = 60;
const TICKS_LEAST = 2; // in a cell: ticks have a random delay, and one may be in the cell beside
const CELLS_MOST = 1e6; // of the whole profile; of a longer one those that are shown

/**
 * @param axis TimeAxis of what is shown; rows: wanted in a second, or 0; ticks: times, ascending
 * @returns {columnUs, rows, columns, fromUs}
 */
export function heatScale(durationUs, axis, rows, ticks) {
  const fits = (us) => (axis.toUs - axis.fromUs) / us <= axis.pixels / COLUMN_LEAST;
  const columnUs = COLUMNS_US.find(fits) ?? COLUMNS_US[COLUMNS_US.length - 1];
  const inColumn = columnUs > COLUMNS_US[0] ? ROWS_OF_LONG : rows || rowsOfTicks(ticks);
  const whole = Math.max(1, Math.ceil(durationUs / columnUs));
  if (whole * inColumn <= CELLS_MOST) {
    return { columnUs, rows: inColumn, columns: whole, fromUs: 0 };
  }
  const first = Math.floor(axis.fromUs / columnUs);
  const columns = Math.ceil(axis.toUs / columnUs) - first;
  return { columnUs, rows: inColumn, columns, fromUs: first * columnUs };
}

/** Cells a second, each of which has the same number of ticks. */
export function rowsOfTicks(ticks) {
  const hertz = Math.round(1e6 / slowGap(ticks));
  for (let inCell = TICKS_LEAST; inCell <= hertz; inCell++) {
    if (hertz % inCell === 0 && hertz / inCell <= ROWS_MOST) return hertz / inCell;
    if (hertz / inCell < ROWS_MOST / TICKS_LEAST) break; // a number without such a part
  }
  return Math.max(1, Math.min(ROWS_MOST, Math.floor(hertz / TICKS_LEAST)));
}

// The budget makes gaps longer: what is usual where they are.
function slowGap(ticks) {
  const gaps = ticks.slice(1).map((tick, i) => tick - ticks[i]).sort();
  return gaps[Math.floor(gaps.length * 0.75)] || 1e6;
}
