#include "xray/holders.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/fragment.h"
#include "erts/message_queue.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "erts/process_terms.h"
#include "xray/holders_internal.h"

#define ATTEMPTS 4u
#define PAUSE_NS 200000
/* Objects, nodes and fragments between two looks at the time. */
#define STEPS 65536u
#define HOLDERS_FIRST 1024u
#define MESSAGE 1u /* bit of a pending address */

/* -------------------------------------------------------------------- mark -- */

#define ON_SCHEDULER                                                                               \
    (FP_PSFLG_RUNNING | FP_PSFLG_RUNNING_SYS | FP_PSFLG_DIRTY_RUNNING | FP_PSFLG_DIRTY_RUNNING_SYS)

static uint32_t state_of(const struct fp_layout *layout, const unsigned char *bytes)
{
    return (uint32_t)fp_process_field(layout, bytes, FP_FIELD_state);
}

static void decode_mark(const struct fp_layout *layout, const unsigned char *bytes,
                        struct fp_holders_mark *mark)
{
    const struct fp_queue_offsets *queue = &layout->release.queue;

#define FIELD(name) fp_process_field(layout, bytes, FP_FIELD_##name)
    *mark = (struct fp_holders_mark){
        /* ErlOffHeap: first, overhead; wrt_bins is behind it */
        .off_heap = fp_word_at(bytes, layout->release.offset[FP_FIELD_bin_vheap] - 8u),
        .overhead = FIELD(bin_vheap),
        .writable = fp_word_at(bytes, layout->release.offset[FP_FIELD_bin_vheap] + 8u),
        .old_overhead = FIELD(bin_old_vheap),
        .heap = FIELD(heap),
        .hend = FIELD(hend),
        .old_heap = FIELD(old_heap),
        .gen_gcs = FIELD(gen_gcs),
        .first = {fp_word_at(bytes, queue->inner), fp_word_at(bytes, queue->middle),
                  fp_word_at(bytes, queue->outer)},
        .buffers = fp_word_at(bytes, queue->buffers)};
#undef FIELD
}

/* 0; FP_EGONE; FP_EFAULT; FP_ETORN: it collects. */
static int read_mark(struct fp_holders_look *look, struct fp_holders_mark *mark)
{
    unsigned char bytes[FP_PROBE_WINDOW];
    uint32_t state;

    if (fp_safe_read(look->options->memory, look->address, bytes,
                     look->layout->release.process_size) != 0)
        return FP_EFAULT;
    state = state_of(look->layout, bytes);
    if (fp_process_field(look->layout, bytes, FP_FIELD_id) != look->pid ||
        (state & FP_PSFLG_FREE) != 0)
        return FP_EGONE;
    if ((state & FP_PSFLG_GC) != 0)
        return FP_ETORN;
    look->runs |= (state & ON_SCHEDULER) != 0;
    decode_mark(look->layout, bytes, mark);
    return 0;
}

/* 0: what was read since the mark was alive; FP_ETORN; FP_EGONE. */
static int confirm(struct fp_holders_look *look)
{
    struct fp_holders_mark now;
    int err;

    if (look->walk != NULL)
        return fp_holders_confirm_objects(look);
    err = read_mark(look, &now);

    return err == 0 && memcmp(&now, &look->mark, sizeof now) != 0 ? FP_ETORN : err;
}

/* ------------------------------------------------------------------ adding -- */

/* What a binary's `node` is: the row that it was added to last, and the attempt. */
static uint32_t turn(const struct fp_holders_look *look)
{
    return ATTEMPTS * look->holders->holders + look->attempts.made - 1;
}

/* One that the process has already: another reference. What a former attempt has counted of them is
 * counted again. */
static void add_reference(const struct fp_holders_look *look, struct fp_xray_binary *entry)
{
    if (entry->node != turn(look))
        entry->refs = entry->by.refs_before;
    entry->node = turn(look);
    entry->refs++;
}

