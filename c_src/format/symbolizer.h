/* symbolizer.h - the functions by which the writer names code. WRITER THREAD only.
 *
 * erts/symbolize implements it. The portable engine needs none, as its frames are text. */
#pragma once

#include <stdint.h>

#include "format/record.h"

#define FP_ATOM_BYTES_MAX 1020 /* 255 characters of UTF-8 */
#define FP_FILE_BYTES_MAX 255

enum fp_symbol_kind {
    FP_SYMBOL_ERLANG, /* module:function/arity, file and line */
    FP_SYMBOL_BIF,    /* module:function/arity, in C */
    FP_SYMBOL_NIF,    /* likewise */
    FP_SYMBOL_NONE,   /* code that functions share: it has no frame and counts as no loss */
    FP_SYMBOL_NATIVE  /* `function` of the library `file`; empty: not known */
};

struct fp_symbol {
    uint8_t kind; /* enum fp_symbol_kind */
    uint32_t module_len, function_len, file_len;
    uint32_t arity;
    uint32_t line; /* 0: not known */
    char module[FP_ATOM_BYTES_MAX];
    char function[FP_ATOM_BYTES_MAX];
    char file[FP_FILE_BYTES_MAX];
};

struct fp_symbolizer {
    void *self;
    /* The function of a frame word that is a code address or names a BIF or NIF (record.h). 0, or
     * an error: the frame is left out and counted. */
    int (*resolve)(void *self, uint64_t word, struct fp_symbol *symbol);
    /* The text of an atom word. Its length, or FP_ENOENT. */
    int (*atom)(void *self, uint64_t atom, char text[FP_ATOM_BYTES_MAX]);
    /* Compare the cache with the code, when due. The number of functions that are other code now:
     * unless it is 0, every rendered text is stale. */
    int (*revalidate)(void *self);
};
