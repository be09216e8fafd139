/*
 * schedulers.h - the VM's normal scheduler threads, and how one is asked what
 * it is running: by a real-time signal whose handler copies (vm/running.h).
 *
 *     IDLE --request--> REQUESTED --handler--> WORKING --> ANSWERED --release--> IDLE
 *                           |                     |
 *                           +------release--------+--> ABANDONED --handler--> IDLE
 *
 * At most one signal is outstanding for a scheduler, whoever asks; nobody ever
 * waits for one. Each has a number, so that a late one answers nobody else.
 *
 * The signal is one that nobody used (its action was the default), its handler
 * runs on the alternate stack that the VM gave the thread, and a scheduler
 * registers only if that is large enough, and only after it has captured
 * itself rightly. Once installed, the handler stays for the life of the
 * process, and so do this library's code (it is pinned) and the memory that the
 * handler writes to: whenever a signal arrives, it is safe. Dirty schedulers
 * are never signalled.
 */
#ifndef FP_SCHEDULERS_H
#define FP_SCHEDULERS_H

#include <stddef.h>
#include <stdint.h>

#include "vm/layout.h"
#include "vm/running.h"

/* ERTS_MAX_NO_OF_SCHEDULERS (erl_process.h). */
#define FP_SCHEDULERS_MAX 1024u

/* A thread that may block, before any registration; again at any time. 0; or
 * FP_ENOMEM, FP_EDENIED (no signal is free, the library can not be pinned),
 * FP_EINVAL, with a sentence in *why. `count`: normal schedulers of this VM;
 * `ranges`: where JIT code is now. */
int fp_schedulers_prepare(const struct fp_layout *layout,
                          const struct fp_ranges *ranges, unsigned count,
                          char *why, size_t why_size);

/* On the scheduler's own thread, by a NIF that is `mfa` and runs in `process`.
 * Some 50 us. 0 also when it was registered before; else an error, with a
 * sentence in *why, and this scheduler is never signalled. */
int fp_schedulers_register(unsigned number, uint64_t process,
                           const uint64_t mfa[3], char *why, size_t why_size);

/* ANY THREAD, from here on. None blocks or allocates. */

/* Slots are 0..n-1; a scheduler's number is its slot + 1. 0 before
 * fp_schedulers_prepare. Not every slot is registered. */
unsigned fp_schedulers_count(void);
unsigned fp_schedulers_registered(void);

/* What registration has found of the VM's code; valid with one registered. */
void fp_schedulers_code(struct fp_range *fragments, uint64_t *nif_return);

/* Address of the slot's ErtsSchedulerData, 0 when it is not registered. */
uint64_t fp_schedulers_data(unsigned slot);
/* The slot with that data, or -1. */
int fp_schedulers_find(uint64_t data);

/* Ask. 0 and a ticket; FP_ESTATE: somebody else's request is in flight, or it
 * is not registered; FP_EDENIED: the kernel takes no more signals. */
int fp_schedulers_request(unsigned slot, uint32_t *ticket);
/* The answer, valid until fp_schedulers_release; NULL: not yet. */
const struct fp_running *fp_schedulers_answer(unsigned slot, uint32_t ticket);
/* Done with it, or no longer interested. */
void fp_schedulers_release(unsigned slot, uint32_t ticket);
/* How long the handler took for the slot's answer. */
uint64_t fp_schedulers_handler_ns(unsigned slot);

#endif
