#include "session/top_processes.h"

#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/process.h"
#include "erts/process_table.h"

/* Slots of one read of the table. */
#define CHUNK 4096u
/* Structures of one read, and their bytes. */
#define BATCH FP_SAFE_READ_BATCH_MAX
#define BATCH_BYTES (256u << 10)
/* Contenders of one read, of two pieces each. */
#define CONTENDERS (FP_SAFE_READ_BATCH_MAX / 2)

/* The largest of one ranking. */
struct topk {
    struct fp_ranking ranking;
    uint32_t limit; /* of ranking.top: how many this pass selects */
    uint8_t is_due; /* has a part in this pass */
    size_t heap_n, last_n;
    struct fp_candidate *heap; /* ranking.top of them; once full, the least is [0] */
    struct fp_candidate *last; /* of the ranking's last pass */
};

/* A value that would be among the largest of a ranking, if it is a process. */
struct contender {
    struct topk *k;
    struct fp_candidate candidate;
    uint64_t state; /* as read: the id stands in `candidate` */
    uint32_t slot;
    uint8_t is_first; /* of this process in this pass */
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
    const struct topk *by_reductions; /* a ranking that is due; NULL: none */
    uint8_t needs_decoding;           /* another metric than reductions is needed of each process */
    struct fp_growers *growers;       /* NULL: no places */
    size_t growers_n;
    size_t selected_n;
    size_t bytes, seen_bytes;
    struct fp_candidate *selected; /* each `last`, one after another */
    uint64_t address[CHUNK];       /* of the structures of a chunk, and their slots */
    uint32_t slot[CHUNK];
    uint8_t change[BATCH]; /* enum fp_change */
    struct fp_safe_read_span span[BATCH];
    struct contender contender[CONTENDERS];
    size_t contenders;
    unsigned char *structures; /* BATCH_BYTES */
    /* Of each slot, at its last reading: the structure's address, and the value by each ranking. A
     * page of it takes memory once a process is in its slots. */
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

static int is_contender(const struct topk *k, const struct fp_candidate *candidate)
{
    return k->heap_n < k->limit || (k->limit > 0 && is_less(&k->heap[0], candidate));
}

/* ---------------------------------------------------------- contenders -- */

static int is_excluded(const struct fp_top_processes *top, uint64_t id)
{
    for (size_t i = 0; i < top->excluded_n; i++)
        if (top->excluded[i] == id)
            return 1;
    return 0;
}

static void verify_contenders(struct fp_top_processes *top)
{
    const uint16_t *offset = top->layout->release.offset;
    struct fp_safe_read_span span[2 * CONTENDERS];

    for (size_t i = 0; i < top->contenders; i++) {
        struct contender *c = &top->contender[i];
        uint64_t address = c->candidate.address;

        c->state = 0;
        span[2 * i] = (struct fp_safe_read_span){address + offset[FP_FIELD_id], &c->candidate.id,
                                                 FP_WIDTH_id, 0};
        span[2 * i + 1] = (struct fp_safe_read_span){address + offset[FP_FIELD_state], &c->state,
                                                     FP_WIDTH_state, 0};
    }
    fp_safe_read_batch(top->memory, span, 2 * top->contenders);
    for (size_t i = 0; i < top->contenders; i++) {
        struct contender *c = &top->contender[i];

        if (span[2 * i].result != 0 || span[2 * i + 1].result != 0 ||
            !fp_process_is_of_slot(top->layout, c->candidate.id, (uint32_t)c->state, c->slot))
            top->processes -= c->is_first;
        else if (!is_excluded(top, c->candidate.id))
            topk_push(c->k, &c->candidate);
    }
    top->contenders = 0;
}

/* ---------------------------------------------------------- one process -- */

/* A process that is new since the ranking's last pass has grown from 0. One whose reductions fell
 * is another process. */
static struct fp_candidate rank(const struct fp_ranking *ranking, uint64_t *seen, int is_known,
                                int64_t value, uint64_t address)
{
    int64_t before = is_known ? (int64_t)*seen : 0;
    struct fp_candidate candidate = {value, value, 0, address};

    if (ranking->metric == FP_METRIC_reductions && value < before)
        before = 0;
    *seen = (uint64_t)value;
    if (ranking->is_delta)
        candidate.score = fp_metric_delta(ranking->metric, before, value);
    return candidate;
}

/* The address stands for the process: only contenders cost a look at their ids. Another process at
 * the same address in the same slot, with more reductions, ranks too low in one pass. One whose
 * numbers contradict each other, `is_torn`, has the sizes that it had at the last pass: a large
 * heap is collected for long, and its process stays among the largest. */
static enum fp_change add_process(struct fp_top_processes *top, uint32_t slot, uint64_t address,
                                  const int64_t value[FP_METRIC_COUNT], int is_torn)
{
    uint64_t *seen = top->seen + (1 + top->rankings) * slot;
    int is_known = seen[0] == address;
    enum fp_change change = is_known ? FP_CHANGE_NONE : FP_CHANGE_NEW;
    uint8_t is_first = 1;

    top->processes++;
    seen[0] = address;
    for (size_t i = 0; i < top->rankings; i++) {
        struct topk *k = &top->topk[i];
        int64_t now = value[k->ranking.metric];
        struct fp_candidate candidate;

        if (is_torn && (fp_metric_is_size(k->ranking.metric) || now < 0))
            now = is_known ? (int64_t)seen[1 + i] : 0;
        if (!k->is_due) {
            if (!is_known)
                seen[1 + i] = 0;
            continue;
        }
        if (k == top->by_reductions && is_known &&
            seen[1 + i] != (uint64_t)value[FP_METRIC_reductions])
            change = FP_CHANGE_RAN;
        candidate = rank(&k->ranking, &seen[1 + i], is_known, now, address);
        if (!is_contender(k, &candidate))
            continue;
        if (top->contenders == CONTENDERS)
            verify_contenders(top);
        top->contender[top->contenders++] = (struct contender){k, candidate, 0, slot, is_first};
        is_first = 0;
    }
    return change;
}

/* ------------------------------------------------------ reading a chunk -- */

/* Structures [from, to) of the chunk: their reductions only, or all of them. One that is not
 * readable is none. */
static void read_batch(struct fp_top_processes *top, uint32_t from, uint32_t to)
{
    uint32_t offset = top->needs_decoding ? 0 : top->layout->release.offset[FP_FIELD_reds];
    uint32_t size = top->needs_decoding ? top->layout->snapshot_size : FP_WIDTH_reds;
    struct fp_snapshot now;

    for (uint32_t i = 0; i < to - from; i++)
        top->span[i] = (struct fp_safe_read_span){top->address[from + i] + offset,
                                                  top->structures + (size_t)i * size, size, 0};
    fp_safe_read_lines(top->memory, top->span, to - from);
    for (uint32_t i = 0; i < to - from; i++) {
        const unsigned char *bytes = top->span[i].into;
        int is_torn = 0;

        top->change[i] = FP_CHANGE_UNREADABLE;
        if (top->span[i].result != 0)
            continue;
        if (!top->needs_decoding)
            memcpy(&now.value[FP_METRIC_reductions], bytes, FP_WIDTH_reds);
        else
            is_torn = fp_process_decode(top->layout, bytes, &now) != 0;
        top->change[i] = (uint8_t)add_process(top, top->slot[from + i], top->address[from + i],
                                              now.value, is_torn);
        if (top->growers != NULL && top->needs_decoding && !is_torn)
            fp_growers_see(top->growers, top->address[from + i], top->slot[from + i],
                           top->change[i] == FP_CHANGE_NEW, &now);
    }
    verify_contenders(top);
    if (top->growers != NULL && !top->needs_decoding)
        fp_growers_read(top->growers, top->address + from, top->slot + from, top->change,
                        to - from);
}

static void read_chunk(struct fp_top_processes *top, uint32_t slot, uint32_t n)
{
    uint32_t most = top->needs_decoding ? BATCH_BYTES / top->layout->snapshot_size : BATCH, used;

    most = most < BATCH ? most : BATCH;
    if (fp_process_table_read(top->layout, top->memory, slot, n, top->address, top->slot, &used) !=
        0)
        return;
    for (uint32_t from = 0; from < used; from += most)
        read_batch(top, from, used - from < most ? used : from + most);
}

/* --------------------------------------------------------------- a pass -- */

/* The first two passes follow each other closely, for every ranking. */
static void begin_pass(struct fp_top_processes *top)
{
    top->processes = 0;
    top->cursor = 0;
    top->needs_decoding = 0;
    top->by_reductions = NULL;
    for (size_t i = 0; i < top->rankings; i++) {
        struct topk *k = &top->topk[i];

        k->heap_n = 0;
        k->limit = (k->ranking.top + top->divisor - 1) / top->divisor;
        k->is_due = top->passes == 0 || (top->passes - 1) % k->ranking.every == 0;
        if (!k->is_due)
            continue;
        if (k->ranking.metric == FP_METRIC_reductions)
            top->by_reductions = k;
        else
            top->needs_decoding = 1;
    }
    /* Only a ranking by reductions knows which processes have run. */
    if (top->growers != NULL && top->by_reductions == NULL)
        top->needs_decoding = 1;
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
    if (top->growers != NULL)
        top->growers_n = fp_growers_end(top->growers, top->selected, top->selected_n, top->divisor,
                                        top->selected + top->selected_n);
    top->selected_n += top->growers_n;
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

size_t fp_top_processes_growers(const struct fp_top_processes *top)
{
    return top->growers_n;
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

/* A table may have 2^27 slots. */
static int map_seen(struct fp_top_processes *top)
{
    top->seen_bytes = sizeof *top->seen * (1 + top->rankings) * (size_t)top->slots;
    top->seen = fp_pages_reserve(top->seen_bytes);
    return top->seen == NULL ? FP_ENOMEM : 0;
}

static int create_growers(struct fp_top_processes *top, uint32_t places)
{
    struct fp_growers_options options = {top->layout, top->memory, top->excluded,   top->excluded_n,
                                         places,      top->span,   top->structures, BATCH_BYTES};

    return places == 0 ? 0 : fp_growers_create(&top->growers, &options);
}

int fp_top_processes_create(struct fp_top_processes **out, const struct fp_layout *layout,
                            const struct fp_memory *memory, const struct fp_ranking *ranking,
                            size_t rankings, uint32_t growers, const uint64_t *excluded,
                            size_t excluded_n)
{
    size_t head = (sizeof(struct fp_top_processes) + 63) & ~(size_t)63, candidates, bytes;
    struct fp_top_processes *top;
    unsigned char *at;
    int err;

    if (!are_valid(ranking, rankings) || growers > FP_GROWERS_MAX)
        return FP_EINVAL;
    candidates = fp_rankings_top(ranking, rankings) * sizeof(struct fp_candidate);
    bytes = head + 3 * candidates + growers * sizeof(struct fp_candidate) + BATCH_BYTES;
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
    at += candidates + growers * sizeof(struct fp_candidate);
    for (size_t i = 0; i < rankings; i++) {
        top->topk[i].ranking = ranking[i];
        top->topk[i].heap = (void *)at;
        top->topk[i].last = top->topk[i].heap + ranking[i].top;
        at += 2 * ranking[i].top * sizeof(struct fp_candidate);
    }
    top->structures = at;
    err = map_seen(top);
    if (err == 0)
        err = create_growers(top, growers);
    if (err != 0) {
        fp_top_processes_destroy(top);
        return err;
    }
    begin_pass(top);
    *out = top;
    return 0;
}

void fp_top_processes_destroy(struct fp_top_processes *top)
{
    if (top == NULL)
        return;
    fp_growers_destroy(top->growers);
    fp_pages_free(top->seen, top->seen_bytes);
    fp_pages_free(top, top->bytes);
}
