/*
 * perf_script.c - records in, text out.
 *
 * Costly text is rendered once: a stack's lines with the stack (write_stack.c), names and root
 * lines with the process (write_process.c), and the metrics line of a process whose metrics do not
 * change. A sample is then five copies:
 *
 *      header            process->text.begin, time
 *      metrics line      formatted for a SAMPLE, process->quiet for a REPEAT
 *      stack lines       the stack's text
 *      root lines        process->text, those that the stack lacks
 *      status line       a constant, with the empty line that ends a sample
 */
#include "format/perf_script.h"

#include <stdbool.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/governor.h"
#include "base/pages.h"
#include "base/pool.h"
#include "format/write_frame.h"
#include "format/write_process.h"
#include "format/write_stack.h"

struct process {
    struct fp_process_text text;     /* .bytes NULL: not defined */
    char *quiet;                     /* the metrics line with all deltas 0; made when needed */
    uint32_t quiet_size, quiet_room; /* quiet_size == 0: not made */
    uint32_t number, serial;
    bool sampled; /* value[] holds the last sample */
    /* REPEATs that wait to be written as one sample; 0: none. */
    uint32_t merged, merged_stack, merged_place;
    int64_t merged_time_us; /* of the latest */
    int64_t last_time_us;
    int64_t value[FP_METRIC_COUNT];
};

struct fp_perf_script {
    struct fp_perf_script_options options;
    struct fp_stacks *stacks;
    struct process process[FP_PROCESS_SLOTS];
    int64_t last_time_us;
    int64_t step_us; /* added to times when they are written */
    /* The slots of the processes with merged REPEATs, merging_n of them; and how many of them have
     * each stack. */
    uint32_t merging[FP_PROCESS_SLOTS], merging_n;
    uint32_t merging_at; /* where fp_perf_script_merged() goes on */
    uint16_t stack_merging[FP_STACK_SLOTS];
    uint64_t weight;          /* of the text in `out` */
    struct process own;       /* of the profiler itself: its last time only */
    struct fp_pool pool;      /* of the processes' texts and quiet lines */
    struct fp_buffer out;     /* the sample handed to the caller */
    struct fp_buffer scratch; /* a process being rendered */
};

int fp_perf_script_create(struct fp_perf_script **script,
                          const struct fp_perf_script_options *options)
{
    struct fp_perf_script *made = fp_pages_alloc(sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->options = *options;
    if (made->options.pid_number_bits == 0)
        made->options.pid_number_bits = 28;
    if (fp_stacks_create(&made->stacks, options->symbolizer, options->flatten_recursive,
                         options->text_bytes, options->stats) != 0) {
        fp_perf_script_destroy(made);
        return FP_ENOMEM;
    }
    *script = made;
    return 0;
}

void fp_perf_script_destroy(struct fp_perf_script *script)
{
    if (script == NULL)
        return;
    fp_pool_destroy(&script->pool);
    fp_stacks_destroy(script->stacks);
    fp_buffer_free(&script->out);
    fp_buffer_free(&script->scratch);
    fp_pages_free(script, sizeof(*script));
}

void fp_perf_script_recode(struct fp_perf_script *script)
{
    fp_stacks_recode(script->stacks);
}

/* ---- PROCESS ---------------------------------------------------------- */

/* A process that gets another name is defined anew and keeps its last values, so that a REPEAT may
 * follow. */
static int define_process(struct fp_perf_script *script, const struct fp_record_process *record)
{
    struct process *process;

    if (record->head.size < offsetof(struct fp_record_process, text) ||
        record->slot >= FP_PROCESS_SLOTS)
        return FP_EINVAL;
    process = &script->process[record->slot];
    fp_process_text_free(&process->text, &script->pool);
    process->quiet_size = 0;
    if (process->number != record->number || process->serial != record->serial)
        process->sampled = false;
    process->number = record->number;
    process->serial = record->serial;
    return fp_process_text_render(&process->text, &script->pool, &script->scratch,
                                  script->options.os_pid, script->options.pid_number_bits,
                                  script->options.symbolizer, record);
}

/* ---- SAMPLE, REPEAT --------------------------------------------------- */

/* Keys with what separates them from the value before. */
static const struct fp_piece metric_keys[FP_METRIC_COUNT] = {
#define METRIC_KEY(name) [FP_METRIC_##name] = FP_PIECE(" " #name "="),
    FP_METRIC_MAP(METRIC_KEY)
#undef METRIC_KEY
};

/* A bound for what put_metrics() writes. */
#define KEY_BYTES_MAX 32
#define METRICS_BYTES_MAX (1 + FP_METRIC_COUNT * (KEY_BYTES_MAX + 2 * FP_I64_DIGITS + 1))

#define METRIC_KEY_FITS(name) _Static_assert(sizeof(" " #name "=") <= KEY_BYTES_MAX, #name);
FP_METRIC_MAP(METRIC_KEY_FITS)
#undef METRIC_KEY_FITS

/* `delta` NULL: all are 0. */
static char *put_metrics(char *out, const int64_t *value, const int64_t *delta)
{
    *out++ = '#';
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        out = fp_put(out, metric_keys[i].text, metric_keys[i].size);
        out = fp_put_i64(out, value[i]);
        *out++ = '/';
        out = fp_put_i64(out, delta == NULL ? 0 : delta[i]);
    }
    return out;
}

