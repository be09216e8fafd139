// A mailbox that grows, and the process that owns it.

import { functionOf, looksOf } from './findings_stacks.js';
import { growthOf, seriesOf, stretches } from './findings_series.js';
import { exact } from './numbers.js';
import { at, lasting } from './findings_text.js';
import { trendValues } from './trends.js';

// Rushes come and go: a mailbox is long when it stays at a thousand for seconds, as the messages in
// it wait for about as long, or when it is so long that its memory and the copies of it count.
const LONG = 1000;
const LONG_US = 4e6;
const VERY_LONG = 10000;
// An owner that is ready for most of this time lacks a CPU, as all of a node under load do.
const READY = 0.5;
// One that never falls needs not be long yet.
const GROWN = 200;
const EMPTY = 0.05; // of the greatest length: it grows from there, and is drained there
const STAYED = 0.9; // of the greatest length at the end: it was not drained

export async function mailboxFindings(profile, { modules }) {
  const trend = await profile.trend('mailbox');
  if (trend === null) return [];
  const values = await trendValues(profile, 'mailbox');
  const found = [];
  for (let process = 0; process < profile.processCount; process++) {
    if (!(trend.most[process] >= GROWN)) continue;
    const series = await seriesOf(profile, process, values);
    const stretch = longStretch(series) ?? growingStretch(series);
    if (stretch === null) continue;
    const isLate = series.values[stretch.peak] < VERY_LONG
        && (await readyShare(profile, process, stretch)) > READY;
    if (!isLate) found.push(await toFinding(profile, modules, process, series, stretch));
  }
  return found;
}

// {first, peak, last}: places in the series.
function longStretch(series) {
  const { times, values } = series;
  const long = stretches(series, LONG).map(([first, last]) =>
    ({ first, last, peak: peakOf(values, first, last) }))
      .filter(({ first, last, peak }) => values[peak] >= VERY_LONG
        || times[last] - times[first] >= LONG_US);
  if (long.length === 0) return null;
  const worst = long.reduce((a, b) => (values[b.peak] > values[a.peak] ? b : a));
  return widened(series, worst.peak);
}

function growingStretch(series) {
  const growth = growthOf(series);
  if (growth === null || growth.to - growth.from < GROWN) return null;
  return widened(series, peakOf(series.values, 0, series.values.length - 1));
}

function peakOf(values, first, last) {
  let peak = first;
  for (let i = first; i <= last; i++) if (values[i] > values[peak]) peak = i;
  return peak;
}

// From where it began to grow to where it is drained.
function widened({ values }, peak) {
  const least = EMPTY * values[peak];
  let first = peak;
  while (first > 0 && (values[first] > least || values[first - 1] < values[first])) first--;
  let last = peak;
  while (last < values.length - 1 && (values[last] > least || values[last + 1] < values[last])) {
    last++;
  }
  return { first, peak, last };
}

async function readyShare(profile, process, { first, last }) {
  await profile.need('status');
  const { rows, starts } = await profile.byProcess();
  const { status } = profile.columns;
  const isReady = profile.statuses.map((text) => text === 'runnable');
  let all = 0;
  let ready = 0;
  for (let i = first; i <= last; i++) {
    const row = rows[starts[process] + i];
    const looks = looksOf(profile, row);
    all += looks;
    if (isReady[status[row]]) ready += looks;
  }
  return ready / all;
}

async function toFinding(profile, modules, process, series, { first, peak, last }) {
  const { times, values } = series;
  const range = [times[first], times[last] + 1];
  const { time_us: time } = profile.columns;
  const name = profile.label(process);
  return {
    kind: 'mailbox',
    size: values[peak],
    title: `${name}: a mailbox of ${exact(values[peak])}`,
    text: `The mailbox of ${name} ${rise(series, first, peak)}${fall(series, peak, last)}.`,
    processes: [process],
    range,
    view: { measure: 'samples', show: 'all', levels: ['process', 'status'], view: 'flame' },
    function: await functionOf(profile, process, modules, (row) =>
        time[row] >= range[0] && time[row] < range[1]),
  };
}

function rise({ times, values }, first, peak) {
  if (2 * values[first] > values[peak]) {
    const seen = `was ${exact(values[first])} long when first seen at ${at(times[first])}`;
    return peak === first ? seen : `${seen} and grew to ${exact(values[peak])}`;
  }
  return `grew from ${exact(values[first])} to ${exact(values[peak])} in `
      + `${lasting(times[peak] - times[first])} (${at(times[first])} to ${at(times[peak])})`;
}

function fall({ times, values }, peak, last) {
  if (last === peak) return '';
  if (values[last] >= STAYED * values[peak]) return ` and is ${exact(values[last])} at the end`;
  const rate = ((values[peak] - values[last]) * 1e6) / (times[last] - times[peak]);
  return `, then drained by about ${exact(Math.max(1, rounded(rate)))} a second`;
}

// Two digits: more would say more than is known.
function rounded(rate) {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, rate))) - 1);
  return unit * Math.round(rate / unit);
}
