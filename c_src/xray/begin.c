#include <string.h>

#include "base/error.h"
#include "erts/fragment.h"
#include "erts/term/object.h"
#include "xray/xray_internal.h"

#define PATHS 16384u
#define TYPES 1024u
#define SLOTS_IN_DICTIONARY 24u
#define OUTSIDE_CACHE (UINT64_C(3) << 20)

/* --------------------------------------------------------------- fragments -- */

/* `*words` grows by those in use. */
static int add_fragments(struct fp_xray *x, uint64_t at, uint64_t *words)
{
    struct fp_fragment fragment;
    int err = 0;

    while (err == 0 && at != 0) {
        if (x->fragments == FP_XRAY_FRAGMENTS_MAX)
            return FP_EFULL;
        err = fp_fragment_read(fp_page_cache_memory(x->cache), at, &fragment);
        *words += fragment.words;
        x->fragment[x->fragments++] =
            (struct fp_xray_fragment){fragment.start, fragment.words, fragment.off_heap};
        at = fragment.next;
    }
    return err;
}

/* Those of messages that the process has taken since its last collection. */
static int add_message_fragments(struct fp_xray *x)
{
    uint64_t at = x->view.msg_frag, fragment;
    int err = 0;

    for (uint32_t n = 0; err == 0 && at != 0; n++) {
        if (n == FP_XRAY_FRAGMENTS_MAX)
            return FP_ETORN;
        err = fp_queue_taken_read(x->cache, at, &fragment, &at);
        if (err == 0)
            err = add_fragments(x, fragment, &x->answer.fragment_words);
    }
    return err;
}

/* ---------------------------------------------------------------- messages -- */

void fp_xray_count_message(struct fp_xray *x, const struct fp_queue_node *node)
{
    x->answer.messages++;
    x->answer.message_bytes += x->layout->release.message_size;
    x->answer.undecoded += node->kind == FP_NODE_UNDECODED;
}

static int gather_chain(struct fp_xray *x, const struct fp_chain *chain)
{
    uint64_t at = chain->first;
    int err = 0;

    for (uint32_t n = 0; err == 0 && at != 0; n++) {
        struct fp_queue_node node;

        if (n == 2 * FP_XRAY_MESSAGES_MAX || x->messages == FP_XRAY_MESSAGES_MAX ||
            x->answer.message_words > x->limits.bytes / 16)
            return FP_EFULL;
        err = fp_queue_node_read(x->cache, at, &node);
        if (err != 0)
            return err;
        if (node.kind != FP_NODE_SIGNAL)
            fp_xray_count_message(x, &node);
        if (node.kind == FP_NODE_MESSAGE) {
            x->message[x->messages++] = node.term;
            err = add_fragments(x, node.fragment, &x->answer.message_words);
        }
        at = at == chain->last ? 0 : node.next;
    }
    return err;
}

/* A mailbox that is not large is copied with the heap. Another one is walked where it is. */
static int gather_messages(struct fp_xray *x)
{
    uint32_t fragments = x->fragments;
    int err = 0;

    x->messages = 0;
    for (uint32_t k = 0; err == 0 && k < x->queues.chains; k++)
        err = gather_chain(x, &x->queues.chain[k]);
    x->is_gathered = err == 0;
    if (err != FP_EFULL)
        return err;
    x->fragments = fragments;
    x->answer.messages = x->answer.undecoded = 0;
    x->answer.message_bytes = x->answer.message_words = 0;
    return 0;
}

/* ----------------------------------------------------------------- regions -- */

static int add_regions(struct fp_xray *x)
{
    struct fp_xray_heap *heap = x->walker.heap;
    const struct fp_process_terms *view = &x->view;
    int err = fp_xray_heap_add(heap, view->heap, x->answer.young_words);

    if (err == 0)
        err = fp_xray_heap_add(heap, view->stop, x->answer.stack_words);
    if (err == 0)
        err = fp_xray_heap_add(heap, view->old_heap, x->answer.old_words);
    if (err == 0)
        err = fp_xray_heap_add(heap, view->arg_reg, view->arity);
    if (err == 0)
        err = fp_xray_heap_add(heap, x->dictionary, x->dictionary_words);
    for (uint32_t k = 0; err == 0 && k < x->fragments; k++)
        err = fp_xray_heap_add(heap, x->fragment[k].start, x->fragment[k].words);
    return err == 0 ? fp_xray_heap_sort(heap) : err;
}

struct fp_xray_walker_limits fp_xray_walker_limits_of(const struct fp_xray_limits *limits)
{
    struct fp_xray_walker_limits walker = {
        .paths = PATHS, .types = TYPES, .entries = 1024, .binaries = 1024};

    while (walker.binaries * 60 * 2 < limits->bytes / 4)
        walker.binaries *= 2;
    while (walker.entries * UINT64_C(32) * 2 < limits->bytes / 8)
        walker.entries *= 2;
    return walker;
}

