#include "erts/ets.h"

#include <string.h>

#include "base/attempt.h"
#include "base/error.h"
#include "base/pages.h"
#include "erts/ets_internal.h"

/* Of a table's structure, up to `compress`; a field may end with what calibration looks at. */
static uint32_t bytes_of(const struct fp_ets *tables)
{
    uint32_t last = 0;

    for (int field = 0; field < FP_ETS_FIELD_COUNT; field++)
        if (tables->at[field] > last)
            last = tables->at[field];
    return last + 24 < FP_ETS_WINDOW ? last + 24 : FP_ETS_WINDOW;
}

uint64_t fp_ets_word(const struct fp_ets_copy *copy, uint32_t at)
{
    uint64_t word;

    memcpy(&word, copy->byte + at, sizeof word);
    return word;
}

static uint32_t half(const struct fp_ets_copy *copy, uint32_t at)
{
    uint32_t value;

    memcpy(&value, copy->byte + at, sizeof value);
    return value;
}

/* ------------------------------------------------------------------- rings -- */

struct ring {
    const struct fp_ets *tables;
    const struct fp_memory *memory;
    struct fp_ets_list *list;
    uint64_t at;    /* of its {number, first table} */
    uint32_t begin; /* in the list */
    uint32_t repairs;
};

static uint64_t next_of(const struct ring *ring, const struct fp_ets_copy *copy)
{
    return fp_ets_word(copy, ring->tables->at[FP_ETS_FIELD_all]);
}

static uint64_t prev_of(const struct ring *ring, const struct fp_ets_copy *copy)
{
    return fp_ets_word(copy, ring->tables->at[FP_ETS_FIELD_all] + 8u);
}

static int read_table(const struct ring *ring, uint64_t address, struct fp_ets_copy *copy)
{
    return address % 8 != 0
               ? FP_EFAULT
               : fp_safe_read(ring->memory, address, copy->byte, bytes_of(ring->tables));
}

static void decode(const struct fp_ets *tables, uint64_t address, const struct fp_ets_copy *copy,
                   struct fp_ets_table *table)
{
    const uint16_t *at = tables->at;

    *table = (struct fp_ets_table){
        .address = address,
        .binary = fp_ets_word(copy, at[FP_ETS_FIELD_binary]),
        .owner = fp_ets_word(copy, at[FP_ETS_FIELD_owner]),
        .name = fp_ets_word(copy, at[FP_ETS_FIELD_name]),
        .status = half(copy, at[FP_ETS_FIELD_status]),
        .keypos = half(copy, at[FP_ETS_FIELD_status] + 4u),
        .is_compressed = copy->byte[at[FP_ETS_FIELD_status] + 8u] != 0,
        .is_decentralized = copy->byte[at[FP_ETS_FIELD_counters] + 4u] != 0,
        .objects = (int64_t)fp_ets_word(copy, at[FP_ETS_FIELD_counters] + 8u),
        .bytes = (int64_t)fp_ets_word(copy, at[FP_ETS_FIELD_counters] + 16u),
    };
}

static int append(struct fp_ets_list *list, const struct fp_ets_table *table)
{
    if (list->count == FP_ETS_MAX)
        return FP_EFULL;
    if (list->count == list->room) {
        uint32_t room = list->room == 0 ? 256 : 2 * list->room;
        size_t bytes = room * sizeof *list->table;
        struct fp_ets_table *larger =
            list->room == 0 ? fp_pages_alloc(bytes)
                            : fp_pages_resize(list->table, list->room * sizeof *larger, bytes);

        if (larger == NULL)
            return FP_ENOMEM;
        list->table = larger;
        list->room = room;
    }
    list->table[list->count++] = *table;
    return 0;
}

/* The last table's links are not what they were: it has gone, or its next one has. Leaves those
 * that are still linked with each other, and the next of the last. */
static int repair(struct ring *ring, uint64_t *next)
{
    struct fp_ets_list *list = ring->list;
    struct fp_ets_copy last, before;

    for (; ring->repairs-- > 0 && list->count > ring->begin; list->count--) {
        const struct fp_ets_table *table = &list->table[list->count - 1];

        if (read_table(ring, table->address, &last) != 0)
            continue;
        *next = next_of(ring, &last);
        if (list->count - 1 == ring->begin) {
            uint64_t first;

            return fp_safe_read_word(ring->memory, ring->at + 8, &first) == 0 &&
                           first == table->address
                       ? 0
                       : FP_ETORN;
        }
        if (read_table(ring, (table - 1)->address, &before) == 0 &&
            next_of(ring, &before) == table->address &&
            prev_of(ring, &last) == (table - 1)->address)
            return 0;
    }
    return FP_ETORN;
}

