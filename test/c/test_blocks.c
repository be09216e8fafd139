/* test_blocks.c - blocks and the sink when what they keep was written over: nothing of it reaches a
 * file. Their static functions and their fields are the test's. */
#include "store/blocks.c"
#include "store/sink.c"

#include "broken.h"
#include "logs.h"
#include "temporary.h"
#include "test.h"

static struct fp_blocks *blocks_of(bool is_zst)
{
    struct fp_blocks *blocks;

    CHECK_INT(fp_blocks_create(&blocks, is_zst), 0);
    return blocks;
}

#define BLOCKS_TEST(test)                                                                          \
    TEST_ON(test, struct fp_blocks *, blocks, blocks_of(false), fp_blocks_destroy)

static int put(struct fp_blocks *blocks, const char *text, int64_t offset_ns)
{
    return fp_blocks_put(blocks, text, strlen(text), 1, offset_ns);
}

BLOCKS_TEST(text_of_another_clock_is_not_put_into_the_open_block)
{
    CHECK_INT(put(blocks, "one", 5), 0);
    CHECK_BROKEN("store/blocks.c", CHECK_INT(put(blocks, "two", 6), FP_ENOMEM));
    CHECK_INT(fp_blocks_end(blocks), 0);
    CHECK_INT(put(blocks, "two", 6), 0);
}

BLOCKS_TEST(bounds_that_were_written_over_take_no_text)
{
    struct fp_block was;

    CHECK_INT(put(blocks, "one", 0), 0);
    was = blocks->open;
    blocks->open.bytes = BYTES_ROOM + 1;
    CHECK_BROKEN("store/blocks.c", CHECK_INT(put(blocks, "two", 0), FP_ENOMEM));
    CHECK_BROKEN("store/blocks.c", CHECK_INT(fp_blocks_end(blocks), FP_ENOMEM));
    blocks->open = was;
    blocks->begin = 1;
    CHECK_BROKEN("store/blocks.c", CHECK_INT(put(blocks, "two", 0), FP_ENOMEM));
    blocks->begin = 0;
    blocks->n = BLOCKS_MAX + 1;
    CHECK_BROKEN("store/blocks.c", CHECK_INT(put(blocks, "two", 0), FP_ENOMEM));
}

BLOCKS_TEST(a_block_with_more_than_what_waits_is_not_written)
{
    const char *bytes;

    CHECK_BROKEN("store/blocks.c", fp_blocks_drop_first(blocks));
    CHECK_INT(put(blocks, "one", 0), 0);
    CHECK_INT(fp_blocks_end(blocks), 0);
    CHECK(fp_blocks_first(blocks, &bytes) != NULL);
    blocks->closed[0].weight = 2;
    CHECK_BROKEN("store/blocks.c", CHECK(fp_blocks_first(blocks, &bytes) == NULL));
    blocks->closed[0].weight = 1;
    blocks->closed[0].bytes = 4;
    CHECK_BROKEN("store/blocks.c", CHECK(fp_blocks_first(blocks, &bytes) == NULL));
}

TEST(a_sink_that_buffers_writes_no_block)
{
    struct fp_sink_options options = {.sync = FP_SYNC_NONE};
    struct temporary directory;
    struct fp_sink_end end;
    struct fp_sink *sink;
    char why[256];

    temporary_make(&directory);
    options.directory = directory.path;
    CHECK_INT(fp_sink_open(&sink, &options, why, sizeof(why)), 0);
    CHECK_INT(fp_sink_write(sink, "one", 3, 1), 0);
    CHECK_INT(fp_blocks_end(sink->blocks), 0);
    sink->is_buffering = true;
    CHECK_BROKEN("store/sink.c", CHECK_INT(write_out(sink), FP_EIO));
    CHECK_INT(sink->file.size, 0);
    sink->is_buffering = false;
    CHECK_INT(write_out(sink), 0);
    CHECK_INT(fp_sink_write(sink, "two", 3, 1), 0);
    sink->gauges.bytes = 0;
    CHECK_BROKEN("store/sink.c", CHECK_INT(fp_sink_flush(sink, true), 0));
    CHECK_INT(fp_sink_close(sink, &end), 0);
    CHECK_INT(end.lost_weight, 0);
    temporary_remove(&directory);
}
