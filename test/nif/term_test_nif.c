/* What the walker, the reader of messages, OpenTelemetry's and the copier of terms make of a term,
 * for tests: the product's own objects in a library that only tests have. Its layout is the agent's
 * value. */
#include <string.h>

#include "base/error.h"
#include "erts/term/otel.h"
#include "looks_nif/views.h"
#include "nif/vm.h"
#include "terms/term_copy.h"
#include "terms/term_words.h"
#include "terms/terms.h"

#define DEPTH_MAX 4u
#define ELEMENTS_MAX 16u
#define READS 4096u
#define COPY_BYTES_MAX 8192u

struct seeing {
    struct fp_memory memory;
    const struct fp_layout *layout;
    struct fp_walk walk;
    struct fp_terms_out out;
};

static ERL_NIF_TERM term_view(struct seeing *seeing, uint64_t word, unsigned depth)
{
    struct fp_term term;

    fp_walk_term(&seeing->walk, word, &term);
    return fp_out_view(&seeing->out, &seeing->walk, &term,
                       (struct fp_view_limits){depth, ELEMENTS_MAX});
}

/* {Kind, Tag, From | none, {N0, N1, N2} | none, Reads} */
static ERL_NIF_TERM message_view(struct seeing *seeing, uint64_t word)
{
    ErlNifEnv *env = seeing->out.env;
    struct fp_message message;
    uint32_t budget = seeing->walk.budget;

    fp_message_read(&seeing->walk, &seeing->layout->envelope, word, &message);
    return enif_make_tuple5(env, fp_atom(env, fp_message_kind_name(message.kind)),
                            fp_out_tag(&seeing->out, &message.tag),
                            fp_out_pid(&seeing->out, message.from, "none"),
                            message.has_ref ? fp_out_ref(env, &message.ref) : fp_atom(env, "none"),
                            enif_make_uint(env, budget - seeing->walk.budget));
}

static ERL_NIF_TERM id_view(ErlNifEnv *env, const uint64_t *id, size_t words)
{
    ERL_NIF_TERM term;
    unsigned char *bytes = enif_make_new_binary(env, 8 * words, &term);

    for (size_t i = 0; i < 8 * words; i++)
        bytes[i] = (unsigned char)(id[i / 8] >> (56 - 8 * (i % 8)));
    return term;
}

/* {TraceId, SpanId} of a context, binaries of 16 and 8 bytes; none. */
static ERL_NIF_TERM otel_view(struct seeing *seeing, uint64_t context)
{
    ErlNifEnv *env = seeing->out.env;
    struct fp_trace trace;
    struct fp_otel otel;

    fp_otel_start(&otel, 0, 0);
    if (seeing->layout->otel.map_header == 0 ||
        fp_otel_context(&otel, seeing->layout, &seeing->memory, context, &trace) != FP_OK)
        return fp_atom(env, "none");
    return enif_make_tuple2(env, id_view(env, trace.id, 2), id_view(env, &trace.span, 1));
}

/* (Term, Depth of 0..4 | message | otel) -> as above, of the caller's own term, which a term of a
 * NIF is the word of; {error, bad_state}: nothing is calibrated. */
static ERL_NIF_TERM view(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    int is_message = fp_is_atom(env, argv[1], "message"),
        is_otel = fp_is_atom(env, argv[1], "otel");
    struct seeing seeing = {.layout = fp_vm(env)->layout};
    ERL_NIF_TERM term;
    unsigned depth = 0;

    (void)argc;
    if (!is_message && !is_otel && (!enif_get_uint(env, argv[1], &depth) || depth > DEPTH_MAX))
        return enif_make_badarg(env);
    if (seeing.layout == NULL || fp_safe_read_open(&seeing.memory) != 0)
        return fp_result(env, FP_ESTATE);
    fp_walk_start(&seeing.walk, &seeing.memory, seeing.layout,
                  is_message ? FP_MESSAGE_READS : READS);
    fp_terms_out_start(&seeing.out, env, seeing.layout, &seeing.memory);
    term = is_otel      ? otel_view(&seeing, argv[0])
           : is_message ? message_view(&seeing, argv[0])
                        : term_view(&seeing, argv[0], depth);
    fp_safe_read_close(&seeing.memory);
    return term;
}

/* (Term, #{depth, bytes, items}) -> Term, as a trace would show it. */
static ERL_NIF_TERM copy(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct fp_term_copy_limits limits = {0};
    unsigned char bytes[COPY_BYTES_MAX + FP_TERM_COPY_SLACK];
    const unsigned char *at = bytes;
    ERL_NIF_TERM term;
    size_t size;

    (void)argc;
    if (!fp_map_get_u32(env, argv[1], "depth", &limits.depth) ||
        !fp_map_get_u32(env, argv[1], "bytes", &limits.bytes) ||
        !fp_map_get_u32(env, argv[1], "items", &limits.items) || limits.bytes > COPY_BYTES_MAX)
        return enif_make_badarg(env);
    size = fp_term_copy(env, argv[0], &limits, bytes);
    if (fp_term_restore(env, &at, bytes + size, &term) != 0 || at != bytes + size)
        return fp_error(env, fp_atom(env, "torn"));
    return term;
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    static struct fp_vm vm;

    (void)env;
    (void)info;
    *priv = &vm;
    return fp_vm_open(&vm);
}

static void unload(ErlNifEnv *env, void *priv)
{
    (void)env;
    fp_vm_close(priv);
}

static ErlNifFunc functions[] = {
    {"view", 2, view, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"copy", 2, copy, 0},
    {"value_take", 1, fp_nif_value_take, ERL_NIF_DIRTY_JOB_IO_BOUND},
};

ERL_NIF_INIT(term_test_nif, functions, load, NULL, NULL, unload)
