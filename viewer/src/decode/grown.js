// Arrays that grow at their end, as a followed profile's columns do.

const used = new WeakMap(); // by buffer, the bytes of it that an array has

/** `array` with `more` behind it. It may share the memory of `array`, which stays as it is. */
export function grown(array, more) {
  const Type = typeOf(array, more);
  const count = array.length + more.length;
  const bytes = Type.BYTES_PER_ELEMENT;
  const { buffer } = array;
  const hasRoom = Type === array.constructor && used.get(buffer) === array.byteLength
      && buffer.byteLength >= count * bytes;
  const whole = hasRoom ? new Type(buffer, 0, count)
      : new Type(new ArrayBuffer((count + (count >> 2)) * bytes), 0, count);
  if (!hasRoom) whole.set(array);
  whole.set(more, array.length);
  used.set(whole.buffer, whole.byteLength);
  return whole;
}

/** All of them in one. */
export function joined([first, ...others]) {
  return others.reduce(grown, first);
}

// One that has the numbers of both.
function typeOf(a, b) {
  if (a.constructor === b.constructor || b.length === 0) return a.constructor;
  if (a.length === 0) return b.constructor;
  const wider = a.BYTES_PER_ELEMENT >= b.BYTES_PER_ELEMENT ? a : b;
  const isSigned = (array) => !/^Uint/.test(array.constructor.name);
  const isSame = isSigned(a) === isSigned(b);
  const isSignedWider = isSigned(wider) && a.BYTES_PER_ELEMENT !== b.BYTES_PER_ELEMENT;
  return isSame || isSignedWider ? wider.constructor : Float64Array;
}
