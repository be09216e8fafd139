/* The target `read` over files, one at a time: for valgrind, and to look at what the fuzzer has
 * found without libFuzzer. */
#include "fuzz.h"

/* In a block of its very size, so that reading on is seen. */
static int read_one(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes;
    long size;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0) {
        perror(path);
        return 1;
    }
    rewind(file);
    /* A multiple of four has all exports made of it. */
    for (long cut = 0; cut < 4 && cut <= size; cut++) {
        size_t n = (size_t)(size - cut);

        bytes = malloc(n + (n == 0));
        if (bytes == NULL || fread(bytes, 1, n, file) != n)
            abort();
        rewind(file);
        fuzz_read(bytes, n);
        free(bytes);
    }
    fclose(file);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = argc < 2;

    for (int i = 1; i < argc; i++)
        failed |= read_one(argv[i]);
    return failed;
}
