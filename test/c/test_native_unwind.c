/*
 * test_native_unwind.c - our walks beside libgcc's, in the same thread at the
 * same instruction: at calls, and while code is stepped through instruction by
 * instruction.
 */
#include <signal.h>

#include "../../c_src/core/error.h"
#include "native_truth.h"

static uint64_t stack_end;
static struct truth_stack copy;
static uint64_t ours[TRUTH_FRAMES];

static struct fp_native *native_now(void)
{
    struct fp_native *native;

    CHECK_INT(fp_native_create(&native), 0);
    return native;
}

/* ---- at a call -------------------------------------------------------- */

struct visit {
    struct fp_native *native;
    size_t deepest, calls;
};

/* The first frame is this function, at two places of it. */
static __attribute__((noinline)) void compare_here(void *self)
{
    struct visit *visit = self;
    struct fp_registers registers;
    struct fp_native_end end;
    struct truth_frames truth;
    ucontext_t context;
    size_t count;

    getcontext(&context);
    registers = truth_registers(&context);
    truth_copy(&copy, registers.rsp, stack_end);
    count = fp_native_unwind(visit->native, &registers, &copy.stack, ours,
                             TRUTH_FRAMES, &end);
    truth_unwind(&truth);
    if (count != truth.count ||
        memcmp(ours + 1, truth.pc + 1, (count - 1) * sizeof *ours) != 0) {
        truth_print(visit->native, "ours", ours, count);
        truth_print(visit->native, "libgcc's", truth.pc, truth.count);
        RUN_FAIL("the walks differ (ours ended by %d)", end.why);
    }
    CHECK_INT(end.why, FP_NATIVE_OUTERMOST);
    visit->calls++;
    if (count > visit->deepest)
        visit->deepest = count;
}

typedef uint64_t run_function(uint64_t, void (*)(void *), void *);
typedef uint64_t sort_function(void (*)(void *), void *);

static void *visit_chain(void *path)
{
    void *library = truth_open(path);
    run_function *run =
        (run_function *)(uintptr_t)truth_symbol(library, "chain_run");
    sort_function *sort =
        (sort_function *)(uintptr_t)truth_symbol(library, "chain_sort");
    struct visit visit = {native_now(), 0, 0};

    stack_end = truth_stack_end();
    for (uint64_t depth = 1; depth <= 40; depth++)
        run(depth, compare_here, &visit);
    CHECK(visit.deepest > 80);
    sort(compare_here, &visit); /* through qsort */
    CHECK(visit.calls > 45);
    fp_native_destroy(visit.native);
    dlclose(library);
    return NULL;
}

static const struct {
    const char *compiler, *flags;
} builds[] = {
    {"gcc", "-O2 -fomit-frame-pointer"},
    {"gcc", "-O2 -fno-omit-frame-pointer"},
    {"gcc", "-O0"},
    {"gcc", "-Os -fcf-protection=full -Wl,-z,ibtplt"},
    {"clang", "-O2 -fomit-frame-pointer"},
    {"clang", "-O1 -fno-omit-frame-pointer"},
};

#define BUILDS (sizeof builds / sizeof builds[0])

static void each_build(void (*test)(const char *path, size_t build))
{
    struct temporary directory;

    temporary_make(&directory);
    for (size_t i = 0; i < BUILDS; i++) {
        char path[600];

        if (i > 0 && !truth_has(builds[i].compiler))
            continue; /* gcc builds the library itself: it is there */
        snprintf(path, sizeof path, "%s/libchain%zu.so", directory.path, i);
        truth_build(builds[i].compiler, builds[i].flags, path);
        test(path, i);
    }
    temporary_remove(&directory);
}

static void visit_in_two_threads(const char *path, size_t build)
{
    pthread_t thread;

    (void)build;
    visit_chain((void *)(uintptr_t)path);
    CHECK(pthread_create(&thread, NULL, visit_chain, (void *)(uintptr_t)path) ==
          0);
    pthread_join(thread, NULL);
}

static void call_chains_are_libgcc_s(void)
{
    each_build(visit_in_two_threads);
}

/* ---- at every instruction --------------------------------------------- */

#define TRAP_FLAG 0x100

static struct {
    struct fp_native *native;
    volatile int is_on;
    size_t steps, same, deepest;
    size_t in_plt_or_linker; /* where our own code is not */
    uint64_t most;
} stepping;

/* What libgcc found from the interrupted instruction on. */
static size_t interrupted_at(const struct truth_frames *truth, uint64_t rip)
{
    for (size_t i = 0; i < truth->count; i++)
        if (truth->is_whole[i] && truth->pc[i] == rip)
            return i;
    return truth->count;
}

static int is_same_walk(const struct fp_registers *registers)
{
    struct fp_native_end end;
    struct truth_frames truth;
    size_t count, from;

    truth_copy(&copy, registers->rsp, stack_end);
    count = fp_native_unwind(stepping.native, registers, &copy.stack, ours,
                             TRUTH_FRAMES, &end);
    truth_unwind(&truth);
    from = interrupted_at(&truth, registers->rip);
    if (count > stepping.deepest)
        stepping.deepest = count;
    if (end.why == FP_NATIVE_OUTERMOST && count == truth.count - from &&
        memcmp(ours, truth.pc + from, count * sizeof *ours) == 0)
        return 1;
    if (stepping.steps - stepping.same < 3) {
        truth_print(stepping.native, "ours", ours, count);
        truth_print(stepping.native, "libgcc's", truth.pc + from,
                    truth.count - from);
        printf("# ended by %d\n", end.why);
    }
    return 0;
}

static void on_step(int signal, siginfo_t *info, void *self)
{
    ucontext_t *context = self;
    struct fp_registers registers = truth_registers(context);
    const char *name, *library;

    (void)signal, (void)info;
    if (!stepping.is_on || stepping.steps >= stepping.most) {
        context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
        return;
    }
    context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
    stepping.same += (size_t)is_same_walk(&registers);
    stepping.steps++;
    if (fp_native_resolve(stepping.native, registers.rip, &name, &library) ==
            0 &&
        strncmp(library, "ld-linux", 8) == 0)
        stepping.in_plt_or_linker++;
}

static void step_through(const char *path, size_t build)
{
    void *library = truth_open(path);
    uint64_t (*work)(void) =
        (uint64_t(*)(void))(uintptr_t)truth_symbol(library, "chain_work");
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct truth_frames truth;

    truth_unwind(&truth); /* what it resolves lazily, it has resolved */
    memset(&stepping, 0, sizeof stepping);
    stepping.native = native_now();
    stepping.most = 40000;
    stack_end = truth_stack_end();
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    stepping.is_on = 1;
    raise(SIGTRAP); /* the handler turns stepping on */
    work();
    stepping.is_on = 0;
    raise(SIGTRAP);
    printf("# %s %s: %zu of %zu steps agree, up to %zu frames, %zu in the "
           "dynamic linker\n",
           builds[build].compiler, builds[build].flags, stepping.same,
           stepping.steps, stepping.deepest, stepping.in_plt_or_linker);
    CHECK(stepping.steps > 5000);
    CHECK(stepping.in_plt_or_linker > 100);
    CHECK_INT(stepping.same, stepping.steps);
    fp_native_destroy(stepping.native);
    dlclose(library);
}

static void every_instruction_is_walked_as_libgcc_walks_it(void)
{
    each_build(step_through);
}

int main(int argc, char **argv)
{
    RUN_START(argc, argv);
    RUN(call_chains_are_libgcc_s);
    RUN(every_instruction_is_walked_as_libgcc_walks_it);
    return RUN_END();
}
