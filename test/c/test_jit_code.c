/* test_jit_code.c - the caller of C, by its code: the bytes of real VMs (OTP 25, 27, 29 of
 * Debian), at the addresses where they stood, and near misses. */
#include "base/error.h"
#include "erts/capture/jit_code.h"
#include "fake_memory.h"
#include "test.h"

/* ------------------------------------------------------- as they stood -- */

/* Bytes in hexadecimal digits, where they were. */
struct piece {
    uint64_t at;
    const char *hex;
};

static size_t unhex(const char *hex, unsigned char *bytes, size_t room)
{
    unsigned value;
    size_t n = 0;
    int used;

    while (sscanf(hex, "%2x %n", &value, &used) == 1) {
        CHECK(n < room);
        bytes[n++] = (unsigned char)value;
        hex += used;
    }
    return n;
}

#define ROOM 64u /* readable around a piece, before and behind it */

/* One region for each piece, filled up with int3. */
static void place(struct fake_memory *memory, const struct piece *piece)
{
    unsigned char bytes[512];
    size_t size = unhex(piece->hex, bytes, sizeof bytes);

    memset(fake_map(memory, piece->at - ROOM, size + 2 * ROOM), 0xcc, size + 2 * ROOM);
    fake_put(memory, piece->at, bytes, size);
}

static void place_all(struct fake_memory *memory, const struct piece *piece, size_t n)
{
    fake_memory_create(memory);
    for (size_t i = 0; i < n; i++)
        if (piece[i].hex != NULL)
            place(memory, &piece[i]);
}

/* A call of erlang:register/2, the fragment it goes to, and its Export. */
struct light {
    struct piece site, fragment, export;
    uint64_t returns_to, mfa_at;
};

#define LIGHT_TAIL "48 8d 15 e5 ff ff ff 0f 1f 00 40 e8 "

static const struct light lights[] = {
    {{0x7f3c12801154, "48 b9 e8 b2 93 14 3c 7f 00 00"
                      "48 b8 20 f7 f3 10 ec 55 00 00" LIGHT_TAIL "48 e2 ff ff"
                      "48 c7 43 08 4b 00 00 00"},
     {0x7f3c127ff3c0, "49 8b bd 30 02 00 00 48 89 53 88 48 89 4b 90 48 89 7b"},
     {0x7f3c1493b2e8, "20 78 87 12 3c 7f 00 00 20 78 87 12 3c 7f 00 00"
                      "20 78 87 12 3c 7f 00 00 48 f7 7f 12 3c 7f 00 00"
                      "58 00 00 00 00 00 00 00 6e 00 00 00 00 00 00 00"
                      "00 00 00 00 00 00 00 00 4b 39 00 00 00 00 00 00"
                      "8b 8a 00 00 00 00 00 00 02 00 00 00 00 00 00 00"
                      "00 00 00 00 00 00 00 00 16 00 00 00 00 00 00 00"
                      "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "90 ef 01 00 00 00 00 00 61 00 00 00 00 00 00 00"
                      "e8 b2 93 14 3c 7f 00 00"},
     0x7f3c12801178,
     0x7f3c1493b2e8 + 56},
    {{0x7fe8dee0171c, "48 b9 b0 29 72 e4 e8 7f 00 00"
                      "48 b8 d0 04 14 9c de 55 00 00" LIGHT_TAIL "a8 de ff ff"
                      "48 c7 43 08 4b 00 00 00"},
     {0x7fe8dedff5e8, "49 8b bd 20 02 00 00 48 89 53 c8 48 89 4b d0 48 89 7b"},
     {0x7fe8e47229b0, "f0 6c e7 de e8 7f 00 00 f0 6c e7 de e8 7f 00 00"
                      "f0 6c e7 de e8 7f 00 00 f0 f9 df de e8 7f 00 00"
                      "56 00 00 00 00 00 00 00 c2 07 41 e6 e8 7f 00 00"
                      "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "0b 3b 00 00 00 00 00 00 8b 8e 00 00 00 00 00 00"
                      "02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "22 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "00 00 00 00 00 00 00 00 7a 0d 02 00 00 00 00 00"
                      "5f 00 00 00 00 00 00 00"},
     0x7fe8dee01740,
     0x7fe8e47229b0 + 64},
    {{0x7f8c7ee0286c, "48 b9 90 c1 f3 83 8c 7f 00 00"
                      "48 b8 30 79 b6 b6 29 56 00 00" LIGHT_TAIL "f0 dc ff ff"
                      "48 c7 43 08 4b 00 00 00"},
     {0x7f8c7ee00580, "49 8b bd 20 02 00 00 48 89 53 c8 48 89 4b d0 48 89 7b"},
     {0x7f8c83f3c190, "60 9e e7 7e 8c 7f 00 00 60 9e e7 7e 8c 7f 00 00"
                      "60 9e e7 7e 8c 7f 00 00 90 09 e0 7e 8c 7f 00 00"
                      "56 00 00 00 00 00 00 00 0a 8e a1 85 8c 7f 00 00"
                      "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "cb 3c 00 00 00 00 00 00 8b 92 00 00 00 00 00 00"
                      "02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "1f 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
                      "00 00 00 00 00 00 00 00 3c 2c 02 00 00 00 00 00"
                      "5f 00 00 00 00 00 00 00"},
     0x7f8c7ee02890,
     0x7f8c83f3c190 + 64},
};

