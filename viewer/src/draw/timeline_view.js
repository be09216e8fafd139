// One time axis: tracks above, below them a lane for each process. Drag selects time.

import { TimeAxis } from '../geometry/time_axis.js';
import { isolated } from '../model/fitted.js';
import { clock, short } from '../model/numbers.js';
import { ACTIVITIES } from '../model/activity.js';
import { LANE_LINES } from '../model/lanes.js';
import { h, hideTip, showTip, sizeCanvas, themeColour } from './dom.js';
import { channels } from './palette.js';
import { canvasPattern } from './patterns.js';
import { MISSED } from './tracks.js';

const GUTTER = 150; // names, at the left
const SCALES = 60; // ends of scales, at the right
const NARROW = 720; // of the page: there is less room for both
const GAP = 5; // between tracks
const MISSED_LEAST = 2; // pixels
const AXIS = 16;
const LANE = 20;
const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const DRAG_LEAST = 4; // pixels
const LINE_PIXELS = 16; // of a wheel that counts lines
const STEP_US = 1e6; // of a key, or a tenth of what is shown
const LANES_KEPT = 400; // pictures
const NOT_SAMPLED = 0.02; // less of a cell is not seen
// Lines below this are small, whatever is the most of their lane.
const LINE_LEAST = { mailbox: 100, binaries: 4 * 1024 * 1024 };
const ARROWS_APART = 16; // pixels: between waits of a lane that is selected
const CHOSEN_MOST = 20; // processes: waits of more would hide the lanes
// Form says what colour says: what waits is low, what is ready is hatched.
const WAITING = 6; // pixels
const HATCH = 4; // pixels from line to line
const STACK = ['running', 'collecting', 'ready', 'other'];

/** Of the time axis: the room for names at the left, and for scales at the right. */
function marginsOf(width) {
  return width < NARROW ? { left: 92, right: 4 } : { left: GUTTER, right: SCALES };
}

export class TimelineView {
  /**
   * @param callbacks {onRange(range | null, isDone), onOther(range), onLane(lane, isAdded),
   * onTime([fromUs, toUs] | null, isDone), onResize()}
   */
  constructor(callbacks) {
    this.callbacks = callbacks;
    this.tracks = h('canvas', { class: 'tracks' });
    this.lanes = h('canvas', { class: 'lanes' });
    this.spacer = h('div', { class: 'lane-spacer' }, this.lanes);
    this.scroller = h('div', {
      class: 'lane-scroller', tabindex: '0', role: 'application',
      'aria-label': 'processes over time: up and down choose one, Enter shows only it, ' +
          'left and right select time, Escape clears',
      onscroll: () => this.paintLanes(),
    }, this.spacer);
    this.cursor = h('div', { class: 'cursor', hidden: true });
    this.live = h('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.element = h('div', { class: 'timeline-view' }, this.tracks, this.scroller, this.cursor,
        this.live);
    this.pictures = new Map();
    this.focused = -1;
    this.drag = null;
    this.listen();
  }

  /** The axis for a view of this time, at today's width. */
  axisOf(time) {
    const width = Math.max(260, this.element.clientWidth);
    const { left, right } = marginsOf(width);
    return new TimeAxis(time, left, Math.max(100, Math.floor(width - left - right)));
  }

  /**
   * @param shown {axis, wholeUs, startUs, tracks, lanes: of laneList(), laneOf(i),
   * isSelected(lane), isMatch(lane), colours, missed: [[fromUs, toUs)], range, other}
   */
  show(shown) {
    if (shown.lanes !== this.shown?.lanes || shown.laneOf !== this.shown?.laneOf
        || shown.colours.isDark !== this.shown?.colours.isDark) this.pictures.clear();
    if (shown.lanes !== this.shown?.lanes) {
      const lane = this.shown?.lanes[this.focused];
      this.focused = lane === undefined ? -1
          : shown.lanes.findIndex(({ processes: [first] }) => first === lane.processes[0]);
    }
    this.shown = shown;
    Object.assign(this.element.dataset, { left: shown.axis.left, pixels: shown.axis.pixels });
    this.scroller.style.maxHeight = `${Math.max(1, shown.lanes.length) * LANE}px`;
    this.spacer.style.height = `${shown.lanes.length * LANE}px`;
    this.paint();
  }

