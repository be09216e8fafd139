// The one track of a file of allocations.

import { short } from '../model/numbers.js';
import { themeColour } from './dom.js';
import { column, greatest } from './tracks.js';

/** @param rates bytes a second, by column */
export function allocatedTrackOf(rates) {
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
      rates.forEach((rate, x) => {
        const part = Math.min(height, (rate * height) / most);
        context.fillRect(axis.left + x, y + height - part, 1, part);
      });
    },
    tell: (us, axis) => [`${short(rates[column(axis, us)], 'bytes')} a second allocated`],
  };
}
