/* allocators_nif.c - what the allocators have, for flame_prof_allocators: once
 * allocators_solve/1 gets what erlang:system_info({allocator, A}) says, then allocators_read/0
 * reads memory alone. */
#include <stdatomic.h>
#include <stdlib.h>

#include "agent_nif/library.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/pages.h"
#include "erts/carriers.h"
#include "erts/rss.h"
#include "terms/terms.h"

static int get_words(ErlNifEnv *env, ERL_NIF_TERM list, uint64_t *word, uint32_t n)
{
    ERL_NIF_TERM head;

    for (uint32_t i = 0; i < n; i++) {
        ErlNifUInt64 value;

        if (!enif_get_list_cell(env, list, &head, &list) || !enif_get_uint64(env, head, &value))
            return 0;
        word[i] = value;
    }
    return enif_is_empty_list(env, list);
}

/* {Allocator, Instance, Statistics, Pool | none} */
static int get_fact(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_allocator_fact *fact)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FP_ALLOCATOR_MAP(NAME) NULL};
#undef NAME
    const ERL_NIF_TERM *part;
    int arity, name;

    if (!enif_get_tuple(env, term, &arity, &part) || arity != 4)
        return 0;
    name = fp_get_name(env, part[0], names);
    fact->allocator = (enum fp_allocator)name;
    fact->has_pool = !fp_is_atom(env, part[3], "none");
    return name >= 0 && enif_get_uint(env, part[1], &fact->number) &&
           get_words(env, part[2], fact->statistics, FP_STATISTICS_WORDS) &&
           (!fact->has_pool || get_words(env, part[3], fact->pool, FP_POOL_WORDS));
}

static ERL_NIF_TERM refusal_term(ErlNifEnv *env, const struct fp_refusal *refusal)
{
    return fp_error_text(env, refusal->err, refusal->why);
}

/* Keeps the first: others may be reading by it. */
static void keep(struct fp_library *library, struct fp_allocators *allocators)
{
    struct fp_allocators *none = NULL;

    if (!atomic_compare_exchange_strong(&library->allocators, &none, allocators))
        free(allocators);
}

static int find_and_solve(struct fp_library *library, const struct fp_allocator_fact *fact,
                          size_t facts, struct fp_refusal *refusal)
{
    struct fp_allocators *allocators = NULL;
    struct fp_ranges data;
    int err = fp_maps_data(&data);

    if (err != 0) {
        *refusal = (struct fp_refusal){.err = err, .why = "/proc/self/maps has no data of the VM"};
        return err;
    }
    err = fp_allocators_find(&allocators, &library->memory, &data, refusal);
    if (err == 0)
        err = fp_allocators_solve(allocators, &library->memory, fact, facts, refusal);
    if (err == 0)
        (void)fp_carriers_solve(allocators, &library->memory); /* without: rss has no carriers */
    if (err == 0)
        keep(library, allocators);
    else
        free(allocators);
    return err;
}

/* ([Fact]) -> ok | {error, {Error, Why}} */
FP_NIF(allocators_solve)
{
    struct fp_library *library = fp_library(env);
    const char *why = fp_library_open_memory(library);
    struct fp_refusal refusal = {0};
    struct fp_allocator_fact *fact;
    ERL_NIF_TERM list = argv[0], head;
    unsigned facts, n = 0;

    if (why != NULL)
        return fp_error_text(env, FP_EUNSUPPORTED, why);
    if (!enif_get_list_length(env, list, &facts) || facts == 0)
        return enif_make_badarg(env);
    fact = fp_pages_alloc(facts * sizeof *fact);
    if (fact == NULL)
        return fp_error_text(env, FP_ENOMEM, "");
    while (enif_get_list_cell(env, list, &head, &list) && get_fact(env, head, &fact[n]))
        n++;
    if (n == facts)
        (void)find_and_solve(library, fact, facts, &refusal);
    fp_pages_free(fact, facts * sizeof *fact);
    if (n != facts)
        return enif_make_badarg(env);
    return refusal.err == 0 ? fp_atom(env, "ok") : refusal_term(env, &refusal);
}

