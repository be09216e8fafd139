// Tracks of the node's memory: by kind, with what the kernel counts; and of one allocator.

import { isKnown, short } from '../model/numbers.js';
import { themeColour } from './dom.js';
import { linear, nearest } from './tracks.js';

const AREA = 46;
const MARKS = 8; // pixels below it, of carriers
const MARK_APART = 7;
const LIMIT_NEAR = 2; // times the rest: a limit further away would flatten it

/** @param node of nodeTracks() */
export function memoryTrackOf(node, colours) {
  const { timesUs, memory: kinds, rss, limit } = node;
  const rows = timesUs.map((us, i) => ({ us, rss: rss[i], limit: limit[i],
    parts: kinds.map(({ bytes }) => bytes[i]) })).filter(({ parts }) => parts.every(isKnown));
  const most = mostOf(rows);
  const marks = marksOf(node);
  const height = AREA + (marks.length > 0 ? MARKS : 0);
  return {
    id: 'memory',
    title: 'memory of the node',
    note: rows.some((row) => isKnown(row.rss)) ? 'by kind; line: RSS' : 'by kind',
    most: short(most, 'bytes'),
    height,
    paint(context, axis, y) {
      const level = linear(most, y + AREA, y + 1);
      const points = rows.map(({ us, parts }) => ({ us, parts }));
      paintAreas(context, axis, level, points, colours);
      paintLine(context, rows.map(({ us, rss: n }) => [axis.x(us), level(n)]), 'text', []);
      paintLine(context, rows.map(({ us, limit: n }) => [axis.x(us), n <= most ? level(n) : NaN]),
          'warning', [5, 3]);
      paintMarks(context, axis, y + AREA + 1, marks);
    },
    tell: (us) => [...nearest(rows.map((row) => [row.us, row]), us, ([, row]) => told(row, kinds)),
        ...nearestMark(marks, us)],
  };
}

/** @param allocator of allocatorsOf() */
export function allocatorTrackOf({ timesUs }, { title, allocated, used }, colours) {
  const points = timesUs.map((us, i) => ({ us, parts: [used[i], allocated[i] - used[i]] }))
      .filter(({ parts }) => parts.every(isKnown));
  const most = points.reduce((a, { parts: [n, free] }) => Math.max(a, n + free), 0) || 1;
  return {
    id: 'allocator',
    title: `allocator: ${title}`,
    note: 'used, free',
    most: short(most, 'bytes'),
    height: AREA,
    paint(context, axis, y) {
      paintAreas(context, axis, linear(most, y + AREA, y + 1), points, colours);
    },
    tell: (us) => nearest(points.map((row) => [row.us, row.parts]), us, ([at, [n, free]]) => [
      `${title} at ${(at / 1e6).toFixed(1)} s: ${short(n + free, 'bytes')} allocated`,
      `used: ${short(n, 'bytes')}`, `free: ${short(free, 'bytes')}`]),
  };
}

function mostOf(rows) {
  const most = rows.reduce((a, { parts, rss }) =>
      Math.max(a, sum(parts), isKnown(rss) ? rss : 0), 0) || 1;
  return rows.reduce((a, { limit }) => (limit <= LIMIT_NEAR * most ? Math.max(a, limit) : a), most);
}

function told({ us, parts, rss, limit }, kinds) {
  return [`memory of the node at ${(us / 1e6).toFixed(1)} s: ${short(sum(parts), 'bytes')}`,
    ...kinds.map(({ name }, k) => `${name}: ${short(parts[k], 'bytes')}`),
    ...(isKnown(rss) ? [`RSS: ${short(rss, 'bytes')}`] : []),
    ...(isKnown(limit) ? [`limit of the cgroup: ${short(limit, 'bytes')}`] : [])];
}

// Stacked from below. One reading is a moment.
function paintAreas(context, axis, level, points, colours) {
  const below = points.map(() => 0);
  for (let k = 0; k < (points[0]?.parts.length ?? 0); k++) {
    const base = [...below];
    points.forEach(({ parts }, i) => (below[i] += parts[k]));
    context.fillStyle = colours[k];
    context.beginPath();
    points.forEach(({ us }, i) => context.lineTo(axis.x(us), level(below[i])));
    [...points].reverse().forEach(({ us }, i) =>
        context.lineTo(axis.x(us), level(base[points.length - 1 - i])));
    context.fill();
    if (points.length === 1) {
      const [top, foot] = [level(below[0]), level(base[0])];
      context.fillRect(axis.x(points[0].us) - 3, top, 6, foot - top);
    }
  }
}

// Its edge keeps it apart from the areas. Where a value is not known it has a gap.
function paintLine(context, points, colour, dash) {
  context.beginPath();
  let isGap = true;
  for (const [x, y] of points) {
    if (isKnown(y) && isGap) context.moveTo(x, y);
    else if (isKnown(y)) context.lineTo(x, y);
    isGap = !isKnown(y);
  }
  context.setLineDash(dash);
  for (const [style, width] of [['panel', 3.5], [colour, 1.5]]) {
    context.strokeStyle = themeColour(style);
    context.lineWidth = width;
    context.stroke();
  }
  context.setLineDash([]);
  context.lineWidth = 1;
}

// -------------------------------------------------------------------- carriers

// Readings since whose one before carriers came from the system, or were given back to it.
function marksOf({ timesUs, taken, givenBack }) {
  return Array.from(timesUs.slice(1), (us, i) => ({ us, sinceUs: timesUs[i],
    taken: taken[i + 1] - taken[i], givenBack: givenBack[i + 1] - givenBack[i] }))
      .filter((mark) => mark.taken > 0 || mark.givenBack > 0);
}

// Up: from the system; down: to it. Those that would cover another are left out.
function paintMarks(context, axis, y, marks) {
  const last = {};
  for (const mark of marks) {
    const x = axis.x(mark.us);
    for (const [what, foot, tip] of [['taken', 6, 0], ['givenBack', 0, 6]]) {
      if (!(mark[what] > 0) || x - last[what] < MARK_APART) continue;
      last[what] = x;
      const at = x + (what === 'taken' ? -2 : 2);
      context.fillStyle = themeColour(what === 'taken' ? 'accent' : 'other');
      context.beginPath();
      context.moveTo(at, y + tip);
      context.lineTo(at - 3, y + foot);
      context.lineTo(at + 3, y + foot);
      context.fill();
    }
  }
}

function nearestMark(marks, us) {
  return nearest(marks.map((mark) => [mark.us, mark]), us, ([at, { sinceUs, taken, givenBack }]) =>
      [`carriers from ${(sinceUs / 1e6).toFixed(1)} to ${(at / 1e6).toFixed(1)} s: `
        + `${taken || 0} taken, ${givenBack || 0} given back`]);
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
