#include "session/growers.h"

#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "erts/process_table.h"

enum kind { QUEUE, MEMORY, KINDS };

/* Changes that are no growth. A server at 90 % of its capacity has more than 64 messages in 0.1 %
 * of all looks (M/M/1: 0.9^64). A heap of up to 2.4 MiB changes by less than 1 MiB when the
 * collector takes the next size (erl_gc.c heap_sizes). */
static const int64_t floor_of[KINDS] = {64, 1024}; /* messages; KiB */

/* Passes for which a process keeps its place after it has grown: a minute, by default. */
#define HELD_PASSES 12u
/* Of each kind, for each place: some are top processes, and need none. */
#define ROOM 4u
/* Structures of one pass. One takes some 0.2 us: a twentieth of the budget, by default. */
#define READS_MAX 8192u
/* The most processes that have not run and are read in each pass; a sixteenth of all, if that is
 * more: then a pass over idle processes takes a tenth longer. */
#define IDLE_READS 512u
#define IDLE_TURNS_MAX 16u
/* Slots of one cache line of the table: the VM fills it by columns (process_table.c). */
#define SLOTS_PER_LINE_SHIFT 3u

/* Of a slot, in one word, when it was last read; 0: never. */
#define IS_RANKED (UINT64_C(1) << 63)
#define QUEUE_SHIFT 31u
#define QUEUE_MASK UINT64_C(0xffffffff)
#define KIB_MASK UINT64_C(0x7fffffff)

struct grower {
    uint64_t id, address;
    int64_t growth;  /* messages, or KiB: the most in one pass */
    int64_t keeping; /* it stays while it has so much */
    uint32_t passes; /* since it grew */
    uint8_t is_placed;
};

/* Turns are by lines of the table, so that each slot has one. */
struct turns {
    uint32_t count; /* processes of this pass that may have a turn in the next one */
    uint32_t mask;  /* lines whose number has these bits 0 are read in this pass */
};

struct fp_growers {
    struct fp_growers_options options;
    uint32_t passes, reads;
    struct turns ran, idle; /* a process may run in one pass and not in the next */
    uint16_t whole[FP_SAFE_READ_BATCH_MAX], length[FP_SAFE_READ_BATCH_MAX]; /* places in a batch */
    uint32_t whole_n, length_n;
    struct grower *list[KINDS];
    size_t n[KINDS], room;
    uint64_t *seen; /* of each slot */
    size_t bytes, seen_bytes;
};

/* ------------------------------------------------------------- the lists -- */

static struct grower *find(struct fp_growers *g, enum kind kind, uint64_t id)
{
    for (size_t i = 0; i < g->n[kind]; i++)
        if (g->list[kind][i].id == id)
            return &g->list[kind][i];
    return NULL;
}

static struct grower *least(struct fp_growers *g, enum kind kind)
{
    struct grower *found = g->list[kind];

    for (size_t i = 1; i < g->n[kind]; i++)
        if (g->list[kind][i].growth < found->growth)
            found = &g->list[kind][i];
    return found;
}

static void add(struct fp_growers *g, enum kind kind, uint64_t id, uint64_t address, int64_t before,
                int64_t now)
{
    struct grower grower = {id, address, now - before, before + floor_of[kind], 0, 0};
    struct grower *at = find(g, kind, id);

    if (at != NULL) {
        at->passes = 0;
        at->growth = at->growth > grower.growth ? at->growth : grower.growth;
        return;
    }
    at = g->n[kind] < g->room ? &g->list[kind][g->n[kind]++] : least(g, kind);
    if (at->growth < grower.growth) /* 0: unused */
        *at = grower;
}

/* ---------------------------------------------------------- one process -- */

static int is_excluded(const struct fp_growers *g, uint64_t id)
{
    for (size_t i = 0; i < g->options.excluded_n; i++)
        if (g->options.excluded[i] == id)
            return 1;
    return 0;
}

static uint64_t pack(const struct fp_snapshot *now)
{
    uint64_t queue = (uint64_t)now->value[FP_METRIC_message_queue_len];
    uint64_t kib = ((uint64_t)now->value[FP_METRIC_total_heap_size] +
                    (uint64_t)now->value[FP_METRIC_bin_vheap_size] +
                    (uint64_t)now->value[FP_METRIC_bin_old_vheap_size]) /
                       128 +
                   1; /* never 0 */

    return (queue < QUEUE_MASK ? queue : QUEUE_MASK) << QUEUE_SHIFT |
           (kib < KIB_MASK ? kib : KIB_MASK);
}

static int64_t size_of(enum kind kind, uint64_t word)
{
    return (int64_t)(kind == QUEUE ? word >> QUEUE_SHIFT & QUEUE_MASK : word & KIB_MASK);
}

