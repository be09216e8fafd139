#include "report/tick.h"

static uint64_t hash_of(uint64_t os_pid, uint32_t erl_pid)
{
    return fp_hash_two(os_pid, erl_pid);
}

int fp_tick_open(struct fp_tick *tick, struct fp_profile *profile)
{
    struct fp_budget *budget = &profile->budget;
    int err;

    *tick = (struct fp_tick){.profile = profile};
    fp_cursor_open(&tick->cursor, &profile->rows, profile->schema, budget);
    err = FP_GROW_ZEROS(budget, &tick->place, &tick->place_room, profile->process_count);
    for (size_t i = 0; i < profile->process_count && err == 0; i++) {
        const struct fp_process *process = &profile->process[i];

        if (process->erl_pid != 0 && !process->is_own)
            err = fp_table_put(&tick->pids, budget, hash_of(process->pid, process->erl_pid),
                               (uint32_t)i);
    }
    return err;
}

void fp_tick_close(struct fp_tick *tick)
{
    struct fp_budget *budget = &tick->profile->budget;

    fp_cursor_close(&tick->cursor);
    FP_FREE(budget, tick->sample, tick->room);
    FP_FREE(budget, tick->place, tick->place_room);
    fp_table_free(&tick->pids, budget);
}

static int add(struct fp_tick *tick)
{
    struct fp_profile *profile = tick->profile;
    const struct fp_row *row = &tick->row;
    int err;

    if (profile->process[row->process].is_own)
        return 0;
    err = FP_GROW(&profile->budget, &tick->sample, &tick->room, tick->count + 1);
    if (err != 0)
        return err;
    tick->sample[tick->count++] = (struct fp_tick_sample){.process = row->process,
                                                          .stack = row->stack,
                                                          .words = row->words,
                                                          .serves = row->serves,
                                                          .call = row->call,
                                                          .count = fp_row_count(profile, row)};
    tick->place[row->process] = (uint32_t)tick->count;
    return 0;
}

int fp_tick_next(struct fp_tick *tick)
{
    uint32_t file;
    int more = 1, err = 0;

    for (size_t i = 0; i < tick->count; i++)
        tick->place[tick->sample[i].process] = 0;
    tick->count = 0;
    if (!tick->has_row)
        more = fp_cursor_next(&tick->cursor, &tick->row);
    if (more <= 0)
        return more;
    tick->time_us = tick->row.time_us;
    file = tick->row.file;
    while (more > 0 && err == 0 && tick->row.time_us == tick->time_us && tick->row.file == file) {
        err = add(tick);
        if (err == 0)
            more = fp_cursor_next(&tick->cursor, &tick->row);
    }
    tick->has_row = more > 0;
    return err != 0 ? err : more < 0 ? more : 1;
}

uint32_t fp_tick_target(const struct fp_tick *tick, uint32_t process, uint32_t waits_for)
{
    const struct fp_process *all = tick->profile->process;
    uint32_t found = UINT32_MAX, id;
    struct fp_table_at at;

    if (waits_for == 0)
        return found;
    fp_table_seek(&tick->pids, hash_of(all[process].pid, waits_for), &at);
    while (fp_table_next(&tick->pids, &at, &id)) {
        if (all[id].pid == all[process].pid && all[id].erl_pid == waits_for &&
            (found == UINT32_MAX || tick->place[found] == 0))
            found = id;
    }
    return found;
}

const struct fp_tick_sample *fp_tick_sample_of(const struct fp_tick *tick, uint32_t process)
{
    uint32_t place = process == UINT32_MAX ? 0 : tick->place[process];

    return place == 0 ? NULL : &tick->sample[place - 1];
}
