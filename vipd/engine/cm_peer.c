/*
 * Peers: the lives of other vipd with which this vipd has connections or requests. A host and an
 * epoch identify a life.
 *
 * Owns: peer numbers, the times of signs of life. Does not own: keepalive and death (cm_alive.c).
 */
#include "vipd/engine/cm_internal.h"

#include "proto/assert.h"

/* A peer number is index | generation << INDEX_BITS. So a later peer with the same index has
 * another number. */
#define INDEX_BITS 12
_Static_assert(1u << INDEX_BITS == CM_PEERS_MAX, "the index fills its bits");

uint64_t cm_peer_key(struct cm *cm, const struct cm_host *host)
{
    return cm_hash(cm, host->bytes, host->len, 0);
}

struct cm_peer *cm_peer_find(struct cm *cm, const struct cm_host *host, uint64_t epoch)
{
    struct cm_node *node = cm_table_find(cm, &cm->peers, cm_peer_key(cm, host));

    for (; node; node = cm_table_again(node)) {
        struct cm_peer *peer = CM_OF(struct cm_peer, by_host, node);

        if ((peer->epoch == epoch || VIP_MUTANT(EPOCH)) && !peer->dead &&
            cm_host_equal(&peer->host, host))
            return peer;
    }
    return NULL;
}

struct cm_peer *cm_peer_by_number(const struct cm *cm, uint32_t number)
{
    struct cm_peer *peer = cm->peer_of[number % CM_PEERS_MAX];

    return peer && peer->number == number ? peer : NULL;
}

/* A packet proves that the peer is alive. The packet came at now_ns or at cm->looked_ns, whichever
 * is later. */
void cm_peer_hear(struct cm *cm, struct cm_peer *peer, uint64_t now_ns)
{
    peer->heard_ns = now_ns > cm->looked_ns ? now_ns : cm->looked_ns;
    peer->silent_from_ns = peer->heard_ns;
    peer->excused_ns = 0;
    peer->unanswered = 0;
}

/* Choose a free peer number. The caller must know that a number is free. */
static uint32_t take_number(struct cm *cm)
{
    VIP_ASSERT(cm->pool_used[CM_POOL_PEERS] < CM_PEERS_MAX);
    while (cm->peer_of[cm->peer_cursor % CM_PEERS_MAX])
        cm->peer_cursor++;
    return cm->peer_cursor++ % CM_PEERS_MAX | ++cm->peer_generation << INDEX_BITS;
}

/* Count the known lives of `host`, including the dead ones. */
static unsigned lives(struct cm *cm, const struct cm_host *host)
{
    struct cm_node *node = cm_table_find(cm, &cm->peers, cm_peer_key(cm, host));
    unsigned count = 0;

    for (; node; node = cm_table_again(node))
        count += cm_host_equal(&CM_OF(struct cm_peer, by_host, node)->host, host);
    return count;
}

struct cm_peer *cm_peer_get(struct cm *cm, const struct cm_host *host, uint64_t epoch,
                            uint64_t now_ns)
{
    struct cm_peer *peer = cm_peer_find(cm, host, epoch);
    struct cm_holder *source;

    if (peer) {
        peer->refs++;
        return peer;
    }
    source = cm_holder_host(cm, host);
    if (!source)
        return NULL;
    if (!cm_share_room(cm, CM_POOL_PEERS, source, NULL) || lives(cm, host) >= CM_LIVES_MAX) {
        cm->stats.refused_memory++;
        cm_holder_put(cm, source);
        return NULL;
    }
    peer = cm_alloc(cm, sizeof(*peer));
    if (!peer) {
        cm_holder_put(cm, source);
        return NULL;
    }
    peer->source = source;
    peer->host = *host;
    peer->epoch = epoch;
    /* The epoch alone is not enough: other NICs of this vipd have the same epoch, and other hosts
     * may forge it. */
    peer->self = epoch == cm->config.epoch && cm_host_equal(host, &cm->config.self);
    cm_peer_hear(cm, peer, now_ns);
    peer->since_ns = now_ns;
    peer->refs = 1;
    peer->timer.kind = CM_TIMER_KEEPALIVE;
    TAILQ_INIT(&peer->assocs);
    peer->number = take_number(cm);
    cm->peer_of[peer->number % CM_PEERS_MAX] = peer;
    cm_table_add(cm, &cm->peers, &peer->by_host, cm_peer_key(cm, host));
    cm_share_take(cm, CM_POOL_PEERS, source, NULL);
    return peer;
}

void cm_peer_put(struct cm *cm, struct cm_peer *peer)
{
    VIP_ASSERT(peer->refs > 0);
    if (--peer->refs)
        return;
    VIP_ASSERT(TAILQ_EMPTY(&peer->assocs));
    cm_timer_clear(cm, &peer->timer);
    cm_node_del(&peer->by_host);
    cm->peer_of[peer->number % CM_PEERS_MAX] = NULL;
    cm_share_give(cm, CM_POOL_PEERS, peer->source, NULL);
    cm_holder_put(cm, peer->source);
    cm_free(cm, peer, sizeof(*peer));
}

void cm_peer_opened(struct cm *cm, struct cm_peer *peer, uint64_t now_ns)
{
    /* Forget the nonce: a PONG to an earlier PING must not count for the new connection. */
    peer->nonce = 0;
    peer->pinged_ns = 0;
    if (peer->assocs_open++ || peer->self)
        return;
    cm_peer_hear(cm, peer, now_ns);
    cm_timer_set(cm, &peer->timer, cm_add_ns(now_ns, cm->config.keepalive_ns));
}

void cm_peer_closed(struct cm *cm, struct cm_peer *peer)
{
    VIP_ASSERT(peer->assocs_open > 0);
    if (--peer->assocs_open)
        return;
    cm_timer_clear(cm, &peer->timer);
}

_Static_assert(CM_PEER_INDEXES == CM_PEERS_MAX, "every peer can be looked at");

bool cm_peer_view(const struct cm *cm, uint32_t index, struct cm_peer_view *ret)
{
    const struct cm_peer *peer = index < CM_PEERS_MAX ? cm->peer_of[index] : NULL;

    if (!peer)
        return false;
    *ret = (struct cm_peer_view){.host = peer->host,
                                 .epoch = peer->epoch,
                                 .self = peer->self,
                                 .number = peer->number,
                                 .connections = peer->assocs_open,
                                 .heard_ns = peer->heard_ns,
                                 .dead = peer->dead,
                                 .since_ns = peer->since_ns,
                                 .away_until_ns = peer->new_life ? peer->rebind_ns : 0,
                                 .told_ns = peer->told_ns};
    return true;
}

bool cm_peer_away(const struct cm *cm, uint32_t number, struct cm_peer_view *ret)
{
    const struct cm_peer *peer = cm_peer_by_number(cm, number);

    return peer && peer->dead && peer->new_life && cm_peer_view(cm, number % CM_PEERS_MAX, ret);
}

void cm_heard(struct cm *cm, uint32_t peer_number, uint64_t now_ns)
{
    struct cm_peer *peer = cm_peer_by_number(cm, peer_number);

    if (peer)
        cm_peer_hear(cm, peer, now_ns);
}

void cm_looked(struct cm *cm, uint64_t now_ns)
{
    cm->looked_ns = now_ns;
}

void cm_behind(struct cm *cm, bool behind)
{
    cm->behind = behind;
}

const struct cm_host *cm_peer_host(const struct cm *cm, uint32_t peer_number)
{
    const struct cm_peer *peer = cm_peer_by_number(cm, peer_number);

    return peer ? &peer->host : NULL;
}
