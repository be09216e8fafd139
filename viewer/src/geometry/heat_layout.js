// Which cell of the heatmap lies where, on the time axis of the page. Row 0, the begin of the
// column's time, is at the bottom.

const HEIGHT = 200;

export class HeatLayout {
  /** @param heat of heat.js; axis: what is shown of it */
  constructor({ rows, columns, columnUs, fromUs }, axis) {
    Object.assign(this, { rows, columns, columnUs, fromUs, axis });
    this.cellHeight = Math.max(1, Math.floor(HEIGHT / rows));
    this.height = this.cellHeight * rows;
    this.columnWidth = columnUs / axis.perPixel;
  }

  /** Where a column begins. */
  x(column) {
    return this.axis.x(this.fromUs + column * this.columnUs);
  }

  /** The cell at a place, clamped to those that there are. */
  cellAt(x, y) {
    const us = this.axis.us(x) - this.fromUs;
    const column = clamp(Math.floor(us / this.columnUs), this.columns);
    const row = clamp(this.rows - 1 - Math.floor(y / this.cellHeight), this.rows);
    return column * this.rows + row;
  }

  /** {x, y, width, height} */
  rectOf(cell) {
    return {
      x: this.x(Math.floor(cell / this.rows)),
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