static int add_binary(struct fp_holders_look *look, uint64_t at, const struct fp_binary *binary)
{
    struct fp_holders *holders = look->holders;
    struct fp_holder *holder = fp_holders_row(look);
    struct fp_xray_binary *entry;
    int err = fp_xray_binary_entry(&holders->table, at & ~UINT64_C(7), &entry);

    if (err != 0)
        return err;
    look->has_added = 1;
    if (entry->address == 0) {
        *entry = (struct fp_xray_binary){.address = at & ~UINT64_C(7),
                                         .size = binary->block,
                                         .node = turn(look),
                                         .counted = binary->refs};
        holders->bytes += binary->block;
        holders->guessed += !binary->has_block;
    } else if (entry->node / ATTEMPTS == holders->holders) {
        add_reference(look, entry);
        return 0;
    }
    entry->by.processes++;
    entry->by.refs_before = entry->refs++;
    entry->node = turn(look);
    holder->binaries++;
    holder->bytes += entry->size;
    if ((at & MESSAGE) != 0) {
        holder->message_binaries++;
        holder->message_bytes += entry->size;
    }
    return 0;
}

/* The Binaries that were met. What is read of them counts where the process has held still. */
int fp_holders_add_pending(struct fp_holders_look *look)
{
    uint32_t n = look->pending;
    int err;

    look->pending = 0;
    for (uint32_t k = 0; k < n; k++)
        look->span[k] = (struct fp_safe_read_span){(look->at[k] & ~UINT64_C(7)) - 8, look->word[k],
                                                   sizeof look->word[k], 0};
    if (n > 0)
        fp_safe_read_batch(look->options->memory, look->span, n);
    err = confirm(look);
    for (uint32_t k = 0; err == 0 && k < n; k++) {
        struct fp_binary binary;

        if (look->span[k].result != 0)
            return FP_EFAULT;
        err = fp_binary_decode(look->layout->release.otp, look->word[k], &binary);
        /* A binary that is appended to may move while its process runs. */
        if (err == 0 && look->runs && !binary.has_block)
            err = FP_ETORN;
        if (err == 0 && !binary.is_magic)
            err = add_binary(look, look->at[k], &binary);
    }
    return err;
}

/* ----------------------------------------------------------------- reading -- */

static int is_late(struct fp_holders_look *look)
{
    return ++look->steps % STEPS == 0 && fp_attempts_are_late(&look->attempts);
}

/* One of the off-heap list, and where the next is. */
static int read_object(struct fp_holders_look *look, uint64_t at, uint64_t is_message,
                       uint64_t *next)
{
    unsigned otp = look->layout->release.otp;
    uint64_t word[FP_OBJECT_WORDS] = {0};
    struct fp_object object;

    /* Compressed objects of tables have theirs anywhere. */
    if (((at & 7) != 0 && look->walk == NULL) || is_late(look))
        return FP_ETORN;
    if (fp_page_cache_read(look->cache, at, word, 24) != 0)
        return FP_EFAULT;
    fp_object_decode(otp, word, &object);
    if (object.kind == FP_OBJECT_REFC_BINARY &&
        fp_page_cache_read(look->cache, at + 24, &object.binary, 8) != 0)
        return FP_EFAULT;
    if (object.kind == FP_OBJECT_BAD)
        return FP_ETORN;
    *next = word[2]; /* erl_off_heap_header */
    if (object.kind != FP_OBJECT_REFC_BINARY && object.kind != FP_OBJECT_BINARY_REF)
        return 0;
    if (object.binary == 0 || (object.binary & 7) != 0)
        return FP_ETORN;
    look->at[look->pending++] = object.binary | is_message;
    if (look->pending < FP_HOLDERS_PENDING)
        return 0;
    /* Those of several objects are added together, or none: each is read again, alone, then. */
    return look->walk != NULL && look->to - look->from > 1 ? FP_ETORN
                                                           : fp_holders_add_pending(look);
}

/* What a walk along a list has come by: the first, second, fourth, eighth... */
struct trail {
    uint64_t last, steps;
};

/* 1: the walk has been here, the list is a circle. */
static int is_again(struct trail *trail, uint64_t at)
{
    if (at == trail->last && trail->steps > 0)
        return 1;
    if ((trail->steps & (trail->steps + 1)) == 0)
        trail->last = at;
    trail->steps++;
    return 0;
}

