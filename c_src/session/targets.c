#include <stdbool.h>
#include <string.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "erts/process_table.h"
#include "session/sampler_internal.h"

#define NO_SLOT UINT32_MAX

int fp_target_add_dictionary(struct fp_snapshot *now, int64_t bytes)
{
    if (now->dictionary == 0)
        bytes = 0;
    if (bytes < 0)
        return FP_ETORN;
    now->value[FP_METRIC_memory] += bytes;
    return 0;
}

int fp_target_read_dictionary(struct fp_sampler *s, uint32_t slot, struct fp_snapshot *now)
{
    int64_t bytes;
    int err =
        fp_dictionary_read(s->layout, s->options.memory, s->target[slot].address, now, &bytes);

    return err != 0 ? err : fp_target_add_dictionary(now, bytes);
}

/* The collector does not touch the queue, and senders add to it meanwhile. */
int fp_target_keep_sizes(const struct fp_sampler *s, const struct target *target,
                         struct fp_snapshot *now)
{
    int64_t reductions = now->value[FP_METRIC_reductions];
    int64_t queue = now->value[FP_METRIC_message_queue_len], more;

    if (now->status != FP_STATUS_garbage_collecting || !target->series.sampled)
        return FP_ETORN;
    memcpy(now->value, target->series.value, sizeof now->value);
    now->keeps_sizes = 1;
    now->value[FP_METRIC_reductions] = reductions;
    more = queue < 0 ? 0 : queue - now->value[FP_METRIC_message_queue_len];
    now->value[FP_METRIC_message_queue_len] += more;
    now->value[FP_METRIC_memory] += s->layout->release.message_size * more;
    return 0;
}

void fp_targets_forget_stacks(struct fp_sampler *s)
{
    for (uint32_t slot = 0; slot < s->targets; slot++)
        s->target[slot].stack_token = 0; /* of no stack */
}

void fp_targets_drop_exited(struct fp_sampler *s)
{
    uint32_t kept = 0;

    if (!FP_CHECK(s->live_n <= s->targets))
        s->live_n = 0;
    for (uint32_t k = 0; k < s->live_n; k++)
        if (s->target[s->live[k]].is_live)
            s->live[kept++] = s->live[k];
    s->live_n = kept;
    fp_counters_set(s->options.counters, FP_COUNTER_selected, kept);
}

/* The hash has four places for each target. NULL: it is broken. */
static uint32_t *place_of(struct fp_sampler *s, uint64_t id)
{
    uint64_t at = fp_hash_two(id, 0), end = at + s->targets;

    for (; FP_CHECK(at <= end); at++) {
        uint32_t *place = &s->by_id[at & s->by_id_mask];

        if (*place == NO_SLOT)
            return place;
        if (!FP_CHECK(*place < s->targets))
            return NULL;
        if (s->target[*place].id == id)
            return place;
    }
    return NULL;
}

#ifdef FP_SLOW_CHECKS
/* Whether each target is found by its pid. */
static bool is_found_by_id(struct fp_sampler *s)
{
    for (uint32_t k = 0; k < s->live_n; k++) {
        const uint32_t *place = place_of(s, s->target[s->live[k]].id);

        if (place == NULL || *place != s->live[k])
            return false;
    }
    return true;
}
#endif

static void list_live(struct fp_sampler *s)
{
    uint64_t *id = s->options.selected == NULL ? NULL : fp_triple_buffer_begin(s->options.selected);

    s->live_n = 0;
    for (uint32_t slot = 0; slot < s->targets; slot++) {
        if (!s->target[slot].is_live)
            continue;
        if (id != NULL)
            id[s->live_n] = s->target[slot].id;
        s->live[s->live_n++] = slot;
    }
    fp_counters_set(s->options.counters, FP_COUNTER_selected, s->live_n);
    if (id != NULL)
        fp_triple_buffer_publish(s->options.selected, s->live_n);
}

/* An update retains targets first: the others leave room for new ones. */
enum step { RETAIN, INSERT };

/* One of the next targets: retained, or inserted into a free slot from *next on. Address 0: looked
 * up. A process that has exited is left out, as nothing of it was begun. */
static void update_one(struct fp_sampler *s, enum step step, uint64_t id, uint64_t address,
                       int8_t status, uint32_t *next)
{
    uint32_t *place = place_of(s, id), slot;

    if (place == NULL)
        return;
    slot = *place;
    if (slot == NO_SLOT) {
        if (step == RETAIN || (address == 0 && fp_process_table_lookup(s->layout, s->options.memory,
                                                                       id, &address) != 0))
            return;
        while (*next < s->targets && s->target[*next].is_live)
            ++*next;
        if (!FP_CHECK(*next < s->targets))
            return;
        slot = *next;
        s->target[slot] =
            (struct target){.id = id, .address = address, .is_live = 1, .status = status};
        *place = slot;
    }
    s->target[slot].is_kept = 1;
    s->target[slot].status = status;
}

static void update_each(struct fp_sampler *s, enum step step)
{
    const struct fp_candidate *selected;
    uint64_t processes;
    size_t n, ranked = 0;
    uint32_t next = 0;

    selected = fp_top_processes_selected(s->top, &n, &processes);
    for (size_t i = 0; i < n; i++)
        update_one(s, step, selected[i].id, selected[i].address, (int8_t)s->options.status, &next);
    /* Of those that a ranking selected, the budget admits the first of every so many. */
    for (size_t i = 0; i < s->pinned_n; i++) {
        const uint64_t *word = s->pinned + FP_PINNED_WORDS * i;

        if (word[2] == 0 || ranked++ % s->governed.top_divisor == 0)
            update_one(s, step, word[0], 0, (int8_t)(int64_t)word[1], &next);
    }
    fp_counters_set(s->options.counters, FP_COUNTER_processes, processes);
}

void fp_targets_update(struct fp_sampler *s)
{
    memset(s->by_id, 0xff, (s->by_id_mask + 1) * sizeof *s->by_id);
    for (uint32_t slot = 0; slot < s->targets; slot++) {
        uint32_t *place;

        s->target[slot].is_kept = 0;
        place = s->target[slot].is_live ? place_of(s, s->target[slot].id) : NULL;
        if (place != NULL)
            *place = slot;
    }
    update_each(s, RETAIN);
    for (uint32_t slot = 0; slot < s->targets; slot++)
        if (!s->target[slot].is_kept)
            s->target[slot].is_live = 0;
    update_each(s, INSERT);
    list_live(s);
    (void)FP_CHECK_SLOW(is_found_by_id(s));
}

/* A slot for each hash, behind those of the schedulers. A process whose slot another one has takes
 * the slot over. */
uint32_t fp_target_find_or_add(struct fp_sampler *s, uint64_t id, uint64_t address)
{
    uint64_t hash = fp_hash_two(id, 0);
    uint32_t slot = s->schedulers + (uint32_t)(hash % (s->targets - s->schedulers));
    struct target *target = &s->target[slot];

    if (!target->is_live || target->id != id || target->address != address)
        *target = (struct target){
            .id = id, .address = address, .is_live = 1, .status = (int8_t)s->options.status};
    return slot;
}
