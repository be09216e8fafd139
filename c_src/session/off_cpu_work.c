#include <string.h>

#include "base/error.h"
#include "erts/monitors.h"
#include "erts/process_table.h"
#include "erts/stamp.h"
#include "erts/term/message.h"
#include "session/sampler_internal.h"
#include "waits/edge.h"

/* Copies whose terms are read together. More would save system calls, but the scratch is in no
 * cache when a tick begins: at 64, each sample took 300 ns more. */
#define BATCH 8u
/* Terms of a message that are read with those of the others, and words of each: a message's parts
 * mostly lie together. */
#define TERMS FP_SERVING_TERMS
#define TERM_WORDS FP_WALK_WORDS
_Static_assert(TERMS <= FP_WALK_COPIES, "the walk takes every copy of read_message()");
/* Sites that the words of one sample come from: a server's, a call's and its request's. */
#define SITES 3u
#define PAGE UINT64_C(4096)

/* The state of one copy while the terms are read. */
struct one {
    const struct target_copy *copy;
    uint8_t is_serving, waits, has_work;
    uint32_t spans; /* of its own */
    struct fp_serving serving;
    struct fp_top top;
    uint32_t sites, terms;
    uint16_t site[SITES]; /* places in the table */
    uint32_t words[TERMS];
    uint64_t at[TERMS], term[TERMS][TERM_WORDS];
    struct fp_work work;
    unsigned char again[FP_PROBE_WINDOW];
};

struct fp_work_batch {
    struct one one[BATCH];
    struct fp_safe_read_span span[BATCH * (TERMS + FP_TOP_TERMS + 1) + 2 * BATCH * SITES];
    /* The sites that the batch uses, and of each in the table 1 + its place here. */
    uint32_t sites;
    uint16_t site[BATCH * SITES];
    uint16_t listed[FP_SITES_MAX];
    struct fp_site_code code[BATCH * SITES];
    uint8_t has_stayed[BATCH * SITES];
};

size_t fp_off_cpu_work_bytes(void)
{
    return sizeof(struct fp_work_batch);
}

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
        if (fp_port_number(layout, target->word, &work->target.word) == 0)
            work->waits = FP_WORK_PORT;
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

/* ---------------------------------------------------- with the stacks -- */

/* A process in the main receive of a server waits for no other. */
static const struct fp_site *waiting_site(const struct fp_sampler *s, const struct fp_snapshot *now)
{
    int at = now->status == FP_STATUS_waiting ? fp_sites_find(s->sites->sites, now->i) : -1;
    const struct fp_site *site =
        at >= 0 && s->site_is_valid[at] ? fp_sites_at(s->sites->sites, (uint32_t)at) : NULL;

    return site != NULL && fp_site_has(site, FP_SITE_loop) ? NULL : site;
}

void fp_off_cpu_work_plan(const struct fp_sampler *s, struct target_copy *copy,
                          const unsigned char *bytes)
{
    struct fp_heap_copy *heap = &copy->heap;
    struct fp_top top = {0};

    heap->site = NULL;
    heap->tail_words = heap->root_words = 0;
    if (s->sites == NULL)
        return;
    heap->site = top.site = waiting_site(s, &copy->stack.before);
    if (top.site == NULL || !fp_top_plan(&top).has_heap)
        return;
    fp_stamp_decode(s->layout, bytes, &heap->before);
    if (heap->before.htop <= heap->before.stop)
        fp_top_set_tail(&top, heap->before.heap, heap->before.htop);
    heap->tail_at = top.tail_at;
    heap->tail_words = top.tail_words;
    heap->root_words = heap->before.monitors == 0 ? 0 : FP_TOP_ROOT_WORDS;
    fp_safe_read_soon(heap->tail_at, 8 * (size_t)heap->tail_words);
    if (heap->root_words > 0)
        fp_safe_read_soon(heap->before.monitors, 8 * (size_t)heap->root_words);
}

uint32_t fp_off_cpu_work_spans(struct target_copy *copy, uint64_t *room,
                               struct fp_safe_read_span *span)
{
    struct fp_heap_copy *heap = &copy->heap;
    uint32_t n = 0;

    heap->tail = room;
    heap->root = room + heap->tail_words;
    if (heap->tail_words > 0)
        span[n++] = (struct fp_safe_read_span){heap->tail_at, heap->tail, 8 * heap->tail_words, 0};
    if (heap->root_words > 0)
        span[n++] =
            (struct fp_safe_read_span){heap->before.monitors, heap->root, 8 * heap->root_words, 0};
    return n;
}

/* Unreadable parts are left out. */
uint32_t fp_off_cpu_work_found(struct target_copy *copy, const struct fp_safe_read_span *span)
{
    struct fp_heap_copy *heap = &copy->heap;
    uint32_t n = 0;

    if (heap->tail_words > 0) {
        heap->tail = span[n].into;
        heap->tail_words = span[n++].result == 0 ? heap->tail_words : 0;
    }
    if (heap->root_words > 0) {
        heap->root = span[n].into;
        heap->root_words = span[n++].result == 0 ? heap->root_words : 0;
    }
    return n;
}

