/*
 * The connection manager: makes and ends connections with the connection managers of other vipd.
 * Pure like the engine: no socket, no clock, no payload; randomness comes from a seed. "The host"
 * is the code that calls the manager: vipd/nic/ or the simulator. Memory comes from the host's
 * alloc operation, because the number of requests is limited but not known in advance. One struct
 * cm per NIC.
 *
 * Owns: waiting servers (VipConnectWait) and listeners with a back-log; the messages that make and
 * end a connection, and their repetitions; VIP_NO_MATCH after a short grace; the meeting of
 * peer-to-peer requests; the peers and their keepalive (one per peer host, not per VI). Does not
 * own: data packets and VI state (engine.h), sockets, sessions.
 *
 * Exchange (doc/wire.md):
 *   client                                server
 *   REQUEST (repeated until answered) ->  matched to a waiter, or queued for `grace_ns`
 *                                      <- PENDING (a waiter has it), or NO_MATCH
 *                                      <- ACCEPT (repeated until CONFIRM/CANCEL), or REJECT
 *                                      <- SETUP after each ACCEPT, if both ends know SETUP
 *   CONFIRM or SETUP, or CANCEL if it gave up   ->
 *   CLOSE (repeated until CLOSE_ACK) from either end, for a limited time.
 * If two peer-to-peer requests meet, the connection manager of one end acts as server (cm_match.c).
 */
#ifndef VIPD_ENGINE_CM_H
#define VIPD_ENGINE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/siphash.h"
#include "proto/status.h"
#include "proto/wire.h"

struct cm;
struct cm_conn;
struct cm_loan_terms;

/* Address of a peer: the host part of a VIPL address (for UDP: IPv4 address and port). */
struct cm_host {
    uint8_t len;
    uint8_t bytes[VIP_HOST_ADDR_BYTES_MAX];
};

struct cm_config {
    struct cm_host self;    /* this NIC's address */
    uint8_t source_bytes;   /* this many first bytes of an address name its source (cm_source_of) */
    uint8_t network_bytes;  /* this many first bytes of an address name its network; 0: none */
    uint8_t port_bytes;     /* this many last bytes of an address are its port; 0: no ports */
    struct cm_host local;   /* start of the addresses that every program of this host can use. All
                               these addresses are one source. Length 0: no such addresses */
    uint64_t epoch;         /* this life of vipd, random, not 0 */
    uint64_t features;      /* VIP_FEATURE_* of this vipd; peers get these flags */
    uint64_t seed;          /* for request ids and jitter; from entropy in production */
    uint32_t packet_bytes;  /* largest packet that this NIC accepts */
    uint32_t window_bytes;  /* bytes that a peer may have under way to one connection here */
    uint64_t grace_ns;      /* grace: time for which a request without a waiter is kept (20 ms) */
    uint64_t grace_busy_ns; /* grace if a program waited in the last second (200 ms) */
    uint64_t grace_loop_ns; /* grace if the same server has waited twice in a row (2 s); at
                               least grace_busy_ns */
    uint64_t grace_work_ns; /* grace while the server has an unanswered request (10 s) */
    uint32_t backlog_max;   /* kept requests per discriminator (128) */
    uint32_t waits_max;     /* waits, listeners and unanswered requests of a user; 0 = no limit */
    uint64_t retry_ns;     /* first interval to repeat REQUEST, ACCEPT, CLOSE; it doubles (10 ms) */
    uint64_t retry_max_ns; /* largest interval of repetitions (500 ms) */
    uint64_t accept_timeout_ns; /* no CONFIRM in this time: the accepter gets VIP_TIMEOUT (5 s) */
    uint64_t close_timeout_ns;  /* time for which CLOSE is repeated without CLOSE_ACK (20 s). A peer
                                   that is stopped for longer gets a RESET when it sends again */
    uint64_t keepalive_ns;      /* silence after which a peer with connections gets PINGs (1 s) */
    uint64_t peer_dead_ns;      /* silence after which a peer is dead (10 s), if it answered none of
                                   four PINGs. Time in which vipd did not take packets from the
                                   medium does not count */
    uint64_t outlive_ns; /* if a peer is in a new life, its connections with a secret wait for a
                            REBIND for this time (10 s); 0: they are lost at once. For this time
                            after its start, vipd does not answer REBINDs for unknown connections */
    bool verify_all;     /* every new client must return a cookie first; false only in tests */
};

