#include "report/carry.h"

/* Words of one sample: name, label, and module and function of two calls, of 255 characters each;
 * a character of three bytes is nine when it is encoded. Then keys, pid and arities. */
#define WORDS_BYTES_MOST (6 * 255 * 9 + 512)

struct carried_number {
    uint32_t key;
    int64_t value;
};

struct fp_carried {
    uint64_t pid, tid;
    uint32_t words;
    uint32_t damages; /* fp_carry.damages at its last whole sample; other: nothing is known */
    uint32_t count;
    struct carried_number *number;
    size_t room;
};

/* ---- processes ---------------------------------------------------------- */

static uint64_t hash_of(const struct fp_header *header)
{
    return fp_hash_two(header->pid, header->tid);
}

/* NULL: not known. */
static struct fp_carried *find(const struct fp_carry *carry, const struct fp_header *header)
{
    struct fp_table_at at;
    uint32_t id;

    fp_table_seek(&carry->table, hash_of(header), &at);
    while (fp_table_next(&carry->table, &at, &id)) {
        struct fp_carried *process = &carry->process[id];

        if (process->tid == header->tid && process->pid == header->pid)
            return process;
    }
    return NULL;
}

static int find_or_add(struct fp_carry *carry, struct fp_budget *budget,
                       const struct fp_header *header, struct fp_carried **process)
{
    int err;

    *process = find(carry, header);
    if (*process != NULL)
        return 0;
    err = FP_GROW(budget, &carry->process, &carry->room, carry->count + 1);
    if (err == 0)
        err = fp_table_put(&carry->table, budget, hash_of(header), (uint32_t)carry->count);
    if (err != 0)
        return err;
    *process = &carry->process[carry->count++];
    **process = (struct fp_carried){.pid = header->pid, .tid = header->tid};
    return 0;
}

/* ---- one line ----------------------------------------------------------- */

struct field_line {
    struct fp_strings *strings;
    struct fp_budget *budget;
    const struct fp_sample *sample;
    struct fp_fields *fields;
    fp_metric_set changes; /* the places of the numbers without a value */
    const char *bad;
};

static int refuse(struct field_line *line, const char *bad)
{
    line->bad = bad;
    return FP_EINVAL;
}

/* The numbers at the front; *words is the rest. */
static int read_numbers(struct field_line *line, struct fp_slice *words)
{
    struct fp_fields *fields = line->fields;
    const char *at = line->sample->fields.at, *end = at + line->sample->fields.size;
    uint32_t likely = fields->count, n = 0;
    struct fp_number number;
    int err = 0;

    line->changes = (fp_metric_set){{0}};
    while (at < end && err == 0) {
        struct fp_slice hint = fp_strings_at(line->strings, n < likely ? fields->key[n] : 0);

        if (!fp_parse_number(line->sample->dialect, &at, end, hint, &number))
            break;
        if (n == FP_METRICS_MOST)
            return refuse(line, "too many different metrics");
        if (hint.size == 0 || !fp_slice_is(number.key, hint))
            err = fp_strings_intern(line->strings, line->budget, number.key, &fields->key[n]);
        if (number.is_change)
            fp_metric_add(&line->changes, n);
        fields->value[n] = number.value;
        fields->delta[n++] = number.delta;
    }
    fields->count = n;
    *words = (struct fp_slice){at, (size_t)(end - at)};
    return err;
}

/* In format 2 a colon in a word is encoded, too: other programs look for one in the header. */
static int intern_words(struct field_line *line, struct fp_slice words)
{
    char plain[WORDS_BYTES_MOST];
    size_t size = 0;

    line->bad = fp_parse_words(line->sample, words);
    if (line->bad != NULL)
        return FP_EINVAL;
    if (!line->sample->is_carried || memmem(words.at, words.size, "%3A", 3) == NULL)
        return fp_strings_intern(line->strings, line->budget, words, &line->fields->words);
    if (words.size > sizeof(plain))
        return refuse(line, "words that are too long");
    for (size_t i = 0; i < words.size; i++) {
        bool is_colon = words.size - i >= 3 && memcmp(words.at + i, "%3A", 3) == 0;

        plain[size++] = is_colon ? ':' : words.at[i];
        i += is_colon ? 2 : 0;
    }
    return fp_strings_intern(line->strings, line->budget, (struct fp_slice){plain, size},
                             &line->fields->words);
}

/* ---- what is carried ---------------------------------------------------- */

static int keep(struct fp_carry *carry, struct field_line *line)
{
    const struct fp_fields *fields = line->fields;
    struct fp_carried *process;
    int err = find_or_add(carry, line->budget, &line->sample->header, &process);

    if (err == 0)
        err = FP_GROW(line->budget, &process->number, &process->room, fields->count);
    if (err != 0)
        return err;
    for (uint32_t i = 0; i < fields->count; i++)
        process->number[i] = (struct carried_number){fields->key[i], fields->value[i]};
    process->count = fields->count;
    process->words = fields->words;
    process->damages = carry->damages;
    return 0;
}

