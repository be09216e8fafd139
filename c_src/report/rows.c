/*
 * rows.c - writing and reading keep equal tracks, so that "as before" means the same to both.
 */
#include "report/rows.h"

#include <string.h>

enum {
    HAS_FILE = 1,
    HAS_EVENT = 2,
    HAS_SCHEMA = 4,
    HAS_STACK = 8,
    HAS_PERIOD = 16,
    HAS_VALUES = 32,
    HAS_DELTAS = 64,
};

/* The most that a row can take: 11 numbers, two sets, and two numbers for each metric. */
#define ROW_MOST ((size_t)10 * (11 + 2 * 2 + 2 * FP_METRICS_MOST))
/* Metrics of a process in a session's file. */
#define TRACK_VALUES 16

/* ----------------------------------------------------------------- tracks -- */

static int grow_values(struct fp_track *track, struct fp_budget *budget, uint32_t room)
{
    size_t had = track->room, has = had;
    int err;

    if (room <= track->room)
        return 0;
    room = room <= TRACK_VALUES ? TRACK_VALUES : FP_METRICS_MOST;
    err = FP_GROW(budget, &track->value, &has, room);
    if (err != 0)
        return err;
    memset(track->value + had, 0, (has - had) * sizeof(*track->value));
    track->room = (uint32_t)has;
    return 0;
}

/* The track of a process, with room for every metric of the schema. */
static int track_of(struct fp_tracks *tracks, struct fp_budget *budget, uint32_t process,
                    struct fp_track **track)
{
    int err = 0;

    if (process >= tracks->room) {
        size_t had = tracks->room;

        err = FP_GROW(budget, &tracks->track, &tracks->room, (size_t)process + 1);
        if (err != 0)
            return err;
        memset(tracks->track + had, 0, (tracks->room - had) * sizeof(*tracks->track));
    }
    *track = &tracks->track[process];
    return 0;
}

static int fit(struct fp_track *track, struct fp_budget *budget, const struct fp_schema *schema)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < schema->count; i++)
        most = schema->metric[i] >= most ? schema->metric[i] + 1u : most;
    return grow_values(track, budget, most);
}

static void free_tracks(struct fp_tracks *tracks, struct fp_budget *budget)
{
    for (size_t i = 0; i < tracks->room; i++)
        FP_FREE(budget, tracks->track[i].value, tracks->track[i].room);
    FP_FREE(budget, tracks->track, tracks->room);
}

/* The delta that the values say. Differences wrap, as what was added does. */
static int64_t plain_delta(const struct fp_track *track, unsigned metric, int64_t value)
{
    if ((track->seen >> metric & 1) == 0)
        return 0;
    return (int64_t)((uint64_t)value - (uint64_t)track->value[metric]);
}

/* ---------------------------------------------------------------- numbers -- */

static uint8_t *put(uint8_t *at, uint64_t n)
{
    while (n >= 0x80) {
        *at++ = (uint8_t)(n | 0x80);
        n >>= 7;
    }
    *at++ = (uint8_t)n;
    return at;
}

