/* explain.h - a capture (handler.h) to the frames of its process, from C and BIFs down to the
 * oldest Erlang function. */
#pragma once

#include <stdint.h>

#include "erts/capture/handler.h"

/* flame_prof_capture_check has a probe for each class. A capture may be of several; each is of
 * ERLANG. The numbers are bits of a mask, and stable. */
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

/* The classes that are off in the whole process: none until a probe fails. */
extern _Atomic uint32_t fp_capture_classes_off;

/* The VM's code as the reader of captures needs it. */
struct fp_capture_code {
    const struct fp_memory *memory;
    const struct fp_ranges *ranges;
    struct fp_range fragments; /* code that the JIT's functions share, in no function */
    uint64_t nif_return;       /* return address of every NIF, in the fragment that calls NIFs */
    /* Number of C frames in pc, innermost first; `at_entry`: the registers at JIT code's call of C;
     * `complete`: 0 when the walk ended before JIT code. NULL: there is no unwinder. */
    size_t (*unwind)(void *self, const struct fp_capture *capture, uint64_t *pc, size_t max,
                     struct fp_registers *at_entry, int *complete);
    void *unwind_self;
    int with_native; /* the stack includes C frames */
    uint32_t off;    /* classes whose captures are refused */
};

/* The frames of the whole stack. `snapshot`, decoded from capture->structure, is updated to the
 * moment of the capture: `stop`, sizes that depend on it, reductions. 0; FP_ENOENT: the stack was
 * not found; FP_EUNVERIFIED: a class of the capture is off, and the snapshot is unchanged. Any
 * thread, no allocation. */
int fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                      const struct fp_capture *capture, struct fp_snapshot *snapshot,
                      struct fp_stack *stack);
