/* export_perf.c - a profile as `perf script` text again, with one metric as the period:
 * doc/format.md's weighted export. */
#include <stdbool.h>

#include "base/assume.h"
#include "format/write_frame.h"
#include "report/chains.h"
#include "report/export.h"
#include "report/text.h"

/* doc/format.md: 253 with the sign and the status. */
#define FRAMES_MOST 251

/* The grammar's rules for a file as a whole: times in order and growing within a tid; the last one
 * is not on a whole second, so none is. */
struct writing {
    struct fp_profile *profile;
    struct fp_output *output;
    const struct fp_query *query;
    struct fp_aggregate sums; /* its tree, of chains or without lines */
    int64_t *last_us;         /* by process */
    size_t room;
    char *text; /* for a name */
    int64_t now_us;
    uint64_t samples, moved;
};

static bool is_word_character(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!is_first && (c == '.' || c == '@' || c == '-'));
}

/* A comm, [A-Za-z_][A-Za-z_.@-]{1,30}, or the file's event, at most 40 characters: others than
 * those become underscores. */
static void put_word(struct fp_output *output, struct fp_slice word, bool is_comm)
{
    char text[40];
    size_t most = is_comm ? 31 : sizeof(text), size = word.size < most ? word.size : most;

    if (size < (is_comm ? 2 : 1)) {
        fp_output_text(output, is_comm ? FP_SLICE("beam") : FP_SLICE("cpu-clock"));
        return;
    }
    for (size_t i = 0; i < size; i++)
        text[i] = is_word_character(word.at[i], is_comm && i == 0) ? word.at[i] : '_';
    fp_output_put(output, text, size);
}

static int64_t in_order(struct writing *writing, const struct fp_row *row)
{
    int64_t *last = &writing->last_us[row->process], time = row->time_us;

    FP_ASSUME(last != NULL); /* process_count counts it */
    if (time < writing->now_us)
        time = writing->now_us;
    if (*last >= time)
        time = *last + 1;
    if (time % 1000000 == 0)
        time++;
    writing->moved += time != row->time_us;
    writing->now_us = time;
    *last = time;
    return time;
}

/* ` [003] `: a scheduler, or perf's CPU, which the reader numbers from 1. */
static void put_cpu(struct writing *writing, const struct fp_row *row)
{
    bool is_of_perf = writing->profile->file[row->file].dialect == FP_PERF;
    uint32_t cpu = row->scheduler - (is_of_perf && row->scheduler > 0);

    FP_OUTPUT_LITERAL(writing->output, " [");
    fp_output_put(writing->output, "00", cpu < 10 ? 2 : cpu < 100 ? 1 : 0);
    fp_output_number(writing->output, (int64_t)cpu);
    FP_OUTPUT_LITERAL(writing->output, "] ");
}

static void put_header(struct writing *writing, const struct fp_row *row, uint64_t weight)
{
    const struct fp_profile *profile = writing->profile;
    const struct fp_process *process = &profile->process[row->process];
    struct fp_output *output = writing->output;
    int64_t time = in_order(writing, row);
    char micros[7] = {'.'};

    for (int i = 6, rest = (int)(time % 1000000); i > 0; i--, rest /= 10)
        micros[i] = (char)('0' + rest % 10);
    put_word(output, fp_profile_text(profile, process->comm), true);
    FP_OUTPUT_LITERAL(output, " ");
    /* The original has neither: each process gets a number of its own. init has the tid 0. */
    fp_output_number(output, process->pid > 0 ? (int64_t)process->pid : 1);
    FP_OUTPUT_LITERAL(output, "/");
    fp_output_number(output, process->pid > 0 ? (int64_t)process->tid : (int64_t)row->process + 1);
    put_cpu(writing, row);
    fp_output_number(output, time / 1000000);
    fp_output_put(output, micros, sizeof(micros));
    FP_OUTPUT_LITERAL(output, ": ");
    if (weight != 1) {
        fp_output_number(output, (int64_t)weight);
        FP_OUTPUT_LITERAL(output, " ");
    }
    put_word(output, fp_profile_text(profile, profile->event[row->event]), false);
    FP_OUTPUT_LITERAL(output, ":\n");
}

/* In files of others a name may have what the grammar has encoded. */
static void put_name(struct writing *writing, struct fp_slice name)
{
    fp_output_text(writing->output, fp_text_visible(name, writing->text));
}

