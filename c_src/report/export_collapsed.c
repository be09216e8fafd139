/* export_collapsed.c - stacks as lines. Names stay percent-encoded as they are in the file: a `;`
 * or a blank in one would be taken for structure. */
#include <stdio.h>

#include "format/encode.h"
#include "report/export.h"
#include "report/text.h"

struct fp_slice fp_metric_unit(struct fp_slice name)
{
    static const char size[] = "_size";
    const size_t length = sizeof(size) - 1;

    if (fp_slice_is(name, FP_SLICE("memory")))
        return FP_SLICE("bytes");
    if (fp_slice_is(name, FP_SLICE("words"))) /* of allocations */
        return FP_SLICE("words");
    if (name.size > length && memcmp(name.at + name.size - length, size, length) == 0)
        return FP_SLICE("words");
    return FP_SLICE("count");
}

int64_t fp_by_bytes(const struct fp_profile *profile, const struct fp_by *by)
{
    struct fp_slice name;

    if (by->kind < FP_BY_VALUE)
        return by->kind == FP_BY_PERIOD && fp_profile_is_of_allocations(profile) ? 8 : 0;
    name = fp_profile_text(profile, profile->metric[by->metric].name);
    if (fp_slice_is(name, FP_SLICE("words")))
        return 8;
    return fp_slice_is(name, FP_SLICE("memory"));
}

struct fp_slice fp_by_name(const struct fp_profile *profile, const struct fp_by *by, char *room)
{
    struct fp_slice metric;
    int length;

    if (by->kind == FP_BY_SAMPLES)
        return FP_SLICE("samples");
    if (by->kind == FP_BY_PERIOD)
        return FP_SLICE("period");
    metric = fp_profile_text(profile, profile->metric[by->metric].name);
    length = snprintf(room, 160, "%.*s%s", (int)(metric.size > 128 ? 128 : metric.size), metric.at,
                      by->kind == FP_BY_DELTA ? " delta" : "");
    return (struct fp_slice){room, (size_t)length};
}

/* A dimension's text is encoded already, but for the names of files and of perf's commands. */
static void put_dimension(struct fp_output *output, struct fp_slice text, char *name)
{
    text = fp_text_visible(text, name);
    for (size_t i = 0; i < text.size; i++) {
        char encoded[3];

        if ((unsigned char)text.at[i] >= 0x80 || text.at[i] == '%' || text.at[i] == '<' ||
            text.at[i] == '>')
            fp_output_put(output, text.at + i, 1);
        else
            fp_output_put(
                output, encoded,
                (size_t)(fp_put_encoded(encoded, (struct fp_slice){text.at + i, 1}) - encoded));
    }
    if (text.size > 0)
        FP_OUTPUT_LITERAL(output, ";");
}

/* The name of one that is waited for, with its blanks as underscores. */
static void put_waits_for(struct fp_output *output, struct fp_slice name)
{
    static const struct {
        struct fp_slice encoded;
        const char *plain;
    } pairs[] = {{{"%20", 3}, "_"}, {{"%3C", 3}, "<"}, {{"%3E", 3}, ">"}};

    for (size_t i = 0; i < name.size; i++) {
        const char *plain = name.at + i;

        for (size_t p = 0; p < 3; p++) {
            if (name.size - i >= 3 && memcmp(name.at + i, pairs[p].encoded.at, 3) == 0)
                plain = pairs[p].plain;
        }
        fp_output_put(output, plain, 1);
        i += plain == name.at + i ? 0 : 2;
    }
}

static void put_symbol(const struct fp_aggregate *sums, uint32_t node, struct fp_output *output,
                       char *name)
{
    char room[FP_DEMANGLED_BYTES];
    struct fp_slice text =
        fp_text_visible(fp_demangle(fp_aggregate_symbol(sums, node), room), name);

    if (sums->map != NULL && fp_slice_is(fp_aggregate_dso(sums, node), FP_SLICE("waits_for")))
        put_waits_for(output, text);
    else
        fp_output_text(output, text);
}

static void put_group(const struct fp_aggregate *sums, const struct fp_query *query,
                      const struct fp_group *group, struct fp_output *output, char *name)
{
    uint32_t nodes[FP_FRAMES_MOST];
    size_t count = fp_aggregate_stack(sums, group->node, nodes);
    char room[FP_DIMENSION_BYTES];

    for (uint32_t i = 0; i < query->dimension_count; i++)
        put_dimension(output,
                      fp_dimension_text(sums->profile, query->dimension[i], group->code[i], room),
                      name);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            FP_OUTPUT_LITERAL(output, ";");
        put_symbol(sums, nodes[i], output, name);
    }
    if (count == 0)
        FP_OUTPUT_LITERAL(output, "[no_frames]");
    FP_OUTPUT_LITERAL(output, " ");
    fp_output_number(output, (int64_t)group->weight);
    FP_OUTPUT_LITERAL(output, "\n");
}

int fp_export_collapsed(struct fp_profile *profile, struct fp_query *query,
                        struct fp_output *output, uint64_t *total)
{
    struct fp_aggregate sums;
    char *name = malloc(FP_TEXT_ROOM(profile->strings.size));
    int err;

    query->with_names = 1;
    err = fp_aggregate_make(&sums, profile, query);
    if (err == 0 && name == NULL)
        err = FP_ENOMEM;
    *total = 0;
    for (size_t i = 0; i < sums.count && err == 0; i++) {
        *total = fp_sum(*total, sums.group[i].weight);
        put_group(&sums, query, &sums.group[i], output, name);
    }
    free(name);
    fp_aggregate_free(&sums);
    return err;
}
