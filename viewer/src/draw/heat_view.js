// The heatmap: the microscope of the time that is shown. Its time axis is that of the page.

import { CELL } from '../model/heat.js';
import { clock, counted, exact, full, short } from '../model/numbers.js';
import { HeatLayout } from '../geometry/heat_layout.js';
import { h, hideTip, showTip, sizeCanvas, themeColour } from './dom.js';
import { channels } from './palette.js';
import { csv } from './save.js';

export class HeatView {
  /** @param callbacks {onSelect(range | null), onOther(range), onSlide(range)} */
  constructor(callbacks) {
    this.callbacks = callbacks;
    this.canvas = h('canvas', {
      class: 'heat',
      tabindex: '0',
      role: 'application',
      'aria-label': 'heatmap: arrows select a column, with Shift they extend, Escape clears',
    });
    this.box = h('div', { class: 'heat-box' }, this.canvas);
    this.legend = h('div', { class: 'legend' });
    this.element = h('div', {}, this.box, this.legend);
    this.heat = null;
    this.drag = null;
    this.first = null; // the cell of a click that awaits the last one's
    this.listen();
  }

  /** @param shown {heat, axis, palette, range, startUs, other: range of a comparison} */
  show(shown) {
    const isSame = this.shown?.heat === shown.heat && this.shown?.palette === shown.palette;
    this.shown = shown;
    if (!isSame) this.image = null;
    this.draw();
  }

  draw() {
    if (!this.shown) return;
    const { heat, axis } = this.shown;
    this.layout = new HeatLayout(heat, axis);
    this.limits = heat.limits();
    this.image ??= this.makeImage();
    Object.assign(this.canvas.dataset, { left: axis.left, column: this.layout.columnWidth,
        height: this.layout.height });
    this.paint();
    this.paintLegend();
  }

  colourOf(value) {
    const { palette, heat } = this.shown;
    const most = this.limits.usual || 1;
    const t = Math.min(1, Math.abs(value) / most);
    return heat.measure.kind === 'delta'
      ? palette.diverging(value < 0 ? -t : t)
      : palette.sequential(t);
  }

  // A pixel a cell; scaled when it is painted.
  makeImage() {
    const { heat } = this.shown;
    const image = h('canvas');
    image.width = heat.columns;
    image.height = heat.rows;
    const data = new ImageData(heat.columns, heat.rows);
    const empty = channels(themeColour('cell-empty'));
    const missed = channels(themeColour('cell-missed'));
    const memo = new Map();
    for (let cell = 0; cell < heat.values.length; cell++) {
      const kind = heat.kinds[cell];
      if (kind === CELL.outside) continue;
      let colour = kind === CELL.missed ? missed : empty;
      if (kind === CELL.value) {
        const step = Math.round((255 * heat.level(cell)) / (this.limits.usual || 1));
        const key = Math.max(-255, Math.min(255, step));
        if (!memo.has(key)) memo.set(key,
            channels(this.colourOf((key / 255) * (this.limits.usual || 1))));
        colour = memo.get(key);
      }
      const column = Math.floor(cell / heat.rows);
      const at = ((heat.rows - 1 - (cell % heat.rows)) * heat.columns + column) * 4;
      data.data.set([colour[0], colour[1], colour[2], 255], at);
    }
    image.getContext('2d').putImageData(data, 0, 0);
    return image;
  }

