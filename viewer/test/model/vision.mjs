// How colours look to people who see fewer of them, and how far apart two colours are. Matrices:
// Machado, Oliveira and Fernandes 2009, severity 1, of linear RGB. Distance: OKLab (Ottosson 2020),
// where 0.02 is just noticed.

const VISIONS = {
  usual: [1, 0, 0, 0, 1, 0, 0, 0, 1],
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216,
    -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413,
    -0.011820, 0.042940, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602,
    0.004733, 0.691367, 0.303900],
};

/** "#010203", "rgb(1, 2, 3)" or "hsl(1 2% 3%)" => red, green and blue, linear, 0 to 1 */
export function linear(colour) {
  return channels(colour).map((n) => (n <= 0.04045 ? n / 12.92
      : Math.pow((n + 0.055) / 1.055, 2.4)));
}

function channels(colour) {
  const numbers = (colour.match(/-?[\d.]+/g) ?? []).map(Number);
  if (colour.startsWith('rgb')) return numbers.map((n) => n / 255);
  if (colour.startsWith('hsl')) return ofHsl(numbers[0], numbers[1] / 100, numbers[2] / 100);
  const hex = colour.length === 4 ? colour.replace(/[^#]/g, '$&$&') : colour;
  return [1, 3, 5].map((at) => Number(`0x${hex.slice(at, at + 2)}`) / 255);
}

function ofHsl(hue, saturation, light) {
  return [0, 8, 4].map((n) => {
    const k = (((n + hue / 30) % 12) + 12) % 12;
    return light - saturation * Math.min(light, 1 - light) *
        Math.max(-1, Math.min(k - 3, 9 - k, 1));
  });
}

export function luminance(colour) {
  const [red, green, blue] = linear(colour);
  return red * 0.2126 + green * 0.7152 + blue * 0.0722;
}

/** WCAG 2 */
export function contrast(one, other) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function oklab([red, green, blue]) {
  const [l, m, s] = [
    0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue,
    0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue,
    0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue,
  ].map(Math.cbrt);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function seen(colour, matrix) {
  const rgb = linear(colour);
  return oklab([0, 3, 6].map((row) => Math.min(1, Math.max(0,
      matrix[row] * rgb[0] + matrix[row + 1] * rgb[1] + matrix[row + 2] * rgb[2]))));
}

/** How far apart they are for those to whom they are nearest. */
export function apart(one, other) {
  return Math.min(...Object.values(VISIONS).map((matrix) =>
    Math.hypot(...seen(one, matrix).map((n, i) => n - seen(other, matrix)[i]))));
}

/** The two of {name: colour} that are nearest, and how near. */
export function nearest(colours) {
  const names = Object.keys(colours);
  return names.flatMap((one, i) => names.slice(i + 1).map((other) =>
    ({ pair: `${one} and ${other}`, distance: apart(colours[one], colours[other]) })))
      .reduce((least, pair) => (pair.distance < least.distance ? pair : least));
}
