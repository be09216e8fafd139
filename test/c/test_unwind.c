/* test_unwind.c - our walks beside libgcc's, in the same thread at the same instruction: at calls,
 * and while code is stepped through instruction by instruction. */
#include <signal.h>
#include <sys/mman.h>

#include "base/error.h"
#include "cstack_truth.h"
#include "test.h"

static uint64_t stack_end;
static struct truth_stack copy;
static uint64_t ours[TRUTH_FRAMES];

static struct fp_cstack *native_now(void)
{
    struct fp_cstack *native;

    CHECK_INT(fp_cstack_create(&native, SIZE_MAX), 0);
    return native;
}

/* ---- at a call -------------------------------------------------------- */

struct visit {
    struct fp_cstack *native;
    size_t deepest, calls;
};

/* The first frame is this function, at two places of it. */
static __attribute__((noinline)) void compare_here(void *self)
{
    struct visit *visit = self;
    struct fp_registers registers;
    struct fp_cstack_end end;
    struct truth_frames truth;
    ucontext_t context;
    size_t count;

    getcontext(&context);
    registers = truth_registers(&context);
    truth_copy(&copy, registers.rsp, stack_end);
    count = fp_cstack_unwind(visit->native, &registers, &copy.stack, ours, TRUTH_FRAMES, &end);
    truth_unwind(&truth);
    if (count != truth.count || memcmp(ours + 1, truth.pc + 1, (count - 1) * sizeof *ours) != 0) {
        truth_print(visit->native, "ours", ours, count);
        truth_print(visit->native, "libgcc's", truth.pc, truth.count);
        RUN_FAIL("the walks differ (ours ended by %d)", end.why);
    }
    CHECK_INT(end.why, FP_CSTACK_OUTERMOST);
    visit->calls++;
    if (count > visit->deepest)
        visit->deepest = count;
}

typedef uint64_t run_function(uint64_t, void (*)(void *), void *);
typedef uint64_t sort_function(void (*)(void *), void *);

static void *visit_chain(void *path)
{
    void *library = truth_open(path);
    run_function *run = (run_function *)(uintptr_t)truth_symbol(library, "chain_run");
    sort_function *sort = (sort_function *)(uintptr_t)truth_symbol(library, "chain_sort");
    struct visit visit = {native_now(), 0, 0};

    stack_end = truth_stack_end();
    for (uint64_t depth = 1; depth <= 40; depth++)
        run(depth, compare_here, &visit);
    CHECK(visit.deepest > 80);
    sort(compare_here, &visit); /* through qsort */
    CHECK(visit.calls > 45);
    fp_cstack_destroy(visit.native);
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
    CHECK(pthread_create(&thread, NULL, visit_chain, (void *)(uintptr_t)path) == 0);
    pthread_join(thread, NULL);
}

TEST(call_chains_are_libgcc_s)
{
    each_build(visit_in_two_threads);
}

/* ---- at every instruction --------------------------------------------- */

#define TRAP_FLAG 0x100

static struct {
    struct fp_cstack *native;
    volatile int is_on;
    size_t steps, same, deepest;
    size_t in_vdso, in_linker; /* the second: where a PLT entry led at its first call */
    struct visit from_handler;
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
    struct fp_cstack_end end;
    struct truth_frames truth;
    size_t count, from;

