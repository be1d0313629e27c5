/*
 * Client side of connection set-up: VipConnectRequest, the asking side of VipConnectPeerRequest.
 *
 * Owns: attempts under way. An attempt repeats its REQUEST until the server answers; PENDING slows
 * the repetition down to a probe of whether the server still has it. It ends exactly once: with an
 * answer, its time limit, or cm_request_cancel. Rules: spec 2.4, 2.5. While a peer-to-peer attempt
 * accepts the peer's request (cm_match.c), it is silent and without a timer of its own.
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"

static struct cm_attempt *attempt_find(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->attempts, in->msg->request_id);
    struct cm_attempt *attempt = node ? CM_OF(struct cm_attempt, by_request, node) : NULL;

    /* Ignore an answer of another host than the one that was asked. */
    return attempt && cm_host_equal(&attempt->host, in->from) ? attempt : NULL;
}

bool cm_attempt_awaits(struct cm *cm, const struct cm_host *host, uint64_t conn_id)
{
    struct cm_node *node = cm_table_find(cm, &cm->attempts_conn, conn_id);

    return node && cm_host_equal(&CM_OF(struct cm_attempt, by_conn, node)->host, host);
}

struct cm_holder *cm_source_get(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = NULL;

    if (in->src_epoch == cm->config.epoch && cm_host_equal(in->from, &cm->config.self))
        node = cm_table_find(cm, &cm->attempts, in->msg->request_id);
    return node ? cm_holder_ref(CM_OF(struct cm_attempt, by_request, node)->client)
                : cm_holder_host(cm, in->from);
}

/* May it be sent beside others of its user to that host? If not, it is sent when one has ended. */
static bool may_ask(struct cm *cm, struct cm_attempt *attempt)
{
    if (!attempt->asker || attempt->asked)
        return true;
    if (attempt->unsent)
        return false;
    if (cm_share_room(cm, CM_POOL_ASKED, attempt->asker, NULL)) {
        cm_share_take(cm, CM_POOL_ASKED, attempt->asker, NULL);
        attempt->asked = true;
        return true;
    }
    TAILQ_INSERT_TAIL(&attempt->asker->unsent, attempt, of_asker);
    attempt->unsent = true;
    attempt->repeat_ns = UINT64_MAX;
    return false;
}

/* The attempt is over; the one that has waited longest takes its place. */
static void asks_no_more(struct cm *cm, struct cm_attempt *attempt)
{
    struct cm_attempt *next = attempt->asker ? TAILQ_FIRST(&attempt->asker->unsent) : NULL;

    if (attempt->unsent) {
        TAILQ_REMOVE(&attempt->asker->unsent, attempt, of_asker);
    } else if (attempt->asked && next) {
        TAILQ_REMOVE(&attempt->asker->unsent, next, of_asker);
        next->unsent = false;
        next->asked = true;
        next->heard_ns = next->repeat_ns = cm->now_ns;
        cm_timer_set(cm, &next->timer, cm->now_ns);
    } else if (attempt->asked) {
        cm_share_give(cm, CM_POOL_ASKED, attempt->asker, NULL);
    }
    cm_holder_put(cm, attempt->asker);
}

void cm_attempt_free(struct cm *cm, struct cm_attempt *attempt)
{
    asks_no_more(cm, attempt);
    cm_match_leave(cm, attempt);
    cm_timer_clear(cm, &attempt->timer);
    cm_node_del(&attempt->by_request);
    cm_node_del(&attempt->by_user);
    cm_node_del(&attempt->by_conn);
    if (attempt->assoc)
        cm_assoc_free(cm, attempt->assoc);
    cm_share_give(cm, CM_POOL_ATTEMPTS, attempt->client, NULL);
    cm_holder_put(cm, attempt->client);
    cm_free(cm, attempt, sizeof(*attempt));
}

static void send_cancel(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch,
                        uint64_t request_id)
{
    struct vip_cm msg = {.type = VIP_CM_CANCEL, .request_id = request_id};

    cm_send(cm, to, dst_epoch, &msg);
}

void cm_attempt_fail(struct cm *cm, struct cm_attempt *attempt, enum vip_rc rc,
                     const struct vip_private *data, const char *why)
{
    static const struct vip_private nothing;
    uint64_t user = attempt->user;

    cm_attempt_free(cm, attempt);
    cm->ops.request_done(cm->ctx, user, rc, NULL, data ? data : &nothing, why);
}

