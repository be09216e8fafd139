#include "erts/stamp.h"

#include "base/error.h"

uint32_t fp_stamp_bytes(const struct fp_layout *layout)
{
    static const enum fp_field field[] = {
        FP_FIELD_id,   FP_FIELD_i,    FP_FIELD_stop,       FP_FIELD_hend,  FP_FIELD_heap,
        FP_FIELD_htop, FP_FIELD_reds, FP_FIELD_dictionary, FP_FIELD_state, FP_FIELD_gen_gcs};
    uint32_t bytes = fp_monitors_offset(layout) + 8u;

    for (size_t i = 0; i < sizeof field / sizeof *field; i++) {
        uint32_t end = layout->release.offset[field[i]] + fp_field_width(field[i]);

        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

int fp_stamp_read(const struct fp_layout *layout, const struct fp_memory *memory, uint64_t address,
                  struct fp_stamp *stamp)
{
    unsigned char bytes[FP_PROBE_WINDOW];

    if (fp_safe_read(memory, address, bytes, fp_stamp_bytes(layout)) != 0)
        return FP_EGONE;
    fp_stamp_decode(layout, bytes, stamp);
    return 0;
}
