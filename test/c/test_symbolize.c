/* test_symbolize.c - frame words to symbols: of which kind each is, over modules that the test
 * loads and the libraries of this very program. */
#include <time.h>

#include "base/error.h"
#include "cstack_truth.h"
#include "erts/symbolize.h"
#include "fake_vm.h"
#include "format/record.h"
#include "test.h"

struct fixture {
    struct fake_vm vm;
    struct fake_module module;
    uint64_t name, function; /* atoms */
    struct fp_live_cstack native;
    struct fp_symbolize *symbols;
    const struct fp_symbolizer *interface;
    struct fp_symbol symbol;
};

static struct fixture *create(int with_native)
{
    static const struct fake_module_options options = {4, 16, 0, 0, 0};
    struct fixture *f = calloc(1, sizeof *f);
    struct fake_body body[2];

    f->native.bytes_max = SIZE_MAX;
    fake_vm_create(&f->vm, 27, 64, 0);
    fake_vm_add_atoms(&f->vm);
    fake_vm_add_jit(&f->vm);
    f->name = fake_atom_term(&f->vm, "alpha", 5);
    f->function = fake_atom_term(&f->vm, "go", 2);
    body[0] = body[1] = (struct fake_body){f->function, 2, 64};
    fake_load(&f->vm, &f->module, f->name, body, 2, &options);
    fake_map(&f->vm.memory, FAKE_MISC, 4096);
    CHECK_INT(fp_symbolize_create(&f->symbols, &f->vm.layout, &f->vm.memory.reader,
                                  &f->vm.live_code, with_native ? &f->native : NULL),
              0);
    f->interface = fp_symbolize_interface(f->symbols);
    return f;
}

static void destroy(struct fixture *f)
{
    fp_symbolize_destroy(f->symbols);
    fake_vm_destroy(&f->vm);
    free(f);
}

static int resolve(struct fixture *f, uint64_t word)
{
    memset(&f->symbol, 0xee, sizeof f->symbol);
    return f->interface->resolve(f->interface->self, word, &f->symbol);
}

static void expect_names(struct fixture *f, int kind, const char *module, const char *function,
                         uint32_t arity)
{
    CHECK_INT(f->symbol.kind, kind);
    CHECK_BYTES(f->symbol.module, f->symbol.module_len, module, strlen(module));
    CHECK_BYTES(f->symbol.function, f->symbol.function_len, function, strlen(function));
    CHECK_INT(f->symbol.arity, arity);
}

TEST_WITH(code_of_a_function_is_erlang, create(0))
{
    CHECK_INT(resolve(f, f->module.code[1] + 20), 0);
    expect_names(f, FP_SYMBOL_ERLANG, "alpha", "go", 2);
    CHECK_INT(f->symbol.line, 102);
}

TEST_WITH(code_before_the_first_function_is_shared, create(0))
{
    CHECK_INT(resolve(f, FAKE_JIT), 0);
    CHECK_INT(f->symbol.kind, FP_SYMBOL_NONE);
    CHECK_INT(resolve(f, f->module.info[0] - 1), 0);
    CHECK_INT(f->symbol.kind, FP_SYMBOL_NONE);
    /* Behind it is no function. */
    CHECK_INT(resolve(f, f->module.info[0] + 4), FP_ENOENT);
    CHECK_INT(resolve(f, f->module.end + 64), FP_ENOENT);
}

