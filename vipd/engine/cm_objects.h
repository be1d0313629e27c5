/*
 * The objects of the connection manager. Only cm_internal.h includes it.
 *
 * Code finds an object through a table, a timer or a list of related objects, not by a search of
 * all objects of its kind. The number of objects of each kind has a limit (cm_limits.h).
 */
#ifndef VIPD_ENGINE_CM_OBJECTS_H
#define VIPD_ENGINE_CM_OBJECTS_H

#include <stddef.h>
#include <sys/queue.h>

#include "vipd/engine/cm.h"
#include "vipd/engine/cm_cookie.h"
#include "vipd/engine/cm_limits.h"
#include "vipd/engine/cm_outlive.h"
#include "vipd/engine/cm_share.h"
#include "vipd/engine/cm_table.h"
#include "proto/siphash.h"

static inline bool cm_host_equal(const struct cm_host *a, const struct cm_host *b)
{
    return a->len == b->len && !__builtin_memcmp(a->bytes, b->bytes, a->len);
}

/* ---- objects ----------------------------------------------------------------------------- */

/* One life of one peer host. The object exists while an association or a pending request refers to
 * it. */
struct cm_peer {
    struct cm_node by_host; /* key: hash of the host only, to find all its lives */
    struct cm_timer timer;  /* keepalive while assocs_open > 0; if dead: ends the connections */
    TAILQ_HEAD(, cm_assoc) assocs;
    struct cm_holder *source; /* the peer counts in the share of this holder */
    struct cm_host host;
    uint64_t epoch;
    bool self;               /* the peer is this NIC: both programs are on this host */
    uint32_t number;         /* peer number (cm_peer.c) */
    uint32_t refs;           /* number of associations and pending requests of this peer */
    uint32_t assocs_open;    /* number of associations in state CM_ASSOC_OPEN */
    bool dead;               /* its connections end, or go on with its next life */
    bool new_life;           /* dead because its vipd was restarted */
    bool counted;            /* the statistic peers_lost has counted this peer */
    uint64_t since_ns;       /* when this life became known; if dead: when it was found dead */
    uint64_t told_ns;        /* from its AWAY: the next vipd comes in this time; 0: no AWAY */
    uint64_t rebind_ns;      /* new_life: end of the time to rebind connections with a secret */
    uint64_t heard_ns;       /* time of the last packet that proves this life */
    uint64_t silent_from_ns; /* heard_ns plus the times that do not count as silence */
    uint64_t excused_ns;     /* time since heard_ns in which the medium might have more packets */
    unsigned unanswered;     /* keepalive PINGs since heard_ns, at most PINGS_BEFORE_DEATH */
    uint64_t pinged_ns;      /* time of the last PING */
    uint64_t nonce; /* in all PINGs since the last PONG; a PONG must return it; 0: no PING */
};

/* A PING that cm_probe has sent. */
struct cm_probe {
    uint64_t nonce; /* 0: none */
    uint32_t uid;   /* the user for whom the PING was sent */
    struct cm_host host;
    uint64_t sent_ns;
    uint64_t rtt_ns, epoch; /* epoch 0: no PONG came yet */
};

/* Number of data ids of an end for which it sends no RESET: the one in use, and those in messages
 * that the peer may not have yet. At most one LOAN_OFFER and one LOAN_AGREE are unconfirmed. */
#define CM_OWN_IDS 4

/* One end of a connection. */
enum cm_assoc_state {
    CM_ASSOC_NEW = 0, /* allocated, but not in a table yet */
    CM_ASSOC_OPENING, /* this end has sent ACCEPT, but CONFIRM has not come */
    CM_ASSOC_OPEN,
    CM_ASSOC_CLOSED, /* closed by an end, or lost; cm_conn_gone frees it */
};
struct cm_assoc {
    struct cm_node by_local;  /* key: local_id */
    struct cm_node by_remote; /* key: remote_id; several peers may use the same id */
    TAILQ_ENTRY(cm_assoc) of_peer;
    struct cm_peer *peer;
    struct cm_pending *pending; /* the accepted request; NULL if state is not CM_ASSOC_OPENING */
    uint64_t local_id, remote_id;
    uint64_t request_id; /* id of the REQUEST, if this end sent it; 0: the peer sent the REQUEST */
    enum cm_assoc_state state;
    uint64_t features; /* VIP_FEATURE_* of the connection */
    /* The next three members are for VIP_FEATURE_LOAN (cm_loan.h). */
    struct cm_node by_data;             /* key: data id of the other end; not linked: remote_id */
    struct cm_node own_ids[CM_OWN_IDS]; /* keys: the last data ids of this end */
    unsigned own_next;                  /* the place in own_ids for the next id */
    /* The members from here to the end are for VIP_FEATURE_REBIND. */
    struct cm_node by_tag;     /* key: cm_tag; linked if the connection has a secret */
    struct siphash_key part;   /* this end's part of the secret */
    struct siphash_key secret; /* made from the parts of both ends */
    bool asked;                /* this end sent the REQUEST */
    struct cm_offer *offer;    /* our answer to the peer's last REBIND; NULL: no REBIND came */
};

