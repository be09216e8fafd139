#include "terms/term_words.h"

#include "terms/terms.h"

int fp_map_get_u32(ErlNifEnv *env, ERL_NIF_TERM map, const char *key, uint32_t *value)
{
    ERL_NIF_TERM term;

    return fp_map_get(env, map, key, &term) && enif_get_uint(env, term, value);
}

int fp_get_mfa(ErlNifEnv *env, ERL_NIF_TERM term, uint64_t mfa[3])
{
    const ERL_NIF_TERM *part;
    unsigned arity;
    int size;

    if (!enif_get_tuple(env, term, &size, &part) || size != 3 || !enif_is_atom(env, part[0]) ||
        !enif_is_atom(env, part[1]) || !enif_get_uint(env, part[2], &arity) || arity > 255)
        return 0;
    mfa[0] = part[0];
    mfa[1] = part[1];
    mfa[2] = arity;
    return 1;
}

int fp_get_pids(ErlNifEnv *env, ERL_NIF_TERM list, uint64_t *pid, uint32_t most, uint32_t *n)
{
    ERL_NIF_TERM head;
    ErlNifPid local;

    for (*n = 0; enif_get_list_cell(env, list, &head, &list); ++*n) {
        if (*n == most || !enif_get_local_pid(env, head, &local))
            return 0;
        pid[*n] = local.pid;
    }
    return enif_is_empty_list(env, list);
}
