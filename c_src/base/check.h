/* check.h - invariants that are checked in the product, too.
 *
 *      if (!FP_CHECK(slot < FP_STACK_SLOTS))
 *          return FP_EINVAL;
 *
 * A broken invariant is a mistake of this library, or of what wrote over its memory. It must not
 * end the VM, and must not become a number in a file: FP_CHECK counts it, keeps the place of the
 * first one, and is false, and the caller goes on without what is broken. The sampler and the
 * writer look at the count at each step: the session ends, with the place as its error.
 *
 * Async-signal-safe; any thread. No lock, no memory. Tests, fuzzers and the simulation have a hook,
 * which aborts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FP_CHECK(condition)                                                                        \
    (__builtin_expect(!!(condition), 1) || fp_check_broken(__FILE__, __LINE__, #condition))

/* Checks that cost too much for a tick. Builds of tests check it that have objects of their own:
 * those of the sanitizers and the fuzzers, and the simulation with mistakes (tools/test_c.mk). */
#ifdef FP_SLOW_CHECKS
#define FP_CHECK_SLOW(condition) FP_CHECK(condition)
#else
#define FP_CHECK_SLOW(condition) true
#endif

/* For a place and its text. */
#define FP_CHECK_ROOM 200u

/* NULL in the product. Set before any thread runs. */
extern void (*fp_check_hook)(const char *file, int line, const char *condition);

/* False. The texts live as long as the library. */
bool fp_check_broken(const char *file, int line, const char *condition);
/* How many there were since the library was loaded. */
uint64_t fp_check_count(void);
/* "session/series.c:41: stack < FP_STACK_SLOTS": the first one since fp_check_forget(). "" where
 * there was none. */
void fp_check_print(char text[FP_CHECK_ROOM]);
void fp_check_forget(void);
