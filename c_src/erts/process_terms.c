#include "erts/process_terms.h"

#include "base/error.h"
#include "erts/abandoned.h"
#include "erts/process.h"

#define MOVES                                                                                      \
    (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS | FP_PSFLG_DIRTY_RUNNING |                            \
     FP_PSFLG_DIRTY_RUNNING_SYS | FP_PSFLG_GC)
#define REGISTERS_MAX 255u
#define TOKEN_BEHIND_DICTIONARY 24u

/* Bytes from the start of a field that the places next to it reach. */
static const struct {
    uint8_t field, before, behind;
} reach[] = {{FP_FIELD_i, 72, 56},         {FP_FIELD_heap, 80, 8},
             {FP_FIELD_mbuf_size, 24, 8},  {FP_FIELD_bin_vheap, 8, 16},
             {FP_FIELD_dictionary, 0, 32}, {FP_FIELD_hend, 0, FP_ABANDONED_BEHIND_HEND + 8}};

int fp_process_terms_fit(const struct fp_layout *layout)
{
    const struct fp_queue_offsets *queue = &layout->release.queue;
    uint32_t size = layout->release.process_size;

    for (size_t k = 0; k < sizeof reach / sizeof *reach; k++) {
        uint32_t at = layout->release.offset[reach[k].field];

        if (at < reach[k].before || at + reach[k].behind > size)
            return 0;
    }
    return size <= FP_PROBE_WINDOW && queue->inner + 8u <= size && queue->middle + 8u <= size &&
           queue->outer + 8u <= size && queue->buffers + 8u <= size;
}

static void decode_release(const struct fp_layout *layout, const unsigned char *bytes,
                           struct fp_process_terms *view)
{
    const uint16_t *at = layout->release.offset;
    uint32_t i = at[FP_FIELD_i], heap = at[FP_FIELD_heap];

    if (layout->release.otp < 27) {
        view->arity = fp_word_at(bytes, i - 72u);
        view->arg_reg = fp_word_at(bytes, i - 64u);
        view->fvalue = fp_word_at(bytes, heap - 8u);
        view->group_leader = fp_word_at(bytes, i + 40u);
        view->ftrace = fp_word_at(bytes, i + 48u);
    } else {
        view->arity = bytes[heap - 59u];
        view->arg_reg = fp_word_at(bytes, heap - 56u);
        view->fvalue = fp_word_at(bytes, heap - 80u);
        view->group_leader = fp_word_at(bytes, i + 32u);
        view->ftrace = fp_word_at(bytes, i + 40u);
    }
}

static void decode(const struct fp_layout *layout, const unsigned char *bytes,
                   struct fp_process_terms *view)
{
    const uint16_t *at = layout->release.offset;

#define TAKE(name) view->name = fp_process_field(layout, bytes, FP_FIELD_##name)
    TAKE(i);
    TAKE(reds);
    TAKE(heap);
    TAKE(htop);
    TAKE(stop);
    TAKE(hend);
    TAKE(old_heap);
    TAKE(old_htop);
    TAKE(old_hend);
    TAKE(gen_gcs);
    TAKE(mbuf_size);
    TAKE(dictionary);
    TAKE(parent);
#undef TAKE
    view->mbuf = fp_word_at(bytes, at[FP_FIELD_mbuf_size] - 24u);
    view->msg_frag = fp_word_at(bytes, at[FP_FIELD_mbuf_size] - 8u);
    view->off_heap = fp_word_at(bytes, at[FP_FIELD_bin_vheap] - 8u);
    view->writable = fp_word_at(bytes, at[FP_FIELD_bin_vheap] + 8u);
    view->token = fp_word_at(bytes, at[FP_FIELD_dictionary] + TOKEN_BEHIND_DICTIONARY);
    decode_release(layout, bytes, view);
}

/* Parts of a block, in their order. */
static int is_block(uint64_t start, uint64_t top, uint64_t bottom, uint64_t end)
{
    return ((start | top | bottom | end) & 7) == 0 && start <= top && top <= bottom &&
           bottom <= end && end - start < UINT64_C(1) << 46;
}

int fp_process_terms_read(const struct fp_layout *layout, const struct fp_memory *memory,
                          uint64_t pid, uint64_t address, struct fp_process_terms *view)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    uint32_t state;

    if (!fp_process_terms_fit(layout))
        return FP_ELAYOUT;
    if (fp_safe_read(memory, address, bytes, layout->release.process_size) != 0)
        return FP_EFAULT;
    state = (uint32_t)fp_process_field(layout, bytes, FP_FIELD_state);
    if (fp_process_field(layout, bytes, FP_FIELD_id) != pid ||
        (state & (FP_PSFLG_FREE | FP_PSFLG_EXITING)) != 0)
        return FP_EGONE;
    if ((state & MOVES) != 0)
        return FP_ETORN;
    decode(layout, bytes, view);
    /* A heap that a collection was put off on is not the only one. */
    if (fp_word_at(bytes, layout->release.offset[FP_FIELD_hend] + FP_ABANDONED_BEHIND_HEND) != 0 ||
        !is_block(view->heap, view->htop, view->stop, view->hend) ||
        !is_block(view->old_heap, view->old_htop, view->old_htop, view->old_hend) ||
        view->arity > REGISTERS_MAX)
        return FP_ETORN;
    return 0;
}
