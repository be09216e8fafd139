#include "virtual_clock.h"

int64_t (*virtual_clock)(clockid_t clock);
void (*virtual_sleep)(int64_t until_ns);

/* By the linker's --wrap. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left);

int64_t system_clock_ns(clockid_t clock)
{
    struct timespec now = {0, 0};

    __real_clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    int64_t ns;

    if (virtual_clock == NULL)
        return __real_clock_gettime(clock, now);
    ns = virtual_clock(clock);
    *now = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
    int64_t until = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;

    if (virtual_sleep == NULL)
        return __real_clock_nanosleep(clock, flags, time, left);
    virtual_sleep(flags == TIMER_ABSTIME ? until : virtual_clock(clock) + until);
    return 0;
}
