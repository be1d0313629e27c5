/*
 * Connection manager: set-up and end, dispatch of received messages, time, counters.
 *
 * Owns: struct cm. Called by vipd/nic/ on the NIC's thread. The handling of an event calls an
 * operation of the host as its last step: in this operation the host may close and forget
 * connections, so pointers to objects are not valid afterwards.
 */
#include "vipd/engine/cm_internal.h"

#include "proto/assert.h"

size_t cm_bytes(void)
{
    return sizeof(struct cm);
}

struct cm *cm_init(void *memory, const struct cm_config *config, const struct cm_ops *ops,
                   void *ctx, uint64_t now_ns)
{
    struct cm *cm = memory;

    VIP_ASSERT(config->epoch && config->retry_ns && config->retry_max_ns >= config->retry_ns);
    VIP_ASSERT(config->keepalive_ns && config->peer_dead_ns > config->keepalive_ns);
    VIP_ASSERT(config->self.len <= VIP_HOST_ADDR_BYTES_MAX && config->backlog_max);
    VIP_ASSERT(config->source_bytes && config->source_bytes <= VIP_HOST_ADDR_BYTES_MAX);
    VIP_ASSERT(!ops->loan_offered == !ops->loan_agreed);
    cm->config = *config;
    cm->ops = *ops;
    cm->ctx = ctx;
    cm->random_key = (struct siphash_key){config->seed, ~config->epoch};
    cm->salt = cm_random(cm);
    /* A program may still use a handle of an earlier life: no new handle may be equal to it. */
    cm->last_handle = siphash(&cm->random_key, "handles", 7) >> 1;
    cm->now_ns = cm->born_ns = now_ns;
    TAILQ_INIT(&cm->answered_order);
    TAILQ_INIT(&cm->served);
    TAILQ_INIT(&cm->lingerers);
    return cm;
}

void cm_deinit(struct cm *cm)
{
    struct cm_node *node;
    unsigned bucket = 0;

    cm_server_deinit(cm);
    cm_rebind_deinit(cm);
    cm_answered_deinit(cm);
    cm_client_deinit(cm); /* also frees the meeting places */
    cm_disc_deinit(cm);
    cm_closing_deinit(cm);
    while ((node = cm_table_any(&cm->assocs_local, &bucket)))
        cm_assoc_free(cm, CM_OF(struct cm_assoc, by_local, node));
    VIP_ASSERT(cm->pool_used[CM_POOL_PEERS] == 0 && !cm->timers);
}

void cm_set_medium(struct cm *cm, const struct cm_host *self, uint32_t packet_bytes,
                   uint32_t window_bytes)
{
    VIP_ASSERT(self->len <= VIP_HOST_ADDR_BYTES_MAX);
    cm->config.self = *self;
    cm->config.packet_bytes = packet_bytes;
    cm->config.window_bytes = window_bytes;
}

void cm_set_config(struct cm *cm, const struct cm_config *config)
{
    VIP_ASSERT(config->keepalive_ns && config->peer_dead_ns > config->keepalive_ns);
    cm->config.keepalive_ns = config->keepalive_ns;
    cm->config.peer_dead_ns = config->peer_dead_ns;
    cm->config.accept_timeout_ns = config->accept_timeout_ns;
    cm->config.outlive_ns = config->outlive_ns;
    cm->config.waits_max = config->waits_max;
    cm->config.features = config->features;
}

void cm_conn_gone(struct cm *cm, uint64_t local_id, uint32_t peer)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, local_id);

    /* Only cm_close ends an OPENING connection: without CONFIRM, it is not established. */
    if (assoc && assoc->state != CM_ASSOC_OPENING && assoc->peer->number == peer)
        cm_assoc_free(cm, assoc);
}

/* ---- packets ----------------------------------------------------------------------------- */

/*
 * Is the destination epoch acceptable? Senders of REQUEST, PING and REBIND possibly do not know the
 * epoch of this vipd yet. A CLOSE for a connection of an earlier life must get its CLOSE_ACK. A
 * CANCEL may follow a REQUEST that got no answer; then its destination epoch is 0.
 */
static bool epoch_is_right(const struct cm *cm, const struct vip_header *hdr,
                           const struct vip_cm *msg)
{
    switch ((enum vip_cm_type)msg->type) {
    case VIP_CM_REQUEST:
    case VIP_CM_PING:
    case VIP_CM_CLOSE:
    case VIP_CM_REBIND:
        return true;
    case VIP_CM_CANCEL:
        return !hdr->dst_epoch || hdr->dst_epoch == cm->config.epoch;
    case VIP_CM_PENDING:
    case VIP_CM_ACCEPT:
    case VIP_CM_CONFIRM:
    case VIP_CM_REJECT:
    case VIP_CM_NO_MATCH:
    case VIP_CM_CLOSE_ACK:
    case VIP_CM_PONG:
    case VIP_CM_RESET:
    case VIP_CM_COOKIE:
    case VIP_CM_SETUP:
    case VIP_CM_CHALLENGE:
    case VIP_CM_PROOF:
    case VIP_CM_AWAY:
    case VIP_CM_LOAN_OFFER:
    case VIP_CM_LOAN_AGREE:
    case VIP_CM_LOAN_PROBE:
    case VIP_CM_LOAN_PROBED:
    case VIP_CM_TYPES:
        break;
    }
    return hdr->dst_epoch == cm->config.epoch;
}

