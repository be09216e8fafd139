/* test_sigcapture.c - captures of threads by a signal: with real threads, real signals, and "JIT"
 * code that changes stacks as ERTS does.
 *
 * The static functions of sigcapture.c are called, so that it is part of this file.
 *
 * TSan holds a signal back until the thread calls something that it intercepts, and hands the
 * handler a context of then: what is captured makes no sense, and no scheduler would register. Its
 * variant tests accesses only. */
#include "erts/capture/sigcapture.c"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <linux/futex.h>

#include "broken.h"
#include "test.h"

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

#define WORKERS 3u
#define DEADLINE_S 60

/* Nothing here is expected to take long; a machine may be busy, and have one processor for both
 * threads. */
static void patience(uint32_t *tried)
{
    static const struct timespec nap = {0, 20000};

    if (++*tried % 64 == 0)
        nanosleep(&nap, NULL);
    else
        sched_yield();
}

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        time_t until_ = time(NULL) + DEADLINE_S;                                                   \
        uint32_t tried_ = 0;                                                                       \
        while (!(condition)) {                                                                     \
            CHECK(time(NULL) < until_);                                                            \
            patience(&tried_);                                                                     \
        }                                                                                          \
    } while (0)

/* ---------------------------------------------------- a VM of few bytes -- */

/* One page of code, more of nothing, and a function's ErtsCodeInfo: what is before that is
 * shared. */
#define JIT_SIZE 0x10000u
#define ENTER 0x100u   /* void (void *process, void *stack, fn, arg) */
#define ENTER_2 0x200u /* the same by another fragment */
#define ENTER_3 0x300u /* ... by one that does not take the stack back */
#define SPIN 0x400u    /* Erlang code that spins until a byte is not 0 */
#define CALL_NIF 0x500u
#define CALL_NIF_2 0x600u
#define CALL_NIF_3 0x700u
#define LOOP 0x800u
#define INFO 0x4000u

static unsigned char *jit;
static struct fp_layout layout;
static struct fp_ranges ranges;

typedef void native(void *arg);
typedef void enter(void *process, void *stack, native *call, void *arg);

static void put(uint32_t at, const char *bytes, size_t size)
{
    memcpy(jit + at, bytes, size);
}
#define CODE(at, bytes) put(at, bytes, sizeof(bytes) - 1)

/* Saves what it must, takes the C stack's place as rbx does in ERTS, goes to the Erlang stack and
 * calls. The call returns to an aligned address. */
static void put_enter(uint32_t at, uint32_t target)
{
    int32_t distance = (int32_t)(target - (at + 40));

    CODE(at, "\x53\x55\x41\x54\x41\x55\x41\x56\x41\x57\x48\x83\xec\x08"
             "\x48\x89\xe3\x49\x89\xfd\x49\x89\xd4\x49\x89\xce\x48\x89\xf4"
             "\x90\x90\x90\x90\x90\x90\xe8");
    memcpy(jit + at + 36, &distance, 4);
    CODE(at + 40, "\x48\x89\xdc\x48\x83\xc4\x08"
                  "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5d\x5b\xc3");
}

/* mov [r13 + stop], rsp; mov rsp, rbx; mov rdi, r14; call r12; mov rsp, [r13 + stop]; ret */
static void put_call_nif(uint32_t at)
{
    char stop = (char)layout.release.offset[FP_FIELD_stop];

    CODE(at, "\x49\x89\x65\x00\x48\x89\xdc\x4c\x89\xf7\x41\xff\xd4"
             "\x49\x8b\x65\x00\xc3");
    jit[at + 3] = jit[at + 16] = (unsigned char)stop;
}
#define NIF_RETURN 13u

static void make_code(void)
{
    const uint64_t info[] = {UINT64_C(0x90909000000000e8), 0, 5 << 6 | 0x0b, 6 << 6 | 0x0b, 1};

    layout.release = *fp_release_find(25);
    layout.snapshot_size = layout.release.process_size;
    jit = mmap(NULL, JIT_SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0);
    CHECK(jit != MAP_FAILED);
    memset(jit, 0xcc, JIT_SIZE);
    put_enter(ENTER, CALL_NIF);
    put_enter(ENTER_2, CALL_NIF_2);
    put_enter(ENTER_3, CALL_NIF_3);
    put_enter(SPIN, LOOP);
    put_call_nif(CALL_NIF);
    put_call_nif(CALL_NIF_2);
    put_call_nif(CALL_NIF_3);
    /* push rbx; pop rsp; mov rsp, [by way of] rax: none of the known ways */
    CODE(CALL_NIF_3 + NIF_RETURN, "\x49\x8b\x45\x58\x50\x5c\xc3");
    jit[CALL_NIF_3 + NIF_RETURN + 3] = jit[CALL_NIF + 3];
    CODE(LOOP, "\xf3\x90\x41\x80\x3e\x00\x74\xf8\xc3");
    memcpy(jit + INFO, info, sizeof info);
    jit[INFO + sizeof info] = 0xeb;
    ranges.count = 1;
    ranges.range[0] =
        (struct fp_range){(uint64_t)(uintptr_t)jit, (uint64_t)(uintptr_t)jit + JIT_SIZE};
}

static uint64_t code_at(uint32_t at)
{
    return (uint64_t)(uintptr_t)jit + at;
}

/* ------------------------------------------------------------- a scheduler -- */

#define STACK_WORDS 256u
#define ALTERNATE_SIZE (256u << 10) /* sanitizers need some of it */

struct worker {
    unsigned char process[1024], data[512];
    uint64_t mfa[3], stack[STACK_WORDS];
    unsigned number;
    enter *way;
    size_t alternate_size;               /* 0: none */
    int without_jit;                     /* registers from where no JIT code called */
    int blocks;                          /* ... with its signal blocked */
    void (*work)(struct worker *worker); /* after that */
    pthread_t thread;
    pid_t tid;
    int err; /* of the registration */
    const char *why;
    _Atomic int ready, command;
    _Atomic unsigned char stop;
    _Atomic uint64_t rounds;
};

static void set_word(unsigned char *at, uint64_t offset, const void *value)
{
    uint64_t word = (uint64_t)(uintptr_t)value;

    memcpy(at + offset, &word, sizeof word);
}

static void worker_init(struct worker *worker, unsigned number)
{
    const struct fp_release *release = &layout.release;

    memset(worker, 0, sizeof *worker);
    worker->number = number;
    worker->way = (enter *)(uintptr_t)code_at(ENTER);
    worker->alternate_size = ALTERNATE_SIZE;
    worker->mfa[0] = 7 << 6 | 0x0b;
    worker->mfa[1] = 8 << 6 | 0x0b;
    worker->mfa[2] = 2;
    for (uint32_t i = 0; i < STACK_WORDS; i++)
        worker->stack[i] = i << 4 | 0xf;
    set_word(worker->process, release->running.scheduler_data, worker->data);
    set_word(worker->process, release->running.current, worker->mfa);
    set_word(worker->process, release->offset[FP_FIELD_heap], worker->stack);
    set_word(worker->process, release->offset[FP_FIELD_hend], worker->stack + STACK_WORDS);
    set_word(worker->process, release->offset[FP_FIELD_stop], worker->stack + STACK_WORDS);
    set_word(worker->data, release->running.current_process, worker->process);
    set_word(worker->data, release->running.number, (void *)(uintptr_t)number);
}

