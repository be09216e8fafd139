/* allocators_read_nif.c - what the instances of allocators have, for looks, and for a session's
 * figures of each second: no scheduler is asked. A look finds the counters, and value_take/1 brings
 * their places. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/allocators.h"
#include "nif/vm.h"
#include "terms/terms.h"

static int read_rows(const struct fp_vm *vm, const struct fp_allocators *allocators,
                     struct fp_allocator_figures *row)
{
    int read = row == NULL ? FP_ENOMEM
                           : fp_allocators_read(allocators, &vm->memory, 0, allocators->count, row);

    return read == (int)allocators->count ? 0 : read < 0 ? read : FP_EFAULT;
}

#define FIRST offsetof(struct fp_allocator_figures, allocator)
#define WORDS ((sizeof(struct fp_allocator_figures) - FIRST) / 8)

/* A tuple of the figures, of which the largest free block is the last. */
static ERL_NIF_TERM row_term(ErlNifEnv *env, const struct fp_allocator_figures *row)
{
    ERL_NIF_TERM element[WORDS];
    uint64_t word[WORDS];

    memcpy(word, (const char *)row + FIRST, sizeof word);
    for (size_t i = 0; i < WORDS; i++)
        element[i] = enif_make_uint64(env, word[i]);
    if (!row->has_largest_free)
        element[WORDS - 1] = fp_atom(env, "none");
    return enif_make_tuple_from_array(env, element, WORDS);
}

/* () -> undefined | {error, Error} | {Rows, HasPool, Fix | none, {Size, Used} | none}
 * Rows: of all instances; bytes of fixed sizes that belong to processes; the super carrier. */
ERL_NIF_TERM fp_nif_allocators_read(FP_NIF_ARGS)
{
    struct fp_vm *vm = fp_vm(env);
    const struct fp_allocators *allocators = vm->allocators;
    ERL_NIF_TERM rows = enif_make_list(env, 0), fix_bytes = fp_atom(env, "none"),
                 sizes = fp_atom(env, "none");
    struct fp_allocator_figures *row;
    struct fp_super_carrier super;
    uint64_t fix;
    int err;

    if (allocators == NULL)
        return fp_atom(env, "undefined");
    row = calloc(allocators->count, sizeof *row);
    err = read_rows(vm, allocators, row);
    for (uint32_t i = allocators->count; err == 0 && i-- > 0;)
        rows = enif_make_list_cell(env, row_term(env, &row[i]), rows);
    free(row);
    if (err != 0)
        return fp_result(env, err);
    if (fp_fix_read(allocators, &vm->memory, &fix) == 0)
        fix_bytes = enif_make_uint64(env, fix);
    if (fp_super_carrier_read(allocators, &vm->memory, &super) == 0)
        sizes = enif_make_tuple2(env, enif_make_uint64(env, super.size),
                                 enif_make_uint64(env, super.used));
    return enif_make_tuple4(env, rows, fp_boolean(env, allocators->has_pool), fix_bytes, sizes);
}
