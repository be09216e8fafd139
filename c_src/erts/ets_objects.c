#include "erts/ets_objects.h"

#include <stddef.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/pages.h"
#include "erts/ets_internal.h"
#include "erts/term/object.h"

/* FIRST_SEGSZ, EXT_SEGSZ (erl_db_hash.c). */
#define FIRST_SEGMENT 256u
#define SEGMENT 2048u
/* More buckets are none. */
#define BUCKETS_END (UINT64_C(1) << 40)
/* Objects come while a table is walked. */
#define MORE_OBJECTS 65536u

/* -------------------------------------------------------------------- walk -- */

void fp_ets_walk_begin(struct fp_ets_walk *walk, const struct fp_ets_objects *where,
                       const struct fp_memory *memory, const struct fp_ets_table *table)
{
    walk->where = where;
    walk->memory = memory;
    walk->table = table->address;
    walk->is_concurrent = (table->status & FP_ETS_CA_ORDERED_SET) != 0;
    walk->is_tree = walk->is_concurrent || (table->status & FP_ETS_ORDERED_SET) != 0;
    /* Objects of decentralized counters need not be known: each has some words. */
    walk->most = table->objects < 0 ? UINT64_MAX : 2 * (uint64_t)table->objects + MORE_OBJECTS;
    walk->slot = walk->active = walk->walked = walk->lost = 0;
    walk->has_shrunk = walk->is_split = 0;
    walk->links = walk->objects = 0;
}

static void push(struct fp_ets_walk *walk, uint64_t at, uint64_t object)
{
    if (object == 0)
        return;
    if (object % 8 != 0 || walk->links == FP_ETS_WALK_LINKS)
        walk->lost++;
    else
        walk->link[walk->links++] = (struct fp_ets_link){at, object};
}

/* The buckets [slot, slot + n) of one segment. */
static int push_buckets(struct fp_ets_walk *walk, uint32_t n)
{
    uint64_t segments, segment, head[FIRST_SEGMENT];
    uint64_t index = (walk->slot + SEGMENT - FIRST_SEGMENT) / SEGMENT, at = walk->slot % SEGMENT;

    if (fp_safe_read_word(walk->memory, walk->table + walk->where->segments, &segments) != 0 ||
        fp_safe_read_word(walk->memory, segments + 8 * index, &segment) != 0 || segment % 8 != 0 ||
        fp_safe_read(walk->memory, segment + 8 * at, head, n * sizeof *head) != 0)
        return FP_EFAULT;
    for (uint32_t k = 0; k < n; k++)
        push(walk, segment + 8 * (at + k), head[k]);
    return 0;
}

/* 0: there are no more buckets. A bucket that is split leaves objects to a later one; where tables
 * shrink, a later one leaves its own to an earlier one. */
static int next_buckets(struct fp_ets_walk *walk)
{
    uint64_t active, n;

    if (fp_safe_read_word(walk->memory, walk->table + walk->where->active, &active) != 0 ||
        active > BUCKETS_END) {
        walk->lost++;
        return 0;
    }
    walk->has_shrunk |= active < walk->active;
    walk->active = active;
    if (walk->slot >= active)
        return 0;
    n = FIRST_SEGMENT - walk->slot % FIRST_SEGMENT;
    n = active - walk->slot < n ? active - walk->slot : n;
    if (push_buckets(walk, (uint32_t)n) != 0) { /* another's memory by now: no end may be near */
        walk->lost++;
        return 0;
    }
    walk->slot += n;
    return 1;
}

/* Where a tree's root is. The first byte of a node says what it is: an int up to 27, a bool in 29,
 * behind which the bytes are any. */
static int root_at(struct fp_ets_walk *walk, uint64_t *at)
{
    uint64_t node;
    uint8_t is_base;

    *at = walk->table + walk->where->root;
    if (!walk->is_concurrent)
        return 0;
    if (fp_safe_read_word(walk->memory, walk->table + walk->where->base, &node) != 0 ||
        fp_safe_read(walk->memory, node, &is_base, sizeof is_base) != 0)
        return FP_EFAULT;
    walk->is_split = is_base != 1;
    *at = node + walk->where->root_of_base;
    return 0;
}

static void push_root(struct fp_ets_walk *walk)
{
    uint64_t at, root;

    if (root_at(walk, &at) != 0 ||
        (!walk->is_split && fp_safe_read_word(walk->memory, at, &root) != 0))
        walk->lost++;
    else if (!walk->is_split)
        push(walk, at, root);
}

