/* Clocks: wall-clock time for people, time for the event loops, processor time of a thread. */
#include <time.h>

#include "vipd/loop.h"

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t vipd_wall_now(void)
{
    return read_clock(CLOCK_REALTIME);
}

uint64_t vipd_clock_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t vipd_cpu_now(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
