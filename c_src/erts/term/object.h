/* object.h - what lies on a heap behind a boxed term: its size, and which of its words are terms.
 *
 * Layouts: erl_term.h, erl_map.h, erl_bits.h, erl_binary.h, global.h (ProcBin), erl_fun.h,
 * erl_record.h of 25.2.3, 27.3.4.1 and 29.1.1. A header is words behind it << 6 | subtag << 2, but
 * for maps and, from 27 on, for funs.
 *
 *   subtag   25                                27, 29
 *   0x00     tuple                             tuple
 *   0x04     match context: binary, ...        reference of funs (27)
 *   0x08 0c  integer                           integer
 *   0x10     reference                         reference
 *   0x14     fun: entry, next, numbers,        fun: entry, environment
 *            creator, environment
 *   0x18     float                             float
 *   0x1c     -                                 native record: definition, values (29)
 *   0x20     refc binary: size, next,          heap binary: size in bits, bytes
 *            Binary, bytes, flags
 *   0x24     heap binary: size, bytes          sub-binary: base, start, end in bits, BinRef
 *   0x28     sub-binary: size, offset,         BinRef: Binary, next
 *            bits, binary
 *   0x2c     -                                 map
 *   0x30-38  pid, port, reference of a node    the same
 *   0x3c     map                               -
 *
 *   map      flat: size, tuple of keys, values
 *            a node of a large one: children by a bitmap of 16; its root has the size before them
 *            a child is another node, a cell [Key | Value], or a tuple of such cells (27)
 *   Binary   flags, (27: apparent size,) count of references, size, bytes
 *            the word before it (erl_alloc_util.h, Block_t): size of the block, in bits 3 to 39
 *
 * flame_prof_xray compares what a probe process holds with erts_debug:size/1 before any of this is
 * relied on. Pure. */
#pragma once

#include <stdint.h>

enum fp_object_kind {
    FP_OBJECT_BAD, /* no object of this release */
    FP_OBJECT_TUPLE,
    FP_OBJECT_RECORD,  /* native; its definition is the first of its terms */
    FP_OBJECT_FLATMAP, /* its keys are word 2 */
    FP_OBJECT_HASHMAP,
    FP_OBJECT_HASHMAP_NODE, /* of a large map, below its root */
    FP_OBJECT_FUN,
    FP_OBJECT_HEAP_BINARY,
    FP_OBJECT_REFC_BINARY,   /* 25: a term */
    FP_OBJECT_BINARY_REF,    /* 27: behind a sub-binary */
    FP_OBJECT_SUB_BINARY,    /* `seen` bytes of the binary that is its term */
    FP_OBJECT_MATCH_CONTEXT, /* the same */
    FP_OBJECT_FUN_REF,
    FP_OBJECT_INTEGER,
    FP_OBJECT_FLOAT,
    FP_OBJECT_IDENTIFIER /* a reference; a pid or port of another node */
};

struct fp_object {
    enum fp_object_kind kind;
    uint64_t words;        /* with its header */
    uint32_t first, terms; /* words [first, first + terms) are terms */
    uint64_t seen;         /* bytes of a binary that the term shows; else 0 */
    uint64_t binary;       /* refc binary, BinRef: address of its Binary */
    uint64_t next;         /* likewise: of the next object of the process's off-heap list */
};

/* Words that the header and the decoding need. */
#define FP_OBJECT_WORDS 5u

/* From the first words of an object, of which those beyond the end of its memory are 0. */
void fp_object_decode(unsigned otp, const uint64_t word[FP_OBJECT_WORDS], struct fp_object *object);

struct fp_binary {
    uint64_t size;
    int64_t refs;
    uint64_t block; /* of the allocator's memory that it takes, with all headers */
    int has_block;  /* the allocator's header says so; 0: from its size */
    int is_magic;   /* of a NIF or the VM itself */
};

/* The header of its block, and words of the Binary. */
#define FP_BINARY_WORDS 5u

/* From the word before a Binary, 0: not known, and its first words. 0; FP_ETORN: it is none. */
int fp_binary_decode(unsigned otp, const uint64_t word[FP_BINARY_WORDS], struct fp_binary *binary);
