// The one track of a file of allocations.

import { short } from '../model/numbers.js';
import { themeColour } from './dom.js';
import { column, greatest } from './tracks.js';

/** @param rates bytes a second, of bars that are `width` columns wide */
export function allocatedTrackOf(rates, width) {
  const most = greatest(rates) || 1;
  const height = 56;
  return {
    id: 'allocated',
    title: 'allocated',
    note: 'a second',
    most: short(most, 'bytes'),
    height,
    paint(context, axis, y) {
      context.fillStyle = themeColour('accent');
      rates.forEach((rate, i) => {
        const part = Math.min(height, (rate * height) / most);
        context.fillRect(axis.left + i * width, y + height - part, width, part);
      });
    },
    tell: (us, axis) => [`${short(
        rates[Math.floor(column(axis, us) / width)], 'bytes')} a second allocated`],
  };
}
