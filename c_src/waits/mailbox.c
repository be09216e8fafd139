#include "waits/mailbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/attempt.h"
#include "base/check.h"
#include "base/error.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "erts/term.h"

/* Messages between two looks at what the process has taken. */
#define CHUNK 2048u
/* A small queue that moves fast is read again in microseconds; a large one is limited by time.
 * After the first attempts there is a pause each: a collection takes its time. */
#define ATTEMPTS 200u
#define ATTEMPTS_AT_ONCE 20u
#define PAUSE_NS 500000
#define SENDER_ROWS 65536u
#define TAG_ROWS 4096u
/* Signals before the first message. */
#define SIGNALS_AT_HEAD 256u

/* A message of the chunk that is not confirmed yet. */
struct item {
    struct fp_mailbox_message message;
    uint64_t bytes;
    int is_undecoded, is_on_heap;
};

struct fp_mailbox {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    struct fp_mailbox_limits limits;
    struct fp_page_cache *cache;
    struct fp_walk walk;
    uint64_t pid, address;
    struct fp_attempts attempts;
    int is_done;
    struct fp_queues queues;          /* as they were when the attempt began */
    uint64_t oldest;                  /* the address of the first message then, 0 for none */
    uint32_t chain;                   /* that is read */
    uint64_t at;                      /* its next node */
    int64_t in_chain;                 /* messages read of it */
    uint64_t since_mark, mark, marks; /* for loops: an address, and when it is replaced */
    uint64_t visited, visited_room;
    uint32_t *address_of;    /* of each message, from the 4th bit on */
    uint32_t items, signals; /* of the chunk */
    struct item item[CHUNK];
    struct fp_mailbox_answer answer;
};

/* ------------------------------------------------------------------ tags -- */

static uint64_t packed(const struct fp_mailbox_tag *tag)
{
    return (uint64_t)tag->kind | (uint64_t)tag->tag.shape << 8 | (uint64_t)tag->tag.arity << 32;
}

struct fp_mailbox_tag fp_mailbox_tag_of(const struct fp_tally_row *row)
{
    return (struct fp_mailbox_tag){
        .kind = (enum fp_message_kind)(row->key[1] & 0xff),
        .tag = {.shape = (enum fp_shape)(row->key[1] >> 8 & 0xff),
                .atom = row->key[0],
                .arity = (uint32_t)(row->key[1] >> 32)},
    };
}

static void read_tag(struct fp_mailbox *m, uint64_t term, struct fp_mailbox_tag *tag)
{
    struct fp_message message;

    memset(&message, 0, sizeof message);
    fp_walk_again(&m->walk, FP_MESSAGE_READS);
    fp_message_read(&m->walk, &m->layout->envelope, term, &message);
    tag->kind = message.kind;
    tag->tag = message.tag;
    if (tag->tag.shape != FP_SHAPE_ATOM && tag->tag.shape != FP_SHAPE_TUPLE)
        tag->tag.atom = 0;
    if (tag->tag.shape != FP_SHAPE_TUPLE)
        tag->tag.arity = 0;
}

/* ---------------------------------------------------------------- reading -- */

static int remember(struct fp_mailbox *m, uint64_t address)
{
    if (m->visited == m->visited_room) {
        uint64_t room = m->visited_room == 0 ? 4096 : 2 * m->visited_room;
        uint32_t *more = realloc(m->address_of, room * sizeof *more);

        if (more == NULL)
            return FP_ENOMEM;
        m->address_of = more;
        m->visited_room = room;
    }
    if (!FP_CHECK(m->visited < m->visited_room))
        return FP_ENOMEM;
    m->address_of[m->visited++] = (uint32_t)(address >> 3);
    return 0;
}

static int add_item(struct fp_mailbox *m, const struct fp_queue_node *node)
{
    struct item *item = &m->item[m->items];
    int64_t more = fp_queue_fragments(m->cache, node);

    if (more < 0)
        return (int)more;
    item->message.from = node->from;
    item->message.is = (struct fp_mailbox_tag){.tag = {.shape = FP_SHAPE_UNKNOWN}};
    item->bytes = node->bytes + (uint64_t)more;
    item->is_undecoded = node->kind == FP_NODE_UNDECODED;
    item->is_on_heap = !node->is_combined && node->attached == 0 && !item->is_undecoded &&
                       (fp_term_is_boxed(node->term) || fp_term_is_list(node->term));
    if (!item->is_undecoded)
        read_tag(m, node->term, &item->message.is);
    m->items++;
    m->in_chain++;
    return remember(m, node->address);
}

