#include "selector.h"

#include <string.h>
#include <sys/mman.h>

#include "core/error.h"
#include "vm/process.h"
#include "vm/ptab.h"

/* Slots looked at together. */
#define CHUNK 4096u
/* Structures that lie closer than GAP are read in one piece, up to SPAN: a
 * little more is copied, but the kernel's cost is per piece and per page. */
#define SPAN (256u << 10)
#define GAP 1024u

/* What is remembered of each slot between passes. */
struct seen {
    uint64_t id;
    uint64_t reductions;
};

struct fp_selector {
    const struct fp_layout *layout;
    const struct fp_peek *peek;
    uint64_t excluded[FP_EXCLUDED_MAX];
    size_t excluded_n;
    uint32_t top, slots, cursor;
    uint32_t divisor, limit; /* of `top`: how many this pass chooses */
    size_t heap_n;
    uint64_t processes, chosen_processes;
    size_t chosen_n;
    size_t bytes;                /* of this mapping */
    struct fp_candidate *heap;   /* top of them, the least at [0] */
    struct fp_candidate *chosen; /* the last pass' */
    uint64_t *word, *other;      /* CHUNK each: addresses, sorting room */
    unsigned char *span;         /* SPAN bytes */
    struct seen *seen;           /* a slot each, touched when first used */
};

/* ------------------------------------------------------ the N largest -- */

