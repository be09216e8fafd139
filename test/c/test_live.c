/* test_live.c - sets of libraries that replace each other while another thread walks by them. */
#include <malloc.h>
#include <sched.h>

#include "base/error.h"
#include "cstack/image.h"
#include "cstack/live.h"
#include "cstack_truth.h"
#include "test.h"

#define LIBRARIES 50

/* The allocator's own figure; a sanitizer's allocator has another. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void)
{
    return __sanitizer_get_current_allocated_bytes != NULL
               ? __sanitizer_get_current_allocated_bytes()
               : mallinfo2().uordblks;
}

struct fixture {
    struct fp_live_cstack live;
    struct temporary directory;
    _Atomic int is_over;
    _Atomic uint64_t walks;
    pthread_t sampler;
};

/* As the sampler does: a name and a frame of what is known to be there. */
static void *sample(void *self)
{
    struct fixture *f = self;
    uint64_t word = 0, pc;
    struct fp_cstack_stack stack = {0x1000, (unsigned char *)&word, sizeof word};
    struct fp_registers registers = {.rip = (uint64_t)(uintptr_t)sample, .rsp = 0x1000};

    while (!atomic_load(&f->is_over)) {
        const struct fp_cstack *set = fp_live_cstack_acquire(&f->live);
        const char *name, *library;

        CHECK(set != NULL);
        CHECK_INT(fp_cstack_resolve(set, registers.rip, &name, &library), 0);
        CHECK_TEXT(name, "sample");
        CHECK_INT(fp_cstack_unwind(set, &registers, &stack, &pc, 1, NULL), 1);
        fp_live_cstack_release(&f->live);
        atomic_fetch_add(&f->walks, 1);
        sched_yield();
    }
    return NULL;
}

static void wait_for_walks(struct fixture *f, uint64_t count)
{
    uint64_t until = atomic_load(&f->walks) + count;

    while (atomic_load(&f->walks) < until)
        sched_yield();
}

static void reclaim(struct fixture *f)
{
    while (!fp_live_cstack_reclaim(&f->live))
        sched_yield();
    CHECK(f->live.replaced == NULL);
}

static void load_another(struct fixture *f, int number)
{
    char path[512], file[64];
    const char *name, *library;
    uint64_t run;

    snprintf(file, sizeof file, "libchain%d.so", number);
    snprintf(path, sizeof path, "%s", temporary_at(&f->directory, file));
    truth_shell("cp %s %s", temporary_at(&f->directory, "libchain.so"), path);
    run = truth_symbol(truth_open(path), "chain_run");
    CHECK(!truth_contains(f->live.set, run));
    CHECK(!fp_cstack_is_current(f->live.set));
    CHECK_INT(fp_live_cstack_renew(&f->live), 0);
    CHECK_INT(fp_cstack_resolve(f->live.set, run, &name, &library), 0);
    CHECK_TEXT(name, "chain_run");
    CHECK_TEXT(library, file);
    wait_for_walks(f, 2);
    reclaim(f);
}

TEST(fifty_libraries_are_known_and_old_sets_are_freed)
{
    struct fixture *f = calloc(1, sizeof *f);
    size_t before, one_set;

    f->live.bytes_max = SIZE_MAX;
    temporary_make(&f->directory);
    truth_build("gcc", "-O2", temporary_at(&f->directory, "libchain.so"));
    CHECK_INT(fp_live_cstack_renew(&f->live), 0);
    CHECK(pthread_create(&f->sampler, NULL, sample, f) == 0);
    load_another(f, 0);
    before = allocated();
    one_set = atomic_load(&f->live.set)->bytes;
    for (int i = 1; i < LIBRARIES; i++)
        load_another(f, i);
    printf("# %zu KiB a set; %zu KiB more after %d others; %zu walks\n", one_set / 1024,
           (allocated() - before) / 1024, LIBRARIES - 1, (size_t)atomic_load(&f->walks));
    /* The linker's own records of what was loaded are in it, and are less than three sets. */
    CHECK(allocated() < before + 3 * one_set);
    atomic_store(&f->is_over, 1);
    pthread_join(f->sampler, NULL);
    fp_live_cstack_destroy(&f->live);
    CHECK(f->live.set == NULL);
    temporary_remove(&f->directory);
    free(f);
}

/* No third set is made, and the two stay, until the walk has ended. */
TEST(a_set_that_is_read_is_not_freed)
{
    struct fp_live_cstack live = {.bytes_max = SIZE_MAX};
    const char *name, *library;
    const struct fp_cstack *read;

    CHECK(fp_live_cstack_acquire(&live) == NULL);
    fp_live_cstack_release(&live);
    CHECK_INT(fp_live_cstack_reclaim(&live), 1);
    CHECK_INT(fp_live_cstack_renew(&live), 0);
    read = fp_live_cstack_acquire(&live);
    CHECK_INT(fp_live_cstack_renew(&live), 0);
    CHECK(live.set != read && live.replaced == read);
    CHECK_INT(fp_live_cstack_reclaim(&live), 0);
    CHECK_INT(fp_live_cstack_renew(&live), FP_ESTATE);
    CHECK_INT(fp_cstack_resolve(read, (uint64_t)(uintptr_t)sample, &name, &library),
              0); /* ASan: it is there */
    CHECK_TEXT(name, "sample");
    fp_live_cstack_release(&live);
    CHECK_INT(fp_live_cstack_reclaim(&live), 1);
    CHECK_INT(fp_live_cstack_renew(&live), 0);
    CHECK(live.replaced == NULL);
    fp_live_cstack_destroy(&live);
}