/* A REBIND that this end has answered with CHALLENGE. */
struct cm_offer {
    struct cm_node by_id;   /* key: local_id; linked only in the offer of a cm_assoc until proven */
    struct cm_assoc *assoc; /* the association to bind anew; NULL: a cm_rebinding has the offer */
    uint64_t local_id;      /* new connection id of this end; valid if `proven` */
    uint64_t nonce_a, nonce_b;
    uint64_t conn_id, epoch; /* connection id and epoch of the rebinder */
    bool proven;             /* a valid PROOF of the rebinder came */
    struct vip_counts ours;  /* if proven: the counts in our PROOF */
};

/* A connection of an earlier life of this vipd. This end asks the other end to bind it anew. */
struct cm_rebinding {
    struct cm_node by_user;  /* key: args.user */
    struct cm_node by_local; /* key: args.local_id */
    struct cm_node by_tag;   /* key: cm_tag of this end */
    struct cm_node by_nonce; /* key: nonce_a */
    struct cm_timer timer;   /* fires at the next repetition or at give_up_ns */
    struct cm_repeat repeat;
    struct cm_rebind_args args;
    struct cm_host host;
    struct cm_holder *client; /* the user whose session has the connection */
    struct cm_assoc *assoc;   /* allocated together with this object */
    uint64_t give_up_ns;
    uint64_t nonce_a;
    bool challenged;                         /* a CHALLENGE came */
    uint64_t nonce_b, other_id, other_epoch; /* if challenged: the contents of the CHALLENGE */
    unsigned messages;                       /* number of messages sent since the CHALLENGE */
    struct cm_offer offer;                   /* our answer to a REBIND of the other end */
    bool closing;                            /* the program does not want the connection any more */
    enum vip_close_reason reason; /* of the CLOSE at give_up_ns, or after success if `closing` */
};

/* Number of places for records of sources with failed accepts (cm_slow.c). A record has the key of
 * the source's holder, not a pointer, because the holder may be freed earlier. The key also gives
 * the place; a new record replaces an older one there. */
#define CM_SLOW_MAX 256
struct cm_slow {
    uint64_t key;       /* key of the holder; 0: no record; unused in cm_disc.strangers */
    uint64_t failed_ns; /* time of the last failed accept */
    uint64_t held_ns;   /* until then no serial server gets requests of the source */
    uint64_t until_ns;  /* until then requests of the source come after those of other sources */
    unsigned times;     /* failed accepts of serial servers, with a limit; 0 after until_ns */
};
/* Number of places for the holder keys of hosts that are no strangers (cm_slow.c). */
#define CM_PROVEN_MAX 1024

/* A discriminator on which a program waits or lately waited, or to which a client has sent a
 * request, or which is the local discriminator of a peer-to-peer request. */
struct cm_disc {
    struct cm_node by_bytes;
    struct cm_timer timer; /* fires at the end of lingering */
    TAILQ_HEAD(, cm_waiter) waiters;
    TAILQ_HEAD(cm_kept, cm_pending) kept;
    uint32_t kept_count;
    uint32_t listeners; /* number of listeners among the waiters */
    uint32_t at_work;   /* requests of a VipConnectWait that have no answer or no CONFIRM yet */
    uint32_t meets;     /* number of meeting places with this local discriminator */
    uint64_t kept_ns;   /* until then the owner keeps it (cm_disc_keep); 0: no such time */
    uint32_t record;    /* a number of the host, from cm_ops.owned */
    uint64_t left_ns;   /* when the last meeting place or settled server ended; 0: never */
    struct cm_slow strangers;          /* failed accepts here of all strangers together */
    struct cm_holder *owner;           /* only this user's programs may wait here; NULL: no owner */
    uint64_t servers[CM_DISC_SERVERS]; /* open sessions that waited here; servers[0] waited last */
    uint32_t server_count;
    TAILQ_ENTRY(cm_disc) of_served; /* in cm.served, while server_count > 0 */
    /* A server got a request or waited twice: the owner stays while a server is open. */
    bool settled;
    bool loops;     /* servers[0] waited twice in a row */
    bool waited;    /* a program has waited here: last_waiter_ns is valid */
    bool lingering; /* it counts in CM_POOL_LINGER and is in owner->lingering[settled] */
    TAILQ_ENTRY(cm_disc) of_owner;
    uint64_t last_waiter_ns;
    uint8_t len;
    uint8_t bytes[VIP_DISCRIMINATOR_BYTES_MAX];
};

