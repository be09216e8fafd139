/* open_words.c - what processes have allocated since their last collections. */
#include "erts/fresh.h"
#include "erts/process.h"
#include "erts/process_table.h"
#include "tracer/allocations.h"

struct open_sum {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint64_t except, words;
    uint32_t processes;
};

static int add_open(void *arg, uint64_t address, const unsigned char *structure)
{
    struct open_sum *sum = arg;
    struct fp_fresh fresh;

    (void)address;
    if (fp_process_field(sum->layout, structure, FP_FIELD_id) != sum->except &&
        fp_fresh_decode(sum->layout, sum->memory, structure, &fresh) == 0) {
        sum->words += fresh.words;
        sum->processes++;
    }
    return 0;
}

int fp_allocations_open_words(const struct fp_layout *layout, const struct fp_memory *memory,
                              uint64_t except, uint64_t *words, uint32_t *processes)
{
    struct open_sum sum = {.layout = layout, .memory = memory, .except = except};
    int err = fp_processes_each(layout, memory, add_open, &sum);

    *words = sum.words;
    *processes = sum.processes;
    return err;
}
