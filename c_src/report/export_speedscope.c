/*
 * speedscope.c - https://www.speedscope.app/file-format-schema.json
 *
 * Stacks are added up, in the order of their first samples: the view for these
 * files is `Left Heavy` or `Sandwich`. Frames come last in the file, when it is
 * known which levels there are.
 */
#include "base/assume.h"
#include "report/export.h"
#include "report/groups.h"
#include "report/text.h"

/* Frames of levels, behind those of the tree. */
struct level_frames {
    struct level_frame {
        enum fp_level level;
        uint32_t code;
    } * frame;
    size_t count, room;
    struct fp_table table;
};

static int intern_level(struct level_frames *frames, struct fp_budget *budget,
                        enum fp_level level, uint32_t code, uint32_t *id)
{
    uint64_t hash = fp_hash_two((uint64_t)level, code);
    struct fp_table_at at;
    int err;

    fp_table_seek(&frames->table, hash, &at);
    while (fp_table_next(&frames->table, &at, id)) {
        FP_ASSUME(frames->frame != NULL); /* what is in the table is there */
        if (frames->frame[*id].level == level &&
            frames->frame[*id].code == code)
            return 0;
    }
    *id = (uint32_t)frames->count;
    err = FP_GROW(budget, &frames->frame, &frames->room, frames->count + 1);
    if (err == 0)
        err = fp_table_put(&frames->table, budget, hash, *id);
    if (err == 0)
        frames->frame[frames->count++] = (struct level_frame){level, code};
    return err;
}

static int put_stack(struct fp_profile *profile,
                     const struct fp_aggregate *groups,
                     const struct fp_query *query, const struct fp_group *group,
                     struct level_frames *levels, struct fp_output *output)
{
    const struct fp_tree *tree = &profile->tree;
    uint32_t nodes[FP_FRAMES_MOST], id;
    size_t count =
        fp_aggregate_stack(groups, profile, group->node, nodes, FP_FRAMES_MOST);
    char room[FP_LEVEL_BYTES];
    int needs_comma = 0, err = 0;

    FP_OUTPUT_LITERAL(output, "[");
    for (uint32_t i = 0; i < query->level_count && err == 0; i++) {
        if (fp_level_text(profile, query->level[i], group->code[i], room)
                .size == 0)
            continue;
        err = intern_level(levels, &profile->budget, query->level[i],
                           group->code[i], &id);
        if (needs_comma)
            FP_OUTPUT_LITERAL(output, ",");
        fp_output_number(output, (int64_t)tree->frame_count + id);
        needs_comma = 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (needs_comma)
            FP_OUTPUT_LITERAL(output, ",");
        fp_output_number(output, tree->node[nodes[i]].frame);
        needs_comma = 1;
    }
    FP_OUTPUT_LITERAL(output, "]");
    return err;
}

static int put_profile(struct fp_profile *profile, struct fp_query *query,
                       struct level_frames *levels, struct fp_output *output)
{
    struct fp_aggregate groups;
    char room[160];
    uint64_t total = 0;
    struct fp_slice name = fp_measure_name(profile, &query->measure, room);
    int is_bytes = name.size >= 6 && memcmp(name.at, "memory", 6) == 0;
    int err;