static char *put_piece(char *out, const struct fp_piece *piece)
{
    return fp_put(out, piece->text, piece->size);
}

/* The metrics line with all deltas 0, kept until the next SAMPLE. */
static int render_quiet(struct fp_perf_script *script, struct process *process)
{
    char line[METRICS_BYTES_MAX];
    size_t metrics_size, room;
    char *end;

    if (process->quiet_size != 0)
        return 0;
    metrics_size = (size_t)(put_metrics(line, process->value, NULL) - line);
    room = metrics_size + process->text.words.size;
    if (room > process->quiet_room) {
        char *larger = fp_pool_alloc(&script->pool, room);

        if (larger == NULL)
            return FP_ENOMEM;
        fp_pool_free(&script->pool, process->quiet, process->quiet_room);
        process->quiet = larger;
        process->quiet_room = (uint32_t)room;
    }
    end = put_piece(fp_put(process->quiet, line, metrics_size), &process->text.words);
    process->quiet_size = (uint32_t)(end - process->quiet);
    return 0;
}

/* The time to write for this sample: not before the one written last, after the process's own last
 * one, and not on a whole second. Ticks are 100 us apart or more, so that moving by a microsecond
 * keeps their order. */
static int64_t choose_time(struct fp_perf_script *script, struct process *process, int64_t time_us)
{
    if (time_us < script->last_time_us)
        time_us = script->last_time_us;
    if (time_us <= process->last_time_us)
        time_us = process->last_time_us + 1;
    if ((time_us + script->step_us) % 1000000 == 0)
        time_us++;
    script->last_time_us = time_us;
    process->last_time_us = time_us;
    return time_us + script->step_us;
}

void fp_perf_script_set_step(struct fp_perf_script *script, int64_t step_us)
{
    /* No time before 1970. */
    script->step_us = step_us < -script->last_time_us ? -script->last_time_us : step_us;
}

static char *put_time(char *out, int64_t time_us)
{
    char micros[FP_U64_DIGITS];

    out = fp_put_i64(out, time_us / 1000000);
    /* 1000000 + x has seven digits: the first one makes the zeros. */
    fp_put_i64(micros, 1000000 + time_us % 1000000);
    micros[0] = '.';
    return fp_put(out, micros, 7);
}

/* Initial call and $initial_call, outwards from the stack's last frame, each unless it is already
 * there. */
static char *put_roots(char *out, const struct process *process, uint64_t last_function)
{
    const struct fp_root *roots[] = {&process->text.initial, &process->text.proc_lib};

    for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
        if (roots[i]->line.size == 0 || roots[i]->function == last_function)
            continue;
        out = put_piece(out, &roots[i]->line);
        last_function = roots[i]->function;
    }
    return out;
}

