/* fake_vm.h - a VM that stands still: a process table, processes with heaps and stacks, atoms, and
 * JIT code with modules, functions and line tables, in fake memory and in the shape that a
 * release's entry of the layout table says.
 *
 * Process n has the pid that ERTS makes of the counter value n; its structure and heap lie at
 * places of their own, FAKE_HEAP_WORDS words each. */
#pragma once

#include "erts/abandoned.h"
#include "erts/layout_solve.h"
#include "erts/process.h"
#include "fake_memory.h"

#define FAKE_TABLE (FAKE_BASE + UINT64_C(0x000000000))
#define FAKE_PROCESSES (FAKE_BASE + UINT64_C(0x100000000))
#define FAKE_HEAPS (FAKE_BASE + UINT64_C(0x200000000))
#define FAKE_JIT (FAKE_BASE + UINT64_C(0x300000000))
#define FAKE_LINES (FAKE_BASE + UINT64_C(0x400000000))
#define FAKE_ATOMS (FAKE_BASE + UINT64_C(0x500000000))
#define FAKE_DATA (FAKE_BASE + UINT64_C(0x600000000))
#define FAKE_MISC (FAKE_BASE + UINT64_C(0x700000000))

#define FAKE_PROCESS_STRIDE 1024u
#define FAKE_HEAP_WORDS 512u
#define FAKE_JIT_SIZE (1u << 20)
#define FAKE_ATOMS_MAX 2048u

struct fake_vm {
    struct fake_memory memory;
    struct fp_layout layout;
    struct fp_ranges code;
    struct fp_live_ranges live_code;
    uint32_t processes; /* how many there is room for */
    uint64_t jit_at, lines_at, text_at;
    uint32_t atoms;
};

/* `limit` (a power of two, 8 at least): slots of the process table. `jit`, `atoms`: map and fill
 * those parts, too. */
void fake_vm_create(struct fake_vm *vm, unsigned otp, uint32_t limit, uint32_t processes);
void fake_vm_add_jit(struct fake_vm *vm);
void fake_vm_add_atoms(struct fake_vm *vm);
void fake_vm_destroy(struct fake_vm *vm);

/* The pid that ERTS makes of a counter value (erl_ptab.c), by its own way. */
uint64_t fake_pid(const struct fp_layout *layout, uint64_t data);
uint32_t fake_slot(const struct fp_layout *layout, uint64_t data);

/* The structure's and the heap's place of process n. */
uint64_t fake_process_at(uint32_t n);
uint64_t fake_heap_at(uint32_t n);

/* Process n begins to be: waiting, at `i`, with an empty stack. Its pid. */
uint64_t fake_spawn(struct fake_vm *vm, uint32_t n, uint64_t i);
/* Its slot is emptied and its structure says that it is free. */
void fake_exit(struct fake_vm *vm, uint32_t n);

/* The heap's size is what `heap' and `hend' come to, as ERTS keeps it; _torn: as it was. */
void fake_set(struct fake_vm *vm, uint32_t n, enum fp_field field, uint64_t value);
void fake_set_torn(struct fake_vm *vm, uint32_t n, enum fp_field field, uint64_t value);
void fake_set_heap_size(struct fake_vm *vm, uint32_t n, uint64_t words);
void fake_set_abandoned(struct fake_vm *vm, uint32_t n, uint64_t heap);
uint64_t fake_get(struct fake_vm *vm, uint32_t n, enum fp_field field);
/* Sizes and counters of its own, other ones for each n; 0 has no old heap. */
void fake_fill(struct fake_vm *vm, uint32_t n);
/* What Erlang says of it. */
int64_t fake_fact(struct fake_vm *vm, uint32_t n, enum fp_fact which);
/* The words of its stack, the leaf's end first. */
void fake_set_stack(struct fake_vm *vm, uint32_t n, const uint64_t *word, size_t words);

/* A new atom; its term. */
uint64_t fake_atom_term(struct fake_vm *vm, const char *text, size_t len);
uint64_t fake_text_atom(struct fake_vm *vm, const char *text);

/* The atoms of the envelopes of messages. */
void fake_vm_add_envelopes(struct fake_vm *vm);

/* A string among the literals, a list of characters; its term. */
uint64_t fake_string(struct fake_vm *vm, const uint32_t *character, size_t n);

struct fake_body {
    uint64_t function; /* atom term */
    uint32_t arity;
    uint32_t size; /* bytes of code, a multiple of 8, 32 at least */
};

struct fake_module_options {
    uint32_t loc_size;  /* 2 or 4; 0: no line table */
    uint32_t line_step; /* bytes of code for each line */
    uint64_t own_file;  /* a string: what even lines are of */
    uint64_t file;      /* a string, not 0: what odd lines are of */
    uint64_t at;        /* where to load; 0: behind what is loaded */
};

#define FAKE_FUNCTIONS_MAX 600u
struct fake_module {
    uint64_t name;
    uint64_t header;    /* first word, num_functions */
    uint64_t functions; /* address of functions[0] */
    uint64_t end;
    uint32_t count;
    uint64_t info[FAKE_FUNCTIONS_MAX], code[FAKE_FUNCTIONS_MAX];
};

void fake_load(struct fake_vm *vm, struct fake_module *module, uint64_t name,
               const struct fake_body *body, uint32_t count,
               const struct fake_module_options *options);
/* The line that fake_load gave to an address of function f. */
uint32_t fake_line(const struct fake_module *module, uint32_t f, uint64_t pc,
                   const struct fake_module_options *options);
