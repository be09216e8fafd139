/*
 * symbolizer.h - the functions by which the writer names code.
 *
 * The native engine implements it over vm/code and vm/atom; the portable one needs none (its frames
 * travel as text); tests put a table behind it. WRITER THREAD only.
 */
#ifndef FP_FORMAT_SYMBOLIZER_H
#define FP_FORMAT_SYMBOLIZER_H

#include <stdint.h>

#include "format/record.h"

#define FP_ATOM_BYTES_MAX 1020 /* 255 characters of UTF-8 */
#define FP_FILE_BYTES_MAX 255

enum fp_symbol_kind {
    FP_SYMBOL_ERLANG, /* module:function/arity, file and line */
    FP_SYMBOL_BIF,    /* module:function/arity, in C */
    FP_SYMBOL_NIF,    /* likewise */
    FP_SYMBOL_NONE,   /* code that functions share: no frame, and no loss */
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
    /* The function of a frame word that is a code address, of Erlang or of C, or names a BIF or
     * NIF (record.h). 0; FP_ENOENT when there is none (the frame is left out and counted);
     * FP_EFAULT. */
    int (*resolve)(void *self, uint64_t word, struct fp_symbol *symbol);
    /* The text of an atom word. Its length, or FP_ENOENT. */
    int (*atom)(void *self, uint64_t atom, char text[FP_ATOM_BYTES_MAX]);
    /* Re-read what the cache stands on, when due. How many functions were found to be other code
     * now: if not 0, no rendered text can be trusted. */
    int (*revalidate)(void *self);
};

#endif
