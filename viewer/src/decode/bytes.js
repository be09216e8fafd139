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

/** base64 of gzip, as a report carries it. */
export async function unpackReport(text) {
  const binary = atob(text.trim());
  const packed = new Uint8Array(binary.length);
  for (let i = 0; i < packed.length; i++) packed[i] = binary.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}
