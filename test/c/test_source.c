/* What damage of compressed files costs: the frames that it is in, and nothing is invented. */
#include "profile_text.h"

#include <stdbool.h>
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

static void make_frames(struct frames *frames)
{
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
}

static void free_frames(struct frames *frames)
{
    free(frames->bytes);
    free(frames->text);
}

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

static void a_flipped_bit_costs_its_frame_and_invents_nothing(void)
{
    struct frames frames;
    int lost = 0;

    make_frames(&frames);
    /* Without its first magic number the file is text. */
    for (size_t bit = 32; bit < 8 * frames.begin[2]; bit += 11) {
        struct fp_profile *profile;
        const struct fp_file *file;
        int whole;

        frames.bytes[bit / 8] ^= (char)(1 << bit % 8);
        profile = profile_of(frames.bytes, frames.size);
        file = profile->file;
        /* Some bits are not used, and a flag that denies the checksum leaves the text. */
        whole = profile->rows.count == 18 ? 3 : 2;
        check_frames(profile, &frames, whole);
        CHECK(whole == 3 || file->source.damaged > 0);
        CHECK_INT(file->bad, 0);
        lost += file->source.lost_text > 0;
        fp_profile_destroy(profile);
        frames.bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    CHECK(lost > 20);
    free_frames(&frames);
}

/* All six samples or none; bits of the header, such as its time, say nothing of the text. Where the
 * end seems to be missing there is no checksum. */
static void a_flipped_bit_of_gzip_invents_nothing(void)
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

/* A cut frame has no checksum yet. */
static void a_frame_that_is_cut_off_is_not_read(void)
{
    struct frames frames;

    make_frames(&frames);
    for (size_t cut = frames.begin[2]; cut <= frames.size; cut++) {
        struct fp_profile *profile = profile_of(frames.bytes, cut);
        bool is_whole = cut == frames.begin[2] || cut == frames.size;

        check_frames(profile, &frames, cut == frames.size ? 3 : 2);
        CHECK_INT(profile->file->source.is_cut_off, !is_whole);
        CHECK_INT(profile->file->source.damaged, 0);
        CHECK_INT(profile->file->bad, 0);
        fp_profile_destroy(profile);
    }
    free_frames(&frames);
}

/* Samples without a frame's own bound: `perf script | zstd`. */
static void a_long_frame_is_read_as_it_comes(void)
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
    CHECK(profile->rows.count > 5 * count && profile->rows.count < 6 * count);
    CHECK_INT(profile->file->source.is_cut_off, 1);
    fp_profile_destroy(profile);
    free(one);
    free(bytes);
    free(zst);
}

/* Each nine bytes are a frame's header and a block of six bytes: the next frame's header. */
static void frames_in_frames_are_given_up(void)
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

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(a_flipped_bit_costs_its_frame_and_invents_nothing);
    RUN(a_flipped_bit_of_gzip_invents_nothing);
    RUN(a_frame_that_is_cut_off_is_not_read);
    RUN(a_long_frame_is_read_as_it_comes);
    RUN(frames_in_frames_are_given_up);
    return RUN_END();
}
