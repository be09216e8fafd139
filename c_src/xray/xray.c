#include "xray/xray.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/fragment.h"
#include "erts/process_table.h"
#include "erts/term.h"
#include "erts/term/object.h"
#include "xray/xray_internal.h"

#define PAUSE_NS 300000
/* Roots between two looks at the time. */
#define ROOTS 256u

/* ------------------------------------------------------------------- roots -- */

static void next_phase(struct fp_xray *x)
{
    x->phase++;
    x->at = x->phase == OFF_HEAP ? x->view.off_heap : 0;
    x->slot = 0;
}

/* A return address ends the slots of the code before it; a saved frame pointer is none of them. */
static int reach_stack(struct fp_xray *x)
{
    uint64_t address = x->view.stop + 8 * x->at, word;
    int err;

    if (x->at == x->answer.stack_words) {
        next_phase(x);
        return 0;
    }
    x->at++;
    err = fp_xray_word(x->walker.heap, address, &word);
    if (err != 0)
        return err;
    if ((word & 3) == 0) {
        if (fp_ranges_contain(x->code, word)) {
            x->address_of_code = word;
            x->slot = 0;
        }
        return 0;
    }
    address = (uint64_t)(x->slot < 0xffff ? x->slot : 0xffff) << 48 |
              (x->address_of_code & ((UINT64_C(1) << 48) - 1));
    x->slot++;
    return fp_xray_reach(&x->walker, word, 0, FP_XRAY_STACK, address);
}

static int reach_register(struct fp_xray *x)
{
    uint64_t word;

    if (x->at == x->view.arity) {
        next_phase(x);
        return 0;
    }
    if (fp_xray_word(x->walker.heap, x->view.arg_reg + 8 * x->at, &word) != 0)
        return FP_EFAULT;
    return fp_xray_reach(&x->walker, word, 0, FP_XRAY_REGISTER, x->at++);
}

static int reach_dictionary(struct fp_xray *x)
{
    uint64_t slot;

    if (x->at == x->dictionary_words) {
        next_phase(x);
        return 0;
    }
    if (fp_xray_word(x->walker.heap, x->dictionary + 8 * x->at++, &slot) != 0)
        return FP_EFAULT;
    return fp_xray_reach_slot(&x->walker, slot);
}

static int reach_own(struct fp_xray *x)
{
    const uint64_t own[] = {x->view.group_leader, x->view.fvalue, x->view.ftrace, x->view.token,
                            x->view.parent};

    if (x->at == sizeof own / sizeof *own) {
        next_phase(x);
        return 0;
    }
    /* No value, where there is none. */
    if (own[x->at] == 0) {
        x->at++;
        return 0;
    }
    return fp_xray_reach(&x->walker, own[x->at++], 0, FP_XRAY_OWN, 0);
}

/* ---------------------------------------------------------------- messages -- */

/* The memory that a message brings along, until the next message. */
static int push_fragments(struct fp_xray *x, const struct fp_queue_node *node)
{
    uint64_t words = 0;
    struct fp_fragment fragment = {.next = node->fragment};
    int err = 0;

    for (unsigned n = 0; err == 0 && fragment.next != 0; n++) {
        if (n > FP_FRAGMENTS_OF_MESSAGE)
            return FP_ETORN;
        err = fp_fragment_read(fp_page_cache_memory(x->cache), fragment.next, &fragment);
        words += fragment.words;
        /* An eighth of the limit. A header that is another's by now may say anything. */
        if (err == 0 && words > x->limits.bytes) {
            x->answer.bytes_needed = words;
            err = FP_EFULL;
        }
        if (err == 0)
            err = fp_xray_heap_push(x->walker.heap, fragment.start, fragment.words);
        x->answer.message_words += fragment.words;
    }
    return err;
}

static int next_chain(struct fp_xray *x)
{
    x->chain++;
    x->node = x->chain < x->queues.chains ? x->queues.chain[x->chain].first : 0;
    return 0;
}

static int reach_gathered_message(struct fp_xray *x)
{
    if (x->at == x->messages) {
        next_phase(x);
        return 0;
    }
    return fp_xray_reach(&x->walker, x->message[x->at++], 0, FP_XRAY_MESSAGE, 0);
}

