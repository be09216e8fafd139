/* test_atom.c - the text of atoms, in the forms that the releases keep it in. */
#include "base/error.h"
#include "erts/atom.h"
#include "fake_vm.h"
#include "test.h"

static struct fake_vm *create(unsigned otp)
{
    struct fake_vm *vm = malloc(sizeof *vm);

    fake_vm_create(vm, otp, 64, 0);
    fake_vm_add_atoms(vm);
    return vm;
}

static void destroy(struct fake_vm *vm)
{
    fake_vm_destroy(vm);
    free(vm);
}

#define VM_TEST(test, otp) TEST_ON(test, struct fake_vm *, vm, create(otp), destroy)

static void expect(struct fake_vm *vm, uint64_t term, const char *text, size_t len)
{
    char *got = malloc(FP_ATOM_TEXT_MAX); /* ASan sees a byte beyond */
    int size = fp_atom_text(&vm->layout, &vm->memory.reader, term, got);

    CHECK_INT(size, len);
    CHECK(memcmp(got, text, len) == 0);
    free(got);
}

static void expect_err(struct fake_vm *vm, uint64_t term, int err)
{
    char got[FP_ATOM_TEXT_MAX];

    CHECK_INT(fp_atom_text(&vm->layout, &vm->memory.reader, term, got), err);
}

/* Where fake_vm.c has put atom n: as the VM would look for it. */
static uint64_t entry_of(struct fake_vm *vm, uint64_t term)
{
    uint64_t index = term >> 6;
    uint64_t segment = fake_word(&vm->memory, vm->layout.atom_segments + 8 * (index / 1024));

    return fake_word(&vm->memory, segment + 8 * (index % 1024));
}

TEST(texts_of_all_lengths_in_all_forms)
{
    static const unsigned releases[] = {25, 27, 28, 29};
    char text[FP_ATOM_TEXT_MAX];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 37 + i / 100);
    for (size_t r = 0; r < 4; r++) {
        static const size_t lengths[] = {0, 1, 2, 7, 8, 63, 64, 65, 66, 127, 128, 255, 600, 1020};
        uint64_t term[14];
        struct fake_vm *vm = create(releases[r]);

        for (size_t i = 0; i < 14; i++)
            term[i] = fake_atom_term(vm, text + i, lengths[i] > 1000 ? 1020 - i : lengths[i]);
        for (size_t i = 0; i < 14; i++)
            expect(vm, term[i], text + i, lengths[i] > 1000 ? 1020 - i : lengths[i]);
        expect(vm, 0x0b, "false", 5);
        expect(vm, 0x4b, "true", 4);
        destroy(vm);
    }
}

VM_TEST(atoms_beyond_the_first_segment, 29)
{
    uint64_t term[1500];
    char text[16];

    for (int i = 0; i < 1500; i++)
        term[i] = fake_atom_term(vm, text, (size_t)snprintf(text, sizeof text, "a%d", i));
    for (int i = 0; i < 1500; i += 7) {
        int len = snprintf(text, sizeof text, "a%d", i);

        expect(vm, term[i], text, (size_t)len);
    }
}

VM_TEST(what_is_no_atom_of_this_vm_is_none, 27)
{
    uint64_t term;

    term = fake_atom_term(vm, "last", 4);
    expect_err(vm, 0, FP_ENOENT);
    expect_err(vm, 0x0f, FP_ENOENT);        /* a small */
    expect_err(vm, term ^ 0x10, FP_ENOENT); /* other tags */
    expect_err(vm, term ^ 0x20, FP_ENOENT);
    expect_err(vm, term + 64, FP_ENOENT); /* not made yet */
    expect_err(vm, UINT64_C(0x7fffffff) << 6 | 0x0b, FP_ENOENT);
    expect_err(vm, UINT64_C(0xffffffff) << 6 | 0x0b, FP_ENOENT);
    expect_err(vm, (UINT64_MAX & ~UINT64_C(0x3f)) | 0x0b, FP_ENOENT);
    vm->layout.atom_entries = 0; /* without their number: by the entries */
    expect(vm, term, "last", 4);
    CHECK(fp_atom_text(&vm->layout, &vm->memory.reader, term + 64, (char[FP_ATOM_TEXT_MAX]){0}) <
          0);
    CHECK(fp_atom_text(&vm->layout, &vm->memory.reader, UINT64_C(0xffffffff) << 6 | 0x0b,
                       (char[FP_ATOM_TEXT_MAX]){0}) < 0);
}

VM_TEST(an_entry_that_contradicts_itself_is_none, 29)
{
    uint64_t term, entry;
    int16_t len;

    term = fake_atom_term(vm, "victim", 6);
    entry = entry_of(vm, term);
    len = -1;
    fake_put(&vm->memory, entry + 24, &len, 2);
    expect_err(vm, term, FP_ENOENT);
    len = FP_ATOM_TEXT_MAX + 1;
    fake_put(&vm->memory, entry + 24, &len, 2);
    expect_err(vm, term, FP_ENOENT);
    len = 6;
    fake_put(&vm->memory, entry + 24, &len, 2);
    expect(vm, term, "victim", 6);
    fake_put(&vm->memory, entry + 16, "\1\0\0\0", 4); /* another's index */
    expect_err(vm, term, FP_ENOENT);
}

TEST(what_can_not_be_read_says_so)
{
    static const unsigned releases[] = {27, 29};

    for (size_t r = 0; r < 2; r++) {
        struct fake_vm *vm = create(releases[r]);
        uint64_t term, entry, name;

        term = fake_atom_term(vm, "victim", 6);
        entry = entry_of(vm, term);
        name = fake_word(&vm->memory, entry + 32);
        fake_put_word(&vm->memory, entry + 32, 0x1000);
        expect_err(vm, term, FP_EFAULT);
        fake_put_word(&vm->memory, entry + 32, 0);
        expect_err(vm, term, FP_EFAULT);
        if (releases[r] == 29) { /* a term that is no binary */
            fake_put_word(&vm->memory, entry + 32, name);
            fake_put_word(&vm->memory, name & ~UINT64_C(7), 2 << 6);
            expect_err(vm, term, FP_EFAULT);
        }
        fake_put_word(&vm->memory, vm->layout.atom_segments, 0x1000);
        expect_err(vm, term, FP_EFAULT);
        vm->layout.atom_segments = 0x1000;
        expect_err(vm, term, FP_EFAULT);
        vm->layout.atom_entries = 0x1000;
        expect_err(vm, term, FP_ENOENT);
        destroy(vm);
    }
}