static void dispatch(struct cm *cm, const struct cm_in *in)
{
    switch ((enum vip_cm_type)in->msg->type) {
    case VIP_CM_REQUEST:
        cm_rx_request(cm, in);
        return;
    case VIP_CM_PENDING:
        cm_rx_pending(cm, in);
        return;
    case VIP_CM_ACCEPT:
        cm_rx_accept(cm, in);
        return;
    case VIP_CM_CONFIRM:
        cm_rx_confirm(cm, in);
        return;
    case VIP_CM_REJECT:
    case VIP_CM_NO_MATCH:
        cm_rx_refusal(cm, in);
        return;
    case VIP_CM_CANCEL:
        cm_rx_cancel(cm, in);
        return;
    case VIP_CM_CLOSE:
        cm_rx_close(cm, in);
        return;
    case VIP_CM_CLOSE_ACK:
        cm_rx_close_ack(cm, in);
        return;
    case VIP_CM_PING:
        cm_rx_ping(cm, in);
        return;
    case VIP_CM_PONG:
        cm_rx_pong(cm, in);
        return;
    case VIP_CM_RESET:
        cm_rx_reset(cm, in);
        return;
    case VIP_CM_COOKIE:
        cm_rx_cookie(cm, in);
        return;
    case VIP_CM_SETUP:
        if (!cm_rx_server_setup(cm, in))
            cm_rx_confirm(cm, in);
        return;
    case VIP_CM_REBIND:
        cm_rx_rebind(cm, in);
        return;
    case VIP_CM_CHALLENGE:
        cm_rx_challenge(cm, in);
        return;
    case VIP_CM_PROOF:
        cm_rx_proof(cm, in);
        return;
    case VIP_CM_AWAY:
        cm_rx_away(cm, in);
        return;
    case VIP_CM_LOAN_OFFER:
    case VIP_CM_LOAN_AGREE:
        cm_rx_loan_terms(cm, in);
        return;
    case VIP_CM_LOAN_PROBE:
        cm_rx_loan_probe(cm, in);
        return;
    case VIP_CM_LOAN_PROBED:
        cm->stats.unexpected++; /* the host gives an answer to a probe to cm_loan_probed */
        return;
    case VIP_CM_TYPES:
        return; /* vip_wire_get_cm refuses unknown types */
    }
}

void cm_rx(struct cm *cm, const struct cm_host *from, const uint8_t *packet, size_t len_bytes,
           uint64_t now_ns)
{
    struct vip_header hdr;
    struct vip_cm msg;
    struct cm_in in = {.from = from, .msg = &msg, .now_ns = now_ns};

    if (from->len > VIP_HOST_ADDR_BYTES_MAX || vip_wire_get_cm(packet, len_bytes, &msg) ||
        vip_wire_get_header(packet, len_bytes, &hdr)) {
        cm->stats.malformed++;
        return;
    }
    if (!epoch_is_right(cm, &hdr, &msg)) {
        cm->stats.wrong_epoch++;
        return;
    }
    cm->now_ns = now_ns;
    in.src_epoch = hdr.src_epoch;
    in.knows_us = hdr.dst_epoch == cm->config.epoch;
    in.peer = cm_peer_find(cm, from, hdr.src_epoch);
    cm_peer_note(cm, &in);
    dispatch(cm, &in);
}

/* ---- time and counters ------------------------------------------------------------------- */

uint64_t cm_deadline(const struct cm *cm)
{
    return cm->timers ? cm->timers->at_ns : UINT64_MAX;
}

static void fire(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    switch (timer->kind) {
    case CM_TIMER_LINGER:
        cm_fire_linger(cm, timer, now_ns);
        break;
    case CM_TIMER_KEEPALIVE:
        cm_fire_keepalive(cm, timer, now_ns);
        break;
    case CM_TIMER_LOST:
        cm_fire_lost(cm, timer, now_ns);
        break;
    case CM_TIMER_ATTEMPT:
        cm_fire_attempt(cm, timer, now_ns);
        break;
    case CM_TIMER_PENDING:
        cm_fire_pending(cm, timer, now_ns);
        break;
    case CM_TIMER_ANSWERED:
        cm_fire_answered(cm, timer, now_ns);
        break;
    case CM_TIMER_CLOSING:
        cm_fire_closing(cm, timer, now_ns);
        break;
    case CM_TIMER_REBIND:
        cm_fire_rebind(cm, timer, now_ns);
        break;
    case CM_TIMER_NONE:
        break; /* cm_timer_set refuses this kind */
    }
}

bool cm_tick(struct cm *cm, uint64_t now_ns)
{
    struct cm_timer *timer = cm->timers;

    if (!timer || timer->at_ns > now_ns)
        return false;
    cm->now_ns = now_ns;
    cm_timer_clear(cm, timer);
    fire(cm, timer, now_ns);
    return true;
}

void cm_stats(const struct cm *cm, struct cm_stats *ret)
{
    *ret = cm->stats;
    ret->peers = cm->pool_used[CM_POOL_PEERS];
    ret->waiters = cm->pool_used[CM_POOL_WAITERS];
    ret->pending = cm->pool_used[CM_POOL_PENDING];
}