static char *put_status(char *out, uint8_t status)
{
    static const struct fp_piece lines[FP_STATUS_COUNT] = {
#define STATUS_LINE(name) [FP_STATUS_##name] = FP_PIECE(FP_FRAME_ADDRESS #name " (status)\n\n"),
        FP_STATUS_MAP(STATUS_LINE)
#undef STATUS_LINE
    };

    return fp_put(out, lines[status].text, lines[status].size);
}

static const char no_frames[] = FP_FRAME_ADDRESS "no_frames (flame_prof)\n";

/* All of the constants that a sample can have. */
#define CONSTANT_BYTES_MAX 256

/* One sample of this weight: the number of observations. */
static int put_sample(struct fp_perf_script *script, struct process *process,
                      const struct fp_stack_text *stack, const struct fp_record_sample *record,
                      uint64_t weight)
{
    bool is_repeat = record->head.type == FP_RECORD_REPEAT;
    char *out, *frames;
    int err;

    err = fp_buffer_reserve(&script->out,
                            CONSTANT_BYTES_MAX + METRICS_BYTES_MAX + process->quiet_size +
                                process->text.begin.size + process->text.words.size + stack->size +
                                process->text.initial.line.size + process->text.proc_lib.line.size);
    if (err != 0)
        return err;
    out = put_piece(fp_buffer_at(&script->out), &process->text.begin);
    out = put_time(out, choose_time(script, process, record->time_us));
    out = FP_PUT_LITERAL(out, ": ");
    if (weight > 1) {
        out = fp_put_u64(out, weight);
        *out++ = ' ';
    }
    out = FP_PUT_LITERAL(out, "cpu-clock:\n");
    if (is_repeat)
        out = fp_put(out, process->quiet, process->quiet_size);
    else
        out = put_piece(put_metrics(out, record->value, record->delta), &process->text.words);
    frames = out;
    out = fp_put(out, stack->lines, stack->size);
    out = put_roots(out, process, stack->last_function);
    if (out == frames)
        out = FP_PUT_LITERAL(out, no_frames);
    fp_buffer_end(&script->out, put_status(out, record->head.status));
    script->weight += weight;
    fp_counters_add(script->options.stats, FP_COUNTER_merged, weight - 1);
    return 0;
}

/* ---- merging ---------------------------------------------------------- */

/* A process whose REPEATs are merged is written so often. */
#define MERGED_US 1000000

static void merge(struct fp_perf_script *script, struct process *process,
                  const struct fp_record_sample *record)
{
    if (process->merged++ == 0) {
        process->merged_place = script->merging_n;
        process->merged_stack = record->stack;
        script->merging[script->merging_n++] = record->process;
        script->stack_merging[record->stack]++;
    }
    process->merged_time_us = record->time_us;
}

/* The last slot of merging[] moves to the place of this process. */
static void end_merge(struct fp_perf_script *script, struct process *process)
{
    uint32_t moved = script->merging[--script->merging_n];

    script->merging[process->merged_place] = moved;
    script->process[moved].merged_place = process->merged_place;
    script->stack_merging[process->merged_stack]--;
    process->merged = 0;
}

/* The merged REPEATs of process `slot` to `out`, as the last of them with their number as its
 * period. Without memory they stay merged. */
static int write_merged(struct fp_perf_script *script, uint32_t slot)
{
    struct process *process = &script->process[slot];
    struct fp_record_sample repeat = {
        .head = {FP_RECORD_REPEAT_SIZE, FP_RECORD_REPEAT, FP_STATUS_waiting, 0},
        .time_us = process->merged_time_us,
    };
    struct fp_stack_text stack;
    int err;

    if (process->merged == 0)
        return 0;
    err = fp_stacks_text(script->stacks, process->merged_stack, &stack);
    if (err == 0)
        err = render_quiet(script, process);
    if (err == 0)
        err = put_sample(script, process, &stack, &repeat, process->merged);
    if (err == 0)
        end_merge(script, process);
    return err;
}

