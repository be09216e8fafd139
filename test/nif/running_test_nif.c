/* running_test_nif.c - what the tests of running processes need of C: work in a NIF whose length is
 * known, the CPU clock of a scheduler's thread, and signals as a hostile neighbour would send and
 * take them. For tests alone. */
#include <erl_nif.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic unsigned long arrived;

/* A function of its own, so that it has a name in a native stack. */
__attribute__((noinline)) uint64_t running_test_spin(uint64_t n)
{
    uint64_t x = n | 1;

    while (n-- > 0) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

/* (Iterations) -> integer(). The caller keeps it below a millisecond. */
static ERL_NIF_TERM spin(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ErlNifUInt64 n;

    (void)argc;
    if (!enif_get_uint64(env, argv[0], &n))
        return enif_make_badarg(env);
    /* Some 6,000 take a hundredth of a turn, 10 us. */
    if (n >= 6000)
        (void)enif_consume_timeslice(env, n < 600000 ? (int)(n / 6000) : 100);
    return enif_make_uint64(env, running_test_spin(n) & 0xffff);
}

/* () -> CPU nanoseconds of this scheduler's thread */
static ERL_NIF_TERM thread_cpu_ns(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct timespec now;

    (void)argc;
    (void)argv;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return enif_make_int64(env, (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
}

static ERL_NIF_TERM thread_id(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_int64(env, (int64_t)syscall(SYS_gettid));
}

static void count(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    atomic_fetch_add(&arrived, 1);
}

/* (Signal) -> ok: from now on it is somebody's. */
static ERL_NIF_TERM take_signal(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct sigaction action;
    int number;

    (void)argc;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = count;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    if (!enif_get_int(env, argv[0], &number) || sigaction(number, &action, NULL) != 0)
        return enif_make_badarg(env);
    return enif_make_atom(env, "ok");
}

/* (Signal) -> default | ours | other */
static ERL_NIF_TERM signal_action(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct sigaction action;
    int number;

    (void)argc;
    if (!enif_get_int(env, argv[0], &number) || sigaction(number, NULL, &action) != 0)
        return enif_make_badarg(env);
    if ((action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL)
        return enif_make_atom(env, "default");
    return enif_make_atom(env, (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == count
                                   ? "ours"
                                   : "other");
}

static ERL_NIF_TERM signals_arrived(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_uint64(env, atomic_load(&arrived));
}

/* () -> {SIGRTMIN, SIGRTMAX} */
static ERL_NIF_TERM real_time_signals(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_tuple2(env, enif_make_int(env, SIGRTMIN), enif_make_int(env, SIGRTMAX));
}

/* (ThreadId, Signal, Value) -> ok | {error, Errno}: as if the sampler had asked
 * with that value. */
static ERL_NIF_TERM queue_signal(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ErlNifSInt64 thread;
    ErlNifUInt64 value;
    siginfo_t info;
    int number;

    (void)argc;
    if (!enif_get_int64(env, argv[0], &thread) || !enif_get_int(env, argv[1], &number) ||
        !enif_get_uint64(env, argv[2], &value))
        return enif_make_badarg(env);
    memset(&info, 0, sizeof info);
    info.si_signo = number;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_value.sival_ptr = (void *)(uintptr_t)value;
    if (syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)thread, number, &info) != 0)
        return enif_make_tuple2(env, enif_make_atom(env, "error"), enif_make_int(env, errno));
    return enif_make_atom(env, "ok");
}

/* (Milliseconds) -> how often a sleep was interrupted. On a dirty scheduler. */
static ERL_NIF_TERM dirty_sleep(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct timespec left;
    int ms, interrupted = 0;

    (void)argc;
    if (!enif_get_int(env, argv[0], &ms) || ms < 0)
        return enif_make_badarg(env);
    left.tv_sec = ms / 1000;
    left.tv_nsec = ms % 1000 * 1000000L;
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        interrupted++;
    return enif_make_int(env, interrupted);
}

/* (Bytes) -> {Bytes that came through, EINTR seen}: a pipe, read and written by
 * calls that block, as in a NIF that does not expect signals. */
static ERL_NIF_TERM pipe_through(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    unsigned char byte[512];
    int fd[2], left, through = 0, interrupted = 0;

    (void)argc;
    if (!enif_get_int(env, argv[0], &left) || pipe(fd) != 0)
        return enif_make_badarg(env);
    memset(byte, 7, sizeof byte);
    while (left > 0) {
        size_t size = (size_t)left < sizeof byte ? (size_t)left : sizeof byte;
        ssize_t n = write(fd[1], byte, size);

        if (n > 0)
            n = read(fd[0], byte, (size_t)n);
        if (n < 0 && errno == EINTR)
            interrupted++;
        if (n <= 0)
            break;
        through += (int)n;
        left -= (int)n;
    }
    close(fd[0]);
    close(fd[1]);
    return enif_make_tuple2(env, enif_make_int(env, through), enif_make_int(env, interrupted));
}

static ErlNifFunc functions[] = {
    {"spin", 1, spin, 0},
    {"thread_cpu_ns", 0, thread_cpu_ns, 0},
    {"thread_id", 0, thread_id, 0},
    {"take_signal", 1, take_signal, 0},
    {"signal_action", 1, signal_action, 0},
    {"signals_arrived", 0, signals_arrived, 0},
    {"real_time_signals", 0, real_time_signals, 0},
    {"queue_signal", 3, queue_signal, 0},
    {"pipe_through", 1, pipe_through, 0},
    {"dirty_sleep", 1, dirty_sleep, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"dirty_spin", 1, spin, ERL_NIF_DIRTY_JOB_CPU_BOUND},
};

ERL_NIF_INIT(running_test_nif, functions, NULL, NULL, NULL, NULL)
