/* What damage of compressed files costs: the frames that it is in, and nothing is invented. */
#include "profile_text.h"
#include "test.h"

#include <stdbool.h>
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#define MEGABYTE ((size_t)1 << 20)

/* Three frames of six samples, each with its size and checksum, as the writer makes them. */
struct frames {
    char *bytes, *text;
    size_t begin[4], size;
};

static size_t compress(char *to, size_t room, const char *text, size_t size)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    size_t made;

    CHECK(context != NULL);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    made = ZSTD_compress2(context, to, room, text, size);
    CHECK(!ZSTD_isError(made));
    ZSTD_freeCCtx(context);
    return made;
}

static struct frames *make_frames(void)
{
    struct frames *frames = malloc(sizeof *frames);
    size_t size, room;
    char *bytes = temporary_read("test/corpus/ours.log", &size);
    struct fp_profile *profile;

    room = 3 * ZSTD_compressBound(size);
    frames->bytes = malloc(room);
    CHECK(frames->bytes != NULL);
    frames->size = 0;
    for (int i = 0; i < 3; i++) {
        frames->begin[i] = frames->size;
        frames->size += compress(frames->bytes + frames->size, room - frames->size, bytes, size);
    }
    frames->begin[3] = frames->size;
    profile = profile_of(bytes, size);
    frames->text = profile_text(profile);
    fp_profile_destroy(profile);
    free(bytes);
    return frames;
}

static void free_frames(struct frames *frames)
{
    free(frames->bytes);
    free(frames->text);
    free(frames);
}

#define FRAMES_TEST(test) TEST_ON(test, struct frames *, frames, make_frames(), free_frames)

/* The text of a profile is that of so many whole frames. */
static void check_frames(struct fp_profile *profile, const struct frames *frames, int count)
{
    size_t size = strlen(frames->text);
    char *text = profile_text(profile);

    CHECK_INT(strlen(text), size * (size_t)count);
    for (int i = 0; i < count; i++)
        CHECK_BYTES(text + size * (size_t)i, size, frames->text, size);
    free(text);
}