/* A process has memory from its start, but a queue only when it lags: of one that is there at the
 * first pass, or has its first turn later, the whole queue counts and no memory. */
static void see(struct fp_growers *g, uint64_t address, uint32_t slot, int is_new,
                const struct fp_snapshot *now)
{
    uint64_t *seen = &g->seen[slot], before = is_new ? 0 : *seen, word = pack(now);

    *seen = word;
    if (before == 0 && (!is_new || g->passes == 0))
        before = word & KIB_MASK;
    for (enum kind kind = 0; kind < KINDS; kind++)
        if (size_of(kind, word) - size_of(kind, before) >= floor_of[kind] &&
            fp_process_is_of_slot(g->options.layout, now->id, now->state, slot) &&
            !is_excluded(g, now->id))
            add(g, kind, now->id, address, size_of(kind, before), size_of(kind, word));
}

void fp_growers_see(struct fp_growers *g, uint64_t address, uint32_t slot, int is_new,
                    const struct fp_snapshot *now)
{
    g->idle.count++;
    see(g, address, slot, is_new, now);
}

/* ------------------------------------------------------ reading a batch -- */

static int is_turn(const struct fp_growers *g, const struct turns *turns, uint32_t slot)
{
    return (((slot >> SLOTS_PER_LINE_SHIFT) + g->passes) & turns->mask) == 0;
}

static void list_turns(struct fp_growers *g, const uint32_t *slot, const uint8_t *change,
                       uint32_t n)
{
    g->whole_n = g->length_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (change[i] == FP_CHANGE_UNREADABLE)
            continue;
        g->idle.count++;
        if (change[i] == FP_CHANGE_NEW && g->passes > 0)
            g->seen[slot[i]] = 0; /* of the one before it */
        if (change[i] == FP_CHANGE_NONE) {
            if (is_turn(g, &g->idle, slot[i]))
                g->length[g->length_n++] = (uint16_t)i;
            continue;
        }
        g->ran.count++;
        if (is_turn(g, &g->ran, slot[i]) && g->reads < READS_MAX) {
            g->reads++;
            g->whole[g->whole_n++] = (uint16_t)i;
        }
    }
}

/* Of those that have not run, whose queue is long is read whole. */
static void read_lengths(struct fp_growers *g, const uint64_t *address)
{
    uint32_t offset = g->options.layout->release.offset[FP_FIELD_outer_len];
    struct fp_safe_read_span *span = g->options.span;

    for (uint32_t k = 0; k < g->length_n; k++)
        span[k] =
            (struct fp_safe_read_span){address[g->length[k]] + offset,
                                       g->options.bytes + (size_t)k * 8, FP_WIDTH_outer_len, 0};
    fp_safe_read_lines(g->options.memory, span, g->length_n);
    for (uint32_t k = 0; k < g->length_n; k++) {
        int64_t length;

        if (span[k].result != 0)
            continue;
        memcpy(&length, span[k].into, sizeof length);
        if (length >= floor_of[QUEUE])
            g->whole[g->whole_n++] = g->length[k];
    }
}

/* Of the places [from, to) of g->whole. */
static void read_whole(struct fp_growers *g, const uint64_t *address, const uint32_t *slot,
                       const uint8_t *change, uint32_t from, uint32_t to)
{
    uint32_t size = g->options.layout->snapshot_size;
    struct fp_safe_read_span *span = g->options.span;
    struct fp_snapshot now;

    for (uint32_t k = from; k < to; k++)
        span[k - from] = (struct fp_safe_read_span){
            address[g->whole[k]], g->options.bytes + (size_t)(k - from) * size, size, 0};
    fp_safe_read_lines(g->options.memory, span, to - from);
    for (uint32_t k = from; k < to; k++) {
        uint32_t i = g->whole[k];

        if (span[k - from].result == 0 &&
            fp_process_decode(g->options.layout, span[k - from].into, &now) == 0)
            see(g, address[i], slot[i], change[i] == FP_CHANGE_NEW, &now);
    }
}

void fp_growers_read(struct fp_growers *g, const uint64_t *address, const uint32_t *slot,
                     const uint8_t *change, uint32_t n)
{
    uint32_t most = (uint32_t)(g->options.bytes_n / g->options.layout->snapshot_size);

    list_turns(g, slot, change, n);
    if (g->length_n > 0)
        read_lengths(g, address);
    for (uint32_t from = 0; from < g->whole_n; from += most)
        read_whole(g, address, slot, change, from,
                   g->whole_n - from < most ? g->whole_n : from + most);
}

/* ------------------------------------------------------ the end of a pass -- */

