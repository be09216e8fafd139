/* strings.c - the texts stand behind each other in one block, as in the index. */
#include "report/strings.h"

static int append(struct fp_strings *strings, struct fp_budget *budget, struct fp_slice text)
{
    int err = FP_GROW(budget, &strings->bytes, &strings->bytes_room, strings->size + text.size);

    if (err == 0)
        err = FP_GROW(budget, &strings->end, &strings->end_room, strings->count + 1);
    if (err != 0)
        return err;
    if (text.size > 0)
        memcpy(strings->bytes + strings->size, text.at, text.size);
    strings->size += text.size;
    strings->end[strings->count++] = strings->size;
    return 0;
}

int fp_strings_intern(struct fp_strings *strings, struct fp_budget *budget, struct fp_slice text,
                      uint32_t *id)
{
    uint64_t hash;
    struct fp_table_at at;
    int err;

    if (strings->count == 0 && (err = append(strings, budget, FP_SLICE(""))))
        return err;
    *id = 0;
    if (text.size == 0)
        return 0;
    hash = fp_hash(text.at, text.size);
    fp_table_seek(&strings->table, hash, &at);
    while (fp_table_next(&strings->table, &at, id)) {
        if (fp_slice_is(fp_strings_at(strings, *id), text))
            return 0;
    }
    *id = (uint32_t)strings->count;
    err = append(strings, budget, text);
    return err != 0 ? err : fp_table_put(&strings->table, budget, hash, *id);
}

struct fp_slice fp_strings_at(const struct fp_strings *strings, uint32_t id)
{
    size_t begin;

    if (id >= strings->count)
        return FP_SLICE("");
    begin = id == 0 ? 0 : strings->end[id - 1];
    return (struct fp_slice){strings->bytes + begin, strings->end[id] - begin};
}

void fp_strings_free(struct fp_strings *strings, struct fp_budget *budget)
{
    FP_FREE(budget, strings->bytes, strings->bytes_room);
    FP_FREE(budget, strings->end, strings->end_room);
    fp_table_free(&strings->table, budget);
}
