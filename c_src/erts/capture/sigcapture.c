#include "erts/capture/sigcapture_internal.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "erts/capture/jit_code.h"
#include "erts/code_scan.h"

/* The handler needs this much of the alternate stack beyond the kernel's minimum, which includes
 * the registers' save area. */
#define HANDLER_STACK_BYTES 4096u
/* That minimum where the kernel, before 5.14, does not name it: enough for AVX-512. */
#define FRAME_BYTES 4096u
/* The C frames between a NIF and the JIT code that called it. */
#define NIF_DEPTH_BYTES 4096u
/* CPU time of a thread after which a pending request is lost: a signal is handled at the next
 * return from the kernel, and no system call of a scheduler computes for so long. */
#define LOST_NS UINT64_C(1000000000)
/* A handler runs for 2 to 10 us. Time beyond this maximum is that of other threads, which ran while
 * the handler's thread waited for a CPU: no cost of profiling. */
#define HANDLER_NS_MAX UINT64_C(50000)
/* Missing in older headers of glibc. */
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

struct fp_sigcapture fp_sigcapture = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static int say(const char **why, int err, const char *text)
{
    *why = text;
    return err;
}

/* --------------------------------------------------------------- users -- */

int fp_sigcapture_acquire(void)
{
    int users = atomic_load(&fp_sigcapture.users);

    while (users != FP_SIGCAPTURE_SHUT)
        if (atomic_compare_exchange_weak(&fp_sigcapture.users, &users, users + 1)) {
            (void)fp_sigcapture_check();
            return 0;
        }
    return FP_ESTATE;
}

void fp_sigcapture_release(void)
{
    if (FP_CHECK(atomic_load(&fp_sigcapture.users) > 0))
        atomic_fetch_sub(&fp_sigcapture.users, 1);
}

int fp_sigcapture_users(void)
{
    return atomic_load_explicit(&fp_sigcapture.users, memory_order_relaxed);
}

/* --------------------------------------------------------------- slots -- */

unsigned fp_sigcapture_count(void)
{
    return atomic_load_explicit(&fp_slots.count, memory_order_acquire);
}

unsigned fp_sigcapture_registered(void)
{
    return atomic_load_explicit(&fp_sigcapture.registered, memory_order_acquire);
}

void fp_sigcapture_code(struct fp_range *fragments, uint64_t *nif_return)
{
    fragments->start = atomic_load(&fp_sigcapture.fragments_start);
    fragments->end = atomic_load(&fp_sigcapture.fragments_end);
    *nif_return = atomic_load(&fp_sigcapture.nif_return);
}

static int is_registered(const struct fp_slot *slot)
{
    return atomic_load_explicit(&slot->is_registered, memory_order_acquire);
}

uint64_t fp_sigcapture_data(unsigned at)
{
    return is_registered(&fp_slots.slot[at]) ? fp_slots.slot[at].scheduler.data : 0;
}

int fp_sigcapture_find(uint64_t data)
{
    unsigned count = fp_sigcapture_count();

    for (unsigned at = 0; data != 0 && at < count; at++)
        if (fp_sigcapture_data(at) == data)
            return (int)at;
    return -1;
}

static uint32_t load_state(const struct fp_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_acquire);
}

/* ----------------------------------------------------- lost and repaired -- */

int fp_sigcapture_is_lost(unsigned at)
{
    struct fp_slot *slot = &fp_slots.slot[at];
    uint32_t word = load_state(slot);
    uint32_t request = FP_SLOT_WORD(FP_SLOT_NUMBER(word), FP_SLOT_REQUESTED);
    uint64_t now;

    if (FP_SLOT_STATE(word) != FP_SLOT_REQUESTED && FP_SLOT_STATE(word) != FP_SLOT_ABANDONED)
        return 0;
    now = (uint64_t)fp_clock_ns(slot->cpu_clock);
    if (atomic_load_explicit(&slot->watched, memory_order_acquire) == request)
        return now - atomic_load(&slot->watched_ns) > LOST_NS;
    atomic_store(&slot->watched_ns, now);
    atomic_store_explicit(&slot->watched, request, memory_order_release);
    return 0;
}

