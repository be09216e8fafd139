#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "erts/process_table.h"
#include "session/sampler_internal.h"

int fp_target_add_dictionary(struct target *target, struct fp_snapshot *now, int64_t bytes)
{
    if (now->dictionary == 0)
        bytes = 0;
    if (bytes < 0)
        return FP_ETORN;
    target->dictionary = now->dictionary;
    target->dictionary_bytes = bytes;
    now->value[FP_METRIC_memory] += bytes;
    return 0;
}

void fp_targets_forget_stacks(struct fp_sampler *s)
{
    for (uint32_t slot = 0; slot < s->targets; slot++) {
        s->target[slot].repeatable = 0;
        s->target[slot].stack_token = 0; /* nobody's */
    }
}

void fp_target_release(struct fp_sampler *s, uint32_t slot)
{
    s->target[slot].live = 0;
}

void fp_targets_drop_released(struct fp_sampler *s)
{
    uint32_t kept = 0;

    for (uint32_t k = 0; k < s->live_n; k++)
        if (s->target[s->live[k]].live)
            s->live[kept++] = s->live[k];
    s->live_n = kept;
    fp_counters_set(s->options.stats, FP_COUNTER_selected, kept);
}

static uint32_t *place_of(struct fp_sampler *s, uint64_t id)
{
    uint64_t at = fp_hash_two(id, 0);

    for (;; at++) {
        uint32_t *place = &s->by_id[at & s->by_id_mask];

        if (*place == UINT32_MAX || s->target[*place].id == id)
            return place;
    }
}

/* The targets, for options.chosen. */
static void publish_live(struct fp_sampler *s)
{
    uint64_t *word;

    if (s->options.chosen == NULL)
        return;
    word = fp_triple_buffer_begin(s->options.chosen);
    for (uint32_t k = 0; k < s->live_n; k++)
        word[k] = s->target[s->live[k]].id;
    fp_triple_buffer_publish(s->options.chosen, s->live_n);
}

static void list_live(struct fp_sampler *s)
{
    s->live_n = 0;
    for (uint32_t slot = 0; slot < s->targets; slot++)
        if (s->target[slot].live)
            s->live[s->live_n++] = slot;
    fp_counters_set(s->options.stats, FP_COUNTER_selected, s->live_n);
    publish_live(s);
}

static uint32_t admit(struct fp_sampler *s, uint64_t id, uint64_t address, uint32_t *next)
{
    while (s->target[*next].live)
        ++*next;
    s->target[*next] = (struct target){
        .id = id, .address = address, .live = 1, .kept = 1, .status = (int8_t)s->options.status};
    /* Two slots of a table in motion may have named it: once is enough. */
    *place_of(s, id) = *next;
    return (*next)++;
}

/* Who is here already, and stays. */
static void keep(struct fp_sampler *s, uint64_t id)
{
    uint32_t slot = *place_of(s, id);

    if (slot == UINT32_MAX)
        return;
    s->target[slot].kept = 1;
    /* Its name may be another one by now: told again, in one record. */
    s->target[slot].defined = 0;
    /* What it was repeats what may not be wanted any more. */
    if (s->target[slot].status != (int8_t)s->options.status)
        s->target[slot].repeatable = 0;
    s->target[slot].status = (int8_t)s->options.status;
}

/* One that is gone by now is left out: nothing of it was begun. */
static void admit_wanted(struct fp_sampler *s, const uint64_t *wanted, uint32_t *next)
{
    uint32_t slot = *place_of(s, wanted[0]);
    uint64_t address;

    if (slot == UINT32_MAX) {
        if (fp_process_table_lookup(s->layout, s->options.peek, wanted[0], &address) != 0)
            return;
        slot = admit(s, wanted[0], address, next);
    }
    s->target[slot].status = (int8_t)(int64_t)wanted[1];
    /* Its last sample may be of a status that is not wanted any more. */
    s->target[slot].repeatable = 0;
}

/* Of those that nobody has named, the first of every so many. */
static int is_within_budget(const struct fp_sampler *s, size_t i, size_t *unnamed)
{
    if (s->wanted[FP_PINNED_WORDS * i + 2] == 0)
        return 1;
    return (*unnamed)++ % s->governed.top_divisor == 0;
}

static void keep_wanted(struct fp_sampler *s)
{
    size_t unnamed = 0;

    for (size_t i = 0; i < s->wanted_n; i++)
        if (is_within_budget(s, i, &unnamed))
            keep(s, s->wanted[FP_PINNED_WORDS * i]);
}

static void admit_all_wanted(struct fp_sampler *s, uint32_t *next)
{
    size_t unnamed = 0;

    for (size_t i = 0; i < s->wanted_n; i++)
        if (is_within_budget(s, i, &unnamed))
            admit_wanted(s, s->wanted + FP_PINNED_WORDS * i, next);
}

void fp_targets_update(struct fp_sampler *s)
{
    const struct fp_candidate *chosen;
    uint64_t processes;
    uint32_t next = 0;
    size_t n;

    chosen = fp_top_processes_selected(s->selector, &n, &processes);
    memset(s->by_id, 0xff, (s->by_id_mask + 1) * sizeof *s->by_id);
    for (uint32_t slot = 0; slot < s->targets; slot++) {
        s->target[slot].kept = 0;
        if (s->target[slot].live)
            *place_of(s, s->target[slot].id) = slot;
    }
    for (size_t i = 0; i < n; i++)
        keep(s, chosen[i].id);
    keep_wanted(s);
    for (uint32_t slot = 0; slot < s->targets; slot++)
        if (s->target[slot].live && !s->target[slot].kept)
            fp_target_release(s, slot);
    for (size_t i = 0; i < n; i++)
        if (*place_of(s, chosen[i].id) == UINT32_MAX)
            admit(s, chosen[i].id, chosen[i].address, &next);
    admit_all_wanted(s, &next);
    list_live(s);
    fp_counters_set(s->options.stats, FP_COUNTER_processes, processes);
}

/* A slot for each hash, behind those of the schedulers: who meets it taken by another process,
 * replaces that. */
uint32_t fp_target_find_or_add(struct fp_sampler *s, uint64_t id, uint64_t address)
{
    uint64_t hash = fp_hash_two(id, 0);
    uint32_t slot = s->schedulers + (uint32_t)(hash % (s->targets - s->schedulers));
    struct target *target = &s->target[slot];

    if (!target->live || target->id != id || target->address != address)
        *target = (struct target){
            .id = id, .address = address, .live = 1, .status = (int8_t)s->options.status};
    return slot;
}
