/* search.h - binary search in a sorted table: the greatest start that is at or before an address.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many entries start at or before `address`: the greatest of them is the one before this index.
 * `size` is an entry's, whose first member is its start, of `width` bytes (4 or 8). */
static inline size_t fp_search(const void *table, size_t count, size_t size, size_t width,
                               uint64_t address)
{
    const unsigned char *entry = table;
    size_t low = 0, high = count;

    while (low < high) { /* all before `low` start at or before the address */
        size_t middle = low + (high - low) / 2;
        uint64_t start = 0; /* little-endian: a narrow one fills the low half */

        memcpy(&start, entry + middle * size, width);
        if (start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
