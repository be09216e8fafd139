#include <string.h>

#include "erts/serving.h"
#include "tracer/collector.h"

/* Fragments of that part of a window or more are its cause. */
#define FRAGMENTS_PART 16u

/* The frames of the process, after the collection: on a normal scheduler the top of the stack is
 * where the code goes on. Where the process was scheduled in for the collection (a dirty scheduler)
 * that is `i`; on a normal one, too, when the top is no code address. */
static void take_stack(const struct fp_allocations *allocations, struct collector *thread,
                       const struct fp_fresh *fresh)
{
    uint64_t words = fresh == NULL ? 0 : (fresh->hend - fresh->stop) / 8, leaf = words, root = 0;
    uint64_t i = thread->is_dirty && fresh != NULL ? fresh->i : 0;
    const struct fp_memory *memory = allocations->options.memory;

    if (words > LEAF_WORDS + ROOT_WORDS) {
        leaf = LEAF_WORDS;
        root = ROOT_WORDS;
    }
    fp_live_ranges_copy(allocations->options.code, &thread->code);
    thread->stack.count = 0;
    thread->stack_words = thread->leaf_words = 0;
    if (leaf > 0 && fp_safe_read(memory, fresh->stop, thread->word, 8 * leaf) == 0 &&
        (root == 0 ||
         fp_safe_read(memory, fresh->hend - 8 * root, thread->word + leaf, 8 * root) == 0)) {
        thread->stack_words = (uint32_t)(leaf + root);
        thread->leaf_words = (uint32_t)leaf;
        if ((thread->word[0] & 3) != 0 || !fp_ranges_contain(&thread->code, thread->word[0]))
            i = fresh->i;
        fp_stack_frames(&thread->stack, &thread->code, i, thread->word, leaf + root, leaf);
    }
    if (thread->stack.count == 0) {
        thread->stack.count = 1;
        thread->stack.frame[0] = FP_FRAME_UNREADABLE;
    }
}

/* The collection is over, and the process stands still: its terms are where its stack says. */
static void take_message(const struct fp_allocations *allocations, const struct collector *thread,
                         struct fp_allocation *record)
{
    struct fp_serving_sites *sites = fp_serving_published();
    struct fp_serving serving;
    struct fp_work work = {.kind = FP_MESSAGE_unknown};
    struct fp_walk walk;

    if (sites == NULL || thread->stack_words == 0 ||
        !fp_serving_find(sites, thread->word, thread->stack_words, thread->leaf_words, &serving))
        return;
    fp_serving_walk(sites, &walk, allocations->options.memory, allocations->options.layout);
    if (!fp_serving_read(&walk, &serving, &work))
        return;
    record->message_kind = work.kind;
    record->message = work.message;
}

enum fp_gc_cause fp_collector_cause(const struct fp_fresh *fresh)
{
    uint64_t room = 0;

    if (fresh->fragment * FRAGMENTS_PART > fresh->words)
        return FP_GC_CAUSE_fragments;
    if (fresh->binaries)
        return FP_GC_CAUSE_binaries;
    if (fresh->fragment > 0)
        return FP_GC_CAUSE_heap; /* a small term had no room */
    if (fresh->is_abandoned)
        return FP_GC_CAUSE_unknown; /* how full it was is nowhere */
    /* At least 0: the three words were in order when they were read (fresh.c). */
    room = (fresh->stop - fresh->heap) / 8 - fresh->survived - fresh->words;
    return room * 4 < (fresh->hend - fresh->heap) / 8 ? FP_GC_CAUSE_heap : FP_GC_CAUSE_other;
}

void fp_collector_commit(struct fp_allocations *allocations, struct collector *thread,
                         const struct fp_fresh *after, int64_t length, unsigned flags)
{
    uint32_t bytes;
    struct fp_allocation *record;

    COUNT(thread, samples, thread->weight > 0);
    take_stack(allocations, thread, after);
    bytes = (uint32_t)sizeof *record + 8 * thread->stack.count;
    record = fp_ring_reserve(thread->ring, bytes);
    if (record == NULL) {
        COUNT(thread, dropped, 1);
        COUNT(thread, dropped_words, thread->weight);
        return;
    }
    *record = (struct fp_allocation){.pid = thread->pid,
                                     .weight = thread->weight,
                                     .length_ns = (uint64_t)length,
                                     .end_ns = thread->start_ns + length,
                                     .count = thread->stack.count};
    if (!thread->is_minor)
        flags |= FP_ALLOCATION_MAJOR;
    if (thread->is_looked) {
        flags |= FP_ALLOCATION_WINDOW;
        record->window = thread->fresh.words;
        record->live = thread->fresh.live;
        record->cause = (uint8_t)fp_collector_cause(&thread->fresh);
        if (after != NULL && thread->is_minor) {
            flags |= FP_ALLOCATION_SURVIVED;
            record->survived = after->survived < record->window ? after->survived : record->window;
        }
    }
    record->flags = (uint16_t)flags;
    take_message(allocations, thread, record);
    memcpy(record->frame, thread->stack.frame, 8 * (size_t)thread->stack.count);
    fp_ring_commit(thread->ring);
}