/* Before a stack's slot is defined anew: the merged REPEATs that have it. */
static int write_merged_of_stack(struct fp_perf_script *script,
                                 const struct fp_record_stack *record)
{
    uint32_t i = 0;
    int err = 0;

    if (record->head.size < sizeof(*record) || record->slot >= FP_STACK_SLOTS)
        return 0; /* fp_stacks_define() refuses it */
    while (err == 0 && script->stack_merging[record->slot] > 0) {
        uint32_t slot = script->merging[i];

        if (script->process[slot].merged_stack == record->slot)
            err = write_merged(script, slot); /* merging[i] is another now */
        else
            i++;
    }
    return err;
}

static int write_merged_of_process(struct fp_perf_script *script,
                                   const struct fp_record_process *record)
{
    if (record->head.size < offsetof(struct fp_record_process, text) ||
        record->slot >= FP_PROCESS_SLOTS)
        return 0; /* define_process() refuses it */
    return write_merged(script, record->slot);
}

/* By option, or by the governor. */
static bool is_merging(const struct fp_perf_script *script)
{
    return script->options.merge_idle ||
           fp_governed((uint32_t)fp_counters_get(script->options.stats, FP_COUNTER_budget_step))
               .merge_idle;
}

static bool may_be_merged(const struct fp_perf_script *script, const struct process *process,
                          const struct fp_record_sample *record)
{
    return is_merging(script) && record->head.type == FP_RECORD_REPEAT &&
           record->head.status == FP_STATUS_waiting &&
           (process->merged == 0 || process->merged_stack == record->stack);
}

static bool is_left(const struct fp_perf_script *script, uint32_t slot)
{
    return script->last_time_us - script->process[slot].merged_time_us >= MERGED_US;
}

int fp_perf_script_merged(struct fp_perf_script *script, enum fp_merged which, const char **text,
                          size_t *size)
{
    int err = 0;

    script->out.size = 0;
    script->weight = 0;
    while (err == 0 && script->out.size == 0 && script->merging_at < script->merging_n) {
        uint32_t slot = script->merging[script->merging_at];

        if (which == FP_MERGED_ALL || is_left(script, slot))
            err = write_merged(script, slot); /* merging[] has another there */
        else
            script->merging_at++;
    }
    if (script->out.size == 0)
        script->merging_at = 0; /* the next call starts from the first */
    *text = script->out.bytes;
    *size = script->out.size;
    return err;
}

uint64_t fp_perf_script_weight(const struct fp_perf_script *script)
{
    return script->weight;
}

/* `record` has only the bytes of a REPEAT when it is one. */
static int write_sample(struct fp_perf_script *script, const struct fp_record_sample *record)
{
    bool is_repeat = record->head.type == FP_RECORD_REPEAT, is_merged;
    struct process *process;
    struct fp_stack_text stack;
    int err;

    if (record->head.size < (is_repeat ? FP_RECORD_REPEAT_SIZE : sizeof(*record)) ||
        record->head.status >= FP_STATUS_COUNT || record->time_us > FP_TIME_US_MAX ||
        record->process >= FP_PROCESS_SLOTS)
        return FP_EINVAL;
    process = &script->process[record->process];
    if (process->text.bytes == NULL)
        return FP_EINVAL;
    is_merged = may_be_merged(script, process, record);
    if (!is_merged && write_merged(script, record->process) != 0)
        return FP_ENOMEM;
    /* Before anything can fail: a REPEAT may follow. */
    if (!is_repeat) {
        memcpy(process->value, record->value, sizeof(process->value));
        process->quiet_size = 0;
        process->sampled = true;
    } else if (!process->sampled) {
        return FP_EINVAL;
    }
    err = fp_stacks_text(script->stacks, record->stack, &stack);
    if (err == 0 && is_merged) {
        merge(script, process, record);
        return record->time_us - process->last_time_us < MERGED_US
                   ? 0
                   : write_merged(script, record->process);
    }
    if (err == 0 && is_repeat)
        err = render_quiet(script, process);
    return err != 0 ? err : put_sample(script, process, &stack, record, 1);
}

/* ---- the profiler itself ---------------------------------------------- */

/* The tid of no Erlang process before 2^28 processes were started. */
#define OWN_TID 0x7fffffff
#define OWN_SLACK_US 1000000

