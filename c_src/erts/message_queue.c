#include "erts/message_queue.h"

#include <string.h>

#include "base/error.h"
#include "erts/fragment.h"
#include "erts/process.h"
#include "erts/term.h"

/* ErtsSignalPrivQueues, ErtsSignalInQueue: a chain's `last` is the address of the last `next`,
 * which of an empty one is that of `first` itself. `next` is a node's first word. */
#define LAST_IN_CHAIN 8u
#define LENGTH_IN_IN_QUEUE 16u

/* ErtsMessage: next, data, term, token, from; then an ErlHeapFragment when data says so. */
#define NODE_WORDS 5u
#define COMBINED UINT64_C(1) /* ERTS_MSG_COMBINED_HFRAG */

/* ErtsSignalInQueueBufferArray: slots of two cache lines each: mutex, `alive`, a count, and the
 * in-queue; erl_message.h, the same in 25, 27 and 29. */
#define BUFFER_BYTES 128u

/* Two readings of a busy process differ. */
#define TRIES 50u

/* The chain whose pair {first, last} stands at `bytes`, which lie at `address` in the VM. 0 or
 * FP_ETORN. */
static int chain_of(const unsigned char *bytes, uint64_t address, struct fp_chain *chain)
{
    uint64_t first = fp_word_at(bytes, 0), last = fp_word_at(bytes, LAST_IN_CHAIN);

    *chain = (struct fp_chain){.messages = -1};
    if (first == 0)
        return last == address ? 0 : FP_ETORN;
    if (last == address || (first & 7) != 0 || (last & 7) != 0 || last == 0)
        return FP_ETORN;
    chain->first = first;
    chain->last = last;
    return 0;
}

static int is_before_27(const struct fp_layout *layout)
{
    return layout->release.queue.middle - layout->release.queue.inner == 24;
}

/* Each of the buffers is appended to under a lock of its own: one that is caught in the middle is
 * read again. */
static int read_buffer(const struct fp_memory *memory, unsigned char *bytes, uint64_t address,
                       struct fp_chain *chain)
{
    for (unsigned n = 0; chain_of(bytes, address, chain) != 0; n++)
        if (n == TRIES || fp_safe_read(memory, address, bytes, 24) != 0)
            return FP_ETORN;
    return 0;
}

/* Where the in-queue stands in the buffers: behind a mutex, whose size depends on the build. At the
 * wrong place hardly any pair of words is a chain. */
static uint32_t queue_in_buffer(const unsigned char *bytes, uint64_t address)
{
    static const uint32_t place[] = {40, 56};
    uint32_t best = place[0], most = 0;

    for (size_t p = 0; p < sizeof place / sizeof *place; p++) {
        uint32_t right = 0;
        struct fp_chain chain;

        for (uint32_t at = place[p]; at < FP_QUEUE_BUFFERS * BUFFER_BYTES; at += BUFFER_BYTES)
            right += chain_of(bytes + at, address + at, &chain) == 0;
        if (right > most) {
            most = right;
            best = place[p];
        }
    }
    return best;
}

static int read_buffers(const struct fp_layout *layout, const struct fp_memory *memory,
                        uint64_t address, struct fp_queues *queues)
{
    unsigned char bytes[FP_QUEUE_BUFFERS * BUFFER_BYTES];
    uint32_t place;

    if (fp_safe_read(memory, address, bytes, sizeof bytes) != 0)
        return FP_EFAULT;
    place = queue_in_buffer(bytes, address);
    for (uint32_t at = place; at < sizeof bytes; at += BUFFER_BYTES) {
        struct fp_chain chain;

        if (read_buffer(memory, bytes + at, address + at, &chain) != 0)
            return FP_ETORN;
        if (is_before_27(layout))
            chain.messages = (int64_t)fp_word_at(bytes, at + LENGTH_IN_IN_QUEUE);
        if (chain.first != 0)
            queues->chain[queues->chains++] = chain;
    }
    return 0;
}

/* From the structure's bytes. 0 or FP_ETORN. */
static int decode(const struct fp_layout *layout, const unsigned char *bytes, uint64_t address,
                  struct fp_queues *queues)
{
    const struct fp_queue_offsets *at = &layout->release.queue;
    const uint16_t place[3] = {at->inner, at->middle, at->outer};

