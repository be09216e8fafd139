#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "erts/capture/sigcapture_internal.h"

/* How often a begin looks for handlers, and how long it waits then. */
#define ATTEMPTS 1000
#define WAIT_NS 1000000

static const struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};

int fp_sigcapture_must_quiesce(unsigned at)
{
    int must;

    pthread_rwlock_rdlock(&fp_sigcapture.lock);
    must = at < fp_sigcapture_count() && fp_slots.slot[at].thread != 0;
    pthread_rwlock_unlock(&fp_sigcapture.lock);
    return must;
}

static int await_handlers(void)
{
    for (unsigned at = 0, attempt = 0; at < fp_sigcapture_count();)
        if (FP_SLOT_STATE(atomic_load(&fp_slots.slot[at].state)) == FP_SLOT_IDLE)
            at++;
        else if (++attempt > ATTEMPTS)
            return FP_ESTATE;
        else
            fp_sleep(WAIT_NS);
    return 0;
}

static int is_ignored(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) == 0 && action->sa_handler == SIG_IGN;
}

/* Leaves another owner's handler, which may call the one that it replaced. */
static int replace_action(int signal, int (*is_expected)(const struct sigaction *),
                          const struct sigaction *action)
{
    struct sigaction now;

    return signal == 0 || (sigaction(signal, NULL, &now) == 0 && is_expected(&now) &&
                           sigaction(signal, action, NULL) == 0)
               ? 0
               : FP_ESIGNAL;
}

/* Lost signals whose action is the handler again: no request uses them. SIG_IGN drops what is
 * pending. */
static int release_lost(void)
{
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; signal++) {
        uint64_t bit = UINT64_C(1) << (signal - 1);

        if ((fp_sigcapture.lost_earlier & bit) == 0)
            continue;
        if (replace_action(signal, fp_sigcapture_is_action, &ignore) != 0)
            return FP_ESIGNAL;
        (void)replace_action(signal, is_ignored, &standard);
        fp_sigcapture.lost_earlier &= ~bit;
    }
    return 0;
}

static void admit_users(void)
{
    atomic_store(&fp_sigcapture.owner, 0);
    atomic_store(&fp_sigcapture.users, 0);
}

int fp_sigcapture_shutdown_begin(uint64_t owner)
{
    int none = 0, err;

    if (!atomic_compare_exchange_strong(&fp_sigcapture.users, &none, FP_SIGCAPTURE_SHUT))
        return FP_ESTATE;
    pthread_rwlock_wrlock(&fp_sigcapture.lock);
    atomic_store(&fp_sigcapture.owner, owner);
    err = await_handlers();
    if (err == 0)
        err = release_lost();
    if (err == 0)
        err = replace_action(atomic_load(&fp_sigcapture.signal), fp_sigcapture_is_action, &ignore);
    /* Not earlier: a quiesce for an earlier attempt may come at any time. */
    for (unsigned at = 0; err == 0 && at < fp_sigcapture_count(); at++)
        atomic_store(&fp_slots.slot[at].has_quiesced, 0);
    if (err != 0)
        admit_users();
    pthread_rwlock_unlock(&fp_sigcapture.lock);
    return err;
}

uint64_t fp_sigcapture_is_shutting_down(void)
{
    return atomic_load(&fp_sigcapture.owner);
}

int fp_sigcapture_shutdown_quiesce(unsigned number)
{
    int err = FP_ESTATE;
    stack_t alternate;

    /* A late call, for an earlier attempt, must not find the slots half unmapped. A scheduler does
     * not wait for the lock. */
    if (pthread_rwlock_tryrdlock(&fp_sigcapture.lock) != 0)
        return FP_ESTATE;
    if (atomic_load(&fp_sigcapture.users) == FP_SIGCAPTURE_SHUT && number != 0 &&
        number <= fp_sigcapture_count() &&
        fp_slots.slot[number - 1].thread == (pid_t)syscall(SYS_gettid) &&
        sigaltstack(NULL, &alternate) == 0 && (alternate.ss_flags & SS_ONSTACK) == 0) {
        atomic_store(&fp_slots.slot[number - 1].has_quiesced, 1);
        err = 0;
    }
    pthread_rwlock_unlock(&fp_sigcapture.lock);
    return err;
}

static int all_have_quiesced(void)
{
    for (unsigned at = 0; at < fp_sigcapture_count(); at++)
        if (fp_slots.slot[at].thread != 0 && !atomic_load(&fp_slots.slot[at].has_quiesced))
            return 0;
    return 1;
}

/* Step 5. The VM's own handle keeps this code mapped until it has returned. */
static void take_down(void)
{
    unsigned count = fp_sigcapture_count();

    atomic_store(&fp_slots.count, 0);
    atomic_store(&fp_sigcapture.registered, 0);
    atomic_store(&fp_sigcapture.code_known, 0);
    atomic_store(&fp_sigcapture.nif_return, 0);
    atomic_store(&fp_sigcapture.lost_signal, 0);
    (void)replace_action(atomic_load(&fp_sigcapture.signal), is_ignored, &standard);
    atomic_store(&fp_sigcapture.signal, 0);
    if (fp_slots.slot != NULL) {
        munmap(fp_slots.slot, count * sizeof *fp_slots.slot);
        fp_safe_read_close(&fp_sigcapture.memory);
    }
    fp_slots.slot = NULL;
    if (fp_sigcapture.pin != NULL)
        dlclose(fp_sigcapture.pin);
    fp_sigcapture.pin = NULL;
}

static int finish(uint64_t owner, int is_abort)
{
    struct sigaction action = fp_sigcapture_action();
    int err = FP_ESTATE;

    pthread_rwlock_wrlock(&fp_sigcapture.lock);
    if (atomic_load(&fp_sigcapture.users) == FP_SIGCAPTURE_SHUT &&
        atomic_load(&fp_sigcapture.owner) == owner) {
        if (!is_abort && all_have_quiesced()) {
            take_down();
            err = 0;
        } else {
            (void)replace_action(atomic_load(&fp_sigcapture.signal), is_ignored, &action);
        }
        admit_users();
    }
    pthread_rwlock_unlock(&fp_sigcapture.lock);
    return err;
}

int fp_sigcapture_shutdown_end(uint64_t owner)
{
    return finish(owner, 0);
}

void fp_sigcapture_shutdown_abort(uint64_t owner)
{
    (void)finish(owner, 1);
}
