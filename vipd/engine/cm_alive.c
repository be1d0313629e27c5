/*
 * Keepalive: finds out whether a peer is alive, once per peer, not per connection. If a peer is
 * dead, this file ends its connections.
 *
 * A packet from the host of a peer, but with another epoch, proves nothing, because packets can be
 * late or forged. So vipd sends a PING, and its PONG shows the true epoch. A life is proved by a
 * PONG with our nonce, or by a packet with the ids of a connection.
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>

#include "proto/assert.h"

/* PINGs to a silent peer in one keepalive interval: several, because packets may be lost. */
#define PINGS_PER_KEEPALIVE 4
/* A peer counts as dead only after this many unanswered PINGs in one silence. */
#define PINGS_BEFORE_DEATH 4
/* While the medium has more packets, the silence of a peer does not count. In one silence, this
 * time is at most EXCUSED_PER_DEAD * peer_dead_ns. */
#define EXCUSED_PER_DEAD 2

static void ping(struct cm *cm, struct cm_peer *peer, uint64_t now_ns)
{
    struct vip_cm msg = {.type = VIP_CM_PING};

    /* All PINGs of a silence have the same nonce, because an answer may take longer than the time
     * between two PINGs. */
    if (!peer->nonce)
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

/* Find an open connection of a dead peer that cannot be bound anew: it has no secret, or the time
 * for a REBIND is over. */
static struct cm_assoc *any_lost(const struct cm_peer *peer, uint64_t now_ns)
{
    struct cm_assoc *assoc;

    TAILQ_FOREACH(assoc, &peer->assocs, of_peer)
    {
        if (assoc->state == CM_ASSOC_OPEN && (!assoc->by_tag.linked || now_ns >= peer->rebind_ns))
            return assoc;
    }
    return NULL;
}

/*
 * End one connection of a dead peer. The peer may have thousands of connections, and the end of
 * each takes 0.1 ms. So the timer fires once for each connection. When the host has forgotten the
 * last connection, the peer is freed.
 */
void cm_fire_lost(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_peer *peer = CM_OF(struct cm_peer, timer, timer);
    struct cm_assoc *assoc = any_lost(peer, now_ns);
    uint32_t number = peer->number;

    if (!assoc) {
        if (peer->assocs_open > 0)
            cm_timer_set(cm, &peer->timer, peer->rebind_ns);
        return;
    }
    /* The peer counts as lost only now: before, its next vipd could still come in time. */
    cm->stats.peers_lost += !peer->counted;
    peer->counted = true;
    /* If the path fails in one direction only, the peer may be alive. Then the CLOSE ends the
     * connection at the peer, too. */
    if (!peer->new_life)
        cm_closing_start(cm, assoc, NULL, now_ns);
    cm_assoc_set_state(cm, assoc, CM_ASSOC_CLOSED, now_ns);
    cm->ops.lost(cm->ctx, assoc->local_id,
                 !peer->new_life        ? "the peer's vipd is silent"
                 : assoc->by_tag.linked ? "no next vipd of the peer went on with the connection in "
                                          "time"
                                        : "the peer's vipd was restarted");
    peer = cm_peer_by_number(cm, number);
    if (peer && peer->assocs_open > 0)
        cm_timer_set(cm, &peer->timer, now_ns);
}

/* The peer is dead. new_life: it has, or will have, a new life. For wait_ns from now, this life may
 * bind connections anew. */
static void lose(struct cm *cm, struct cm_peer *peer, bool new_life, uint64_t wait_ns,
                 uint64_t now_ns)
{
    VIP_ASSERT(!peer->dead);
    peer->dead = true;
    peer->new_life = new_life;
    peer->rebind_ns = cm_add_ns(now_ns, wait_ns);
    peer->since_ns = now_ns;
    peer->timer.kind = CM_TIMER_LOST;
    cm_fire_lost(cm, &peer->timer, now_ns);
}

/* May an answer of the peer be among packets that vipd has not yet taken from the medium? The time
 * of this excuse is limited, because in a flood of packets the medium always has more. */
static bool backlog_excuses(const struct cm *cm, const struct cm_peer *peer)
{
    return cm->behind && peer->excused_ns < EXCUSED_PER_DEAD * cm->config.peer_dead_ns;
}

/*
 * Time in which vipd could not see an answer is no silence of the peer. First case: this timer
 * fires late, because vipd stood still. Second case: the medium has more packets than vipd took,
 * and an answer may be among them. The second case has a limit (excused_ns). If both cases come
 * together, only the late time is excused, but it also reduces the rest of the limit. Otherwise no
 * peer would die in a long flood.
 */
static void excuse_own_silence(struct cm *cm, struct cm_peer *peer, uint64_t due_ns,
                               uint64_t now_ns)
{
    uint64_t late_ns = now_ns - due_ns, own_ns = 0;
    bool backlog = backlog_excuses(cm, peer);

    if (VIP_MUTANT(JUDGE_LATE))
        return;
    if (late_ns > ping_gap_ns(cm))
        own_ns = late_ns;
    else if (backlog)
        own_ns = ping_gap_ns(cm);
    if (backlog)
        peer->excused_ns = cm_add_ns(peer->excused_ns, ping_gap_ns(cm));
    peer->silent_from_ns = cm_add_ns(peer->silent_from_ns, own_ns);
}

/* The keepalive timer fires. It may be too early: data packets set heard_ns, but not the timer. */
void cm_fire_keepalive(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_peer *peer = CM_OF(struct cm_peer, timer, timer);
    uint64_t quiet_ns;

    if (now_ns < cm_add_ns(peer->heard_ns, cm->config.keepalive_ns)) {
        cm_timer_set(cm, timer, cm_add_ns(peer->heard_ns, cm->config.keepalive_ns));
        return;
    }
    excuse_own_silence(cm, peer, timer->at_ns, now_ns);
    quiet_ns = now_ns > peer->silent_from_ns ? now_ns - peer->silent_from_ns : 0;
    if ((peer->unanswered >= PINGS_BEFORE_DEATH || VIP_MUTANT(JUDGE_LATE)) &&
        !backlog_excuses(cm, peer) &&
        quiet_ns >= cm->config.peer_dead_ns / (VIP_MUTANT(DEAD_EARLY) ? 2 : 1)) {
        lose(cm, peer, false, 0, now_ns);
        return;
    }
    ping(cm, peer, now_ns);
    if (peer->unanswered < PINGS_BEFORE_DEATH)
        peer->unanswered++;
    cm_timer_set(cm, timer, cm_add_ns(now_ns, ping_gap_ns(cm)));
}

void cm_peer_note(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node;

    /* Epochs are public: each host sends its epoch to any host that asks. So a message proves that
     * the peer is alive only if it has the ids of a connection. */
    if (in->knows_us && cm_assoc_of(cm, in))
        cm_peer_hear(cm, in->peer, in->now_ns);
    node = cm_table_find(cm, &cm->peers, cm_peer_key(cm, in->from));
    for (; node; node = cm_table_again(node)) {
        struct cm_peer *peer = CM_OF(struct cm_peer, by_host, node);

        if (peer == in->peer || peer->dead || !peer->assocs_open || peer->self ||
            !cm_host_equal(&peer->host, in->from))
            continue;
        /* Limit the PINGs: many packets with forged epochs may come. */
        if (in->now_ns < cm_add_ns(peer->pinged_ns, ping_gap_ns(cm)))
            continue;
        ping(cm, peer, in->now_ns);
    }
}

void cm_rx_ping(struct cm *cm, const struct cm_in *in)
{
    struct vip_cm msg = {.type = VIP_CM_PONG, .request_id = in->msg->request_id};

    /* If the PING is for an earlier life of this vipd, the PONG header tells the present epoch. */
    cm_answer(cm, in, &msg);
}

void cm_rx_pong(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->peers, cm_peer_key(cm, in->from));

    for (; node; node = cm_table_again(node)) {
        struct cm_peer *peer = CM_OF(struct cm_peer, by_host, node);

        if (peer->dead || !peer->nonce || !cm_host_equal(&peer->host, in->from) ||
            peer->nonce != in->msg->request_id)
            continue;
        peer->nonce = 0;
        if (peer->epoch != in->src_epoch)
            lose(cm, peer, true, cm->config.outlive_ns, in->now_ns);
        else
            cm_peer_hear(cm, peer, in->now_ns);
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
    /* This PONG is late or repeated, or its PING is older than the peer's last connection. */
    cm->stats.unexpected++;
}

/* ---- a vipd that ends, and another one goes on ------------------------------------------- */

/* Number of AWAY messages to one peer, each for another connection. One AWAY is not enough: it may
 * be lost, or its connection may have ended at the peer. */
#define AWAYS_PER_PEER 3

/* Can the connection be bound anew? */
static bool goes_on(const struct cm_assoc *assoc)
{
    return assoc->state == CM_ASSOC_OPEN && assoc->by_tag.linked;
}

void cm_leave(struct cm *cm, uint64_t back_ns, uint64_t now_ns)
{
    struct vip_cm msg = {.type = VIP_CM_AWAY, .back_ms = (back_ns + 999999) / 1000000};

    VIP_ASSERT(back_ns > 0 && back_ns <= CM_AWAY_NS_MAX);
    cm->now_ns = now_ns;
    for (unsigned i = 0; i < CM_PEERS_MAX; i++) {
        const struct cm_peer *peer = cm->peer_of[i];
        const struct cm_assoc *assoc;
        unsigned sent = 0;

        if (!peer || peer->dead || peer->self)
            continue;
        TAILQ_FOREACH(assoc, &peer->assocs, of_peer)
        {
            if (!goes_on(assoc))
                continue;
            msg.conn_id = assoc->local_id;
            msg.peer_conn_id = assoc->remote_id;
            cm_send(cm, &peer->host, peer->epoch, &msg);
            if (++sent == AWAYS_PER_PEER)
                break;
        }
    }
}

/* An AWAY is for all connections with its sender. As proof it has the ids of one connection. */
void cm_rx_away(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_of(cm, in);
    uint64_t wait_ns = cm->config.outlive_ns;

    if (!assoc || in->peer->self) {
        cm->stats.unexpected++; /* maybe a further AWAY of a peer that is away already */
        return;
    }
    if (in->msg->back_ms < wait_ns / 1000000)
        wait_ns = in->msg->back_ms * 1000000;
    TAILQ_FOREACH(assoc, &in->peer->assocs, of_peer)
    {
        if (goes_on(assoc))
            cm->ops.away(cm->ctx, assoc->local_id);
    }
    in->peer->told_ns = in->msg->back_ms * 1000000;
    lose(cm, in->peer, true, wait_ns, in->now_ns);
}

/* Returns a place for a new question of user `uid`: a free place, or the place of the oldest
 * question of the user who has most questions. */
static struct cm_probe *probe_place(struct cm *cm, uint32_t uid)
{
    struct cm_probe *place = NULL;
    unsigned most = 0;

    for (unsigned i = 0; i < CM_PROBES_MAX; i++) {
        struct cm_probe *probe = &cm->probes[i];
        unsigned has = probe->uid == uid; /* the new question counts, too */

        if (probe->nonce == 0)
            return probe;
        for (unsigned n = 0; n < CM_PROBES_MAX; n++)
            has += cm->probes[n].uid == probe->uid;
        if (has > most || (has == most && probe->sent_ns < place->sent_ns)) {
            place = probe;
            most = has;
        }
    }
    return place;
}

uint64_t cm_probe(struct cm *cm, const struct cm_host *host, uint32_t uid, uint64_t now_ns)
{
    struct cm_probe *probe = probe_place(cm, uid);
    struct vip_cm msg = {.type = VIP_CM_PING};
    uint64_t number;

    *probe =
        (struct cm_probe){.host = *host, .uid = uid, .nonce = cm_random_id(cm), .sent_ns = now_ns};
    number = probe->nonce;
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
