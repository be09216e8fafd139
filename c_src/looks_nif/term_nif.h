/* term_nif.h - what the walker sees (erts/term), as terms. Any NIF. */
#pragma once

#include <erl_nif.h>

#include "base/histogram.h"
#include "erts/term/message.h"

/* other | unreadable | nil | {atom, Atom} | {pid, Pid} | {port, Port} | {ref, {N0, N1, N2}}
 * | {remote_pid, Node, Creation, Number, Serial} | {remote_ref, Node, Creation, {N0, N1, N2}}
 * | {tuple, Arity, [View]} with the first 16 elements | {list, HeadView, TailView}
 * At depth 0 a tuple has [] and a list is the atom list. */
ERL_NIF_TERM fp_term_view(ErlNifEnv *env, struct fp_walk *walk, uint64_t word, unsigned depth);

/* {atom, Atom} | {tuple, Atom, Arity} | other | unknown */
ERL_NIF_TERM fp_tag_view(ErlNifEnv *env, const struct fp_tag *tag);

/* [{LowNs, EndNs | infinity, Count}] of the buckets in use, in order. */
ERL_NIF_TERM fp_buckets_term(ErlNifEnv *env, const struct fp_histogram_copy *copy);

/* {N0, N1, N2} */
ERL_NIF_TERM fp_ref_view(ErlNifEnv *env, const struct fp_ref *ref);

/* Whether this VM's terms are what term/walk.h says: made here, walked, and compared with their
 * external format. Sets `terms` and `remote_terms` of the layout. For a dirty NIF. */
void fp_terms_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout);

/* The same of OpenTelemetry's contexts (term/otel.h): sets `otel` of the layout. */
void fp_otel_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout);
/* {TraceId, SpanId} of a context, binaries of 16 and 8 bytes; none. */
ERL_NIF_TERM fp_otel_view(ErlNifEnv *env, const struct fp_memory *memory,
                          const struct fp_layout *layout, uint64_t context);