static void attempt_send(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns)
{
    uint64_t cookie = cm_cookie_known(cm, &attempt->host), after_ns;

    if (!may_ask(cm, attempt))
        return;
    after_ns = cm_ask_after_ns(cm, attempt->client, now_ns);
    if (after_ns) {
        attempt->repeat_ns = cm_add_ns(now_ns, after_ns);
        return;
    }
    if (cookie)
        attempt->request.cookie = cookie;
    cm->stats.requests_sent++;
    cm_send(cm, &attempt->host, attempt->server_epoch, &attempt->request);
    attempt->repeat_ns = cm_repeat_next(cm, &attempt->repeat, now_ns);
}

/* When an attempt without time limit is declared unreachable; one with a limit waits for that. */
static uint64_t unreachable_ns(const struct cm_attempt *attempt)
{
    if (attempt->give_up_ns != UINT64_MAX || attempt->unsent)
        return UINT64_MAX;
    return cm_add_ns(attempt->heard_ns, CM_UNREACHABLE_NS);
}

static void attempt_arm(struct cm *cm, struct cm_attempt *attempt)
{
    uint64_t at_ns = attempt->repeat_ns;

    if (attempt->give_up_ns < at_ns)
        at_ns = attempt->give_up_ns;
    if (unreachable_ns(attempt) < at_ns)
        at_ns = unreachable_ns(attempt);
    cm_timer_set(cm, &attempt->timer, at_ns);
}

static const char *timeout_why(const struct cm_attempt *attempt)
{
    if (attempt->unsent)
        return "it was not sent: too many requests of this user wait for answers of that host";
    if (!attempt->heard)
        return "no answer from the remote vipd within the time limit";
    return attempt->meet ? "no matching request of the peer came within the time limit"
                         : "the server did not accept within the time limit";
}

static void fire_attempt(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_attempt *attempt = CM_OF(struct cm_attempt, timer, timer);
    bool unreachable;

    attempt->heard_ns = cm_add_ns(attempt->heard_ns, cm_timer_late_ns(timer, now_ns));
    unreachable = now_ns >= unreachable_ns(attempt);
    if (now_ns >= attempt->give_up_ns || unreachable) {
        cm->stats.timeouts++;
        send_cancel(cm, &attempt->host, attempt->server_epoch, attempt->request.request_id);
        if (unreachable)
            cm_attempt_fail(cm, attempt, VIP_RC_NOT_REACHABLE, NULL,
                            "no answer from the remote vipd");
        else
            cm_attempt_fail(cm, attempt, VIP_RC_TIMEOUT, NULL, timeout_why(attempt));
        return;
    }
    if (now_ns >= attempt->repeat_ns) {
        cm->stats.retransmits++;
        attempt_send(cm, attempt, now_ns);
    }
    attempt_arm(cm, attempt);
}

void cm_attempt_again(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns)
{
    attempt_send(cm, attempt, now_ns);
    attempt_arm(cm, attempt);
}

void cm_attempt_renew(struct cm *cm, struct cm_attempt *attempt)
{
    cm_node_del(&attempt->by_request);
    cm_node_del(&attempt->by_user);
    cm_node_del(&attempt->by_conn);
    attempt->request.request_id = cm_random_id(cm);
    cm->ops.renew(cm->ctx, &attempt->user, &attempt->request.conn_id);
    cm_table_add(cm, &cm->attempts, &attempt->by_request, attempt->request.request_id);
    cm_table_add(cm, &cm->attempts_user, &attempt->by_user, attempt->user);
    cm_table_add(cm, &cm->attempts_conn, &attempt->by_conn, attempt->request.conn_id);
}

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
    attempt->timer.fire = fire_attempt;
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
    rc = args->peer_to_peer ? cm_match_enter(cm, attempt, now_ns) : 0;
    if (rc)
        goto refused;
    cm_share_take(cm, CM_POOL_ATTEMPTS, attempt->client, NULL);
    cm_table_add(cm, &cm->attempts, &attempt->by_request, attempt->request.request_id);
    cm_table_add(cm, &cm->attempts_user, &attempt->by_user, args->user);
    cm_table_add(cm, &cm->attempts_conn, &attempt->by_conn, args->local_id);
    attempt_send(cm, attempt, now_ns);
    attempt_arm(cm, attempt);
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
    if (attempt->pending) { /* this frees the attempt, too */
        cm_accept_abandon(cm, attempt->pending->assoc, VIP_CLOSE_DISCONNECT, now_ns);
        return true;
    }
    /* Sent once: if it is lost, the server's next message about the request gets a CANCEL. */
    send_cancel(cm, &attempt->host, attempt->server_epoch, attempt->request.request_id);
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
    attempt->heard_ns = in->now_ns;
    attempt->server_epoch = in->src_epoch;
}

/* The server asks for proof that we receive at our address: ask again, with its cookie. */
void cm_rx_cookie(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = attempt_find(cm, in);

    cm->stats.cookies_received++;
    if (!attempt || attempt->pending || attempt->request.cookie == in->msg->cookie) {
        cm->stats.unexpected++;
        return;
    }
    note_answer(attempt, in);
    cm_cookie_learn(cm, in);
    attempt->repeat.interval_ns = 0;
    attempt_send(cm, attempt, in->now_ns);
    attempt_arm(cm, attempt);
}