static void place_light(struct fake_memory *memory, const struct light *light)
{
    place_all(memory, &light->site, 3);
}

/* A heavy BIF's MFA and code, the jump of its module, and the shared code up to where C returns
 * to. */
struct heavy {
    struct piece code, jump, fragment;
    uint64_t native_return;
};

/* clang-format off */
#define SHARED_25 {                                                            \
    0x7f3c127ff2f8, "49 89 b5 d8 01 00 00 4c 8b 46 10 4d 89 85 b8 00"          \
                    "00 00 49 89 95 00 01 00 00 66 49 0f 6e c7 66 48"          \
                    "0f 6e cc 66 0f 6c c1 41 0f 11 45 50 4d 89 75 68"          \
                    "48 8d 63 80 4c 89 ef 48 89 de ff 15 e8 15 00 00"          \
                    "49 8b 65 58 4d 8b 7d 50 4d 8b 75 68"}
#define SHARED_27 {                                                            \
    0x7fe8dedff520, "49 89 b5 d0 01 00 00 44 0f b6 46 10 45 88 85 85"          \
                    "00 00 00 49 89 95 f8 00 00 00 c4 c1 f9 6e cf c4"          \
                    "e3 f1 22 c4 01 c4 c1 7a 7f 45 50 45 89 75 78 48"          \
                    "8d 63 c0 c5 f8 77 4c 89 ef 48 89 de ff 15 9e 19"          \
                    "00 00 49 8b 65 58 4d 8b 7d 50 45 8b 75 78"}
#define SHARED_29 {                                                            \
    0x7f8c7ee004b8, "49 89 b5 d0 01 00 00 44 0f b6 46 10 45 88 85 85"          \
                    "00 00 00 49 89 95 f8 00 00 00 c4 c1 f9 6e cf c4"          \
                    "e3 f1 22 c4 01 c4 c1 7a 7f 45 50 45 89 75 78 48"          \
                    "8d 63 c0 c5 f8 77 4c 89 ef 48 89 de ff 15 ee 1a"          \
                    "00 00 49 8b 65 58 4d 8b 7d 50 45 8b 75 78"}
/* clang-format on */

#define HEAVY_LEAS "48 8d 35 d9 ff ff ff 48 8d 15 f2 ff ff ff 48 b9 "
#define HEAVY_NEXT "48 c7 03 8b 03 00 00 49 8d 57 20 "

