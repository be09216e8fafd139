/* fake_code.h - a symbolizer without a VM. Addresses and atoms are indices into tables that the
 * test fills (and refills: that is code replacement).
 *
 *      address  (index + 1) << 16 | line
 *      atom     index + 1 */
#pragma once

#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "format/symbolizer.h"

struct fake_function {
    const char *module, *function, *file;
    uint32_t arity;
};

struct fake_code {
    const struct fake_function *functions;
    size_t function_count;
    const uint8_t *kinds; /* enum fp_symbol_kind of each; NULL: Erlang */
    const char *const *atoms;
    size_t atom_count;
    /* Any thread: what the next revalidate will say; then `newer` (as many) takes the place of
     * `functions`. */
    _Atomic int recoded;
    const struct fake_function *newer;
    unsigned long resolved, revalidated;
};

static inline uint64_t fake_address(size_t index, uint32_t line)
{
    return (index + 1) << 16 | line;
}

static uint32_t fake_copy(char *out, size_t room, const char *text)
{
    size_t size = text == NULL ? 0 : strlen(text);

    if (size > room)
        size = room;
    if (size != 0)
        memcpy(out, text, size);
    return (uint32_t)size;
}

static int fake_resolve(void *self, uint64_t pc, struct fp_symbol *symbol)
{
    struct fake_code *code = self;
    size_t index = (size_t)(pc >> 16) - 1;

    code->resolved++;
    if (index >= code->function_count)
        return FP_ENOENT;
    symbol->module_len =
        fake_copy(symbol->module, sizeof(symbol->module), code->functions[index].module);
    symbol->function_len =
        fake_copy(symbol->function, sizeof(symbol->function), code->functions[index].function);
    symbol->file_len = fake_copy(symbol->file, sizeof(symbol->file), code->functions[index].file);
    symbol->kind = code->kinds == NULL ? (uint8_t)FP_SYMBOL_ERLANG : code->kinds[index];
    symbol->arity = code->functions[index].arity;
    symbol->line = (uint32_t)(pc & 0xffff);
    return 0;
}

static int fake_atom(void *self, uint64_t atom, char text[FP_ATOM_BYTES_MAX])
{
    struct fake_code *code = self;

    if (atom == 0 || atom > code->atom_count)
        return FP_ENOENT;
    return (int)fake_copy(text, FP_ATOM_BYTES_MAX, code->atoms[atom - 1]);
}

static int fake_revalidate(void *self)
{
    struct fake_code *code = self;
    int recoded = atomic_exchange(&code->recoded, 0);

    code->revalidated++;
    if (recoded > 0)
        code->functions = code->newer;
    return recoded;
}

static inline struct fp_symbolizer fake_symbolizer(struct fake_code *code)
{
    return (struct fp_symbolizer){code, fake_resolve, fake_atom, fake_revalidate};
}
