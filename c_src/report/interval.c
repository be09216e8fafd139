#include "report/interval.h"

int64_t fp_interval_us(const struct fp_profile *profile)
{
    int64_t ticks = (int64_t)profile->time_runs, us = profile->last_us - profile->first_us;

    return ticks > 1 && us >= ticks ? us / (ticks - 1) : 1000;
}

bool fp_is_of_schedulers(const struct fp_profile *profile)
{
    static const char mode[] = " mode=schedulers";

    for (size_t f = 0; f < profile->file_count; f++) {
        struct fp_slice own = fp_profile_text(profile, profile->file[f].own);

        if (memmem(own.at, own.size, mode, sizeof(mode) - 1) == NULL)
            return false;
    }
    return profile->file_count > 0;
}

/* The time between own samples of one file, and the ticks in it. */
struct own_ticks {
    bool is_begun;
    uint32_t file;
    int64_t last_us, us, count;
};

static void note_own(struct own_ticks *ticks, const struct fp_row *row, int64_t count)
{
    if (ticks->is_begun && row->file == ticks->file && count > 0 && row->time_us > ticks->last_us) {
        ticks->us += row->time_us - ticks->last_us;
        ticks->count += count;
    }
    ticks->is_begun = true;
    ticks->file = row->file;
    ticks->last_us = row->time_us;
}

int fp_tick_length(struct fp_profile *profile, int64_t *us)
{
    int metric = fp_profile_metric(profile, FP_SLICE("ticks")), more = 0;
    struct own_ticks ticks = {0};
    struct fp_cursor cursor;
    struct fp_row row;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (metric >= 0 && (more = fp_cursor_next(&cursor, &row)) > 0) {
        int place = fp_profile_place(profile, &row, metric);

        if (place >= 0 && profile->process[row.process].is_own)
            note_own(&ticks, &row, row.delta[place]);
    }
    fp_cursor_close(&cursor);
    *us = ticks.count > 0 ? ticks.us / ticks.count : fp_interval_us(profile);
    return more;
}
