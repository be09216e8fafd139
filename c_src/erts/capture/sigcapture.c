#include "erts/capture/sigcapture.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/error.h"
#include "erts/capture/jit_code.h"
#include "erts/code_index.h"

/* What the handler and the kernel's frame need of the alternate stack, beyond
 * the kernel's own minimum, which counts the registers' save area. */
#define HANDLER_STACK_BYTES 4096u
#define FRAME_BYTES 4096u
/* Largest read of the handler: the Erlang stack's leaf end. */
#define HANDLER_WINDOW (8u * FP_STACK_WORDS_MAX)
/* The C frames between a NIF and the JIT code that called it. */
#define NIF_DEPTH_BYTES 4096u
/* glibc's headers do not name it everywhere. */
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

enum state { IDLE, REQUESTED, WORKING, ANSWERED, ABANDONED };

/* A slot's state and the number of its request, in one word. */
#define STATE(number, state) ((uint32_t)(number) << 3 | (uint32_t)(state))
#define STATE_OF(word) ((enum state)((word)&7u))
#define NUMBER_OF(word) ((word) >> 3)

struct slot {
    /* release by who hands over, acquire by who takes over */
    _Atomic uint32_t state;
    /* Set last, with release: from then on all but `running` is immutable. */
    _Atomic int is_registered;
    /* Since retiring began, its thread was outside of the handler. */
    _Atomic int was_here;
    pid_t thread; /* 0: never asked */
    struct fp_memory peek;
    struct fp_capture_scheduler scheduler;
    uint64_t handler_ns;
    struct fp_capture running;
};

/* Until they retire, also when the NIF library is unloaded and loaded again: the
 * handler may run at any time. */
static struct {
    /* Who makes or takes back the slots writes; the schedulers, which come all at
     * once, read (fp_sigcapture_shutdown_quiesce). */
    pthread_rwlock_t lock;
    _Atomic int users; /* RETIRING: none, and none is let in */
    /* RETIRING: by whom. Both change under the lock, then. */
    _Atomic uint64_t retiring;
    void *pin; /* keeps the library mapped */
    struct slot *slot;
    _Atomic unsigned count; /* release after `slot` is mapped */
    _Atomic unsigned registered;
    int signal; /* 0: not installed */
    pid_t process;
    struct fp_layout layout;
    struct fp_ranges ranges;
    /* Set by the first that registers, the same for all. */
    _Atomic int code_known;
    struct fp_range fragments;
    uint64_t nif_return;
} schedulers = {.lock = PTHREAD_RWLOCK_INITIALIZER};

#define RETIRING (-1)

static int say(char *why, size_t size, int err, const char *text)
{
    snprintf(why, size, "%s", text);
    return err;
}

/* --------------------------------------------------------- the handler -- */

static uint64_t clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void copy_registers(const ucontext_t *context,
                           struct fp_registers *registers)
{
#if defined(__x86_64__)
    const greg_t *at = context->uc_mcontext.gregs;

#define REGISTER(name, index) registers->name = (uint64_t)at[index]
    REGISTER(rax, REG_RAX);
    REGISTER(rdx, REG_RDX);
    REGISTER(rcx, REG_RCX);
    REGISTER(rbx, REG_RBX);
    REGISTER(rsi, REG_RSI);
    REGISTER(rdi, REG_RDI);
    REGISTER(rbp, REG_RBP);
    REGISTER(rsp, REG_RSP);
    REGISTER(r8, REG_R8);
    REGISTER(r9, REG_R9);
    REGISTER(r10, REG_R10);
    REGISTER(r11, REG_R11);
    REGISTER(r12, REG_R12);
    REGISTER(r13, REG_R13);
    REGISTER(r14, REG_R14);
    REGISTER(r15, REG_R15);
    REGISTER(rip, REG_RIP);
#undef REGISTER
#else
    (void)context;
    memset(registers, 0, sizeof *registers);
#endif
}

static int move(struct slot *slot, uint32_t number, enum state from,
                enum state to)
{
    uint32_t expected = STATE(number, from);

    return atomic_compare_exchange_strong_explicit(
        &slot->state, &expected, STATE(number, to), memory_order_acq_rel,
        memory_order_acquire);
}

