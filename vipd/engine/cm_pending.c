/*
 * Pending requests of clients, from their arrival to their final answer: their handles, the message
 * PENDING, accepts that wait for their CONFIRM.
 *
 * The source host, the source epoch and the request id identify a request. So a repeated or late
 * REQUEST never becomes a second request: it gets the first answer again. A peer-to-peer request is
 * pending here only when a request of this host accepts it (cm_match.c).
 *
 * Owns: struct cm_pending. Does not own: the choice of the waiter (cm_server.c), answers that are
 * remembered (cm_answered.c), the order of kept requests (cm_kept.c).
 */
#include "vipd/engine/cm_internal.h"

#include <string.h>

#include "proto/assert.h"

struct cm_pending *cm_pending_find(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(
        cm, &cm->pendings, cm_request_key(cm, in->from, in->src_epoch, in->msg->request_id));

    for (; node; node = cm_table_again(node)) {
        struct cm_pending *pending = CM_OF(struct cm_pending, by_key, node);

        if (pending->peer->epoch == in->src_epoch &&
            pending->request.request_id == in->msg->request_id &&
            cm_host_equal(&pending->peer->host, in->from))
            return pending;
    }
    return NULL;
}

struct cm_pending *cm_pending_by_handle(struct cm *cm, uint64_t handle)
{
    struct cm_node *node = cm_table_find(cm, &cm->handles, handle);

    return node ? CM_OF(struct cm_pending, by_handle, node) : NULL;
}

void cm_pending_work(struct cm_pending *pending, struct cm_disc *disc)
{
    disc->at_work++;
    pending->served = disc;
}

static void work_ends(struct cm *cm, struct cm_pending *pending)
{
    struct cm_disc *disc = pending->served;

    if (!disc)
        return;
    pending->served = NULL;
    VIP_ASSERT(disc->at_work > 0);
    disc->at_work--;
    cm_disc_put(cm, disc);
}

void cm_pending_unoffer(struct cm *cm, struct cm_pending *pending, uint64_t now_ns)
{
    struct cm_waiter *waiter = pending->waiter;

    if (!waiter)
        return;
    pending->waiter = NULL;
    TAILQ_REMOVE(&waiter->offered, pending, of_waiter);
    if (!VIP_MUTANT(LISTEN_STUCK))
        waiter->offered_count--;
    /* Only set a timer. A call of the host may have led here, so do not call the host back now. */
    cm_kept_wake(cm, waiter->disc, now_ns);
}

void cm_pending_handled(struct cm *cm, struct cm_pending *pending)
{
    cm_node_del(&pending->by_handle);
    if (pending->offered)
        cm_share_give(cm, CM_POOL_OFFERED, pending->owner, NULL);
    pending->offered = false;
}

void cm_pending_free(struct cm *cm, struct cm_pending *pending)
{
    cm_pending_handled(cm, pending);
    cm_pending_unoffer(cm, pending, cm->now_ns);
    work_ends(cm, pending);
    cm_timer_clear(cm, &pending->timer);
    if (pending->disc)
        cm_kept_remove(cm, pending);
    cm_node_del(&pending->by_key);
    if (pending->assoc)
        cm_assoc_free(cm, pending->assoc);
    if (pending->peer && !VIP_MUTANT(PEER_LEAK))
        cm_peer_put(cm, pending->peer);
    if (pending->state == CM_PENDING_ACCEPTED)
        pending->source->unconfirmed--;
    pending->source->given_up -= pending->let_go;
    cm_share_give(cm, CM_POOL_PENDING, pending->owner, pending->let_go ? NULL : pending->source);
    cm_holder_put(cm, pending->owner);
    cm_holder_put(cm, pending->source);
    cm_free(cm, pending, sizeof(*pending));
}

void cm_pending_answer(struct cm *cm, struct cm_pending *pending, enum cm_answer answer,
                       uint32_t code, const struct vip_private *data, uint64_t now_ns)
{
    cm_answer_send(cm, &pending->peer->host, pending->peer->epoch, pending->request.request_id,
                   answer, code, data);
    cm_answered_add(cm, pending, answer, code, data, now_ns);
    cm_pending_free(cm, pending);
}

