/* sites_nif.c - the sites at which processes wait or work on messages (erts/sites.h), as
 * flame_prof_wait_sites has found them: rows of them are the value that libraries take. */
#include <stdlib.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/serving.h"
#include "nif/vm.h"
#include "terms/terms.h"

static int role_of(ErlNifEnv *env, ERL_NIF_TERM term)
{
    for (enum fp_site_role role = 0; role < FP_SITE_ROLES; role++)
        if (fp_is_atom(env, term, fp_site_role_name(role)))
            return (int)role;
    return -1;
}

static int get_row(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_site_row *row)
{
    const ERL_NIF_TERM *element;
    ErlNifUInt64 address;
    int arity, role;

    if (!enif_get_tuple(env, term, &arity, &element) || arity != 3 ||
        !enif_get_uint64(env, element[0], &address) || (role = role_of(env, element[1])) < 0 ||
        !enif_get_uint(env, element[2], &row->slot))
        return 0;
    row->address = address;
    row->role = (enum fp_site_role)role;
    return 1;
}

static int create_sites(ErlNifEnv *env, const struct fp_site_row *row, size_t rows,
                        struct fp_sites **sites)
{
    struct fp_ranges *code = malloc(sizeof *code);
    int err = code == NULL ? FP_ENOMEM : fp_vm(env)->layout == NULL ? FP_ESTATE : 0;

    if (err == 0)
        err = fp_code_ranges(&fp_vm(env)->memory, code);
    if (err == 0)
        err = fp_sites_create(sites, &fp_vm(env)->memory, code, row, rows);
    free(code);
    return err;
}

/* If they cannot be published, the former ones are kept. */
static int exchange_sites(struct fp_vm *vm, struct fp_sites *sites, uint64_t mark, int is_public)
{
    struct fp_sites *unused = sites;
    int err;

    enif_mutex_lock(vm->lock);
    err = is_public ? fp_serving_publish(sites) : 0;
    if (err == 0) {
        unused = vm->sites;
        vm->sites = sites;
        vm->sites_mark = mark;
    }
    enif_mutex_unlock(vm->lock);
    fp_sites_release(unused);
    return err;
}

ERL_NIF_TERM fp_vm_set_sites(ErlNifEnv *env, const ERL_NIF_TERM argv[], int is_public)
{
    ERL_NIF_TERM head, tail = argv[0];
    struct fp_site_row *row;
    struct fp_sites *sites = NULL;
    ErlNifUInt64 mark;
    unsigned rows, at = 0;
    int err = 0;

    if (!enif_get_list_length(env, tail, &rows) || rows > FP_SITES_MAX * FP_SITE_ROLES ||
        !enif_get_uint64(env, argv[1], &mark))
        return enif_make_badarg(env);
    row = calloc(rows + 1, sizeof *row);
    if (row == NULL)
        return fp_result(env, FP_ENOMEM);
    while (err == 0 && enif_get_list_cell(env, tail, &head, &tail))
        err = get_row(env, head, &row[at++]) ? 0 : FP_EINVAL;
    if (err == 0)
        err = create_sites(env, row, rows, &sites);
    free(row);
    if (err == 0)
        err = exchange_sites(fp_vm(env), sites, mark, is_public);
    return fp_result(env, err);
}

/* ([{Address, Role, Slot}], Mark) -> ok | {error, Error}
 * From now on a look knows these sites and no others, and so do samples. Roles: sites.h. The mark
 * is kept. full: they have changed too often (serving.h). */
ERL_NIF_TERM fp_nif_wait_sites_set(FP_NIF_ARGS)
{
    return fp_vm_set_sites(env, argv, 1);
}

/* {M, F, A} or none */
static ERL_NIF_TERM mfa_term(ErlNifEnv *env, const uint64_t mfa[3])
{
    return mfa[0] == 0 ? fp_atom(env, "none")
                       : enif_make_tuple3(env, mfa[0], mfa[1], enif_make_uint64(env, mfa[2]));
}

/* Modules are never so gone that their atoms are: the function had a name when it was found. */
static ERL_NIF_TERM site_term(ErlNifEnv *env, const struct fp_site *site, int is_valid)
{
    ERL_NIF_TERM roles = enif_make_list(env, 0);

    for (enum fp_site_role role = 0; role < FP_SITE_ROLES; role++)
        if (fp_site_has(site, role))
            roles = enif_make_list_cell(env,
                                        enif_make_tuple2(env, fp_atom(env, fp_site_role_name(role)),
                                                         enif_make_uint(env, site->slot[role])),
                                        roles);
    return enif_make_tuple4(env, mfa_term(env, site->mfa), roles,
                            enif_make_uint64(env, site->address), fp_boolean(env, is_valid));
}

/* () -> {Mark, AreValid, [{{M, F, A} | none, [{Role, Slot}], Address, IsValid}]} | none
 * IsValid: the code there is what it was; AreValid: at all of them. */
ERL_NIF_TERM fp_nif_wait_sites(FP_NIF_ARGS)
{
    struct fp_vm *vm = fp_vm(env);
    uint64_t mark;
    struct fp_sites *sites = fp_vm_sites(vm, &mark);
    uint8_t is_valid[FP_SITES_MAX];
    ERL_NIF_TERM list = enif_make_list(env, 0), valid;
    uint32_t count;

    if (sites == NULL)
        return fp_atom(env, "none");
    count = fp_sites_count(sites);
    valid = fp_boolean(env, fp_sites_check(sites, &vm->memory, is_valid) == count);
    while (count-- > 0)
        list = enif_make_list_cell(env, site_term(env, fp_sites_at(sites, count), is_valid[count]),
                                   list);
    fp_sites_release(sites);
    return enif_make_tuple3(env, enif_make_uint64(env, mark), valid, list);
}
