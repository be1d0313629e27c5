/*
 * Peers: the lives of other vipd that we have connections with.
 *
 * Owns: peer numbers, keepalive (one per peer, not per connection), the judgement that a peer is
 * dead or in a new life. A life is (host, epoch). Another epoch seen from a known host is only a
 * rumour, because packets can be late or forged: it makes us ask, and only the PONG to that very
 * question is believed.
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>

#include "proto/assert.h"

/* Pings while a peer is silent, per keepalive interval: at heavy loss some must get through. */
#define PINGS_PER_KEEPALIVE 4

/* A peer number is index | generation << this, so that a late number names nobody. */
#define INDEX_BITS 12
_Static_assert(1u << INDEX_BITS == CM_PEERS_MAX, "the index fills its bits");

static uint64_t host_key(struct cm *cm, const struct cm_host *host)
{
    return cm_hash(cm, host->bytes, host->len, 0);
}

static bool is_self(const struct cm *cm, const struct cm_peer *peer)
{
    return peer->epoch == cm->config.epoch;
}

struct cm_peer *cm_peer_find(struct cm *cm, const struct cm_host *host, uint64_t epoch)
{
    struct cm_node *node = cm_table_find(cm, &cm->peers, host_key(cm, host));

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

static void ping(struct cm *cm, struct cm_peer *peer, uint64_t now_ns)
{
    struct vip_cm msg = {.type = VIP_CM_PING};

    peer->nonce = cm_random_id(cm);
    peer->pinged_ns = now_ns;
    msg.request_id = peer->nonce;
    cm->stats.pings_sent++;
    cm_send(cm, &peer->host, peer->epoch, &msg);
}

static uint64_t ping_gap_ns(const struct cm *cm)
{
    return cm->config.keepalive_ns / PINGS_PER_KEEPALIVE;
}

/* The peer's connections are over. The host forgets them one by one; the last frees the peer. */
static void lose(struct cm *cm, struct cm_peer *peer, bool new_life, uint64_t now_ns)
{
    uint32_t number = peer->number;
    struct cm_assoc *assoc;

    VIP_ASSERT(!peer->dead);
    peer->dead = true;
    cm->stats.peers_lost++;
    TAILQ_FOREACH(assoc, &peer->assocs, of_peer)
    {
        if (assoc->state != CM_ASSOC_OPEN)
            continue;
        /* Silence may be one-sided: what we call lost must not stay connected over there. */
        if (!new_life)
            cm_closing_start(cm, assoc, NULL, now_ns);
        cm_assoc_set_state(cm, assoc, CM_ASSOC_CLOSED, now_ns);
    }
    cm->ops.peer_lost(cm->ctx, number,
                      new_life ? "the peer's vipd was restarted" : "the peer's vipd is silent");
}

/* Keepalive: lazy, because every data packet moves heard_ns without touching the timer. */
static void fire_keepalive(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_peer *peer = CM_OF(struct cm_peer, timer, timer);
    uint64_t quiet_ns = now_ns > peer->heard_ns ? now_ns - peer->heard_ns : 0;

    if (quiet_ns >= cm->config.peer_dead_ns / (VIP_MUTANT(DEAD_EARLY) ? 2 : 1)) {
        lose(cm, peer, false, now_ns);
        return;
    }
    if (quiet_ns < cm->config.keepalive_ns) {
        cm_timer_set(cm, timer, cm_add_ns(peer->heard_ns, cm->config.keepalive_ns));
        return;
    }
    ping(cm, peer, now_ns);
    cm_timer_set(cm, timer, cm_add_ns(now_ns, ping_gap_ns(cm)));
}

/* A free number; the caller knows that there is one. */
static uint32_t take_number(struct cm *cm)
{
    VIP_ASSERT(cm->stats.peers < CM_PEERS_MAX);
    while (cm->peer_of[cm->peer_cursor % CM_PEERS_MAX])
        cm->peer_cursor++;
    return cm->peer_cursor++ % CM_PEERS_MAX | ++cm->peer_generation << INDEX_BITS;
}

struct cm_peer *cm_peer_get(struct cm *cm, const struct cm_host *host, uint64_t epoch,
                            uint64_t now_ns)
{
    struct cm_peer *peer = cm_peer_find(cm, host, epoch);

    if (peer) {
        peer->refs++;
        return peer;
    }
    if (cm->stats.peers >= CM_PEERS_MAX) {
        cm->stats.refused_memory++;
        return NULL;
    }
    peer = cm_alloc(cm, sizeof(*peer));
    if (!peer)
        return NULL;
    peer->host = *host;
    peer->epoch = epoch;
    peer->heard_ns = now_ns;
    peer->refs = 1;
    peer->timer.fire = fire_keepalive;
    TAILQ_INIT(&peer->assocs);
    peer->number = take_number(cm);
    cm->peer_of[peer->number % CM_PEERS_MAX] = peer;
    cm_table_add(cm, &cm->peers, &peer->by_host, host_key(cm, host));
    cm->stats.peers++;
    return peer;
}

void cm_peer_put(struct cm *cm, struct cm_peer *peer)
{
    VIP_ASSERT(peer->refs > 0);
    if (--peer->refs)
        return;
    VIP_ASSERT(TAILQ_EMPTY(&peer->assocs) && cm->stats.peers > 0);
    cm_timer_clear(cm, &peer->timer);
    cm_node_del(&peer->by_host);
    cm->peer_of[peer->number % CM_PEERS_MAX] = NULL;
    cm->stats.peers--;
    cm_free(cm, peer, sizeof(*peer));
}

void cm_peer_opened(struct cm *cm, struct cm_peer *peer, uint64_t now_ns)
{
    /* An answer to an older PING says nothing about this connection. */
    peer->nonce = 0;
    peer->pinged_ns = 0;
    if (peer->assocs_open++ || is_self(cm, peer))
        return;
    peer->heard_ns = now_ns;
    cm_timer_set(cm, &peer->timer, cm_add_ns(now_ns, cm->config.keepalive_ns));
}

void cm_peer_closed(struct cm *cm, struct cm_peer *peer)
{
    VIP_ASSERT(peer->assocs_open > 0);
    if (!--peer->assocs_open)
        cm_timer_clear(cm, &peer->timer);
}

void cm_peer_note(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node;

    if (in->peer && in->knows_us)
        in->peer->heard_ns = in->now_ns;
    node = cm_table_find(cm, &cm->peers, host_key(cm, in->from));
    for (; node; node = cm_table_again(node)) {
        struct cm_peer *peer = CM_OF(struct cm_peer, by_host, node);

        if (peer == in->peer || peer->dead || !peer->assocs_open || is_self(cm, peer) ||
            !cm_host_equal(&peer->host, in->from))
            continue;
        /* A forged stream of epochs must not become a stream of questions. */
        if (in->now_ns < cm_add_ns(peer->pinged_ns, ping_gap_ns(cm)))
            continue;
        ping(cm, peer, in->now_ns);
    }
}

void cm_rx_ping(struct cm *cm, const struct cm_in *in)
{
    struct vip_cm msg = {.type = VIP_CM_PONG, .request_id = in->msg->request_id};

    /* Whatever life the question was for: our epoch in the header is the answer. */
    cm_answer(cm, in, &msg);
}

void cm_rx_pong(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->peers, host_key(cm, in->from));