/* ----------------------------------------------------------------- answers -- */

static ERL_NIF_TERM tuple(ErlNifEnv *env, const uint64_t *word, unsigned n)
{
    ERL_NIF_TERM element[6];

    for (unsigned i = 0; i < n; i++)
        element[i] = enif_make_uint64(env, word[i]);
    return enif_make_tuple_from_array(env, element, n);
}

static ERL_NIF_TERM carriers_term(ErlNifEnv *env, const struct fp_carriers_figures *figures)
{
    const uint64_t word[] = {figures->mseg_carriers, figures->mseg_bytes, figures->sys_carriers,
                             figures->sys_bytes,     figures->blocks,     figures->blocks_bytes};

    return tuple(env, word, 6);
}

/* {Allocator, Instance, Multi, Single, Pool | none} */
static ERL_NIF_TERM figures_term(ErlNifEnv *env, const struct fp_allocators *allocators,
                                 uint32_t at, const struct fp_allocator_figures *figures)
{
    const struct fp_allocator_instance *instance = &allocators->instance[at];
    const uint64_t pool[] = {figures->pool_carriers, figures->pool_bytes, figures->pool_blocks,
                             figures->pool_blocks_bytes};
    const char *name = fp_allocator_name((enum fp_allocator)instance->allocator);

    return enif_make_tuple5(env, fp_atom(env, name), enif_make_uint(env, instance->number),
                            carriers_term(env, &figures->multi),
                            carriers_term(env, &figures->single),
                            allocators->has_pool ? tuple(env, pool, 4) : fp_atom(env, "none"));
}

/* () -> undefined | [Instance] | {error, Error}. An instance that is not readable is left out. */
FP_NIF(allocators_read)
{
    struct fp_library *library = fp_library(env);
    struct fp_allocators *allocators = library->allocators;
    struct fp_allocator_figures *figures;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    int read;

    if (allocators == NULL)
        return fp_atom(env, "undefined");
    figures = calloc(allocators->count, sizeof *figures);
    if (figures == NULL)
        return fp_result(env, FP_ENOMEM);
    read = fp_allocators_read(allocators, &library->memory, figures);
    for (uint32_t i = allocators->count; read >= 0 && i-- > 0;)
        if (figures[i].err == 0)
            list = enif_make_list_cell(env, figures_term(env, allocators, i, &figures[i]), list);
    free(figures);
    return read < 0 ? fp_result(env, read) : list;
}

/* () -> #{executable := Bytes, ..., carriers => Bytes, cached => Bytes,
 * walked => Bytes, counted => Bytes} |
 * {error, Error}: the resident memory of the OS process by kind. Carriers have three: what is
 * resident of those whose lists proved themselves, their bytes, and the bytes of all. */
FP_NIF(memory_rss)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FP_RSS_MAP(NAME)};
#undef NAME
    struct fp_library *library = fp_library(env);
    const char *why = fp_library_open_memory(library);
    struct fp_allocators *allocators = library->allocators;
    struct fp_carriers carriers = {0};
    ERL_NIF_TERM map = enif_make_new_map(env);
    struct fp_rss rss;
    int err, are_known;

    if (why != NULL)
        return fp_error_text(env, FP_EUNSUPPORTED, why);
    are_known =
        allocators != NULL && fp_carriers_walk(allocators, &library->memory, &carriers) == 0;
    err = fp_rss_read(&library->memory, allocators, are_known ? &carriers : NULL, &rss);
    for (unsigned kind = 0; kind < FP_RSS_COUNT; kind++)
        if (rss.has_carriers || (kind != FP_RSS_carriers && kind != FP_RSS_cached))
            fp_map_put_u64(env, &map, names[kind], rss.bytes[kind]);
    if (are_known) {
        fp_map_put_u64(env, &map, "walked", carriers.bytes);
        fp_map_put_u64(env, &map, "counted", carriers.counted);
        fp_carriers_free(&carriers);
    }
    return err == 0 ? map : fp_result(env, err);
}