static int reach_message(struct fp_xray *x)
{
    struct fp_queue_node node;
    int err;

    fp_xray_heap_forget(x->walker.heap);
    if (x->chain == x->queues.chains) {
        next_phase(x);
        return 0;
    }
    if (x->node == 0)
        return x->queues.chain[x->chain].first == 0 ? next_chain(x) : FP_ETORN;
    err = fp_queue_node_read(x->cache, x->node, &node);
    if (err == 0 && ++x->nodes > FP_XRAY_NODES_MAX)
        err = FP_ETORN;
    if (err != 0)
        return err;
    if (x->node == x->queues.chain[x->chain].last)
        (void)next_chain(x);
    else
        x->node = node.next;
    if (node.kind == FP_NODE_SIGNAL)
        return 0;
    fp_xray_count_message(x, &node);
    if (node.kind == FP_NODE_UNDECODED)
        return 0;
    err = push_fragments(x, &node);
    return err == 0 ? fp_xray_reach(&x->walker, node.term, 0, FP_XRAY_MESSAGE, 0) : err;
}

/* ---------------------------------------------------------------- off heap -- */

/* One of the objects with something outside of the heap: a refc binary that was not visited is held
 * by garbage. Behind that list (slot 0) is the one of writable binaries. They end; each is on the
 * heap, and none is met twice. */
static int reach_off_heap(struct fp_xray *x)
{
    uint64_t at = x->at;
    struct fp_xray_region region;
    struct fp_object object;
    int err;

    if (at == 0 && x->slot == 0) {
        x->slot = 1;
        x->at = at = x->view.writable;
    }
    if (at == 0) {
        next_phase(x);
        return 0;
    }
    err = fp_xray_off_heap_object(x, at, &object, &x->at);
    if (err != 0 || fp_xray_find(x->walker.heap, at, &region) != 0)
        return err;
    if ((object.kind != FP_OBJECT_REFC_BINARY && object.kind != FP_OBJECT_BINARY_REF) ||
        !fp_xray_visit(x->walker.heap, &region, at))
        return 0;
    return fp_xray_binary_add(&x->walker.binaries, object.binary, FP_XRAY_GARBAGE);
}

/* ------------------------------------------------------------------ answer -- */

static void sum_binaries(struct fp_xray *x)
{
    const struct fp_xray_binaries *binaries = &x->walker.binaries;

    for (uint64_t k = 0; k < binaries->room; k++) {
        const struct fp_xray_binary *binary = &binaries->entry[k];
        struct fp_xray_binaries_sum *sum = &x->answer.binaries;

        if (binary->refs == 0)
            continue;
        if (binary->node == FP_XRAY_GARBAGE) {
            sum = &x->answer.garbage;
        } else {
            struct fp_xray_node *node = &x->walker.paths.node[binary->node];

            node->binaries++;
            node->binary_bytes += binary->size;
            node->seen_bytes += binary->seen;
        }
        sum->count++;
        sum->bytes += binary->size;
        sum->shared_bytes += binary->counted > (int64_t)binary->refs ? binary->size : 0;
    }
    x->answer.binaries_untold = binaries->untold;
}

static void finish(struct fp_xray *x)
{
    struct fp_xray_answer *answer = &x->answer;

    sum_binaries(x);
    fp_xray_paths_sum(&x->walker.paths);
    answer->reached_words = x->walker.words;
    answer->literals = x->walker.literals;
    answer->left_out = x->walker.left_out;
    answer->memory_bytes = x->layout->release.process_size + answer->dictionary_bytes +
                           answer->message_bytes +
                           8 * (answer->block_words + x->view.mbuf_size + answer->message_words);
    for (uint32_t k = 1; k < x->walker.paths.nodes; k++) {
        const struct fp_xray_node *node = &x->walker.paths.node[k];

        if (node->parent == 0)
            answer->root_words[node->step] += node->words;
    }
    answer->is_complete =
        answer->left_out == 0 && answer->binaries_untold == 0 && !x->queues.buffers_unknown;
    answer->paths = &x->walker.paths;
    answer->types = &x->walker.types;
}

/* 0: it is as it was; FP_EFAULT, nothing is known of it; FP_ETORN, FP_EGONE. */
static int compare(const struct fp_xray *x)
{
    struct fp_process_terms now;
    int err;

    memset(&now, 0, sizeof now);
    err = fp_process_terms_read(x->layout, x->memory, x->pid, x->address, &now);
    return err == 0 && memcmp(&now, &x->view, sizeof now) != 0 ? FP_ETORN : err;
}

int fp_xray_has_moved(const struct fp_xray *x)
{
    return compare(x) != 0;
}

/* ------------------------------------------------------------------- steps -- */

static int reach_root(struct fp_xray *x)
{
    switch (x->phase) {
    case STACK:
        return reach_stack(x);
    case REGISTERS:
        return reach_register(x);
    case DICTIONARY:
        return reach_dictionary(x);
    case MESSAGES:
        return x->is_gathered ? reach_gathered_message(x) : reach_message(x);
    case OWN:
        return reach_own(x);
    case OFF_HEAP:
        return reach_off_heap(x);
    default:
        return 0;
    }
}

