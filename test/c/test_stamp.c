/* test_stamp.c - what an equal stamp of a process proves, and what it does not.
 *
 * Each event writes a structure as ERTS does (erl_process.c, erl_gc.c, erl_message.c), and says
 * whether the two stamps around it may be equal. */
#include "base/error.h"
#include "erts/stamp.h"
#include "fake_vm.h"
#include "test.h"

static const unsigned releases[] = {25, 26, 27, 28, 29};

struct fixture {
    struct fake_vm vm;
    struct fp_stamp before;
};

static void add(struct fake_vm *vm, enum fp_field field, int64_t more)
{
    fake_set(vm, 1, field, fake_get(vm, 1, field) + (uint64_t)more);
}

static void set_monitors(struct fake_vm *vm)
{
    fake_put_word(&vm->memory,
                  fake_process_at(1) + vm->layout.release.offset[FP_FIELD_registered] + 24,
                  FAKE_MISC);
}

static void exits(struct fake_vm *vm)
{
    fake_exit(vm, 1);
}

#define F(field) FP_FIELD_##field

/* What a process does, what is done to it, what others write: each adds to one field or two. */
static const struct {
    const char *what;
    struct {
        enum fp_field field;
        int64_t more;
    } adds[2];
    int moves, collects;
    void (*happens)(struct fake_vm *vm); /* what is no addition */
} events[] = {
    {"is woken, takes no message, waits at the same place", {{F(reds), 1}}, 1, 0, NULL},
    {"calls deeper", {{F(stop), -16}, {F(reds), 4}}, 1, 0, NULL},
    {"waits elsewhere", {{F(i), 0x40}, {F(reds), 3}}, 1, 0, NULL},
    {"has a timeout: erts_schedule() sets where it goes on", {{F(i), 8}}, 1, 0, NULL},
    {"is scheduled", {{F(state), FP_PSFLG_ACTIVE}}, 1, 0, NULL},
    {"puts a first value", {{F(dictionary), FAKE_MISC}}, 1, 0, NULL},
    {"monitors a first process", {{0}}, 1, 0, set_monitors},
    /* Collections that others request, without a reduction. */
    {"collects young terms", {{F(gen_gcs), 1}}, 1, 1, NULL},
    {"collects into another heap", {{F(heap), 64}, {F(htop), 64}}, 1, 1, NULL},
    {"collects, and its heap ends earlier", {{F(hend), -64}}, 1, 1, NULL},
    {"collects, and its stack lies elsewhere", {{F(stop), 64}}, 1, 0, NULL},
    {"is in a collection", {{F(state), FP_PSFLG_GC}}, 1, 0, NULL},
    /* A worker of the same kind has done as much, and waits at the same place. */
    {"gives its structure to another", {{F(id), 16 << 4}}, 1, 1, NULL},
    {"exits", {{0}}, 1, 0, exits},
    {"gets a message", {{F(outer_len), 1}}, 0, 0, NULL},
    {"has its messages fetched", {{F(inner_len), 3}, {F(outer_len), -3}}, 0, 0, NULL},
    {"gets a term on its heap", {{F(htop), 32}}, 0, 0, NULL},
    {"gets a binary on its heap", {{F(htop), 48}, {F(bin_vheap), 1000}}, 0, 0, NULL},
    {"is registered", {{F(registered), FAKE_MISC}}, 0, 0, NULL},
};
#define EVENTS (sizeof events / sizeof *events)

static struct fixture *create(unsigned otp)
{
    struct fixture *f = calloc(1, sizeof *f);

    fake_vm_create(&f->vm, otp, 64, 8);
    fake_spawn(&f->vm, 1, FAKE_JIT + 0x1000);
    fake_fill(&f->vm, 1);
    fake_set(&f->vm, 1, FP_FIELD_outer_len, 5);
    CHECK_INT(fp_stamp_read(&f->vm.layout, &f->vm.memory.reader, fake_process_at(1), &f->before),
              0);
    return f;
}

static struct fp_stamp stamp_now(struct fixture *f)
{
    struct fp_stamp now;

    CHECK_INT(fp_stamp_read(&f->vm.layout, &f->vm.memory.reader, fake_process_at(1), &now), 0);
    return now;
}

static void destroy(struct fixture *f)
{
    fake_vm_destroy(&f->vm);
    free(f);
}

TEST(a_stamp_shows_what_its_process_did_and_not_what_others_wrote)
{
    for (size_t r = 0; r < sizeof releases / sizeof *releases; r++)
        for (size_t k = 0; k < EVENTS; k++) {
            struct fixture *f = create(releases[r]);
            struct fp_stamp now = stamp_now(f);

            CHECK_INT(fp_stamp_is_same(&f->before, &now), 1);
            run_name = events[k].what;
            for (size_t i = 0; i < 2 && events[k].adds[i].more != 0; i++)
                add(&f->vm, events[k].adds[i].field, events[k].adds[i].more);
            if (events[k].happens != NULL)
                events[k].happens(&f->vm);
            now = stamp_now(f);
            CHECK_INT(fp_stamp_is_same(&f->before, &now), !events[k].moves);
            CHECK_INT(fp_stamp_is_same(&now, &f->before), !events[k].moves);
            CHECK_INT(fp_stamp_has_same_heap(&f->before, &now), !events[k].collects);
            destroy(f);
        }
}

/* Whatever lies behind the bytes that a stamp says it needs: they are in no page. */
TEST(a_stamp_needs_the_bytes_that_it_says)
{
    for (size_t r = 0; r < sizeof releases / sizeof *releases; r++) {
        struct fixture *f = create(releases[r]);
        uint32_t bytes = fp_stamp_bytes(&f->vm.layout);
        unsigned char *copy = malloc(bytes);
        struct fp_stamp now;

        CHECK_INT(fp_safe_read(&f->vm.memory.reader, fake_process_at(1), copy, bytes), 0);
        fp_stamp_decode(&f->vm.layout, copy, &now);
        CHECK_INT(fp_stamp_is_same(&f->before, &now), 1);
        free(copy);
        destroy(f);
    }
}

TEST(a_process_that_is_being_spawned_has_no_stack)
{
    struct fixture *f = create(27);
    struct fp_stamp now;

    CHECK_INT(fp_stamp_has_stack(&f->before), 1);
    fake_set_torn(&f->vm, 1, FP_FIELD_heap, 0);
    now = stamp_now(f);
    CHECK_INT(fp_stamp_has_stack(&now), 0);
    destroy(f);
}

TEST(a_structure_that_is_not_there_has_no_stamp)
{
    struct fixture *f = create(29);
    struct fp_stamp now;

    fake_unmap(&f->vm.memory, FAKE_PROCESSES);
    CHECK_INT(fp_stamp_read(&f->vm.layout, &f->vm.memory.reader, fake_process_at(1), &now),
              FP_EGONE);
    destroy(f);
}
