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
 * @param known [[offset, ArrayBuffer]]: what is here already
 */
export function remoteBytes(size, fetchPiece, known = []) {
  return {
    size,
    async read(offset, wanted) {
      const [at, bytes] = known.find(([from, { byteLength }]) =>
        from <= offset && offset + wanted <= from + byteLength) ?? [];
      if (bytes) return bytes.slice(offset - at, offset - at + wanted);
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
  const stream = new Blob([fromText(text)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
}

// A character is seven bits. HTML changes three characters: one beyond ASCII is one of these, and
// the seven bits behind it. It is alone at the end.
const CHANGED = [0, 13, 60];

function fromText(text) {
  const bytes = new Uint8Array(text.length * 2);
  let size = 0, bits = 0, count = 0;
  const add = (seven) => {
    bits = ((bits & 127) << 7) | seven;
    count += 7;
    if (count < 8) return;
    count -= 8;
    bytes[size++] = bits >>> count;
  };
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 512) {
      add(CHANGED[code - 512]);
    } else if (code >= 128) {
      add(CHANGED[(code >> 7) - 1]);
      add(code & 127);
    } else {
      add(code);
    }
  }
  return bytes.subarray(0, size);
}
