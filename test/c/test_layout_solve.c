/* test_layout_solve.c - the calibration over a VM whose layout is known: it finds all of it, and
 * refuses naming the field when anything is wrong. */
#include "base/error.h"
#include "fake_vm.h"
#include "test.h"

#define PROBES 8u
#define LIMIT 1024u
#define PROCESS_TABLE_AT (FAKE_DATA + 70000) /* crosses a block of the scan */
#define FREE_SPOT 8u                         /* 24 bytes of the structure that no field uses */

struct fixture {
    struct fake_vm vm;
    struct fake_module module;
    struct fp_probe probe[PROBES];
    struct fp_known_atom atom[3];
    struct fp_solve_input input;
    struct fp_layout found;
    struct fp_refusal refusal;
    uint64_t random;
    uint64_t line_table_at;
};

static void noise(struct fixture *f, uint64_t at, size_t words)
{
    for (size_t k = 0; k < words; k++)
        fake_put_word(&f->vm.memory, at + 8 * k, run_random(&f->random));
}

static void fill_probe(struct fixture *f, uint32_t n)
{
    struct fp_probe *probe = &f->probe[n];
    const struct fp_release *release = &f->vm.layout.release;
    uint64_t registration = FAKE_MISC + 256u * n;
    uint64_t dictionary = registration + 128;

    fake_spawn(&f->vm, n, f->module.code[n] + 4);
    noise(f, fake_process_at(n) + 8, FAKE_PROCESS_STRIDE / 8 - 1);
    fake_fill(&f->vm, n);
    probe->address = fake_process_at(n);
    probe->id = fake_pid(&f->vm.layout, n);
    probe->pid_number = n;
    probe->parent = fake_pid(&f->vm.layout, 100 + n);
    fake_set(&f->vm, n, FP_FIELD_i, f->module.code[n] + 4);
    memcpy(probe->current_function, fake_at(&f->vm.memory, f->module.code[n] - 24, 24), 24);
    probe->initial_call[0] = f->atom[0].term;
    probe->initial_call[1] = f->atom[1].term;
    probe->initial_call[2] = n;
    fake_put(&f->vm.memory, probe->address + release->offset[FP_FIELD_initial_call],
             probe->initial_call, 24);
    fake_set(&f->vm, n, FP_FIELD_registered, 0);
    if (n % 2 == 1) {
        probe->registered = (uint64_t)(500 + n) << 6 | 0x0b;
        fake_put_word(&f->vm.memory, registration + 32, probe->registered);
        fake_set(&f->vm, n, FP_FIELD_registered, registration);
    }
    fake_put_word(&f->vm.memory, dictionary + 16, 3 + n);
    fake_set(&f->vm, n, FP_FIELD_dictionary, dictionary);
    probe->known = (1u << FP_FACT_COUNT) - 1;
    for (int which = 0; which < FP_FACT_COUNT; which++)
        probe->fact[which] = fake_fact(&f->vm, n, (enum fp_fact)which);
}

static struct fixture *create(unsigned otp)
{
    static const struct fake_module_options options = {4, 16, 0, 0, 0};
    static const char *const names[] = {"calibration", "wait", "loop"};
    struct fixture *f = calloc(1, sizeof *f);
    struct fake_body body[PROBES];
    uint32_t limit = LIMIT;

    f->random = 17;
    fake_vm_create(&f->vm, otp, LIMIT, PROBES);
    fake_vm_add_atoms(&f->vm);
    fake_vm_add_jit(&f->vm);
    fake_map(&f->vm.memory, FAKE_MISC, 65536);
    for (size_t i = 0; i < 3; i++) {
        uint32_t len = (uint32_t)strlen(names[i]);

        f->atom[i] = (struct fp_known_atom){fake_atom_term(&f->vm, names[i], len), names[i], len};
    }
    for (uint32_t n = 0; n < PROBES; n++)
        body[n] = (struct fake_body){f->atom[1].term, n, 64 + 8 * n};
    fake_load(&f->vm, &f->module, f->atom[0].term, body, PROBES, &options);
    f->line_table_at = f->module.functions - 8u * f->vm.layout.release.functions_to_line_table;
    fake_put_word(&f->vm.memory, PROCESS_TABLE_AT, FAKE_TABLE);
    fake_put(&f->vm.memory, PROCESS_TABLE_AT + 16, &limit, 4);
    for (uint32_t n = 0; n < PROBES; n++)
        fill_probe(f, n);
    f->input.otp = otp;
    f->input.process_limit = LIMIT;
    f->input.atom_limit = 1048576;
    f->input.process_size = f->vm.layout.release.process_size;
    f->input.probe = f->probe;
    f->input.probes = PROBES;
    f->input.atom = f->atom;
    f->input.atoms = 3;
    f->input.code = f->vm.code;
    f->input.data.count = 1;
    f->input.data.range[0] = (struct fp_range){FAKE_DATA, FAKE_DATA + (1u << 17)};
    return f;
}

