/*
 * Connection management between daemons: which program may connect to which. Pure like the engine:
 * no socket, no clock, no payload; randomness is a seeded object. Memory comes from the host's
 * alloc operation, because the number of requests is limited but not known in advance.
 *
 * Owns: waiting servers (VipConnectWait) and listeners with a back-log, the reliable
 * request/accept/confirm/close exchange, quick VIP_NO_MATCH with a short grace for busy servers,
 * peer-to-peer requests that meet each other, duplicate suppression, peers and whether they are
 * alive (keepalive per peer host, not per VI).
 * Does not own: data packets and VI state (engine.h), sockets, sessions. One struct cm per NIC.
 *
 * Exchange (doc/wire.md):
 *   client                                server
 *   REQUEST (repeated until answered) ->  matched to a waiter, or queued for `grace_ns`
 *                                      <- PENDING (a waiter has it), or NO_MATCH
 *                                      <- ACCEPT (repeated until CONFIRM/CANCEL), or REJECT
 *                                      <- SETUP behind each ACCEPT, if both ends know SETUP
 *   CONFIRM or SETUP, or CANCEL if it gave up   ->
 *   CLOSE (repeated until CLOSE_ACK) from either side, bounded tries.
 * Of two peer-to-peer requests that meet, one side's manager plays the server (cm_match.c).
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

/* Where a peer is reached: the host part of a VIPL address (for UDP: IPv4 address and port). */
struct cm_host {
    uint8_t len;
    uint8_t bytes[VIP_HOST_ADDR_BYTES_MAX];
};

struct cm_config {
    struct cm_host self;  /* this NIC's address */
    uint8_t source_bytes; /* bytes at the start of an address that name its source (cm_source_of) */
    uint8_t network_bytes;  /* of these, bytes that name the network of a source; 0: no networks */
    uint8_t port_bytes;     /* bytes of the port at the end of an address; 0: addresses have none */
    struct cm_host local;   /* start of the addresses that every program of this host can use; they
                               are one source together. Length 0: there are no such addresses */
    uint64_t epoch;         /* this life of vipd, random, not 0 */
    uint64_t features;      /* VIP_FEATURE_* of this vipd; the manager tells them to its peers */
    uint64_t seed;          /* for request ids and jitter; from entropy in production */
    uint32_t packet_bytes;  /* largest packet this NIC takes */
    uint32_t window_bytes;  /* bytes that a peer may have under way to one connection here */
    uint64_t grace_ns;      /* a request without a waiter is kept for this time (20 ms) */
    uint64_t grace_busy_ns; /* the same where a waiter was seen within the last second (200 ms) */
    uint64_t grace_loop_ns; /* the same if an open server has waited twice in a row (2 s);
                               grace_busy_ns at least */
    uint64_t grace_work_ns; /* the same while the server has an unanswered request (10 s) */
    uint32_t backlog_max;   /* requests kept per discriminator (128) */
    uint32_t waits_max;     /* of one user: waits, listeners, unanswered requests; 0 = no limit */
    uint64_t retry_ns; /* first repetition of REQUEST, ACCEPT, CLOSE; doubles, + jitter (10 ms) */
    uint64_t retry_max_ns;      /* ceiling of the doubling (500 ms) */
    uint64_t accept_timeout_ns; /* ACCEPT without CONFIRM: VIP_TIMEOUT for the accepter (5 s) */
    uint64_t close_timeout_ns;  /* how long CLOSE is repeated without CLOSE_ACK (20 s). A peer that
                                    stands still for longer learns of the end only when it sends */
    uint64_t keepalive_ns;      /* silence after which a peer with connections is pinged (1 s) */
    uint64_t peer_dead_ns;      /* silence after which a peer is dead (10 s), if four PINGs in this
                                   silence stayed unanswered; time in which vipd did not look does
                                   not count */
    uint64_t outlive_ns; /* a connection with a secret waits for this time for a REBIND of a peer in
                            a new life (10 s); 0: it is lost at once. For this time after its start
                            a manager does not answer REBINDs for unknown connections */
    bool verify_all;     /* every new client must return a cookie first; false only in tests */
};

/*
 * Operations of the host. send, renew, alloc and free must not call the manager (but send may call
 * cm_asker). Every other operation is the last step of handling an event, and may call the manager.
 */