    memset(queues, 0, offsetof(struct fp_queues, chain));
    for (queues->chains = 0; queues->chains < 3; queues->chains++) {
        uint32_t k = place[queues->chains];

        if (chain_of(bytes + k, address + k, &queues->chain[queues->chains]) != 0)
            return FP_ETORN;
    }
    queues->buffers_unknown = 0;
    queues->fetched_has_middle = is_before_27(layout);
    queues->fetched = (int64_t)fp_process_field(layout, bytes, FP_FIELD_inner_len);
    queues->state = (uint32_t)fp_process_field(layout, bytes, FP_FIELD_state);
    queues->i = fp_process_field(layout, bytes, FP_FIELD_i);
    queues->reds = fp_process_field(layout, bytes, FP_FIELD_reds);
    queues->heap[0] = fp_process_field(layout, bytes, FP_FIELD_heap);
    queues->heap[1] = fp_process_field(layout, bytes, FP_FIELD_old_heap);
    queues->heap[2] = fp_process_field(layout, bytes, FP_FIELD_gen_gcs);
    if (!queues->fetched_has_middle)
        queues->chain[0].messages = queues->fetched;
    /* Of 27 and later it counts those behind the last signal only. */
    if (queues->fetched_has_middle)
        queues->chain[2].messages = (int64_t)fp_process_field(layout, bytes, FP_FIELD_outer_len);
    return 0;
}

/* Nothing has gone from one queue to another between the two readings of the structure; messages
 * may have been taken from the first, or appended to the last. */
static int is_same(const struct fp_layout *layout, const unsigned char *a, const unsigned char *b)
{
    const struct fp_queue_offsets *at = &layout->release.queue;

    return fp_word_at(a, at->inner + LAST_IN_CHAIN) == fp_word_at(b, at->inner + LAST_IN_CHAIN) &&
           memcmp(a + at->middle, b + at->middle, 16) == 0 &&
           (fp_word_at(a, at->outer) == 0 ||
            fp_word_at(a, at->outer) == fp_word_at(b, at->outer)) &&
           fp_word_at(a, at->buffers) == fp_word_at(b, at->buffers);
}

/* Twice, and the buffers between that: 0, or FP_ETORN. */
static int read_once(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t pid,
                     uint64_t address, struct fp_queues *queues)
{
    unsigned char first[FP_PROBE_WINDOW], again[FP_PROBE_WINDOW];
    uint32_t size = layout->release.process_size;
    uint64_t buffers;
    int err;

    if (size > FP_PROBE_WINDOW || fp_safe_read(memory, address, first, size) != 0)
        return FP_EFAULT;
    if (fp_process_field(layout, first, FP_FIELD_id) != pid ||
        (fp_process_field(layout, first, FP_FIELD_state) & FP_PSFLG_FREE) != 0)
        return FP_EGONE;
    err = decode(layout, first, address, queues);
    buffers = fp_word_at(first, layout->release.queue.buffers);
    if (err == 0 && buffers != 0 && read_buffers(layout, memory, buffers, queues) != 0) {
        queues->chains = 3;
        queues->buffers_unknown = 1;
    }
    if (fp_safe_read(memory, address, again, size) != 0)
        return FP_EFAULT;
    return err == 0 && !is_same(layout, first, again) ? FP_ETORN : err;
}

int fp_queues_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t pid,
                   uint64_t address, struct fp_queues *queues)
{
    int err = FP_ETORN;

    for (unsigned n = 0; err == FP_ETORN && n < TRIES; n++)
        err = read_once(layout, memory, pid, address, queues);
    return err;
}

int fp_queues_run(const struct fp_queues *queues)
{
    return (queues->state & (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS | FP_PSFLG_DIRTY_RUNNING |
                             FP_PSFLG_DIRTY_RUNNING_SYS | FP_PSFLG_GC)) != 0;
}

/* ------------------------------------------------------------------ nodes -- */

/* A header word with the subtag of an external pid (erl_term.h): ERTS_SIG_IS_NON_MSG_TAG. */
static int is_signal(uint64_t tag)
{
    return (tag & 0x3f) == 0x30;
}

/* Pid, port or atom: senders are immediate, and 0 or [] stands for none. */
static int may_be_sender(uint64_t from)
{
    return (from & 3) == 3 || from == 0;
}

int fp_queue_node_read(struct fp_page_cache *cache, uint64_t address, struct fp_queue_node *node)
{
    uint64_t word[NODE_WORDS];
    struct fp_fragment fragment;
    int err;

    *node = (struct fp_queue_node){.address = address};
    if (address == 0 || (address & 7) != 0)
        return FP_ETORN;
    if (fp_page_cache_read(cache, address, word, sizeof word) != 0)
        return FP_EFAULT;
    node->next = word[0];
    node->term = word[2];
    if ((word[0] & 7) != 0)
        return FP_ETORN;
    node->kind = is_signal(word[2]) ? FP_NODE_SIGNAL
                 : word[2] == 0     ? FP_NODE_UNDECODED
                                    : FP_NODE_MESSAGE;
    if (node->kind == FP_NODE_SIGNAL)
        return 0;
    if ((word[2] & 3) == 0 && word[2] != 0)
        return FP_ETORN;
    node->from = word[4];
    if (!may_be_sender(node->from))
        return FP_ETORN;
    node->bytes = sizeof word;
    node->is_combined = word[1] == COMBINED;
    node->fragment = node->is_combined ? address + sizeof word : word[1];
    node->attached = node->fragment;
    if (!node->is_combined)
        return (node->attached & 7) == 0 ? 0 : FP_ETORN;
    err = fp_fragment_read(fp_page_cache_memory(cache), node->fragment, &fragment);
    node->bytes += FP_FRAGMENT_BYTES + 8 * fragment.room;
    node->attached = fragment.next;
    return err;
}

