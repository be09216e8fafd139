/*
 * Keeps two things fresh while the VM loads and purges code: the ranges where
 * code may be, and the cached functions.
 */
#include "native_symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"
#include "vm/code.h"

/* What is cached is compared with memory this often, or less often where
 * there is so much of it that it would cost more than some 0.15 % of a core
 * (fp_code_revalidate takes about 0.15 us a function). */
#define REVALIDATE_NS INT64_C(100000000)
#define REVALIDATE_NS_PER_FUNCTION INT64_C(100000)
/* /proc/self/maps is read when an address was met that is in no known range,
 * at most this often; and this often in any case. */
#define RANGES_STALE_NS INT64_C(200000000)
#define RANGES_NS INT64_C(10000000000)

struct fp_native_symbols {
    struct fp_symbolizer interface;
    struct fp_code *code;
    struct fp_live_ranges *live;
    struct fp_ranges ranges;
    int64_t validated_ns, ranged_ns;
};

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint32_t put(char *out, size_t room, const char *text, uint32_t len)
{
    uint32_t n = len < room ? len : (uint32_t)room;

    memcpy(out, text, n);
    return n;
}

static int symbol_file(struct fp_code *code, const struct fp_location *at,
                       struct fp_symbol *symbol)
{
    uint32_t len;
    const char *text =
        at->file == 0 ? NULL : fp_code_file(code, at->file, &len);

    symbol->file_len =
        text == NULL ? 0 : put(symbol->file, sizeof symbol->file, text, len);
    return 0;
}

static int resolve(void *self, uint64_t pc, struct fp_symbol *symbol)
{
    struct fp_native_symbols *symbols = self;
    struct fp_location at;
    uint32_t len;
    const char *text;
    int err = fp_code_resolve(symbols->code, pc, &at);

    if (err != 0)
        return err;
    if ((text = fp_code_atom(symbols->code, at.mfa[0], &len)) == NULL)
        return FP_ENOENT;
    symbol->module_len = put(symbol->module, sizeof symbol->module, text, len);
    if ((text = fp_code_atom(symbols->code, at.mfa[1], &len)) == NULL)
        return FP_ENOENT;
    symbol->function_len =
        put(symbol->function, sizeof symbol->function, text, len);
    symbol->arity = (uint32_t)at.mfa[2];
    symbol->line = at.line;
    return symbol_file(symbols->code, &at, symbol);
}

static int atom(void *self, uint64_t word, char text[FP_ATOM_BYTES_MAX])
{
    struct fp_native_symbols *symbols = self;
    uint32_t len;
    const char *cached = fp_code_atom(symbols->code, word, &len);

    if (cached == NULL)
        return FP_ENOENT;
    return (int)put(text, FP_ATOM_BYTES_MAX, cached, len);
}

static void refresh_ranges(struct fp_native_symbols *symbols, int64_t now)
{
    int stale =
        atomic_load_explicit(&symbols->live->stale, memory_order_relaxed) != 0;
    struct fp_ranges mapped;

    if (now - symbols->ranged_ns < (stale ? RANGES_STALE_NS : RANGES_NS))
        return;
    symbols->ranged_ns = now;
    atomic_store_explicit(&symbols->live->stale, 0, memory_order_relaxed);
    if (fp_maps_code(&mapped) == 0 &&
        fp_live_ranges_update(symbols->live, &mapped)) {
        fp_live_ranges_copy(symbols->live, &symbols->ranges);
        fp_code_set_ranges(symbols->code, &symbols->ranges);
    }
}

static int revalidate(void *self)
{
    struct fp_native_symbols *symbols = self;
    int64_t now = now_ns();
    int64_t due =
        REVALIDATE_NS_PER_FUNCTION * (int64_t)fp_code_size(symbols->code);

    refresh_ranges(symbols, now);
    if (now - symbols->validated_ns <
        (due > REVALIDATE_NS ? due : REVALIDATE_NS))
        return 0;
    symbols->validated_ns = now;
    return fp_code_revalidate(symbols->code);
}

int fp_native_symbols_create(struct fp_native_symbols **out,
                             const struct fp_layout *layout,
                             const struct fp_peek *peek,
                             struct fp_live_ranges *live)
{
    struct fp_native_symbols *symbols = calloc(1, sizeof *symbols);

    if (symbols == NULL)
        return FP_ENOMEM;
    symbols->live = live;
    symbols->validated_ns = symbols->ranged_ns = now_ns();
    fp_live_ranges_copy(live, &symbols->ranges);
    if (fp_code_create(&symbols->code, layout, peek, &symbols->ranges) != 0) {
        free(symbols);
        return FP_ENOMEM;
    }
    symbols->interface =
        (struct fp_symbolizer){symbols, resolve, atom, revalidate};
    *out = symbols;
    return 0;
}

void fp_native_symbols_destroy(struct fp_native_symbols *symbols)
{
    if (symbols == NULL)
        return;
    fp_code_destroy(symbols->code);
    free(symbols);
}

const struct fp_symbolizer *
fp_native_symbols_interface(struct fp_native_symbols *symbols)
{
    return &symbols->interface;
}
