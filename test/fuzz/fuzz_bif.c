/* fuzz_bif.c - any bytes as JIT code: the calls and jumps that are looked for. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/capture/jit_code.h"

#define PLACES 6

static void check_mfa(const struct fake_memory *memory, uint64_t at)
{
    uint64_t mfa[3];

    FUZZ_CHECK(fp_safe_read(&memory->reader, at, mfa, sizeof mfa) == 0);
    FUZZ_CHECK(fp_term_is_atom(mfa[0]) && fp_term_is_atom(mfa[1]) && mfa[2] <= 255);
}

static void look_at(struct fuzz_memory *memory, uint64_t at, uint64_t other)
{
    const struct fp_memory *reader = &memory->memory.reader;
    int is_still = memory->laters == 0;
    uint64_t mfa_at = 0;
    int err;

    fp_is_return_address(reader, at);
    fp_call_target(reader, at);
    fp_jump_target(reader, at);
    fp_jump_target(reader, fp_jump_target(reader, at));
    err = fp_jit_light(reader, at, &mfa_at);
    FUZZ_CHECK(err == 0 || err == FP_ENOENT);
    if (err == 0 && is_still)
        check_mfa(&memory->memory, mfa_at);
    if (fp_jit_heavy(reader, at, other) && is_still)
        check_mfa(&memory->memory, at);
    fp_jit_is_breakpoint(reader, at);
    if (fp_is_mfa_at(reader, at) && is_still)
        check_mfa(&memory->memory, at);
    fp_jit_is_schedule(reader, at);
    fp_jit_is_raise(reader, at);
}

void fuzz_bif(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct fuzz_memory memory;
    uint64_t at[PLACES];

    for (int i = 0; i < PLACES; i++)
        at[i] = fuzz_address(&input);
    fuzz_memory_create(&memory, &input);
    for (int i = 0; i < PLACES; i++)
        look_at(&memory, at[i], at[(i + 1) % PLACES]);
    /* Most are for the jumps that a heavy BIF's code may have. */
    FUZZ_CHECK(fuzz_memory_asked(&memory) <= 256 * PLACES);
    fuzz_memory_destroy(&memory);
}
