#include "cstack/live.h"

#include "base/error.h"
#include "cstack/image.h"

int fp_live_cstack_reclaim(struct fp_live_cstack *live)
{
    if (live->replaced == NULL)
        return 1;
    if (atomic_load(&live->is_read))
        return 0;
    fp_cstack_destroy(live->replaced);
    live->replaced = NULL;
    return 1;
}

int fp_live_cstack_renew(struct fp_live_cstack *live)
{
    struct fp_cstack *made;
    int err;

    if (!fp_live_cstack_reclaim(live))
        return FP_ESTATE;
    if ((err = fp_cstack_create(&made, live->bytes_max)) != 0)
        return err;
    atomic_store_explicit(&live->left_out, made->left_out, memory_order_relaxed);
    live->replaced = atomic_exchange(&live->set, made);
    fp_live_cstack_reclaim(live);
    return 0;
}

void fp_live_cstack_destroy(struct fp_live_cstack *live)
{
    fp_cstack_destroy(live->replaced);
    fp_cstack_destroy(atomic_exchange(&live->set, NULL));
    live->replaced = NULL;
}
