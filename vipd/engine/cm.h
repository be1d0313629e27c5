/*
 * Connection management between daemons: who may connect to whom. Pure like the engine: no socket,
 * no clock, no payload; randomness is a seeded object; memory comes from the host's allocator
 * operation because the number of pending requests is bounded but not known.
 *
 * Owns: waiting servers (VipConnectWait) and listeners with a back-log, the reliable
 * request/accept/confirm/close exchange, quick VIP_NO_MATCH with a short grace for servers that loop,
 * peer-to-peer requests that meet each other, duplicate suppression, peers and whether they are
 * alive (keepalive per peer host, not per VI).
 * Does not own: data packets and VI state (engine.h), sockets, sessions. One struct cm per NIC.
 *
 * Exchange (doc/wire.md):
 *   client                                server
 *   REQUEST (repeated until answered) ->  matched to a waiter, or queued for `grace_ns`
 *                                      <- PENDING (a waiter has it), or NO_MATCH
 *                                      <- ACCEPT (repeated until CONFIRM/CANCEL), or REJECT
 *   CONFIRM, or CANCEL if it gave up   ->
 *   CLOSE (repeated until CLOSE_ACK) from either side, bounded tries.
 * Of two peer-to-peer requests that meet, one side's manager plays the server (cm_match.c).
 */
#ifndef VIPD_ENGINE_CM_H
#define VIPD_ENGINE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
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
    struct cm_host self;    /* this NIC's address */
    uint8_t source_bytes;   /* leading bytes of an address: hosts alike in them have one share */
    uint64_t epoch;         /* this life of vipd, random, not 0 */
    uint64_t seed;          /* for request ids and jitter; from entropy in production */
    uint32_t packet_bytes;  /* largest packet this NIC takes */
    uint32_t window_bytes;  /* bytes that may be under way towards one connection here */
    uint64_t grace_ns;      /* a request without a waiter is kept so long (20 ms) */
    uint64_t grace_busy_ns; /* the same where a waiter was seen within the last second (200 ms) */
    uint64_t grace_loop_ns; /* the same where a server has waited again and again, and lives (2 s);
                               less than grace_busy_ns: as that */
    uint64_t grace_work_ns; /* the same while it has a request that it has not answered (10 s) */
    uint32_t backlog_max;   /* requests kept per discriminator (128) */
    uint32_t waits_max;     /* waits, listeners and unanswered requests of one user; 0 = no limit */
    uint64_t retry_ns; /* first repetition of REQUEST, ACCEPT, CLOSE; doubles, + jitter (10 ms) */
    uint64_t retry_max_ns;      /* ceiling of the doubling (500 ms) */
    uint64_t accept_timeout_ns; /* ACCEPT without CONFIRM: VIP_TIMEOUT for the accepter (5 s) */
    uint64_t close_timeout_ns;  /* CLOSE without CLOSE_ACK: forget it (20 s). A vipd that
                                    stood still for longer than this and comes back does not
                                    learn that the connection is over before it sends */
    uint64_t keepalive_ns;      /* silence after which a peer with connections is pinged (1 s) */
    uint64_t peer_dead_ns;      /* silence after which it is dead (10 s), if four PINGs in it stayed
                                   unanswered; time in which this vipd did not look is not counted */
    bool verify_all; /* every new client must show its address first; false only in tests */
};

/*
 * What the host must do. Every operation but send, alloc and free is the last step of handling an
 * event: the host may call the manager from within it. From within send, renew, alloc, free it must
 * not.
 */
struct cm_ops {
    /* Send one CM packet (already encoded and sealed). Loss is allowed. */
    void (*send)(void *ctx, const struct cm_host *to, const uint8_t *packet, size_t len_bytes);
    /* A request was matched to `wait`; answer with cm_accept or cm_reject of `handle`. A waiter is
     * used up, a listener is not. data: what the client's application says, never NULL. */
    void (*incoming)(void *ctx, uint64_t wait, uint64_t handle, const struct vip_addr *remote,
                     const struct vip_cm_attrs *attrs, const struct vip_private *data);
    /* cm_request ended: rc SUCCESS with *conn, or the reason. `user` is cm_request's. data: what
     * the other application says with its accept or reject (or peer request), never NULL. */
    void (*request_done)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                         const struct vip_private *data, const char *why);
    /* cm_accept ended likewise (CONFIRM came, the client gave up, or time ran out). */
    void (*accept_done)(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                        const char *why);
    /* An established connection was closed by the peer. */
    void (*closed)(void *ctx, uint64_t local_conn_id, const struct vip_cm *close);
    /* The peer of an established connection is dead, or in a new life. Called for some connections of the peer
     * at a time, for others at the next cm_tick. */
    void (*lost)(void *ctx, uint64_t local_conn_id, const char *why);
    /* The peer does not know this connection id of ours (RESET): treat as lost. */
    void (*reset)(void *ctx, uint64_t local_conn_id, uint32_t peer);
    /* A peer-to-peer request that had been matched is on its own again: give it another connection
     * id, and if you like another `user`, because the old id may still be on its way somewhere.
     * Must not call the manager. */
    void (*renew)(void *ctx, uint64_t *user, uint64_t *local_id);
    void *(*alloc)(void *ctx, size_t bytes); /* zeroed; NULL = refused, counted */
    void (*free)(void *ctx, void *memory, size_t bytes);
};