/*
 * Operations of the host. send, renew, alloc and free must not call the manager (but send may call
 * cm_asker). Every other operation is the last step of handling an event, and may call the manager.
 */
struct cm_ops {
    /* Send one packet of the connection manager (encoded and sealed). It may get lost. */
    void (*send)(void *ctx, const struct cm_host *to, const uint8_t *packet, size_t len_bytes);
    /* Waiter or listener `wait` gets a request. The host answers with cm_accept or cm_reject of
     * `handle`. A waiter gets only one request. data: from the client's application, never NULL. */
    void (*incoming)(void *ctx, uint64_t wait, uint64_t handle, const struct vip_addr *remote,
                     const struct vip_cm_attrs *attrs, const struct vip_private *data);
    /* cm_request ended: rc is SUCCESS, with *conn, or the reason. `user` is from cm_request. data:
     * from the other application's accept, reject or peer request, never NULL. */
    void (*request_done)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                         const struct vip_private *data, const char *why);
    /* cm_accept ended: rc is SUCCESS, with *conn, or the reason (the client gave up, or the time is
     * over). `user` is from cm_accept. */
    void (*accept_done)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                        const char *why);
    /* An established connection was closed by the peer. */
    void (*closed)(void *ctx, uint64_t local_conn_id, const struct vip_cm *close);
    /* The peer of an established connection is dead, or in a new life. If the peer has several
     * connections, each of the next calls of cm_tick reports one more. */
    void (*lost)(void *ctx, uint64_t local_conn_id, const char *why);
    /* The peer does not know this established connection (RESET): treat it as lost. */
    void (*reset)(void *ctx, uint64_t local_conn_id, uint32_t peer);
    /* A peer-to-peer request has lost its match and waits again: set *local_id to a new connection
     * id, because packets with the old id may be under way. *user may change, too. This operation
     * must not call the manager. */
    void (*renew)(void *ctx, uint64_t *user, uint64_t *local_id);
    /* The peer's vipd has ended: pause this established connection. If the peer's next vipd goes
     * on with it, `rebind` follows, otherwise `lost`. This operation must not call the manager. */
    void (*away)(void *ctx, uint64_t local_conn_id);
    void *(*alloc)(void *ctx, size_t bytes); /* zeroed memory; NULL = refused, counted */
    void (*free)(void *ctx, void *memory, size_t bytes);
    /* Return a new connection id for this end of an established connection. The id becomes valid
     * with `rebind`. A later call replaces the id. This operation must not call the manager. */
    uint64_t (*other_id)(void *ctx, uint64_t local_conn_id);
    /* The other end of an established connection goes on with another id or in another life. This
     * end now has the id conn->local_id (from other_id). Pause, set *ours to the counts of this
     * end, bind anew with the peer's counts `theirs`. Return false if the counts `theirs` are
     * impossible; then `lost` follows, with the new id. conn->attrs is not valid. This operation
     * must not call the manager. */
    bool (*rebind)(void *ctx, uint64_t local_conn_id, const struct cm_conn *conn,
                   const struct vip_counts *theirs, struct vip_counts *ours);
    /* cm_rebind ended: rc is SUCCESS, with *conn (without attributes) and the counts of the other
     * end, or the reason. `user` is from cm_rebind. */
    void (*rebound)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                    const struct vip_counts *theirs, const char *why);
    /* User `uid` owns the discriminator from now on. The host may store this for cm_disc_keep in
     * the next life. *record is 0 at first; the host may change it. owned == NULL: no reports. */
    void (*owned)(void *ctx, uint32_t *record, uint32_t uid, const uint8_t *disc, uint8_t len);
    /* The discriminator with this record has no owner any more. cm_deinit does not call this. */
    void (*disowned)(void *ctx, uint32_t record);
    /* LOAN_OFFER for an established connection came, or a copy of it: bind the connection anew with
     * the peer's terms `theirs` (cm_loan.h), and answer by cm_loan_agree. A host that lends nothing
     * sets loan_offered and loan_agreed to NULL; then the manager drops these messages. */
    void (*loan_offered)(void *ctx, uint64_t local_conn_id, const struct cm_loan_terms *theirs);
    /* LOAN_AGREE came, or a copy of it: the answer to this end's LOAN_OFFER with the number
     * `offered`. */
    void (*loan_agreed)(void *ctx, uint64_t local_conn_id, uint32_t offered,
                        const struct cm_loan_terms *theirs);
    /* May this established connection be bound anew now? false: the manager ignores the peer's
     * message, and the peer repeats it. NULL: always. */
    bool (*rests)(void *ctx, uint64_t local_conn_id);
};

