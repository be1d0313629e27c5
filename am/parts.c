/*
 * Measures the time of each part of the library (parts.h); empty without VIPAM_PARTS.
 */
#include "am/parts.h"

#ifdef VIPAM_PARTS
#include <string.h>

static __thread struct am_parts account;
static __thread enum am_part present;
static __thread uint64_t since;

/* Read the processor's time-stamp counter. This is so fast that it hardly changes the result. */
static uint64_t ticks_now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t now;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
    return now;
#else
#error "parts.c knows no time-stamp counter of this processor"
#endif
}

enum am_part am_part(enum am_part part)
{
    enum am_part before = present;
    uint64_t now = ticks_now();

    account.ticks[before] += now - since;
    account.ends[before]++;
    since = now;
    present = part;
    return before;
}

void amvia_parts_reset(void)
{
    memset(&account, 0, sizeof(account));
    since = ticks_now();
}

void amvia_parts_get(struct am_parts *parts)
{
    *parts = account;
}
#endif
