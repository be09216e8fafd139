/* profile_text.h - a profile as text, so that tests can say what they expect: one line a sample,
 * `time thread status period frames... metric=value/delta`. It has the samples of all events. */
#pragma once

#include <stdio.h>

#include "bytes_source.h"
#include "report/profile.h"
#include "run.h"
#include "temporary.h"

#define GIGABYTE ((size_t)1 << 30)

static inline int profile_add(struct fp_profile *profile, const void *bytes, size_t size)
{
    struct fp_source *source;
    int more;

    CHECK_INT(bytes_source(&source, bytes, size), 0);
    more = fp_profile_begin(profile, source, FP_SLICE("memory"));
    if (more != 0)
        return more;
    while ((more = fp_profile_step(profile, 1 << 20)) > 0)
        ;
    return more;
}

static inline struct fp_profile *profile_of(const void *bytes, size_t size)
{
    struct fp_profile *profile;

    CHECK_INT(fp_profile_create(&profile, GIGABYTE), 0);
    CHECK_INT(fp_profile_choose_event(profile, FP_ALL_EVENTS, FP_SLICE("")), 0);
    CHECK_INT(profile_add(profile, bytes, size), 0);
    return profile;
}

static inline int profile_add_corpus(struct fp_profile *profile, const char *name)
{
    char path[256];
    size_t size;
    char *bytes;
    int err;

    snprintf(path, sizeof(path), "test/corpus/%s", name);
    bytes = temporary_read(path, &size);
    err = profile_add(profile, bytes, size);
    free(bytes);
    return err;
}

static inline struct fp_profile *profile_of_corpus(const char *name)
{
    struct fp_profile *profile;

    CHECK_INT(fp_profile_create(&profile, GIGABYTE), 0);
    CHECK_INT(fp_profile_choose_event(profile, FP_ALL_EVENTS, FP_SLICE("")), 0);
    CHECK_INT(profile_add_corpus(profile, name), 0);
    return profile;
}

/* A test of the profile that is made so. */
#define TEST_PROFILE(test, made)                                                                   \
    TEST_ON(test, struct fp_profile *, profile, made, fp_profile_destroy)

static inline void put_text(FILE *out, const struct fp_profile *profile, uint32_t id)
{
    struct fp_slice text = fp_profile_text(profile, id);

    fprintf(out, "%.*s", (int)text.size, text.at);
}

static inline void put_frames(FILE *out, const struct fp_profile *profile, uint32_t node)
{
    const struct fp_tree *tree = &profile->tree;

    for (; node != 0; node = tree->node[node].parent) {
        const struct fp_frame_ids *frame = &tree->frame[tree->node[node].frame];

        CHECK(tree->node[node].parent < node);
        fprintf(out, " ");
        put_text(out, profile, frame->symbol);
        fprintf(out, "@");
        put_text(out, profile, frame->dso);
    }
}

static inline void put_row(FILE *out, const struct fp_profile *profile, const struct fp_row *row)
{
    const struct fp_schema *schema = &profile->schema[row->schema];
    const struct fp_stack_ids *stack = &profile->tree.stack[row->stack];

    fprintf(out, "%lld ", (long long)row->time_us);
    put_text(out, profile, profile->process[row->process].thread);
    fprintf(out, " [");
    put_text(out, profile, stack->status);
    fprintf(out, "] %lld", (long long)row->period);
    put_frames(out, profile, stack->node);
    for (uint32_t i = 0; i < schema->count; i++) {
        fprintf(out, " ");
        put_text(out, profile, profile->metric[schema->metric[i]].name);
        fprintf(out, "=%lld/%lld", (long long)row->value[i], (long long)row->delta[i]);
    }
    fprintf(out, "\n");
}

/* free() it. */
static inline char *profile_text(struct fp_profile *profile)
{
    struct fp_cursor cursor;
    struct fp_row row;
    uint64_t count = 0;
    char *text;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    int more;

    CHECK(out != NULL);
    fp_cursor_open(&cursor, &profile->rows, profile->schema, &profile->budget);
    while ((more = fp_cursor_next(&cursor, &row)) > 0) {
        put_row(out, profile, &row);
        count++;
    }
    CHECK_INT(more, 0);
    CHECK_INT(count, profile->rows.count);
    fp_cursor_close(&cursor);
    fclose(out);
    return text;
}

static inline void check_profile(struct fp_profile *profile, const char *expected)
{
    char *text = profile_text(profile);

    CHECK_TEXT(text, expected);
    free(text);
}