static const struct heavy heavies[] = {
    /* 25: erts_internal:garbage_collect/1 */
    {{0x7f3c1288b9b0, "8b 3b 00 00 00 00 00 00 cb 43 00 00 00 00 00 00"
                      "01 00 00 00 00 00 00 00 eb 06 00 e8 20 f3 ff ff" HEAVY_LEAS
                      "30 2a f4 10 ec 55 00 00 40 e9 0a 39 f7 ff" HEAVY_NEXT},
     {0, NULL},
     SHARED_25,
     0x7f3c127ff338},
    /* 27: by jumps of their modules' own */
    {{0x7fe8dee89cb8, "4b 3d 00 00 00 00 00 00 0b 46 00 00 00 00 00 00"
                      "01 00 00 00 00 00 00 00 eb 06 90 e8 5c 57 00 00" HEAVY_LEAS
                      "40 2b 14 9c de 55 00 00 e9 1b 57 00 00" HEAVY_NEXT},
     {0x7fe8dee8f410, "40 e9 0a 01 f7 ff 40 e9 b3 17 f7 ff"},
     SHARED_27,
     0x7fe8dedff562},
    {{0x7fe8dee7a0e8, "0b 3b 00 00 00 00 00 00 4b c6 00 00 00 00 00 00"
                      "02 00 00 00 00 00 00 00 eb 06 90 e8 1c ea 00 00" HEAVY_LEAS
                      "70 b7 10 9c de 55 00 00 e9 11 ea 00 00" HEAVY_NEXT},
     {0x7fe8dee88b36, "40 e9 e4 69 f7 ff 40 e9 c6 7d f7 ff"},
     SHARED_27,
     0x7fe8dedff562},
    /* 29: one of arity 1 and one of arity 3 */
    {{0x7f8c7ee36590, "4b 01 01 00 00 00 00 00 8b 01 01 00 00 00 00 00"
                      "01 00 00 00 00 00 00 00 eb 06 90 e8 14 96 00 00" HEAVY_LEAS
                      "30 1e c5 b6 29 56 00 00 e9 b5 95 00 00" HEAVY_NEXT},
     {0x7f8c7ee3fb82, "40 e9 30 09 fc ff 40 e9 2a 1c fc ff"},
     SHARED_29,
     0x7f8c7ee004fa},
    {{0x7f8c7ee7cc28, "cb 3c 00 00 00 00 00 00 8b e6 00 00 00 00 00 00"
                      "03 00 00 00 00 00 00 00 eb 06 90 e8 ec f1 00 00" HEAVY_LEAS
                      "70 28 b2 b6 29 56 00 00 e9 a5 f1 00 00" HEAVY_NEXT},
     {0x7f8c7ee8be0a, "40 e9 a8 46 f7 ff 40 e9 c2 5b f7 ff"},
     SHARED_29,
     0x7f8c7ee004fa},
};
#define HEAVIES (sizeof heavies / sizeof *heavies)

static void place_heavy(struct fake_memory *memory, const struct heavy *heavy)
{
    place_all(memory, &heavy->code, 3);
}

/* process_main's call of erts_schedule(), from the move of its arguments on. */
static const struct piece schedules[] = {
    {0x7f3c128005dd - 11, "31 ff 4c 89 ee ff 15 43 04 00 00"
                          "49 89 c5 48 bf a0 f8 1c 11 ec 55 00 00"},
    {0x7fe8dee00af5 - 11, "31 ff 4c 89 ee ff 15 0b 05 00 00"
                          "49 89 c5 48 bf d0 60 81 9c de 55 00 00"},
    {0x7f8c7ee01bd5 - 11, "31 ff 4c 89 ee ff 15 23 05 00 00"
                          "49 89 c5 48 bf 80 77 41 b7 29 56 00 00"},
};

static struct fake_memory *placed(const struct piece *piece, size_t n)
{
    struct fake_memory *memory = malloc(sizeof *memory);

    CHECK(memory != NULL);
    place_all(memory, piece, n);
    return memory;
}

static void forget(struct fake_memory *memory)
{
    fake_memory_destroy(memory);
    free(memory);
}

#define LIGHT_TEST(test, n)                                                                        \
    TEST_ON(test, struct fake_memory *, memory, placed(&lights[n].site, 3), forget)
#define HEAVY_TEST(test, n)                                                                        \
    TEST_ON(test, struct fake_memory *, memory, placed(&heavies[n].code, 3), forget)

/* Of each one, where it is placed. */
#define EACH_PLACED(test, type, all, first)                                                        \
    static void test##_of(struct fake_memory *memory, const struct type *type);                    \
    TEST(test)                                                                                     \
    {                                                                                              \
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {                                    \
            struct fake_memory *memory = placed(&all[i].first, 3);                                 \
                                                                                                   \
            test##_of(memory, &all[i]);                                                            \
            forget(memory);                                                                        \
        }                                                                                          \
    }                                                                                              \
    static void test##_of(struct fake_memory *memory, const struct type *type)
