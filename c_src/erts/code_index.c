#include "erts/code_index.h"

#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/pages.h"
#include "erts/code_scan.h"
#include "erts/term.h"

/* Bounds of the caches. A full one is emptied and fills anew; its unused part costs no memory. */
#define PC_CACHE_SIZE 16384u /* power of two */
#define FUNCTIONS_MAX 4096u
#define ATOM_CACHE_SIZE 8192u /* power of two; at most 3/4 full */
#define MODULES_MAX 1024u

/* Words of a BeamCodeHeader from num_functions to functions[0], at most. */
#define HEADER_WORDS_MAX 24u

/* Of a function that was resolved: other words at `mfa_at` mean other code. */
struct function {
    uint64_t mfa_at;
    uint64_t mfa[3];
};

struct module {
    uint64_t functions;  /* address of functions[0] */
    uint64_t start, end; /* of its code: functions[0] .. functions[N] */
    uint64_t name;
    uint64_t line_table;
    uint32_t count; /* N */
    /* From num_functions to functions[0]: addresses of the line table, the attributes, the checksum
     * and more. A module that replaces this one differs in it, even at the same address. */
    uint64_t header[HEADER_WORDS_MAX];
};

struct pc_entry {
    uint64_t pc;    /* 0: free */
    int found;      /* 0 or an error */
    uint32_t epoch; /* an error is good until the next revalidation */
    struct fp_location location;
};

/* Text of an atom, or of a string in a module's literals. */
struct atom_text {
    uint64_t atom; /* the term; 0: free */
    uint32_t len;
    char *text;
};

struct fp_code_index {
    const struct fp_layout *layout;
    const struct fp_memory *memory;
    struct fp_ranges ranges;
    uint32_t epoch;                          /* revalidations */
    uint32_t replaced;                       /* modules dropped since the last of them */
    struct pc_entry pc[PC_CACHE_SIZE];       /* direct mapped */
    struct function function[FUNCTIONS_MAX]; /* unordered */
    uint32_t functions;
    struct module module[MODULES_MAX]; /* unordered */
    uint32_t modules;
    struct atom_text atom[ATOM_CACHE_SIZE]; /* open addressing */
    uint32_t atoms;
    struct fp_arena texts; /* of atom[] */
    /* For revalidation: of each function, and of each module. */
    struct fp_safe_read_span span[FUNCTIONS_MAX];
    uint64_t now[FUNCTIONS_MAX][3];
    struct fp_safe_read_span header_span[MODULES_MAX];
    uint64_t header_now[MODULES_MAX][HEADER_WORDS_MAX];
};

/* -------------------------------------------------------------- modules -- */

static uint32_t header_size(const struct fp_code_index *code)
{
    return 8u * (code->layout->release.functions_to_num_functions + 1u);
}

static uint64_t header_address(const struct fp_code_index *code, uint64_t functions)
{
    return functions - 8ull * code->layout->release.functions_to_num_functions;
}

/* Is `at` the address of functions[0] of a header whose functions enclose `pc`? Every entry but the
 * last must be the info of a function. */
static int read_header(struct fp_code_index *code, uint64_t at, uint64_t pc, struct module *module)
{
    const struct fp_release *release = &code->layout->release;
    uint64_t count, previous = 0, entry[256];

    memset(module->header, 0, sizeof module->header);
    if (fp_safe_read(code->memory, header_address(code, at), module->header, header_size(code)) !=
        0)
        return FP_ENOENT;
    count = module->header[0];
    if (count == 0 || count > 65535 || fp_safe_read_word(code->memory, at, &module->start) != 0 ||
        fp_safe_read_word(code->memory, at + 8 * count, &module->end) != 0 || pc < module->start ||
        pc >= module->end)
        return FP_ENOENT;
    for (uint64_t i = 0; i <= count; i += 256) {
        size_t n = count + 1 - i < 256 ? (size_t)(count + 1 - i) : 256;

        if (fp_safe_read(code->memory, at + 8 * i, entry, 8 * n) != 0)
            return FP_ENOENT;
        for (size_t k = 0; k < n; k++) {
            /* The last one is the end of the code, at any address. */
            if (entry[k] <= previous || ((entry[k] & 7) != 0 && i + k < count))
                return FP_ENOENT;
            previous = entry[k];
        }
    }
    module->line_table =
        module->header[release->functions_to_num_functions - release->functions_to_line_table];
    module->functions = at;
    module->count = (uint32_t)count;
    return 0;
}