static uint64_t process_of(const struct worker *worker)
{
    return (uint64_t)(uintptr_t)worker->process;
}

static void block(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, fp_sigcapture.signal);
    CHECK_INT(pthread_sigmask(how, &set, NULL), 0);
}

static void register_self(struct worker *worker)
{
    if (worker->blocks)
        block(SIG_BLOCK);
    worker->err =
        fp_sigcapture_register(worker->number, process_of(worker), worker->mfa, &worker->why);
}

/* What the NIF does. */
static void nif(void *arg)
{
    struct worker *worker = arg;

    register_self(worker);
    atomic_store(&worker->ready, 1);
    if (worker->work != NULL)
        worker->work(worker);
}

/* A slot that is known without having registered, for TSan. */
static void appoint(struct worker *worker)
{
    struct fp_slot *slot = &fp_slots.slot[worker->number - 1];

    slot->thread = (pid_t)syscall(SYS_gettid);
    slot->scheduler.memory = &fp_sigcapture.memory;
    slot->scheduler.layout = layout;
    slot->scheduler.data = (uint64_t)(uintptr_t)worker->data;
    slot->scheduler.native_base = (uint64_t)(uintptr_t)__builtin_frame_address(0) & ~15ull;
    atomic_store(&slot->is_registered, 1);
    atomic_store(&worker->ready, 1);
    worker->work(worker);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    stack_t ours = {.ss_flags = SS_DISABLE}, before;

    worker->tid = (pid_t)syscall(SYS_gettid);
    if (worker->alternate_size > 0) {
        ours.ss_sp = malloc(worker->alternate_size);
        ours.ss_size = worker->alternate_size;
        ours.ss_flags = 0;
    }
    CHECK_INT(sigaltstack(&ours, &before), 0);
    if (UNDER_TSAN)
        appoint(worker);
    else if (worker->without_jit)
        nif(worker);
    else
        worker->way(worker->process, worker->stack + STACK_WORDS - 8, nif, worker);
    /* A signal that is still on its way arrives where there is room for it. */
    block(SIG_UNBLOCK);
    /* A sanitizer's own is taken away at the thread's end. */
    CHECK_INT(sigaltstack(&before, NULL), 0);
    free(ours.ss_sp);
    return NULL;
}

static void worker_start(struct worker *worker)
{
    CHECK_INT(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
    UNTIL(atomic_load(&worker->ready));
}

static void worker_end(struct worker *worker)
{
    atomic_store(&worker->stop, 1);
    CHECK_INT(pthread_join(worker->thread, NULL), 0);
    /* pthread_join() returns when the kernel has cleared the thread's id in memory. It takes
     * signals for the thread until it has forgotten the id, too, which is later. */
    UNTIL(syscall(SYS_tgkill, getpid(), worker->tid, 0) == -1 && errno == ESRCH);
}

/* Before main. */
__attribute__((constructor)) static void use_the_code(void)
{
    make_code();
}

/* Schedulers are for life. For the next test they begin anew. */
static int prepare_slots(uint32_t schedulers)
{
    const char *why = "";

    return fp_sigcapture_prepare(&layout, &ranges, schedulers, &why);
}

static void begin(void)
{
    if (fp_slots.slot != NULL) {
        fp_safe_read_close(&fp_sigcapture.memory);
        munmap(fp_slots.slot, fp_slots.count * sizeof *fp_slots.slot);
    }
    fp_slots.slot = NULL;
    atomic_store(&fp_slots.count, 0);
    atomic_store(&fp_sigcapture.registered, 0);
    atomic_store(&fp_sigcapture.code_known, 0);
    atomic_store(&fp_sigcapture.nif_return, 0);
    /* The library would be pinned; a program stays anyway. */
    if (fp_sigcapture.signal == 0)
        CHECK_INT(install_handler(), 0);
    CHECK_INT(prepare_slots(WORKERS), 0);
}

/* A worker in slot 0, registered. */
static struct worker *employ(void (*work)(struct worker *worker))
{
    struct worker *worker = malloc(sizeof *worker);

    begin();
    worker_init(worker, 1);
    worker->work = work;
    worker_start(worker);
    if (worker->err != 0)
        RUN_FAIL("not registered: %s", worker->why);
    return worker;
}

static void dismiss(struct worker *worker)
{
    worker_end(worker);
    free(worker);
}

#define TEST_WITH_WORKER(test, work) TEST_ON(test, struct worker *, worker, employ(work), dismiss)

/* Tests of signals are none under TSan. */
#if UNDER_TSAN
#define SIGNAL_TEST(test) __attribute__((unused)) static void test(void)
#define UNUSED_WORK(test, work)                                                                    \
    __attribute__((unused)) static void (*const test##_work)(struct worker *) = work;
#define WITH_WORKER(test, work)                                                                    \
    UNUSED_WORK(test, work) __attribute__((unused)) static void test(struct worker *worker)
#define BESIDE_WORKER(test, work) UNUSED_WORK(test, work) SIGNAL_TEST(test)
#else
#define SIGNAL_TEST(test) TEST(test)
#define WITH_WORKER(test, work) TEST_WITH_WORKER(test, work)
#define BESIDE_WORKER(test, work)                                                                  \
    TEST_BETWEEN(test, struct worker *worker = employ(work), dismiss(worker))
#endif

static enum fp_slot_state state_of(unsigned at)
{
    return FP_SLOT_STATE(atomic_load(&fp_slots.slot[at].state));
}

static const struct fp_capture *answer(unsigned at, uint32_t ticket)
{
    const struct fp_capture *running;

    UNTIL((running = fp_sigcapture_poll(at, ticket)) != NULL);
    return running;
}

static void expect_capture(void)
{
    uint32_t ticket;

    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    CHECK_INT(answer(0, ticket)->result, FP_CAPTURE_CAPTURED);
    fp_sigcapture_drop(0, ticket);
}

/* ---- what a worker does -------------------------------------------------- */

static void spin(struct worker *worker)
{
    while (!atomic_load(&worker->stop)) {
        atomic_fetch_add(&worker->rounds, 1);
        sched_yield();
    }
}

/* Blocks the signal while `command` is 1. */
static void obey(struct worker *worker)
{
    int blocked = 0;

    while (!atomic_load(&worker->stop)) {
        int command = atomic_load(&worker->command);

        if (command != blocked)
            block(command ? SIG_BLOCK : SIG_UNBLOCK);
        blocked = command;
        atomic_fetch_add(&worker->rounds, 1);
        sched_yield();
    }
}

static void tell(struct worker *worker, int command)
{
    uint64_t rounds = atomic_load(&worker->rounds);

    atomic_store(&worker->command, command);
    UNTIL(atomic_load(&worker->rounds) >= rounds + 3);
}

/* ------------------------------------------------------------ preparation -- */

/* -------------------------------------------------------------- broken -- */

static void use_slot(struct fp_slot *slot, unsigned count)
{
    fp_slots.slot = slot;
    atomic_store(&fp_slots.count, count);
}

TEST(a_scheduler_without_a_thread_is_sent_no_signal)
{
    struct fp_slot *slot = calloc(1, sizeof *slot);
    uint32_t ticket;

    use_slot(slot, 1);
    atomic_store(&slot->is_registered, 1);
    CHECK_BROKEN("erts/capture/sigcapture.c",
                 CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESTATE));
    slot->thread = (pid_t)syscall(SYS_gettid);
    atomic_store(&slot->state, 7);
    CHECK_BROKEN("erts/capture/sigcapture.c",
                 CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESTATE));
    use_slot(NULL, 0);
    free(slot);
}

