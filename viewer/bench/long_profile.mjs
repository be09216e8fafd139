// node long_profile.mjs PROFILE TIMES > LONGER: a plain profile of flame_prof, repeated
// with its times moved on. Its length in time must be the unit of repetition.

import { readFileSync, writeSync } from 'node:fs';

const [, , path, times] = process.argv;
const text = readFileSync(path);
const places = []; // of each time: 10 digits, a dot, 6 digits
for (let at = 0; at < text.length; ) {
  const end = text.indexOf(10, at); // a header's line
  places.push(text.subarray(at, end).lastIndexOf(': ', -2) - 17 + at);
  at = text.indexOf('\n\n', end) + 2;
  if (at === 1) break;
}

const timeAt = (place) => Number(text.toString('latin1', place, place + 10)) * 1e6 +
    Number(text.toString('latin1', place + 11, place + 17));
const first = timeAt(places[0]);
const step = timeAt(places[places.length - 1]) - first + 9000;

function setTime(place, us) {
  const digits = String(us);
  text.write(digits.slice(0, 10), place, 'latin1');
  // No sample is on a whole second: doc/format.md.
  text.write(digits.slice(10) === '000000' ? '000001' : digits.slice(10), place + 11, 'latin1');
}

const began = places.map(timeAt);
for (let n = 0; n < Number(times); n++) {
  places.forEach((place, i) => setTime(place, began[i] + n * step));
  for (let at = 0; at < text.length; ) at += writeSync(1, text, at,
      Math.min(1 << 20, text.length - at));
}
