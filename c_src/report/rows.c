/* rows.c - the writer and each reader keep equal tracks, so that "as before" means the same to
 * both. */
#include "report/rows.h"

#include <stdbool.h>

#include "report/varint.h"

enum {
    HAS_SOURCE = 1,
    HAS_WORDS = 2,
    HAS_SCHEMA = 4,
    HAS_STACK = 8,
    HAS_PERIOD = 16,
    HAS_VALUES = 32,
    HAS_DELTAS = 64,
    HAS_SCHEDULER = 128,
};

/* The most bytes of a row: 16 numbers, two sets, and two numbers for each metric. */
#define ROW_MOST (FP_VARINT_MOST * (16 + 2 * FP_METRIC_WORDS + 2 * FP_METRICS_MOST))

/* ----------------------------------------------------------------- tracks -- */

static int track_of(struct fp_tracks *tracks, struct fp_budget *budget, uint32_t process,
                    struct fp_track **track)
{
    int err = FP_GROW_ZEROS(budget, &tracks->track, &tracks->room, (size_t)process + 1);

    if (err == 0)
        *track = &tracks->track[process];
    return err;
}

/* Gives the track room for every metric of the schema. A process has one schema nearly always: the
 * callers ask only where it is another one. */
static int fit(struct fp_track *track, struct fp_budget *budget, const struct fp_schema *schema)
{
    size_t count = 0;

    for (uint32_t i = 0; i < schema->count; i++)
        count = schema->metric[i] >= count ? schema->metric[i] + 1u : count;
    return FP_GROW_ZEROS(budget, &track->value, &track->room, count);
}

static void free_tracks(struct fp_tracks *tracks, struct fp_budget *budget)
{
    for (size_t i = 0; i < tracks->room; i++)
        FP_FREE(budget, tracks->track[i].value, tracks->track[i].room);
    FP_FREE(budget, tracks->track, tracks->room);
}

static void see(struct fp_track *track, const struct fp_schema *schema)
{
    for (uint32_t i = 0; i < schema->count; i++)
        fp_metric_add(&track->seen, schema->metric[i]);
}

/* The difference to the value before, 0 for the first one. It wraps, as the sum of deltas does. */
static int64_t difference(const struct fp_track *track, unsigned metric, int64_t value)
{
    if (!fp_metric_has(&track->seen, metric))
        return 0;
    return (int64_t)((uint64_t)value - (uint64_t)track->value[metric]);
}

/* ---------------------------------------------------------------- numbers -- */

static int64_t unzigzag(uint64_t n)
{
    return (int64_t)(n >> 1 ^ (0 - (n & 1)));
}

static uint64_t get(const uint8_t **at)
{
    uint64_t n = 0;
    unsigned shift = 0;

    for (; **at & 0x80; shift += 7)
        n |= (uint64_t)(*(*at)++ & 0x7f) << shift;
    return n | (uint64_t)(*(*at)++) << shift;
}

/* Where `is_there`: sets the flag and writes the number. */
static uint8_t *put_if(uint8_t *at, uint8_t *flags, int flag, int is_there, uint64_t n)
{
    if (!is_there)
        return at;
    *flags = (uint8_t)(*flags | flag);
    return fp_put_varint(at, n);
}

static uint64_t get_if(const uint8_t **at, uint8_t flags, int flag, uint64_t otherwise)
{
    return flags & flag ? get(at) : otherwise;
}

/* A number for each 64 places of the schema. */
static uint8_t *put_set(uint8_t *at, uint8_t *flags, int flag, const struct fp_schema *schema,
                        const fp_metric_set *set)
{
    int any = fp_metric_any(set);

    at = put_if(at, flags, flag, any, set->word[0]);
    for (uint32_t w = 1; any && 64 * w < schema->count; w++)
        at = fp_put_varint(at, set->word[w]);
    return at;
}

static fp_metric_set get_set(const uint8_t **at, uint8_t flags, int flag,
                             const struct fp_schema *schema)
{
    fp_metric_set set = {{get_if(at, flags, flag, 0)}};

    for (uint32_t w = 1; flags & flag && 64 * w < schema->count; w++)
        set.word[w] = get(at);
    return set;
}

/* ------------------------------------------------------------------ write -- */

