#include "format/write_self.h"
#include "format/record.h"

#include <string.h>

#include "base/buffer.h"
#include "format/encode.h"
#include "format/write_frame.h"
#include "format/write_numbers.h"
#include "format/write_process.h"

/* The tid of no Erlang process before 2^28 processes were started. */
#define OWN_TID 0x7fffffff

/* All of the constants of a line, with the event. */
#define CONSTANT_BYTES 320
/* Of all counters: they stand in one line, as readers of one line take them together. */
#define COUNTERS_BYTES 1600
#define GAUGE_BYTES (FP_GAUGES_NAME_ROOM + 2 * FP_I64_DIGITS + 3)

static char *put_text(char *out, const char *text)
{
    return fp_put(out, text, strlen(text));
}

static char *put_gauge(char *out, const struct fp_gauges *before, const struct fp_gauge *gauge,
                       uint32_t place)
{
    const struct fp_gauge *old = fp_gauges_find(before, gauge->name, place);
    /* Gauges of other nodes may be any numbers: the difference wraps around. */
    uint64_t change = old == NULL ? 0 : (uint64_t)gauge->value - (uint64_t)old->value;

    return fp_put_number(put_text(out, gauge->name), gauge->value, (int64_t)change);
}

/* The gauges from number *at on, of both kinds, as long as the words find room behind them. */
static char *put_gauges(char *out, const char *full, const struct fp_self_sample *sample,
                        uint32_t *at)
{
    uint32_t first = sample->now[0]->n, all = first + sample->now[1]->n;
    const char *begin = out;

    for (; *at < all && out < full; ++*at) {
        unsigned kind = *at >= first;
        uint32_t place = *at - kind * first;

        if (*at == first && out != begin && full - out < COUNTERS_BYTES)
            break;
        out = put_gauge(out, sample->before[kind], &sample->now[kind]->gauge[place], place);
    }
    return out;
}

char *fp_put_self(char *out, const char *event, uint32_t os_pid, int64_t time_us,
                  const struct fp_self_sample *sample, uint32_t *at)
{
    struct fp_slice note = {sample->note, strlen(sample->note)};
    const char *full = out + FP_SELF_LINE_MOST - GAUGE_BYTES - CONSTANT_BYTES -
                       3 * (note.size + strlen(sample->about));

    out = fp_put_thread(FP_PUT_LITERAL(out, "flame_prof "), os_pid, OWN_TID);
    out = FP_PUT_LITERAL(fp_put_time(out, time_us), ": ");
    out = FP_PUT_LITERAL(put_gauges(out, full, sample, at), "name=flame_prof ");
    if (*at < sample->now[0]->n + sample->now[1]->n) {
        out = FP_PUT_LITERAL(out, "continues=true");
    } else {
        out = put_text(FP_PUT_LITERAL(out, "engine="), sample->engine);
        if (sample->mode != NULL)
            out = put_text(FP_PUT_LITERAL(out, " mode="), sample->mode);
        out = fp_put_about(FP_PUT_LITERAL(out, " format=" FP_FORMAT_TEXT), sample->about);
        if (note.size > 0)
            out = fp_put_word(FP_PUT_LITERAL(out, " trigger="), note);
    }
    out = FP_PUT_LITERAL(put_text(FP_PUT_LITERAL(out, " "), event), ":\n");
    return FP_PUT_LITERAL(out, FP_FRAME_ADDRESS "flame_prof_self (flame_prof)\n" FP_FRAME_ADDRESS
                                                "waiting (status)\n\n");
}