/* ASYNC-SIGNAL-SAFE. Calls clock_gettime, the system calls of its peek and
 * memcpy; touches its slot only. */
static void capture(struct slot *slot, uint32_t number,
                    const ucontext_t *context)
{
    struct fp_registers registers;
    uint64_t begin;

    if (!move(slot, number, REQUESTED, WORKING)) {
        (void)move(slot, number, ABANDONED, IDLE);
        return;
    }
    begin = clock_ns();
    copy_registers(context, &registers);
    fp_capture_take(&slot->scheduler, &registers, &slot->running);
    slot->handler_ns = clock_ns() - begin;
    if (!move(slot, number, WORKING, ANSWERED))
        (void)move(slot, number, ABANDONED, IDLE);
}

/* Whose signal is it? Anybody may send one: only what this process queued,
 * that names a slot, on that slot's own thread, is ours. */
static void handler(int signal, siginfo_t *info, void *context)
{
    uint64_t value = (uint64_t)(uintptr_t)info->si_value.sival_ptr;
    unsigned at = (unsigned)(value >> 32);
    int saved = errno;

    (void)signal;
    if (info->si_code == SI_QUEUE && info->si_pid == schedulers.process &&
        at < atomic_load_explicit(&schedulers.count, memory_order_acquire) &&
        schedulers.slot[at].thread == (pid_t)syscall(SYS_gettid))
        capture(&schedulers.slot[at], (uint32_t)value, context);
    errno = saved;
}

static int send_signal(const struct slot *slot, unsigned at, uint32_t number)
{
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_signo = schedulers.signal;
    info.si_code = SI_QUEUE;
    info.si_pid = schedulers.process;
    info.si_value.sival_ptr = (void *)(uintptr_t)((uint64_t)at << 32 | number);
    return (int)syscall(SYS_rt_tgsigqueueinfo, schedulers.process, slot->thread,
                        schedulers.signal, &info);
}

/* -------------------------------------------------------------- inside -- */

int fp_sigcapture_acquire(void)
{
    int users = atomic_load(&schedulers.users);

    while (users != RETIRING)
        if (atomic_compare_exchange_weak(&schedulers.users, &users, users + 1))
            return 0;
    return FP_ESTATE;
}

void fp_sigcapture_release(void)
{
    atomic_fetch_sub(&schedulers.users, 1);
}

/* ------------------------------------------------------------- asking -- */

unsigned fp_sigcapture_count(void)
{
    return atomic_load_explicit(&schedulers.count, memory_order_acquire);
}

unsigned fp_sigcapture_registered(void)
{
    return atomic_load_explicit(&schedulers.registered, memory_order_acquire);
}

void fp_sigcapture_code(struct fp_range *fragments, uint64_t *nif_return)
{
    *fragments = schedulers.fragments;
    *nif_return = schedulers.nif_return;
}

static int is_registered(const struct slot *slot)
{
    return atomic_load_explicit(&slot->is_registered, memory_order_acquire);
}

uint64_t fp_sigcapture_data(unsigned at)
{
    return is_registered(&schedulers.slot[at])
               ? schedulers.slot[at].scheduler.data
               : 0;
}

int fp_sigcapture_find(uint64_t data)
{
    unsigned count = fp_sigcapture_count();

    for (unsigned at = 0; data != 0 && at < count; at++)
        if (fp_sigcapture_data(at) == data)
            return (int)at;
    return -1;
}

static int ask(unsigned at, uint32_t *ticket)
{
    struct slot *slot = &schedulers.slot[at];
    uint32_t old = atomic_load_explicit(&slot->state, memory_order_acquire);
    uint32_t number = (NUMBER_OF(old) + 1) & (UINT32_MAX >> 3);

    if (STATE_OF(old) != IDLE ||
        !atomic_compare_exchange_strong_explicit(
            &slot->state, &old, STATE(number, REQUESTED), memory_order_acq_rel,
            memory_order_acquire))
        return FP_ESTATE;
    if (send_signal(slot, at, number) != 0) {
        (void)move(slot, number, REQUESTED, IDLE);
        return FP_EDENIED;
    }
    *ticket = number;
    return 0;
}

