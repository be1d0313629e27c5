/*
 * A histogram of times with a fixed layout: steps of 1 ns below 16 ns, then 16 steps in each power
 * of two up to 68 s. So the error of a value is at most 6.25 %, and the histogram has 528 counters.
 * To add or subtract histograms, add or subtract their counters.
 *
 * Owns: the layout; the mapped statistics file (proto/stats_file.h) has the same layout. One thread
 * writes; a reader at the same time may see counters of different moments.
 */
#ifndef VIP_PROTO_HIST_H
#define VIP_PROTO_HIST_H

#include <stdint.h>

#define VIP_HIST_STEP_BITS 4
#define VIP_HIST_STEPS     (1u << VIP_HIST_STEP_BITS) /* steps in a power of two */
#define VIP_HIST_TOP_BITS  36u /* values of 2^36 ns and more count in the last counter */
#define VIP_HIST_BUCKETS   (VIP_HIST_STEPS * (VIP_HIST_TOP_BITS - VIP_HIST_STEP_BITS + 1))

struct vip_hist {
    uint64_t count, sum_ns, max_ns;
    uint64_t bucket[VIP_HIST_BUCKETS];
};

/* Index of the counter for a value. */
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

/* Smallest value of a counter. VIP_HIST_BUCKETS as index gives the end of the last counter. */
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

/* The quantile: `share` (0 to 1) of the samples are at or below the returned value. This value is
 * the upper end of a counter, but at most the largest sample. 0 if there are no samples. */
uint64_t vip_hist_quantile_ns(const struct vip_hist *hist, double share);

#endif
