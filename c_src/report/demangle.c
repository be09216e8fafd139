/* demangle.c - a parser of one pass, which looks one or two characters ahead. It also writes the
 * parts that it skips, and takes them back. */
#include "report/demangle.h"

#include <stdbool.h>
#include <string.h>

/* Nested as deeply, a name would need too much of the stack. */
#define DEPTH_MOST 200

struct demangler {
    const char *at, *end;
    char *out; /* FP_DEMANGLED_BYTES */
    size_t size;
    unsigned depth;
    bool is_unknown; /* no name, or of a kind that is not known */
};

/* A longer symbol is not looked at. */
#define SYMBOL_MOST 4096

/* The parts of a name that was read. */
struct name {
    size_t count;
    struct fp_slice last; /* in `out`; at NULL: what was there before, which is not kept */
    size_t before_last;   /* the size of `out` */
    bool has_unknown;
};

static struct name read_name(struct demangler *r);
static void pass_type(struct demangler *r);

/* ---- characters ---- */

static bool is_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* 0 behind the end. */
static char ahead(const struct demangler *r, size_t n)
{
    return (size_t)(r->end - r->at) > n ? r->at[n] : '\0';
}

static bool take(struct demangler *r, const char *text)
{
    size_t size = strlen(text);

    if ((size_t)(r->end - r->at) < size || memcmp(r->at, text, size) != 0)
        return false;
    r->at += size;
    return true;
}

static void pass_digits(struct demangler *r)
{
    while (is_digit(ahead(r, 0)))
        r->at++;
}

/* `[0-9A-Z]*_` behind `skip` characters. */
static bool take_number_of(struct demangler *r, size_t skip, bool has_letters)
{
    size_t n = skip;

    while (is_digit(ahead(r, n)) || (has_letters && is_upper(ahead(r, n))))
        n++;
    if (ahead(r, n) != '_')
        return false;
    r->at += n + 1;
    return true;
}

static bool take_substitution(struct demangler *r)
{
    return (ahead(r, 0) == 'S' || ahead(r, 0) == 'T') && take_number_of(r, 1, true);
}

static bool goes_on(struct demangler *r)
{
    return !r->is_unknown && !take(r, "E");
}

/* ---- parts ---- */

static void put(struct demangler *r, struct fp_slice text)
{
    if (text.size >= FP_DEMANGLED_BYTES - r->size) {
        r->is_unknown = true;
        return;
    }
    memmove(r->out + r->size, text.at, text.size);
    r->size += text.size;
}

static void begin_part(struct demangler *r, struct name *name)
{
    name->before_last = r->size;
    if (name->count++ > 0)
        put(r, FP_SLICE("::"));
    name->last.at = r->out + r->size;
}

static void end_part(const struct demangler *r, struct name *name)
{
    name->last.size = (size_t)(r->out + r->size - name->last.at);
}

static void add(struct demangler *r, struct name *name, struct fp_slice text)
{
    begin_part(r, name);
    put(r, text);
    end_part(r, name);
}

static void add_unknown(struct demangler *r, struct name *name)
{
    begin_part(r, name);
    name->last.at = NULL;
    name->has_unknown = true;
}

static struct fp_slice read_source(struct demangler *r)
{
    static const char anonymous[] = "_GLOBAL__N";
    size_t length = 0;
    struct fp_slice text = FP_SLICE("");

    r->is_unknown |= !is_digit(ahead(r, 0));
    for (; is_digit(ahead(r, 0)) && length < FP_DEMANGLED_BYTES; r->at++)
        length = 10 * length + (size_t)(*r->at - '0');
    if (length == 0 || length > (size_t)(r->end - r->at))
        r->is_unknown = true;
    if (r->is_unknown)
        return text;
    text = (struct fp_slice){r->at, length};
    r->at += length;
    if (length >= sizeof(anonymous) - 1 && memcmp(text.at, anonymous, sizeof(anonymous) - 1) == 0)
        return FP_SLICE("(anonymous namespace)");
    return text;
}

struct coded {
    char code[3];
    const char *name;
};

/* NULL: none has this code. */
static const char *find(const struct coded *table, size_t count, const char *code)
{
    for (size_t i = 0; i < count; i++) {
        if (memcmp(table[i].code, code, 2) == 0)
            return table[i].name;
    }
    return NULL;
}

