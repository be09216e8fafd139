// A process, or some that are one lane, over time: what they did, their mailbox, their binaries.
// A sample holds until the next one of its process (steps.js); behind its last, for one tick. One
// that is several, in a coarse report, is a part of its interval.

import { ACTIVITIES, activitiesOf, isBusy } from './activity.js';
import { lowerBound } from './sorted.js';
import { Area, sampledWithin } from './steps.js';
import { tickAfter } from './ticks.js';
import { TRENDS, trendValues } from './trends.js';

const WORD_BYTES = 8;

/** What lines over a lane show. */
export const LANE_LINES = ['mailbox', 'binaries'];

/**
 * @param grid {fromUs, cells, cellUs}
 * @returns {sums(): by activity, how many processes at a time; peaks(): by cell, the most of those
 * on a CPU or ready at one tick; matches(isMatch): the share of the
 * samples; lane(processes, lines: of lineValues(), isMatch(row)): {shares: by activity, the part
 * of each cell that was so; known: how many of them were sampled; matches: how many matched;
 * mailbox, binaries: {values: the greatest of the cell, NaN where unknown; most}, or null}}
 */
export async function makeLanes(profile, grid) {
  await profile.need('process', 'time_us', 'status');
  const samples = await samplesOf(profile, grid);
  return {
    sums: () => activitySums(samples, profile.processCount),
    peaks: async () => peaksOf(await profile.found('busy', busyAtTicks), grid),
    lane: (processes, lines, isMatch) => laneOf(samples, processes, lines, isMatch),
    matches: (isMatch) => matchShares(samples, profile.processCount, isMatch),
  };
}

/** The values that lines need: {mailbox, binaries: numbers by row, in messages and bytes}. */
export async function lineValues(profile) {
  const lines = {};
  for (const name of LANE_LINES) {
    const values = await trendValues(profile, name);
    if (values !== null) lines[name] = { values, scale: TRENDS[name].unit === 'words'
        ? WORD_BYTES : 1, has: await hasMetric(profile, TRENDS[name].metrics[0]) };
  }
  return lines;
}

async function hasMetric(profile, name) {
  await profile.need('schema');
  const metric = profile.metric(name);
  const has = profile.header.schemas.map((metrics) => metrics.includes(metric));
  const { schema } = profile.columns;
  return (row) => has[schema[row]];
}

export async function samplesOf(profile, grid) {
  const { usualUs } = await profile.ticks();
  const byProcess = await profile.byProcess();
  return new Samples(profile, byProcess, await profile.coarse(), usualUs, grid);
}

// Of merged samples the times say nothing about ticks.
async function busyAtTicks(profile) {
  const { starts } = await profile.ticks();
  const coarse = await profile.coarse();
  const { time_us: time, status } = profile.columns;
  const busy = profile.statuses.map((name) => name === '' || isBusy(name));
  const counts = new Float64Array(starts.length);
  profile.eachRun(0, profile.rows, (first, end) => {
    for (let row = first; row < end; row++) {
      if (busy[status[row]] && !coarse?.has(time[row])) counts[tickAfter(starts, time[row]) - 1]++;
    }
  });
  return { starts, counts };
}

function peaksOf({ starts, counts }, { cells, cellUs, fromUs }) {
  const peaks = new Float64Array(cells);
  const end = tickAfter(starts, fromUs + cells * cellUs);
  for (let tick = tickAfter(starts, fromUs); tick < end; tick++) {
    const cell = Math.floor((starts[tick] - fromUs) / cellUs);
    if (counts[tick] > peaks[cell]) peaks[cell] = counts[tick];
  }
  return peaks;
}

// The samples of the window, a process at a time.
class Samples {
  constructor(profile, { rows, starts }, coarse, usualUs, grid) {
    const { time_us: time, status } = profile.columns;
    Object.assign(this, { rows, starts, time, status, coarse, grid });
    this.looks = profile.looks;
    this.activity = activitiesOf(profile.statuses);
    // Of a single tick all is known. Times of merged samples do not tell how long one lasts.
    this.tickUs = coarse?.tickUs ?? (usualUs || profile.durationUs);
    this.within = sampledWithin(coarse?.tickUs ?? usualUs);
    this.endUs = grid.fromUs + grid.cells * grid.cellUs;
  }

