/*
 * Attempts: requests of programs of this host. An attempt repeats its REQUEST until the server
 * answers. After PENDING, the attempt repeats it more slowly, to check that the server still has
 * the request. Each attempt ends exactly once: by an answer, by its time limit, or by
 * cm_request_cancel. While a peer-to-peer attempt accepts the peer's request (cm_match.c), the
 * attempt sends nothing and has no timer.
 *
 * Owns: struct cm_attempt; the decision which of a user's requests are sent now. Does not own: the
 * handling of answers (cm_client.c).
 */
#include "vipd/engine/cm_internal.h"

#include "proto/assert.h"

struct cm_attempt *cm_attempt_find(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->attempts, in->msg->request_id);
    struct cm_attempt *attempt = node ? CM_OF(struct cm_attempt, by_request, node) : NULL;

    /* Ignore an answer that does not come from the attempt's server. */
    return attempt && cm_host_equal(&attempt->host, in->from) ? attempt : NULL;
}

bool cm_asker(struct cm *cm, uint64_t request_id, uint32_t *ret_uid)
{
    struct cm_node *node = cm_table_find(cm, &cm->attempts, request_id);

    if (!node)
        return false;
    *ret_uid = cm_holder_uid(CM_OF(struct cm_attempt, by_request, node)->client);
    return true;
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
    if (node)
        return cm_holder_ref(CM_OF(struct cm_attempt, by_request, node)->client);
    return cm_holder_host(cm, in->from);
}

/* May this REQUEST be sent now (CM_ASKED_EACH)? If not, the attempt waits until another attempt of
 * its user for the same host has ended. */
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

/* The attempt ends. The attempt that has waited longest in may_ask may now send instead. */
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
    cm_meet_leave(cm, attempt);
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

void cm_cancel_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch,
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

/* Send the REQUEST if the limits allow. `again`: it is a repetition that the timer causes. */
static void attempt_send(struct cm *cm, struct cm_attempt *attempt, bool again, uint64_t now_ns)
{
    /* The extra limit (MEET_PER_S) is for slow repetitions only. The first repetitions are fast. */
    bool waits = again && attempt->meet && attempt->repeat.interval_ns >= cm->config.retry_max_ns;
    uint64_t cookie = cm_cookie_known(cm, &attempt->host), after_ns;

    if (!may_ask(cm, attempt))
        return;
    after_ns = cm_ask_after_ns(cm, attempt->client, waits, now_ns);
    if (after_ns) {
        attempt->repeat_ns = cm_add_ns(now_ns, after_ns);
        return;
    }
    if (cookie)
        attempt->request.cookie = cookie;
    cm->stats.requests_sent++;
    attempt->unanswered++;
    attempt->sent_ns = now_ns;
    cm_send(cm, &attempt->host, attempt->server_epoch, &attempt->request);
    attempt->repeat_ns = cm_repeat_next(cm, &attempt->repeat, now_ns);
}

/* Returns the time from which the server counts as unreachable. UINT64_MAX: the attempt has a time
 * limit, or too few REQUESTs were sent. */
static uint64_t unreachable_ns(const struct cm_attempt *attempt)
{
    uint64_t at_ns = cm_add_ns(attempt->heard_ns, CM_UNREACHABLE_NS);

    if (attempt->give_up_ns != UINT64_MAX || attempt->unanswered < CM_UNREACHABLE_SENT)
        return UINT64_MAX;
    /* If the last REQUEST was sent after at_ns, wait for its answer. */
    return at_ns > attempt->sent_ns ? at_ns : attempt->repeat_ns;
}

void cm_attempt_arm(struct cm *cm, struct cm_attempt *attempt)
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

void cm_fire_attempt(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_attempt *attempt = CM_OF(struct cm_attempt, timer, timer);
    bool unreachable;

    attempt->heard_ns = cm_add_ns(attempt->heard_ns, cm_timer_late_ns(timer, now_ns));
    unreachable = now_ns >= unreachable_ns(attempt);
    if (now_ns >= attempt->give_up_ns || unreachable) {
        cm->stats.timeouts++;
        cm_cancel_send(cm, &attempt->host, attempt->server_epoch, attempt->request.request_id);
        if (unreachable)
            cm_attempt_fail(cm, attempt, VIP_RC_NOT_REACHABLE, NULL,
                            "no answer from the remote vipd");
        else
            cm_attempt_fail(cm, attempt, VIP_RC_TIMEOUT, NULL, timeout_why(attempt));
        return;
    }
    if (now_ns >= attempt->repeat_ns) {
        cm->stats.retransmits++;
        attempt_send(cm, attempt, true, now_ns);
    }
    cm_attempt_arm(cm, attempt);
}

void cm_attempt_again(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns)
{
    attempt_send(cm, attempt, false, now_ns);
    cm_attempt_arm(cm, attempt);
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
