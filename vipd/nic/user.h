/* Users of a NIC and their parts of its processor time; only for vipd/nic, through internal.h. */
#ifndef VIPD_NIC_USER_H
#define VIPD_NIC_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/nic/list.h"

struct nic_session;

/* Processor time of one member of a group: of a user of a NIC, or of a session of a user. */
struct nic_share {
    uint64_t spent_ns; /* processor time, compared with that of the other members */
    uint64_t turn;     /* the last turn that began while the member had work */
    uint64_t first;    /* the last turn in which it was served before those that are ahead */
    bool waits;        /* that turn did not finish the work */
    uint64_t time_ns;  /* processor time, for views */
    uint64_t due_ns;   /* fair part in turns that left work of it undone, for views */
    uint64_t
        left_ns; /* fair part of the last turn; not yet in due_ns, the next turn may reduce it */
    uint64_t had_ns;  /* time used in the last turn */
    uint64_t told_ns; /* time_ns at its end */
};

/* A group of members: the users of a NIC, or the sessions of a user. */
struct nic_sharing {
    uint64_t turn;     /* the turn of busy and least_ns */
    uint64_t least_ns; /* the smallest spent_ns of members that have work */
    uint64_t left_ns;  /* the same of members with work left after the turn; UINT64_MAX: none */
    uint64_t most_ns;  /* the largest spent_ns at the end of the turn */
    uint64_t floor_ns; /* least spent_ns of members that join: left_ns, or most_ns; never falls */
    unsigned busy;     /* members that have work */
};

/* A uid that has or had sessions on this NIC. */
struct nic_user {
    struct nic_list link; /* nic->users */
    uint32_t uid;
    uint32_t session_count, rings;
    uint32_t held_count; /* packets that its sessions keep */
    uint64_t held_bytes;
    uint64_t kept_bytes; /* of its sessions (kept.c) */
    struct nic_share share;
    struct nic_sharing sessions;
};

/*
 * The clock of a turn. CLOCK_MONOTONIC costs 30 ns; the thread's processor time costs 1.5 us (a
 * system call). So vipd reads the first; it reads the second only after a step of more than
 * NIC_SUSPECT_NS, in which the thread may have lost the processor.
 */
struct nic_meter {
    struct nic_session *session; /* the time from mark_ns on belongs to it; NULL: to none */
    uint64_t mark_ns;
    uint64_t turn;           /* the last turn that was measured */
    bool synced;             /* cpu_ns and counted_ns are known: */
    uint64_t cpu_ns;         /* processor time of the thread when it was last read */
    uint64_t counted_ns;     /* counted since then */
    uint64_t split_ns;       /* counts.shared_time when it was last divided */
    uint64_t turn_ns;        /* when this turn began */
    uint64_t contended_ns;   /* now_ns of the last turn in which several users had work */
    unsigned units;          /* of work since the clock was last read */
    bool contended, several; /* several sessions, several users have work in this turn */
    bool over;               /* the turn has taken its time */
    bool skipped;            /* some session has work and was passed over in this turn */
    bool open;               /* no session is passed over any more in this turn */
};

#endif
