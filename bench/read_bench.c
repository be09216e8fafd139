/*
 * read_bench.c - how fast files are read: to a profile, to an index, and the
 * text alone, which is the file system and the decompression.
 *
 *      read_bench RESULTS FILE...          (bench/run.sh read makes files for it)
 *
 * One line a file: MB of text a second of CPU, the best of ROUNDS, and the bytes
 * that a sample takes as a row of the profile; and to the file RESULTS the same as
 * the terms of bench_results.erl. Not a test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report/export.h"

#define ROUNDS 5

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct fp_source *open_or_die(const char *path)
{
    struct fp_source *source;
    char why[256] = "no memory";

    if (fp_source_open(&source, path, why, sizeof(why)) != 0) {
        fprintf(stderr, "read_bench: %s: %s\n", path, why);
        exit(1);
    }
    return source;
}

static double text_alone(const char *path, uint64_t *text)
{
    static char bytes[1 << 20];
    struct fp_source *source = open_or_die(path);
    double begin = now_s();
    size_t size;

    while (fp_source_read(source, bytes, sizeof(bytes), &size) == 0 && size > 0)
        ;
    begin = now_s() - begin;
    *text = fp_source_state(source)->text;
    fp_source_close(source);
    return begin;
}

static double whole(const char *path, struct fp_profile **profile)
{
    struct fp_slice name = {path, strlen(path)};
    double begin = now_s();
    int more;

    if (fp_profile_create(profile, (size_t)4 << 30) != 0 ||
        fp_profile_begin(*profile, open_or_die(path), name) != 0)
        exit(1);
    while ((more = fp_profile_step(*profile, 1 << 24)) > 0)
        ;
    if (more < 0)
        exit(1);
    return now_s() - begin;
}

static double index_alone(struct fp_profile *profile, const char *path)
{
    struct fp_output *output;
    char why[256], name[4096];
    uint64_t bytes;
    double begin = now_s();

    snprintf(name, sizeof(name), "%s.index", path);
    if (fp_output_open(&output, name, 0, why, sizeof(why)) != 0)
        exit(1);
    if (fp_output_close(output, fp_export_index(profile, output, 0), &bytes, why,
                        sizeof(why)) != 0)
        exit(1);
    remove(name);
    return now_s() - begin;
}

static void append_result(FILE *results, const char *path, const char *what,
                          double value, const char *unit)
{
    const char *name = strrchr(path, '/');

    fprintf(results,
            "#{section => reading, name => <<\"%s: %s\">>, value => %.3f, "
            "unit => <<\"%s\">>}.\n",
            name == NULL ? path : name + 1, what, value, unit);
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

struct measured {
    double read, index, alone; /* seconds, the least; index is that alone */
    uint64_t text, rows, bytes, bad;
};

static struct measured measure(const char *path)
{
    struct measured m = {.read = 1e9, .index = 1e9, .alone = 1e9};

    for (int round = 0; round < ROUNDS; round++) {
        struct fp_profile *profile;

        m.alone = least(m.alone, text_alone(path, &m.text));
        m.read = least(m.read, whole(path, &profile));
        m.index = least(m.index, index_alone(profile, path));
        m.rows = profile->rows.count;
        m.bytes = profile->rows.size;
        m.bad = profile->warning_count;
        fp_profile_destroy(profile);
    }
    return m;
}

static void tell(FILE *results, const char *path)
{
    struct measured m = measure(path);
    double megabytes = (double)m.text / 1e6;
    double row = (double)m.bytes / (double)(m.rows > 0 ? m.rows : 1);

    printf("%-20.20s %8.1f %9llu %10.0f %10.0f %10.0f %10.0f %10.1f %5llu\n",
           path, megabytes, (unsigned long long)m.rows, megabytes / m.alone,
           megabytes / m.read, megabytes / m.index,
           megabytes / (m.read + m.index), row, (unsigned long long)m.bad);
    append_result(results, path, "text alone", megabytes / m.alone, "MB/s");
    append_result(results, path, "to a profile", megabytes / m.read, "MB/s");
    append_result(results, path, "samples to a profile", (double)m.rows / m.read / 1e6, "M/s");
    append_result(results, path, "a profile to its index", megabytes / m.index,
                  "MB/s");
    append_result(results, path, "to an index, both",
                  megabytes / (m.read + m.index), "MB/s");
    append_result(results, path, "a sample in a profile", row, "B");
}

int main(int argc, char **argv)
{
    FILE *results = argc > 1 ? fopen(argv[1], "a") : NULL;

    if (results == NULL) {
        fprintf(stderr, "usage: read_bench RESULTS FILE...\n");
        return 1;
    }
    printf("%-20s %8s %9s %10s %10s %10s %10s %10s %5s\n", "", "MB text",
           "samples", "text alone", "profile", "index", "both", "bytes/row",
           "bad");
    for (int i = 2; i < argc; i++)
        tell(results, argv[i]);
    return fclose(results) == 0 ? 0 : 1;
}
