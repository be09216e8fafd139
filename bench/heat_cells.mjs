// The heatmap of one process, as the viewer makes it of an index, for bench_timing:
//
//   node bench/heat_cells.mjs INDEX PID ROWS MEASURE
//
// prints Erlang terms: {start_us, Us}. and of each cell that has a value
// {cell, FromUs, ToUs, Value}., since the start.

import { readFileSync } from 'node:fs';
import { memoryBytes } from '../viewer/src/decode/bytes.js';
import { openIndex } from '../viewer/src/decode/index_file.js';
import { CELL, makeHeat } from '../viewer/src/model/heat.js';
import { heatScale } from '../viewer/src/model/heat_scale.js';
import { measureOf } from '../viewer/src/model/measures.js';
import { openProfile } from '../viewer/src/model/profile.js';
import { select } from '../viewer/src/model/selection.js';

const [path, pid, rows, measure] = process.argv.slice(2);
const bytes = readFileSync(path);
const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
const profile = await openProfile(await openIndex(memoryBytes(buffer)), path);
const selection = await select(profile, null, { pids: [pid], show: 'busy' });
// As wide as it needs for columns of a second.
const axis = { fromUs: 0, toUs: profile.durationUs, pixels: Infinity };
const scale = heatScale(profile.durationUs, axis, Number(rows), await profile.ticks());
const heat = await makeHeat(selection, measureOf(profile, measure), scale);

console.log(`{start_us, ${profile.startUs}}.`);
heat.values.forEach((value, cell) => {
  if (heat.kinds[cell] !== CELL.value || value === 0) return;
  const [from, to] = heat.timeOf(cell);
  console.log(`{cell, ${Math.round(from)}, ${Math.round(to)}, ${Math.round(value)}}.`);
});
