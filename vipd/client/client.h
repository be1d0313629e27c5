/*
 * Applications and tools connected to vipd: their control sockets, their sessions, their end.
 *
 * Owns: accepting, identity (from the kernel, at connect time), the set-up of a session's segments,
 * one function per control message, events for the application, and the clean end of a connection
 * whatever its reason. Does not own: the data plane (vipd/nic/nic.h), memory rights
 * (vipd/registry/), views (vipd/ctl/), the loop (vipd/loop.h).
 *
 * Nothing here blocks, and no client can make another one wait: vipd ends the session of a program
 * that does not read its messages. A client is never freed from within its own callbacks or the
 * NIC's: client_end marks it, clients_reap frees it.
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

/* One event that did not fit into its socket yet. */
struct client_event {
    struct client_event *next;
    uint32_t len;
    bool place; /* a part of a message, which the program is to copy */
    uint8_t bytes[];
};

/* A NIC opened by an application. */
struct session {
    uint64_t id;
    unsigned nic; /* index into vipd->nics */
    struct nic_session *nic_session;
    struct registry *registry;
    const struct nic_layout *layout; /* of the two segments */
    void *app_base, *vipd_base;      /* NULL if not mapped */
    void *recv_base;   /* table of receives (proto/direct.h), NULL if the library has none */
    uint32_t guard[3]; /* numbers of these three mappings in the table of guard.h */
    struct taken_file *taken[3]; /* the files of these three, which the program may keep */
    int segment;                 /* file of vipd_base: open as long as its lock is held */
    bool claimed;                /* opened in an earlier life of vipd */
    uint64_t past_epoch;         /* that life; 0: this session has not taken its segment over */
    bool handed_back;            /* the program may offer vipd's segment once more */
    uint64_t start_ticks;        /* when the program began (process_start) */
    uint32_t returning;          /* its connections that are counted as waiting (return_waits) */
    bool outlives;               /* its program waits for the next vipd ([reliability] outlive) */
    int doorbell;                /* eventfd; its file is shared with the application */
    int event_sock;              /* vipd's end */
    struct vipd_watch *doorbell_watch, *event_watch;
    struct client_event *events, **events_tail; /* waiting to be sent */
    uint64_t events_queued;
    uint64_t opened_ns;
    char library_version[CLIENT_PROGRAM_BYTES];
};

/* One connection to the application socket. It has a session once the program has opened a NIC. */
struct client {
    struct client *next, *prev;
    struct vipd *vipd;
    int sock;
    int pidfd; /* -1 if the kernel gave none */
    struct vipd_watch *sock_watch, *pid_watch;
    struct turns_user *turns; /* turns of its user */
    pid_t pid;
    uid_t uid;
    gid_t gid;
    char program[CLIENT_PROGRAM_BYTES];
    struct session *session; /* NULL before the program opens a NIC */
    bool answering;          /* a request is being answered: events wait for its reply */
    bool closing;            /* VipCloseNic waits for the end of the session */
    enum client_end end;     /* not NONE: it has ended, and clients_reap frees it */
};

struct client_listener;

/*
 * Accept clients on a listening non-blocking SEQPACKET socket, which stays the caller's.
 * Outcomes: 0; -ENOMEM, -EMFILE.
 */
int client_listen(struct vipd *vipd, int sock, struct client_listener **ret);
/* Harmless on NULL. */
void client_listener_free(struct client_listener *listener);

/* Take over a connected socket, also on failure. Outcomes: 0; -EDQUOT: its user already has all
 * connections that [limits] allow; -EINPROGRESS: the same, and the socket waits for the undertaker;
 * -EBUSY: the same, and too many descriptors of the user wait there (undertaker_full); other
 * negative errno. Tests call it, too. */
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
 * Free clients that have ended, a bounded part of them at a time. Called as
 * vipd_host_config.between, not from within a function of a NIC or a client. Returns whether a
 * client had ended. If some are left, it makes the control loop do another pass. O(1) if no client
 * had ended.
 */
bool clients_reap(struct vipd *vipd);

/*
 * End sessions if a page of their memory was missing (vipd/registry/guard.h). While vipd works,
 * look at some of the memory files every 0.1 s, and end sessions of users whose files take more
 * than [limits] register_bytes_per_uid. Called before clients_reap, from the same place. Cheap if
 * there is nothing to do.
 */
void clients_memory(struct vipd *vipd, bool worked);

/* The time of the loop that runs now: the control loop, or the loop of the client's NIC. */
uint64_t client_now_ns(const struct client *client);

/* After a reload: end sessions that wait on a discriminator that [listen] now keeps for others. */
void clients_judge(struct vipd *vipd);

/* End and free all clients: vipd stops. */
void clients_shutdown(struct vipd *vipd);

/* "malformed_message" etc., for counters, and a sentence for log lines. */
const char *client_end_name(enum client_end end);
const char *client_end_help(enum client_end end);

#endif
