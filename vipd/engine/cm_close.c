/* The end of connections: by this end, by the peer's CLOSE, and by RESET. */
#include "vipd/engine/cm_internal.h"

void cm_close(struct cm *cm, const struct cm_close_args *args, uint64_t now_ns)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, args->local_id);

    cm->now_ns = now_ns;
    if (!assoc)
        return;
    switch (assoc->state) {
    case CM_ASSOC_OPENING:
        cm_accept_abandon(cm, assoc, args->reason, now_ns);
        return;
    case CM_ASSOC_OPEN:
        cm_closing_start(cm, assoc, args, now_ns);
        cm_assoc_set_state(cm, assoc, CM_ASSOC_CLOSED, now_ns);
        return;
    case CM_ASSOC_NEW:
    case CM_ASSOC_CLOSED:
        return; /* the peer has closed, or is gone: send no CLOSE */
    }
}

/* Like cm_assoc_of, but finds also an association of a dead peer: the peer's AWAY may have come
 * before its CLOSE. */
static struct cm_assoc *assoc_of_close(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, in->msg->peer_conn_id);

    if (!in->knows_us || !assoc || assoc->remote_id != in->msg->conn_id ||
        assoc->peer->epoch != in->src_epoch || !cm_host_equal(&assoc->peer->host, in->from))
        return NULL;
    return assoc;
}

void cm_rx_close(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = assoc_of_close(cm, in);
    struct vip_cm ack = {
        .type = VIP_CM_CLOSE_ACK,
        .conn_id = in->msg->peer_conn_id,
        .peer_conn_id = in->msg->conn_id,
    };

    cm->stats.closes_received++;
    /* If this CLOSE came before its ACCEPT, ignore it: the late ACCEPT will open the connection,
     * and then a repetition of the CLOSE will close it. */
    if (!assoc && cm_attempt_awaits(cm, in->from, in->msg->peer_conn_id))
        return;
    /* Acknowledge also a CLOSE for an unknown connection: that connection has ended. */
    cm_answer(cm, in, &ack);
    if (!assoc) {
        cm_rebind_closed(cm, in);
        cm->stats.duplicates++;
        return;
    }
    /* The client can close only after the ACCEPT has come, so the client's CONFIRM was lost. */
    if (assoc->state == CM_ASSOC_OPENING)
        cm_confirmed(cm, assoc, NULL, in->now_ns);
    assoc = assoc_of_close(cm, in);
    if (!assoc || assoc->state != CM_ASSOC_OPEN) {
        cm->stats.duplicates++;
        return;
    }
    cm_assoc_set_state(cm, assoc, CM_ASSOC_CLOSED, in->now_ns);
    cm->ops.closed(cm->ctx, assoc->local_id, in->msg);
}

void cm_rx_reset(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_loan_reset(cm, in);

    cm->stats.resets_received++;
    if (!assoc) { /* if the sender is a new life, cm_peer_note has sent a PING */
        cm->stats.unexpected++;
        return;
    }
    cm_assoc_set_state(cm, assoc, CM_ASSOC_CLOSED, in->now_ns);
    cm->ops.reset(cm->ctx, assoc->local_id, assoc->peer->number);
}
