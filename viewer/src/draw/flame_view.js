// A flame graph on a canvas: drawing, pointer and keys. What it shows is given
// to show(); what people do is told to the callbacks.

import { fitted, isolated } from '../model/fitted.js';
import { exact, percent } from '../model/numbers.js';
import { depthOf, extentOf, moved, sorted, visibleFrames, zoomed } from
  '../geometry/flame_layout.js';
import { h, hideTip, showTip, sizeCanvas, themeColour } from './dom.js';
import { FlameGestures } from './flame_gestures.js';
import { openMenu } from './menu.js';
import { FOUND_COLOUR, inkOn, kindColour, kindPattern, pale } from './palette.js';
import { canvasPattern } from './patterns.js';
import { svg } from './save.js';

const ROW = 18;
const TEXT_LEAST = 26; // pixels
const PATTERN_LEAST = 4; // pixels
const ALL = [0, 1];
const WINDOW_LEAST = 1e-5;
const STEP = 1.4; // of a key, of what is seen
const FOUND_LEAST = 60; // pixels, to be read
const OPENED_LEAST = 20; // pixels, of the first frame of a block
const USUAL_TEXT = 'gen_server:handle_call/3 demo_order:run/2'; // as wide as most, a character
const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class FlameView {
  /**
   * @param callbacks {onZoom(node), describe(node, x) => [line], and, if there is a menu,
   * onMenu(node) => [{title, run}]; onMagnify(factor, x), if the view does not do so itself}
   */
  constructor(label, callbacks) {
    this.paints = new Map(); // by colour
    this.window = ALL; // of the zoomed node, what is seen
    this.pending = -1; // a node to be revealed in the next tree that is shown
    this.callbacks = callbacks;
    this.canvas = h('canvas', {
      class: 'flame',
      tabindex: '0',
      role: 'application',
      'aria-label': `${label}: arrows move, Enter zooms, Escape zooms out, `
          + 'w and s magnify, a and d pan, the Menu key opens a menu',
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
   * @param shown {tree, widths, zoom, sort, isIcicle, matches, colourOf(node), isLess(node),
   * isBlank(node)}; matches and colourOf may be null
   */
  show(shown) {
    const place = shown.tree.path(shown.zoom).join('\n');
    if (shown.tree !== this.shown?.tree) this.focused = this.hovered = -1;
    if (place !== this.place) this.window = ALL;
    if (shown.tree !== this.shown?.tree || shown.matches !== this.shown?.matches) this.found = null;
    this.place = place;
    this.shown = shown;
    this.draw();
    if (this.pending >= 0 && this.pending < shown.tree.size) this.reveal(this.pending);
    this.pending = -1;
  }

  draw() {
    if (this.shown === null) return;
    const { tree, widths, zoom, sort } = this.shown;
    const pixels = Math.max(200, this.element.clientWidth);
    const [from, to] = this.window;
    this.frames = visibleFrames(tree, widths, { zoom, pixels, sort, from, to });
    this.depth = depthOf(this.frames);
    this.rows = rowsOf(this.frames, this.depth);
    this.context = sizeCanvas(this.canvas, pixels, this.depth * ROW);
    this.paint();
  }

  paint() {
    const { context } = this;
    context.clearRect(0, 0, this.canvas.clientWidth || 1e5, this.depth * ROW);
    context.font = FONT;
    context.textBaseline = 'middle';
    this.character = context.measureText(USUAL_TEXT).width / USUAL_TEXT.length;
    this.panel = themeColour('panel');
    for (const frame of this.frames) this.paintFrame(context, frame);
    if (this.isZoomed) this.paintWindow(context);
    this.outline(this.hovered, themeColour('text'), 1);
    this.outline(this.focused, themeColour('accent'), 2);
  }

  paintFrame(context, frame) {
    if (this.shown.isBlank?.(frame.node)) return;
    const y = this.top(frame);
    const { fill, ink, pattern } = this.paintOf(frame);
    context.fillStyle = fill;
    context.fillRect(frame.x, y, frame.width, ROW - 1);
    if (pattern !== undefined && frame.width > PATTERN_LEAST) {
      context.fillStyle = canvasPattern(context, pattern);
      context.fillRect(frame.x, y, frame.width, ROW - 1);
    }
    if (frame.width > 3) {
      context.fillStyle = this.panel;
      context.fillRect(frame.x + frame.width - 0.5, y, 0.5, ROW - 1);
    }
    const text = this.fitted(frame);
    if (text === '') return;
    const { x, width } = this.seen(frame);
    context.fillStyle = ink;
    context.fillText(isolated(text), x + 3, y + ROW / 2, width - 5);
  }

  // Where the window lies in what is zoomed.
  paintWindow(context) {
    const [from, to] = this.window;
    const width = this.canvas.clientWidth;
    context.fillStyle = themeColour('accent');
    context.fillRect(from * width, 0, Math.max(4, (to - from) * width), 3);
  }

  /** The part of a frame that is not outside. */
  seen({ x, width }) {
    const left = Math.max(0, x);
    return { x: left, width: Math.min(this.canvas.clientWidth || 1e5, x + width) - left };
  }

  fitted(frame) {
    const { width } = this.seen(frame);
    if (width < TEXT_LEAST) return '';
    return fitted(frame.rest ? this.restText(frame) : this.textOf(frame.node),
        Math.floor((width - 5) / this.character));
  }

  textOf(node) {
    const { tree } = this.shown;
    return tree.names.shown[tree.name[node]];
  }

  restText({ rest: { count, weight } }) {
    const { widths } = this.shown;
    return `${exact(count)} ${count === 1 ? 'frame' : 'frames'}, ${percent(weight / widths[0])}`;
  }

  describe(frame, x) {
    return frame.rest ? [this.restText(frame), 'too narrow to be drawn; a click opens them']
        : this.callbacks.describe(frame.node, x);
  }

  // While something is searched, what is not it is pale.
  paintOf({ node, rest }) {
    if (rest) return { fill: themeColour('cell-missed'), ink: inkOn(themeColour('cell-missed')),
      pattern: 'hatch' };
    const { tree: { names, name }, matches, colourOf, isLess } = this.shown;
    const isFound = Boolean(matches?.[node]);
    const colour = isFound ? FOUND_COLOUR : this.colour(node);
    const isPale = matches && !isFound;
    const pattern = isFound || isPale ? undefined : !colourOf ? kindPattern(names.kind[name[node]])
        : isLess(node) ? 'hatch' : undefined;
    const key = `${colour} ${isPale ? this.panel : ''} ${pattern}`;
    if (!this.paints.has(key)) {
      const fill = isPale ? pale(colour, this.panel) : colour;
      this.paints.set(key, { fill, ink: inkOn(fill), pattern });
    }
    return this.paints.get(key);
  }

  colour(node) {
    const { tree: { names, name }, colourOf } = this.shown;
    if (colourOf) return colourOf(node);
    const id = name[node];
    return kindColour(names.kind[id], names.module[id] || names.text[id]);
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
    this.gestures = new FlameGestures(canvas, this);
    canvas.addEventListener('click', (event) => {
      if (!this.gestures.isClick || event.detail > 1) return;
      const frame = this.frameAt(event.offsetX, event.offsetY);
      if (frame === undefined) return;
      this.focused = frame.node;
      if (frame.rest) this.open(frame);
      else this.callbacks.onZoom(frame.node);
    });
    canvas.addEventListener('dblclick', () => {
      this.see(ALL);
      this.callbacks.onZoom(0);
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
    else showTip(this.describe(frame, event.offsetX), event.clientX, event.clientY);
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
      const block = this.frames.find(({ node, rest }) => node === at && rest);
      if (block) this.open(block);
      else this.callbacks.onZoom(at);
    } else if (event.key === 'ContextMenu' || (event.key === 'F10' && event.shiftKey)) {
      this.openMenu(null);
    } else if (this.magnify(event.key, at)) {
      event.stopPropagation();
    } else if (event.key === 'Escape' && this.isZoomed) {
      this.see(ALL);
      event.stopPropagation();
    } else if (event.key === 'Escape' && zoom !== 0) {
      this.callbacks.onZoom(this.parent(zoom));
      event.stopPropagation();
    } else {
      return;
    }
    event.preventDefault();
  }

  // The keys of other viewers, about the focused frame.
  magnify(key, node) {
    const frame = this.frames.find((one) => one.node === node);
    const { x, width } = frame ? this.seen(frame) : { x: 0, width: this.canvas.clientWidth };
    const middle = x + width / 2;
    const moves = {
      w: () => this.zoomBy(1 / STEP, middle),
      s: () => this.zoomBy(STEP, middle),
      a: () => this.see(moved(this.window, -0.2)),
      d: () => this.see(moved(this.window, 0.2)),
    };
    moves[key]?.();
    return key in moves;
  }

  focus(node) {
    this.focused = node;
    this.live.textContent = this.describe(this.frames.find((one) => one.node === node)
        ?? { node }).join(', ');
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

  // ------------------------------------------------------------------ window

  get isZoomed() {
    return this.window[1] - this.window[0] < 1;
  }

  zoomBy(factor, x) {
    if (this.callbacks.onMagnify) this.callbacks.onMagnify(factor, x);
    else this.see(zoomed(this.window, x / this.canvas.clientWidth, factor, WINDOW_LEAST));
  }

  moveBy(pixels) {
    this.see(moved(this.window, pixels / this.canvas.clientWidth));
  }

  /** Shows a block's frames: all of them, or as many as can be told apart. */
  open({ node, x, width }) {
    const { widths, zoom } = this.shown;
    const pixels = this.canvas.clientWidth;
    const [from, to] = this.window;
    const whole = (width / pixels) * (to - from);
    const first = (widths[node] / widths[zoom]) * (pixels / OPENED_LEAST);
    this.see(moved([from + (x / pixels) * (to - from), 0], 0,
        Math.max(WINDOW_LEAST, Math.min(whole, first))));
  }

  see(window) {
    this.window = window;
    hideTip();
    this.draw();
  }

  // ------------------------------------------------------------ menu, search

  /** Of the frame there, or of the focused one. */
  openMenu(place) {
    if (!this.callbacks.onMenu || this.shown === null) return false;
    const frame = place ? this.frameAt(place.x, place.y)
        : this.frames.find(({ node }) => node === this.focused);
    if (frame === undefined || frame.rest) return false;
    this.unhover();
    this.focus(frame.node);
    const { left, top } = this.canvas.getBoundingClientRect();
    const x = left + (place?.x ?? this.seen(frame).x);
    const y = top + (place?.y ?? this.top(frame) + ROW);
    openMenu(this.textOf(frame.node), this.callbacks.onMenu(frame.node), x, y, this.canvas);
    return true;
  }

  /**
   * To the next of what the search has found, the widest first; -1: to the one before.
   * @returns {index, count}, or null: nothing is found
   */
  next(step = 1) {
    if (!this.shown?.matches) return null;
    const { widths, matches } = this.shown;
    this.found ??= [...matches.keys()].filter((node) => matches[node] && widths[node] > 0)
        .sort((a, b) => widths[b] - widths[a] || a - b);
    const count = this.found.length;
    if (count === 0) return null;
    const at = this.found.indexOf(this.focused);
    const index = at < 0 && step < 0 ? count - 1 : (at + step + count) % count;
    this.reveal(this.found[index]);
    return { index, count };
  }

  /** Zooms and scrolls until the node can be read. */
  reveal(node) {
    const { tree, widths } = this.shown;
    const extent = extentOf(tree, widths, this.shown, node);
    if (extent === null) {
      this.pending = node;
      this.callbacks.onZoom(0);
      return;
    }
    const pixels = this.canvas.clientWidth;
    const [from, to] = extent;
    const width = Math.max(WINDOW_LEAST,
        Math.min(this.window[1] - this.window[0], ((to - from) * pixels) / FOUND_LEAST));
    const start = Math.min(from, Math.max(this.window[0], to - width));
    this.see(moved([start, 0], 0, width));
    this.focus(node);
    const frame = this.frames.find((one) => one.node === node);
    const panel = this.canvas.closest('[role=tabpanel]');
    const { top, height } = panel.getBoundingClientRect();
    const y = this.canvas.getBoundingClientRect().top + (frame ? this.top(frame) : 0) - top;
    if (y < 0 || y + ROW > height) panel.scrollBy({ top: y - height / 2 });
  }

  // ------------------------------------------------------------------- files

  toSvg() {
    const rects = this.frames.map((frame) => ({
      ...this.seen(frame),
      y: this.top(frame),
      height: ROW - 1,
      ...this.paintOf(frame),
      title: this.describe(frame).join('\n'),
      text: this.fitted(frame),
    }));
    return svg(this.canvas.clientWidth, this.depth * ROW, themeColour('panel'), rects);
  }
}

function rowsOf(frames, depth) {
  const rows = Array.from({ length: depth }, () => []);
  for (const frame of frames) rows[frame.depth].push(frame);
  return rows;
}