  /** Another selection of the same. */
  select(range, other) {
    if (!this.shown) return;
    Object.assign(this.shown, { range, other });
    this.paint();
  }

  paint() {
    if (!this.shown) return;
    this.paintTracks();
    this.paintLanes();
  }

  // ------------------------------------------------------------------ tracks

  // A selection is painted over what is kept of them.
  paintTracks() {
    const { tracks, axis } = this.shown;
    const width = this.element.clientWidth;
    const key = [tracks, axis.fromUs, axis.toUs, width, window.devicePixelRatio];
    if (!this.kindOfTracks?.every((part, i) => part === key[i])) {
      this.kindOfTracks = key;
      this.keptTracks = h('canvas');
      this.drawTracks(this.keptTracks, width);
    }
    const context = sizeCanvas(this.tracks, width, this.trackHeight);
    context.drawImage(this.keptTracks, 0, 0, width, this.trackHeight);
    this.paintRanges(context, this.trackHeight);
  }

  drawTracks(canvas, width) {
    const { axis, tracks } = this.shown;
    let y = GAP;
    this.places = tracks.map((track) => {
      const place = { track, y };
      y += track.height + GAP;
      return place;
    });
    this.trackHeight = y + AXIS;
    const context = sizeCanvas(canvas, width, this.trackHeight);
    context.textBaseline = 'alphabetic';
    for (const { track, y: top } of this.places) {
      context.save();
      this.paintTitle(context, track, top);
      context.beginPath();
      context.rect(axis.left, top, axis.pixels, track.height + 1);
      context.clip();
      track.paint(context, axis, top);
      if (track.isSampled) this.paintMissed(context, top, track.height);
      context.restore();
      this.paintScale(context, track, top);
    }
    this.paintAxis(context, y);
  }

  paintTitle(context, { title, note, height }, y) {
    const { left } = this.shown.axis;
    context.font = FONT;
    context.textAlign = 'right';
    context.fillStyle = themeColour('text');
    context.fillText(title, left - 8, y + Math.min(height, 11), left - 10);
    if (note === '' || height < 20) return;
    context.fillStyle = themeColour('muted');
    context.fillText(note, left - 8, y + 24, left - 10);
  }

  // Where the scale of a track ends, behind the right end of the axis.
  paintScale(context, { most }, y) {
    const { axis } = this.shown;
    if (!most || axis.left + axis.pixels + SCALES > this.element.clientWidth + 1) return;
    context.font = '10px system-ui, sans-serif';
    context.textAlign = 'left';
    context.fillStyle = themeColour('muted');
    context.fillText(most, axis.left + axis.pixels + 4, y + 9);
  }

  paintAxis(context, y) {
    const { axis } = this.shown;
    context.font = '10px system-ui, sans-serif';
    context.textAlign = 'left';
    context.fillStyle = themeColour('muted');
    for (const { us, text } of axis.marks()) {
      context.fillRect(axis.x(us), y, 1, 4);
      const x = axis.x(us) + 3;
      if (x + context.measureText(text).width < axis.left + axis.pixels + SCALES) {
        context.fillText(text, x, y + 10);
      }
    }
  }

  // Nothing is known of time without ticks: it is hatched if it is wide enough to be seen.
  paintMissed(context, top, height) {
    const { axis, missed } = this.shown;
    for (const [from, to] of missed) {
      const x = axis.x(Math.max(axis.fromUs, from));
      const width = axis.x(Math.min(axis.toUs, to)) - x;
      if (width < MISSED_LEAST) continue;
      for (const fill of [themeColour('cell-missed'), canvasPattern(context, 'hatch')]) {
        context.fillStyle = fill;
        context.fillRect(x, top, width, height);
      }
    }
  }

  // What is not selected is pale: a veil over the selection would change its colours.
  paintRanges(context, height) {
    const { range, other } = this.shown;
    const isOther = Boolean(this.drag?.isOther);
    const selected = isOther ? range : this.dragged() ?? range;
    if (selected) this.paintOutside(context, height, this.placeOf(selected));
    this.paintEdges(context, height, isOther ? this.dragged() : other, 'other');
    this.paintEdges(context, height, selected, 'accent');
  }

