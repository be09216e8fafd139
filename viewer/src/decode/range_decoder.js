// Numbers in as few bits as they are surprising, as doc/viewer_index.md says. C writes them:
// c_src/report/range_coder.c.

const CHANCE_BITS = 20;
const GUESS_BITS = 18;
const USES_MOST = 40;
const HITS_MOST = 7;
const GOLDEN = 0x9e3779b1;
const RANGE_FIRST = 0x7fffffff;
const RANGE_LEAST = 1 << 23;
const RAW_BITS_MOST = 16;
const NODE_SIGN = 127;
const NODE_BITS = 128;
const LENGTH_MOST = 66;

const RATE = Uint32Array.from({ length: USES_MOST + 1 }, (_, uses) => 131072 / (2 * uses + 3));

function mixed(hash, number) {
  const product = Math.imul(hash ^ number, 0x2c1b3c6d);
  return product ^ (product >>> 15);
}

export function context(kind, a, b, c, d) {
  return mixed(mixed(mixed(mixed(kind, a), b), c), d);
}

/** How large a number is, in halves of powers of two. */
export function sizeOf(number) {
  const size = Math.abs(number);
  if (size < 2) return size;
  if (size < 0x40000000) {
    const length = 32 - Math.clz32(size);
    return 2 * length + ((size >>> (length - 2)) & 1);
  }
  let length = 31;
  while (2 ** length <= size) length++;
  return 2 * length + (size >= 1.5 * 2 ** (length - 1) ? 1 : 0);
}

export class RangeDecoder {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at + 1;
    this.code = 0;
    this.range = RANGE_FIRST;
    for (let i = 0; i < 4; i++) this.code = (this.code << 8) | bytes[this.at++];
    this.chance = new Uint16Array(1 << CHANCE_BITS).fill(1 << 15);
    this.uses = new Uint8Array(1 << CHANCE_BITS);
    this.guesses = new Float64Array(1 << GUESS_BITS);
    this.hits = new Uint8Array(1 << GUESS_BITS);
  }

  /** 1 or 0 */
  decide(place) {
    const { chance, uses } = this;
    const i = Math.imul(place, GOLDEN) >>> (32 - CHANCE_BITS);
    const is = chance[i];
    const used = uses[i];
    const rate = RATE[used];
    const bound = (this.range >>> 12) * ((is >>> 4) | 1);
    let decision = 0;
    if (this.code < bound) {
      this.range = bound;
      chance[i] = is + (((65535 - is) * rate) >>> 16);
      decision = 1;
    } else {
      this.code -= bound;
      this.range -= bound;
      chance[i] = is - ((is * rate) >>> 16);
    }
    if (used < USES_MOST) uses[i] = used + 1;
    while (this.range < RANGE_LEAST) this.widen();
    return decision;
  }

  widen() {
    this.code = (this.code << 8) | this.bytes[this.at++];
    this.range <<= 8;
  }

  raw(count) {
    this.range >>>= count;
    const bits = (this.code / this.range) | 0;
    this.code -= bits * this.range;
    while (this.range < RANGE_LEAST) this.widen();
    return bits;
  }

  number(place, depth) {
    let length = 0;
    while (length < LENGTH_MOST && this.decide(place + length) === 1) length++;
    if (length < 2) return length;
    const base = place + NODE_BITS + (length << 24);
    let left = length - 1;
    let node = 1;
    for (let modelled = depth; left > 0 && modelled > 0; left--, modelled--) {
      node = 2 * node + this.decide(base + node);
    }
    for (; left > 0;) {
      const count = Math.min(left, RAW_BITS_MOST);
      node = node * 2 ** count + this.raw(count);
      left -= count;
    }
    return node;
  }

  signed(place, depth) {
    return this.decide(place + NODE_SIGN) === 1 ? -this.number(~place, depth) - 1
        : this.number(place, depth);
  }

  /**
   * The number that was there after one of the keys, else what `spelled` answers; `not` is what it
   * cannot be.
   */
  guessed(place, a, b, c, not, spelled) {
    const { guesses } = this;
    const i = Math.imul(a, GOLDEN) >>> (32 - GUESS_BITS);
    const j = Math.imul(b, GOLDEN) >>> (32 - GUESS_BITS);
    const k = Math.imul(c, GOLDEN) >>> (32 - GUESS_BITS);
    const x = guesses[i];
    const y = guesses[j];
    const z = guesses[k];
    let tried = 1;
    let number = not;
    if (x !== not) {
      if (this.decide(place + 4 * this.hits[i] + tried) === 1) number = x;
      tried++;
    }
    if (number === not && y !== not && y !== x) {
      if (this.decide(place + 64 + 4 * this.hits[j] + tried) === 1) number = y;
      tried++;
    }
    if (number === not && z !== not && z !== x && z !== y) {
      if (this.decide(place + 128 + 4 * this.hits[k] + tried) === 1) number = z;
    }
    if (number === not) number = spelled();
    this.learn(i, number);
    this.learn(j, number);
    this.learn(k, number);
    return number;
  }

  learn(i, number) {
    const { guesses, hits } = this;
    if (guesses[i] === number) {
      if (hits[i] < HITS_MOST) hits[i]++;
    } else if (hits[i] > 1) {
      hits[i] >>= 1;
    } else {
      guesses[i] = number;
      hits[i] = 0;
    }
  }
}
