#include "fake_monitors.h"

#include <string.h>

uint64_t fake_monitor(struct fake_terms *heap, unsigned otp, const struct fake_monitor *monitor)
{
    const uint16_t item = otp < 27 ? 24 : 32, node = otp < 27 ? 40 : 48; /* bytes */
    uint64_t data = heap->at, ref, half = data + (monitor->is_target ? node : 0);
    uint16_t offset = monitor->is_target ? node : 0, key = (uint16_t)(2 * node - offset);
    uint32_t flags;

    heap->at += 2u * node + 32;
    ref = monitor->has_alias ? fake_pid_ref(heap, &monitor->ref, 0x123)
                             : fake_ref(heap, &monitor->ref);
    /* Bit by bit as the two forms of the header have them. */
    if (otp < 28)
        flags = monitor->type << 16 | 2u | (monitor->is_target ? 1u : 0) |
                (monitor->name != 0 ? 8u | 16u : 0);
    else
        flags = monitor->type | 1u << 8 | (monitor->is_target ? 1u << 7 : 0) |
                (monitor->name != 0 ? 3u << 10 : 0);
    fake_put_word(heap->memory, half + item, monitor->item);
    fake_put_word(heap->memory, half + item + 8,
                  offset | (uint64_t)key << 16 | (uint64_t)flags << 32);
    fake_put_word(heap->memory, data + 2 * node, ref);
    fake_put_word(heap->memory, data + 2 * node + 16, monitor->name);
    return half;
}

static void link_halves(struct fake_memory *memory, const uint64_t *half, uint32_t from,
                        uint32_t to, uint64_t parent, uint64_t *place)
{
    uint32_t middle = from + (to - from) / 2;
    uint64_t left = 0, right = 0;

    *place = 0;
    if (from == to)
        return;
    link_halves(memory, half, from, middle, half[middle], &left);
    link_halves(memory, half, middle + 1, to, half[middle], &right);
    fake_put_word(memory, half[middle], parent | (from & 1)); /* red, or black */
    fake_put_word(memory, half[middle] + 8, right);
    fake_put_word(memory, half[middle] + 16, left);
    *place = half[middle];
}

uint64_t fake_monitor_tree(struct fake_memory *memory, uint64_t *half, const struct fp_ref *ref,
                           uint32_t n)
{
    uint32_t order[1024];
    uint64_t sorted[1024], root;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;

        while (k > 0 && memcmp(&ref[order[k - 1]], &ref[i], sizeof *ref) > 0) {
            order[k] = order[k - 1];
            k--;
        }
        order[k] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[i] = half[order[i]];
    link_halves(memory, sorted, 0, n, 0, &root);
    return root;
}
