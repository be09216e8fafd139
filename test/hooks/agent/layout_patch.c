/* A session with a wrong layout, for flame_prof_native_SUITE. The test library is the agent linked
 * with `--wrap=fp_session_start`: a note "layout FIELD OFFSET" moves that field in this session's
 * copy of the layout. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "session/session.h"

int __real_fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                            char *why, size_t why_size);
int __wrap_fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                            char *why, size_t why_size);

static int find_field(const char *name)
{
    for (int field = 0; field < FP_FIELD_COUNT; field++)
        if (strcmp(fp_field_name(field), name) == 0)
            return field;
    return -1;
}

int __wrap_fp_session_start(struct fp_session **session, const struct fp_session_options *options,
                            char *why, size_t why_size)
{
    static struct fp_session_options patched; /* one caller: the test */
    struct fp_layout *layout = &patched.sampler.layout;
    unsigned offset;
    char name[64];
    int field;

    if (sscanf(options->writer.note, "layout %63s %u", name, &offset) != 2)
        return __real_fp_session_start(session, options, why, why_size);
    patched = *options;
    field = find_field(name);
    if (field < 0 || offset > layout->snapshot_size - 24u) {
        snprintf(why, why_size, "the layout has no field %s, or no offset %u", name, offset);
        return FP_EINVAL;
    }
    layout->release.offset[field] = (uint16_t)offset;
    return __real_fp_session_start(session, &patched, why, why_size);
}
