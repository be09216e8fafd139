#include "nif/vm.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "erts/code_scan.h"
#include "erts/serving.h"
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
    free(vm->sites_value);
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

struct fp_sites *fp_vm_sites(struct fp_vm *vm, uint64_t *mark)
{
    struct fp_sites *sites;

    enif_mutex_lock(vm->lock);
    sites = vm->sites;
    *mark = sites == NULL ? 0 : vm->sites_value->mark;
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
    uint32_t kind, format, layout_size, os_pid, build_id_size;
    unsigned char build_id[BUILD_ID_BYTES]; /* of the VM; size 0: it has none */
    uint64_t in_vm;                         /* the address of a function of the VM's */
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
static void make_head(ErlNifEnv *env, struct head *head, enum fp_value kind)
{
    struct build_id_search search = {head, &fp_vm(env)->memory};

    memset(head, 0, sizeof *head);
    head->kind = kind;
    head->format = FORMAT;
    head->layout_size = sizeof(struct fp_layout);
    head->os_pid = (uint32_t)getpid();
    head->in_vm = (uint64_t)(uintptr_t)&enif_make_atom;
    dl_iterate_phdr(find_build_id, &search);
}

ERL_NIF_TERM fp_value_make(ErlNifEnv *env, enum fp_value kind, const void *bytes, size_t size)
{
    ERL_NIF_TERM term;
    struct head head;
    unsigned char *to = enif_make_new_binary(env, sizeof head + size, &term);

    make_head(env, &head, kind);
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, bytes, size);
    return term;
}

static size_t allocators_bytes(const struct fp_allocators *allocators)
{
    return sizeof *allocators + allocators->count * sizeof *allocators->instance;
}

size_t fp_sites_value_bytes(const struct fp_sites_value *sites)
{
    return sizeof *sites + sites->rows * sizeof *sites->row;
}

/* While the code at one of them has changed there are none. */
static ERL_NIF_TERM sites_term(ErlNifEnv *env)
{
    struct fp_vm *vm = fp_vm(env);
    ERL_NIF_TERM term = fp_atom(env, "undefined");
    uint8_t is_valid[FP_SITES_MAX];

    enif_mutex_lock(vm->lock);
    if (vm->sites != NULL &&
        fp_sites_check(vm->sites, &vm->memory, is_valid) == fp_sites_count(vm->sites))
        term = fp_value_make(env, FP_VALUE_SITES, vm->sites_value,
                             fp_sites_value_bytes(vm->sites_value));
    enif_mutex_unlock(vm->lock);
    return term;
}

/* (layout | allocators | sites) -> Value | undefined */
ERL_NIF_TERM fp_nif_value(FP_NIF_ARGS)
{
    static const char *const names[] = {"layout", "allocators", "sites", NULL};
    const struct fp_layout *layout = fp_vm(env)->layout;
    const struct fp_allocators *allocators = fp_vm(env)->allocators;
    int kind = fp_get_name(env, argv[0], names);

    if (kind < 0)
        return enif_make_badarg(env);
    if (kind == FP_VALUE_SITES)
        return sites_term(env);
    if (kind == FP_VALUE_LAYOUT && layout != NULL)
        return fp_value_make(env, FP_VALUE_LAYOUT, layout, sizeof *layout);
    if (kind == FP_VALUE_ALLOCATORS && allocators != NULL)
        return fp_value_make(env, FP_VALUE_ALLOCATORS, allocators, allocators_bytes(allocators));
    return fp_atom(env, "undefined");
}

static int is_whole(enum fp_value kind, const void *bytes, size_t size)
{
    const struct fp_sites_value *sites = bytes;

    if (kind == FP_VALUE_LAYOUT)
        return size == sizeof(struct fp_layout);
    if (kind == FP_VALUE_ALLOCATORS)
        return size >= sizeof(struct fp_allocators) && size == allocators_bytes(bytes);
    return kind == FP_VALUE_SITES && size >= sizeof *sites && size == fp_sites_value_bytes(sites);
}

int fp_vm_keep(struct fp_vm *vm, enum fp_value kind, void *bytes)
{
    struct fp_layout *no_layout = NULL;
    struct fp_allocators *no_allocators = NULL;

    if (bytes == NULL)
        return FP_ENOMEM;
    if (kind == FP_VALUE_SITES)
        return fp_vm_keep_sites(vm, bytes, 1);
    if (kind == FP_VALUE_LAYOUT && atomic_compare_exchange_strong(&vm->layout, &no_layout, bytes))
        return 0;
    if (kind == FP_VALUE_ALLOCATORS &&
        atomic_compare_exchange_strong(&vm->allocators, &no_allocators, bytes))
        return 0;
    free(bytes);
    return 0;
}

/* (Value) -> ok | {error, Error}. einval: of another build or OS process; full: the sites have
 * changed too often (serving.h). */
ERL_NIF_TERM fp_nif_value_take(FP_NIF_ARGS)
{
    struct head head, right;
    ErlNifBinary binary;
    size_t size;
    void *bytes;

    if (fp_vm_open_memory(fp_vm(env)) != NULL)
        return fp_result(env, FP_EUNSUPPORTED);
    if (!enif_inspect_binary(env, argv[0], &binary) || binary.size <= sizeof head)
        return fp_result(env, FP_EINVAL);
    memcpy(&head, binary.data, sizeof head);
    make_head(env, &right, head.kind);
    size = binary.size - sizeof head;
    bytes = malloc(size);
    if (bytes == NULL)
        return fp_result(env, FP_ENOMEM);
    memcpy(bytes, binary.data + sizeof head, size);
    if (memcmp(&head, &right, sizeof head) == 0 && is_whole(head.kind, bytes, size))
        return fp_result(env, fp_vm_keep(fp_vm(env), head.kind, bytes));
    free(bytes);
    return fp_result(env, FP_EINVAL);
}

/* ------------------------------------------------------------------- sites -- */

static int create_sites(const struct fp_vm *vm, const struct fp_sites_value *value,
                        struct fp_sites **sites)
{
    struct fp_ranges *code = malloc(sizeof *code);
    int err = code == NULL ? FP_ENOMEM : vm->layout == NULL ? FP_ESTATE : 0;

    if (err == 0)
        err = fp_code_ranges(&vm->memory, code);
    if (err == 0)
        err = fp_sites_create(sites, &vm->memory, code, value->row, value->rows);
    free(code);
    return err;
}

/* If they cannot be published, the former ones are kept. */
int fp_vm_keep_sites(struct fp_vm *vm, struct fp_sites_value *value, int is_public)
{
    struct fp_sites_value *former = value;
    struct fp_sites *sites = NULL, *unused;
    int err = create_sites(vm, value, &sites);

    unused = sites;
    enif_mutex_lock(vm->lock);
    if (err == 0 && is_public)
        err = fp_serving_publish(sites);
    if (err == 0) {
        unused = vm->sites;
        former = vm->sites_value;
        vm->sites = sites;
        vm->sites_value = value;
    }
    enif_mutex_unlock(vm->lock);
    fp_sites_release(unused);
    free(former);
    return err;
}
