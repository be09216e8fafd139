#include "erts/process.h"

#include <string.h>

#include "base/error.h"
#include "erts/abandoned.h"

/* Little endian, as every target of the native engine is. Where `width` is a constant, as in the
 * sampler's hot path, this is one load. */
static inline uint64_t load(const unsigned char *bytes, uint16_t offset, uint32_t width)
{
    uint64_t value = 0;

    memcpy(&value, bytes + offset, width);
    return value;
}

uint64_t fp_process_field(const struct fp_layout *layout, const unsigned char *bytes,
                          enum fp_field field)
{
    return load(bytes, layout->release.offset[field], fp_field_width(field));
}

int fp_process_status(uint32_t state)
{
    if (state & FP_PSFLG_FREE)
        return FP_STATUS_free;
    if (state & FP_PSFLG_EXITING)
        return FP_STATUS_exiting;
    if (state & FP_PSFLG_GC)
        return FP_STATUS_garbage_collecting;
    if (state & FP_PSFLG_SUSPENDED)
        return FP_STATUS_suspended;
    if (state & (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS | FP_PSFLG_DIRTY_RUNNING |
                 FP_PSFLG_DIRTY_RUNNING_SYS))
        return FP_STATUS_running;
    if (state & (FP_PSFLG_ACTIVE | FP_PSFLG_ACTIVE_SYS | FP_PSFLG_DIRTY_ACTIVE_SYS))
        return FP_STATUS_runnable;
    return FP_STATUS_waiting;
}

/* (high - low) in words; -1: it cannot be the size of a heap. */
static int64_t words(uint64_t low, uint64_t high)
{
    uint64_t bytes = high - low;

    if (high < low || (bytes & 7) != 0 || bytes >> 46 != 0)
        return -1;
    return (int64_t)(bytes >> 3);
}

/* Old heaps have no other sizes (erl_gc.c, erts_next_heap_size): Fibonacci's way from 12 and 38 on,
 * and from the 24th on a fifth more each. */
static int is_heap_size(int64_t size)
{
    int64_t before = 12, at = 38;

    for (int i = 2; at < size; i++) {
        int64_t next = i < 23 ? before + at + 1 : at + at / 5;

        before = at;
        at = next;
    }
    return size == at || size == 12;
}

/* A number of words; -1: no memory holds so many. */
static int64_t bounded(uint64_t n)
{
    return n >> 46 != 0 ? -1 : (int64_t)n;
}

/* The in-queue of 27 and later counts the messages behind the last signal that is no message: a
 * lower bound while signals are pending (erl_message.h). */
static int64_t queue_len(int64_t inner, int64_t outer)
{
    const int64_t limit = INT64_C(1) << 40;

    if (inner < -limit || inner > limit || outer < -limit || outer > limit)
        return -1;
    return inner + outer < 0 ? 0 : inner + outer;
}

static int is_between(uint64_t from, uint64_t at, uint64_t to)
{
    return from <= at && at <= to;
}

/* Do these numbers belong to one moment? The collector writes them one after the other, and stays
 * between two of them for as long as a heap takes to be freed or to be walked. */
static int are_heaps_whole(const struct fp_snapshot *now, uint64_t htop)
{
    const int64_t *value = now->value;

    if (!is_between(now->heap, htop, now->hend) || !is_between(now->heap, now->stop, now->hend) ||
        (!now->runs_erlang && htop > now->stop))
        return 0;
    if (now->abandoned != 0 ? is_between(now->heap, now->abandoned, now->hend)
                            : words(now->heap, now->hend) != value[FP_METRIC_heap_block_size] ||
                                  !is_between(now->heap, now->high_water, now->hend))
        return 0;
    return value[FP_METRIC_old_heap_size] <= value[FP_METRIC_old_heap_block_size] &&
           (value[FP_METRIC_old_heap_block_size] == 0 ||
            is_heap_size(value[FP_METRIC_old_heap_block_size]));
}

void fp_process_words_read(const struct fp_layout *layout, const unsigned char *bytes,
                           struct fp_process_words *words)
{
    const uint16_t *offset = layout->release.offset;

#define FIELD(name, width)                                                                         \
    words->word[FP_FIELD_##name] = load(bytes, offset[FP_FIELD_##name], width);
    FP_FIELD_MAP(FIELD)
#undef FIELD
    words->word[FP_WORD_abandoned] =
        fp_word_at(bytes, offset[FP_FIELD_hend] + FP_ABANDONED_BEHIND_HEND);
    words->word[FP_WORD_heap_block_size] =
        fp_word_at(bytes, offset[FP_FIELD_hend] + FP_SIZE_BEHIND_HEND);
    words->word[FP_WORD_current] = load(bytes, layout->release.running.current, 8);
    words->word[FP_WORD_monitors] = fp_word_at(bytes, fp_monitors_offset(layout));
}

int fp_process_decode(const struct fp_layout *layout, const unsigned char *bytes,
                      struct fp_snapshot *snapshot)
{
#define FIELD(name) load(bytes, layout->release.offset[FP_FIELD_##name], FP_WIDTH_##name)
    uint64_t htop = FIELD(htop), old_heap = FIELD(old_heap);
    uint32_t hend_at = layout->release.offset[FP_FIELD_hend];
    /* cppcheck-suppress ctuuninitvar; written below */
    int64_t *value = snapshot->value, fragment;

