/*
 * core_bench.c - what one process-sample costs between engine and file: the
 * push and the intern (sampler's side), the text (writer's side).
 *
 *      gcc -std=c11 -D_GNU_SOURCE -O2 -pthread bench/core_bench.c \
 *          $(find c_src/core c_src/out -name '*.c') -luv -o core_bench
 *
 * One line a figure: name, nanoseconds, bytes of text where there is text.
 * The best of ROUNDS, so that a busy machine disturbs little. Not a test.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/ring.h"
#include "session/stack_table.h"
#include "format/perf_script.h"
#include "../test/c/fake_code.h"
#include "../test/c/records.h"

#define ROUNDS 7
#define FRAMES 20
#define STACKS 500
#define PROCESSES 1000

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "core_bench: %s failed\n", what);
        exit(1);
    }
}

struct bench {
    struct fake_code code;
    struct fp_symbolizer symbolizer;
    struct fp_counters stats;
    struct fp_perf_script *script;
    int64_t time_us;
    uint64_t bytes;
    union record_buffer buffer;
};

static void take(struct bench *b, const struct fp_record *record)
{
    const char *text;
    size_t size;

    check(fp_perf_script_record(b->script, record, &text, &size) == 0,
          "fp_perf_script_record");
    b->bytes += size;
}

static void setup(struct bench *b)
{
    static struct fake_function functions[FRAMES];
    struct fp_perf_script_options options = {.os_pid = 12345};

    for (size_t i = 0; i < FRAMES; i++)
        functions[i] = (struct fake_function){"some_module_name",
                                              "some_function_name", "", 3};
    b->code.functions = functions;
    b->code.function_count = FRAMES;
    b->symbolizer = fake_symbolizer(&b->code);
    options.symbolizer = &b->symbolizer;
    options.stats = &b->stats;
    b->time_us = INT64_C(1700000000000000);
    check(fp_perf_script_create(&b->script, &options) == 0, "create");
    for (uint32_t i = 0; i < PROCESSES; i++)
        take(b, make_process(&b->buffer, i, 100 + i, 0, BYTES("some_server"),
                             CALL("proc_lib", "init_p", 5),
                             CALL("some_server", "init", 1)));
    for (uint32_t i = 0; i < STACKS; i++) {
        uint64_t frame[FRAMES];

        for (uint32_t k = 0; k < FRAMES; k++)
            frame[k] = fake_address(k, 1 + i + k);
        take(b, make_stack(&b->buffer, i, frame, FRAMES));
    }
}

static const struct fp_record *nth_sample(struct bench *b, uint32_t i)
{
    make_sample(&b->buffer, i % PROCESSES, i % STACKS, ++b->time_us, 0, 0);
    /* As in life: a large counter, some sizes, many zeros. */
    for (int m = 0; m < FP_METRIC_COUNT; m++) {
        b->buffer.sample.value[m] = m % 3 == 0 ? 0 : 1234567 >> m;
        b->buffer.sample.delta[m] = m % 4 == 0 ? i % 5000 : 0;
    }
    b->buffer.sample.value[0] = 9563667000 + i;
    return &b->buffer.head;
}

static void print(const char *name, double ns, double bytes)
{
    if (bytes > 0)
        printf("%-24s %8.1f ns  %6.0f bytes\n", name, ns, bytes);
    else
        printf("%-24s %8.1f ns\n", name, ns);
}

enum kind { SAMPLE, REPEAT, FIRST_REPEAT };