static void destroy(struct fixture *f)
{
    fake_vm_destroy(&f->vm);
    free(f);
}

static int solve(struct fixture *f)
{
    int err = fp_layout_solve(&f->found, &f->vm.memory.reader, &f->input, &f->refusal);

    CHECK_INT(err, f->refusal.err);
    if (err != 0) {
        CHECK(f->refusal.field[0] != '\0');
        CHECK(f->refusal.why[0] != '\0');
    }
    return err;
}

static void refuses(struct fixture *f, int err, const char *field)
{
    CHECK_INT(solve(f), err);
    CHECK_TEXT(f->refusal.field, field);
}

/* As one of low priority on a node without a CPU for it: it answered ahead of its turn. */
TEST_WITH(a_probe_that_waits_may_be_in_a_run_queue, create(25))
{
    uint32_t state = (uint32_t)f->probe[1].fact[FP_FACT_state];

    fake_set(&f->vm, 1, FP_FIELD_state, (state & ~0x30u) | 0x10u | 1u << 9 | 1u << 14);
    CHECK_INT(solve(f), 0);
    CHECK_INT(f->found.release.offset[FP_FIELD_state], f->vm.layout.release.offset[FP_FIELD_state]);
    fake_set(&f->vm, 1, FP_FIELD_state, state | FP_PSFLG_RUNNING);
    refuses(f, FP_ENOENT, "state");
}

TEST_WITH_EACH(every_listed_release_is_found, create, 25, 26, 27, 28, 29)
{
    if (solve(f) != 0)
        RUN_FAIL("%s: %s", f->refusal.field, f->refusal.why);
    CHECK(memcmp(&f->found.release, &f->vm.layout.release, sizeof f->found.release) == 0);
    CHECK(f->found.process_table == FAKE_TABLE);
    CHECK_INT(f->found.process_limit, LIMIT);
    CHECK(f->found.atom_segments == f->vm.layout.atom_segments);
    CHECK(f->found.atom_entries == f->vm.layout.atom_entries);
    /* All fields lie within what is read of a structure. */
    for (int field = 0; field < FP_FIELD_COUNT; field++)
        CHECK(f->found.release.offset[field] + fp_field_width(field) <= f->found.snapshot_size);
    CHECK(f->found.release.offset[FP_FIELD_initial_call] + 24 <= f->found.snapshot_size);
    CHECK(f->found.snapshot_size <= f->found.release.process_size);
}

/* ------------------------------------------------------ field by field -- */

static size_t bytes_of(int field)
{
    return field == FP_FIELD_initial_call ? 24 : fp_field_width(field);
}

static unsigned char *at_field(struct fixture *f, uint32_t n, uint32_t offset)
{
    return fake_at(&f->vm.memory, fake_process_at(n) + offset, 24);
}

/* Two ends that are found together: either may be named. */
static int names_field(const char *name, int field)
{
    static const int pairs[][2] = {{FP_FIELD_heap, FP_FIELD_hend},
                                   {FP_FIELD_old_heap, FP_FIELD_old_hend}};

    if (strcmp(name, fp_field_name(field)) == 0)
        return 1;
    for (size_t i = 0; i < 2; i++)
        if ((pairs[i][0] == field || pairs[i][1] == field) &&
            (strcmp(name, fp_field_name(pairs[i][0])) == 0 ||
             strcmp(name, fp_field_name(pairs[i][1])) == 0))
            return 1;
    return 0;
}

static void refuses_field(struct fixture *f, int err, int field)
{
    CHECK_INT(solve(f), err);
    if (!names_field(f->refusal.field, field))
        RUN_FAIL("%s is named, expected %s", f->refusal.field, fp_field_name(field));
    destroy(f);
}

TEST(a_field_that_is_wrong_in_one_probe_is_refused_by_name)
{
    for (int field = 0; field < FP_FIELD_COUNT; field++)
        for (uint32_t n = 1; n < PROBES - 1; n += 2) {
            struct fixture *f = create(27);

            at_field(f, n, f->vm.layout.release.offset[field])[1] ^= 0x20;
            refuses_field(f, FP_ENOENT, field);
        }
}