int fp_queue_taken_read(struct fp_page_cache *cache, uint64_t address, uint64_t *fragment,
                        uint64_t *next)
{
    uint64_t word[2];

    if (address == 0 || (address & 7) != 0)
        return FP_ETORN;
    if (fp_page_cache_read(cache, address, word, sizeof word) != 0)
        return FP_EFAULT;
    *next = word[0];
    *fragment = word[1] == COMBINED ? address + 8 * NODE_WORDS : word[1];
    return 0;
}

int64_t fp_queue_fragments(struct fp_page_cache *cache, const struct fp_queue_node *node)
{
    const struct fp_memory *memory = fp_page_cache_memory(cache);
    uint64_t at = node->attached, bytes = 0;
    struct fp_fragment fragment;

    for (unsigned n = 0; at != 0; n++) {
        int err = n == FP_FRAGMENTS_OF_MESSAGE ? FP_ETORN : fp_fragment_read(memory, at, &fragment);

        if (err != 0)
            return err;
        bytes += FP_FRAGMENT_BYTES + 8 * fragment.room;
        at = fragment.next;
    }
    return (int64_t)bytes;
}

/* ------------------------------------------------------------ calibration -- */

/* Probes have fewer nodes. */
#define PROBE_NODES 1000u

/* From the first to the last node, all of them messages of `from`. How many, or -1. Signals count
 * as steps: at a wrong offset they may lead in a circle. */
static int64_t walk(struct fp_page_cache *cache, const struct fp_chain *chain, uint64_t from)
{
    uint64_t at = chain->first;
    int64_t n = 0;

    for (unsigned steps = 0; at != 0 && steps < PROBE_NODES; steps++) {
        struct fp_queue_node node;

        if (fp_queue_node_read(cache, at, &node) != 0)
            return -1;
        if (node.kind == FP_NODE_MESSAGE) {
            if (node.from != from || !fp_term_is_atom(node.term))
                return -1;
            n++;
        }
        if (at == chain->last)
            return node.next == 0 ? n : -1;
        at = node.next;
    }
    return chain->first == 0 ? 0 : -1;
}

static const char *check_probe(const struct fp_layout *layout, const struct fp_probe *probe,
                               struct fp_page_cache *cache)
{
    static const char *const wrong[] = {
        "the queue of fetched messages is not at its place",
        "the queue of signals to be handled is not at its place",
        "the queue that senders append to is not at its place",
    };
    const int64_t sent[3] = {probe->fact[FP_FACT_inner_len], 0, probe->fact[FP_FACT_outer_len]};
    struct fp_queues queues;

    if (decode(layout, probe->window, probe->address, &queues) != 0)
        return "the probes' queues are not at their places";
    for (unsigned k = 0; k < 3; k++)
        if (walk(cache, &queues.chain[k], probe->parent) != sent[k])
            return wrong[k];
    if (fp_word_at(probe->window, layout->release.queue.buffers) != 0)
        return "the buffers of senders are not at their place";
    return NULL;
}

const char *fp_queues_check(const struct fp_layout *layout, const struct fp_memory *memory,
                            const struct fp_solve_input *input)
{
    struct fp_page_cache *cache = NULL;
    const char *why = NULL;
    uint32_t end = layout->release.queue.buffers + 8u, with[2] = {0, 0};

    if (fp_page_cache_create(&cache, memory) != 0)
        return fp_err_text(FP_ENOMEM);
    for (size_t i = 0; why == NULL && i < input->probes; i++) {
        const struct fp_probe *probe = &input->probe[i];

        why = probe->window_size < end ? "the probes' structures are too short"
                                       : check_probe(layout, probe, cache);
        with[0] += probe->fact[FP_FACT_inner_len] > 0;
        with[1] += probe->fact[FP_FACT_outer_len] > 0;
    }
    fp_page_cache_destroy(cache);
    if (why == NULL && (with[0] < 2 || with[1] < 2))
        why = "too few probes have messages";
    return why;
}