/* Walks back from a function of module `name`, past the earlier functions of the module, to a word
 * that is the address of the earliest. */
static int find_header(struct fp_code_index *code, uint64_t pc, uint64_t mfa_at, uint64_t name,
                       struct module *module)
{
    uint64_t first = mfa_at - FP_MFA_IN_INFO, word;
    struct fp_code_walk walk;

    fp_code_walk_start(&walk, code->memory, fp_range_of(&code->ranges, mfa_at)->start, first - 8);
    while (fp_code_walk_next(&walk)) {
        memcpy(&word, fp_code_walk_bytes(&walk), sizeof word);
        if (word == first && read_header(code, walk.at, pc, module) == 0) {
            module->name = name;
            return 0;
        }
        if (fp_is_code_info(fp_code_walk_bytes(&walk))) {
            if (word != name)
                return FP_ENOENT; /* a function of another module */
            first = walk.at - FP_MFA_IN_INFO;
        }
    }
    return FP_ENOENT;
}

/* The code of a purged module may be another's by now. */
static int still_there(struct fp_code_index *code, const struct module *kept, uint64_t pc)
{
    struct module now;

    return read_header(code, kept->functions, pc, &now) == 0 && now.end == kept->end &&
           memcmp(now.header, kept->header, sizeof now.header) == 0;
}

static int module_around(struct fp_code_index *code, uint64_t pc, uint64_t mfa_at, uint64_t name,
                         struct module *module)
{
    for (uint32_t i = 0; i < code->modules; i++) {
        if (pc < code->module[i].start || pc >= code->module[i].end)
            continue;
        *module = code->module[i];
        if (module->name == name && still_there(code, module, pc))
            return 0;
        code->replaced++; /* so that the next revalidation forgets what it resolved */
        code->module[i] = code->module[--code->modules];
        break;
    }
    if (find_header(code, pc, mfa_at, name, module) != 0)
        return FP_ENOENT;
    if (code->modules == MODULES_MAX)
        code->modules = 0; /* each function is still compared by its own words */
    code->module[code->modules++] = *module;
    return 0;
}

/* ---------------------------------------------------------------- lines -- */

