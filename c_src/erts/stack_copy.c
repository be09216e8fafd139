#include "erts/stack_copy.h"

#include <string.h>

#include "erts/process_names.h"
#include "erts/term.h"

void fp_stack_copy_plan(struct fp_stack_copy *copy, uint64_t address,
                        const struct fp_snapshot *before)
{
    uint64_t words = (before->hend - before->stop) / 8;
    int is_cut = words > FP_STACK_WORDS_MAX;

    copy->address = address;
    copy->before = *before;
    copy->words = is_cut ? FP_STACK_WORDS_MAX : (uint32_t)words;
    copy->leaf_words = is_cut ? FP_STACK_WORDS_LEAF : (uint32_t)words;
}

uint32_t fp_stack_copy_spans(struct fp_stack_copy *copy, const struct fp_layout *layout,
                             struct fp_safe_read_span *span)
{
    const struct fp_snapshot *before = &copy->before;
    uint32_t n = 0, root = copy->words - copy->leaf_words;

    if (copy->leaf_words > 0)
        span[n++] = (struct fp_safe_read_span){before->stop, copy->word, 8 * copy->leaf_words, 0};
    if (root > 0)
        span[n++] = (struct fp_safe_read_span){before->hend - 8ull * root,
                                               copy->word + copy->leaf_words, 8 * root, 0};
    if (before->dictionary != 0)
        span[n++] = (struct fp_safe_read_span){before->dictionary, &copy->dictionary,
                                               sizeof copy->dictionary, 0};
    span[n++] = (struct fp_safe_read_span){copy->address, copy->again, layout->snapshot_size, 0};
    return n;
}

/* The pieces of a view follow each other without gaps, so the stack's ends do. */
void fp_stack_copy_found(struct fp_stack_copy *copy, const struct fp_safe_read_span *span)
{
    if (copy->leaf_words > 0)
        copy->word = span++->into;
    if (copy->words > copy->leaf_words)
        span++;
    if (copy->before.dictionary != 0)
        memmove(&copy->dictionary, span++->into, sizeof copy->dictionary);
    copy->again = span->into;
}

/* One stamp may stand for many moments of a collection: there, the sizes have to fit each other. */
int fp_stack_copy_is_whole(const struct fp_stack_copy *copy, const struct fp_layout *layout,
                           const struct fp_safe_read_span *span, uint32_t n)
{
    struct fp_snapshot collecting;
    struct fp_stamp after;

    for (uint32_t i = 0; i < n; i++)
        if (span[i].result != 0)
            return 0;
    if (copy->before.dictionary != 0 && fp_dictionary_bytes(&copy->dictionary) < 0)
        return 0;
    fp_stamp_decode(layout, copy->again, &after);
    return fp_stamp_is_same(&copy->before.stamp, &after) &&
           (copy->before.status != FP_STATUS_garbage_collecting ||
            fp_process_decode(layout, copy->again, &collecting) == 0);
}

int fp_stack_dirty_nif(const struct fp_memory *memory, uint64_t i, uint64_t mfa[3])
{
    return i != 0 && fp_safe_read(memory, i - 24, mfa, 24) == 0 && fp_term_is_atom(mfa[0]) &&
           fp_term_is_atom(mfa[1]) && mfa[2] <= 255;
}

void fp_stack_copy_frames(const struct fp_stack_copy *copy, const struct fp_layout *layout,
                          const struct fp_memory *memory, const struct fp_ranges *code,
                          uint64_t nif, struct fp_stack *stack)
{
    uint64_t top[2];
    uint32_t n = 0;

    if (copy->before.status == FP_STATUS_garbage_collecting)
        top[n++] = FP_FRAME_GC;
    if (nif != FP_FRAME_NONE)
        top[n++] = nif;
    fp_stack_frames(stack, code, copy->before.i, copy->word, copy->words, copy->leaf_words);
    fp_stack_put_on_top(stack, top, n);
    if (fp_process_hibernates(layout, memory, &copy->before))
        fp_stack_only(stack, FP_FRAME_BIF | copy->before.current);
    if (stack->count == 0)
        fp_stack_only(stack, FP_FRAME_UNREADABLE);
}
