// Patterns over the colour of a frame, for those who see fewer colours.

/** Lighter than what is below, so that a dark text is as legible as without. */
export const PATTERN_INK = [255, 255, 255, 0.5];
const STROKE = `rgba(${PATTERN_INK.join(', ')})`;
const TILE = 6; // pixels
const PATHS = { hatch: 'M-1 1l2-2M0 6L6 0M5 7l2-2', dots: 'M1 1.5h1.5M4 4.5h1.5' };
const CSS = {
  hatch: `repeating-linear-gradient(135deg, ${STROKE} 0 1px, transparent 1px 4px)`,
  dots: `radial-gradient(${STROKE} 1px, transparent 1.5px) 0 0 / 4px 4px`,
};

const made = new Map();

/** A fillStyle. */
export function canvasPattern(context, name) {
  if (!made.has(name)) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = TILE;
    const ink = tile.getContext('2d');
    ink.strokeStyle = STROKE;
    ink.lineWidth = 1.5;
    ink.stroke(new Path2D(PATHS[name]));
    made.set(name, context.createPattern(tile, 'repeat'));
  }
  return made.get(name);
}

export function cssPattern(name) {
  return CSS[name];
}

/** Of an SVG, to be filled with by url(#name). */
export function svgPatterns() {
  const patterns = Object.entries(PATHS).map(([name, path]) =>
    `<pattern id="${name}" width="${TILE}" height="${TILE}" patternUnits="userSpaceOnUse">` +
    `<path d="${path}" stroke="#fff" stroke-opacity="${PATTERN_INK[3]}" stroke-width="1.5"/>` +
    '</pattern>');
  return `<defs>${patterns.join('')}</defs>`;
}
