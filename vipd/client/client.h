/*
 * Clients (programs and tools that are connected to vipd): control sockets, sessions, their end.
 *
 * Owns: accepting, identity (from the kernel, at connect time), the set-up of a session's segments,
 * one function per control message, events for the application, and the end of a client for any
 * reason. Does not own: the data plane (vipd/nic/nic.h), memory rights
 * (vipd/registry/), views (vipd/ctl/), the loop (vipd/loop.h).
 *
 * Nothing here blocks, and no client can make another client wait: vipd ends the session of a
 * program that does not read its messages. A client is never freed from within a callback of the
 * client or of a NIC: client_end marks the client, and clients_reap frees it later.
 *
 * Threads: everything runs in the control loop (vipd/daemon.h) while all NICs stand still, except
 * what the data plane needs: the sink of a NIC (events.c), the bell and the event socket. The loop
 * of the session's NIC serves these three. Their functions use only the session, client->end, and
 * what vipd/daemon.h marks shared.
 */
#ifndef VIPD_CLIENT_CLIENT_H
#define VIPD_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "vipd/daemon.h"
#include "vipd/history.h"

struct nic_session;
struct registry;

#define CLIENT_PROGRAM_BYTES 48 /* bytes kept of a program's or library's name */

/* One event that waits until its socket has room. */
struct client_event {
    struct client_event *next;
    uint32_t len;
    bool place; /* the event asks the program to copy bytes of a message */
    uint8_t bytes[];
};

#define SESSION_MAPS 4 /* mappings of a session that are not in its registry */

/* A NIC opened by an application. */
struct session {
    uint64_t id;
    unsigned nic; /* index into vipd->nics */
    struct nic_session *nic_session;
    struct registry *registry;
    const struct nic_layout *layout; /* layout of the two segments */
    void *app_base, *vipd_base;      /* the two segments; NULL if not mapped */
    void *recv_base; /* table of receive descriptors (proto/direct.h); NULL: the library has none */
    void *loan_base; /* memory for loans (proto/loan.h); NULL: the program has brought none */
    /* Entries in the table of guard.h, and files: of app_base, vipd_base, recv_base, loan_base. */
    uint32_t guard[SESSION_MAPS];
    struct taken_file *taken[SESSION_MAPS];
    int segment;          /* file of vipd_base; while it is open, vipd holds the file's lock */
    bool claimed;         /* the program opened the NIC in an earlier life of vipd */
    uint64_t past_epoch;  /* the epoch of the life that used the segment before; 0: none */
    bool handed_back;     /* the program may offer vipd's segment again */
    uint64_t start_ticks; /* when the program began (process_start) */
    uint32_t returning;   /* number of its connections that wait to be bound anew */
    bool outlives;        /* when vipd ends, the program waits for the next vipd */
    int doorbell;         /* eventfd; its file is shared with the application */
    int event_sock;       /* vipd's end */
    struct vipd_watch *doorbell_watch, *event_watch;
    struct client_event *events, **events_tail; /* events that wait until event_sock has room */
    uint64_t events_queued;
    uint64_t opened_ns;
    char library_version[CLIENT_PROGRAM_BYTES];
};

/* One connection to the control socket. It has a session once the program has opened a NIC. */
struct client {
    struct client *next, *prev;
    struct vipd *vipd;
    int sock;
    int pidfd; /* pidfd of the program; -1: not available */
    struct vipd_watch *sock_watch, *pid_watch;
    struct turns_user *turns; /* the costs of all requests of the user (turns.h) */
    pid_t pid;
    uid_t uid;
    gid_t gid;
    char program[CLIENT_PROGRAM_BYTES];
    struct session *session; /* NULL before the program opens a NIC */
    bool answering;          /* vipd answers a request: events wait until the reply is sent */
    bool closing;            /* VipCloseNic waits for the end of the session */
    enum client_end end;     /* not NONE: the client has ended, and clients_reap frees it */
};

struct client_listener;

/*
 * Accept clients on a listening non-blocking SEQPACKET socket, which the caller closes later.
 * Outcomes: 0; -ENOMEM; -EMFILE; other negative errno.
 */
int client_listen(struct vipd *vipd, int sock, struct client_listener **ret);
/* Harmless on NULL. */
void client_listener_free(struct client_listener *listener);

/* Take over a connected socket, also on failure. Outcomes: 0; -EDQUOT: the user already has all
 * connections that [limits] allow; -EINPROGRESS: as -EDQUOT, and the socket waits for the
 * undertaker; -EBUSY: as -EINPROGRESS, and too many descriptors of the user wait for the undertaker
 * (undertaker_full); other negative errno. Tests call this function, too. */
int client_new(struct vipd *vipd, int sock);

/*
 * End the connection, from any callback; clients_reap frees the client. detail (may be NULL) is for
 * the log line. Only the reason of the first call counts.
 */
void client_end(struct client *client, enum client_end end, const char *detail);

/* Add an entry about this client to the history (vipd/history.h); vi may be HISTORY_NO_VI. */
void client_note(const struct client *client, enum history_kind kind, bool is_error, uint32_t vi,
                 const char *key, const char *text);

/* Is gid one of the client's groups, as the kernel knew them at connect time? */
bool client_in_group(const struct client *client, uint32_t gid);

/*
 * Free clients that have ended, a bounded part of them in each call. Called as
 * vipd_host_config.between, not from within a function of a NIC or a client. Returns whether a
 * client had ended. If ended clients are left, the control loop makes another pass. O(1) if no
 * client had ended.
 */
bool clients_reap(struct vipd *vipd);

/*
 * End sessions if a page of their memory was missing (vipd/registry/guard.h). While vipd works,
 * look at some of the memory files every 0.1 s, and end sessions of users whose files take more
 * than [limits] register_bytes_per_uid. vipd_host_config.between calls this before clients_reap.
 * Cheap if there is nothing to do.
 */
void clients_memory(struct vipd *vipd, bool worked);

/* The time of the loop that runs now: the control loop, or the loop of the client's NIC. */
uint64_t client_now_ns(const struct client *client);

/* After a reload: end sessions that wait on a discriminator that [listen] now keeps for others. */
void clients_judge(struct vipd *vipd);

/* End and free all clients: vipd stops. */
void clients_shutdown(struct vipd *vipd);

/* A reason as a name ("malformed_message") for counters, and as a sentence for log lines. */
const char *client_end_name(enum client_end end);
const char *client_end_help(enum client_end end);

#endif
