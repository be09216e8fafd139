#include "format/write_numbers.h"

#include "base/slice.h"

static const struct fp_slice metric_key[] = {
#define METRIC_SLICE(name) {#name, sizeof(#name) - 1},
    FP_METRIC_MAP(METRIC_SLICE)
#undef METRIC_SLICE
};

static char *put_key(char *out, int metric)
{
    return fp_put(out, metric_key[metric].at, metric_key[metric].size);
}

char *fp_put_number(char *out, int64_t value, int64_t delta)
{
    *out++ = '=';
    out = fp_put_i64(out, value);
    *out++ = '/';
    return FP_PUT_LITERAL(fp_put_i64(out, delta), " ");
}

char *fp_put_numbers(char *out, const int64_t *value, const int64_t *delta)
{
    for (int i = 0; i < FP_METRIC_COUNT; i++)
        out = fp_put_number(put_key(out, i), value[i], delta[i]);
    return out;
}

char *fp_put_changes(char *out, const int64_t *before, const int64_t *value, const int64_t *delta)
{
    for (int i = 0; i < FP_METRIC_COUNT; i++) {
        int64_t change = (int64_t)((uint64_t)value[i] - (uint64_t)before[i]);

        if (change == 0 && delta[i] == 0)
            continue;
        out = put_key(out, i);
        if (change != delta[i]) {
            out = fp_put_number(out, value[i], delta[i]);
            continue;
        }
        if (change >= 0)
            *out++ = '+';
        out = FP_PUT_LITERAL(fp_put_i64(out, change), " ");
    }
    return out;
}