struct cm_ops {
    /* Send one CM packet (already encoded and sealed). Loss is allowed. */
    void (*send)(void *ctx, const struct cm_host *to, const uint8_t *packet, size_t len_bytes);
    /* A request was matched to `wait`; answer with cm_accept or cm_reject of `handle`. A waiter is
     * used up, a listener is not. data: from the client's application, never NULL. */
    void (*incoming)(void *ctx, uint64_t wait, uint64_t handle, const struct vip_addr *remote,
                     const struct vip_cm_attrs *attrs, const struct vip_private *data);
    /* cm_request ended: rc SUCCESS with *conn, or the reason. `user` is cm_request's. data: from
     * the other application's accept, reject or peer request, never NULL. */
    void (*request_done)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                         const struct vip_private *data, const char *why);
    /* cm_accept ended likewise (CONFIRM came, the client gave up, or time ran out). */
    void (*accept_done)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                        const char *why);
    /* An established connection was closed by the peer. */
    void (*closed)(void *ctx, uint64_t local_conn_id, const struct vip_cm *close);
    /* The peer of an established connection is dead, or in a new life. Called for one connection of
     * the peer at a time; later calls of cm_tick continue with the others. */
    void (*lost)(void *ctx, uint64_t local_conn_id, const char *why);
    /* The peer does not know this established connection (RESET): treat it as lost. */
    void (*reset)(void *ctx, uint64_t local_conn_id, uint32_t peer);
    /* A peer-to-peer request has lost its match and waits again: give it another connection id,
     * because packets with the old one may be under way. *user may change too. Must not call the
     * manager. */
    void (*renew)(void *ctx, uint64_t *user, uint64_t *local_id);
    /* The peer's vipd has ended, and the next one goes on with this established connection
     * (`rebind`), or `lost` follows: pause. Must not call the manager. */
    void (*away)(void *ctx, uint64_t local_conn_id);
    void *(*alloc)(void *ctx, size_t bytes); /* zeroed; NULL = refused, counted */
    void (*free)(void *ctx, void *memory, size_t bytes);
    /* Another connection id for this end of an established connection. It takes effect with
     * `rebind`; another call makes it void. Must not call the manager. */
    uint64_t (*other_id)(void *ctx, uint64_t local_conn_id);
    /* The other end of an established connection goes on under another id or in another life, and
     * this end under the id conn->local_id (other_id): pause, fill in *ours, bind anew with
     * `theirs`. False: `theirs` cannot be; `lost` follows, with the new id. Must not call the
     * manager. Attributes of `conn` are not valid. */
    bool (*rebind)(void *ctx, uint64_t local_conn_id, const struct cm_conn *conn,
                   const struct vip_counts *theirs, struct vip_counts *ours);
    /* cm_rebind ended: rc SUCCESS with *conn (without attributes) and the counts of the other end;
     * or the reason. `user` is cm_rebind's. */
    void (*rebound)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                    const struct vip_counts *theirs, const char *why);
    /* A discriminator has this owner from now on, for cm_disc_keep in the next life. *record is the
     * host's; it is 0 at first. NULL: the host does not want to know. */
    void (*owned)(void *ctx, uint32_t *record, uint32_t uid, const uint8_t *disc, uint8_t len);
    /* The discriminator with this record has no owner any more. Not called by cm_deinit. */
    void (*disowned)(void *ctx, uint32_t record);
};

/* An established connection, as both sides learn it. */
struct cm_conn {
    uint64_t local_id, remote_id;
    uint64_t remote_epoch;
    uint32_t packet_bytes;     /* largest packet that both ends take */
    uint32_t window_bytes;     /* bytes that the peer lets us have under way */
    uint32_t peer;             /* peer number: for cm_heard, cm_peer_host */
    uint64_t features;         /* VIP_FEATURE_* that both ends have */
    struct siphash_key secret; /* with VIP_FEATURE_REBIND: for cm_rebind */
    bool asked;                /* this end sent the REQUEST */
    struct vip_cm_attrs attrs; /* of the remote VI */
};

size_t cm_bytes(void); /* memory for a cm, zeroed, 64-byte aligned */
struct cm *cm_init(void *memory, const struct cm_config *config, const struct cm_ops *ops,
                   void *ctx, uint64_t now_ns);
/* Free everything; sends nothing. */
void cm_deinit(struct cm *cm);
/* The medium has another own address or other sizes now; existing connections stay as they are. */
void cm_set_medium(struct cm *cm, const struct cm_host *self, uint32_t packet_bytes,
                   uint32_t window_bytes);

/* Set keepalive_ns, peer_dead_ns, accept_timeout_ns, outlive_ns, waits_max, and the features of later
 * connections. A running timer keeps its time. */
void cm_set_config(struct cm *cm, const struct cm_config *config);

/* ---- server side ---- */

/*
 * A discriminator has an owner: the first user with a program that waits or listens on it, or has
 * it as the local discriminator of a peer-to-peer request. Other users get -EPERM. The user owns it
 * for a second (10 s at most) after the last of these has ended: such a wait, listener or request;
 * a request that was taken there and is not answered; an open server that took a request or waited
 * twice there.
 */

