// What processes had when they were first seen: a first sample has no change, and whatever made a
// process worth a look before that is in no picture of changes.

// Counters since the start of a process: what they were says nothing of now.
const COUNTERS = new Set(['reductions', 'minor_gcs']);

/**
 * @param selection of selection.js; measure: a delta
 * @returns {sum, most: {process, value}} of the processes whose first sample is in the selection,
 * or null where there is nothing to tell
 */
export async function firstSeen({ profile, process: isShown, fromUs, toUs }, measure) {
  const [metric] = measure.metrics;
  if (COUNTERS.has(profile.header.metrics[metric].name)) return null;
  await profile.need('time_us', 'schema');
  const values = await profile.values(metric);
  const { rows, starts } = await profile.byProcess();
  const { time_us: time, schema } = profile.columns;
  const has = profile.header.schemas.map((metrics) => metrics.includes(metric));
  let sum = 0;
  let most = { process: -1, value: 0 };
  for (let process = 0; process < profile.processCount; process++) {
    if (starts[process] === starts[process + 1] || (isShown && isShown[process] === 0)) continue;
    const row = rows[starts[process]];
    if (!has[schema[row]] || time[row] < fromUs || time[row] >= toUs) continue;
    sum += values[row];
    if (values[row] > most.value) most = { process, value: values[row] };
  }
  return sum > 0 ? { sum, most } : null;
}
