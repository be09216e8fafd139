#include "erts/code_ranges.h"

#include "base/error.h"
#include "erts/code_index.h"

static int holds_erlang_code(void *memory, const struct fp_range *range)
{
    uint64_t info;

    return fp_code_index_first(memory, range, range->start, &info) == 0;
}

int fp_code_ranges(const struct fp_memory *memory, struct fp_ranges *ranges)
{
    struct fp_maps_filter filter = {holds_erlang_code, (void *)memory};

    return fp_maps_code(&filter, ranges);
}

const char *fp_code_ranges_why(int err)
{
    switch (err) {
    case FP_EFULL:
        return "the JIT's code lies in more than 64 separate mappings";
    case FP_ENOENT:
        return "no executable mapping in /proc/self/maps holds Erlang code";
    case FP_EIO:
        return "/proc/self/maps cannot be read";
    default:
        return fp_err_text(err);
    }
}