/* The one metric, and the words, which hold the names. */
static void put_metrics(struct writing *writing, const struct fp_row *row)
{
    const struct fp_profile *profile = writing->profile;
    const struct fp_process *process = &profile->process[row->process];
    struct fp_output *output = writing->output;
    int metric = writing->query->by.metric, place;

    if (writing->query->by.kind < FP_BY_VALUE)
        return;
    place = fp_profile_place(profile, row, metric);
    if (row->value[place] < 0)
        return;
    FP_OUTPUT_LITERAL(output, "# ");
    fp_output_text(output, fp_profile_text(profile, profile->metric[metric].name));
    FP_OUTPUT_LITERAL(output, "=");
    fp_output_number(output, row->value[place]);
    FP_OUTPUT_LITERAL(output, "/");
    fp_output_number(output, row->delta[place]);
    if (process->words != 0) {
        FP_OUTPUT_LITERAL(output, " ");
        put_name(writing, fp_profile_text(profile, process->words));
    }
    FP_OUTPUT_LITERAL(output, " (metrics)\n");
}

/* Without its line, or behind `waits for`, a symbol ends at another byte than in the file. */
static void put_symbol(struct writing *writing, struct fp_slice symbol)
{
    symbol = fp_text_visible(symbol, writing->text);
    if (symbol.at != writing->text)
        memcpy(writing->text, symbol.at, symbol.size);
    fp_output_put(
        writing->output, writing->text,
        (size_t)(fp_encode_17th_byte(writing->text, writing->text + symbol.size) - writing->text));
}

static void put_frame(struct writing *writing, struct fp_slice symbol, struct fp_slice dso)
{
    struct fp_output *output = writing->output;

    FP_OUTPUT_LITERAL(output, "\tffffffff ");
    put_symbol(writing, symbol);
    FP_OUTPUT_LITERAL(output, " (");
    put_name(writing, dso);
    FP_OUTPUT_LITERAL(output, ")\n");
}

static void put_stack(struct writing *writing, const struct fp_row *row, int64_t weight,
                      uint32_t node)
{
    const struct fp_aggregate *sums = &writing->sums;
    const struct fp_tree *tree = &writing->profile->tree;
    struct fp_slice status = fp_profile_text(writing->profile, tree->stack[row->stack].status);

    while (node != 0) {
        put_frame(writing, fp_aggregate_symbol(sums, node), fp_aggregate_dso(sums, node));
        node = sums->map == NULL ? tree->node[node].parent : sums->node[node].parent;
    }
    if (writing->query->by.kind == FP_BY_DELTA)
        put_frame(writing, weight < 0 ? FP_SLICE("negative") : FP_SLICE("positive"),
                  FP_SLICE("sign"));
    put_frame(writing, status.size == 0 ? FP_SLICE("unknown") : status, FP_SLICE("status"));
    FP_OUTPUT_LITERAL(writing->output, "\n");
}

static int put_sample(void *arg, const struct fp_row *row, int64_t weight, uint32_t node)
{
    struct writing *writing = arg;
    uint64_t period = fp_magnitude(weight);

    put_header(writing, row, period > INT64_MAX ? INT64_MAX : period);
    put_metrics(writing, row);
    put_stack(writing, row, weight, node);
    writing->samples++;
    return 0;
}

static int put_rows(struct writing *writing)
{
    const struct fp_profile *profile = writing->profile;
    const uint32_t *map = writing->sums.map;
    struct fp_cursor cursor;
    struct fp_row row;
    int64_t weight;
    int more;

    if (writing->query->with_chains)
        return fp_chains_each(&writing->sums, writing->query, FRAMES_MOST, put_sample, writing);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &writing->profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        uint32_t node = profile->tree.stack[row.stack].node;

        if (fp_row_weight(profile, writing->query, &row, &weight) && weight != 0)
            put_sample(writing, &row, weight, map == NULL ? node : map[node]);
    }
    fp_cursor_close(&cursor);
    return more;
}

int fp_export_perf(struct fp_profile *profile, const struct fp_query *query,
                   struct fp_output *output, uint64_t *samples, uint64_t *moved)
{
    struct writing writing = {
        .profile = profile, .output = output, .query = query, .sums.profile = profile};
    struct fp_budget *budget = &profile->budget;
    int err = FP_GROW(budget, &writing.last_us, &writing.room, profile->process_count);

    for (size_t i = 0; i < writing.room; i++)
        writing.last_us[i] = -1;
    if (err == 0)
        err = fp_aggregate_open(&writing.sums, profile, query);
    writing.text = malloc(FP_TEXT_ROOM(profile->strings.size));
    if (err == 0 && writing.text == NULL)
        err = FP_ENOMEM;
    if (err == 0)
        err = put_rows(&writing);
    free(writing.text);
    fp_aggregate_free(&writing.sums);
    FP_FREE(budget, writing.last_us, writing.room);
    *samples = writing.samples;
    *moved = writing.moved;
    return err;
}
