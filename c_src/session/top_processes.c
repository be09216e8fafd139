#include "session/top_processes.h"

#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/process.h"
#include "erts/process_table.h"

/* Slots of one read. */
#define CHUNK 4096u
/* One read covers structures with gaps of up to GAP between them, SPAN bytes in all: it copies a
 * little more, and the kernel's cost is per piece and per page. */
#define SPAN (256u << 10)
#define GAP 1024u
/* Below that, counting digits costs more than comparing. */
#define FEW 128u

/* The largest of one ranking. */
struct topk {
    struct fp_ranking ranking;
    uint32_t limit; /* of ranking.top: how many this pass selects */
    uint8_t is_due; /* has a part in this pass */
    size_t heap_n, last_n;
    struct fp_candidate *heap; /* ranking.top of them; once full, the least is [0] */
    struct fp_candidate *last; /* of the ranking's last pass */
};

struct fp_top_processes {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint64_t excluded[FP_EXCLUDED_MAX];
    size_t excluded_n;
    uint32_t slots, cursor, divisor;
    uint64_t passes, processes, selected_processes;
    struct topk topk[FP_RANKINGS_MAX];
    size_t rankings;
    uint8_t needs_decoding; /* a due ranking is by another metric than reductions */
    size_t selected_n;
    size_t bytes, seen_bytes;
    struct fp_candidate *selected; /* each `last`, one after another */
    uint64_t *word, *other;        /* CHUNK each: addresses, and room to sort them */
    unsigned char *span;           /* SPAN bytes */
    /* Of each slot, at its last reading: the id, and the value by each ranking. A page of it takes
     * memory once a process is in its slots. */
    uint64_t *seen;
};

/* -------------------------------------------------------- the N largest -- */

static int is_less(const struct fp_candidate *a, const struct fp_candidate *b)
{
    return a->score != b->score ? a->score < b->score : a->value < b->value;
}

static void sift_down(struct fp_candidate *heap, size_t n, size_t at)
{
    for (;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        struct fp_candidate swap;

        if (left < n && is_less(&heap[left], &heap[least]))
            least = left;
        if (right < n && is_less(&heap[right], &heap[least]))
            least = right;
        if (least == at)
            return;
        swap = heap[at];
        heap[at] = heap[least];
        heap[least] = swap;
        at = least;
    }
}

static void topk_push(struct topk *k, const struct fp_candidate *candidate)
{
    if (k->heap_n < k->limit) {
        k->heap[k->heap_n++] = *candidate;
        for (size_t at = k->heap_n / 2; k->heap_n == k->limit && at-- > 0;)
            sift_down(k->heap, k->heap_n, at);
    } else if (k->limit > 0 && is_less(&k->heap[0], candidate)) {
        k->heap[0] = *candidate;
        sift_down(k->heap, k->heap_n, 0);
    }
}

/* ---------------------------------------------------------- one process -- */

static int is_excluded(const struct fp_top_processes *top, uint64_t id)
{
    for (size_t i = 0; i < top->excluded_n; i++)
        if (top->excluded[i] == id)
            return 1;
    return 0;
}

/* A process that is new since the ranking's last pass has grown from 0. One whose reductions fell
 * is another process. */
static void rank(struct fp_top_processes *top, struct topk *k, uint64_t *seen, int is_known,
                 const struct fp_snapshot *now, uint64_t address)
{
    int64_t value = now->value[k->ranking.metric];
    int64_t before = is_known ? (int64_t)*seen : 0;
    struct fp_candidate candidate = {value, value, now->id, address};

    if (k->ranking.metric == FP_METRIC_reductions && value < before)
        before = 0;
    *seen = (uint64_t)value;
    if (k->ranking.is_delta)
        candidate.score = fp_metric_delta(k->ranking.metric, before, value);
    if (!is_excluded(top, now->id))
        topk_push(k, &candidate);
}

/* A slot's word may point to a freed structure, or to the VM's marker: a process is what is alive
 * and has an id of this table. */
