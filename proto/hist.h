/*
 * A histogram of times with a bounded layout: linear below 16 ns, then 16 steps in every power of two up to
 * 68 s, so that a value is known to 6.25 % and the whole has 528 counters. Two are subtracted and added
 * counter by counter, which is how intervals and sums are made.
 *
 * Owns: the layout, which the mapped statistics file has too (proto/stats_file.h). One writer; whoever reads
 * beside it sees each counter as it was at some moment.
 */
#ifndef VIP_PROTO_HIST_H
#define VIP_PROTO_HIST_H

#include <stdint.h>

#define VIP_HIST_STEP_BITS 4
#define VIP_HIST_STEPS     (1u << VIP_HIST_STEP_BITS) /* of a power of two */
#define VIP_HIST_TOP_BITS  36u /* values from 2^36 ns on share the last counter */
#define VIP_HIST_BUCKETS   (VIP_HIST_STEPS * (VIP_HIST_TOP_BITS - VIP_HIST_STEP_BITS + 1))

struct vip_hist {
    uint64_t count, sum_ns, max_ns;
    uint64_t bucket[VIP_HIST_BUCKETS];
};

/* The counter of a value. */
static inline unsigned vip_hist_index(uint64_t ns)
{
    unsigned top;

    if (ns < VIP_HIST_STEPS)
        return (unsigned)ns;
    top = 63u - (unsigned)__builtin_clzll(ns);
    if (top >= VIP_HIST_TOP_BITS)
        return VIP_HIST_BUCKETS - 1;
    return (top - VIP_HIST_STEP_BITS + 1) * VIP_HIST_STEPS +
           ((unsigned)(ns >> (top - VIP_HIST_STEP_BITS)) & (VIP_HIST_STEPS - 1));
}

/* Smallest value of a counter; index at most VIP_HIST_BUCKETS, for the end of the last one. */
static inline uint64_t vip_hist_low_ns(unsigned index)
{
    unsigned octave = index / VIP_HIST_STEPS, step = index % VIP_HIST_STEPS;

    return octave == 0 ? step : (uint64_t)(VIP_HIST_STEPS + step) << (octave - 1);
}

static inline void vip_hist_add(struct vip_hist *hist, uint64_t ns)
{
    hist->count++;
    hist->sum_ns += ns;
    if (ns > hist->max_ns)
        hist->max_ns = ns;
    hist->bucket[vip_hist_index(ns)]++;
}

/*
 * The value below or at which `share` (0 to 1) of the samples are: the upper end of its counter, but never
 * more than the largest sample. 0 if there are none.
 */
uint64_t vip_hist_quantile_ns(const struct vip_hist *hist, double share);

#endif
