/* allocators_nif.c - what the allocators have, for flame_prof_allocators: allocators_solve/3 gets
 * once what erlang:system_info({allocator, A}) says; then the agent reads memory alone; and what of
 * it is resident. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/maps.h"
#include "base/pages.h"
#include "erts/allocators.h"
#include "erts/allocators_solve.h"
#include "erts/carriers.h"
#include "erts/rss.h"
#include "looks_nif/looks.h"
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

/* {Allocator, Instance, Statistics, Pool | none, HasTree} */
static int get_fact(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_allocator_fact *fact)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FP_ALLOCATOR_MAP(NAME) NULL};
#undef NAME
    const ERL_NIF_TERM *part;
    int arity, name;

    if (!enif_get_tuple(env, term, &arity, &part) || arity != 5)
        return 0;
    name = fp_get_name(env, part[0], names);
    fact->allocator = (enum fp_allocator)name;
    fact->has_pool = !fp_is_atom(env, part[3], "none");
    fact->has_tree = fp_is_atom(env, part[4], "true");
    return name >= 0 && enif_get_uint(env, part[1], &fact->number) &&
           get_words(env, part[2], fact->statistics, FP_STATISTICS_WORDS) &&
           (!fact->has_pool || get_words(env, part[3], fact->pool, FP_POOL_WORDS));
}

#define FIX_FACTS_MAX 1025u

/* Other things to find besides the counters: the lists of fixed sizes, the super carrier. */
struct allocator_parts {
    struct fp_fix_fact *fix; /* of FIX_FACTS_MAX */
    unsigned fixes, of_processes;
    struct fp_super_carrier super; /* size 0: there is none */
};

/* {TypesOfProcesses, [{Instance, [Bytes]}]} | none */
static int get_fixes(ErlNifEnv *env, ERL_NIF_TERM term, struct allocator_parts *parts)
{
    const ERL_NIF_TERM *part, *of;
    ERL_NIF_TERM list, head;
    int arity;

    if (fp_is_atom(env, term, "none"))
        return 1;
    if (!enif_get_tuple(env, term, &arity, &part) || arity != 2 ||
        !enif_get_uint(env, part[0], &parts->of_processes))
        return 0;
    for (list = part[1]; enif_get_list_cell(env, list, &head, &list); parts->fixes++) {
        struct fp_fix_fact *fact = &parts->fix[parts->fixes];

        if (parts->fixes == FIX_FACTS_MAX || !enif_get_tuple(env, head, &arity, &of) ||
            arity != 2 || !enif_get_uint(env, of[0], &fact->number) ||
            !enif_get_list_length(env, of[1], &fact->types) || fact->types > FP_FIX_TYPES_MAX ||
            !get_words(env, of[1], fact->bytes, fact->types))
            return 0;
    }
    return 1;
}

/* [Size, Used, Aligned, Unaligned] | none */
static int get_super(ErlNifEnv *env, ERL_NIF_TERM term, struct allocator_parts *parts)
{
    uint64_t word[4] = {0};
    int is_known = fp_is_atom(env, term, "none") || get_words(env, term, word, 4);

    parts->super = (struct fp_super_carrier){word[0], word[1], word[2], word[3]};
    return is_known;
}

static int solve_parts(struct fp_allocators *allocators, const struct fp_memory *memory,
                       const struct fp_ranges *data, struct allocator_parts *parts,
                       struct fp_refusal *refusal)
{
    int err = 0;

    (void)fp_carriers_solve(allocators, memory);   /* without: rss has no carriers */
    (void)fp_free_trees_solve(allocators, memory); /* without: no largest free block */
    if (parts->fixes > 0)
        err = fp_fix_solve(allocators, memory, parts->fix, parts->fixes, parts->of_processes);
    if (err == 0 && parts->super.size > 0)
        err = fp_super_carrier_solve(allocators, memory, data, &parts->super);
    if (err != 0)
        *refusal = (struct fp_refusal){.err = FP_ENOENT, .why = "a part was not found"};
    return err;
}

static ERL_NIF_TERM refusal_term(ErlNifEnv *env, const struct fp_refusal *refusal)
{
    return fp_error_text(env, refusal->err, refusal->why);
}