/* An established connection, as both sides learn it. */
struct cm_conn {
    uint64_t local_id, remote_id;
    uint64_t remote_epoch;
    uint32_t packet_bytes;     /* the smaller of both */
    uint32_t window_bytes;     /* the peer's grant */
    uint32_t peer;             /* peer number: for cm_heard, cm_peer_host */
    struct vip_cm_attrs attrs; /* of the remote VI */
};

size_t cm_bytes(void); /* memory for a cm, zeroed, 64-byte aligned */
struct cm *cm_init(void *memory, const struct cm_config *config, const struct cm_ops *ops,
                   void *ctx, uint64_t now_ns);
/* Free everything; sends nothing. */
void cm_deinit(struct cm *cm);
/* The medium has another own address or other sizes now; what is connected stays as it is. */
void cm_set_medium(struct cm *cm, const struct cm_host *self, uint32_t packet_bytes,
                   uint32_t window_bytes);

/* Other values: keepalive_ns, peer_dead_ns, accept_timeout_ns and waits_max of config, the rest is not
 * looked at. Times hold from each timer's next start on. */
void cm_set_times(struct cm *cm, const struct cm_config *config);

/* ---- server side ---- */

/*
 * Discriminators have owners. The first user whose program waits or listens on one, or asks peer to peer
 * with it as its local one, owns it: while that lasts, while a request that it took is not answered, while
 * a server that has taken a request there or has waited there twice lives, and a second more (10 s at most). Programs of other users
 * are refused meanwhile, with -EPERM.
 */

/*
 * VipConnectWait: wait for one request to discriminator disc[0..len-1] (an empty one matches only
 * an empty one). `wait` is the host's number, `server` that of the session, not 0, `uid` its user's. If
 * a kept request matches, `incoming` is called at once, from within.
 * Outcomes: 0; -ENOMEM (no memory, or the user's share of waiters is used up); -EINVAL (len);
 * -EPERM (another user owns the discriminator).
 */
int cm_listen(struct cm *cm, uint64_t wait, uint64_t server, uint32_t uid, const uint8_t *disc,
              uint8_t len, uint64_t now_ns);
/* This server has ended: it will not wait again, so nothing is kept for that any longer. */
void cm_server_gone(struct cm *cm, uint64_t server, uint64_t now_ns);
/* A question about a discriminator. */
typedef bool cm_where(void *ctx, const uint8_t *disc, uint8_t len);
/* Is it true of one that this server has waited on, and that is its user's still? */
bool cm_serves_where(const struct cm *cm, uint64_t server, cm_where *where, void *ctx);
/* Is it true of the local one of this request, peer to peer? */
bool cm_meets_where(struct cm *cm, uint64_t user, cm_where *where, void *ctx);
/*
 * A listener: like a waiter that is not used up. At most `backlog` (> 0) requests are offered to it
 * and not yet answered; what comes beyond waits, its client is told that it is pending. Outcomes as
 * cm_listen; kept requests are offered from within.
 */
int cm_listen_open(struct cm *cm, uint64_t wait, uint32_t uid, const uint8_t *disc, uint8_t len,
                   uint32_t backlog, uint64_t now_ns);
/* Withdraw either; false if it is used up already (its `incoming` was called). The handles that a
 * listener was offered stay valid. */
bool cm_listen_cancel(struct cm *cm, uint64_t wait, uint64_t now_ns);

/* Does anybody here wait on that discriminator, or has a peer-to-peer request it as its own? */
bool cm_disc_in_use(struct cm *cm, const uint8_t *disc, uint8_t len);

/*
 * Accept pending request `handle` under connection id local_id. accept_done follows later. data goes
 * to the client's application; NULL = none.
 * Outcomes: 0 under way; -ENOENT no such handle; -ETIMEDOUT the client has given up meanwhile
 * (the handle is gone). The host has compared attributes before.
 */
int cm_accept(struct cm *cm, uint64_t handle, uint64_t local_id, const struct vip_cm_attrs *attrs,
              const struct vip_private *data, uint64_t user, uint64_t now_ns);
/* Attributes of a pending request, for the comparison; NULL if the handle is unknown. */
const struct vip_cm_attrs *cm_pending_attrs(const struct cm *cm, uint64_t handle);
/* The user of this host whose program made a pending request. Outcomes: 0; -ENOENT no such handle;
 * -EREMOTE it came from another host, whose users are not known. */
