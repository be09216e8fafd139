#include "format/write_self.h"

#include <string.h>

#include "base/buffer.h"
#include "format/encode.h"
#include "format/scan.h"
#include "format/write_frame.h"
#include "format/write_numbers.h"
#include "format/write_process.h"

/* The tid of no Erlang process before 2^28 processes were started. */
#define OWN_TID 0x7fffffff

/* All of the constants, with the event. */
#define CONSTANT_BYTES 320

static char *put_text(char *out, const char *text)
{
    return fp_put(out, text, strlen(text));
}

static char *put_gauges(char *out, const struct fp_gauges *now, const struct fp_gauges *before)
{
    for (uint32_t i = 0; i < now->n; i++) {
        const struct fp_gauge *gauge = &now->gauge[i];
        const struct fp_gauge *old = fp_gauges_find(before, gauge->name, i);
        /* Gauges of other nodes may be any numbers: the difference wraps around. */
        uint64_t change = old == NULL ? 0 : (uint64_t)gauge->value - (uint64_t)old->value;

        out = fp_put_number(put_text(out, gauge->name), gauge->value, (int64_t)change);
    }
    return out;
}

size_t fp_self_bytes(const struct fp_self_sample *sample)
{
    const size_t gauge_bytes = FP_GAUGES_NAME_ROOM + 2 * FP_I64_DIGITS + 3;

    return CONSTANT_BYTES + strlen(sample->engine) +
           3 * (strlen(sample->note) + strlen(sample->about)) + 2 * FP_GAUGES_MAX * gauge_bytes;
}

char *fp_put_self(char *out, const char *event, uint32_t os_pid, int64_t time_us,
                  const struct fp_self_sample *sample)
{
    struct fp_slice note = {sample->note, strlen(sample->note)};

    out = fp_put_thread(FP_PUT_LITERAL(out, "flame_prof "), os_pid, OWN_TID);
    out = FP_PUT_LITERAL(fp_put_time(out, time_us), ": ");
    for (int i = 0; i < 2; i++)
        out = put_gauges(out, sample->now[i], sample->before[i]);
    out = put_text(FP_PUT_LITERAL(out, "name=flame_prof engine="), sample->engine);
    if (sample->mode != NULL)
        out = put_text(FP_PUT_LITERAL(out, " mode="), sample->mode);
    out = fp_put_about(FP_PUT_LITERAL(out, " format=" FP_FORMAT_TEXT), sample->about);
    if (note.size > 0)
        out = fp_put_word(FP_PUT_LITERAL(out, " trigger="), note);
    out = FP_PUT_LITERAL(put_text(FP_PUT_LITERAL(out, " "), event), ":\n");
    return FP_PUT_LITERAL(out, FP_FRAME_ADDRESS "flame_prof_self (flame_prof)\n" FP_FRAME_ADDRESS
                                                "waiting (status)\n\n");
}
