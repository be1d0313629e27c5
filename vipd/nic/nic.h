/*
 * One NIC of vipd: a link, a connection manager, and the sessions opened on the NIC. The data
 * plane.
 *
 * Owns: the turn (receive packets, take postings, let engines send, place bytes, write completions,
 * wake sleepers), the table of connection ids, loopback between its own sessions, held packets,
 * staged placement, and the shared-memory side of a session.
 * Does not own: sockets of clients and control messages (vipd/client/), the event loop and sleeping
 * (vipd/host.c), protocol rules (vipd/engine/), memory rights (vipd/registry/).
 *
 * Threads: one thread at a time uses a NIC, so nothing is locked. This is the thread of the NIC's
 * loop, or the thread of the control loop while the NIC's loop stands still (vipd/host.h). NICs
 * share nothing with each other. Nothing blocks.
 */
#ifndef VIPD_NIC_NIC_H
#define VIPD_NIC_NIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proto/stats.h"
#include "vipd/engine/cm.h"
#include "vipd/engine/engine.h"
#include "vipd/link/link.h"
#include "vipd/nic/layout.h"
#include "vipd/registry/registry.h"

struct nic;
struct nic_session;
struct nic_loan_terms;

struct nic_config {
    const char *name;         /* "vip0"; copied */
    struct eng_config engine; /* seed is not used: nic_session_new chooses a seed */
    struct cm_config cm;      /* nic_open fills its members up to window_bytes */
    uint64_t epoch, seed;     /* two random numbers */
    uint64_t secret;          /* a random number; vipd discloses neither `secret` nor `seed` */
    uint32_t vi_max, cq_max;  /* most VIs and CQs of a session, <= VIP_VI_MAX, VIP_CQ_MAX */
    uint64_t kept_bytes_user; /* most bytes for descriptors of one user's sessions; 0: no limit */
    bool direct;              /* new connections between programs of this NIC get rings */
    bool latency;             /* measure latencies, in sessions opened from now on */
    bool vi_latency;          /* also measure each VI of these sessions; only with latency */
    uint64_t linger_ns;       /* time for which VipDisconnect lingers; up to 2^32 - 1 ms */
    /* Most moves per second of data paths between vipd and programs: of a connection (0: 10), and
     * of the connections of a user together (0: no limit). */
    uint32_t loan_moves, loan_moves_user;
    uint8_t without; /* VIP_FEATURE_* that vipd hides; 0 except in tests of older versions */
    /* VIP_FEATURE_REBIND if connections outlive vipd, VIP_FEATURE_LOAN if vipd lends them; tests
     * add other bits. A NIC that cannot lend ignores VIP_FEATURE_LOAN. */
    uint64_t more;
    /* Reads the present time, to measure when the link gets packets and how long a turn takes.
     * NULL: vipd uses the time at which the turn began. It then neither limits turns nor divides
     * time. */
    uint64_t (*clock)(void);
    uint64_t (*cpu_clock)(void);     /* reads the calling thread's processor time; NULL: `clock` */
    const struct nic_owners *owners; /* NULL: nobody records the owners */
    void *owners_ctx;
};

/* Records the owners of a NIC's discriminators, as cm_ops.owned and .disowned. Called on the NIC's
 * thread. */
struct nic_owners {
    void (*owned)(void *ctx, const char *nic, uint32_t *record, uint32_t uid, const uint8_t *disc,
                  uint8_t len);
    void (*disowned)(void *ctx, uint32_t record);
};

/* Make a NIC with an open link, which nic_close closes. Outcomes: 0; -ENOMEM. */
int nic_open(const struct nic_config *config, struct link *link, uint64_t now_ns, struct nic **ret);
/* Apply a reload of the configuration. Times of the connection manager, linger_ns, direct, more,
 * kept_bytes_user and loan_moves_user apply at once. loan_moves applies to new connections. engine, latency, vi_latency, vi_max and cq_max apply to sessions
 * opened from now on. All other members are ignored. */
void nic_set_config(struct nic *nic, const struct nic_config *config);
/* vipd stops: sessions that end from now on close their connections with VIP_CLOSE_SHUTDOWN. */
void nic_stopping(struct nic *nic);
/* Close the link and free everything. All sessions must have ended; nic_session_end has sent their
 * CLOSE messages. */
