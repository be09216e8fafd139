/* test_unzstd.c - frames and back: in pieces of any size, from files that are cut off, damaged, or
 * are of another kind. */
#include <zstd.h>

#include "base/error.h"
#include "run.h"
#include "store/unzstd.h"
#include "store/zstd_frame.h"

#define TEXT 300000
#define FRAMES 4

struct stream {
    char text[FRAMES * TEXT];
    char *bytes;
    size_t size, end[FRAMES]; /* of each frame */
};

/* Frames of text, a skippable one in front of the last, the table behind. */
static void make(struct stream *s)
{
    struct fp_zstd_table table = {.n = 0};
    uint64_t random = 1;
    struct fp_zstd *zst;
    size_t size;
    char *end;

    for (size_t i = 0; i < sizeof(s->text); i++)
        s->text[i] = (char)('a' + run_below(&random, 4));
    CHECK_INT(fp_zstd_create(&zst), 0);
    s->bytes = malloc(FRAMES * fp_zstd_bound(TEXT) + 1000);
    CHECK(s->bytes != NULL);
    s->size = 0;
    for (size_t i = 0; i < FRAMES; i++) {
        if (i == FRAMES - 1) {
            memcpy(s->bytes + s->size, "\x50\x2a\x4d\x18\3\0\0\0abc", 11);
            s->size += 11;
        }
        size = 0;
        CHECK_INT(fp_zstd_put(zst, s->text + i * TEXT, TEXT, true, s->bytes + s->size, &size), 0);
        s->end[i] = s->size += size;
        fp_zstd_table_add(&table, size, TEXT);
    }
    end = fp_zstd_table_print(&table, &size);
    CHECK(end != NULL);
    memcpy(s->bytes + s->size, end, size);
    s->size += size;
    free(end);
    fp_zstd_table_free(&table);
    fp_zstd_destroy(zst);
}

struct result {
    char text[FRAMES * TEXT + 10000];
    size_t size;
    int errors, is_between;
};

/* As a reader does: behind an error at the next magic number. */
static void read_all(struct result *result, const char *bytes, size_t size, size_t piece,
                     size_t room)
{
    struct fp_unzstd *unzst;
    const char *why;

    memset(result, 0, sizeof(*result));
    CHECK_INT(fp_unzstd_create(&unzst), 0);
    for (size_t at = 0, used, made; at < size;) {
        size_t in = size - at < piece ? size - at : piece;
        int err;

        CHECK(result->size + room <= sizeof(result->text));
        err = fp_unzstd_read(unzst, bytes + at, in, &used, result->text + result->size, room, &made,
                             &why);
        if (err == 0) {
            CHECK(used <= in && made <= room && used + made > 0);
            at += used;
            result->size += made;
            continue;
        }
        CHECK_INT(err, FP_EINVAL);
        CHECK(why[0] != '\0');
        result->errors++;
        for (at++; at + 4 <= size && memcmp(bytes + at, "\x28\xb5\x2f\xfd", 4);)
            at++;
        if (at + 4 > size)
            at = size;
    }
    result->is_between = fp_unzstd_is_between(unzst);
    fp_unzstd_destroy(unzst);
}

static struct stream stream;
static struct result result;

static void text_comes_back_in_pieces_of_any_size(void)
{
    static const size_t pieces[] = {1, 7, 4096, 100000, 10000000};

    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        read_all(&result, stream.bytes, stream.size, pieces[i], pieces[i] > 1000 ? 1000 : 100);
        CHECK_INT(result.errors, 0);
        CHECK(result.is_between);
        CHECK_INT(result.size, sizeof(stream.text));
        CHECK(memcmp(result.text, stream.text, sizeof(stream.text)) == 0);
    }
}

static void a_stream_may_end_anywhere(void)
{
    for (size_t size = 0; size < stream.end[1]; size += 1 + size / 50) {
        read_all(&result, stream.bytes, size, 65536, 1000);
        CHECK_INT(result.errors, 0);
        CHECK_INT(result.is_between, size == 0 || size == stream.end[0]);
        CHECK(memcmp(result.text, stream.text, result.size) == 0);
        CHECK(result.size >= (size >= stream.end[0] ? TEXT : 0));
    }
}

/* Frames before and behind the damaged one are whole. */
static void damage_costs_one_frame(void)
{
    uint64_t random = 9;
    char *bytes = malloc(stream.size);

    CHECK(bytes != NULL);
    for (int i = 0; i < 200; i++) {
        size_t at = stream.end[0] + run_below(&random, (uint32_t)(stream.end[1] - stream.end[0]));

        memcpy(bytes, stream.bytes, stream.size);
        bytes[at] ^= (char)(1 + run_below(&random, 255));
        read_all(&result, bytes, stream.size, 65536, 4096);
        CHECK(result.errors >= 1);
        CHECK(result.size >= 3 * TEXT);
        CHECK(memcmp(result.text, stream.text, TEXT) == 0);
        CHECK(memcmp(result.text + result.size - 2 * TEXT, stream.text + 2 * TEXT, 2 * TEXT) == 0);
    }
    free(bytes);
}

static void any_bytes_are_refused_or_read(void)
{
    uint64_t random = 11;
    char bytes[400];

    for (int i = 0; i < 20000; i++) {
        size_t size = run_below(&random, sizeof(bytes));

        for (size_t k = 0; k < size; k++)
            bytes[k] = (char)run_random(&random);
        if (size > 4 && i % 2 == 0)
            memcpy(bytes, "\x28\xb5\x2f\xfd", 4);
        read_all(&result, bytes, size, 50, 1000);
    }
}

/* It would take 128 MiB. */
static void a_frame_with_a_huge_window_is_refused(void)
{
    static const char head[] = "\x28\xb5\x2f\xfd\x00\x88\x01\x00\x00";
    struct fp_unzstd *unzst;
    size_t used, made;
    char out[100];
    const char *why = "";

    CHECK_INT(fp_unzstd_create(&unzst), 0);
    CHECK_INT(fp_unzstd_read(unzst, head, 9, &used, out, sizeof(out), &made, &why), FP_EINVAL);
    CHECK(strstr(why, "memory") != NULL);
    fp_unzstd_destroy(unzst);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    make(&stream);
    RUN(text_comes_back_in_pieces_of_any_size);
    RUN(a_stream_may_end_anywhere);
    RUN(damage_costs_one_frame);
    RUN(any_bytes_are_refused_or_read);
    RUN(a_frame_with_a_huge_window_is_refused);
    free(stream.bytes);
    return RUN_END();
}
