/* fuzz_process.c - any bytes as a process structure, and what hangs on it: its registered name, its
 * dictionary and the '$initial_call' in that. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/dictionary.h"
#include "erts/process.h"
#include "erts/process_names.h"

/* A dictionary's slot is looked through for 16 entries of three reads each. */
#define ASKED_MAX 64u

static void check_values(const struct fp_layout *layout, const struct fp_snapshot *snapshot)
{
    const int64_t *value = snapshot->value;

    for (int metric = 0; metric < FP_METRIC_COUNT; metric++)
        FUZZ_CHECK(value[metric] >= 0);
    FUZZ_CHECK(value[FP_METRIC_heap_size] <= value[FP_METRIC_heap_block_size]);
    /* The stack of a process that has abandoned its heap is in a fragment. */
    FUZZ_CHECK(snapshot->abandoned != 0 ||
               value[FP_METRIC_stack_size] <= value[FP_METRIC_heap_block_size]);
    FUZZ_CHECK(value[FP_METRIC_old_heap_size] <= value[FP_METRIC_old_heap_block_size]);
    FUZZ_CHECK(value[FP_METRIC_memory] >= layout->release.process_size);
    FUZZ_CHECK(snapshot->hend - snapshot->stop == 8 * (uint64_t)value[FP_METRIC_stack_size]);
}

static void check_call(const struct fp_mfa_words *call)
{
    FUZZ_CHECK(call->module == 0 || (fp_term_is_atom(call->module) &&
                                     fp_term_is_atom(call->function) && call->arity <= 255));
}

static void look_at(const struct fp_layout *layout, struct fuzz_memory *memory,
                    const unsigned char *structure, uint64_t key)
{
    struct fp_snapshot snapshot;
    struct fp_process_names names;
    int err = fp_process_decode(layout, structure, &snapshot);
    int64_t dictionary = 0;

    FUZZ_CHECK(err == 0 || err == FP_ETORN);
    FUZZ_CHECK(snapshot.status < FP_STATUS_COUNT);
    if (err == 0)
        check_values(layout, &snapshot);
    fp_process_names_read(layout, &memory->memory.reader, key, &snapshot, &names);
    FUZZ_CHECK(names.registered == 0 || fp_term_is_atom(names.registered));
    check_call(&names.initial_call);
    check_call(&names.proc_lib);
    err = fp_dictionary_read(layout, &memory->memory.reader, key, &snapshot, &dictionary);
    FUZZ_CHECK(err == 0 || err == FP_ETORN);
    FUZZ_CHECK(err != 0 || (dictionary >= 0 && dictionary <= INT64_C(1) << 36));
}

void fuzz_process(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size}, part;
    unsigned char structure[FP_PROBE_WINDOW];
    struct fuzz_memory memory;
    struct fp_layout layout;
    uint64_t key;

    fuzz_layout_of(&input, &layout);
    key = fuzz_u32(&input);
    part = fuzz_part(&input, layout.snapshot_size);
    for (size_t at = 0; at < sizeof structure; at += 8) {
        uint64_t word = fuzz_word(&part);

        memcpy(structure + at, &word, sizeof word);
    }
    fuzz_memory_create(&memory, &input);
    look_at(&layout, &memory, structure, key);
    FUZZ_CHECK(fuzz_memory_asked(&memory) <= ASKED_MAX);
    fuzz_memory_destroy(&memory);
}
