/*
 * sigcapture.h - the VM's normal scheduler threads, and how one is asked what
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
 * itself rightly. Once installed, the handler stays, and so do this library's
 * code (a handle of our own keeps it mapped) and the memory that the handler
 * writes to: whenever a signal arrives, it is safe. Dirty schedulers are never
 * signalled.
 *
 * All of it can be taken back, without guessing that "no signal can be on its
 * way any more":
 *
 *   1. Nobody asks: users (sessions, looks, registrations) enter and leave, and
 *      retiring starts only with none inside and lets none in.
 *   2. Every slot comes to IDLE, which after a request only its handler does.
 *      From here on no signal of ours is pending, and none will be sent.
 *   3. The signal's action becomes SIG_IGN. The kernel drops what strangers have
 *      pending of it, in the same step: from here on no thread enters the handler.
 *      If the action was not our handler any more, this ends here: who replaced it
 *      may still call it.
 *   4. Who is still inside is in its last instructions, behind the store of 2. A
 *      thread that runs a NIF for us (fp_sigcapture_shutdown_quiesce, on the
 *      scheduler's own thread, not on the alternate stack) has left it: handlers
 *      nest strictly. Each thread that was ever asked must do so.
 *   5. Then no thread is in the handler, and none can come: the action goes back
 *      to SIG_DFL, as it was, the slots are unmapped, the handle closed.
 *
 * When 2 or 4 does not succeed (a scheduler in a long NIF, or offline by now), the
 * handler is put back and all stays as it was. What 4 does not cover is a
 * stranger's signal of this number to another thread, which has not run the dozen
 * instructions that turn it down by the time of 5. Who sends that would have
 * killed the VM but for our handler.
 */
#ifndef FP_ERTS_CAPTURE_SIGCAPTURE_H
#define FP_ERTS_CAPTURE_SIGCAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "erts/capture/explain.h"
#include "erts/layout.h"

/* ERTS_MAX_NO_OF_SCHEDULERS (erl_process.h). */
#define FP_SCHEDULERS_MAX 1024u

/* A thread that may block, before any registration; again at any time. 0; or
 * FP_ENOMEM, FP_EDENIED (no signal is free, the library can not be pinned),
 * FP_EINVAL, FP_ESTATE (they are being retired), with a sentence in *why. `count`: normal schedulers of this VM;
 * `ranges`: where JIT code is now. */
int fp_sigcapture_prepare(const struct fp_layout *layout,
                          const struct fp_ranges *ranges, unsigned count,
                          char *why, size_t why_size);

/* ANY THREAD, none blocks. Who uses anything below but the counts is inside. 0, or
 * FP_ESTATE while the schedulers are being retired. */
int fp_sigcapture_acquire(void);
void fp_sigcapture_release(void);

/* On the scheduler's own thread, inside, by a NIF that is `mfa` and runs in `process`.
 * Some 50 us. 0 also when it was registered before; else an error, with a
 * sentence in *why, and this scheduler is never signalled. */
int fp_sigcapture_register(unsigned number, uint64_t process,
                           const uint64_t mfa[3], char *why, size_t why_size);

/* Take all of it back, see above: begin; then here, on each scheduler's own thread;
 * then end, which is due whenever begin answered 0. begin and end by a thread that
 * may block: begin waits for handlers, for a second at most. FP_ESTATE: somebody
 * is inside or retires them, a handler did not run, a scheduler has not been here;
 * FP_EDENIED: somebody has replaced our handler; all is as before, then. Who has to
 * be here is one of the slots below fp_sigcapture_count(), asked by a thread that
 * may block. `who`, not 0, is for whom it is done: the end of anybody else's attempt
 * is FP_ESTATE. */
int fp_sigcapture_shutdown_begin(uint64_t who);
int fp_sigcapture_must_quiesce(unsigned slot);
int fp_sigcapture_shutdown_quiesce(unsigned number);
int fp_sigcapture_shutdown_end(uint64_t who);
/* Whose attempt has not ended; 0: nobody's. Any thread. One whose process is gone
 * never will: then who finds that, a thread that may block, gives it up, and all is
 * as before. It is nothing when that attempt has ended. */
uint64_t fp_sigcapture_is_shutting_down(void);
void fp_sigcapture_shutdown_abort(uint64_t who);

/* ANY THREAD, from here on. None blocks or allocates. */

/* Slots are 0..n-1; a scheduler's number is its slot + 1. 0 before
 * fp_sigcapture_prepare. Not every slot is registered. */
unsigned fp_sigcapture_count(void);
unsigned fp_sigcapture_registered(void);

/* What registration has found of the VM's code; valid with one registered. */
void fp_sigcapture_code(struct fp_range *fragments, uint64_t *nif_return);

/* Address of the slot's ErtsSchedulerData, 0 when it is not registered. */
uint64_t fp_sigcapture_data(unsigned slot);
/* The slot with that data, or -1. */
int fp_sigcapture_find(uint64_t data);

/* Ask. 0 and a ticket; FP_ESTATE: somebody else's request is in flight, or it
 * is not registered; FP_EDENIED: the kernel takes no more signals. */
int fp_sigcapture_request(unsigned slot, uint32_t *ticket);
/* The answer, valid until fp_sigcapture_drop; NULL: not yet. */
const struct fp_capture *fp_sigcapture_poll(unsigned slot, uint32_t ticket);
/* Done with it, or no longer interested. */
void fp_sigcapture_drop(unsigned slot, uint32_t ticket);
/* How long the handler took for the slot's answer. */
uint64_t fp_sigcapture_handler_ns(unsigned slot);

#endif
