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

struct speedscope_writing {
    struct fp_profile *profile;
    struct fp_output *output;
    struct dimension_frames dimensions;
    /* Of the last query. Without lines all have the same tree, and its names are the frames. */
    struct fp_aggregate sums;
};

/* The first name is the empty text, which no symbol is. */
static size_t frame_count(const struct speedscope_writing *w)
{
    if (w->sums.map == NULL)
        return w->profile->tree.frame_count;
    return w->sums.names.count == 0 ? 0 : w->sums.names.count - 1;
}

static uint32_t frame_of(const struct speedscope_writing *w, uint32_t node)
{
    return w->sums.map != NULL ? w->sums.node[node].frame - 1 : w->profile->tree.node[node].frame;
}

static int put_stack(struct speedscope_writing *w, const struct fp_query *query,
                     const struct fp_group *group)
{
    uint32_t nodes[FP_FRAMES_MOST], id;
    size_t count = fp_aggregate_stack(&w->sums, group->node, nodes);
    char room[FP_DIMENSION_BYTES];
    int err = 0;

    fp_json_begin(w->output, NULL, "[");
    for (uint32_t i = 0; i < query->dimension_count && err == 0; i++) {
        struct dimension_frame frame = {query->dimension[i], group->code[i]};

        if (fp_dimension_text(w->profile, frame.dimension, frame.code, room).size == 0)
            continue;
        err = intern_dimension(&w->dimensions, &w->profile->budget, frame, &id);
        fp_json_number(w->output, NULL, (int64_t)frame_count(w) + id);
    }
    for (size_t i = 0; i < count; i++)
        fp_json_number(w->output, NULL, frame_of(w, nodes[i]));
    fp_json_end(w->output, "]");
    return err;
}

static int put_profile(struct speedscope_writing *w, struct fp_query *query)
{
    struct fp_output *output = w->output;
    char room[160];
    uint64_t total = 0;
    struct fp_slice name = fp_by_name(w->profile, &query->by, room);
    int64_t bytes = fp_by_bytes(w->profile, &query->by);
    int err = fp_aggregate_make(&w->sums, w->profile, query);

    fp_json_begin(output, NULL, "{");
    fp_json_word(output, "type", "sampled");
    fp_json_text(output, "name", bytes > 1 ? FP_SLICE("allocated") : name);
    fp_json_word(output, "unit", bytes > 0 ? "bytes" : "none");
    fp_json_number(output, "startValue", 0);
    fp_json_begin(output, "samples", "[");
    for (size_t i = 0; i < w->sums.count && err == 0; i++)
        err = put_stack(w, query, &w->sums.group[i]);
    fp_json_end(output, "]");
    fp_json_begin(output, "weights", "[");
    for (size_t i = 0; i < w->sums.count; i++) {
        int64_t weight = fp_times((int64_t)w->sums.group[i].weight, bytes > 0 ? bytes : 1);

        fp_json_number(output, NULL, weight);
        total = fp_sum(total, (uint64_t)weight);
    }
    fp_json_end(output, "]");
    fp_json_number(output, "endValue", (int64_t)total);
    fp_json_end(output, "}");
    return err;
}

/* `room` is for a text. speedscope lists frames by their names: with a line, the name has it, and
 * each frame can be told from the others of its function. */
static void put_frame(struct fp_output *output, struct fp_slice name, struct fp_slice dso,
                      uint32_t line, char *room)
{
    fp_json_begin(output, NULL, "{");
    fp_json_text(output, "name", name);
    fp_json_text(output, "file", fp_text_decode(dso, room));
    if (line > 0)
        fp_json_number(output, "line", line);
    fp_json_end(output, "}");
}

static void put_function(struct speedscope_writing *w, size_t i, char *room)
{
    const struct fp_profile *profile = w->profile;
    const struct fp_frame_ids *frame = &profile->tree.frame[i];
    bool is_own = w->sums.map != NULL;
    struct fp_slice symbol = is_own ? fp_strings_at(&w->sums.names, (uint32_t)i + 1)
                                    : fp_profile_text(profile, frame->symbol);
    uint32_t line;

    fp_text_without_line(symbol, &line);
    put_frame(w->output, fp_text_symbol(symbol, room),
              fp_profile_text(profile, is_own ? w->sums.dso[i + 1] : frame->dso), line, room);
}

static int put_frames(struct speedscope_writing *w)
{
    const struct dimension_frames *dimensions = &w->dimensions;
    char *room = malloc(FP_TEXT_ROOM(w->profile->strings.size)), small[FP_DIMENSION_BYTES];

    if (room == NULL)
        return FP_ENOMEM;
    fp_json_begin(w->output, "shared", "{");
    fp_json_begin(w->output, "frames", "[");
    for (size_t i = 0; i < frame_count(w); i++)
        put_function(w, i, room);
    for (size_t i = 0; i < dimensions->frame_count; i++) {
        const struct dimension_frame *frame = &dimensions->frame[i];
        const char *name = fp_dimension_names[frame->dimension];
        struct fp_slice text = fp_dimension_text(w->profile, frame->dimension, frame->code, small);

        put_frame(w->output, fp_text_decode(text, room), (struct fp_slice){name, strlen(name)}, 0,
                  room);
    }
    fp_json_end(w->output, "]");
    fp_json_end(w->output, "}");
    free(room);
    return 0;
}

int fp_export_speedscope(struct fp_profile *profile, struct fp_query *queries, uint32_t count,
                         struct fp_output *output)
{
    struct speedscope_writing w = {.profile = profile, .output = output};
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
    for (uint32_t i = 0; i < count && err == 0; i++) {
        if (i > 0)
            fp_aggregate_free(&w.sums);
        queries[i].without_lines = queries[0].without_lines;
        queries[i].with_names = 1;
        err = put_profile(&w, &queries[i]);
    }
    fp_json_end(output, "]");
    if (err == 0)
        err = put_frames(&w);
    fp_json_end(output, "}");
    fp_aggregate_free(&w.sums);
    FP_FREE(budget, w.dimensions.frame, w.dimensions.frame_room);
    fp_table_free(&w.dimensions.frames, budget);
    return err;
}
