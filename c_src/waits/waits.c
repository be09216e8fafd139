#include "waits/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "erts/stamp.h"
#include "waits/edge.h"

/* Slots of one read of the process table. */
#define CHUNK 4096u
/* Processes whose structures are read, and whose edges are looked for, together. */
#define BATCH 128u

struct candidate {
    uint64_t address;
    struct fp_stamp before;
    struct fp_top top;
    /* Where the copies are that do not fit into the view. */
    uint64_t word[FP_TOP_WORDS], root[FP_TOP_ROOT_WORDS], tail[FP_TOP_TAIL_WORDS];
};

struct look {
    const struct fp_waits_options *options;
    struct fp_waits_counts *counts;
    uint32_t moment_bytes; /* of a structure, as far as `moment` needs it */
    struct fp_walk walk;
    uint64_t address[CHUNK];
    uint32_t slot[CHUNK];
    struct fp_safe_read_span span[FP_SAFE_READ_BATCH_MAX];
    uint8_t is_valid[FP_SITES_MAX];
    uint32_t next, next_n; /* addresses whose structures are read after those of this batch */
    uint32_t candidates;
    struct candidate candidate[BATCH];
    /* Waits that memory was read for since the structures' second reading; their candidates. */
    uint16_t kept[BATCH]; /* the candidates that stood still */
    uint32_t late;
    struct fp_wait late_wait[BATCH];
    uint16_t late_candidate[BATCH];
    unsigned char structures[]; /* BATCH x moment_bytes */
};

const char *fp_wait_how_name(enum fp_wait_how how)
{
#define FP_WAIT_NAME(name) #name,
    static const char *const names[] = {FP_WAIT_MAP(FP_WAIT_NAME)};
#undef FP_WAIT_NAME

    return how < FP_WAIT_HOWS ? names[how] : NULL;
}

/* --------------------------------------------------------- what they hold -- */

static struct fp_safe_read_span again_span(struct look *look, uint32_t i)
{
    return (struct fp_safe_read_span){look->candidate[i].address,
                                      look->structures + (size_t)i * look->moment_bytes,
                                      look->moment_bytes, 0};
}

static int is_same(const struct look *look, const struct candidate *c,
                   const struct fp_safe_read_span *again)
{
    struct fp_stamp after;

    if (again->result != 0)
        return 0;
    fp_stamp_decode(look->options->layout, again->into, &after);
    return fp_stamp_is_same(&c->before, &after);
}

static uint32_t plan_spans(struct look *look, uint32_t i, struct fp_safe_read_span *span)
{
    struct candidate *c = &look->candidate[i];
    uint32_t n = 0;

    if (c->top.words > 0)
        span[n++] = (struct fp_safe_read_span){c->before.stop, c->word, 8 * c->top.words, 0};
    if (c->top.root_words > 0)
        span[n++] = (struct fp_safe_read_span){c->top.monitors, c->root, 8 * c->top.root_words, 0};
    if (c->top.tail_words > 0)
        span[n++] = (struct fp_safe_read_span){c->top.tail_at, c->tail, 8 * c->top.tail_words, 0};
    span[n++] = again_span(look, i);
    return n;
}

/* Where the copy is that the next span was for; NULL and no words: there is none. */
static const uint64_t *found(struct fp_safe_read_span **span, uint32_t *words)
{
    const struct fp_safe_read_span *next = *span;

    if (*words == 0)
        return NULL;
    ++*span;
    if (next->result != 0)
        *words = 0;
    return next->into;
}

/* The tops of the stacks, the roots of the trees, the ends of the heaps, and the structures once
 * more. Those that stood still stay candidates. */
static void read_tops(struct look *look)
{
    struct fp_safe_read_span *span = look->span;
    uint32_t kept = 0, n = 0;

    for (uint32_t i = 0; i < look->candidates; i++)
        n += plan_spans(look, i, look->span + n);
    fp_safe_read_view(look->options->memory, look->span, n);
    for (uint32_t i = 0; i < look->candidates; i++) {
        struct candidate *c = &look->candidate[i];
        struct fp_top *top = &c->top;

        top->word = found(&span, &top->words);
        top->root = found(&span, &top->root_words);
        top->tail = found(&span, &top->tail_words);
        if (is_same(look, c, span++)) {
            fp_top_frames(top, look->options->code, look->options->sites, look->is_valid);
            fp_top_wanted(top);
            look->kept[kept++] = (uint16_t)i;
        } else {
            look->counts->moved++;
        }
    }
    look->candidates = FP_CHECK(span == look->span + n) ? kept : 0;
}

