/* Captures whose NIFs pass for BIFs, for flame_prof_capture_classes_tests: in a process with the
 * environment variable FLAME_PROF_TEST_NIF_AS_BIF. The test library is the agent linked with
 * `--wrap=fp_explain_frames`. */
#include <stdlib.h>

#include "erts/capture/explain.h"

int __real_fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                             const struct fp_capture *running, struct fp_snapshot *snapshot,
                             struct fp_stack *stack);
int __wrap_fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                             const struct fp_capture *running, struct fp_snapshot *snapshot,
                             struct fp_stack *stack);

int __wrap_fp_explain_frames(const struct fp_capture_code *code, const struct fp_layout *layout,
                             const struct fp_capture *running, struct fp_snapshot *snapshot,
                             struct fp_stack *stack)
{
    int err = __real_fp_explain_frames(code, layout, running, snapshot, stack);

    if (err != 0 || getenv("FLAME_PROF_TEST_NIF_AS_BIF") == NULL)
        return err;
    for (uint32_t i = 0; i < stack->count; i++)
        if (stack->frame[i] >> 60 == FP_FRAME_NIF >> 60)
            stack->frame[i] += FP_FRAME_BIF - FP_FRAME_NIF;
    return 0;
}
