/* fake_terms.h - terms that a test puts into fake memory, as the VM lays them out (erl_term.h).
 *
 *      struct fake_terms heap = {&vm.memory, FAKE_HEAPS};     where terms go, one behind the other
 *      uint64_t term = FAKE_TUPLE(&heap, get, FAKE_SMALL(7)); a word
 *
 * Atoms: fake_atom_term (fake_vm.h). */
#pragma once

#include "erts/term/walk.h"
#include "fake_memory.h"

#define FAKE_NIL UINT64_C(0x3b)
#define FAKE_SMALL(n) ((uint64_t)(n) << 4 | 0x0f)
#define FAKE_PORT(n) ((uint64_t)(n) << 4 | 0x07)

struct fake_terms {
    struct fake_memory *memory;
    uint64_t at; /* where the next goes */
};

/* Any boxed term: header and words. */
uint64_t fake_boxed(struct fake_terms *heap, uint64_t header, const uint64_t *word, size_t n);

uint64_t fake_tuple(struct fake_terms *heap, const uint64_t *word, size_t n);
#define FAKE_TUPLE(heap, ...)                                                                      \
    fake_tuple(heap, (const uint64_t[]){__VA_ARGS__},                                              \
               sizeof(const uint64_t[]){__VA_ARGS__} / sizeof(uint64_t))

uint64_t fake_cons(struct fake_terms *heap, uint64_t head, uint64_t tail);
uint64_t fake_ref(struct fake_terms *heap, const struct fp_ref *ref);
/* The reference of an alias of `pid`. */
uint64_t fake_pid_ref(struct fake_terms *heap, const struct fp_ref *ref, uint64_t pid);
uint64_t fake_magic_ref(struct fake_terms *heap);

/* A node's entry: its address. */
uint64_t fake_node(struct fake_terms *heap, uint64_t name, uint32_t creation);
uint64_t fake_remote_pid(struct fake_terms *heap, uint64_t node, uint32_t number, uint32_t serial);
uint64_t fake_remote_port(struct fake_terms *heap, uint64_t node, uint64_t number);
/* Of `n` numbers, 1 to 5: those of `ref` first, then any. */
uint64_t fake_remote_ref(struct fake_terms *heap, uint64_t node, const struct fp_ref *ref,
                         uint32_t n);
