#include "looks_nif/calibrate.h"

#include <string.h>

#include "erts/term.h"
#include "erts/term/otel.h"
#include "terms/terms.h"

static const struct fp_trace big = {{0xfedcba9876543210, 0x8123456789abcdef}, 0xf0e1d2c3b4a59687};
static const struct fp_trace small = {{0, 0x123}, 0x456};

/* In the external format, 131, SMALL_BIG_EXT, 16, sign, bytes from the lowest on. */
static int make_integer(ErlNifEnv *env, const uint64_t id[2], ERL_NIF_TERM *term)
{
    unsigned char bytes[20] = {131, 110, 16, 0};

    for (int i = 0; i < 16; i++)
        bytes[4 + i] = (unsigned char)(id[i < 8 ? 1 : 0] >> 8 * (i % 8));
    return enif_binary_to_term(env, bytes, sizeof bytes, term, 0) != 0;
}

/* #{a => a, {otel_tracer, span_ctx} => {span_ctx, ...}}, the span of `arity` elements. */
static int make_context(ErlNifEnv *env, const struct fp_trace *trace, unsigned arity,
                        ERL_NIF_TERM *context)
{
    ERL_NIF_TERM span[11], atom = fp_atom(env, "span_ctx");
    ERL_NIF_TERM key = enif_make_tuple2(env, fp_atom(env, "otel_tracer"), atom);

    for (unsigned i = 0; i < arity; i++)
        span[i] = atom;
    if (!make_integer(env, trace->id, &span[1]))
        return 0;
    span[arity == 9 ? 2 : 3] = enif_make_uint64(env, trace->span);
    return enif_make_map_put(env, enif_make_new_map(env), atom, atom, context) &&
           enif_make_map_put(env, *context, key, enif_make_tuple_from_array(env, span, arity),
                             context);
}

static int is_found(ErlNifEnv *env, const struct fp_memory *memory, const struct fp_layout *layout,
                    const struct fp_trace *trace, unsigned arity)
{
    struct fp_trace found;
    struct fp_otel otel;
    ERL_NIF_TERM context;

    fp_otel_start(&otel, 0, 0);
    return make_context(env, trace, arity, &context) &&
           fp_otel_context(&otel, layout, memory, context, &found) == FP_OK &&
           memcmp(&found, trace, sizeof found) == 0;
}

void fp_otel_verify(ErlNifEnv *env, const struct fp_memory *memory, struct fp_layout *layout)
{
    ERL_NIF_TERM map;
    uint64_t header;

    layout->otel = (struct fp_otel_terms){
        .context = fp_atom(env, "$__current_otel_ctx"),
        .otel_tracer = fp_atom(env, "otel_tracer"),
        .span_ctx = fp_atom(env, "span_ctx"),
    };
    if (!make_context(env, &small, 9, &map) || !fp_term_is_boxed(map) ||
        fp_safe_read_word(memory, fp_term_address(map), &header) != 0 || (header & 3) != 0)
        return;
    layout->otel.map_header = header;
    if (!is_found(env, memory, layout, &small, 9) || !is_found(env, memory, layout, &big, 9) ||
        !is_found(env, memory, layout, &small, 11) || !is_found(env, memory, layout, &big, 11))
        layout->otel.map_header = 0;
}
