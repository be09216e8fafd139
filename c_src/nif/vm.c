#include "nif/vm.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "terms/terms.h"

/* struct enif_environment_t (global.h): a module's data, then the process, which begins with its
 * pid term. */
#define PROCESS_IN_ENV 8u

int fp_vm_open(struct fp_vm *vm)
{
    vm->memory_err = 1;
    vm->lock = enif_mutex_create("flame_prof_vm");
    return vm->lock == NULL ? FP_ENOMEM : 0;
}

void fp_vm_close(struct fp_vm *vm)
{
    if (vm->memory_err == 0)
        fp_safe_read_close(&vm->memory);
    if (vm->lock != NULL)
        enif_mutex_destroy(vm->lock);
    fp_sites_release(vm->sites);
    free(vm->allocators);
    free(vm->layout);
}

const char *fp_vm_open_memory(struct fp_vm *vm)
{
#if !defined(__x86_64__) || !defined(__linux__)
    (void)vm;
    return "the native engine knows Linux on x86_64 only";
#elif !defined(__GLIBC__)
    (void)vm;
    return "the native engine knows glibc only";
#else
    int err;

    enif_mutex_lock(vm->lock);
    if (vm->memory_err != 0)
        vm->memory_err = fp_safe_read_open(&vm->memory);
    err = vm->memory_err;
    enif_mutex_unlock(vm->lock);
    return err == 0 ? NULL : fp_err_text(err);
#endif
}

int fp_vm_keep_layout(struct fp_vm *vm, const struct fp_layout *layout)
{
    struct fp_layout *copy = malloc(sizeof *copy), *none = NULL;

    if (copy == NULL)
        return FP_ENOMEM;
    *copy = *layout;
    if (!atomic_compare_exchange_strong(&vm->layout, &none, copy))
        free(copy);
    return 0;
}

void fp_vm_keep_allocators(struct fp_vm *vm, struct fp_allocators *allocators)
{
    struct fp_allocators *none = NULL;

    if (!atomic_compare_exchange_strong(&vm->allocators, &none, allocators))
        free(allocators);
}

struct fp_sites *fp_vm_sites(struct fp_vm *vm, uint64_t *mark)
{
    struct fp_sites *sites;

    enif_mutex_lock(vm->lock);
    sites = vm->sites;
    *mark = vm->sites_mark;
    fp_sites_retain(sites);
    enif_mutex_unlock(vm->lock);
    return sites;
}

uint64_t fp_own_process(ErlNifEnv *env, const struct fp_memory *memory)
{
    uint64_t address = 0, id = 0;
    ErlNifPid self;

    if (fp_safe_read_word(memory, (uint64_t)(uintptr_t)env + PROCESS_IN_ENV, &address) != 0 ||
        fp_safe_read_word(memory, address, &id) != 0 || enif_self(env, &self) == NULL ||
        id != enif_make_pid(env, &self))
        return 0;
    return address;
}

/* ------------------------------------------------------------------ values -- */

/* Changes with each structure that is a value. */
#define FORMAT 1u
#define BUILD_ID_BYTES 20u

/* A value is valid in one VM only: the build id names the program, and the address differs at each
 * start. */
struct head {
    char name[16];
    uint32_t format, layout_size, os_pid, build_id_size;
    unsigned char build_id[BUILD_ID_BYTES]; /* of the VM; size 0: it has none */
    uint32_t padding;
    uint64_t in_vm; /* the address of a function of the VM's */
};

struct note {
    uint32_t name_size, size, type;
    char name[4];
};

struct build_id_search {
    struct head *head;
    const struct fp_memory *memory;
};

static uint32_t aligned(uint32_t size)
{
    return (size + 3u) & ~3u;
}

static int find_in_notes(const struct build_id_search *search, uint64_t at, uint64_t left)
{
    struct head *head = search->head;
    struct note note;

    while (left >= sizeof note && fp_safe_read(search->memory, at, &note, sizeof note) == 0) {
        uint64_t whole = 12u + (uint64_t)aligned(note.name_size) + aligned(note.size);

        if (note.type == NT_GNU_BUILD_ID && note.name_size == 4 &&
            memcmp(note.name, "GNU", 4) == 0 && note.size <= BUILD_ID_BYTES &&
            fp_safe_read(search->memory, at + sizeof note, head->build_id, note.size) == 0) {
            head->build_id_size = note.size;
            return 1;
        }
        if (whole > left)
            break;
        at += whole;
        left -= whole;
    }
    return 0;
}

