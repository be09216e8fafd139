#include "erts/fragment.h"

#include "base/error.h"

/* More words are no fragment. */
#define WORDS_MAX (UINT64_C(1) << 37)

int fp_fragment_read(const struct fp_memory *memory, uint64_t address, struct fp_fragment *fragment)
{
    uint64_t word[FP_FRAGMENT_BYTES / 8];

    *fragment = (struct fp_fragment){0};
    if ((address & 7) != 0)
        return FP_ETORN;
    if (fp_safe_read(memory, address, word, sizeof word) != 0)
        return FP_EFAULT;
    if (word[4] > word[3] || word[3] > WORDS_MAX)
        return FP_ETORN;
    *fragment = (struct fp_fragment){.next = word[0],
                                     .off_heap = word[1],
                                     .start = address + FP_FRAGMENT_BYTES,
                                     .room = word[3],
                                     .words = word[4]};
    return 0;
}
