/*
 * Does it help to yield the processor now? On a machine with few processors, a thread that polls
 * yields, because the thread for which it waits may need the processor. If a process that does not
 * sleep shares the processor, each yield takes milliseconds. Then a thread must not yield for a
 * while. A thread that could also sleep must sleep: the kernel runs it soon after it is woken.
 */
#ifndef VIP_PROTO_CROWD_H
#define VIP_PROTO_CROWD_H

#include <stdbool.h>
#include <stdint.h>

/* A yield that takes longer than this, in ns, may have given the processor to a busy process. */
#define VIP_YIELD_LONG_NS 1000000u
/* After two such yields in a row, the processor counts as crowded for this time, in ns. After this
 * time, one such yield is enough. */
#define VIP_CROWDED_NS 100000000u

/* What the yields of one loop or session have shown; at first all 0. Members are atomic. */
struct vip_crowd {
    uint64_t until_ns;
    uint32_t row; /* number of long yields in a row */
};

static inline bool vip_crowded(const struct vip_crowd *crowd, uint64_t now_ns)
{
    return now_ns < __atomic_load_n(&crowd->until_ns, __ATOMIC_RELAXED);
}

/* A yield has begun and ended at these times (CLOCK_MONOTONIC). */
static inline void vip_yielded(struct vip_crowd *crowd, uint64_t before_ns, uint64_t after_ns)
{
    uint32_t row = __atomic_load_n(&crowd->row, __ATOMIC_RELAXED);

    if (after_ns - before_ns <= VIP_YIELD_LONG_NS)
        row = 0;
    else if (row == 0)
        row = 1;
    else
        __atomic_store_n(&crowd->until_ns, after_ns + VIP_CROWDED_NS, __ATOMIC_RELAXED);
    __atomic_store_n(&crowd->row, row, __ATOMIC_RELAXED);
}

#endif
