// Colours. All people can tell apart what means something else: colours.test.mjs simulates those
// who see fewer colours.

import { hsl } from 'd3-color';
import { interpolateRgb, piecewise } from 'd3-interpolate';
import { interpolateYlGnBu } from 'd3-scale-chromatic';
import { KINDS } from '../model/kinds.js';
import { cssPattern } from './patterns.js';

const RAMPS = {
  light: { sequential: interpolateYlGnBu,
    diverging: signed(['#08306b', '#4a97cf', '#f4f5f7', '#f29a38', '#7f2f04']) },
  dark: { sequential: (t) => interpolateYlGnBu(1 - t),
    diverging: signed(['#b5dcff', '#3d86c6', '#383e48', '#bb6a14', '#ffd39c']) },
};

// scale(-1..1)
function signed(colours) {
  const scale = piecewise(interpolateRgb, colours);
  return (t) => scale((t + 1) / 2);
}

/**
 * The same for the same: {sequential(0..1), diverging(-1..1)}; release and less are below 0. What
 * is nothing looks like the page.
 */
export function ramp(isDark) {
  return RAMPS[isDark ? 'dark' : 'light'];
}

// The lanes of processes and schedulers, by the words of activity.js.
const ACTIVITY_COLOURS = {
  light: {
    running: '#2f9e8a', ready: '#ffb02e', collecting: '#980584', waiting: '#aec8dc',
    other: '#302f26', notSampled: '#ffffff',
  },
  dark: {
    running: '#64d1d0', ready: '#ebd057', collecting: '#bb1ea1', waiting: '#3b4852',
    other: '#9c8d8a', notSampled: '#1d2026',
  },
};

/** {running, ready, collecting, waiting, other, notSampled} */
export function activityColours(isDark) {
  return ACTIVITY_COLOURS[isDark ? 'dark' : 'light'];
}

// Over lanes: `edge` is the colour of a wider line below, which keeps them apart from any area.
const LINE_STYLES = {
  light: {
    mailbox: { colour: '#14107a', dash: [] },
    binaries: { colour: '#ad3f08', dash: [5, 3] },
    edge: '#ffffff',
  },
  dark: {
    mailbox: { colour: '#d4f7f4', dash: [] },
    binaries: { colour: '#f28422', dash: [5, 3] },
    edge: '#1d2026',
  },
};

/** {mailbox: {colour, dash}, binaries: {colour, dash}, edge} */
export function lineStyles(isDark) {
  return LINE_STYLES[isDark ? 'dark' : 'light'];
}

const SERIES = {
  light: ['#3982fe', '#c08b4b', '#28d5d4', '#bb0d9b', '#dcd223', '#49493e'],
  dark: ['#3568e1', '#d16201', '#77ffe9', '#a0457f', '#e8ef37', '#9eaab3'],
};

/** Six areas on each other, as memory by kind: processes, binary, ets, code, atom, other. */
export function seriesColours(isDark) {
  return SERIES[isDark ? 'dark' : 'light'];
}

// Hue, saturation and light. Those that are near each other have a pattern.
const KIND_COLOURS = {
  application: [39, 86, 60],
  OTP: [213, 80, 70],
  BIF: [162, 48, 58],
  native: [327, 42, 70],
  gc: [357, 65, 42],
  pseudo: [0, 0, 54],
  level: [220, 14, 88],
};
const KIND_PATTERNS = { BIF: 'hatch', native: 'dots' };

/** Of a process on a scheduler's lane, the same for the same text. */
export function processColour(text, isDark) {
  const n = hash(text);
  return rgb(n % 360, 50, (isDark ? 58 : 46) + ((n >> 9) % 13) - 6);
}

/** What a search has found. */
export const FOUND_COLOUR = '#e24bd0';
const PALE = 0.6;

/** Modules of one kind differ a little. */
export function kindColour(kind, text) {
  const [hue, saturation, light] = KIND_COLOURS[KINDS[kind]];
  if (KINDS[kind] === 'level') return rgb(hue, saturation, light);
  const shade = hash(text);
  return rgb(hue + (shade % 13) - 6, saturation, light + ((shade >> 5) % 9) - 4);
}

/** A word of patterns.js; undefined: none. */
export function kindPattern(kind) {
  return KIND_PATTERNS[KINDS[kind]];
}

/** A background of CSS. */
export function kindSample(kind) {
  return [...(KIND_PATTERNS[kind] ? [cssPattern(KIND_PATTERNS[kind])] : []),
    rgb(...KIND_COLOURS[kind])].join(', ');
}

/** What others stand out from. */
export function pale(colour, panel) {
  return interpolateRgb(colour, panel)(PALE);
}

function rgb(hue, saturation, light) {
  return hsl(hue, saturation / 100, light / 100).formatRgb();
}

function hash(text) {
  let sum = 2166136261;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 16777619);
  return sum >>> 0;
}

const DARK_INK = '#000000'; // with a lighter one some colours have no ink that can be read
const LIGHT_INK = '#ffffff';

/** Whichever of the two is read better on this colour (WCAG 2, contrast ratio). */
export function inkOn(colour) {
  const behind = luminance(channels(colour));
  const contrast = (ink) => {
    const [low, high] = [behind, luminance(channels(ink))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  return contrast(DARK_INK) >= contrast(LIGHT_INK) ? DARK_INK : LIGHT_INK;
}

function luminance(colour) {
  const [red, green, blue] = colour.map((channel) => {
    const part = channel / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** "rgb(1, 2, 3)" or "#010203" => [1, 2, 3] */
export function channels(colour) {
  if (colour.startsWith('#')) return [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return colour.match(/\d+/g).slice(0, 3).map(Number);
}
