/* sigcapture_internal.h - shared by sigcapture.c and shutdown.c. */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "erts/capture/sigcapture.h"

/* `users` during a shutdown. */
#define FP_SIGCAPTURE_SHUT (-1)

/* It lives, as fp_slots does, until a shutdown, across unloads of the NIF library. */
extern struct fp_sigcapture {
    /* Guards writes of all fields, but for those whose comment says otherwise. */
    pthread_rwlock_t lock;
    _Atomic int users;      /* without the lock */
    _Atomic uint64_t owner; /* of the shutdown under way */
    void *pin;              /* keeps the library mapped */
    _Atomic unsigned registered;
    _Atomic int signal;      /* 0: not installed */
    _Atomic int lost_signal; /* any user writes it, in fp_sigcapture_check */
    uint64_t lost_earlier;   /* bit n - 1: signal n had the handler, then another owner */
    struct fp_memory memory; /* of all handlers; no descriptor as a rule */
    struct fp_layout layout;
    struct fp_ranges ranges;
    /* Without the lock: the first registration sets nif_return by CAS, and code_known is released
     * last. */
    _Atomic int code_known;
    _Atomic uint64_t nif_return, fragments_start, fragments_end;
} fp_sigcapture;

struct sigaction fp_sigcapture_action(void);
int fp_sigcapture_is_action(const struct sigaction *action);
