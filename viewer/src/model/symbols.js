// A frame's symbol and dso as doc/format.md writes them, taken apart.

/**
 * A function or a registered name as hot, pstack and top show it: `Elixir.Enum:map/2` is
 * `Enum.map/2`.
 */
export function shownName(text) {
  if (!text.startsWith('Elixir.')) return text;
  const [, module, name] = /^Elixir\.([^:]*)(?::(.*))?$/s.exec(text);
  if (name === undefined) return module;
  const fun = /^-(.*)-fun-\d+-\/(\d+)(.*)$/s.exec(name);
  return fun === null ? `${module}.${name}`
      : `anonymous fn/${fun[2]} in ${module}.${fun[1]}${fun[3]}`;
}

/** %HH to bytes; what then is not printable UTF-8 stays as it is written. */
export function decodeName(text) {
  if (!text.includes('%')) return visible(text);
  const bytes = [];
  const encoded = new TextEncoder().encode(text);
  for (let i = 0; i < encoded.length; i++) {
    const hex = encoded[i] === 0x25 ? text16(encoded[i + 1], encoded[i + 2]) : -1;
    bytes.push(hex < 0 ? encoded[i] : hex);
    if (hex >= 0) i += 2;
  }
  try {
    const decoded = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(
      new Uint8Array(bytes),
    );
    return isPrintable(decoded) ? decoded : visible(text);
  } catch {
    return visible(text);
  }
}

function text16(high, low) {
  const digits = String.fromCharCode(high ?? 0, low ?? 0);
  return /^[0-9A-Fa-f]{2}$/.test(digits) ? parseInt(digits, 16) : -1;
}

// Controls, and what turns the direction of writing, would deceive the reader.
const UNPRINTABLE = '[\\p{Cc}\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]';

function isPrintable(text) {
  return !new RegExp(UNPRINTABLE, 'u').test(text);
}

/** Files of others have such characters as they are. */
function visible(text) {
  return text.replace(new RegExp(UNPRINTABLE, 'gu'), encodeURIComponent);
}

/**
 * @returns {text, module, line, file, isFunction}: `module:function/arity` without
 * its line, which is 0 where there is none.
 */
export function parseSymbol(symbol, dso) {
  const match = /^(.*?):(.*)\/(\d{1,3})(?::(\d+))?$/s.exec(symbol);
  const file = decodeName(dso);
  if (match === null) return { text: decodeName(symbol), module: '', line: 0, file,
      isFunction: false };
  const [, module, name, arity, line] = match;
  return {
    text: shownName(`${decodeName(module)}:${decodeName(name)}/${arity}`),
    module: decodeName(module),
    line: line === undefined ? 0 : Number(line),
    file,
    isFunction: true,
  };
}