TEST(a_capture_that_was_written_over_is_not_read)
{
    struct fp_slot *slot = calloc(1, sizeof *slot);

    use_slot(slot, 1);
    atomic_store(&slot->state, FP_SLOT_WORD(5, FP_SLOT_READY));
    CHECK(fp_sigcapture_poll(0, 5) != NULL);
    slot->capture.words = FP_STACK_WORDS_MAX + 1;
    CHECK_BROKEN("erts/capture/sigcapture.c", CHECK(fp_sigcapture_poll(0, 5) == NULL));
    slot->capture.words = 1;
    slot->capture.leaf_words = 2;
    CHECK_BROKEN("erts/capture/sigcapture.c", CHECK(fp_sigcapture_poll(0, 5) == NULL));
    use_slot(NULL, 0);
    free(slot);
}

TEST(a_release_of_nobody_s_changes_nothing)
{
    CHECK_INT(fp_sigcapture_users(), 0);
    CHECK_BROKEN("erts/capture/sigcapture.c", fp_sigcapture_release());
    CHECK_INT(fp_sigcapture_users(), 0);
}

TEST(before_preparation_there_are_no_schedulers)
{
    uint32_t ticket;

    CHECK_INT(fp_sigcapture_count(), 0);
    CHECK_INT(fp_sigcapture_registered(), 0);
    CHECK_INT(fp_sigcapture_find(8), -1);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESTATE);
}

TEST(numbers_that_can_not_be_are_refused)
{
    const char *why = "";

    CHECK_INT(fp_sigcapture_prepare(&layout, &ranges, 0, &why), FP_EINVAL);
    CHECK(why[0] != '\0');
    CHECK_INT(fp_sigcapture_prepare(&layout, &ranges, FP_SCHEDULERS_MAX + 1, &why), FP_EINVAL);
    CHECK_INT(fp_sigcapture.signal, 0);
    begin();
    CHECK_INT(fp_sigcapture_count(), WORKERS);
    CHECK_INT(prepare_slots(WORKERS), 0);
    CHECK_INT(prepare_slots(WORKERS + 1), FP_EINVAL);
    CHECK_INT(fp_sigcapture_data(0), 0);
    CHECK_INT(fp_sigcapture_find(0), -1);
}

static void somebodys_handler(int signal)
{
    (void)signal;
}

static void set_action(int signal, void (*handle)(int))
{
    struct sigaction action = {.sa_handler = handle};

    CHECK_INT(sigaction(signal, &action, NULL), 0);
}

/* In a process of its own: it never gives the signal back. */
SIGNAL_TEST(a_signal_that_is_in_use_is_not_taken)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (child == 0) {
        struct sigaction theirs;

        for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
            set_action(i, SIG_DFL);
        set_action(SIGRTMAX, somebodys_handler);
        set_action(SIGRTMAX - 1, SIG_IGN);
        CHECK_INT(install_handler(), 0);
        CHECK_INT(fp_sigcapture.signal, SIGRTMAX - 2);
        CHECK_INT(sigaction(SIGRTMAX, NULL, &theirs), 0);
        CHECK(theirs.sa_handler == somebodys_handler);
        CHECK_INT(sigaction(SIGRTMAX - 1, NULL, &theirs), 0);
        CHECK(theirs.sa_handler == SIG_IGN);
        CHECK_INT(sigaction(SIGRTMAX - 2, NULL, &theirs), 0);
        CHECK(theirs.sa_sigaction == fp_handler);
        CHECK((theirs.sa_flags & (SA_ONSTACK | SA_RESTART)) == (SA_ONSTACK | SA_RESTART));
        /* None is left. */
        for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
            set_action(i, somebodys_handler);
        CHECK_INT(install_handler(), FP_ESIGNAL);
        CHECK_INT(fp_sigcapture.signal, SIGRTMAX - 2);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ----------------------------------------------------------- registration -- */

WITH_WORKER(a_scheduler_registers_in_its_nif, spin)
{
    struct fp_range fragments;
    uint64_t nif_return;

    CHECK_INT(fp_sigcapture_registered(), 1);
    CHECK(fp_sigcapture_data(0) == (uint64_t)(uintptr_t)worker->data);
    CHECK_INT(fp_sigcapture_find((uint64_t)(uintptr_t)worker->data), 0);
    CHECK_INT(fp_sigcapture_find((uint64_t)(uintptr_t)worker->data + 8), -1);
    CHECK_INT(fp_sigcapture_data(1), 0);
    fp_sigcapture_code(&fragments, &nif_return);
    CHECK(fragments.start == code_at(0) && fragments.end == code_at(INFO));
    CHECK(nif_return == code_at(CALL_NIF + NIF_RETURN));
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
}

SIGNAL_TEST(it_may_register_again)
{
    struct worker *worker, again;

    begin();
    worker = employ(spin);
    worker_init(&again, 1);
    register_self(&again); /* whatever it says now */
    CHECK_INT(again.err, 0);
    CHECK_INT(fp_sigcapture_registered(), 1);
    CHECK(fp_sigcapture_data(0) == (uint64_t)(uintptr_t)worker->data);
    dismiss(worker);
}

/* Does a registration come to `err`, with a sentence, and leave the slot as it was? */
static void expect_refused(struct worker *worker, int err, const char *says)
{
    unsigned before = fp_sigcapture_registered();
    uint32_t ticket;

    worker_start(worker);
    worker_end(worker);
    CHECK_INT(worker->err, err);
    if (strstr(worker->why, says) == NULL)
        RUN_FAIL("it says: %s", worker->why);
    CHECK_INT(fp_sigcapture_registered(), before);
    CHECK_INT(fp_sigcapture_request(worker->number - 1, NULL, &ticket), FP_ESTATE);
}

SIGNAL_TEST(data_that_is_not_where_it_is_expected_is_refused)
{
    const struct fp_capture_offsets *at = &layout.release.running;
    static struct worker worker;
    static const uint64_t mfa[3] = {1, 2, 3};
    const struct {
        unsigned char *of;
        uint64_t offset;
        const void *word;
    } cases[] = {
        {worker.process, at->scheduler_data, NULL},
        {worker.process, at->scheduler_data, (void *)16},
        {worker.data, at->current_process, worker.data},
        {worker.data, at->number, (void *)2},
        {worker.process, at->current, mfa},
        {worker.process, at->current, NULL},
    };

    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        worker_init(&worker, 1);
        set_word(cases[i].of, cases[i].offset, cases[i].word);
        expect_refused(&worker, FP_ELAYOUT, "data");
    }
}

SIGNAL_TEST(numbers_of_no_scheduler_are_refused)
{
    static const unsigned numbers[] = {0, WORKERS + 1, UINT32_MAX};
    struct worker worker;

    begin();
    for (size_t i = 0; i < 3; i++) {
        worker_init(&worker, numbers[i]);
        worker_start(&worker);
        worker_end(&worker);
        CHECK_INT(worker.err, FP_EINVAL);
    }
    CHECK_INT(fp_sigcapture_registered(), 0);
}