    for (; node; node = cm_table_again(node)) {
        struct cm_peer *peer = CM_OF(struct cm_peer, by_host, node);

        if (peer->dead || !cm_host_equal(&peer->host, in->from) ||
            peer->nonce != in->msg->request_id)
            continue;
        peer->nonce = 0;
        if (peer->epoch != in->src_epoch)
            lose(cm, peer, true, in->now_ns);
        return;
    }
    for (unsigned i = 0; i < CM_PROBES_MAX; i++) {
        struct cm_probe *probe = &cm->probes[i];

        if (probe->nonce != in->msg->request_id || probe->nonce == 0 || probe->epoch != 0 ||
            !cm_host_equal(&probe->host, in->from))
            continue;
        probe->epoch = in->src_epoch;
        probe->rtt_ns = in->now_ns - probe->sent_ns;
        return;
    }
    /* Late, or an answer to a question that a newer connection has made void. */
    cm->stats.unexpected++;
}

uint64_t cm_probe(struct cm *cm, const struct cm_host *host, uint64_t now_ns)
{
    struct cm_probe *probe = &cm->probes[cm->probe_next++ % CM_PROBES_MAX];
    struct vip_cm msg = {.type = VIP_CM_PING};
    uint64_t number;

    *probe = (struct cm_probe){.host = *host, .nonce = cm_random_id(cm), .sent_ns = now_ns};
    number = probe->nonce; /* the answer of our own host may come from within */
    msg.request_id = number;
    cm->stats.pings_sent++;
    cm_send(cm, host, 0, &msg);
    return number;
}

int cm_probe_result(const struct cm *cm, uint64_t number, uint64_t *ret_rtt_ns, uint64_t *ret_epoch)
{
    for (unsigned i = 0; i < CM_PROBES_MAX; i++) {
        const struct cm_probe *probe = &cm->probes[i];

        if (probe->nonce != number || number == 0)
            continue;
        if (probe->epoch == 0)
            return 0;
        *ret_rtt_ns = probe->rtt_ns;
        *ret_epoch = probe->epoch;
        return 1;
    }
    return -ENOENT;
}

_Static_assert(CM_PEER_INDEXES == CM_PEERS_MAX, "every peer can be looked at");

bool cm_peer_view(const struct cm *cm, uint32_t index, struct cm_peer_view *ret)
{
    const struct cm_peer *peer = index < CM_PEERS_MAX ? cm->peer_of[index] : NULL;

    if (!peer)
        return false;
    *ret = (struct cm_peer_view){.host = peer->host,
                                 .epoch = peer->epoch,
                                 .number = peer->number,
                                 .connections = peer->assocs_open,
                                 .heard_ns = peer->heard_ns,
                                 .dead = peer->dead};
    return true;
}

void cm_heard(struct cm *cm, uint32_t peer_number, uint64_t now_ns)
{
    struct cm_peer *peer = cm_peer_by_number(cm, peer_number);

    if (peer)
        peer->heard_ns = now_ns;
}

const struct cm_host *cm_peer_host(const struct cm *cm, uint32_t peer_number)
{
    const struct cm_peer *peer = cm_peer_by_number(cm, peer_number);

    return peer ? &peer->host : NULL;
}
