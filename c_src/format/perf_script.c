/* perf_script.c - records in, text out.
 *
 * Costly text is rendered once: a stack's lines with the stack (write_stack.c), names and root
 * lines with the process (write_process.c). A sample is then copies:
 *
 *      header            process->text.begin, time
 *      fields            the numbers that have changed; of a whole sample all, and the words;
 *                        the words of the sample (write_work.c)
 *      event             a constant
 *      stack lines       the stack's text
 *      root lines        process->text.root, those that the stack lacks
 *      status line       a constant, with the empty line that ends a sample
 *
 * Samples of another kind are written elsewhere: the profiler's own (write_self.c), and WEIGHTED
 * records (write_weighted.c). */
#include "format/perf_script.h"

#include "base/error.h"
#include "base/governor.h"
#include "base/pages.h"
#include "format/encode.h"
#include "format/write_frame.h"
#include "format/write_numbers.h"
#include "format/write_process.h"
#include "format/write_self.h"
#include "format/write_stack.h"
#include "format/write_weighted.h"
#include "format/write_work.h"

struct process {
    struct fp_process_text text;
    uint32_t number, serial;
    bool is_scheduler;
    bool is_defined; /* `text` is of the process that has the slot now */
    bool sampled;    /* value[] holds the last sample */
    /* REPEATs that wait to be written as one sample; 0: none. */
    uint32_t merged, merged_stack, merged_place;
    int64_t merged_time_us; /* of the latest */
    int64_t last_time_us;
    int64_t value[FP_METRIC_COUNT];
    uint64_t block; /* that the last sample was written to; 0: it was not, or names have changed */
};

struct fp_perf_script {
    struct fp_perf_script_options options;
    struct fp_stacks *stacks;
    struct process process[FP_PROCESS_SLOTS];
    int64_t last_time_us, own_time_us; /* of all, and of the profiler's own samples */
    int64_t step_us;                   /* added to times when they are written */
    /* The slots of the processes with merged REPEATs, merging_n of them; and how many of them have
     * each stack. */
    uint32_t merging[FP_PROCESS_SLOTS], merging_n;
    uint32_t merging_at; /* where fp_perf_script_merged() goes on */
    uint16_t stack_merging[FP_STACK_SLOTS];
    int64_t governed_us; /* the tick that is_merging is of */
    bool is_merging;
    uint64_t weight; /* of the text in `out` */
    uint64_t block;  /* that the text goes to */
    struct fp_work_atoms atoms;
    struct fp_arena arena;    /* of the processes' texts */
    struct fp_buffer out;     /* the sample that the caller gets */
    struct fp_buffer scratch; /* what is being rendered */
};