SIGNAL_TEST(an_alternate_stack_that_is_small_or_missing_is_refused)
{
    struct worker worker;

    begin();
    worker_init(&worker, 1);
    worker.alternate_size = 0;
    expect_refused(&worker, FP_ENOMEM, "alternate signal stack");
    worker_init(&worker, 1);
    worker.alternate_size = getauxval(AT_MINSIGSTKSZ) + HANDLER_STACK_BYTES - 1;
    expect_refused(&worker, FP_ENOMEM, "alternate signal stack");
}

SIGNAL_TEST(a_call_from_no_jit_code_is_refused)
{
    struct worker worker;

    begin();
    worker_init(&worker, 1);
    worker.without_jit = 1;
    expect_refused(&worker, FP_ELAYOUT, "no return to JIT code");
}

SIGNAL_TEST(a_capture_of_itself_that_is_not_right_is_refused)
{
    struct worker worker;

    begin();
    worker_init(&worker, 1);
    worker.way = (enter *)(uintptr_t)code_at(ENTER_3);
    expect_refused(&worker, FP_ELAYOUT, "captured itself");
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    /* The process has no stack there. */
    worker_init(&worker, 1);
    set_word(worker.process, layout.release.offset[FP_FIELD_hend], worker.stack + 4);
    expect_refused(&worker, FP_ELAYOUT, "captured itself");
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
}

SIGNAL_TEST(nifs_that_return_elsewhere_than_those_before_are_refused)
{
    struct worker *first, second;

    begin();
    first = employ(spin);
    worker_init(&second, 2);
    second.way = (enter *)(uintptr_t)code_at(ENTER_2);
    expect_refused(&second, FP_ELAYOUT, "captured itself");
    worker_init(&second, 2);
    worker_start(&second);
    worker_end(&second);
    CHECK_INT(second.err, 0);
    CHECK_INT(fp_sigcapture_registered(), 2);
    dismiss(first);
}

/* The signal comes later: it finds that nobody waits for it. */
SIGNAL_TEST(a_thread_that_blocks_the_signal_can_not_register_before_it_came)
{
    struct worker worker;

    begin();
    worker_init(&worker, 1);
    worker.blocks = 1;
    worker.work = spin;
    worker_start(&worker);
    CHECK_INT(worker.err, FP_ELAYOUT);
    CHECK_INT(state_of(0), FP_SLOT_ABANDONED);
    worker_end(&worker); /* unblocks */
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    dismiss(employ(spin));
}

/* ----------------------------------------------------- asked and answered -- */

WITH_WORKER(a_thread_in_c_answers_with_its_stack, spin)
{
    const struct fp_capture *running;
    uint32_t ticket, first;

    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    running = answer(0, ticket);
    CHECK_INT(running->result, FP_CAPTURE_CAPTURED);
    CHECK_INT(running->place, FP_CAPTURE_IN_C);
    CHECK_INT(running->top_in, FP_TOP_IN_STOP);
    CHECK(running->process == process_of(worker));
    CHECK(running->native_return == code_at(CALL_NIF + NIF_RETURN));
    CHECK(running->native_bytes > FP_RED_ZONE);
    /* The return address into code that called the fragment, then the words. */
    CHECK_INT(running->words, 9);
    CHECK(running->word[0] == code_at(ENTER + 40));
    CHECK_INT(running->word[1], (STACK_WORDS - 8) << 4 | 0xf);
    CHECK_INT(running->word[8], (STACK_WORDS - 1) << 4 | 0xf);
    CHECK(fp_sigcapture_handler_ns(0) > 0);
    /* It stays until it is released, and nobody else's question is taken. */
    CHECK_INT(fp_sigcapture_request(0, NULL, &first), FP_ESTATE);
    CHECK(fp_sigcapture_poll(0, ticket) == running);
    CHECK(fp_sigcapture_poll(0, ticket + 1) == NULL);
    fp_sigcapture_drop(0, ticket);
    CHECK(fp_sigcapture_poll(0, ticket) == NULL);
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    first = ticket;
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    CHECK_INT(ticket, first + 1);
    answer(0, ticket);
    CHECK(fp_sigcapture_poll(0, first) == NULL);
    fp_sigcapture_drop(0, ticket);
}

/* After the NIF: code that spins, with rsp on the Erlang stack. */
/* The one that cannot be read has no words. */
BESIDE_WORKER(a_capture_has_the_windows_that_its_request_names, spin)
{
    static const uint64_t words[] = {11, 22, 33, 44};
    static struct fp_windows named = {.count = 2, .window = {{.words = 3}, {16, 2, {0}}}};
    const struct fp_capture *running;
    uint32_t ticket;

    named.window[0].address = (uint64_t)(uintptr_t)&words[1];
    CHECK_INT(fp_sigcapture_request(0, &named, &ticket), 0);
    running = answer(0, ticket);
    CHECK_INT(running->windows.count, 2);
    CHECK_INT(running->windows.window[0].words, 3);
    CHECK(memcmp(running->windows.window[0].word, words + 1, 24) == 0);
    CHECK_INT(running->windows.window[1].words, 0);
    fp_sigcapture_drop(0, ticket);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    CHECK_INT(answer(0, ticket)->windows.count, 0);
    fp_sigcapture_drop(0, ticket);
}

static void *spin_in_erlang(void *arg)
{
    struct worker *worker = arg;
    stack_t before, ours = {.ss_sp = malloc(ALTERNATE_SIZE), .ss_size = ALTERNATE_SIZE};
    enter *spins = (enter *)(uintptr_t)code_at(SPIN);

    worker->tid = (pid_t)syscall(SYS_gettid);
    CHECK_INT(sigaltstack(&ours, &before), 0);
    worker->way(worker->process, worker->stack + STACK_WORDS - 8, (native *)register_self, worker);
    atomic_store(&worker->ready, 1);
    spins(worker->process, worker->stack + STACK_WORDS - 16, NULL, &worker->stop);
    CHECK_INT(sigaltstack(&before, NULL), 0);
    free(ours.ss_sp);
    return NULL;
}

SIGNAL_TEST(a_thread_in_erlang_code_answers_with_its_stack)
{
    static struct worker worker;

    begin();
    worker_init(&worker, 1);
    CHECK_INT(pthread_create(&worker.thread, NULL, spin_in_erlang, &worker), 0);
    UNTIL(atomic_load(&worker.ready));
    CHECK_INT(worker.err, 0);
    for (int place = -1; place != FP_CAPTURE_IN_ERLANG;) {
        const struct fp_capture *running;
        uint32_t ticket;

        CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
        running = answer(0, ticket);
        /* It may not have got there. */
        if (running->result == FP_CAPTURE_CAPTURED)
            place = running->place;
        if (place == FP_CAPTURE_IN_ERLANG) {
            CHECK(running->registers.rip - code_at(LOOP) < 9);
            CHECK(running->low == (uint64_t)(uintptr_t)(worker.stack + STACK_WORDS - 17));
            CHECK_INT(running->words, 17);
            CHECK(running->word[0] == code_at(SPIN + 40));
            CHECK_INT(running->word[16], (STACK_WORDS - 1) << 4 | 0xf);
        }
        fp_sigcapture_drop(0, ticket);
    }
    worker_end(&worker);
}

WITH_WORKER(a_scheduler_without_a_process_answers_that, spin)
{
    uint32_t ticket;

    set_word(worker->data, layout.release.running.current_process, NULL);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    CHECK_INT(answer(0, ticket)->result, FP_CAPTURE_NO_PROCESS);
    fp_sigcapture_drop(0, ticket);
}

