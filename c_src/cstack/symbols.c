#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/search.h"
#include "cstack/image.h"

#define NAME_MAX_BYTES 4096u

/* The symbols that may name a function: a file's own, of which the others are removed. */
struct candidates {
    Elf64_Sym *of; /* st_size > 0 */
    size_t count;
    char *strings;
    size_t strings_size;
};

/* ---- which symbols count ---------------------------------------------- */

/* Without a version. */
static size_t name_size(const char *name)
{
    return strcspn(name, "@");
}

static int is_candidate(const struct candidates *candidates, const Elf64_Sym *symbol)
{
    const char *name = candidates->strings + symbol->st_name;

    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           symbol->st_name < candidates->strings_size && symbol->st_size > 0 &&
           symbol->st_size <= UINT32_MAX && symbol->st_value + symbol->st_size >= symbol->st_size &&
           strnlen(name, NAME_MAX_BYTES + 1) <= NAME_MAX_BYTES && name_size(name) > 0;
}

/* A symbol without a size has that of the unwind information that starts there. */
static void keep_candidates(struct candidates *candidates, const struct fp_cfi *cfi)
{
    size_t kept = 0;

    for (size_t i = 0; i < candidates->count; i++) {
        Elf64_Sym *symbol = &candidates->of[i];

        if (symbol->st_size == 0)
            symbol->st_size = fp_cfi_function_size(cfi, symbol->st_value);
        if (is_candidate(candidates, symbol))
            candidates->of[kept++] = *symbol;
    }
    candidates->count = kept;
}

/* ---- which of several ------------------------------------------------- */

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Less is better. */
static int rank_of_binding(const Elf64_Sym *symbol)
{
    int binding = ELF64_ST_BIND(symbol->st_info);

    return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
}

static size_t underscores(const char *name)
{
    size_t count = strspn(name, "_"), size = name_size(name);

    return count < size ? count : size;
}

/* By start; where this is equal, the better name last. */
static int by_start(const void *left, const void *right, void *strings)
{
    const Elf64_Sym *b = left, *a = right;
    const char *a_name = (const char *)strings + a->st_name;
    const char *b_name = (const char *)strings + b->st_name;
    size_t a_size = name_size(a_name), b_size = name_size(b_name);
    int a_rank = rank_of_binding(a), b_rank = rank_of_binding(b), by;

    if ((by = order(b->st_value, a->st_value)) != 0 || (by = (a_rank == 2) - (b_rank == 2)) != 0 ||
        (by = order(underscores(a_name), underscores(b_name))) != 0 ||
        (by = a_rank - b_rank) != 0 || (by = order(a_size, b_size)) != 0 ||
        (by = memcmp(a_name, b_name, a_size)) != 0)
        return by;
    return order(b->st_size, a->st_size);
}

/* ---- loading ---------------------------------------------------------- */

static void drop(struct candidates *candidates)
{
    free(candidates->of);
    free(candidates->strings);
    memset(candidates, 0, sizeof *candidates);
}

/* Fills `candidates`, which is empty, with those of .symtab or .dynsym; leaves it empty when there
 * are none. */
static void collect(struct candidates *candidates, const struct fp_elf_source *source,
                    const struct fp_elf_symbols *symbols, const struct fp_cfi *cfi)
{
    candidates->of = (Elf64_Sym *)(void *)fp_elf_load(source, &symbols->symbols);
    candidates->count = symbols->symbols.size / sizeof *candidates->of;
    candidates->strings = (char *)fp_elf_load(source, &symbols->strings);
    candidates->strings_size = symbols->strings.size;
    if (candidates->of != NULL && candidates->strings != NULL) {
        candidates->strings[candidates->strings_size - 1] = '\0'; /* as it should be */
        keep_candidates(candidates, cfi);
    } else {
        candidates->count = 0;
    }
    if (candidates->count == 0)
        drop(candidates);
}

static void keep(struct fp_symbol_table *table, const Elf64_Sym *symbol, const char *name)
{
    struct fp_symbol_entry *entry = &table->entry[table->count];
    uint64_t end = symbol->st_value + symbol->st_size;
    uint64_t reach = table->count > 0 ? entry[-1].reach : 0;
    size_t size = name_size(name);

    *entry = (struct fp_symbol_entry){symbol->st_value, end > reach ? end : reach,
                                      (uint32_t)symbol->st_size, table->names_size};
    memcpy(table->names + table->names_size, name, size);
    table->names[table->names_size + size] = '\0';
    table->names_size += (uint32_t)size + 1;
    table->count++;
}

/* The last symbol of a range, the best one, is kept. Names in a file may overlap: the copies could
 * be larger than the file. */
static int fill(struct fp_symbol_table *table, struct candidates *candidates)
{
    Elf64_Sym *of = candidates->of;
    size_t kept = 0, names_size = 0;

    qsort_r(of, candidates->count, sizeof *of, by_start, candidates->strings);
    for (size_t i = 0; i < candidates->count; i++) {
        if (i + 1 < candidates->count && of[i + 1].st_value == of[i].st_value &&
            of[i + 1].st_size == of[i].st_size)
            continue;
        of[kept++] = of[i];
        names_size += name_size(candidates->strings + of[i].st_name) + 1;
    }
    if (names_size > FP_ELF_PART_MAX)
        return 0;
    table->entry = calloc(kept, sizeof *table->entry);
    table->names = malloc(names_size);
    if (table->entry == NULL || table->names == NULL)
        return FP_ENOMEM;
    for (size_t i = 0; i < kept; i++)
        keep(table, &of[i], candidates->strings + of[i].st_name);
    return 0;
}

int fp_symbol_table_load(struct fp_symbol_table *table, const struct fp_elf *elf,
                         const struct fp_elf_source *source, const struct fp_cfi *cfi)
{
    struct candidates candidates = {0};
    int err = 0;

    memset(table, 0, sizeof *table);
    collect(&candidates, source, &elf->symtab, cfi);
    if (candidates.count == 0)
        collect(&candidates, source, &elf->dynsym, cfi);
    if (candidates.count > 0)
        err = fill(table, &candidates);
    drop(&candidates);
    if (err != 0)
        fp_symbol_table_unload(table);
    return err;
}

void fp_symbol_table_unload(struct fp_symbol_table *table)
{
    free(table->entry);
    free(table->names);
    memset(table, 0, sizeof *table);
}

/* ---- finding ---------------------------------------------------------- */

const char *fp_symbol_table_find(const struct fp_symbol_table *table, uint64_t address)
{
    const struct fp_symbol_entry *entry = table->entry;
    size_t n = fp_search(entry, table->count, sizeof *entry, sizeof entry->start, address);

    for (; n > 0 && entry[n - 1].reach > address; n--)
        if (address - entry[n - 1].start < entry[n - 1].size)
            return table->names + entry[n - 1].name;
    return NULL;
}
