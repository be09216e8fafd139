#include "erts/symbolize.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "erts/code_index.h"
#include "erts/code_scan.h"

/* How often the cache is compared with memory; at most 0.15 % of a core, as that takes about 0.15
 * us for each function. */
#define REVALIDATE_NS INT64_C(100000000)
#define REVALIDATE_NS_PER_FUNCTION INT64_C(100000)
/* How often /proc/self/maps is read: after a sample had an address in no known range, and in any
 * case. */
#define RANGES_STALE_NS INT64_C(200000000)
#define RANGES_NS INT64_C(5000000000)
/* How often, at most, another set of libraries is made. */
#define CSTACK_NS INT64_C(1000000000)

struct fp_symbolize {
    struct fp_symbolizer interface;
    struct fp_code_index *code;
    const struct fp_memory *memory;
    struct fp_live_ranges *live;
    struct fp_ranges ranges;
    struct fp_ranges fragments; /* at a range's start: in no function */
    int64_t validated_ns, ranged_ns, cstack_ns;
    int64_t stale_ns;              /* RANGES_STALE_NS, doubled by each read without news */
    struct fp_live_cstack *cstack; /* NULL: C code has no names */
};

static uint32_t put(char *out, size_t room, const char *text, uint32_t len)
{
    uint32_t n = len < room ? len : (uint32_t)room;

    memcpy(out, text, n);
    return n;
}

static int put_atom(struct fp_code_index *code, uint64_t word, char text[FP_ATOM_BYTES_MAX])
{
    uint32_t len;
    const char *cached = fp_code_index_atom(code, word, &len);

    return cached == NULL ? FP_ENOENT : (int)put(text, FP_ATOM_BYTES_MAX, cached, len);
}

static int put_mfa(struct fp_code_index *code, const uint64_t mfa[3], struct fp_symbol *symbol)
{
    int module = put_atom(code, mfa[0], symbol->module);
    int function = put_atom(code, mfa[1], symbol->function);

    if (module < 0 || function < 0)
        return FP_ENOENT;
    symbol->module_len = (uint32_t)module;
    symbol->function_len = (uint32_t)function;
    symbol->arity = (uint32_t)mfa[2];
    return 0;
}

static int resolve_erlang(struct fp_symbolize *symbols, uint64_t pc, struct fp_symbol *symbol)
{
    struct fp_location at;
    const char *file;
    uint32_t len;
    int err;

    symbol->kind = FP_SYMBOL_NONE;
    if (fp_ranges_contain(&symbols->fragments, pc))
        return 0;
    err = fp_code_index_resolve(symbols->code, pc, &at);
    if (err == 0)
        err = put_mfa(symbols->code, at.mfa, symbol);
    if (err != 0)
        return err;
    symbol->kind = FP_SYMBOL_ERLANG;
    symbol->line = at.line;
    file = fp_code_index_file(symbols->code, at.file, &len);
    if (file != NULL)
        symbol->file_len = put(symbol->file, sizeof symbol->file, file, len);
    return 0;
}

/* A BIF or NIF: the word is the address of its module, function and arity. */
static int resolve_named(struct fp_symbolize *symbols, uint64_t word, struct fp_symbol *symbol)
{
    uint64_t at = word & ~(FP_FRAME_BIF | FP_FRAME_NIF), mfa[3];
    struct fp_location unused;

    if (fp_safe_read(symbols->memory, at, mfa, sizeof mfa) != 0 || mfa[2] > 255)
        return FP_ENOENT;
    /* A NIF's words are in the code of its module, which may be purged: once resolved, revalidate
     * compares the function. */
    if (fp_ranges_contain(&symbols->ranges, at))
        (void)fp_code_index_resolve(symbols->code, at + sizeof mfa, &unused);
    symbol->kind = word & FP_FRAME_BIF ? FP_SYMBOL_BIF : FP_SYMBOL_NIF;
    return put_mfa(symbols->code, mfa, symbol);
}

/* The writer alone replaces it. */
static const struct fp_cstack *current_set(struct fp_symbolize *symbols)
{
    return atomic_load_explicit(&symbols->cstack->set, memory_order_relaxed);
}

static int resolve_c(struct fp_symbolize *symbols, uint64_t pc, struct fp_symbol *symbol)
{
    const char *name, *library;

    if (symbols->cstack == NULL ||
        fp_cstack_resolve(current_set(symbols), pc, &name, &library) != 0)
        return FP_ENOENT;
    if (name == NULL)
        name = "";
    symbol->kind = FP_SYMBOL_NATIVE;
    symbol->function_len =
        put(symbol->function, sizeof symbol->function, name, (uint32_t)strlen(name));
    symbol->file_len = put(symbol->file, sizeof symbol->file, library, (uint32_t)strlen(library));
    return 0;
}

