#include "erts/perf_map.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "erts/atom.h"
#include "format/write_frame.h"

static int by_name(const void *a, const void *b)
{
    const struct fp_loaded *x = a, *y = b;

    return x->name < y->name ? -1 : x->name > y->name;
}

/* Is it code of a module that is loaded: the current code, as far as that can be told? */
static int is_loaded(const struct fp_module *module, const struct fp_loaded *loaded, size_t n)
{
    struct fp_loaded key = {.name = module->name};
    const struct fp_loaded *it = n == 0 ? NULL : bsearch(&key, loaded, n, sizeof *loaded, by_name);

    return it != NULL && (it->has_old || !it->has_md5 || !module->has_md5 ||
                          memcmp(it->md5, module->md5, FP_MD5_SIZE) == 0);
}

struct writer {
    struct fp_buffer *text;
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    uint32_t module; /* of the function before */
    int module_size; /* of its name; FP_ENOENT: its functions are left out */
    char module_text[FP_ATOM_TEXT_MAX];
};

static int put_place(struct fp_buffer *text, uint64_t start, uint64_t end)
{
    char place[40];
    int size = snprintf(place, sizeof place, "%" PRIx64 " %" PRIx64 " ", start, end - start);

    return fp_buffer_append(text, place, (size_t)size);
}

static int put_shared(struct fp_buffer *text, const struct fp_range *range)
{
    static const char name[] = "[jit shared]\n";
    int err = put_place(text, range->start, range->end);

    return err != 0 ? err : fp_buffer_append(text, name, sizeof name - 1);
}

/* 0; FP_ENOENT: it is left out; FP_ENOMEM. */
static int put_function(struct writer *writer, const struct fp_function *function)
{
    char name[FP_ATOM_TEXT_MAX];
    struct fp_frame frame = {.arity = function->mfa[2]};
    int size, err;

    if (writer->module_size < 0 || function->end <= function->start)
        return FP_ENOENT;
    size = fp_atom_text(writer->layout, writer->memory, function->mfa[1], name);
    if (size < 0)
        return FP_ENOENT;
    frame.module = (struct fp_slice){writer->module_text, (size_t)writer->module_size};
    frame.function = (struct fp_slice){name, (size_t)size};
    err = put_place(writer->text, function->start, function->end);
    if (err == 0)
        err = fp_buffer_reserve(writer->text, fp_frame_room(&frame) + 1);
    if (err == 0)
        fp_buffer_end(writer->text,
                      FP_PUT_LITERAL(fp_put_function(fp_buffer_at(writer->text), &frame), "\n"));
    return err;
}

int fp_perf_map_text(struct fp_buffer *text, const struct fp_functions *functions,
                     struct fp_loaded *loaded, size_t n, const struct fp_layout *layout,
                     const struct fp_memory *memory, struct fp_perf_map_count *count)
{
    struct writer w = {text, layout, memory, FP_NO_MODULE, FP_ENOENT, ""};
    const struct fp_range *shared = functions->shared.range;
    const struct fp_range *shared_end = shared + functions->shared.count;
    int err = 0;

    *count = (struct fp_perf_map_count){0, 0};
    if (n > 0)
        qsort(loaded, n, sizeof *loaded, by_name);
    for (uint32_t i = 0; i < functions->functions && err == 0; i++) {
        const struct fp_function *function = &functions->function[i];

        if (function->module != w.module) {
            w.module = function->module;
            w.module_size = FP_ENOENT;
            if (w.module != FP_NO_MODULE && is_loaded(&functions->module[w.module], loaded, n))
                w.module_size = fp_atom_text(layout, memory, function->mfa[0], w.module_text);
        }
        while (shared < shared_end && shared->start < function->start && err == 0)
            err = put_shared(text, shared++);
        if (err == 0)
            err = put_function(&w, function);
        if (err == 0)
            count->functions++;
        if (err == FP_ENOENT) {
            count->left_out++;
            err = 0;
        }
    }
    return err;
}
