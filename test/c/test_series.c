/* test_series.c - each sample of a process with its change since the last one. */
#include "base/error.h"
#include "broken.h"
#include "format/record.h"
#include "session/series.h"
#include "test.h"

struct fixture {
    struct fp_series series;
    struct fp_ring *ring;
    int64_t value[FP_METRIC_COUNT];
};

static struct fixture *create(void)
{
    struct fixture *f = calloc(1, sizeof *f);

    CHECK_INT(fp_ring_create(&f->ring, 0), 0);
    for (int m = 0; m < FP_METRIC_COUNT; m++)
        f->value[m] = 1000 + m;
    return f;
}

static void destroy(struct fixture *f)
{
    fp_ring_destroy(f->ring);
    free(f);
}

static void fill(struct fixture *f)
{
    while (fp_ring_reserve(f->ring, 16) != NULL)
        fp_ring_commit(f->ring);
}

static void empty(struct fixture *f)
{
    size_t size;

    while (fp_ring_peek(f->ring, &size) != NULL)
        fp_ring_release(f->ring);
}

static int push(struct fixture *f, uint32_t stack, uint8_t status, int64_t time)
{
    return fp_series_push(&f->series, f->ring, 7, stack, status, time, f->value, NULL);
}

static struct fp_record_sample pop(struct fixture *f)
{
    struct fp_record_sample sample = {0};
    size_t size;
    const void *record = fp_ring_peek(f->ring, &size);

    CHECK(record != NULL);
    CHECK(size <= sizeof sample);
    memcpy(&sample, record, size);
    CHECK_INT(sample.head.size, size);
    CHECK_INT(size, sample.head.type == FP_RECORD_REPEAT ? FP_RECORD_REPEAT_SIZE : sizeof sample);
    CHECK_INT(sample.process, 7);
    fp_ring_release(f->ring);
    return sample;
}

TEST_WITH(the_first_sample_has_no_change, create())
{
    struct fp_record_sample got;

    CHECK_INT(push(f, 3, FP_STATUS_runnable, 55), 0);
    got = pop(f);
    CHECK_INT(got.head.type, FP_RECORD_SAMPLE);
    CHECK_INT(got.head.status, FP_STATUS_runnable);
    CHECK_INT(got.stack, 3);
    CHECK_INT(got.time_us, 55);
    for (int m = 0; m < FP_METRIC_COUNT; m++) {
        CHECK_INT(got.value[m], 1000 + m);
        CHECK_INT(got.delta[m], 0);
    }
}

TEST_WITH(an_equal_one_repeats_and_any_difference_does_not, create())
{
    push(f, 3, FP_STATUS_waiting, 1);
    pop(f);
    CHECK_INT(push(f, 3, FP_STATUS_waiting, 2), 0);
    CHECK_INT(pop(f).head.type, FP_RECORD_REPEAT);
    push(f, 4, FP_STATUS_waiting, 3);
    CHECK_INT(pop(f).head.type, FP_RECORD_SAMPLE);
    push(f, 4, FP_STATUS_running, 4);
    CHECK_INT(pop(f).head.type, FP_RECORD_SAMPLE);
    push(f, 4, FP_STATUS_running, 5);
    CHECK_INT(pop(f).time_us, 5);
    for (int m = 0; m < FP_METRIC_COUNT; m++) {
        struct fp_record_sample got;

        f->value[m] += 9;
        push(f, 4, FP_STATUS_running, 6 + m);
        got = pop(f);
        CHECK_INT(got.head.type, FP_RECORD_SAMPLE);
        for (int k = 0; k < FP_METRIC_COUNT; k++)
            CHECK_INT(got.delta[k], k == m ? 9 : 0);
    }
}

TEST_WITH(a_change_may_be_downwards, create())
{
    struct fp_record_sample got;

    push(f, 3, FP_STATUS_waiting, 1);
    pop(f);
    f->value[FP_METRIC_memory] = 1;
    f->value[FP_METRIC_minor_gcs] = 2; /* a full sweep, then two */
    push(f, 3, FP_STATUS_waiting, 2);
    got = pop(f);
    CHECK_INT(got.delta[FP_METRIC_memory], 1 - 1000 - FP_METRIC_memory);
    CHECK_INT(got.delta[FP_METRIC_minor_gcs], 2);
}

TEST_WITH(what_was_dropped_is_in_the_next_change, create())
{
    struct fp_record_sample got;

    push(f, 3, FP_STATUS_waiting, 1);
    fill(f);
    for (int i = 0; i < 3; i++) {
        f->value[FP_METRIC_reductions] += 100;
        CHECK_INT(push(f, 3, FP_STATUS_waiting, 2), FP_EFULL);
    }
    empty(f);
    f->value[FP_METRIC_reductions] += 5;
    CHECK_INT(push(f, 3, FP_STATUS_waiting, 3), 0);
    got = pop(f);
    CHECK_INT(got.delta[FP_METRIC_reductions], 305);
    /* A first sample that was dropped leaves no history. */
    f->series = (struct fp_series){0};
    fill(f);
    CHECK_INT(push(f, 3, FP_STATUS_waiting, 4), FP_EFULL);
    empty(f);
    f->value[FP_METRIC_reductions] += 5;
    push(f, 3, FP_STATUS_waiting, 5);
    CHECK_INT(pop(f).delta[FP_METRIC_reductions], 0);
}

TEST_WITH(any_numbers_have_a_difference, create())
{
    for (int i = 0; i < 4; i++) {
        for (int m = 0; m < FP_METRIC_COUNT; m++)
            f->value[m] = i % 2 == 0 ? INT64_MIN : INT64_MAX;
        CHECK_INT(push(f, 0, 0, i), 0);
        pop(f);
    }
}

TEST_WITH(a_sample_of_a_slot_that_there_is_not_is_refused, create())
{
    size_t size;

    CHECK_BROKEN("session/series.c",
                 CHECK_INT(push(f, FP_STACK_SLOTS, FP_STATUS_waiting, 55), FP_EFULL));
    CHECK_BROKEN("session/series.c", CHECK_INT(push(f, 3, FP_STATUS_COUNT, 55), FP_EFULL));
    CHECK(fp_ring_peek(f->ring, &size) == NULL);
    CHECK_INT(push(f, 3, FP_STATUS_waiting, 55), 0);
    CHECK_INT(pop(f).stack, 3);
}

TEST_WITH(a_series_that_was_written_over_has_no_more_samples, create())
{
    CHECK_INT(push(f, 3, FP_STATUS_waiting, 55), 0);
    f->series.status = 0xee;
    CHECK_BROKEN("session/series.c", CHECK_INT(push(f, 3, FP_STATUS_waiting, 56), FP_EFULL));
}