/* Brent's: an address that comes again. */
static int loops(struct fp_mailbox *m, uint64_t address)
{
    if (address == m->mark)
        return 1;
    if (++m->since_mark >= m->marks) {
        m->mark = address;
        m->since_mark = 0;
        m->marks *= 2;
    }
    return 0;
}

/* The number of messages that a chain is known to have was found. Of 25 the inner and the middle
 * queue have one number together. */
static int chain_ended(struct fp_mailbox *m)
{
    const struct fp_chain *chain = &m->queues.chain[m->chain];
    int64_t known = chain->messages;

    if (m->queues.fetched_has_middle && m->chain == 1)
        known = m->queues.fetched;
    if (known >= 0 && m->in_chain != known)
        return FP_ETORN;
    if (!(m->queues.fetched_has_middle && m->chain == 0))
        m->in_chain = 0;
    m->chain++;
    m->at = m->chain < m->queues.chains ? m->queues.chain[m->chain].first : 0;
    m->mark = 0;
    m->since_mark = 0;
    m->marks = 8;
    return 0;
}

/* Reads on, to the end of the chunk or of the queues. 0 or an error. */
static int read_chunk(struct fp_mailbox *m)
{
    uint32_t nodes = 0;
    int err = 0;

    m->items = m->signals = 0;
    while (err == 0 && m->chain < m->queues.chains && m->items < CHUNK && nodes < 4 * CHUNK) {
        struct fp_queue_node node;

        if (m->at == 0) { /* an empty chain */
            err = m->queues.chain[m->chain].first == 0 ? chain_ended(m) : FP_ETORN;
            continue;
        }
        err = fp_queue_node_read(m->cache, m->at, &node);
        if (err == 0 && loops(m, m->at))
            err = FP_ETORN;
        if (err != 0)
            break;
        nodes++;
        if (node.kind == FP_NODE_SIGNAL)
            m->signals++;
        else
            err = add_item(m, &node);
        if (err == 0 && m->at == m->queues.chain[m->chain].last)
            err = chain_ended(m);
        else
            m->at = node.next;
    }
    return err;
}

/* ------------------------------------------------------------ what is sure -- */

/* The address of the first message, past signals and markers; 0 for none; 1 when it could not be
 * read. Not by the cache: it is asked for what is there now. */
static uint64_t oldest_message(const struct fp_mailbox *m, const struct fp_queues *queues)
{
    for (uint32_t k = 0; k < 3; k++) {
        uint64_t word[3], at = queues->chain[k].first;

        for (unsigned n = 0; at != 0; n++) {
            if (n == SIGNALS_AT_HEAD || (at & 7) != 0 ||
                fp_safe_read(m->memory, at, word, sizeof word) != 0)
                return 1;
            if ((word[2] & 0x3f) != 0x30)
                return at;
            if (at == queues->chain[k].last)
                break;
            at = word[0];
        }
    }
    return 0;
}

/* Only the process takes messages. Code that takes one and comes back to where it was has counted a
 * reduction. */
static int has_run(const struct fp_queues *then, const struct fp_queues *now)
{
    return fp_queues_run(then) || fp_queues_run(now) || then->i != now->i ||
           then->reds != now->reds;
}

/* Each buffer of senders begins with the message that it began with, and it was not freed. */
static int has_same_buffers(const struct fp_queues *then, const struct fp_queues *now)
{
    for (uint32_t k = 3; k < then->chains; k++) {
        uint32_t n = 3;

        while (n < now->chains && now->chain[n].first != then->chain[k].first)
            n++;
        if (n == now->chains)
            return 0;
    }
    return !has_run(then, now);
}

/* How many of the oldest messages the process has taken by now, as far as addresses tell. 0 or
 * FP_ETORN. */
