/* query_nif.c - terms to queries, and the stacks of a profile added up. */
#include "report/demangle.h"
#include "report_nif/report_nif.h"

/* samples | period | {value | delta, Name} */
static int get_by(ErlNifEnv *env, const struct fp_profile *profile, ERL_NIF_TERM term,
                  struct fp_by *by)
{
    static const char *const names[] = {"samples", "period", NULL};
    const ERL_NIF_TERM *part;
    ErlNifBinary name;
    int size, kind = fp_get_name(env, term, names);

    *by = (struct fp_by){(enum fp_by_kind)kind, -1};
    if (kind == FP_BY_SAMPLES || kind == FP_BY_PERIOD)
        return 1;
    if (!enif_get_tuple(env, term, &size, &part) || size != 2 ||
        !enif_inspect_binary(env, part[1], &name))
        return 0;
    by->kind = fp_is_atom(env, part[0], "delta") ? FP_BY_DELTA : FP_BY_VALUE;
    by->metric = fp_profile_metric(profile, (struct fp_slice){(char *)name.data, name.size});
    return by->metric >= 0;
}

static int get_filter(ErlNifEnv *env, const struct fp_profile *profile, ERL_NIF_TERM term,
                      struct fp_filter *filter)
{
    const ERL_NIF_TERM *part;
    ERL_NIF_TERM head, list;
    ErlNifSInt64 from, to;
    ErlNifBinary bytes;
    int size;

    *filter = (struct fp_filter){0};
    if (!enif_get_tuple(env, term, &size, &part) || size != 4 ||
        !enif_get_int64(env, part[0], &from) || !enif_get_int64(env, part[1], &to))
        return 0;
    filter->from_us = from;
    filter->to_us = to;
    for (list = part[2]; enif_get_list_cell(env, list, &head, &list);) {
        if (!enif_inspect_binary(env, head, &bytes) ||
            !fp_filter_status(profile, filter, (struct fp_slice){(char *)bytes.data, bytes.size}))
            return 0;
    }
    if (fp_is_atom(env, part[3], "all"))
        return 1;
    if (!enif_inspect_binary(env, part[3], &bytes) || bytes.size != profile->process_count)
        return 0;
    filter->process = bytes.data;
    return 1;
}

int fp_get_query(ErlNifEnv *env, const struct fp_profile *profile, ERL_NIF_TERM term,
                 struct fp_query *query)
{
    static const char *const frames[] = {"lines",           "functions", "none", "line_chains",
                                         "function_chains", "chains",    NULL};
    const ERL_NIF_TERM *part;
    ERL_NIF_TERM head, list;
    uint32_t seen = 0;
    int size, kind;

    if (!enif_get_tuple(env, term, &size, &part) || size != 4 ||
        !get_by(env, profile, part[0], &query->by) ||
        !get_filter(env, profile, part[3], &query->filter))
        return 0;
    query->dimension_count = 0;
    list = part[1];
    while (enif_get_list_cell(env, list, &head, &list)) {
        int d = fp_get_name(env, head, fp_dimension_names);

        if (d < 0 || seen >> d & 1) /* each once */
            return 0;
        seen |= 1u << d;
        query->dimension[query->dimension_count++] = (enum fp_dimension)d;
    }
    kind = fp_get_name(env, part[2], frames);
    query->without_lines = kind == 1 || kind == 4;
    query->without_stacks = kind == 2 || kind == 5;
    query->with_chains = kind >= 3;
    return kind >= 0;
}

/* ------------------------------------------------------------------- stacks -- */

struct stacks {
    ErlNifEnv *env;
    struct fp_query query;
    struct fp_aggregate sums;
    ERL_NIF_TERM *frames; /* by node: the list from it to the root, or 0 */
};

static ERL_NIF_TERM frame_term(struct stacks *stacks, uint32_t node)
{
    struct fp_slice symbol = fp_aggregate_symbol(&stacks->sums, node);
    struct fp_slice dso = fp_aggregate_dso(&stacks->sums, node);

    return enif_make_tuple2(stacks->env, fp_slice_term(stacks->env, symbol),
                            fp_slice_term(stacks->env, dso));
}