/* One that has all fields of its process. */
static int read_whole(struct fp_carry *carry, struct field_line *line, struct fp_slice words)
{
    int err = intern_words(line, words);

    if (err == 0 && fp_metric_any(&line->changes))
        return refuse(line, "a change of a number that is not known");
    return err == 0 && line->sample->is_carried ? keep(carry, line) : err;
}

/* The numbers of the sample before, with those of this one over them, which have the same order. */
static int read_changes(struct field_line *line, struct fp_carried *process)
{
    struct fp_fields *fields = line->fields;
    const struct fp_fields changed = *fields;
    uint32_t n = 0;

    fields->count = process->count;
    fields->words = process->words;
    for (uint32_t i = 0; i < process->count; i++) {
        bool is_here = n < changed.count && changed.key[n] == process->number[i].key;
        int64_t value = process->number[i].value;

        fields->key[i] = process->number[i].key;
        fields->delta[i] = is_here ? changed.delta[n] : 0;
        if (is_here && fp_metric_has(&line->changes, n))
            value = (int64_t)((uint64_t)value + (uint64_t)changed.delta[n]);
        else if (is_here)
            value = changed.value[n];
        fields->value[i] = value;
        n += is_here;
    }
    if (n < changed.count)
        return refuse(line, "a change of a number that is not known");
    for (uint32_t i = 0; i < process->count; i++)
        process->number[i].value = fields->value[i];
    return 0;
}

/* ---- the profiler itself ------------------------------------------------ */

/* A sample of it is one of several lines if it is long (doc/format.md): the last one gets the
 * numbers of those before it. */
static int join_own(struct fp_carry *carry, struct field_line *line, struct fp_slice words)
{
    static const struct fp_slice mark = FP_SLICE(" continues=");
    struct fp_carried_numbers *begun = &carry->begun;
    struct fp_fields *fields = line->fields;
    uint32_t before = begun->damages == carry->damages ? begun->count : 0;

    if (!fp_sample_is_own(line->sample) || !line->sample->is_carried)
        return 0;
    if (before + fields->count > FP_METRICS_MOST)
        return refuse(line, "too many different metrics");
    memcpy(begun->key + before, fields->key, fields->count * sizeof(*fields->key));
    memcpy(begun->value + before, fields->value, fields->count * sizeof(*fields->value));
    memcpy(begun->delta + before, fields->delta, fields->count * sizeof(*fields->delta));
    begun->count = before + fields->count;
    begun->damages = carry->damages;
    fields->is_begun = memmem(words.at, words.size, mark.at, mark.size) != NULL;
    if (fields->is_begun)
        return 0;
    memcpy(fields->key, begun->key, sizeof(fields->key));
    memcpy(fields->value, begun->value, sizeof(fields->value));
    memcpy(fields->delta, begun->delta, sizeof(fields->delta));
    fields->count = begun->count;
    begun->count = 0;
    return 0;
}

int fp_carry_read(struct fp_carry *carry, struct fp_strings *strings, struct fp_budget *budget,
                  const struct fp_sample *sample, struct fp_fields *fields, const char **bad)
{
    struct field_line line = {
        .strings = strings, .budget = budget, .sample = sample, .fields = fields, .bad = NULL};
    struct fp_slice words;
    struct fp_carried *process = NULL;
    int err;

    fields->is_begun = false;
    err = read_numbers(&line, &words);
    if (err == 0) {
        line.bad = fp_split_words(sample, &words, &fields->of_sample);
        err = line.bad == NULL ? 0 : FP_EINVAL;
    }
    if (err == 0)
        err = join_own(carry, &line, words);
    if (fields->is_begun) {
        *bad = NULL;
        return err;
    }
    if (err == 0 && (words.size > 0 || !sample->is_carried)) {
        err = read_whole(carry, &line, words);
    } else if (err == 0) {
        process = find(carry, &sample->header);
        if (process != NULL && process->damages == carry->damages)
            err = read_changes(&line, process);
        else
            fields->count = fields->words = 0;
    }
    *bad = line.bad;
    return err;
}

void fp_carry_damage(struct fp_carry *carry)
{
    carry->damages++;
}

void fp_carry_free(struct fp_carry *carry, struct fp_budget *budget)
{
    for (size_t i = 0; i < carry->count; i++)
        FP_FREE(budget, carry->process[i].number, carry->process[i].room);
    FP_FREE(budget, carry->process, carry->room);
    fp_table_free(&carry->table, budget);
}
