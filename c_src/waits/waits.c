#include "waits/waits.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "waits/edge.h"
#include "waits/moment.h"
#include "waits/pieces.h"

/* Slots of one read of the process table; structures of one read. */
#define CHUNK 4096u
#define STRUCTURES 512u
/* Processes whose edges are looked for together. */
#define BATCH 256u
/* What is read before the walk: the root of the monitors with its reference, which lies behind it,
 * and the terms that slots point to. A walk reads FP_WALK_WORDS at once. */
#define ROOT_BYTES 160u
#define TERM_BYTES (8 * FP_WALK_WORDS)
#define TERMS (FP_SAFE_READ_BATCH_MAX / BATCH)
/* Reads of one walk, most of which the copies answer. */
#define BUDGET 200u

struct candidate {
    uint64_t address;
    struct fp_moment before;
    struct fp_top top;
    struct fp_wait wait;
    struct fp_piece piece[1 + TERMS];
    uint32_t pieces;
    unsigned char root[ROOT_BYTES];
    unsigned char term[TERMS][TERM_BYTES];
};

struct look {
    const struct fp_waits_options *options;
    struct fp_waits_counts *counts;
    uint32_t moment_bytes; /* of a structure, as far as `moment` needs it */
    struct fp_pieces pieces;
    struct fp_walk walk; /* as started; copied for each process */
    uint64_t address[CHUNK];
    uint32_t slot[CHUNK];
    struct fp_safe_read_span span[FP_SAFE_READ_BATCH_MAX];
    uint8_t is_valid[FP_SITES_MAX];
    uint32_t candidates;
    struct candidate candidate[BATCH];
    unsigned char structures[]; /* STRUCTURES x moment_bytes */
};

const char *fp_wait_how_name(enum fp_wait_how how)
{
#define FP_WAIT_NAME(name) #name,
    static const char *const names[] = {FP_WAIT_MAP(FP_WAIT_NAME)};
#undef FP_WAIT_NAME

    return how < FP_WAIT_HOWS ? names[how] : NULL;
}

/* --------------------------------------------------------- what they hold -- */

static void add_piece(struct candidate *c, const struct fp_safe_read_span *span)
{
    if (span->result == 0 && span->size > 0)
        c->piece[c->pieces++] = (struct fp_piece){span->address, span->size, span->into};
}

/* The tops of the stacks, and the roots of the trees. */
static void read_tops(struct look *look)
{
    const struct fp_waits_options *options = look->options;

    for (uint32_t i = 0; i < look->candidates; i++) {
        struct candidate *c = &look->candidate[i];
        uint64_t words = (c->before.hend - c->before.stop) / 8;

        c->pieces = 0;
        c->top.is_cut = words > FP_TOP_WORDS;
        c->top.words = c->top.is_cut ? FP_TOP_WORDS : (uint32_t)words;
        c->top.i = c->before.i;
        c->top.monitors = c->before.monitors;
        look->span[2 * i] =
            (struct fp_safe_read_span){c->before.stop, c->top.word, 8 * c->top.words, 0};
        look->span[2 * i + 1] = (struct fp_safe_read_span){
            c->before.monitors, c->root, c->before.monitors == 0 ? 0 : ROOT_BYTES, 0};
    }
    fp_safe_read_batch(options->memory, look->span, 2 * (size_t)look->candidates);
    for (uint32_t i = 0; i < look->candidates; i++) {
        struct candidate *c = &look->candidate[i];

        if (look->span[2 * i].result != 0)
            c->top.words = 0;
        add_piece(c, &look->span[2 * i + 1]);
        fp_top_frames(&c->top, options->code, options->sites, look->is_valid);
    }
}

static void read_terms(struct look *look)
{
    const struct fp_waits_options *options = look->options;
    struct candidate *owner[FP_SAFE_READ_BATCH_MAX];
    uint32_t n = 0;

    for (uint32_t i = 0; i < look->candidates; i++) {
        struct candidate *c = &look->candidate[i];
        uint64_t word[TERMS];
        uint32_t wanted =
            fp_top_wanted(&c->top, options->sites, look->is_valid, word, TERMS);

        for (uint32_t k = 0; k < wanted; k++) {
            owner[n] = c;
            look->span[n++] = (struct fp_safe_read_span){word[k] & ~UINT64_C(3), c->term[k],
                                                         TERM_BYTES, 0};
        }
    }
    fp_safe_read_batch(options->memory, look->span, n);
    for (uint32_t i = 0; i < n; i++)
        add_piece(owner[i], &look->span[i]);
}

static void find_edges(struct look *look)
{
    for (uint32_t i = 0; i < look->candidates; i++) {
        struct candidate *c = &look->candidate[i];
        struct fp_walk walk = look->walk;

        look->pieces.piece = c->piece;
        look->pieces.n = c->pieces;
        walk.budget = BUDGET;
        fp_top_edge(&c->top, look->options->sites, look->is_valid, look->options->envelope, &walk,
                    &c->wait);
        c->wait.pid = c->before.id;
    }
}

static void verify(struct look *look)
{
    for (uint32_t i = 0; i < look->candidates; i++)
        look->span[i] = (struct fp_safe_read_span){look->candidate[i].address,
                                                   look->structures + (size_t)i * look->moment_bytes,
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
        look->span[i] = (struct fp_safe_read_span){look->address[from + i],
                                                   look->structures + (size_t)i * look->moment_bytes,
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
    struct look *look = malloc(sizeof *look + (size_t)STRUCTURES * bytes);
    int err = 0;

    memset(counts, 0, sizeof *counts);
    if (look == NULL)
        return FP_ENOMEM;
    look->options = options;
    look->counts = counts;
    look->moment_bytes = bytes;
    look->candidates = 0;
    fp_sites_check(options->sites, options->memory, look->is_valid);
    fp_pieces_open(&look->pieces, options->memory);
    fp_walk_start(&look->walk, options->memory, options->layout, BUDGET);
    look->walk.memory = &look->pieces.reader;
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
