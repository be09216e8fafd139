// Numbers in as few bits as they are surprising, as doc/viewer_index.md says. C writes them:
// c_src/report/range_coder.c.

const CHANCE_BITS = 20;
const GUESS_BITS = 18;
const USES_MOST = 30;
const USES_BITS = 6; // a state is a chance and its uses
const HITS_MOST = 7;
const CHANCE_MASK = (1 << CHANCE_BITS) - 1;
const GUESS_MASK = (1 << GUESS_BITS) - 1;
const USES_MASK = (1 << USES_BITS) - 1;
const GOLDEN = 0x9e3779b1;
const RANGE_FIRST = 0x7fffffff;
const RANGE_LEAST = 1 << 23;
const RAW_BITS_MOST = 16;
const NODE_SIGN = 70;
const NODE_BITS = 72;
const NODES_SIDE_BY_SIDE = 16;
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
    this.states = new Uint32Array(1 << CHANCE_BITS).fill((1 << 15) << USES_BITS);
    this.guesses = new Float64Array(1 << GUESS_BITS);
    this.hits = new Uint8Array(1 << GUESS_BITS);
  }

  /** 1 or 0 */
  decide(place) {
    const { states } = this;
    const i = place & CHANCE_MASK;
    const state = states[i];
    const uses = state & USES_MASK;
    const rate = RATE[uses];
    const more = uses < USES_MOST ? uses + 1 : uses;
    let chance = state >>> USES_BITS;
    let { range } = this;
    const bound = (range >>> 12) * ((chance >>> 4) | 1);
    let decision = 0;
    if (this.code < bound) {
      range = bound;
      chance += ((65535 - chance) * rate) >>> 16;
      decision = 1;
    } else {
      this.code -= bound;
      range -= bound;
      chance -= (chance * rate) >>> 16;
    }
    states[i] = (chance << USES_BITS) | more;
    while (range < RANGE_LEAST) {
      this.code = (this.code << 8) | this.bytes[this.at++];
      range <<= 8;
    }
    this.range = range;
    return decision;
  }

  raw(count) {
    this.range >>>= count;
    const bits = (this.code / this.range) | 0;
    this.code -= bits * this.range;
    while (this.range < RANGE_LEAST) {
      this.code = (this.code << 8) | this.bytes[this.at++];
      this.range <<= 8;
    }
    return bits;
  }

  number(place, depth) {
    let length = 0;
    while (length < LENGTH_MOST && this.decide(place + length) === 1) length++;
    if (length < 2) return length;
    const base = place + NODE_BITS + length * NODES_SIDE_BY_SIDE;
    let left = length - 1;
    let node = 1;
    for (let modelled = depth; left > 0 && modelled > 0; left--, modelled--) {
      const side = node < NODES_SIDE_BY_SIDE ? node : Math.imul(node, GOLDEN);
      node = 2 * node + this.decide(base + side);
    }
    while (left > 0) {
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
   * The number that was there after one of the keys, else `not`, which it cannot be: then it
   * follows. learned() is to be called with it.
   */
  guessed(place, a, b, c, not) {
    const { guesses, hits } = this;
    const i = (this.i = a & GUESS_MASK);
    const j = (this.j = b & GUESS_MASK);
    const k = (this.k = c & GUESS_MASK);
    const x = guesses[i];
    const y = guesses[j];
    const z = guesses[k];
    let tried = 1;
    if (x !== not && this.decide(place + 4 * hits[i] + tried++) === 1) return x;
    if (y !== not && y !== x && this.decide(place + 64 + 4 * hits[j] + tried++) === 1) return y;
    if (z !== not && z !== x && z !== y && this.decide(place + 128 + 4 * hits[k] + tried) === 1) {
      return z;
    }
    return not;
  }

  learned(number) {
    this.learn(this.i, number);
    this.learn(this.j, number);
    this.learn(this.k, number);
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