  // [from, to] in pixels, within the axis.
  placeOf(range) {
    const { axis } = this.shown;
    return range.map((us) => Math.max(axis.left, Math.min(axis.left + axis.pixels, axis.x(us))));
  }

  paintOutside(context, height, [from, to]) {
    const { axis } = this.shown;
    context.fillStyle = themeColour('panel');
    context.globalAlpha = 0.6;
    context.fillRect(axis.left, 0, from - axis.left, height);
    context.fillRect(to, 0, axis.left + axis.pixels - to, height);
    context.globalAlpha = 1;
  }

  paintEdges(context, height, range, colour) {
    if (!range) return;
    const [from, to] = this.placeOf(range);
    context.fillStyle = themeColour(colour);
    context.fillRect(from - 1, 0, 1.5, height);
    context.fillRect(Math.max(from + 1, to), 0, 1.5, height);
    context.fillRect(from, 0, to - from, 2);
  }

  // ------------------------------------------------------------------- lanes

  paintLanes() {
    if (!this.shown) return;
    const { lanes } = this.shown;
    const height = this.scroller.clientHeight;
    const top = this.scroller.scrollTop;
    const context = sizeCanvas(this.lanes, this.element.clientWidth - this.scrollbar(), height);
    context.imageSmoothingEnabled = false;
    const first = Math.floor(top / LANE);
    const end = Math.min(lanes.length, Math.ceil((top + height) / LANE));
    for (let i = first; i < end; i++) this.paintLane(context, i, i * LANE - top);
    this.paintMissed(context, 0, height);
    this.paintRanges(context, height);
    if (this.shown.waits) this.paintWaits(context, top);
  }

  // From a process to the one that it waits for: of a lane under the pointer at that time, of those
  // that are selected here and there.
  paintWaits(context, top) {
    const { axis, lanes, isSelected, waits } = this.shown;
    const placeOf = new Map(lanes.flatMap(({ processes }, i) => processes.map((p) => [p, i])));
    const drawn = new Set();
    const draw = (us, all) => {
      for (const { process, target, fromUs } of all) {
        const key = `${process} ${fromUs}`;
        if (placeOf.has(target) && !drawn.has(key)) {
          const [from, to] = [process, target].map((p) => (placeOf.get(p) + 0.5) * LANE - top);
          drawArrow(context, axis.x(us), from, to);
        }
        drawn.add(key);
      }
    };
    context.strokeStyle = context.fillStyle = themeColour('text');
    if (this.pointed) draw(this.pointed.us, this.pointed.waits);
    const chosen = lanes.filter(isSelected).flatMap(({ processes }) => processes);
    if (chosen.length > CHOSEN_MOST) return;
    for (let x = ARROWS_APART / 2; x < axis.pixels; x += ARROWS_APART) {
      const us = axis.us(axis.left + x);
      draw(us, waits.of(us, chosen));
    }
  }

  scrollbar() {
    return this.scroller.offsetWidth - this.scroller.clientWidth;
  }

  paintLane(context, i, y) {
    const { axis, lanes, isSelected, isMatch, colours } = this.shown;
    const lane = lanes[i];
    const { picture, lines, scales } = this.pictureOf(i);
    const isOn = isSelected(lane);
    if (isOn || i === this.focused) {
      context.fillStyle = themeColour('control');
      context.fillRect(0, y, axis.left - 4, LANE - 1);
    }
    context.drawImage(picture, axis.left, y + 1);
    for (const name of LANE_LINES) {
      if (lines[name]) this.paintLine(context, lines[name], axis.left, y, colours.lines, name);
    }
    context.font = isOn ? `600 ${FONT}` : FONT;
    context.textAlign = 'right';
    context.fillStyle = themeColour(isMatch?.(lane) ? 'match-text' : 'text');
    context.fillText(isolated(this.fitted(context, lane.text, axis.left - 12)), axis.left - 8,
        y + 14);
    context.textAlign = 'left';
    context.font = '10px system-ui, sans-serif';
    scales.forEach(([name, text], n) => {
      context.fillStyle = colours.lines[name].colour;
      const baseline = y + (scales.length > 1 ? 8 + 10 * n : 13);
      context.fillText(text, axis.left + axis.pixels + 4, baseline);
    });
    if (i === this.focused) {
      context.strokeStyle = themeColour('accent');
      context.strokeRect(0.5, y + 0.5, axis.left - 4, LANE - 2);
    }
  }

