#include "session/top_processes.h"

#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "erts/process.h"
#include "erts/process_table.h"

/* Slots looked at together. */
#define CHUNK 4096u
/* Structures that lie closer than GAP are read in one piece, up to SPAN: a little more is copied,
 * but the kernel's cost is per piece and per page. */
#define SPAN (256u << 10)
#define GAP 1024u
/* Below that, counting digits costs more than comparing. */
#define FEW 128u

/* A rule at work. */
struct contest {
    struct fp_ranking rule;
    uint32_t limit; /* of rule.top: how many this pass chooses */
    uint8_t is_due; /* takes part in the pass in hand */
    size_t heap_n, winners_n;
    struct fp_candidate *heap;    /* rule.top of them, the least at [0] */
    struct fp_candidate *winners; /* of its last pass */
};

struct fp_top_processes {
    const struct fp_layout *layout;
    const struct fp_memory *peek;
    uint64_t excluded[FP_EXCLUDED_MAX];
    size_t excluded_n;
    uint32_t slots, cursor;
    uint32_t divisor;  /* of each rule's `top`: how many a pass chooses */
    uint8_t has_begun; /* the first pass has ended */
    uint64_t passes, processes, chosen_processes;
    struct contest contest[FP_RANKINGS_MAX];
    size_t contests;
    uint8_t needs_decoding; /* a rule goes by more than reductions */
    size_t chosen_n;
    size_t bytes;                /* of this mapping */
    struct fp_candidate *chosen; /* all winners */
    uint64_t *word, *other;      /* CHUNK each: addresses, sorting room */
    unsigned char *span;         /* SPAN bytes */
    /* What is remembered of each slot between passes: whose it was, and its figure by each rule.
     * Touched when first used. */
    uint64_t *seen;
};

/* ------------------------------------------------------ the N largest -- */

