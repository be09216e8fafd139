/* fuzz_functions.c - all functions of any code, and the perf map of them. */
#include "fuzz.h"

#include "base/error.h"
#include "erts/perf_map.h"

#define LOADED 4

static void check_functions(const struct fp_functions *found, const struct fp_ranges *ranges)
{
    for (uint32_t i = 0; i < found->functions; i++) {
        const struct fp_function *function = &found->function[i];

        FUZZ_CHECK(fp_ranges_contain(ranges, function->mfa_at));
        FUZZ_CHECK(function->start == function->mfa_at + 24 && function->end >= function->start);
        FUZZ_CHECK(i == 0 || function[-1].mfa_at < function->mfa_at);
        FUZZ_CHECK(i == 0 || function[-1].end <= function->start);
        FUZZ_CHECK(function->mfa[2] < 256);
        FUZZ_CHECK(function->module == FP_NO_MODULE || (function->module < found->modules &&
                                                        i - found->module[function->module].first <
                                                            found->module[function->module].count));
    }
}

static void check_modules(const struct fp_functions *found)
{
    for (uint32_t i = 0; i < found->modules; i++) {
        const struct fp_module *module = &found->module[i];

        FUZZ_CHECK(module->count > 0 && module->first < found->functions &&
                   module->count <= found->functions - module->first);
        FUZZ_CHECK(i == 0 || module[-1].first + module[-1].count <= module->first);
        FUZZ_CHECK(module->start <= found->function[module->first].start);
        for (uint32_t k = 0; k < module->count; k++)
            FUZZ_CHECK(found->function[module->first + k].module == i);
    }
    for (uint32_t i = 0; i < found->shared.count; i++)
        FUZZ_CHECK(found->shared.range[i].start < found->shared.range[i].end);
}

/* START SIZE SYMBOL LF, sorted, disjoint. */
static void check_map(const struct fp_buffer *text, uint64_t functions)
{
    const char *at = text->bytes, *end = at == NULL ? at : at + text->size;
    uint64_t last = 0, lines = 0;

    while (at < end) {
        char *rest;
        uint64_t start = strtoull(at, &rest, 16), size;

        FUZZ_CHECK(rest > at && *rest == ' ');
        size = strtoull(rest + 1, &rest, 16);
        FUZZ_CHECK(size > 0 && *rest == ' ');
        FUZZ_CHECK(start >= last);
        last = start + size;
        at = memchr(rest, '\n', (size_t)(end - rest));
        FUZZ_CHECK(at != NULL && at > rest + 1);
        at++;
        lines++;
    }
    FUZZ_CHECK(lines >= functions && lines <= functions + FP_RANGES_MAX);
}

static void print_map(const struct fp_functions *found, struct fuzz_input *choice,
                      const struct fp_layout *layout, struct fuzz_memory *memory)
{
    struct fp_buffer text = {0};
    struct fp_loaded loaded[LOADED] = {{0}};
    struct fp_perf_map_count count;
    int err;

    for (int i = 0; i < LOADED; i++) {
        uint8_t flags = fuzz_u8(choice);
        const struct fp_module *module =
            found->modules == 0 ? NULL : &found->module[flags % found->modules];

        loaded[i].has_md5 = flags >> 6 & 1;
        loaded[i].has_old = flags >> 7;
        loaded[i].name = module == NULL ? flags : module->name;
        if (module != NULL && (flags & 0x20) != 0)
            memcpy(loaded[i].md5, module->md5, FP_MD5_SIZE);
    }
    err = fp_perf_map_text(&text, found, loaded, LOADED, layout, &memory->memory.reader, &count);
    FUZZ_CHECK(err == 0 || err == FP_ENOMEM);
    if (err == 0) {
        FUZZ_CHECK(count.functions + count.left_out == found->functions);
        /* Two reads of text an atom, and four to get there. */
        check_map(&text, count.functions);
    }
    fp_buffer_free(&text);
}

void fuzz_functions(const uint8_t *bytes, size_t size)
{
    struct fuzz_input input = {bytes, size}, choice;
    struct fuzz_memory memory;
    struct fp_functions found;
    struct fp_layout layout;
    struct fp_ranges ranges;
    int err;

    fuzz_layout_of(&input, &layout);
    layout.atom_segments = fuzz_address(&input);
    layout.atom_entries = fuzz_address(&input);
    fuzz_ranges(&input, &ranges);
    choice = fuzz_part(&input, LOADED);
    fuzz_memory_create(&memory, &input);
    err = fp_functions_read(&found, &layout.release, &memory.memory.reader, &ranges);
    FUZZ_CHECK(err == 0 || err == FP_ENOMEM || err == FP_EFULL);
    /* Of each function: what is before it, up to its predecessor, and what may be its module's
     * table. */
    if (err == 0) {
        FUZZ_CHECK(fuzz_memory_asked(&memory) <=
                   2048 + 64ull * found.functions * (found.functions + 1));
        check_functions(&found, &ranges);
        check_modules(&found);
        print_map(&found, &choice, &layout, &memory);
        fp_functions_free(&found);
    }
    fuzz_memory_destroy(&memory);
}
