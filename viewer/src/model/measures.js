// What a sample weighs: 1, its period, a metric, or the change of one. What stands
// for several observations weighs as much as they would; nothing changed at them.
//
// A measure is known by a word: samples, period, memory, memory.delta.

const DELTA = '.delta';

export function measuresOf(profile) {
  const metrics = profile.header.metrics.flatMap((metric, number) =>
    metric.samples === 0
      ? []
      : [one('value', metric.name, metric.unit, number),
          one('delta', metric.name, metric.unit, number)],
  );
  const period = profile.header.columns.period;
  const hasPeriods = profile.looks === null && (period.type !== 'const' || period.value !== 1);
  return [
    one('samples', 'samples', 'samples', -1),
    ...(hasPeriods ? [one('period', 'period', 'count', -1)] : []),
    ...metrics,
  ];
}

function one(kind, name, unit, metric) {
  return {
    id: kind === 'delta' ? name + DELTA : name,
    title: kind === 'delta' ? `${name} delta` : name,
    kind,
    unit,
    metric,
  };
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
    case 'value':
      return timesLooks(await profile.values(measure.metric), profile.looks);
    default:
      return profile.deltas(measure.metric);
  }
}

function timesLooks(values, looks) {
  return looks === null ? values : Float64Array.from(values, (value, row) => value * looks[row]);
}
