#include "erts/functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/resident.h"

/* One read. */
#define CHUNK FP_RESIDENT_MAX
/* What is kept of the bytes before a chunk, as an info may lie across: 16 bytes before its MFA, 25
 * from there on, and 7 for the step. */
#define KEEP 48u
#define PAGE 4096u

/* Memory is walked upwards, piece by piece; [low, top) is at hand. */
struct scan {
    struct fp_functions *found;
    const struct fp_release *release;
    const struct fp_memory *memory;
    uint64_t low, top;
    uint64_t at; /* the next place where an MFA may stand */
    unsigned char byte[KEEP + CHUNK];
};

/* ---------------------------------------------------------- functions -- */

/* `room` entries of `size` bytes more than there are; NULL: no memory. */
static void *grown(void *array, uint32_t *room, size_t size)
{
    uint32_t more = *room == 0 ? 1024 : 2 * *room;
    void *bigger = realloc(array, more * size);

    if (bigger != NULL)
        *room = more;
    return bigger;
}

static int add_function(struct fp_functions *found, uint64_t mfa_at, const unsigned char *mfa)
{
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
    function->end = 0;
    function->module = FP_NO_MODULE;
    memcpy(function->mfa, mfa, FP_MFA_SIZE);
    return 0;
}

/* Make room for what lies at `from`: behind the end of what is at hand when that is its neighbour,
 * at the beginning when it is not. */
static void move_on(struct scan *scan, uint64_t from)
{
    if (from != scan->top) {
        scan->low = scan->top = from;
        scan->at = ((from + 7) & ~UINT64_C(7)) + FP_MFA_IN_INFO;
    } else if (scan->top - scan->low > KEEP) {
        memmove(scan->byte, scan->byte + (scan->top - KEEP - scan->low), KEEP);
        scan->low = scan->top - KEEP;
    }
}

/* At most CHUNK bytes, which are there, or FP_EFAULT. */
static int scan_piece(struct scan *scan, uint64_t from, uint64_t to)
{
    move_on(scan, from);
    if (fp_safe_read(scan->memory, from, scan->byte + (from - scan->low), (size_t)(to - from)) != 0)
        return FP_EFAULT;
    scan->top = to;
    for (; scan->at + FP_MFA_SIZE + 1 <= scan->top; scan->at += 8) {
        const unsigned char *mfa = scan->byte + (scan->at - scan->low);
        int err = fp_is_mfa(mfa) ? add_function(scan->found, scan->at, mfa) : 0;

        if (err != 0)
            return err;
    }
    return 0;
}

/* What a piece is made of, where it could not be read as one: something was unmapped just now. */
static int scan_pages(struct scan *scan, uint64_t from, uint64_t to)
{
    uint64_t next;
    int err = 0;

    for (; from < to && (err == 0 || err == FP_EFAULT); from = next) {
        next = (from | (PAGE - 1)) + 1;
        err = scan_piece(scan, from, next < to ? next : to);
    }
    return err == FP_EFAULT ? 0 : err;
}

static int scan_range(struct scan *scan, const struct fp_range *range)
{
    uint64_t to;
    int resident, err = 0;

    scan->low = scan->top = 0; /* no neighbour of the range before */
    for (uint64_t from = range->start; from < range->end && err == 0; from = to) {
        to = fp_resident_until(from, range->end, &resident);
        if (resident)
            err = scan_piece(scan, from, to);
        if (err == FP_EFAULT)
            err = scan_pages(scan, from, to);
    }
    return err;
}

/* ------------------------------------------------------------ modules -- */

static uint64_t info_of(const struct fp_function *function)
{
    return function->mfa_at - FP_MFA_IN_INFO;
}

/* Where the info of the function behind `i` begins, or the range ends. */
static uint64_t next_info(const struct fp_functions *found, uint32_t i,
                          const struct fp_range *range)
{
    if (i + 1 < found->functions && info_of(&found->function[i + 1]) < range->end)
        return info_of(&found->function[i + 1]);
    return range->end;
}

/* Are the `count` entries of the table at `at` the functions from `first` on, and is the one behind
 * them a fitting *end? */
static int table_matches(const struct scan *scan, uint64_t at, uint32_t first, uint32_t count,
                         const struct fp_range *range, uint64_t *end)
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
           *end > function[count - 1].start &&
           *end <= next_info(scan->found, first + count - 1, range);
}

/* md5_ptr is the second word before functions[] in every release from 25 to 29 (beam_code.h). */
static void read_md5(const struct scan *scan, uint64_t functions, struct fp_module *module)
{
    uint64_t at;

    module->has_md5 = fp_safe_read_word(scan->memory, functions - 16, &at) == 0 &&
                      fp_safe_read(scan->memory, at, module->md5, sizeof module->md5) == 0;
}