void cm_pending_cancel(struct cm *cm, struct cm_pending *pending, uint64_t now_ns)
{
    VIP_ASSERT(pending->state == CM_PENDING_OFFERED);
    cm_answered_add(cm, pending, CM_ANSWER_NONE, 0, NULL, now_ns);
    cm_node_del(&pending->by_key);
    cm_peer_put(cm, pending->peer);
    pending->peer = NULL;
    /* Free the place in the share of the source, if the source is another host. A user of this host
     * has a share of its own, so its places may stay used. */
    pending->let_go =
        pending->source->kind == CM_HOLDER_HOST && pending->source->given_up < CM_PENDING_HOST;
    if (pending->let_go) {
        pending->source->given_up++;
        cm_share_count(CM_POOL_PENDING, pending->source, -1);
    }
    pending->state = CM_PENDING_CANCELLED;
}

void cm_pending_send(struct cm *cm, const struct cm_pending *pending)
{
    struct vip_cm msg = {
        .type = VIP_CM_PENDING,
        .request_id = pending->request.request_id,
        .peer_conn_id = pending->request.conn_id,
    };

    cm_send(cm, &pending->peer->host, pending->peer->epoch, &msg);
}

void cm_answer_pending(struct cm *cm, const struct cm_in *in)
{
    struct vip_cm msg = {
        .type = VIP_CM_PENDING,
        .request_id = in->msg->request_id,
        .peer_conn_id = in->msg->conn_id,
    };

    cm_answer(cm, in, &msg);
}

struct cm_pending *cm_pending_new(struct cm *cm, const struct cm_in *in, struct cm_disc *disc,
                                  bool keep)
{
    struct cm_holder *source = cm_source_get(cm, in), *owner = disc ? disc->owner : NULL;
    struct cm_pending *pending;

    if (!source)
        return NULL;
    if (!cm_share_room(cm, CM_POOL_PENDING, owner, source) ||
        (keep && !cm_kept_room(cm, disc, source))) {
        cm->stats.backlog_full++;
        goto no_pending;
    }
    pending = cm_alloc(cm, sizeof(*pending));
    if (!pending)
        goto no_pending;
    pending->assoc = cm_alloc(cm, sizeof(*pending->assoc));
    if (!pending->assoc)
        goto no_assoc;
    pending->peer = cm_peer_get(cm, in->from, in->src_epoch, in->now_ns);
    if (!pending->peer)
        goto no_peer;
    pending->request = *in->msg;
    pending->request.local.host_len = in->from->len;
    memcpy(pending->request.local.host, in->from->bytes, in->from->len);
    pending->arrived_ns = pending->heard_ns = in->now_ns;
    pending->timer.kind = CM_TIMER_PENDING;
    cm_table_add(cm, &cm->pendings, &pending->by_key,
                 cm_request_key(cm, in->from, in->src_epoch, in->msg->request_id));
    pending->source = source;
    pending->owner = owner ? cm_holder_ref(owner) : NULL;
    cm_share_take(cm, CM_POOL_PENDING, owner, source);
    return pending;

no_peer:
    cm_free(cm, pending->assoc, sizeof(*pending->assoc));
no_assoc:
    cm_free(cm, pending, sizeof(*pending));
no_pending:
    cm_holder_put(cm, source);
    return NULL;
}

void cm_accept_send(struct cm *cm, const struct cm_pending *pending)
{
    const struct vip_cm *accept = &pending->accept;

    cm_send(cm, &pending->peer->host, pending->peer->epoch, accept);
    if (cm_setup_due(cm, &pending->peer->host, &pending->request))
        cm_setup_send(cm, &pending->peer->host, pending->peer->epoch, accept->request_id,
                      pending->assoc, accept->conn_id, accept->peer_conn_id);
}

