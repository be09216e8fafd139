#include "erts/capture/jit_code.h"

#include <string.h>

#include "base/error.h"
#include "erts/code_scan.h"

/* The longest call of a light BIF: two 10-byte moves, a 7-byte lea, padding that aligns the return
 * address, a call of up to 6 bytes. */
#define LIGHT_BYTES 48u
#define LEA_BYTES 7u
/* Padding and call. The maximum leaves no room for another call behind the BIF's. */
#define LIGHT_CALL_MIN 5u
#define LIGHT_CALL_MAX 12u
/* The code of a heavy BIF: a frame, two addresses, a move, a jump. */
#define HEAVY_BYTES 64u
/* The shared code that a heavy BIF jumps to, up to its call of C. */
#define HEAVY_FRAGMENT_BYTES 512u
/* What follows the call that raises an exception. */
#define RAISE_BYTES 40u
/* From the call for a breakpoint to the end of that code. */
#define BREAKPOINT_BYTES 96u
/* struct export (export.h): the code addresses, then the function's ErtsCodeInfo, the one place
 * with module, function and arity in a row. */
#define EXPORT_BYTES 136u

/* A displacement of 32 bits, with its sign. */
static uint64_t load_disp(const unsigned char *at)
{
    int32_t n;

    memcpy(&n, at, sizeof n);
    return (uint64_t)(int64_t)n;
}

static uint64_t load_u64(const unsigned char *at)
{
    uint64_t n;

    memcpy(&n, at, sizeof n);
    return n;
}

int fp_is_return_address(const struct fp_memory *memory, uint64_t at)
{
    unsigned char code[8];

    if (fp_safe_read(memory, at - sizeof code, code, sizeof code) != 0)
        return 0;
    if (code[3] == 0xe8) /* call rel32 */
        return 1;
    /* call r/m64: two bytes, then up to five of an address. */
    for (size_t i = 1; i < 7; i++)
        if (code[i] == 0xff && ((code[i + 1] >> 3) & 7) == 2)
            return 1;
    return 0;
}

/* The target of the jump `code` at `at`, direct or through the module's table of addresses. 0: it
 * is no jump. */
static uint64_t jump_target(const struct fp_memory *memory, uint64_t at,
                            const unsigned char code[6])
{
    uint64_t target;

    if (code[0] == 0xe9) /* jmp rel32 */
        return at + 5 + load_disp(code + 1);
    if (code[0] == 0xff && code[1] == 0x25 && /* jmp [rip + disp32] */
        fp_safe_read_word(memory, at + 6 + load_disp(code + 2), &target) == 0)
        return target;
    return 0;
}

uint64_t fp_call_target(const struct fp_memory *memory, uint64_t returns_to)
{
    unsigned char code[6];
    uint64_t target;

    if (fp_safe_read(memory, returns_to - sizeof code, code, sizeof code) != 0)
        return 0;
    if (code[1] == 0xe8)
        return returns_to + load_disp(code + 2);
    if (code[0] == 0xff && code[1] == 0x15 &&
        fp_safe_read_word(memory, returns_to + load_disp(code + 2), &target) == 0)
        return target;
    return 0;
}

uint64_t fp_jump_target(const struct fp_memory *memory, uint64_t at)
{
    unsigned char code[12];
    size_t prefix; /* REX without a bit: padding for a jump through an address table */
    uint64_t target;

    if (fp_safe_read(memory, at, code, sizeof code) != 0)
        return at;
    prefix = code[0] == 0x40;
    target = jump_target(memory, at + prefix, code + prefix);
    if (target != 0)
        return target;
    /* mov rax, target; jmp rax */
    if (code[0] == 0x48 && code[1] == 0xb8 && code[10] == 0xff && code[11] == 0xe0)
        return load_u64(code + 2);
    return at;
}

int fp_is_jump_to_rax(const struct fp_memory *memory, uint64_t at)
{
    unsigned char code[2];

    return fp_safe_read(memory, at, code, sizeof code) == 0 && code[0] == 0xff && code[1] == 0xe0;
}

int fp_is_mfa_at(const struct fp_memory *memory, uint64_t at)
{
    unsigned char mfa[24];

    return (at & 7) == 0 && at >> 47 == 0 && fp_safe_read(memory, at, mfa, sizeof mfa) == 0 &&
           fp_is_mfa(mfa);
}