/* From the first table to itself. FP_ETORN: it never stood still, or the first one has gone. */
static int walk(struct ring *ring, uint64_t count, uint64_t first)
{
    struct fp_ets_list *list = ring->list;
    uint64_t at = first, before = 0;
    int err = 0;

    for (;;) {
        struct fp_ets_copy copy;
        struct fp_ets_table table;

        if (read_table(ring, at, &copy) != 0 || (before != 0 && prev_of(ring, &copy) != before)) {
            err = repair(ring, &at);
        } else {
            decode(ring->tables, at, &copy, &table);
            err = append(list, &table);
            at = next_of(ring, &copy);
        }
        if (err != 0 || at == first)
            return err;
        before = list->table[list->count - 1].address;
        /* So many are not in it: the walk goes round without the first. */
        if (list->count - ring->begin > count &&
            (fp_safe_read_word(ring->memory, ring->at, &count) != 0 ||
             list->count - ring->begin > count))
            return FP_ETORN;
    }
}

#define TRIES 8u

/* 0, FP_ETORN or FP_ENOMEM; what was found is in the list. */
static int read_ring(struct ring *ring)
{
    int err = FP_ETORN;

    for (uint32_t try = 0; err == FP_ETORN && try < TRIES; try++) {
        uint64_t head[2];

        ring->list->count = ring->begin;
        if (fp_safe_read(ring->memory, ring->at, head, sizeof head) != 0)
            return FP_ETORN;
        if (head[1] == 0)
            return 0;
        ring->repairs = 64 + (uint32_t)(head[0] < FP_ETS_MAX ? head[0] : FP_ETS_MAX) / 8;
        err = walk(ring, head[0], head[1]);
    }
    return err;
}

/* ---------------------------------------------------------------- counters -- */

/* The array's head: the start of its block, and 0 while no snapshot is under way. */
#define HEAD 16u
#define SLOT 64u

/* As one copy: the pointer and the head stand at both ends of the slots. */
struct array_copy {
    uint64_t before[3], after[3]; /* the array's address, its head */
    unsigned char slots[FP_ETS_SLOTS_MAX * SLOT];
};

static int is_whole(const struct array_copy *copy, uint64_t array)
{
    return copy->before[0] == array &&
           memcmp(copy->before, copy->after, sizeof copy->before) == 0 && copy->before[2] == 0 &&
           copy->before[1] <= array && array - copy->before[1] <= SLOT;
}

/* The bytes of a table have those of its own structure and of the array, and a word at least for
 * each object: another block may be at the array's address by now. */
static int is_plausible(const struct fp_ets *tables, const uint64_t *sum)
{
    return sum[1] >> 48 == 0 && sum[1] >= tables->slots * SLOT && sum[0] <= sum[1] / 8;
}

static int sum_once(const struct fp_ets *tables, const struct fp_memory *memory, uint64_t cell,
                    uint64_t *sum)
{
    struct array_copy copy;
    uint64_t array, word[2];

    if (fp_safe_read_word(memory, cell, &array) != 0 || array % 8 != 0)
        return FP_ETORN;
    struct fp_safe_read_span span[] = {
        {.address = cell, .into = &copy.before[0], .size = 8},
        {.address = array, .into = &copy.before[1], .size = HEAD},
        {.address = array + HEAD, .into = copy.slots, .size = tables->slots * SLOT},
        {.address = array, .into = &copy.after[1], .size = HEAD},
        {.address = cell, .into = &copy.after[0], .size = 8},
    };
    if (fp_safe_read_batch(memory, span, 5) != 5 || !is_whole(&copy, array))
        return FP_ETORN;
    sum[0] = sum[1] = 0;
    for (uint32_t slot = 0; slot < tables->slots; slot++) {
        memcpy(word, copy.slots + (size_t)slot * SLOT, sizeof word);
        sum[0] += word[0];
        sum[1] += word[1];
    }
    return is_plausible(tables, sum) ? 0 : FP_ETORN;
}

/* Readings until two are equal; of a table that is written all the time, the last one. */
#define READINGS 4u

int fp_ets_sum(const struct fp_ets *tables, const struct fp_memory *memory,
               struct fp_ets_table *table)
{
    uint64_t cell = table->address + tables->at[FP_ETS_FIELD_counters] + 8, sum[2] = {0, 0},
             last[2];
    int err = FP_ETORN;