int fp_sigcapture_request(unsigned at, uint32_t *ticket)
{
    if (at >= fp_sigcapture_count() || !is_registered(&schedulers.slot[at]))
        return FP_ESTATE;
    return ask(at, ticket);
}

const struct fp_capture *fp_sigcapture_poll(unsigned at, uint32_t ticket)
{
    const struct slot *slot = &schedulers.slot[at];

    return atomic_load_explicit(&slot->state, memory_order_acquire) ==
                   STATE(ticket, ANSWERED)
               ? &slot->running
               : NULL;
}

void fp_sigcapture_drop(unsigned at, uint32_t ticket)
{
    struct slot *slot = &schedulers.slot[at];

    /* The handler may move it on between two of these; each way ends. */
    while (!move(slot, ticket, ANSWERED, IDLE) &&
           !move(slot, ticket, REQUESTED, ABANDONED) &&
           !move(slot, ticket, WORKING, ABANDONED))
        ;
}

uint64_t fp_sigcapture_handler_ns(unsigned at)
{
    return schedulers.slot[at].handler_ns;
}

/* --------------------------------------------------------- preparation -- */

/* The code must outlive every signal that is on its way. By a handle and not by
 * RTLD_NODELETE, which nobody can take back. */
static int pin_library(void)
{
    Dl_info info;

    if (schedulers.pin != NULL)
        return 0;
    if (dladdr(&schedulers, &info) == 0 || info.dli_fname == NULL)
        return FP_EDENIED;
    schedulers.pin = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return schedulers.pin != NULL ? 0 : FP_EDENIED;
}