  // The end of a name tells more than its begin: "…:init/1".
  fitted(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    let kept = text;
    while (kept.length > 4 && context.measureText(`…${kept}`).width > room) kept = kept.slice(1);
    return `…${kept}`;
  }

  pictureOf(i) {
    const known = this.pictures.get(i);
    if (known !== undefined) return known;
    const made = this.makePicture(this.shown.laneOf(i));
    if (this.pictures.size >= LANES_KEPT) this.pictures.delete(this.pictures.keys().next().value);
    this.pictures.set(i, made);
    return made;
  }

  makePicture(lane) {
    const { axis, colours } = this.shown;
    const height = LANE - 3;
    const image = new ImageData(axis.pixels, height);
    const pixels = new Uint32Array(image.data.buffer);
    const colour = Object.fromEntries([...ACTIVITIES, 'match', 'hatch'].map((name) =>
        [name, pixelOf(colours[name] ?? themeColour(name))]));
    const shares = STACK.map((name) => lane.shares[ACTIVITIES.indexOf(name)]);
    for (let x = 0; x < axis.pixels; x++) {
      if (lane.known[x] < NOT_SAMPLED) continue;
      let y = height - 1;
      STACK.forEach((name, n) => {
        const rows = shares[n][x] > 0.01 ? Math.max(1, Math.round(shares[n][x] * height)) : 0;
        for (let k = 0; k < rows && y >= 0; k++, y--) {
          pixels[y * axis.pixels + x] = name === 'ready' && (x + y) % HATCH === 0 ? colour.hatch
              : colour[name];
        }
      });
      for (; y >= height - WAITING; y--) pixels[y * axis.pixels + x] = colour.waiting;
      if (lane.matches?.[x] > 0) pixels[x] = pixels[x + axis.pixels] = colour.match;
    }
    const picture = h('canvas', { width: axis.pixels, height });
    picture.getContext('2d').putImageData(image, 0, 0);
    const lines = {};
    const scales = [];
    for (const name of LANE_LINES) {
      if (!(lane[name]?.most > LINE_LEAST[name] / 10)) continue;
      lines[name] = linePoints(lane[name], LINE_LEAST[name], height);
      scales.push([name, short(lane[name].most, name === 'binaries' ? 'bytes' : 'count')]);
    }
    return { picture, lines, scales };
  }

  // Its edge keeps it apart from whatever is below.
  paintLine(context, points, left, y, styles, name) {
    context.beginPath();
    let isGap = true;
    for (let x = 0; x < points.length; x++) {
      if (points[x] !== points[x]) isGap = true;
      else if (isGap) {
        context.moveTo(left + x, y + points[x]);
        isGap = false;
      } else context.lineTo(left + x, y + points[x]);
    }
    context.strokeStyle = styles.edge;
    context.lineWidth = 3;
    context.stroke();
    context.strokeStyle = styles[name].colour;
    context.lineWidth = 1.5;
    context.setLineDash(styles[name].dash);
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 1;
  }

  // ------------------------------------------------------------------ people