/* Ends the requests that get no capture any more: all, or those that are lost. */
static void repair(int is_all)
{
    for (unsigned at = 0; at < fp_sigcapture_count(); at++)
        if (is_all || fp_sigcapture_is_lost(at)) {
            struct fp_slot *slot = &fp_slots.slot[at];
            uint32_t number = FP_SLOT_NUMBER(load_state(slot));

            (void)(fp_slot_move(slot, number, FP_SLOT_REQUESTED, FP_SLOT_IDLE) ||
                   fp_slot_move(slot, number, FP_SLOT_ABANDONED, FP_SLOT_IDLE));
        }
}

int fp_sigcapture_is_action(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == fp_handler;
}

int fp_sigcapture_check(void)
{
    struct sigaction now;
    int signal = atomic_load(&fp_sigcapture.signal);

    if (signal == 0)
        return 0;
    if (sigaction(signal, NULL, &now) != 0 || !fp_sigcapture_is_action(&now)) {
        atomic_store(&fp_sigcapture.lost_signal, signal);
        return FP_ESIGNAL;
    }
    /* Signals sent meanwhile went to the other owner. */
    if (atomic_load(&fp_sigcapture.lost_signal) != 0) {
        repair(1);
        atomic_store(&fp_sigcapture.lost_signal, 0);
    }
    return 0;
}

int fp_sigcapture_lost_signal(void)
{
    return atomic_load(&fp_sigcapture.lost_signal);
}

/* ------------------------------------------------------------ requests -- */

static int send_signal(const struct fp_slot *slot, unsigned at, uint32_t number)
{
    int signal = atomic_load(&fp_sigcapture.signal);
    siginfo_t info;

    memset(&info, 0, sizeof info);
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_pid = fp_slots.process;
    info.si_value.sival_ptr = (void *)(uintptr_t)((uint64_t)at << 32 | number);
    return (int)syscall(SYS_rt_tgsigqueueinfo, fp_slots.process, slot->thread, signal, &info);
}

static void set_windows(struct fp_windows *windows, const struct fp_windows *named)
{
    windows->count = named == NULL ? 0 : named->count;
    for (uint32_t i = 0; i < windows->count; i++) {
        windows->window[i].address = named->window[i].address;
        windows->window[i].words = named->window[i].words;
    }
}

static int request(unsigned at, const struct fp_windows *windows, uint32_t *ticket)
{
    struct fp_slot *slot = &fp_slots.slot[at];
    uint32_t old = load_state(slot);
    uint32_t number = (FP_SLOT_NUMBER(old) + 1) & (UINT32_MAX >> 3);

    if (atomic_load(&fp_sigcapture.lost_signal) != 0)
        return FP_ESIGNAL;
    if (!FP_CHECK(slot->thread > 0) || !FP_CHECK(FP_SLOT_STATE(old) <= FP_SLOT_ABANDONED))
        return FP_ESTATE;
    if (FP_SLOT_STATE(old) != FP_SLOT_IDLE ||
        !atomic_compare_exchange_strong_explicit(&slot->state, &old,
                                                 FP_SLOT_WORD(number, FP_SLOT_REQUESTED),
                                                 memory_order_acq_rel, memory_order_acquire))
        return FP_ESTATE;
    set_windows(&slot->capture.windows, windows);
    /* The release is for the windows: the slot was the request's before they were set. */
    if (!fp_slot_move(slot, number, FP_SLOT_REQUESTED, FP_SLOT_REQUESTED))
        return FP_ESTATE;
    if (send_signal(slot, at, number) != 0) {
        (void)fp_slot_move(slot, number, FP_SLOT_REQUESTED, FP_SLOT_IDLE);
        return FP_ESIGNAL;
    }
    *ticket = number;
    return 0;
}