BESIDE_WORKER(slots_that_are_none_are_not_asked, spin)
{
    uint32_t ticket = 4711;

    CHECK_INT(fp_sigcapture_request(1, NULL, &ticket), FP_ESTATE);
    CHECK_INT(fp_sigcapture_request(WORKERS, NULL, &ticket), FP_ESTATE);
    CHECK_INT(fp_sigcapture_request(UINT32_MAX, NULL, &ticket), FP_ESTATE);
    CHECK_INT(ticket, 4711);
}

/* ---------------------------------------------------------------- release -- */

WITH_WORKER(released_before_it_was_handled_it_is_handled_for_nobody, obey)
{
    uint32_t first, second;

    tell(worker, 1);
    CHECK_INT(fp_sigcapture_request(0, NULL, &first), 0);
    CHECK_INT(state_of(0), FP_SLOT_REQUESTED);
    CHECK(fp_sigcapture_poll(0, first) == NULL);
    CHECK_INT(fp_sigcapture_request(0, NULL, &second), FP_ESTATE);
    fp_sigcapture_drop(0, first);
    CHECK_INT(state_of(0), FP_SLOT_ABANDONED);
    /* One signal at a time, whoever asks. */
    CHECK_INT(fp_sigcapture_request(0, NULL, &second), FP_ESTATE);
    tell(worker, 0);
    UNTIL(state_of(0) == FP_SLOT_IDLE);
    CHECK(fp_sigcapture_poll(0, first) == NULL);
    expect_capture();
}

/* A reader that stops the handler in its work. */
static struct {
    const struct fp_memory *real;
    _Atomic int works, goes_on;
} gate;

static int64_t read_through_gate(void *self, const struct iovec *local, const struct iovec *remote,
                                 size_t n)
{
    (void)self;
    atomic_store(&gate.works, 1);
    while (!atomic_load(&gate.goes_on))
        ;
    return gate.real->readv(gate.real->self, local, remote, n);
}

BESIDE_WORKER(released_while_it_is_handled_it_is_nobodys_answer, spin)
{
    static struct fp_memory gated = {.readv = read_through_gate, .fd = -1};
    uint32_t first, second;

    gate.real = fp_slots.slot[0].scheduler.memory;
    atomic_store(&gate.works, 0);
    atomic_store(&gate.goes_on, 0);
    fp_slots.slot[0].scheduler.memory = &gated;
    CHECK_INT(fp_sigcapture_request(0, NULL, &first), 0);
    UNTIL(atomic_load(&gate.works));
    CHECK_INT(state_of(0), FP_SLOT_HANDLING);
    CHECK(fp_sigcapture_poll(0, first) == NULL);
    CHECK_INT(fp_sigcapture_request(0, NULL, &second), FP_ESTATE);
    fp_sigcapture_drop(0, first);
    CHECK_INT(state_of(0), FP_SLOT_ABANDONED);
    CHECK_INT(fp_sigcapture_request(0, NULL, &second), FP_ESTATE);
    atomic_store(&gate.goes_on, 1);
    UNTIL(state_of(0) == FP_SLOT_IDLE);
    CHECK(fp_sigcapture_poll(0, first) == NULL);
    fp_slots.slot[0].scheduler.memory = gate.real;
    expect_capture();
}

BESIDE_WORKER(numbers_wrap, spin)
{
    const uint32_t last = UINT32_MAX >> 3;
    uint32_t ticket;

    atomic_store(&fp_slots.slot[0].state, FP_SLOT_WORD(last - 1, FP_SLOT_IDLE));
    for (uint32_t i = 0; i < 4; i++) {
        static const uint32_t expected[] = {last, 0, 1, 2};

        CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
        CHECK_INT(ticket, expected[i]);
        CHECK_INT(answer(0, ticket)->result, FP_CAPTURE_CAPTURED);
        CHECK(fp_sigcapture_poll(0, last - 1) == NULL);
        fp_sigcapture_drop(0, ticket);
        CHECK_INT(state_of(0), FP_SLOT_IDLE);
    }
}

/* --------------------------------------------------- signals of all kinds -- */

static int send_to(pid_t tid, int code, pid_t from, uint64_t value)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_signo = fp_sigcapture.signal;
    info.si_code = code;
    info.si_pid = from;
    info.si_value.sival_ptr = (void *)(uintptr_t)value;
    return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, fp_sigcapture.signal, &info);
}

/* All have arrived when one of ours, sent after them, has: signals of one number are delivered in
 * order. */
static void expect_no_answer_but_to_ours(uint32_t number)
{
    uint32_t ticket;

    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    CHECK_INT(ticket, number);
    answer(0, ticket);
    fp_sigcapture_drop(0, ticket);
}

WITH_WORKER(a_signal_that_somebody_else_sends_is_ignored, spin)
{
    uint32_t number, word;

    word = atomic_load(&fp_slots.slot[0].state);
    number = FP_SLOT_NUMBER(word);
    CHECK_INT(pthread_kill(worker->thread, fp_sigcapture.signal), 0);
    /* Nobody asked for this one, and these name no slot or another one. */
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), number), 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), number + 1), 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), UINT64_MAX), 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), (uint64_t)WORKERS << 32), 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), UINT64_C(1) << 32), 0);
    CHECK_INT(send_to(worker->tid, SI_TIMER, getpid(), number), 0);
    UNTIL(atomic_load(&worker->rounds) > 100);
    CHECK_INT(atomic_load(&fp_slots.slot[0].state), word);
    expect_no_answer_but_to_ours(number + 1);
}

/* With a question open, and the right value in what is forged. */
WITH_WORKER(a_forged_answer_is_ignored, obey)
{
    uint32_t ticket;

    tell(worker, 1);
    /* As asking does, but for the signal. */
    ticket = FP_SLOT_NUMBER(atomic_load(&fp_slots.slot[0].state)) + 1;
    atomic_store(&fp_slots.slot[0].state, FP_SLOT_WORD(ticket, FP_SLOT_REQUESTED));
    tell(worker, 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid() + 1, ticket), 0);
    CHECK_INT(send_to(worker->tid, SI_MESGQ, getpid(), ticket), 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), ticket + 1), 0);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), ticket - 1), 0);
    /* On a thread that is no scheduler's. */
    CHECK_INT(send_to((pid_t)syscall(SYS_gettid), SI_QUEUE, getpid(), ticket), 0);
    tell(worker, 0);
    CHECK_INT(state_of(0), FP_SLOT_REQUESTED);
    CHECK_INT(send_to(worker->tid, SI_QUEUE, getpid(), ticket), 0);
    CHECK_INT(answer(0, ticket)->result, FP_CAPTURE_CAPTURED);
    fp_sigcapture_drop(0, ticket);
}

BESIDE_WORKER(a_request_that_the_kernel_refuses_leaves_it_idle, spin)
{
    struct rlimit before, none;
    uint32_t ticket;

    CHECK_INT(getrlimit(RLIMIT_SIGPENDING, &before), 0);
    none = before;
    none.rlim_cur = 0;
    CHECK_INT(setrlimit(RLIMIT_SIGPENDING, &none), 0);
    for (int i = 0; i < 10; i++)
        CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESIGNAL);
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    CHECK_INT(setrlimit(RLIMIT_SIGPENDING, &before), 0);
    expect_capture();
}

