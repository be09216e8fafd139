/* tables_nif.c - the ETS tables, for flame_prof_tables_layout and flame_prof_tables: tables_probe/0
 * on the scheduler where tables were made for calibration, tables_solve/3 with what Erlang says of
 * them, then tables_read/0 reads memory alone. tables_objects/1 likewise finds where their objects
 * are, for flame_prof_binaries_tables. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "erts/ets_objects.h"
#include "erts/term.h"
#include "erts/term/object.h"
#include "looks_nif/looks.h"
#include "looks_nif/views.h"
#include "terms/terms.h"

/* () -> ok | known | {error, Error}: of the scheduler that runs this; `known': nothing is to be
 * solved. */
ERL_NIF_TERM fp_nif_tables_probe(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    const struct fp_layout *layout = library->vm.layout;
    uint64_t process, data;

    if (library->tables != NULL)
        return fp_atom(env, "known");
    if (layout == NULL || layout->release.running.scheduler_data == 0)
        return fp_result(env, FP_EUNSUPPORTED);
    process = fp_own_process(env, &library->vm.memory);
    if (process == 0 ||
        fp_safe_read_word(&library->vm.memory, process + layout->release.running.scheduler_data,
                          &data) != 0)
        return fp_result(env, FP_ELAYOUT);
    atomic_store(&library->tables_data, data);
    return fp_atom(env, "ok");
}

/* {Tid, {N0, N1, N2}, Owner, Heir, Name, Keypos, Status, Objects, Words, Decentralized,
 * Compressed} */
static int get_fact(ErlNifEnv *env, const struct fp_memory *memory, ERL_NIF_TERM term,
                    struct fp_ets_fact *fact)
{
    const ERL_NIF_TERM *part, *number;
    ErlNifUInt64 objects, words;
    int arity;

    if (!enif_get_tuple(env, term, &arity, &part) || arity != 11 ||
        !enif_get_tuple(env, part[1], &arity, &number) || arity != 3 ||
        !enif_is_ref(env, part[0]) || !enif_get_uint64(env, part[7], &objects) ||
        !enif_get_uint64(env, part[8], &words))
        return 0;
    *fact = (struct fp_ets_fact){.binary = fp_ets_binary(memory, part[0]),
                                 .owner = part[2],
                                 .heir = part[3],
                                 .name = part[4],
                                 .objects = objects,
                                 .words = words,
                                 .is_decentralized = fp_is_atom(env, part[9], "true") != 0,
                                 .is_compressed = fp_is_atom(env, part[10], "true") != 0};
    return enif_get_uint(env, number[0], &fact->number[0]) &&
           enif_get_uint(env, number[1], &fact->number[1]) &&
           enif_get_uint(env, number[2], &fact->number[2]) &&
           enif_get_uint(env, part[5], &fact->keypos) && enif_get_uint(env, part[6], &fact->status);
}

/* ([Fact], ArrayBytes, Schedulers) -> ok | {error, {Error, Why}} */
ERL_NIF_TERM fp_nif_tables_solve(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    const struct fp_layout *layout = library->vm.layout;
    struct fp_ets_fact fact[FP_ETS_FACTS_MAX];
    struct fp_ets_input input = {.fact = fact, .data = library->tables_data};
    struct fp_ets *tables, *none = NULL;
    struct fp_refusal refusal;
    ERL_NIF_TERM list = argv[0], head;

    /* Before that there may be nothing to read memory with. */
    if (layout == NULL)
        return enif_make_badarg(env);
    while (enif_get_list_cell(env, list, &head, &list))
        if (input.facts == FP_ETS_FACTS_MAX ||
            !get_fact(env, &library->vm.memory, head, &fact[input.facts++]))
            return enif_make_badarg(env);
    if (!enif_get_uint(env, argv[1], &input.array_bytes) ||
        !enif_get_uint(env, argv[2], &input.schedulers))
        return enif_make_badarg(env);
    tables = malloc(sizeof *tables);
    if (tables == NULL)
        return fp_error_text(env, FP_ENOMEM, "");
    if (fp_ets_solve(tables, &library->vm.memory, layout, &input, &refusal) != 0) {
        free(tables);
        return fp_error_text(env, refusal.err, refusal.why);
    }
    /* Keeps the first: others may be reading by it. */
    if (!atomic_compare_exchange_strong(&library->tables, &none, tables))
        free(tables);
    return fp_atom(env, "ok");
}

/* ----------------------------------------------------------------- objects -- */

/* The address of the Binary that a term of a whole refc binary refers to; 0: it is none. */
static uint64_t refc_binary(const struct fp_memory *memory, unsigned otp, uint64_t term)
{
    struct fp_object object = {.kind = FP_OBJECT_BAD};

    /* Since 27 behind a sub-binary. */
    for (int step = 0; step < 2 && fp_term_is_boxed(term); step++) {
        uint64_t word[FP_OBJECT_WORDS] = {0};

        if (fp_safe_read(memory, fp_term_address(term), word, sizeof word) != 0)
            return 0;
        fp_object_decode(otp, word, &object);
        if (object.kind != FP_OBJECT_SUB_BINARY)
            break;
        term = word[4];
    }
    return object.kind == FP_OBJECT_REFC_BINARY || object.kind == FP_OBJECT_BINARY_REF
               ? object.binary
               : 0;
}