int fp_holders_read_list(struct fp_holders_look *look, uint64_t at, uint64_t is_message)
{
    struct trail trail = {.steps = 0};
    int err = 0;

    while (err == 0 && at != 0)
        err = is_again(&trail, at) ? FP_ETORN : read_object(look, at, is_message, &at);
    return err;
}

static int read_message(struct fp_holders_look *look, const struct fp_queue_node *node)
{
    struct fp_fragment fragment = {.next = node->fragment};
    int err = 0;

    look->holders->undecoded += node->kind == FP_NODE_UNDECODED;
    if (node->kind != FP_NODE_MESSAGE)
        return 0;
    for (unsigned n = 0; err == 0 && fragment.next != 0; n++) {
        if (n > FP_FRAGMENTS_OF_MESSAGE)
            return FP_ETORN;
        err = fp_fragment_read(fp_page_cache_memory(look->cache), fragment.next, &fragment);
        if (err == 0)
            err = fp_holders_read_list(look, fragment.off_heap, MESSAGE);
    }
    return err;
}

static int read_chain(struct fp_holders_look *look, const struct fp_chain *chain)
{
    struct trail trail = {.steps = 0};
    uint64_t at = chain->first;

    while (at != 0) {
        struct fp_queue_node node;
        int err = is_late(look) || is_again(&trail, at)
                      ? FP_ETORN
                      : fp_queue_node_read(look->cache, at, &node);

        if (err == 0)
            err = read_message(look, &node);
        if (err != 0 || at == chain->last)
            return err;
        at = node.next;
    }
    return chain->first != 0 ? FP_ETORN : 0;
}

static int has_messages(const struct fp_holders_mark *mark)
{
    return (mark->first[0] | mark->first[1] | mark->first[2] | mark->buffers) != 0;
}

static int read_process(struct fp_holders_look *look)
{
    struct fp_queues queues = {.chains = 0};
    int err;

    look->pending = 0;
    look->runs = 0;
    fp_page_cache_forget(look->cache);
    err = read_mark(look, &look->mark);
    if (err == 0)
        err = fp_holders_read_list(look, look->mark.off_heap, 0);
    if (err == 0)
        err = fp_holders_read_list(look, look->mark.writable, 0);
    if (err == 0 && has_messages(&look->mark))
        err =
            fp_queues_read(look->layout, look->options->memory, look->pid, look->address, &queues);
    for (uint32_t k = 0; err == 0 && k < queues.chains; k++)
        err = read_chain(look, &queues.chain[k]);
    if (err == 0)
        look->holders->unknown += queues.buffers_unknown != 0;
    return err == 0 ? fp_holders_add_pending(look) : err;
}

int fp_holders_has_room(struct fp_holders_look *look)
{
    struct fp_holders *holders = look->holders;
    uint32_t room = holders->room == 0 ? HOLDERS_FIRST : 2 * holders->room;
    struct fp_holder *more;

    if (holders->holders < holders->room)
        return 0;
    if (room * sizeof *more > look->options->bytes / 8 || room > UINT32_MAX / ATTEMPTS)
        return FP_EFULL;
    more = holders->room == 0 ? fp_pages_alloc(room * sizeof *more)
                              : fp_pages_resize(holders->holder, holders->room * sizeof *more,
                                                room * sizeof *more);
    if (more == NULL)
        return FP_ENOMEM;
    holders->holder = more;
    holders->room = room;
    return 0;
}

/* 0; FP_EFULL, FP_ENOMEM. What a former attempt has added stays: the process had it just before. */
static int look_at(struct fp_holders_look *look, uint64_t pid, uint64_t address)
{
    uint64_t undecoded = look->holders->undecoded;
    int err = fp_holders_has_room(look);

    if (err != 0)
        return err;
    look->pid = pid;
    look->address = address;
    look->has_added = 0;
    *fp_holders_row(look) = (struct fp_holder){.pid = pid};
    look->attempts.made = 0;
    while (fp_attempts_next(&look->attempts)) {
        look->holders->undecoded = undecoded;
        fp_holders_row(look)->is_partial = look->has_added;
        err = read_process(look);
        if (err != FP_ETORN && err != FP_EFAULT)
            break;
    }
    if (err == FP_EFULL || err == FP_ENOMEM)
        return err;
    if (err == FP_ETORN || err == FP_EFAULT)
        look->holders->moved++;
    if (err != 0)
        fp_holders_row(look)->is_partial = 1;
    look->holders->holders += fp_holders_row(look)->binaries > 0;
    return 0;
}