void cm_pending_accept(struct cm *cm, struct cm_pending *pending, uint64_t local_id,
                       const struct vip_cm_attrs *attrs, const struct vip_private *data,
                       uint64_t give_up_ns, uint64_t now_ns)
{
    uint64_t repeat_ns;

    pending->state = CM_PENDING_ACCEPTED;
    pending->source->unconfirmed++;
    pending->accept = (struct vip_cm){
        .type = VIP_CM_ACCEPT,
        .request_id = pending->request.request_id,
        .conn_id = local_id,
        .peer_conn_id = pending->request.conn_id,
        .packet_bytes = cm->config.packet_bytes,
        .window_bytes = cm->config.window_bytes,
        .attrs = *attrs,
    };
    pending->accept.attrs.features = (uint8_t)cm->config.features;
    if (data)
        pending->accept.data = *data;
    cm_assoc_add(cm, pending->assoc, pending->peer, local_id, pending->request.conn_id,
                 CM_ASSOC_OPENING, now_ns);
    pending->assoc->pending = pending;
    cm_setup_draw(cm, pending->assoc);
    pending->give_up_ns = give_up_ns;
    cm->stats.accepts++;
    cm_accept_send(cm, pending);
    repeat_ns = cm_repeat_next(cm, &pending->repeat, now_ns);
    cm_timer_set(cm, &pending->timer, repeat_ns);
    cm_disc_touch(cm, pending, repeat_ns);
}

/* Give up an accept. The client may have got the ACCEPT, and so have a connection: send CLOSE. Also
 * remember REJECT as the answer, so that a repeated REQUEST does not count as new. */
void cm_accept_withdraw(struct cm *cm, struct cm_pending *pending, enum vip_close_reason reason,
                        uint64_t now_ns)
{
    const struct cm_close_args args = {.reason = reason};

    cm_closing_start(cm, pending->assoc, &args, now_ns);
    /* A peer-to-peer request gets no REJECT: it waits for a match until its time limit (spec
     * 2.5). */
    if (!pending->attempt)
        cm_answered_add(cm, pending, CM_ANSWER_REJECT, VIP_RC_REJECT, NULL, now_ns);
}

void cm_accept_abandon(struct cm *cm, struct cm_assoc *assoc, enum vip_close_reason reason,
                       uint64_t now_ns)
{
    struct cm_pending *pending = assoc->pending;

    VIP_ASSERT(assoc->state == CM_ASSOC_OPENING && pending);
    cm_accept_withdraw(cm, pending, reason, now_ns);
    if (pending->attempt)
        cm_attempt_free(cm, pending->attempt);
    cm_pending_free(cm, pending);
}

void cm_confirmed(struct cm *cm, struct cm_assoc *assoc, const struct vip_cm *msg, uint64_t now_ns)
{
    struct cm_pending *pending = assoc->pending;
    struct cm_attempt *attempt = pending->attempt;
    struct vip_private data = pending->request.data;
    struct cm_conn conn;
    uint64_t user = attempt ? attempt->user : pending->user;

    VIP_ASSERT(assoc->state == CM_ASSOC_OPENING && pending->assoc == assoc);
    cm_assoc_set_state(cm, assoc, CM_ASSOC_OPEN, now_ns);
    assoc->pending = NULL;
    pending->assoc = NULL;
    cm_setup_done(cm, assoc, msg && msg->type == VIP_CM_SETUP ? msg : NULL, false);
    if (!msg || msg->type != VIP_CM_SETUP)
        msg = &pending->request;
    cm_conn_fill(cm, &conn, assoc, &pending->request,
                 cm_setup_features(cm, &assoc->peer->host, msg));
    cm_answered_add(cm, pending, CM_ANSWER_NONE, 0, NULL, now_ns);
    cm_slow_confirmed(cm, pending->source);
    if (!attempt)
        cm_disc_touch(cm, pending, now_ns);
    cm_pending_free(cm, pending);
    if (!attempt) {
        cm->ops.accept_done(cm->ctx, user, VIP_RC_SUCCESS, &conn, "");
        return;
    }
    cm_attempt_free(cm, attempt);
    cm->ops.request_done(cm->ctx, user, VIP_RC_SUCCESS, &conn, &data, "");
}