/*
 * VipConnectWait: wait for one request to discriminator disc[0..len-1] (an empty discriminator
 * matches only an empty one). `wait` is the host's number of this wait, `server` the session's
 * number, not 0, `uid` the session's user. If a kept request matches, `incoming` is called at once,
 * from within.
 * Outcomes: 0; -ENOMEM (no memory, or the user's share of waiters is used up); -EINVAL (len);
 * -EPERM (another user owns the discriminator).
 */
int cm_wait(struct cm *cm, uint64_t wait, uint64_t server, uint32_t uid, const uint8_t *disc,
            uint8_t len, uint64_t now_ns);
/* This server has ended. It will not wait again, so no request is kept for it any longer. */
void cm_server_gone(struct cm *cm, uint64_t server, uint64_t now_ns);
/* A test of a discriminator. */
typedef bool cm_where(void *ctx, const uint8_t *disc, uint8_t len);
/* Is `where` true of a discriminator on which this server has waited, and which its user still
 * owns? */
bool cm_serves_where(const struct cm *cm, uint64_t server, cm_where *where, void *ctx);
/* Is `where` true of the local discriminator of peer-to-peer request `user`? */
bool cm_meets_where(struct cm *cm, uint64_t user, cm_where *where, void *ctx);
/*
 * A listener: like a waiter that is not used up. At most `backlog` (> 0) of its requests are
 * unanswered; further requests wait, and their clients get PENDING. Outcomes as cm_wait. The
 * listener gets kept requests in the next calls of cm_tick.
 */
int cm_listen(struct cm *cm, uint64_t wait, uint32_t uid, const uint8_t *disc, uint8_t len,
              uint32_t backlog, uint64_t now_ns);
/* Withdraw a waiter or listener; false if the waiter is used up (its `incoming` was called).
 * Handles of requests that a listener got stay valid. */
bool cm_unwait(struct cm *cm, uint64_t wait, uint64_t now_ns);

/* Does a program wait on this discriminator, or has a peer-to-peer request it as its local one? */
bool cm_disc_in_use(struct cm *cm, const uint8_t *disc, uint8_t len);
/* Does another user than uid own this discriminator? */
bool cm_disc_of_other(struct cm *cm, const uint8_t *disc, uint8_t len, uint32_t uid,
                      uint64_t now_ns);

/*
 * Accept pending request `handle` under connection id local_id. accept_done follows later. data: to
 * the client's application; NULL = none.
 * Outcomes: 0 under way; -ENOENT no such handle; -ETIMEDOUT the client has given up meanwhile
 * (the handle is gone). The host has compared attributes before.
 */
int cm_accept(struct cm *cm, uint64_t handle, uint64_t local_id, const struct vip_cm_attrs *attrs,
              const struct vip_private *data, uint64_t user, uint64_t now_ns);
/* Attributes of a pending request, for the comparison; NULL if the handle is unknown. */
const struct vip_cm_attrs *cm_pending_attrs(const struct cm *cm, uint64_t handle);
/* The user of this host that a pending request came from. Outcomes: 0; -ENOENT no such handle;
 * -EREMOTE it came from another host, and its user is not known. */
int cm_pending_user(const struct cm *cm, uint64_t handle, uint32_t *ret_uid);
/* Reject; code and data (NULL = none) go to the client. Also for the unanswered requests of a
 * session that died. 0 or -ENOENT. */
int cm_reject(struct cm *cm, uint64_t handle, enum vip_rc code, const struct vip_private *data,
              uint64_t now_ns);

/*
 * A data packet for local_id arrived while its accept was unconfirmed. The host calls this for
 * connection ids in that state. A packet from the client's host and life counts as CONFIRM:
 * accept_done (peer to peer: request_done) is called from within. Other packets change nothing,
 * and neither do packets of a client whose SETUP has not come.
 */
void cm_implied_confirm(struct cm *cm, uint64_t local_id, const struct cm_host *from,
                        uint64_t src_epoch, uint64_t now_ns);

/* ---- client side ---- */

struct cm_request_args {
    uint64_t user;       /* comes back in request_done */
    uint32_t uid;        /* the asking user */
    uint64_t local_id;   /* the connection id chosen by the host for this VI */
    uint64_t timeout_ns; /* from now; UINT64_MAX = for ever */
    /*
     * VipConnectPeerRequest: pending until a request of the other side has `local` as its remote
     * and `remote` as its local address. Level, MaxTransferSize and QoS are compared here; if they
     * differ, both sides end with INVALID_RELIABILITY_LEVEL, INVALID_MTU or INVALID_QOS.
     */
    bool peer_to_peer;
    struct vip_addr local, remote; /* local.host: the address of this NIC as others see it */
    struct vip_cm_attrs attrs;
    struct vip_private data; /* for the other application */
};
/* Start an attempt. Outcomes: 0, and request_done follows; -ENOMEM; -EINVAL (address length);
 * -EPERM (peer to peer: another user owns the local discriminator). */
