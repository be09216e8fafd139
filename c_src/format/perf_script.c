/*
 * perf_script.c - records in, text out.
 *
 * What is costly is done once and kept: a stack's lines with the stack
 * (stack_text.c), names and root lines with the process (process_text.c), and
 * for a process that does not move its whole metrics line. A sample is then
 * five copies:
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
    struct fp_process_text text; /* .bytes NULL: not defined */
    char *quiet; /* the metrics line with all deltas 0; made when needed */
    uint32_t quiet_size, quiet_room; /* quiet_size == 0: not made */
    uint32_t number, serial;
    bool sampled; /* value[] holds the last sample */
    /* REPEATs that wait to be written as one sample; 0: none. */
    uint32_t held, held_stack, held_place;
    int64_t held_time_us; /* of the latest */
    int64_t last_time_us;
    int64_t value[FP_METRIC_COUNT];
};

struct fp_perf_script {
    struct fp_perf_script_options options;
    struct fp_stacks *stacks;
    struct process process[FP_PROCESS_SLOTS];
    int64_t last_time_us;
    /* The slots of the processes that hold something, held_n of them; and how
     * many of them hold a stack. */
    uint32_t held[FP_PROCESS_SLOTS], held_n;
    uint32_t held_at; /* where fp_perf_script_held() goes on */
    uint16_t stack_held[FP_STACK_SLOTS];
    uint64_t looks;           /* that `out` stands for */
    struct process own;       /* of the profiler itself: its last time only */
    struct fp_pool pool;      /* of the processes' texts and quiet lines */
    struct fp_buffer out;     /* the sample handed to the caller */
    struct fp_buffer scratch; /* a process being rendered */
};

