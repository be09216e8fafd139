// The heatmap, the lines above it, and the overview of a long profile.

import { CELL } from '../model/heat.js';
import { clock, counted, exact, full, short } from '../model/numbers.js';
import { HeatLayout } from '../geometry/heat_layout.js';
import { h, hideTip, showTip, sizeCanvas, themeColour } from './dom.js';
import { channels } from './palette.js';
import { csv, svg } from './save.js';

const LINE_HEIGHT = 20;
const LABEL_WIDTH = 200;
const LABEL_LEAST = 26; // of the axis
const AXIS_HEIGHT = 16;
const OVERVIEW_HEIGHT = 28;
const RARE = new Set(['missed', 'dropped']);

export class HeatView {
  /** @param callbacks {onSelect([fromUs, toUs] | null)} */
  constructor(callbacks) {
    this.callbacks = callbacks;
    this.lines = h('canvas', {
      class: 'lines',
      'aria-hidden': 'true',
      onpointermove: (event) => this.tellLines(event),
      onpointerleave: hideTip,
    });
    this.canvas = h('canvas', {
      class: 'heat',
      tabindex: '0',
      role: 'application',
      'aria-label': 'heatmap: arrows select a second, with Shift they extend, Escape clears',
    });
    this.view = h('div', { class: 'heat-view' }, this.lines, this.canvas);
    this.spacer = h('div', { class: 'heat-spacer' }, this.view);
    this.scroller = h('div', { class: 'heat-scroller', onscroll: () => this.paint() }, this.spacer);
    this.overview = h('canvas', { class: 'overview', 'aria-hidden': 'true' });
    this.legend = h('div', { class: 'legend' });
    this.element = h('div', {}, this.scroller, this.overview, this.legend);
    this.heat = null;
    this.drag = null;
    this.listen();
  }

  /** @param shown {heat, palette, range, startUs, other: range of a comparison} */
  show(shown) {
    const isSame = this.shown?.heat === shown.heat && this.shown?.palette === shown.palette;
    this.shown = shown;
    if (!isSame) this.image = null;
    this.draw();
  }

  /** Of lines.js; those before stay until then. What is always 0 is told and not drawn. */
  showLines(lines) {
    this.allLines = lines;
    this.drawnLines = lines.filter(({ id, values }) => !RARE.has(id)
        || values.some((value) => value > 0));
    if (this.shown) this.paintLines(this.scroller.scrollLeft);
  }

  draw() {
    if (!this.shown) return;
    const { heat } = this.shown;
    const pixels = Math.max(200, this.scroller.clientWidth);
    this.layout = new HeatLayout(heat.rows, heat.columns, pixels);
    this.pixels = Math.min(pixels, this.layout.width);
    this.spacer.style.width = `${this.layout.width}px`;
    this.view.style.width = `${this.pixels}px`;
    this.limits = heat.limits();
    this.image ??= this.makeImage();
    this.paint();
    this.paintOverview(pixels);
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
        const step = Math.round((255 * heat.values[cell]) / (this.limits.usual || 1));
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
    const { layout, pixels } = this;
    const left = this.scroller.scrollLeft;
    const context = sizeCanvas(this.canvas, pixels, layout.height + AXIS_HEIGHT);
    context.imageSmoothingEnabled = false;
    context.translate(-left, 0);
    context.drawImage(this.image, 0, 0, layout.width, layout.height);
    this.paintGaps(context, left);
    this.paintRange(context, this.shown.other, themeColour('other'));
    this.paintRange(context, this.dragged() ?? this.shown.range, themeColour('accent'));
    this.paintAxis(context, left);
    this.paintLines(left);
  }

  // Missed ticks are hatched: to be told apart without colours, too.
  paintGaps(context, left) {
    const { heat } = this.shown;
    const { layout } = this;
    context.strokeStyle = themeColour('cell-hatch');
    context.lineWidth = 1;
    context.beginPath();
    const first = layout.cellAt(left, layout.height);
    const last = layout.cellAt(left + this.pixels, 0);
    for (let cell = first; cell <= last; cell++) {
      if (heat.kinds[cell] !== CELL.missed) continue;
      const { x, y, width, height } = layout.rectOf(cell);
      context.moveTo(x, y + height);
      context.lineTo(x + width, y);
    }
    context.stroke();
  }

  paintRange(context, range, colour) {
    if (!range) return;
    const { heat } = this.shown;
    const rects = this.layout.rectsOf(
      Math.max(0, Math.floor(range[0] / heat.cellUs)),
      Math.min(heat.values.length, Math.ceil(range[1] / heat.cellUs)),
    );
    context.save();
    context.globalAlpha = 0.16;
    context.fillStyle = colour;
    for (const r of rects) context.fillRect(r.x, r.y, r.width, r.height);
    context.globalAlpha = 1;
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    rects.forEach((r, i) => {
      const [before, after] = [rects[i - 1], rects[i + 1]];
      edge(context, r.x, r.y, r.x + r.width, r.y);
      edge(context, r.x, r.y + r.height, r.x + r.width, r.y + r.height);
      side(context, r.x, r, before);
      side(context, r.x + r.width, r, after);
    });
    context.stroke();
    context.restore();
  }

