/*
 * fuzz_running.c - any bytes for a process, its stacks and the code around it.
 *
 * Not part of `make test` (test_running.c does the like with numbers of its
 * own); an entry for libFuzzer:
 *
 *      clang -g -O1 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined \
 *          -o _build/fuzz_running test/c/fuzz_running.c test/c/fake_memory.c \
 *          c_src/vm/{running,bif,stack,process,peek,layout_table}.c
 *      _build/fuzz_running -max_len=16384
 */
#include <stdlib.h>
#include <string.h>

#include "../../c_src/vm/running.h"
#include "fake_memory.h"

#define SCHEDULER FAKE_BASE
#define PROCESS (FAKE_BASE + 0x10000)
#define HEAP (FAKE_BASE + 0x20000)
#define NATIVE (FAKE_BASE + 0x30000)
#define CODE (FAKE_BASE + 0x40000)
#define PART 4096u

struct input {
    const uint8_t *bytes;
    size_t left;
};

static void take(struct input *input, void *into, size_t size)
{
    size_t n = size < input->left ? size : input->left;

    memcpy(into, input->bytes, n);
    input->bytes += n;
    input->left -= n;
}

static size_t unwind(void *self, const struct fp_running *running, uint64_t *pc,
                     size_t max, struct fp_registers *at_entry, int *complete)
{
    (void)running;
    memset(pc, 0x41, max * sizeof *pc);
    memset(at_entry, 0, sizeof *at_entry);
    take(self, &at_entry->rbp, 8);
    *complete = (int)(at_entry->rbp & 1);
    at_entry->rbp &= ~UINT64_C(7);
    return max;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct fp_running running;
    static struct fp_stack stack;
    static const unsigned releases[] = {25, 27, 29};
    struct input input = {bytes, size};
    struct fp_registers registers = {.rsp = HEAP, .rip = CODE};
    struct fp_ranges ranges = {1, {{CODE, CODE + PART}}};
    struct fp_running_scheduler scheduler = {.data = SCHEDULER,
                                             .native_base = NATIVE + PART};
    struct fp_running_code code = {.ranges = &ranges,
                                   .fragments = {CODE, CODE + PART / 4},
                                   .nif_return = CODE + 64,
                                   .unwind = unwind,
                                   .unwind_self = &input,
                                   .with_native = 1};
    struct fp_snapshot snapshot;
    struct fake_memory memory;
    uint8_t choice = 0;

    take(&input, &choice, 1);
    scheduler.layout.release = *fp_release_find(releases[choice % 3]);
    scheduler.layout.snapshot_size = scheduler.layout.release.process_size;
    fake_memory_create(&memory);
    scheduler.peek = code.peek = &memory.peek;
    fake_map(&memory, SCHEDULER, PART);
    fake_put_word(&memory,
                  SCHEDULER + scheduler.layout.release.running.current_process,
                  PROCESS);
    take(&input, &registers, sizeof registers);
    take(&input, fake_map(&memory, PROCESS, PART),
         scheduler.layout.snapshot_size);
    take(&input, fake_map(&memory, CODE, PART), 1024);
    take(&input, fake_map(&memory, HEAP, PART), PART);
    take(&input, fake_map(&memory, NATIVE, PART), PART);
    fp_running_capture(&scheduler, &registers, &running);
    if (running.result != FP_RUNNING_NOBODY) {
        fp_process_decode(&scheduler.layout, running.structure, &snapshot);
        if (fp_running_frames(&code, &scheduler.layout, &running, &snapshot,
                              &stack) == 0 &&
            (stack.count == 0 || stack.count > FP_STACK_FRAMES_MAX))
            abort();
    }
    fake_memory_destroy(&memory);
    return 0;
}
