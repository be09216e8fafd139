#include "format/sample.h"

#include <stdbool.h>

static bool has_status_root(struct fp_slice stack)
{
    static const char root[] = " (status)\n";
    const size_t size = sizeof(root) - 1;

    return stack.size > size && memcmp(stack.at + stack.size - size, root, size) == 0;
}

int fp_sample_is_own(const struct fp_sample *sample)
{
    static const char frame[] = "\tffffffff flame_prof_self (flame_prof)\n";
    const size_t size = sizeof(frame) - 1;

    return sample->dialect == FP_OURS && sample->stack.size > size &&
           memcmp(sample->stack.at, frame, size) == 0;
}

/* Perf's samples have neither metrics nor a status. In a session's file a sample without both is
 * damaged, and not perf's. */
static enum fp_dialect dialect_of(const struct fp_scan_piece *piece, const struct fp_header *header,
                                  enum fp_dialect known)
{
    if (header->dialect == FP_ORIGINAL)
        return FP_ORIGINAL;
    if (piece->metrics.size > 0 || known == FP_OURS || has_status_root(piece->stack))
        return FP_OURS;
    return FP_PERF;
}

const char *fp_sample_read(const struct fp_scan_piece *piece, enum fp_dialect known,
                           struct fp_sample *sample)
{
    const char *bad = piece->bad;

    if (bad == NULL)
        bad = fp_parse_header(piece->header, &sample->header);
    if (bad != NULL)
        return bad;
    sample->dialect = dialect_of(piece, &sample->header, known);
    sample->fields = FP_SLICE("");
    sample->stack = piece->stack;
    if (piece->stack.size > 0 && !piece->is_ended)
        return "cut off: no empty line behind it";
    if (piece->stack.size == 0 &&
        (sample->dialect != FP_PERF || (!piece->is_ended && sample->header.rest.size == 0)))
        return "no frames";
    if (sample->dialect == FP_ORIGINAL)
        sample->fields = sample->header.rest;
    else if (piece->metrics.size > 0)
        return fp_parse_metrics_line(piece->metrics, &sample->fields);
    /* perf script -F without a call chain: the frame is on the header's line. What is no frame
     * there is the text of a tracepoint. */
    if (sample->dialect == FP_PERF && piece->stack.size == 0 && fp_is_frame(sample->header.rest))
        sample->stack = sample->header.rest;
    return NULL;
}