/* Sets row->changed and row->odd. */
static void compare(const struct fp_track *track, const struct fp_schema *schema,
                    struct fp_row *row)
{
    row->changed = row->odd = (fp_metric_set){{0}};
    for (uint32_t i = 0; i < schema->count; i++) {
        unsigned m = schema->metric[i];

        if (row->value[i] != track->value[m])
            fp_metric_add(&row->changed, i);
        if (row->delta[i] != difference(track, m, row->value[i]))
            fp_metric_add(&row->odd, i);
    }
}

/* Most rows change one or two of twenty values. */
static uint8_t *put_metrics(uint8_t *at, uint8_t *flags, struct fp_track *track,
                            const struct fp_schema *schema, struct fp_row *row)
{
    fp_metric_set rest;
    unsigned i;

    compare(track, schema, row);
    at = put_set(at, flags, HAS_VALUES, schema, &row->changed);
    at = put_set(at, flags, HAS_DELTAS, schema, &row->odd);
    for (rest = fp_metric_either(&row->changed, &row->odd); fp_metric_take(&rest, &i);) {
        unsigned m = schema->metric[i];
        uint64_t change = (uint64_t)row->value[i] - (uint64_t)track->value[m];

        if (fp_metric_has(&row->changed, i))
            at = fp_put_varint(at, fp_zigzag((int64_t)change));
        if (fp_metric_has(&row->odd, i))
            at = fp_put_varint(at, fp_zigzag(row->delta[i]));
        track->value[m] = row->value[i];
    }
    return at;
}

/* ------------------------------------------------------------------ words -- */

static bool same_reference(struct fp_reference a, struct fp_reference b)
{
    return a.number == b.number && a.thread == b.thread;
}

static uint8_t *put_reference(uint8_t *at, struct fp_reference reference)
{
    return fp_put_varint(fp_put_varint(at, reference.number), reference.thread);
}

static struct fp_reference get_reference(const uint8_t **at)
{
    uint64_t number = get(at);

    return (struct fp_reference){number, (uint32_t)get(at)};
}

static uint8_t *put_words(uint8_t *at, uint8_t *flags, struct fp_track *track,
                          const struct fp_row *row)
{
    bool serves = !same_reference(row->serves, track->serves);
    bool call = !same_reference(row->call, track->call);
    bool is_new = serves || call || row->words != track->words;

    if (row->words == 0)
        return at;
    *flags |= HAS_WORDS;
    at = fp_put_varint(at, is_new ? 1 + ((uint64_t)row->words << 2 | serves << 1 | call) : 0);
    if (serves)
        at = put_reference(at, row->serves);
    if (call)
        at = put_reference(at, row->call);
    track->words = row->words;
    track->serves = row->serves;
    track->call = row->call;
    return at;
}

static void get_words(struct fp_cursor *cursor, struct fp_track *track, uint8_t flags,
                      struct fp_row *row)
{
    uint64_t words = get_if(&cursor->at, flags, HAS_WORDS, 0);

    row->words = 0;
    row->serves = row->call = (struct fp_reference){0};
    if ((flags & HAS_WORDS) == 0)
        return;
    if (words > 0) {
        words--;
        track->words = (uint32_t)(words >> 2);
        if (words >> 1 & 1)
            track->serves = get_reference(&cursor->at);
        if (words & 1)
            track->call = get_reference(&cursor->at);
    }
    row->words = track->words;
    row->serves = track->serves;
    row->call = track->call;
}

/* The first row of a process is compared with schema 0 and stack 0, by the reader too. */
int fp_rows_add(struct fp_rows *rows, struct fp_budget *budget, const struct fp_schema *schemas,
                struct fp_row *row)
{
    const struct fp_schema *schema = &schemas[row->schema];
    struct fp_track *track;
    bool is_other_schema = false, is_other_source = row->file != rows->file || row->event != 0;
    uint8_t *at, *flags;
    int err = FP_GROW(budget, &rows->bytes, &rows->room, rows->size + ROW_MOST);