#define EACH_LIGHT(test) EACH_PLACED(test, light, lights, site)
#define EACH_HEAVY(test) EACH_PLACED(test, heavy, heavies, code)

/* ------------------------------------------------------------ light BIFs -- */

EACH_LIGHT(a_light_bif_is_named_by_the_call_of_each_release)
{
    uint64_t mfa_at = 0;

    CHECK(fp_is_return_address(&memory->reader, light->returns_to));
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), 0);
    CHECK(mfa_at == light->mfa_at);
    CHECK_INT(fake_word(memory, mfa_at + 16), 2); /* register/2 */
    CHECK(fp_call_target(&memory->reader, light->returns_to) == light->fragment.at);
}

/* Whatever byte is another one: the same BIF, or none. Never a wrong one, and none when it is of
 * the instructions that name it. */
EACH_LIGHT(a_light_call_with_one_byte_wrong_names_no_other)
{
    /* The opcodes of mov and lea, and lea's displacement. */
    static const unsigned char matters[] = {0, 1, 20, 21, 22, 23, 24, 25, 26};

    uint64_t size = light->returns_to - light->site.at;

    for (uint64_t k = 0; k < size; k++)
        for (unsigned flip = 1; flip < 256; flip++) {
            unsigned char *at = fake_at(memory, light->site.at + k, 1);
            uint64_t mfa_at = 0;
            int err;

            *at ^= (unsigned char)flip;
            err = fp_jit_light(&memory->reader, light->returns_to, &mfa_at);
            if (err == 0)
                CHECK(mfa_at == light->mfa_at);
            if (memchr(matters, (int)k, sizeof matters) != NULL)
                CHECK_INT(err, FP_ENOENT);
            *at ^= (unsigned char)flip;
        }
}

LIGHT_TEST(any_other_address_is_of_no_light_bif, 0)
{
    for (uint64_t at = lights[0].site.at - ROOM; at < lights[0].returns_to + 8; at++) {
        uint64_t mfa_at;

        CHECK_INT(fp_jit_light(&memory->reader, at, &mfa_at),
                  at == lights[0].returns_to ? 0 : FP_ENOENT);
    }
}

/* The function goes on and calls somebody else: the BIF has returned. */
TEST(a_call_right_after_that_of_a_light_bif_is_another_one)
{
    static const char *const calls[] = {"e8 48 e2 ff ff", "40 e8 48 e2 ff ff", "ff 15 48 e2 ff ff"};
    static const unsigned char size[] = {5, 6, 6};

    for (size_t i = 0; i < 3; i++)
        for (uint64_t between = 0; between <= 16; between++) {
            uint64_t at = lights[0].returns_to + between, mfa_at;
            unsigned char call[8];
            struct fake_memory memory;

            place_light(&memory, &lights[0]);
            fake_put(&memory, at, call, unhex(calls[i], call, sizeof call));
            CHECK(fp_is_return_address(&memory.reader, at + size[i]));
            CHECK_INT(fp_jit_light(&memory.reader, at + size[i], &mfa_at), FP_ENOENT);
            CHECK_INT(fp_jit_light(&memory.reader, lights[0].returns_to, &mfa_at), 0);
            fake_memory_destroy(&memory);
        }
}

LIGHT_TEST(what_lea_points_to_must_lie_before_it, 0)
{
    static const int32_t displacements[] = {-7,   -8, -16, -17,        -26,       -28,
                                            -100, 0,  7,   1000000000, INT32_MAX, INT32_MIN};

    for (size_t i = 0; i < sizeof displacements / sizeof *displacements; i++) {
        uint64_t mfa_at;

        fake_put(memory, lights[0].site.at + 23, &displacements[i], 4);
        CHECK_INT(fp_jit_light(&memory->reader, lights[0].returns_to, &mfa_at), FP_ENOENT);
    }
}

LIGHT_TEST(an_export_with_no_mfa_or_two_names_nothing, 1)
{
    const struct light *light = &lights[1];
    uint64_t export = light->export.at, mfa_at;

    fake_put_word(memory, light->mfa_at + 16, 256); /* no arity */
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), FP_ENOENT);
    fake_put_word(memory, light->mfa_at + 16, 255);
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), 0);
    fake_put_word(memory, light->mfa_at, 0x3b03); /* a pid, no atom */
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), FP_ENOENT);
    fake_put_word(memory, light->mfa_at, 0x3b0b);
    fake_put_word(memory, export, 0x4b);
    fake_put_word(memory, export + 8, 0x8b);
    fake_put_word(memory, export + 16, 1); /* a second one */
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), FP_ENOENT);
}

