/* fuzz_read.c - any bytes as a file: read, walked, and exported in every way, the viewer's index
 * among them. What is looked at besides crashes: what was read is what is written, and no limit is
 * passed. */
#include <unistd.h>

#include "bytes_source.h"
#include "fuzz.h"
#include "report/export.h"

#define LIMIT ((size_t)16 << 20)

/* One file that is written again and again, in memory where there is such. */
static const char *path(void)
{
    static char name[64];

    if (name[0] == '\0')
        snprintf(name, sizeof(name), "%s/fuzz_read.%d",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    return name;
}

static struct fp_output *open_output(int is_gzip)
{
    struct fp_output *output;
    char why[64];

    if (fp_output_open(&output, path(), is_gzip, why, sizeof(why)) != 0)
        abort();
    return output;
}

static void close_output(struct fp_output *output, int err)
{
    uint64_t bytes;
    char why[64];

    fp_output_close(output, err, &bytes, why, sizeof(why));
    unlink(path());
}

static void walk(struct fp_profile *profile)
{
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t count = 0, samples = 0;
    int more;

    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        FUZZ_CHECK(row.process < profile->process_count);
        FUZZ_CHECK(row.stack < profile->tree.stack_count);
        FUZZ_CHECK(row.schema < profile->schema_count);
        FUZZ_CHECK(row.event < profile->event_count);
        FUZZ_CHECK(row.file < profile->file_count);
        FUZZ_CHECK(row.time_us >= profile->first_us && row.time_us <= profile->last_us);
        count++;
    }
    fp_cursor_close(&cursor);
    FUZZ_CHECK(more < 0 || count == profile->rows.count);
    for (size_t i = 0; i < profile->process_count; i++)
        samples += profile->process[i].samples;
    FUZZ_CHECK(samples == profile->rows.count);
}

static void export_all(struct fp_profile *profile)
{
    struct fp_query query = {.dimension = {FP_DIMENSION_status, FP_DIMENSION_process,
                                           FP_DIMENSION_memory, FP_DIMENSION_queue},
                             .dimension_count = 4,
                             .without_lines = 1};
    struct fp_output *output = open_output(0);
    uint64_t a, b;

    if (profile->metric_count > 0)
        query.by = (struct fp_by){FP_BY_DELTA, 0};
    close_output(output, fp_export_collapsed(profile, &query, output, &a));
    output = open_output(0);
    close_output(output, fp_export_speedscope(profile, &query, 1, output));
    output = open_output(1);
    close_output(output, fp_export_pprof(profile, &query, output));
    output = open_output(0);
    close_output(output, fp_export_index(profile, output, 0));
    output = open_output(0);
    close_output(output, fp_export_index(profile, output, 1));
    if (profile->rows.count == 0)
        return;
    query.by.kind = FP_BY_SAMPLES;
    output = open_output(0);
    close_output(output, fp_export_perf(profile, &query, output, &a, &b));
    output = open_output(1);
    close_output(output, fp_export_firefox(profile, &query, output));
}

void fuzz_read(const uint8_t *bytes, size_t size)
{
    struct fp_profile *profile;
    struct fp_source *source;

    if (fp_profile_create(&profile, LIMIT) != 0)
        return;
    if (bytes_source(&source, bytes, size) == 0 &&
        fp_profile_begin(profile, source, FP_SLICE("fuzz")) == 0) {
        while (fp_profile_step(profile, 1000) > 0)
            ;
        walk(profile);
        /* Not for each: files are what takes most of the time. */
        if (profile->rows.count > 0 && size % 4 == 0)
            export_all(profile);
    }
    FUZZ_CHECK(profile->budget.used <= LIMIT);
    fp_profile_destroy(profile);
}
