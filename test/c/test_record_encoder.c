/* test_record_encoder.c - what the portable engine hands over, as records; and what it must not
 * hand over. */
#include <stdatomic.h>
#include <time.h>

#include "base/error.h"
#include "broken.h"
#include "format/record.h"
#include "session/record_encoder.h"
#include "test.h"

#define TEXT(literal) ((struct fp_text){(const unsigned char *)(literal), sizeof(literal) - 1})

static const struct fp_text nothing = {NULL, 0};
static const struct fp_mfa_text no_call = {0};

struct fixture {
    struct fp_record_encoder *portable;
    struct fp_ring *ring;
    struct fp_counters stats;
    int64_t value[FP_METRIC_COUNT], time_us;
    struct fp_sample_clock clock;
    union {
        struct fp_record head;
        struct fp_record_process process;
        struct fp_record_frame frame;
        struct fp_record_stack stack;
        struct fp_record_sample sample;
        unsigned char bytes[8192];
    } last;
};

/* One a millisecond, from some day in 2026 on. */
static void tick(struct fixture *f, uint64_t missed)
{
    f->time_us += 1000;
    CHECK_INT(fp_record_encoder_tick(f->portable, missed, f->time_us, 0), 0);
}

static struct fixture *create(void)
{
    struct fixture *f = calloc(1, sizeof *f);

    CHECK_INT(fp_ring_create(&f->ring, 0), 0);
    CHECK_INT(fp_record_encoder_create(&f->portable, f->ring, &f->stats, &f->clock), 0);
    f->time_us = INT64_C(1795237782932904);
    tick(f, 0);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_record_encoder_destroy(f->portable);
    fp_ring_destroy(f->ring);
    free(f);
}

/* The type of the next record, now f->last; -1 when there is none. */
static int pop(struct fixture *f)
{
    size_t size;
    const void *record = fp_ring_peek(f->ring, &size);

    if (record == NULL)
        return -1;
    CHECK(size % 8 == 0 && size <= sizeof f->last);
    memset(&f->last, 0xee, sizeof f->last);
    memcpy(&f->last, record, size);
    CHECK_INT(f->last.head.size, size);
    fp_ring_release(f->ring);
    return f->last.head.type;
}

static void fill(struct fixture *f)
{
    while (fp_ring_reserve(f->ring, 8) != NULL)
        fp_ring_commit(f->ring);
}

static void empty(struct fixture *f)
{
    size_t size;

    while (fp_ring_peek(f->ring, &size) != NULL)
        fp_ring_release(f->ring);
}

static void define_pid(struct fixture *f, uint32_t process, uint32_t number, uint32_t stack)
{
    const int32_t frame[] = {4};

    CHECK_INT(fp_record_encoder_process(f->portable, process, number, 0, nothing, nothing, &no_call,
                                        &no_call),
              0);
    CHECK_INT(fp_record_encoder_stack(f->portable, stack, frame, 1), 0);
    CHECK_INT(pop(f), FP_RECORD_PROCESS);
    CHECK_INT(pop(f), FP_RECORD_STACK);
}

static void define(struct fixture *f, uint32_t process, uint32_t stack)
{
    define_pid(f, process, 90, stack);
}

static int sample(struct fixture *f, uint32_t process, uint32_t stack)
{
    return fp_record_encoder_sample(f->portable, process, stack, FP_STATUS_waiting, f->value);
}

/* The process has so many reductions: a record of this type. */
static void samples(struct fixture *f, int64_t reductions, int type)
{
    f->value[FP_METRIC_reductions] = reductions;
    CHECK_INT(sample(f, 5, 9), 0);
    CHECK_INT(pop(f), type);
}

static uint64_t stat(struct fixture *f, enum fp_counter stat)
{
    return fp_counters_get(&f->stats, stat);
}

