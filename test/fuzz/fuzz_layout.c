/* fuzz_layout.c - the calibration over any memory, with any public answers: it finds a layout that
 * agrees with them, or says what does not. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/layout_solve.h"
#include "erts/process_table.h"

#define PROBES_MAX 5u
#define ATOMS_MAX 2u
#define ATOM_MAX 16u

static void take_probe(struct fuzz_input *input, struct fp_probe *probe)
{
    memset(probe, 0, sizeof *probe);
    probe->address = fuzz_address(input);
    probe->id = fuzz_u64(input);
    probe->parent = fuzz_u64(input);
    probe->registered = fuzz_u32(input);
    for (int i = 0; i < 3; i++)
        probe->initial_call[i] = fuzz_u32(input);
    for (int i = 0; i < 3; i++)
        probe->current_function[i] = fuzz_u32(input);
    probe->known = fuzz_u32(input);
    probe->pid_number = fuzz_u32(input);
    probe->pid_serial = fuzz_u32(input);
    for (int i = 0; i < FP_FACT_COUNT; i++)
        probe->fact[i] = fuzz_u16(input);
}

static void check_refusal(const struct fp_refusal *refusal, int err)
{
    FUZZ_CHECK(refusal->err == err);
    FUZZ_CHECK(err == FP_ELAYOUT || err == FP_EAMBIGUOUS || err == FP_ENOENT || err == FP_EFAULT ||
               err == FP_EUNSUPPORTED || err == FP_ENOMEM);
    FUZZ_CHECK(refusal->field[0] != '\0' && refusal->why[0] != '\0');
    FUZZ_CHECK(memchr(refusal->field, 0, sizeof refusal->field) != NULL &&
               memchr(refusal->why, 0, sizeof refusal->why) != NULL);
}

static void check_layout(const struct fp_layout *layout, const struct fp_solve_input *solved,
                         const struct fuzz_memory *memory)
{
    FUZZ_CHECK(layout->snapshot_size > 0 && layout->snapshot_size <= FP_PROBE_WINDOW);
    FUZZ_CHECK(layout->process_table % 8 == 0 && layout->process_table != 0);
    FUZZ_CHECK(layout->atom_segments % 8 == 0 && layout->atom_segments != 0);
    for (int field = 0; field < FP_FIELD_COUNT; field++)
        FUZZ_CHECK(layout->release.offset[field] + fp_field_width(field) <= layout->snapshot_size);
    for (size_t i = 0; i < solved->probes && memory->laters == 0; i++) {
        uint64_t address;

        FUZZ_CHECK(fp_process_table_lookup(layout, &memory->memory.reader, solved->probe[i].id,
                                           &address) == 0 &&
                   address == solved->probe[i].address);
    }
}

static void solve(struct fuzz_memory *memory, struct fp_solve_input *solved)
{
    struct fp_layout layout;
    struct fp_refusal refusal;
    int err = fp_layout_solve(&layout, &memory->memory.reader, solved, &refusal);

    if (err == 0)
        check_layout(&layout, solved, memory);
    else
        check_refusal(&refusal, err);
}

void fuzz_layout(const uint8_t *bytes, size_t size)
{
    static struct fp_probe probe[PROBES_MAX];
    static char text[ATOMS_MAX][ATOM_MAX];
    struct fuzz_input input = {bytes, size};
    struct fp_known_atom atom[ATOMS_MAX];
    struct fp_solve_input solved = {.probe = probe, .atom = atom};
    struct fuzz_memory memory;

    solved.otp = fuzz_u8(&input) % 40;
    solved.allow_unlisted = fuzz_u8(&input) & 1;
    solved.process_limit = fuzz_u32(&input);
    solved.atom_limit = fuzz_u32(&input);
    solved.process_size = fuzz_u16(&input);
    solved.probes = fuzz_u8(&input) % (PROBES_MAX + 1);
    for (size_t i = 0; i < solved.probes; i++)
        take_probe(&input, &probe[i]);
    solved.atoms = fuzz_u8(&input) % (ATOMS_MAX + 1);
    for (size_t i = 0; i < solved.atoms; i++) {
        atom[i].term = fuzz_u32(&input);
        atom[i].len = fuzz_u8(&input) % ATOM_MAX;
        fuzz_take(&input, text[i], atom[i].len);
        atom[i].text = text[i];
    }
    fuzz_ranges(&input, &solved.code);
    solved.data.count = 1;
    solved.data.range[0] =
        (struct fp_range){FAKE_DATA, FAKE_DATA + 4096ull * (fuzz_u8(&input) % 4)};
    fuzz_memory_create(&memory, &input);
    solve(&memory, &solved);
    fuzz_memory_destroy(&memory);
}