/* One VipConnectWait, or one listener. */
struct cm_waiter {
    struct cm_node by_wait; /* key: wait */
    TAILQ_ENTRY(cm_waiter) of_disc;
    TAILQ_HEAD(, cm_pending) offered; /* of a listener: requests without answer of the host */
    struct cm_disc *disc;
    uint64_t wait;
    uint32_t backlog, offered_count; /* backlog 0: VipConnectWait; count: length of `offered` */
};

/* A request of a peer, until its final answer. */
enum cm_pending_state {
    CM_PENDING_KEPT = 0,  /* no waiter has the request yet */
    CM_PENDING_OFFERED,   /* the host has the handle, but has not answered */
    CM_PENDING_CANCELLED, /* the client gave up; the host still has the handle */
    CM_PENDING_ACCEPTED,  /* vipd repeats ACCEPT; assoc->state is CM_ASSOC_OPENING */
};
struct cm_pending {
    struct cm_node by_key;           /* key: hash of host, epoch, request_id */
    struct cm_node by_handle;        /* key: handle */
    struct cm_timer timer;           /* KEPT: end of the grace; ACCEPTED: repeat, or give up */
    TAILQ_ENTRY(cm_pending) of_disc; /* while KEPT */
    struct cm_disc *disc;            /* while KEPT */
    struct cm_disc *served;          /* the discriminator whose at_work counts the request */
    TAILQ_ENTRY(cm_pending) of_waiter;
    struct cm_waiter *waiter; /* the listener that got the request, while the listener exists */
    struct cm_peer *peer;     /* NULL if CANCELLED; then by_key is not linked */
    /* The request counts in the shares of both. owner NULL: the discriminator had no owner. */
    struct cm_holder *owner, *source;
    bool offered; /* the host has the handle; it counts in CM_POOL_OFFERED */
    bool let_go;  /* CANCELLED: it no longer counts in the share of source */
    bool excused; /* KEPT: the grace was extended once, because vipd stood still when it ended */
    struct cm_attempt *attempt; /* ACCEPTED, peer-to-peer: our attempt that accepts the request */
    struct cm_assoc *assoc;     /* allocated with the request, so that accepting cannot fail */
    enum cm_pending_state state;
    uint64_t handle;
    /* Times of the first and the last REQUEST; stops of vipd move heard_ns to a later time. */
    uint64_t arrived_ns, heard_ns;
    uint64_t user;       /* of cm_accept */
    uint64_t give_up_ns; /* ACCEPTED */
    struct cm_repeat repeat;
    struct vip_cm request; /* as received */
    struct vip_cm accept;  /* ACCEPTED: the ACCEPT as sent */
};

/* How a request was answered; repetitions get the same answer. */
enum cm_answer {
    CM_ANSWER_NONE = 0, /* the request is confirmed or cancelled: repetitions get no answer */
    CM_ANSWER_NO_MATCH,
    CM_ANSWER_REJECT,
};
struct cm_answered {
    struct cm_node by_key; /* the same key as in cm_pending.by_key */
    TAILQ_ENTRY(cm_answered) order, of_source, of_network;
    struct cm_holder *source; /* the answer counts in the share of this holder */
    uint64_t until_ns;
    struct cm_host host;
    uint64_t epoch, request_id;
    enum cm_answer answer;
    uint32_t code;
    struct vip_private data;
};

/* A meeting place: peer-to-peer requests of this host with the same two addresses. It is freed with
 * the last of these requests. */
struct cm_meet {
    struct cm_node by_addrs;          /* key: hash of the remote host and both discriminators */
    struct cm_disc *disc;             /* the local discriminator, owned by the asking user */
    TAILQ_HEAD(, cm_attempt) waiting; /* attempts that are not matched, oldest first */
    uint32_t attempts;                /* number of attempts, matched or not */
    struct vip_addr local, remote;    /* addresses; attempts may differ in local.host */
};