FRAMES_TEST(a_flipped_bit_costs_its_frame_and_invents_nothing)
{
    int lost = 0;

    /* Without its first magic number the file is text. */
    for (size_t bit = 32; bit < 8 * frames->begin[2]; bit += 11) {
        struct fp_profile *profile;
        const struct fp_file *file;
        int whole;

        frames->bytes[bit / 8] ^= (char)(1 << bit % 8);
        profile = profile_of(frames->bytes, frames->size);
        file = profile->file;
        /* Some bits are not used, and a flag that denies the checksum leaves the text. */
        whole = profile->rows.count == 18 ? 3 : 2;
        check_frames(profile, frames, whole);
        CHECK(whole == 3 || file->source.damaged > 0);
        CHECK_INT(file->bad, 0);
        lost += file->source.lost_text > 0;
        fp_profile_destroy(profile);
        frames->bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    CHECK(lost > 20);
}

/* All six samples or none; bits of the header, such as its time, say nothing of the text. Where the
 * end seems to be missing there is no checksum. */
TEST(a_flipped_bit_of_gzip_invents_nothing)
{
    size_t size;
    char *bytes = temporary_read("test/corpus/ours.log.gz", &size);
    struct fp_profile *profile = profile_of(bytes, size);
    char *text = profile_text(profile);
    int lost = 0;

    fp_profile_destroy(profile);
    for (size_t bit = 16; bit < 8 * size; bit += 5) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        profile = profile_of(bytes, size);
        if (profile->rows.count > 0 && !profile->file->source.is_cut_off)
            check_profile(profile, text);
        CHECK(profile->rows.count == 6 || profile->file->source.damaged > 0 ||
              profile->file->source.is_cut_off);
        lost += profile->rows.count == 0;
        fp_profile_destroy(profile);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    CHECK(lost > 500);
    free(text);
    free(bytes);
}

/* A small frame is one block, which has its text at its end: only the checksum is behind that. */
FRAMES_TEST(a_block_that_is_cut_off_has_no_text)
{
    for (size_t cut = frames->begin[2]; cut <= frames->size; cut++) {
        struct fp_profile *profile = profile_of(frames->bytes, cut);
        bool is_whole = cut == frames->begin[2] || cut == frames->size;

        check_frames(profile, frames, cut >= frames->size - 4 ? 3 : 2);
        CHECK_INT(profile->file->source.is_cut_off, !is_whole);
        CHECK_INT(profile->file->source.damaged, 0);
        CHECK_INT(profile->file->bad, 0);
        fp_profile_destroy(profile);
    }
}

/* How many samples end in what libzstd has of these bytes, and is there more behind the last? */
static size_t count_samples(const char *bytes, size_t size, bool *has_more)
{
    size_t room = 8 * MEGABYTE, count = 0;
    char *text = malloc(room);
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer in = {bytes, size, 0};
    ZSTD_outBuffer out = {text, room, 0};

    CHECK(text != NULL && context != NULL);
    while (in.pos < in.size)
        CHECK(!ZSTD_isError(ZSTD_decompressStream(context, &out, &in)));
    CHECK(out.pos < room);
    *has_more = false;
    for (size_t i = 1; i < out.pos; i++) {
        bool is_end = text[i] == '\n' && text[i - 1] == '\n';

        count += is_end;
        *has_more = !is_end;
    }
    ZSTD_freeDCtx(context);
    free(text);
    return count;
}

/* As of a copy of a file that is being written, or of a full disk. */
TEST(whole_samples_of_a_frame_that_is_cut_off_are_read)
{
    size_t size, packed, room;
    char *one = temporary_read("test/corpus/ours.log", &size), *text = malloc(800 * size + 1), *zst;
    uint64_t random = 1;
    int with_samples = 0;

    CHECK(text != NULL);
    for (size_t i = 0; i < 800 * size; i++)
        text[i] = one[i % size];
    text[800 * size] = '\0';
    /* Microseconds of their own, so that the text has many blocks. */
    for (char *at = text; (at = strstr(at, "179523778")) != NULL; at += 17)
        for (int digit = 11; digit < 17; digit++)
            at[digit] = (char)('0' + run_below(&random, 10));
    room = ZSTD_compressBound(800 * size);
    zst = malloc(room);
    CHECK(zst != NULL);
    packed = compress(zst, room, text, 800 * size);
    for (size_t cut = packed / 16; cut < packed; cut += packed / 16) {
        struct fp_profile *profile = profile_of(zst, cut);
        const struct fp_file *file = profile->file;
        bool has_more;
        size_t count = count_samples(zst, cut, &has_more);

        CHECK_INT(profile->rows.count, count);
        CHECK_INT(file->bad, has_more);
        CHECK_INT(file->source.is_cut_off, 1);
        CHECK_INT(file->source.damaged, 0);
        CHECK_INT(file->source.text + file->source.lost_text, 800 * size);
        with_samples += count > 0;
        fp_profile_destroy(profile);
    }
    CHECK(with_samples > 8);
    free(one);
    free(text);
    free(zst);
}

/* The last block of a frame seems to be longer, up to behind the end of the file. */
FRAMES_TEST(a_whole_frame_behind_one_shows_that_its_size_was_damaged)
{
    struct fp_profile *profile;
    size_t header;

    header = ZSTD_frameHeaderSize(frames->bytes, frames->size);
    frames->bytes[frames->begin[1] + header + 2] |= 1; /* 2^13 bytes more of the block */
    profile = profile_of(frames->bytes, frames->size);
    check_frames(profile, frames, 2);
    CHECK_INT(profile->file->source.is_cut_off, 0);
    CHECK(profile->file->source.damaged > 0);
    fp_profile_destroy(profile);
}

/* Samples without a frame's own bound: `perf script | zstd`. */
TEST(a_long_frame_is_read_as_it_comes)
{
    size_t size, count = 8000, packed;
    char *one = temporary_read("test/corpus/ours.log", &size), *bytes = malloc(count * size);
    char *zst = malloc(ZSTD_compressBound(count * size));
    struct fp_profile *profile;

    CHECK(bytes != NULL && zst != NULL && count * size > 24 * MEGABYTE);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * size, one, size);
    packed = compress(zst, ZSTD_compressBound(count * size), bytes, count * size);
    profile = profile_of(zst, packed);
    CHECK_INT(profile->rows.count, 6 * count);
    CHECK_INT(profile->warning_count, 0);
    fp_profile_destroy(profile);
    profile = profile_of(zst, packed - 1);
    CHECK_INT(profile->rows.count, 6 * count); /* only a byte of the checksum is missing */
    CHECK_INT(profile->file->source.is_cut_off, 1);
    fp_profile_destroy(profile);
    free(one);
    free(bytes);
    free(zst);
}

/* Each nine bytes are a frame's header and a block of six bytes: the next frame's header. */
TEST(frames_in_frames_are_given_up)
{
    static const char unit[9] = {'\x28', '\xb5', '\x2f', '\xfd', 0, 0x58, 6 << 3, 0, 0};
    size_t count = 200000;
    char *bytes = malloc(count * sizeof(unit));
    struct fp_profile *profile;

    CHECK(bytes != NULL);
    for (size_t i = 0; i < count; i++)
        memcpy(bytes + i * sizeof(unit), unit, sizeof(unit));
    profile = profile_of(bytes, count * sizeof(unit));
    CHECK_INT(profile->rows.count, 0);
    CHECK_INT(profile->file->source.is_cut_off, 1);
    fp_profile_destroy(profile);
    free(bytes);
}
