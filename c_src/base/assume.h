/*
 * assume.h - what holds, and the static analyzer cannot find out.
 *
 * FP_ASSUME(condition) is nothing in a program. Beside each use stands why the condition holds.
 */
#ifndef FP_BASE_ASSUME_H
#define FP_BASE_ASSUME_H

#ifdef __clang_analyzer__
#define FP_ASSUME(condition)                                                                       \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_unreachable();                                                               \
    } while (0)
#else
#define FP_ASSUME(condition) ((void)0)
#endif

#endif
