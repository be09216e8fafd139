/* export_speedscope.c - https://www.speedscope.app/file-format-schema.json
 *
 * Stacks are added up, in the order of their first samples: the view for these files is `Left
 * Heavy` or `Sandwich`. Frames come last in the file, when all groups of dimensions are known. */
#include <stdbool.h>

#include "report/export.h"
#include "report/text.h"

/* Frames of dimensions, behind those of the tree. */
struct dimension_frames {
    struct dimension_frame {
        enum fp_dimension dimension;
        uint32_t code;
    } * frame;
    size_t frame_count, frame_room;
    struct fp_table frames;
};

FP_INTERN_PAIR(intern_dimension, struct dimension_frames, struct dimension_frame, frame, frames,
               dimension, code)

static int put_stack(const struct fp_aggregate *sums, const struct fp_query *query,
                     const struct fp_group *group, struct dimension_frames *dimensions,
                     struct fp_output *output)
{
    struct fp_profile *profile = sums->profile;
    const struct fp_tree *tree = &profile->tree;
    uint32_t nodes[FP_FRAMES_MOST], id;
    size_t count = fp_aggregate_stack(sums, group->node, nodes);
    char room[FP_DIMENSION_BYTES];
    int err = 0;

    fp_json_begin(output, NULL, "[");
    for (uint32_t i = 0; i < query->dimension_count && err == 0; i++) {
        if (fp_dimension_text(profile, query->dimension[i], group->code[i], room).size == 0)
            continue;
        err = intern_dimension(dimensions, &profile->budget,
                               (struct dimension_frame){query->dimension[i], group->code[i]}, &id);
        fp_json_number(output, NULL, (int64_t)tree->frame_count + id);
    }
    for (size_t i = 0; i < count; i++)
        fp_json_number(output, NULL, tree->node[nodes[i]].frame);
    fp_json_end(output, "]");
    return err;
}

static int put_profile(struct fp_profile *profile, struct fp_query *query,
                       struct dimension_frames *dimensions, struct fp_output *output)
{
    struct fp_aggregate sums;
    char room[160];
    uint64_t total = 0;
    struct fp_slice name = fp_by_name(profile, &query->by, room);
    bool is_bytes = name.size >= 6 && memcmp(name.at, "memory", 6) == 0;
    int err;

    query->without_lines = 0; /* frames have a place for them */
    err = fp_aggregate_make(&sums, profile, query);
    fp_json_begin(output, NULL, "{");
    fp_json_word(output, "type", "sampled");
    fp_json_text(output, "name", name);
    fp_json_word(output, "unit", is_bytes ? "bytes" : "none");
    fp_json_number(output, "startValue", 0);
    fp_json_begin(output, "samples", "[");
    for (size_t i = 0; i < sums.count && err == 0; i++)
        err = put_stack(&sums, query, &sums.group[i], dimensions, output);
    fp_json_end(output, "]");
    fp_json_begin(output, "weights", "[");
    for (size_t i = 0; i < sums.count; i++) {
        fp_json_number(output, NULL, (int64_t)sums.group[i].weight);
        total = fp_sum(total, sums.group[i].weight);
    }
    fp_json_end(output, "]");
    fp_json_number(output, "endValue", (int64_t)total);
    fp_json_end(output, "}");
    fp_aggregate_free(&sums);
    return err;
}

/* `room` has the bytes of the longest text. */
static void put_frame(struct fp_output *output, struct fp_slice symbol, struct fp_slice dso,
                      char *room)
{
    uint32_t line;

    symbol = fp_text_without_line(symbol, &line);
    fp_json_begin(output, NULL, "{");
    fp_json_text(output, "name", fp_text_decode(symbol, room));
    fp_json_text(output, "file", fp_text_decode(dso, room));
    if (line > 0)
        fp_json_number(output, "line", line);
    fp_json_end(output, "}");
}

static int put_frames(const struct fp_profile *profile, const struct dimension_frames *dimensions,
                      struct fp_output *output)
{
    const struct fp_tree *tree = &profile->tree;
    char *room = malloc(FP_TEXT_ROOM(profile->strings.size)), small[FP_DIMENSION_BYTES];

    if (room == NULL)
        return FP_ENOMEM;
    fp_json_begin(output, "shared", "{");
    fp_json_begin(output, "frames", "[");
    for (size_t i = 0; i < tree->frame_count; i++)
        put_frame(output, fp_profile_text(profile, tree->frame[i].symbol),
                  fp_profile_text(profile, tree->frame[i].dso), room);
    for (size_t i = 0; i < dimensions->frame_count; i++) {
        const struct dimension_frame *frame = &dimensions->frame[i];
        const char *name = fp_dimension_names[frame->dimension];

        put_frame(output, fp_dimension_text(profile, frame->dimension, frame->code, small),
                  (struct fp_slice){name, strlen(name)}, room);
    }
    fp_json_end(output, "]");
    fp_json_end(output, "}");
    free(room);
    return 0;
}

int fp_export_speedscope(struct fp_profile *profile, struct fp_query *queries, uint32_t count,
                         struct fp_output *output)
{
    struct dimension_frames dimensions = {0};
    struct fp_budget *budget = &profile->budget;
    int err = 0;

    fp_json_begin(output, NULL, "{");
    fp_json_word(output, "$schema", "https://www.speedscope.app/file-format-schema.json");
    fp_json_word(output, "exporter", "flame_prof");
    fp_json_text(output, "name",
                 profile->file_count == 0 ? FP_SLICE("")
                                          : fp_profile_text(profile, profile->file[0].path));
    fp_json_number(output, "activeProfileIndex", 0);
    fp_json_begin(output, "profiles", "[");
    for (uint32_t i = 0; i < count && err == 0; i++)
        err = put_profile(profile, &queries[i], &dimensions, output);
    fp_json_end(output, "]");
    if (err == 0)
        err = put_frames(profile, &dimensions, output);
    fp_json_end(output, "}");
    FP_FREE(budget, dimensions.frame, dimensions.frame_room);
    fp_table_free(&dimensions.frames, budget);
    return err;
}
