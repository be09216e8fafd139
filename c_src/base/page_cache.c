#include "base/page_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"

#define PAGE 4096u
#define SLOTS 512u /* a power of two */

struct slot {
    uint64_t page;   /* its address */
    uint64_t filled; /* the cache's `now` when it was read */
};

struct fp_page_cache {
    const struct fp_memory *memory;
    struct fp_memory reader;
    uint64_t now;
    struct slot slot[SLOTS];
    unsigned char bytes[SLOTS][PAGE];
};

/* The copy of a page, or NULL. */
static const unsigned char *page_of(struct fp_page_cache *cache, uint64_t page)
{
    unsigned at = (unsigned)fp_hash_two(page, 0) & (SLOTS - 1);
    struct slot *slot = &cache->slot[at];

    if (slot->page == page && slot->filled == cache->now)
        return cache->bytes[at];
    slot->filled = 0;
    if (fp_safe_read(cache->memory, page, cache->bytes[at], PAGE) != 0)
        return NULL;
    *slot = (struct slot){page, cache->now};
    return cache->bytes[at];
}

int fp_page_cache_read(struct fp_page_cache *cache, uint64_t address, void *into, size_t size)
{
    unsigned char *to = into;

    while (size > 0) {
        size_t at = address & (PAGE - 1), part = PAGE - at < size ? PAGE - at : size;
        const unsigned char *bytes = page_of(cache, address - at);

        if (bytes == NULL)
            return FP_EFAULT;
        memcpy(to, bytes + at, part);
        to += part;
        address += part;
        size -= part;
    }
    return 0;
}

static int64_t read_pieces(void *self, const struct iovec *local, const struct iovec *remote,
                           size_t n)
{
    int64_t total = 0;

    for (size_t i = 0; i < n; i++) {
        if (fp_page_cache_read(self, (uint64_t)(uintptr_t)remote[i].iov_base, local[i].iov_base,
                               remote[i].iov_len) != 0)
            return total > 0 ? total : -1;
        total += (int64_t)remote[i].iov_len;
    }
    return total;
}

int fp_page_cache_create(struct fp_page_cache **cache, const struct fp_memory *memory)
{
    /* The pages are written before they are read. */
    struct fp_page_cache *c = malloc(sizeof *c);

    *cache = c;
    if (c == NULL)
        return FP_ENOMEM;
    memset(c->slot, 0, sizeof c->slot);
    c->memory = memory;
    c->reader = (struct fp_memory){.readv = read_pieces, .self = c, .fd = -1};
    c->now = 1;
    return 0;
}

void fp_page_cache_destroy(struct fp_page_cache *cache)
{
    free(cache);
}

void fp_page_cache_forget(struct fp_page_cache *cache)
{
    cache->now++;
}

const struct fp_memory *fp_page_cache_memory(const struct fp_page_cache *cache)
{
    return &cache->reader;
}
