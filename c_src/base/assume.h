/* assume.h - conditions for the static analyzer. FP_ASSUME(condition) is nothing in a program; each
 * use has a comment that says why the condition holds. */
#pragma once

#ifdef __clang_analyzer__
#define FP_ASSUME(condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_unreachable();                                                               \
    } while (0)
#else
#define FP_ASSUME(condition) ((void)0)
#endif
