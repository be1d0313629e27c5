/*
 * Inside of the connection manager: what its files share. Only vipd/engine/cm*.c include it.
 *
 *   cm.c         set-up, dispatch of received messages, associations, statistics
 *   cm_table.c   hash tables, timers, randomness
 *   cm_peer.c    peers: keepalive, death, new lives
 *   cm_server.c  waiters, kept and pending requests, accept and reject
 *   cm_client.c  our own requests
 *   cm_close.c   CLOSE and RESET
 *
 * Every object is reached through a table or a timer, never by walking all of a kind; every kind
 * has a bound.
 */
#ifndef VIPD_ENGINE_CM_INTERNAL_H
#define VIPD_ENGINE_CM_INTERNAL_H

#include <stddef.h>
#include <sys/queue.h>

#include "vipd/engine/cm.h"
#include "vipd/engine/cm_table.h"

/* Lives of peer hosts known at once; also the index part of a peer number. */
#define CM_PEERS_MAX 4096

/* Requests at any stage of the server side; beyond, a request is answered with NO_MATCH. */
#define CM_PENDING_MAX 4096

/* A NIC keeps so many times backlog_max requests that found no waiter. */
#define CM_BACKLOG_NIC_FACTOR 8

/* Waiters at once; an application that exceeds it gets no memory. */
#define CM_WAITERS_MAX 65536

/* Own requests under way at once: every VI of sixteen full sessions. */
#define CM_ATTEMPTS_MAX (16 * VIP_VI_MAX)

/* Answered requests that are remembered, and for how long: repetitions of a REQUEST that were under
 * way when it was answered are no new requests. Longer than the slowest repetition takes. */
#define CM_ANSWERED_MAX 2048
#define CM_ANSWERED_NS  3000000000ull

/* CLOSE messages repeated in the background; what exceeds it is sent once, and data packets of the
 * peer find out by RESET. */
#define CM_CLOSINGS_MAX 16384

/* A discriminator counts as served for so long after its last waiter; so many without any waiter
 * or request are remembered for that. */
#define CM_DISC_LINGER_NS  1000000000ull
#define CM_DISC_LINGER_MAX 1024

/* A request without time limit ends as NOT_REACHABLE when no answer of any kind came for so long. */
#define CM_UNREACHABLE_NS 10000000000ull

/* RESET answers per second, and how many may come in a burst. */
#define CM_RESETS_PER_S 200
#define CM_RESETS_BURST 64

/* Timers fired by one cm_tick; the rest are due at once in the next. */
#define CM_TICK_BUDGET 1024

static inline bool cm_host_equal(const struct cm_host *a, const struct cm_host *b)
{
    return a->len == b->len && !__builtin_memcmp(a->bytes, b->bytes, a->len);
}

/* ---- objects ----------------------------------------------------------------------------- */

/* One life of one peer host; exists while an association or a pending request refers to it. */
struct cm_peer {
    struct cm_node by_host; /* key: hash of the host only, to find its other lives */
    struct cm_timer timer;  /* keepalive, while assocs_open > 0 */
    TAILQ_HEAD(, cm_assoc) assocs;
    struct cm_host host;
    uint64_t epoch;
    uint32_t number;      /* index | generation, for the host */
    uint32_t refs;        /* associations and pending requests */
    uint32_t assocs_open; /* associations in CM_ASSOC_OPEN */
    bool dead;            /* peer_lost was called; waits for the host to forget its connections */
    uint64_t heard_ns;    /* last sign of this life */
    uint64_t pinged_ns;   /* last PING */
    uint64_t nonce;       /* of that PING: only its PONG may announce another life */
};

/* A connection as the manager remembers it. */
enum cm_assoc_state {
    CM_ASSOC_NEW = 0, /* memory only, in no table */
    CM_ASSOC_OPENING, /* server: ACCEPT sent, CONFIRM not seen */
    CM_ASSOC_OPEN,
    CM_ASSOC_CLOSED, /* by either side; stays until cm_conn_gone */
};
struct cm_assoc {
    struct cm_node by_local;  /* key: local_id */
    struct cm_node by_remote; /* key: remote_id; the peer is compared */
    TAILQ_ENTRY(cm_assoc) of_peer;
    struct cm_peer *peer;
    struct cm_pending *pending; /* while OPENING */
    uint64_t local_id, remote_id;
    enum cm_assoc_state state;
};