static void add_process(struct fp_top_processes *top, const unsigned char *bytes, uint64_t address)
{
    uint64_t id = fp_process_field(top->layout, bytes, FP_FIELD_id);
    uint32_t state = (uint32_t)fp_process_field(top->layout, bytes, FP_FIELD_state);
    uint32_t slot = fp_pid_slot(top->layout, id);
    struct fp_snapshot now;
    uint64_t *seen;
    int is_known;

    /* All ones: the marker of a slot that is being filled or emptied (erl_ptab.h
     * ERTS_PTAB_INVALID_ID). */
    if (!fp_term_is_pid(id) || (id | 15) == UINT64_MAX || slot >= top->slots ||
        (state & FP_PSFLG_FREE) != 0)
        return;
    top->processes++;
    /* Inconsistent: it was changing. The next pass ranks it. */
    if (top->needs_decoding && fp_process_decode(top->layout, bytes, &now) != 0)
        return;
    seen = top->seen + (1 + top->rankings) * slot;
    now.id = id;
    now.value[FP_METRIC_reductions] = (int64_t)fp_process_field(top->layout, bytes, FP_FIELD_reds);
    is_known = seen[0] == id;
    seen[0] = id;
    for (size_t i = 0; i < top->rankings; i++) {
        if (top->topk[i].is_due)
            rank(top, &top->topk[i], &seen[1 + i], is_known, &now, address);
        else if (!is_known)
            seen[1 + i] = 0;
    }
}

/* ------------------------------------------------------ reading a chunk -- */

static void sort_few(uint64_t *word, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint64_t address = word[i];
        size_t at = i;

        for (; at > 0 && word[at - 1] > address; at--)
            word[at] = word[at - 1];
        word[at] = address;
    }
}

/* Least significant digit first, three digits of eleven bits of the address above the allocator's
 * granularity. Addresses that differ only above those 37 bits come out unordered, which costs time
 * and nothing else. */
static void sort_addresses(struct fp_top_processes *top, size_t n)
{
    if (n < FEW) {
        sort_few(top->word, n);
        return;
    }
    for (unsigned shift = 4; shift < 4 + 3 * 11; shift += 11) {
        uint32_t start[2048] = {0}, sum = 0;
        uint64_t *swap = top->other;

        for (size_t i = 0; i < n; i++)
            start[top->word[i] >> shift & 2047]++;
        for (size_t digit = 0; digit < 2048; digit++) {
            uint32_t count = start[digit];

            start[digit] = sum;
            sum += count;
        }
        for (size_t i = 0; i < n; i++)
            top->other[start[top->word[i] >> shift & 2047]++] = top->word[i];
        top->other = top->word;
        top->word = swap;
    }
}

/* Structures word[from..to) in one read; one by one when a part of that is not readable. */
static void read_span(struct fp_top_processes *top, size_t from, size_t to)
{
    uint64_t base = top->word[from];
    size_t size = (size_t)(top->word[to - 1] - base) + top->layout->snapshot_size;

    if (fp_safe_read(top->memory, base, top->span, size) == 0) {
        for (size_t i = from; i < to; i++)
            add_process(top, top->span + (top->word[i] - base), top->word[i]);
        return;
    }
    for (size_t i = from; to - from > 1 && i < to; i++)
        read_span(top, i, i + 1);
}