SIGNAL_TEST(a_thread_that_is_gone_can_not_be_asked)
{
    struct worker *worker;
    uint32_t ticket;

    begin();
    worker = employ(spin);
    worker_end(worker);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESIGNAL);
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    free(worker);
}

/* ---------------------------------------------------- under fire for long -- */

/* Ten times as many where make proof runs it. */
#define SIGNALS (UNDER_TSAN ? 100000u : 10000u)

/* Ask as fast as it answers. */
static void fire(struct worker *worker, uint64_t signals)
{
    for (uint64_t i = 0; i < signals; i++) {
        const struct fp_capture *running;
        uint32_t ticket;

        CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
        running = answer(0, ticket);
        CHECK_INT(running->result, FP_CAPTURE_CAPTURED);
        CHECK(running->process == process_of(worker));
        fp_sigcapture_drop(0, ticket);
    }
}

/* What can be restarted is not seen, and errno is what it was. */
static void use_a_pipe(struct worker *worker)
{
    uint64_t n = 0, back = 0;
    int fd[2];

    CHECK_INT(pipe(fd), 0);
    while (!atomic_load(&worker->stop)) {
        errno = 4711;
        CHECK_INT(write(fd[1], &n, sizeof n), sizeof n);
        CHECK_INT(read(fd[0], &back, sizeof back), sizeof back);
        CHECK_INT(errno, 4711);
        CHECK(back == n);
        n++;
        atomic_fetch_add(&worker->rounds, 1);
    }
    close(fd[0]);
    close(fd[1]);
}

WITH_WORKER(under_signals_a_pipe_works_as_ever, use_a_pipe)
{
    fire(worker, SIGNALS / 4);
    UNTIL(atomic_load(&worker->rounds) > 0);
}

/* Reads that wait: the byte comes from another thread. */
struct slow_pipe {
    int fd[2];
    _Atomic int stop;
};

static struct slow_pipe slow;

static void wait_for_bytes(struct worker *worker)
{
    unsigned char expected = 0, byte;

    while (!atomic_load(&worker->stop)) {
        CHECK_INT(read(slow.fd[0], &byte, 1), 1);
        CHECK_INT(byte, expected++);
        atomic_fetch_add(&worker->rounds, 1);
    }
}

static void *write_slowly(void *arg)
{
    static const struct timespec nap = {0, 1000000};
    unsigned char byte = 0;

    (void)arg;
    while (!atomic_load(&slow.stop)) {
        nanosleep(&nap, NULL);
        CHECK_INT(write(slow.fd[1], &byte, 1), 1);
        byte++;
    }
    return NULL;
}

SIGNAL_TEST(under_signals_a_read_that_waits_goes_on_waiting)
{
    struct worker *worker;
    pthread_t writer;

    begin();
    CHECK_INT(pipe(slow.fd), 0);
    atomic_store(&slow.stop, 0);
    CHECK_INT(pthread_create(&writer, NULL, write_slowly, NULL), 0);
    worker = employ(wait_for_bytes);
    fire(worker, 3 * SIGNALS / 8);
    UNTIL(atomic_load(&worker->rounds) > 0);
    dismiss(worker);
    atomic_store(&slow.stop, 1);
    pthread_join(writer, NULL);
    close(slow.fd[0]);
    close(slow.fd[1]);
}

/* --------------------------------------------------------- two who ask -- */

struct asker {
    pthread_t thread;
    struct worker *worker;
    uint64_t random, asked, answered, abandoned;
    uint32_t refused;
};

static _Atomic int holders;

/* TSan keeps signals back until it suits it, and of some 4,000 loses one: the slot then waits for
 * ever. Once more does no harm: what was handled is not handled again. */
static void send_again_under_tsan(uint32_t refused)
{
    if (UNDER_TSAN && refused % 20000 == 0)
        (void)send_signal(&fp_slots.slot[0], 0,
                          FP_SLOT_NUMBER(atomic_load(&fp_slots.slot[0].state)));
}

/* How often the answer is looked for: of eight, one does not wait at all, so that some are
 * abandoned however fast the answers are. */
static uint32_t patience_for(struct asker *asker)
{
    return run_below(&asker->random, 8) == 0 ? 0 : run_below(&asker->random, 2000);
}

/* Every answer is one's own, and nobody else holds one. */
static void *ask_again_and_again(void *arg)
{
    struct asker *asker = arg;

    while (asker->asked < (UNDER_TSAN ? 2000u : 10000u)) {
        const struct fp_capture *running = NULL;
        uint32_t ticket, tries = patience_for(asker), tried = 0;

        if (fp_sigcapture_request(0, NULL, &ticket) != 0) {
            patience(&asker->refused);
            send_again_under_tsan(asker->refused);
            continue;
        }
        CHECK_INT(atomic_fetch_add(&holders, 1), 0);
        asker->asked++;
        while (running == NULL && tried < tries) {
            running = fp_sigcapture_poll(0, ticket);
            patience(&tried);
        }
        if (running == NULL) {
            asker->abandoned++;
        } else {
            asker->answered++;
            CHECK(running->process == process_of(asker->worker));
            CHECK(running->words <= FP_STACK_WORDS_MAX);
            CHECK(fp_sigcapture_handler_ns(0) < UINT64_C(60000000000));
        }
        CHECK_INT(atomic_fetch_sub(&holders, 1), 1);
        fp_sigcapture_drop(0, ticket);
    }
    return NULL;
}

static void nap_often(struct worker *worker)
{
    static const struct timespec nap = {0, 1000};

    while (!atomic_load(&worker->stop))
        nanosleep(&nap, NULL);
}