void nic_close(struct nic *nic, uint64_t now_ns);
/* ---- the turn -------------------------------------------------------------------------- */

/*
 * Do a bounded amount of work, at most about 1 ms: one receive batch, postings of the ready
 * sessions, transmit batches, expired timers. Outcome: true: some work was done, or is left to do,
 * so call again at once; false: there was no work.
 */
bool nic_turn(struct nic *nic, uint64_t now_ns);
/* Earliest time at which nic_turn must run although no input has come; UINT64_MAX: no such time. */
uint64_t nic_deadline(const struct nic *nic);
/*
 * Call nic_try_sleep before sleeping. It publishes "asleep" to every session, executes a full
 * barrier, and looks for work once more. Outcome: true: there is no work, and the caller may sleep
 * on nic_fd, the sessions' bells and the deadline; false: there is work, and "asleep" is withdrawn.
 * Call nic_awake after a sleep: it withdraws "asleep".
 */
bool nic_try_sleep(struct nic *nic);
void nic_awake(struct nic *nic);
/* File descriptor that becomes readable when packets wait; -1 if the link has none. */
int nic_fd(const struct nic *nic);
/* ---- sessions -------------------------------------------------------------------------- */

/* Functions that report to the owner of a session. Any function of the NIC may call them. They must
 * not call functions of the NIC, except nic_vi_identify. */
struct nic_sink {
    /* A connection request. data: private data of the client, never NULL. */
    void (*incoming)(void *ctx, uint64_t wait_id, uint64_t conn_handle,
                     const struct vip_addr *remote, const struct vip_cm_attrs *attrs,
                     const struct vip_private *data);
    /* A nic_accept or nic_connect has ended. attrs: attributes of the remote VI if rc is
     * SUCCESS, else NULL. data: private data of the side that accepted or rejected a
     * nic_connect, else NULL. */
    void (*result)(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                   const struct vip_cm_attrs *attrs, const struct vip_private *data,
                   const char *why);
    void (*error)(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                  uint32_t generation, uint32_t opcode, const char *why);
    /* vipd has written bytes for a staged region into its "in" half: place them. The owner answers
     * with nic_placed, in order. */
    void (*place)(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes);
    /* vipd needs bytes of a staged region in its "out" half. The owner answers with nic_placed, in
     * one common order with the answers to `place`. */
    void (*fetch)(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes);
    /* There is a ring between this VI and its peer; fd is its file, which the NIC closes. Returns
     * whether the program gets the ring. If this member is NULL, the session has no rings. */
    bool (*direct)(void *ctx, uint16_t vi, uint32_t gen, uint32_t first, unsigned half, int fd);
    /* A connection of an earlier life was bound anew (why: NULL), or is lost (why: the reason). Not
     * called for connections that nic_vi_restore restored as lost, nor in nic_session_end. This
     * member may be NULL. */
    void (*rebound)(void *ctx, uint16_t vi, const char *why);
    /* The connection of a VI is now on loan, with these terms; the program may enter the loan when
     * it has them. Not called in a session without nic_session_set_loans. */
    void (*lent)(void *ctx, const struct nic_loan_terms *terms);
    /* The VI's loan is over: vipd has taken it back, or the connection ends. `lent` may follow. */
    void (*lent_over)(void *ctx, uint16_t vi, uint32_t generation);
    /* The session has become broken: end it. If this member is NULL, the owner must poll
     * nic_session_broken. */
    void (*broken)(void *ctx);
    /* Called once after nic_session_tell_resumed: the session is not throttled any more. */
    void (*resumed)(void *ctx);
};

struct nic_session_args {
    uint64_t id;                     /* number of the session in views and logs */
    uint32_t uid;                    /* the user that owns the session */
    const struct nic_layout *layout; /* layout of the two segments, not NULL */
    void *app_base;                  /* app-writes segment, mapped read-only */
    void *vipd_base;      /* vipd-writes segment, mapped writable; zeroed, or of an earlier life */
    uint32_t sq_position; /* of the first posting in the submission ring; 0: the ring is new */
    struct registry *registry; /* the session's registry; the caller frees it after the session */
    const struct nic_sink *sink;
    void *ctx; /* for the sink */
};