TEST_WITH(a_process_carries_its_texts_in_order, create())
{
    struct fp_mfa_text initial = {1, TEXT("proc_lib"), TEXT("init_p"), 5};
    struct fp_mfa_text behaviour = {1, TEXT("my_server"), TEXT("init"), 1};

    CHECK_INT(fp_record_encoder_process(f->portable, FP_PROCESS_SLOTS - 1, 42, 3, TEXT("me"),
                                        TEXT("x y"), &initial, &behaviour),
              0);
    CHECK_INT(pop(f), FP_RECORD_PROCESS);
    CHECK_INT(f->last.process.slot, FP_PROCESS_SLOTS - 1);
    CHECK_INT(f->last.process.is_text, 1);
    CHECK_INT(f->last.process.number, 42);
    CHECK_INT(f->last.process.serial, 3);
    CHECK_INT(f->last.process.registered_name, 2);
    CHECK_INT(f->last.process.initial_call.module, 8);
    CHECK_INT(f->last.process.initial_call.function, 6);
    CHECK_INT(f->last.process.initial_call.arity, 5);
    CHECK_INT(f->last.process.proc_lib_initial_call.module, 9);
    CHECK_INT(f->last.process.label, 3);
    CHECK_BYTES(f->last.process.text, 32, "mex yproc_libinit_pmy_serverinit", 32);
    CHECK_INT(fp_record_encoder_process(f->portable, 0, 1, 0, nothing, nothing, &no_call, &no_call),
              0);
    CHECK_INT(pop(f), FP_RECORD_PROCESS);
    CHECK_INT(f->last.process.initial_call.module, 0);
    CHECK_INT(f->last.head.size, sizeof f->last.process);
}

TEST_WITH(a_frame_carries_its_texts_in_order, create())
{
    CHECK_INT(fp_record_encoder_frame(f->portable, FP_FRAME_TEXT_MAX - 1, TEXT("lists"),
                                      TEXT("map"), 2, 1239, TEXT("lists.erl")),
              0);
    CHECK_INT(pop(f), FP_RECORD_FRAME);
    CHECK(f->last.frame.id == (FP_FRAME_TEXT | (FP_FRAME_TEXT_MAX - 1)));
    CHECK_INT(f->last.frame.line, 1239);
    CHECK_INT(f->last.frame.arity, 2);
    CHECK_INT(f->last.frame.module_len, 5);
    CHECK_INT(f->last.frame.function_len, 3);
    CHECK_INT(f->last.frame.file_len, 9);
    CHECK_BYTES(f->last.frame.text, 17, "listsmaplists.erl", 17);
    CHECK_INT(fp_record_encoder_frame(f->portable, 0, TEXT("m"), nothing, 0, 0, nothing), 0);
    CHECK_INT(pop(f), FP_RECORD_FRAME);
}

TEST_WITH(a_stack_carries_ids_and_markers, create())
{
    const int32_t frame[] = {0, 65535, -1, -2};
    int32_t full[FP_STACK_FRAMES_MAX] = {0};

    CHECK_INT(fp_record_encoder_stack(f->portable, FP_STACK_SLOTS - 1, frame, 4), 0);
    CHECK_INT(pop(f), FP_RECORD_STACK);
    CHECK_INT(f->last.stack.slot, FP_STACK_SLOTS - 1);
    CHECK_INT(f->last.head.count, 4);
    CHECK(f->last.stack.frame[0] == FP_FRAME_TEXT);
    CHECK(f->last.stack.frame[1] == (FP_FRAME_TEXT | 65535));
    CHECK_INT(f->last.stack.frame[2], FP_FRAME_TRUNCATED);
    CHECK_INT(f->last.stack.frame[3], FP_FRAME_RUNNING);
    CHECK_INT(fp_record_encoder_stack(f->portable, 0, full, FP_STACK_FRAMES_MAX), 0);
    CHECK_INT(pop(f), FP_RECORD_STACK);
    CHECK_INT(stat(f, FP_COUNTER_stacks), 2);
}