int cm_pending_user(const struct cm *cm, uint64_t handle, uint32_t *ret_uid);
/* Reject; code and data (NULL = none) go to the client. Also for the requests of a session that
 * died. 0 or -ENOENT. */
int cm_reject(struct cm *cm, uint64_t handle, enum vip_rc code, const struct vip_private *data,
              uint64_t now_ns);

/*
 * A data packet for local_id arrived from that very host and life while its accept was unconfirmed:
 * as good as CONFIRM. The host calls this for connection ids in that state. accept_done is called
 * from within, unless another host or life than the client's was named: then nothing happens.
 */
void cm_implied_confirm(struct cm *cm, uint64_t local_id, const struct cm_host *from,
                        uint64_t src_epoch, uint64_t now_ns);

/* ---- client side ---- */

struct cm_request_args {
    uint64_t user;       /* comes back in request_done */
    uint32_t uid;        /* the user whose program asks */
    uint64_t local_id;   /* the connection id chosen by the host for this VI */
    uint64_t timeout_ns; /* from now; UINT64_MAX = for ever */
    /*
     * VipConnectPeerRequest: pending until a request of the other side has `local` as its remote and
     * `remote` as its local address. Level, MaxTransferSize and QoS are compared here; if they
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
/* Give up: no request_done any more; the server is told. False if already done. */
bool cm_request_cancel(struct cm *cm, uint64_t user, uint64_t now_ns);

/* ---- both ---- */

/*
 * Tell the peer that a connection is over; repeated until acknowledged, in the background. Also the
 * way to end an accept that is under way (VI disconnected, session gone): then only local_id and
 * reason are looked at, and no accept_done follows.
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

/* A packet of kind VIP_PKT_CM whose checksum was right. Unparsable ones are counted and dropped. */
void cm_rx(struct cm *cm, const struct cm_host *from, const uint8_t *packet, size_t len_bytes,
           uint64_t now_ns);

/* A data packet of this peer was valid: it is alive. O(1), called per batch. */
void cm_heard(struct cm *cm, uint32_t peer, uint64_t now_ns);

/*
 * The host has just taken packets from the medium; before cm_rx and cm_heard of these. now_ns: read after
 * that, so that what arrived while vipd was kept from the processor does not count as older than it is.
 */
void cm_looked(struct cm *cm, uint64_t now_ns);
/*
 * Before cm_tick: may the medium hold more packets than were taken? Then no silence is proved yet,
 * for twice peer_dead at most.
 */
void cm_behind(struct cm *cm, bool behind);

/* A data packet from `from` named an unknown conn_id: answer RESET, rate-limited. */
void cm_unknown_conn(struct cm *cm, const struct cm_host *from, const struct vip_header *hdr,
                     uint64_t now_ns);

/*
 * Ask any host whether its vipd answers, whether it is a peer or not. The number of the question; the
 * oldest of CM_PROBES_MAX questions is forgotten for it.
 */
#define CM_PROBES_MAX 64
uint64_t cm_probe(struct cm *cm, const struct cm_host *host, uint64_t now_ns);
/* 1: answered, *ret_rtt_ns and *ret_epoch are set; 0: not yet; -ENOENT: forgotten. */
int cm_probe_result(const struct cm *cm, uint64_t number, uint64_t *ret_rtt_ns,
                    uint64_t *ret_epoch);

/* What is known of the peer with index 0..CM_PEER_INDEXES-1; false: there is none. */
#define CM_PEER_INDEXES 4096
struct cm_peer_view {
    struct cm_host host;
    uint64_t epoch;
    uint32_t number;      /* as in cm_conn.peer */
    uint32_t connections; /* that stand */
    uint64_t heard_ns;    /* time of its last sign of life */
    bool dead;
    bool self; /* this NIC: its programs among themselves */
};
bool cm_peer_view(const struct cm *cm, uint32_t index, struct cm_peer_view *ret);

/* Where a peer lives; valid while it has connections. */
const struct cm_host *cm_peer_host(const struct cm *cm, uint32_t peer);

uint64_t cm_deadline(const struct cm *cm); /* UINT64_MAX = none */
void cm_tick(struct cm *cm, uint64_t now_ns);

struct cm_stats {
    uint64_t requests_sent, requests_received, accepts, rejects, no_match, cancels, timeouts;
    uint64_t closes_sent, closes_received, resets_sent, resets_received, resets_suppressed;
    uint64_t retransmits, duplicates, malformed, wrong_epoch, unexpected, refused_memory;
    uint64_t backlog_full, refused_owner, peers_lost, pings_sent;
    uint64_t cookies_sent, cookies_suppressed, cookies_received, source_limited, client_limited,
        wrong_source;
    uint32_t waiters, pending, peers; /* gauges, filled by cm_stats */
};
void cm_stats(const struct cm *cm, struct cm_stats *ret);

#endif