/* Lists share their tails as stacks share their callers. */
static ERL_NIF_TERM frames_term(struct stacks *stacks, uint32_t node)
{
    uint32_t nodes[FP_FRAMES_MOST];
    size_t count = fp_aggregate_stack(&stacks->sums, node, nodes);
    ERL_NIF_TERM list = enif_make_list(stacks->env, 0);

    for (size_t i = 0; i < count; i++) {
        ERL_NIF_TERM *known = &stacks->frames[nodes[i]];

        if (*known == 0)
            *known = enif_make_list_cell(stacks->env, frame_term(stacks, nodes[i]), list);
        list = *known;
    }
    return list;
}

static ERL_NIF_TERM group_term(struct stacks *stacks, const struct fp_group *group)
{
    ErlNifEnv *env = stacks->env;
    ERL_NIF_TERM dimensions = enif_make_list(env, 0);
    char room[FP_DIMENSION_BYTES];

    for (uint32_t i = stacks->query.dimension_count; i-- > 0;) {
        struct fp_slice text = fp_dimension_text(stacks->sums.profile, stacks->query.dimension[i],
                                                 group->code[i], room);

        dimensions = enif_make_list_cell(env, fp_slice_term(env, text), dimensions);
    }
    return enif_make_tuple4(env, dimensions, frames_term(stacks, group->node),
                            enif_make_uint64(env, group->weight),
                            enif_make_uint64(env, group->samples));
}

/* The heaviest first; among equal ones the first in the files. */
static int is_heavier(const void *a, const void *b)
{
    const struct fp_group *x = *(const struct fp_group *const *)a;
    const struct fp_group *y = *(const struct fp_group *const *)b;

    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x < y ? -1 : x > y;
}

static int stacks_term(struct stacks *stacks, uint64_t most, ERL_NIF_TERM *term)
{
    ErlNifEnv *env = stacks->env;
    const struct fp_aggregate *sums = &stacks->sums;
    const struct fp_group **order = malloc((sums->count + 1) * sizeof(struct fp_group *));
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t weight = 0, samples = 0;

    /* Without chains a tree of its own has at most as many nodes. */
    stacks->frames = calloc(stacks->sums.profile->tree.node_count + stacks->sums.node_count,
                            sizeof(*stacks->frames));
    if (order == NULL || stacks->frames == NULL) {
        free(order);
        return FP_ENOMEM;
    }
    for (size_t i = 0; i < sums->count; i++) {
        order[i] = &sums->group[i];
        weight = fp_sum(weight, order[i]->weight);
        samples = fp_sum(samples, order[i]->samples);
    }
    qsort(order, sums->count, sizeof(*order), is_heavier);
    for (size_t i = most < sums->count ? most : sums->count; i-- > 0;)
        list = enif_make_list_cell(env, group_term(stacks, order[i]), list);
    free(order);
    *term = enif_make_tuple4(env, enif_make_uint64(env, weight), enif_make_uint64(env, samples),
                             enif_make_uint64(env, sums->count), list);
    return 0;
}

/* (Profile, Query, Most) ->
 *     {ok, {Weight, Samples, Count, [{[Dimension], [{Symbol, Dso}], Weight, Samples}]}}
 *   | {error, {Atom, Text}}: the sums of all stacks, and the Most heaviest ones */
FP_HANDLE_NIF(fp_nif_profile_stacks, fp_profile_kind)
{
    struct stacks stacks = {.env = env};
    ErlNifUInt64 most;
    ERL_NIF_TERM term;
    int err;

    if (!enif_get_uint64(env, argv[2], &most) || !fp_get_query(env, object, argv[1], &stacks.query))
        return enif_make_badarg(env);
    err = fp_aggregate_make(&stacks.sums, object, &stacks.query);
    if (err == 0)
        err = stacks_term(&stacks, most, &term);
    fp_aggregate_free(&stacks.sums);
    free(stacks.frames);
    return err != 0 ? fp_report_error(env, err, "") : fp_ok(env, term);
}

/* The symbol of a C++ function -> its name; any other text -> the text. */
FP_REPORT_NIF(fp_nif_demangled)
{
    char room[FP_DEMANGLED_BYTES];
    struct fp_slice symbol, name;
    ErlNifBinary bytes;

    if (!enif_inspect_binary(env, argv[0], &bytes))
        return enif_make_badarg(env);
    symbol = (struct fp_slice){(const char *)bytes.data, bytes.size};
    name = fp_demangle(symbol, room);
    return name.at == room ? fp_slice_term(env, name) : argv[0];
}
