/*
 * Shares of the connection manager's pools: what each holder has, and whether it may have more.
 *
 * A holder is one of these:
 *   OWNER    a user with waiting programs
 *   CLIENT   a user of this host with programs that ask for connections
 *   ASKER    such a user, towards one other host
 *   HOST     another host: a source of addresses (cm_source_of)
 *   NETWORK  all hosts of a network, because one host may have any address of it
 *
 * Each pool has a size for all holders, a part of it that one holder of a kind may have, and a
 * reserve for holders that have little. So neither one user nor one host can take the last place
 * from others.
 *
 * Owns: holders and what they have. Does not own: the objects that are counted. Private to
 * vipd/engine/cm*.c.
 */
#ifndef VIPD_ENGINE_CM_SHARE_H
#define VIPD_ENGINE_CM_SHARE_H

#include "vipd/engine/cm.h"
#include "vipd/engine/cm_table.h"

enum cm_pool {
    CM_POOL_PENDING = 0, /* requests of peers at any stage */
    CM_POOL_KEPT,        /* of these, kept because no waiter has room */
    CM_POOL_OFFERED,     /* of these, offered and not answered; limited by waits_max only */
    CM_POOL_WAITERS,     /* VipConnectWait and listeners */
    CM_POOL_LINGER,      /* discriminators without waiter or request that are still owned; if the
                            pool is full, another discriminator may go instead (cm_disc.c) */
    CM_POOL_ATTEMPTS,    /* own requests under way */
    CM_POOL_ASKED,       /* of these, sent to servers of another host; limited per ASKER only */
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
    struct cm_holder *within; /* of a HOST: its NETWORK, which counts its objects, too; or NULL */
    uint32_t has[CM_POOLS];   /* objects of each pool */
    uint32_t given_up;        /* requests that no longer count here (cm_pending_cancel) */
    uint32_t unconfirmed;     /* of its requests: accepted, CONFIRM not seen */
    uint64_t turn_ns;         /* when a server last took a request of it */
    TAILQ_HEAD(, cm_answered) answered; /* of a source or a NETWORK; oldest first */
    TAILQ_HEAD(, cm_attempt) unsent;    /* of an ASKER: attempts without room yet */
    /* Of an OWNER: discriminators in CM_POOL_LINGER, [0] not settled, [1] settled; oldest first. */
    TAILQ_HEAD(, cm_disc) lingering[2];
    uint32_t unsettled;                  /* count of lingering[0] */
    TAILQ_ENTRY(cm_holder) of_lingerers; /* with CM_SMALL or more of them: in cm.lingerers */
    /* The user's number, 4 bytes (not of a HOST), then the source's address bytes (HOST), or a hash
     * of the other host's address (ASKER). */
    struct cm_host id;
};

/* A holder that has less than this number of objects of a pool may use the pool's reserve. */
#define CM_SMALL 16

/* Find or make, with one reference more; NULL = no memory. */
struct cm_holder *cm_holder_user(struct cm *cm, enum cm_holder_kind kind, uint32_t uid);
struct cm_holder *cm_holder_host(struct cm *cm, const struct cm_host *host);
struct cm_holder *cm_holder_asker(struct cm *cm, uint32_t uid, const struct cm_host *host);
/*
 * The source of an address: the bytes that all addresses of this source have. An address with our
 * own port counts as the vipd of its host, which is a source of its own. So another program there,
 * which sends requests from its host's address and costs a server time, takes no turns and no
 * places from that vipd. One host address makes two sources at most.
 */
struct cm_host cm_source_of(const struct cm *cm, const struct cm_host *host);
struct cm_holder *cm_holder_ref(struct cm_holder *holder);
void cm_holder_put(struct cm *cm, struct cm_holder *holder); /* NULL is fine */
/* The user's number; not of a HOST. */
uint32_t cm_holder_uid(const struct cm_holder *holder);

/* May both holders have one more object of the pool? NULL: no holder. */
bool cm_share_room(const struct cm *cm, enum cm_pool pool, const struct cm_holder *a,
                   const struct cm_holder *b);
/* Has the holder less than its part, however full the pool is? */
bool cm_share_part(enum cm_pool pool, const struct cm_holder *holder);
/* Count `by` more for the holder and its network. _take, _give: one more, one less, for the pool
 * and for both holders and their networks. */
void cm_share_count(enum cm_pool pool, struct cm_holder *holder, int by);
void cm_share_take(struct cm *cm, enum cm_pool pool, struct cm_holder *a, struct cm_holder *b);
void cm_share_give(struct cm *cm, enum cm_pool pool, struct cm_holder *a, struct cm_holder *b);

#endif
