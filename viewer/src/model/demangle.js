// The name of a C++ function in a symbol of the Itanium C++ ABI (its chapter 5.1), without the
// types of its arguments and templates.

const OPERATORS = Object.fromEntries(('nw new,na new[],dl delete,da delete[],co ~,pl +,mi -,ml *,' +
  'dv /,rm %,an &,or |,eo ^,aS =,pL +=,mI -=,mL *=,dV /=,rM %=,aN &=,oR |=,eO ^=,ls <<,rs >>,' +
  'lS <<=,rS >>=,eq ==,ne !=,lt <,gt >,le <=,ge >=,ss <=>,nt !,aa &&,oo ||,pp ++,mm --,pm ->*,' +
  'pt ->,cl (),ix [],ps +,ng -,ad &,de *').split(',').map((pair) => pair.split(' ')));
const STANDARD = { a: 'allocator', b: 'basic_string', s: 'basic_string', i: 'basic_istream',
  o: 'basic_ostream', d: 'basic_iostream' };
const LONGEST = 4000; // nested as deeply, it would need too much of the stack
const RUST_HASH = /^h[0-9a-f]{16}$/;

/** The symbol as it is where it is not of C++, or of a kind that is not known here. */
export function demangled(symbol) {
  const [, mangled, suffix] = /^_Z([^.@]+)(.*)$/s.exec(symbol) ?? [];
  if (mangled === undefined || mangled.length > LONGEST) return symbol;
  try {
    return known(new Reader(mangled).name().map(known).join('::') || undefined) + suffix;
  } catch (error) {
    if (error instanceof Unknown) return symbol;
    throw error;
  }
}

class Unknown extends Error {}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  /** What matches here, past which the reader goes; undefined: nothing does. */
  take(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match === null) return undefined;
    this.at += match[0].length;
    return match[0];
  }

  until(end, read) {
    while (!this.take(end)) read();
  }

  /** Its parts. */
  name() {
    if (this.take(/Z/y)) return this.local();
    const parts = [];
    if (this.take(/N[rVK]*[RO]?/y)) {
      this.until(/E/y, () => this.part(parts));
    } else {
      if (this.take(/St/y)) parts.push('std');
      this.part(parts);
      if (this.take(/I/y)) this.templateArguments();
    }
    return parts.length > 1 && RUST_HASH.test(parts.at(-1)) ? parts.slice(0, -1) : parts;
  }

  // What is inside of a function.
  local() {
    const parts = this.name();
    this.until(/E/y, () => this.type());
    return [...parts, ...this.name()];
  }

  part(parts) {
    this.take(/L(?=\d)/y);
    if (this.take(/St/y)) parts.push('std');
    else if (this.take(/I/y)) this.templateArguments();
    else if (this.take(/B/y)) this.source();
    else if (this.take(/Ul/y)) parts.push(this.lambda());
    else if (this.take(/Ut\d*_/y)) parts.push('{unnamed}');
    else if (this.take(/[ST][0-9A-Z]*_/y)) parts.push(undefined); // what was there before
    else this.coded(parts, this.take(/[CD][0-5]|S[absiod]|[a-z][a-zA-Z]/y));
  }

  coded(parts, code) {
    if (code === undefined) parts.push(this.source());
    else if (code[0] === 'S') parts.push('std', STANDARD[code[1]]);
    else if (code[0] === 'C') parts.push(parts.at(-1));
    else if (code[0] === 'D') parts.push(`~${known(parts.at(-1))}`);
    else parts.push(`operator${/^[nd][wal]$/.test(code) ? ' ' : ''}${known(OPERATORS[code])}`);
  }

  lambda() {
    this.until(/E/y, () => this.type());
    this.take(/\d*_/y);
    return '{lambda}';
  }

  source() {
    const length = Number(known(this.take(/\d+/y)));
    const text = this.text.slice(this.at, this.at + length);
    if (length === 0 || text.length < length) throw new Unknown();
    this.at += length;
    return text.startsWith('_GLOBAL__N') ? '(anonymous namespace)' : text;
  }

  templateArguments() {
    this.until(/E/y, () => {
      if (this.take(/J/y)) this.templateArguments();
      else if (this.take(/L/y)) this.literal();
      else this.type();
    });
  }

  literal() {
    if (this.take(/_Z/y)) throw new Unknown();
    this.type();
    known(this.take(/n?\d*E/y));
  }

  /** Past a type. */
  type() {
    this.take(/(?:[PROCGrVK]|Dp|Do)+/y);
    if (this.take(/u/y)) this.source();
    else if (this.take(/FY?/y)) this.until(/E/y, () => this.type());
    else if (this.take(/A\d*_/y)) this.type();
    else if (this.take(/M/y)) this.members();
    else if (this.take(/T\d*_|S[0-9A-Z]*_/y)) this.ofTemplate();
    else if (!this.take(/D[defhisuanc]|[a-z]/y)) this.name();
  }

  members() {
    this.type();
    this.type();
  }

  ofTemplate() {
    if (this.take(/I/y)) this.templateArguments();
  }
}

function known(value) {
  if (value === undefined) throw new Unknown();
  return value;
}