int fp_perf_script_create(struct fp_perf_script **script,
                          const struct fp_perf_script_options *options)
{
    struct fp_perf_script *made = fp_pages_alloc(sizeof(*made));

    if (made == NULL)
        return FP_ENOMEM;
    made->options = *options;
    made->block = 1;
    if (made->options.event == NULL)
        made->options.event = "cpu-clock";
    if (made->options.pid_number_bits == 0)
        made->options.pid_number_bits = 28;
    if (fp_stacks_create(&made->stacks, &made->options) != 0) {
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
    fp_arena_free(&script->arena);
    fp_stacks_destroy(script->stacks);
    fp_buffer_free(&script->out);
    fp_buffer_free(&script->scratch);
    fp_pages_free(script, sizeof(*script));
}

void fp_perf_script_recode(struct fp_perf_script *script)
{
    fp_stacks_recode(script->stacks);
}

/* ---- the parts of a sample --------------------------------------------- */

static char *put_slice(char *out, struct fp_slice slice)
{
    return fp_put(out, slice.at, slice.size);
}

static bool is_first(const struct fp_perf_script *script, const struct process *process)
{
    return process->block != script->block;
}

/* Numbers and words, each with a blank behind it. */
static char *put_fields(struct fp_perf_script *script, struct process *process, char *out,
                        const int64_t *value, const int64_t *delta)
{
    if (is_first(script, process)) {
        out = fp_put_numbers(out, value, delta);
        out = put_slice(out, process->text.words);
        process->block = script->block;
    } else {
        out = fp_put_changes(out, process->value, value, delta);
    }
    return out;
}

void fp_perf_script_set_block(struct fp_perf_script *script, uint64_t block)
{
    script->block = block;
}

/* The time to write for a sample: not before the one written last, after the process's own last one
 * (*last_us), and not on a whole second. Ticks are 100 us apart or more, so moving by a microsecond
 * keeps their order. */
static int64_t choose_time(struct fp_perf_script *script, int64_t *last_us, int64_t time_us)
{
    if (time_us < script->last_time_us)
        time_us = script->last_time_us;
    if (time_us <= *last_us)
        time_us = *last_us + 1;
    if ((time_us + script->step_us) % 1000000 == 0)
        time_us++;
    script->last_time_us = *last_us = time_us;
    return time_us + script->step_us;
}

void fp_perf_script_set_step(struct fp_perf_script *script, int64_t step_us)
{
    /* No time before 1970. */
    script->step_us = step_us < -script->last_time_us ? -script->last_time_us : step_us;
}

static char *put_status(char *out, uint8_t status)
{
    static const char *const lines[FP_STATUS_COUNT] = {
#define STATUS_LINE(name) [FP_STATUS_##name] = FP_FRAME_ADDRESS #name " (status)\n\n",
        FP_STATUS_MAP(STATUS_LINE)
#undef STATUS_LINE
    };

    return fp_put(out, lines[status], strlen(lines[status]));
}

static char *put_event(const struct fp_perf_script *script, char *out)
{
    return FP_PUT_LITERAL(fp_put(out, script->options.event, strlen(script->options.event)), ":\n");
}

/* All of the constants that a sample can have, with the event. */
#define CONSTANT_BYTES_MAX 320

/* One sample of this weight: the number of observations. */
static int put_sample(struct fp_perf_script *script, struct process *process,
                      const struct fp_stack_text *stack, const struct fp_record_sample *record,
                      uint64_t weight)
{
    static const int64_t no_delta[FP_METRIC_COUNT];
    bool is_repeat = record->head.type == FP_RECORD_REPEAT;
    const struct fp_work *work = fp_record_work(&record->head);
    char *out, *frames;
    int err = fp_buffer_reserve(&script->out, CONSTANT_BYTES_MAX + FP_NUMBERS_BYTES_MAX +
                                                  process->text.text.size + stack->lines.size +
                                                  (work == NULL ? 0 : FP_WORK_BYTES_MAX));

    if (err != 0)
        return err;
    out = put_slice(fp_buffer_at(&script->out), process->text.begin);
    if (record->head.count != 0)
        out = fp_put_scheduler(out, record->head.count);
    out = fp_put_time(out, choose_time(script, &process->last_time_us, record->time_us));
    out = FP_PUT_LITERAL(out, ": ");
    if (!is_repeat)
        out = put_fields(script, process, out, record->value, record->delta);
    else if (is_first(script, process))
        out = put_fields(script, process, out, process->value, no_delta);
    if (work != NULL)
        out = fp_put_work(out, &script->atoms, script->options.symbolizer, work);
    if (weight > 1) {
        out = fp_put_u64(out, weight);
        *out++ = ' ';
    }
    out = put_event(script, out);
    frames = out;
    out = put_slice(out, stack->lines);
    out = fp_put_roots(out, &process->text, stack->last_function);
    if (out == frames)
        out = FP_PUT_LITERAL(out, FP_FRAME_ADDRESS "no_frames (flame_prof)\n");
    fp_buffer_end(&script->out, put_status(out, record->head.status));
    script->weight += weight;
    if (weight > 1)
        fp_counters_add(script->options.stats, FP_COUNTER_merged, weight - 1);
    return 0;
}

/* stackcollapse-perf.pl reads a period only directly behind the time: where fields have to stand
 * there, the first observation is a sample of its own. */
static int put_merged(struct fp_perf_script *script, struct process *process,
                      const struct fp_stack_text *stack, struct fp_record_sample *repeat)
{
    if (process->merged > 1 && is_first(script, process)) {
        int err;

        repeat->time_us--;
        err = put_sample(script, process, stack, repeat, 1);
        repeat->time_us++;
        if (err != 0)
            return err;
        process->merged--;
    }
    return put_sample(script, process, stack, repeat, process->merged);
}

/* ---- merging ---------------------------------------------------------- */

/* How often a process whose REPEATs are merged is written. */
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
        .head = {.type = FP_RECORD_REPEAT, .status = FP_STATUS_waiting},
        .time_us = process->merged_time_us,
    };
    struct fp_stack_text stack;
    int err;

    if (process->merged == 0)
        return 0;
    err = fp_stacks_text(script->stacks, process->merged_stack, &stack);
    if (err == 0)
        err = put_merged(script, process, &stack, &repeat);
    if (err == 0)
        end_merge(script, process);
    return err;
}