/* ------------------------------------------------------ what is to read -- */

static void use(const struct fp_sampler *s, struct one *one, const struct fp_site *site)
{
    struct fp_work_batch *batch = s->work;
    uint16_t at = (uint16_t)(site - fp_sites_at(s->sites->sites, 0));

    one->site[one->sites++] = at;
    if (batch->listed[at] != 0)
        return;
    batch->site[batch->sites++] = at;
    batch->listed[at] = (uint16_t)batch->sites;
}

static void set_top(const struct fp_sampler *s, struct one *one)
{
    const struct fp_stack_copy *copy = &one->copy->stack;
    const struct fp_heap_copy *heap = &one->copy->heap;
    struct fp_top *top = &one->top;

    top->i = copy->before.i;
    top->site = heap->site;
    top->words = copy->leaf_words < FP_TOP_WORDS ? copy->leaf_words : FP_TOP_WORDS;
    top->is_cut = top->words < copy->words;
    top->word = copy->word;
    memcpy(&top->monitors, copy->again + fp_monitors_offset(s->layout), sizeof top->monitors);
    top->root = heap->root;
    top->root_words = heap->root_words;
    top->tail = heap->tail;
    top->tail_at = heap->tail_at;
    top->tail_words = heap->tail_words;
    fp_top_frames(top, &s->code, s->sites->sites, s->site_is_valid);
    fp_top_wanted(top);
    use(s, one, top->site);
    if (top->lower != NULL)
        use(s, one, top->lower);
}

/* Not beyond the end of the page: the next one may be none. */
static void want(struct one *one, uint64_t address)
{
    uint64_t to_page_end = (PAGE - address % PAGE) / 8;
    uint32_t words = to_page_end < TERM_WORDS ? (uint32_t)to_page_end : TERM_WORDS;

    for (uint32_t k = 0; k < one->terms; k++)
        if ((address - one->at[k]) / 8 + 4 <= one->words[k] && address >= one->at[k])
            return;
    one->at[one->terms] = address;
    one->words[one->terms++] = words;
}

static void plan(struct fp_sampler *s, const struct target_copy *copy, struct one *one)
{
    const struct fp_stack_copy *stack = &copy->stack;
    uint64_t address[FP_SERVING_TERMS];
    uint32_t n;

    one->copy = copy;
    one->is_serving = one->waits = one->has_work = 0;
    one->spans = one->sites = one->terms = one->top.terms = 0;
    if (!copy->is_whole || stack->before.status == FP_STATUS_garbage_collecting)
        return;
    one->is_serving = (uint8_t)fp_serving_find(s->sites, stack->word, stack->words,
                                               stack->leaf_words, &one->serving);
    one->waits = copy->heap.site != NULL;
    if (one->is_serving) {
        n = fp_serving_terms(&one->serving, address);
        for (uint32_t k = 0; k < n; k++)
            want(one, address[k]);
        use(s, one, one->serving.site);
    }
    if (one->waits)
        set_top(s, one);
}

static uint32_t term_spans(const struct fp_sampler *s, struct one *one,
                           struct fp_safe_read_span *span)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < one->terms; k++)
        span[n++] = (struct fp_safe_read_span){one->at[k], one->term[k], 8 * one->words[k], 0};
    for (uint32_t k = 0; k < one->top.terms; k++)
        span[n++] = (struct fp_safe_read_span){one->top.term[k].address, one->top.term[k].word,
                                               8 * FP_TOP_TERM_WORDS, 0};
    if (n > 0)
        span[n++] = (struct fp_safe_read_span){one->copy->stack.address, one->again,
                                               fp_stamp_bytes(s->layout), 0};
    return n;
}

/* ----------------------------------------------------------- what is so -- */

/* The terms that were copied are of the moment of the stack. */
static int is_of_one_moment(const struct fp_sampler *s, const struct one *one,
                            const struct fp_safe_read_span *last)
{
    const struct fp_heap_copy *heap = &one->copy->heap;
    struct fp_stamp then, after;

    fp_stamp_decode(s->layout, one->copy->stack.again, &then);
    if (heap->tail_words + heap->root_words > 0 && !fp_stamp_is_same(&heap->before, &then))
        return 0;
    if (one->spans == 0)
        return 1;
    if (last->result != 0)
        return 0;
    fp_stamp_decode(s->layout, one->again, &after);
    return fp_stamp_is_same(&then, &after);
}