static int count_taken(const struct fp_mailbox *m, const struct fp_queues *now, uint64_t *taken)
{
    uint64_t oldest = oldest_message(m, now);

    *taken = 0;
    if (m->oldest == 1 || oldest == 1)
        return FP_ETORN;
    if (m->oldest == 0)
        return m->queues.chains == 3 || (oldest == 0 && has_same_buffers(&m->queues, now))
                   ? 0
                   : FP_ETORN;
    if (oldest == m->oldest) /* back again: another one at its address */
        return m->answer.taken == 0 ? 0 : FP_ETORN;
    if (oldest == 0)
        return FP_ETORN;
    for (uint64_t k = m->answer.taken; k < m->visited; k++)
        if (m->address_of[k] == (uint32_t)(oldest >> 3)) {
            *taken = k;
            return 0;
        }
    return FP_ETORN;
}

/* Whether the messages on its heap may have moved (while it collects, they are overwritten by where
 * they have gone), and whether messages were taken from the middle: more than the oldest are
 * missing. */
static int has_torn(const struct fp_mailbox *m, const struct fp_queues *now, uint64_t taken)
{
    const struct fp_queues *then = &m->queues;

    if ((then->state & FP_PSFLG_OFF_HEAP_MSGQ) == 0 &&
        ((now->state & FP_PSFLG_GC) != 0 || memcmp(now->heap, then->heap, sizeof now->heap) != 0))
        return 1;
    return then->fetched >= 0 && now->fetched < then->fetched - (int64_t)taken;
}

static int has_moved(const struct fp_queues *then, const struct fp_queues *now)
{
    return has_run(then, now) || then->chains != now->chains || then->fetched != now->fetched ||
           memcmp(then->chain, now->chain, then->chains * sizeof *then->chain) != 0;
}

static void count_item(struct fp_mailbox *m, const struct item *item)
{
    struct fp_mailbox_answer *answer = &m->answer;

    if (answer->oldest_count < m->limits.oldest)
        answer->oldest[answer->oldest_count++] = item->message;
    fp_tally_add(&answer->senders, item->message.from, 0);
    fp_tally_add(&answer->tags, item->message.is.tag.atom, packed(&item->message.is));
    answer->messages++;
    answer->undecoded += item->is_undecoded != 0;
    answer->on_heap += item->is_on_heap != 0;
    answer->bytes += item->bytes;
}

/* Counts those of the chunk that were in the queue while they were read. */
static int confirm(struct fp_mailbox *m)
{
    struct fp_queues now;
    uint64_t taken, first = m->visited - m->items;
    int err = fp_queues_read(m->layout, m->memory, m->pid, m->address, &now);

    if (err == 0)
        err = count_taken(m, &now, &taken);
    if (err == 0 && has_torn(m, &now, taken))
        err = FP_ETORN;
    if (err != 0)
        return err;
    if (!FP_CHECK(m->items <= CHUNK && m->items <= m->visited))
        return FP_ENOMEM;
    m->answer.taken = taken;
    m->answer.signals += m->signals;
    if (m->items + m->signals > 0) /* else the queues were empty when they were copied */
        m->answer.has_run |= has_run(&m->queues, &now);
    m->answer.has_moved |= has_moved(&m->queues, &now);
    for (uint32_t k = 0; k < m->items; k++)
        if (first + k < taken)
            m->answer.doubtful++;
        else
            count_item(m, &m->item[k]);
    return 0;
}

/* --------------------------------------------------------------- attempts -- */

/* While 25 answers process_info(message_queue_len), it has a marker first in the outer queue, and
 * counts elsewhere. */
static void doubt_counters(struct fp_mailbox *m)
{
    uint64_t word[3], first = m->queues.chain[2].first;

    if (m->queues.fetched_has_middle && first != 0 &&
        (fp_safe_read(m->memory, first, word, sizeof word) != 0 || (word[2] & 0x3f) == 0x30)) {
        m->queues.fetched = -1;
        m->queues.chain[2].messages = -1;
    }
}