/* Make a session, and fill the header of its vipd-writes segment. Outcomes: 0; -ENOMEM. */
int nic_session_new(struct nic *nic, const struct nic_session_args *args, uint64_t now_ns,
                    struct nic_session **ret);
/* base: the caller's mapping of the table of receive descriptors (proto/direct.h), which the
 * session uses from now on. Outcomes: 0; -EBUSY: the session has a table already, or has had a
 * VI. */
int nic_session_set_receives(struct nic_session *session, void *base);
/* The application closed the NIC or died. The sink is not called any more. All waits are withdrawn.
 * Then requests are rejected, VIs end with a CLOSE to their peers (DISCONNECT or DEATH; SHUTDOWN if
 * vipd stops), and memory is freed. One call does at most *ends of these steps, and reduces *ends
 * by the number of steps done. true: the session is freed. false: *ends is 0 and steps are left:
 * call nic_session_end again after a turn. */
bool nic_session_end(struct nic_session *session, bool died, uint64_t now_ns, unsigned *ends);
void nic_session_free(struct nic_session *session, bool died, uint64_t now_ns); /* in one call */
/*
 * Has vipd found a structure in the submission ring that no correct library writes? (A malformed
 * descriptor alone does not count.) If so, vipd does not read the ring any more, and the caller
 * should end the session. O(1).
 */
bool nic_session_broken(const struct nic_session *session);
struct nic_vi_args {
    struct eng_vi_attrs attrs;
    uint64_t qos;
    uint32_t ptag;            /* 0 = none */
    int32_t send_cq, recv_cq; /* CQ number or -1 */
};
struct nic_vi_created {
    uint16_t vi;
    uint32_t generation, send_position, recv_position;
};
/* SUCCESS; ERROR_RESOURCE (vi_max, memory); INVALID_PARAMETER (no such CQ); INVALID_PTAG;
 * INVALID_RELIABILITY_LEVEL; INVALID_MTU. `why` explains a failure. */
enum vip_rc nic_vi_create(struct nic_session *session, const struct nic_vi_args *args,
                          struct nic_vi_created *ret, char *why, size_t why_bytes);
/* SUCCESS; INVALID_PARAMETER (no such VI); INVALID_STATE (not Idle); ERROR_RESOURCE (descriptors
 * have not completed yet). While the program has not reaped all completed descriptors, libvipl does
 * not call this. */
enum vip_rc nic_vi_destroy(struct nic_session *session, uint32_t vi, uint64_t now_ns);
/* SUCCESS; INVALID_PARAMETER (no such VI); INVALID_STATE (not Idle); INVALID_PTAG;
 * INVALID_RELIABILITY_LEVEL; INVALID_MTU. The CQs of the VI stay as they are. */
enum vip_rc nic_vi_set_attrs(struct nic_session *session, uint32_t vi,
                             const struct nic_vi_args *args);
/* First take all earlier postings, then flush the queues; the VI becomes Idle. SUCCESS for every VI
 * that exists; INVALID_PARAMETER (no such VI). */
enum vip_rc nic_vi_disconnect(struct nic_session *session, uint32_t vi, uint64_t now_ns);

enum vip_rc nic_cq_create(struct nic_session *session, uint64_t entries, uint32_t *ret_cq,
                          uint32_t *ret_position, char *why, size_t why_bytes);
/* Number of completions that were ever written for this queue, modulo 2^32. The VI must exist. */
uint32_t nic_vi_completions(const struct nic_session *session, uint16_t vi, enum vip_queue queue);
/* SUCCESS; INVALID_PARAMETER (no such CQ); ERROR_RESOURCE (a VI is bound to the CQ). */
enum vip_rc nic_cq_destroy(struct nic_session *session, uint32_t cq);
enum vip_rc nic_cq_resize(struct nic_session *session, uint32_t cq, uint64_t entries);
/* Most CQs of one session that may have a socket: each socket is a file descriptor of vipd. */
#define NIC_CQ_SOCKS_MAX 64
/*
 * VipxCQGetFd. sock: one end of a SEQPACKET pair; the NIC closes it, even after a failure. vipd
 * sends a message through sock when the CQ has entries and the application has armed the CQ.
 * SUCCESS; INVALID_PARAMETER; ERROR_RESOURCE (the CQ has a socket already, or NIC_CQ_SOCKS_MAX CQs
 * of the session have one).
 */