TEST(a_field_that_is_nowhere_is_refused_by_name)
{
    for (int field = 0; field < FP_FIELD_COUNT; field++) {
        struct fixture *f = create(29);

        for (uint32_t n = 0; n < PROBES; n++)
            for (size_t k = 0; k < bytes_of(field); k++)
                at_field(f, n, f->vm.layout.release.offset[field])[k] =
                    (unsigned char)run_random(&f->random);
        refuses_field(f, FP_ENOENT, field);
    }
}

TEST(a_field_in_two_places_is_refused_by_name)
{
    for (int field = 0; field < FP_FIELD_COUNT; field++) {
        struct fixture *f = create(27);

        for (uint32_t n = 0; n < PROBES; n++)
            memcpy(at_field(f, n, FREE_SPOT), at_field(f, n, f->vm.layout.release.offset[field]),
                   bytes_of(field));
        refuses_field(f, FP_EAMBIGUOUS, field);
    }
}

static void move_field(struct fixture *f, int field)
{
    for (uint32_t n = 0; n < PROBES; n++) {
        unsigned char *at = at_field(f, n, f->vm.layout.release.offset[field]);

        memcpy(at_field(f, n, FREE_SPOT), at, bytes_of(field));
        for (size_t k = 0; k < bytes_of(field); k++)
            at[k] = (unsigned char)run_random(&f->random);
    }
}

TEST(a_field_elsewhere_than_the_table_says_is_refused_by_name)
{
    for (int field = 0; field < FP_FIELD_COUNT; field++) {
        struct fixture *f = create(25);

        if (field == FP_FIELD_id) { /* the slot could not be checked */
            destroy(f);
            continue;
        }
        move_field(f, field);
        CHECK_INT(solve(f), FP_ELAYOUT);
        CHECK(strstr(f->refusal.why, "offset 8,") != NULL);
        refuses_field(f, FP_ELAYOUT, field);
    }
}

TEST(an_unlisted_release_is_taken_as_it_is_found)
{
    for (int field = 1; field < FP_FIELD_COUNT; field++) {
        struct fixture *f = create(29);

        f->input.otp = 30;
        f->input.allow_unlisted = 1;
        move_field(f, field);
        if (solve(f) != 0)
            RUN_FAIL("%s: %s", f->refusal.field, f->refusal.why);
        CHECK_INT(f->found.release.offset[field], FREE_SPOT);
        CHECK_INT(f->found.release.otp, 30);
        CHECK_INT(f->found.release.tested, 0);
        destroy(f);
    }
}

TEST(answers_that_are_all_alike_are_refused)
{
    for (int which = 0; which < FP_FACT_COUNT; which++) {
        struct fixture *f = create(27);

        for (uint32_t n = 0; n < PROBES; n++)
            if (n > 2 || n == 0)
                f->probe[n].known &= ~(1u << which);
        CHECK_INT(solve(f), FP_ELAYOUT);
        CHECK(strstr(f->refusal.why, "three different answers") != NULL);
        destroy(f);
        /* Not given at all. */
        f = create(27);
        for (uint32_t n = 0; n < PROBES; n++)
            f->probe[n].known &= ~(1u << which);
        CHECK_INT(solve(f), FP_ELAYOUT);
        destroy(f);
    }
}

/* ------------------------------------------------------------- the rest -- */

TEST_WITH(an_unlisted_release_is_refused_unless_asked_for, create(29))
{
    f->input.otp = 30;
    refuses(f, FP_EUNSUPPORTED, "release");
    f->input.otp = 24;
    refuses(f, FP_EUNSUPPORTED, "release");
}

TEST_WITH(another_size_of_the_structure_is_refused, create(27))
{
    f->input.process_size += 8;
    refuses(f, FP_ELAYOUT, "process_size");
    f->input.otp = 30;
    f->input.allow_unlisted = 1;
    f->input.process_size = FP_PROBE_WINDOW + 8;
    CHECK_INT(solve(f), FP_EFAULT);
}

TEST_WITH(an_unreadable_probe_is_refused, create(27))
{
    f->probe[3].address = FAKE_BASE + UINT64_C(0x900000000);
    CHECK_INT(solve(f), FP_EFAULT);
}

TEST_WITH(pids_that_are_coded_otherwise_are_refused, create(27))
{
    f->probe[5].pid_number++;
    refuses(f, FP_ELAYOUT, "pid");
    f->probe[5].pid_number--;
    f->probe[5].pid_serial = 1;
    refuses(f, FP_ELAYOUT, "pid");
}

