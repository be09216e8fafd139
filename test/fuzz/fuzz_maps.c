/* fuzz_maps.c - any text as /proc/self/maps, twice: what was there, and what is there now. */
#include "fuzz.h"

#include "base/error.h"
#include "base/maps.h"

static char *text_of(struct fuzz_input part)
{
    char *text = malloc(part.left + 1);

    FUZZ_CHECK(text != NULL);
    if (part.left > 0)
        memcpy(text, part.at, part.left);
    text[part.left] = '\0';
    return text;
}

static void check_ranges(const struct fp_ranges *ranges)
{
    FUZZ_CHECK(ranges->count <= FP_RANGES_MAX);
    for (uint32_t i = 0; i < ranges->count; i++) {
        const struct fp_range *range = &ranges->range[i];

        FUZZ_CHECK(range->start < range->end);
        FUZZ_CHECK(i == 0 || range[-1].end < range->start);
    }
}

/* All that is mapped now is known, and is so only once. */
static void check_live(struct fp_live_ranges *live, const struct fp_ranges *mapped)
{
    struct fp_ranges copy = {.count = 0};

    FUZZ_CHECK(!fp_live_ranges_update(live, mapped));
    fp_live_ranges_copy(live, &copy);
    FUZZ_CHECK(copy.count > 0 && copy.count <= FP_RANGES_MAX);
    for (uint32_t i = 0; i < copy.count; i++)
        FUZZ_CHECK(copy.range[i].start < copy.range[i].end);
    for (uint32_t i = 0; i < mapped->count && copy.count < FP_RANGES_MAX; i++)
        FUZZ_CHECK(fp_ranges_contain(&copy, mapped->range[i].start) &&
                   fp_ranges_contain(&copy, mapped->range[i].end - 1));
}

static void update(struct fp_live_ranges *live, const char *text)
{
    for (int i = 0; i < 2; i++) {
        struct fp_ranges ranges;
        int err = i == 0 ? fp_maps_parse_code(text, NULL, &ranges)
                         : fp_maps_parse_data(text, "/beam.smp", &ranges);

        FUZZ_CHECK(err == 0 || err == FP_ENOENT || err == FP_EFULL);
        check_ranges(&ranges);
        if (err != 0)
            continue;
        FUZZ_CHECK(ranges.count > 0);
        fp_live_ranges_update(live, &ranges);
        check_live(live, &ranges);
    }
}

static void list_files(const char *text, size_t size)
{
    struct fp_mapped_files files;
    char *own = strdup(text);

    FUZZ_CHECK(own != NULL);
    if (fp_mapped_files_parse(&files, own) != 0)
        return;
    for (size_t i = 0; i < files.count; i++) {
        const struct fp_mapped_file *file = &files.of[i];

        FUZZ_CHECK(file->start < file->end);
        FUZZ_CHECK(i == 0 || file[-1].end <= file->start);
        FUZZ_CHECK(file->path >= own && file->path < own + size);
        FUZZ_CHECK(file->path[0] == '/' || strcmp(file->path, "[vdso]") == 0);
    }
    fp_mapped_files_free(&files);
}

void fuzz_maps(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size};
    struct fp_live_ranges live = {0};
    char *before = text_of(fuzz_part(&input, size)), *now = text_of(input);

    update(&live, before);
    update(&live, now);
    list_files(before, strlen(before));
    list_files(now, strlen(now));
    free(before);
    free(now);
}
