// What the profiler's own sample tells of a session (doc/format.md).

import { decodeName } from '../model/symbols.js';

/** @returns {node, about: [text], options: [[name, value]]}; files of others tell nothing */
export function sessionOf(profile) {
  const own = profile.isOwn.lastIndexOf(1);
  const words = own < 0 ? {} : wordsOf(profile.text(profile.tables.process_words[own]));
  const { node = '', otp, version, engine, options, trigger } = words;
  const nodes = new Set(profile.header.files.map((file) => decodeName(file.node ?? node)));
  const about = [otp && `OTP ${otp}`, engine && `${engine} engine`,
      version && `flame_prof ${version}`, trigger && `triggered by ${trigger}`].filter(Boolean);
  return { node: [...nodes].join(', '), about,
    options: (options?.split(',') ?? []).map((one) => one.split('=')) };
}

function wordsOf(text) {
  const words = {};
  for (const word of text.split(' ')) {
    const at = word.indexOf('=');
    if (at > 0) words[word.slice(0, at)] = decodeName(word.slice(at + 1));
  }
  return words;
}
