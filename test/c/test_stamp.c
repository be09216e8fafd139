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

static void set_monitors(struct fake_vm *vm, uint64_t root)
{
    fake_put_word(&vm->memory,
                  fake_process_at(1) + vm->layout.release.offset[FP_FIELD_registered] + 24, root);
}

/* ---------------------------------------------------- what the process does */

/* It is woken, finds no message that it takes, and waits at the same place. */
static void looks_at_a_message(struct fake_vm *vm)
{
    add(vm, FP_FIELD_reds, 1);
}

static void calls_deeper(struct fake_vm *vm)
{
    add(vm, FP_FIELD_stop, -16);
    add(vm, FP_FIELD_reds, 4);
}

static void waits_elsewhere(struct fake_vm *vm)
{
    add(vm, FP_FIELD_i, 0x40);
    add(vm, FP_FIELD_reds, 3);
}

/* It has not run yet: erts_schedule() sets where it goes on. */
static void has_a_timeout(struct fake_vm *vm)
{
    add(vm, FP_FIELD_i, 8);
}

static void is_scheduled(struct fake_vm *vm)
{
    add(vm, FP_FIELD_state, FP_PSFLG_ACTIVE);
}

static void puts_a_first_value(struct fake_vm *vm)
{
    fake_set(vm, 1, FP_FIELD_dictionary, FAKE_MISC);
}

static void monitors_a_first_process(struct fake_vm *vm)
{
    set_monitors(vm, FAKE_MISC);
}

/* ------------------------------- collections that others request: no reductions */

static void collects_young_terms(struct fake_vm *vm)
{
    add(vm, FP_FIELD_gen_gcs, 1);
}

static void collects_into_another_heap(struct fake_vm *vm)
{
    add(vm, FP_FIELD_heap, 64);
    add(vm, FP_FIELD_htop, 64);
}

static void collects_and_its_heap_ends_earlier(struct fake_vm *vm)
{
    add(vm, FP_FIELD_hend, -64);
}

static void collects_and_its_stack_lies_elsewhere(struct fake_vm *vm)
{
    add(vm, FP_FIELD_stop, 64);
}

static void collects(struct fake_vm *vm)
{
    add(vm, FP_FIELD_state, FP_PSFLG_GC);
}

/* ------------------------------------------------------ what happens to its place */

/* It has done as much, and waits at the same place: they are workers of one kind. */
static void gives_its_structure_to_another(struct fake_vm *vm)
{
    fake_set(vm, 1, FP_FIELD_id, fake_pid(&vm->layout, 7));
}

static void exits(struct fake_vm *vm)
{
    fake_exit(vm, 1);
}

/* ----------------------------------------------------------- what others write */

static void gets_a_message(struct fake_vm *vm)
{
    add(vm, FP_FIELD_outer_len, 1);
}

static void has_its_messages_fetched_by_process_info(struct fake_vm *vm)
{
    add(vm, FP_FIELD_inner_len, 3);
    add(vm, FP_FIELD_outer_len, -3);
}

static void gets_a_term_on_its_heap(struct fake_vm *vm)
{
    add(vm, FP_FIELD_htop, 32);
}

static void gets_a_binary_on_its_heap(struct fake_vm *vm)
{
    add(vm, FP_FIELD_htop, 48);
    add(vm, FP_FIELD_bin_vheap, 1000);
}

static void is_registered(struct fake_vm *vm)
{
    fake_set(vm, 1, FP_FIELD_registered, FAKE_MISC);
}

static const struct {
    void (*happens)(struct fake_vm *vm);
    int moves, collects;
} events[] = {
    {looks_at_a_message, 1, 0},
    {calls_deeper, 1, 0},
    {waits_elsewhere, 1, 0},
    {has_a_timeout, 1, 0},
    {is_scheduled, 1, 0},
    {puts_a_first_value, 1, 0},
    {monitors_a_first_process, 1, 0},
    {collects_young_terms, 1, 1},
    {collects_into_another_heap, 1, 1},
    {collects_and_its_heap_ends_earlier, 1, 1},
    {collects_and_its_stack_lies_elsewhere, 1, 0},
    {collects, 1, 0},
    {gives_its_structure_to_another, 1, 1},
    {exits, 1, 0},
    {gets_a_message, 0, 0},
    {has_its_messages_fetched_by_process_info, 0, 0},
    {gets_a_term_on_its_heap, 0, 0},
    {gets_a_binary_on_its_heap, 0, 0},
    {is_registered, 0, 0},
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