TEST_WITH(a_process_table_that_is_missing_or_double_is_refused, create(27))
{
    uint32_t limit = LIMIT;
    uint64_t slot = FAKE_TABLE + 8u * fake_slot(&f->vm.layout, 6);

    fake_put_word(&f->vm.memory, PROCESS_TABLE_AT, FAKE_TABLE + 8);
    refuses(f, FP_ENOENT, "process_table");
    fake_put_word(&f->vm.memory, PROCESS_TABLE_AT, FAKE_TABLE);
    fake_put_word(&f->vm.memory, slot, fake_process_at(5)); /* not the probe's */
    refuses(f, FP_ENOENT, "process_table");
    fake_put_word(&f->vm.memory, slot, fake_process_at(6));
    /* A second array that has them all; the same array named twice is one. */
    fake_put(&f->vm.memory, FAKE_MISC + 32768, fake_at(&f->vm.memory, FAKE_TABLE, 8 * LIMIT),
             8 * LIMIT);
    fake_put_word(&f->vm.memory, FAKE_DATA + 100000, FAKE_MISC + 32768);
    fake_put(&f->vm.memory, FAKE_DATA + 100016, &limit, 4);
    refuses(f, FP_EAMBIGUOUS, "process_table");
    fake_put_word(&f->vm.memory, FAKE_DATA + 100000, FAKE_TABLE);
    CHECK_INT(solve(f), 0);
}

TEST_WITH(an_atom_table_that_is_missing_or_wrong_is_refused, create(29))
{
    uint32_t limit = 1048577, right = 1048576;

    fake_put(&f->vm.memory, f->vm.layout.atom_entries - 4, &limit, 4);
    refuses(f, FP_ENOENT, "atom_table");
    fake_put(&f->vm.memory, f->vm.layout.atom_entries - 4, &right, 4);
    CHECK_INT(solve(f), 0);
    f->atom[2].text = "pool";
    refuses(f, FP_ENOENT, "atom_table");
    f->input.atoms = 0; /* nothing known: nothing proved */
    refuses(f, FP_ENOENT, "atom_table");
}

TEST_WITH(an_atom_table_may_stand_at_an_odd_word, create(27))
{
    uint32_t limit = 1048576;
    uint64_t segments = f->vm.layout.atom_segments;

    /* {int, int limit}, {int entries, pad}, {pointer} */
    fake_put(&f->vm.memory, f->vm.layout.atom_entries - 4, "\0\0\0\0", 4);
    fake_put(&f->vm.memory, FAKE_DATA + 8192 + 4, &limit, 4);
    fake_put(&f->vm.memory, FAKE_DATA + 8192 + 8, &f->vm.atoms, 4);
    fake_put_word(&f->vm.memory, FAKE_DATA + 8192 + 16, segments);
    CHECK_INT(solve(f), 0);
    CHECK(f->found.atom_segments == segments);
    CHECK(f->found.atom_entries == FAKE_DATA + 8192 + 8);
}

TEST_WITH(lines_that_are_not_found_are_refused, create(27))
{
    uint64_t line_table = fake_word(&f->vm.memory, f->line_table_at);

    fake_put_word(&f->vm.memory, f->line_table_at, 0);
    refuses(f, FP_ELAYOUT, "line_table");
    fake_put_word(&f->vm.memory, f->line_table_at, line_table);
    fake_put_word(&f->vm.memory, f->module.header, 3); /* num_functions */
    CHECK(solve(f) != 0);
    CHECK_TEXT(f->refusal.field, "line_table");
}

TEST_WITH(data_that_can_not_be_read_is_passed_over, create(27))
{
    f->input.data.count = 2;
    f->input.data.range[1] = f->input.data.range[0];
    f->input.data.range[0] = (struct fp_range){FAKE_DATA - (1u << 20), FAKE_DATA};
    CHECK_INT(solve(f), 0);
}

TEST(fields_and_facts_have_names)
{
    for (int field = 0; field < FP_FIELD_COUNT; field++)
        CHECK(fp_field_name(field) != NULL);
    CHECK(fp_field_name(-1) == NULL);
    CHECK(fp_field_name(FP_FIELD_COUNT) == NULL);
    for (int which = 0; which < FP_FACT_COUNT; which++)
        CHECK(fp_fact_name(which) != NULL);
    CHECK(fp_fact_name(FP_FACT_COUNT) == NULL);
    CHECK(fp_fact_name(-1) == NULL);
    CHECK(fp_release_find(24) == NULL);
    CHECK(fp_release_find(30) == NULL);
}