/* The first object is the program. */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE &&
            find_in_notes(arg, info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
                          info->dlpi_phdr[i].p_filesz))
            break;
    return 1;
}

/* With memory that is open. */
static void make_head(ErlNifEnv *env, struct head *head, const char *name)
{
    struct build_id_search search = {head, &fp_vm(env)->memory};

    memset(head, 0, sizeof *head);
    snprintf(head->name, sizeof head->name, "%s", name);
    head->format = FORMAT;
    head->layout_size = sizeof(struct fp_layout);
    head->os_pid = (uint32_t)getpid();
    head->in_vm = (uint64_t)(uintptr_t)&enif_make_atom;
    dl_iterate_phdr(find_build_id, &search);
}

ERL_NIF_TERM fp_value_make(ErlNifEnv *env, const char *name, const void *bytes, size_t size)
{
    ERL_NIF_TERM term;
    struct head head;
    unsigned char *to = enif_make_new_binary(env, sizeof head + size, &term);

    make_head(env, &head, name);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, bytes, size);
    return term;
}

/* The bytes of a value of this name, into new memory for free(), and their number. 0; FP_EINVAL:
 * another value, build or OS process; FP_EUNSUPPORTED; FP_ENOMEM. */
static int get_value(ErlNifEnv *env, ERL_NIF_TERM term, const char *name, void **bytes,
                     size_t *size)
{
    ErlNifBinary binary;
    struct head head;

    if (fp_vm_open_memory(fp_vm(env)) != NULL)
        return FP_EUNSUPPORTED;
    make_head(env, &head, name);
    if (!enif_inspect_binary(env, term, &binary) || binary.size <= sizeof head ||
        memcmp(binary.data, &head, sizeof head) != 0)
        return FP_EINVAL;
    *size = binary.size - sizeof head;
    *bytes = malloc(*size);
    if (*bytes == NULL)
        return FP_ENOMEM;
    memcpy(*bytes, binary.data + sizeof head, *size);
    return 0;
}

/* (Value) -> ok | {error, Error} */
ERL_NIF_TERM fp_nif_layout_take(FP_NIF_ARGS)
{
    void *layout = NULL;
    size_t size = 0;
    int err = get_value(env, argv[0], FP_VALUE_LAYOUT, &layout, &size);

    if (err == 0 && size != sizeof(struct fp_layout))
        err = FP_EINVAL;
    if (err == 0)
        err = fp_vm_keep_layout(fp_vm(env), layout);
    free(layout);
    return fp_result(env, err);
}

/* () -> Value | undefined */
ERL_NIF_TERM fp_nif_layout_value(FP_NIF_ARGS)
{
    const struct fp_layout *layout = fp_vm(env)->layout;

    return layout == NULL ? fp_atom(env, "undefined")
                          : fp_value_make(env, FP_VALUE_LAYOUT, layout, sizeof *layout);
}

static int is_allocators(const struct fp_allocators *allocators, size_t size)
{
    return size >= sizeof *allocators &&
           size == sizeof *allocators + allocators->count * sizeof *allocators->instance;
}

/* (Value) -> ok | {error, Error} */
ERL_NIF_TERM fp_nif_allocators_take(FP_NIF_ARGS)
{
    void *allocators = NULL;
    size_t size = 0;
    int err = get_value(env, argv[0], FP_VALUE_ALLOCATORS, &allocators, &size);

    if (err == 0 && !is_allocators(allocators, size))
        err = FP_EINVAL;
    if (err == 0)
        fp_vm_keep_allocators(fp_vm(env), allocators);
    else
        free(allocators);
    return fp_result(env, err);
}

/* () -> Value | undefined */
ERL_NIF_TERM fp_nif_allocators_value(FP_NIF_ARGS)
{
    const struct fp_allocators *allocators = fp_vm(env)->allocators;

    return allocators == NULL ? fp_atom(env, "undefined")
                              : fp_value_make(env, FP_VALUE_ALLOCATORS, allocators,
                                              sizeof *allocators +
                                                  allocators->count * sizeof *allocators->instance);
}

/* Of all instances, in *figures, which the caller frees. 0 or an error. */
int fp_vm_read_allocators(const struct fp_vm *vm, struct fp_allocator_figures **figures)
{
    const struct fp_allocators *allocators = vm->allocators;
    int read = FP_ENOMEM;

    *figures = calloc(allocators->count, sizeof **figures);
    if (*figures != NULL)
        read = fp_allocators_read(allocators, &vm->memory, 0, allocators->count, *figures);
    return read == (int)allocators->count ? 0 : read < 0 ? read : FP_EFAULT;
}