int fp_sigcapture_request(unsigned at, const struct fp_windows *windows, uint32_t *ticket)
{
    return at < fp_sigcapture_count() && is_registered(&fp_slots.slot[at])
               ? request(at, windows, ticket)
               : FP_ESTATE;
}

const struct fp_capture *fp_sigcapture_poll(unsigned at, uint32_t ticket)
{
    const struct fp_slot *slot = &fp_slots.slot[at];

    return load_state(slot) == FP_SLOT_WORD(ticket, FP_SLOT_READY) &&
                   FP_CHECK(fp_capture_is_sound(&slot->capture))
               ? &slot->capture
               : NULL;
}

int fp_sigcapture_is_pending(unsigned at, uint32_t ticket)
{
    uint32_t word = load_state(&fp_slots.slot[at]);

    return FP_SLOT_NUMBER(word) == ticket && FP_SLOT_STATE(word) != FP_SLOT_IDLE &&
           FP_SLOT_STATE(word) != FP_SLOT_ABANDONED;
}

void fp_sigcapture_drop(unsigned at, uint32_t ticket)
{
    struct fp_slot *slot = &fp_slots.slot[at];

    /* The handler may move the request on between two of these moves; each way ends. */
    while (fp_sigcapture_is_pending(at, ticket) &&
           !fp_slot_move(slot, ticket, FP_SLOT_READY, FP_SLOT_IDLE) &&
           !fp_slot_move(slot, ticket, FP_SLOT_REQUESTED, FP_SLOT_ABANDONED) &&
           !fp_slot_move(slot, ticket, FP_SLOT_HANDLING, FP_SLOT_ABANDONED))
        ;
}

uint64_t fp_sigcapture_handler_ns(unsigned at)
{
    uint64_t ns = fp_slots.slot[at].handler_ns;

    return ns < HANDLER_NS_MAX ? ns : HANDLER_NS_MAX;
}

/* --------------------------------------------------------- preparation -- */

/* The code outlives every pending signal. A handle, since RTLD_NODELETE cannot be undone. */
static int pin_library(void)
{
    Dl_info info;

    if (fp_sigcapture.pin != NULL)
        return 0;
    if (dladdr(&fp_sigcapture, &info) == 0 || info.dli_fname == NULL)
        return FP_EUNSUPPORTED;
    fp_sigcapture.pin = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return fp_sigcapture.pin != NULL ? 0 : FP_EUNSUPPORTED;
}

/* SA_RESTART hides the signal from system calls that can be restarted. All other signals wait for
 * the handler's end. */
struct sigaction fp_sigcapture_action(void)
{
    struct sigaction action = {.sa_sigaction = fp_handler,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};

    sigfillset(&action.sa_mask);
    return action;
}

/* From the highest on: other programs use the first ones. Threads of the VM leave these
 * unblocked. */