/* Making the record is inside the measure; it is below 30 ns. */
static void bench_text(const char *name, enum kind kind)
{
    struct bench *b = calloc(1, sizeof(*b));
    const uint32_t count = 200000;
    double best = 1e18, bytes = 0;

    check(b != NULL, "calloc");
    setup(b);
    for (uint32_t i = 0; i < PROCESSES; i++)
        take(b, nth_sample(b, i));
    for (int round = 0; round < ROUNDS; round++) {
        double begin = now_ns(), ns;

        b->bytes = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (kind != REPEAT)
                take(b, nth_sample(b, i));
            if (kind != SAMPLE)
                take(b, make_repeat(&b->buffer, i % PROCESSES, i % STACKS,
                                    ++b->time_us));
        }
        ns = (now_ns() - begin) / count;
        best = ns < best ? ns : best;
        bytes = (double)b->bytes / count;
    }
    print(name, best, bytes);
    fp_perf_script_destroy(b->script);
    free(b);
}

/* Resolving and rendering 20 frames; the symbolizer takes next to no time. */
static void bench_render(void)
{
    struct bench *b = calloc(1, sizeof(*b));
    double best = 1e18;

    check(b != NULL, "calloc");
    setup(b);
    for (int round = 0; round < ROUNDS; round++) {
        double begin, ns;

        fp_perf_script_recode(b->script);
        begin = now_ns();
        for (uint32_t i = 0; i < STACKS; i++)
            take(b, nth_sample(b, i));
        ns = (now_ns() - begin) / STACKS;
        best = ns < best ? ns : best;
    }
    print("render_20_frames", best, 0);
    fp_perf_script_destroy(b->script);
    free(b);
}

static void bench_ring(const char *name, size_t size)
{
    static union record_buffer record;
    struct fp_ring *ring;
    double best_push = 1e18, best_pop = 1e18;

    check(fp_ring_create(&ring, (size_t)8 << 20) == 0, "fp_ring_create");
    for (int round = 0; round < ROUNDS * 4; round++) {
        double begin = now_ns(), middle, end;
        unsigned pushed = 0, popped = 0;
        uint64_t sum = 0;
        const void *got;
        size_t got_size;
        void *room;

        while ((room = fp_ring_reserve(ring, size)) != NULL) {
            memcpy(room, &record, size);
            fp_ring_commit(ring);
            pushed++;
        }
        middle = now_ns();
        while ((got = fp_ring_peek(ring, &got_size)) != NULL) {
            sum += *(const uint64_t *)got;
            fp_ring_release(ring);
            popped++;
        }
        end = now_ns();
        check(pushed == popped && sum == 0, "the ring");
        if ((middle - begin) / pushed < best_push)
            best_push = (middle - begin) / pushed;
        if ((end - middle) / popped < best_pop)
            best_pop = (end - middle) / popped;
    }
    print(name, best_push, 0);
    printf("%-24s %8.1f ns\n", "  and to take it out", best_pop);
    fp_ring_destroy(ring);
}

static void bench_intern(void)
{
    struct fp_stack_table *table;
    double best = 1e18;

    check(fp_stack_table_create(&table) == 0, "fp_stack_table_create");
    for (int round = 0; round < ROUNDS; round++) {
        const uint32_t count = 1000000;
        double begin = now_ns(), ns;
        uint64_t frame[FRAMES];
        uint32_t slot;

        for (size_t k = 0; k < FRAMES; k++)
            frame[k] = 0x7f0000000000 + k * 64;
        for (uint32_t i = 0; i < count; i++) {
            frame[i % FRAMES] ^= i % STACKS;
            fp_stack_table_intern(table, frame, FRAMES, &slot);
            frame[i % FRAMES] ^= i % STACKS;
        }
        ns = (now_ns() - begin) / count;
        best = ns < best ? ns : best;
    }
    print("intern_20_frames", best, 0);
    fp_stack_table_destroy(table);
}

int main(void)
{
    bench_text("sample", SAMPLE);
    bench_text("repeat", REPEAT);
    bench_text("sample_and_repeat", FIRST_REPEAT);
    bench_render();
    bench_ring("push_sample_280", sizeof(struct fp_record_sample));
    bench_ring("push_repeat_24", FP_RECORD_REPEAT_SIZE);
    bench_intern();
    return 0;
}