LIGHT_TEST(what_can_not_be_read_is_no_light_bif, 2)
{
    const struct light *light = &lights[2];
    uint64_t mfa_at;

    fake_unmap(memory, light->export.at - ROOM);
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), FP_ENOENT);
    fake_unmap(memory, light->site.at - ROOM);
    CHECK_INT(fp_jit_light(&memory->reader, light->returns_to, &mfa_at), FP_ENOENT);
    CHECK_INT(fp_jit_light(&memory->reader, 0, &mfa_at), FP_ENOENT);
    CHECK_INT(fp_jit_light(&memory->reader, UINT64_MAX, &mfa_at), FP_ENOENT);
}

/* ------------------------------------------------------------ heavy BIFs -- */

EACH_HEAVY(a_heavy_bif_is_known_by_its_jump_in_each_release)
{
    CHECK(fp_is_return_address(&memory->reader, heavy->native_return));
    CHECK(fp_jit_heavy(&memory->reader, heavy->code.at, heavy->native_return));
}

/* c_p->current is not wiped: what it says must fit to where C returns to. */
EACH_HEAVY(a_heavy_bif_of_before_is_not_believed)
{
    uint64_t fragment = heavy->fragment.at;

    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, fragment - 1));
    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, fragment));
    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, fragment + 513));
    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, 0));
    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, UINT64_MAX));
}

HEAVY_TEST(what_is_no_heavy_bif_is_none, 1)
{
    const struct heavy *heavy = &heavies[1];
    uint64_t at = heavy->code.at, native_return = heavy->native_return;

    CHECK(!fp_jit_heavy(&memory->reader, 0, native_return));
    CHECK(!fp_jit_heavy(&memory->reader, 8, native_return));
    CHECK(!fp_jit_heavy(&memory->reader, UINT64_MAX & ~UINT64_C(7), native_return));
    for (uint64_t off = 1; off < 8; off++)
        CHECK(!fp_jit_heavy(&memory->reader, at + off, native_return));
    CHECK(!fp_jit_heavy(&memory->reader, at + 8, native_return));
    fake_put_word(memory, at + 16, 256);
    CHECK(!fp_jit_heavy(&memory->reader, at, native_return));
    fake_put_word(memory, at + 16, 1);
    CHECK(fp_jit_heavy(&memory->reader, at, native_return));
    /* An Erlang function: it jumps nowhere near. */
    fake_put(memory, at + 24 + 32, "\x0f\x1f\x44\x00\x00", 5);
    CHECK(!fp_jit_heavy(&memory->reader, at, native_return));
}

/* What follows a process' `current` meets any word. */
TEST(a_function_is_named_only_where_its_words_stand)
{
    const uint64_t at = 0x7f0000001000;
    struct fake_memory memory;

    fake_memory_create(&memory);
    fake_map(&memory, at, 64);
    /* Bits of a frame's kind are none of an address. */
    fake_map(&memory, at | UINT64_C(1) << 60, 64);
    for (unsigned high = 0; high < 2; high++) {
        uint64_t from = high ? at | UINT64_C(1) << 60 : at;

        fake_put_word(&memory, from + 8, 5 << 6 | 0x0b);
        fake_put_word(&memory, from + 16, 6 << 6 | 0x0b);
        fake_put_word(&memory, from + 24, 255);
        CHECK_INT(fp_is_mfa_at(&memory.reader, from + 8), !high);
    }
    CHECK(!fp_is_mfa_at(&memory.reader, 0));
    CHECK(!fp_is_mfa_at(&memory.reader, at));
    CHECK(!fp_is_mfa_at(&memory.reader, at + 16));
    CHECK(!fp_is_mfa_at(&memory.reader, at + 48));
    for (uint64_t off = 1; off < 8; off++)
        CHECK(!fp_is_mfa_at(&memory.reader, at + 8 + off));
    fake_put_word(&memory, at + 24, 256);
    CHECK(!fp_is_mfa_at(&memory.reader, at + 8));
    fake_memory_destroy(&memory);
}