/* The terms that are elsewhere. */
static void read_terms(struct look *look)
{
    struct fp_top_term *copy[BATCH * FP_TOP_TERMS];
    uint32_t n = 0;

    for (uint32_t i = 0; i < look->candidates; i++) {
        struct fp_top *top = &look->candidate[look->kept[i]].top;

        for (uint32_t k = 0; k < top->terms; k++) {
            copy[n] = &top->term[k];
            look->span[n++] = (struct fp_safe_read_span){top->term[k].address, top->term[k].word,
                                                         8 * FP_TOP_TERM_WORDS, 0};
        }
    }
    if (n > 0)
        fp_safe_read_batch(look->options->memory, look->span, n);
    for (uint32_t i = 0; i < n; i++)
        copy[i]->words = look->span[i].result == 0 ? FP_TOP_TERM_WORDS : 0;
}

static void tell(const struct look *look, const struct fp_wait *wait)
{
    look->counts->unknown += wait->how == FP_WAIT_unknown;
    look->options->each(look->options->arg, wait);
}

static void find_edges(struct look *look)
{
    look->late = 0;
    for (uint32_t i = 0; i < look->candidates; i++) {
        const struct candidate *c = &look->candidate[look->kept[i]];
        struct fp_wait *wait = &look->late_wait[look->late];

        if (i < look->next_n)
            fp_safe_read_soon(look->address[look->next + i], look->moment_bytes);
        fp_top_edge(&c->top, &look->walk, wait);
        wait->pid = c->before.id;
        /* Messages that have its own pid in them may be anybody's. */
        if (wait->how == FP_WAIT_named && wait->target.word == c->before.id)
            wait->how = FP_WAIT_unknown;
        if (c->top.terms == 0 && look->walk.budget == FP_TOP_READS)
            tell(look, wait);
        else
            look->late_candidate[look->late++] = look->kept[i];
    }
}

/* Of those that memory was read for since. */
static void verify(struct look *look)
{
    for (uint32_t i = 0; i < look->late; i++)
        look->span[i] = again_span(look, look->late_candidate[i]);
    if (look->late > 0)
        fp_safe_read_view(look->options->memory, look->span, look->late);
    for (uint32_t i = 0; i < look->late; i++)
        if (is_same(look, &look->candidate[look->late_candidate[i]], &look->span[i]))
            tell(look, &look->late_wait[i]);
        else
            look->counts->moved++;
}

static void finish_batch(struct look *look)
{
    if (look->candidates == 0)
        return;
    read_tops(look);
    read_terms(look);
    find_edges(look);
    verify(look);
    look->candidates = 0;
}

/* ------------------------------------------------------------- processes -- */

static int is_excluded(const struct fp_waits_options *options, uint64_t id)
{
    for (uint32_t i = 0; i < options->excluded_n; i++)
        if (options->excluded[i] == id)
            return 1;
    return 0;
}

static const struct fp_site *site_of(const struct look *look, uint64_t i)
{
    int at = fp_sites_find(look->options->sites, i);

    return at >= 0 && look->is_valid[at] ? fp_sites_at(look->options->sites, (uint32_t)at) : NULL;
}

/* What of the process is copied: the fields of `top` that say so. */
static void plan_top(struct candidate *c)
{
    const struct fp_stamp *before = &c->before;
    struct fp_top *top = &c->top;
    uint64_t words = (before->hend - before->stop) / 8;
    struct fp_top_plan plan;

    top->i = before->i;
    top->monitors = before->monitors;
    top->words = top->root_words = top->tail_words = 0;
    plan = fp_top_plan(top);
    top->is_cut = !plan.has_words || words > FP_TOP_WORDS;
    if (plan.has_words)
        top->words = words > FP_TOP_WORDS ? FP_TOP_WORDS : (uint32_t)words;
    if (plan.has_heap)
        fp_top_set_tail(top, before->heap, before->htop <= before->stop ? before->htop : 0);
    if (plan.has_heap && top->monitors != 0)
        top->root_words = FP_TOP_ROOT_WORDS;
    fp_safe_read_soon(before->stop, 8 * (size_t)top->words);
    if (top->root_words > 0)
        fp_safe_read_soon(top->monitors, 8 * (size_t)top->root_words);
    if (top->tail_words > 0)
        fp_safe_read_soon(top->tail_at, 8 * (size_t)top->tail_words);
}

