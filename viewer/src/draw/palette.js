// Colours. d3-scale-chromatic knows the scales that people have agreed upon.

import {
  interpolateCividis,
  interpolateInferno,
  interpolatePuOr,
  interpolateRdBu,
  interpolateViridis,
  interpolateYlOrRd,
} from 'd3-scale-chromatic';
import { KINDS } from '../model/kinds.js';

const GROWTH = ['#f7f4f2', '#f6c3b5', '#e57a66', '#c5302f', '#7f0d1c'];
const RELEASE = ['#f2f5f2', '#b9dfb9', '#6bbb77', '#2b8a4b', '#0b5228'];

/** sequential(0..1), diverging(-1..1): release and less below 0, growth above. */
export const PALETTES = {
  classic: {
    title: 'classic',
    sequential: (t) => interpolateYlOrRd(0.03 + 0.97 * t),
    diverging: (t) => steps(t < 0 ? RELEASE : GROWTH, Math.abs(t)),
  },
  cividis: {
    title: 'cividis (colour-blind safe)',
    sequential: interpolateCividis,
    diverging: (t) => interpolatePuOr(0.5 + t / 2),
  },
  viridis: {
    title: 'viridis (colour-blind safe)',
    sequential: interpolateViridis,
    diverging: (t) => interpolateRdBu(0.5 - t / 2),
  },
  inferno: {
    title: 'inferno (colour-blind safe)',
    sequential: interpolateInferno,
    diverging: (t) => interpolatePuOr(0.5 + t / 2),
  },
};

/** A differential flame graph: red or orange is more, blue or purple is less. */
export function changeColour(palette, t) {
  return palette === PALETTES.classic || palette === PALETTES.viridis
    ? interpolateRdBu(0.5 - t / 2)
    : interpolatePuOr(0.5 + t / 2);
}

// After Okabe and Ito, whose eight colours all people can tell apart.
const KIND_COLOURS = {
  application: [40, 92, 62],
  OTP: [202, 62, 68],
  BIF: [162, 48, 58],
  native: [327, 42, 70],
  gc: [18, 85, 58],
  pseudo: [0, 0, 72],
  level: [220, 14, 78],
};

/** Modules of one kind differ a little. */
export function kindColour(kind, text) {
  const [hue, saturation, light] = KIND_COLOURS[KINDS[kind]];
  const shade = hash(text);
  if (KINDS[kind] === 'level') return `hsl(${hue} ${saturation}% ${light}%)`;
  return `hsl(${hue + (shade % 17) - 8} ${saturation}% ${light + ((shade >> 5) % 13) - 6}%)`;
}

export function kindSample(kind) {
  const [hue, saturation, light] = KIND_COLOURS[kind];
  return `hsl(${hue} ${saturation}% ${light}%)`;
}

function hash(text) {
  let sum = 2166136261;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 16777619);
  return sum >>> 0;
}

function steps(colours, t) {
  const at = t * (colours.length - 1);
  const low = Math.min(colours.length - 2, Math.floor(at));
  return mix(colours[low], colours[low + 1], at - low);
}

function mix(a, b, t) {
  const channel = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
  const mixed = [0, 1, 2].map((i) => Math.round(channel(a, i) +
      (channel(b, i) - channel(a, i)) * t));
  return `rgb(${mixed.join(', ')})`;
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
