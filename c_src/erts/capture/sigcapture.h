/* sigcapture.h - the VM's normal scheduler threads: a real-time signal whose handler (handler.h)
 * copies what a scheduler runs.
 *
 *   IDLE --request--> REQUESTED --handler--> HANDLING --handler--> READY
 *    ^                    |                      |                   |
 *    |                    +---------drop---------+--> ABANDONED      |
 *    |                                                    |          |
 *    +---------------------------- handler ---------------+-- drop --+
 *
 *   A request that no handler comes for (see fp_sigcapture_is_lost):
 *   REQUESTED, ABANDONED --repair--> IDLE
 *
 * A slot has at most one request, and nothing waits for a handler. A request has a number, which
 * its signal carries: a late signal finds another number, or an IDLE slot, and changes nothing.
 * That is why a repair needs no proof that its signal is gone.
 *
 * The signal had the default action before. The handler runs on the alternate stack that the VM
 * gave the thread; a scheduler registers only when that is large enough, and when a capture of
 * itself is right. Once installed, the handler, this library's code (a dlopen handle keeps it
 * mapped) and the slots stay until a shutdown. Dirty schedulers are never signalled.
 *
 * Another library may take the signal. fp_sigcapture_check finds that: requests are refused until
 * the action is the handler again, or until fp_sigcapture_prepare installs the handler for another
 * signal.
 *
 * Shutdown, without the guess that "no signal can be on its way any more":
 *
 *   1. Users (sessions, inspections, registrations) acquire and release; a shutdown begins only
 *      without users, and admits none.
 *   2. Every slot comes to IDLE.
 *   3. The signal's action becomes SIG_IGN. The kernel drops the pending signals in the same step:
 *      from here on no thread enters the handler. Where the action is not the handler, the shutdown
 *      ends here: the other owner may call the handler that it replaced. The same holds for each
 *      signal lost earlier.
 *   4. A thread that is still inside has the store of 2 behind it. Each thread that was ever
 *      signalled calls fp_sigcapture_shutdown_quiesce in a NIF, off its alternate stack: handlers
 *      nest strictly, so it has left.
 *   5. The action becomes SIG_DFL, the slots are unmapped, the handle closed.
 *
 * Where 2 or 4 fails (a scheduler is in a long NIF, or offline), the handler is put back and all
 * stays as it was. 4 does not cover a signal of this number that another program sends to another
 * thread, when that thread has not run the dozen instructions that reject it by the time of 5. */
#pragma once

#include <stdint.h>

#include "erts/capture/handler.h"
#include "erts/layout.h"

/* ERTS_MAX_NO_OF_SCHEDULERS (erl_process.h). */
#define FP_SCHEDULERS_MAX 1024u

/* A thread that may block: before any registration, and at each session's start, where it repairs
 * slots and replaces a lost signal. `count`: normal schedulers of this VM; `ranges`: those of JIT
 * code now. 0; or FP_ENOMEM, FP_EDENIED (memory cannot be read), FP_ESIGNAL (no signal
 * is free), FP_EUNSUPPORTED (the library cannot be pinned), FP_EINVAL, FP_ESTATE (a shutdown is
 * under way), with a sentence in *why. */
int fp_sigcapture_prepare(const struct fp_layout *layout, const struct fp_ranges *ranges,
                          unsigned count, const char **why);

/* ANY THREAD, does not block. All calls below but the counts are made between the two. 0, or
 * FP_ESTATE during a shutdown. */
int fp_sigcapture_acquire(void);
void fp_sigcapture_release(void);
/* How many have acquired, the caller among them. ANY THREAD. */
int fp_sigcapture_users(void);

/* On the scheduler's own thread, acquired, in a NIF that is `mfa` and runs in `process`. Some 50
 * us. 0, also when it is registered already; else an error, with a sentence in *why, and this
 * scheduler is not signalled again. */
int fp_sigcapture_register(unsigned number, uint64_t process, const uint64_t mfa[3],
                           const char **why);

/* The shutdown, see above: begin; quiesce on each thread of a slot that must_quiesce; then end,
 * which is due after each begin that returned 0. begin and end, on a thread that may block: begin
 * waits for handlers, at most a second. FP_ESTATE: there are users or another shutdown, a handler
 * did not run, or a scheduler has not quiesced; FP_ESIGNAL: the signal has another owner; all is as
 * before then. `owner`, not 0: only its end counts. */
int fp_sigcapture_shutdown_begin(uint64_t owner);
int fp_sigcapture_must_quiesce(unsigned slot);
int fp_sigcapture_shutdown_quiesce(unsigned number);
int fp_sigcapture_shutdown_end(uint64_t owner);
/* The owner of the shutdown under way, 0: none. ANY THREAD. When the owner has exited, a thread
 * that may block aborts it: all is as before. */
uint64_t fp_sigcapture_is_shutting_down(void);
void fp_sigcapture_shutdown_abort(uint64_t owner);

/* ANY THREAD, from here on. None blocks or allocates. */

/* Slots are 0..n-1; a scheduler's number is its slot + 1. 0 before fp_sigcapture_prepare. Not every
 * slot is registered. */
unsigned fp_sigcapture_count(void);
unsigned fp_sigcapture_registered(void);

/* The VM's code as registration found it; valid with one registered scheduler. */
void fp_sigcapture_code(struct fp_range *fragments, uint64_t *nif_return);

/* Address of the slot's ErtsSchedulerData, 0 when it is not registered. */
uint64_t fp_sigcapture_data(unsigned slot);
/* The slot with that data, or -1. */
int fp_sigcapture_find(uint64_t data);

/* 0; FP_ESIGNAL: the signal's action is not the handler any more. One system call: the sampler
 * makes it before the first request of a tick. */
int fp_sigcapture_check(void);
/* The signal that another owner has, as of the last check; 0: none. */
int fp_sigcapture_lost_signal(void);

/* The capture has these windows, too, which the handler copies; NULL: none. 0 and a ticket;
 * FP_ESTATE: another request is in flight, or the slot is not registered; FP_ESIGNAL: the signal
 * has another owner, or the kernel refuses it (RLIMIT_SIGPENDING, a seccomp filter). */
int fp_sigcapture_request(unsigned slot, const struct fp_windows *windows, uint32_t *ticket);
/* The capture, valid until fp_sigcapture_drop; NULL: not yet. */
const struct fp_capture *fp_sigcapture_poll(unsigned slot, uint32_t ticket);
/* The capture may still come. It does not after a repair. */
int fp_sigcapture_is_pending(unsigned slot, uint32_t ticket);
/* The caller is done with the capture, or has no use for it. */
void fp_sigcapture_drop(unsigned slot, uint32_t ticket);
/* The slot's request, of any caller, is pending for a second of CPU time of its thread, from the
 * first call for that request on: its signal is blocked, or swallowed (a debugger does that). */
int fp_sigcapture_is_lost(unsigned slot);
/* The handler's time for the slot's capture, 50 us at most. */
uint64_t fp_sigcapture_handler_ns(unsigned slot);