  listen() {
    for (const canvas of [this.tracks, this.lanes]) {
      canvas.addEventListener('pointerdown', (event) => this.press(event, canvas));
      canvas.addEventListener('pointermove', (event) => this.move(event, canvas));
      canvas.addEventListener('pointerup', (event) => this.drop(event, canvas));
      canvas.addEventListener('pointercancel', () => this.abandon());
      canvas.addEventListener('pointerleave', () => this.leave());
    }
    this.element.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.scroller.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.resized()).observe(this.element);
    new ResizeObserver(() => this.paintLanes()).observe(this.scroller);
  }

  resized() {
    const width = this.element.clientWidth;
    if (width === this.width || width === 0) return;
    const isFirst = this.width === undefined;
    this.width = width;
    if (!isFirst) this.callbacks.onResize();
  }

  press(event, canvas) {
    if (event.button !== 0 || !this.shown) return;
    const { axis } = this.shown;
    this.drag = { from: event.offsetX, to: event.offsetX, isOther: event.altKey, isMoved: false,
      isTime: event.offsetX >= axis.left, canvas };
    if (event.pointerType === 'mouse') canvas.setPointerCapture(event.pointerId);
  }

  move(event, canvas) {
    if (!this.shown) return;
    const { drag } = this;
    if (drag?.isMoved) this.leave();
    else this.hover(event, canvas);
    if (drag === null || !drag.isTime) return;
    drag.to = event.offsetX;
    if (!drag.isMoved && Math.abs(drag.to - drag.from) < DRAG_LEAST) return;
    drag.isMoved = true;
    this.paint();
    if (!drag.isOther) this.callbacks.onRange(this.dragged(), false);
  }

  drop(event, canvas) {
    const { drag } = this;
    if (drag === null) return;
    const range = this.dragged();
    this.drag = null;
    if (range !== null) {
      if (drag.isOther) this.callbacks.onOther(range);
      else this.callbacks.onRange(range, true);
      return;
    }
    const lane = canvas === this.lanes ? this.laneAt(event) : undefined;
    if (lane !== undefined) this.callbacks.onLane(lane, event.shiftKey || event.ctrlKey
        || event.metaKey);
    else this.callbacks.onRange(null, true);
  }

  abandon() {
    this.drag = null;
    this.paint();
  }

  leave() {
    this.point(null);
    hideTip();
    this.cursor.hidden = true;
  }

  // Whole microseconds, as addresses have them.
  dragged() {
    if (this.drag === null || !this.drag.isMoved) return null;
    const { axis } = this.shown;
    const [from, to] = [this.drag.from, this.drag.to].sort((a, b) => a - b)
        .map((x) => Math.round(axis.us(x)));
    return from < to ? [from, to] : null;
  }

  laneAt(event) {
    return this.shown.lanes[Math.floor((event.offsetY + this.scroller.scrollTop) / LANE)];
  }

  wheel(event) {
    if (!this.shown) return;
    const { axis, wholeUs } = this.shown;
    const x = event.clientX - this.element.getBoundingClientRect().left;
    const isPan = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!event.ctrlKey && !event.metaKey && !isPan) return; // the page scrolls
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PIXELS : 1;
    this.callbacks.onTime(isPan ? axis.moved(lines * (event.deltaX || event.deltaY), wholeUs)
        : axis.zoomed(x, 1.0015 ** (lines * event.deltaY), wholeUs), false);
  }

  hover(event, canvas) {
    const { axis, startUs } = this.shown;
    const x = event.offsetX;
    const isTime = x >= axis.left && x < axis.left + axis.pixels;
    this.cursor.hidden = !isTime;
    if (isTime) this.cursor.style.left = `${x}px`;
    const us = axis.us(x);
    const when = `${(us / 1e6).toFixed(axis.perPixel < 1e4 ? 3 : 1)} s, ${clock(startUs + us)}`;
    const lane = canvas === this.lanes && isTime && this.laneAt(event);
    this.point(lane && this.shown.waits ? { us, waits: this.shown.waits.at(us, lane.processes) }
        : null);
    const lines = canvas === this.tracks ? this.tellTrack(event, us) : this.tellLane(event, us);
    if (lines === null) hideTip();
    else showTip(isTime ? [...lines, when] : lines, event.clientX, event.clientY);
  }

  point(pointed) {
    const isSeen = Boolean(this.pointed?.waits.length || pointed?.waits.length);
    this.pointed = pointed;
    if (isSeen) this.paintLanes();
  }

  // At most two of each.
  tellWaits({ processes }) {
    const waits = this.pointed?.waits ?? [];
    const own = waits.filter(({ process }) => processes.includes(process));
    const others = waits.length - own.length;
    return [...own.slice(0, 2).map(({ text }) => text),
      ...(others > 0 ? [`sampled processes that wait for it: ${others}`] : [])];
  }

  tellTrack(event, us) {
    const place = this.places?.find(({ track, y }) => event.offsetY >= y - GAP / 2
        && event.offsetY < y + track.height + GAP / 2);
    if (place === undefined) return null;
    return place.track.tell(us, this.shown.axis, event.offsetY - place.y);
  }

  tellLane(event, us) {
    const index = Math.floor((event.offsetY + this.scroller.scrollTop) / LANE);
    const lane = this.shown.lanes[index];
    if (lane === undefined) return null;
    const { axis } = this.shown;
    if (event.offsetX < axis.left) return [lane.text, ...lane.note, 'a click shows only it'];
    const made = this.shown.laneOf(index);
    const x = Math.max(0, Math.min(axis.pixels - 1, Math.floor((us - axis.fromUs)
        / axis.perPixel)));
    if (this.shown.missed.some(([from, to]) => from <= us && us < to)) return [lane.text, MISSED];
    if (made.known[x] < NOT_SAMPLED) return [lane.text, 'not sampled'];
    const { functionAt } = this.shown;
    const top = lane.processes.length === 1 && functionAt ? functionAt(lane.processes[0], us) : '';
    return [lane.text, ...(top === '' ? [] : [`in ${top}`]), ...this.tellWaits(lane), ...ACTIVITIES
        .map((name, n) => [name, made.shares[n][x]])
        .filter(([, share]) => share > 0.005)
        .map(([name, share]) => `${name}: ${Math.round(100 * share)} %`),
    ...LANE_LINES.filter((name) => made[name] && made[name].values[x] === made[name].values[x])
        .map((name) => `${name}: ${short(made[name].values[x],
            name === 'binaries' ? 'bytes' : 'count')}`)];
  }

  key(event) {
    if (!this.shown || event.ctrlKey || event.metaKey || event.altKey) return;
    const { lanes, range, axis, wholeUs } = this.shown;
    if (lanes.length === 0) return;
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step !== undefined) {
      this.focus(Math.max(0, Math.min(lanes.length - 1, this.focused + step)));
    } else if (event.key === 'Enter' && lanes[this.focused]) {
      this.callbacks.onLane(lanes[this.focused], event.shiftKey);
    } else if (move !== undefined) this.callbacks.onRange(this.stepped(move, event.shiftKey), true);
    else if (event.key === '+' || event.key === '-') {
      const middle = axis.left + axis.pixels / 2;
      this.callbacks.onTime(axis.zoomed(middle, event.key === '+' ? 0.5 : 2, wholeUs), true);
    } else if (event.key === 'Escape' && range) this.callbacks.onRange(null, true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // Without a range the first one is at the begin of what is shown.
  stepped(move, isExtended) {
    const { range, wholeUs, axis } = this.shown;
    const step = Math.min(STEP_US, (axis.toUs - axis.fromUs) / 10);
    if (range === null) return this.kept([axis.fromUs, axis.fromUs + step]);
    const [from, to] = range;
    if (isExtended) return this.kept([from, Math.max(from + step, to + move * step)]);
    const by = Math.max(-from, Math.min(wholeUs - to, move * (to - from)));
    return this.kept([from + by, to + by]);
  }

  kept([from, to]) {
    return [Math.round(from), Math.round(Math.min(to, this.shown.wholeUs))];
  }

  focus(index) {
    this.focused = index;
    const top = index * LANE;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + LANE > scrollTop + clientHeight) {
      this.scroller.scrollTop = top + LANE - clientHeight;
    }
    const lane = this.shown.lanes[index];
    this.live.textContent = `${lane.text}, ${lane.note.join(', ')}`;
    this.paintLanes();
  }
}

// From the bottom, which is 0, to the top, which is the most.
function linePoints({ values, most }, least, height) {
  const scale = (height - 3) / Math.max(most, least);
  return values.map((value) => height - value * scale);
}

function drawArrow(context, x, from, to) {
  const head = to > from ? -5 : 5;
  context.beginPath();
  context.arc(x, from, 2.5, 0, 7);
  context.moveTo(x, to);
  context.lineTo(x - 3.5, to + head);
  context.lineTo(x + 3.5, to + head);
  context.fill();
  context.fillRect(x - 0.75, from, 1.5, to - from);
}

// A colour as one number of an image's memory.
function pixelOf(colour) {
  return new Uint32Array(Uint8Array.of(...channels(colour), 255).buffer)[0];
}