int fp_perf_script_create(struct fp_perf_script **script,
                          const struct fp_perf_script_options *options)
{
    struct fp_perf_script *made = fp_pages_take(sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->options = *options;
    if (made->options.pid_number_bits == 0)
        made->options.pid_number_bits = 28;
    if (fp_stacks_create(&made->stacks, options->symbolizer,
                         options->flatten_recursive, options->text_bytes,
                         options->stats) != 0) {
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
    fp_pages_give(script, sizeof(*script));
}

void fp_perf_script_recode(struct fp_perf_script *script)
{
    fp_stacks_recode(script->stacks);
}

/* ---- PROCESS ---------------------------------------------------------- */

/* A process is defined anew when it has got another name: its last values
 * stay, and a REPEAT may follow. */
static int define_process(struct fp_perf_script *script,
                          const struct fp_record_process *record)
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
    return fp_process_text_render(
        &process->text, &script->pool, &script->scratch, script->options.os_pid,
        script->options.pid_number_bits, script->options.symbolizer, record);
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
#define METRICS_BYTES_MAX                                                      \
    (1 + FP_METRIC_COUNT * (KEY_BYTES_MAX + 2 * FP_I64_DIGITS + 1))

#define METRIC_KEY_FITS(name)                                                  \
    _Static_assert(sizeof(" " #name "=") <= KEY_BYTES_MAX, #name);
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
        char *larger = fp_pool_take(&script->pool, room);

        if (larger == NULL)
            return FP_ENOMEM;
        fp_pool_give(&script->pool, process->quiet, process->quiet_room);
        process->quiet = larger;
        process->quiet_room = (uint32_t)room;
    }
    end = put_piece(fp_put(process->quiet, line, metrics_size),
                    &process->text.words);
    process->quiet_size = (uint32_t)(end - process->quiet);
    return 0;
}

/* When this sample is said to be: not before the one written last, after the
 * process's own last one, and not on a whole second. Clocks are set back;
 * readers do not forgive it. Ticks are 100 us apart or more, so moving by a
 * microsecond does not change their order. */
static int64_t choose_time(struct fp_perf_script *script,
                           struct process *process, int64_t time_us)
{
    if (time_us < script->last_time_us)
        time_us = script->last_time_us;
    if (time_us <= process->last_time_us)
        time_us = process->last_time_us + 1;
    if (time_us % 1000000 == 0)
        time_us++;
    script->last_time_us = time_us;
    process->last_time_us = time_us;
    return time_us;
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

/* Initial call and $initial_call, outwards from the stack's last frame, each
 * unless it is already there. */
static char *put_roots(char *out, const struct process *process,
                       uint64_t last_function)
{
    const struct fp_root *roots[] = {&process->text.initial,
                                     &process->text.proc_lib};

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
#define STATUS_LINE(name)                                                      \
    [FP_STATUS_##name] = FP_PIECE(FP_FRAME_ADDRESS #name " (status)\n\n"),
        FP_STATUS_MAP(STATUS_LINE)
#undef STATUS_LINE
    };

    return fp_put(out, lines[status].text, lines[status].size);
}

static const char no_frames[] = FP_FRAME_ADDRESS "no_frames (flame_prof)\n";

/* All of the constants that a sample can have. */
#define CONSTANT_BYTES_MAX 256

/* One sample, which stands for so many looks. */
static int put_sample(struct fp_perf_script *script, struct process *process,
                      const struct fp_stack_text *stack,
                      const struct fp_record_sample *record, uint64_t looks)
{
    bool is_repeat = record->head.type == FP_RECORD_REPEAT;
    char *out, *frames;
    int err;

    err = fp_buffer_reserve(
        &script->out,
        CONSTANT_BYTES_MAX + METRICS_BYTES_MAX + process->quiet_size +
            process->text.begin.size + process->text.words.size + stack->size +
            process->text.initial.line.size + process->text.proc_lib.line.size);
    if (err != 0)
        return err;
    out = put_piece(fp_buffer_at(&script->out), &process->text.begin);
    out = put_time(out, choose_time(script, process, record->time_us));
    out = FP_PUT_LITERAL(out, ": ");
    if (looks > 1) {
        out = fp_put_u64(out, looks);
        *out++ = ' ';
    }
    out = FP_PUT_LITERAL(out, "cpu-clock:\n");
    if (is_repeat)
        out = fp_put(out, process->quiet, process->quiet_size);
    else
        out = put_piece(put_metrics(out, record->value, record->delta),
                        &process->text.words);
    frames = out;
    out = fp_put(out, stack->lines, stack->size);
    out = put_roots(out, process, stack->last_function);
    if (out == frames)
        out = FP_PUT_LITERAL(out, no_frames);
    fp_buffer_end(&script->out, put_status(out, record->head.status));
    script->looks += looks;
    fp_counters_add(script->options.stats, FP_COUNTER_merged, looks - 1);
    return 0;
}

/* ---- what is held ----------------------------------------------------- */

/* A process of which nothing moves is written so often. */
#define HELD_US 1000000

static void hold(struct fp_perf_script *script, struct process *process,
                 const struct fp_record_sample *record)
{
    if (process->held++ == 0) {
        process->held_place = script->held_n;
        process->held_stack = record->stack;
        script->held[script->held_n++] = record->process;
        script->stack_held[record->stack]++;
    }
    process->held_time_us = record->time_us;
}

static void unhold(struct fp_perf_script *script, struct process *process)
{
    uint32_t moved = script->held[--script->held_n];

    script->held[process->held_place] = moved;
    script->process[moved].held_place = process->held_place;
    script->stack_held[process->held_stack]--;
    process->held = 0;
}

/* What process `slot` holds to `out`, as the last REPEAT with their number as
 * its period. When there is no memory it is still held. */
static int release(struct fp_perf_script *script, uint32_t slot)
{
    struct process *process = &script->process[slot];
    struct fp_record_sample repeat = {
        .head = {FP_RECORD_REPEAT_SIZE, FP_RECORD_REPEAT, FP_STATUS_waiting, 0},
        .time_us = process->held_time_us,
    };
    struct fp_stack_text stack;
    int err;

    if (process->held == 0)
        return 0;
    err = fp_stacks_text(script->stacks, process->held_stack, &stack);
    if (err == 0)
        err = render_quiet(script, process);
    if (err == 0)
        err = put_sample(script, process, &stack, &repeat, process->held);
    if (err == 0)
        unhold(script, process);
    return err;
}

/* The slot is to be another stack: who holds it has to be written before. */
static int release_stack(struct fp_perf_script *script,
                         const struct fp_record_stack *record)
{
    uint32_t i = 0;
    int err = 0;

    if (record->head.size < sizeof(*record) || record->slot >= FP_STACK_SLOTS)
        return 0; /* is refused by who defines it */
    while (err == 0 && script->stack_held[record->slot] > 0) {
        uint32_t slot = script->held[i];

        if (script->process[slot].held_stack == record->slot)
            err = release(script, slot); /* another takes its place */
        else
            i++;
    }
    return err;
}

static int release_process(struct fp_perf_script *script,
                           const struct fp_record_process *record)
{
    if (record->head.size < offsetof(struct fp_record_process, text) ||
        record->slot >= FP_PROCESS_SLOTS)
        return 0;
    return release(script, record->slot);
}

/* As asked for, or to keep within the budget. */
static bool is_merging(const struct fp_perf_script *script)
{
    return script->options.merge_idle ||
           fp_governed((uint32_t)fp_counters_get(script->options.stats,
                                                 FP_COUNTER_budget_step))
               .merge_idle;
}

static bool may_be_held(const struct fp_perf_script *script,
                        const struct process *process,
                        const struct fp_record_sample *record)
{
    return is_merging(script) && record->head.type == FP_RECORD_REPEAT &&
           record->head.status == FP_STATUS_waiting &&
           (process->held == 0 || process->held_stack == record->stack);
}

static bool is_left(const struct fp_perf_script *script, uint32_t slot)
{
    return script->last_time_us - script->process[slot].held_time_us >= HELD_US;
}

int fp_perf_script_held(struct fp_perf_script *script, enum fp_held which,
                        const char **text, size_t *size)
{
    int err = 0;

    script->out.size = 0;
    script->looks = 0;
    while (err == 0 && script->out.size == 0 &&
           script->held_at < script->held_n) {
        uint32_t slot = script->held[script->held_at];

        if (which == FP_HELD_ALL || is_left(script, slot))
            err = release(script, slot); /* another takes its place */
        else
            script->held_at++;
    }
    if (script->out.size == 0)
        script->held_at = 0; /* the next call begins anew */
    *text = script->out.bytes;
    *size = script->out.size;
    return err;
}

uint64_t fp_perf_script_weight(const struct fp_perf_script *script)
{
    return script->looks;
}

/* `record` has only the bytes of a REPEAT when it is one. */
static int write_sample(struct fp_perf_script *script,
                        const struct fp_record_sample *record)
{
    bool is_repeat = record->head.type == FP_RECORD_REPEAT, is_held;
    struct process *process;
    struct fp_stack_text stack;
    int err;

    if (record->head.size <
            (is_repeat ? FP_RECORD_REPEAT_SIZE : sizeof(*record)) ||
        record->head.status >= FP_STATUS_COUNT ||
        record->time_us > FP_TIME_US_MAX || record->process >= FP_PROCESS_SLOTS)
        return FP_EINVAL;
    process = &script->process[record->process];
    if (process->text.bytes == NULL)
        return FP_EINVAL;
    is_held = may_be_held(script, process, record);
    if (!is_held && release(script, record->process) != 0)
        return FP_ENOMEM;
    /* First of all: a REPEAT may follow, whatever becomes of this sample. */
    if (!is_repeat) {
        memcpy(process->value, record->value, sizeof(process->value));
        process->quiet_size = 0;
        process->sampled = true;
    } else if (!process->sampled) {
        return FP_EINVAL;
    }
    err = fp_stacks_text(script->stacks, record->stack, &stack);
    if (err == 0 && is_held) {
        hold(script, process, record);
        return record->time_us - process->last_time_us < HELD_US
                   ? 0
                   : release(script, record->process);
    }
    if (err == 0 && is_repeat)
        err = render_quiet(script, process);
    return err != 0 ? err : put_sample(script, process, &stack, record, 1);
}

/* ---- the profiler itself ---------------------------------------------- */

/* No process of Erlang's has it before 2^28 processes were started. */
#define OWN_TID 0x7fffffff
#define OWN_SLACK_US 1000000

/* What other nodes tell may be any numbers: then it wraps around. */
static int64_t grown(int64_t before, int64_t now)
{
    return (int64_t)((uint64_t)now - (uint64_t)before);
}

static char *put_figures(char *out, const struct fp_gauges *now,
                         const struct fp_gauges *before)
{
    for (uint32_t i = 0; i < now->n; i++) {
        const struct fp_figure *figure = &now->figure[i];
        const struct fp_figure *old = fp_gauges_find(before, figure->name);

        *out++ = ' ';
        out = fp_put(out, figure->name, strlen(figure->name));
        *out++ = '=';
        out = fp_put_i64(out, figure->value);
        *out++ = '/';
        out =
            fp_put_i64(out, old == NULL ? 0 : grown(old->value, figure->value));
    }
    return out;
}

/* A tick has the time at which it began: samples of an earlier time may still
 * come, and are not to be moved behind this one. */
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

int fp_perf_script_self(struct fp_perf_script *script,
                        const struct fp_self_sample *sample, const char **text,
                        size_t *size)
{
    char *out;
    int err;

    script->out.size = 0;
    script->looks = 0;
    err = fp_buffer_reserve(
        &script->out,
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
        out = put_figures(out, sample->now[i], sample->before[i]);
    out = FP_PUT_LITERAL(out, " name=flame_prof engine=");
    out = fp_put(out, sample->engine, strlen(sample->engine));
    if (sample->note[0] != '\0') {
        out = FP_PUT_LITERAL(out, " trigger=");
        out += fp_perf_script_encode(sample->note, strlen(sample->note), out);
    }
    out = FP_PUT_LITERAL(out, " (metrics)\n" FP_FRAME_ADDRESS
                              "flame_prof_self (flame_prof)\n");
    fp_buffer_end(&script->out, put_status(out, FP_STATUS_waiting));
    *text = script->out.bytes;
    *size = script->out.size;
    return 0;
}

static int take(struct fp_perf_script *script, const struct fp_record *record)
{
    const void *whole = record;
    int err;

    switch (record->type) {
    case FP_RECORD_PROCESS:
        err = release_process(script, whole);
        return err != 0 ? err : define_process(script, whole);
    case FP_RECORD_FRAME:
        return fp_stacks_define_frame(script->stacks, whole);
    case FP_RECORD_NAME:
        return fp_stacks_define_name(script->stacks, whole);
    case FP_RECORD_STACK:
        err = release_stack(script, whole);
        return err != 0 ? err : fp_stacks_define(script->stacks, whole);
    case FP_RECORD_SAMPLE:
    case FP_RECORD_REPEAT:
        return write_sample(script, whole);
    default:
        return FP_EINVAL;
    }
}

int fp_perf_script_record(struct fp_perf_script *script,
                          const struct fp_record *record, const char **text,
                          size_t *size)
{
    int err;

    script->out.size = 0;
    script->looks = 0;
    err = take(script, record);
    *text = script->out.bytes;
    *size = script->out.size;
    return err;
}