static bool is_same(const struct process *process, const struct fp_record_process *record)
{
    return process->number == record->number && process->serial == record->serial &&
           process->is_scheduler == record->is_scheduler;
}

/* Before a process is defined: the merged REPEATs of its slot, and its own in a slot that it has
 * left. Readers know it by its tid: what they read has to be in the order in which it was sampled,
 * as a sample leaves out what is as it was before. */
static int write_merged_of_process(struct fp_perf_script *script,
                                   const struct fp_record_process *record)
{
    struct process *process = &script->process[record->slot];
    int err = write_merged(script, record->slot);
    uint32_t i = 0;

    while (err == 0 && i < script->merging_n) {
        struct process *left = &script->process[script->merging[i]];

        if (is_same(left, record)) {
            err = write_merged(script, script->merging[i]); /* merging[i] is another now */
            if (process->last_time_us < left->last_time_us)
                process->last_time_us = left->last_time_us;
        } else {
            i++;
        }
    }
    return err;
}

/* Before a stack's slot is defined anew: the merged REPEATs that have it. */
static int write_merged_of_stack(struct fp_perf_script *script, uint32_t stack)
{
    uint32_t i = 0;
    int err = 0;

    while (err == 0 && script->stack_merging[stack] > 0) {
        uint32_t slot = script->merging[i];

        if (script->process[slot].merged_stack == stack)
            err = write_merged(script, slot); /* merging[i] is another now */
        else
            i++;
    }
    return err;
}

/* By option, or by the governor, whose step is read once a tick: the sampler writes to its line. */
static bool is_merging(struct fp_perf_script *script, int64_t tick_us)
{
    uint64_t step;

    if (tick_us != script->governed_us) {
        step = fp_counters_get(script->options.stats, FP_COUNTER_budget_step);
        script->governed_us = tick_us;
        script->is_merging =
            script->options.coalesce_idle || fp_governed((uint32_t)step).coalesce_idle;
    }
    return script->is_merging;
}

static bool may_be_merged(struct fp_perf_script *script, const struct process *process,
                          const struct fp_record_sample *record)
{
    return record->head.type == FP_RECORD_REPEAT && record->head.status == FP_STATUS_waiting &&
           fp_record_work(&record->head) == NULL &&
           (process->merged == 0 || process->merged_stack == record->stack) &&
           is_merging(script, record->time_us);
}

static bool is_left(const struct fp_perf_script *script, uint32_t slot)
{
    return script->last_time_us - script->process[slot].merged_time_us >= MERGED_US;
}

static void begin_text(struct fp_perf_script *script)
{
    script->out.size = 0;
    script->weight = 0;
}

