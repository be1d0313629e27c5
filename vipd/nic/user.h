/* Users of a NIC and how processor time is shared among them; only for vipd/nic, through internal.h. */
#ifndef VIPD_NIC_USER_H
#define VIPD_NIC_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/nic/list.h"

struct nic_session;

/* What one of several has had. */
struct nic_share {
    uint64_t spent_ns; /* processor time, to be compared with that of the others */
    uint64_t turn;     /* the last turn in which it had work at the beginning */
    bool waits;        /* at the end of that turn some of it was left */
    uint64_t time_ns;  /* processor time, for views */
    uint64_t due_ns;   /* its part of it in turns that left work of it undone, for views */
    uint64_t
        left_ns; /* due for the last turn, not yet in due_ns: the next one may show that it is less */
    uint64_t had_ns;  /* what it had in the last turn */
    uint64_t told_ns; /* time_ns at the end of it */
};

/* These several: the users of a NIC, the sessions of a user. */
struct nic_sharing {
    uint64_t turn;     /* the turn of busy and least_ns */
    uint64_t least_ns; /* the smallest spent_ns of those that have work */
    uint64_t left_ns;  /* the same of those whose work the turn did not finish; UINT64_MAX: none */
    uint64_t most_ns;  /* the largest spent_ns at the end of the turn */
    uint64_t floor_ns; /* where newcomers begin: left_ns, or most_ns; it never falls */
    unsigned busy;     /* those that have work */
};

/* A uid with sessions on this NIC, or that had some. */
struct nic_user {
    struct nic_list link; /* nic->users */
    uint32_t uid;
    uint32_t session_count, rings;
    uint32_t held_count; /* packets that its sessions keep */
    uint64_t held_bytes;
    uint64_t segs_bytes; /* segment lists of long descriptors of its sessions */
    struct nic_share share;
    struct nic_sharing sessions;
};

/*
 * The clock of a turn. CLOCK_MONOTONIC costs 30 ns, that of the thread's processor time 1.5 us (a system call); so the
 * first is read, and the second only where a step took so long that the thread may have lost the processor.
 */
struct nic_meter {
    struct nic_session *session; /* that has the time from mark_ns on; NULL: none */
    uint64_t mark_ns;
    uint64_t turn;           /* the last one that was measured */
    bool synced;             /* cpu_ns and counted_ns are known: */
    uint64_t cpu_ns;         /* processor time of the thread when it was last read */
    uint64_t counted_ns;     /* given to sessions since then */
    uint64_t split_ns;       /* counts.shared_time when its parts were last told */
    uint64_t turn_ns;        /* when this turn began */
    uint64_t contended_ns;   /* now_ns of the last turn in which several users had work */
    unsigned units;          /* of work since the clock was last looked at */
    bool contended, several; /* several sessions, several users have work in this turn */
    bool over;               /* the turn has taken its time */
    bool skipped;            /* some session has work and waits for a later turn */
    bool open;               /* none waits any more in this turn */
};

#endif
