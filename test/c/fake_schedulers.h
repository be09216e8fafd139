/* fake_schedulers.h - sigcapture.h with the schedulers of a fake VM: a capture is there when the
 * test says so. Included by one file of a test program, it takes the place of sigcapture.c. */
#pragma once

#include <stdatomic.h>

#include "base/error.h"
#include "erts/capture/sigcapture.h"
#include "fake_vm.h"
#include "run.h"

/* Behind the fragments that all code shares. */
#define CODE (FAKE_JIT + 0x1000)
#define DATA(at) (FAKE_DATA + 4096u * (uint64_t)(at))
#define SCHEDULERS 4u

static struct {
    uint64_t data; /* 0: not registered */
    int refuses;   /* what a request comes to */
    int in_flight; /* asked and not released */
    int ready;     /* the answer is there */
    int is_lost;   /* fp_sigcapture_is_lost */
    uint32_t ticket;
    uint64_t asked, released;
    struct fp_capture running;
} scheduler[SCHEDULERS];
static unsigned schedulers_count;
static int other_owner; /* of this signal; 0: the handler's */
static int users = 1;
static atomic_int polls;

int fp_sigcapture_acquire(void)
{
    return 0;
}

void fp_sigcapture_release(void)
{
}

int fp_sigcapture_users(void)
{
    return users;
}

unsigned fp_sigcapture_count(void)
{
    return schedulers_count;
}

unsigned fp_sigcapture_registered(void)
{
    return schedulers_count;
}

void fp_sigcapture_code(struct fp_range *fragments, uint64_t *nif_return)
{
    *fragments = (struct fp_range){FAKE_JIT, CODE};
    *nif_return = FAKE_JIT + 64;
}

uint64_t fp_sigcapture_data(unsigned at)
{
    CHECK(at < schedulers_count);
    return scheduler[at].data;
}

int fp_sigcapture_find(uint64_t data)
{
    for (unsigned at = 0; at < schedulers_count; at++)
        if (data != 0 && scheduler[at].data == data)
            return (int)at;
    return -1;
}

int fp_sigcapture_request(unsigned at, const struct fp_windows *windows, uint32_t *ticket)
{
    CHECK(at < schedulers_count && scheduler[at].data != 0);
    if (scheduler[at].refuses != 0)
        return scheduler[at].refuses;
    CHECK(!scheduler[at].in_flight);
    scheduler[at].in_flight = 1;
    scheduler[at].ready = 0;
    scheduler[at].asked++;
    scheduler[at].running.windows.count = 0;
    if (windows != NULL)
        scheduler[at].running.windows = *windows;
    *ticket = ++scheduler[at].ticket;
    return 0;
}

int fp_sigcapture_check(void)
{
    return other_owner == 0 ? 0 : FP_ESIGNAL;
}

int fp_sigcapture_lost_signal(void)
{
    return other_owner;
}

int fp_sigcapture_is_lost(unsigned at)
{
    return scheduler[at].is_lost;
}

int fp_sigcapture_is_pending(unsigned at, uint32_t ticket)
{
    return scheduler[at].in_flight && scheduler[at].ticket == ticket;
}

const struct fp_capture *fp_sigcapture_poll(unsigned at, uint32_t ticket)
{
    CHECK(at < schedulers_count && scheduler[at].in_flight);
    CHECK_INT(ticket, scheduler[at].ticket);
    atomic_fetch_add(&polls, 1);
    return scheduler[at].ready ? &scheduler[at].running : NULL;
}

void fp_sigcapture_drop(unsigned at, uint32_t ticket)
{
    CHECK(at < schedulers_count && scheduler[at].in_flight);
    CHECK_INT(ticket, scheduler[at].ticket);
    scheduler[at].in_flight = scheduler[at].ready = 0;
    scheduler[at].released++;
}

uint64_t fp_sigcapture_handler_ns(unsigned at)
{
    CHECK(scheduler[at].ready);
    return 100;
}

/* All of them registered and idle. */
static void fake_schedulers_create(struct fake_vm *vm)
{
    memset(scheduler, 0, sizeof scheduler);
    other_owner = 0;
    schedulers_count = SCHEDULERS;
    fake_map(&vm->memory, FAKE_DATA, 4096 * SCHEDULERS);
    fake_map(&vm->memory, FAKE_JIT, FAKE_JIT_SIZE);
    for (unsigned at = 0; at < SCHEDULERS; at++)
        scheduler[at].data = DATA(at);
}

static void set_scheduler_data(struct fake_vm *vm, uint32_t n, uint64_t data)
{
    fake_put_word(&vm->memory, fake_process_at(n) + vm->layout.release.running.scheduler_data,
                  data);
}

static void set_current(struct fake_vm *vm, unsigned at, uint64_t process)
{
    fake_put_word(&vm->memory, DATA(at) + vm->layout.release.running.current_process, process);
}

/* Process n is put on a scheduler, or taken from it. */
static void put_on_scheduler(struct fake_vm *vm, uint32_t n, unsigned at)
{
    fake_set(vm, n, FP_FIELD_state, FP_PSFLG_ACTIVE | FP_PSFLG_RUNNING);
    set_scheduler_data(vm, n, DATA(at));
    set_current(vm, at, fake_process_at(n));
}

static void take_from_scheduler(struct fake_vm *vm, uint32_t n, unsigned at)
{
    fake_set(vm, n, FP_FIELD_state, 0x2a);
    set_scheduler_data(vm, n, 0);
    set_current(vm, at, 0);
}

/* The handler runs in Erlang code at `pc`, with so many reductions of the turn left. */
static void run_handler(struct fake_vm *vm, unsigned at, uint64_t pc, int left)
{
    struct fp_capture_scheduler captured = {&vm->memory.reader, vm->layout, DATA(at), FAKE_MISC, 0};
    struct fp_registers registers = {.rip = pc, .r14 = (uint64_t)left};
    uint64_t process =
        fake_word(&vm->memory, DATA(at) + vm->layout.release.running.current_process);
    uint32_t n = (uint32_t)((process - FAKE_PROCESSES) / FAKE_PROCESS_STRIDE);

    CHECK(scheduler[at].in_flight);
    if (process != 0)
        registers.rsp = fake_get(vm, n, FP_FIELD_stop);
    fp_handler_copy(&captured, &registers, &scheduler[at].running);
    scheduler[at].ready = 1;
}