TEST_WITH_WORKER(of_two_who_ask_at_once_one_is_refused, UNDER_TSAN ? nap_often : spin)
{
    struct asker asker[2] = {{.random = 1}, {.random = 2}};

    for (int i = 0; i < 2; i++) {
        asker[i].worker = worker;
        CHECK_INT(pthread_create(&asker[i].thread, NULL, ask_again_and_again, &asker[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK_INT(pthread_join(asker[i].thread, NULL), 0);
    CHECK(asker[0].answered + asker[1].answered > 0);
    CHECK(asker[0].abandoned + asker[1].abandoned > 0);
    UNTIL(state_of(0) == FP_SLOT_IDLE);
}

/* --------------------------------------------------------------- retiring -- */

static int action_is(int signal, void (*expected)(int, siginfo_t *, void *))
{
    struct sigaction now;

    CHECK_INT(sigaction(signal, NULL, &now), 0);
    return now.sa_sigaction == expected;
}

/* Obeys, and is here when `command` is 2. */
static void be_here_when_told(struct worker *worker)
{
    while (!atomic_load(&worker->stop)) {
        if (atomic_load(&worker->command) == 2) {
            worker->err = fp_sigcapture_shutdown_quiesce(worker->number);
            atomic_store(&worker->command, 0);
        }
        atomic_fetch_add(&worker->rounds, 1);
        sched_yield();
    }
}

SIGNAL_TEST(retired_it_is_as_it_was_and_can_begin_anew)
{
    struct worker *worker;
    uint32_t ticket;
    int signal;

    begin();
    signal = fp_sigcapture.signal;
    worker = employ(be_here_when_told);
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    CHECK(fp_sigcapture_must_quiesce(0) && !fp_sigcapture_must_quiesce(1));
    CHECK_INT(fp_sigcapture_acquire(), FP_ESTATE);
    CHECK_INT(prepare_slots(WORKERS), FP_ESTATE);
    /* Nobody else's thread counts. */
    CHECK_INT(fp_sigcapture_shutdown_quiesce(1), FP_ESTATE);
    tell(worker, 2);
    CHECK_INT(worker->err, 0);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
    CHECK(action_is(signal, (void *)SIG_DFL));
    CHECK_INT(fp_sigcapture.signal, 0);
    CHECK_INT(fp_sigcapture_count(), 0);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESTATE);
    CHECK_INT(fp_sigcapture_shutdown_end(1), FP_ESTATE);
    dismiss(worker);
    begin();
    dismiss(employ(spin));
}

/* As soon as `command` is 2, so often that they meet; err tells if one was refused. */
static void be_here_often(struct worker *worker)
{
    while (atomic_load(&worker->command) != 2)
        sched_yield();
    for (int i = 0; i < 20000; i++)
        worker->err |= fp_sigcapture_shutdown_quiesce(worker->number);
    spin(worker);
}

SIGNAL_TEST(all_may_be_here_at_once)
{
    struct worker worker[WORKERS];

    begin();
    for (unsigned at = 0; at < WORKERS; at++) {
        worker_init(&worker[at], at + 1);
        worker[at].work = be_here_often;
        worker_start(&worker[at]);
        CHECK_INT(worker[at].err, 0);
    }
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    for (unsigned at = 0; at < WORKERS; at++)
        atomic_store(&worker[at].command, 2);
    for (unsigned at = 0; at < WORKERS; at++)
        worker_end(&worker[at]);
    for (unsigned at = 0; at < WORKERS; at++)
        CHECK_INT(worker[at].err, 0);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
}

SIGNAL_TEST(nobody_retires_while_somebody_is_inside)
{
    begin();
    CHECK_INT(fp_sigcapture_acquire(), 0);
    CHECK_INT(fp_sigcapture_shutdown_begin(1), FP_ESTATE);
    fp_sigcapture_release();
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
}

static void expect_at_work(void)
{
    CHECK(action_is(fp_sigcapture.signal, fp_handler));
    CHECK_INT(fp_sigcapture_acquire(), 0);
    expect_capture();
    fp_sigcapture_release();
}

WITH_WORKER(without_each_scheduler_here_all_stays_as_it_was, be_here_when_told)
{
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    CHECK(action_is(fp_sigcapture.signal, (void *)SIG_IGN));
    CHECK_INT(fp_sigcapture_shutdown_end(1), FP_ESTATE);
    expect_at_work();
    /* Nor does it count that it was here for the attempt before. */
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    tell(worker, 2);
    atomic_store(&fp_slots.slot[1].is_registered, 0);
    fp_slots.slot[1].thread = worker->tid; /* asked, but not here */
    CHECK_INT(fp_sigcapture_shutdown_end(1), FP_ESTATE);
    fp_slots.slot[1].thread = 0;
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    CHECK_INT(fp_sigcapture_shutdown_end(1), FP_ESTATE);
    expect_at_work();
}

/* As when the process that retires them is killed. */
WITH_WORKER(what_nobody_ends_is_given_up_and_can_begin_anew, be_here_when_told)
{
    CHECK_INT(fp_sigcapture_is_shutting_down(), 0);
    CHECK_INT(fp_sigcapture_shutdown_begin(7), 0);
    CHECK_INT(fp_sigcapture_is_shutting_down(), 7);
    tell(worker, 2);
    /* Nobody else ends it, or begins one of his own. */
    CHECK_INT(fp_sigcapture_shutdown_begin(8), FP_ESTATE);
    CHECK_INT(fp_sigcapture_shutdown_end(8), FP_ESTATE);
    fp_sigcapture_shutdown_abort(8);
    CHECK_INT(fp_sigcapture_is_shutting_down(), 7);
    CHECK_INT(fp_sigcapture_acquire(), FP_ESTATE);
    fp_sigcapture_shutdown_abort(7);
    CHECK_INT(fp_sigcapture_is_shutting_down(), 0);
    expect_at_work();
    fp_sigcapture_shutdown_abort(7);
    expect_at_work();
    /* And he who was given up has nothing to end any more. */
    CHECK_INT(fp_sigcapture_shutdown_begin(8), 0);
    CHECK_INT(fp_sigcapture_shutdown_end(7), FP_ESTATE);
    tell(worker, 2);
    CHECK_INT(fp_sigcapture_shutdown_end(8), 0);
    CHECK_INT(fp_sigcapture_count(), 0);
    CHECK_INT(fp_sigcapture_is_shutting_down(), 0);
}

WITH_WORKER(a_signal_on_its_way_is_waited_for, obey)
{
    uint32_t ticket;

    tell(worker, 1);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    fp_sigcapture_drop(0, ticket);
    CHECK_INT(fp_sigcapture_shutdown_begin(1), FP_ESTATE);
    CHECK(action_is(fp_sigcapture.signal, fp_handler));
    tell(worker, 0);
    UNTIL(state_of(0) == FP_SLOT_IDLE);
    expect_at_work();
}

WITH_WORKER(a_handler_of_somebody_elses_is_not_touched, be_here_when_told)
{
    struct sigaction ours = fp_sigcapture_action();
    int signal;

    signal = fp_sigcapture.signal;
    set_action(signal, somebodys_handler);
    CHECK_INT(fp_sigcapture_shutdown_begin(1), FP_ESIGNAL);
    CHECK(action_is(signal, (void *)somebodys_handler));
    CHECK_INT(sigaction(signal, &ours, NULL), 0);
    expect_at_work();
    /* Nor one that comes in between. */
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    set_action(signal, somebodys_handler);
    tell(worker, 2);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
    CHECK(action_is(signal, (void *)somebodys_handler));
    set_action(signal, SIG_DFL);
}

/* ------------------------------------------------ signals that are lost -- */

static _Atomic int theirs;

static void count_theirs(int signal)
{
    (void)signal;
    atomic_fetch_add(&theirs, 1);
}

static void expect_captures(void)
{
    CHECK_INT(fp_sigcapture_check(), 0);
    CHECK_INT(fp_sigcapture_lost_signal(), 0);
    expect_capture();
}

static void give_back(int signal)
{
    struct sigaction action = fp_sigcapture_action();

    CHECK_INT(sigaction(signal, &action, NULL), 0);
}

BESIDE_WORKER(a_signal_that_is_taken_is_not_sent_until_it_is_given_back, spin)
{
    uint32_t ticket, word;
    int signal;

    signal = fp_sigcapture.signal;
    word = atomic_load(&fp_slots.slot[0].state);
    atomic_store(&theirs, 0);
    set_action(signal, count_theirs);
    CHECK_INT(fp_sigcapture_check(), FP_ESIGNAL);
    CHECK_INT(fp_sigcapture_lost_signal(), signal);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESIGNAL);
    CHECK_INT(atomic_load(&fp_slots.slot[0].state), word);
    /* Nor does a user that comes now. */
    CHECK_INT(fp_sigcapture_acquire(), 0);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), FP_ESIGNAL);
    fp_sigcapture_release();
    CHECK_INT(atomic_load(&theirs), 0);
    give_back(signal);
    expect_captures();
    CHECK_INT(fp_sigcapture.signal, signal);
}