/* A discriminator that somebody waits on, waited on lately, or asked for. */
struct cm_disc {
    struct cm_node by_bytes;
    struct cm_timer timer; /* end of lingering */
    TAILQ_HEAD(, cm_waiter) waiters;
    TAILQ_HEAD(cm_kept, cm_pending) kept;
    uint32_t kept_count;
    bool waited;    /* a waiter was here: last_waiter_ns is meant */
    bool lingering; /* counted in cm.lingering */
    uint64_t last_waiter_ns;
    uint8_t len;
    uint8_t bytes[VIP_DISCRIMINATOR_BYTES_MAX];
};

/* One VipConnectWait. */
struct cm_waiter {
    struct cm_node by_wait; /* key: wait */
    TAILQ_ENTRY(cm_waiter) of_disc;
    struct cm_disc *disc;
    uint64_t wait;
};

/* A request of a peer, until it is answered for good. */
enum cm_pending_state {
    CM_PENDING_KEPT = 0,  /* no waiter yet: grace */
    CM_PENDING_OFFERED,   /* the host has the handle */
    CM_PENDING_CANCELLED, /* the client gave up; the host still has the handle */
    CM_PENDING_ACCEPTED,  /* ACCEPT is being repeated; assoc is OPENING */
};
struct cm_pending {
    struct cm_node by_key;           /* key: hash of host, epoch, request_id */
    struct cm_node by_handle;        /* key: handle */
    struct cm_timer timer;           /* KEPT: grace; ACCEPTED: repetition and time limit */
    TAILQ_ENTRY(cm_pending) of_disc; /* while KEPT */
    struct cm_disc *disc;            /* while KEPT */
    struct cm_peer *peer;
    struct cm_assoc *assoc; /* allocated with the request, so that accepting cannot fail */
    enum cm_pending_state state;
    uint64_t handle;
    uint64_t arrived_ns;
    uint64_t user;       /* of cm_accept */
    uint64_t give_up_ns; /* ACCEPTED */
    struct cm_repeat repeat;
    struct vip_cm request; /* as received */
    struct vip_cm accept;  /* ACCEPTED: as sent */
};

/* How a request was answered; repetitions get the same answer. */
enum cm_answer {
    CM_ANSWER_NONE = 0, /* confirmed or cancelled: the client knows, say nothing */
    CM_ANSWER_NO_MATCH,
    CM_ANSWER_REJECT,
};
struct cm_answered {
    struct cm_node by_key; /* as cm_pending.by_key */
    TAILQ_ENTRY(cm_answered) order;
    uint64_t until_ns;
    struct cm_host host;
    uint64_t epoch, request_id;
    enum cm_answer answer;
    uint32_t code;
};

/* One request of ours. */
struct cm_attempt {
    struct cm_node by_request; /* key: request_id */
    struct cm_node by_user;    /* key: user */
    struct cm_timer timer;     /* next repetition or time limit, whichever is first */
    struct cm_host host;       /* where it goes */
    struct cm_assoc *assoc;    /* allocated with the attempt */
    uint64_t user;
    uint64_t server_epoch; /* as last heard; 0 = not yet */
    uint64_t give_up_ns;   /* UINT64_MAX = for ever */
    uint64_t heard_ns;     /* last answer, or the start */
    uint64_t repeat_ns;    /* when to send again */
    bool heard;            /* an answer came: the server is alive */
    struct cm_repeat repeat;
    struct vip_cm request;
};

/* A CLOSE that waits for its CLOSE_ACK; outlives the connection. */
struct cm_closing {
    struct cm_node by_local; /* key: our connection id */
    struct cm_timer timer;
    struct cm_host host;
    uint64_t epoch;
    uint64_t give_up_ns;
    struct cm_repeat repeat;
    struct vip_cm close;
};

struct cm {
    struct cm_config config;
    struct cm_ops ops;
    void *ctx;
    uint64_t random; /* state of cm_random */
    uint64_t salt;   /* of the hash tables: peers choose ids */
    uint64_t last_handle;
    uint32_t peer_generation;
    uint32_t peer_cursor; /* where the search for a free peer number goes on */
    uint32_t kept_count, lingering, answered_count, attempt_count, closing_count;
    uint64_t reset_credit_ns; /* token bucket of RESET answers, in ns of allowance */
    uint64_t reset_last_ns;
    struct cm_timer *timers; /* root of the heap */
    struct cm_timer answered_timer;
    TAILQ_HEAD(, cm_answered) answered_order;
    struct cm_peer *peer_of[CM_PEERS_MAX];
    struct cm_table peers, assocs_local, assocs_remote, discs, waiters, pendings, handles, answered,
        attempts, attempts_user, closings;
    struct cm_stats stats;
};

