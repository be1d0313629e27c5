/*
 * For the test programs of AM: CHECK, which may end the job; WAIT_FOR; data patterns.
 */
#ifndef TESTS_AM_AMTEST_H
#define TESTS_AM_AMTEST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/am/record.h"

/* A condition that must hold; otherwise the job ends with a message. */
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            AMX_FatalErr("%s:%d: %s does not hold (last failure: %s)", __FILE__, __LINE__, #cond,  \
                         amvia_LastError());                                                       \
    } while (0)

#define OK(call) CHECK((call) == AM_OK)

/* If true, WAIT_FOR sleeps until the next event. If false, WAIT_FOR polls. */
extern bool am_test_blocking;

/* Run handlers until cond holds. The test fails if it does not hold within 60 s. */
#define WAIT_FOR(bundle, cond)                                                                     \
    do {                                                                                           \
        time_t wait_until = time(NULL) + 60;                                                       \
        while (!(cond)) {                                                                          \
            if (am_test_blocking) {                                                                \
                OK(AM_SetEventMask(bundle, AM_NOTEMPTY));                                          \
                OK(AM_WaitSema(bundle));                                                           \
            } else {                                                                               \
                OK(AM_Poll(bundle));                                                               \
            }                                                                                      \
            if (time(NULL) > wait_until)                                                           \
                AMX_FatalErr("%s:%d: %s did not come true within a minute", __FILE__, __LINE__,    \
                             #cond);                                                               \
        }                                                                                          \
    } while (0)

static inline unsigned char pattern_byte(unsigned seed, size_t i)
{
    return (unsigned char)(seed * 131 + i * 7 + (i >> 8) * 3 + (i >> 16));
}

static inline void pattern_fill(void *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)at)[i] = pattern_byte(seed, i);
}

static inline bool pattern_good(const void *at, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)at)[i] != pattern_byte(seed, i))
            return false;
    return true;
}

#endif
