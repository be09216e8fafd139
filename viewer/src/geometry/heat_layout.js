// Which cell of the heatmap lies where. Row 0, the begin of the second, is at
// the bottom.

const COLUMN_LEAST = 6;
const COLUMN_MOST = 48;
const CELL_HEIGHTS = { 10: 16, 25: 8, 50: 4, 100: 2 };

export class HeatLayout {
  constructor(rows, columns, pixels) {
    this.rows = rows;
    this.columns = columns;
    this.columnWidth = Math.max(COLUMN_LEAST, Math.min(COLUMN_MOST, Math.floor(pixels / columns)));
    this.cellHeight = CELL_HEIGHTS[rows];
    this.width = this.columnWidth * columns;
    this.height = this.cellHeight * rows;
  }

  /** The cell at a place, clamped to those that there are. */
  cellAt(x, y) {
    const column = clamp(Math.floor(x / this.columnWidth), this.columns);
    const row = clamp(this.rows - 1 - Math.floor(y / this.cellHeight), this.rows);
    return column * this.rows + row;
  }

  /** {x, y, width, height} */
  rectOf(cell) {
    return {
      x: Math.floor(cell / this.rows) * this.columnWidth,
      y: (this.rows - 1 - (cell % this.rows)) * this.cellHeight,
      width: this.columnWidth,
      height: this.cellHeight,
    };
  }

  /** A range of cells [first, end) as rectangles, one a column. */
  rectsOf(first, end) {
    const rects = [];
    for (let cell = first; cell < end; ) {
      const last = Math.min(end, (Math.floor(cell / this.rows) + 1) * this.rows) - 1;
      const low = this.rectOf(cell);
      const high = this.rectOf(last);
      rects.push({ x: low.x, y: high.y, width: low.width, height: low.y + low.height - high.y });
      cell = last + 1;
    }
    return rects;
  }
}

function clamp(n, count) {
  return Math.max(0, Math.min(count - 1, n));
}