static int add_module(struct fp_functions *found, const struct fp_module *module)
{
    struct fp_module *grew;

    if (found->modules == found->module_room) {
        grew = grown(found->module, &found->module_room, sizeof *grew);
        if (grew == NULL)
            return FP_ENOMEM;
        found->module = grew;
    }
    for (uint32_t i = 0; i < module->count; i++)
        found->function[module->first + i].module = found->modules;
    found->module[found->modules++] = *module;
    return 0;
}

/* Is functions[] of a header at `at`, whose first function is `first`? */
static int read_module(const struct scan *scan, uint64_t at, uint32_t first,
                       const struct fp_range *range, struct fp_module *module)
{
    uint64_t header = at - 8ull * scan->release->functions_to_num_functions;
    uint64_t count;

    if (header < range->start || fp_safe_read_word(scan->memory, header, &count) != 0)
        return 0;
    if (count == 0 || count > scan->found->functions - first ||
        !table_matches(scan, at, first, (uint32_t)count, range, &module->end))
        return 0;
    module->name = scan->found->function[first].mfa[0];
    module->start = header;
    module->first = first;
    module->count = (uint32_t)count;
    read_md5(scan, at, module);
    return 1;
}

/* Walk back from the info of function `first` to a table that begins with it: no further than
 * `floor`, where the function before starts, and over no hole, as a header and its functions are
 * one piece. 1 when there is one. */
static int find_module(struct scan *scan, uint32_t first, uint64_t floor,
                       const struct fp_range *range, struct fp_module *module)
{
    uint64_t info = info_of(&scan->found->function[first]), low, word;

    for (uint64_t top = info; top > floor; top = low) {
        low = (top - 1) & ~(uint64_t)(PAGE - 1); /* holes are whole pages */
        if (low < floor)
            low = floor;
        if (!fp_is_resident(low, top) ||
            fp_safe_read(scan->memory, low, scan->byte, (size_t)(top - low)) != 0)
            return 0;
        for (uint64_t at = top - 8; at >= low; at -= 8) {
            memcpy(&word, scan->byte + (at - low), sizeof word);
            if (word == info && read_module(scan, at, first, range, module))
                return 1;
        }
    }
    return 0;
}

/* All functions of `range` but those that belong to none. */
static int find_modules(struct scan *scan, const struct fp_range *range, uint32_t from, uint32_t to)
{
    uint64_t floor = (range->start + 7) & ~UINT64_C(7);
    struct fp_module module;
    int err = 0;

    for (uint32_t i = from; i < to && err == 0;) {
        uint32_t n = 1;

        if (find_module(scan, i, floor, range, &module)) {
            err = add_module(scan->found, &module);
            n = module.count;
        }
        i += n;
        floor = scan->found->function[i - 1].start;
    }
    return err;
}

static void set_ends(struct fp_functions *found, const struct fp_range *range, uint32_t from,
                     uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct fp_function *function = &found->function[i];
        const struct fp_module *module =
            function->module == FP_NO_MODULE ? NULL : &found->module[function->module];

        if (module != NULL && i + 1 == module->first + module->count)
            function->end = module->end;
        else
            function->end = next_info(found, i, range);
        if (function->end < function->start)
            function->end = function->start; /* an info within an info */
    }
}

/* What comes before the header of the first module, or before what is left of one. */
static void note_shared(struct fp_functions *found, const struct fp_range *range, uint32_t first)
{
    const struct fp_function *function = &found->function[first];
    uint64_t end = function->module == FP_NO_MODULE ? info_of(function)
                                                    : found->module[function->module].start;

    if (end > range->start && fp_is_resident(range->start, range->start + 1))
        found->shared.range[found->shared.count++] = (struct fp_range){range->start, end};
}

/* ------------------------------------------------------- life and death -- */

static int read_range(struct scan *scan, const struct fp_range *range)
{
    struct fp_functions *found = scan->found;
    uint32_t first = found->functions;
    int err = scan_range(scan, range);

    if (err == 0)
        err = find_modules(scan, range, first, found->functions);
    if (err != 0 || first == found->functions)
        return err;
    set_ends(found, range, first, found->functions);
    note_shared(found, range, first);
    return 0;
}

int fp_functions_read(struct fp_functions *functions, const struct fp_release *release,
                      const struct fp_memory *memory, const struct fp_ranges *ranges)
{
    struct scan *scan = malloc(sizeof *scan);
    int err = 0;

    memset(functions, 0, sizeof *functions);
    if (scan == NULL)
        return FP_ENOMEM;
    scan->found = functions;
    scan->release = release;
    scan->memory = memory;
    for (uint32_t i = 0; i < ranges->count && err == 0; i++)
        err = read_range(scan, &ranges->range[i]);
    free(scan);
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
