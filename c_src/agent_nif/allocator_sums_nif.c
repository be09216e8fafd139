/* allocator_sums_nif.c - sums over the allocators' instances, for a session's figures of each
 * second: no scheduler is asked. A look finds the counters, and allocators_take/1 brings their
 * places. */
#include <stdlib.h>

#include "base/error.h"
#include "erts/allocators.h"
#include "nif/vm.h"
#include "terms/terms.h"

static ERL_NIF_TERM known(ErlNifEnv *env, int is_known, uint64_t value)
{
    return is_known ? enif_make_uint64(env, value) : fp_atom(env, "none");
}

struct sums {
    uint64_t carriers, blocks, single, pool, largest_free, mseg, sys, single_blocks;
    int is_on, lacks_largest_free;
};

static void add(struct sums *sums, const struct fp_allocator_figures *figures)
{
    uint64_t single = figures->single.mseg_bytes + figures->single.sys_bytes;
    uint64_t multi = figures->multi.mseg_bytes + figures->multi.sys_bytes;

    sums->is_on = 1;
    sums->carriers += multi + single + figures->pool_bytes;
    sums->blocks +=
        figures->multi.blocks_bytes + figures->single.blocks_bytes + figures->pool_blocks_bytes;
    sums->single += single;
    sums->mseg += figures->multi.mseg_bytes + figures->single.mseg_bytes;
    sums->sys += figures->multi.sys_bytes + figures->single.sys_bytes;
    sums->single_blocks += figures->single.blocks_bytes;
    sums->pool += figures->pool_bytes;
    if (figures->largest_free > sums->largest_free)
        sums->largest_free = figures->largest_free;
    sums->lacks_largest_free |= !figures->has_largest_free;
}

static ERL_NIF_TERM sums_terms(ErlNifEnv *env, const struct sums *sums)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (uint32_t i = FP_ALLOCATOR_COUNT; i-- > 0;) {
        const struct sums *of = &sums[i];

        if (of->is_on)
            list = enif_make_list_cell(
                env,
                enif_make_tuple9(env, fp_atom(env, fp_allocator_name((enum fp_allocator)i)),
                                 enif_make_uint64(env, of->carriers),
                                 enif_make_uint64(env, of->blocks),
                                 enif_make_uint64(env, of->single), enif_make_uint64(env, of->pool),
                                 known(env, !of->lacks_largest_free, of->largest_free),
                                 enif_make_uint64(env, of->mseg), enif_make_uint64(env, of->sys),
                                 enif_make_uint64(env, of->single_blocks)),
                list);
    }
    return list;
}

/* () -> undefined | {error, Error} | {[{Allocator, Carriers, Blocks, Single, Pool,
 * LargestFree | none, Mseg, Sys, SingleBlocks}], Taken, GivenBack, Fix | none,
 * {Size, Used} | none}: bytes of all instances; calls; bytes of fixed sizes that belong to
 * processes; the super carrier. */
ERL_NIF_TERM fp_nif_allocators_sums(FP_NIF_ARGS)
{
    struct fp_vm *vm = fp_vm(env);
    struct fp_allocators *allocators = vm->allocators;
    struct sums sums[FP_ALLOCATOR_COUNT] = {{0}};
    uint64_t taken = 0, given_back = 0, fix = 0;
    struct fp_super_carrier super = {0};
    struct fp_allocator_figures *figures;
    int err, has_fix, has_super;

    if (allocators == NULL)
        return fp_atom(env, "undefined");
    err = fp_vm_read_allocators(vm, &figures);
    for (uint32_t i = 0; err == 0 && i < allocators->count; i++) {
        add(&sums[allocators->instance[i].allocator], &figures[i]);
        taken += figures[i].taken;
        given_back += figures[i].given_back;
    }
    free(figures);
    if (err != 0)
        return fp_result(env, err);
    has_fix = fp_fix_read(allocators, &vm->memory, &fix) == 0;
    has_super = fp_super_carrier_read(allocators, &vm->memory, &super) == 0;
    return enif_make_tuple5(env, sums_terms(env, sums), enif_make_uint64(env, taken),
                            enif_make_uint64(env, given_back), known(env, has_fix, fix),
                            has_super ? enif_make_tuple2(env, enif_make_uint64(env, super.size),
                                                         enif_make_uint64(env, super.used))
                                      : fp_atom(env, "none"));
}
