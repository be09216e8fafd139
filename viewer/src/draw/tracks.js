// What is drawn above the lanes, a track each: {id, title, note, most: end of its scale, height,
// paint(context, axis, y), tell(us, axis, dy) => [line]}. All share the time axis
// (geometry/time_axis.js), whose columns are pixels.

import { counted, exact, isKnown, short } from '../model/numbers.js';
import { themeColour } from './dom.js';
import { processColour } from './palette.js';
import { canvasPattern } from './patterns.js';

const DASH = 4; // pixels of the ticks' line, where samples are merged
const SCHEDULERS_MOST = 32; // lanes: more than that are lower
const STACKED = ['running', 'collecting', 'ready'];

export const MISSED = 'ticks are missing here';

export function column(axis, us) {
  return Math.max(0, Math.min(axis.pixels - 1, Math.floor((us - axis.fromUs) / axis.perPixel)));
}

/** What we did: how often processes were sampled, and when not. Thin: it is not about them. */
export function samplingTrackOf({ hertz, missed, coarse }, losses) {
  const within = ([from, to], us) => from <= us && us < to;
  return {
    id: 'sampling',
    title: 'ticks',
    note: '',
    height: 10,
    paint(context, axis, y) {
      context.fillStyle = themeColour('cell-empty');
      context.fillRect(axis.left, y + 7, axis.pixels, 2);
      context.fillStyle = themeColour('muted');
      for (const [from, to] of coarse?.times ?? []) {
        const end = axis.x(to);
        for (let x = axis.x(from); x < end; x += 2 * DASH) context.fillRect(x, y + 7, DASH, 2);
      }
      context.fillStyle = themeColour('warning');
      for (const [from, to] of missed) {
        if (to < axis.fromUs || from > axis.toUs) continue;
        const x = axis.x(Math.max(axis.fromUs, from));
        context.fillRect(x, y + 5, Math.max(1, axis.x(Math.min(axis.toUs, to)) - x), 5);
      }
    },
    tell(us) {
      const isMissed = missed.some((gap) => within(gap, us));
      const isCoarse = coarse?.times.some((time) => within(time, us));
      return [...(hertz > 0 ? [`usually sampled ${exact(Math.round(hertz))} times a second`] : []),
          ...(isMissed ? [MISSED] : []),
          ...(isCoarse ? [`coarse here: equal samples of ${coarse.us / 1e6} s are one`] : []),
          ...losses];
    },
  };
}

/** @param schedulers of makeSchedulers() */
export function schedulersTrackOf(schedulers, profile, colours) {
  const lane = schedulers.length <= 8 ? 8 : schedulers.length <= SCHEDULERS_MOST ? 4 : 2;
  const known = new Map();
  const colourOf = (process) => {
    if (!known.has(process)) {
      known.set(process, processColour(profile.label(process), colours.isDark));
    }
    return known.get(process);
  };
  return {
    id: 'schedulers',
    title: 'schedulers',
    note: 'what ran',
    isSampled: true,
    height: lane * schedulers.length,
    paint(context, axis, y) {
      schedulers.forEach(({ owner, ran, collecting }, n) => {
        const top = y + n * lane;
        for (let x = 0; x < axis.pixels; x++) {
          if (owner[x] < 0 || ran[x] < 0.02) continue;
          const isCollecting = collecting[x] > ran[x] / 2;
          context.fillStyle = isCollecting ? colours.collecting
              : colourOf(owner[x]);
          const height = Math.max(1, (lane - 1) * Math.min(1, ran[x]));
          context.fillRect(axis.left + x, top + lane - 1 - height, 1, height);
        }
      });
    },
    tell(us, axis, dy) {
      const n = Math.max(0, Math.min(schedulers.length - 1, Math.floor(dy / lane)));
      const x = column(axis, us);
      const { owner, ran, collecting } = schedulers[n];
      if (owner[x] < 0 || ran[x] < 0.005) return [`scheduler ${n + 1}: idle, or a process that was not sampled`];
      return [`scheduler ${n + 1}: mostly ${profile.label(owner[x])}`,
          `sampled processes ran for ${Math.round(100 * Math.min(1, ran[x]))} % of the time`,
          ...(collecting[x] > 0.01 ? [`${Math.round(100 * collecting[x])} % collecting`] : [])];
    },
  };
}