int cm_request(struct cm *cm, const struct cm_request_args *args, uint64_t now_ns);
/* Give up: request_done is not called any more; the server gets CANCEL. False: the request has
 * ended. */
bool cm_request_cancel(struct cm *cm, uint64_t user, uint64_t now_ns);
/* The user whose request with this id is under way here; false: there is no such request. */
bool cm_asker(struct cm *cm, uint64_t request_id, uint32_t *ret_uid);

/* ---- both ---- */

/*
 * Send CLOSE to the peer of a connection; it is repeated in the background until acknowledged. Also
 * ends an accept that is under way (VI disconnected, session gone): then only local_id and reason
 * are read, and no accept_done follows.
 */
struct cm_close_args {
    uint64_t local_id, remote_id;
    uint32_t peer;
    enum vip_close_reason reason;
    bool ops_valid;
    uint32_t ops_done, op_status, failed_op;
};
void cm_close(struct cm *cm, const struct cm_close_args *args, uint64_t now_ns);

/* The host forgot an established connection (after cm_close, closed, reset, or lost). */
void cm_conn_gone(struct cm *cm, uint64_t local_id, uint32_t peer);

/* A packet of kind VIP_PKT_CM with a right checksum. Unparsable ones are counted and dropped. */
void cm_rx(struct cm *cm, const struct cm_host *from, const uint8_t *packet, size_t len_bytes,
           uint64_t now_ns);

/* A valid data packet of this peer arrived: the peer is alive. O(1), called per batch. */
void cm_heard(struct cm *cm, uint32_t peer, uint64_t now_ns);

/*
 * The host has just taken packets from the medium; call it before cm_rx and cm_heard of these
 * packets. now_ns is read after the packets were taken. So time in which vipd did not run does not
 * make them look older.
 */
void cm_looked(struct cm *cm, uint64_t now_ns);
/*
 * Call it before cm_tick. behind: the medium may hold more packets than were taken. Then silence of
 * a peer does not count, for twice peer_dead_ns at most.
 */
void cm_behind(struct cm *cm, bool behind);

/* A data packet from `from` named an unknown conn_id: answer RESET, rate-limited. */
void cm_unknown_conn(struct cm *cm, const struct cm_host *from, const struct vip_header *hdr,
                     uint64_t now_ns);

/*
 * Ask any host, peer or not, whether its vipd answers, for user `uid`. Returns the number of the
 * question. CM_PROBES_MAX questions are remembered; a new one replaces the oldest question of the
 * user who has most of them.
 */
#define CM_PROBES_MAX 64
uint64_t cm_probe(struct cm *cm, const struct cm_host *host, uint32_t uid, uint64_t now_ns);
/* 1: answered, *ret_rtt_ns and *ret_epoch are set; 0: not yet; -ENOENT: forgotten. */
int cm_probe_result(const struct cm *cm, uint64_t number, uint64_t *ret_rtt_ns,
                    uint64_t *ret_epoch);

/* What is known of the peer with index 0..CM_PEER_INDEXES-1; false: there is none. */
#define CM_PEER_INDEXES 4096
struct cm_peer_view {
    struct cm_host host;
    uint64_t epoch;
    uint32_t number;      /* as in cm_conn.peer */
    uint32_t connections; /* open ones */
    uint64_t heard_ns;    /* time of the peer's last sign of life */
    bool dead;
    bool self;              /* this NIC: connections among its own programs */
    uint64_t since_ns;      /* when this life became known; dead: when it was found dead */
    uint64_t away_until_ns; /* dead: until then its next vipd may go on with connections; 0: none */
    uint64_t told_ns; /* away: the time within which, it said, that vipd comes; 0: it did not */
};
bool cm_peer_view(const struct cm *cm, uint32_t index, struct cm_peer_view *ret);
/* The same for the peer with this number; false: its vipd is not away (or there is no such peer). */
bool cm_peer_away(const struct cm *cm, uint32_t number, struct cm_peer_view *ret);

/* The address of a peer; valid while it has connections. */
const struct cm_host *cm_peer_host(const struct cm *cm, uint32_t peer);

uint64_t cm_deadline(const struct cm *cm); /* time of the next timer; UINT64_MAX = none */
/* Fire one timer that is due; false: no timer is due. One timer is a short step, so the caller can
 * look at the clock between two steps. */
bool cm_tick(struct cm *cm, uint64_t now_ns);

/* Numbers of the manager; proto/stats.def has their meanings. cm_stats fills in the gauges. */
struct cm_stats {
#define VIP_STAT_OF_CM(member, name) uint64_t member;
#include "proto/stats.def"
};
void cm_stats(const struct cm *cm, struct cm_stats *ret);

#endif
