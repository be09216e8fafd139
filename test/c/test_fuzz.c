/* The targets of test/fuzz, without libFuzzer: each over its corpus as it is, and over the same
 * mutants of it in each run. */
#include <dirent.h>

#include "../fuzz/fuzz.h"
#include "run.h"
#include "temporary.h"

typedef void target(const uint8_t *bytes, size_t size);

/* Of one target, however many files it has. */
#define MUTANTS 1200

struct files {
    char *bytes[512];
    size_t size[512];
    int count;
};

static void read_files(struct files *files, const char *folder)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;

    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char name[512];
        struct stat info;

        snprintf(name, sizeof(name), "%s/%s", folder, entry->d_name);
        CHECK(stat(name, &info) == 0);
        if (!S_ISREG(info.st_mode))
            continue;
        CHECK(files->count < 512);
        files->bytes[files->count] = temporary_read(name, &files->size[files->count]);
        files->count++;
    }
    if (directory != NULL)
        closedir(directory);
}

static void free_files(struct files *files)
{
    for (int i = 0; i < files->count; i++)
        free(files->bytes[i]);
}

/* In memory of its own, where ASan sees its end. */
static void run_on(target *run, const char *bytes, size_t size)
{
    uint8_t *own = malloc(size > 0 ? size : 1);

    CHECK(own != NULL);
    memcpy(own, bytes, size);
    run(own, size);
    free(own);
}

static void run_mutants(target *run, const struct files *files, const char *likely, uint64_t seed,
                        int count)
{
    for (int round = 0; round < count; round++) {
        int i = round % files->count;
        size_t size = files->size[i];
        char *mutant = malloc(size + 1);

        CHECK(mutant != NULL);
        memcpy(mutant, files->bytes[i], size);
        for (uint32_t n = 1 + run_below(&seed, 8); n > 0 && size > 0; n--)
            mutant[run_below(&seed, (uint32_t)size)] =
                run_below(&seed, 3) == 0 ? (char)run_random(&seed)
                                         : likely[run_below(&seed, (uint32_t)strlen(likely) + 1)];
        if (round % 8 == 7)
            size = run_below(&seed, (uint32_t)size + 1);
        run_on(run, mutant, size);
        free(mutant);
    }
}

static void run_target(target *run, const char *name, const char *likely, int mutants)
{
    struct files files = {.count = 0};
    char folder[128];

    snprintf(folder, sizeof(folder), "test/corpus/%s", name);
    read_files(&files, folder);
    if (strcmp(name, "read") == 0)
        read_files(&files, "test/corpus");
    CHECK(files.count > 0);
    for (int i = 0; i < files.count; i++)
        run_on(run, files.bytes[i], files.size[i]);
    run_mutants(run, &files, likely, strlen(name), mutants);
    free_files(&files);
}

/* Small numbers, and the fourth byte of a word that becomes an address. */
static const char numbers[] = "\x01\x02\x04\x08\x0b\x10\x20\x30\x40\x80\xff";
static const char text[] = "\n\t #/=:().-;%<>019";

/* A line each: what fails is named. */
#define OF_MEMORY(name)                                                                            \
    static void any_##name##_is_survived(void)                                                     \
    {                                                                                              \
        run_target(fuzz_##name, #name, numbers, MUTANTS);                                          \
    }
#define OF_TEXT(name)                                                                              \
    static void any_##name##_is_survived(void)                                                     \
    {                                                                                              \
        run_target(fuzz_##name, #name, text, MUTANTS);                                             \
    }

OF_MEMORY(atom)
OF_MEMORY(bif)
OF_MEMORY(cfi)
OF_MEMORY(code)
OF_MEMORY(elf)
OF_MEMORY(functions)
OF_MEMORY(layout)
OF_TEXT(log_name)
OF_TEXT(maps)
OF_MEMORY(process)
OF_TEXT(read)
OF_TEXT(recover)
OF_MEMORY(running)
OF_MEMORY(stack)
OF_MEMORY(table)
OF_MEMORY(term)

/* It maps megabytes each time. */
static void any_sampler_is_survived(void)
{
    run_target(fuzz_sampler, "sampler", numbers, MUTANTS / 4);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
#define RUN_ANY(name) RUN(any_##name##_is_survived);
    FUZZ_TARGETS(RUN_ANY)
    return RUN_END();
}
