/* other_nodes.c - the ticks of nodes that are waited for, sorted. */
#include "report/other_nodes.h"

#include <stdlib.h>

#include "report/sample_words.h"

/* ---- the node of a file --------------------------------------------------- */

int fp_file_note_node(struct fp_profile *profile, struct fp_file *file,
                      const struct fp_process *own)
{
    struct fp_slice words = fp_profile_text(profile, own->words), key, text;
    const char *at = words.at, *end = at + words.size;

    while (at < end && fp_parse_word(&at, end, &key, &text)) {
        if (!fp_slice_is(key, FP_SLICE("node")))
            continue;
        file->pid = own->pid;
        return fp_profile_word(profile, text, &file->node);
    }
    return 0;
}

bool fp_file_is_told_apart(struct fp_profile *profile)
{
    struct fp_file *last = &profile->file[profile->file_count - 1];
    bool is_told = true;

    for (size_t i = 0; i + 1 < profile->file_count && last->node != 0; i++) {
        struct fp_file *file = &profile->file[i];

        if (file->node != 0 && file->node != last->node && file->pid == last->pid &&
            file->first_us <= last->last_us && last->first_us <= file->last_us) {
            file->node = 0;
            is_told = false;
        }
    }
    if (!is_told)
        last->node = 0;
    return is_told;
}

/* ---- targets ---------------------------------------------------------------- */

/* The texts of words have a plain colon, those of processes an encoded one. */
static bool is_name(struct fp_slice word, struct fp_slice name)
{
    size_t at = 0;

    for (size_t i = 0; i < name.size; i++, at++) {
        bool is_colon = name.size - i >= 3 && memcmp(name.at + i, "%3A", 3) == 0;

        if (at == word.size || word.at[at] != (is_colon ? ':' : name.at[i]))
            return false;
        i += is_colon ? 2 : 0;
    }
    return at == word.size;
}

/* The same for both. */
static uint64_t hash_of_word(struct fp_slice word)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < word.size; i++)
        hash = fp_hash_two(hash, (unsigned char)word.at[i]);
    return hash;
}

static uint64_t hash_of_name(struct fp_slice name)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < name.size; i++) {
        bool is_colon = name.size - i >= 3 && memcmp(name.at + i, "%3A", 3) == 0;

        hash = fp_hash_two(hash, (unsigned char)(is_colon ? ':' : name.at[i]));
        i += is_colon ? 2 : 0;
    }
    return hash;
}