    table->objects = table->bytes = -1;
    for (uint32_t reading = 0; reading < READINGS && tables->slots > 0; reading++) {
        int was = err;

        memcpy(last, sum, sizeof last);
        err = sum_once(tables, memory, cell, sum);
        if (err == 0 && was == 0 && memcmp(last, sum, sizeof last) == 0)
            break;
    }
    if (err != 0)
        return err;
    table->objects = (int64_t)sum[0];
    table->bytes = (int64_t)sum[1];
    return 0;
}

/* A snapshot ends when each scheduler has passed by. */
#define SNAPSHOT_TRIES 5u
#define SNAPSHOT_NS 1000000

static void sum_decentralized(const struct fp_ets *tables, const struct fp_memory *memory,
                              struct fp_ets_list *list)
{
    struct fp_attempts attempts = {.most = SNAPSHOT_TRIES, .pause_ns = SNAPSHOT_NS};
    uint32_t left = 1;

    while (left > 0 && fp_attempts_next(&attempts)) {
        left = 0;
        for (uint32_t i = 0; i < list->count; i++) {
            struct fp_ets_table *table = &list->table[i];

            if (table->is_decentralized && (attempts.made == 1 || table->objects < 0))
                left += fp_ets_sum(tables, memory, table) != 0;
        }
    }
}

/* ---------------------------------------------------------------- binaries -- */

#define BATCH 256u

struct proof {
    uint64_t table;
    uint32_t number[3];
};

/* The first number of a reference has so many bits (REF_MASK, all listed releases). */
#define NUMBER_BITS 18u

/* The binary of a table that is being deleted points nowhere, and may be freed. */
static int is_proven(const struct proof *proof, const struct fp_ets_table *table)
{
    return proof->table == table->address ||
           (proof->table == 0 && (table->status & FP_ETS_DELETING) != 0 &&
            proof->number[0] >> NUMBER_BITS == 0);
}

static void read_proofs(const struct fp_ets *tables, const struct fp_memory *memory,
                        const struct fp_ets_table *table, uint32_t n, struct proof *proof)
{
    struct fp_safe_read_span span[2 * BATCH];

    for (uint32_t i = 0; i < n; i++) {
        span[2 * i] = (struct fp_safe_read_span){.address = table[i].binary + tables->numbers,
                                                 .into = proof[i].number,
                                                 .size = sizeof proof[i].number};
        span[2 * i + 1] =
            (struct fp_safe_read_span){.address = table[i].binary + tables->indirection,
                                       .into = &proof[i].table,
                                       .size = sizeof proof[i].table};
    }
    (void)fp_safe_read_batch(memory, span, 2 * (size_t)n);
    for (uint32_t i = 0; i < n; i++)
        if (span[2 * i].result != 0 || span[2 * i + 1].result != 0)
            proof[i].table = UINT64_MAX;
}

static void prove(const struct fp_ets *tables, const struct fp_memory *memory,
                  struct fp_ets_list *list)
{
    struct proof proof[BATCH];
    uint32_t kept = 0;

    for (uint32_t from = 0; from < list->count; from += BATCH) {
        uint32_t n = list->count - from < BATCH ? list->count - from : BATCH;

        read_proofs(tables, memory, &list->table[from], n, proof);
        for (uint32_t i = 0; i < n; i++) {
            struct fp_ets_table *table = &list->table[from + i];

            if (!is_proven(&proof[i], table))
                continue;
            memcpy(table->number, proof[i].number, sizeof table->number);
            list->table[kept++] = *table;
        }
    }
    list->left_out += list->count - kept;
    list->count = kept;
}

void fp_ets_free(struct fp_ets_list *list)
{
    if (list->room > 0)
        fp_pages_free(list->table, list->room * sizeof *list->table);
    *list = (struct fp_ets_list){0};
}

int fp_ets_read(const struct fp_ets *tables, const struct fp_memory *memory,
                struct fp_ets_list *list)
{
    *list = (struct fp_ets_list){0};
    for (uint32_t k = 0; k < tables->schedulers; k++) {
        struct ring ring = {.tables = tables,
                            .memory = memory,
                            .list = list,
                            .at = tables->lists + (uint64_t)k * tables->stride,
                            .begin = list->count};
        int err = read_ring(&ring);

        if (err == FP_ENOMEM) {
            fp_ets_free(list);
            return err;
        }
        list->incomplete += err != 0;
    }
    prove(tables, memory, list);
    sum_decentralized(tables, memory, list);
    return 0;
}
