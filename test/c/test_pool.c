/*
 * test_pool.c - pieces of any sizes, taken and given in any order: aligned, apart from each other,
 * counted, and used again; with a bound, and with a kernel that has no memory.
 */
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

#include "base/buffer.h"
#include "base/pool.h"
#include "run.h"

#define PIECES 2000

/* Each byte of a piece tells which one it is of. */
struct taken {
    unsigned char *at; /* NULL: none */
    size_t size;
    unsigned char fill;
};

static uint64_t seed;

static uint32_t any(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % below;
}

/* Small ones mostly, and some of each size that there is. */
static size_t any_size(void)
{
    return any(1u << (1 + any(16)));
}

static void check_content(const struct taken *taken)
{
    for (size_t i = 0; i < taken->size; i++)
        CHECK_INT(taken->at[i], taken->fill);
}

static bool take(struct fp_pool *pool, struct taken *taken, size_t size)
{
    taken->at = fp_pool_alloc(pool, size);
    if (taken->at == NULL)
        return false;
    CHECK_INT((uintptr_t)taken->at % FP_POOL_ALIGNMENT, 0);
    taken->size = size;
    taken->fill = (unsigned char)any(256);
    memset(taken->at, taken->fill, size);
    return true;
}

static void give(struct fp_pool *pool, struct taken *taken)
{
    if (taken->at == NULL)
        return;
    check_content(taken);
    fp_pool_free(pool, taken->at, taken->size);
    taken->at = NULL;
}

/* What was written of a piece is there until it is given: no two overlap. */
static void churn(struct fp_pool *pool, unsigned steps)
{
    static struct taken taken[PIECES];

    memset(taken, 0, sizeof(taken));
    for (unsigned i = 0; i < steps; i++) {
        struct taken *one = &taken[any(PIECES)];

        give(pool, one);
        take(pool, one, any_size());
        CHECK_INT(pool->mapped, mapped_now);
        CHECK(pool->most == 0 || pool->mapped <= pool->most);
    }
    for (unsigned i = 0; i < PIECES; i++)
        if (taken[i].at != NULL)
            check_content(&taken[i]);
}

static void pieces_of_any_sizes_do_not_overlap(void)
{
    for (seed = 1; seed < 6; seed++) {
        uint64_t before = seed;
        struct fp_pool pool = {0};

        churn(&pool, 20000);
        fp_pool_destroy(&pool);
        CHECK_INT(pool.mapped, 0);
        CHECK_INT(mapped_now, 0);
        seed = before;
    }
}

static void every_size_fits_its_piece(void)
{
    struct fp_pool pool = {0};
    struct taken one, other;

    for (size_t size = 0; size < FP_POOL_PIECE_MAX + 5000; size++) {
        CHECK(take(&pool, &one, size));
        CHECK(take(&pool, &other, size));
        give(&pool, &one);
        give(&pool, &other);
    }
    fp_pool_destroy(&pool);
    CHECK_INT(mapped_now, 0);
}

/* Less than a fifth of each, and the ends of chunks. */
static void little_is_wasted(void)
{
    for (size_t size = 65; size <= FP_POOL_PIECE_MAX; size += 1 + size / 7) {
        struct fp_pool pool = {0};
        size_t count = ((size_t)8 << 20) / size;

        for (size_t i = 0; i < count; i++)
            CHECK(fp_pool_alloc(&pool, size) != NULL);
        CHECK(pool.mapped <= count * size * 5 / 4 * 8 / 7 + FP_POOL_CHUNK);
        fp_pool_destroy(&pool);
    }
}

static void what_was_given_is_taken_again(void)
{
    struct fp_pool pool = {0};
    static struct taken taken[PIECES];
    size_t mapped;

    for (unsigned i = 0; i < PIECES; i++)
        CHECK(take(&pool, &taken[i], 1000));
    mapped = pool.mapped;
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < PIECES; i++)
            give(&pool, &taken[i]);
        for (unsigned i = 0; i < PIECES; i++)
            CHECK(take(&pool, &taken[i], 961 + any(63)));
    }
    CHECK_INT(pool.mapped, mapped);
    fp_pool_destroy(&pool);
}

