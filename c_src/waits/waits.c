#include "waits/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "waits/edge.h"
#include "waits/moment.h"

/* Slots of one read of the process table. */
#define CHUNK 4096u
/* Processes whose structures are read, and whose edges are looked for, together. */
#define BATCH 256u

struct candidate {
    uint64_t address;
    struct fp_moment before;
    struct fp_top top;
    struct fp_wait wait;
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
    uint32_t candidates;
    struct candidate candidate[BATCH];
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

/* The tops of the stacks, and the roots of the trees. */
static void read_tops(struct look *look)
{
    const struct fp_waits_options *options = look->options;

    for (uint32_t i = 0; i < look->candidates; i++) {
        const struct fp_moment *before = &look->candidate[i].before;
        struct fp_top *top = &look->candidate[i].top;
        uint64_t words = (before->hend - before->stop) / 8;

        top->is_cut = words > FP_TOP_WORDS;
        top->words = top->is_cut ? FP_TOP_WORDS : (uint32_t)words;
        top->i = before->i;
        top->monitors = before->monitors;
        look->span[2 * i] = (struct fp_safe_read_span){before->stop, top->word, 8 * top->words, 0};
        look->span[2 * i + 1] = (struct fp_safe_read_span){
            top->monitors, top->root, top->monitors == 0 ? 0 : sizeof top->root, 0};
    }
    fp_safe_read_batch(options->memory, look->span, 2 * (size_t)look->candidates);
    for (uint32_t i = 0; i < look->candidates; i++) {
        struct fp_top *top = &look->candidate[i].top;

        if (look->span[2 * i].result != 0)
            top->words = 0;
        top->root_words = look->span[2 * i + 1].result == 0 ? FP_TOP_ROOT_WORDS : 0;
        fp_top_frames(top, options->code, options->sites, look->is_valid);
        fp_top_wanted(top, options->sites, look->is_valid);
    }
}

static void read_terms(struct look *look)
{
    struct fp_top_term *copy[BATCH * FP_TOP_TERMS];
    uint32_t n = 0;

    for (uint32_t i = 0; i < look->candidates; i++) {
        struct fp_top *top = &look->candidate[i].top;

        for (uint32_t k = 0; k < top->terms; k++) {
            copy[n] = &top->term[k];
            look->span[n++] = (struct fp_safe_read_span){top->term[k].address, top->term[k].word,
                                                         8 * FP_TOP_TERM_WORDS, 0};
        }
    }
    fp_safe_read_batch(look->options->memory, look->span, n);
    for (uint32_t i = 0; i < n; i++)
        copy[i]->words = look->span[i].result == 0 ? FP_TOP_TERM_WORDS : 0;
}

static void find_edges(struct look *look)
{
    for (uint32_t i = 0; i < look->candidates; i++) {
        struct candidate *c = &look->candidate[i];

        fp_top_edge(&c->top, look->options->sites, look->is_valid, &look->walk, &c->wait);
        c->wait.pid = c->before.id;
    }
}

static void verify(struct look *look)
{
    for (uint32_t i = 0; i < look->candidates; i++)
        look->span[i] = (struct fp_safe_read_span){
            look->candidate[i].address, look->structures + (size_t)i * look->moment_bytes,
            look->moment_bytes, 0};
    fp_safe_read_view(look->options->memory, look->span, look->candidates);
    for (uint32_t i = 0; i < look->candidates; i++) {
        const struct candidate *c = &look->candidate[i];
        struct fp_moment after;

        memset(&after, 0, sizeof after);
        if (look->span[i].result == 0)
            fp_moment_decode(look->options->layout, look->span[i].into, &after);
        if (look->span[i].result != 0 || !fp_moment_is_same(&c->before, &after)) {
            look->counts->moved++;
            continue;
        }
        look->counts->unknown += c->wait.how == FP_WAIT_unknown;
        look->options->each(look->options->arg, &c->wait);
    }
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

static int is_idle(const struct look *look, uint64_t i)
{
    int at = fp_sites_find(look->options->sites, i);

    return at >= 0 && look->is_valid[at] &&
           fp_site_has(fp_sites_at(look->options->sites, (uint32_t)at), FP_SITE_loop);
}

static void add_process(struct look *look, uint64_t address, uint32_t slot,
                        const struct fp_moment *now)
{
    struct candidate *c;

    if (!fp_process_is_of_slot(look->options->layout, now->id, now->state, slot) ||
        is_excluded(look->options, now->id))
        return;
    look->counts->processes++;
    if (fp_process_status(now->state) != FP_STATUS_waiting)
        return;
    look->counts->waiting++;
    if (is_idle(look, now->i)) {
        look->counts->idle++;
        return;
    }
    if (!fp_moment_has_stack(now)) {
        look->counts->moved++;
        return;
    }
    c = &look->candidate[look->candidates++];
    c->address = address;
    c->before = *now;
}

static void read_structures(struct look *look, uint32_t from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        look->span[i] = (struct fp_safe_read_span){
            look->address[from + i], look->structures + (size_t)i * look->moment_bytes,
            look->moment_bytes, 0};
    fp_safe_read_view(look->options->memory, look->span, n);
    for (uint32_t i = 0; i < n; i++) {
        struct fp_moment now;

        if (look->span[i].result != 0) {
            look->counts->unreadable++;
            continue;
        }
        fp_moment_decode(look->options->layout, look->span[i].into, &now);
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
    uint32_t bytes = fp_moment_bytes(options->layout), slots = options->layout->process_limit, n;
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
    finish_batch(look);
    if (err == 0)
        err = sites_stayed(look);
    free(look);
    return err;
}