/** @param sums, peaks of makeLanes(); schedulers: how many are known of, or 0 */
export function activityTrackOf({ sums, peaks, sampling: { coarse } }, schedulers, colours) {
  const total = coarse ? sums.running.map((_, x) =>
      STACKED.reduce((sum, name) => sum + sums[name][x], 0)) : peaks;
  const most = Math.max(schedulers, greatest(peaks), greatest(total)) || 1;
  const height = 56;
  return {
    id: 'activity',
    title: 'on CPU and ready',
    note: schedulers > 0 ? `sampled; ${counted(schedulers, 'scheduler')}` : 'sampled, at a time',
    isSampled: true,
    most: exact(Math.round(most)),
    height,
    paint(context, axis, y) {
      context.fillStyle = themeColour('muted');
      peaks.forEach((peak, x) => peak > 0
          && context.fillRect(axis.left + x, y + height - (peak * height) / most, 1, 1));
      for (let x = 0; x < axis.pixels; x++) {
        let at = y + height;
        for (const name of STACKED) {
          const part = (sums[name][x] * height) / most;
          context.fillStyle = colours[name];
          context.fillRect(axis.left + x, at - part, 1, part);
          if (name === 'ready') {
            context.fillStyle = canvasPattern(context, 'hatch');
            context.fillRect(axis.left + x, at - part, 1, part);
          }
          at -= part;
        }
      }
      if (schedulers > 0 && schedulers < most) {
        const level = Math.round(y + height - (schedulers * height) / most) + 0.5;
        context.strokeStyle = themeColour('text');
        context.setLineDash([3, 3]);
        context.beginPath();
        context.moveTo(axis.left, level);
        context.lineTo(axis.left + axis.pixels, level);
        context.stroke();
        context.setLineDash([]);
      }
    },
    tell(us, axis) {
      const x = column(axis, us);
      return ['processes at a time, of those sampled', ...STACKED.map((name) =>
          `${name}: ${sums[name][x].toFixed(1)}`),
      ...(peaks[x] > 0 ? [`at most ${exact(Math.round(peaks[x]))} at a tick`] : [])];
    },
  };
}

// Without what only a few columns reach: one peak would flatten all the others.
export function greatest(values) {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.floor((sorted.length - 1) * 0.995)] ?? 0;
}

/** Points of flushes: a line between neighbours, a dot at each. */
export function runQueueTrackOf({ timesUs, runQueues }) {
  const points = known(timesUs, runQueues);
  const most = points.reduce((a, [, n]) => Math.max(a, n), 0) || 1;
  const height = 22;
  return {
    id: 'run_queues',
    title: 'run queue',
    note: 'at the dots',
    most: exact(most),
    height,
    paint(context, axis, y) {
      const level = linear(most, y + height - 2, y + 3);
      const colour = themeColour('accent');
      context.strokeStyle = colour;
      context.fillStyle = colour;
      context.lineWidth = 1;
      context.beginPath();
      for (const [us, n] of points) context.lineTo(axis.x(us), level(n));
      context.globalAlpha = 0.5;
      context.stroke();
      context.globalAlpha = 1;
      for (const [us, n] of points) context.fillRect(axis.x(us) - 1.5, level(n) - 1.5, 3, 3);
    },
    tell: (us) => nearest(points, us, ([at, n]) =>
        [`${exact(n)} in run queues at ${(at / 1e6).toFixed(1)} s`]),
  };
}

/** The share of the samples that match the search. */
export function matchesTrackOf(shares) {
  const height = 14;
  return {
    id: 'matches',
    title: 'matches',
    note: '',
    height,
    paint(context, axis, y) {
      context.fillStyle = themeColour('match');
      for (let x = 0; x < axis.pixels; x++) {
        const part = shares[x] > 0 ? Math.max(1, shares[x] * height) : 0;
        context.fillRect(axis.left + x, y + height - part, 1, part);
      }
    },
    tell: (us, axis) => [`${(100 * (shares[column(axis, us)] || 0)).toFixed(1)} % match`],
  };
}

// Where a number lies between 0, at the bottom, and the most.
export function linear(most, bottom, top) {
  return (n) => bottom + ((top - bottom) * n) / most;
}

function known(timesUs, values) {
  return timesUs.map((us, i) => [us, values[i]]).filter(([, n]) => isKnown(n));
}

export function nearest(points, us, text) {
  if (points.length === 0) return [];
  return text(points.reduce((best, one) =>
      (Math.abs(one[0] - us) < Math.abs(best[0] - us) ? one : best)));
}
