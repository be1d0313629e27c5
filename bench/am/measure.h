/*
 * Helpers for the programs that measure Active Messages: calls that must succeed, a clock, the
 * median.
 */
#ifndef BENCH_AM_MEASURE_H
#define BENCH_AM_MEASURE_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <am_amx.h>

#define DO(call)                                                                                   \
    do {                                                                                           \
        if ((call) != AM_OK)                                                                       \
            AMX_FatalErr("%s: %s", #call, amvia_LastError());                                      \
    } while (0)

static inline double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* The median of n numbers; sorts them. */
static inline double median(double *sample, int n)
{
    qsort(sample, (size_t)n, sizeof(*sample), by_value);
    return sample[n / 2];
}

#endif
