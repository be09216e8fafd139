#include "report/measure.h"

#include <stdio.h>

int fp_figure(const struct fp_profile *profile,
              const struct fp_measure *measure, const struct fp_row *row,
              int64_t *figure)
{
    int place = fp_profile_place(profile, row, measure->metric);

    if (place < 0 || profile->process[row->process].is_own)
        return 0;
    *figure = measure->kind == FP_MEASURE_VALUE ? row->value[place]
                                                : row->delta[place];
    /* Nothing that is measured can be less than nothing. */
    return measure->kind == FP_MEASURE_DELTA || *figure >= 0;
}

int fp_measure(const struct fp_profile *profile,
               const struct fp_measure *measure, const struct fp_row *row,
               int64_t *weight)
{
    if (profile->process[row->process].is_own)
        return 0;
    switch (measure->kind) {
    case FP_MEASURE_SAMPLES:
        *weight = fp_weight(profile, row);
        return 1;
    case FP_MEASURE_PERIOD:
        *weight = row->period;
        return 1;
    default:
        if (!fp_figure(profile, measure, row, weight))
            return 0;
        /* What changed, changed at one of the looks. */
        if (measure->kind == FP_MEASURE_VALUE)
            *weight = fp_times_looks(*weight, fp_weight(profile, row));
        return 1;
    }
}

static const char *const level_names[FP_LEVEL_COUNT] = {
#define FP_LEVEL_ROW(name) [FP_LEVEL_##name] = #name,
    FP_LEVEL_MAP(FP_LEVEL_ROW)
#undef FP_LEVEL_ROW
};

const char *fp_level_name(int level)
{
    return level < 0 || level >= FP_LEVEL_COUNT ? NULL : level_names[level];
}

uint32_t fp_process_label(const struct fp_process *process)
{
    if (process->name != 0)
        return process->name;
    if (process->label != 0)
        return process->label;
    if (process->proc_lib_initial_call != 0)
        return process->proc_lib_initial_call;
    if (process->initial_call != 0)
        return process->initial_call;
    if (process->erl_pid != 0)
        return process->erl_pid;
    return process->comm;
}

/* ------------------------------------------------------------------ classes -- */

/* 0: nothing, or unknown; 1 + 3 * power of 1024 + 0, 1, 2 for 1s, 10s, 100s. */
static uint32_t class_of(int64_t value, int64_t base)
{
    uint32_t power = 0;

    if (value <= 0)
        return 0;
    while (value >= base && power < 5) {
        value /= base;
        power++;
    }
    return 1 + 3 * power + (value >= 100 ? 2 : value >= 10 ? 1 : 0);
}

static uint32_t class_of_metric(const struct fp_profile *profile,
                                struct fp_slice name, const struct fp_row *row,
                                int64_t base)
{
    struct fp_measure measure = {FP_MEASURE_VALUE,
                                 fp_profile_metric(profile, name)};
    int64_t value;

    if (measure.metric < 0 || !fp_figure(profile, &measure, row, &value))
        return 0;
    return class_of(value, base);
}

static struct fp_slice class_text(const char *what, const char *const unit[6],
                                  uint32_t code, char *room)
{
    static const char *const size[] = {"1s", "10s", "100s"};
    int length = code == 0
                     ? snprintf(room, FP_LEVEL_BYTES, "%s_0", what)
                     : snprintf(room, FP_LEVEL_BYTES, "%s_%s%s", what,
                                size[(code - 1) % 3], unit[(code - 1) / 3 % 6]);

    return (struct fp_slice){room, (size_t)length};
}

/* ------------------------------------------------------------------- levels -- */

uint32_t fp_level_code(const struct fp_profile *profile, enum fp_level level,
                       const struct fp_row *row, int64_t weight)
{
    switch (level) {
    case FP_LEVEL_status:
        return profile->tree.stack[row->stack].status;
    case FP_LEVEL_process:
        return fp_process_label(&profile->process[row->process]);
    case FP_LEVEL_pid:
        return row->process;
    case FP_LEVEL_node:
        return profile->process[row->process].node;
    case FP_LEVEL_memory:
        return class_of_metric(profile, FP_SLICE("memory"), row, 1024);
    case FP_LEVEL_queue:
        return class_of_metric(profile, FP_SLICE("message_queue_len"), row,
                               1000);
    case FP_LEVEL_sign:
        return weight >= 0;
    case FP_LEVEL_event:
        return profile->event[row->event];
    default:
        return row->file;
    }
}

static struct fp_slice pid_text(const struct fp_profile *profile,
                                uint32_t process, char *room)
{
    const struct fp_process *one = &profile->process[process];
    int length;

    if (one->erl_pid != 0)
        return fp_profile_text(profile, one->erl_pid);
    length =
        snprintf(room, FP_LEVEL_BYTES, "%llu/%llu",
                 (unsigned long long)one->pid, (unsigned long long)one->tid);
    return (struct fp_slice){room, (size_t)length};
}

struct fp_slice fp_level_text(const struct fp_profile *profile,
                              enum fp_level level, uint32_t code, char *room)
{
    static const char *const bytes[] = {"_B",   "_KiB", "_MiB",
                                        "_GiB", "_TiB", "_PiB"};
    static const char *const counts[] = {"", "_k", "_M", "_G", "_T", "_P"};
    int length;

    switch (level) {
    case FP_LEVEL_status:
    case FP_LEVEL_process:
    case FP_LEVEL_event:
        return fp_profile_text(profile, code);
    case FP_LEVEL_pid:
        return pid_text(profile, code, room);
    case FP_LEVEL_node:
        length = snprintf(room, FP_LEVEL_BYTES, "os_pid_%llu",
                          (unsigned long long)profile->process[code].pid);
        return (struct fp_slice){room, (size_t)length};
    case FP_LEVEL_memory:
        return class_text("memory", bytes, code, room);
    case FP_LEVEL_queue:
        return class_text("queue", counts, code, room);
    case FP_LEVEL_sign:
        return code ? FP_SLICE("positive") : FP_SLICE("negative");
    default:
        return fp_profile_text(profile, profile->file[code].path);
    }
}