/* 0: there are no more. */
static int next_links(struct fp_ets_walk *walk)
{
    if (!walk->is_tree)
        return next_buckets(walk);
    if (walk->slot++ > 0)
        return 0;
    push_root(walk);
    return 1;
}

static uint64_t first_of(const struct fp_ets_walk *walk, const struct fp_ets_object *object)
{
    return object->word[walk->is_tree ? walk->where->first_of_tree : walk->where->first_of_hash];
}

static void read_objects(struct fp_ets_walk *walk)
{
    uint32_t n = walk->links < FP_ETS_WALK_BATCH ? walk->links : FP_ETS_WALK_BATCH;

    for (uint32_t k = 0; k < n; k++) {
        struct fp_ets_object *object = &walk->object[k];

        object->link = walk->link[--walk->links];
        walk->span[k] = (struct fp_safe_read_span){
            .address = object->link.object, .into = object->word, .size = sizeof object->word};
    }
    fp_safe_read_batch(walk->memory, walk->span, n);
    for (uint32_t k = 0; k < n; k++) {
        struct fp_ets_object *object = &walk->object[walk->objects];

        if (walk->span[k].result != 0) {
            walk->lost++;
            continue;
        }
        *object = walk->object[k];
        object->first = first_of(walk, object);
        walk->objects++;
        push(walk, object->link.object, object->word[0]);
        if (walk->is_tree)
            push(walk, object->link.object + 8, object->word[1]);
    }
    walk->walked += walk->objects;
}

uint32_t fp_ets_walk_next(struct fp_ets_walk *walk)
{
    walk->objects = 0;
    if (walk->walked > walk->most) {
        walk->lost++;
        return 0;
    }
    while (walk->objects == 0) {
        while (walk->links == 0)
            if (!next_links(walk))
                return 0;
        read_objects(walk);
    }
    return walk->objects;
}

int fp_ets_walk_again(struct fp_ets_walk *walk, uint32_t k)
{
    struct fp_ets_object *object = &walk->object[k];
    uint64_t at;

    object->first = 0;
    if (fp_safe_read_word(walk->memory, object->link.at, &at) != 0)
        return FP_EFAULT;
    object->link.object = at;
    if (at == 0)
        return 0;
    if (fp_safe_read(walk->memory, at, object->word, sizeof object->word) != 0)
        return FP_EFAULT;
    object->first = first_of(walk, object);
    return 0;
}

/* ------------------------------------------------------------- calibration -- */

struct objects_work {
    const struct fp_ets *tables;
    const struct fp_memory *memory;
    const struct fp_ets_objects_fact *fact;
    uint32_t facts;
    unsigned otp;
    struct fp_refusal *refusal;
    struct fp_ets_walk walk;
};

uint64_t fp_ets_objects_sum(uint64_t binary)
{
    return fp_hash_two(binary, 1);
}

static int judge(const struct objects_work *work, uint32_t candidates, const char *what)
{
    int err = fp_scan_judge(candidates);

    return err == 0
               ? 0
               : fp_refuse(work->refusal, err, "objects of tables", "%s: %s", what,
                           err == FP_ENOENT ? "no place leads to the objects that tables were given"
                                            : "more than one place fits");
}

static uint32_t kind_of(const struct fp_ets_objects_fact *fact)
{
    return fact->buckets > 0     ? FP_ETS_SET
           : fact->is_concurrent ? FP_ETS_CA_ORDERED_SET
                                 : FP_ETS_ORDERED_SET;
}

static int table_of(const struct objects_work *work, uint32_t k, uint64_t *table)
{
    return fp_safe_read_word(work->memory, work->fact[k].binary + work->tables->indirection, table);
}

/* The binaries of an object, up to so many. */
static void sum_object(const struct objects_work *work, uint64_t at, uint64_t most,
                       uint64_t *binaries, uint64_t *sum)
{
    for (uint64_t left = most + 1; at != 0 && left > 0; left--) {
        uint64_t word[FP_OBJECT_WORDS] = {0};
        struct fp_object object;

        if (fp_safe_read(work->memory, at, word, 32) != 0)
            word[0] = 1;
        fp_object_decode(work->otp, word, &object);
        if (object.kind != FP_OBJECT_REFC_BINARY && object.kind != FP_OBJECT_BINARY_REF) {
            *binaries = UINT64_MAX / 2; /* there is nothing else in these tables */
            return;
        }
        *binaries += 1;
        *sum += fp_ets_objects_sum(object.binary);
        at = word[2];
    }
}