/* All processes, by name and by pid. */
static int index_processes(struct fp_other_nodes *nodes)
{
    struct fp_profile *profile = nodes->profile;
    int err = 0;

    for (size_t p = 0; p < profile->process_count && err == 0; p++) {
        const struct fp_process *process = &profile->process[p];
        const uint32_t text[] = {process->name, process->erl_pid};

        for (size_t i = 0; i < 2 && err == 0 && !process->is_own; i++)
            if (text[i] != 0)
                err = fp_table_put(&nodes->names, &profile->budget,
                                   hash_of_name(fp_profile_text(profile, text[i])), (uint32_t)p);
    }
    return err;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static int add_processes(struct fp_other_nodes *nodes, struct fp_slice name,
                         struct fp_node_target *target)
{
    struct fp_profile *profile = nodes->profile;
    bool is_pid = name.size > 0 && name.at[0] == '<';
    struct fp_table_at at;
    uint32_t p;
    int err = nodes->names.count == 0 ? index_processes(nodes) : 0;

    target->first = (uint32_t)nodes->process_count;
    fp_table_seek(&nodes->names, hash_of_word(name), &at);
    while (err == 0 && fp_table_next(&nodes->names, &at, &p)) {
        const struct fp_process *process = &profile->process[p];
        uint32_t text = is_pid ? process->erl_pid : process->name;

        if (text == 0 || !is_name(name, fp_profile_text(profile, text)))
            continue;
        err = FP_GROW(&profile->budget, &nodes->process, &nodes->process_room,
                      nodes->process_count + 1);
        if (err == 0)
            nodes->process[nodes->process_count++] = p;
    }
    target->count = (uint32_t)(nodes->process_count - target->first);
    if (target->count > 1)
        qsort(&nodes->process[target->first], target->count, sizeof(*nodes->process),
              compare_numbers);
    return err;
}

static uint32_t node_in_files(const struct fp_profile *profile, struct fp_slice name)
{
    for (size_t i = 0; i < profile->file_count; i++) {
        uint32_t node = profile->file[i].node;

        if (node != 0 && fp_slice_is(fp_profile_text(profile, node), name))
            return node;
    }
    return 0;
}

/* Words with one text have one target. */
static int find_targets(struct fp_other_nodes *nodes, uint32_t *known)
{
    struct fp_profile *profile = nodes->profile;
    int err = 0;

    for (size_t i = 1; i < profile->words_count && err == 0; i++) {
        uint32_t text = profile->words[i].waits_for;
        struct fp_slice word = fp_profile_text(profile, text), node = word;
        const char *slash = word.size == 0 ? NULL : memchr(word.at, '/', word.size);

        if (slash == NULL)
            continue;
        if (known[text] != 0) {
            nodes->target[i] = nodes->target[known[text]];
            continue;
        }
        known[text] = (uint32_t)i;
        node.size = (size_t)(slash - word.at);
        nodes->target[i].node = node_in_files(profile, node);
        if (nodes->target[i].node != 0)
            err = add_processes(nodes, (struct fp_slice){slash + 1, word.size - node.size - 1},
                                &nodes->target[i]);
    }
    return err;
}

/* ---- ticks ------------------------------------------------------------------ */

static int add_row(struct fp_other_nodes *nodes, const struct fp_row *row, uint32_t node)
{
    struct fp_budget *budget = &nodes->profile->budget;
    struct fp_node_tick *last = nodes->tick_count == 0 ? NULL : &nodes->tick[nodes->tick_count - 1];
    int err = FP_GROW(budget, &nodes->sample, &nodes->sample_room, nodes->sample_count + 1);

    if (err == 0 && (last == NULL || last->time_us != row->time_us || last->file != row->file)) {
        err = FP_GROW(budget, &nodes->tick, &nodes->tick_room, nodes->tick_count + 1);
        if (err == 0)
            nodes->tick[nodes->tick_count++] = (struct fp_node_tick){.time_us = row->time_us,
                                                                     .node = node,
                                                                     .file = row->file,
                                                                     .first = nodes->sample_count};
    }
    if (err != 0)
        return err;
    nodes->tick[nodes->tick_count - 1].count++;
    nodes->sample[nodes->sample_count++] =
        (struct fp_node_sample){row->process, row->stack, row->words};
    return 0;
}

static int compare_samples(const void *a, const void *b)
{
    const struct fp_node_sample *x = a, *y = b;

    return x->process < y->process ? -1 : x->process > y->process;
}

static int compare_ticks(const void *a, const void *b)
{
    const struct fp_node_tick *x = a, *y = b;

    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    if (x->time_us != y->time_us)
        return x->time_us < y->time_us ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* `is_waited_for`: by text of a node. */
static int find_ticks(struct fp_other_nodes *nodes, const uint8_t *is_waited_for)
{
    struct fp_profile *profile = nodes->profile;
    struct fp_cursor cursor;
    struct fp_row row;
    int more, err = 0;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (err == 0 && (more = fp_cursor_next(&cursor, &row)) != 0) {
        uint32_t node = more < 0 ? 0 : profile->file[row.file].node;

        if (more < 0)
            err = more;
        else if (is_waited_for[node] && !profile->process[row.process].is_own)
            err = add_row(nodes, &row, node);
    }
    fp_cursor_close(&cursor);
    for (size_t i = 0; i < nodes->tick_count; i++)
        qsort(&nodes->sample[nodes->tick[i].first], nodes->tick[i].count, sizeof(*nodes->sample),
              compare_samples);
    if (nodes->tick_count > 0)
        qsort(nodes->tick, nodes->tick_count, sizeof(*nodes->tick), compare_ticks);
    return err;
}

int fp_other_nodes_open(struct fp_other_nodes *nodes, struct fp_profile *profile)
{
    struct fp_budget *budget = &profile->budget;
    size_t texts = profile->strings.count, waited_for = 0, marks_room = 0, known_room = 0;
    uint8_t *marks = NULL;
    uint32_t *known = NULL;
    int err;

    *nodes = (struct fp_other_nodes){.profile = profile};
    err = FP_GROW_ZEROS(budget, &nodes->target, &nodes->target_room, profile->words_count);
    if (err == 0)
        err = FP_GROW_ZEROS(budget, &known, &known_room, texts);
    if (err == 0)
        err = FP_GROW_ZEROS(budget, &marks, &marks_room, texts);
    if (err == 0)
        err = find_targets(nodes, known);
    for (size_t i = 1; i < profile->words_count && err == 0; i++) {
        waited_for += nodes->target[i].node != 0;
        marks[nodes->target[i].node] = nodes->target[i].node != 0;
    }
    if (err == 0 && waited_for > 0)
        err = find_ticks(nodes, marks);
    FP_FREE(budget, known, known_room);
    FP_FREE(budget, marks, marks_room);
    return err;
}

void fp_other_nodes_close(struct fp_other_nodes *nodes)
{
    struct fp_budget *budget = &nodes->profile->budget;

    FP_FREE(budget, nodes->target, nodes->target_room);
    FP_FREE(budget, nodes->process, nodes->process_room);
    FP_FREE(budget, nodes->tick, nodes->tick_room);
    FP_FREE(budget, nodes->sample, nodes->sample_room);
    fp_table_free(&nodes->names, budget);
}

/* ---- looking up ------------------------------------------------------------- */

/* How long a tick holds on each side. */
static uint64_t held_us(const struct fp_other_nodes *nodes, size_t t)
{
    const struct fp_node_tick *tick = &nodes->tick[t];
    uint64_t before = UINT64_MAX, after = UINT64_MAX;

    if (t > 0 && tick[-1].node == tick->node)
        before = (uint64_t)tick->time_us - (uint64_t)tick[-1].time_us;
    if (t + 1 < nodes->tick_count && tick[1].node == tick->node)
        after = (uint64_t)tick[1].time_us - (uint64_t)tick->time_us;
    if (before == UINT64_MAX && after == UINT64_MAX)
        return 0;
    return before < after ? before : after;
}

const struct fp_node_tick *fp_other_nodes_tick(const struct fp_other_nodes *nodes, uint32_t node,
                                               int64_t time_us)
{
    size_t low = 0, high = nodes->tick_count;
    uint64_t best_us = UINT64_MAX;
    const struct fp_node_tick *best = NULL;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct fp_node_tick *tick = &nodes->tick[middle];

        if (tick->node < node || (tick->node == node && tick->time_us < time_us))
            low = middle + 1;
        else
            high = middle;
    }
    /* The one before, then the one at or behind the time. */
    for (size_t t = low == 0 ? 0 : low - 1; t <= low && t < nodes->tick_count; t++) {
        const struct fp_node_tick *tick = &nodes->tick[t];
        uint64_t us = tick->time_us < time_us ? (uint64_t)time_us - (uint64_t)tick->time_us
                                              : (uint64_t)tick->time_us - (uint64_t)time_us;

        if (tick->node == node && us < best_us && us <= held_us(nodes, t)) {
            best_us = us;
            best = tick;
        }
    }
    return best;
}

const struct fp_node_sample *fp_other_nodes_sample(const struct fp_other_nodes *nodes,
                                                   const struct fp_node_tick *tick,
                                                   uint32_t process)
{
    struct fp_node_sample key = {.process = process};

    return tick->count == 0 ? NULL
                            : bsearch(&key, &nodes->sample[tick->first], tick->count, sizeof(key),
                                      compare_samples);
}
