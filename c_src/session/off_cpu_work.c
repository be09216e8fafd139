#include <string.h>

#include "base/error.h"
#include "erts/monitors.h"
#include "erts/process_table.h"
#include "erts/term/message.h"
#include "session/sampler_internal.h"
#include "waits/edge.h"
#include "waits/moment.h"

/* How often the code of all sites is compared with what it was; that of those on a stack is each
 * time. */
#define CHECK_US INT64_C(500000)

void fp_off_cpu_work_begin(struct fp_sampler *s)
{
    struct fp_serving_sites *sites = s->options.messages ? fp_serving_published() : NULL;

    if (sites == NULL || (sites == s->sites && s->tick_us - s->sites_us < CHECK_US)) {
        s->sites = sites;
        return;
    }
    fp_serving_check(sites, s->options.memory, s->layout);
    for (uint32_t i = 0; i < fp_sites_count(sites->sites); i++)
        s->site_is_valid[i] = atomic_load_explicit(&sites->is_valid[i], memory_order_relaxed);
    s->sites = sites;
    s->sites_us = s->tick_us;
}

/* ---------------------------------------------------------------- waiting -- */

static void set_target(const struct fp_layout *layout, const struct fp_wait *wait,
                       struct fp_work *work)
{
    const struct fp_term *target = &wait->target;

    if (wait->how == FP_WAIT_lock) {
        work->waits = FP_WORK_LOCK;
    } else if (wait->how == FP_WAIT_socket) {
        work->waits = FP_WORK_SOCKET;
    } else if (target->kind == FP_TERM_PORT) {
        work->waits = FP_WORK_PORT;
        work->target.word = target->word >> 4; /* erl_term.h _TAG_IMMED1_SIZE */
    } else if (target->kind == FP_TERM_PID) {
        work->waits = FP_WORK_PROCESS;
        fp_pid_numbers(layout, target->word, &work->target.pid[0], &work->target.pid[1]);
    } else if (target->kind == FP_TERM_REMOTE_PID) {
        work->waits = FP_WORK_REMOTE_PROCESS;
        work->node = target->remote.node;
        work->target.pid[0] = target->remote.number;
        work->target.pid[1] = target->remote.serial;
    } else if (target->kind == FP_TERM_ATOM && wait->name != 0) {
        work->waits = FP_WORK_REMOTE_NAME;
        work->node = target->word;
        work->target.word = wait->name;
    }
}

/* A process in the main receive of a server waits for no other. */
static int may_wait(const struct fp_sampler *s, const struct fp_snapshot *now)
{
    const uint32_t without = 1u << FP_SITE_loop;
    int at = now->status == FP_STATUS_waiting ? fp_sites_find(s->sites->sites, now->i) : -1;

    return at >= 0 && s->site_is_valid[at] &&
           (fp_sites_at(s->sites->sites, (uint32_t)at)->roles & without) == 0;
}

/* The sites that the words of a sample come from. */
struct used {
    uint32_t count;
    const struct fp_site *site[FP_TOP_FRAMES + 1];
};

static void use(const struct fp_sampler *s, const struct fp_top *top, struct used *used)
{
    for (uint32_t i = 0; i < top->frames; i++) {
        int at = fp_sites_find(s->sites->sites, top->frame[i].address);

        if (at >= 0 && s->site_is_valid[at])
            used->site[used->count++] = fp_sites_at(s->sites->sites, (uint32_t)at);
    }
}

static int read_wait(const struct fp_sampler *s, const struct fp_stack_copy *copy,
                     struct fp_walk *walk, struct fp_work *work, struct used *used)
{
    uint32_t words = copy->leaf_words < FP_TOP_WORDS ? copy->leaf_words : FP_TOP_WORDS;
    struct fp_top top = {
        .i = copy->before.i, .words = words, .is_cut = words < copy->words, .site = -1};
    struct fp_wait wait;

    memcpy(top.word, copy->word, 8 * (size_t)words);
    memcpy(&top.monitors, copy->again + fp_monitors_offset(s->layout), sizeof top.monitors);
    fp_top_frames(&top, &s->code, s->sites->sites, s->site_is_valid);
    fp_top_edge(&top, s->sites->sites, s->site_is_valid, walk, &wait);
    use(s, &top, used);
    set_target(s->layout, &wait, work);
    if (wait.how == FP_WAIT_call && wait.has_ref) {
        work->calls = 1;
        memcpy(work->called_ref, wait.ref.n, sizeof work->called_ref);
        work->request = (struct fp_work_tag){wait.tag.atom, wait.tag.arity, wait.tag.shape};
    }
    return work->waits != FP_WORK_NO_TARGET || work->calls;
}

/* ---------------------------------------------------------------- both -- */

/* The terms were of the moment of the stack: the process stood still meanwhile, and the code is
 * what it was. */
static int is_still(struct fp_sampler *s, const struct fp_stack_copy *copy, const struct used *used)
{
    struct fp_safe_read_span span[2 * (FP_TOP_FRAMES + 1) + 1], *last = span + 2 * used->count;
    struct fp_site_code code[FP_TOP_FRAMES + 1];
    unsigned char now[FP_PROBE_WINDOW];
    struct fp_moment before, after;

    for (uint32_t i = 0; i < used->count; i++)
        fp_site_spans(used->site[i], &code[i], span + 2 * i);
    *last = (struct fp_safe_read_span){copy->address, now, fp_moment_bytes(s->layout), 0};
    fp_safe_read_batch(s->options.memory, span, 2 * (size_t)used->count + 1);
    for (uint32_t i = 0; i < used->count; i++)
        if (!fp_site_has_stayed(used->site[i], &code[i], span + 2 * i))
            return 0;
    if (last->result != 0)
        return 0;
    fp_moment_decode(s->layout, copy->again, &before);
    fp_moment_decode(s->layout, now, &after);
    return fp_moment_is_same(&before, &after);
}

const struct fp_work *fp_off_cpu_work(struct fp_sampler *s, const struct fp_stack_copy *copy,
                                      struct fp_work *work)
{
    const struct fp_snapshot *now = &copy->before;
    struct fp_serving serving;
    struct fp_walk walk;
    struct used used = {0};
    int is_serving, waits, found = 0;

    if (s->sites == NULL || now->status == FP_STATUS_garbage_collecting)
        return NULL;
    is_serving = fp_serving_find(s->sites, copy->word, copy->words, copy->leaf_words, &serving);
    waits = may_wait(s, now);
    if (!is_serving && !waits)
        return NULL;
    memset(work, 0, sizeof *work);
    fp_serving_walk(s->sites, &walk, s->options.memory, s->layout);
    if (is_serving) {
        found |= fp_serving_read(&walk, &serving, work);
        used.site[used.count++] = serving.site;
    }
    if (waits)
        found |= read_wait(s, copy, &walk, work, &used);
    return found && is_still(s, copy, &used) ? work : NULL;
}