/* Has the table what Erlang put there, walked by these places? */
static int is_walked(struct objects_work *work, const struct fp_ets_objects *where, uint32_t k)
{
    const struct fp_ets_objects_fact *fact = &work->fact[k];
    struct fp_ets_table table = {.status = kind_of(fact), .objects = (int64_t)fact->objects};
    uint64_t binaries = 0, sum = 0;

    if (table_of(work, k, &table.address) != 0)
        return 0;
    fp_ets_walk_begin(&work->walk, where, work->memory, &table);
    work->walk.most = fact->objects;
    while (fp_ets_walk_next(&work->walk) > 0)
        for (uint32_t i = 0; i < work->walk.objects && binaries <= fact->binaries; i++)
            sum_object(work, work->walk.object[i].first, fact->binaries, &binaries, &sum);
    return work->walk.walked == fact->objects && work->walk.lost == 0 &&
           binaries == fact->binaries && sum == fact->sum;
}

static int agree(struct objects_work *work, const struct fp_ets_objects *where, uint32_t kind)
{
    for (uint32_t k = 0; k < work->facts; k++)
        if (kind_of(&work->fact[k]) == kind && !is_walked(work, where, k))
            return 0;
    return 1;
}

static int find_active(struct objects_work *work, struct fp_ets_objects *objects)
{
    uint32_t candidates = 0;

    for (uint16_t at = 0; at + 8u <= FP_ETS_WINDOW; at += 8) {
        int fits = 1;

        for (uint32_t k = 0; fits && k < work->facts; k++) {
            uint64_t table, word;

            if (work->fact[k].buckets > 0)
                fits = table_of(work, k, &table) == 0 &&
                       fp_safe_read_word(work->memory, table + at, &word) == 0 &&
                       word == work->fact[k].buckets;
        }
        if (fits)
            objects->active = at;
        candidates += (uint32_t)fits;
    }
    return judge(work, candidates, "buckets in use");
}

struct places {
    uint16_t *first, *second; /* in the table; in what it leads to */
    uint16_t step, end;       /* of the second */
    const char *name;
};

/* The one pair of places by which all tables of a kind have what they should. */
static int find_places(struct objects_work *work, struct fp_ets_objects *objects, uint32_t kind,
                       struct places places)
{
    uint16_t at, second, found[2] = {0, 0};
    uint32_t candidates = 0;

    for (at = 0; at + 8u <= FP_ETS_WINDOW; at += 8)
        for (second = places.step; second < places.end; second += places.step) {
            *places.first = at;
            *places.second = second;
            if (agree(work, objects, kind)) {
                found[0] = at;
                found[1] = second;
                candidates++;
            }
        }
    *places.first = found[0];
    *places.second = found[1];
    return judge(work, candidates, places.name);
}

int fp_ets_objects_solve(struct fp_ets_objects *objects, const struct fp_ets *tables,
                         const struct fp_memory *memory, unsigned otp,
                         const struct fp_ets_objects_fact *fact, uint32_t facts,
                         struct fp_refusal *refusal)
{
    struct objects_work *work = fp_pages_alloc(sizeof *work);
    int err;

    *objects = (struct fp_ets_objects){0};
    *refusal = (struct fp_refusal){.err = FP_ENOMEM, .why = "no memory"};
    if (work == NULL)
        return FP_ENOMEM;
    *refusal = (struct fp_refusal){0};
    work->tables = tables;
    work->memory = memory;
    work->otp = otp;
    work->fact = fact;
    work->facts = facts;
    work->refusal = refusal;
    err = find_active(work, objects);
    if (err == 0)
        err = find_places(work, objects, FP_ETS_SET,
                          (struct places){&objects->segments, &objects->first_of_hash, 1,
                                          FP_ETS_OBJECT_WORDS, "segments"});
    if (err == 0)
        err = find_places(work, objects, FP_ETS_ORDERED_SET,
                          (struct places){&objects->root, &objects->first_of_tree, 1,
                                          FP_ETS_OBJECT_WORDS, "root of a tree"});
    if (err == 0)
        err = find_places(work, objects, FP_ETS_CA_ORDERED_SET,
                          (struct places){&objects->base, &objects->root_of_base, 8, FP_ETS_WINDOW,
                                          "root of a tree with locks"});
    fp_pages_free(work, sizeof *work);
    return err;
}
