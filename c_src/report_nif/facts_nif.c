/* facts_nif.c - the facts of each process, and the profiler's own numbers, as terms. Dirty CPU
 * schedulers only. */
#include "report/facts.h"
#include "report_nif/report_nif.h"

/* Own samples that are told at most; of more, as many to each stretch. */
#define FIGURES_MOST 1024

static void put_i64(ErlNifEnv *env, ERL_NIF_TERM *map, const char *key, int64_t value)
{
    fp_map_put(env, map, key, enif_make_int64(env, value));
}

static ERL_NIF_TERM range_term(ErlNifEnv *env, const struct fp_facts_range *range)
{
    return enif_make_tuple4(env, enif_make_int64(env, range->first),
                            enif_make_int64(env, range->min), enif_make_int64(env, range->max),
                            enif_make_int64(env, range->last));
}

/* none, or #{us, since_us, frame, scheduler, count, all_us} */
static ERL_NIF_TERM stays_term(ErlNifEnv *env, const struct fp_profile *profile,
                               const struct fp_stays *stays)
{
    const struct fp_stay *longest = &stays->longest;
    struct fp_frame_ids frame = {0};
    ERL_NIF_TERM map = enif_make_new_map(env);

    if (longest->samples == 0)
        return fp_atom(env, "none");
    if (longest->frame != FP_FACTS_NO_FRAME)
        frame = profile->tree.frame[longest->frame];
    put_i64(env, &map, "us", longest->until_us - longest->since_us);
    put_i64(env, &map, "since_us", longest->since_us);
    fp_map_put(env, &map, "frame",
               enif_make_tuple2(env, fp_slice_term(env, fp_profile_text(profile, frame.symbol)),
                                fp_slice_term(env, fp_profile_text(profile, frame.dso))));
    fp_map_put_u64(env, &map, "scheduler", longest->scheduler);
    fp_map_put_u64(env, &map, "samples", longest->samples);
    fp_map_put_u64(env, &map, "count", stays->count);
    fp_map_put_u64(env, &map, "all_us", stays->us);
    return map;
}

/* [{TimeUs, [{First, Min, Max, Last}]}], the numbers in the order of enum fp_facts_number */
static ERL_NIF_TERM parts_term(ErlNifEnv *env, const struct fp_process_facts *facts)
{
    ERL_NIF_TERM list = enif_make_list(env, 0), of[FP_FACTS_NUMBERS];

    for (int i = facts->part == NULL ? 0 : FP_FACTS_PARTS; i-- > 0;) {
        const struct fp_facts_part *part = &facts->part[i];

        if (part->time_us == 0)
            continue;
        for (int n = 0; n < FP_FACTS_NUMBERS; n++)
            of[n] = range_term(env, &part->of[n]);
        list = enif_make_list_cell(
            env,
            enif_make_tuple2(env, enif_make_int64(env, part->time_us),
                             enif_make_list_from_array(env, of, FP_FACTS_NUMBERS)),
            list);
    }
    return list;
}

static ERL_NIF_TERM process_term(ErlNifEnv *env, const struct fp_profile *profile,
                                 const struct fp_process_facts *facts)
{
    static const char *const statuses[] = {"running", "runnable", "waiting", "gc", "other"};
    static const char *const numbers[FP_FACTS_NUMBERS] = {"queue_range", "memory_range",
                                                          "bin_vheap_range", "survived_range"};
    ERL_NIF_TERM map = enif_make_new_map(env);

    for (int i = 0; i < FP_FACTS_STATUSES; i++)
        fp_map_put_u64(env, &map, statuses[i], facts->observations[i]);
    for (int i = 0; i < FP_FACTS_NUMBERS; i++)
        fp_map_put(env, &map, numbers[i], range_term(env, &facts->range[i]));
    put_i64(env, &map, "reductions", facts->reductions);
    fp_map_put(env, &map, "longest_native", stays_term(env, profile, &facts->native));
    fp_map_put(env, &map, "longest_gc", stays_term(env, profile, &facts->collections));
    fp_map_put(env, &map, "parts", parts_term(env, facts));
    return map;
}

/* {Process, waits_for | serves, Text, Observations} */
static ERL_NIF_TERM text_term(ErlNifEnv *env, const struct fp_profile *profile,
                              const struct fp_facts_text *text)
{
    return enif_make_tuple4(env, enif_make_uint(env, text->first),
                            fp_atom(env, text->second % 2 == 1 ? "serves" : "waits_for"),
                            fp_slice_term(env, fp_profile_text(profile, text->second / 2)),
                            enif_make_uint64(env, text->observations));
}

/* ---- the profiler's own ------------------------------------------------- */

static ERL_NIF_TERM figure_term(ErlNifEnv *env, const struct fp_profile *profile,
                                const struct fp_row *row)
{
    const struct fp_schema *schema = &profile->schema[row->schema];
    ERL_NIF_TERM keys[FP_METRICS_MOST + 1], values[FP_METRICS_MOST + 1], map;
    size_t count = schema->count;

    for (size_t i = 0; i < count; i++) {
        keys[i] =
            fp_slice_term(env, fp_profile_text(profile, profile->metric[schema->metric[i]].name));
        values[i] = enif_make_tuple2(env, enif_make_int64(env, row->value[i]),
                                     enif_make_int64(env, row->delta[i]));
    }
    keys[count] = fp_atom(env, "time_us");
    values[count] = enif_make_int64(env, row->time_us);
    enif_make_map_from_arrays(env, keys, values, count + 1, &map);
    return map;
}

/* [#{time_us => TimeUs, Name => {Value, Change}}], the first and the last one always. */
static int figures_term(ErlNifEnv *env, struct fp_profile *profile, uint32_t own,
                        ERL_NIF_TERM *list)
{
    uint64_t count = own == UINT32_MAX ? 0 : profile->process[own].samples, at = 0;
    uint64_t step = count / FIGURES_MOST + 1;
    struct fp_cursor cursor;
    struct fp_row row;
    int more = 0;

    *list = enif_make_list(env, 0);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while (count > at && (more = fp_cursor_next(&cursor, &row)) > 0) {
        if (row.process != own)
            continue;
        if (at % step == 0 || at + 1 == count)
            *list = enif_make_list_cell(env, figure_term(env, profile, &row), *list);
        at++;
    }
    fp_cursor_close(&cursor);
    enif_make_reverse_list(env, *list, list);
    return more < 0 ? more : 0;
}

/* Profile -> {ok, {[Process], [Text], [Figure]}} | {error, {Atom, Text}}: the processes as
 * profile_processes has them */
FP_HANDLE_NIF(fp_nif_profile_facts, fp_profile_kind)
{
    struct fp_profile *profile = object;
    ERL_NIF_TERM processes = enif_make_list(env, 0), texts = processes, figures;
    struct fp_facts facts;
    int err = fp_facts_make(&facts, profile);

    for (size_t i = facts.process_count; i-- > 0 && err == 0;)
        processes =
            enif_make_list_cell(env, process_term(env, profile, &facts.process[i]), processes);
    for (size_t i = facts.text_count; i-- > 0 && err == 0;)
        texts = enif_make_list_cell(env, text_term(env, profile, &facts.text[i]), texts);
    if (err == 0)
        err = figures_term(env, profile, facts.own, &figures);
    fp_facts_free(&facts, &profile->budget);
    return err != 0 ? fp_report_error(env, err, "")
                    : fp_ok(env, enif_make_tuple3(env, processes, texts, figures));
}