static const struct coded operators[] = {
    {"nw", " new"}, {"na", " new[]"}, {"dl", " delete"}, {"da", " delete[]"}, {"co", "~"},
    {"pl", "+"},    {"mi", "-"},      {"ml", "*"},       {"dv", "/"},         {"rm", "%"},
    {"an", "&"},    {"or", "|"},      {"eo", "^"},       {"aS", "="},         {"pL", "+="},
    {"mI", "-="},   {"mL", "*="},     {"dV", "/="},      {"rM", "%="},        {"aN", "&="},
    {"oR", "|="},   {"eO", "^="},     {"ls", "<<"},      {"rs", ">>"},        {"lS", "<<="},
    {"rS", ">>="},  {"eq", "=="},     {"ne", "!="},      {"lt", "<"},         {"gt", ">"},
    {"le", "<="},   {"ge", ">="},     {"ss", "<=>"},     {"nt", "!"},         {"aa", "&&"},
    {"oo", "||"},   {"pp", "++"},     {"mm", "--"},      {"pm", "->*"},       {"pt", "->"},
    {"cl", "()"},   {"ix", "[]"},     {"ps", "+"},       {"ng", "-"},         {"ad", "&"},
    {"de", "*"},
};

/* Of the namespace std. */
static const struct coded standard[] = {
    {"Sa", "allocator"},     {"Sb", "basic_string"},  {"Ss", "basic_string"},
    {"Si", "basic_istream"}, {"So", "basic_ostream"}, {"Sd", "basic_iostream"},
};

#define FIND(table, code) find((table), sizeof(table) / sizeof(*(table)), (code))

static struct fp_slice text_of(const char *text)
{
    return (struct fp_slice){text, strlen(text)};
}

/* A constructor or destructor is called as what stands before it. */
static void add_special(struct demangler *r, struct name *name, bool is_destructor)
{
    struct fp_slice last = name->last;

    r->at += 2;
    if (name->count == 0 || last.at == NULL) {
        add_unknown(r, name);
        r->is_unknown |= is_destructor;
        return;
    }
    begin_part(r, name);
    if (is_destructor)
        put(r, FP_SLICE("~"));
    put(r, last);
    end_part(r, name);
}

static void add_operator(struct demangler *r, struct name *name)
{
    const char *text = FIND(operators, r->at);

    r->at += 2;
    r->is_unknown |= text == NULL;
    if (text == NULL)
        return;
    begin_part(r, name);
    put(r, FP_SLICE("operator"));
    put(r, text_of(text));
    end_part(r, name);
}

static void add_coded(struct demangler *r, struct name *name)
{
    char first = ahead(r, 0), second = ahead(r, 1);

    if ((first == 'C' || first == 'D') && is_in(second, "012345")) {
        add_special(r, name, first == 'D');
    } else if (first == 'S' && is_in(second, "absiod")) {
        add(r, name, FP_SLICE("std"));
        add(r, name, text_of(FIND(standard, r->at)));
        r->at += 2;
    } else if (is_lower(first) && (is_lower(second) || is_upper(second))) {
        add_operator(r, name);
    } else {
        add(r, name, read_source(r));
    }
}

/* ---- what is left out ---- */

static void pass_template(struct demangler *r);

static void pass_literal(struct demangler *r)
{
    if (take(r, "_Z")) {
        r->is_unknown = true;
        return;
    }
    pass_type(r);
    take(r, "n");
    pass_digits(r);
    r->is_unknown |= !take(r, "E");
}

static void pass_template(struct demangler *r)
{
    r->is_unknown |= ++r->depth > DEPTH_MOST;
    while (goes_on(r)) {
        if (take(r, "J"))
            pass_template(r);
        else if (take(r, "L"))
            pass_literal(r);
        else
            pass_type(r);
    }
    r->depth--;
}

static void pass_name(struct demangler *r)
{
    size_t size = r->size;

    read_name(r);
    r->size = size;
}

/* Pointers, references, const and the like. */
static void pass_qualifiers(struct demangler *r)
{
    for (;;) {
        if (is_in(ahead(r, 0), "PROCGrVK"))
            r->at++;
        else if (ahead(r, 0) == 'D' && is_in(ahead(r, 1), "po"))
            r->at += 2;
        else
            return;
    }
}

static void pass_types(struct demangler *r)
{
    while (goes_on(r))
        pass_type(r);
}

