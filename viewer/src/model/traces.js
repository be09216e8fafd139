// OpenTelemetry's traces, which samples of sessions with `otel => true` are of.

import { eachRow } from './selection.js';

/** What a person pastes: an id, or a traceparent header that has one. */
export function traceId(text) {
  const plain = text.trim().toLowerCase().replaceAll('-', ' ');
  return /\b[0-9a-f]{32}\b/.exec(plain)?.[0] ?? plain.replaceAll(' ', '');
}

/**
 * A row a trace: [{trace, samples, spans, processes: how many, names: of the processes with the
 * most samples first, firstUs, lastUs}]
 */
export async function traceTable(selection) {
  const { profile } = selection;
  const [trace, span] = await Promise.all([profile.word('trace'), profile.word('span')]);
  if (trace === null) return [];
  await profile.need('process', 'time_us');
  const { process, time_us: time } = profile.columns;
  const found = new Map();
  eachRow(selection, (row) => {
    if (trace[row] === 0) return;
    let one = found.get(trace[row]);
    if (one === undefined) {
      one = { samples: 0, spans: new Set(), of: new Map(), firstUs: time[row], lastUs: time[row] };
      found.set(trace[row], one);
    }
    one.samples += profile.looks === null ? 1 : profile.looks[row];
    one.spans.add(span[row]);
    one.of.set(process[row], (one.of.get(process[row]) ?? 0) + 1);
    one.firstUs = Math.min(one.firstUs, time[row]);
    one.lastUs = Math.max(one.lastUs, time[row]);
  });
  return [...found].map(([text, { samples, spans, of, firstUs, lastUs }]) => ({
    trace: profile.text(text), samples, spans: spans.size, processes: of.size,
    names: [...of].sort(([, a], [, b]) => b - a).map(([p]) => profile.label(p)),
    firstUs, lastUs,
  }));
}