/* How many of the ascending words at `array` are at most `pc`. */
static int count_up_to(const struct fp_code_index *code, uint64_t array, uint64_t count,
                       uint64_t pc, uint64_t *n)
{
    uint64_t low = 0, high = count, word;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (fp_safe_read_word(code->memory, array + 8 * middle, &word) != 0)
            return FP_EFAULT;
        if (word <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    *n = low;
    return 0;
}

/* BeamCodeLineTab (beam_code.h): 0 fname_ptr, 8 int loc_size, 16 loc_tab, 24 func_tab[].
 * func_tab[f]..func_tab[f+1] is an ascending array of code addresses; the location of an address is
 * that of the last one not above it. A location is file << 24 | line, with fname_ptr[file] the
 * file's name, a string in the module's literals; 0 is no location (utils.c erts_build_mfa_item).
 */
#define FILE_TEXT_MAX 255u
#define LINE_ENTRIES_MAX 65536u

static void find_line(struct fp_code_index *code, const struct module *module, uint32_t function,
                      uint64_t pc, struct fp_location *location)
{
    struct {
        uint64_t fname;
        int32_t loc_size, padding;
        uint64_t loc_tab, func_tab0;
    } table;
    uint64_t bounds[2], lines, n = 0, index;
    uint32_t loc = 0;

    if (module->line_table == 0 ||
        fp_safe_read(code->memory, module->line_table, &table, sizeof table) != 0 ||
        fp_safe_read(code->memory, module->line_table + 24 + 8ull * function, bounds,
                     sizeof bounds) != 0)
        return;
    /* The entry behind the last is where the next function's lines begin. */
    lines = (bounds[1] - bounds[0]) / 8;
    if (bounds[1] <= bounds[0] || lines > LINE_ENTRIES_MAX ||
        count_up_to(code, bounds[0], lines + 1, pc, &n) != 0 || n == 0 || n > lines)
        return;
    index = (bounds[0] - table.func_tab0) / 8 + n - 1;
    if ((table.loc_size != 2 && table.loc_size != 4) ||
        fp_safe_read(code->memory, table.loc_tab + index * (uint64_t)table.loc_size, &loc,
                     (size_t)table.loc_size) != 0 ||
        loc == 0)
        return;
    location->line = loc & 0xffffff;
    if (fp_safe_read_word(code->memory, table.fname + 8ull * (loc >> 24), &location->file) != 0 ||
        !fp_term_is_list(location->file))
        location->file = 0;
}

/* ------------------------------------------------------------ resolving -- */

static void forget_all(struct fp_code_index *code)
{
    memset(code->pc, 0, PC_CACHE_SIZE * sizeof *code->pc);
    code->functions = 0;
}

static void forget_texts(struct fp_code_index *code)
{
    fp_arena_free(&code->texts);
    memset(code->atom, 0, sizeof code->atom);
    code->atoms = 0;
}

static void remember_function(struct fp_code_index *code, uint64_t mfa_at, const uint64_t mfa[3])
{
    for (uint32_t i = code->functions; i-- > 0;)
        if (code->function[i].mfa_at == mfa_at)
            return;
    if (code->functions == FUNCTIONS_MAX)
        forget_all(code);
    code->function[code->functions].mfa_at = mfa_at;
    memcpy(code->function[code->functions++].mfa, mfa, FP_MFA_SIZE);
}

/* A tracer's frame holds a pointer to the MFA of the function that it traces (beam_bp.c). It looks
 * like a return address, but what stands there is no code. */
static int is_before_mfa(const struct fp_memory *memory, uint64_t pc)
{
    unsigned char info[FP_MFA_IN_INFO + FP_MFA_SIZE + 8];

    return (pc & 7) == 7 && fp_safe_read(memory, pc + 1 - FP_MFA_IN_INFO, info, sizeof info) == 0 &&
           fp_is_code_info(info + FP_MFA_IN_INFO);
}

static int resolve(struct fp_code_index *code, uint64_t pc, struct fp_location *out)
{
    struct module module;
    uint64_t mfa_at = 0, n = 0, info = 0;

    memset(out, 0, sizeof *out);
    if (is_before_mfa(code->memory, pc) ||
        fp_code_nearest(code->memory, &code->ranges, pc, out->mfa, &mfa_at) != 0 ||
        module_around(code, pc, mfa_at, out->mfa[0], &module) != 0 ||
        count_up_to(code, module.functions, module.count, pc, &n) != 0 || n == 0 ||
        fp_safe_read_word(code->memory, module.functions + 8 * (n - 1), &info) != 0 ||
        info + FP_MFA_IN_INFO != mfa_at)
        return FP_ENOENT;
    find_line(code, &module, (uint32_t)n - 1, pc, out);
    remember_function(code, mfa_at, out->mfa);
    return 0;
}

int fp_code_index_resolve(struct fp_code_index *code, uint64_t pc, struct fp_location *location)
{
    struct pc_entry *entry = &code->pc[fp_hash_two(pc, 0) & (PC_CACHE_SIZE - 1)];

    if (entry->pc != pc || pc == 0 || (entry->found != 0 && entry->epoch != code->epoch)) {
        struct fp_location found;
        int err = resolve(code, pc, &found);

        /* resolve() may have emptied the cache: the entry is written last. */
        entry->found = err;
        entry->location = found;
        entry->epoch = code->epoch;
        entry->pc = pc;
    }
    *location = entry->location;
    return entry->found;
}

/* How many spans differ from what is expected: the `stride`th bytes from `expected` on. */
static int count_changed(const struct fp_code_index *code, struct fp_safe_read_span *span,
                         uint32_t n, const void *expected, size_t stride)
{
    int changed = 0;

    fp_safe_read_view(code->memory, span, n);
    for (uint32_t i = 0; i < n; i++)
        changed += span[i].result != 0 ||
                   memcmp(span[i].into, (const char *)expected + i * stride, span[i].size) != 0;
    return changed;
}

static int functions_changed(struct fp_code_index *code)
{
    for (uint32_t i = 0; i < code->functions; i++)
        code->span[i] =
            (struct fp_safe_read_span){code->function[i].mfa_at, code->now[i], FP_MFA_SIZE, 0};
    return count_changed(code, code->span, code->functions, code->function[0].mfa,
                         sizeof *code->function);
}

static int modules_changed(struct fp_code_index *code)
{
    for (uint32_t i = 0; i < code->modules; i++)
        code->header_span[i] =
            (struct fp_safe_read_span){header_address(code, code->module[i].functions),
                                       code->header_now[i], header_size(code), 0};
    return count_changed(code, code->header_span, code->modules, code->module[0].header,
                         sizeof *code->module);
}

int fp_code_index_revalidate(struct fp_code_index *code)
{
    int changed = functions_changed(code) + modules_changed(code) + (int)code->replaced;

    code->epoch++;
    code->replaced = 0;
    if (changed > 0) {
        forget_all(code);
        forget_texts(code); /* a file's name goes with its module */
        code->modules = 0;
    }
    return changed;
}

uint32_t fp_code_index_size(const struct fp_code_index *code)
{
    return code->functions;
}

void fp_code_index_set_ranges(struct fp_code_index *code, const struct fp_ranges *ranges)
{
    if (memcmp(&code->ranges, ranges, sizeof *ranges) == 0)
        return;
    code->ranges = *ranges;
    /* An address that was in no function may be in one now. */
    forget_all(code);
}

/* ---------------------------------------------------------------- texts -- */

static struct atom_text *atom_place(struct fp_code_index *code, uint64_t atom)
{
    uint64_t at = fp_hash_two(atom, 0);

    while (code->atom[at & (ATOM_CACHE_SIZE - 1)].atom != 0 &&
           code->atom[at & (ATOM_CACHE_SIZE - 1)].atom != atom)
        at++;
    return &code->atom[at & (ATOM_CACHE_SIZE - 1)];
}

/* The text of `term`: the cached one, or what `read` makes. */
static const char *cached_text(struct fp_code_index *code, uint64_t term,
                               int (*read)(struct fp_code_index *, uint64_t, char *), uint32_t *len)
{
    struct atom_text *place = atom_place(code, term);
    char text[FP_ATOM_TEXT_MAX];
    int size;

    if (term == 0)
        return NULL;
    if (place->atom == 0) {
        size = read(code, term, text);
        if (size < 0)
            return NULL;
        if (code->atoms >= ATOM_CACHE_SIZE / 4 * 3) {
            forget_texts(code);
            place = atom_place(code, term);
        }
        place->text = fp_arena_alloc(&code->texts, (size_t)size + 1);
        if (place->text == NULL)
            return NULL;
        memcpy(place->text, text, (size_t)size);
        place->text[size] = '\0';
        place->len = (uint32_t)size;
        place->atom = term;
        code->atoms++;
    }
    *len = place->len;
    return place->text;
}

static int read_atom(struct fp_code_index *code, uint64_t term, char *text)
{
    return fp_atom_text(code->layout, code->memory, term, text);
}

const char *fp_code_index_atom(struct fp_code_index *code, uint64_t atom, uint32_t *len)
{
    return cached_text(code, atom, read_atom, len);
}

static uint32_t put_utf8(uint64_t c, char *out)
{
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    uint32_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;

    for (uint32_t i = more; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[more] | c);
    return more + 1;
}

/* A string is cells of {character, rest}, until nil; a long one is cut. */
static int read_file(struct fp_code_index *code, uint64_t term, char *text)
{
    uint32_t size = 0;

    while (fp_term_is_list(term) && size + 4 <= FILE_TEXT_MAX) {
        uint64_t cell[2];

        if (fp_safe_read(code->memory, fp_term_address(term), cell, sizeof cell) != 0 ||
            (cell[0] & 0xf) != 0xf || cell[0] >> 4 > 0x10ffff)
            return FP_ENOENT;
        size += put_utf8(cell[0] >> 4, text + size);
        term = cell[1];
    }
    return (int)size;
}

const char *fp_code_index_file(struct fp_code_index *code, uint64_t file, uint32_t *len)
{
    return cached_text(code, file, read_file, len);
}

/* ------------------------------------------------------- life and death -- */

int fp_code_index_create(struct fp_code_index **out, const struct fp_layout *layout,
                         const struct fp_memory *memory, const struct fp_ranges *ranges)
{
    struct fp_code_index *code = fp_pages_alloc(sizeof *code);

    if (code == NULL)
        return FP_ENOMEM;
    code->layout = layout;
    code->memory = memory;
    code->ranges = *ranges;
    *out = code;
    return 0;
}

void fp_code_index_destroy(struct fp_code_index *code)
{
    if (code == NULL)
        return;
    fp_arena_free(&code->texts);
    fp_pages_free(code, sizeof *code);
}
