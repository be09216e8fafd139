// The selection and the settings of the page. It lives in the address, behind the #, which no
// server sees: an address is a view.

import { levelNames } from '../model/levels.js';

const DEFAULTS = {
  file: '', // the profile's name; empty: the newest
  measure: 'samples',
  heat: false, // is the heatmap shown in place of the lanes
  tracks: '', // of the node: the most telling ones, or all
  rows: 0, // of the heatmap, a column; 0: cells of whole ticks
  range: null, // what is selected: [fromUs, toUs) since the profile's start; null: all
  time: null, // what the time axis shows; null: all
  lanes: 'odd', // how lanes are sorted
  allocators: '', // the one that is shown over time; empty: none is shown
  fold: '', // lanes: a process each, or all of an application or an initial call
  levels: null, // words of levels.js; null: those that suit the measure
  stacks: '', // over time: the number of a scheduler, or empty: of a process
  view: 'flame',
  icicle: true,
  inverted: false,
  chains: false, // below a stack that of the process it waits for
  merge: '0', // recursion: '1' neighbours of one function, 'all': also with others between them
  lines: false,
  sort: 'width',
  show: 'busy', // on a CPU or ready; waiting; all
  hide: [], // modules
  search: '',
  zoom: [], // texts of the frames from the root
  pids: [],
  trace: '', // only samples of this trace, or of this span: its id
  function: '',
  calls: [], // functions whose calls are measured
  otherFile: '', // to compare with; empty: this one
  otherRange: null,
  compare: 'difference',
  absolute: false, // differences not normalised
  follow: true,
  theme: '',
};

const CHOICES = {
  rows: [0, 10, 25, 50, 100],
  lanes: ['odd', 'cpu', 'name'],
  fold: ['', 'application', 'call'],
  show: ['busy', 'waiting', 'all'],
  view: ['flame', 'compare', 'processes', 'sandwich', 'stacks', 'traces',
    'latency'],
  merge: ['0', '1', 'all'],
  sort: ['name', 'width'],
  tracks: ['', 'all'],
  compare: ['difference', 'elided'],
  theme: ['', 'light', 'dark'],
};

const RANGES = ['range', 'otherRange', 'time'];
const LIST_END = '\u001f'; // between the parts of a list; in no name

/** The same moments of a profile whose begin is later by `-us`. */
export function movedState(state, us) {
  const moved = (range) => {
    const [from, to] = range.map((at) => Math.max(0, at + us));
    return to > from ? [from, to] : null;
  };
  return { ...state, ...Object.fromEntries(RANGES.map((key) =>
      [key, state[key] && moved(state[key])])) };
}

/** From an address; what is wrong in it is as if it were not there. */
export function parseState(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  const state = { ...DEFAULTS };
  for (const key of Object.keys(DEFAULTS)) {
    if (given.has(key)) state[key] = parse(key, given.get(key));
  }
  if (state.chains) state.show = 'waiting'; // they are of nothing else
  return state;
}

function parse(key, text) {
  const initial = DEFAULTS[key];
  if (RANGES.includes(key)) return parseRange(text);
  if (key === 'levels') return levelNames(text.split('.'));
  if (CHOICES[key]) return CHOICES[key].find((choice) => String(choice) === text) ?? initial;
  if (Array.isArray(initial)) return text === '' ? [] : text.split(LIST_END);
  if (typeof initial === 'boolean') return text === '1';
  return text;
}

function parseRange(text) {
  const match = /^(\d{1,15})-(\d{1,15})$/.exec(text);
  if (match === null) return null;
  const [from, to] = [Number(match[1]), Number(match[2])];
  return from < to ? [from, to] : null;
}

export function formatState(state) {
  const given = new URLSearchParams();
  for (const [key, initial] of Object.entries(DEFAULTS)) {
    const text = format(key, state[key]);
    if (text !== format(key, initial)) given.set(key, text ?? '');
  }
  return `#${given}`;
}

function format(key, value) {
  if (value === null) return null;
  if (RANGES.includes(key)) return value.join('-');
  if (key === 'levels') return value.join('.');
  if (Array.isArray(value)) return value.join(LIST_END);
  if (typeof value === 'boolean') return value ? '1' : '0';
  return String(value);
}

const OF_FINDINGS = ['measure', 'show', 'levels', 'view'];

/** What a finding shows: the parts of a state that it may choose. */
export function viewOf(view) {
  const { levels, ...rest } = view;
  const given = { ...rest, ...(levels ? { levels: [levels].flat().join('.') } : {}) };
  const state = parseState(new URLSearchParams(given).toString());
  return Object.fromEntries(OF_FINDINGS.map((key) => [key, state[key]]));
}

/** The levels in use: growth and release never share a frame. */
export function levelsOf(state, measure) {
  const levels = state.levels ?? [measure.kind === 'allocated' ? 'heap' : 'status'];
  if (measure.kind !== 'delta') return levels.filter((level) => level !== 'sign');
  return levels.includes('sign') ? levels : ['sign', ...levels];
}