/* Roots, and what is behind each before the next one. 0 or an error. */
static int walk(struct fp_xray *x, uint32_t objects)
{
    for (uint32_t n = 0; n < ROOTS && x->phase != CONFIRM; n++) {
        int err = reach_root(x), done = 0;

        if (err == 0)
            done = fp_xray_walk(&x->walker, objects);
        if (err != 0 || done < 0)
            return err != 0 ? err : done;
        if (done == 0)
            return 0;
    }
    return 0;
}

static int ends(struct fp_xray *x, int err)
{
    x->is_done = 1;
    if (err == 0)
        finish(x);
    x->answer.err = err;
    return 1;
}

/* What an attempt has ended with: another one, or the end. */
static int again(struct fp_xray *x, int err)
{
    int now = x->is_copied ? 0 : compare(x);
    int is_of_room = err == FP_ENOMEM || err == FP_EFULL;
    int is_final = err == FP_EGONE || err == FP_ELAYOUT || (is_of_room && now == 0);

    /* It has held still, and what is there is no heap as it should be. */
    if (!is_final && x->phase != BEGIN && now == 0)
        return ends(x, FP_ELAYOUT);
    if (is_final)
        return ends(x, err);
    /* Numbers of a process that has moved meanwhile say nothing of it; its heap is elsewhere. */
    if (now != 0 && (is_of_room || err == FP_EFAULT || now == FP_EFAULT))
        err = now == FP_EFAULT ? FP_EFAULT : FP_ETORN;
    if (!fp_attempts_next(&x->attempts))
        return ends(x, err);
    x->phase = BEGIN;
    return 0;
}

int fp_xray_step(struct fp_xray *x, uint32_t objects)
{
    int err = 0;

    if (x->is_done)
        return 1;
    if (x->phase == BEGIN) {
        err = fp_xray_begin(x);
    } else if (x->walker.entries > 0) {
        err = fp_xray_walk(&x->walker, objects);
        err = err > 0 ? 0 : err;
    }
    if (err == 0 && x->walker.entries == 0)
        err = walk(x, objects);
    if (err != 0)
        return again(x, err);
    if (!x->is_copied && fp_xray_has_moved(x))
        return again(x, FP_ETORN);
    if (x->phase == CONFIRM && x->walker.entries == 0)
        return ends(x, 0);
    return fp_attempts_are_late(&x->attempts) ? ends(x, FP_ETORN) : 0;
}

int fp_xray_open(struct fp_xray **xray, const struct fp_layout *layout,
                 const struct fp_memory *memory, const struct fp_ranges *code, uint64_t pid,
                 const struct fp_xray_limits *limits)
{
    const struct fp_xray_walker_limits walker = fp_xray_walker_limits_of(limits);
    struct fp_xray *x = calloc(1, sizeof *x);
    int err = x == NULL ? FP_ENOMEM : 0;

    *xray = NULL;
    if (err != 0)
        return err;
    x->layout = layout;
    x->memory = memory;
    x->code = code;
    x->pid = pid;
    x->limits = *limits;
    fp_attempts_open(&x->attempts, limits->time_ms, (struct fp_attempts){.pause_ns = PAUSE_NS});
    (void)fp_attempts_next(&x->attempts);
    err = fp_process_table_lookup(layout, memory, pid, &x->address);
    if (err == 0)
        err = fp_page_cache_create(&x->cache, memory);
    x->fragment = calloc(FP_XRAY_FRAGMENTS_MAX, sizeof *x->fragment);
    x->message = calloc(FP_XRAY_MESSAGES_MAX, sizeof *x->message);
    if (err == 0 && (x->fragment == NULL || x->message == NULL))
        err = FP_ENOMEM;
    if (err == 0)
        err = fp_xray_walker_create(&x->walker, memory, fp_page_cache_memory(x->cache),
                                    layout->release.otp, &walker);
    if (err != 0) {
        fp_xray_close(x);
        return err;
    }
    *xray = x;
    return 0;
}

void fp_xray_close(struct fp_xray *x)
{
    fp_xray_heap_destroy(x->walker.heap);
    if (x->walker.paths.node != NULL)
        fp_xray_walker_destroy(&x->walker);
    if (x->cache != NULL)
        fp_page_cache_destroy(x->cache);
    free(x->fragment);
    free(x->message);
    free(x);
}

const struct fp_xray_answer *fp_xray_answer(const struct fp_xray *xray)
{
    return &xray->answer;
}