static int export_mfa(const struct fp_memory *memory, uint64_t export, uint64_t *mfa_at)
{
    unsigned char bytes[EXPORT_BYTES];
    int found = 0;

    if ((export & 7) != 0 || fp_safe_read(memory, export, bytes, sizeof bytes) != 0)
        return FP_ENOENT;
    for (size_t at = 0; at + 24 <= sizeof bytes; at += 8)
        if (fp_is_mfa(bytes + at)) {
            *mfa_at = export + at;
            found++;
        }
    return found == 1 ? 0 : FP_ENOENT;
}

static int ends_with_call(const unsigned char *end)
{
    return end[-5] == 0xe8 || (end[-6] == 0xff && end[-5] == 0x15);
}

/* mov rcx, Export; mov rax, Bif; lea rdx, [the first of these]; call */
int fp_jit_light(const struct fp_memory *memory, uint64_t returns_to, uint64_t *mfa_at)
{
    unsigned char code[LIGHT_BYTES];
    uint64_t start = returns_to - sizeof code;

    if (fp_safe_read(memory, start, code, sizeof code) != 0 || !ends_with_call(code + sizeof code))
        return FP_ENOENT;
    for (size_t call = LIGHT_CALL_MIN; call <= LIGHT_CALL_MAX; call++) {
        size_t lea = sizeof code - call - LEA_BYTES;
        uint64_t entry;

        if (code[lea] != 0x48 || code[lea + 1] != 0x8d || code[lea + 2] != 0x15)
            continue;
        entry = start + lea + LEA_BYTES + load_disp(code + lea + 3);
        if (entry < start || entry + 10 > start + lea)
            continue;
        if (code[entry - start] == 0x48 && code[entry - start + 1] == 0xb9)
            return export_mfa(memory, load_u64(code + (entry - start) + 2), mfa_at);
    }
    return FP_ENOENT;
}

/* The target itself, or the target of a jump of the module's own. */
static int leads_to(const struct fp_memory *memory, uint64_t target, uint64_t native_return)
{
    if (native_return - target > HEAVY_FRAGMENT_BYTES)
        target = fp_jump_target(memory, target);
    return native_return > target && native_return - target <= HEAVY_FRAGMENT_BYTES;
}

int fp_jit_heavy(const struct fp_memory *memory, uint64_t current, uint64_t native_return)
{
    unsigned char bytes[24 + HEAVY_BYTES];

    if (current == 0 || (current & 7) != 0 ||
        fp_safe_read(memory, current, bytes, sizeof bytes) != 0 || !fp_is_mfa(bytes))
        return 0;
    for (size_t i = 24; i + 6 <= sizeof bytes; i++) {
        uint64_t target = jump_target(memory, current + i, bytes + i);

        if (target != 0 && leads_to(memory, target, native_return))
            return 1;
    }
    return 0;
}

int fp_jit_is_schedule(const struct fp_memory *memory, uint64_t native_return)
{
    static const unsigned char becomes_current[] = {0x49, 0x89, 0xc5};
    unsigned char code[sizeof becomes_current];

    return fp_safe_read(memory, native_return, code, sizeof code) == 0 &&
           memcmp(code, becomes_current, sizeof code) == 0;
}

/* test rax, rax; je (short or near); jmp rax */
int fp_jit_is_raise(const struct fp_memory *memory, uint64_t native_return)
{
    unsigned char code[RAISE_BYTES];

    if (fp_safe_read(memory, native_return, code, sizeof code) != 0)
        return 0;
    for (size_t i = 0; i + 11 <= sizeof code; i++) {
        size_t jump = code[i + 3] == 0x74 ? 2 : 6;

        if (code[i] == 0x48 && code[i + 1] == 0x85 && code[i + 2] == 0xc0 &&
            (jump == 2 || (code[i + 3] == 0x0f && code[i + 4] == 0x84)) &&
            code[i + 3 + jump] == 0xff && code[i + 4 + jump] == 0xe0)
            return 1;
    }
    return 0;
}

int fp_jit_is_breakpoint(const struct fp_memory *memory, uint64_t native_return)
{
    unsigned char code[BREAKPOINT_BYTES];

    if (fp_safe_read(memory, native_return, code, sizeof code) != 0)
        return 0;
    for (size_t i = 0; i + 7 <= sizeof code; i++)
        if (code[i] == 0xff && code[i + 1] == 0x73 && code[i + 3] == 0xff && code[i + 4] == 0x73 &&
            code[i + 6] == 0xc3)
            return 1;
    return 0;
}
