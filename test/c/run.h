/* run.h - the least that a C test needs.
 *
 *      static void a_full_ring_refuses(void) { CHECK(...); }
 *      int main(int argc, char **argv)
 *      {
 *          RUN_START(argc, argv);
 *          RUN(a_full_ring_refuses);
 *          return RUN_END();
 *      }
 *
 * Speaks TAP. A failed check ends the program at once, with what was expected and where: the
 * sanitizers see no half-done test, and a debugger stands at the place. `test_ring full` runs the
 * tests with `full` in their names. Checks may be used in any thread. */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const char *run_only;
static const char *run_name = "";
static int run_count;

#define RUN_START(argc, argv) (run_only = (argc) > 1 ? (argv)[1] : NULL)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        if (run_only != NULL && strstr(#test, run_only) == NULL)                                   \
            break;                                                                                 \
        run_name = #test;                                                                          \
        test();                                                                                    \
        printf("ok %d - %s\n", ++run_count, #test);                                                \
        fflush(stdout);                                                                            \
    } while (0)

#define RUN_END() (printf("1..%d\n", run_count), 0)

#define RUN_FAIL(...)                                                                              \
    do {                                                                                           \
        printf("not ok %d - %s\n# %s:%d: ", run_count + 1, run_name, __FILE__, __LINE__);          \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        fflush(stdout);                                                                            \
        abort();                                                                                   \
    } while (0)

/* A broken invariant of the product (base/check.h). */
static void run_broken(const char *file, int line, const char *condition)
{
    RUN_FAIL("a broken invariant: %s:%d: %s", file, line, condition);
}

__attribute__((constructor)) static void run_aborts_when_broken(void)
{
    fp_check_hook = run_broken;
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            RUN_FAIL("expected %s", #condition);                                                   \
    } while (0)

#define CHECK_INT(got, expected)                                                                   \
    do {                                                                                           \
        intmax_t run_got = (intmax_t)(got);                                                        \
        intmax_t run_expected = (intmax_t)(expected);                                              \
        if (run_got != run_expected)                                                               \
            RUN_FAIL("%s is %" PRIdMAX ", expected %" PRIdMAX, #got, run_got, run_expected);       \
    } while (0)

#define CHECK_BYTES(got, got_size, expected, expected_size)                                        \
    do {                                                                                           \
        size_t run_g = (got_size), run_e = (expected_size);                                        \
        if (run_g != run_e || memcmp((got), (expected), run_e) != 0)                               \
            RUN_FAIL("%s is\n[%.*s]\nexpected\n[%.*s]", #got, (int)run_g, (const char *)(got),     \
                     (int)run_e, (const char *)(expected));                                        \
    } while (0)

#define CHECK_TEXT(got, expected) CHECK_BYTES(got, strlen(got), expected, strlen(expected))

/* The same numbers in each run (splitmix64). */
static inline uint64_t run_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline uint32_t run_below(uint64_t *state, uint32_t limit)
{
    return (uint32_t)(run_random(state) % limit);
}