    snapshot->id = FIELD(id);
    snapshot->i = FIELD(i);
    snapshot->stop = FIELD(stop);
    snapshot->heap = FIELD(heap);
    snapshot->hend = FIELD(hend);
    snapshot->high_water = FIELD(high_water);
    snapshot->abandoned = fp_word_at(bytes, hend_at + FP_ABANDONED_BEHIND_HEND);
    snapshot->registered_at = FIELD(registered);
    snapshot->dictionary = FIELD(dictionary);
    snapshot->current = load(bytes, layout->release.running.current, 8);
    memcpy(snapshot->initial_call, bytes + layout->release.offset[FP_FIELD_initial_call],
           sizeof snapshot->initial_call);
    snapshot->state = (uint32_t)FIELD(state);
    snapshot->status = (uint8_t)fp_process_status(snapshot->state);
    snapshot->runs_erlang = (snapshot->state & (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS)) != 0;
    snapshot->keeps_sizes = 0;
    fp_stamp_decode(layout, bytes, &snapshot->stamp);

    value[FP_METRIC_reductions] = (int64_t)FIELD(reds);
    value[FP_METRIC_message_queue_len] =
        queue_len((int64_t)FIELD(inner_len), (int64_t)FIELD(outer_len));
    value[FP_METRIC_heap_block_size] = bounded(fp_word_at(bytes, hend_at + FP_SIZE_BEHIND_HEND));
    value[FP_METRIC_heap_size] = words(snapshot->heap, htop);
    value[FP_METRIC_stack_size] = words(snapshot->stop, snapshot->hend);
    value[FP_METRIC_recent_size] = words(snapshot->heap, snapshot->high_water);
    fragment = 0;
    if (snapshot->abandoned != 0) {
        fragment = words(snapshot->heap, snapshot->hend);
        value[FP_METRIC_heap_size] = value[FP_METRIC_heap_block_size];
        value[FP_METRIC_recent_size] = 0;
    }
    value[FP_METRIC_old_heap_size] = 0;
    value[FP_METRIC_old_heap_block_size] = 0;
    if (old_heap != 0) {
        value[FP_METRIC_old_heap_size] = words(old_heap, FIELD(old_htop));
        value[FP_METRIC_old_heap_block_size] = words(old_heap, FIELD(old_hend));
    }
    value[FP_METRIC_mbuf_size] = bounded(FIELD(mbuf_size));
    value[FP_METRIC_bin_vheap_size] = bounded(FIELD(bin_vheap));
    value[FP_METRIC_bin_vheap_block_size] = bounded(FIELD(bin_vheap_block));
    value[FP_METRIC_bin_old_vheap_size] = bounded(FIELD(bin_old_vheap));
    value[FP_METRIC_bin_old_vheap_block_size] = bounded(FIELD(bin_old_vheap_block));
    value[FP_METRIC_minor_gcs] = (int64_t)FIELD(gen_gcs);
    value[FP_METRIC_total_heap_size] = value[FP_METRIC_heap_block_size] +
                                       value[FP_METRIC_old_heap_block_size] +
                                       value[FP_METRIC_mbuf_size];
    value[FP_METRIC_memory] = layout->release.process_size +
                              8 * (value[FP_METRIC_total_heap_size] + fragment) +
                              layout->release.message_size * value[FP_METRIC_message_queue_len];
#undef FIELD
    for (int metric = 0; metric < FP_METRIC_COUNT; metric++)
        if (value[metric] < 0)
            return FP_ETORN;
    return fragment >= 0 && are_heaps_whole(snapshot, htop) ? 0 : FP_ETORN;
}

int fp_process_decode_whole(const struct fp_layout *layout, const struct fp_memory *memory,
                            const unsigned char *bytes, struct fp_snapshot *snapshot)
{
    int err = fp_process_decode(layout, bytes, snapshot);
    uint64_t heap = snapshot->abandoned, top, high_water = snapshot->high_water;

    if (err != 0 || heap == 0)
        return err;
    if (fp_abandoned_read(memory, heap, (uint64_t)snapshot->value[FP_METRIC_heap_block_size],
                          snapshot->hend, &high_water, &top) != 0)
        return FP_ETORN;
    snapshot->value[FP_METRIC_heap_size] = words(heap, top);
    snapshot->value[FP_METRIC_recent_size] = words(heap, high_water);
    return 0;
}
