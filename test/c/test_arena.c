/* test_arena.c - texts of any sizes, kept and replaced in any order: aligned, apart from each
 * other, counted; with a bound, and with a kernel that has no memory. */
#include <stdbool.h>
#include <sys/mman.h>

/* -1: any; else so many mappings may still be made. */
static int mappings_left = -1;
static size_t mapped_now;

static void *faulty_mmap(void *at, size_t size, int prot, int flags, int file, off_t offset)
{
    void *made;

    if (mappings_left == 0)
        return MAP_FAILED;
    made = mmap(at, size, prot, flags, file, offset);
    mappings_left -= mappings_left > 0;
    mapped_now += made == MAP_FAILED ? 0 : size;
    return made;
}

static void *faulty_mremap(void *at, size_t size, size_t new_size, int flags)
{
    void *moved;

    if (mappings_left == 0)
        return MAP_FAILED;
    moved = mremap(at, size, new_size, flags);
    mapped_now += moved == MAP_FAILED ? 0 : new_size - size;
    return moved;
}

static int counting_munmap(void *at, size_t size)
{
    mapped_now -= size;
    return munmap(at, size);
}

#define mmap faulty_mmap
#define mremap faulty_mremap
#define munmap counting_munmap
#include "base/pages.c"
#undef mmap
#undef mremap
#undef munmap

#include "base/arena.h"
#include "base/buffer.h"
#include "test.h"

#define TEXTS 2000

/* Each byte of a text tells which one it is of. */
struct text {
    struct fp_kept kept;
    unsigned char fill;
};

static struct text texts[TEXTS];
static unsigned char bytes[1 << 17];
static uint64_t seed;

/* Small ones mostly, and some of each size that there is. */
static size_t any_size(void)
{
    return run_below(&seed, 1u << (1 + run_below(&seed, 16)));
}

static void check_content(const struct text *text)
{
    const unsigned char *at = text->kept.bytes;
    size_t size = text->kept.size;

    if (size == 0)
        return;
    CHECK_INT(at[0], text->fill);
    CHECK(memcmp(at, at + 1, size - 1) == 0); /* each is as the one after it */
}

static void keep(struct fp_arena *arena, struct text *text, size_t size)
{
    const void *before = text->kept.bytes;
    uint32_t room = text->kept.room;

    check_content(text);
    text->fill = (unsigned char)run_below(&seed, 256);
    memset(bytes, text->fill, size);
    if (fp_arena_keep(arena, &text->kept, bytes, size) != 0) {
        CHECK_INT(text->kept.size, 0);
        return;
    }
    CHECK_INT(text->kept.size, size);
    CHECK_INT((uintptr_t)text->kept.bytes % 16, 0);
    if (before != NULL && size <= room)
        CHECK(text->kept.bytes == before);
}

/* What was kept stays until it is replaced: no two overlap. */
static void churn(struct fp_arena *arena, unsigned steps)
{
    memset(texts, 0, sizeof(texts));
    for (unsigned i = 0; i < steps; i++) {
        keep(arena, &texts[run_below(&seed, TEXTS)], any_size());
        CHECK_INT(arena->mapped, mapped_now);
        CHECK(arena->most == 0 || arena->mapped <= arena->most);
    }
    for (unsigned i = 0; i < TEXTS; i++)
        check_content(&texts[i]);
}

TEST(texts_of_any_sizes_do_not_overlap)
{
    for (uint64_t i = 1; i < 6; i++) {
        struct fp_arena arena = {0};

        seed = i;
        churn(&arena, 20000);
        fp_arena_free(&arena);
        CHECK_INT(arena.mapped, 0);
        CHECK_INT(mapped_now, 0);
    }
}

/* However often the texts change, the rooms have at most twice the largest ones. */
TEST(rooms_are_used_again)
{
    struct fp_arena arena = {0};
    size_t largest = 0;

    churn(&arena, 400000);
    for (unsigned i = 0; i < TEXTS; i++)
        largest += texts[i].kept.room;
    CHECK(arena.mapped < 2 * largest + ((size_t)1 << 20));
    fp_arena_free(&arena);
}

TEST(little_is_wasted)
{
    size_t sizes[] = {1, 100, 3000, 40, 20000, 60000, 300000};

    for (unsigned s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        struct fp_arena arena = {.most = (size_t)2 << 20};
        size_t total = 0;

        while (fp_arena_alloc(&arena, sizes[s]) != NULL)
            total += sizes[s] < 16 ? 16 : sizes[s];
        CHECK(total > arena.most / 10 * 7);
        CHECK(arena.mapped <= arena.most);
        fp_arena_free(&arena);
    }
    CHECK_INT(mapped_now, 0);
}

TEST(a_large_text_leaves_the_chunk_as_it_is)
{
    struct fp_arena arena = {0};
    char *small = fp_arena_alloc(&arena, 100);

    CHECK(fp_arena_alloc(&arena, 300000) != NULL);
    CHECK(fp_arena_alloc(&arena, 100) == small + 112);
    fp_arena_free(&arena);
}

TEST(a_bound_is_kept)
{
    size_t bounds[] = {1, 4095, 4096, 10000, 300000, (size_t)3 << 20};

    for (unsigned i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
        struct fp_arena arena = {.most = bounds[i]};

        churn(&arena, 5000);
        fp_arena_free(&arena);
        churn(&arena, 5000);
        fp_arena_free(&arena);
        CHECK_INT(mapped_now, 0);
    }
}

TEST(without_memory_what_is_there_stays_good)
{
    for (int left = 0; left < 40; left++) {
        struct fp_arena arena = {0};

        mappings_left = left;
        churn(&arena, 3000);
        mappings_left = -1;
        CHECK(fp_arena_alloc(&arena, 100000) != NULL);
        fp_arena_free(&arena);
        CHECK_INT(mapped_now, 0);
    }
}

TEST(an_arena_can_be_used_again)
{
    struct fp_arena arena = {0};
    struct fp_kept none = {NULL, 0, 0};

    fp_arena_free(&arena);
    CHECK_INT(fp_arena_keep(&arena, &none, NULL, 0), 0);
    CHECK(none.bytes != NULL);
    CHECK(fp_arena_alloc(&arena, 100000) != NULL);
    fp_arena_free(&arena);
    CHECK(fp_arena_alloc(&arena, 10) != NULL);
    fp_arena_free(&arena);
    CHECK_INT(mapped_now, 0);
}

TEST(a_buffer_keeps_its_bytes_as_it_grows)
{
    struct fp_buffer buffer = {NULL, 0, 0};

    for (unsigned i = 0; i < 300000; i++) {
        unsigned char byte = (unsigned char)(i * 7);

        CHECK_INT(fp_buffer_append(&buffer, (char *)&byte, 1), 0);
    }
    mappings_left = 0;
    CHECK(fp_buffer_reserve(&buffer, buffer.room) != 0);
    mappings_left = -1;
    for (unsigned i = 0; i < 300000; i++)
        CHECK_INT((unsigned char)buffer.bytes[i], (unsigned char)(i * 7));
    CHECK_INT(mapped_now, buffer.room);
    fp_buffer_free(&buffer);
    CHECK_INT(mapped_now, 0);
}
