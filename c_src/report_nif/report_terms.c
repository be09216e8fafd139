#include "report_nif/report_nif.h"

ERL_NIF_TERM fp_report_error(ErlNifEnv *env, int err, const char *why)
{
    if (err == FP_EFULL)
        why = "the profile does not fit into max_memory";
    return fp_error_text(env, err, why);
}

int fp_get_path(ErlNifEnv *env, ERL_NIF_TERM term, char path[FP_PATH_BYTES])
{
    return fp_get_text(env, term, path, FP_PATH_BYTES) && path[0] != '\0';
}

ERL_NIF_TERM fp_slice_term(ErlNifEnv *env, struct fp_slice text)
{
    return fp_binary(env, text.size > 0 ? text.at : "", text.size);
}

static ERL_NIF_TERM field_term(ErlNifEnv *env, const struct fp_profile *profile,
                               enum fp_field_kind kind, const void *at)
{
    switch (kind) {
    case FP_FIELD_U64:
        return enif_make_uint64(env, *(const uint64_t *)at);
    case FP_FIELD_I64:
        return enif_make_int64(env, *(const int64_t *)at);
    case FP_FIELD_BOOL:
        return fp_boolean(env, *(const int *)at);
    case FP_FIELD_TEXT:
        return fp_slice_term(env, fp_profile_text(profile, *(const uint32_t *)at));
    case FP_FIELD_DIALECT:
        return fp_atom(env, fp_dialect_name(*(const enum fp_dialect *)at));
    default:
        return fp_atom(env, fp_source_kind_name(*(const enum fp_source_kind *)at));
    }
}

ERL_NIF_TERM fp_fields_map(ErlNifEnv *env, const struct fp_profile *profile,
                           const struct fp_field *fields, const void *item)
{
    ERL_NIF_TERM keys[FP_FIELDS_MOST], values[FP_FIELDS_MOST], map;
    size_t count = 0;

    for (; fields->key != NULL && (profile != NULL || fields->kind != FP_FIELD_TEXT); fields++) {
        keys[count] = fp_atom(env, fields->key);
        values[count++] = field_term(env, profile, fields->kind, (const char *)item + fields->at);
    }
    enif_make_map_from_arrays(env, keys, values, count, &map);
    return map;
}

ERL_NIF_TERM fp_file_map(ErlNifEnv *env, const struct fp_profile *profile,
                         const struct fp_file *file)
{
    static const struct fp_field fields[] = {
        FP_FIELD("samples", U64, fp_file, samples),
        FP_FIELD("bad", U64, fp_file, bad),
        FP_FIELD("dialect", DIALECT, fp_file, dialect),
        FP_FIELD("compression", COMPRESSION, fp_file, source.kind),
        FP_FIELD("bytes", U64, fp_file, source.bytes_in),
        FP_FIELD("text", U64, fp_file, source.text),
        FP_FIELD("damaged", U64, fp_file, source.damaged),
        FP_FIELD("lost_text", U64, fp_file, source.lost_text),
        FP_FIELD("shortened", U64, fp_file, shortened),
        FP_FIELD("cut_off", BOOL, fp_file, source.is_cut_off),
        FP_FIELD("perf_messages", U64, fp_file, messages.count),
        FP_FIELD("perf_lost", U64, fp_file, messages.lost_events),
        FP_FIELD("path", TEXT, fp_file, path),
        FP_FIELD("observations", U64, fp_file, observations),
        FP_FIELD("own", TEXT, fp_file, own),
        FP_FIELD("first_us", I64, fp_file, first_us),
        FP_FIELD("last_us", I64, fp_file, last_us),
        {NULL},
    };

    return fp_fields_map(env, profile, fields, file);
}
