// A flame graph on a canvas: drawing, pointer and keys. What it shows is given
// to show(); what people do is told to the callbacks.

import { depthOf, sorted, visibleFrames } from '../geometry/flame_layout.js';
import { h, hideTip, showTip, sizeCanvas, themeColour } from './dom.js';
import { inkOn, kindColour } from './palette.js';
import { svg } from './save.js';

const ROW = 18;
const TEXT_LEAST = 26; // pixels
const USUAL_TEXT = 'gen_server:handle_call/3 demo_order:run/2'; // as wide as most, a character
const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class FlameView {
  /** @param callbacks {onZoom(node), onPick(node), describe(node) => [line]} */
  constructor(label, callbacks) {
    this.inks = new Map(); // by colour
    this.callbacks = callbacks;
    this.canvas = h('canvas', {
      class: 'flame',
      tabindex: '0',
      role: 'application',
      'aria-label': `${label}: arrows move, Enter zooms, Escape zooms out`,
    });
    this.live = h('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.element = h('div', { class: 'flame-box' }, this.canvas, this.live);
    this.shown = null;
    this.frames = [];
    this.hovered = -1;
    this.focused = -1;
    this.listen();
  }

  /**
   * @param shown {tree, widths, zoom, sort, isIcicle, matches, colourOf(node)};
   * matches and colourOf may be null
   */
  show(shown) {
    if (shown.tree !== this.shown?.tree) this.focused = this.hovered = -1;
    this.shown = shown;
    this.draw();
  }

  draw() {
    if (this.shown === null) return;
    const { tree, widths, zoom, sort } = this.shown;
    const pixels = Math.max(200, this.element.clientWidth);
    this.frames = visibleFrames(tree, widths, { zoom, pixels, sort });
    const depth = depthOf(this.frames);
    this.depth = depth;
    this.rows = rowsOf(this.frames, depth);
    this.context = sizeCanvas(this.canvas, pixels, depth * ROW);
    this.paint();
  }

  paint() {
    const { context } = this;
    context.clearRect(0, 0, this.canvas.clientWidth || 1e5, this.depth * ROW);
    context.font = FONT;
    context.textBaseline = 'middle';
    this.character = context.measureText(USUAL_TEXT).width / USUAL_TEXT.length;
    const line = themeColour('panel');
    for (const frame of this.frames) this.paintFrame(context, frame, line);
    this.outline(this.hovered, themeColour('text'), 1);
    this.outline(this.focused, themeColour('accent'), 2);
  }

  paintFrame(context, frame, line) {
    const y = this.top(frame);
    context.globalAlpha = frame.isAncestor ? 0.55 : 1;
    context.fillStyle = this.colour(frame.node);
    context.fillRect(frame.x, y, frame.width, ROW - 1);
    if (frame.width > 3) {
      context.fillStyle = line;
      context.fillRect(frame.x + frame.width - 0.5, y, 0.5, ROW - 1);
    }
    const text = this.fitted(frame);
    if (text !== '') {
      context.fillStyle = this.inkOf(frame.node);
      context.fillText(text, Math.max(0, frame.x) + 3, y + ROW / 2, frame.width - 5);
    }
    context.globalAlpha = 1;
  }

  fitted(frame) {
    if (frame.width < TEXT_LEAST) return '';
    const text = this.textOf(frame.node);
    const room = Math.floor((frame.width - 5) / this.character);
    return text.length <= room ? text : room < 3 ? '' : `${text.slice(0, room - 1)}…`;
  }

  textOf(node) {
    const { tree } = this.shown;
    return tree.names.text[tree.name[node]];
  }

  // The canvas makes red, green and blue of any colour.
  inkOf(node) {
    const colour = this.colour(node);
    if (!this.inks.has(colour)) {
      this.context.fillStyle = colour;
      this.inks.set(colour, inkOn(this.context.fillStyle));
    }
    return this.inks.get(colour);
  }

  colour(node) {
    const { tree, matches, colourOf } = this.shown;
    if (matches?.[node]) return '#e24bd0';
    const { names } = tree;
    const name = tree.name[node];
    if (colourOf !== null && colourOf !== undefined) return colourOf(node);
    return kindColour(names.kind[name], names.module[name] || names.text[name]);
  }

  outline(node, colour, width) {
    const frame = node < 0 ? undefined : this.frames.find((one) => one.node === node);
    if (frame === undefined) return;
    this.context.strokeStyle = colour;
    this.context.lineWidth = width;
    this.context.strokeRect(frame.x + 0.5, this.top(frame) + 0.5, Math.max(1, frame.width - 1),
        ROW - 2);
  }

  top(frame) {
    return (this.shown.isIcicle ? frame.depth : this.depth - 1 - frame.depth) * ROW;
  }

  frameAt(x, y) {
    const row = Math.floor(y / ROW);
    const depth = this.shown?.isIcicle ? row : this.depth - 1 - row;
    return this.rows?.[depth]?.find((frame) => x >= frame.x && x < frame.x + frame.width);
  }

  // ------------------------------------------------------------------ people

  listen() {
    const { canvas } = this;
    canvas.addEventListener('pointermove', (event) => this.hover(event));
    canvas.addEventListener('pointerleave', () => this.unhover());
    canvas.addEventListener('click', (event) => {
      const frame = this.frameAt(event.offsetX, event.offsetY);
      if (frame === undefined) return;
      this.focused = frame.node;
      this.callbacks.onPick(frame.node);
      this.callbacks.onZoom(frame.node);
    });
    canvas.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.resized()).observe(this.element);
  }

  resized() {
    const width = this.element.clientWidth;
    if (width === this.width || width === 0) return;
    this.width = width;
    this.draw();
  }

  hover(event) {
    const frame = this.frameAt(event.offsetX, event.offsetY);
    const node = frame === undefined ? -1 : frame.node;
    if (node !== this.hovered) {
      this.hovered = node;
      this.paint();
    }
    if (node < 0) hideTip();
    else showTip(this.callbacks.describe(node), event.clientX, event.clientY);
  }

  unhover() {
    this.hovered = -1;
    hideTip();
    if (this.shown !== null) this.paint();
  }

  key(event) {
    if (this.shown === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const { zoom, isIcicle } = this.shown;
    const at = this.frames.some((frame) => frame.node === this.focused) ? this.focused : zoom;
    const moves = {
      ArrowLeft: () => this.sibling(at, -1),
      ArrowRight: () => this.sibling(at, 1),
      ArrowUp: () => (isIcicle ? this.parent(at) : this.firstChild(at)),
      ArrowDown: () => (isIcicle ? this.firstChild(at) : this.parent(at)),
      Home: () => 0,
    };
    if (moves[event.key]) {
      this.focus(moves[event.key]());
    } else if (event.key === 'Enter' || event.key === ' ') {
      this.callbacks.onZoom(at);
    } else if (event.key === 'Escape' && zoom !== 0) {
      this.callbacks.onZoom(this.parent(zoom));
      event.stopPropagation();
    } else {
      return;
    }
    event.preventDefault();
  }

  focus(node) {
    this.focused = node;
    this.live.textContent = this.callbacks.describe(node).join(', ');
    this.callbacks.onPick(node);
    this.paint();
  }

  parent(node) {
    return Math.max(0, this.shown.tree.parent[node]);
  }

  firstChild(node) {
    const { tree, widths, sort } = this.shown;
    const visible = new Set(this.frames.map((frame) => frame.node));
    const children = sorted(tree, widths, node, sort).filter((child) => visible.has(child));
    return children.reduce((most, child) =>
        (most < 0 || widths[child] > widths[most] ? child : most), -1) < 0
      ? node
      : children.reduce((most, child) => (widths[child] > widths[most] ? child : most));
  }

  sibling(node, step) {
    const frame = this.frames.find((one) => one.node === node);
    const row = [...(this.rows[frame?.depth] ?? [])].sort((a, b) => a.x - b.x);
    return row[row.indexOf(frame) + step]?.node ?? node;
  }

  // ------------------------------------------------------------------- files

  toSvg() {
    const rects = this.frames.map((frame) => ({
      x: frame.x,
      y: this.top(frame),
      width: frame.width,
      height: ROW - 1,
      fill: this.colour(frame.node),
      ink: this.inkOf(frame.node),
      title: this.callbacks.describe(frame.node).join('\n'),
      text: this.fitted(frame),
    }));
    return svg(this.canvas.clientWidth, this.depth * ROW, '#ffffff', rects);
  }
}

function rowsOf(frames, depth) {
  const rows = Array.from({ length: depth }, () => []);
  for (const frame of frames) rows[frame.depth].push(frame);
  return rows;
}
