#include "cstack/symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/search.h"

/* A compiler or a browser has more: .dynsym serves there. */
#define SYMBOLS_BYTES_MAX ((size_t)8 << 20)
#define STRINGS_BYTES_MAX ((size_t)16 << 20)
#define NAME_MAX_BYTES 4096u

struct candidate {
    uint64_t start;
    uint32_t size;
    uint8_t binding;
    const char *name; /* in the file's strings */
    size_t name_size; /* without a version */
};

struct candidates {
    struct candidate *of;
    size_t count;
    char *strings;
};

/* ---- which symbols count ---------------------------------------------- */

static size_t name_size(const char *name)
{
    size_t size = strnlen(name, NAME_MAX_BYTES + 1);
    const char *version = memchr(name, '@', size);

    if (size > NAME_MAX_BYTES)
        return 0;
    return version == NULL ? size : (size_t)(version - name);
}

/* A symbol without a size has that of the unwind information that starts there. */
static uint64_t size_of(const Elf64_Sym *symbol, const struct fp_cfi *cfi)
{
    return symbol->st_size != 0 ? symbol->st_size : fp_cfi_function_size(cfi, symbol->st_value);
}

static void consider(struct candidates *candidates, const Elf64_Sym *symbol, size_t strings_size,
                     const struct fp_cfi *cfi)
{
    struct candidate candidate = {.start = symbol->st_value};
    uint64_t size;

    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF ||
        symbol->st_name >= strings_size)
        return;
    size = size_of(symbol, cfi);
    if (size == 0 || size > UINT32_MAX || candidate.start + size < size)
        return;
    candidate.size = (uint32_t)size;
    candidate.binding = ELF64_ST_BIND(symbol->st_info);
    candidate.name = candidates->strings + symbol->st_name;
    candidate.name_size = name_size(candidate.name);
    if (candidate.name_size > 0)
        candidates->of[candidates->count++] = candidate;
}

/* ---- which of several ------------------------------------------------- */

/* Less is better. */
static int rank_of_binding(const struct candidate *candidate)
{
    return candidate->binding == STB_GLOBAL ? 0 : candidate->binding == STB_WEAK ? 1 : 2;
}

static int is_local(const struct candidate *candidate)
{
    return rank_of_binding(candidate) == 2;
}

static size_t underscores(const struct candidate *candidate)
{
    size_t count = strspn(candidate->name, "_");

    return count < candidate->name_size ? count : candidate->name_size;
}

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Negative when `a` is the better name for a place that both name. */
static int by_merit(const struct candidate *a, const struct candidate *b)
{
    size_t shorter = a->name_size < b->name_size ? a->name_size : b->name_size;
    int by;

    if ((by = is_local(a) - is_local(b)) != 0 ||
        (by = order(underscores(a), underscores(b))) != 0 ||
        (by = rank_of_binding(a) - rank_of_binding(b)) != 0 ||
        (by = order(a->name_size, b->name_size)) != 0 ||
        (by = memcmp(a->name, b->name, shorter)) != 0)
        return by;
    return order(b->size, a->size);
}

/* By start; where this is equal, the best last. */
static int by_start(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;

    return a->start != b->start ? order(a->start, b->start) : by_merit(b, a);
}

/* ---- loading ---------------------------------------------------------- */

static void consider_all(struct candidates *candidates, const unsigned char *symbols, size_t count,
                         size_t strings_size, const struct fp_cfi *cfi)
{
    for (size_t i = 0; i < count; i++) {
        Elf64_Sym symbol;

        memcpy(&symbol, symbols + i * sizeof symbol, sizeof symbol);
        consider(candidates, &symbol, strings_size, cfi);
    }
}

static int collect(struct candidates *candidates, const struct fp_elf_source *source,
                   const struct fp_elf_part *symbols, const struct fp_elf_part *strings,
                   const struct fp_cfi *cfi)
{
    size_t count = symbols->size / sizeof(Elf64_Sym);
    unsigned char *loaded = fp_elf_load(source, symbols, SYMBOLS_BYTES_MAX);

    if (loaded == NULL)
        return FP_ENOENT;
    candidates->of = calloc(count + 1, sizeof *candidates->of);
    candidates->strings = (char *)fp_elf_load(source, strings, STRINGS_BYTES_MAX);
    if (candidates->of != NULL && candidates->strings != NULL) {
        candidates->strings[strings->size - 1] = '\0'; /* as it should be */
        consider_all(candidates, loaded, count, strings->size, cfi);
    }
    free(loaded);
    return candidates->count > 0 ? 0 : FP_ENOENT;
}

static void drop(struct candidates *candidates)
{
    free(candidates->of);
    free(candidates->strings);
    memset(candidates, 0, sizeof *candidates);
}

/* Of candidates for one range the last, the best, is kept. */
static int is_outdone(const struct candidates *candidates, size_t i)
{
    const struct candidate *a = &candidates->of[i];

    return i + 1 < candidates->count && a[1].start == a->start && a[1].size == a->size;
}

static void keep(struct fp_symbol_table *table, const struct candidate *candidate)
{
    struct fp_symbol_entry *entry = &table->entry[table->count];
    uint64_t end = candidate->start + candidate->size;
    uint64_t reach = table->count > 0 ? entry[-1].reach : 0;

    *entry = (struct fp_symbol_entry){candidate->start, end > reach ? end : reach, candidate->size,
                                      table->names_size};
    memcpy(table->names + table->names_size, candidate->name, candidate->name_size);
    table->names_size += (uint32_t)candidate->name_size;
    table->names[table->names_size++] = '\0';
    table->count++;
}

/* Names in a file may overlap: the copies could be larger than the file. */
static int fill(struct fp_symbol_table *table, const struct candidates *candidates)
{
    size_t names_size = 0;

    for (size_t i = 0; i < candidates->count; i++)
        if (!is_outdone(candidates, i))
            names_size += candidates->of[i].name_size + 1;
    if (names_size > STRINGS_BYTES_MAX)
        return FP_ENOENT;
    table->entry = calloc(candidates->count, sizeof *table->entry);
    table->names = malloc(names_size);
    if (table->entry == NULL || table->names == NULL)
        return FP_ENOMEM;
    for (size_t i = 0; i < candidates->count; i++)
        if (!is_outdone(candidates, i))
            keep(table, &candidates->of[i]);
    return 0;
}

int fp_symbol_table_load(struct fp_symbol_table *table, const struct fp_elf *elf,
                         const struct fp_elf_source *source, const struct fp_cfi *cfi)
{
    struct candidates candidates = {0};
    int err;

    memset(table, 0, sizeof *table);
    err = collect(&candidates, source, &elf->symbols, &elf->strings, cfi);
    if (err != 0) {
        drop(&candidates);
        err = collect(&candidates, source, &elf->dynamic_symbols, &elf->dynamic_strings, cfi);
    }
    if (err == 0) {
        qsort(candidates.of, candidates.count, sizeof *candidates.of, by_start);
        err = fill(table, &candidates);
    }
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
