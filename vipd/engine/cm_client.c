/*
 * Client side of connection set-up: start and cancel of VipConnectRequest and
 * VipConnectPeerRequest, and the handling of a server's answers. Rules: spec 2.4, 2.5. Does not
 * own: attempts (cm_attempt.c).
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"

static bool addr_is_sound(const struct vip_addr *addr)
{
    return addr->host_len <= VIP_HOST_ADDR_BYTES_MAX &&
           addr->disc_len <= VIP_DISCRIMINATOR_BYTES_MAX;
}

int cm_request(struct cm *cm, const struct cm_request_args *args, uint64_t now_ns)
{
    struct cm_attempt *attempt;
    int rc = -ENOMEM;

    if (!addr_is_sound(&args->local) || !addr_is_sound(&args->remote) || !args->remote.host_len ||
        args->data.len > VIP_PRIVATE_BYTES_MAX)
        return -EINVAL;
    cm->now_ns = now_ns;
    attempt = cm_alloc(cm, sizeof(*attempt));
    if (!attempt)
        return -ENOMEM;
    attempt->assoc = cm_alloc(cm, sizeof(*attempt->assoc));
    attempt->client = cm_holder_user(cm, CM_HOLDER_CLIENT, args->uid);
    attempt->host.len = args->remote.host_len;
    memcpy(attempt->host.bytes, args->remote.host, args->remote.host_len);
    if (!attempt->assoc || !attempt->client)
        goto refused;
    if (!args->peer_to_peer && !cm_host_equal(&attempt->host, &cm->config.self)) {
        attempt->asker = cm_holder_asker(cm, args->uid, &attempt->host);
        if (!attempt->asker)
            goto refused;
    }
    if (!cm_share_room(cm, CM_POOL_ATTEMPTS, attempt->client, NULL)) {
        cm->stats.refused_memory++;
        goto refused;
    }
    attempt->user = args->user;
    attempt->heard_ns = now_ns;
    attempt->give_up_ns = cm_add_ns(now_ns, args->timeout_ns);
    attempt->timer.kind = CM_TIMER_ATTEMPT;
    attempt->request = (struct vip_cm){
        .type = VIP_CM_REQUEST,
        .peer_to_peer = args->peer_to_peer,
        .request_id = cm_random_id(cm),
        .conn_id = args->local_id,
        .packet_bytes = cm->config.packet_bytes,
        .window_bytes = cm->config.window_bytes,
        .attrs = args->attrs,
        .local = args->local,
        .remote = args->remote,
        .data = args->data,
    };
    attempt->request.attrs.features = (uint8_t)cm->config.features;
    rc = args->peer_to_peer ? cm_meet_enter(cm, attempt, now_ns) : 0;
    if (rc)
        goto refused;
    cm_share_take(cm, CM_POOL_ATTEMPTS, attempt->client, NULL);
    cm_table_add(cm, &cm->attempts, &attempt->by_request, attempt->request.request_id);
    cm_table_add(cm, &cm->attempts_user, &attempt->by_user, args->user);
    cm_table_add(cm, &cm->attempts_conn, &attempt->by_conn, args->local_id);
    cm_attempt_again(cm, attempt, now_ns);
    return 0;

refused:
    cm_holder_put(cm, attempt->asker);
    cm_holder_put(cm, attempt->client);
    if (attempt->assoc)
        cm_assoc_free(cm, attempt->assoc);
    cm_free(cm, attempt, sizeof(*attempt));
    return rc;
}

bool cm_request_cancel(struct cm *cm, uint64_t user, uint64_t now_ns)
{
    struct cm_node *node = cm_table_find(cm, &cm->attempts_user, user);
    struct cm_attempt *attempt;

    cm->now_ns = now_ns;
    if (!node)
        return false;
    attempt = CM_OF(struct cm_attempt, by_user, node);
    if (attempt->pending) { /* cm_accept_abandon also frees the attempt */
        cm_accept_abandon(cm, attempt->pending->assoc, VIP_CLOSE_DISCONNECT, now_ns);
        return true;
    }
    /* CANCEL is not repeated. If it is lost, the server's next message for this request gets
     * another CANCEL. */
    cm_cancel_send(cm, &attempt->host, attempt->server_epoch, attempt->request.request_id);
    cm_attempt_free(cm, attempt);
    return true;
}

