#include "base/gauges.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int is_name(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz_");

    return size > 0 && size < FP_GAUGES_NAME_ROOM && name[size] == '\0';
}

int fp_gauges_add(struct fp_gauges *gauges, const char *name, int64_t value)
{
    struct fp_gauge *gauge;

    if (!is_name(name))
        return FP_EINVAL;
    if (gauges->n == FP_GAUGES_MAX)
        return FP_EFULL;
    gauge = &gauges->gauge[gauges->n++];
    memcpy(gauge->name, name, strlen(name) + 1);
    gauge->value = value;
    return 0;
}

const struct fp_gauge *fp_gauges_find(const struct fp_gauges *gauges, const char *name,
                                      uint32_t place)
{
    if (place < gauges->n && strcmp(gauges->gauge[place].name, name) == 0)
        return &gauges->gauge[place];
    for (uint32_t i = 0; i < gauges->n; i++)
        if (strcmp(gauges->gauge[i].name, name) == 0)
            return &gauges->gauge[i];
    return NULL;
}

void fp_gauges_mailbox_put(struct fp_gauges_mailbox *box, struct fp_gauges *gauges)
{
    free(atomic_exchange_explicit(&box->offered, gauges, memory_order_acq_rel));
}

struct fp_gauges *fp_gauges_mailbox_take(struct fp_gauges_mailbox *box)
{
    return atomic_exchange_explicit(&box->offered, NULL, memory_order_acq_rel);
}
