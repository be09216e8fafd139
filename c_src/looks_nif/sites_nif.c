/* sites_nif.c - the sites at which processes wait or work on messages (erts/sites.h), as
 * flame_prof_wait_sites has found them. */
#include <stdlib.h>

#include "base/error.h"
#include "looks_nif/looks.h"
#include "nif/terms_out.h"
#include "terms/terms.h"

static const char *const roles[] = {
#define ROLE_NAME(name) #name,
    FP_SITE_ROLE_MAP(ROLE_NAME)
#undef ROLE_NAME
        NULL};

static int get_row(ErlNifEnv *env, ERL_NIF_TERM term, struct fp_site_row *row)
{
    const ERL_NIF_TERM *element;
    ErlNifUInt64 address;
    int arity, role;

    if (!enif_get_tuple(env, term, &arity, &element) || arity != 3 ||
        !enif_get_uint64(env, element[0], &address) ||
        (role = fp_get_name(env, element[1], roles)) < 0 ||
        !enif_get_uint(env, element[2], &row->slot))
        return 0;
    row->address = address;
    row->role = (enum fp_site_role)role;
    return 1;
}

/* ([{Address, Role, Slot}], Mark): a value for free(). NULL: FP_EINVAL or FP_ENOMEM. */
static struct fp_sites_value *get_sites(ErlNifEnv *env, const ERL_NIF_TERM argv[], int *err)
{
    ERL_NIF_TERM head, tail = argv[0];
    struct fp_sites_value *value;
    ErlNifUInt64 mark;
    unsigned rows;

    *err = FP_EINVAL;
    if (!enif_get_list_length(env, tail, &rows) || rows > FP_SITES_MAX * FP_SITE_ROLES ||
        !enif_get_uint64(env, argv[1], &mark))
        return NULL;
    *err = FP_ENOMEM;
    value = calloc(1, sizeof *value + rows * sizeof *value->row);
    if (value == NULL)
        return NULL;
    value->mark = mark;
    while (enif_get_list_cell(env, tail, &head, &tail) &&
           get_row(env, head, &value->row[value->rows]))
        value->rows++;
    if (value->rows == rows)
        return value;
    *err = FP_EINVAL;
    free(value);
    return NULL;
}

/* ([{Address, Role, Slot}], Mark) -> {ok, Value} | {error, Error}
 * A library that takes it knows these sites and no others. The mark is kept. */
ERL_NIF_TERM fp_nif_wait_sites_value(FP_NIF_ARGS)
{
    int err;
    struct fp_sites_value *value = get_sites(env, argv, &err);
    ERL_NIF_TERM term;

    if (value == NULL)
        return fp_result(env, err);
    term = fp_value_make(env, FP_VALUE_SITES, value, fp_sites_value_bytes(value));
    free(value);
    return fp_ok(env, term);
}

/* The same for looks alone: samples keep the sites that they have. */
ERL_NIF_TERM fp_nif_wait_sites_learn(FP_NIF_ARGS)
{
    int err;
    struct fp_sites_value *value = get_sites(env, argv, &err);

    return fp_result(env, value == NULL ? err : fp_vm_keep_sites(fp_vm(env), value, 0));
}

static ERL_NIF_TERM site_term(struct fp_terms_out *out, const struct fp_site *site, int is_valid)
{
    ErlNifEnv *env = out->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);

    for (enum fp_site_role role = 0; role < FP_SITE_ROLES; role++)
        if (fp_site_has(site, role))
            list = enif_make_list_cell(env,
                                       enif_make_tuple2(env, fp_atom(env, roles[role]),
                                                        enif_make_uint(env, site->slot[role])),
                                       list);
    return enif_make_tuple4(env, fp_out_mfa(out, site->mfa, "none"), list,
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
    struct fp_terms_out out;
    uint32_t count;

    if (sites == NULL)
        return fp_atom(env, "none");
    fp_terms_out_start(&out, env, vm->layout, &vm->memory);
    count = fp_sites_count(sites);
    valid = fp_boolean(env, fp_sites_check(sites, &vm->memory, is_valid) == count);
    while (count-- > 0)
        list = enif_make_list_cell(env, site_term(&out, fp_sites_at(sites, count), is_valid[count]),
                                   list);
    fp_sites_release(sites);
    return enif_make_tuple3(env, enif_make_uint64(env, mark), valid, list);
}
