#include "waits/pieces.h"

#include <string.h>

static int read_one(const struct fp_pieces *pieces, uint64_t address, void *into, size_t size)
{
    for (uint32_t i = 0; i < pieces->n; i++) {
        const struct fp_piece *piece = &pieces->piece[i];
        uint64_t at = address - piece->address;

        if (at <= piece->size && size <= piece->size - at) {
            memcpy(into, piece->bytes + at, size);
            return 0;
        }
    }
    return fp_safe_read(pieces->behind, address, into, size);
}

static int64_t read_pieces(void *self, const struct iovec *local, const struct iovec *remote,
                           size_t n)
{
    int64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        if (read_one(self, (uint64_t)(uintptr_t)remote[i].iov_base, local[i].iov_base,
                     remote[i].iov_len) != 0)
            return total > 0 ? total : -1;
        total += (int64_t)remote[i].iov_len;
    }
    return total;
}

void fp_pieces_open(struct fp_pieces *pieces, const struct fp_memory *behind)
{
    memset(pieces, 0, sizeof *pieces);
    pieces->reader.readv = read_pieces;
    pieces->reader.self = pieces;
    pieces->reader.fd = -1;
    pieces->behind = behind;
}