static int create_heap(struct fp_xray *x)
{
    struct fp_xray_answer *answer = &x->answer;
    const struct fp_xray_walker_limits walker = fp_xray_walker_limits_of(&x->limits);
    uint64_t others = fp_xray_walker_bytes(&walker) + OUTSIDE_CACHE;
    struct fp_xray_heap_limits limits = {.words = answer->young_words + answer->stack_words +
                                                  answer->old_words + answer->fragment_words +
                                                  x->view.arity + x->dictionary_words +
                                                  (x->is_gathered ? answer->message_words : 0),
                                         .regions = x->fragments + 5};

    answer->bytes_needed = fp_xray_heap_bytes(limits.words, limits.regions) + others;
    if (answer->bytes_needed > x->limits.bytes)
        return FP_EFULL;
    if (x->walker.heap != NULL && fp_xray_heap_reuse(x->walker.heap, limits.words, limits.regions))
        return 0;
    limits.bytes = x->limits.bytes - others;
    /* Of a process that works the next attempt has a little more; its pages are here by then. */
    if (fp_xray_heap_bytes(limits.words + limits.words / 4, limits.regions + 16) <= limits.bytes) {
        limits.words += limits.words / 4;
        limits.regions += 16;
    }
    fp_xray_heap_destroy(x->walker.heap);
    x->walker.heap = NULL;
    return fp_xray_heap_create(&x->walker.heap, x->memory, &limits);
}

static int begin_dictionary(struct fp_xray *x)
{
    struct fp_dictionary dictionary;
    int64_t bytes;

    x->dictionary = x->dictionary_words = 0;
    if (x->view.dictionary == 0)
        return 0;
    if (fp_safe_read(x->memory, x->view.dictionary, &dictionary, sizeof dictionary) != 0)
        return FP_EFAULT;
    bytes = fp_dictionary_bytes(&dictionary);
    if (bytes < 0)
        return FP_ETORN;
    x->answer.dictionary_bytes = (uint64_t)bytes;
    x->dictionary = x->view.dictionary + SLOTS_IN_DICTIONARY;
    x->dictionary_words = dictionary.used_slots;
    return 0;
}

/* -------------------------------------------------------------------- copy -- */

int fp_xray_off_heap_object(struct fp_xray *x, uint64_t at, struct fp_object *object,
                            uint64_t *next)
{
    uint64_t word[FP_OBJECT_WORDS] = {0};
    struct fp_xray_region region;

    if (fp_xray_find(x->walker.heap, at, &region) != 0 || (at & 7) != 0 ||
        ++x->nodes > FP_XRAY_NODES_MAX)
        return FP_ETORN;
    for (uint32_t k = 0; k < FP_OBJECT_WORDS && at + 8 * (uint64_t)k < region.end; k++) {
        int err = fp_xray_word(x->walker.heap, at + 8 * (uint64_t)k, &word[k]);

        if (err != 0)
            return err;
    }
    fp_object_decode(x->layout->release.otp, word, object);
    *next = word[2]; /* erl_off_heap_header */
    return 0;
}

static int copy_binaries(struct fp_xray *x, uint64_t at)
{
    int err = 0;

    /* Each takes three words at least. */
    for (uint64_t n = 0; err == 0 && at != 0; n++) {
        struct fp_object object;

        if (n > fp_xray_heap_words(x->walker.heap) / 3)
            return FP_ETORN;
        err = fp_xray_off_heap_object(x, at, &object, &at);
        if (err == 0 &&
            (object.kind == FP_OBJECT_REFC_BINARY || object.kind == FP_OBJECT_BINARY_REF))
            err = fp_xray_binary_know(&x->walker.binaries, object.binary);
    }
    return err;
}

/* All that the walk will read, but for literals. The process moved: FP_ETORN, as for whatever it
 * looks like then. */
static int copy(struct fp_xray *x)
{
    int err = fp_xray_heap_load(x->walker.heap);

    if (err == FP_EFULL)
        return 0;
    if (err == 0)
        err = copy_binaries(x, x->view.off_heap);
    if (err == 0)
        err = copy_binaries(x, x->view.writable);
    for (uint32_t k = 0; err == 0 && k < x->fragments; k++)
        err = copy_binaries(x, x->fragment[k].off_heap);
    if (err == 0 && fp_xray_has_moved(x))
        err = FP_ETORN;
    x->is_copied = err == 0;
    return err;
}

int fp_xray_begin(struct fp_xray *x)
{
    struct fp_xray_answer *answer = &x->answer;
    struct fp_process_terms *view = &x->view;
    int err;

    memset(answer, 0, sizeof *answer);
    answer->attempts = x->attempts.made;
    x->fragments = 0;
    x->is_copied = 0;
    fp_page_cache_forget(x->cache);
    fp_xray_walker_clear(&x->walker);
    err = fp_process_terms_read(x->layout, x->memory, x->pid, x->address, view);
    if (err == 0)
        err = fp_queues_read(x->layout, x->memory, x->pid, x->address, &x->queues);
    if (err == 0)
        err = add_fragments(x, view->mbuf, &answer->fragment_words);
    if (err == 0)
        err = add_message_fragments(x);
    if (err == 0)
        err = gather_messages(x);
    if (err == 0)
        err = begin_dictionary(x);
    if (err != 0)
        return err;
    answer->young_words = (view->htop - view->heap) / 8;
    answer->stack_words = (view->hend - view->stop) / 8;
    answer->old_words = (view->old_htop - view->old_heap) / 8;
    answer->block_words = (view->hend - view->heap) / 8 + (view->old_hend - view->old_heap) / 8;
    x->phase = STACK;
    x->at = 0;
    x->slot = 0;
    x->address_of_code = view->i;
    x->chain = 0;
    x->node = x->queues.chain[0].first;
    x->nodes = 0;
    err = create_heap(x);
    if (err == 0)
        err = add_regions(x);
    if (err == 0 && x->is_gathered)
        err = copy(x);
    return err;
}