    truth_copy(&copy, registers->rsp, stack_end);
    count = fp_cstack_unwind(stepping.native, registers, &copy.stack, ours, TRUTH_FRAMES, &end);
    truth_unwind(&truth);
    from = interrupted_at(&truth, registers->rip);
    if (count > stepping.deepest)
        stepping.deepest = count;
    if (end.why == FP_CSTACK_OUTERMOST && count == truth.count - from &&
        memcmp(ours, truth.pc + from, count * sizeof *ours) == 0)
        return 1;
    if (stepping.steps - stepping.same < 3) {
        truth_print(stepping.native, "ours", ours, count);
        truth_print(stepping.native, "libgcc's", truth.pc + from, truth.count - from);
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
    if (fp_cstack_resolve(stepping.native, registers.rip, &name, &library) != 0)
        library = "";
    stepping.in_linker += strncmp(library, "ld-linux", 8) == 0;
    stepping.in_vdso += strcmp(library, "[vdso]") == 0;
    stepping.same += (size_t)is_same_walk(&registers);
    if (stepping.steps++ % 512 == 0) /* from here on, through the trampoline */
        compare_here(&stepping.from_handler);
}

static void step_through(const char *path, size_t build)
{
    void *library = truth_open(path);
    uint64_t (*work)(void) = (uint64_t(*)(void))(uintptr_t)truth_symbol(library, "chain_work");
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    struct truth_frames truth;

    truth_unwind(&truth); /* what it resolves lazily, it has resolved */
    memset(&stepping, 0, sizeof stepping);
    stepping.native = stepping.from_handler.native = native_now();
    stepping.most = 40000;
    stack_end = truth_stack_end();
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    stepping.is_on = 1;
    raise(SIGTRAP); /* the handler turns stepping on */
    work();
    stepping.is_on = 0;
    raise(SIGTRAP);
    printf("# %s %s: %zu of %zu steps agree, up to %zu frames, %zu in the "
           "dynamic linker, %zu in the vDSO\n",
           builds[build].compiler, builds[build].flags, stepping.same, stepping.steps,
           stepping.deepest, stepping.in_linker, stepping.in_vdso);
    CHECK(stepping.steps > 5000);
    CHECK(stepping.in_linker > 100);
    CHECK(stepping.from_handler.calls > 10);
    CHECK(stepping.from_handler.deepest > stepping.deepest);
    CHECK_INT(stepping.same, stepping.steps);
    fp_cstack_destroy(stepping.native);
    dlclose(library);
}

TEST(every_instruction_is_walked_as_libgcc_walks_it)
{
    each_build(step_through);
}

/* ---- where walks end -------------------------------------------------- */

/* As the JIT's code is: in no library, with no unwind information. */
struct foreign {
    struct fp_cstack *native;
    uint64_t begin, end; /* the code */
    uint64_t rsp;        /* as it was at its call */
};

static const unsigned char foreign_code[] = {
    0x53,                               /* push %rbx */
    0x41, 0x55,                         /* push %r13 */
    0x48, 0x83, 0xec, 0x08,             /* sub $8, %rsp */
    0x48, 0xc7, 0xc3, 0x11, 0x11, 0, 0, /* mov $0x1111, %rbx */
    0x49, 0xc7, 0xc5, 0x22, 0x22, 0, 0, /* mov $0x2222, %r13 */
    0x48, 0x89, 0x27,                   /* mov %rsp, (%rdi) */
    0xff, 0xd6,                         /* call *%rsi */
    0x48, 0x83, 0xc4, 0x08,             /* add $8, %rsp */
    0x41, 0x5d,                         /* pop %r13 */
    0x5b,                               /* pop %rbx */
    0xc3,                               /* ret */
};

static struct foreign foreign;
static run_function *chain;

static __attribute__((noinline)) void walk_to_foreign_code(void *unused)
{
    struct fp_registers registers;
    struct fp_cstack_end end;
    ucontext_t context;
    size_t count;

    (void)unused;
    getcontext(&context);
    registers = truth_registers(&context);
    truth_copy(&copy, registers.rsp, stack_end);
    count = fp_cstack_unwind(foreign.native, &registers, &copy.stack, ours, TRUTH_FRAMES, &end);
    CHECK(count > 20); /* the chain's, and one of this file */
    CHECK_INT(end.why, FP_CSTACK_LEFT);
    for (size_t i = 0; i < count; i++)
        CHECK(truth_contains(foreign.native, ours[i]));
    CHECK(end.registers.rip > foreign.begin && end.registers.rip < foreign.end);
    CHECK_INT(end.registers.rsp, foreign.rsp);
    CHECK_INT(end.registers.rbx, 0x1111);
    CHECK_INT(end.registers.r13, 0x2222);
    CHECK((end.known >> 3 & 1) != 0 && (end.known >> 13 & 1) != 0);
    CHECK((end.known >> 0 & 1) == 0); /* rax: no call preserves it */
}

static void called_by_foreign_code(void)
{
    chain(12, walk_to_foreign_code, NULL);
}

TEST(a_walk_ends_in_foreign_code_with_the_registers_it_had)
{
    struct temporary directory;
    const char *path;
    void *library, *page;
    void (*enter)(uint64_t * rsp, void (*call)(void));

    temporary_make(&directory);
    path = temporary_at(&directory, "libchain.so");
    truth_build("gcc", "-O2", path);
    library = truth_open(path);
    chain = (run_function *)(uintptr_t)truth_symbol(library, "chain_run");
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, foreign_code, sizeof foreign_code);
    foreign.begin = (uint64_t)(uintptr_t)page;
    foreign.end = foreign.begin + sizeof foreign_code;
    foreign.native = native_now();
    CHECK(!truth_contains(foreign.native, foreign.begin));
    stack_end = truth_stack_end();
    enter = (void (*)(uint64_t *, void (*)(void)))(uintptr_t)page;
    enter(&foreign.rsp, called_by_foreign_code);
    fp_cstack_destroy(foreign.native);
    munmap(page, 4096);
    dlclose(library);
    temporary_remove(&directory);
}