HEAVY_TEST(a_jump_whose_target_is_gone_leads_nowhere, 2)
{
    const struct heavy *heavy = &heavies[2];

    fake_unmap(memory, heavy->jump.at - ROOM);
    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, heavy->native_return));
    fake_unmap(memory, heavy->code.at - ROOM);
    CHECK(!fp_jit_heavy(&memory->reader, heavy->code.at, heavy->native_return));
}

/* ------------------------------------------------------- the scheduler's -- */

TEST(the_call_of_the_scheduler_is_known_in_each_release)
{
    for (size_t i = 0; i < 3; i++) {
        uint64_t returns_to = schedules[i].at + 11;
        struct fake_memory memory;

        place_all(&memory, &schedules[i], 1);
        CHECK(fp_jit_is_schedule(&memory.reader, returns_to));
        CHECK(fp_is_return_address(&memory.reader, returns_to));
        CHECK(!fp_jit_is_schedule(&memory.reader, returns_to + 1));
        for (unsigned bit = 0; bit < 24; bit++) {
            unsigned char *at = fake_at(&memory, returns_to + bit / 8, 1);

            *at ^= (unsigned char)(1u << bit % 8);
            CHECK(!fp_jit_is_schedule(&memory.reader, returns_to));
            *at ^= (unsigned char)(1u << bit % 8);
        }
        CHECK(!fp_jit_is_schedule(&memory.reader, 0x1000));
        fake_memory_destroy(&memory);
    }
    for (size_t i = 0; i < HEAVIES; i++) {
        struct fake_memory memory;

        place_heavy(&memory, &heavies[i]);
        CHECK(!fp_jit_is_schedule(&memory.reader, heavies[i].native_return));
        fake_memory_destroy(&memory);
    }
}

/* ------------------------------------------------------ instructions at all */

#define CODE (FAKE_BASE + 0x10000)
#define CODE_SIZE 4096u

static struct fake_memory *code_create(void)
{
    struct fake_memory *memory = placed(NULL, 0);

    memset(fake_map(memory, CODE, CODE_SIZE), 0xcc, CODE_SIZE);
    return memory;
}

#define CODE_TEST(test) TEST_ON(test, struct fake_memory *, memory, code_create(), forget)

static void put_code(struct fake_memory *memory, uint64_t at, const char *hex)
{
    unsigned char bytes[64];

    fake_put(memory, at, bytes, unhex(hex, bytes, sizeof bytes));
}

/* Bytes that end at CODE + 64. */
static void put_before(struct fake_memory *memory, const char *hex)
{
    unsigned char bytes[64];
    size_t size = unhex(hex, bytes, sizeof bytes);

    memset(fake_at(memory, CODE, CODE_SIZE), 0xcc, CODE_SIZE);
    fake_put(memory, CODE + 64 - size, bytes, size);
}

CODE_TEST(a_call_of_any_shape_is_before_a_return_address)
{
    static const char *const calls[] = {
        "e8 00 01 00 00",          /* call rel32 */
        "40 e8 00 01 00 00",       /* with padding before it */
        "ff d0",                   /* call rax */
        "ff d7",                   /* call rdi */
        "41 ff d4",                /* call r12 */
        "ff 10",                   /* call [rax] */
        "ff 14 24",                /* call [rsp] */
        "ff 50 08",                /* call [rax + 8] */
        "ff 54 24 08",             /* call [rsp + 8] */
        "ff 15 e8 15 00 00",       /* call [rip + 0x15e8] */
        "ff 90 00 01 00 00",       /* call [rax + 0x100] */
        "41 ff 95 00 01 00 00",    /* call [r13 + 0x100] */
        "ff 94 24 00 01 00 00",    /* call [rsp + 0x100] */
        "41 ff 94 24 00 01 00 00", /* call [r12 + 0x100] */
    };

    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        put_before(memory, calls[i]);
        CHECK(fp_is_return_address(&memory->reader, CODE + 64));
    }
}