static int find_and_solve(struct fp_vm *vm, const struct fp_allocator_fact *fact, size_t facts,
                          struct allocator_parts *parts, struct fp_refusal *refusal)
{
    struct fp_allocators *allocators = NULL;
    struct fp_ranges data;
    int err = fp_maps_data(&data);

    if (err != 0) {
        *refusal = (struct fp_refusal){.err = err, .why = "/proc/self/maps has no data of the VM"};
        return err;
    }
    err = fp_allocators_find(&allocators, &vm->memory, &data, refusal);
    if (err == 0)
        err = fp_allocators_solve(allocators, &vm->memory, fact, facts, refusal);
    if (err == 0)
        err = solve_parts(allocators, &vm->memory, &data, parts, refusal);
    if (err == 0)
        err = fp_vm_keep(vm, FP_VALUE_ALLOCATORS, allocators);
    else
        free(allocators);
    return err;
}

/* As they are given, or 0. */
static int get_facts(ErlNifEnv *env, ERL_NIF_TERM list, struct fp_allocator_fact *fact,
                     unsigned facts)
{
    ERL_NIF_TERM head;
    unsigned n = 0;

    while (enif_get_list_cell(env, list, &head, &list) && get_fact(env, head, &fact[n]))
        n++;
    return n == facts;
}

/* ([Fact], Fixes, Super) -> ok | {error, {Error, Why}}. enoent: what is at work differs from what
 * was said of it, or the layout is another one. */
ERL_NIF_TERM fp_nif_allocators_solve(FP_NIF_ARGS)
{
    struct fp_vm *vm = fp_vm(env);
    const char *why = fp_vm_open_memory(vm);
    struct fp_refusal refusal = {0};
    struct fp_allocator_fact *fact;
    struct allocator_parts parts = {0};
    unsigned facts;
    int is_good;

    if (why != NULL)
        return fp_error_text(env, FP_EUNSUPPORTED, why);
    if (!enif_get_list_length(env, argv[0], &facts) || facts == 0)
        return enif_make_badarg(env);
    fact = fp_pages_alloc(facts * sizeof *fact);
    parts.fix = fp_pages_alloc(FIX_FACTS_MAX * sizeof *parts.fix);
    is_good = fact != NULL && parts.fix != NULL && get_facts(env, argv[0], fact, facts) &&
              get_fixes(env, argv[1], &parts) && get_super(env, argv[2], &parts);
    if (is_good)
        (void)find_and_solve(vm, fact, facts, &parts, &refusal);
    fp_pages_free(fact, facts * sizeof *fact);
    fp_pages_free(parts.fix, FIX_FACTS_MAX * sizeof *parts.fix);
    if (!is_good)
        return enif_make_badarg(env);
    return refusal.err == 0 ? fp_atom(env, "ok") : refusal_term(env, &refusal);
}

/* ------------------------------------------------------------------ memory -- */

/* () -> #{executable := Bytes, ..., carriers => Bytes, cached => Bytes,
 * walked => Bytes, counted => Bytes} |
 * {error, Error}: the resident memory of the OS process by kind. Carriers have three: what is
 * resident of those whose lists proved themselves, their bytes, and the bytes of all. */
ERL_NIF_TERM fp_nif_memory_rss(FP_NIF_ARGS)
{
    static const char *const names[] = {
#define NAME(name) #name,
        FP_RSS_MAP(NAME)};
#undef NAME
    struct fp_vm *vm = fp_vm(env);
    const char *why = fp_vm_open_memory(vm);
    struct fp_allocators *allocators = vm->allocators;
    struct fp_carriers carriers = {0};
    ERL_NIF_TERM map = enif_make_new_map(env);
    struct fp_rss rss;
    int err, are_known;

    if (why != NULL)
        return fp_error_text(env, FP_EUNSUPPORTED, why);
    are_known = allocators != NULL && fp_carriers_walk(allocators, &vm->memory, &carriers) == 0;
    err = fp_rss_read(&vm->memory, allocators, are_known ? &carriers : NULL, &rss);
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