/* {Tid, Buckets, Objects, [Binary]}; Buckets: `tree`, `concurrent_tree` of ordered sets */
static int get_objects_fact(ErlNifEnv *env, const struct fp_layout *layout,
                            const struct fp_memory *memory, ERL_NIF_TERM term,
                            struct fp_ets_objects_fact *fact)
{
    const ERL_NIF_TERM *part;
    ERL_NIF_TERM list, head;
    ErlNifUInt64 buckets, objects;
    unsigned otp = layout->release.otp;
    int arity;

    if (!enif_get_tuple(env, term, &arity, &part) || arity != 4 || !enif_is_ref(env, part[0]) ||
        !enif_get_uint64(env, part[2], &objects))
        return 0;
    *fact =
        (struct fp_ets_objects_fact){.binary = fp_ets_binary(memory, part[0]),
                                     .objects = objects,
                                     .is_concurrent = fp_is_atom(env, part[1], "concurrent_tree")};
    if (enif_get_uint64(env, part[1], &buckets))
        fact->buckets = buckets;
    for (list = part[3]; enif_get_list_cell(env, list, &head, &list); fact->binaries++)
        fact->sum += fp_ets_objects_sum(refc_binary(memory, otp, head));
    return 1;
}

/* ([Fact]) -> ok | {error, {Error, Why}}; without facts: is it known? */
ERL_NIF_TERM fp_nif_tables_objects(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    struct fp_ets_objects_fact fact[FP_ETS_FACTS_MAX];
    const struct fp_layout *layout = library->vm.layout;
    struct fp_ets_objects *objects, *none = NULL;
    struct fp_refusal refusal;
    ERL_NIF_TERM list = argv[0], head;
    uint32_t facts = 0;

    if (layout == NULL || library->tables == NULL)
        return enif_make_badarg(env);
    if (library->table_objects != NULL)
        return fp_atom(env, "ok");
    while (enif_get_list_cell(env, list, &head, &list))
        if (facts == FP_ETS_FACTS_MAX ||
            !get_objects_fact(env, layout, &library->vm.memory, head, &fact[facts++]))
            return enif_make_badarg(env);
    objects = malloc(sizeof *objects);
    if (objects == NULL)
        return fp_error_text(env, FP_ENOMEM, "");
    if (fp_ets_objects_solve(objects, library->tables, &library->vm.memory, layout->release.otp,
                             fact, facts, &refusal) != 0) {
        free(objects);
        return fp_error_text(env, refusal.err, refusal.why);
    }
    if (!atomic_compare_exchange_strong(&library->table_objects, &none, objects))
        free(objects);
    return fp_atom(env, "ok");
}

/* ----------------------------------------------------------------- answers -- */

int fp_out_table(struct fp_terms_out *out, const struct fp_ets_table *table, ERL_NIF_TERM part[3])
{
    ErlNifEnv *env = out->env;

    if (!fp_out_is_atom(out, table->name) || !fp_out_is_pid(out, table->owner))
        return 0;
    part[0] = enif_make_tuple3(env, enif_make_uint(env, table->number[0]),
                               enif_make_uint(env, table->number[1]),
                               enif_make_uint(env, table->number[2]));
    part[1] = table->name;
    part[2] = table->owner;
    return 1;
}

/* {Numbers, Name, Owner, Status, Keypos, Objects, Bytes, Flags}; 0: it was freed meanwhile. Flags:
 * 1 decentralized, 2 compressed. */
static ERL_NIF_TERM table_term(struct fp_terms_out *out, const struct fp_ets_table *table)
{
    ErlNifEnv *env = out->env;
    ERL_NIF_TERM part[] = {
        0,
        0,
        0,
        enif_make_uint(env, table->status),
        enif_make_uint(env, table->keypos),
        enif_make_int64(env, table->objects),
        enif_make_int64(env, table->bytes),
        enif_make_uint(env, table->is_decentralized | (unsigned)table->is_compressed << 1),
    };

    return fp_out_table(out, table, part) ? enif_make_tuple_from_array(env, part, 8) : 0;
}

/* () -> undefined | {[Table], Incomplete, LeftOut} | {error, Error} */
ERL_NIF_TERM fp_nif_tables_read(FP_NIF_ARGS)
{
    struct fp_looks *library = fp_looks(env);
    const struct fp_ets *tables = library->tables;
    ERL_NIF_TERM list = enif_make_list(env, 0), term;
    struct fp_terms_out out;
    struct fp_ets_list found;
    struct fp_memory memory;
    int err;

    if (tables == NULL)
        return fp_atom(env, "undefined");
    err = fp_safe_read_open_own(&memory);
    if (err != 0)
        return fp_result(env, err);
    err = fp_ets_read(tables, &memory, &found);
    fp_terms_out_start(&out, env, library->vm.layout, &memory);
    for (uint32_t i = err == 0 ? found.count : 0; i-- > 0;)
        if ((term = table_term(&out, &found.table[i])) != 0)
            list = enif_make_list_cell(env, term, list);
        else
            found.left_out++;
    fp_safe_read_close(&memory);
    term = err == 0 ? enif_make_tuple3(env, list, enif_make_uint(env, found.incomplete),
                                       enif_make_uint(env, found.left_out))
                    : fp_result(env, err);
    fp_ets_free(&found);
    return term;
}
