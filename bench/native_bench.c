/*
 * native_bench.c - what it costs to know the C code of this process: to read
 * the libraries, to walk a stack, to name an address.
 *
 *      gcc -std=c11 -D_GNU_SOURCE -O2 -Ic_src bench/native_bench.c \
 *          $(find c_src/base c_src/cstack -name '*.c') -o native_bench
 *      ./native_bench [library to load as well...]
 *
 * One line a figure; the best of ROUNDS. Not a test.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "cstack/image.h"

#define ROUNDS 20
#define WALKS 20000
#define DEPTH 30

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "native_bench: %s failed\n", what);
        exit(1);
    }
}

static struct fp_cstack *bench_create(void)
{
    struct fp_cstack *native = NULL;
    double best = 1e18;

    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ns(), ns;

        fp_cstack_destroy(native);
        check(fp_cstack_create(&native, SIZE_MAX) == 0, "fp_cstack_create");
        ns = now_ns() - begin;
        best = ns < best ? ns : best;
    }
    printf("%-24s %8.2f ms  %6zu KiB\n", "create", best / 1e6,
           native->bytes / 1024);
    return native;
}

static void bench_is_current(const struct fp_cstack *native)
{
    double begin = now_ns();

    for (int i = 0; i < WALKS; i++)
        check(fp_cstack_is_current(native), "fp_cstack_is_current");
    printf("%-24s %8.1f ns\n", "is_current", (now_ns() - begin) / WALKS);
}

static void bench_resolve(const struct fp_cstack *native, const uint64_t *pc,
                          size_t count)
{
    double best = 1e18;

    for (int i = 0; i < ROUNDS; i++) {
        const char *name, *library;
        double begin = now_ns(), ns;

        for (int walk = 0; walk < WALKS; walk++)
            for (size_t k = 0; k < count; k++)
                fp_cstack_resolve(native, pc[k], &name, &library);
        ns = (now_ns() - begin) / (WALKS * (double)count);
        best = ns < best ? ns : best;
    }
    printf("%-24s %8.1f ns\n", "resolve", best);
}

static uint64_t stack_end; /* what main() has on it ends there */

static struct fp_registers registers_of(const ucontext_t *context)
{
    const greg_t *from = context->uc_mcontext.gregs;

    return (struct fp_registers){.rip = (uint64_t)from[REG_RIP],
                                        .rsp = (uint64_t)from[REG_RSP],
                                        .rbp = (uint64_t)from[REG_RBP],
                                        .rbx = (uint64_t)from[REG_RBX],
                                        .r12 = (uint64_t)from[REG_R12],
                                        .r13 = (uint64_t)from[REG_R13],
                                        .r14 = (uint64_t)from[REG_R14],
                                        .r15 = (uint64_t)from[REG_R15]};
}

static void bench_walk(const struct fp_cstack *native,
                       const struct fp_registers *registers)
{
    static unsigned char copy[1 << 16];
    struct fp_cstack_stack stack = {registers->rsp, copy,
                                    stack_end - registers->rsp};
    double best = 1e18;
    uint64_t pc[100];
    size_t count = 0;

    check(stack.size <= sizeof copy, "a small stack");
    memcpy(copy, (void *)(uintptr_t)registers->rsp, stack.size);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now_ns(), ns;

        for (int walk = 0; walk < WALKS; walk++)
            count = fp_cstack_unwind(native, registers, &stack, pc, 100, NULL);
        ns = (now_ns() - begin) / (WALKS * (double)count);
        best = ns < best ? ns : best;
    }
    check(count > DEPTH, "fp_cstack_unwind");
    printf("%-24s %8.1f ns  %6zu frames a walk\n", "unwind, a frame", best,
           count);
    bench_resolve(native, pc, count);
}

/* The frame that is looked at has to be there until it was. */
static void measure(const struct fp_cstack *native)
{
    struct fp_registers registers;
    ucontext_t context;

    getcontext(&context);
    registers = registers_of(&context);
    bench_walk(native, &registers);
}

static __attribute__((noinline)) int descend(const struct fp_cstack *native,
                                             int depth)
{
    volatile int below = 0;

    if (depth == 0)
        measure(native);
    else
        below = descend(native, depth - 1);
    return below + 1;
}

int main(int argc, char **argv)
{
    struct fp_cstack *native;

    stack_end = (uint64_t)(uintptr_t)(&native + 1);
    for (int i = 1; i < argc; i++)
        check(dlopen(argv[i], RTLD_LAZY) != NULL, argv[i]);
    native = bench_create();
    bench_is_current(native);
    descend(native, DEPTH);
    fp_cstack_destroy(native);
    return 0;
}