static void add_process(struct look *look, uint64_t address, uint32_t slot,
                        const struct fp_stamp *now)
{
    const struct fp_site *site;
    struct candidate *c;

    if (!fp_process_is_of_slot(look->options->layout, now->id, now->state, slot) ||
        is_excluded(look->options, now->id))
        return;
    look->counts->processes++;
    if (fp_process_status(now->state) != FP_STATUS_waiting)
        return;
    look->counts->waiting++;
    site = site_of(look, now->i);
    if (site != NULL && fp_site_has(site, FP_SITE_loop)) {
        look->counts->idle++;
        return;
    }
    if (!fp_stamp_has_stack(now)) {
        look->counts->moved++;
        return;
    }
    if (!FP_CHECK(look->candidates < BATCH))
        return;
    c = &look->candidate[look->candidates++];
    c->address = address;
    c->before = *now;
    c->top.site = site;
    plan_top(c);
}

static void read_structures(struct look *look, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        look->span[i] = (struct fp_safe_read_span){
            look->address[from + i], look->structures + (size_t)i * look->moment_bytes,
            look->moment_bytes, 0};
    fp_safe_read_view(look->options->memory, look->span, n);
    for (uint32_t i = 0; i < n; i++) {
        struct fp_stamp now;

        if (look->span[i].result != 0) {
            look->counts->unreadable++;
            continue;
        }
        fp_stamp_decode(look->options->layout, look->span[i].into, &now);
        add_process(look, look->address[from + i], look->slot[from + i], &now);
    }
}

/* The structures that are read together are not more than a batch has room for: a view stays until
 * the next read. */
static int read_chunk(struct look *look, uint32_t slot, uint32_t n)
{
    const struct fp_waits_options *options = look->options;
    uint32_t used, some;

    if (fp_process_table_read(options->layout, options->memory, slot, n, look->address, look->slot,
                              &used) != 0)
        return FP_EFAULT;
    for (uint32_t from = 0; from < used; from += some) {
        uint32_t left = used - from;

        look->next = from;
        look->next_n = left;
        if (look->candidates == BATCH)
            finish_batch(look);
        some = BATCH - look->candidates;
        some = left < some ? left : some;
        read_structures(look, from, some);
    }
    return 0;
}

/* FP_ETORN when the code at a site that was trusted is another now. */
static int sites_stayed(const struct look *look)
{
    uint8_t is_valid[FP_SITES_MAX];

    fp_sites_check(look->options->sites, look->options->memory, is_valid);
    return memcmp(is_valid, look->is_valid, fp_sites_count(look->options->sites)) == 0 ? 0
                                                                                       : FP_ETORN;
}

int fp_waits_look(const struct fp_waits_options *options, struct fp_waits_counts *counts)
{
    uint32_t bytes = fp_stamp_bytes(options->layout), slots = options->layout->process_limit, n;
    struct look *look = malloc(sizeof *look + (size_t)BATCH * bytes);
    int err = 0;

    memset(counts, 0, sizeof *counts);
    if (look == NULL)
        return FP_ENOMEM;
    look->options = options;
    look->counts = counts;
    look->moment_bytes = bytes;
    look->candidates = 0;
    fp_sites_check(options->sites, options->memory, look->is_valid);
    fp_walk_start(&look->walk, options->memory, options->layout, 0);
    for (uint32_t slot = 0; slot < slots && err == 0; slot += n) {
        n = slots - slot < CHUNK ? slots - slot : CHUNK;
        err = read_chunk(look, slot, n);
    }
    look->next_n = 0;
    finish_batch(look);
    if (err == 0)
        err = sites_stayed(look);
    free(look);
    return err;
}
