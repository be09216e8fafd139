/* cstack_truth.h - what is true of stacks and libraries, from others: libgcc's unwinder, and a
 * library that is built here and now. */
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unwind.h>

#include "cstack/cstack.h"
#include "run.h"
#include "temporary.h"

#define CHAIN_SOURCE "test/c/cstack/chain.c"

/* Is the address in a library, the executable or the vDSO? */
static inline int truth_contains(const struct fp_cstack *set, uint64_t pc)
{
    const char *name, *library;

    return fp_cstack_resolve(set, pc, &name, &library) == 0;
}

/* ---- libraries -------------------------------------------------------- */

static inline void truth_shell(const char *format, ...)
{
    char command[2048];
    va_list list;

    va_start(list, format);
    CHECK(vsnprintf(command, sizeof command, format, list) < (int)sizeof command);
    va_end(list);
    if (system(command) != 0)
        RUN_FAIL("this failed: %s", command);
}

/* Lazy binding, so that the ways through the PLT are walked as well. */
static inline void truth_build(const char *compiler, const char *flags, const char *path)
{
    truth_shell("%s -shared -fPIC -g0 -Wl,-z,lazy -Wl,--build-id %s -o "
                "%s " CHAIN_SOURCE,
                compiler, flags, path);
}

static inline int truth_has(const char *compiler)
{
    char command[256];

    snprintf(command, sizeof command, "command -v %s >/dev/null", compiler);
    return system(command) == 0;
}

static inline void *truth_open(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);

    if (library == NULL)
        RUN_FAIL("%s", dlerror());
    return library;
}

static inline uint64_t truth_symbol(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        RUN_FAIL("no %s", name);
    return (uint64_t)(uintptr_t)symbol;
}

/* ---- stacks ----------------------------------------------------------- */

#define TRUTH_FRAMES 200

struct truth_frames {
    size_t count;
    uint64_t pc[TRUTH_FRAMES];  /* as native.h says that they are */
    int is_whole[TRUTH_FRAMES]; /* not less 1 */
};

static inline _Unwind_Reason_Code truth_frame(struct _Unwind_Context *context, void *self)
{
    struct truth_frames *frames = self;
    int before = 0;
    uint64_t ip = _Unwind_GetIPInfo(context, &before);

    if (frames->count == TRUTH_FRAMES || ip == 0)
        return _URC_END_OF_STACK;
    /* What called an interrupted frame is the trampoline: no call led here, and the chain
     * starts there. */
    if (before && frames->count > 0 && !frames->is_whole[frames->count - 1])
        frames->pc[frames->count - 1]++;
    frames->is_whole[frames->count] = before;
    frames->pc[frames->count++] = before ? ip : ip - 1;
    return _URC_NO_REASON;
}

/* libgcc's opinion, from the caller of this on. */
static inline __attribute__((always_inline)) void truth_unwind(struct truth_frames *frames)
{
    frames->count = 0;
    _Unwind_Backtrace(truth_frame, frames);
}

static inline uint64_t truth_stack_end(void)
{
    pthread_attr_t attributes;
    void *base;
    size_t size;

    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &base, &size) == 0);
    pthread_attr_destroy(&attributes);
    return (uint64_t)(uintptr_t)base + size;
}

struct truth_stack {
    struct fp_cstack_stack stack;
    unsigned char bytes[1 << 18];
};

/* As a sampler would: by the kernel, so no sanitizer minds. Async-signal-safe. */
static inline void truth_copy(struct truth_stack *copy, uint64_t rsp, uint64_t end)
{
    uint64_t start = rsp - FP_RED_ZONE;
    size_t size = end - start < sizeof copy->bytes ? (size_t)(end - start) : sizeof copy->bytes;
    struct iovec local = {copy->bytes, size};
    struct iovec remote = {(void *)(uintptr_t)start, size};

    CHECK(process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size);
    copy->stack = (struct fp_cstack_stack){start, copy->bytes, size};
}

static inline struct fp_registers truth_registers(const ucontext_t *context)
{
    const greg_t *r = context->uc_mcontext.gregs;

    return (struct fp_registers){
        .rax = (uint64_t)r[REG_RAX],
        .rdx = (uint64_t)r[REG_RDX],
        .rcx = (uint64_t)r[REG_RCX],
        .rbx = (uint64_t)r[REG_RBX],
        .rsi = (uint64_t)r[REG_RSI],
        .rdi = (uint64_t)r[REG_RDI],
        .rbp = (uint64_t)r[REG_RBP],
        .rsp = (uint64_t)r[REG_RSP],
        .r8 = (uint64_t)r[REG_R8],
        .r9 = (uint64_t)r[REG_R9],
        .r10 = (uint64_t)r[REG_R10],
        .r11 = (uint64_t)r[REG_R11],
        .r12 = (uint64_t)r[REG_R12],
        .r13 = (uint64_t)r[REG_R13],
        .r14 = (uint64_t)r[REG_R14],
        .r15 = (uint64_t)r[REG_R15],
        .rip = (uint64_t)r[REG_RIP],
    };
}

static inline void truth_print(const struct fp_cstack *native, const char *who, const uint64_t *pc,
                               size_t count)
{
    printf("# %s:\n", who);
    for (size_t i = 0; i < count; i++) {
        const char *name = NULL, *library = "nowhere";

        fp_cstack_resolve(native, pc[i], &name, &library);
        printf("#   %zu %#" PRIx64 " %s in %s\n", i, pc[i], name == NULL ? "?" : name, library);
    }
}