TEST_WITH(samples_are_those_of_the_process, create())
{
    int64_t before;

    define(f, 5, 9);
    samples(f, 100, FP_RECORD_SAMPLE);
    before = f->last.sample.time_us;
    tick(f, 4);
    samples(f, 100, FP_RECORD_REPEAT);
    CHECK_INT(f->last.sample.time_us, before + 1000);
    samples(f, 130, FP_RECORD_SAMPLE);
    CHECK_INT(f->last.sample.delta[FP_METRIC_reductions], 30);
    /* The same one under a new name goes on. */
    define(f, 5, 9);
    samples(f, 150, FP_RECORD_SAMPLE);
    CHECK_INT(f->last.sample.delta[FP_METRIC_reductions], 20);
    /* Another process in the slot: another history. */
    define_pid(f, 5, 91, 9);
    samples(f, 7, FP_RECORD_SAMPLE);
    CHECK_INT(f->last.sample.delta[FP_METRIC_reductions], 0);
    CHECK_INT(stat(f, FP_COUNTER_attempted), 5);
    CHECK_INT(stat(f, FP_COUNTER_dropped), 0);
    CHECK_INT(stat(f, FP_COUNTER_ticks), 2);
    CHECK_INT(stat(f, FP_COUNTER_missed), 4);
}

static int64_t monotonic_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Not this machine's clock: that of the node whose samples these are. */
TEST_WITH(the_clock_of_the_samples_is_told, create())
{
    for (int i = 0; i < 3; i++) {
        int64_t before = monotonic_us(), after, offset;

        tick(f, 0);
        after = monotonic_us();
        offset = atomic_load(&f->clock.offset_us);
        CHECK(f->time_us - offset >= before && f->time_us - offset <= after);
        f->time_us += 3600000000;
    }
}

TEST_WITH(a_clock_that_is_set_back_does_not_set_back_the_samples, create())
{
    int64_t before = f->time_us;

    define(f, 5, 9);
    CHECK_INT(fp_record_encoder_tick(f->portable, 0, before - 7000000, 0), 0);
    CHECK_INT(sample(f, 5, 9), 0);
    CHECK_INT(pop(f), FP_RECORD_SAMPLE);
    CHECK_INT(f->last.sample.time_us, before + 1);
    CHECK_INT(fp_record_encoder_tick(f->portable, 0, 0, 0), FP_EINVAL);
    CHECK_INT(fp_record_encoder_tick(f->portable, 0, -1, 0), FP_EINVAL);
    CHECK_INT(fp_record_encoder_tick(f->portable, 0, FP_TIME_US_MAX + 1, 0), FP_EINVAL);
    CHECK_INT(stat(f, FP_COUNTER_ticks), 2);
}

TEST_WITH(what_was_lost_on_its_way_is_counted, create())
{
    define(f, 5, 9);
    fp_record_encoder_lost(f->portable, 3, 4, 50);
    CHECK_INT(sample(f, 5, 9), 0);
    CHECK_INT(stat(f, FP_COUNTER_ticks), 4);
    CHECK_INT(stat(f, FP_COUNTER_missed), 4);
    CHECK_INT(stat(f, FP_COUNTER_attempted), 51);
    CHECK_INT(stat(f, FP_COUNTER_dropped), 50);
}

TEST_WITH(a_sample_of_what_is_not_defined_is_dropped, create())
{
    CHECK_INT(sample(f, 5, 9), FP_EFULL);
    define(f, 5, 8);
    CHECK_INT(sample(f, 5, 9), FP_EFULL);
    CHECK_INT(sample(f, 4, 8), FP_EFULL);
    CHECK_INT(sample(f, 5, 8), 0);
    CHECK_INT(stat(f, FP_COUNTER_attempted), 4);
    CHECK_INT(stat(f, FP_COUNTER_dropped), 3);
}

TEST_WITH(a_full_ring_drops_until_all_is_defined_anew, create())
{
    const int32_t frame[] = {1};

    define(f, 5, 9);
    fill(f);
    CHECK_INT(sample(f, 5, 9), FP_EFULL);
    CHECK_INT(fp_record_encoder_frame(f->portable, 1, TEXT("m"), TEXT("f"), 0, 0, nothing),
              FP_EFULL);
    empty(f);
    CHECK_INT(sample(f, 5, 9), 0);
    fill(f);
    CHECK_INT(
        fp_record_encoder_process(f->portable, 5, 91, 0, nothing, nothing, &no_call, &no_call),
        FP_EFULL);
    CHECK_INT(fp_record_encoder_stack(f->portable, 9, frame, 1), FP_EFULL);
    empty(f);
    CHECK_INT(sample(f, 5, 9), FP_EFULL); /* would be another's */
    tick(f, 0);
    define(f, 5, 9);
    CHECK_INT(sample(f, 5, 9), 0);
    CHECK_INT(stat(f, FP_COUNTER_attempted), 4);
    CHECK_INT(stat(f, FP_COUNTER_dropped), 2);
}

