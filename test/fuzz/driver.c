/* driver.c - all targets in one program for libFuzzer: which one it runs is the end of the name by
 * which it is called, `fuzz_stack`. */
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct {
    const char *name;
    void (*run)(const uint8_t *bytes, size_t size);
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
    FUZZ_TARGETS(TARGET)
#undef TARGET
};

static void (*chosen)(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *slash = strrchr((*argv)[0], '/');
    const char *name = slash == NULL ? (*argv)[0] : slash + 1;

    (void)argc;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (strncmp(name, "fuzz_", 5) == 0 && strcmp(name + 5, targets[i].name) == 0)
            chosen = targets[i].run;
    if (chosen != NULL)
        return 0;
    fprintf(stderr, "%s is no target; call it fuzz_NAME with one of\n", name);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        fprintf(stderr, "  %s\n", targets[i].name);
    exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    chosen(bytes, size);
    return 0;
}