/* An established connection. */
struct cm_conn {
    uint64_t local_id, remote_id;
    uint64_t remote_epoch;
    uint32_t packet_bytes;     /* largest packet that both ends accept */
    uint32_t window_bytes;     /* bytes that may be under way to the peer */
    uint32_t peer;             /* peer number: for cm_heard, cm_peer_host */
    uint64_t features;         /* VIP_FEATURE_* that both ends have */
    struct siphash_key secret; /* for cm_rebind; valid with VIP_FEATURE_REBIND */
    bool asked;                /* this end sent the REQUEST */
    struct vip_cm_attrs attrs; /* attributes of the remote VI */
};

size_t cm_bytes(void); /* size of the memory for cm_init; it must be zeroed and 64-byte aligned */
struct cm *cm_init(void *memory, const struct cm_config *config, const struct cm_ops *ops,
                   void *ctx, uint64_t now_ns);
/* Free all objects, without a message to peers. */
void cm_deinit(struct cm *cm);
/* Change this NIC's address and the sizes for later connections. */
void cm_set_medium(struct cm *cm, const struct cm_host *self, uint32_t packet_bytes,
                   uint32_t window_bytes);

/* Set keepalive_ns, peer_dead_ns, accept_timeout_ns, outlive_ns, waits_max, and the features of
 * later connections. A running timer keeps its time. */
void cm_set_config(struct cm *cm, const struct cm_config *config);

/* ---- server side ---- */

/*
 * A discriminator has an owner: the first user whose program waits or listens on it, or makes a
 * peer-to-peer request from it. Other users get -EPERM. The user stays the owner for a second (at
 * most 10 s) after the last of these has ended: a wait, listener or peer-to-peer request of the
 * user; a client's request that a waiter got; a server (session) that got a request on the
 * discriminator, or waited twice on it.
 */

/*
 * VipConnectWait: wait for one request to discriminator disc[0..len-1] (an empty discriminator
 * matches only an empty one). `wait` is the host's number of this wait, `server` the session's
 * number, not 0, `uid` the session's user. If a kept request matches, cm_wait calls `incoming`.
 * Outcomes: 0; -ENOMEM (no memory, or the user's share of waiters is used up); -EINVAL (len);
 * -EPERM (another user owns the discriminator).
 */
int cm_wait(struct cm *cm, uint64_t wait, uint64_t server, uint32_t uid, const uint8_t *disc,
            uint8_t len, uint64_t now_ns);
/* This server (session) has ended. Requests that are kept for this server get NO_MATCH soon. */
void cm_server_gone(struct cm *cm, uint64_t server, uint64_t now_ns);
/* A condition: true or false for a discriminator. */
typedef bool cm_where(void *ctx, const uint8_t *disc, uint8_t len);
/* Is `where` true for a discriminator on which this server has waited and that its user still
 * owns? */
bool cm_serves_where(const struct cm *cm, uint64_t server, cm_where *where, void *ctx);
/* Is `where` true for the local discriminator of peer-to-peer request `user`? */
bool cm_meets_where(struct cm *cm, uint64_t user, cm_where *where, void *ctx);
/*
 * Start a listener: it gets many requests, but at most `backlog` (> 0) of them are unanswered at a
 * time. Further requests are kept, and their clients get PENDING. The outcomes are those of
 * cm_wait. If requests are kept already, the next calls of cm_tick give them to the listener.
 */
int cm_listen(struct cm *cm, uint64_t wait, uint32_t uid, const uint8_t *disc, uint8_t len,
              uint32_t backlog, uint64_t now_ns);