bool cm_meets_where(struct cm *cm, uint64_t user, cm_where *where, void *ctx)
{
    struct cm_node *node = cm_table_find(cm, &cm->attempts_user, user);
    const struct cm_attempt *attempt = node ? CM_OF(struct cm_attempt, by_user, node) : NULL;

    return attempt && attempt->meet &&
           where(ctx, attempt->meet->local.disc, attempt->meet->local.disc_len);
}

static void note_answer(struct cm_attempt *attempt, const struct cm_in *in)
{
    attempt->heard = true;
    attempt->unanswered = 0;
    attempt->heard_ns = in->now_ns;
    attempt->server_epoch = in->src_epoch;
}

/* The server wants proof that this host receives at its address: repeat the REQUEST with the
 * cookie. */
void cm_rx_cookie(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = cm_attempt_find(cm, in);

    cm->stats.cookies_received++;
    if (!attempt || attempt->pending || attempt->request.cookie == in->msg->cookie) {
        cm->stats.unexpected++;
        return;
    }
    note_answer(attempt, in);
    cm_cookie_learn(cm, in);
    attempt->repeat.interval_ns = 0;
    cm_attempt_again(cm, attempt, in->now_ns);
}

void cm_rx_pending(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = cm_attempt_find(cm, in);

    if (!attempt && cm_assoc_find(cm, in->msg->peer_conn_id)) {
        /* The ACCEPT came before this PENDING. Send no CANCEL, because the connection exists. */
        cm->stats.duplicates++;
        return;
    }
    if (!attempt) {
        cm->stats.unexpected++;
        cm_cancel_send(cm, in->from, in->src_epoch, in->msg->request_id);
        return;
    }
    if (attempt->pending) {
        cm->stats.duplicates++; /* this PENDING answers a REQUEST that was sent before the match */
        return;
    }
    note_answer(attempt, in);
    attempt->repeat.interval_ns = cm->config.retry_max_ns;
    attempt->repeat_ns = cm_repeat_next(cm, &attempt->repeat, in->now_ns);
    cm_attempt_arm(cm, attempt);
}

/* Confirm an ACCEPT: with SETUP if it is due, else with CONFIRM. */
static void confirm(struct cm *cm, const struct cm_in *in, const struct vip_cm *accept,
                    const struct cm_assoc *assoc)
{
    struct vip_cm confirm = {
        .type = VIP_CM_CONFIRM,
        .request_id = accept->request_id,
        .conn_id = accept->peer_conn_id,
        .peer_conn_id = accept->conn_id,
    };

    if (cm_setup_due(cm, in->from, accept))
        cm_setup_send(cm, in->from, in->src_epoch, accept->request_id, assoc, accept->peer_conn_id,
                      accept->conn_id);
    else
        cm_answer(cm, in, &confirm);
}

/* ACCEPT has come, and the server's SETUP too if it is due: open the association and confirm. */
static void establish(struct cm *cm, struct cm_attempt *attempt, const struct cm_in *in)
{
    struct vip_cm accept = in->msg->type == VIP_CM_SETUP ? attempt->accept : *in->msg;
    struct cm_peer *peer = cm_peer_get(cm, in->from, in->src_epoch, in->now_ns);
    struct cm_assoc *assoc = attempt->assoc;
    uint64_t user = attempt->user;
    struct cm_conn conn;

    if (!peer) {
        cm_cancel_send(cm, in->from, in->src_epoch, in->msg->request_id);
        cm_attempt_fail(cm, attempt, VIP_RC_ERROR_RESOURCE, NULL, "no memory for another peer");
        return;
    }
    attempt->assoc = NULL;
    cm_attempt_free(cm, attempt);
    assoc->request_id = accept.request_id;
    cm_assoc_add(cm, assoc, peer, accept.peer_conn_id, accept.conn_id, CM_ASSOC_OPEN, in->now_ns);
    cm_slow_confirmed(cm, peer->source);
    cm_peer_put(cm, peer); /* the association has its own reference */
    cm_setup_draw(cm, assoc);
    cm_setup_done(cm, assoc, in->msg->type == VIP_CM_SETUP ? in->msg : NULL, true);
    cm_conn_fill(cm, &conn, assoc, &accept, cm_setup_features(cm, in->from, in->msg));
    confirm(cm, in, &accept, assoc);
    cm->ops.request_done(cm->ctx, user, VIP_RC_SUCCESS, &conn, &accept.data, "");
}