enum vip_rc nic_cq_set_socket(struct nic_session *session, uint32_t cq, int sock);
/* VipConnectWait. *ret_wait: the number of the wait. immediate: withdraw the wait at once if no
 * kept request matches. *ret_found: was sink.incoming called? SUCCESS; ERROR_RESOURCE (too many
 * waits; or another user owns the discriminator, see cm.h): why explains. */
enum vip_rc nic_connect_wait(struct nic_session *session, const struct vip_addr *local,
                             bool immediate, uint64_t now_ns, uint64_t *ret_wait, bool *ret_found,
                             char *why, size_t why_bytes);
/* Withdraw a VipConnectWait. *ret_found: true if it is too late, because the wait has received a
 * request. SUCCESS; INVALID_PARAMETER (no such wait). */
enum vip_rc nic_connect_wait_cancel(struct nic_session *session, uint64_t wait_id, uint64_t now_ns,
                                    bool *ret_found);
/*
 * A listener: vipd calls sink.incoming for every request to the discriminator. At most `backlog`
 * requests (limited to 1..NIC_BACKLOG_MAX) are unanswered at a time; further requests wait.
 * Outcomes as nic_connect_wait.
 */
#define NIC_BACKLOG_MAX 1024
enum vip_rc nic_listen(struct nic_session *session, const struct vip_addr *local, uint32_t backlog,
                       uint64_t now_ns, uint64_t *ret_wait, char *why, size_t why_bytes);
/* Does `where` return true for a discriminator on which the session waits, has waited, listens or
 * connects peer to peer? */
bool nic_session_waits_where(const struct nic_session *session,
                             bool (*where)(void *ctx, const uint8_t *disc, uint8_t len), void *ctx);
/* Close a listener. *ret_delivered: number of requests that it delivered; their handles stay valid.
 * SUCCESS; INVALID_PARAMETER (no such listener). */
enum vip_rc nic_listen_close(struct nic_session *session, uint64_t wait_id, uint64_t now_ns,
                             uint64_t *ret_delivered);
/* A new random number; its 8 bytes (little-endian) are no discriminator in use on this NIC.
 * Programs and other hosts cannot guess it. */
uint64_t nic_new_discriminator(struct nic *nic);
/*
 * Accept a request. SUCCESS: the accept is under way, and sink.result follows; INVALID_PARAMETER
 * (handle, VI); INVALID_STATE; INVALID_RELIABILITY_LEVEL, INVALID_MTU, INVALID_QOS (attributes
 * differ; the handle stays valid); TIMEOUT (the client gave up; the handle is invalid). data: for
 * the client, may be NULL.
 */
enum vip_rc nic_accept(struct nic_session *session, uint64_t conn_handle, uint32_t vi,
                       const struct vip_private *data, uint64_t now_ns, char *why,
                       size_t why_bytes);
/* The local user that made a connection request which this session has received. SUCCESS;
 * INVALID_PARAMETER (no such request); ERROR_NOT_SUPPORTED (the request is of another host). */
enum vip_rc nic_request_user(const struct nic_session *session, uint64_t conn_handle,
                             uint32_t *ret_uid);
enum vip_rc nic_reject(struct nic_session *session, uint64_t conn_handle,
                       const struct vip_private *data, uint64_t now_ns);
struct nic_connect_args {
    struct vip_addr local, remote; /* the host part of local is ignored */
    uint64_t timeout_ns;           /* UINT64_MAX = for ever */
    bool peer_to_peer;             /* VipConnectPeerRequest */
    struct vip_private data;       /* private data for the other side */
};
/* SUCCESS: the connect is under way, the VI is Connect Pending, and sink.result follows. */
enum vip_rc nic_connect(struct nic_session *session, uint32_t vi,
                        const struct nic_connect_args *args, uint64_t now_ns, char *why,
                        size_t why_bytes);
/* Give up a nic_connect: no result follows. SUCCESS; INVALID_PARAMETER (no such VI); INVALID_STATE
 * (the nic_connect has ended already). */