/* Withdraw a waiter or listener; false if the waiter has got its request (`incoming`). Handles of
 * requests that a listener got stay valid. */
bool cm_unwait(struct cm *cm, uint64_t wait, uint64_t now_ns);

/* Does a program wait on this discriminator, or make a peer-to-peer request from it? */
bool cm_disc_in_use(struct cm *cm, const uint8_t *disc, uint8_t len);
/* Does another user than uid own this discriminator? */
bool cm_disc_of_other(struct cm *cm, const uint8_t *disc, uint8_t len, uint32_t uid,
                      uint64_t now_ns);

/*
 * Accept pending request `handle` with connection id local_id. The host must have compared the
 * attributes. data: for the client's application; NULL = none.
 * Outcomes: 0, and accept_done follows later; -ENOENT no such handle; -ETIMEDOUT the client has
 * given up meanwhile (the handle is gone).
 */
int cm_accept(struct cm *cm, uint64_t handle, uint64_t local_id, const struct vip_cm_attrs *attrs,
              const struct vip_private *data, uint64_t user, uint64_t now_ns);
/* Attributes of a pending request, for the comparison; NULL if the handle is unknown. */
const struct vip_cm_attrs *cm_pending_attrs(const struct cm *cm, uint64_t handle);
/* The user of this host whose program sent a pending request. Outcomes: 0; -ENOENT no such handle;
 * -EREMOTE the request came from another host, so its user is not known. */
int cm_pending_user(const struct cm *cm, uint64_t handle, uint32_t *ret_uid);
/* Reject a pending request; code and data (NULL = none) go to the client. Also used for the
 * unanswered requests of a session that has ended. Outcomes: 0; -ENOENT no such handle. */
int cm_reject(struct cm *cm, uint64_t handle, enum vip_rc code, const struct vip_private *data,
              uint64_t now_ns);

/*
 * The host calls this when a data packet arrives for a connection whose accept has no CONFIRM yet.
 * A packet from the client's host and life counts as CONFIRM, and accept_done (peer to peer:
 * request_done) is called. Other packets change nothing. If the client must send a SETUP, no data
 * packet counts as CONFIRM.
 */
void cm_implied_confirm(struct cm *cm, uint64_t local_id, const struct cm_host *from,
                        uint64_t src_epoch, uint64_t now_ns);

/* ---- client side ---- */

struct cm_request_args {
    uint64_t user;       /* the host's number of the request; request_done gets it */
    uint32_t uid;        /* the user whose program asks */
    uint64_t local_id;   /* the connection id that the host has chosen for this VI */
    uint64_t timeout_ns; /* time limit, from now; UINT64_MAX = none */
    /*
     * VipConnectPeerRequest: the request waits until a request of the peer has `local` as its
     * remote address and `remote` as its local address. The manager compares level, MaxTransferSize
     * and QoS. If they differ, both requests end with INVALID_RELIABILITY_LEVEL, INVALID_MTU or
     * INVALID_QOS.
     */
    bool peer_to_peer;
    struct vip_addr local, remote; /* local.host: the address of this NIC as others see it */
    struct vip_cm_attrs attrs;
    struct vip_private data; /* data for the other application */
};
/* Start an attempt. Outcomes: 0, and request_done follows; -ENOMEM; -EINVAL (address length);
 * -EPERM (peer to peer: another user owns the local discriminator). */
int cm_request(struct cm *cm, const struct cm_request_args *args, uint64_t now_ns);
/* Give up a request: request_done does not follow; the server gets CANCEL. False: the request has
 * ended before. */
bool cm_request_cancel(struct cm *cm, uint64_t user, uint64_t now_ns);
/* Set *ret_uid to the user of our request `request_id`; false: no such request is under way. */
bool cm_asker(struct cm *cm, uint64_t request_id, uint32_t *ret_uid);

/* ---- both ---- */

/*
 * Send CLOSE to the peer of a connection, and repeat it until the peer acknowledges it. cm_close
 * also ends an accept that has no CONFIRM yet (VI disconnected, session gone): then it reads only
 * local_id and reason, and no accept_done follows.
 */