  paint() {
    if (!this.shown) return;
    const { layout } = this;
    const { axis } = this.shown;
    const context = sizeCanvas(this.canvas, this.box.clientWidth, layout.height);
    context.save();
    context.beginPath();
    context.rect(axis.left, 0, axis.pixels, layout.height);
    context.clip();
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, layout.x(0), 0, layout.columnWidth * layout.columns,
        layout.height);
    this.paintGaps(context);
    this.paintRange(context, this.dragged() ?? this.shown.range, false);
    this.paintRange(context, this.shown.other, true);
    context.restore();
    this.paintColumn(context);
  }

  // Missed ticks are hatched: to be told apart without colours, too.
  paintGaps(context) {
    const { heat, axis } = this.shown;
    const { layout } = this;
    context.strokeStyle = themeColour('cell-hatch');
    context.lineWidth = 1;
    context.beginPath();
    const first = layout.cellAt(axis.left, layout.height);
    const last = layout.cellAt(axis.left + axis.pixels, 0);
    for (let cell = first; cell <= last; cell++) {
      if (heat.kinds[cell] !== CELL.missed) continue;
      const { x, y, width, height } = layout.rectOf(cell);
      context.moveTo(x, y + height);
      context.lineTo(x + width, y);
    }
    context.stroke();
  }

  // What is not selected is pale, as on the timeline; a range to compare with has its edges.
  paintRange(context, range, isOther) {
    if (!range) return;
    const { heat, axis } = this.shown;
    const { layout } = this;
    const rects = layout.rectsOf(
      Math.max(0, Math.floor((range[0] - heat.fromUs) / heat.cellUs)),
      Math.min(heat.values.length, Math.ceil((range[1] - heat.fromUs) / heat.cellUs)),
    );
    context.beginPath();
    for (const r of rects) context.rect(r.x, r.y, r.width, r.height);
    context.strokeStyle = themeColour(isOther ? 'other' : 'accent');
    context.stroke();
    if (isOther) return;
    context.rect(axis.left, 0, axis.pixels, layout.height);
    context.globalAlpha = 0.6;
    context.fillStyle = themeColour('panel');
    context.fill('evenodd');
    context.globalAlpha = 1;
  }

  // The axis of the timeline is above.
  paintColumn(context) {
    const { layout } = this;
    const { axis, heat } = this.shown;
    context.fillStyle = themeColour('muted');
    context.font = '10px system-ui, sans-serif';
    context.textAlign = 'right';
    const column = heat.columnUs === 1e6 ? '1 s' : heat.columnUs === 60e6 ? '1 min' : '1 h';
    context.fillText(column, axis.left - 8, 9);
    context.fillText('0', axis.left - 8, layout.height);
    context.textAlign = 'left';
  }

  paintLegend() {
    const { heat } = this.shown;
    const isDelta = heat.measure.kind === 'delta';
    const { usual, most } = this.limits;
    const bar = h('canvas', { class: 'legend-bar' });
    const context = sizeCanvas(bar, 140, 10);
    for (let x = 0; x < 140; x++) {
      const t = isDelta ? (2 * x) / 139 - 1 : x / 139;
      context.fillStyle = this.colourOf(t * (usual || 1));
      context.fillRect(x, 0, 2, 10); // no gaps on dense screens
    }
    const { unit } = heat.measure;
    const key = (name, text) => h('span', { class: 'key' }, h('i', { class: `swatch ${name}` }),
        text);
    this.legend.replaceChildren(
      h('span', {}, isDelta ? `≤ −${short(usual, unit)} release` : '0'),
      bar,
      h('span', {}, `${isDelta ? 'growth ' : ''}≥ ${short(usual, unit)}`),
      h('span', { class: 'muted' }, `(greatest ${short(most, unit)})`),
      key('empty', 'no sample'),
      key('missed', 'ticks missed'),
      h('span', { class: 'muted' }, `${cellText(heat)}; a click selects the first, the next the last`),
    );
  }

  describe(cell) {
    const { heat, startUs } = this.shown;
    const [fromUs, toUs] = heat.timeOf(cell);
    const lines = [
      heat.columnUs === 1e6 ? secondText(fromUs, heat.cellUs)
          : `${fromUs / 1e6} to ${toUs / 1e6} s`,
      `${clock(startUs + fromUs)}, ${exact(toUs - fromUs)} µs from ${exact(Math.round(fromUs))}`,
    ];
    const kind = heat.kinds[cell];
    if (kind === CELL.outside) return [...lines, 'the profile has ended'];
    if (kind === CELL.empty) return [...lines, heat.ticks[cell] > 0
        ? 'a tick, but no sample of the chosen' : 'no tick fell into it'];
    if (kind === CELL.missed) return [...lines,
        'no tick for more than two intervals: the sampler was late, or samples were lost'];
    return [
      ...lines,
      heat.isPerTick ? `${heat.measure.title}: ${heat.level(cell).toFixed(1)} at a time`
          : `${heat.measure.title}: ${full(heat.values[cell], heat.measure.unit)}`,
      `${counted(heat.samples[cell], 'sample')} in ${counted(heat.ticks[cell], 'tick')}`,
    ];
  }

  // ------------------------------------------------------------------ people

  listen() {
    const { canvas } = this;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.shown) return;
      const cell = this.cellOf(event);
      this.drag = { from: cell, to: cell, isClick: true, isExtended: event.shiftKey,
          isOther: event.altKey };
      if (event.pointerType === 'mouse') canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.drop(event));
    canvas.addEventListener('pointercancel', () => (this.drag = null));
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('keydown', (event) => this.key(event));
  }

  cellOf(event) {
    return this.layout.cellAt(event.offsetX, event.offsetY);
  }

  move(event) {
    if (!this.shown) return;
    const cell = this.cellOf(event);
    if (this.drag !== null && cell !== this.drag.to) {
      this.drag.to = cell;
      this.drag.isClick = false;
      this.paint();
      if (!this.drag.isOther) this.callbacks.onSlide(this.rangeOf(this.drag));
    }
    showTip(this.describe(cell), event.clientX, event.clientY);
  }

  drop() {
    const { drag } = this;
    this.drag = null;
    if (drag === null) return;
    const range = drag.isClick ? this.clicked(drag) : this.rangeOf(drag);
    if (drag.isOther) this.callbacks.onOther(range);
    else this.callbacks.onSelect(range);
  }

  // A click selects a cell, the next one all from that cell to its own; with Shift a click extends
  // what is selected.
  clicked({ from, isExtended }) {
    const [begin, end] = this.rangeOf({ from, to: from });
    const { range } = this.shown;
    const { first } = this;
    this.first = null;
    if (isExtended && range) return [Math.min(range[0], begin), Math.max(range[1], end)];
    if (first !== null && `${range}` === `${this.rangeOf({ from: first, to: first })}`) {
      return this.rangeOf({ from: first, to: from });
    }
    this.first = from;
    return [begin, end];
  }

  dragged() {
    return this.drag === null || this.drag.isClick ? null : this.rangeOf(this.drag);
  }

  rangeOf({ from, to }) {
    const { heat } = this.shown;
    return [heat.timeOf(Math.min(from, to))[0], heat.timeOf(Math.max(from, to))[1]]
        .map(Math.round);
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') this.callbacks.onSelect(null);
    else if (step !== undefined) this.step(step, event.shiftKey);
    else return;
    event.preventDefault();
  }

  step(step, isExtended) {
    const { columnUs, columns, fromUs } = this.shown.heat;
    const end = fromUs + columns * columnUs;
    const [from, to] = this.shown.range ?? (step > 0 ? [fromUs - columnUs, fromUs]
        : [end, end + columnUs]);
    const column = Math.floor(((step > 0 ? to - 1 : from) - fromUs) / columnUs) + step;
    const next = Math.max(fromUs, Math.min(end - columnUs, fromUs + column * columnUs));
    this.callbacks.onSelect(isExtended ? [Math.min(from, next), Math.max(to, next + columnUs)]
        : [next, next + columnUs]);
  }

  // ------------------------------------------------------------------- files

  toCsv() {
    const { heat } = this.shown;
    const rows = [['from_us', 'to_us', heat.measure.id, 'samples', 'ticks', 'cell']];
    const kinds = ['sampled', 'outside', 'empty', 'missed'];
    heat.values.forEach((value, cell) => {
      if (heat.kinds[cell] === CELL.outside) return;
      rows.push([...heat.timeOf(cell), value, heat.samples[cell], heat.ticks[cell],
          kinds[heat.kinds[cell]]]);
    });
    return csv(rows);
  }
}

function cellText(heat) {
  if (heat.isPerTick) return 'a cell: processes at a time';
  return heat.measure.kind === 'value' ? 'a cell: all sampled processes, its mean'
      : 'a cell: its sum';
}

function secondText(fromUs, cellUs) {
  const ms = (us) => Math.round(us / 100) / 10;
  const within = fromUs % 1e6;
  return `second ${Math.floor(fromUs / 1e6)}, ${ms(within)} to ${ms(within + cellUs)} ms`;
}
