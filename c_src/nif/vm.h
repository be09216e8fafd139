/* vm.h - what each library of a profiled node knows of the VM that has loaded it: how its memory is
 * read, and its layout. A library's state begins with a struct fp_vm.
 *
 * VALUES  What one library has found, the other one takes as a binary, a value: the layout, the
 * allocators, the sites of waits. It has addresses of this VM: it is taken by the same build of
 * flame_prof in the same OS process only, which its head proves. */
#pragma once

#include <stdatomic.h>

#include <erl_nif.h>

#include "base/safe_read.h"
#include "erts/allocators.h"
#include "erts/layout.h"
#include "erts/sites.h"

struct fp_vm {
    ErlNifMutex *lock;       /* of `memory`, while it is opened, and of `sites`; for dirty NIFs */
    struct fp_memory memory; /* immutable once memory_err is 0 */
    int memory_err;          /* 1: not opened; 0; or why no memory can be read */
    _Atomic(struct fp_layout *) layout;         /* NULL: not known; immutable once set */
    _Atomic(struct fp_allocators *) allocators; /* likewise */
    struct fp_sites *sites;                     /* under `lock`; NULL: none are known */
    struct fp_sites_value *sites_value;         /* likewise: what they were made of */
};

/* A NIF's arguments, so that its name stands in its definition. */
#define FP_NIF_ARGS                                                                                \
    ErlNifEnv *env, __attribute__((unused)) int argc,                                              \
        __attribute__((unused)) const ERL_NIF_TERM argv[]

static inline struct fp_vm *fp_vm(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

/* For load() and unload(). 0 or FP_ENOMEM. No system call: a seccomp filter may kill the caller. */
int fp_vm_open(struct fp_vm *vm);
void fp_vm_close(struct fp_vm *vm);

/* Opens `memory` once. NULL, or why this build has no native engine here. For a dirty NIF. */
const char *fp_vm_open_memory(struct fp_vm *vm);

/* The sites of waits, for a user who releases them, and their mark; NULL: none are known. For a
 * dirty NIF. */
struct fp_sites *fp_vm_sites(struct fp_vm *vm, uint64_t *mark);

/* The address of the calling process's structure; 0 when its word is not the process's pid. */
uint64_t fp_own_process(ErlNifEnv *env, const struct fp_memory *memory);

enum fp_value { FP_VALUE_LAYOUT, FP_VALUE_ALLOCATORS, FP_VALUE_SITES };

struct fp_sites_value {
    uint64_t mark; /* of the code that they were found in */
    uint64_t rows;
    struct fp_site_row row[];
};

size_t fp_sites_value_bytes(const struct fp_sites_value *sites);

/* A binary with these bytes. */
ERL_NIF_TERM fp_value_make(ErlNifEnv *env, enum fp_value kind, const void *bytes, size_t size);

/* Takes `bytes`, of malloc(). The first layout and the first allocators stay: others may be using
 * them. The sites are the library's from now on; `is_public`: also those that samples know messages
 * by (erts/serving.h). 0; FP_ENOMEM, also for NULL; errors of sites. */
int fp_vm_keep(struct fp_vm *vm, enum fp_value kind, void *bytes);
int fp_vm_keep_sites(struct fp_vm *vm, struct fp_sites_value *value, int is_public);

/* NIFs of both libraries. */
#define FP_VM_NIFS(X)                                                                              \
    X(value, 1, IO)                                                                                \
    X(value_take, 1, IO)

#define FP_NIF_DECLARATION(name, arity, flags) ERL_NIF_TERM fp_nif_##name(FP_NIF_ARGS);
FP_VM_NIFS(FP_NIF_DECLARATION)
