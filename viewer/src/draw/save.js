// Pictures and tables as files.

import { isolated } from '../model/fitted.js';
import { h } from './dom.js';
import { svgPatterns } from './patterns.js';

const SAVERS = {
  SVG: (name, text) => saveBlob(`${name}.svg`, new Blob([text], { type: 'image/svg+xml' })),
  PNG: (name, canvas) => canvas.toBlob((blob) => saveBlob(`${name}.png`, blob), 'image/png'),
  CSV: (name, text) => saveBlob(`${name}.csv`, new Blob([text], { type: 'text/csv' })),
};

/** @param thing the text of a kind of file, or the canvas of a PNG */
export async function saveFile(kind, name, thing) {
  SAVERS[kind](name, await thing);
}

function saveBlob(name, blob) {
  const link = h('a', { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** RFC 4180; a cell that a spreadsheet would take for a formula is quoted away. */
export function csv(rows) {
  return rows.map((row) => row.map(csvCell).join(',')).join('\r\n') + '\r\n';
}

function csvCell(value) {
  const text = String(value);
  if (typeof value === 'number') return Number.isNaN(value) ? '' : text;
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param rects [{x, y, width, height, fill, pattern, title, text, ink: of the text}] */
export function svg(width, height, background, rects) {
  const body = rects.map((rect) => {
    const filled = (fill) => `<rect x="${round(rect.x)}" y="${round(rect.y)}" ` +
        `width="${round(rect.width)}" height="${round(rect.height)}" fill="${xml(fill)}"/>`;
    const box = filled(rect.fill) + (rect.pattern ? filled(`url(#${rect.pattern})`) : '');
    const title = rect.title ? `<title>${xml(rect.title)}</title>` : '';
    const text = rect.text
      ? `<text x="${round(rect.x + 3)}" y="${round(rect.y + rect.height - 5)}" fill="${xml(rect.ink)}">${xml(isolated(rect.text))}</text>`
      : '';
    return `<g>${title}${box}${text}</g>`;
  });
  const defs = rects.some(({ pattern }) => pattern) ? `${svgPatterns()}\n` : '';
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">` +
    `<rect width="100%" height="100%" fill="${xml(background)}"/>\n${defs}${body.join('\n')}\n</svg>\n`
  );
}

function round(n) {
  return Math.round(n * 100) / 100;
}

function xml(text) {
  return String(text)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
