/*
 * bench_threads.c - the CPU clocks of this VM's threads, without leaving the thread
 * that asks: what is read through /proc goes by way of the VM's dirty schedulers, and
 * by then a saturated machine has done something else.
 */
#define _GNU_SOURCE
#include <erl_nif.h>
#include <stdint.h>
#include <time.h>

#define THREADS_MAX 256

/* The kernel's clock of any thread of this process (clock_getcpuclockid(3) has only
 * that of a whole process): the thread's number inverted, above CPUCLOCK_PERTHREAD |
 * CPUCLOCK_SCHED. */
static clockid_t clock_of(int thread)
{
    return (clockid_t)((~(unsigned int)thread << 3) | 6u);
}

static int64_t ns_of(clockid_t clock)
{
    struct timespec t;

    if (clock_gettime(clock, &t) != 0)
        return 0;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* cpu_ns([Thread]) -> {Ns of these, Ns of the whole process}; NORMAL SCHEDULER,
 * some hundred nanoseconds a thread. */
static ERL_NIF_TERM cpu_ns(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM list = argv[0], head;
    int64_t sum = 0;
    unsigned int length;
    int thread;

    (void)argc;
    if (!enif_get_list_length(env, list, &length) || length > THREADS_MAX)
        return enif_make_badarg(env);
    while (enif_get_list_cell(env, list, &head, &list)) {
        if (!enif_get_int(env, head, &thread))
            return enif_make_badarg(env);
        sum += ns_of(clock_of(thread));
    }
    return enif_make_tuple2(env, enif_make_int64(env, sum),
                            enif_make_int64(env, ns_of(CLOCK_PROCESS_CPUTIME_ID)));
}

/* sleep_ns(Us, N) -> CPU time of this thread in N sleeps of Us, each to a point in time; DIRTY I/O
 * SCHEDULER. */
static ERL_NIF_TERM sleep_ns(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    unsigned int us, n;
    struct timespec at;
    int64_t before;

    (void)argc;
    if (!enif_get_uint(env, argv[0], &us) || us >= 1000000 || !enif_get_uint(env, argv[1], &n))
        return enif_make_badarg(env);
    clock_gettime(CLOCK_MONOTONIC, &at);
    before = ns_of(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned int i = 0; i < n; i++) {
        at.tv_nsec += us * 1000L;
        at.tv_sec += at.tv_nsec / 1000000000;
        at.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
    return enif_make_int64(env, ns_of(CLOCK_THREAD_CPUTIME_ID) - before);
}

static ErlNifFunc functions[] = {{"cpu_ns", 1, cpu_ns, 0},
                                 {"sleep_ns", 2, sleep_ns, ERL_NIF_DIRTY_JOB_IO_BOUND}};

ERL_NIF_INIT(bench_threads, functions, NULL, NULL, NULL, NULL)
