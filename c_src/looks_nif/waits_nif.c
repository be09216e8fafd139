/* waits_nif.c - what processes wait for, as terms: for flame_prof_waits. All but shapes, tags,
 * pids, ports and references stays in the VM. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "erts/code_index.h"
#include "erts/code_scan.h"
#include "looks_nif/looks.h"
#include "looks_nif/views.h"
#include "terms/term_words.h"
#include "terms/terms.h"
#include "waits/waits.h"

/* The data that a look needs to read. */
struct looking {
    ErlNifEnv *env;
    struct fp_memory memory;
    struct fp_ranges code;
    struct fp_code_index *index;
    struct fp_waits_options options;
    struct fp_sites *sites;
    struct fp_terms_out out;
    ERL_NIF_TERM list, none;
    ERL_NIF_TERM how[FP_WAIT_HOWS];
    /* Site and tag of the last row: the next one often has the same, and shares the term. */
    uint64_t last_i;
    struct fp_tag last_tag;
    ERL_NIF_TERM last_site, last_tag_term;
};

static void make_atoms(struct looking *look)
{
    ErlNifEnv *env = look->env;

    for (enum fp_wait_how how = 0; how < FP_WAIT_HOWS; how++)
        look->how[how] = fp_atom(env, fp_wait_how_name(how));
    look->last_site = look->none = fp_atom(env, "none");
}

static int open_look(ErlNifEnv *env, struct looking *look)
{
    struct fp_layout *layout = fp_vm(env)->layout;
    uint64_t mark;
    int err;

    memset(look, 0, sizeof *look);
    look->env = env;
    look->memory.fd = -1;
    if (layout == NULL)
        return FP_ESTATE;
    look->sites = fp_vm_sites(fp_vm(env), &mark);
    if (look->sites == NULL)
        return FP_ESTATE;
    err = fp_safe_read_open_own(&look->memory);
    if (err == 0)
        err = fp_code_ranges(&look->memory, &look->code);
    if (err == 0)
        err = fp_code_index_create(&look->index, layout, &look->memory, &look->code);
    if (err != 0)
        return err;
    make_atoms(look);
    look->list = enif_make_list(env, 0);
    fp_terms_out_start(&look->out, env, layout, &look->memory);
    look->options = (struct fp_waits_options){.layout = layout,
                                              .memory = &look->memory,
                                              .code = &look->code,
                                              .sites = look->sites,
                                              .arg = look};
    return 0;
}

static void close_look(struct looking *look)
{
    if (look->index != NULL)
        fp_code_index_destroy(look->index);
    fp_safe_read_close(&look->memory);
    fp_sites_release(look->sites);
}

/* ----------------------------------------------------------------- terms -- */

static ERL_NIF_TERM target_term(struct looking *look, const struct fp_wait *wait)
{
    const struct fp_term *target = &wait->target;
    const struct fp_remote *remote = &target->remote;
    struct fp_terms_out *out = &look->out;
    ErlNifEnv *env = look->env;

    switch (target->kind) {
    case FP_TERM_PID:
        return fp_out_pid(out, target->word, "none");
    case FP_TERM_PORT:
        return fp_out_port(out, target->word, "none");
    case FP_TERM_REMOTE_PID:
        return fp_out_is_atom(out, remote->node)
                   ? enif_make_tuple5(env, fp_atom(env, "remote"), remote->node,
                                      enif_make_uint(env, remote->number),
                                      enif_make_uint(env, remote->serial),
                                      enif_make_uint(env, remote->creation))
                   : look->none;
    case FP_TERM_ATOM:
        if (wait->name == 0)
            return fp_out_atom(out, target->word, "none");
        return fp_out_is_atom(out, target->word) && fp_out_is_atom(out, wait->name)
                   ? enif_make_tuple2(env, wait->name, target->word)
                   : look->none;
    default:
        return look->none;
    }
}

static ERL_NIF_TERM shared_tag_term(struct looking *look, const struct fp_tag *tag)
{
    if (look->last_tag_term == 0 || look->last_tag.shape != tag->shape ||
        look->last_tag.atom != tag->atom || look->last_tag.arity != tag->arity) {
        look->last_tag = *tag;
        look->last_tag_term = fp_out_tag(&look->out, tag);
    }
    return look->last_tag_term;
}

static ERL_NIF_TERM site_term(struct looking *look, uint64_t i)
{
    if (look->last_i != i)
        look->last_site = fp_out_function(&look->out, look->index, i, "none");
    look->last_i = i;
    return look->last_site;
}