    query->without_lines = 0; /* frames have a place for them */
    err = fp_aggregate_make(&groups, profile, query);
    FP_OUTPUT_LITERAL(output, "{\"type\":\"sampled\",\"name\":");
    fp_output_json(output, name);
    if (is_bytes)
        FP_OUTPUT_LITERAL(output, ",\"unit\":\"bytes\"");
    else
        FP_OUTPUT_LITERAL(output, ",\"unit\":\"none\"");
    FP_OUTPUT_LITERAL(output, ",\"startValue\":0,\"samples\":[");
    for (size_t i = 0; i < groups.count && err == 0; i++) {
        if (i > 0)
            FP_OUTPUT_LITERAL(output, ",\n");
        err = put_stack(profile, &groups, query, &groups.group[i], levels,
                        output);
    }
    FP_OUTPUT_LITERAL(output, "],\"weights\":[");
    for (size_t i = 0; i < groups.count; i++) {
        if (i > 0)
            FP_OUTPUT_LITERAL(output, ",");
        fp_output_number(output, (int64_t)groups.group[i].weight);
        total = fp_sum(total, groups.group[i].weight);
    }
    FP_OUTPUT_LITERAL(output, "],\"endValue\":");
    fp_output_number(output, (int64_t)total);
    FP_OUTPUT_LITERAL(output, "}");
    fp_aggregate_free(&groups);
    return err;
}

/* `room` has the bytes of the longest text. */
static void put_frame(struct fp_output *output, struct fp_slice symbol,
                      struct fp_slice dso, char *room)
{
    uint32_t line;

    symbol = fp_text_without_line(symbol, &line);
    FP_OUTPUT_LITERAL(output, "{\"name\":");
    fp_output_json(output, fp_text_decode(symbol, room));
    FP_OUTPUT_LITERAL(output, ",\"file\":");
    fp_output_json(output, fp_text_decode(dso, room));
    if (line > 0) {
        FP_OUTPUT_LITERAL(output, ",\"line\":");
        fp_output_number(output, line);
    }
    FP_OUTPUT_LITERAL(output, "}");
}

static int put_frames(const struct fp_profile *profile,
                      const struct level_frames *levels,
                      struct fp_output *output)
{
    const struct fp_tree *tree = &profile->tree;
    char *room = malloc(profile->strings.size + 1), small[FP_LEVEL_BYTES];

    if (room == NULL)
        return FP_ENOMEM;
    FP_OUTPUT_LITERAL(output, "{\"frames\":[");
    for (size_t i = 0; i < tree->frame_count; i++) {
        if (i > 0)
            FP_OUTPUT_LITERAL(output, ",\n");
        put_frame(output, fp_profile_text(profile, tree->frame[i].symbol),
                  fp_profile_text(profile, tree->frame[i].dso), room);
    }
    for (size_t i = 0; i < levels->count; i++) {
        const struct level_frame *frame = &levels->frame[i];
        const char *name = fp_level_name((int)frame->level);
        struct fp_slice file = {name, strlen(name)};

        if (i > 0 || tree->frame_count > 0)
            FP_OUTPUT_LITERAL(output, ",\n");
        put_frame(output,
                  fp_level_text(profile, frame->level, frame->code, small),
                  file, room);
    }
    FP_OUTPUT_LITERAL(output, "]}");
    free(room);
    return 0;
}

int fp_export_speedscope(struct fp_profile *profile, struct fp_query *queries,
                         uint32_t count, struct fp_output *output)
{
    struct level_frames levels = {0};
    struct fp_budget *budget = &profile->budget;
    int err = 0;

    FP_OUTPUT_LITERAL(
        output,
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
        "\"exporter\":\"flame_prof\",\"name\":");
    fp_output_json(output,
                   profile->file_count == 0
                       ? FP_SLICE("")
                       : fp_profile_text(profile, profile->file[0].path));
    FP_OUTPUT_LITERAL(output, ",\"activeProfileIndex\":0,\"profiles\":[");
    for (uint32_t i = 0; i < count && err == 0; i++) {
        if (i > 0)
            FP_OUTPUT_LITERAL(output, ",\n");
        err = put_profile(profile, &queries[i], &levels, output);
    }
    FP_OUTPUT_LITERAL(output, "],\"shared\":");
    if (err == 0)
        err = put_frames(profile, &levels, output);
    FP_OUTPUT_LITERAL(output, "}\n");
    fp_budget_free(budget, levels.frame, sizeof(*levels.frame), levels.room);
    fp_table_free(&levels.table, budget);
    return err;
}
