// Texts that are shown, each with a number of its own: frames of several files
// and levels meet here, so that two trees can be compared by number.

import { worded } from './activity.js';
import { demangled } from './demangle.js';
import { kindOf, KINDS } from './kinds.js';

const LEVEL_KIND = KINDS.indexOf('level');
const NATIVE_KIND = KINDS.indexOf('native');

export class Names {
  constructor() {
    this.text = [];
    this.shown = []; // as pictures have it: a symbol of C++ as its name
    this.kind = [];
    this.module = [];
    this.place = []; // "file.erl:12"
    this.ids = new Map();
    this.modules = null; // module -> [application, is it OTP's], from the server
  }

  /** A level's entry. @param shown what pictures have instead */
  level(text, shown = text) {
    return this.add(`\u0001${text}\u0001${shown}`, text, LEVEL_KIND, '', '', shown);
  }

  /** @param frame of symbols.js */
  frame(frame, withLine) {
    const text = withLine && frame.line ? `${frame.text}:${frame.line}` : frame.text;
    const place = frame.line ? `${frame.file}:${frame.line}` : frame.file;
    const kind = KINDS.indexOf(kindOf(frame, this.modules));
    const shown = kind === NATIVE_KIND ? demangled(text) : frame.isFunction ? text : worded(text);
    return this.add(text, text, kind, frame.module, place, shown);
  }

  add(key, text, kind, module, place, shown = text) {
    let id = this.ids.get(key);
    if (id === undefined) {
      id = this.text.length;
      this.ids.set(key, id);
      this.text.push(text);
      this.shown.push(shown);
      this.kind.push(kind);
      this.module.push(module);
      this.place.push(place);
    }
    return id;
  }

  isLevel(id) {
    return this.kind[id] === LEVEL_KIND;
  }

  find(text) {
    return this.ids.get(text);
  }
}