static int is_less(const struct fp_candidate *a, const struct fp_candidate *b)
{
    return a->figure != b->figure ? a->figure < b->figure : a->value < b->value;
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

static void sift_up(struct fp_candidate *heap, size_t at)
{
    while (at > 0) {
        size_t up = (at - 1) / 2;
        struct fp_candidate swap;

        if (!is_less(&heap[at], &heap[up]))
            return;
        swap = heap[at];
        heap[at] = heap[up];
        heap[up] = swap;
        at = up;
    }
}

static void offer(struct contest *c, const struct fp_candidate *candidate)
{
    if (c->heap_n < c->limit) {
        c->heap[c->heap_n] = *candidate;
        sift_up(c->heap, c->heap_n++);
    } else if (c->limit > 0 && is_less(&c->heap[0], candidate)) {
        c->heap[0] = *candidate;
        sift_down(c->heap, c->heap_n, 0);
    }
}

/* --------------------------------------------------------- one process -- */

static int is_excluded(const struct fp_top_processes *s, uint64_t id)
{
    for (size_t i = 0; i < s->excluded_n; i++)
        if (s->excluded[i] == id)
            return 1;
    return 0;
}

/* Minor collections are counted anew after each full sweep. */
static int64_t grown(int metric, int64_t before, int64_t now)
{
    if (metric == FP_METRIC_minor_gcs && now < before)
        return now;
    return (int64_t)((uint64_t)now - (uint64_t)before);
}

/* A process that was not here at the rule's last pass has grown from nothing; and so has one whose
 * reductions went back: it is another one. */
static void compete(struct fp_top_processes *s, struct contest *c, uint64_t *seen, int is_known,
                    const struct fp_snapshot *now, uint64_t address)
{
    int64_t value = now->value[c->rule.metric];
    int64_t before = is_known ? (int64_t)*seen : 0;
    struct fp_candidate candidate = {value, value, now->id, address};

    if (c->rule.metric == FP_METRIC_reductions && value < before)
        before = 0;
    *seen = (uint64_t)value;
    if (c->rule.is_delta)
        candidate.figure = grown(c->rule.metric, before, value);
    if (!is_excluded(s, now->id))
        offer(c, &candidate);
}

/* A slot's word may point to a structure that is given back already, or to the VM's marker: only
 * one whose id belongs into this table, alive, counts. */
static void look(struct fp_top_processes *s, const unsigned char *bytes, uint64_t address)
{
    uint64_t id = fp_process_field(s->layout, bytes, FP_FIELD_id);
    uint64_t reds = fp_process_field(s->layout, bytes, FP_FIELD_reds);
    uint32_t state = (uint32_t)fp_process_field(s->layout, bytes, FP_FIELD_state);
    uint32_t slot = fp_pid_slot(s->layout, id);
    struct fp_snapshot now;
    uint64_t *seen;
    int is_known;

    /* All ones: the marker of a slot that is being filled or emptied (erl_ptab.h
     * ERTS_PTAB_INVALID_ID). */
    if (!fp_term_is_pid(id) || (id | 15) == UINT64_MAX || slot >= s->slots ||
        (state & FP_PSFLG_FREE) != 0)
        return;
    s->processes++;
    /* Torn: it was changing. It competes again in the next pass. */
    if (s->needs_decoding && fp_process_decode(s->layout, bytes, &now) != 0)
        return;
    now.id = id;
    now.value[FP_METRIC_reductions] = (int64_t)reds;
    seen = s->seen + slot * (1 + s->contests);
    is_known = seen[0] == id;
    seen[0] = id;
    for (size_t i = 0; i < s->contests; i++) {
        if (s->contest[i].is_due)
            compete(s, &s->contest[i], &seen[1 + i], is_known, &now, address);
        else if (!is_known)
            seen[1 + i] = 0;
    }
}

/* ----------------------------------------------------- reading a chunk -- */

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
 * granularity. Addresses that differ only beyond those 37 bits come out unordered, which costs time
 * and nothing else. */
static void sort_addresses(struct fp_top_processes *s, size_t n)
{
    if (n < FEW) {
        sort_few(s->word, n);
        return;
    }
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

/* Structures word[from..to) in one read; one by one when a part of that is not readable. */
static void look_at(struct fp_top_processes *s, size_t from, size_t to)
{
    uint64_t base = s->word[from];
    size_t size = (size_t)(s->word[to - 1] - base) + s->layout->snapshot_size;

    if (fp_safe_read(s->peek, base, s->span, size) == 0) {
        for (size_t i = from; i < to; i++)
            look(s, s->span + (s->word[i] - base), s->word[i]);
        return;
    }
    for (size_t i = from; to - from > 1 && i < to; i++)
        look_at(s, i, i + 1);
}

static void look_at_all(struct fp_top_processes *s, size_t n)
{
    size_t from = 0;

    for (size_t i = 1; i <= n; i++) {
        if (i < n && s->word[i] - s->word[i - 1] <= s->layout->snapshot_size + GAP &&
            s->word[i] - s->word[from] + s->layout->snapshot_size <= SPAN)
            continue;
        look_at(s, from, i);
        from = i;
    }
}

static void look_at_chunk(struct fp_top_processes *s, uint32_t slot, uint32_t n)
{
    size_t used = 0;

    if (fp_process_table_read(s->layout, s->peek, slot, n, s->word) != 0)
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

/* Who wins stays until the rule's next pass. */
static void end_contest(struct contest *c)
{
    struct fp_candidate *swap = c->winners;

    c->winners = c->heap;
    c->winners_n = c->heap_n;
    c->heap = swap;
    c->heap_n = 0;
}

static void begin_pass(struct fp_top_processes *s)
{
    s->processes = 0;
    s->cursor = 0;
    s->needs_decoding = 0;
    for (size_t i = 0; i < s->contests; i++) {
        struct contest *c = &s->contest[i];

        c->limit = (c->rule.top + s->divisor - 1) / s->divisor;
        c->is_due = s->passes % c->rule.every == 0;
        if (c->is_due && c->rule.metric != FP_METRIC_reductions)
            s->needs_decoding = 1;
    }
}

static void end_pass(struct fp_top_processes *s)
{
    s->chosen_processes = s->processes;
    s->chosen_n = 0;
    for (size_t i = 0; i < s->contests; i++) {
        struct contest *c = &s->contest[i];

        if (c->is_due)
            end_contest(c);
        memcpy(s->chosen + s->chosen_n, c->winners, c->winners_n * sizeof *c->winners);
        s->chosen_n += c->winners_n;
    }
    /* The first two passes follow each other closely, for all. */
    s->passes += s->passes != 0 || s->has_begun;
    s->has_begun = 1;
    begin_pass(s);
}

void fp_top_processes_divide(struct fp_top_processes *s, uint32_t divisor)
{
    s->divisor = divisor;
}

int fp_top_processes_step(struct fp_top_processes *s, uint32_t slots)
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

const struct fp_candidate *fp_top_processes_selected(const struct fp_top_processes *s, size_t *n,
                                                     uint64_t *processes)
{
    *n = s->chosen_n;
    *processes = s->chosen_processes;
    return s->chosen;
}

uint32_t fp_top_processes_slots(const struct fp_top_processes *s)
{
    return s->slots;
}

/* ------------------------------------------------------ life and death -- */

static int rules_are_valid(const struct fp_ranking *rule, size_t rules)
{
    if (rules > FP_RANKINGS_MAX)
        return 0;
    for (size_t i = 0; i < rules; i++)
        if (rule[i].metric >= FP_METRIC_COUNT || rule[i].every == 0)
            return 0;
    return 1;
}

static uint64_t all_top(const struct fp_ranking *rule, size_t rules)
{
    uint64_t top = 0;

    for (size_t i = 0; i < rules; i++)
        top += rule[i].top;
    return top;
}

/* One mapping for everything: it is touched where it is used, so that the memory of a table of a
 * million slots is only that of its processes. */
int fp_top_processes_create(struct fp_top_processes **out, const struct fp_layout *layout,
                            const struct fp_memory *peek, const struct fp_ranking *rule,
                            size_t rules, const uint64_t *excluded, size_t n)
{
    uint32_t slots = layout->process_limit;
    size_t head = (sizeof(struct fp_top_processes) + 63) & ~(size_t)63;
    size_t candidates, bytes;
    struct fp_top_processes *s;
    unsigned char *at;

    if (!rules_are_valid(rule, rules))
        return FP_EINVAL;
    candidates = all_top(rule, rules) * sizeof(struct fp_candidate);
    bytes = head + 3 * candidates + 2 * CHUNK * sizeof(uint64_t) + SPAN +
            slots * (1 + rules) * sizeof(uint64_t);
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return FP_ENOMEM;
    s = (struct fp_top_processes *)(void *)at;
    s->layout = layout;
    s->peek = peek;
    s->slots = slots;
    s->bytes = bytes;
    s->excluded_n = n < FP_EXCLUDED_MAX ? n : FP_EXCLUDED_MAX;
    if (s->excluded_n > 0)
        memcpy(s->excluded, excluded, s->excluded_n * sizeof *excluded);
    s->chosen = (void *)(at += head);
    at += candidates;
    for (s->contests = 0; s->contests < rules; s->contests++) {
        struct contest *c = &s->contest[s->contests];
        size_t size = rule[s->contests].top * sizeof(struct fp_candidate);

        c->rule = rule[s->contests];
        c->heap = (void *)at;
        c->winners = (void *)(at + size);
        at += 2 * size;
    }
    s->word = (void *)at;
    s->other = (void *)(at += CHUNK * sizeof(uint64_t));
    s->span = at += CHUNK * sizeof(uint64_t);
    s->seen = (void *)(at + SPAN);
    s->divisor = 1;
    begin_pass(s);
    *out = s;
    return 0;
}

void fp_top_processes_destroy(struct fp_top_processes *s)
{
    if (s != NULL)
        munmap(s, s->bytes);
}
