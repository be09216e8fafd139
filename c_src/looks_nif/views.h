/* views.h - what looks have read, as terms: shapes and identifiers, never a value. Each word goes
 * through nif/terms_out.h. */
#pragma once

#include "base/histogram.h"
#include "erts/code_index.h"
#include "erts/ets.h"
#include "erts/term/message.h"
#include "nif/terms_out.h"

/* A port of this node. */
ERL_NIF_TERM fp_out_port(const struct fp_terms_out *out, uint64_t word, const char *otherwise);

/* {N0, N1, N2} of its reference, name and owner into `part`. 0: it was freed while it was read. */
int fp_out_table(struct fp_terms_out *out, const struct fp_ets_table *table, ERL_NIF_TERM part[3]);

/* {N0, N1, N2} */
ERL_NIF_TERM fp_out_ref(ErlNifEnv *env, const struct fp_ref *ref);

/* {atom, Atom} | {tuple, Atom, Arity} | other | unknown */
ERL_NIF_TERM fp_out_tag(struct fp_terms_out *out, const struct fp_tag *tag);

/* other | unreadable | nil | {atom, Atom} | {pid, Pid} | {port, Port} | {ref, {N0, N1, N2}}
 * | {remote_pid, Node, Creation, Number, Serial} | {remote_ref, Node, Creation, {N0, N1, N2}}
 * | {tuple, Arity, [View]} with so many elements at most | {list, HeadView, TailView}
 * At depth 0 a tuple has [] and a list is the atom list. */
struct fp_view_limits {
    unsigned depth, elements;
};
ERL_NIF_TERM fp_out_view(struct fp_terms_out *out, struct fp_walk *walk, const struct fp_term *term,
                         struct fp_view_limits limits);

/* Of a code address: {Module, Function, Arity}; {Module, Function, Arity, Line}. `code` may be
 * NULL: no function is known. */
ERL_NIF_TERM fp_out_function(struct fp_terms_out *out, struct fp_code_index *code, uint64_t pc,
                             const char *otherwise);
ERL_NIF_TERM fp_out_frame(struct fp_terms_out *out, struct fp_code_index *code, uint64_t pc,
                          const char *otherwise);

/* [{LowNs, EndNs | infinity, Count}] of the buckets in use, in order. */
ERL_NIF_TERM fp_buckets_term(ErlNifEnv *env, const struct fp_histogram_copy *copy);
