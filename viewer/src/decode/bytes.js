// Where the bytes of an index come from: memory, or a server in pieces.

const PIECE_BYTES = 4 * 1024 * 1024; // the most that the server answers at once
const PIECES_AT_ONCE = 4;

export function memoryBytes(buffer) {
  return {
    size: buffer.byteLength,
    read: async (offset, size) => buffer.slice(offset, offset + size),
  };
}

/**
 * @param fetchPiece (offset, size) => Promise<ArrayBuffer>
 */
export function remoteBytes(size, fetchPiece) {
  return {
    size,
    async read(offset, wanted) {
      if (wanted <= PIECE_BYTES) return fetchPiece(offset, wanted);
      const whole = new Uint8Array(wanted);
      let next = 0;
      const worker = async () => {
        while (next < wanted) {
          const at = next;
          next += PIECE_BYTES;
          const piece = await fetchPiece(offset + at, Math.min(PIECE_BYTES, wanted - at));
          whole.set(new Uint8Array(piece), at);
        }
      };
      await Promise.all(Array.from({ length: PIECES_AT_ONCE }, worker));
      return whole.buffer;
    },
  };
}

/** gzip as text, as a report carries it. */
export async function unpackReport(text) {
  const stream = new Blob([fromBase85(text)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

// Five digits are four bytes, and digit 0 is '#'. HTML reads '<' as markup: 'x' stands for it.
function fromBase85(text) {
  const bytes = new Uint8Array(Math.floor(text.length * 4 / 5));
  const view = new DataView(bytes.buffer);
  const digit = (at) => {
    const code = at < text.length ? text.charCodeAt(at) : 119; // the last group may be shorter
    return (code === 120 ? 60 : code) - 35;
  };
  for (let from = 0, to = 0; to < bytes.length; from += 5, to += 4) {
    let number = 0;
    for (let i = 0; i < 5; i++) number = number * 85 + digit(from + i);
    if (to + 4 <= bytes.length) view.setUint32(to, number);
    else for (let i = 0; to + i < bytes.length; i++) bytes[to + i] = number >>> (24 - 8 * i);
  }
  return bytes;
}