    if (err == 0)
        err = track_of(&rows->tracks, budget, row->process, &track);
    if (err == 0) {
        is_other_schema = row->schema != track->schema || track->room == 0;
        err = is_other_schema ? fit(track, budget, schema) : 0;
    }
    if (err != 0)
        return err;
    flags = rows->bytes + rows->size;
    *flags = 0;
    at = fp_put_varint(flags + 1, fp_zigzag(row->time_us - rows->time_us));
    at = fp_put_varint(at, row->process);
    at = put_if(at, flags, HAS_SOURCE, is_other_source, row->file);
    at = put_if(at, flags, HAS_SOURCE, is_other_source, row->event);
    at = put_if(at, flags, HAS_SCHEMA, row->schema != track->schema, row->schema);
    at = put_if(at, flags, HAS_STACK, row->stack != track->stack, row->stack);
    at = put_if(at, flags, HAS_PERIOD, row->period != 1, (uint64_t)row->period);
    at = put_if(at, flags, HAS_SCHEDULER, row->scheduler != 0, row->scheduler);
    at = put_words(at, flags, track, row);
    at = put_metrics(at, flags, track, schema, row);
    if (is_other_schema)
        see(track, schema);
    rows->size = (size_t)(at - rows->bytes);
    rows->count++;
    rows->time_us = row->time_us;
    rows->file = row->file;
    track->schema = row->schema;
    track->stack = row->stack;
    return 0;
}

void fp_rows_free(struct fp_rows *rows, struct fp_budget *budget)
{
    FP_FREE(budget, rows->bytes, rows->room);
    free_tracks(&rows->tracks, budget);
}

/* ------------------------------------------------------------------- read -- */

void fp_cursor_open(struct fp_cursor *cursor, const struct fp_rows *rows,
                    const struct fp_schema *schemas, struct fp_budget *budget)
{
    *cursor =
        (struct fp_cursor){.rows = rows, .schemas = schemas, .budget = budget, .at = rows->bytes};
}

void fp_cursor_close(struct fp_cursor *cursor)
{
    free_tracks(&cursor->tracks, cursor->budget);
}

static void get_metrics(struct fp_cursor *cursor, struct fp_track *track,
                        const struct fp_schema *schema, uint8_t flags, struct fp_row *row)
{
    fp_metric_set rest;
    unsigned n;

    row->changed = get_set(&cursor->at, flags, HAS_VALUES, schema);
    row->odd = get_set(&cursor->at, flags, HAS_DELTAS, schema);
    for (uint32_t i = 0; i < schema->count; i++) {
        row->value[i] = track->value[schema->metric[i]];
        row->difference[i] = row->delta[i] = 0;
    }
    for (rest = fp_metric_either(&row->changed, &row->odd); fp_metric_take(&rest, &n);) {
        unsigned m = schema->metric[n];
        int has_change = fp_metric_has(&row->changed, n);
        uint64_t change = has_change ? (uint64_t)unzigzag(get(&cursor->at)) : 0;

        row->value[n] = (int64_t)((uint64_t)track->value[m] + change);
        row->difference[n] = difference(track, m, row->value[n]);
        row->delta[n] =
            fp_metric_has(&row->odd, n) ? unzigzag(get(&cursor->at)) : row->difference[n];
        track->value[m] = row->value[n];
    }
}

int fp_cursor_next(struct fp_cursor *cursor, struct fp_row *row)
{
    const struct fp_schema *schema;
    struct fp_track *track;
    bool is_other;
    uint8_t flags;
    int err;

    if (cursor->rows->count == 0 || cursor->at == cursor->rows->bytes + cursor->rows->size)
        return 0;
    flags = *cursor->at++;
    cursor->time_us += unzigzag(get(&cursor->at));
    row->time_us = cursor->time_us;
    row->process = (uint32_t)get(&cursor->at);
    err = track_of(&cursor->tracks, cursor->budget, row->process, &track);
    if (err != 0)
        return err;
    cursor->file = (uint32_t)get_if(&cursor->at, flags, HAS_SOURCE, cursor->file);
    row->file = cursor->file;
    row->event = (uint32_t)get_if(&cursor->at, flags, HAS_SOURCE, 0);
    track->schema = (uint32_t)get_if(&cursor->at, flags, HAS_SCHEMA, track->schema);
    row->schema = track->schema;
    track->stack = (uint32_t)get_if(&cursor->at, flags, HAS_STACK, track->stack);
    row->stack = track->stack;
    row->period = (int64_t)get_if(&cursor->at, flags, HAS_PERIOD, 1);
    row->scheduler = (uint32_t)get_if(&cursor->at, flags, HAS_SCHEDULER, 0);
    get_words(cursor, track, flags, row);
    schema = &cursor->schemas[row->schema];
    is_other = flags & HAS_SCHEMA || track->room == 0;
    err = is_other ? fit(track, cursor->budget, schema) : 0;
    if (err != 0)
        return err;
    get_metrics(cursor, track, schema, flags, row);
    if (is_other)
        see(track, schema);
    return 1;
}