static struct sigaction our_action(void)
{
    struct sigaction ours = {.sa_sigaction = handler,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    sigfillset(&ours.sa_mask);
    return ours;
}

/* From the highest on: programs that take one take the first ones. Threads of
 * the VM leave these unblocked. SA_RESTART, so that what can be restarted is
 * not seen; all other signals wait until the handler is done. */
static int install_handler(void)
{
    struct sigaction ours = our_action();

    for (int number = SIGRTMAX; number >= SIGRTMIN; number--) {
        struct sigaction theirs;

        if (sigaction(number, NULL, &theirs) != 0 ||
            (theirs.sa_flags & SA_SIGINFO) != 0 || theirs.sa_handler != SIG_DFL)
            continue;
        if (sigaction(number, &ours, NULL) == 0) {
            schedulers.signal = number;
            return 0;
        }
    }
    return FP_EDENIED;
}

static void unmap_slots(struct slot *slots, unsigned count, unsigned opened)
{
    while (opened-- > 0)
        fp_safe_read_close(&slots[opened].peek);
    munmap(slots, count * sizeof *slots);
}

static int map_slots(const struct fp_layout *layout, unsigned count)
{
    struct slot *slots =
        mmap(NULL, count * sizeof *slots, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (slots == MAP_FAILED)
        return FP_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        if (fp_safe_read_open_small(&slots[i].peek, HANDLER_WINDOW) != 0) {
            unmap_slots(slots, count, i);
            return FP_EDENIED;
        }
        slots[i].scheduler.peek = &slots[i].peek;
        slots[i].scheduler.layout = *layout;
    }
    schedulers.slot = slots;
    schedulers.layout = *layout;
    return 0;
}

static int prepare(const struct fp_layout *layout,
                   const struct fp_ranges *ranges, unsigned count, char *why,
                   size_t size)
{
    int err;

    if (schedulers.slot != NULL)
        return count == fp_sigcapture_count()
                   ? 0
                   : say(why, size, FP_EINVAL,
                         "the number of schedulers is "
                         "another one now");
    if (count == 0 || count > FP_SCHEDULERS_MAX)
        return say(why, size, FP_EINVAL, "so many schedulers can not be");
    schedulers.process = getpid();
    schedulers.ranges = *ranges;
    if (schedulers.signal == 0) {
        if (pin_library() != 0)
            return say(why, size, FP_EDENIED, "the library can not be pinned");
        if (install_handler() != 0)
            return say(why, size, FP_EDENIED,
                       "every real-time signal is in use by somebody");
    }
    err = map_slots(layout, count);
    if (err != 0)
        return say(why, size, err, fp_err_text(err));
    atomic_store_explicit(&schedulers.count, count, memory_order_release);
    return 0;
}

int fp_sigcapture_prepare(const struct fp_layout *layout,
                          const struct fp_ranges *ranges, unsigned count,
                          char *why, size_t why_size)
{
    int err;

    if (fp_sigcapture_acquire() != 0)
        return say(why, why_size, FP_ESTATE,
                   "the schedulers are being retired");
    pthread_rwlock_wrlock(&schedulers.lock);
    err = prepare(layout, ranges, count, why, why_size);
    pthread_rwlock_unlock(&schedulers.lock);
    fp_sigcapture_release();
    return err;
}

/* -------------------------------------------------------- registration -- */

/* Is the structure what the release's sources say, as far as this moment
 * tells: this process runs on that scheduler, in this NIF? */
static int check_structures(struct slot *slot, unsigned number,
                            uint64_t process, const uint64_t mfa[3])
{
    const struct fp_capture_offsets *at = &schedulers.layout.release.running;
    const struct fp_memory *peek = &slot->peek;
    uint64_t data, back, own_number, current, words[3];

    if (fp_safe_read_word(peek, process + at->scheduler_data, &data) != 0 ||
        fp_safe_read_word(peek, data + at->current_process, &back) != 0 ||
        fp_safe_read_word(peek, data + at->number, &own_number) != 0 ||
        fp_safe_read_word(peek, process + at->current, &current) != 0 ||
        fp_safe_read(peek, current, words, sizeof words) != 0 ||
        back != process || own_number != number ||
        memcmp(words, mfa, sizeof words) != 0)
        return FP_ELAYOUT;
    slot->scheduler.data = data;
    return 0;
}

static int has_room(void)
{
    stack_t alternate;
    size_t least = getauxval(AT_MINSIGSTKSZ);

    /* Kernels before 5.14 do not tell: then what AVX-512 needs. */
    if (least == 0)
        least = FRAME_BYTES;
    return sigaltstack(NULL, &alternate) == 0 &&
           (alternate.ss_flags & (SS_DISABLE | SS_ONSTACK)) == 0 &&
           alternate.ss_size >= least + HANDLER_STACK_BYTES;
}

/* The first return address into JIT code above this frame: a NIF's caller. */
static uint64_t find_native_base(const struct slot *slot)
{
    const struct fp_ranges *ranges = &schedulers.ranges;
    uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(0) & ~7ull;
    uint64_t words[NIF_DEPTH_BYTES / 8];

    if (fp_safe_read(&slot->peek, frame, words, sizeof words) != 0)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint64_t base = frame + 8 * i + 8;

        if ((base & 15) == 0 && fp_ranges_contain(ranges, words[i]) &&
            fp_is_return_address(&slot->peek, words[i]))
            return base;
    }
    return 0;
}

static int find_code(struct slot *slot, uint64_t nif_return)
{
    const struct fp_ranges *ranges = &schedulers.ranges;
    struct fp_range range = {0, 0};
    uint64_t first;

    if (atomic_load_explicit(&schedulers.code_known, memory_order_acquire))
        return nif_return == schedulers.nif_return ? 0 : FP_ELAYOUT;
    for (uint32_t i = 0; i < ranges->count; i++)
        if (nif_return - ranges->range[i].start <
            ranges->range[i].end - ranges->range[i].start)
            range = ranges->range[i];
    if (fp_code_index_first(&slot->peek, &range, nif_return, &first) != 0)
        return FP_ELAYOUT;
    schedulers.fragments = (struct fp_range){range.start, first};
    schedulers.nif_return = nif_return;
    atomic_store_explicit(&schedulers.code_known, 1, memory_order_release);
    return 0;
}

