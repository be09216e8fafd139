/* A session with a wrong layout, for flame_prof_native_SUITE. The test library is the agent linked
 * with `--wrap=fp_session_start`: a note "layout FIELD OFFSET" moves the field of that number in
 * this session's copy of the layout. */
#include <stdio.h>

#include "base/error.h"
#include "session/session.h"

int __real_fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                            char *why, size_t why_size);
int __wrap_fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                            char *why, size_t why_size);

_Static_assert(FP_FIELD_COUNT == 24, "flame_prof_native_SUITE moves so many");

int __wrap_fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                            char *why, size_t why_size)
{
    static struct fp_session_options patched; /* one caller: the test */
    struct fp_layout *layout = &patched.sampler.layout;
    unsigned field, offset;

    if (sscanf(options->writer.note, "layout %u %u", &field, &offset) != 2)
        return __real_fp_session_start(session, options, why, why_size);
    patched = *options;
    if (field >= FP_FIELD_COUNT || offset > layout->snapshot_size - 24u) {
        snprintf(why, why_size, "the layout has no field %u, or no offset %u", field, offset);
        return FP_EINVAL;
    }
    layout->release.offset[field] = (uint16_t)offset;
    return __real_fp_session_start(session, &patched, why, why_size);
}