enum vip_rc nic_connect_cancel(struct nic_session *session, uint32_t vi, uint64_t now_ns);
/*
 * The library has copied all staged ranges up to `number`. good: false if some bytes of the ranges
 * since the last answer could not be copied to or from the program's memory. The next turns process
 * the packets of these ranges. Returns false if no range with this number is under way: then end
 * the session.
 */
bool nic_placed(struct nic_session *session, uint64_t number, bool good, uint64_t now_ns);

/* ---- views ----------------------------------------------------------------------------- */

/* Calls back for the peer of every established connection from table index `from` on. The peer is
 * another host or this NIC; visit may get the same peer several times. Returns the index to go on
 * with; UINT32_MAX: no more. */
uint32_t nic_peers(const struct nic *nic, uint32_t from,
                   bool (*visit)(void *ctx, const struct link_addr *peer), void *ctx);

/* Ask the hosts on the medium for the address of the host `name`. Outcomes as link_class.find. */
int nic_find(struct nic *nic, const char *name, uint64_t now_ns, struct link_addr *ret);
/* Ask the host with this address for its name. Outcomes as link_class.name_of. */
int nic_host_name(struct nic *nic, const struct link_addr *host, uint64_t now_ns,
                  char ret[LINK_NAME_BYTES]);
/* Calls back, as link_class.known, for hosts whose answer to nic_find or nic_host_name is valid. */
uint32_t nic_known(const struct nic *nic, uint32_t from, uint64_t now_ns, link_visit_fn *visit,
                   void *ctx);

/* Visit, or remember, addresses of other hosts on further paths, as link_class.visit_paths and
 * .remember_path. */
void nic_visit_paths(const struct nic *nic, link_path_fn *visit, void *ctx);
void nic_remember_path(struct nic *nic, const struct link_addr *host, unsigned path,
                       const struct link_addr *addr);

/* A latency histogram of all times measured since the NIC was opened. */
const struct vip_hist *nic_hist(const struct nic *nic, enum vip_hist_id id);
void nic_gap(struct nic *nic, uint64_t gap_ns); /* add a time without a turn to VIP_HIST_turn_gap */

const char *nic_name(const struct nic *nic);
const struct link *nic_link(const struct nic *nic);

struct nic_counter {
    enum vip_stat id; /* its meaning is in proto/stats.def */
    const char *name; /* static */
    uint64_t value;
};
/* Calls back for every counter of the NIC: packets, drops by reason, CM, link, faults, loopback. */
void nic_counters(const struct nic *nic, void (*visit)(void *ctx, const struct nic_counter *c),
                  void *ctx);

/* What a connection waits for before it can be bound anew. */
enum nic_wait {
    NIC_WAIT_NONE,
    NIC_WAIT_PROGRAM, /* the program's request to bind it anew */
    NIC_WAIT_ANSWER,  /* the other end's answer */
    NIC_WAIT_PEER,    /* the next vipd of the peer */
};
struct nic_binding_view {
    enum nic_wait wait;
    uint32_t rebound;  /* how often this vipd has bound the connection anew */
    uint64_t since_ns; /* when the connection was bound last, or began to wait; 0: not connected */
    uint64_t until_ns; /* when the wait ends; 0: not known */
    uint64_t told_ns;  /* NIC_WAIT_PEER: the peer said it returns within this time; 0: it did not */
};
struct nic_vi_view {
    uint16_t vi;
    uint32_t generation;
    enum vip_vi_state state;
    uint16_t level;
    uint32_t ptag;
    struct cm_host peer; /* len 0 if not connected */
    uint8_t peer_disc_len;
    struct eng_vi_stats stats;
    const struct eng_latency *latency; /* NULL: vipd does not measure this VI by itself */
    struct nic_binding_view binding;
};
/* Calls back for every VI of a session with number >= from, until visit returns false. */
void nic_session_vis(const struct nic_session *session, uint32_t from,
                     bool (*visit)(void *ctx, const struct nic_vi_view *view), void *ctx);

struct nic_session_view {
    uint32_t vis, cqs;
    uint32_t waits;    /* waits, listeners, unanswered requests, and own peer-to-peer requests */
    uint32_t connects; /* connections that are not established yet */
    uint32_t loans;    /* connections for which vipd has a socket of the program */
};
void nic_session_view(const struct nic_session *session, struct nic_session_view *ret);

#endif
