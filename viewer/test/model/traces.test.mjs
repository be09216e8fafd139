import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eachRow, select } from '../../src/model/selection.js';
import { traceId, traceTable } from '../../src/model/traces.js';
import { buildProfile } from './build_profile.mjs';

const A = '0af7651916cd43dd8448eb211c80319c';
const B = 'b7ad6b7169203331b7ad6b7169203331';
const SPANS = ['00f067aa0ba902b7', '53995c3f42cd8ad8'];

// Two processes work for the trace A, one of them in two spans; then one for B.
const SAMPLES = [
  { process: 0, us: 0 },
  { process: 0, us: 1e6, trace: A, span: SPANS[0] },
  { process: 1, us: 2e6, trace: A, span: SPANS[0] },
  { process: 0, us: 3e6, trace: A, span: SPANS[1] },
  { process: 0, us: 4e6, trace: B, span: SPANS[1] },
];

const build = () => buildProfile({ samples: SAMPLES,
  processes: [{ pid: '<0.1.0>', name: 'shop' }, { pid: '<0.2.0>', name: 'store' }] });

async function rowsOf(profile, trace, range = null) {
  const rows = [];
  eachRow(await select(profile, range, { pids: [], trace, show: 'all' }), (row) => rows.push(row));
  return rows;
}

test('an id selects the samples of its trace, or of its span', async () => {
  const profile = await build();
  assert.deepEqual(await rowsOf(profile, ''), [0, 1, 2, 3, 4]);
  assert.deepEqual(await rowsOf(profile, A), [1, 2, 3]);
  assert.deepEqual(await rowsOf(profile, A, [2e6, 3e6]), [2]);
  assert.deepEqual(await rowsOf(profile, SPANS[1]), [3, 4]);
  assert.deepEqual(await rowsOf(profile, 'f'.repeat(32)), []);
});

test('what is pasted may be a traceparent, in capitals, with blanks', () => {
  assert.equal(traceId(` ${A.toUpperCase()}\n`), A);
  assert.equal(traceId(`00-${A}-${SPANS[0]}-01`), A);
  assert.equal(traceId(SPANS[0]), SPANS[0]);
  assert.equal(traceId(A.replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')), A);
  assert.equal(traceId(''), '');
});

test('a trace has its samples, spans, processes and times', async () => {
  const profile = await build();
  const table = await traceTable(await select(profile, null, { pids: [], show: 'all' }));
  assert.deepEqual(table, [
    { trace: A, samples: 3, spans: 2, processes: 2, names: ['shop', 'store'], firstUs: 1e6,
      lastUs: 3e6 },
    { trace: B, samples: 1, spans: 1, processes: 1, names: ['shop'], firstUs: 4e6, lastUs: 4e6 },
  ]);
});