/* Gauges of other nodes may be any numbers: the difference wraps around. */
static int64_t difference(int64_t before, int64_t now)
{
    return (int64_t)((uint64_t)now - (uint64_t)before);
}

static char *put_gauges(char *out, const struct fp_gauges *now, const struct fp_gauges *before)
{
    for (uint32_t i = 0; i < now->n; i++) {
        const struct fp_gauge *gauge = &now->gauge[i];
        const struct fp_gauge *old = fp_gauges_find(before, gauge->name);

        *out++ = ' ';
        out = fp_put(out, gauge->name, strlen(gauge->name));
        *out++ = '=';
        out = fp_put_i64(out, gauge->value);
        *out++ = '/';
        out = fp_put_i64(out, old == NULL ? 0 : difference(old->value, gauge->value));
    }
    return out;
}

/* Samples have the time at which their tick began, and some of an earlier time may come after this
 * one: it leaves them a second. */
static int64_t own_time(struct fp_perf_script *script, int64_t now_us)
{
    int64_t time_us = script->last_time_us;

    if (time_us < now_us - OWN_SLACK_US)
        time_us = now_us - OWN_SLACK_US;
    return choose_time(script, &script->own, time_us);
}

int fp_perf_script_has_time(const struct fp_perf_script *script)
{
    return !script->options.is_elsewhere || script->last_time_us > 0;
}

int fp_perf_script_self(struct fp_perf_script *script, const struct fp_self_sample *sample,
                        const char **text, size_t *size)
{
    char *out;
    int err;

    script->out.size = 0;
    script->weight = 0;
    err = fp_buffer_reserve(&script->out,
                            CONSTANT_BYTES_MAX + strlen(sample->engine) + 3 * strlen(sample->note) +
                                2 * FP_GAUGES_MAX * (FP_GAUGES_NAME_ROOM + 2 * FP_I64_DIGITS + 3));
    if (err != 0)
        return err;
    out = FP_PUT_LITERAL(script->out.bytes, "beam ");
    out = fp_put_u64(out, script->options.os_pid);
    *out++ = '/';
    out = fp_put_u64(out, OWN_TID);
    out = FP_PUT_LITERAL(out, " [000] ");
    out = put_time(out, own_time(script, sample->now_us));
    out = FP_PUT_LITERAL(out, ": cpu-clock:\n#");
    for (int i = 0; i < 2; i++)
        out = put_gauges(out, sample->now[i], sample->before[i]);
    out = FP_PUT_LITERAL(out, " name=flame_prof engine=");
    out = fp_put(out, sample->engine, strlen(sample->engine));
    if (sample->note[0] != '\0') {
        out = FP_PUT_LITERAL(out, " trigger=");
        out += fp_perf_script_encode(sample->note, strlen(sample->note), out);
    }
    out = FP_PUT_LITERAL(out, " (metrics)\n" FP_FRAME_ADDRESS "flame_prof_self (flame_prof)\n");
    fp_buffer_end(&script->out, put_status(out, FP_STATUS_waiting));
    *text = script->out.bytes;
    *size = script->out.size;
    return 0;
}

static int handle(struct fp_perf_script *script, const struct fp_record *record)
{
    const void *whole = record;
    int err;

    switch (record->type) {
    case FP_RECORD_PROCESS:
        err = write_merged_of_process(script, whole);
        return err != 0 ? err : define_process(script, whole);
    case FP_RECORD_FRAME:
        return fp_stacks_define_frame(script->stacks, whole);
    case FP_RECORD_NAME:
        return fp_stacks_define_name(script->stacks, whole);
    case FP_RECORD_STACK:
        err = write_merged_of_stack(script, whole);
        return err != 0 ? err : fp_stacks_define(script->stacks, whole);
    case FP_RECORD_SAMPLE:
    case FP_RECORD_REPEAT:
        return write_sample(script, whole);
    default:
        return FP_EINVAL;
    }
}

int fp_perf_script_record(struct fp_perf_script *script, const struct fp_record *record,
                          const char **text, size_t *size)
{
    int err;

    script->out.size = 0;
    script->weight = 0;
    err = handle(script, record);
    *text = script->out.bytes;
    *size = script->out.size;
    return err;
}