TEST_ON(code_in_no_library_has_no_frames, struct fp_cstack *, native, native_now(),
        fp_cstack_destroy)
{
    struct fp_cstack_stack none = {0x1000, NULL, 0};
    struct fp_registers registers = {.rip = 0x1000, .rsp = 0x1000};
    struct fp_cstack_end end;

    CHECK_INT(fp_cstack_unwind(native, &registers, &none, ours, 10, &end), 0);
    CHECK_INT(end.why, FP_CSTACK_LEFT);
    CHECK_INT(end.registers.rip, 0x1000);
}

/* All shorter copies, and all smaller rooms for the answer, of one walk. */
static __attribute__((noinline)) void walk_less(void *self)
{
    struct fp_cstack *native = self;
    static uint64_t less[TRUTH_FRAMES];
    struct fp_registers registers;
    struct fp_cstack_end end;
    ucontext_t context;
    size_t count, last = 0, whole;

    getcontext(&context);
    registers = truth_registers(&context);
    truth_copy(&copy, registers.rsp, stack_end);
    whole = copy.stack.size;
    count = fp_cstack_unwind(native, &registers, &copy.stack, ours, TRUTH_FRAMES, &end);
    CHECK_INT(end.why, FP_CSTACK_OUTERMOST);
    for (size_t size = 0; size <= whole; size += size < 8192 ? 1 : 8) {
        unsigned char *bytes = malloc(size); /* ASan guards its end */
        struct fp_cstack_stack stack = {copy.stack.start, bytes, size};
        size_t got;

        memcpy(bytes, copy.bytes, size);
        got = fp_cstack_unwind(native, &registers, &stack, less, TRUTH_FRAMES, NULL);
        free(bytes);
        CHECK(got >= last && got <= count);
        CHECK(memcmp(less, ours, got * sizeof *less) == 0);
        last = got;
    }
    CHECK_INT(last, count);
    for (size_t max = 0; max < count; max++) {
        CHECK_INT(fp_cstack_unwind(native, &registers, &copy.stack, less, max, &end), max);
        CHECK_INT(end.why, FP_CSTACK_FULL);
        CHECK(memcmp(less, ours, max * sizeof *less) == 0);
    }
    copy.stack.size = 256;
    CHECK(fp_cstack_unwind(native, &registers, &copy.stack, less, TRUTH_FRAMES, &end) < count);
    CHECK_INT(end.why, FP_CSTACK_CUT);
}

TEST_ON(less_stack_or_less_room_gives_the_first_frames, struct fp_cstack *, native, native_now(),
        fp_cstack_destroy)
{
    stack_end = truth_stack_end();
    walk_less(native);
}
