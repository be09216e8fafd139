// Numbers for people, in the unit of their measure.

const WORD_BYTES = 8;
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const DECIMAL = ['', 'k', 'M', 'G', 'T', 'P'];

const grouped = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });

/** Of a figure that a file may be without: NaN, or undefined. */
export const isKnown = (n) => n !== undefined && !Number.isNaN(n);

/** All digits: 1,234,567 */
export function exact(value) {
  return minus(Number.isInteger(value) ? grouped.format(value) : precise.format(value));
}

function minus(text) {
  return text.replace('-', '−');
}

function scaled(value, base, units) {
  let power = 0;
  let rest = value;
  while (Math.abs(rest) >= base && power < units.length - 1) {
    rest /= base;
    power++;
  }
  const digits = power === 0 ? (Number.isInteger(rest) ? 0 : Math.abs(rest) < 1 ? 2 : 1)
      : Math.abs(rest) >= 100 ? 0 : Math.abs(rest) >= 10 ? 1 : 2;
  return `${minus(rest.toFixed(digits))}${units === BINARY ? ' ' : ''}${units[power]}`;
}

/** Short, with its unit: 1.23 MiB, 4.5k */
export function short(value, unit) {
  if (unit === 'us') return duration(value);
  if (unit === 'percent') return `${precise.format(value)} %`;
  if (unit === 'bytes') return scaled(value, 1024, BINARY);
  if (unit === 'words') return scaled(value * WORD_BYTES, 1024, BINARY);
  return scaled(value, 1000, DECIMAL);
}

/** Exact, and short where that tells more: 1,234,567 words (9.42 MiB) */
export function full(value, unit) {
  if (unit === 'us') return `${exact(value / 1000)} ms`;
  const text = `${exact(value)}${unit === 'count' ? '' : ` ${unit}`}`;
  const isLong = unit === 'bytes' ? Math.abs(value) >= 1024 : unit === 'words';
  return isLong ? `${text} (${short(value, unit)})` : text;
}

/** 3.4 ms, 1.25 s */
function duration(us) {
  const isShort = Math.abs(us) < 1e6;
  const number = us / (isShort ? 1e3 : 1e6);
  return `${minus(number.toFixed(isShort ? 1 : 2))} ${isShort ? 'ms' : 's'}`;
}

/** 1 sample, 2 samples */
export function counted(n, word) {
  return `${exact(n)} ${word}${n === 1 ? '' : 's'}`;
}

export function percent(share) {
  return `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} %`;
}

export function seconds(us) {
  return `${(us / 1e6).toFixed(us % 1e6 === 0 ? 0 : 3)} s`;
}

/** The local date of a moment in microseconds: 2026-11-23 */
export function date(us) {
  const day = new Date(us / 1000);
  const two = (n) => String(n).padStart(2, '0');
  return `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`;
}

/** Local time of day of a moment in microseconds. */
export function clock(us) {
  const date = new Date(us / 1000);
  const two = (n) => String(n).padStart(2, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}