WITH_WORKER(after_it_was_taken_the_next_session_has_another_signal, be_here_when_told)
{
    uint32_t ticket;
    int signal;

    signal = fp_sigcapture.signal;
    atomic_store(&theirs, 0);
    /* Between the check and the request. */
    set_action(signal, count_theirs);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    UNTIL(atomic_load(&theirs) == 1);
    CHECK(fp_sigcapture_is_pending(0, ticket));
    CHECK_INT(prepare_slots(WORKERS), 0);
    CHECK(fp_sigcapture.signal != signal && fp_sigcapture.signal != 0);
    CHECK(!fp_sigcapture_is_pending(0, ticket));
    CHECK(fp_sigcapture_poll(0, ticket) == NULL);
    fp_sigcapture_drop(0, ticket);
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    expect_captures();
    CHECK_INT(atomic_load(&theirs), 1);
    CHECK(action_is(signal, (void *)count_theirs));
    /* Its owner may call the handler that it replaced: this stays mapped. */
    CHECK_INT(fp_sigcapture_shutdown_begin(1), FP_ESIGNAL);
    expect_captures();
    give_back(signal);
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    tell(worker, 2);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
    CHECK(action_is(signal, (void *)SIG_DFL));
}

/* What a debugger does that swallows a signal: no handler ever comes. */
static void swallow(struct worker *worker)
{
    sigset_t set;
    siginfo_t info;
    struct timespec at_once = {0, 0};

    sigemptyset(&set);
    sigaddset(&set, fp_sigcapture.signal);
    while (!atomic_load(&worker->stop)) {
        if (atomic_load(&worker->command) == 1) {
            block(SIG_BLOCK);
            atomic_store(&worker->command, 2);
        }
        if (atomic_load(&worker->command) == 3 && sigtimedwait(&set, &info, &at_once) > 0) {
            block(SIG_UNBLOCK);
            atomic_store(&worker->command, 4);
        }
        atomic_fetch_add(&worker->rounds, 1);
    }
}

WITH_WORKER(a_swallowed_signal_makes_a_scheduler_lost_until_it_is_repaired, swallow)
{
    uint32_t ticket, other;

    CHECK(!fp_sigcapture_is_lost(0));
    atomic_store(&worker->command, 1);
    UNTIL(atomic_load(&worker->command) == 2);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    atomic_store(&worker->command, 3);
    UNTIL(atomic_load(&worker->command) == 4);
    UNTIL(fp_sigcapture_is_lost(0));
    CHECK(fp_sigcapture_is_pending(0, ticket));
    /* Whoever made the request, and whether it is wanted or not. */
    fp_sigcapture_drop(0, ticket);
    CHECK(fp_sigcapture_is_lost(0));
    CHECK_INT(fp_sigcapture_request(0, NULL, &other), FP_ESTATE);
    CHECK_INT(fp_sigcapture_check(), 0);
    CHECK_INT(prepare_slots(WORKERS), 0);
    CHECK(!fp_sigcapture_is_lost(0));
    expect_captures();
}

WITH_WORKER(a_signal_that_comes_after_the_repair_changes_nothing, obey)
{
    uint32_t first, second;

    tell(worker, 1);
    CHECK_INT(fp_sigcapture_request(0, NULL, &first), 0);
    fp_sigcapture_drop(0, first);
    CHECK_INT(prepare_slots(WORKERS), 0);
    CHECK_INT(state_of(0), FP_SLOT_IDLE);
    /* Both are pending; both find the slot of the second. */
    CHECK_INT(fp_sigcapture_request(0, NULL, &second), 0);
    CHECK(second != first);
    tell(worker, 0);
    CHECK_INT(answer(0, second)->result, FP_CAPTURE_CAPTURED);
    fp_sigcapture_drop(0, first);
    CHECK(fp_sigcapture_poll(0, second) != NULL);
    fp_sigcapture_drop(0, second);
    /* And an idle slot. */
    tell(worker, 1);
    CHECK_INT(fp_sigcapture_request(0, NULL, &first), 0);
    fp_sigcapture_drop(0, first);
    CHECK_INT(prepare_slots(WORKERS), 0);
    tell(worker, 0);
    CHECK_INT(atomic_load(&fp_slots.slot[0].state), FP_SLOT_WORD(first, FP_SLOT_IDLE));
}

/* While another user is inside, its request is not repaired away. */
WITH_WORKER(a_session_that_starts_leaves_the_requests_of_others, obey)
{
    uint32_t ticket;

    tell(worker, 1);
    CHECK_INT(fp_sigcapture_acquire(), 0);
    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    CHECK_INT(prepare_slots(WORKERS), 0);
    CHECK(fp_sigcapture_is_pending(0, ticket));
    tell(worker, 0);
    CHECK_INT(answer(0, ticket)->result, FP_CAPTURE_CAPTURED);
    fp_sigcapture_drop(0, ticket);
    fp_sigcapture_release();
}

/* ------------------------------------------------------------------ costs -- */

BESIDE_WORKER(a_preempted_handler_costs_no_more_than_one_that_is_not, spin)
{
    uint32_t ticket;

    CHECK_INT(fp_sigcapture_request(0, NULL, &ticket), 0);
    answer(0, ticket);
    fp_slots.slot[0].handler_ns = 10000000;
    CHECK_INT(fp_sigcapture_handler_ns(0), 50000);
    fp_slots.slot[0].handler_ns = 2000;
    CHECK_INT(fp_sigcapture_handler_ns(0), 2000);
    fp_sigcapture_drop(0, ticket);
}

static unsigned count_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

/* One is for /proc/self/mem, where process_vm_readv is refused. */
SIGNAL_TEST(many_schedulers_take_no_more_descriptors_than_one)
{
    unsigned before;

    begin();
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
    CHECK_INT(install_handler(), 0);
    before = count_descriptors();
    CHECK_INT(prepare_slots(FP_SCHEDULERS_MAX), 0);
    CHECK(count_descriptors() <= before + 1);
    CHECK_INT(fp_sigcapture_shutdown_begin(1), 0);
    CHECK_INT(fp_sigcapture_shutdown_end(1), 0);
    CHECK_INT(count_descriptors(), before);
}

/* Many find the VM's code at once; for TSan. */
static _Atomic int finders;

static void *find_code_with_others(void *arg)
{
    struct fp_range fragments;
    uint64_t nif_return;

    atomic_fetch_add(&finders, 1);
    while (atomic_load(&finders) < (int)WORKERS)
        sched_yield();
    CHECK_INT(find_code(code_at(CALL_NIF + NIF_RETURN)), 0);
    fp_sigcapture_code(&fragments, &nif_return);
    CHECK(fragments.start == code_at(0) && fragments.end == code_at(INFO));
    CHECK(nif_return == code_at(CALL_NIF + NIF_RETURN));
    return arg;
}

TEST(schedulers_that_register_at_once_find_the_same_code)
{
    pthread_t thread[WORKERS];

    for (int round = 0; round < 20; round++) {
        begin();
        atomic_store(&finders, 0);
        for (unsigned i = 0; i < WORKERS; i++)
            CHECK_INT(pthread_create(&thread[i], NULL, find_code_with_others, NULL), 0);
        for (unsigned i = 0; i < WORKERS; i++)
            CHECK_INT(pthread_join(thread[i], NULL), 0);
        CHECK_INT(find_code(code_at(CALL_NIF_2 + NIF_RETURN)), FP_ELAYOUT);
    }
}
