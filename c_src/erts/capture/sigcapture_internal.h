/* sigcapture_internal.h - shared by sigcapture.c and shutdown.c. */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "erts/capture/sigcapture.h"

/* `users` during a shutdown. */
#define FP_SIGCAPTURE_SHUT (-1)

/* With fp_slots, it lives until a shutdown, also when the NIF library is unloaded and loaded
 * again. */
extern struct fp_sigcapture {
    /* Written under it: what no comment says otherwise of. The schedulers, all at once, read
     * (fp_sigcapture_shutdown_quiesce). */
    pthread_rwlock_t lock;
    _Atomic int users;
    _Atomic uint64_t owner; /* of the shutdown under way */
    void *pin;              /* keeps the library mapped */
    _Atomic unsigned registered;
    _Atomic int signal;      /* 0: not installed */
    _Atomic int lost_signal; /* fp_sigcapture_check; any user writes it */
    uint64_t taken;          /* bit n - 1: signal n was installed, and taken then */
    struct fp_memory memory; /* of all handlers; no descriptor as a rule */
    struct fp_layout layout;
    struct fp_ranges ranges;
    /* The same for all: the first that registers sets nif_return by CAS, and code_known is released
     * after the others. */
    _Atomic int code_known;
    _Atomic uint64_t nif_return, fragments_start, fragments_end;
} fp_sigcapture;

struct sigaction fp_sigcapture_action(void);
int fp_sigcapture_is_action(const struct sigaction *action);
