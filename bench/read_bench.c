/*
 * read_bench.c - how fast files are read: text to profile, text to profile out
 * of zstd and gzip, and the decompression alone.
 *
 *      read_bench FILE...
 *
 * One line a file: MB of text a second, best of ROUNDS, and what the profile
 * takes of memory. Not a test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../c_src/read/profile.h"

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

int main(int argc, char **argv)
{
    printf("%-40s %9s %10s %12s %10s %8s %8s\n", "", "MB text", "samples",
           "profile MB/s", "text MB/s", "bytes/s.", "bad");
    for (int i = 1; i < argc; i++) {
        double best = 1e9, best_text = 1e9, seconds;
        uint64_t text = 0;
        struct fp_profile *profile;

        for (int round = 0; round < ROUNDS; round++) {
            seconds = text_alone(argv[i], &text);
            best_text = seconds < best_text ? seconds : best_text;
            seconds = whole(argv[i], &profile);
            best = seconds < best ? seconds : best;
            if (round + 1 < ROUNDS)
                fp_profile_destroy(profile);
        }
        printf("%-40.40s %9.1f %10llu %12.0f %10.0f %8.1f %8llu\n", argv[i],
               (double)text / 1e6, (unsigned long long)profile->rows.count,
               (double)text / 1e6 / best, (double)text / 1e6 / best_text,
               (double)profile->rows.size / (double)profile->rows.count,
               (unsigned long long)profile->warning_count);
        for (uint64_t w = 0; w < profile->warning_count && w < 5; w++)
            printf("  line %llu: %s\n",
                   (unsigned long long)profile->warning[w].line,
                   profile->warning[w].what);
        fp_profile_destroy(profile);
    }
    return 0;
}
