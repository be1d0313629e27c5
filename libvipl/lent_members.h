/* Loans (lent.h): the members of a session and of a VI. */
#ifndef LIBVIPL_LENT_MEMBERS_H
#define LIBVIPL_LENT_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/limits.h"

struct vipl__vi;
struct vipl__lent;

/*
 * One thread of the session may rest: it sleeps until a packet comes at the socket of a VI on loan
 * (lent_rest.c), and not on a futex word. Threads that complete something for it wake it.
 */
struct vipl__rest {
    uint32_t busy;       /* atomic; 1 = a thread rests, or is about to */
    struct vipl__vi *vi; /* atomic; its VI; NULL: no thread rests */
    unsigned queue;      /* enum vip_queue; atomic, as all following ones */
    uint32_t done;       /* number of completions on loan that it has seen */
    uint64_t thread;     /* pthread_self() */
    uint64_t timer_ns;   /* it wakes at this time by itself; VIPL__NEVER: it does not */
    int fd; /* eventfd that wakes it; -1: none yet. Stays open: a late call may still write to it */
};

/* When a VI asks for a loan (lent.h). */
struct vipl__asks {
    uint8_t host[VIP_HOST_ADDR_BYTES_MAX]; /* address of the peer's NIC; under session->lock */
    uint8_t host_len;                      /* 0: the connection cannot be lent; atomic */
    uint32_t polls;           /* Done calls that found nothing; not exact if several threads poll */
    uint32_t busy;            /* atomic; 1 = a thread uses the members below */
    uint64_t polled_ns;       /* last look at the clock */
    uint64_t steady_ns;       /* since then the program polls without a pause */
    uint32_t slept;           /* sum of all `sleeps` of this VI and its CQs at the last look */
    uint32_t sleeps;          /* number of times that a thread went to sleep, or woke up; atomic */
    uint64_t next_ns;         /* no request before this time */
    uint64_t asked_ns;        /* atomic; the last request: how long the program had polled */
    bool asked_asleep;        /* the last request is for a thread that sleeps; atomic */
    uint64_t again_ns;        /* least time between two requests; atomic */
    uint32_t takes;           /* Done calls that took a descriptor; as exact as polls */
    unsigned uses;            /* number of uses since uses_ns, without a long time in between */
    uint64_t uses_ns, use_ns; /* the first and the last one of these */
    struct vipl__lent *made;  /* the VI's object before it is `lent`; under session->lock */
};

#endif