void cm_rx_pending(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = attempt_find(cm, in);

    if (!attempt && cm_assoc_find(cm, in->msg->peer_conn_id)) {
        /* The ACCEPT came first. A CANCEL now would end the connection on one side only. */
        cm->stats.duplicates++;
        return;
    }
    if (!attempt) {
        cm->stats.unexpected++;
        send_cancel(cm, in->from, in->src_epoch, in->msg->request_id);
        return;
    }
    if (attempt->pending) {
        cm->stats.duplicates++; /* answers a REQUEST sent before the peer's request came */
        return;
    }
    note_answer(attempt, in);
    attempt->repeat.interval_ns = cm->config.retry_max_ns;
    attempt->repeat_ns = cm_repeat_next(cm, &attempt->repeat, in->now_ns);
    attempt_arm(cm, attempt);
}

/* The server accepted: open the association, and confirm. */
static void establish(struct cm *cm, struct cm_attempt *attempt, const struct cm_in *in)
{
    struct cm_peer *peer = cm_peer_get(cm, in->from, in->src_epoch, in->now_ns);
    struct cm_assoc *assoc = attempt->assoc;
    uint64_t user = attempt->user;
    struct vip_cm confirm = {
        .type = VIP_CM_CONFIRM,
        .request_id = in->msg->request_id,
        .conn_id = attempt->request.conn_id,
        .peer_conn_id = in->msg->conn_id,
    };
    struct cm_conn conn;

    if (!peer) {
        send_cancel(cm, in->from, in->src_epoch, in->msg->request_id);
        cm_attempt_fail(cm, attempt, VIP_RC_ERROR_RESOURCE, NULL, "no memory for another peer");
        return;
    }
    attempt->assoc = NULL;
    cm_attempt_free(cm, attempt);
    assoc->request_id = confirm.request_id;
    cm_assoc_add(cm, assoc, peer, confirm.conn_id, confirm.peer_conn_id, CM_ASSOC_OPEN, in->now_ns);
    cm_peer_put(cm, peer); /* the association holds it now */
    cm_conn_fill(cm, &conn, assoc, in->msg);
    cm_answer(cm, in, &confirm);
    cm->ops.request_done(cm->ctx, user, VIP_RC_SUCCESS, &conn, &in->msg->data, "");
}

void cm_rx_accept(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = attempt_find(cm, in);
    struct cm_assoc *assoc, *made;
    struct vip_cm confirm = {
        .type = VIP_CM_CONFIRM,
        .request_id = in->msg->request_id,
        .conn_id = in->msg->peer_conn_id,
        .peer_conn_id = in->msg->conn_id,
    };

    /* An attempt that accepts the peer's request meanwhile takes no ACCEPT: CANCEL. */
    if (attempt && !attempt->pending && attempt->request.conn_id == in->msg->peer_conn_id) {
        note_answer(attempt, in);
        establish(cm, attempt, in);
        return;
    }
    assoc = cm_assoc_of(cm, in);
    if (assoc && assoc->state == CM_ASSOC_OPEN) {
        /* Our CONFIRM was lost. */
        cm->stats.duplicates++;
        if (!VIP_MUTANT(CONFIRM_ONCE))
            cm_answer(cm, in, &confirm);
        return;
    }
    cm->stats.unexpected++;
    /*
     * Given up, or never asked: CANCEL. Not for a connection that we have closed: its CLOSE says
     * more. Nor if another ACCEPT of the same request has made a connection: then this is a late
     * copy, of a program that has ended, and a CANCEL would end the connection of that request.
     */
    made = cm_assoc_find(cm, in->msg->peer_conn_id);
    if (!assoc && (!made || made->request_id != in->msg->request_id))
        send_cancel(cm, in->from, in->src_epoch, in->msg->request_id);
}

/* The codes of a server that VipConnectRequest may return; any other one becomes VIP_RC_REJECT. */
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
    switch ((enum vip_rc)code) {
    case VIP_RC_INVALID_RELIABILITY_LEVEL:
        return "the reliability levels of the two VIs differ";
    case VIP_RC_INVALID_MTU:
        return "the MaxTransferSizes of the two VIs differ";
    case VIP_RC_INVALID_QOS:
        return "the QoS of the two VIs differ";
    default:
        return attempt->meet ? "the peer withdrew its request" : "the server rejected the request";
    }
}

void cm_rx_refusal(struct cm *cm, const struct cm_in *in)
{
    struct cm_attempt *attempt = attempt_find(cm, in);

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