static void sift_down(struct fp_candidate *heap, size_t n, size_t at)
{
    for (;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        struct fp_candidate swap;

        if (left < n && heap[left].reductions < heap[least].reductions)
            least = left;
        if (right < n && heap[right].reductions < heap[least].reductions)
            least = right;
        if (least == at)
            return;
        swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

static void sift_up(struct fp_candidate *heap, size_t at)
{
    while (at > 0) {
        size_t up = (at - 1) / 2;
        struct fp_candidate swap;

        if (heap[up].reductions <= heap[at].reductions)
            return;
        swap = heap[at];
        heap[at] = heap[up];
        heap[up] = swap;
        at = up;
    }
}

static void offer(struct fp_selector *s, int64_t reductions, uint64_t id,
                  uint64_t address)
{
    struct fp_candidate candidate = {reductions, id, address};

    if (s->heap_n < s->limit) {
        s->heap[s->heap_n] = candidate;
        sift_up(s->heap, s->heap_n++);
    } else if (s->limit > 0 && reductions > s->heap[0].reductions) {
        s->heap[0] = candidate;
        sift_down(s->heap, s->heap_n, 0);
    }
}

/* --------------------------------------------------------- one process -- */

static int is_excluded(const struct fp_selector *s, uint64_t id)
{
    for (size_t i = 0; i < s->excluded_n; i++)
        if (s->excluded[i] == id)
            return 1;
    return 0;
}

/* A slot's word may point to a structure that is given back already, or to the
 * VM's marker: only one whose id belongs into this table, alive, counts. */
static void look(struct fp_selector *s, const unsigned char *bytes,
                 uint64_t address)
{
    uint64_t id = fp_process_field(s->layout, bytes, FP_FIELD_id);
    uint64_t reds = fp_process_field(s->layout, bytes, FP_FIELD_reds);
    uint32_t state =
        (uint32_t)fp_process_field(s->layout, bytes, FP_FIELD_state);
    uint32_t slot = fp_pid_slot(s->layout, id);
    struct seen *seen;
    uint64_t since;

    /* All ones: the marker of a slot that is being filled or emptied (erl_ptab.h
     * ERTS_PTAB_INVALID_ID). */
    if (!fp_term_is_pid(id) || (id | 15) == UINT64_MAX || slot >= s->slots ||
        (state & FP_PSFLG_FREE) != 0)
        return;
    s->processes++;
    seen = &s->seen[slot];
    since = seen->id == id && reds >= seen->reductions ? seen->reductions : 0;
    seen->id = id;
    seen->reductions = reds;
    if (!is_excluded(s, id))
        offer(s, (int64_t)(reds - since), id, address);
}

/* ----------------------------------------------------- reading a chunk -- */

/* Least significant digit first, three digits of eleven bits of the address
 * above the allocator's granularity. Addresses that differ only beyond those
 * 37 bits come out unordered, which costs time and nothing else. */
static void sort_addresses(struct fp_selector *s, size_t n)
{
    for (unsigned shift = 4; shift < 4 + 3 * 11; shift += 11) {
        uint32_t start[2048] = {0}, sum = 0;
        uint64_t *swap = s->other;

        for (size_t i = 0; i < n; i++)
            start[s->word[i] >> shift & 2047]++;
        for (size_t digit = 0; digit < 2048; digit++) {
            uint32_t count = start[digit];

            start[digit] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            s->other[start[s->word[i] >> shift & 2047]++] = s->word[i];
        s->other = s->word;
        s->word = swap;
    }
}

/* Structures word[from..to) in one read; one by one when a part of that is not
 * readable. */
static void look_at(struct fp_selector *s, size_t from, size_t to)
{
    uint64_t base = s->word[from];
    size_t size = (size_t)(s->word[to - 1] - base) + s->layout->snapshot_size;

    if (fp_peek_read(s->peek, base, s->span, size) == 0) {
        for (size_t i = from; i < to; i++)
            look(s, s->span + (s->word[i] - base), s->word[i]);
        return;
    }
    for (size_t i = from; to - from > 1 && i < to; i++)
        look_at(s, i, i + 1);
}

static void look_at_all(struct fp_selector *s, size_t n)
{
    size_t from = 0;

    for (size_t i = 1; i <= n; i++) {
        if (i < n &&
            s->word[i] - s->word[i - 1] <= s->layout->snapshot_size + GAP &&
            s->word[i] - s->word[from] + s->layout->snapshot_size <= SPAN)
            continue;
        look_at(s, from, i);
        from = i;
    }
}

static void look_at_chunk(struct fp_selector *s, uint32_t slot, uint32_t n)
{
    size_t used = 0;

    if (fp_ptab_read(s->layout, s->peek, slot, n, s->word) != 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (s->word[i] != 0)
            s->word[used++] = s->word[i];
    if (used == 0)
        return;
    sort_addresses(s, used);
    look_at_all(s, used);
}

/* -------------------------------------------------------------- a pass -- */

static void end_pass(struct fp_selector *s)
{
    struct fp_candidate *swap = s->chosen;

    s->chosen = s->heap;
    s->chosen_n = s->heap_n;
    s->chosen_processes = s->processes;
    s->heap = swap;
    s->heap_n = 0;
    s->processes = 0;
    s->cursor = 0;
    s->limit = (s->top + s->divisor - 1) / s->divisor;
}

void fp_selector_divide(struct fp_selector *s, uint32_t divisor)
{
    s->divisor = divisor;
}

int fp_selector_step(struct fp_selector *s, uint32_t slots)
{
    uint32_t left = s->slots - s->cursor;
    uint32_t todo = slots < left ? slots : left;

    while (todo > 0) {
        uint32_t n = todo < CHUNK ? todo : CHUNK;

        look_at_chunk(s, s->cursor, n);
        s->cursor += n;
        todo -= n;
    }
    if (s->cursor < s->slots)
        return 0;
    end_pass(s);
    return 1;
}

const struct fp_candidate *fp_selector_chosen(const struct fp_selector *s,
                                              size_t *n, uint64_t *processes)
{
    *n = s->chosen_n;
    *processes = s->chosen_processes;
    return s->chosen;
}

uint32_t fp_selector_slots(const struct fp_selector *s)
{
    return s->slots;
}

/* ------------------------------------------------------ life and death -- */

/* One mapping for everything: it is touched where it is used, so that the
 * memory of a table of a million slots is only that of its processes. */
int fp_selector_create(struct fp_selector **out, const struct fp_layout *layout,
                       const struct fp_peek *peek, uint32_t top,
                       const uint64_t *excluded, size_t n)
{
    uint32_t slots = layout->process_limit;
    size_t head = (sizeof(struct fp_selector) + 63) & ~(size_t)63;
    size_t heap = top * sizeof(struct fp_candidate);
    size_t bytes = head + 2 * heap + 2 * CHUNK * sizeof(uint64_t) + SPAN +
                   slots * sizeof(struct seen);
    unsigned char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct fp_selector *s = (struct fp_selector *)(void *)at;

    if (at == MAP_FAILED)
        return FP_ENOMEM;
    s->layout = layout;
    s->peek = peek;
    s->top = s->limit = top;
    s->divisor = 1;
    s->slots = slots;
    s->bytes = bytes;
    s->excluded_n = n < FP_EXCLUDED_MAX ? n : FP_EXCLUDED_MAX;
    if (s->excluded_n > 0)
        memcpy(s->excluded, excluded, s->excluded_n * sizeof *excluded);
    s->heap = (void *)(at += head);
    s->chosen = (void *)(at += heap);
    s->word = (void *)(at += heap);
    s->other = (void *)(at += CHUNK * sizeof(uint64_t));
    s->span = at += CHUNK * sizeof(uint64_t);
    s->seen = (void *)(at + SPAN);
    *out = s;
    return 0;
}

void fp_selector_destroy(struct fp_selector *s)
{
    if (s != NULL)
        munmap(s, s->bytes);
}