/* As a batch of its own, where memory was read since. */
static int is_still(const struct fp_sampler *s, const struct one *one)
{
    struct fp_safe_read_span span[2 * SITES + 1], *last = span + 2 * one->sites;
    struct fp_site_code code[SITES];
    unsigned char again[FP_PROBE_WINDOW];
    struct fp_stamp then, now;

    for (uint32_t i = 0; i < one->sites; i++)
        fp_site_spans(fp_sites_at(s->sites->sites, one->site[i]), &code[i], span + 2 * i);
    *last =
        (struct fp_safe_read_span){one->copy->stack.address, again, fp_stamp_bytes(s->layout), 0};
    fp_safe_read_batch(s->options.memory, span, 2 * (size_t)one->sites + 1);
    for (uint32_t i = 0; i < one->sites; i++)
        if (!fp_site_has_stayed(fp_sites_at(s->sites->sites, one->site[i]), &code[i], span + 2 * i))
            return 0;
    if (last->result != 0)
        return 0;
    fp_stamp_decode(s->layout, one->copy->stack.again, &then);
    fp_stamp_decode(s->layout, again, &now);
    return fp_stamp_is_same(&then, &now);
}

static int read_message(struct one *one, struct fp_walk *walk)
{
    for (uint32_t k = 0; k < one->terms; k++)
        if (one->words[k] > 0)
            fp_walk_copy(walk, one->at[k], one->term[k], one->words[k]);
    return fp_serving_read(walk, &one->serving, &one->work);
}

static int read_wait(const struct fp_sampler *s, struct one *one, struct fp_walk *walk)
{
    struct fp_work *work = &one->work;
    struct fp_wait wait;

    fp_top_edge(&one->top, walk, &wait);
    set_target(s->layout, &wait, work);
    if (wait.how == FP_WAIT_call && wait.has_ref) {
        work->calls = 1;
        memcpy(work->called_ref, wait.ref.n, sizeof work->called_ref);
        work->request = wait.tag;
    }
    return work->waits != FP_WORK_NO_TARGET || work->calls;
}

static int sites_have_stayed(const struct fp_work_batch *batch, const struct one *one)
{
    for (uint32_t i = 0; i < one->sites; i++)
        if (!batch->has_stayed[batch->listed[one->site[i]] - 1])
            return 0;
    return 1;
}

static int find_work(const struct fp_sampler *s, struct one *one,
                     const struct fp_safe_read_span *span)
{
    struct fp_walk walk;
    int found = 0, has_read = 0;

    if (!sites_have_stayed(s->work, one) || !is_of_one_moment(s, one, span + one->spans - 1))
        return 0;
    for (uint32_t k = 0; k < one->terms; k++)
        one->words[k] = span++->result == 0 ? one->words[k] : 0;
    for (uint32_t k = 0; k < one->top.terms; k++)
        one->top.term[k].words = span++->result == 0 ? FP_TOP_TERM_WORDS : 0;
    memset(&one->work, 0, sizeof one->work);
    fp_serving_walk(s->sites, &walk, s->options.memory, s->layout);
    if (one->is_serving) {
        found |= read_message(one, &walk);
        has_read |= walk.budget < FP_SERVING_READS;
    }
    if (one->waits) {
        found |= read_wait(s, one, &walk);
        has_read |= walk.budget < FP_TOP_READS;
    }
    return found && (!has_read || is_still(s, one));
}

uint32_t fp_off_cpu_work_read(struct fp_sampler *s, const struct target_copy *copy, uint32_t n)
{
    struct fp_work_batch *batch = s->work;
    struct fp_safe_read_span *code, *span;
    uint32_t spans = 0;

    n = n < BATCH ? n : BATCH;
    if (s->sites == NULL)
        return n;
    span = batch->span;
    batch->sites = 0;
    for (uint32_t i = 0; i < n; i++) {
        plan(s, &copy[i], &batch->one[i]);
        batch->one[i].spans = term_spans(s, &batch->one[i], span + spans);
        spans += batch->one[i].spans;
    }
    code = span + spans; /* behind the terms that they are to be true of */
    for (uint32_t k = 0; k < batch->sites; k++)
        fp_site_spans(fp_sites_at(s->sites->sites, batch->site[k]), &batch->code[k], code + 2 * k);
    if (batch->sites == 0)
        return n;
    fp_safe_read_batch(s->options.memory, span, spans + 2 * (size_t)batch->sites);
    for (uint32_t k = 0; k < batch->sites; k++)
        batch->has_stayed[k] = (uint8_t)fp_site_has_stayed(
            fp_sites_at(s->sites->sites, batch->site[k]), &batch->code[k], code + 2 * k);
    for (uint32_t i = 0; i < n; i++) {
        struct one *one = &batch->one[i];

        one->has_work = one->sites > 0 && find_work(s, one, span);
        span += one->spans;
    }
    for (uint32_t k = 0; k < batch->sites; k++)
        batch->listed[batch->site[k]] = 0;
    return n;
}

const struct fp_work *fp_off_cpu_work(const struct fp_sampler *s, uint32_t i)
{
    return s->sites != NULL && s->work->one[i].has_work ? &s->work->one[i].work : NULL;
}
