/*
 * CLOSE messages that are repeated until the peer acknowledges them, even after the VI, the session
 * and the association are gone. Also RESET, which answers a packet for an unknown connection.
 *
 * Owns: closings, the limit on RESET answers.
 */
#include "vipd/engine/cm_internal.h"

static struct cm_closing *closing_find(struct cm *cm, uint64_t local_id)
{
    struct cm_node *node = cm_table_find(cm, &cm->closings, local_id);

    return node ? CM_OF(struct cm_closing, by_local, node) : NULL;
}

static void closing_free(struct cm *cm, struct cm_closing *closing)
{
    cm_timer_clear(cm, &closing->timer);
    cm_node_del(&closing->by_local);
    for (unsigned i = 0; i < CM_OWN_IDS; i++)
        cm_node_del(&closing->own_ids[i]);
    cm_share_give(cm, CM_POOL_CLOSINGS, closing->holder, NULL);
    cm_holder_put(cm, closing->holder);
    cm_free(cm, closing, sizeof(*closing));
}

/* Returns the time of the next repetition. The more CLOSE messages to the host are unacknowledged,
 * the later it is. */
static uint64_t next_ns(struct cm *cm, struct cm_closing *closing, uint64_t now_ns)
{
    uint64_t alone_ns = cm_repeat_next(cm, &closing->repeat, now_ns);
    uint64_t turn_ns =
        now_ns + closing->holder->has[CM_POOL_CLOSINGS] * (1000000000ull / CM_CLOSES_PER_S);

    return alone_ns > turn_ns ? alone_ns : turn_ns;
}

void cm_fire_closing(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_closing *closing = CM_OF(struct cm_closing, timer, timer);

    closing->give_up_ns = cm_add_ns(closing->give_up_ns, cm_timer_late_ns(timer, now_ns));
    if (now_ns >= closing->give_up_ns) {
        cm->stats.timeouts++;
        closing_free(cm, closing);
        return;
    }
    cm->stats.retransmits++;
    cm_send(cm, &closing->host, closing->epoch, &closing->close);
    cm_timer_set(cm, timer, next_ns(cm, closing, now_ns));
}

/* Make a closing for this host; NULL: the host's share is used up, or there is no memory. */
static struct cm_closing *closing_new(struct cm *cm, const struct cm_host *host)
{
    struct cm_holder *holder = cm_holder_host(cm, host);
    struct cm_closing *closing = NULL;

    if (holder && cm_share_room(cm, CM_POOL_CLOSINGS, holder, NULL))
        closing = cm_alloc(cm, sizeof(*closing));
    if (!closing) {
        cm_holder_put(cm, holder);
        return NULL;
    }
    closing->holder = holder;
    closing->host = *host;
    cm_share_take(cm, CM_POOL_CLOSINGS, holder, NULL);
    return closing;
}

void cm_closing_start(struct cm *cm, const struct cm_assoc *assoc, const struct cm_close_args *args,
                      uint64_t now_ns)
{
    struct vip_cm close = {
        .type = VIP_CM_CLOSE,
        .reason = VIP_CLOSE_TIMEOUT,
        .conn_id = assoc->local_id,
        .peer_conn_id = assoc->remote_id,
    };
    struct cm_closing *closing;

    if (args) {
        close.reason = (uint8_t)args->reason;
        close.ops_valid = args->ops_valid;
        close.ops_done = args->ops_done;
        close.op_status = args->op_status;
        close.failed_op = args->failed_op;
    }
    cm->stats.closes_sent++;
    cm_send(cm, &assoc->peer->host, assoc->peer->epoch, &close);
    closing = closing_find(cm, assoc->local_id);
    if (closing)
        closing_free(cm, closing); /* the caller used the id again: only the new CLOSE counts */
    closing = closing_new(cm, &assoc->peer->host);
    if (!closing)
        return; /* no repetition: if this CLOSE is lost, the peer gets a RESET when it sends */
    closing->epoch = assoc->peer->epoch;
    closing->give_up_ns = cm_add_ns(now_ns, cm->config.close_timeout_ns);
    closing->close = close;
    closing->timer.kind = CM_TIMER_CLOSING;
    cm_table_add(cm, &cm->closings, &closing->by_local, assoc->local_id);
    cm_loan_closing(cm, closing, assoc);
    cm_timer_set(cm, &closing->timer,
                 VIP_MUTANT(CLOSE_ONCE) ? closing->give_up_ns : next_ns(cm, closing, now_ns));
}

void cm_rx_close_ack(struct cm *cm, const struct cm_in *in)
{
    struct cm_closing *closing = closing_find(cm, in->msg->peer_conn_id);

    /* Any life of the peer's host may acknowledge: a new life does not have this connection. */
    if (!closing || closing->close.peer_conn_id != in->msg->conn_id ||
        !cm_host_equal(&closing->host, in->from)) {
        cm->stats.duplicates++;
        return;
    }
    closing_free(cm, closing);
}

void cm_reset_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t conn_id,
                   uint64_t now_ns)
{
    struct vip_cm msg = {.type = VIP_CM_RESET, .conn_id = conn_id};

    if (!cm_tokens_take(&cm->resets, CM_RESETS_PER_S, CM_RESETS_BURST, now_ns)) {
        cm->stats.resets_suppressed++;
        return;
    }
    cm->stats.resets_sent++;
    cm_send(cm, to, dst_epoch, &msg);
}

void cm_unknown_conn(struct cm *cm, const struct cm_host *from, const struct vip_header *hdr,
                     uint64_t now_ns)
{
    const struct cm_closing *closing = closing_find(cm, hdr->conn_id);
    const struct cm_node *node = cm_table_find(cm, &cm->rebindings_local, hdr->conn_id);

    /* If a CLOSE of the connection is being repeated, send no RESET: CLOSE has more information. */
    if (closing && cm_host_equal(&closing->host, from))
        return;
    /* The peer has bound the connection anew, but its PROOF has not come yet: send no RESET. */
    if (node && cm_host_equal(&CM_OF(struct cm_rebinding, by_local, node)->host, from))
        return;
    /* The packet is for an earlier binding of a connection: the peer has sent it before it learned
     * the present data id. Or a CLOSE of this connection is being repeated. */
    if (cm_loan_own_id(cm, hdr->conn_id))
        return;
    /* The codec refuses zeros. This check avoids an assertion if the caller uses no codec. */
    if (hdr->conn_id && hdr->src_epoch)
        cm_reset_send(cm, from, hdr->src_epoch, hdr->conn_id, now_ns);
}

void cm_closing_deinit(struct cm *cm)
{
    struct cm_node *node;
    unsigned bucket = 0;

    while ((node = cm_table_any(&cm->closings, &bucket)))
        closing_free(cm, CM_OF(struct cm_closing, by_local, node));
}