TEST_WITH(bifs_and_nifs_are_named_by_where_their_words_stand, create(0))
{
    fake_put_word(&f->vm.memory, FAKE_MISC + 64, f->name);
    fake_put_word(&f->vm.memory, FAKE_MISC + 72, f->function);
    fake_put_word(&f->vm.memory, FAKE_MISC + 80, 255);
    CHECK_INT(resolve(f, FP_FRAME_BIF | (FAKE_MISC + 64)), 0);
    expect_names(f, FP_SYMBOL_BIF, "alpha", "go", 255);
    CHECK_INT(f->symbol.line, 0);
    CHECK_INT(f->symbol.file_len, 0);
    CHECK_INT(resolve(f, FP_FRAME_NIF | (FAKE_MISC + 64)), 0);
    expect_names(f, FP_SYMBOL_NIF, "alpha", "go", 255);
    fake_put_word(&f->vm.memory, FAKE_MISC + 80, 256);
    CHECK_INT(resolve(f, FP_FRAME_NIF | (FAKE_MISC + 64)), FP_ENOENT);
    fake_put_word(&f->vm.memory, FAKE_MISC + 80, 0);
    fake_put_word(&f->vm.memory, FAKE_MISC + 72, 0x0f); /* no atom */
    CHECK_INT(resolve(f, FP_FRAME_NIF | (FAKE_MISC + 64)), FP_ENOENT);
    CHECK_INT(resolve(f, FP_FRAME_BIF | 8), FP_ENOENT); /* unreadable */
    CHECK_INT(resolve(f, FP_FRAME_BIF | (FAKE_MISC + 4090)), FP_ENOENT);
}

/* Its module may be purged: then it must be noticed. */
TEST_WITH(a_nif_in_the_code_of_its_module_is_watched, create(0))
{
    struct timespec nap = {0, 20000000};
    int changes = 0;

    CHECK_INT(resolve(f, FP_FRAME_NIF | (f->module.code[0] - 24)), 0);
    expect_names(f, FP_SYMBOL_NIF, "alpha", "go", 2);
    memset(fake_at(&f->vm.memory, f->module.info[0], 64), 0xcc, 64);
    for (int i = 0; i < 3000 && changes == 0; i++) {
        nanosleep(&nap, NULL);
        changes = f->interface->revalidate(f->interface->self);
    }
    CHECK(changes > 0);
    CHECK_INT(resolve(f, FP_FRAME_NIF | (f->module.code[0] - 24)), FP_ENOENT);
}

TEST_WITH(code_in_a_library_is_native, create(1))
{
    uint64_t pc = (uint64_t)(uintptr_t)&fp_symbolize_create;

    CHECK(atomic_load(&f->native.set) != NULL);
    CHECK_INT(resolve(f, pc), 0);
    CHECK_INT(f->symbol.kind, FP_SYMBOL_NATIVE);
    CHECK_BYTES(f->symbol.function, f->symbol.function_len, "fp_symbolize_create", 19);
    CHECK_BYTES(f->symbol.file, f->symbol.file_len, "test_symbolize", 14);
    CHECK_INT(f->symbol.module_len, 0);
    CHECK_INT(f->symbol.arity, 0);
    CHECK_INT(f->symbol.line, 0);
    CHECK_INT(resolve(f, FAKE_MISC), FP_ENOENT);
    CHECK_INT(resolve(f, 4096), FP_ENOENT);
}

/* The sampler marks the set as stale; the writer makes another, once a second at most. */
TEST_WITH(a_library_that_is_loaded_later_is_named, create(1))
{
    struct temporary directory;
    struct timespec nap = {0, 20000000};

    temporary_make(&directory);
    for (int i = 0; i < 2; i++) {
        const char *path = temporary_at(&directory, i == 0 ? "libone.so" : "libtwo.so");
        struct fp_cstack *before = atomic_load(&f->native.set);
        uint64_t run;

        truth_build("gcc", "-O2", path);
        run = truth_symbol(truth_open(path), "chain_run");
        CHECK_INT(resolve(f, run), FP_ENOENT);
        atomic_store(&f->native.stale, 1);
        while (f->interface->revalidate(f->interface->self) == 0)
            nanosleep(&nap, NULL);
        CHECK(atomic_load(&f->native.set) != before);
        CHECK(f->native.replaced == NULL); /* no walk has it: it is freed */
        CHECK_INT(resolve(f, run), 0);
        CHECK_BYTES(f->symbol.file, f->symbol.file_len, i == 0 ? "libone.so" : "libtwo.so", 9);
    }
    temporary_remove(&directory);
}

TEST_WITH(where_c_code_is_not_wanted_it_is_unknown, create(0))
{
    CHECK_INT(resolve(f, (uint64_t)(uintptr_t)&fp_symbolize_create), FP_ENOENT);
}
