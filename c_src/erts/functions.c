#include "erts/functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/resident.h"

/* A range that is being read. */
struct scan {
    struct fp_functions *found;
    const struct fp_release *release;
    const struct fp_memory *memory;
    const struct fp_range *range;
    uint32_t first; /* its first function in `found` */
};

/* The array with more room; NULL: no memory. */
static void *grown(void *array, uint32_t *room, size_t size)
{
    uint32_t more = *room == 0 ? 1024 : 2 * *room;
    void *bigger = realloc(array, more * size);

    if (bigger != NULL)
        *room = more;
    return bigger;
}

static int add_function(void *arg, uint64_t mfa_at, const unsigned char *mfa)
{
    struct fp_functions *found = arg;
    struct fp_function *function;

    if (found->functions == FP_FUNCTIONS_MAX)
        return FP_EFULL;
    if (found->functions == found->room) {
        function = grown(found->function, &found->room, sizeof *function);
        if (function == NULL)
            return FP_ENOMEM;
        found->function = function;
    }
    function = &found->function[found->functions++];
    function->mfa_at = mfa_at;
    function->start = mfa_at + FP_MFA_SIZE;
    function->end = function->start;
    function->module = FP_NO_MODULE;
    memcpy(function->mfa, mfa, FP_MFA_SIZE);
    return 0;
}

static uint64_t info_of(const struct fp_function *function)
{
    return function->mfa_at - FP_MFA_IN_INFO;
}

/* Where the info of the function behind `i` begins, or the range ends. */
static uint64_t next_info(const struct scan *scan, uint32_t i)
{
    const struct fp_functions *found = scan->found;

    return i + 1 < found->functions ? info_of(&found->function[i + 1]) : scan->range->end;
}

/* Are the `count` entries of the table at `at` the functions from `first` on, and is the one behind
 * them a fitting *end? */
static int table_matches(const struct scan *scan, uint64_t at, uint32_t first, uint32_t count,
                         uint64_t *end)
{
    const struct fp_function *function = scan->found->function + first;
    uint64_t entry[256];

    for (uint32_t i = 0; i < count; i += 256) {
        uint32_t n = count - i < 256 ? count - i : 256;

        if (fp_safe_read(scan->memory, at + 8ull * i, entry, 8 * n) != 0)
            return 0;
        for (uint32_t k = 0; k < n; k++)
            if (entry[k] != info_of(&function[i + k]) || function[i + k].mfa[0] != function->mfa[0])
                return 0;
    }
    return fp_safe_read_word(scan->memory, at + 8ull * count, end) == 0 &&
           *end > function[count - 1].start && *end <= next_info(scan, first + count - 1);
}

static int add_module(struct fp_functions *found, const struct fp_module *module)
{
    if (found->modules == found->module_room) {
        struct fp_module *more = grown(found->module, &found->module_room, sizeof *more);

        if (more == NULL)
            return FP_ENOMEM;
        found->module = more;
    }
    for (uint32_t i = 0; i < module->count; i++)
        found->function[module->first + i].module = found->modules;
    found->function[module->first + module->count - 1].end = module->end;
    found->module[found->modules++] = *module;
    return 0;
}

/* Is functions[] of a header at `at`, whose first function is `first`? */
static int read_module(const struct scan *scan, uint64_t at, uint32_t first,
                       struct fp_module *module)
{
    uint64_t header = at - 8ull * scan->release->functions_to_num_functions;
    uint64_t count, md5;

    if (header < scan->range->start || fp_safe_read_word(scan->memory, header, &count) != 0 ||
        count == 0 || count > scan->found->functions - first ||
        !table_matches(scan, at, first, (uint32_t)count, &module->end))
        return 0;
    module->name = scan->found->function[first].mfa[0];
    module->start = header;
    module->first = first;
    module->count = (uint32_t)count;
    /* md5_ptr is the second word before functions[] in every release from 25 to 29
     * (beam_code.h). */
    module->has_md5 = fp_safe_read_word(scan->memory, at - 16, &md5) == 0 &&
                      fp_safe_read(scan->memory, md5, module->md5, sizeof module->md5) == 0;
    return 1;
}

/* Walks back from the info of function `first` to a table that begins with it. `floor` is where the
 * function before starts. 1: there is one. */
static int find_module(const struct scan *scan, uint32_t first, uint64_t floor,
                       struct fp_module *module)
{
    uint64_t info = info_of(&scan->found->function[first]), word;
    struct fp_code_walk walk;

    fp_code_walk_start(&walk, scan->memory, floor, info - 8);
    while (fp_code_walk_next(&walk)) {
        memcpy(&word, fp_code_walk_bytes(&walk), sizeof word);
        if (word == info && read_module(scan, walk.at, first, module))
            return 1;
    }
    return 0;
}

/* An info within an info leaves the function before without code. */
static void set_ends(const struct scan *scan)
{
    for (uint32_t i = scan->first; i < scan->found->functions; i++)
        if (next_info(scan, i) > scan->found->function[i].start)
            scan->found->function[i].end = next_info(scan, i);
}

/* Gives the functions of the range to modules. */
static int find_modules(const struct scan *scan)
{
    uint64_t floor = (scan->range->start + 7) & ~UINT64_C(7);
    struct fp_module module;
    int err = 0;

    for (uint32_t i = scan->first; i < scan->found->functions && err == 0;) {
        uint32_t n = 1;

        if (find_module(scan, i, floor, &module)) {
            err = add_module(scan->found, &module);
            n = module.count;
        }
        i += n;
        floor = scan->found->function[i - 1].start;
    }
    return err;
}

/* Shared: what is before the header of the first module, or before the rest of one. */
static void note_shared(const struct scan *scan)
{
    struct fp_functions *found = scan->found;
    const struct fp_function *function = &found->function[scan->first];
    uint64_t start = scan->range->start, end = info_of(function);
    int resident;

    if (function->module != FP_NO_MODULE)
        end = found->module[function->module].start;
    fp_resident_until(start, start + 1, &resident);
    if (end > start && resident)
        found->shared.range[found->shared.count++] = (struct fp_range){start, end};
}

static int read_range(struct scan *scan)
{
    int err;

    scan->first = scan->found->functions;
    err = fp_code_scan(scan->memory, scan->range->start, scan->range->end, 1, add_function,
                       scan->found);
    if (err != 0 || scan->first == scan->found->functions)
        return err;
    set_ends(scan);
    err = find_modules(scan);
    note_shared(scan);
    return err;
}

int fp_functions_read(struct fp_functions *functions, const struct fp_release *release,
                      const struct fp_memory *memory, const struct fp_ranges *ranges)
{
    struct scan scan = {.found = functions, .release = release, .memory = memory};
    int err = 0;

    memset(functions, 0, sizeof *functions);
    for (uint32_t i = 0; i < ranges->count && err == 0; i++) {
        scan.range = &ranges->range[i];
        err = read_range(&scan);
    }
    if (err != 0)
        fp_functions_free(functions);
    return err;
}

void fp_functions_free(struct fp_functions *functions)
{
    free(functions->function);
    free(functions->module);
    memset(functions, 0, sizeof *functions);
}