static int resolve(void *self, uint64_t word, struct fp_symbol *symbol)
{
    struct fp_symbolize *symbols = self;

    symbol->module_len = symbol->function_len = symbol->file_len = 0;
    symbol->arity = symbol->line = 0;
    if ((word & (FP_FRAME_BIF | FP_FRAME_NIF)) != 0)
        return resolve_named(symbols, word, symbol);
    if (fp_ranges_contain(&symbols->ranges, word))
        return resolve_erlang(symbols, word, symbol);
    return resolve_c(symbols, word, symbol);
}

static int atom(void *self, uint64_t word, char text[FP_ATOM_BYTES_MAX])
{
    return put_atom(((struct fp_symbolize *)self)->code, word, text);
}

/* The JIT's shared fragments: what is before the first function of a range. */
static void find_fragments(struct fp_symbolize *symbols)
{
    struct fp_ranges *fragments = &symbols->fragments;
    uint64_t first;

    fragments->count = 0;
    for (uint32_t i = 0; i < symbols->ranges.count; i++) {
        const struct fp_range *range = &symbols->ranges.range[i];

        if (fp_code_first(symbols->memory, range, range->start, &first) == 0)
            fragments->range[fragments->count++] = (struct fp_range){range->start, first};
    }
}

/* 1 when something was added. */
static int read_ranges(struct fp_symbolize *symbols)
{
    struct fp_ranges mapped;
    int err = fp_code_ranges(symbols->memory, &mapped), grown;

    if (err != 0 && err != FP_EFULL)
        return 0;
    grown = fp_live_ranges_update(symbols->live, &mapped);
    if (err == FP_EFULL && atomic_load(&symbols->live->left_out) == 0)
        atomic_store(&symbols->live->left_out, 1); /* at least */
    return grown;
}

static void refresh_ranges(struct fp_symbolize *symbols, int64_t now)
{
    int stale = atomic_load_explicit(&symbols->live->stale, memory_order_relaxed) != 0;

    if (now - symbols->ranged_ns < (stale ? symbols->stale_ns : RANGES_NS))
        return;
    symbols->ranged_ns = now;
    atomic_store_explicit(&symbols->live->stale, 0, memory_order_relaxed);
    if (read_ranges(symbols)) {
        fp_live_ranges_copy(symbols->live, &symbols->ranges);
        fp_code_index_set_ranges(symbols->code, &symbols->ranges);
        find_fragments(symbols);
        symbols->stale_ns = RANGES_STALE_NS;
    } else if (symbols->stale_ns < RANGES_NS) {
        /* To read takes some us for each mapping. */
        symbols->stale_ns *= 2;
    }
}

/* 1 when there is a new set. */
static int refresh_cstack(struct fp_symbolize *symbols, int64_t now)
{
    struct fp_live_cstack *cstack = symbols->cstack;

    if (cstack == NULL || !fp_live_cstack_reclaim(cstack) || now - symbols->cstack_ns < CSTACK_NS ||
        atomic_exchange_explicit(&cstack->stale, 0, memory_order_relaxed) == 0)
        return 0;
    symbols->cstack_ns = now;
    return !fp_cstack_is_current(current_set(symbols)) && fp_live_cstack_renew(cstack) == 0;
}

static int revalidate(void *self)
{
    struct fp_symbolize *symbols = self;
    int64_t now = fp_monotonic_ns();
    int64_t due = REVALIDATE_NS_PER_FUNCTION * (int64_t)fp_code_index_size(symbols->code);
    int changed;

    refresh_ranges(symbols, now);
    changed = refresh_cstack(symbols, now);
    if (now - symbols->validated_ns < (due > REVALIDATE_NS ? due : REVALIDATE_NS))
        return changed;
    symbols->validated_ns = now;
    return changed + fp_code_index_revalidate(symbols->code);
}

int fp_symbolize_create(struct fp_symbolize **out, const struct fp_layout *layout,
                        const struct fp_memory *memory, struct fp_live_ranges *live,
                        struct fp_live_cstack *cstack)
{
    struct fp_symbolize *symbols = calloc(1, sizeof *symbols);
    int err;

    if (symbols == NULL)
        return FP_ENOMEM;
    symbols->live = live;
    symbols->memory = memory;
    symbols->cstack = cstack;
    symbols->validated_ns = symbols->ranged_ns = fp_monotonic_ns();
    symbols->stale_ns = RANGES_STALE_NS;
    fp_live_ranges_copy(live, &symbols->ranges);
    find_fragments(symbols);
    err = fp_code_index_create(&symbols->code, layout, memory, &symbols->ranges);
    if (err == 0 && cstack != NULL)
        err = fp_live_cstack_renew(cstack);
    if (err != 0) {
        fp_symbolize_destroy(symbols);
        return err;
    }
    symbols->interface = (struct fp_symbolizer){symbols, resolve, atom, revalidate};
    *out = symbols;
    return 0;
}

void fp_symbolize_destroy(struct fp_symbolize *symbols)
{
    if (symbols == NULL)
        return;
    if (symbols->cstack != NULL)
        fp_live_cstack_destroy(symbols->cstack);
    fp_code_index_destroy(symbols->code);
    free(symbols);
}

const struct fp_symbolizer *fp_symbolize_interface(struct fp_symbolize *symbols)
{
    return &symbols->interface;
}
