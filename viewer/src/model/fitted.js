// Names that are too long for their frames: what is left tells the function, not its module.

const LEAST = 3; // characters that say something
const ELLIPSIS = '…';

/** @param room in characters; @returns '' where there is no room for anything */
export function fitted(text, room) {
  if (text.length <= room) return text;
  if (room < LEAST) return '';
  const fun = /^anonymous (fn\/\d+ in )(.*)$/s.exec(text);
  if (fun !== null) return funFitted(fun[1], fun[2], room);
  const { before, mark, name } = partsOf(text);
  const head = room - ELLIPSIS.length - mark.length - name.length;
  if (before !== '' && head >= 0) return `${start(before, head)}${ELLIPSIS}${mark}${name}`;
  return name.length <= room ? name : cut(name, room);
}

// An anonymous function of Elixir is told by where it is.
function funFitted(prefix, place, room) {
  const rest = fitted(place, room - prefix.length);
  return rest === '' ? cut(prefix + place, room) : prefix + rest;
}

const NAMES = [
  /^(.+?)(:)([^:].*\/\d+(?::\d+)?)$/s, // module:function/arity of Erlang
  /^(.+)(\.)([^./]+\/\d+(?::\d+)?)$/s, // Module.function/arity of Elixir
  /^(.+)(::)([^:].*)$/s, // of C++
  /^(.*)(\/)([^/]+)$/s, // a file
];

function partsOf(text) {
  for (const pattern of NAMES) {
    const [, before, mark, name] = pattern.exec(text) ?? [];
    if (name !== undefined && !/^\d+$/.test(name)) return { before, mark, name };
  }
  return { before: '', mark: '', name: text };
}

function cut(text, room) {
  return `${start(text, room - 1)}${ELLIPSIS}`;
}

const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]+/gu;

/** Names that are written from right to left keep what is behind them, as an arity, behind them. */
export function isolated(text) {
  return text.replace(RIGHT_TO_LEFT, '\u2068$&\u2069');
}

/** Never half of a character. */
function start(text, length) {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, '');
}