/* The whole way, once, where the answer is known. */
static int captures_itself(struct slot *slot, unsigned at, uint64_t process)
{
    const struct fp_capture *running;
    uint32_t ticket;
    int err = FP_ELAYOUT;

    if (ask(at, &ticket) != 0)
        return FP_EDENIED;
    /* Sent to itself, a signal that is not blocked has arrived by now. */
    running = fp_sigcapture_poll(at, ticket);
    if (running != NULL && running->result == FP_CAPTURE_CAPTURED &&
        running->process == process && running->place == FP_CAPTURE_IN_C &&
        running->top_in == FP_TOP_IN_STOP && running->words > 0 &&
        fp_ranges_contain(&schedulers.ranges, running->native_return)) {
        err = find_code(slot, running->native_return);
        slot->scheduler.bottom = running->word[running->words - 1];
    }
    fp_sigcapture_drop(at, ticket);
    return err;
}

static int register_here(unsigned number, uint64_t process,
                         const uint64_t mfa[3], char *why, size_t why_size)
{
    struct slot *slot;
    int err;

    if (number == 0 || number > fp_sigcapture_count())
        return say(why, why_size, FP_EINVAL, "there is no such scheduler");
    slot = &schedulers.slot[number - 1];
    if (is_registered(slot))
        return 0;
    if (check_structures(slot, number, process, mfa) != 0)
        return say(why, why_size, FP_ELAYOUT,
                   "the scheduler's data is not where it is expected");
    if (!has_room())
        return say(why, why_size, FP_ENOMEM,
                   "the scheduler's alternate signal stack is too small");
    slot->thread = (pid_t)syscall(SYS_gettid);
    slot->scheduler.native_base = find_native_base(slot);
    if (slot->scheduler.native_base == 0)
        return say(why, why_size, FP_ELAYOUT,
                   "the scheduler's stack has no return to JIT code");
    err = captures_itself(slot, number - 1, process);
    if (err != 0)
        return say(why, why_size, err,
                   "the scheduler has not captured itself rightly");
    atomic_store_explicit(&slot->is_registered, 1, memory_order_release);
    atomic_fetch_add_explicit(&schedulers.registered, 1, memory_order_acq_rel);
    return 0;
}

int fp_sigcapture_register(unsigned number, uint64_t process,
                           const uint64_t mfa[3], char *why, size_t why_size)
{
    int err;

    if (fp_sigcapture_acquire() != 0)
        return say(why, why_size, FP_ESTATE,
                   "the schedulers are being retired");
    err = register_here(number, process, mfa, why, why_size);
    fp_sigcapture_release();
    return err;
}

/* ------------------------------------------------------------ retiring -- */

#define RETIRE_ATTEMPTS 1000
static const struct timespec millisecond = {0, 1000000};

static int was_asked(unsigned at)
{
    return schedulers.slot[at].thread != 0;
}

int fp_sigcapture_must_quiesce(unsigned at)
{
    int must;

    pthread_rwlock_rdlock(&schedulers.lock);
    must = at < fp_sigcapture_count() && was_asked(at);
    pthread_rwlock_unlock(&schedulers.lock);
    return must;
}

/* After a request only its handler makes a slot IDLE. */
static int await_handlers(void)
{
    for (unsigned at = 0, attempt = 0; at < fp_sigcapture_count();)
        if (STATE_OF(atomic_load_explicit(&schedulers.slot[at].state,
                                          memory_order_acquire)) == IDLE)
            at++;
        else if (++attempt > RETIRE_ATTEMPTS)
            return FP_ESTATE;
        else
            nanosleep(&millisecond, NULL);
    return 0;
}

static int is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 &&
           action->sa_sigaction == handler;
}

static int is_ignored(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) == 0 &&
           action->sa_handler == SIG_IGN;
}

/* When the action is still what we have left there: a handler that somebody else
 * has put in its place is not touched, and may call the one that it replaced. */
static int replace_action(int (*is_expected)(const struct sigaction *),
                          const struct sigaction *action)
{
    struct sigaction now;

    return schedulers.signal == 0 ||
                   (sigaction(schedulers.signal, NULL, &now) == 0 &&
                    is_expected(&now) &&
                    sigaction(schedulers.signal, action, NULL) == 0)
               ? 0
               : FP_EDENIED;
}

static void forget_who_was_here(void)
{
    for (unsigned at = 0; at < fp_sigcapture_count(); at++)
        atomic_store(&schedulers.slot[at].was_here, 0);
}