/* Stacks told after a frame that did not fit may name it. */
TEST_WITH(a_frame_that_was_refused_takes_its_stacks_with_it, create())
{
    const int32_t frame[] = {1};

    define(f, 5, 9);
    fill(f);
    CHECK_INT(fp_record_encoder_frame(f->portable, 1, TEXT("m"), TEXT("f"), 0, 0, nothing),
              FP_EFULL);
    empty(f);
    CHECK_INT(fp_record_encoder_stack(f->portable, 9, frame, 1), FP_EFULL);
    CHECK_INT(sample(f, 5, 9), FP_EFULL);
    CHECK_INT(pop(f), -1);
    tick(f, 0);
    CHECK_INT(fp_record_encoder_frame(f->portable, 1, TEXT("m"), TEXT("f"), 0, 0, nothing), 0);
    CHECK_INT(fp_record_encoder_stack(f->portable, 9, frame, 1), 0);
    CHECK_INT(sample(f, 5, 9), 0);
}

#define PROCESS(slot, name, label, call, behaviour)                                                \
    fp_record_encoder_process(f->portable, slot, 1, 0, name, label, call, behaviour)
#define FRAME_OF(id, module, function, arity, file)                                                \
    fp_record_encoder_frame(f->portable, id, module, function, arity, UINT32_MAX, file)

TEST_WITH(what_is_out_of_range_is_refused, create())
{
    static unsigned char much[1021];
    struct fp_text long_text = {much, 1021}, longest = {much, 1020}, m = TEXT("m");
    struct fp_mfa_text calls[] = {
        {1, long_text, m, 0}, {1, m, long_text, 0}, {1, nothing, m, 0}, {1, m, m, 256}};
    struct fp_mfa_text all = {1, longest, longest, 255};
    int32_t frame[FP_STACK_FRAMES_MAX + 1] = {0};

    CHECK_INT(PROCESS(FP_PROCESS_SLOTS, nothing, nothing, &no_call, &no_call), FP_EINVAL);
    CHECK_INT(PROCESS(1, long_text, nothing, &no_call, &no_call), FP_EINVAL);
    CHECK_INT(PROCESS(1, nothing, long_text, &no_call, &no_call), FP_EINVAL);
    for (size_t i = 0; i < 4; i++) {
        CHECK_INT(PROCESS(1, nothing, nothing, &calls[i], &no_call), FP_EINVAL);
        CHECK_INT(PROCESS(1, nothing, nothing, &no_call, &calls[i]), FP_EINVAL);
    }
    CHECK_INT(FRAME_OF(FP_FRAME_TEXT_MAX, m, m, 0, nothing), FP_EINVAL);
    CHECK_INT(FRAME_OF(0, nothing, m, 0, nothing), FP_EINVAL);
    CHECK_INT(FRAME_OF(0, long_text, m, 0, nothing), FP_EINVAL);
    CHECK_INT(FRAME_OF(0, m, long_text, 0, nothing), FP_EINVAL);
    CHECK_INT(FRAME_OF(0, m, m, 0, long_text), FP_EINVAL);
    CHECK_INT(FRAME_OF(0, m, m, 256, nothing), FP_EINVAL);
    CHECK_INT(fp_record_encoder_stack(f->portable, FP_STACK_SLOTS, frame, 1), FP_EINVAL);
    CHECK_INT(fp_record_encoder_stack(f->portable, 0, frame, FP_STACK_FRAMES_MAX + 1), FP_EINVAL);
    frame[2] = -3;
    CHECK_INT(fp_record_encoder_stack(f->portable, 0, frame, 3), FP_EINVAL);
    frame[2] = FP_FRAME_TEXT_MAX;
    CHECK_INT(fp_record_encoder_stack(f->portable, 0, frame, 3), FP_EINVAL);
    CHECK_INT(sample(f, FP_PROCESS_SLOTS, 0), FP_EINVAL);
    CHECK_INT(sample(f, 0, FP_STACK_SLOTS), FP_EINVAL);
    CHECK_INT(fp_record_encoder_sample(f->portable, 0, 0, FP_STATUS_free, f->value), FP_EINVAL);
    CHECK_INT(pop(f), -1);
    CHECK_INT(stat(f, FP_COUNTER_attempted), 0);
    /* The longest there may be. */
    CHECK_INT(PROCESS(1, longest, longest, &all, &all), 0);
    CHECK_INT(FRAME_OF(0, longest, longest, 255, longest), 0);
    CHECK_INT(pop(f), FP_RECORD_PROCESS);
    CHECK_INT(pop(f), FP_RECORD_FRAME);
}

