/*
 * export_perf.c - a profile as `perf script` text again, with one metric as the period:
 * doc/format.md's weighted export.
 */
#include <stdbool.h>

#include "base/assume.h"
#include "report/export.h"

/* The grammar's rules for a file as a whole: times in order, growing within a tid, the last one not
 * on a whole second (so that none is). */
struct writing {
    struct fp_profile *profile;
    struct fp_output *output;
    const struct fp_by *by;
    int64_t *last_us; /* by process */
    size_t room;
    int64_t now_us;
    uint64_t samples, moved;
};

static bool is_comm_character(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!is_first && (c == '.' || c == '@' || c == '-'));
}

/* [A-Za-z_][A-Za-z_.@-]{1,31}: other characters become underscores. */
static void put_comm(struct fp_output *output, struct fp_slice comm)
{
    char text[32];
    size_t size = comm.size < sizeof(text) ? comm.size : sizeof(text);

    if (size < 2) {
        FP_OUTPUT_LITERAL(output, "beam");
        return;
    }
    for (size_t i = 0; i < size; i++)
        text[i] = is_comm_character(comm.at[i], i == 0) ? comm.at[i] : '_';
    fp_output_put(output, text, size);
}

/* One event in the whole file, in one word of at most 40 characters. */
static void put_event(struct fp_output *output, struct fp_slice event)
{
    char text[40];
    size_t size = event.size < sizeof(text) ? event.size : sizeof(text);

    for (size_t i = 0; i < size; i++)
        text[i] = is_comm_character(event.at[i], false) ? event.at[i] : '_';
    if (size == 0)
        FP_OUTPUT_LITERAL(output, "cpu-clock");
    else
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

static void put_header(struct writing *writing, const struct fp_row *row, uint64_t weight)
{
    const struct fp_profile *profile = writing->profile;
    const struct fp_process *process = &profile->process[row->process];
    struct fp_output *output = writing->output;
    int64_t time = in_order(writing, row);
    char micros[7] = {'.'};

    for (int i = 6, rest = (int)(time % 1000000); i > 0; i--, rest /= 10)
        micros[i] = (char)('0' + rest % 10);
    put_comm(output, fp_profile_text(profile, process->comm));
    FP_OUTPUT_LITERAL(output, " ");
    /* The original has none: a number of its own for each process. */
    fp_output_number(output, process->pid > 0 ? (int64_t)process->pid : 1);
    FP_OUTPUT_LITERAL(output, "/");
    fp_output_number(output, process->tid > 0 ? (int64_t)process->tid : (int64_t)row->process + 1);
    FP_OUTPUT_LITERAL(output, " [000] ");
    fp_output_number(output, time / 1000000);
    fp_output_put(output, micros, sizeof(micros));
    FP_OUTPUT_LITERAL(output, ": ");
    if (weight != 1) {
        fp_output_number(output, (int64_t)weight);
        FP_OUTPUT_LITERAL(output, " ");
    }
    put_event(output, fp_profile_text(profile, profile->event[0]));
    FP_OUTPUT_LITERAL(output, ":\n");
}

/* The one metric and the words, so that names are there when it is read. */
static void put_metrics(struct writing *writing, const struct fp_row *row)
{
    const struct fp_profile *profile = writing->profile;
    const struct fp_process *process = &profile->process[row->process];
    struct fp_output *output = writing->output;
    struct fp_by by = *writing->by;
    int64_t value, delta;

    if (by.kind < FP_BY_VALUE)
        return;
    by.kind = FP_BY_VALUE;
    if (!fp_row_metric(profile, &by, row, &value))
        return;
    by.kind = FP_BY_DELTA;
    fp_row_metric(profile, &by, row, &delta);
    FP_OUTPUT_LITERAL(output, "# ");
    fp_output_text(output, fp_profile_text(profile, profile->metric[by.metric].name));
    FP_OUTPUT_LITERAL(output, "=");
    fp_output_number(output, value);
    FP_OUTPUT_LITERAL(output, "/");
    fp_output_number(output, delta);
    if (process->words != 0) {
        FP_OUTPUT_LITERAL(output, " ");
        fp_output_text(output, fp_profile_text(profile, process->words));
    }
    FP_OUTPUT_LITERAL(output, " (metrics)\n");
}

static void put_frame(struct fp_output *output, struct fp_slice symbol, struct fp_slice dso)
{
    FP_OUTPUT_LITERAL(output, "\tffffffff ");
    fp_output_text(output, symbol);
    FP_OUTPUT_LITERAL(output, " (");
    fp_output_text(output, dso);
    FP_OUTPUT_LITERAL(output, ")\n");
}

static void put_stack(struct writing *writing, const struct fp_row *row, int64_t weight)
{
    const struct fp_profile *profile = writing->profile;
    const struct fp_tree *tree = &profile->tree;
    const struct fp_stack_ids *stack = &tree->stack[row->stack];
    struct fp_slice status = fp_profile_text(profile, stack->status);

    for (uint32_t n = stack->node; n != 0; n = tree->node[n].parent) {
        const struct fp_frame_ids *frame = &tree->frame[tree->node[n].frame];

        put_frame(writing->output, fp_profile_text(profile, frame->symbol),
                  fp_profile_text(profile, frame->dso));
    }
    if (writing->by->kind == FP_BY_DELTA)
        put_frame(writing->output, weight < 0 ? FP_SLICE("negative") : FP_SLICE("positive"),
                  FP_SLICE("sign"));
    put_frame(writing->output, status.size == 0 ? FP_SLICE("unknown") : status, FP_SLICE("status"));
    FP_OUTPUT_LITERAL(writing->output, "\n");
}

static void put_row(struct writing *writing, const struct fp_row *row)
{
    int64_t weight;
    uint64_t period;

    if (!fp_row_weight(writing->profile, writing->by, row, &weight) || weight == 0)
        return;
    period = weight < 0 ? 0 - (uint64_t)weight : (uint64_t)weight;
    if (period > INT64_MAX)
        period = INT64_MAX;
    put_header(writing, row, period);
    put_metrics(writing, row);
    put_stack(writing, row, weight);
    writing->samples++;
}

int fp_export_perf(struct fp_profile *profile, const struct fp_by *by, struct fp_output *output,
                   uint64_t *samples, uint64_t *moved)
{
    struct writing writing = {.profile = profile, .output = output, .by = by};
    struct fp_budget *budget = &profile->budget;
    struct fp_cursor cursor;
    struct fp_row row;
    int more = FP_GROW(budget, &writing.last_us, &writing.room, profile->process_count);

    if (more != 0)
        return more;
    for (size_t i = 0; i < writing.room; i++)
        writing.last_us[i] = -1;
    fp_cursor_open(&cursor, &profile->rows, profile->schema, budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0)
        put_row(&writing, &row);
    fp_cursor_close(&cursor);
    FP_FREE(budget, writing.last_us, writing.room);
    *samples = writing.samples;
    *moved = writing.moved;
    return more;
}