  paintAxis(context, left) {
    const { layout } = this;
    const every = [1, 2, 5, 10, 15, 30, 60, 120, 300].find((n) =>
        n * layout.columnWidth >= 56) ?? 600;
    context.fillStyle = themeColour('muted');
    context.font = '10px system-ui, sans-serif';
    const first = Math.floor(left / layout.columnWidth / every) * every;
    for (let s = first; s * layout.columnWidth < left + this.pixels - LABEL_LEAST; s += every) {
      context.fillText(`${s} s`, s * layout.columnWidth + 1, layout.height + 12);
    }
  }

  paintLines(left) {
    const { layout, pixels, drawnLines: lines = [] } = this;
    const room = Math.max(pixels, this.scroller.clientWidth);
    const context = sizeCanvas(this.lines, room, lines.length * LINE_HEIGHT);
    const labelAt = room - pixels >= LABEL_WIDTH ? pixels + 6 : 2;
    context.font = '11px system-ui, sans-serif';
    lines.forEach(({ title, unit, values }, i) => {
      const most = values.reduce((a, b) => (b > a ? b : a), 0);
      const bottom = (i + 1) * LINE_HEIGHT - 3;
      const scale = most > 0 ? (LINE_HEIGHT - 7) / most : 0;
      context.beginPath();
      context.strokeStyle = themeColour('accent');
      context.lineWidth = 1.2;
      let isKnown = false;
      for (let s = Math.floor(left / layout.columnWidth); s < layout.columns; s++) {
        const x = s * layout.columnWidth - left;
        if (x > pixels) break;
        const wasKnown = isKnown;
        isKnown = !Number.isNaN(values[s]);
        if (!isKnown) continue; // a gap
        if (wasKnown) context.lineTo(x, bottom - values[s] * scale);
        else context.moveTo(x, bottom - values[s] * scale);
        context.lineTo(x + layout.columnWidth, bottom - values[s] * scale);
      }
      context.stroke();
      this.paintLabel(context, `${title}, at most ${short(most, unit)}`, labelAt,
          i * LINE_HEIGHT + 14);
    });
  }

  // Legible over a line, too.
  paintLabel(context, text, x, y) {
    context.fillStyle = themeColour('panel');
    context.fillRect(x - 2, y - 10, context.measureText(text).width + 4, 13);
    context.fillStyle = themeColour('muted');
    context.fillText(text, x, y);
  }

