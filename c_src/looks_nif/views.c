#include "looks_nif/views.h"

#include "erts/term.h"
#include "terms/terms.h"

ERL_NIF_TERM fp_out_port(const struct fp_terms_out *out, uint64_t word, const char *otherwise)
{
    return (word & 0xf) == 0x7 ? word : fp_atom(out->env, otherwise);
}

ERL_NIF_TERM fp_out_ref(ErlNifEnv *env, const struct fp_ref *ref)
{
    return enif_make_tuple3(env, enif_make_uint(env, ref->n[0]), enif_make_uint(env, ref->n[1]),
                            enif_make_uint(env, ref->n[2]));
}

ERL_NIF_TERM fp_out_tag(struct fp_terms_out *out, const struct fp_tag *tag)
{
    ErlNifEnv *env = out->env;

    if (tag->shape == FP_SHAPE_OTHER)
        return fp_atom(env, "other");
    if (tag->shape == FP_SHAPE_UNKNOWN || !fp_out_is_atom(out, tag->atom))
        return fp_atom(env, "unknown");
    return tag->shape == FP_SHAPE_ATOM ? enif_make_tuple2(env, fp_atom(env, "atom"), tag->atom)
                                       : enif_make_tuple3(env, fp_atom(env, "tuple"), tag->atom,
                                                          enif_make_uint(env, tag->arity));
}

/* ------------------------------------------------------------------- terms -- */

static ERL_NIF_TERM element_view(struct fp_terms_out *out, struct fp_walk *walk,
                                 const struct fp_term *term, uint32_t at,
                                 struct fp_view_limits limits)
{
    struct fp_term element;

    limits.depth--;
    fp_walk_element(walk, term, at, &element);
    return fp_out_view(out, walk, &element, limits);
}

static ERL_NIF_TERM tuple_view(struct fp_terms_out *out, struct fp_walk *walk,
                               const struct fp_term *term, struct fp_view_limits limits)
{
    ErlNifEnv *env = out->env;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint32_t n = term->arity < limits.elements ? term->arity : limits.elements;

    while (limits.depth > 0 && n-- > 0)
        list = enif_make_list_cell(env, element_view(out, walk, term, n, limits), list);
    return enif_make_tuple3(env, fp_atom(env, "tuple"), enif_make_uint(env, term->arity), list);
}

static ERL_NIF_TERM list_view(struct fp_terms_out *out, struct fp_walk *walk,
                              const struct fp_term *term, struct fp_view_limits limits)
{
    return limits.depth == 0 ? fp_atom(out->env, "list")
                             : enif_make_tuple3(out->env, fp_atom(out->env, "list"),
                                                element_view(out, walk, term, 0, limits),
                                                element_view(out, walk, term, 1, limits));
}

static ERL_NIF_TERM tagged(const struct fp_terms_out *out, const char *tag, ERL_NIF_TERM value)
{
    return enif_make_tuple2(out->env, fp_atom(out->env, tag), value);
}

static ERL_NIF_TERM remote_view(struct fp_terms_out *out, const struct fp_term *term)
{
    const struct fp_remote *remote = &term->remote;
    ErlNifEnv *env = out->env;
    ERL_NIF_TERM node = fp_out_atom(out, remote->node, "unknown");
    ERL_NIF_TERM creation = enif_make_uint(env, remote->creation);

    if (term->kind == FP_TERM_REMOTE_REF)
        return enif_make_tuple4(env, fp_atom(env, "remote_ref"), node, creation,
                                fp_out_ref(env, &remote->ref));
    return enif_make_tuple5(env, fp_atom(env, "remote_pid"), node, creation,
                            enif_make_uint(env, remote->number),
                            enif_make_uint(env, remote->serial));
}

ERL_NIF_TERM fp_out_view(struct fp_terms_out *out, struct fp_walk *walk, const struct fp_term *term,
                         struct fp_view_limits limits)
{
    switch (term->kind) {
    case FP_TERM_ATOM:
        return tagged(out, "atom", fp_out_atom(out, term->word, "unknown"));
    case FP_TERM_NIL:
        return fp_atom(out->env, "nil");
    case FP_TERM_PID:
        return tagged(out, "pid", fp_out_pid(out, term->word, "unknown"));
    case FP_TERM_PORT:
        return tagged(out, "port", fp_out_port(out, term->word, "unknown"));
    case FP_TERM_REF:
        return tagged(out, "ref", fp_out_ref(out->env, &term->ref));
    case FP_TERM_REMOTE_PID:
    case FP_TERM_REMOTE_REF:
        return remote_view(out, term);
    case FP_TERM_TUPLE:
        return tuple_view(out, walk, term, limits);
    case FP_TERM_LIST:
        return list_view(out, walk, term, limits);
    case FP_TERM_OTHER:
        return fp_atom(out->env, "other");
    default:
        return fp_atom(out->env, "unreadable");
    }
}

/* --------------------------------------------------------- functions, times -- */

ERL_NIF_TERM fp_out_function(struct fp_terms_out *out, struct fp_code_index *code, uint64_t pc,
                             const char *otherwise)
{
    struct fp_location at;

    return code != NULL && fp_code_index_resolve(code, pc, &at) == 0
               ? fp_out_mfa(out, at.mfa, otherwise)
               : fp_atom(out->env, otherwise);
}

ERL_NIF_TERM fp_out_frame(struct fp_terms_out *out, struct fp_code_index *code, uint64_t pc,
                          const char *otherwise)
{
    struct fp_location at;

    return code != NULL && fp_code_index_resolve(code, pc, &at) == 0 && fp_out_is_mfa(out, at.mfa)
               ? enif_make_tuple4(out->env, at.mfa[0], at.mfa[1],
                                  enif_make_uint64(out->env, at.mfa[2]),
                                  enif_make_uint(out->env, at.line))
               : fp_atom(out->env, otherwise);
}

ERL_NIF_TERM fp_buckets_term(ErlNifEnv *env, const struct fp_histogram_copy *copy)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);

    if (copy->over != 0)
        list = enif_make_list_cell(env,
                                   enif_make_tuple3(env, enif_make_uint64(env, FP_HISTOGRAM_END_NS),
                                                    fp_atom(env, "infinity"),
                                                    enif_make_uint64(env, copy->over)),
                                   list);
    for (size_t i = FP_HISTOGRAM_BUCKETS; i-- > 0;)
        if (copy->bucket[i] != 0)
            list = enif_make_list_cell(
                env,
                enif_make_tuple3(env, enif_make_uint64(env, fp_histogram_low_ns(i)),
                                 enif_make_uint64(env, fp_histogram_end_ns(i)),
                                 enif_make_uint64(env, copy->bucket[i])),
                list);
    return list;
}
