// Whether texts can be read on the colours, at least 4.5 to 1 (WCAG 2, AA), and whether all people
// can tell apart what means something else.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  activityColours, FOUND_COLOUR, inkOn, kindColour, kindPattern, lineStyles, pale, ramp,
  seriesColours,
} from '../../src/draw/palette.js';
import { PATTERN_INK } from '../../src/draw/patterns.js';
import { KINDS } from '../../src/model/kinds.js';
import { contrast, luminance, apart, nearest } from './vision.mjs';

const CLEAR = 0.12; // areas that touch
const VISIBLE = 0.06; // thin and different in form, or with a text
const THEMES = { light: false, dark: true };
const parts = Array.from({ length: 101 }, (_, i) => i / 100);

function inThemes(title, check) {
  for (const [theme, isDark] of Object.entries(THEMES)) test(`${title}, ${theme}`, () =>
    check(isDark));
}

const isFarEnough = (colours, least) => {
  const { pair, distance } = nearest(colours);
  assert.ok(distance >= least, `${pair}: ${distance}`);
};

// Of the blocks of style.css: light, dark.
const css = readFileSync(new URL('../../src/style.css', import.meta.url), 'utf8');
const blocks = [...css.matchAll(/:root[^{]*\{([^}]*)\}/g)].map(([, block]) =>
  Object.fromEntries([...block.matchAll(/--([\w-]+): *([^;]+);/g)].map(([, ...pair]) => pair)));
const variables = (isDark) => blocks[isDark ? 1 : 0];

const isLegible = (text, background, what) => {
  const reached = contrast(text, background);
  assert.ok(reached >= 4.5, `${what}: ${reached}`);
};

// Modules of all shades that a kind has.
const modules = Array.from({ length: 400 }, (_, i) => `module_${i}`);
const shades = (kind) => [...new Set(modules.map((module) => kindColour(kind, module)))];

inThemes('texts of the page can be read', (isDark) => {
  const { page, panel, control, text, muted, warning, accent } = variables(isDark);
  for (const background of [page, panel, control]) {
    for (const [what, ink] of Object.entries({ text, muted, warning })) {
      isLegible(ink, background, `${what} on ${background}`);
    }
  }
  isLegible(panel, accent, 'a pressed button');
  isLegible(panel, text, 'beside the pointer');
});

inThemes('a text on a frame of any kind can be read, pale or not', (isDark) => {
  const { panel } = variables(isDark);
  for (let kind = 0; kind < KINDS.length; kind++) {
    for (const shade of shades(kind)) {
      for (const fill of [shade, pale(shade, panel)]) isLegible(inkOn(fill), fill, KINDS[kind]);
      if (kindPattern(kind)) isLegible(inkOn(shade), patterned(shade), `pattern, ${KINDS[kind]}`);
    }
  }
});

function patterned(fill) {
  const below = fill.match(/\d+/g).map(Number);
  const share = PATTERN_INK[3];
  return `rgb(${below.map((n, i) => Math.round(n * (1 - share) + PATTERN_INK[i] * share)).join()})`;
}

test('frames of two kinds differ by colour or pattern', () => {
  for (let one = 0; one < KINDS.length; one++) {
    for (let other = 0; other < one; other++) {
      if (kindPattern(one) !== kindPattern(other)) continue;
      for (const colour of shades(one)) {
        for (const another of shades(other)) {
          const distance = apart(colour, another);
          assert.ok(distance >= VISIBLE, `${KINDS[one]}, ${KINDS[other]}: ${distance}`);
        }
      }
    }
  }
});

inThemes('what is found stands out, and can be read', (isDark) => {
  isLegible(inkOn(FOUND_COLOUR), FOUND_COLOUR, 'found');
  const { panel } = variables(isDark);
  for (let kind = 0; kind < KINDS.length; kind++) {
    for (const shade of shades(kind)) {
      const distance = apart(FOUND_COLOUR, pale(shade, panel));
      assert.ok(distance >= CLEAR, `${KINDS[kind]}: ${distance}`);
    }
  }
});

inThemes('a text on a change of any size can be read', (isDark) => {
  const { diverging } = ramp(isDark);
  for (const t of [...parts, ...parts.map((part) => -part)]) {
    const colour = diverging(t);
    const reached = contrast(colour, inkOn(colour));
    assert.ok(reached >= 4.5, `at ${t}: ${reached}`);
  }
});

inThemes('the less there is, the more a cell looks like the page', (isDark) => {
  const { sequential } = ramp(isDark);
  const lights = parts.map((t) => luminance(sequential(t)) * (isDark ? 1 : -1));
  for (let i = 1; i < lights.length; i++) {
    assert.ok(lights[i] > lights[i - 1] - 0.001, `at ${parts[i]}`);
  }
  assert.ok(isDark ? lights[0] < 0.03 : lights[0] < -0.6);
});

inThemes('growth and release differ, and both from nothing', (isDark) => {
  const { diverging } = ramp(isDark);
  for (const t of parts.filter((part) => part >= 0.3)) {
    const all = { growth: diverging(t), release: diverging(-t), nothing: diverging(0) };
    const { pair, distance } = nearest(all);
    assert.ok(distance >= CLEAR, `at ${t}: ${pair} ${distance}`);
  }
});

inThemes('what processes do differs', (isDark) => isFarEnough(activityColours(isDark), CLEAR));

inThemes('areas on each other differ, and from the page', (isDark) => {
  const { notSampled } = activityColours(isDark);
  isFarEnough({ ...seriesColours(isDark), notSampled }, CLEAR);
});

inThemes('lines over lanes differ from lanes and from each other', (isDark) => {
  const activities = activityColours(isDark);
  const { mailbox, binaries, edge } = lineStyles(isDark);
  assert.notDeepEqual(mailbox.dash, binaries.dash);
  assert.ok(apart(mailbox.colour, binaries.colour) >= VISIBLE);
  for (const line of [mailbox, binaries]) {
    isFarEnough({ line: line.colour, edge }, CLEAR);
    for (const [activity, colour] of Object.entries(activities)) {
      const distance = apart(line.colour, colour);
      assert.ok(distance >= VISIBLE, `${line.colour} on ${activity}: ${distance}`);
    }
    for (const usual of ['waiting', 'notSampled']) {
      assert.ok(contrast(line.colour, activities[usual]) >= 3, usual);
    }
  }
});