CODE_TEST(other_instructions_are_before_no_return_address)
{
    static const char *const others[] = {
        "cc cc cc cc cc cc cc cc",
        "00 00 00 00 00 00 00 00",
        "90 90 90 90 90 90 90 90",
        "e9 00 01 00 00",          /* jmp rel32 */
        "40 e9 00 01 00 00",       /* likewise */
        "ff e0",                   /* jmp rax */
        "ff 25 00 01 00 00",       /* jmp [rip + 0x100] */
        "ff 30",                   /* push [rax] */
        "ff c0",                   /* inc eax */
        "48 8b 43 08 48 89 43 10", /* moves */
        "49 8b 65 58 4d 8b 7d 50", /* emit_leave_runtime's */
        "e8 00 01 00 00 90",       /* a call, but not right before */
        "e8 00 01 00",             /* the end of it is missing */
        "cc cc cc cc cc cc cc ff", /* its second byte would be behind */
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        put_before(memory, others[i]);
        CHECK(!fp_is_return_address(&memory->reader, CODE + 64));
    }
    /* Unreadable, at either end. */
    for (uint64_t off = 0; off < 8; off++)
        CHECK(!fp_is_return_address(&memory->reader, CODE + off));
    CHECK(!fp_is_return_address(&memory->reader, CODE + CODE_SIZE + 1));
    CHECK(!fp_is_return_address(&memory->reader, 0));
    CHECK(!fp_is_return_address(&memory->reader, 7));
    CHECK(!fp_is_return_address(&memory->reader, UINT64_MAX));
}

CODE_TEST(a_call_goes_where_it_says)
{
    uint64_t returns_to = CODE + 64;

    put_before(memory, "e8 00 01 00 00");
    CHECK(fp_call_target(&memory->reader, returns_to) == CODE + 64 + 0x100);
    put_before(memory, "40 e8 f0 ff ff ff");
    CHECK(fp_call_target(&memory->reader, returns_to) == CODE + 48);
    /* By the module's table of addresses. */
    put_before(memory, "ff 15 00 01 00 00");
    fake_put_word(memory, CODE + 64 + 0x100, CODE + 0x800);
    CHECK(fp_call_target(&memory->reader, returns_to) == CODE + 0x800);
    /* By a register: nobody knows. */
    put_before(memory, "41 ff d4");
    CHECK(fp_call_target(&memory->reader, returns_to) == 0);
    CHECK(fp_call_target(&memory->reader, CODE + 3) == 0);
    CHECK(fp_call_target(&memory->reader, 0) == 0);
    /* Out of what can be read: where it goes is known all the same; what is written there is
     * not. */
    put_before(memory, "e8 00 00 00 40");
    CHECK(fp_call_target(&memory->reader, returns_to) == CODE + 64 + 0x40000000);
    put_before(memory, "ff 15 00 00 00 40");
    CHECK(fp_call_target(&memory->reader, returns_to) == 0);
}

/* Where a call arrives in the end. */
static uint64_t goes_on_at(struct fake_memory *memory, uint64_t returns_to)
{
    return fp_jump_target(&memory->reader, fp_call_target(&memory->reader, returns_to));
}

CODE_TEST(a_call_by_a_jump_of_its_module_goes_on_there)
{
    uint64_t returns_to = CODE + 64, jump = CODE + 64 + 0x100;

    put_before(memory, "40 e8 00 01 00 00");
    put_code(memory, jump, "e9 fb 01 00 00");
    CHECK(goes_on_at(memory, returns_to) == jump + 0x200);
    put_code(memory, jump, "40 e9 fa 01 00 00");
    CHECK(goes_on_at(memory, returns_to) == jump + 0x200);
    put_code(memory, jump, "ff 25 fa 01 00 00");
    fake_put_word(memory, jump + 0x200, CODE + 0x900);
    CHECK(goes_on_at(memory, returns_to) == CODE + 0x900);
    put_code(memory, jump, "40 ff 25 f9 01 00 00");
    CHECK(goes_on_at(memory, returns_to) == CODE + 0x900);
    /* Its address cannot be read: it goes to the jump, that is all. */
    put_code(memory, jump, "ff 25 00 00 00 40");
    CHECK(goes_on_at(memory, returns_to) == jump);
    /* Not more than one of them. */
    put_code(memory, jump, "e9 fb ff ff ff");
    CHECK(goes_on_at(memory, returns_to) == jump);
}
