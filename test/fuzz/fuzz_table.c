/* fuzz_table.c - any process table, of any structures: pids looked up in it, and the passes of a
 * selection over it. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/process_table.h"
#include "session/top_processes.h"

#define PIDS 4
#define GROWERS 3
#define PASSES 3
#define SLOTS_MAX 512u

static void look_up(const struct fp_layout *layout, struct fuzz_memory *memory, uint64_t pid)
{
    uint64_t address = 0, id = 0;
    uint32_t number, serial;
    int err = fp_process_table_lookup(layout, &memory->memory.reader, pid, &address);

    FUZZ_CHECK(err == 0 || err == FP_EGONE || err == FP_EFAULT);
    if (err == 0 && memory->laters == 0)
        FUZZ_CHECK(fp_safe_read_word(&memory->memory.reader, address, &id) == 0 && id == pid);
    fp_pid_numbers(layout, pid, &number, &serial);
    FUZZ_CHECK(number >> layout->release.pid_number_bits == 0);
}

static void read_slots(const struct fp_layout *layout, struct fuzz_memory *memory)
{
    uint64_t address[SLOTS_MAX];
    uint32_t slot[SLOTS_MAX], used = 0;
    int err = fp_process_table_read(layout, &memory->memory.reader, 0, layout->process_limit,
                                    address, slot, &used);

    FUZZ_CHECK(err == 0 || err == FP_EFAULT);
    FUZZ_CHECK(err != 0 || used <= layout->process_limit);
    for (uint32_t i = 0; err == 0 && i < used; i++)
        FUZZ_CHECK(address[i] != 0 && address[i] % 8 == 0 && slot[i] < layout->process_limit &&
                   (i == 0 || slot[i] > slot[i - 1]));
}

static void check_chosen(const struct fp_top_processes *selector, uint64_t excluded, size_t most)
{
    size_t n;
    uint64_t processes;
    const struct fp_candidate *chosen = fp_top_processes_selected(selector, &n, &processes);

    FUZZ_CHECK(n <= most && processes <= SLOTS_MAX);
    for (size_t i = 0; i < n; i++)
        FUZZ_CHECK(chosen[i].address != 0 && chosen[i].address % 8 == 0 &&
                   chosen[i].id != excluded);
}

static void select_some(const struct fp_layout *layout, struct fuzz_memory *memory,
                        struct fp_ranking rule[2], uint64_t excluded, uint32_t slots)
{
    struct fp_top_processes *selector;
    int err = fp_top_processes_create(&selector, layout, &memory->memory.reader, rule, 2, GROWERS,
                                      &excluded, 1);

    FUZZ_CHECK(err == 0);
    for (uint32_t pass = 0; pass < PASSES; pass++) {
        uint32_t steps = 1;

        fp_top_processes_divide(selector, 1 + pass);
        while (!fp_top_processes_step(selector, slots))
            FUZZ_CHECK(++steps <= SLOTS_MAX);
        check_chosen(selector, excluded, rule[0].top + rule[1].top + GROWERS);
    }
    fp_top_processes_destroy(selector);
}

void fuzz_table(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct fuzz_memory memory;
    struct fp_layout layout;
    struct fp_ranking rule[2];
    uint64_t pid[PIDS];
    uint32_t slots;

    fuzz_layout_of(&input, &layout);
    layout.process_limit = 8u << fuzz_u8(&input) % 7;
    slots = 1 + fuzz_u8(&input);
    for (int i = 0; i < 2; i++)
        rule[i] = (struct fp_ranking){fuzz_u8(&input) % FP_METRIC_COUNT, fuzz_u8(&input) % 2,
                                      fuzz_u8(&input) % 16, 1 + fuzz_u8(&input) % 2};
    for (int i = 0; i < PIDS; i++)
        pid[i] = fuzz_u64(&input);
    fuzz_memory_create(&memory, &input);
    for (int i = 0; i < PIDS; i++)
        look_up(&layout, &memory, pid[i]);
    read_slots(&layout, &memory);
    select_some(&layout, &memory, rule, pid[0], slots);
    /* At worst, each slot is read once in the table; its structure, or a word of it, together with
     * its neighbours', and then alone; and so are two pieces of it for each of two rankings. */
    FUZZ_CHECK(fuzz_memory_asked(&memory) <=
               3 * PIDS + 1 + (1 + 2 + 2 * 4ull) * PASSES * layout.process_limit);
    fuzz_memory_destroy(&memory);
}