/* One received message with its surroundings. */
struct cm_in {
    const struct cm_host *from;
    uint64_t src_epoch;
    bool knows_us;        /* the sender named our epoch */
    struct cm_peer *peer; /* the sender's life, if known and not dead */
    const struct vip_cm *msg;
    uint64_t now_ns;
};

/* ---- cm.c -------------------------------------------------------------------------------- */

void *cm_alloc(struct cm *cm, size_t bytes); /* NULL is counted */
void cm_free(struct cm *cm, void *memory, size_t bytes);
void cm_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, const struct vip_cm *msg);
/* Answer the sender of `in`. */
void cm_answer(struct cm *cm, const struct cm_in *in, const struct vip_cm *msg);

/* Bind a NEW association to a peer; state as given. */
void cm_assoc_add(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                  uint64_t remote_id, enum cm_assoc_state state, uint64_t now_ns);
void cm_assoc_set_state(struct cm *cm, struct cm_assoc *assoc, enum cm_assoc_state state,
                        uint64_t now_ns);
void cm_assoc_free(struct cm *cm, struct cm_assoc *assoc);
struct cm_assoc *cm_assoc_find(struct cm *cm, uint64_t local_id);
/* The one that a message talks about: ids and peer must all agree. */
struct cm_assoc *cm_assoc_of(struct cm *cm, const struct cm_in *in);
void cm_conn_fill(struct cm *cm, struct cm_conn *ret, const struct cm_assoc *assoc,
                  const struct vip_cm *msg);

/* ---- cm_peer.c --------------------------------------------------------------------------- */

/* Find (not dead), or create, with one reference more; NULL = no memory or too many. */
struct cm_peer *cm_peer_get(struct cm *cm, const struct cm_host *host, uint64_t epoch,
                            uint64_t now_ns);
void cm_peer_put(struct cm *cm, struct cm_peer *peer);
struct cm_peer *cm_peer_find(struct cm *cm, const struct cm_host *host, uint64_t epoch);
struct cm_peer *cm_peer_by_number(const struct cm *cm, uint32_t number);
/* Associations became open, or stopped being it: start or stop the keepalive. */
void cm_peer_opened(struct cm *cm, struct cm_peer *peer, uint64_t now_ns);
void cm_peer_closed(struct cm *cm, struct cm_peer *peer);
/* A message came: note life; ask other known lives of that host whether they still are. */
void cm_peer_note(struct cm *cm, const struct cm_in *in);
void cm_rx_ping(struct cm *cm, const struct cm_in *in);
void cm_rx_pong(struct cm *cm, const struct cm_in *in);

/* ---- cm_server.c, cm_client.c, cm_close.c ------------------------------------------------ */

void cm_rx_request(struct cm *cm, const struct cm_in *in);
void cm_rx_confirm(struct cm *cm, const struct cm_in *in);
void cm_rx_cancel(struct cm *cm, const struct cm_in *in);
void cm_confirmed(struct cm *cm, struct cm_assoc *assoc, uint64_t now_ns);
/* The host closed a connection whose accept is under way. */
void cm_accept_abandon(struct cm *cm, struct cm_assoc *assoc, enum vip_close_reason reason,
                       uint64_t now_ns);
void cm_server_deinit(struct cm *cm);

void cm_rx_pending(struct cm *cm, const struct cm_in *in);
void cm_rx_accept(struct cm *cm, const struct cm_in *in);
void cm_rx_refusal(struct cm *cm, const struct cm_in *in); /* REJECT, NO_MATCH */
void cm_client_deinit(struct cm *cm);

/* Repeat a CLOSE for assoc in the background. args may be NULL: reason TIMEOUT, nothing known. */
void cm_closing_start(struct cm *cm, const struct cm_assoc *assoc, const struct cm_close_args *args,
                      uint64_t now_ns);
void cm_reset_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t conn_id,
                   uint64_t now_ns);
void cm_rx_close(struct cm *cm, const struct cm_in *in);
void cm_rx_close_ack(struct cm *cm, const struct cm_in *in);
void cm_rx_reset(struct cm *cm, const struct cm_in *in);
void cm_close_deinit(struct cm *cm);

#endif
