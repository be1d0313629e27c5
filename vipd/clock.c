/* The time for people; that of the loops is host.c's. */
#include <time.h>

#include "vipd/loop.h"

uint64_t vipd_wall_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}
