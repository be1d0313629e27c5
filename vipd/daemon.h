/*
 * The state of vipd that its clients, its views, start.c and main.c share. One per process.
 *
 * Owns: nothing by itself; vipd/start.c fills it. The state belongs to the control loop, whose
 * callbacks run while every NIC stands still. Workers (vipd/host.h) use the state within a turn of
 * one of their NICs. They may read all of it, and may change what belongs to a session on that NIC.
 * Apart from this, they change only members marked "shared": counters by vipd_count, other members
 * with the mutex `shared` held.
 */
#ifndef VIPD_DAEMON_H
#define VIPD_DAEMON_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "vipd/client/turns.h"
#include "vipd/config.h"
#include "vipd/log.h"
#include "vipd/loop.h"
#include "vipd/returns.h"
#include "vipd/ticket.h"

struct nic;
struct client;
struct vipd_pending;
struct history;
struct stats_file;
struct capture;
struct undertaker;
struct taken;
struct runtime;
struct handover;
struct known_paths;
struct owners;

/* Why an application's connection to vipd ended; each reason is counted and shown. */
enum client_end {
    CLIENT_END_NONE = 0,  /* the connection has not ended */
    CLIENT_END_CLOSED,    /* VipCloseNic, or a tool that hung up */
    CLIENT_END_DIED,      /* the program hung up without VipCloseNic, or has ended */
    CLIENT_END_MALFORMED, /* the program sent a message that makes no sense or is too large */
    CLIENT_END_FDS,       /* the program sent a message with a wrong number of descriptors */
    CLIENT_END_REOPEN,    /* the program sent a second request to open a NIC */
    CLIENT_END_REPLIES,   /* the program does not read replies */
    CLIENT_END_EVENTS,    /* the program does not read events */
    CLIENT_END_RING,      /* the submission ring's structure is broken */
    CLIENT_END_PLACED,    /* the program confirmed bytes that it was not asked to place */
    CLIENT_END_INTERNAL,  /* vipd lacked memory or descriptors */
    CLIENT_END_MISSING,   /* the kernel refused a page of the session's shared memory */
    CLIENT_END_TAKEN,     /* the user's files take more memory than [limits] allow */
    CLIENT_END_LISTEN,    /* [listen] now reserves the program's discriminator for others */
    CLIENT_END_SHUTDOWN,  /* vipd stops */
    CLIENT_ENDS,
};

#define VIPD_NO_GID UINT32_MAX

/* Counters of scope "vipd" of `vipctl show stats`; proto/stats.def has their meanings. The counters
 * of events, errors and ended connections are "shared". */
struct vipd_counters {
#define VIP_STAT_OF_VIPD(member, name) uint64_t member;
#include "proto/stats.def"
    uint64_t ended[CLIENT_ENDS]; /* number of ended connections for each reason */
};

/* One NIC as configured and as running. */
struct vipd_nic {
    const struct vipd_nic_config *config;
    struct nic *nic;
    struct vipd_loop *loop; /* the loop that serves the NIC: vipd->loop or a worker's */
};

struct vipd {
    const struct vipd_config *config; /* configuration in force: the caller's, or `reloaded` */
    struct vipd_config_source source; /* files that a reload reads */
    /* result of the last reload (vipd/reload.c), NULL before the first */
    struct vipd_config *reloaded;
    struct vipd_pending *pending;  /* changes of the last reload that wait for a restart */
    bool log_level_fixed;          /* the command line has set the log level */
    uint32_t admin_gid, open_gid;  /* gids of [daemon] admin_group, open_group; VIPD_NO_GID: none */
    bool draining;                 /* vipd refuses new sessions and connections (vipctl drain) */
    struct vipd_timer *idle_timer; /* timer of [daemon] idle_exit, or NULL */
    uint64_t idle_exit_ns;         /* value of --idle-exit, for [daemon] idle_exit = 0; 0 = never */
    uint64_t used_ns;              /* time when a session opened or ended last */
    struct vipd_loop *loop;
    const char *runtime_dir;
    const struct runtime *runtime;   /* lock and socket in runtime_dir, or NULL (vipd/runtime.h) */
    struct known_paths *known_paths; /* file of other hosts' paths, or NULL (vipd/known_paths.h) */
    uint32_t paths_learned;          /* atomic; 1 = the file of known_paths is out of date */
    struct owners *owners;           /* file of discriminators' owners, or NULL (vipd/owners.h) */
    struct handover *handover;       /* handover to the next vipd, or NULL (vipd/handover.h) */
    struct ticket_key ticket_key;    /* seals the tickets that programs keep (vipd/ticket.h) */
    struct fd_store
        *fd_store;       /* sockets that the service manager keeps, or NULL (vipd/fd_store.h) */
    uint64_t epoch;      /* random number of this life of vipd */
    uint64_t started_ns; /* start of this vipd, CLOCK_MONOTONIC */
    unsigned cpus;       /* number of processors that this process may use */
    unsigned nic_count;
    struct vipd_nic nics[VIPD_NICS_MAX];

    struct client *clients; /* list of connections by client->next, oldest first */
    struct client *clients_last;
    unsigned ending;      /* not 0: clients have ended, and clients_reap must free them; shared */
    bool held_back;       /* some clients wait for the undertaker (client_held_back); shared */
    bool held_back_timed; /* held_back_timer is running */
    struct vipd_timer *held_back_timer; /* NULL until vipd first needs this timer */
    uint64_t next_session_id;           /* number of the last session; counts from 1, for people */
    struct turns turns;                 /* whose requests vipd serves next */
    struct vipd_counters counters;
    pthread_mutex_t shared; /* its holder keeps it briefly, takes no other lock, never waits */
    struct vipd_log_limit client_log; /* limits the log lines that clients cause; shared */
    struct returns returns;           /* what became of an earlier life's connections; shared */
    struct history *history;          /* last events and errors; NULL: none are noted; shared */
    struct stats_file *stats_file;    /* file with statistics, or NULL */
    struct capture *capture;          /* the running vipctl capture (vipd/ctl/capture.h), or NULL */
    struct undertaker *undertaker; /* its threads free memory; NULL: the caller's thread frees it */
    struct taken *taken;           /* counts the memory of users' files; NULL: not counted */
    uint32_t faults_seen;          /* guard_faults() at the last look for broken sessions */
    uint64_t taken_ns;             /* time when vipd last looked at `taken` */
    bool taken_due;                /* vipd has worked since it last looked at `taken` */
};

/* Add 1 to a counter to which worker threads also add. */
static inline void vipd_count(uint64_t *counter)
{
    (void)__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

#endif