/* A process that runs no more may have exited: nothing else of this pass has read its id. */
static int stays(struct fp_growers *g, enum kind kind, const struct grower *grower)
{
    uint64_t word = g->seen[fp_pid_slot(g->options.layout, grower->id)], address;

    return grower->passes <= HELD_PASSES && size_of(kind, word) >= grower->keeping &&
           (grower->passes == 0 || (fp_process_table_lookup(g->options.layout, g->options.memory,
                                                            grower->id, &address) == 0 &&
                                    address == grower->address));
}

static void keep_those_that_stay(struct fp_growers *g, enum kind kind)
{
    size_t kept = 0;

    for (size_t i = 0; i < g->n[kind]; i++) {
        struct grower grower = g->list[kind][i];

        if (!stays(g, kind, &grower))
            continue;
        grower.passes++;
        grower.is_placed = (g->seen[fp_pid_slot(g->options.layout, grower.id)] & IS_RANKED) != 0;
        g->list[kind][kept++] = grower;
    }
    memset(g->list[kind] + kept, 0, (g->room - kept) * sizeof(struct grower));
    g->n[kind] = kept;
}

static void mark_ranked(struct fp_growers *g, const struct fp_candidate *ranked, size_t n,
                        uint64_t keep, uint64_t mark)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *seen = &g->seen[fp_pid_slot(g->options.layout, ranked[i].id)];

        *seen = (*seen & keep) | mark;
    }
}

/* The most grown of one kind that have no place yet, while there are places. */
static size_t place(struct fp_growers *g, enum kind kind, size_t n, struct fp_candidate *into)
{
    size_t placed = 0;

    for (; placed < n; placed++) {
        struct grower *most = NULL, *other;

        for (size_t i = 0; i < g->n[kind]; i++) {
            struct grower *one = &g->list[kind][i];

            if (!one->is_placed && (most == NULL || one->growth > most->growth))
                most = one;
        }
        if (most == NULL)
            break;
        most->is_placed = 1;
        other = find(g, kind == QUEUE ? MEMORY : QUEUE, most->id);
        if (other != NULL)
            other->is_placed = 1;
        into[placed] = (struct fp_candidate){most->growth, most->growth, most->id, most->address};
    }
    return placed;
}

/* Each `reads`-th line or more of so many processes: a power of two. */
static struct turns next_turns(const struct turns *turns, uint32_t reads, uint32_t most)
{
    struct turns next = {0, 0};

    while (turns->count / (next.mask + 1) > reads && next.mask + 1 < most)
        next.mask = 2 * next.mask + 1;
    return next;
}

size_t fp_growers_end(struct fp_growers *g, const struct fp_candidate *ranked, size_t n,
                      uint32_t divisor, struct fp_candidate *into)
{
    size_t places = (g->options.places + divisor - 1) / divisor, placed;

    mark_ranked(g, ranked, n, ~IS_RANKED, IS_RANKED);
    keep_those_that_stay(g, QUEUE);
    keep_those_that_stay(g, MEMORY);
    mark_ranked(g, ranked, n, ~IS_RANKED, 0);
    /* Half of the places each; what one does not need is for the other. */
    placed = place(g, QUEUE, (places + 1) / 2, into);
    placed += place(g, MEMORY, places - placed, into + placed);
    placed += place(g, QUEUE, places - placed, into + placed);
    g->passes++;
    g->reads = 0;
    g->ran = next_turns(&g->ran, READS_MAX, UINT32_MAX / 2);
    g->idle = next_turns(&g->idle, IDLE_READS, IDLE_TURNS_MAX);
    return placed;
}

/* ----------------------------------------------------- creation and end -- */

int fp_growers_create(struct fp_growers **out, const struct fp_growers_options *options)
{
    size_t head = (sizeof(struct fp_growers) + 63) & ~(size_t)63, room = ROOM * options->places;
    size_t bytes = head + KINDS * room * sizeof(struct grower);
    struct fp_growers *g = fp_pages_alloc(bytes);

    if (g == NULL)
        return FP_ENOMEM;
    g->options = *options;
    g->bytes = bytes;
    g->room = room;
    g->list[QUEUE] = (void *)((unsigned char *)g + head);
    g->list[MEMORY] = g->list[QUEUE] + room;
    g->seen_bytes = sizeof *g->seen * options->layout->process_limit;
    g->seen = fp_pages_reserve(g->seen_bytes);
    if (g->seen != NULL) {
        *out = g;
        return 0;
    }
    fp_growers_destroy(g);
    return FP_ENOMEM;
}

void fp_growers_destroy(struct fp_growers *g)
{
    if (g == NULL)
        return;
    fp_pages_free(g->seen, g->seen_bytes);
    fp_pages_free(g, g->bytes);
}