  /**
   * Calls each(row, fromUs, untilUs, part) for the time that each sample of the process holds, for
   * this part of it: 1, unless it is coarse.
   */
  eachHeld(process, each) {
    const { rows, starts, time, looks, within, tickUs, endUs, coarse } = this;
    const end = starts[process + 1];
    for (let at = this.firstOf(process); at < end; at++) {
      const row = rows[at];
      const from = time[row];
      if ((coarse?.beginOf(from) ?? from) >= endUs) return;
      if (coarse?.has(from)) {
        const part = (looks?.[row] ?? 1) / coarse.ticksOf(from);
        for (const [begin, until] of coarse.spansOf(from)) each(row, begin, until, part);
        continue;
      }
      const next = at + 1 < end ? rows[at + 1] : -1;
      // A merged sample tells of all the time since the one before it.
      const isHeld = next >= 0 && (time[next] - from <= within
          || (looks !== null && looks[next] > 1));
      const isLastFine = coarse !== null && isHeld && coarse.has(time[next]);
      each(row, from, isHeld && !isLastFine ? time[next] : from + tickUs, 1);
    }
  }

  // The last sample before the window, which may hold within it.
  firstOf(process) {
    const { rows, starts, time, grid, coarse } = this;
    const least = coarse?.beginOf(Math.max(0, grid.fromUs)) ?? grid.fromUs;
    const first = lowerBound(starts[process], starts[process + 1], (i) => time[rows[i]] < least);
    return Math.max(starts[process], first - 1);
  }

  area() {
    return new Area(this.grid.cells, this.grid.cellUs, this.grid.fromUs);
  }
}

function activitySums(samples, count) {
  const means = activityMeans(samples, Array.from({ length: count }, (_, process) => process));
  return Object.fromEntries(ACTIVITIES.map((name, i) => [name, means[i]]));
}

// By activity, how many of the processes were so at a time.
function activityMeans(samples, processes) {
  const areas = ACTIVITIES.map(() => samples.area());
  const { activity, status } = samples;
  for (const process of processes) {
    samples.eachHeld(process, (row, from, until, part) =>
        areas[activity[status[row]]].add(from, until, part));
  }
  return areas.map((area) => area.means());
}

function matchShares(samples, processes, isMatch) {
  const matched = samples.area();
  const all = samples.area();
  for (let process = 0; process < processes; process++) {
    samples.eachHeld(process, (row, from, until, part) => {
      all.add(from, until, part);
      if (isMatch(row)) matched.add(from, until, part);
    });
  }
  const sums = all.means();
  return matched.means().map((sum, cell) => (sums[cell] > 0 ? sum / sums[cell] : 0));
}

function laneOf(samples, processes, lines, isMatch) {
  const shares = activityMeans(samples, processes);
  const known = shares[0].map((_, cell) => shares.reduce((sum, one) => sum + one[cell], 0));
  for (const share of shares) share.forEach((sum, cell) => {
    if (known[cell] > 0) share[cell] = sum / known[cell];
  });
  const lane = { processes, shares, known };
  if (isMatch) lane.matches = matchesOf(samples, processes, isMatch);
  for (const name of LANE_LINES) {
    lane[name] = lines?.[name] ? lineOf(samples, processes, lines[name]) : null;
  }
  return lane;
}

function matchesOf(samples, processes, isMatch) {
  const matched = samples.area();
  for (const process of processes) {
    samples.eachHeld(process, (row, from, until, part) => {
      if (isMatch(row)) matched.add(from, until, part);
    });
  }
  return matched.means();
}