struct cm_close_args {
    uint64_t local_id, remote_id;
    uint32_t peer;
    enum vip_close_reason reason;
    bool ops_valid;
    uint32_t ops_done, op_status, failed_op;
};
void cm_close(struct cm *cm, const struct cm_close_args *args, uint64_t now_ns);

/* The host has forgotten an established connection (after cm_close, closed, reset or lost). */
void cm_conn_gone(struct cm *cm, uint64_t local_id, uint32_t peer);

/* A packet of kind VIP_PKT_CM with a correct checksum arrived. Malformed packets are counted and
 * dropped. */
void cm_rx(struct cm *cm, const struct cm_host *from, const uint8_t *packet, size_t len_bytes,
           uint64_t now_ns);

/* A valid data packet of this peer arrived: the peer is alive. O(1); call it once per batch. */
void cm_heard(struct cm *cm, uint32_t peer, uint64_t now_ns);

/*
 * The host has just taken packets from the medium. Call this before cm_rx and cm_heard for these
 * packets. now_ns: the time directly afterwards. It counts as the packets' time of arrival, even if
 * vipd then stands still before cm_rx.
 */
void cm_looked(struct cm *cm, uint64_t now_ns);
/* Call this before cm_tick. behind: the medium may have more packets that vipd has not taken. While
 * this is true, silence of a peer does not count, for at most twice peer_dead_ns. */
void cm_behind(struct cm *cm, bool behind);

/* A data packet from `from` has an unknown conn_id: answer with RESET, rate-limited. */
void cm_unknown_conn(struct cm *cm, const struct cm_host *from, const struct vip_header *hdr,
                     uint64_t now_ns);

/*
 * Send a PING to any host, to learn for user `uid` whether its vipd answers. Returns the number of
 * the question. CM_PROBES_MAX questions are remembered; then a new one replaces the oldest question
 * of the user who has most questions.
 */
#define CM_PROBES_MAX 64
uint64_t cm_probe(struct cm *cm, const struct cm_host *host, uint32_t uid, uint64_t now_ns);
/* Outcomes: 1 (the PING was answered; *ret_rtt_ns and *ret_epoch are set); 0 (not answered yet);
 * -ENOENT (the question is forgotten). */
int cm_probe_result(const struct cm *cm, uint64_t number, uint64_t *ret_rtt_ns,
                    uint64_t *ret_epoch);

/* What vipd knows of the peer with index 0..CM_PEER_INDEXES-1. cm_peer_view false: no such peer. */
#define CM_PEER_INDEXES 4096
struct cm_peer_view {
    struct cm_host host;
    uint64_t epoch;
    uint32_t number;      /* the number that cm_conn.peer has */
    uint32_t connections; /* number of open connections */
    uint64_t heard_ns;    /* time of the peer's last sign of life */
    bool dead;
    bool self;              /* the peer is this NIC: both programs are on this host */
    uint64_t since_ns;      /* when this life became known; if `dead`: when its end became known */
    uint64_t away_until_ns; /* if `dead`: end of the time for a REBIND; 0: no REBIND may come */
    uint64_t told_ns; /* AWAY said that the next vipd comes within this time; 0: no AWAY came */
};
bool cm_peer_view(const struct cm *cm, uint32_t index, struct cm_peer_view *ret);
/* As cm_peer_view, for a peer whose next vipd may still come; false: `number` is no such peer. */
bool cm_peer_away(const struct cm *cm, uint32_t number, struct cm_peer_view *ret);

/* The address of a peer; valid while it has connections. */
const struct cm_host *cm_peer_host(const struct cm *cm, uint32_t peer);

uint64_t cm_deadline(const struct cm *cm); /* time of the next timer; UINT64_MAX = no timer */
/* Fire one timer that is due; false: no timer is due. A call takes little time, so the caller can
 * read the clock between two calls. */
bool cm_tick(struct cm *cm, uint64_t now_ns);

/* Counters and gauges of the manager (proto/stats.def). cm_stats fills them in. */
struct cm_stats {
#define VIP_STAT_OF_CM(member, name) uint64_t member;
#include "proto/stats.def"
};
void cm_stats(const struct cm *cm, struct cm_stats *ret);

#endif