static void read_chunk(struct fp_top_processes *top, uint32_t slot, uint32_t n)
{
    size_t size = top->layout->snapshot_size, used = 0, from = 0;

    if (fp_process_table_read(top->layout, top->memory, slot, n, top->word) != 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (top->word[i] != 0)
            top->word[used++] = top->word[i];
    sort_addresses(top, used);
    for (size_t i = 1; i <= used; i++) {
        const uint64_t *word = top->word;

        if (i < used && word[i] - word[i - 1] <= size + GAP && word[i] - word[from] + size <= SPAN)
            continue;
        read_span(top, from, i);
        from = i;
    }
}

/* --------------------------------------------------------------- a pass -- */

/* The first two passes follow each other closely, for every ranking. */
static void begin_pass(struct fp_top_processes *top)
{
    top->processes = 0;
    top->cursor = 0;
    top->needs_decoding = 0;
    for (size_t i = 0; i < top->rankings; i++) {
        struct topk *k = &top->topk[i];

        k->heap_n = 0;
        k->limit = (k->ranking.top + top->divisor - 1) / top->divisor;
        k->is_due = top->passes == 0 || (top->passes - 1) % k->ranking.every == 0;
        if (k->is_due && k->ranking.metric != FP_METRIC_reductions)
            top->needs_decoding = 1;
    }
}

static void end_pass(struct fp_top_processes *top)
{
    top->selected_processes = top->processes;
    top->selected_n = 0;
    for (size_t i = 0; i < top->rankings; i++) {
        struct topk *k = &top->topk[i];

        if (k->is_due) {
            memcpy(k->last, k->heap, k->heap_n * sizeof *k->heap);
            k->last_n = k->heap_n;
        }
        memcpy(top->selected + top->selected_n, k->last, k->last_n * sizeof *k->last);
        top->selected_n += k->last_n;
    }
    top->passes++;
    begin_pass(top);
}

void fp_top_processes_divide(struct fp_top_processes *top, uint32_t divisor)
{
    top->divisor = divisor;
}

int fp_top_processes_step(struct fp_top_processes *top, uint32_t slots)
{
    uint32_t left = top->slots - top->cursor;
    uint32_t end = top->cursor + (slots < left ? slots : left);

    while (top->cursor < end) {
        uint32_t n = end - top->cursor < CHUNK ? end - top->cursor : CHUNK;

        read_chunk(top, top->cursor, n);
        top->cursor += n;
    }
    if (top->cursor < top->slots)
        return 0;
    end_pass(top);
    return 1;
}

const struct fp_candidate *fp_top_processes_selected(const struct fp_top_processes *top, size_t *n,
                                                     uint64_t *processes)
{
    *n = top->selected_n;
    *processes = top->selected_processes;
    return top->selected;
}

uint32_t fp_top_processes_slots(const struct fp_top_processes *top)
{
    return top->slots;
}

/* ----------------------------------------------------- creation and end -- */

static int are_valid(const struct fp_ranking *ranking, size_t rankings)
{
    if (rankings > FP_RANKINGS_MAX)
        return 0;
    for (size_t i = 0; i < rankings; i++)
        if (ranking[i].metric >= FP_METRIC_COUNT || ranking[i].every == 0)
            return 0;
    return 1;
}

uint64_t fp_rankings_top(const struct fp_ranking *ranking, size_t rankings)
{
    uint64_t top = 0;

    for (size_t i = 0; i < rankings; i++)
        top += ranking[i].top;
    return top;
}

/* A table may have 2^27 slots: MAP_NORESERVE leaves it out of what the kernel promises, unless
 * vm.overcommit_memory is 2. */
static int map_seen(struct fp_top_processes *top)
{
    void *seen;

    top->seen_bytes = sizeof *top->seen * (1 + top->rankings) * (size_t)top->slots;
    seen = mmap(NULL, top->seen_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    top->seen = seen == MAP_FAILED ? NULL : seen;
    return top->seen == NULL ? FP_ENOMEM : 0;
}

int fp_top_processes_create(struct fp_top_processes **out, const struct fp_layout *layout,
                            const struct fp_memory *memory, const struct fp_ranking *ranking,
                            size_t rankings, const uint64_t *excluded, size_t excluded_n)
{
    size_t head = (sizeof(struct fp_top_processes) + 63) & ~(size_t)63, candidates, bytes;
    struct fp_top_processes *top;
    unsigned char *at;

    if (!are_valid(ranking, rankings))
        return FP_EINVAL;
    candidates = fp_rankings_top(ranking, rankings) * sizeof(struct fp_candidate);
    bytes = head + 3 * candidates + 2 * CHUNK * sizeof(uint64_t) + SPAN;
    at = fp_pages_alloc(bytes);
    if (at == NULL)
        return FP_ENOMEM;
    top = (struct fp_top_processes *)(void *)at;
    top->bytes = bytes;
    top->layout = layout;
    top->memory = memory;
    top->slots = layout->process_limit;
    top->rankings = rankings;
    top->divisor = 1;
    top->excluded_n = excluded_n < FP_EXCLUDED_MAX ? excluded_n : FP_EXCLUDED_MAX;
    for (size_t i = 0; i < top->excluded_n; i++)
        top->excluded[i] = excluded[i];
    top->selected = (void *)(at += head);
    at += candidates;
    for (size_t i = 0; i < rankings; i++) {
        top->topk[i].ranking = ranking[i];
        top->topk[i].heap = (void *)at;
        top->topk[i].last = top->topk[i].heap + ranking[i].top;
        at += 2 * ranking[i].top * sizeof(struct fp_candidate);
    }
    top->word = (void *)at;
    top->other = top->word + CHUNK;
    top->span = (void *)(top->other + CHUNK);
    begin_pass(top);
    *out = top;
    if (map_seen(top) == 0)
        return 0;
    fp_top_processes_destroy(top);
    return FP_ENOMEM;
}

void fp_top_processes_destroy(struct fp_top_processes *top)
{
    if (top == NULL)
        return;
    fp_pages_free(top->seen, top->seen_bytes);
    fp_pages_free(top, top->bytes);
}
