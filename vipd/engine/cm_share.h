/*
 * Shares of the connection manager's pools: how many objects each holder has, and whether it may
 * have more.
 *
 * A holder is one of these:
 *   OWNER    a user with waiting programs
 *   CLIENT   a user of this host with programs that make requests
 *   ASKER    a CLIENT, for its requests to one other host
 *   HOST     another host (a source, cm_source_of)
 *   NETWORK  all hosts of a network, because one host may use all addresses of its network
 *
 * Each pool has a size, a part of this size that one holder of a kind may have, and a reserve for
 * holders with few objects. So neither one user nor one host can use up a pool.
 *
 * Owns: holders and their counts. Does not own: the objects that are counted. Private to
 * vipd/engine/cm*.c.
 */
#ifndef VIPD_ENGINE_CM_SHARE_H
#define VIPD_ENGINE_CM_SHARE_H

#include "vipd/engine/cm.h"
#include "vipd/engine/cm_table.h"

enum cm_pool {
    CM_POOL_PENDING = 0, /* requests of clients, in all states */
    CM_POOL_KEPT,        /* pending requests that are kept, because no waiter has room */
    CM_POOL_OFFERED,     /* pending requests that a waiter got, unanswered; limit: waits_max only */
    CM_POOL_WAITERS,     /* VipConnectWait and listeners */
    CM_POOL_LINGER,      /* discriminators with an owner, but without waiter or request; if the pool
                            is full, a new one may replace another one (cm_disc.c) */
    CM_POOL_ATTEMPTS,    /* requests of programs of this host */
    CM_POOL_ASKED,       /* attempts sent to servers of other hosts; limited per ASKER only */
    CM_POOL_ANSWERED,    /* answered requests that are remembered */
    CM_POOL_CLOSINGS,    /* CLOSE messages that are repeated */
    CM_POOL_PEERS,       /* lives of other vipd */
    CM_POOLS,
};

enum cm_holder_kind {
    CM_HOLDER_OWNER = 0,
    CM_HOLDER_CLIENT,
    CM_HOLDER_ASKER,
    CM_HOLDER_HOST,
    CM_HOLDER_NETWORK,
    CM_HOLDER_KINDS
};

struct cm_holder {
    struct cm_node by_key; /* hash of kind and id */
    enum cm_holder_kind kind;
    uint32_t refs;            /* objects that refer to this holder */
    struct cm_holder *within; /* NETWORK of a HOST; it also counts the HOST's objects; or NULL */
    uint32_t has[CM_POOLS];   /* number of its objects in each pool */
    uint32_t given_up;        /* cancelled requests that no longer count (cm_pending_cancel) */
    uint32_t unconfirmed;     /* number of its accepted requests whose CONFIRM has not come */
    uint64_t turn_ns;         /* when a server last got a request of this source */
    TAILQ_HEAD(, cm_answered) answered; /* answers to this source or NETWORK, oldest first */
    TAILQ_HEAD(, cm_attempt) unsent;    /* of an ASKER: attempts that wait for CM_POOL_ASKED */
    /* Discriminators of an OWNER in CM_POOL_LINGER: [0] not settled, [1] settled; oldest first. */
    TAILQ_HEAD(, cm_disc) lingering[2];
    uint32_t unsettled;                  /* length of lingering[0] */
    TAILQ_ENTRY(cm_holder) of_lingerers; /* in cm.lingerers, if has[CM_POOL_LINGER] >= CM_SMALL */
    /* OWNER, CLIENT: the user's number, 4 bytes. ASKER: the user's number, then a hash of the other
     * host's address. HOST, NETWORK: the first bytes of the address. */
    struct cm_host id;
};

/* A holder that has fewer objects of a pool than this number may use the pool's reserve. */
#define CM_SMALL 16

/* Find or make a holder, and add a reference; NULL = no memory. */
struct cm_holder *cm_holder_user(struct cm *cm, enum cm_holder_kind kind, uint32_t uid);
struct cm_holder *cm_holder_host(struct cm *cm, const struct cm_host *host);
struct cm_holder *cm_holder_asker(struct cm *cm, uint32_t uid, const struct cm_host *host);
/*
 * The source of an address: the first bytes of the address. If the address has the same port as
 * this NIC, it counts as the vipd of its host, and that vipd is a separate source. So requests of
 * other programs of that host use up no turns and no share of its vipd. One host has at most two
 * sources.
 */
struct cm_host cm_source_of(const struct cm *cm, const struct cm_host *host);
struct cm_holder *cm_holder_ref(struct cm_holder *holder);
void cm_holder_put(struct cm *cm, struct cm_holder *holder); /* NULL is fine */
/* The user's number of an OWNER, CLIENT or ASKER. */
uint32_t cm_holder_uid(const struct cm_holder *holder);

/* May both holders have one more object of the pool? A holder may be NULL. */
bool cm_share_room(const struct cm *cm, enum cm_pool pool, const struct cm_holder *a,
                   const struct cm_holder *b);
/* Has the holder fewer objects than its part of the pool? The pool may be full. */
bool cm_share_part(enum cm_pool pool, const struct cm_holder *holder);
/* cm_share_count adds `by` to the counts of the holder and its network. cm_share_take adds 1 to the
 * count of the pool and to the counts of both holders and their networks; cm_share_give subtracts
 * 1. */
void cm_share_count(enum cm_pool pool, struct cm_holder *holder, int by);
void cm_share_take(struct cm *cm, enum cm_pool pool, struct cm_holder *a, struct cm_holder *b);
void cm_share_give(struct cm *cm, enum cm_pool pool, struct cm_holder *a, struct cm_holder *b);

#endif
