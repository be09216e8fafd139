// What a sample weighs: 1, its period, a metric, or the change of one.
//
// A measure is known by a word: samples, period, memory, memory.delta.

const DELTA = '.delta';

export function measuresOf(profile) {
  const metrics = profile.header.metrics.flatMap((metric, number) =>
    isOwn(profile, metric)
      ? []
      : [one('value', metric.name, metric.unit, number), one('delta', metric.name, metric.unit, number)],
  );
  const period = profile.header.columns.period;
  const isWeighted = period.type !== 'const' || period.value !== 1;
  return [
    one('samples', 'samples', 'samples', -1),
    ...(isWeighted ? [one('period', 'period', 'count', -1)] : []),
    ...metrics,
  ];
}

// What the profiler tells of itself stands in a few rows of its own.
function isOwn(profile, metric) {
  return profile.hasOwn && metric.value.type === 'sparse';
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
      return null;
    case 'period':
      await profile.need('period');
      return profile.columns.period;
    case 'value':
      return profile.values(measure.metric);
    default:
      return profile.deltas(measure.metric);
  }
}
