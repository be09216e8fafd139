// What a sample weighs: 1, its period, a metric, the change of one, or the time that it stands for.
// What stands for several observations weighs as much as they would; nothing changed at them.
// In a file of allocations it weighs what was allocated.
//
// A measure is known by a word: samples, period, collecting, binaries, memory, memory.delta.

import { BINARIES, helpOf } from './metrics_help.js';
import { tickAfter } from './ticks.js';

const DELTA = '.delta';
const WORD_BYTES = 8;

/** Of each: {id, title, help, kind, unit, metrics: the numbers of those that it is the sum of}. */
export function measuresOf(profile) {
  const { header, looks, isOfAllocations } = profile;
  if (isOfAllocations) return [one('allocated', 'allocated', 'bytes', [])];
  const metrics = header.metrics.flatMap((metric, number) =>
    metric.samples === 0
      ? []
      : [one('value', metric.name, metric.unit, [number]),
          one('delta', metric.name, metric.unit, [number])],
  );
  const period = header.columns.period;
  const hasPeriods = looks === null && (period.type !== 'const' || period.value !== 1);
  const binaries = BINARIES.map((name) => profile.metric(name));
  const hasBinaries = binaries.every((number) => number >= 0 && header.metrics[number].samples > 0);
  return [
    one('samples', 'samples', 'samples', []),
    ...(hasPeriods ? [one('period', 'period', 'count', [])] : []),
    ...(collecting(profile) < 0 ? [] : [one('time', 'collecting', 'us', [])]),
    ...(hasBinaries ? [one('value', 'binaries', 'bytes', binaries)] : []),
    ...metrics,
  ];
}

function one(kind, name, unit, metrics) {
  return {
    id: kind === 'delta' ? name + DELTA : name,
    title: kind === 'delta' ? `${name} delta` : kind === 'time' ? `time ${name}` : name,
    help: helpOf(name, kind),
    kind,
    unit,
    metrics,
  };
}

function collecting(profile) {
  return profile.statuses.indexOf('garbage_collecting');
}

/** The measure of this word, or samples. */
export function measureOf(profile, id) {
  const measures = measuresOf(profile);
  return measures.find((measure) => measure.id === id) ?? measures[0];
}

/** An array with the weight of each row; null: each weighs 1. */
export async function weightsOf(profile, measure) {
  switch (measure.kind) {
    case 'samples':
      return profile.looks;
    case 'period':
      await profile.need('period');
      return profile.columns.period;
    case 'allocated':
      await profile.need('period');
      return profile.kept(measure.id, async () =>
          Float64Array.from(profile.columns.period, (words) => WORD_BYTES * words));
    case 'time':
      return profile.kept(measure.id, () => timesOf(profile, collecting(profile)));
    case 'value':
      return timesLooks(await valuesOf(profile, measure), profile.looks);
    default:
      return profile.deltas(measure.metrics[0]);
  }
}

function timesLooks(values, looks) {
  return looks === null ? values : Float64Array.from(values, (value, row) => value * looks[row]);
}

/** By row, what its process has: of the measure's unit, for measures of the kind 'value'. */
export async function valuesOf(profile, { id, metrics, unit }) {
  if (metrics.length === 1) return profile.values(metrics[0]);
  return profile.kept(id, () => sumOf(profile, metrics, unit));
}

async function sumOf(profile, metrics, unit) {
  const [first, ...others] = await Promise.all(metrics.map((metric) => profile.values(metric)));
  const scale = unit === 'bytes' && profile.header.metrics[metrics[0]].unit === 'words'
      ? WORD_BYTES : 1;
  return Float64Array.from(first, (value, row) =>
      scale * others.reduce((sum, values) => sum + values[row], value));
}

// A sample of this status stands for the time since the tick before its own; behind a gap, for a
// usual one.
async function timesOf(profile, wanted) {
  await profile.need('status', 'time_us');
  const { starts, missed } = await profile.ticks();
  const steps = stepsOf(starts, missed);
  const { status, time_us: time } = profile.columns;
  const coarse = await profile.coarse();
  const stepAt = (us) => (coarse?.has(us) ? coarse.lengthOf(us) / coarse.ticksOf(us)
      : steps[Math.max(0, tickAfter(starts, us) - 1)]);
  return Float64Array.from(status, (one, row) => (one !== wanted ? 0
      : stepAt(time[row]) * (profile.looks === null ? 1 : profile.looks[row])));
}

/** The time before each tick: since the tick before, without the part that is missed. */
function stepsOf(starts, missed) {
  const steps = starts.map((start, i) => start - (starts[i - 1] ?? start));
  const ends = new Map(missed.map(([from, to]) => [to, from]));
  starts.forEach((start, i) => ends.has(start) && (steps[i] = ends.get(start) - starts[i - 1]));
  if (steps.length > 1) steps[0] = steps[1];
  return steps;
}