static int end_text(struct fp_perf_script *script, int err, const char **text, size_t *size)
{
    *text = script->out.bytes;
    *size = script->out.size;
    return err;
}

int fp_perf_script_merged(struct fp_perf_script *script, enum fp_merged which, const char **text,
                          size_t *size)
{
    int err = 0;

    begin_text(script);
    while (err == 0 && script->out.size == 0 && script->merging_at < script->merging_n) {
        uint32_t slot = script->merging[script->merging_at];

        if (which == FP_MERGED_ALL || is_left(script, slot))
            err = write_merged(script, slot); /* merging[] has another there */
        else
            script->merging_at++;
    }
    if (script->out.size == 0)
        script->merging_at = 0; /* the next call starts from the first */
    return end_text(script, err, text, size);
}

uint64_t fp_perf_script_weight(const struct fp_perf_script *script)
{
    return script->weight;
}

/* ---- records ----------------------------------------------------------- */

/* A process that gets another name is defined anew and keeps its last values, so that a REPEAT may
 * follow; one whose names were read again and are the same stays as it is. On an error its samples
 * are refused: neither the text of the slot's process before nor values of an earlier sample are
 * written for it. */
static int define_process(struct fp_perf_script *script, const struct fp_record_process *record)
{
    struct fp_process_text text;
    struct process *process;
    bool was_sampled;
    int err;

    if (record->slot >= FP_PROCESS_SLOTS)
        return FP_EINVAL;
    process = &script->process[record->slot];
    err = fp_process_text_render(&text, &script->scratch, &script->options, record);
    if (err == 0 && record->goes_on && process->is_defined && is_same(process, record) &&
        fp_process_text_equals(&text, &process->text))
        return 0;
    was_sampled = process->sampled && is_same(process, record);
    process->is_defined = process->sampled = false;
    if (err == 0)
        err = write_merged_of_process(script, record);
    if (err == 0)
        err = fp_process_text_keep(&process->text, &script->arena, &text);
    if (err != 0)
        return err;
    process->number = record->number;
    process->serial = record->serial;
    process->is_scheduler = record->is_scheduler;
    process->block = 0;
    process->is_defined = true;
    process->sampled = was_sampled;
    return 0;
}

static int define_stack(struct fp_perf_script *script, const struct fp_record_stack *record)
{
    int err = record->slot < FP_STACK_SLOTS ? write_merged_of_stack(script, record->slot) : 0;

    return err != 0 ? err : fp_stacks_define(script->stacks, record);
}

/* `record` has only the bytes of a REPEAT when it is one. */
static int write_sample(struct fp_perf_script *script, const struct fp_record_sample *record)
{
    bool is_repeat = record->head.type == FP_RECORD_REPEAT, is_merged;
    struct process *process;
    struct fp_stack_text stack;
    int err;

    if (record->head.status >= FP_STATUS_COUNT || record->time_us > FP_TIME_US_MAX ||
        record->process >= FP_PROCESS_SLOTS)
        return FP_EINVAL;
    process = &script->process[record->process];
    if (!process->is_defined)
        return FP_EINVAL;
    is_merged = may_be_merged(script, process, record);
    if (!is_merged && write_merged(script, record->process) != 0) {
        process->sampled = process->sampled && is_repeat; /* the values of a SAMPLE are lost */
        return FP_ENOMEM;
    }
    if (is_repeat && !process->sampled)
        return FP_EINVAL;
    err = fp_stacks_text(script->stacks, record->stack, &stack);
    if (err == 0 && is_merged) {
        merge(script, process, record);
        return record->time_us - process->last_time_us < MERGED_US
                   ? 0
                   : write_merged(script, record->process);
    }
    if (err == 0)
        err = put_sample(script, process, &stack, record, 1);
    /* Also on an error: a REPEAT may follow. */
    if (!is_repeat) {
        memcpy(process->value, record->value, sizeof(process->value));
        process->sampled = true;
    }
    if (err != 0)
        process->block = 0;
    return err;
}