static void begin(struct fp_mailbox *m)
{
    struct fp_mailbox_answer *answer = &m->answer;
    int err;

    fp_page_cache_forget(m->cache);
    fp_tally_clear(&answer->senders);
    fp_tally_clear(&answer->tags);
    answer->messages = answer->undecoded = answer->signals = answer->taken = 0;
    answer->doubtful = answer->bytes = answer->on_heap = 0;
    answer->has_run = 0;
    answer->oldest_count = 0;
    answer->attempts = m->attempts.made;
    m->visited = 0;
    m->in_chain = 0;
    m->chain = 0;
    err = fp_queues_read(m->layout, m->memory, m->pid, m->address, &m->queues);
    if (err != 0) {
        answer->err = err;
        m->queues.chains = 0;
        return;
    }
    answer->err = 0;
    answer->buffers_unknown = m->queues.buffers_unknown;
    m->oldest = oldest_message(m, &m->queues);
    doubt_counters(m);
    answer->expected = m->queues.fetched;
    if (answer->expected >= 0 && m->queues.chain[2].messages >= 0 && m->queues.chains == 3)
        answer->expected += m->queues.chain[2].messages;
    else if (m->queues.chain[1].first != 0 || m->queues.chain[2].first != 0 || m->queues.chains > 3)
        answer->expected = -1;
    m->at = m->queues.chain[0].first;
    m->mark = m->since_mark = 0;
    m->marks = 8;
    fp_walk_start(&m->walk, fp_page_cache_memory(m->cache), m->layout, FP_MESSAGE_READS);
}

static int ends(struct fp_mailbox *m, int err)
{
    m->answer.err = err;
    m->answer.has_ended = err == 0 && m->chain == m->queues.chains;
    m->answer.is_complete = m->answer.has_ended && !m->answer.has_run && m->answer.doubtful == 0 &&
                            !m->queues.buffers_unknown;
    m->is_done = 1;
    fp_tally_sort(&m->answer.senders);
    fp_tally_sort(&m->answer.tags);
    return 1;
}

/* A small queue is soon read again, while the process stands still. */
static int is_worth_another(const struct fp_mailbox *m)
{
    return m->answer.has_run && m->visited <= CHUNK && m->answer.attempts < ATTEMPTS_AT_ONCE;
}

int fp_mailbox_step(struct fp_mailbox *m, uint32_t nodes)
{
    for (uint32_t done = 0; !m->is_done && done < nodes; done += CHUNK) {
        int is_late = fp_attempts_are_late(&m->attempts), err = m->answer.err;

        if (err == 0)
            err = read_chunk(m);
        if (err == 0)
            err = confirm(m);
        if (err == 0 && m->chain == m->queues.chains) {
            if (is_late || !is_worth_another(m) || !fp_attempts_next(&m->attempts))
                return ends(m, 0);
            begin(m);
            continue;
        }
        if (err == FP_EGONE || err == FP_ENOMEM || is_late ||
            m->answer.messages >= m->limits.messages ||
            (err != 0 && !fp_attempts_next(&m->attempts)))
            return ends(m, err);
        if (err != 0) {
            m->answer.has_moved = 1;
            begin(m);
        }
    }
    return m->is_done;
}

int fp_mailbox_open(struct fp_mailbox **mailbox, const struct fp_layout *layout,
                    const struct fp_memory *memory, uint64_t pid,
                    const struct fp_mailbox_limits *limits)
{
    struct fp_mailbox *m = calloc(1, sizeof *m);
    int err = m == NULL ? FP_ENOMEM : 0;

    *mailbox = m;
    if (err != 0)
        return err;
    m->layout = layout;
    m->memory = memory;
    m->limits = *limits;
    m->pid = pid;
    fp_attempts_open(
        &m->attempts, limits->time_ms,
        (struct fp_attempts){.most = ATTEMPTS, .at_once = ATTEMPTS_AT_ONCE, .pause_ns = PAUSE_NS});
    err = fp_process_table_lookup(layout, memory, pid, &m->address);
    if (err == 0)
        err = fp_page_cache_create(&m->cache, memory);
    if (err == 0)
        err = fp_tally_create(&m->answer.senders, SENDER_ROWS);
    if (err == 0)
        err = fp_tally_create(&m->answer.tags, TAG_ROWS);
    if (err == 0) {
        (void)fp_attempts_next(&m->attempts);
        begin(m);
        err = m->answer.err == FP_ETORN ? 0 : m->answer.err;
    }
    if (err != 0) {
        fp_mailbox_close(m);
        *mailbox = NULL;
    }
    return err;
}

void fp_mailbox_close(struct fp_mailbox *m)
{
    fp_page_cache_destroy(m->cache);
    fp_tally_destroy(&m->answer.senders);
    fp_tally_destroy(&m->answer.tags);
    free(m->address_of);
    free(m);
}

const struct fp_mailbox_answer *fp_mailbox_answer(const struct fp_mailbox *mailbox)
{
    return &mailbox->answer;
}
