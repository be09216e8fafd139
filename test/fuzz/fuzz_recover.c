/* fuzz_recover.c - any bytes as an unfinished file, of text or frames. */
#include "fuzz.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "store/recover.h"

static char *contents(int file, size_t size)
{
    char *bytes = malloc(size + 1);

    FUZZ_CHECK(bytes != NULL);
    FUZZ_CHECK(pread(file, bytes, size, 0) == (ssize_t)size);
    return bytes;
}

/* All of what is left are whole frames, the table among them. */
static void check_frames(const char *bytes, size_t size)
{
    while (size > 0) {
        size_t frame = ZSTD_findFrameCompressedSize(bytes, size);

        FUZZ_CHECK(!ZSTD_isError(frame));
        bytes += frame;
        size -= frame;
    }
}

void fuzz_recover(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    int is_zst = fuzz_u8(&input) & 1;
    int file = memfd_create("fuzz_recover", MFD_CLOEXEC);
    int64_t good;
    off_t left;
    char *text;

    /* As our files are: written at their end. */
    FUZZ_CHECK(file >= 0 && fcntl(file, F_SETFL, O_APPEND) == 0);
    FUZZ_CHECK(write(file, input.at, input.left) == (ssize_t)input.left);
    good = fp_recover(file, is_zst);
    left = lseek(file, 0, SEEK_END);
    FUZZ_CHECK(good >= 0 && good <= (int64_t)input.left);
    FUZZ_CHECK(left >= good);
    if (good > 0) {
        text = contents(file, (size_t)left);
        FUZZ_CHECK(memcmp(text, input.at, (size_t)good) == 0);
        if (is_zst)
            check_frames(text, (size_t)left);
        else
            FUZZ_CHECK(left == good && good >= 2 && memcmp(text + good - 2, "\n\n", 2) == 0);
        free(text);
        /* What is good is so the next time. */
        FUZZ_CHECK(fp_recover(file, is_zst) == good);
    }
    close(file);
}