static void pass_known_type(struct demangler *r)
{
    if (take(r, "u")) {
        read_source(r);
    } else if (take(r, "F")) {
        take(r, "Y");
        pass_types(r);
    } else if (ahead(r, 0) == 'A' && take_number_of(r, 1, false)) {
        pass_type(r);
    } else if (take(r, "M")) {
        pass_type(r);
        pass_type(r);
    } else if ((ahead(r, 0) == 'T' && take_number_of(r, 1, false)) ||
               (ahead(r, 0) == 'S' && take_number_of(r, 1, true))) {
        if (take(r, "I"))
            pass_template(r);
    } else if (ahead(r, 0) == 'D' && is_in(ahead(r, 1), "defhisuanc")) {
        r->at += 2;
    } else if (is_lower(ahead(r, 0))) {
        r->at++;
    } else {
        pass_name(r);
    }
}

static void pass_type(struct demangler *r)
{
    pass_qualifiers(r);
    r->is_unknown |= ++r->depth > DEPTH_MOST;
    if (!r->is_unknown)
        pass_known_type(r);
    r->depth--;
}

/* ---- names ---- */

static void read_part(struct demangler *r, struct name *name)
{
    if (ahead(r, 0) == 'L' && is_digit(ahead(r, 1)))
        r->at++;
    if (take(r, "St")) {
        add(r, name, FP_SLICE("std"));
    } else if (take(r, "I")) {
        pass_template(r);
    } else if (take(r, "B")) {
        read_source(r);
    } else if (take(r, "Ul")) {
        pass_types(r);
        take_number_of(r, 0, false);
        add(r, name, FP_SLICE("{lambda}"));
    } else if (ahead(r, 0) == 'U' && ahead(r, 1) == 't' && take_number_of(r, 2, false)) {
        add(r, name, FP_SLICE("{unnamed}"));
    } else if (take_substitution(r)) {
        add_unknown(r, name);
    } else {
        add_coded(r, name);
    }
}

/* Rust has one at the end of each name. */
static bool is_hash(struct fp_slice text)
{
    if (text.at == NULL || text.size != 17 || text.at[0] != 'h')
        return false;
    for (size_t i = 1; i < text.size; i++) {
        if (!is_in(text.at[i], "0123456789abcdef"))
            return false;
    }
    return true;
}

/* The part inside of a function, behind the function's own name. */
static struct name read_local(struct demangler *r)
{
    struct name name = read_name(r), inner;
    size_t size;

    pass_types(r);
    size = r->size;
    if (name.count > 0)
        put(r, FP_SLICE("::"));
    inner = read_name(r);
    if (inner.count == 0)
        r->size = size;
    name.has_unknown |= inner.has_unknown;
    if (inner.count > 0)
        name.last = inner.last;
    name.count += inner.count;
    return name;
}

static struct name read_parts(struct demangler *r)
{
    struct name name = {0};

    if (take(r, "N")) {
        while (is_in(ahead(r, 0), "rVK"))
            r->at++;
        if (is_in(ahead(r, 0), "RO"))
            r->at++;
        while (goes_on(r))
            read_part(r, &name);
    } else {
        if (take(r, "St"))
            add(r, &name, FP_SLICE("std"));
        read_part(r, &name);
        if (take(r, "I"))
            pass_template(r);
    }
    if (name.count > 1 && is_hash(name.last))
        r->size = name.before_last;
    return name;
}

static struct name read_name(struct demangler *r)
{
    struct name name = {0};

    r->is_unknown |= ++r->depth > DEPTH_MOST;
    if (!r->is_unknown)
        name = take(r, "Z") ? read_local(r) : read_parts(r);
    r->depth--;
    return name;
}

struct fp_slice fp_demangle(struct fp_slice symbol, char *room)
{
    struct demangler r = {.at = symbol.at, .end = symbol.at + symbol.size, .out = room};
    const char *suffix = symbol.at, *end = r.end;
    struct name name;

    if (symbol.size > SYMBOL_MOST || !take(&r, "_Z"))
        return symbol;
    for (suffix = r.at; suffix < end && *suffix != '.' && *suffix != '@'; suffix++)
        ;
    r.end = suffix;
    name = read_name(&r);
    if (name.count == 0 || name.has_unknown || r.size == 0)
        return symbol;
    put(&r, (struct fp_slice){suffix, (size_t)(end - suffix)});
    return r.is_unknown ? symbol : (struct fp_slice){room, r.size};
}