/* Small numbers of either sign are small. */
static uint64_t zigzag(int64_t n)
{
    return (uint64_t)n << 1 ^ (n < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t n)
{
    return (int64_t)(n >> 1 ^ (0 - (n & 1)));
}

static uint64_t take(const uint8_t **at)
{
    uint64_t n = 0;
    unsigned shift = 0;

    while (**at & 0x80) {
        n |= (uint64_t)(*(*at)++ & 0x7f) << shift;
        shift += 7;
    }
    return n | (uint64_t) * (*at)++ << shift;
}

/* Two numbers where the schema has more than 64 places. */
static uint8_t *put_set(uint8_t *at, const struct fp_schema *schema, fp_metric_set set)
{
    at = put(at, (uint64_t)set);
    return schema->count > 64 ? put(at, (uint64_t)(set >> 64)) : at;
}

static fp_metric_set take_set(const uint8_t **at, const struct fp_schema *schema)
{
    fp_metric_set set = take(at);

    return schema->count > 64 ? set | (fp_metric_set)take(at) << 64 : set;
}

/* ------------------------------------------------------------------ write -- */

/* Which values changed, which deltas are odd. */
static fp_metric_set compare(const struct fp_track *track, const struct fp_schema *schema,
                             struct fp_row *row)
{
    fp_metric_set changed = 0;

    row->odd = 0;
    for (uint32_t i = 0; i < schema->count; i++) {
        unsigned m = schema->metric[i];

        if (row->value[i] != track->value[m])
            changed |= FP_METRIC_BIT(i);
        if (row->delta[i] != plain_delta(track, m, row->value[i]))
            row->odd |= FP_METRIC_BIT(i);
    }
    return changed;
}

static uint8_t *put_values(uint8_t *at, struct fp_track *track, const struct fp_schema *schema,
                           const struct fp_row *row, fp_metric_set changed)
{
    at = put_set(at, schema, changed);
    for (uint32_t i = 0; i < schema->count; i++) {
        unsigned m = schema->metric[i];

        if ((changed >> i & 1) == 0)
            continue;
        at = put(at, zigzag((int64_t)((uint64_t)row->value[i] - (uint64_t)track->value[m])));
        track->value[m] = row->value[i];
    }
    return at;
}

static uint8_t *put_deltas(uint8_t *at, const struct fp_schema *schema, const struct fp_row *row)
{
    at = put_set(at, schema, row->odd);
    for (uint32_t i = 0; i < schema->count; i++) {
        if (row->odd >> i & 1)
            at = put(at, zigzag(row->delta[i]));
    }
    return at;
}

static void see(struct fp_track *track, const struct fp_schema *schema)
{
    for (uint32_t i = 0; i < schema->count; i++)
        track->seen |= FP_METRIC_BIT(schema->metric[i]);
}

/* A track of a process that was never seen has schema 0 and stack 0, and so does its reader's. */
static uint8_t flags_of(const struct fp_rows *rows, const struct fp_track *track,
                        const struct fp_row *row, fp_metric_set changed)
{
    return (uint8_t)((row->file != rows->file ? HAS_FILE : 0) | (row->event != 0 ? HAS_EVENT : 0) |
                     (row->schema != track->schema ? HAS_SCHEMA : 0) |
                     (row->stack != track->stack ? HAS_STACK : 0) |
                     (row->period != 1 ? HAS_PERIOD : 0) | (changed != 0 ? HAS_VALUES : 0) |
                     (row->odd != 0 ? HAS_DELTAS : 0));
}

int fp_rows_add(struct fp_rows *rows, struct fp_budget *budget, const struct fp_schema *schemas,
                struct fp_row *row)
{
    const struct fp_schema *schema = &schemas[row->schema];
    struct fp_track *track;
    fp_metric_set changed;
    uint8_t *at, flags;
    int err = FP_GROW(budget, &rows->bytes, &rows->room, rows->size + ROW_MOST);

    if (err == 0)
        err = track_of(&rows->tracks, budget, row->process, &track);
    if (err == 0)
        err = fit(track, budget, schema);
    if (err != 0)
        return err;
    changed = compare(track, schema, row);
    flags = flags_of(rows, track, row, changed);
    at = rows->bytes + rows->size;
    *at++ = flags;
    at = put(at, zigzag(row->time_us - rows->time_us));
    at = put(at, row->process);
    if (flags & HAS_FILE)
        at = put(at, row->file);
    if (flags & HAS_EVENT)
        at = put(at, row->event);
    if (flags & HAS_SCHEMA)
        at = put(at, row->schema);
    if (flags & HAS_STACK)
        at = put(at, row->stack);
    if (flags & HAS_PERIOD)
        at = put(at, (uint64_t)row->period);
    if (flags & HAS_VALUES)
        at = put_values(at, track, schema, row, changed);
    if (flags & HAS_DELTAS)
        at = put_deltas(at, schema, row);
    rows->size = (size_t)(at - rows->bytes);
    rows->count++;
    rows->time_us = row->time_us;
    rows->file = row->file;
    track->schema = row->schema;
    track->stack = row->stack;
    see(track, schema);
    return 0;
}

void fp_rows_free(struct fp_rows *rows, struct fp_budget *budget)
{
    FP_FREE(budget, rows->bytes, rows->room);
    free_tracks(&rows->tracks, budget);
    memset(rows, 0, sizeof(*rows));
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

/* Values and the deltas that follow from them. */
static void take_values(struct fp_cursor *cursor, struct fp_track *track,
                        const struct fp_schema *schema, uint8_t flags, struct fp_row *row)
{
    fp_metric_set changed = flags & HAS_VALUES ? take_set(&cursor->at, schema) : 0;

    for (uint32_t i = 0; i < schema->count; i++) {
        unsigned m = schema->metric[i];
        int64_t before = track->value[m];

        if (changed >> i & 1) {
            row->value[i] = (int64_t)((uint64_t)before + (uint64_t)unzigzag(take(&cursor->at)));
            row->delta[i] = plain_delta(track, m, row->value[i]);
            track->value[m] = row->value[i];
        } else {
            row->value[i] = before;
            row->delta[i] = 0;
        }
    }
    row->odd = flags & HAS_DELTAS ? take_set(&cursor->at, schema) : 0;
    for (uint32_t i = 0; i < schema->count && row->odd >> i != 0; i++) {
        if (row->odd >> i & 1)
            row->delta[i] = unzigzag(take(&cursor->at));
    }
}

int fp_cursor_next(struct fp_cursor *cursor, struct fp_row *row)
{
    const struct fp_schema *schema;
    struct fp_track *track;
    uint8_t flags;
    int err;

    if (cursor->rows->count == 0 || cursor->at == cursor->rows->bytes + cursor->rows->size)
        return 0;
    flags = *cursor->at++;
    cursor->time_us += unzigzag(take(&cursor->at));
    row->time_us = cursor->time_us;
    row->process = (uint32_t)take(&cursor->at);
    err = track_of(&cursor->tracks, cursor->budget, row->process, &track);
    if (err != 0)
        return err;
    if (flags & HAS_FILE)
        cursor->file = (uint32_t)take(&cursor->at);
    row->file = cursor->file;
    row->event = flags & HAS_EVENT ? (uint32_t)take(&cursor->at) : 0;
    if (flags & HAS_SCHEMA)
        track->schema = (uint32_t)take(&cursor->at);
    row->schema = track->schema;
    if (flags & HAS_STACK)
        track->stack = (uint32_t)take(&cursor->at);
    row->stack = track->stack;
    row->period = flags & HAS_PERIOD ? (int64_t)take(&cursor->at) : 1;
    schema = &cursor->schemas[row->schema];
    err = fit(track, cursor->budget, schema);
    if (err != 0)
        return err;
    take_values(cursor, track, schema, flags, row);
    see(track, schema);
    return 1;
}
