/*
 * The parts of vipd that its clients, its views and main.c share. One of it per process.
 *
 * Owns: nothing by itself; main.c (vipd/main.c) fills it. All of it belongs to the control loop, whose
 * callbacks run while every NIC stands still. Engine threads (vipd/host.h), from within a turn of one
 * of their NICs, may read it, may change what is of a session on that NIC, and beyond that only what
 * is marked "shared": with the mutex `shared` held, counters by vipd_count.
 */
#ifndef VIPD_DAEMON_H
#define VIPD_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vipd/config.h"
#include "vipd/log.h"
#include "vipd/loop.h"

struct nic;
struct client;
struct vipd_pending;
struct history;
struct stats_file;
struct capture;
struct undertaker;
struct taken;

/* Why a connection of an application ended; each is counted and shown. */
enum client_end {
    CLIENT_END_NONE = 0,  /* it has not */
    CLIENT_END_CLOSED,    /* VipCloseNic, or a tool that hung up */
    CLIENT_END_DIED,      /* hang-up without a close request, or the process is gone */
    CLIENT_END_MALFORMED, /* a message that cannot be understood, or is too large */
    CLIENT_END_FDS,       /* not the number of descriptors that the message type wants */
    CLIENT_END_REOPEN,    /* a second open */
    CLIENT_END_REPLIES,   /* does not read its replies */
    CLIENT_END_EVENTS,    /* does not read its events */
    CLIENT_END_RING,      /* the submission ring's structure is broken */
    CLIENT_END_PLACED,    /* says it has placed what it was not asked to place */
    CLIENT_END_INTERNAL,  /* vipd lacked memory or descriptors */
    CLIENT_END_MISSING,   /* a page of memory shared with it could not be had */
    CLIENT_END_TAKEN,     /* its user's files take more memory than [limits] allow */
    CLIENT_END_LISTEN,    /* waits where it may not any more, since a reload of [listen] */
    CLIENT_END_SHUTDOWN,  /* vipd stops */
    CLIENT_ENDS,
};

#define VIPD_NO_GID UINT32_MAX

/* Counters of vipd itself, scope "vipd" of vipctl show stats. Those of events and ends are shared. */
struct vipd_counters {
    uint64_t accepted;        /* connections */
    uint64_t refused_limit;   /* connections over connections_per_uid */
    uint64_t refused_quota;   /* requests over another limit of a user */
    uint64_t accept_paused;   /* times vipd had no descriptor left to accept with */
    uint64_t opened;          /* sessions */
    uint64_t open_refused;    /* open requests that failed */
    uint64_t open_again;      /* open requests that are to be sent again */
    uint64_t requests;        /* of all kinds */
    uint64_t request_time;    /* processor time of these, in ns */
    uint64_t requests_failed; /* answered with another code than success */
    uint64_t events;          /* sent or queued */
    uint64_t events_delayed;  /* queued because the socket was full */
    uint64_t errors_dropped;  /* asynchronous errors nobody was told, too many waited */
    uint64_t reloads;         /* of the configuration */
    uint64_t reloads_refused; /* because of a fault in a file */
    uint64_t admin_denied;    /* administrative requests of users who may not */
    uint64_t ended[CLIENT_ENDS];
};

/* One NIC as configured and as running. */
struct vipd_nic {
    const struct vipd_nic_config *config;
    struct nic *nic;
    struct vipd_loop *loop; /* that serves it: vipd->loop or an engine's */
};

struct vipd {
    const struct vipd_config *config; /* in force; the caller's, or `reloaded` */
    struct vipd_config_source source; /* what a reload reads */
    struct vipd_config *reloaded;  /* of the last reload (vipd/reload.c), NULL before the first */
    struct vipd_pending *pending;  /* what it found and waits for a restart */
    bool log_level_fixed;          /* the command line decided */
    uint32_t admin_gid, open_gid;  /* of the groups, VIPD_NO_GID if there is none */
    bool draining;                 /* no new sessions and connections (vipctl drain) */
    struct vipd_timer *idle_timer; /* of [daemon] idle_exit, or NULL */
    uint64_t idle_exit_ns;         /* the command line\'s, if the file says nothing; 0 = never */
    uint64_t used_ns;              /* when a session opened or ended last */
    struct vipd_loop *loop;
    const char *runtime_dir;
    struct kept *kept;   /* what the service manager keeps, or NULL (vipd/kept.h) */
    uint64_t epoch;      /* this life of vipd, random */
    uint64_t started_ns; /* CLOCK_MONOTONIC */
    unsigned cpus;       /* processors this process may use */
    unsigned nic_count;
    struct vipd_nic nics[VIPD_NICS_MAX];

    struct client *clients; /* connections in the order of their arrival, by client->next */
    struct client *clients_last;
    unsigned ending;      /* clients that clients_reap will free; shared */
    bool held_back;       /* clients that clients_reap will have looked at again; shared */
    bool held_back_timed; /* this is running: */
    struct vipd_timer *held_back_timer; /* NULL until it is needed */
    uint64_t next_session_id;           /* numbers for people, from 1 */
    uint64_t pass_ns;                   /* look at the descriptors that is going on, by its time */
    unsigned pass_cost;                 /* of the requests served in it */
    struct client *pass_first; /* who was the first to find the one before used up, or NULL */
    struct client *pass_next;  /* the same of this one */
    struct vipd_counters counters;
    pthread_mutex_t shared;           /* held for short; nothing else is taken or waited for then */
    struct vipd_log_limit client_log; /* what clients make us say; shared */
    struct history *history;          /* what happened, shared; NULL: nothing is noted */
    struct stats_file *stats_file;    /* statistics for all to read, or NULL */
    struct capture *capture;          /* vipctl capture goes on (vipd/ctl/capture.h), or NULL */
    struct undertaker *undertaker; /* who gives memory back to the kernel; NULL: the caller does */
    struct taken *taken;           /* what the memory files of users take; NULL: not looked at */
    uint32_t faults_seen;          /* of guard_faults, when sessions were looked at last */
    uint64_t taken_ns;             /* time of the last look at `taken` */
    bool taken_due;                /* vipd has worked since */
};

/* Count something that engine threads count too. */
static inline void vipd_count(uint64_t *counter)
{
    (void)__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
