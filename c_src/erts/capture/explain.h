/* explain.h - what a capture (handler.h) means: the frames of the process that ran, from C and BIFs
 * down to its oldest Erlang function. */
#pragma once

#include <stdint.h>

#include "erts/capture/handler.h"

/* What captures are verified by: flame_prof_capture_check has a probe for each. A capture may be of
 * several; each is of ERLANG. The numbers are bits of a mask, and stable. */
#define FP_CAPTURE_CLASSES(X)                                                                      \
    X(0, ERLANG, "erlang")                                                                         \
    X(1, LIGHT_BIF, "light_bif")                                                                   \
    X(2, HEAVY_BIF, "heavy_bif")                                                                   \
    X(3, NIF, "nif")                                                                               \
    X(4, GC, "gc")

enum fp_capture_class {
#define FP_CAPTURE_CLASS(bit, name, atom) FP_CLASS_##name = 1 << (bit),
    FP_CAPTURE_CLASSES(FP_CAPTURE_CLASS)
#undef FP_CAPTURE_CLASS
};

/* The classes that are off, in the whole process: none until a probe says so. Any thread. */
void fp_capture_classes_off_set(uint32_t mask);
uint32_t fp_capture_classes_off(void);

/* What called C code. */
enum fp_capture_caller {
    FP_CALLER_FUNCTION, /* an instruction of an Erlang function */
    FP_CALLER_LIGHT_BIF,
    FP_CALLER_HEAVY_BIF,
    FP_CALLER_NIF,
    FP_CALLER_BREAKPOINT, /* of a function that has just been called */
    FP_CALLER_RAISE,      /* an exception: its place is on top of the stack */
    FP_CALLER_SCHEDULE,   /* the scheduler: the process goes, or has just come */
    FP_CALLER_UNKNOWN
};

/* The VM's code as the reader of captures needs it. */
struct fp_capture_code {
    const struct fp_memory *memory;
    const struct fp_ranges *ranges;
    /* What the JIT's functions share lies here, in no function. */
    struct fp_range fragments;
    /* Where NIFs return to: in the fragment that calls them. */
    uint64_t nif_return;
    /* C frames, innermost first, from a capture: how many, and in `at_entry` the registers as JIT
     * code had them when it called C. NULL: there is no unwinder. `complete` is 0 when the walk
     * ended before JIT code. */
    size_t (*unwind)(void *self, const struct fp_capture *running, uint64_t *pc, size_t max,
                     struct fp_registers *at_entry, int *complete);
    void *unwind_self;
    int with_native; /* C frames are wanted in the stack */
    uint32_t off;    /* classes whose captures are refused */
};

/* The snapshot is that of running->structure, decoded by the caller; `stop`,
 * the sizes that hang on it, and the reductions are brought up to the moment of the capture. The
 * frames of the whole stack. 0; FP_ENOENT when the stack was not found; FP_EUNVERIFIED when the
 * capture is of a class that is off, and the snapshot is unchanged. Any thread, no allocation. */
int fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                      const struct fp_capture *running, struct fp_snapshot *snapshot,
                      struct fp_stack *stack);
