/*
 * The fuzz target of test/fuzz, without libFuzzer: over the corpus as it is, and
 * over the same mutants of it in each run.
 */
#include "../fuzz/fuzz_read.c"

#include <dirent.h>

#include "run.h"
#include "temporary.h"

typedef void each(const char *bytes, size_t size);

static void for_each_file(each *what)
{
    DIR *directory = opendir("test/corpus");
    struct dirent *entry;
    int count = 0;

    CHECK(directory != NULL);
    while ((entry = readdir(directory)) != NULL) {
        char name[512];
        size_t size;
        char *bytes;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof(name), "test/corpus/%s", entry->d_name);
        bytes = temporary_read(name, &size);
        what(bytes, size);
        free(bytes);
        count++;
    }
    closedir(directory);
    CHECK(count > 8);
}

/* Padded with empty lines to a size that makes the target export it. */
static void run_padded(const char *bytes, size_t size)
{
    char *padded = malloc(size + 4);
    size_t whole = (size + 3) / 4 * 4;

    CHECK(padded != NULL);
    memcpy(padded, bytes, size);
    memset(padded + size, '\n', 4);
    LLVMFuzzerTestOneInput((const uint8_t *)padded, whole);
    free(padded);
}

static void run_mutants(const char *bytes, size_t size)
{
    static const char likely[] = "\n\t #/=:().-;%<>019";
    uint64_t seed = size;
    char *mutant = malloc(size);

    CHECK(mutant != NULL);
    for (int round = 0; round < 150; round++) {
        memcpy(mutant, bytes, size);
        for (uint32_t n = 1 + run_below(&seed, 12); n > 0; n--)
            mutant[run_below(&seed, (uint32_t)size)] =
                run_below(&seed, 3) == 0
                    ? (char)run_random(&seed)
                    : likely[run_below(&seed, sizeof(likely) - 1)];
        run_padded(mutant,
                   round % 4 == 0 ? run_below(&seed, (uint32_t)size) : size);
    }
    free(mutant);
}

static void the_corpus_is_read_and_exported(void)
{
    for_each_file(run_padded);
}

static void mutants_of_it_are_survived(void)
{
    for_each_file(run_mutants);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(the_corpus_is_read_and_exported);
    RUN(mutants_of_it_are_survived);
    return RUN_END();
}
