/*
 * read_bench.c - how fast files are read: to a profile, to an index, and the
 * text alone, which is the file system and the decompression.
 *
 *      read_bench FILE...          (bench/run.sh read makes files for it)
 *
 * One line a file: MB of text a second of CPU, the best of ROUNDS, and the bytes
 * that a sample takes as a row of the profile. Not a test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../c_src/read/export.h"

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
    double begin = now_s();

    snprintf(name, sizeof(name), "%s.index", path);
    if (fp_output_open(&output, name, 0, why, sizeof(why)) != 0)
        exit(1);
    if (fp_output_close(output, fp_export_index(profile, output, 0), why,
                        sizeof(why)) != 0)
        exit(1);
    remove(name);
    return now_s() - begin;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    printf("%-36s %8s %9s %13s %13s %10s %10s %5s\n", "", "MB text", "samples",
           "to a profile", "to an index", "text alone", "bytes/row", "bad");
    for (int i = 1; i < argc; i++) {
        double read = 1e9, index = 1e9, alone = 1e9, megabytes;
        uint64_t text = 0, rows = 0, bytes = 0, bad = 0;

        for (int round = 0; round < ROUNDS; round++) {
            struct fp_profile *profile;
            double seconds;

            alone = least(alone, text_alone(argv[i], &text));
            seconds = whole(argv[i], &profile);
            read = least(read, seconds);
            index = least(index, seconds + index_alone(profile, argv[i]));
            rows = profile->rows.count;
            bytes = profile->rows.size;
            bad = profile->warning_count;
            fp_profile_destroy(profile);
        }
        megabytes = (double)text / 1e6;
        printf("%-36.36s %8.1f %9llu %13.0f %13.0f %10.0f %10.1f %5llu\n",
               argv[i], megabytes, (unsigned long long)rows, megabytes / read,
               megabytes / index, megabytes / alone,
               (double)bytes / (double)(rows > 0 ? rows : 1),
               (unsigned long long)bad);
    }
    return 0;
}