// Of one process the greatest of each cell; of several the mean of their sum.
function lineOf(samples, processes, { values, scale, has }) {
  const value = (row) => (has(row) && values[row] >= 0 ? values[row] * scale : NaN);
  const line = processes.length === 1 ? greatest(samples, processes[0], value)
      : summed(samples, processes, value);
  return { values: line, most: line.reduce((most, one) => (one > most ? one : most), 0) };
}

function greatest(samples, process, value) {
  const { cells, cellUs, fromUs } = samples.grid;
  const line = new Float64Array(cells).fill(NaN);
  samples.eachHeld(process, (row, from, until) => {
    const held = value(row);
    const first = Math.max(0, Math.floor((from - fromUs) / cellUs));
    const last = Math.min(cells - 1, Math.floor((until - fromUs) / cellUs));
    for (let cell = first; cell <= last; cell++) if (!(line[cell] >= held)) line[cell] = held;
  });
  return line;
}

function summed(samples, processes, value) {
  const sum = samples.area();
  const known = samples.area();
  for (const process of processes) {
    samples.eachHeld(process, (row, from, until, part) => {
      const held = value(row);
      if (Number.isNaN(held)) return;
      sum.add(from, until, held * part);
      known.add(from, until, part);
    });
  }
  const knownMeans = known.means();
  return sum.means().map((mean, cell) => (knownMeans[cell] > 0 ? mean : NaN));
}

/**
 * What each scheduler ran: {owner: by cell the process that ran most of it, -1: none; ran: the
 * share of the cell that something sampled ran; collecting: of it, in the collector}; or [] where
 * the file does not tell.
 */
export async function makeSchedulers(profile, grid) {
  if (profile.header.columns.scheduler === undefined) return [];
  await profile.need('process', 'time_us', 'status', 'scheduler');
  const { scheduler, process, status } = profile.columns;
  const samples = await samplesOf(profile, grid);
  const count = scheduler.reduce((most, one) => (one > most ? one : most), 0);
  const lanes = Array.from({ length: count }, () => new SchedulerLane(samples));
  const longest = 2 * samples.tickUs; // it may have left between two ticks that are further apart
  for (let p = 0; p < profile.processCount; p++) {
    samples.eachHeld(p, (row, from, until, part) => {
      if (scheduler[row] === 0) return;
      const isCollecting = ACTIVITIES[samples.activity[status[row]]] === 'collecting';
      const last = part < 1 ? until : Math.min(until, from + longest);
      lanes[scheduler[row] - 1].add(process[row], from, last, part, isCollecting);
    });
  }
  return lanes.map((lane) => lane.finish());
}

class SchedulerLane {
  constructor(samples) {
    const { grid } = samples;
    this.grid = grid;
    this.ran = samples.area();
    this.collecting = samples.area();
    this.owner = new Int32Array(grid.cells).fill(-1);
    this.most = new Float64Array(grid.cells); // what the owner ran, in microseconds
    this.last = new Int32Array(grid.cells).fill(-1); // the process that was added last, and what
    this.sum = new Float64Array(grid.cells); // it ran
  }

  add(process, from, until, part, isCollecting) {
    this.ran.add(from, until, part);
    if (isCollecting) this.collecting.add(from, until, part);
    const { cells, cellUs, fromUs } = this.grid;
    const first = Math.max(0, Math.floor((from - fromUs) / cellUs));
    const last = Math.min(cells - 1, Math.floor((until - fromUs) / cellUs));
    for (let cell = first; cell <= last; cell++) {
      const begin = fromUs + cell * cellUs;
      this.count(cell, process, part * (Math.min(until, begin + cellUs) - Math.max(from, begin)));
    }
  }

  // Processes come one after the other: a sum for the present one is enough.
  count(cell, process, us) {
    this.sum[cell] = us + (this.last[cell] === process ? this.sum[cell] : 0);
    this.last[cell] = process;
    if (this.sum[cell] <= this.most[cell]) return;
    this.most[cell] = this.sum[cell];
    this.owner[cell] = process;
  }

  finish() {
    return { owner: this.owner, ran: this.ran.means(), collecting: this.collecting.means() };
  }
}