void cm_rx_accept(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = cm_attempt_find(cm, in);
    struct cm_assoc *assoc, *made;

    /* If the attempt itself accepts a peer's request, it does not use this ACCEPT: send CANCEL. */
    if (attempt && !attempt->pending && attempt->request.conn_id == in->msg->peer_conn_id) {
        note_answer(attempt, in);
        if (cm_setup_due(cm, in->from, in->msg)) {
            attempt->accepted = true;
            attempt->accept = *in->msg;
            cm_attempt_arm(cm, attempt);
        } else {
            establish(cm, attempt, in);
        }
        return;
    }
    assoc = cm_assoc_of(cm, in);
    if (assoc && assoc->state == CM_ASSOC_OPEN) {
        /* Our CONFIRM or SETUP was lost: send it again. */
        cm->stats.duplicates++;
        if (!VIP_MUTANT(CONFIRM_ONCE))
            confirm(cm, in, in->msg, assoc);
        return;
    }
    cm->stats.unexpected++;
    /*
     * This end gave up the request, or never sent it: send CANCEL, except in two cases. First: this
     * end has closed the connection; then its CLOSE is enough. Second: this ACCEPT is a late copy,
     * and another copy has made a connection; then a CANCEL would end that connection.
     */
    made = cm_assoc_find(cm, in->msg->peer_conn_id);
    if (!assoc && (!made || made->request_id != in->msg->request_id))
        cm_cancel_send(cm, in->from, in->src_epoch, in->msg->request_id);
}

bool cm_rx_server_setup(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = cm_attempt_find(cm, in);

    if (!attempt || attempt->pending)
        return false;
    /* If the ACCEPT has not come, or is of another life, ignore the SETUP: the server repeats
     * ACCEPT and SETUP. */
    if (attempt->accepted && attempt->server_epoch == in->src_epoch &&
        attempt->accept.conn_id == in->msg->conn_id &&
        attempt->accept.peer_conn_id == in->msg->peer_conn_id)
        establish(cm, attempt, in);
    else
        cm->stats.unexpected++;
    return true;
}

/* Returns the result of VipConnectRequest for a server's code. If VipConnectRequest must not return
 * the code, the result is VIP_RC_REJECT. */
static enum vip_rc refusal_rc(uint32_t code)
{
    switch ((enum vip_rc)code) {
    case VIP_RC_ERROR_RESOURCE:
    case VIP_RC_TIMEOUT:
    case VIP_RC_INVALID_RELIABILITY_LEVEL:
    case VIP_RC_INVALID_MTU:
    case VIP_RC_INVALID_QOS:
    case VIP_RC_NO_MATCH:
    case VIP_RC_NOT_REACHABLE:
    case VIP_RC_ERROR_NOT_SUPPORTED:
        return (enum vip_rc)code;
    case VIP_RC_SUCCESS:
    case VIP_RC_NOT_DONE:
    case VIP_RC_INVALID_PARAMETER:
    case VIP_RC_REJECT:
    case VIP_RC_INVALID_PTAG:
    case VIP_RC_INVALID_RDMAREAD:
    case VIP_RC_DESCRIPTOR_ERROR:
    case VIP_RC_INVALID_STATE:
    case VIP_RC_ERROR_NAMESERVICE:
        break;
    }
    return VIP_RC_REJECT;
}

static const char *refusal_why(const struct cm_attempt *attempt, uint32_t code)
{
    if (code == VIP_RC_INVALID_RELIABILITY_LEVEL)
        return "the reliability levels of the two VIs differ";
    if (code == VIP_RC_INVALID_MTU)
        return "the MaxTransferSizes of the two VIs differ";
    if (code == VIP_RC_INVALID_QOS)
        return "the QoS of the two VIs differ";
    return attempt->meet ? "the peer withdrew its request" : "the server rejected the request";
}

void cm_rx_refusal(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = cm_attempt_find(cm, in);

    if (!attempt && in->msg->type == VIP_CM_NO_MATCH && cm_rebind_refused(cm, in))
        return;
    if (!attempt || attempt->pending) {
        cm->stats.unexpected++;
        return;
    }
    if (in->msg->type == VIP_CM_NO_MATCH)
        cm_attempt_fail(cm, attempt, VIP_RC_NO_MATCH, NULL, "nobody waits on that discriminator");
    else
        cm_attempt_fail(cm, attempt, refusal_rc(in->msg->code), &in->msg->data,
                        refusal_why(attempt, in->msg->code));
}

void cm_client_deinit(struct cm *cm)
{
    struct cm_node *node;
    unsigned bucket = 0;

    while ((node = cm_table_any(&cm->attempts, &bucket)))
        cm_attempt_free(cm, CM_OF(struct cm_attempt, by_request, node));
}