static void add_wait(void *arg, const struct fp_wait *wait)
{
    struct looking *look = arg;
    ErlNifEnv *env = look->env;
    ERL_NIF_TERM row;

    row = enif_make_tuple7(env, fp_out_pid(&look->out, wait->pid, "none"), look->how[wait->how],
                           target_term(look, wait),
                           wait->has_ref ? fp_out_ref(env, &wait->ref) : look->none,
                           shared_tag_term(look, &wait->tag), site_term(look, wait->i),
                           enif_make_uint64(env, wait->i));
    look->list = enif_make_list_cell(env, row, look->list);
}

static ERL_NIF_TERM counts_term(ErlNifEnv *env, const struct fp_waits_counts *counts,
                                uint64_t since)
{
    ERL_NIF_TERM map = enif_make_new_map(env);

#define PUT(name) fp_map_put_u64(env, &map, #name, counts->name);
    FP_WAITS_COUNT_MAP(PUT)
#undef PUT
    fp_map_put_u64(env, &map, "cpu_ns", fp_thread_cpu_ns() - since);
    return map;
}

/* ([Excluded]) -> {ok, [{Pid, How, Target, Ref, Tag, Site, Address}], #{Count => N}}
 *              | {error, Error}
 * How: FP_WAIT_MAP; what `monitor` proves and what not: waits.h.
 * Target: a pid, a port, {remote, Node, Number, Serial, Creation}, {Name, Node}, an atom (a lock's
 * resource) or none. Ref: {N0, N1, N2} or none. Tag: {atom, Atom}, {tuple, Atom, Arity}, other or
 * unknown. Site: {M, F, A} or none. `cpu_ns`, beside the counts: of the thread, for all of it.
 * bad_state: no layout, or no sites; torn: code was loaded meanwhile. */
ERL_NIF_TERM fp_nif_waits_look(FP_NIF_ARGS)
{
    struct fp_waits_counts counts;
    struct looking look;
    uint64_t excluded[FP_WAITS_EXCLUDED_MAX], since = fp_thread_cpu_ns();
    ERL_NIF_TERM term;
    uint32_t n;
    int err;

    if (!fp_get_pids(env, argv[0], excluded, FP_WAITS_EXCLUDED_MAX, &n))
        return enif_make_badarg(env);
    err = open_look(env, &look);
    memcpy(look.options.excluded, excluded, 8 * (size_t)n);
    look.options.excluded_n = n;
    look.options.each = add_wait;
    if (err == 0)
        err = fp_waits_look(&look.options, &counts);
    term = err == 0 ? enif_make_tuple3(env, fp_atom(env, "ok"), look.list,
                                       counts_term(env, &counts, since))
                    : fp_result(env, err);
    close_look(&look);
    return term;
}

static ERL_NIF_TERM served_term(struct looking *look, ERL_NIF_TERM pid,
                                const struct fp_served *served)
{
    const struct fp_message *message = &served->message;
    ErlNifEnv *env = look->env;

    return enif_make_tuple6(env, pid, fp_atom(env, fp_message_kind_name(message->kind)),
                            fp_out_tag(&look->out, &message->tag),
                            message->has_ref ? fp_out_ref(env, &message->ref) : look->none,
                            fp_out_pid(&look->out, message->from, "none"),
                            fp_out_atom(&look->out, served->module, "none"));
}

/* ([Pid]) -> {ok, [{Pid, Kind, Tag, Ref, FromPid | none, CallbackModule | none}]} | {error, Error}
 * Those of them that are servers at work and did not run meanwhile. */
ERL_NIF_TERM fp_nif_waits_served(FP_NIF_ARGS)
{
    ERL_NIF_TERM pid, pids = argv[0], term;
    struct fp_serving_sites sites = {0};
    struct looking look;
    uint64_t *word = malloc(8 * FP_SERVED_WORDS);
    int err = open_look(env, &look);

    if (err == 0 && word == NULL)
        err = FP_ENOMEM;
    if (err == 0) {
        fp_serving_prepare(&sites, look.sites);
        fp_serving_check(&sites, &look.memory, look.options.layout);
    }
    while (err == 0 && enif_get_list_cell(env, pids, &pid, &pids)) {
        struct fp_served served;
        ErlNifPid local;

        if (enif_get_local_pid(env, pid, &local) &&
            fp_waits_served(&look.options, &sites, pid, word, &served) == 0)
            look.list = enif_make_list_cell(env, served_term(&look, pid, &served), look.list);
    }
    term = err == 0 ? fp_ok(env, look.list) : fp_result(env, err);
    close_look(&look);
    free(word);
    return term;
}
