/* Users of a NIC and their parts of its processor time; only for vipd/nic, through internal.h. */
#ifndef VIPD_NIC_USER_H
#define VIPD_NIC_USER_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/nic/list.h"

struct nic_session;

#define NIC_SECOND_NS 1000000000ull

/* Processor time of one member of a group: of a user of a NIC, or of a session of a user. */
struct nic_share {
    uint64_t spent_ns; /* processor time, by which vipd compares the members */
    uint64_t turn;     /* the last turn that began while the member had work */
    uint64_t first;    /* the last turn that served the member because it was not ahead of others */
    bool waits;        /* turn `turn` left work of the member undone */
    uint64_t time_ns;  /* processor time, for views */
    uint64_t due_ns;   /* its fair part of turns that left some of its work undone, for views */
    /* The member's fair part of the last turn. due_ns does not include left_ns yet, because the
     * next turn may reduce left_ns. */
    uint64_t left_ns;
    uint64_t had_ns;  /* time that the member used in the last turn */
    uint64_t told_ns; /* time_ns at the end of the last turn */
};

/* A group of members: the users of a NIC, or the sessions of a user. */
struct nic_sharing {
    uint64_t turn;     /* the turn to which busy and least_ns belong */
    uint64_t least_ns; /* the smallest spent_ns of members that have work */
    /* The smallest spent_ns of members with work left after the turn; UINT64_MAX: no member. */
    uint64_t left_ns;
    uint64_t most_ns; /* the largest spent_ns at the end of the turn */
    /* A joining member gets at least this spent_ns: left_ns, else most_ns. Never decreases. */
    uint64_t floor_ns;
    unsigned busy; /* members that have work */
};

/* A uid that has or had sessions on this NIC. */
struct nic_user {
    struct nic_list link; /* nic->users */
    uint32_t uid;
    uint32_t session_count, rings;
    uint32_t held_count; /* packets that the engine keeps for the user's sessions */
    uint64_t held_bytes;
    uint64_t moves_ns;   /* begin of the second in which `moves` were counted */
    uint32_t moves;      /* of data paths to programs, and home again */
    uint64_t kept_bytes; /* memory for descriptors of the user's sessions (kept_bytes.c) */
    struct nic_share share;
    struct nic_sharing sessions;
};

/*
 * The clock of a turn. To read CLOCK_MONOTONIC costs 30 ns; to read the thread's processor time
 * costs 1.5 us (a system call). So vipd reads CLOCK_MONOTONIC. It reads the processor time only
 * after a step of more than NIC_SUSPECT_NS, in which the thread may have lost the processor.
 */
struct nic_meter {
    struct nic_session *session; /* the session that has spent the time since mark_ns; NULL: none */
    uint64_t mark_ns;
    uint64_t turn;           /* the last turn that was measured */
    bool synced;             /* cpu_ns and counted_ns are known */
    uint64_t cpu_ns;         /* processor time of the thread when it was last read */
    uint64_t counted_ns;     /* time counted since cpu_ns was read */
    uint64_t split_ns;       /* counts.shared_time when it was last divided among the users */
    uint64_t turn_ns;        /* when this turn began */
    uint64_t contended_ns;   /* now_ns of the last turn in which several users had work */
    unsigned units;          /* units of work since the clock was last read */
    bool contended, several; /* contended: several sessions have work; several: several users */
    bool over;               /* the time of the turn is used up */
    bool skipped;            /* some session has work and was passed over in this turn */
    bool open;               /* for the rest of this turn, vipd passes over no session */
};

#endif