/* One attempt: a request of a program of this host. */
struct cm_attempt {
    struct cm_node by_request; /* key: request_id */
    struct cm_node by_user;    /* key: user */
    struct cm_node by_conn;    /* key: request.conn_id */
    struct cm_timer timer;     /* fires at repeat_ns, give_up_ns or the time for NOT_REACHABLE */
    struct cm_host host;       /* where the request goes */
    struct cm_holder *client;  /* the user whose program sends the request */
    struct cm_holder *asker;   /* the user's ASKER for `host`; NULL: peer-to-peer, or this host */
    bool asked, unsent;        /* asked: counts in CM_POOL_ASKED; unsent: is in asker->unsent */
    TAILQ_ENTRY(cm_attempt) of_asker;
    struct cm_assoc *assoc; /* allocated together with the attempt */
    uint64_t user;
    uint64_t server_epoch;           /* epoch in the last answer; 0: no answer yet */
    uint64_t give_up_ns;             /* UINT64_MAX: no time limit */
    uint64_t heard_ns;               /* time of the last answer, or of the start */
    uint64_t repeat_ns;              /* when to send the REQUEST again */
    bool heard;                      /* an answer came: the server is alive */
    unsigned unanswered;             /* REQUESTs sent since the last answer */
    uint64_t sent_ns;                /* time of the last REQUEST */
    struct cm_meet *meet;            /* peer-to-peer: the meeting place of the attempt; else NULL */
    TAILQ_ENTRY(cm_attempt) of_meet; /* in meet->waiting, while pending is NULL */
    struct cm_pending *pending;      /* peer-to-peer: the peer's request that we accept */
    struct cm_repeat repeat;
    struct vip_cm request;
    bool accepted;        /* the server has accepted, but its SETUP has not come */
    struct vip_cm accept; /* if accepted: the last ACCEPT */
};

/* A CLOSE that waits for its CLOSE_ACK; the connection may be gone already. */
struct cm_closing {
    struct cm_node by_local; /* key: our connection id */
    struct cm_timer timer;
    struct cm_holder *holder; /* the peer's host; the closing counts in its share */
    struct cm_host host;
    uint64_t epoch;
    uint64_t give_up_ns;
    struct cm_repeat repeat;
    struct vip_cm close;
    struct cm_node own_ids[CM_OWN_IDS]; /* keys: the last data ids of this end */
};

struct cm {
    struct cm_config config;
    struct cm_ops ops;
    void *ctx;
    struct siphash_key random_key;
    uint64_t random;      /* number of calls of cm_random */
    uint64_t salt;        /* for hash tables: peers choose the keys, but not the buckets */
    uint64_t last_handle; /* last handle that a request got; each life begins with another number */
    uint32_t peer_generation;
    uint32_t peer_cursor; /* where the search for a free peer number continues */
    uint32_t pool_used[CM_POOLS];
    uint64_t now_ns;  /* time of the present or last event */
    bool ends;        /* cm_deinit was called */
    uint64_t born_ns; /* time of cm_init */
    struct cm_tokens resets;
    struct cm_timer *timers; /* root of the heap of all timers */
    struct cm_timer answered_timer;
    TAILQ_HEAD(, cm_answered) answered_order;
    struct cm_probe probes[CM_PROBES_MAX];
    uint64_t looked_ns;                /* cm_looked: when packets were last taken from the medium */
    bool behind;                       /* cm_behind: the medium may have more packets */
    TAILQ_HEAD(, cm_disc) served;      /* discriminators with servers */
    TAILQ_HEAD(, cm_holder) lingerers; /* users with CM_SMALL lingering discriminators or more */
    struct cm_peer *peer_of[CM_PEERS_MAX];
    struct cm_table peers, assocs_local, assocs_remote, discs, waiters, pendings, handles, answered,
        attempts, attempts_user, attempts_conn, meets, closings, holders, assocs_tag, rebindings,
        assocs_data, own_ids, rebindings_user, rebindings_local, rebindings_tag, offers;
    struct cm_cookies cookies;
    struct cm_slow slow[CM_SLOW_MAX];
    uint64_t proven[CM_PROVEN_MAX];
    struct cm_stats stats;
};

/* One received message and its sender. */
struct cm_in {
    const struct cm_host *from;
    uint64_t src_epoch;
    bool knows_us;        /* the message is for the epoch of this vipd */
    struct cm_peer *peer; /* the sender's life, if known and not dead */
    const struct vip_cm *msg;
    uint64_t now_ns;
};

#endif
