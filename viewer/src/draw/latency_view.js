// A heatmap of latency over time: a row a quarter of an octave, a column a line of the measurement,
// the newest at the right. All that are shown side by side have the same rows and columns.

import { counted, percent } from '../model/numbers.js';
import { lowOf, nanoseconds, quantile } from '../model/latency.js';
import { h, hideTip, showTip, sizeCanvas, themeColour } from './dom.js';

const COLUMNS = 120;
const AXIS_WIDTH = 52;
const AXIS_HEIGHT = 16;
const ROW_LEAST = 4;
const ROW_MOST = 9;
const HEIGHT = 220;
const ROWS_LEAST = 12;
const LABEL_HEIGHT = 14;
const FAINTEST = 0.2; // one call is to be seen

export class LatencyView {
  constructor(label) {
    this.canvas = h('canvas', { class: 'latency-heat', role: 'img', 'aria-label': label });
    this.element = h('div', { class: 'latency-heat-box' }, this.canvas);
    this.canvas.addEventListener('pointermove', (event) => this.move(event));
    this.canvas.addEventListener('pointerleave', hideTip);
    new ResizeObserver(() => this.shown && this.element.clientWidth !== this.width
        && this.draw()).observe(this.element);
  }

  /** @param shown {measured, one: a function, rows: [first, last], palette} */
  show(shown) {
    this.shown = shown;
    this.draw();
  }

  draw() {
    const { measured, one, rows: [first, last], palette } = this.shown;
    this.width = this.element.clientWidth;
    if (this.width === 0) return;
    this.low = first - Math.max(0, Math.floor((ROWS_LEAST - (last - first + 1)) / 2));
    this.low = Math.max(0, this.low);
    this.count = Math.max(ROWS_LEAST, last - this.low + 1);
    this.rowHeight = Math.max(ROW_LEAST, Math.min(ROW_MOST, Math.floor(HEIGHT / this.count)));
    this.height = this.count * this.rowHeight;
    this.columnWidth = (this.width - AXIS_WIDTH) / COLUMNS;
    this.begin = Math.max(0, measured.lines.length - COLUMNS);
    const context = sizeCanvas(this.canvas, this.width, this.height + AXIS_HEIGHT);
    const most = this.most(one);
    context.fillStyle = themeColour('control');
    context.fillRect(AXIS_WIDTH, 0, (measured.lines.length - this.begin) * this.columnWidth,
        this.height);
    context.strokeStyle = themeColour('line');
    context.strokeRect(AXIS_WIDTH + 0.5, 0.5, this.width - AXIS_WIDTH - 1, this.height - 1);
    for (let column = this.begin; column < measured.lines.length; column++) {
      for (const [row, n] of one.columns.get(column)?.rows ?? []) {
        context.fillStyle = palette.sequential(FAINTEST
            + ((1 - FAINTEST) * Math.log(n)) / (Math.log(most) || 1));
        context.fillRect(this.x(column), this.y(row), Math.ceil(this.columnWidth), this.rowHeight);
      }
    }
    this.drawAxes(context);
  }

  most({ columns }) {
    let most = 1;
    for (const [column, { rows }] of columns) {
      if (column >= this.begin) for (const n of rows.values()) most = Math.max(most, n);
    }
    return most;
  }

  x(column) {
    return AXIS_WIDTH + (column - this.begin) * this.columnWidth;
  }

  y(row) {
    return this.height - (row - this.low + 1) * this.rowHeight;
  }

  drawAxes(context) {
    const { measured } = this.shown;
    context.fillStyle = themeColour('muted');
    context.font = '10px system-ui, sans-serif';
    context.textAlign = 'right';
    let free = this.height + LABEL_HEIGHT;
    for (let row = this.low; row <= this.low + this.count; row++) {
      const y = this.y(row) + this.rowHeight;
      if (row % 4 !== 0 || y > free - LABEL_HEIGHT || y < 8) continue;
      context.fillText(nanoseconds(lowOf(row)), AXIS_WIDTH - 4, y);
      free = y;
    }
    context.textAlign = 'left';
    let end = 0;
    for (let column = this.begin; column < measured.lines.length; column++) {
      const { fromMs } = measured.lines[column];
      const second = Math.ceil(fromMs / 1000 - 0.25);
      const isNew = column === this.begin
          || Math.ceil(measured.lines[column - 1].fromMs / 1000 - 0.25) !== second;
      if (!isNew || second % 5 !== 0 || this.x(column) < end) continue;
      const text = `${second} s`;
      if (this.x(column) + context.measureText(text).width > this.width) continue;
      context.fillText(text, this.x(column), this.height + 12);
      end = this.x(column) + 40;
    }
  }

  move(event) {
    const column = this.begin + Math.floor((event.offsetX - AXIS_WIDTH) / this.columnWidth);
    const row = this.low + Math.floor((this.height - event.offsetY) / this.rowHeight);
    const { measured, one } = this.shown;
    const line = measured.lines[column];
    if (line === undefined || event.offsetX < AXIS_WIDTH || row < this.low) return hideTip();
    showTip(this.describe(line, one.columns.get(column), row), event.clientX, event.clientY);
  }

  describe({ fromMs, toMs }, column, row) {
    const time = `${(fromMs / 1000).toFixed(1)} to ${(toMs / 1000).toFixed(1)} s`;
    if (column === undefined) return [time, 'no call'];
    const { calls, max, buckets, rows } = column;
    const n = rows.get(row) ?? 0;
    const at = (q) => nanoseconds(quantile(buckets, calls, max, q));
    return [
      `${time}, ${nanoseconds(lowOf(row))} to ${nanoseconds(lowOf(row + 1))}`,
      `${counted(n, 'call')}, ${percent(n / calls)} of ${counted(calls, 'call')}`,
      `p50 ${at(0.5)}, p99 ${at(0.99)}, max ${nanoseconds(max)}`,
    ];
  }

  /** For its file: a line a cell. */
  rows() {
    const { measured, one } = this.shown;
    return [...one.columns].flatMap(([column, { buckets }]) => buckets.map(([low, end, n]) =>
        [one.name, measured.lines[column].fromMs, measured.lines[column].toMs, low, end ?? '', n]));
  }
}
