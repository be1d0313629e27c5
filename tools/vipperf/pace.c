#include "tools/vipperf/pace.h"

#include <errno.h>
#include <time.h>

void pace_wait(struct pace *pace)
{
    struct timespec due, now;
    uint64_t now_ns;

    if (pace->every_ms == 0)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    pace->due_ns += pace->every_ms * 1000000u;
    if (pace->due_ns < now_ns)
        pace->due_ns = now_ns;
    due = (struct timespec){.tv_sec = (time_t)(pace->due_ns / 1000000000u),
                            .tv_nsec = (long)(pace->due_ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        continue;
}