static void the_end_of_a_chunk_is_used(void)
{
    struct fp_pool pool = {0};
    size_t mapped;

    /* Seven of the largest leave almost one more in each chunk. */
    for (unsigned i = 0; i < 8; i++)
        CHECK(fp_pool_alloc(&pool, FP_POOL_PIECE_MAX) != NULL);
    mapped = pool.mapped;
    CHECK_INT(mapped, 2 * FP_POOL_CHUNK);
    for (unsigned i = 0; i < 6; i++)
        CHECK(fp_pool_alloc(&pool, FP_POOL_PIECE_MAX) != NULL);
    CHECK(fp_pool_alloc(&pool, 28000) != NULL);
    CHECK_INT(pool.mapped, mapped);
    fp_pool_destroy(&pool);
}

static void a_large_piece_is_a_mapping_of_its_own(void)
{
    struct fp_pool pool = {0};
    struct taken taken[3];

    for (unsigned i = 0; i < 3; i++)
        CHECK(take(&pool, &taken[i], FP_POOL_PIECE_MAX + 1 + i * 100000));
    CHECK(pool.mapped < 3 * FP_POOL_PIECE_MAX + 300000 + 4 * FP_PAGE);
    give(&pool, &taken[1]);
    give(&pool, &taken[2]);
    CHECK(pool.mapped < FP_POOL_PIECE_MAX + 2 * FP_PAGE);
    give(&pool, &taken[0]);
    CHECK_INT(pool.mapped, 0);
    CHECK(fp_pool_alloc(&pool, SIZE_MAX) == NULL);
    CHECK(fp_pool_alloc(&pool, SIZE_MAX / 2) == NULL);
}

static void an_empty_pool_can_be_cut_to_any_sizes(void)
{
    struct fp_pool pool = {.most = (size_t)2 << 20};
    size_t sizes[] = {100, 3000, 40, 20000, 1, FP_POOL_PIECE_MAX, 60000};

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
            size_t total = 0;

            while (fp_pool_alloc(&pool, sizes[s]) != NULL)
                total += sizes[s] < 16 ? 16 : sizes[s];
            CHECK(total > pool.most / 10 * 7);
            CHECK(pool.mapped <= pool.most);
            fp_pool_empty(&pool);
        }
    }
    fp_pool_destroy(&pool);
    CHECK_INT(mapped_now, 0);
}

static void a_bound_is_kept(void)
{
    size_t bounds[] = {1, 4095, 4096, 10000, 300000, (size_t)3 << 20};

    for (unsigned i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
        struct fp_pool pool = {.most = bounds[i]};

        churn(&pool, 5000);
        fp_pool_empty(&pool);
        churn(&pool, 5000);
        fp_pool_destroy(&pool);
        CHECK_INT(mapped_now, 0);
    }
}

static void without_memory_what_is_there_stays_good(void)
{
    for (int left = 0; left < 40; left++) {
        struct fp_pool pool = {0};

        mappings_left = left;
        churn(&pool, 3000);
        fp_pool_empty(&pool);
        churn(&pool, 3000);
        mappings_left = -1;
        CHECK(fp_pool_alloc(&pool, 100000) != NULL);
        fp_pool_destroy(&pool);
        CHECK_INT(mapped_now, 0);
    }
}

static void a_destroyed_pool_can_be_used_again(void)
{
    struct fp_pool pool = {0};

    fp_pool_destroy(&pool);
    fp_pool_free(&pool, NULL, 100);
    CHECK(fp_pool_alloc(&pool, 10) != NULL);
    CHECK(fp_pool_alloc(&pool, 100000) != NULL);
    fp_pool_destroy(&pool);
    CHECK(fp_pool_alloc(&pool, 10) != NULL);
    fp_pool_destroy(&pool);
    CHECK_INT(mapped_now, 0);
}

static void a_buffer_keeps_its_bytes_as_it_grows(void)
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

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(pieces_of_any_sizes_do_not_overlap);
    RUN(every_size_fits_its_piece);
    RUN(little_is_wasted);
    RUN(what_was_given_is_taken_again);
    RUN(the_end_of_a_chunk_is_used);
    RUN(a_large_piece_is_a_mapping_of_its_own);
    RUN(an_empty_pool_can_be_cut_to_any_sizes);
    RUN(a_bound_is_kept);
    RUN(without_memory_what_is_there_stays_good);
    RUN(a_destroyed_pool_can_be_used_again);
    RUN(a_buffer_keeps_its_bytes_as_it_grows);
    return RUN_END();
}
