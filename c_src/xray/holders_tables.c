/* holders_tables.c - the tables' part of a look at holders. */
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "xray/holders_internal.h"

/* Of an object that has something beside it: its link, and its words. */
struct again {
    uint64_t link;
    uint64_t word[FP_ETS_OBJECT_WORDS];
};

int fp_holders_confirm_objects(struct fp_holders_look *look)
{
    struct again again[FP_ETS_WALK_BATCH];
    struct fp_safe_read_span span[2 * FP_ETS_WALK_BATCH];
    uint32_t n = 0;

    for (uint32_t k = look->from; k < look->to; k++) {
        const struct fp_ets_object *object = &look->walk->object[k];

        if (object->first == 0)
            continue;
        span[n] = (struct fp_safe_read_span){
            .address = object->link.at, .into = &again[k].link, .size = sizeof again[k].link};
        span[n + 1] = (struct fp_safe_read_span){
            .address = object->link.object, .into = again[k].word, .size = sizeof again[k].word};
        n += 2;
    }
    if (fp_safe_read_batch(look->options->memory, span, n) != n)
        return FP_ETORN;
    for (uint32_t k = look->from; k < look->to; k++) {
        const struct fp_ets_object *object = &look->walk->object[k];

        if (object->first != 0 && (again[k].link != object->link.object ||
                                   memcmp(again[k].word, object->word, sizeof object->word) != 0))
            return FP_ETORN;
    }
    return 0;
}

/* Objects [from, to) of the walk. 0; FP_ETORN, FP_EFAULT; FP_EFULL, FP_ENOMEM. */
static int add_objects(struct fp_holders_look *look, uint32_t from, uint32_t to)
{
    int err = 0, has_any = 0;

    look->from = from;
    look->to = to;
    look->pending = 0;
    for (uint32_t k = from; err == 0 && k < to; k++) {
        if (look->walk->object[k].first == 0)
            continue;
        if (!has_any)
            fp_page_cache_forget(look->cache);
        has_any = 1;
        err = fp_holders_read_list(look, look->walk->object[k].first, 0);
    }
    return err == 0 && has_any ? fp_holders_add_pending(look) : err;
}

static int is_fatal(int err)
{
    return err == FP_EFULL || err == FP_ENOMEM;
}

/* Did an object make room for another, and may be elsewhere? A bucket gets new ones in front, a
 * tree is rebalanced. A bucket that has none has lost the one it had. */
static int has_moved(const struct fp_ets_walk *walk, uint32_t k, uint64_t was)
{
    uint64_t now = walk->object[k].link.object;

    return now != was && (now != 0 || walk->is_tree);
}

/* Where they changed meanwhile each is read again, alone: but not where some of their binaries were
 * added, whose references would count twice. 0; FP_EFULL, FP_ENOMEM. */
static int add_batch(struct fp_holders_look *look)
{
    uint32_t n = look->walk->objects;
    int err;

    look->has_added = 0;
    err = add_objects(look, 0, n);
    if (err == 0 || is_fatal(err))
        return err;
    if (look->has_added) {
        look->holders->inconsistent_objects += n;
        fp_holders_row(look)->is_partial = 1;
        return 0;
    }
    for (uint32_t k = 0; k < n; k++) {
        uint64_t was = look->walk->object[k].link.object;

        err = fp_ets_walk_again(look->walk, k);
        fp_holders_row(look)->is_partial |= has_moved(look->walk, k, was);
        if (err == 0)
            err = add_objects(look, k, k + 1);
        if (is_fatal(err))
            return err;
        if (err != 0) {
            look->holders->inconsistent_objects++;
            fp_holders_row(look)->is_partial = 1;
        }
    }
    return 0;
}

/* Is it the same table? Its binary's numbers are never used again. */
static int is_there(const struct fp_holders_look *look, const struct fp_ets_table *table)
{
    const struct fp_ets *tables = look->options->tables;
    uint32_t number[3];
    uint64_t back;

    return fp_safe_read_word(look->options->memory, table->binary + tables->indirection, &back) ==
               0 &&
           back == table->address &&
           fp_safe_read(look->options->memory, table->binary + tables->numbers, number,
                        sizeof number) == 0 &&
           memcmp(number, table->number, sizeof number) == 0;
}

/* By the table's counter; 0: not known. */
static uint64_t objects_of(const struct fp_holders_look *look, const struct fp_ets_table *table)
{
    uint64_t at = table->address + look->options->tables->at[FP_ETS_FIELD_counters] + 8, objects;

    return table->is_decentralized || fp_safe_read_word(look->options->memory, at, &objects) != 0
               ? 0
               : objects;
}

/* Has it met fewer objects than the table had, before and after? Some were where it had been, or
 * behind one that had gone. */
static int has_missed(const struct fp_holders_look *look, const struct fp_ets_table *table,
                      uint64_t before)
{
    uint64_t after = objects_of(look, table);

    return !look->walk->is_split && look->walk->walked < (before < after ? before : after);
}

/* 0; FP_EFULL, FP_ENOMEM. */
static int look_at_table(struct fp_holders_look *look, uint32_t place)
{
    const struct fp_ets_table *table = &look->holders->tables.table[place];
    struct fp_ets_walk *walk = look->walk;
    int err = fp_holders_has_room(look), was_late = 0;
    struct fp_holder *holder;
    uint64_t before;

    if (err != 0)
        return err;
    holder = fp_holders_row(look);
    *holder = (struct fp_holder){.table = place + 1};
    before = objects_of(look, table);
    fp_ets_walk_begin(walk, look->options->objects, look->options->memory, table);
    while (err == 0 && !was_late && fp_ets_walk_next(walk) > 0) {
        err = add_batch(look);
        was_late = fp_attempts_are_late(&look->attempts);
    }
    if (err != 0)
        return err;
    holder->is_partial |= was_late || walk->lost > 0 || walk->has_shrunk ||
                          has_missed(look, table, before) || !is_there(look, table);
    look->holders->tables_unread += (uint64_t)walk->is_split;
    look->holders->tables_late += (uint64_t)was_late;
    look->holders->tables_moved += holder->is_partial && !was_late;
    look->holders->inconsistent_objects += walk->lost;
    look->holders->holders += holder->binaries > 0;
    return 0;
}

int fp_holders_look_at_tables(struct fp_holders_look *look)
{
    struct fp_holders *holders = look->holders;
    int err = fp_ets_read(look->options->tables, look->options->memory, &holders->tables);

    if (err != 0)
        return err;
    if (holders->tables.room * sizeof *holders->tables.table > look->options->bytes / 8) {
        holders->tables.left_out += holders->tables.count;
        holders->tables.count = 0;
        return 0;
    }
    look->walk = fp_pages_alloc(sizeof *look->walk);
    if (look->walk == NULL)
        return FP_ENOMEM;
    look->attempts.made = 1;
    look->runs = 0;
    for (uint32_t k = 0; err == 0 && k < holders->tables.count; k++) {
        const struct fp_ets_table *table = &holders->tables.table[k];

        if (table->objects == 0)
            continue;
        if (fp_attempts_are_late(&look->attempts))
            holders->tables_late++;
        else
            err = look_at_table(look, k);
    }
    fp_pages_free(look->walk, sizeof *look->walk);
    look->walk = NULL;
    return err;
}