static int install_handler(void)
{
    struct sigaction action = fp_sigcapture_action(), now;

    for (int signal = SIGRTMAX; signal >= SIGRTMIN; signal--)
        if (sigaction(signal, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
            now.sa_handler == SIG_DFL && sigaction(signal, &action, NULL) == 0) {
            atomic_store(&fp_sigcapture.signal, signal);
            return 0;
        }
    return FP_ESIGNAL;
}

/* The handler gets a signal; another one if its own has another owner. */
static int prepare_signal(const char **why)
{
    int signal = atomic_load(&fp_sigcapture.signal);

    if (signal != 0 && fp_sigcapture_check() == 0)
        return 0;
    if (signal == 0 && pin_library() != 0)
        return say(why, FP_EUNSUPPORTED, "the library cannot be pinned in memory");
    if (install_handler() != 0)
        return say(why, FP_ESIGNAL,
                   signal == 0 ? "every real-time signal is in use"
                               : "another handler has replaced the one of this library, and every "
                                 "other real-time signal is in use");
    if (signal != 0)
        fp_sigcapture.lost_earlier |= UINT64_C(1) << (signal - 1);
    return fp_sigcapture_check();
}

static int map_slots(const struct fp_layout *layout, unsigned count)
{
    struct fp_slot *slots = mmap(NULL, count * sizeof *slots, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (slots == MAP_FAILED)
        return FP_ENOMEM;
    if (fp_safe_read_open(&fp_sigcapture.memory) != 0) {
        munmap(slots, count * sizeof *slots);
        return FP_EDENIED;
    }
    fp_slots.slot = slots;
    fp_sigcapture.layout = *layout;
    return 0;
}

static int prepare(const struct fp_layout *layout, const struct fp_ranges *ranges, unsigned count,
                   const char **why)
{
    int err;

    if (fp_slots.slot != NULL && count != fp_sigcapture_count())
        return say(why, FP_EINVAL, "the number of schedulers is not that of the first session");
    if (count == 0 || count > FP_SCHEDULERS_MAX)
        return say(why, FP_EINVAL, "the number of schedulers is not between 1 and 1024");
    err = prepare_signal(why);
    if (err != 0)
        return err;
    /* Alone: a request that outlives its user gets no capture. Other users' requests may. */
    repair(atomic_load(&fp_sigcapture.users) == 1);
    if (fp_slots.slot != NULL)
        return 0;
    fp_slots.process = getpid();
    fp_sigcapture.ranges = *ranges;
    err = map_slots(layout, count);
    if (err != 0)
        return say(why, err, fp_err_text(err));
    atomic_store_explicit(&fp_slots.count, count, memory_order_release);
    return 0;
}

int fp_sigcapture_prepare(const struct fp_layout *layout, const struct fp_ranges *ranges,
                          unsigned count, const char **why)
{
    int err;

    if (fp_sigcapture_acquire() != 0)
        return say(why, FP_ESTATE, "the schedulers are being retired");
    pthread_rwlock_wrlock(&fp_sigcapture.lock);
    err = prepare(layout, ranges, count, why);
    pthread_rwlock_unlock(&fp_sigcapture.lock);
    fp_sigcapture_release();
    return err;
}

/* -------------------------------------------------------- registration -- */

/* The structures agree with the release's offsets in what is known now: this process runs on that
 * scheduler, in this NIF. */
static int check_structures(struct fp_slot *slot, unsigned number, uint64_t process,
                            const uint64_t mfa[3])
{
    const struct fp_capture_offsets *at = &fp_sigcapture.layout.release.running;
    const struct fp_memory *memory = &fp_sigcapture.memory;
    uint64_t data, back, own_number, current, words[3];

    if (fp_safe_read_word(memory, process + at->scheduler_data, &data) != 0 ||
        fp_safe_read_word(memory, data + at->current_process, &back) != 0 ||
        fp_safe_read_word(memory, data + at->number, &own_number) != 0 ||
        fp_safe_read_word(memory, process + at->current, &current) != 0 ||
        fp_safe_read(memory, current, words, sizeof words) != 0 || back != process ||
        own_number != number || memcmp(words, mfa, sizeof words) != 0)
        return FP_ELAYOUT;
    slot->scheduler.data = data;
    return 0;
}

static int has_room(void)
{
    stack_t alternate;
    size_t least = getauxval(AT_MINSIGSTKSZ);

    return sigaltstack(NULL, &alternate) == 0 &&
           (alternate.ss_flags & (SS_DISABLE | SS_ONSTACK)) == 0 &&
           alternate.ss_size >= (least != 0 ? least : FRAME_BYTES) + HANDLER_STACK_BYTES;
}

/* Above the first return address into JIT code, which is that of the NIF. 0: not found. */
static uint64_t find_native_base(void)
{
    uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(0) & ~7ull;
    uint64_t words[NIF_DEPTH_BYTES / 8];

    if (fp_safe_read(&fp_sigcapture.memory, frame, words, sizeof words) != 0)
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        uint64_t base = frame + 8 * i + 8;

        if ((base & 15) == 0 && fp_ranges_contain(&fp_sigcapture.ranges, words[i]) &&
            fp_is_return_address(&fp_sigcapture.memory, words[i]))
            return base;
    }
    return 0;
}

static int find_code(uint64_t nif_return)
{
    const struct fp_range *range = fp_range_of(&fp_sigcapture.ranges, nif_return);
    uint64_t first, known = 0;

    if (atomic_load_explicit(&fp_sigcapture.code_known, memory_order_acquire))
        return nif_return == fp_sigcapture.nif_return ? 0 : FP_ELAYOUT;
    if (range == NULL || fp_code_first(&fp_sigcapture.memory, range, nif_return, &first) != 0)
        return FP_ELAYOUT;
    /* Schedulers register at once. The first value stands; the bounds follow from it, so all store
     * the same. */
    if (!atomic_compare_exchange_strong(&fp_sigcapture.nif_return, &known, nif_return) &&
        known != nif_return)
        return FP_ELAYOUT;
    atomic_store(&fp_sigcapture.fragments_start, range->start);
    atomic_store(&fp_sigcapture.fragments_end, first);
    atomic_store_explicit(&fp_sigcapture.code_known, 1, memory_order_release);
    return 0;
}

/* One capture whose result is known. */
static int captures_itself(struct fp_slot *slot, unsigned at, uint64_t process)
{
    const struct fp_capture *capture;
    uint32_t ticket;
    int err = FP_ELAYOUT;

    if (request(at, NULL, &ticket) != 0)
        return FP_ESIGNAL;
    /* An unblocked signal from a thread to itself has arrived by now. */
    capture = fp_sigcapture_poll(at, ticket);
    if (capture != NULL && capture->result == FP_CAPTURE_CAPTURED && capture->process == process &&
        capture->place == FP_CAPTURE_IN_C && capture->top_in == FP_TOP_IN_STOP &&
        capture->words > 0) {
        err = find_code(capture->native_return);
        slot->scheduler.bottom = capture->word[capture->words - 1];
    }
    fp_sigcapture_drop(at, ticket);
    return err;
}

static int register_here(unsigned number, uint64_t process, const uint64_t mfa[3], const char **why)
{
    struct fp_slot *slot;
    int err;

    if (number == 0 || number > fp_sigcapture_count())
        return say(why, FP_EINVAL, "there is no such scheduler");
    slot = &fp_slots.slot[number - 1];
    if (is_registered(slot))
        return 0;
    if (check_structures(slot, number, process, mfa) != 0)
        return say(why, FP_ELAYOUT, "the scheduler's data is not where it is expected");
    if (!has_room())
        return say(why, FP_ENOMEM, "the scheduler's alternate signal stack is too small");
    slot->scheduler.native_base = find_native_base();
    if (slot->scheduler.native_base == 0)
        return say(why, FP_ELAYOUT, "the scheduler's stack has no return to JIT code");
    slot->scheduler.memory = &fp_sigcapture.memory;
    slot->scheduler.layout = fp_sigcapture.layout;
    /* The pages are mapped before the handler writes to them. */
    memset(&slot->capture, 0, sizeof slot->capture);
    if (pthread_getcpuclockid(pthread_self(), &slot->cpu_clock) != 0)
        return say(why, FP_EUNSUPPORTED, "the scheduler's thread has no CPU clock");
    slot->thread = (pid_t)syscall(SYS_gettid);
    err = captures_itself(slot, number - 1, process);
    if (err != 0)
        return say(why, err,
                   err == FP_ESIGNAL ? "the kernel refuses the scheduler's signal"
                                     : "the scheduler has not captured itself rightly");
    atomic_store_explicit(&slot->is_registered, 1, memory_order_release);
    atomic_fetch_add_explicit(&fp_sigcapture.registered, 1, memory_order_acq_rel);
    return 0;
}

int fp_sigcapture_register(unsigned number, uint64_t process, const uint64_t mfa[3],
                           const char **why)
{
    int err;

    if (fp_sigcapture_acquire() != 0)
        return say(why, FP_ESTATE, "the schedulers are being retired");
    err = register_here(number, process, mfa, why);
    fp_sigcapture_release();
    return err;
}
