#include "report_nif/report_nif.h"
#include "terms/terms.h"

ERL_NIF_TERM fp_report_error(ErlNifEnv *env, int err, const char *why)
{
    if (err == FP_EFULL)
        why = "the profile does not fit into max_memory";
    return fp_error_text(env, err, why);
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
        return fp_atom(env, *(const int *)at ? "true" : "false");
    case FP_FIELD_TEXT:
        return fp_slice_term(env, fp_profile_text(profile, *(const uint32_t *)at));
    case FP_FIELD_DIALECT:
        return fp_atom(env, fp_dialect_name(*(const enum fp_dialect *)at));
    default:
        return fp_atom(env, fp_source_kind_name(*(const enum fp_source_kind *)at));
    }
}

ERL_NIF_TERM fp_fields_map(ErlNifEnv *env, const struct fp_profile *profile,
                           const struct fp_field *fields, size_t count, const void *item)
{
    ERL_NIF_TERM keys[FP_FIELDS_MOST], values[FP_FIELDS_MOST], map;

    for (size_t i = 0; i < count; i++) {
        keys[i] = fp_atom(env, fields[i].key);
        values[i] = field_term(env, profile, fields[i].kind, (const char *)item + fields[i].at);
    }
    enif_make_map_from_arrays(env, keys, values, count, &map);
    return map;
}

#define OF_FILE(key, kind, member)                                                                 \
    {                                                                                              \
        key, FP_FIELD_##kind, offsetof(struct fp_file, member)                                     \
    }
#define READER_FIELDS 8

ERL_NIF_TERM fp_file_map(ErlNifEnv *env, const struct fp_profile *profile,
                         const struct fp_file *file)
{
    static const struct fp_field fields[] = {
        OF_FILE("samples", U64, samples),
        OF_FILE("bad", U64, bad),
        OF_FILE("dialect", DIALECT, dialect),
        OF_FILE("compression", COMPRESSION, source.kind),
        OF_FILE("bytes", U64, source.bytes_in),
        OF_FILE("text", U64, source.text),
        OF_FILE("damaged", U64, source.damaged),
        OF_FILE("cut_off", BOOL, source.is_cut_off),
        OF_FILE("path", TEXT, path),
        OF_FILE("looks", U64, observations),
        OF_FILE("own", TEXT, own),
        OF_FILE("first_us", I64, first_us),
        OF_FILE("last_us", I64, last_us),
    };
    size_t count = sizeof(fields) / sizeof(fields[0]);

    return fp_fields_map(env, profile, fields, profile == NULL ? READER_FIELDS : count, file);
}