  paintOverview(pixels) {
    const isLong = this.layout.width > pixels;
    this.overview.hidden = !isLong;
    if (!isLong) return;
    const context = sizeCanvas(this.overview, pixels, OVERVIEW_HEIGHT);
    context.drawImage(this.image, 0, 0, pixels, OVERVIEW_HEIGHT);
    const scale = pixels / this.layout.width;
    const { range } = this.shown;
    if (range) {
      context.fillStyle = themeColour('accent');
      const second = this.layout.columnWidth * scale / 1e6;
      context.fillRect(range[0] * second, OVERVIEW_HEIGHT - 4,
          Math.max(2, (range[1] - range[0]) * second), 4);
    }
    context.strokeStyle = themeColour('text');
    context.strokeRect(this.scroller.scrollLeft * scale + 0.5, 0.5, pixels * scale - 1,
        OVERVIEW_HEIGHT - 1);
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
      h('span', { class: 'muted' }, heat.measure.kind === 'value'
          ? 'a cell: all sampled processes, its mean' : 'a cell: its sum'),
    );
  }

  describe(cell) {
    const { heat, startUs } = this.shown;
    const [fromUs, toUs] = heat.timeOf(cell);
    const second = Math.floor(fromUs / 1e6);
    const lines = [
      `second ${second}, ${(fromUs % 1e6) / 1000} to ${((fromUs % 1e6) + heat.cellUs) / 1000} ms`,
      `${clock(startUs + fromUs)}, ${exact(toUs - fromUs)} µs from ${exact(fromUs)}`,
    ];
    const kind = heat.kinds[cell];
    if (kind === CELL.outside) return [...lines, 'the profile has ended'];
    if (kind === CELL.empty) return [...lines, heat.ticks[cell] > 0
        ? 'a tick, but no sample of the chosen' : 'no tick fell into it'];
    if (kind === CELL.missed) return [...lines,
        'no tick for more than two intervals: the sampler was late, or samples were lost'];
    return [
      ...lines,
      `${heat.measure.title}: ${full(heat.values[cell], heat.measure.unit)}`,
      `${counted(heat.samples[cell], 'sample')} in ${counted(heat.ticks[cell], 'tick')}`,
    ];
  }

  // ------------------------------------------------------------------ people

  listen() {
    const { canvas } = this;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0 || !this.shown) return;
      const cell = this.cellOf(event);
      this.drag = { from: cell, to: cell, isClick: true, isExtended: event.shiftKey };
      if (event.pointerType === 'mouse') canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.drop(event));
    canvas.addEventListener('pointercancel', () => (this.drag = null));
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('keydown', (event) => this.key(event));
    this.overview.addEventListener('pointerdown', (event) => this.scrollTo(event));
    this.overview.addEventListener('pointermove', (event) => event.buttons & 1
        && this.scrollTo(event));
    new ResizeObserver(() => this.resized()).observe(this.scroller);
  }

  resized() {
    if (this.scroller.clientWidth === this.width || this.scroller.clientWidth === 0) return;
    this.width = this.scroller.clientWidth;
    this.draw();
  }

  cellOf(event) {
    return this.layout.cellAt(event.offsetX + this.scroller.scrollLeft, event.offsetY);
  }

  tellLines(event) {
    if (!this.allLines) return;
    const second = Math.floor(this.cellOf(event) / this.shown.heat.rows);
    const known = this.allLines.filter(({ values }) => values[second] === values[second]);
    const lines = known.map(({ title, unit, values }) => `${title}: ${full(values[second], unit)}`);
    showTip([`second ${second}`, ...lines], event.clientX, event.clientY);
  }

  move(event) {
    if (!this.shown) return;
    const cell = this.cellOf(event);
    if (this.drag !== null && cell !== this.drag.to) {
      this.drag.to = cell;
      this.drag.isClick = false;
      this.paint();
    }
    showTip(this.describe(cell), event.clientX, event.clientY);
  }

  drop() {
    const { drag } = this;
    this.drag = null;
    if (drag === null) return;
    this.callbacks.onSelect(drag.isClick ? this.clicked(drag) : this.rangeOf(drag));
  }

  // A click takes the second; with Shift it extends what is selected.
  clicked({ from, isExtended }) {
    const second = Math.floor(from / this.shown.heat.rows) * 1e6;
    const { range } = this.shown;
    if (!isExtended || !range) return [second, second + 1e6];
    return [Math.min(range[0], second), Math.max(range[1], second + 1e6)];
  }

  dragged() {
    return this.drag === null || this.drag.isClick ? null : this.rangeOf(this.drag);
  }

  rangeOf({ from, to }) {
    const { heat } = this.shown;
    return [heat.timeOf(Math.min(from, to))[0], heat.timeOf(Math.max(from, to))[1]];
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === 'Escape') this.callbacks.onSelect(null);
    else if (step !== undefined) this.step(step, event.shiftKey);
    else return;
    event.preventDefault();
  }

  step(step, isExtended) {
    const end = this.shown.heat.columns * 1e6;
    const [from, to] = this.shown.range ?? (step > 0 ? [-1e6, 0] : [end, end + 1e6]);
    const second = Math.floor((step > 0 ? to - 1 : from) / 1e6) * 1e6 + step * 1e6;
    const next = Math.max(0, Math.min(end - 1e6, second));
    const range = isExtended ? [Math.min(from, next), Math.max(to, next + 1e6)]
        : [next, next + 1e6];
    this.callbacks.onSelect(range);
    const x = (next / 1e6) * this.layout.columnWidth;
    const { scrollLeft, clientWidth } = this.scroller;
    if (x < scrollLeft || x > scrollLeft + clientWidth - 40) this.scroller.scrollLeft =
        x - clientWidth / 2;
  }

  scrollTo(event) {
    const share = event.offsetX / this.overview.clientWidth;
    this.scroller.scrollLeft = share * this.layout.width - this.scroller.clientWidth / 2;
    this.paintOverview(this.scroller.clientWidth);
  }

  // ------------------------------------------------------------------- files

  toSvg() {
    const { heat } = this.shown;
    const rects = [];
    heat.values.forEach((value, cell) => {
      if (heat.kinds[cell] === CELL.outside) return;
      const fill = heat.kinds[cell] === CELL.value ? this.colourOf(value)
          : themeColour(heat.kinds[cell] === CELL.missed ? 'cell-missed' : 'cell-empty');
      rects.push({ ...this.layout.rectOf(cell), fill });
    });
    return svg(this.layout.width, this.layout.height, '#ffffff', rects);
  }

  /** The whole map, not only what is scrolled to. */
  toCanvas() {
    const whole = h('canvas');
    whole.width = this.layout.width;
    whole.height = this.layout.height;
    const context = whole.getContext('2d');
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, 0, 0, whole.width, whole.height);
    return whole;
  }

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

  linesToCsv() {
    const { allLines: lines = [], shown: { heat } } = this;
    const seconds = Array.from({ length: heat.columns }, (_, second) =>
        [second, ...lines.map(({ values }) => values[second])]);
    return csv([['second', ...lines.map(({ id }) => id)], ...seconds]);
  }
}

function edge(context, x1, y1, x2, y2) {
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
}

// The part of a column's side where its neighbour is not selected.
function side(context, x, rect, neighbour) {
  const bottom = rect.y + rect.height;
  if (neighbour === undefined) return edge(context, x, rect.y, x, bottom);
  if (neighbour.y > rect.y) edge(context, x, rect.y, x, Math.min(bottom, neighbour.y));
  const end = neighbour.y + neighbour.height;
  if (end < bottom) edge(context, x, Math.max(rect.y, end), x, bottom);
}