static int is_retired_by(uint64_t who)
{
    return atomic_load(&schedulers.users) == RETIRING &&
           atomic_load(&schedulers.retiring) == who;
}

static void let_in(void)
{
    atomic_store(&schedulers.retiring, 0);
    atomic_store(&schedulers.users, 0);
}

static int retire_begin(uint64_t who)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    int nobody = 0, err;

    if (!atomic_compare_exchange_strong(&schedulers.users, &nobody, RETIRING))
        return FP_ESTATE;
    atomic_store(&schedulers.retiring, who);
    err = await_handlers();
    if (err == 0)
        err = replace_action(is_ours, &ignore);
    if (err == 0)
        /* Not before: who was asked to be here for an earlier attempt may come at
         * any time. */
        forget_who_was_here();
    else
        let_in();
    return err;
}

int fp_sigcapture_shutdown_begin(uint64_t who)
{
    int err;

    pthread_rwlock_wrlock(&schedulers.lock);
    err = retire_begin(who);
    pthread_rwlock_unlock(&schedulers.lock);
    return err;
}

uint64_t fp_sigcapture_is_shutting_down(void)
{
    return atomic_load(&schedulers.retiring);
}

static int is_here(unsigned number)
{
    struct slot *slot;
    stack_t alternate;

    if (atomic_load(&schedulers.users) != RETIRING || number == 0 ||
        number > fp_sigcapture_count())
        return FP_ESTATE;
    slot = &schedulers.slot[number - 1];
    if (slot->thread != (pid_t)syscall(SYS_gettid) ||
        sigaltstack(NULL, &alternate) != 0 ||
        (alternate.ss_flags & SS_ONSTACK) != 0)
        return FP_ESTATE;
    atomic_store_explicit(&slot->was_here, 1, memory_order_release);
    return 0;
}

int fp_sigcapture_shutdown_quiesce(unsigned number)
{
    int err;

    /* Who comes late, for an attempt before, must not find the slots half gone;
     * a scheduler does not wait for the lock. */
    if (pthread_rwlock_tryrdlock(&schedulers.lock) != 0)
        return FP_ESTATE;
    err = is_here(number);
    pthread_rwlock_unlock(&schedulers.lock);
    return err;
}

static int all_were_here(void)
{
    for (unsigned at = 0; at < fp_sigcapture_count(); at++)
        if (was_asked(at) &&
            !atomic_load_explicit(&schedulers.slot[at].was_here,
                                  memory_order_acquire))
            return 0;
    return 1;
}

/* Step 5. The VM's own handle keeps this code mapped until we have returned. */
static void take_back(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    unsigned count = fp_sigcapture_count();

    atomic_store_explicit(&schedulers.count, 0, memory_order_release);
    atomic_store_explicit(&schedulers.registered, 0, memory_order_release);
    atomic_store_explicit(&schedulers.code_known, 0, memory_order_release);
    (void)replace_action(is_ignored, &standard);
    schedulers.signal = 0;
    if (schedulers.slot != NULL)
        unmap_slots(schedulers.slot, count, count);
    schedulers.slot = NULL;
    if (schedulers.pin != NULL)
        dlclose(schedulers.pin);
    schedulers.pin = NULL;
}

static void go_on(void)
{
    struct sigaction ours = our_action();

    (void)replace_action(is_ignored, &ours);
}

static int retire_end(uint64_t who)
{
    int are_gone;

    if (!is_retired_by(who))
        return FP_ESTATE;
    are_gone = all_were_here();
    if (are_gone)
        take_back();
    else
        go_on();
    let_in();
    return are_gone ? 0 : FP_ESTATE;
}

int fp_sigcapture_shutdown_end(uint64_t who)
{
    int err;

    pthread_rwlock_wrlock(&schedulers.lock);
    err = retire_end(who);
    pthread_rwlock_unlock(&schedulers.lock);
    return err;
}

void fp_sigcapture_shutdown_abort(uint64_t who)
{
    pthread_rwlock_wrlock(&schedulers.lock);
    if (is_retired_by(who)) {
        go_on();
        let_in();
    }
    pthread_rwlock_unlock(&schedulers.lock);
}