static int write_weighted(struct fp_perf_script *script, const struct fp_record_weighted *record)
{
    struct process *process;
    struct fp_stack_text stack;
    int err;

    if (record->process >= FP_PROCESS_SLOTS || !fp_weighted_is_valid(record) ||
        !script->process[record->process].is_defined)
        return FP_EINVAL;
    process = &script->process[record->process];
    err = fp_stacks_text(script->stacks, record->stack, &stack);
    if (err == 0)
        err = fp_buffer_reserve(&script->out,
                                FP_WEIGHTED_BYTES_MAX + process->text.text.size + stack.lines.size);
    if (err != 0)
        return err;
    fp_buffer_end(&script->out,
                  fp_put_weighted(script->out.bytes, script->options.event,
                                  choose_time(script, &process->last_time_us, record->time_us),
                                  &process->text, &stack, &script->atoms,
                                  script->options.symbolizer, record));
    script->weight++;
    return 0;
}

static int handle(struct fp_perf_script *script, const struct fp_record *record)
{
    static const uint32_t least[] = {
        [FP_RECORD_PROCESS] = offsetof(struct fp_record_process, text),
        [FP_RECORD_FRAME] = offsetof(struct fp_record_frame, text),
        [FP_RECORD_STACK] = offsetof(struct fp_record_stack, frame),
        [FP_RECORD_SAMPLE] = sizeof(struct fp_record_sample),
        [FP_RECORD_REPEAT] = FP_RECORD_REPEAT_SIZE,
        [FP_RECORD_NAME] = sizeof(struct fp_record_name),
        [FP_RECORD_WEIGHTED] = sizeof(struct fp_record_weighted),
    };
    const void *whole = record;

    if (record->type >= sizeof(least) / sizeof(*least) || record->size < least[record->type])
        return FP_EINVAL;
    switch (record->type) {
    case FP_RECORD_PROCESS:
        return define_process(script, whole);
    case FP_RECORD_FRAME:
        return fp_stacks_define_frame(script->stacks, whole);
    case FP_RECORD_NAME:
        return fp_stacks_define_name(script->stacks, whole);
    case FP_RECORD_STACK:
        return define_stack(script, whole);
    case FP_RECORD_SAMPLE:
    case FP_RECORD_REPEAT:
        return write_sample(script, whole);
    case FP_RECORD_WEIGHTED:
        return write_weighted(script, whole);
    default:
        return FP_EINVAL;
    }
}

int fp_perf_script_record(struct fp_perf_script *script, const struct fp_record *record,
                          const char **text, size_t *size)
{
    begin_text(script);
    return end_text(script, handle(script, record), text, size);
}

/* ---- the profiler itself ---------------------------------------------- */

#define OWN_SLACK_US 1000000

/* Samples have the time at which their tick began, and some of an earlier time may come after this
 * one: it leaves them a second. */
static int64_t own_time(struct fp_perf_script *script, int64_t now_us)
{
    int64_t time_us = script->last_time_us;

    if (time_us < now_us - OWN_SLACK_US)
        time_us = now_us - OWN_SLACK_US;
    return choose_time(script, &script->own_time_us, time_us);
}

int fp_perf_script_has_time(const struct fp_perf_script *script)
{
    return !script->options.is_elsewhere || script->last_time_us > 0;
}

int fp_perf_script_self(struct fp_perf_script *script, const struct fp_self_sample *sample,
                        const char **text, size_t *size)
{
    uint32_t at = 0;
    int err;

    begin_text(script);
    do {
        err = fp_buffer_reserve(&script->out, FP_SELF_BYTES);
        if (err != 0)
            return err;
        fp_buffer_end(&script->out, fp_put_self(fp_buffer_at(&script->out), script->options.event,
                                                script->options.os_pid,
                                                own_time(script, sample->now_us), sample, &at));
    } while (at < sample->now[0]->n + sample->now[1]->n);
    return end_text(script, 0, text, size);
}