/* --------------------------------------------------------------- processes -- */

static int look_at_structure(void *arg, uint64_t address, const unsigned char *bytes)
{
    struct fp_holders_look *look = arg;
    struct fp_holders_mark mark;

    look->holders->processes++;
    decode_mark(look->layout, bytes, &mark);
    if ((mark.off_heap | mark.writable) == 0 && !has_messages(&mark) &&
        (state_of(look->layout, bytes) & FP_PSFLG_GC) == 0)
        return 0;
    if (fp_attempts_are_late(&look->attempts)) {
        look->holders->late++;
        return 0;
    }
    return look_at(look, fp_process_field(look->layout, bytes, FP_FIELD_id), address);
}

static int look_at_pids(struct fp_holders_look *look)
{
    const struct fp_holders_options *options = look->options;
    int err = 0;

    for (uint32_t k = 0; err == 0 && k < options->pids; k++) {
        uint64_t address;

        if (fp_process_table_lookup(look->layout, options->memory, options->pid[k], &address) == 0)
            err = look_at(look, options->pid[k], address);
    }
    return err;
}

/* ------------------------------------------------------------------ answer -- */

static void sum_shared(struct fp_holders *holders)
{
    for (uint64_t k = 0; k < holders->table.room; k++) {
        const struct fp_xray_binary *entry = &holders->table.entry[k];

        if (entry->address == 0)
            continue;
        if ((int64_t)entry->refs < entry->counted) {
            holders->elsewhere++;
            holders->elsewhere_bytes += entry->size;
        } else if (entry->by.processes == 1) {
            holders->holder[entry->node / ATTEMPTS].alone_bytes += entry->size;
        }
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct fp_holder *left = a, *right = b;

    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

int fp_holders_look(const struct fp_holders_options *options, struct fp_holders *holders)
{
    uint64_t limit = HOLDERS_FIRST;
    struct fp_holders_look *look = fp_pages_alloc(sizeof *look);
    int err;

    memset(holders, 0, sizeof *holders);
    if (look == NULL)
        return FP_ENOMEM;
    if (!fp_process_terms_fit(options->layout)) {
        fp_pages_free(look, sizeof *look);
        return FP_EUNSUPPORTED;
    }
    /* The old table, while it is copied to the next. */
    while (2 * limit * sizeof(struct fp_xray_binary) * 3 / 2 < options->bytes / 4 * 3)
        limit *= 2;
    fp_xray_binaries_create(&holders->table, options->memory, options->layout->release.otp, limit);
    look->options = options;
    look->layout = options->layout;
    look->holders = holders;
    fp_attempts_open(&look->attempts, options->time_ms,
                     (struct fp_attempts){.most = ATTEMPTS, .pause_ns = PAUSE_NS});
    err = fp_page_cache_create(&look->cache, options->memory);
    if (err == 0) {
        err = options->pid != NULL
                  ? look_at_pids(look)
                  : fp_processes_each(look->layout, options->memory, look_at_structure, look);
        if (err == 0 && options->pid == NULL && options->tables != NULL)
            err = fp_holders_look_at_tables(look);
        fp_page_cache_destroy(look->cache);
    }
    fp_pages_free(look, sizeof *look);
    if (err == 0) {
        sum_shared(holders);
        if (holders->holders > 0)
            qsort(holders->holder, holders->holders, sizeof *holders->holder, by_bytes);
    }
    return err;
}

void fp_holders_free(struct fp_holders *holders)
{
    fp_xray_binaries_destroy(&holders->table);
    fp_ets_free(&holders->tables);
    fp_pages_free(holders->holder, holders->room * sizeof *holders->holder);
    holders->holder = NULL;
}
