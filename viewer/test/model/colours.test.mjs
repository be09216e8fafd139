// Whether texts can be read on the colours of frames: at least 4.5 to 1 (WCAG 2, AA).

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeColour, channels, inkOn, PALETTES } from '../../src/draw/palette.js';

function luminance(colour) {
  const linear = channels(colour).map((n) => n / 255)
      .map((n) => (n <= 0.04045 ? n / 12.92 : Math.pow((n + 0.055) / 1.055, 2.4)));
  return linear[0] * 0.2126 + linear[1] * 0.7152 + linear[2] * 0.0722;
}

function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

test('a text on a change of any size can be read', () => {
  for (const palette of Object.values(PALETTES)) {
    for (let t = -1; t <= 1; t += 0.01) {
      const colour = changeColour(palette, t);
      const reached = contrast(colour, inkOn(colour));
      assert.ok(reached >= 4.5, `${palette.title} at ${t}: ${reached}`);
    }
  }
});