/* A stack that was refused half way is not the one that was there before. */
TEST_WITH(a_refused_stack_is_not_committed_by_the_next, create())
{
    const int32_t bad[] = {1, 2, -9}, good[] = {7};

    CHECK_INT(fp_record_encoder_stack(f->portable, 3, bad, 3), FP_EINVAL);
    CHECK_INT(fp_record_encoder_stack(f->portable, 4, good, 1), 0);
    CHECK_INT(pop(f), FP_RECORD_STACK);
    CHECK_INT(f->last.stack.slot, 4);
    CHECK_INT(pop(f), -1);
}

TEST_WITH(the_books_balance_whatever_is_handed_over, create())
{
    uint64_t random = 12, samples = 0;
    int32_t frame[300];

    for (int i = 0; i < 300000; i++) {
        uint32_t slot = run_below(&random, 20);
        int type;

        switch (run_below(&random, 8)) {
        case 0:
            fp_record_encoder_process(f->portable, slot, slot, 0, TEXT("name"), TEXT("label"),
                                      &no_call, &no_call);
            break;
        case 1:
            for (size_t k = 0; k < 300; k++)
                frame[k] = (int32_t)run_below(&random, 70000) - 2;
            fp_record_encoder_stack(f->portable, slot, frame, run_below(&random, 3));
            break;
        case 2:
            tick(f, run_below(&random, 2));
            break;
        case 3:
            while (run_below(&random, 20) != 0 && (type = pop(f)) >= 0)
                samples += type == FP_RECORD_SAMPLE || type == FP_RECORD_REPEAT;
            break;
        default:
            f->value[run_below(&random, FP_METRIC_COUNT)] = (int64_t)run_random(&random);
            fp_record_encoder_sample(f->portable, slot, run_below(&random, 20),
                                     run_below(&random, 9), f->value);
            break;
        }
    }
    for (int type; (type = pop(f)) >= 0;)
        samples += type == FP_RECORD_SAMPLE || type == FP_RECORD_REPEAT;
    CHECK(samples > 1000);
    CHECK(stat(f, FP_COUNTER_dropped) > 1000);
    CHECK_INT(stat(f, FP_COUNTER_attempted), samples + stat(f, FP_COUNTER_dropped));
}

TEST_WITH(a_sample_before_the_first_tick_is_dropped, create())
{
    struct fp_record_encoder *encoder;
    const int32_t frame[] = {-2};

    CHECK_INT(fp_record_encoder_create(&encoder, f->ring, &f->stats, &f->clock), 0);
    CHECK_INT(fp_record_encoder_process(encoder, 1, 2, 3, nothing, nothing, &no_call, &no_call), 0);
    CHECK_INT(fp_record_encoder_stack(encoder, 1, frame, 1), 0);
    empty(f);
    CHECK_BROKEN(
        "session/record_encoder.c",
        CHECK_INT(fp_record_encoder_sample(encoder, 1, 1, FP_STATUS_waiting, f->value), FP_EFULL));
    CHECK_INT(pop(f), -1);
    CHECK_INT(fp_counters_get(&f->stats, FP_COUNTER_dropped), 1);
    fp_record_encoder_destroy(encoder);
}
