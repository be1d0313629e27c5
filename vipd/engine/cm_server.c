/*
 * Server side of connection set-up: VipConnectWait, VipConnectAccept, VipConnectReject, listeners.
 *
 * Rules of the specification, 2.4 and 3.11: a request matches a waiter by its discriminator only. A
 * waiter gets one request. Requests of one client keep their order of arrival. If there is no
 * waiter, the client soon gets NO_MATCH.
 *
 * Owns: waiters and listeners. Does not own: their discriminators (cm_disc.c), requests
 * (cm_pending.c, cm_kept.c, cm_answered.c).
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"

/* May programs of this owner get another request (waits_max)? */
static bool owner_has_room(const struct cm *cm, const struct cm_holder *owner)
{
    return !cm->config.waits_max ||
           owner->has[CM_POOL_WAITERS] + owner->has[CM_POOL_OFFERED] < cm->config.waits_max;
}

/* Find the first waiter or listener that may get another request. A VipConnectWait always may,
 * because it ends with its first request. */
static struct cm_waiter *waiter_with_room(const struct cm *cm, const struct cm_disc *disc)
{
    struct cm_waiter *waiter;

    TAILQ_FOREACH(waiter, &disc->waiters, of_disc)
    if (!waiter->backlog || (waiter->offered_count < waiter->backlog + VIP_MUTANT(LISTEN_ROOM) &&
                             owner_has_room(cm, disc->owner)))
        return waiter;
    return NULL;
}

static void waiter_free(struct cm *cm, struct cm_waiter *waiter)
{
    struct cm_pending *pending;

    TAILQ_FOREACH(pending, &waiter->offered, of_waiter)
    pending->waiter = NULL;
    if (waiter->backlog)
        waiter->disc->listeners--;
    cm_share_give(cm, CM_POOL_WAITERS, waiter->disc->owner, NULL);
    TAILQ_REMOVE(&waiter->disc->waiters, waiter, of_disc);
    cm_node_del(&waiter->by_wait);
    cm_free(cm, waiter, sizeof(*waiter));
}

/* The waiter has got a request. Free a VipConnectWait; move a listener to the end of the queue. */
static void waiter_served(struct cm *cm, struct cm_waiter *waiter, struct cm_pending *pending)
{
    if (!waiter->backlog) {
        waiter_free(cm, waiter);
        return;
    }
    TAILQ_REMOVE(&waiter->disc->waiters, waiter, of_disc);
    TAILQ_INSERT_TAIL(&waiter->disc->waiters, waiter, of_disc);
    TAILQ_INSERT_TAIL(&waiter->offered, pending, of_waiter);
    waiter->offered_count++;
    pending->waiter = waiter;
}

/* Give a request to the waiter or listener. */
static void offer(struct cm *cm, struct cm_pending *pending, struct cm_waiter *waiter,
                  uint64_t now_ns)
{
    struct cm_disc *disc = waiter->disc;
    uint64_t wait = waiter->wait;

    cm_timer_clear(cm, &pending->timer);
    if (!waiter->backlog) {
        cm_pending_work(pending, disc);
        disc->settled = disc->server_count > 0;
    }
    waiter_served(cm, waiter, pending);
    disc->waited = true;
    disc->last_waiter_ns = now_ns;
    if (pending->disc)
        cm_kept_remove(cm, pending);
    else
        cm_disc_put(cm, disc);
    if (pending->owner !=
        disc->owner) { /* the request came before there was a waiter, or for another owner */
        cm_share_count(CM_POOL_PENDING, pending->owner, -1);
        cm_holder_put(cm, pending->owner);
        pending->owner = cm_holder_ref(disc->owner);
        cm_share_count(CM_POOL_PENDING, pending->owner, 1);
    }
    pending->source->turn_ns = now_ns;
    pending->offered = true;
    cm_share_take(cm, CM_POOL_OFFERED, pending->owner, NULL);
    pending->state = CM_PENDING_OFFERED;
    pending->handle = ++cm->last_handle;
    cm_table_add(cm, &cm->handles, &pending->by_handle, pending->handle);
    cm_pending_send(cm, pending);
    cm->ops.incoming(cm->ctx, wait, pending->handle, &pending->request.local,
                     &pending->request.attrs, &pending->request.data);
}

/* Keep the request in `in` for its grace. False: there is no room or no memory. */
static bool keep(struct cm *cm, const struct cm_in *in)
{
    const struct vip_addr *remote = &in->msg->remote;
    struct cm_disc *disc = cm_disc_find(cm, remote->disc, remote->disc_len);
    struct cm_pending *pending;

    pending = cm_pending_new(cm, in, disc, true);
    if (!pending)
        return false;
    disc = cm_disc_get(cm, remote->disc, remote->disc_len);
    if (!disc) {
        cm_pending_free(cm, pending);
        return false;
    }
    cm_kept_add(cm, pending, disc, in->now_ns);
    return true;
}

/* Give a repeated request the same answer as before. False: the request is new. If the answer is
 * forgotten, but the connection still exists, a late copy of the request gets no answer. */
static bool answer_again(struct cm *cm, const struct cm_in *in)
{
    struct cm_pending *pending = cm_pending_find(cm, in);
    struct cm_answered *answered;

    if (pending) {
        cm->stats.duplicates++;
        if (pending->state == CM_PENDING_KEPT)
            cm_kept_heard(cm, pending, in->now_ns);
        if (pending->state == CM_PENDING_OFFERED || cm_kept_long(cm, pending, in->now_ns))
            cm_pending_send(cm, pending);
        else if (pending->state == CM_PENDING_ACCEPTED)
            cm_accept_send(cm, pending);
        return true;
    }
    answered = VIP_MUTANT(REQUEST_AGAIN) ? NULL : cm_answered_find(cm, in);
    if (!answered && !cm_assoc_with(cm, in))
        return false;
    cm->stats.duplicates++;
    if (answered)
        cm_answer_send(cm, in->from, in->src_epoch, answered->request_id, answered->answer,
                       answered->code, &answered->data);
    return true;
}

/* Is the local address in the REQUEST the address of its sender? The server's program gets this
 * address. An empty local address is true, because vipd replaces it by the sender's address. */
static bool host_is_true(const struct cm_in *in)
{
    const struct vip_addr *local = &in->msg->local;

    return !local->host_len || (local->host_len == in->from->len &&
                                !memcmp(local->host, in->from->bytes, local->host_len));
}

void cm_rx_request(struct cm *cm, const struct cm_in *in)
{
    const struct vip_addr *remote = &in->msg->remote;
    struct cm_waiter *waiter;
    struct cm_disc *disc;
    struct cm_pending *pending;

    cm->stats.requests_received++;
    if (!host_is_true(in)) {
        cm->stats.wrong_source++;
        return;
    }
    if (answer_again(cm, in) || !cm_cookie_pass(cm, in))
        return;
    if (in->msg->peer_to_peer) {
        cm_match_request(cm, in); /* it matches only another peer-to-peer request */
        return;
    }
    disc = cm_disc_find(cm, remote->disc, remote->disc_len);
    waiter = disc ? waiter_with_room(cm, disc) : NULL;
    if (waiter && !cm_slow_holds(cm, in, waiter) && !cm_kept_next(cm, waiter, in->now_ns)) {
        pending = cm_pending_new(cm, in, disc, false);
        if (pending) {
            offer(cm, pending, waiter, in->now_ns);
            return;
        }
    } else if (keep(cm, in)) {
        if (waiter)
            cm_kept_wake(cm, waiter->disc, in->now_ns);
        return;
    }
    if (waiter || (disc && (disc->listeners || cm_disc_served(cm, disc, in->now_ns)))) {
        cm_answer_pending(cm, in); /* no room for the request: the client repeats it */
        return;
    }
    cm->stats.no_match++;
    cm_answer_send(cm, in->from, in->src_epoch, in->msg->request_id, CM_ANSWER_NO_MATCH, 0, NULL);
}

/* ---- waiters ----------------------------------------------------------------------------- */

static int waiter_new(struct cm *cm, uint64_t wait, uint32_t uid, const uint8_t *bytes, uint8_t len,
                      uint32_t backlog, uint64_t now_ns, struct cm_waiter **ret_waiter)
{
    struct cm_holder *owner = NULL;
    struct cm_waiter *waiter;
    struct cm_disc *disc;
    int rc = -ENOMEM;

    if (len > VIP_DISCRIMINATOR_BYTES_MAX)
        return -EINVAL;
    waiter = cm_alloc(cm, sizeof(*waiter));
    if (!waiter)
        return -ENOMEM;
    owner = cm_holder_user(cm, CM_HOLDER_OWNER, uid);
    if (!owner)
        goto refused;
    /* Check the share before cm_disc_claim, so that a refused waiter does not change the
     * discriminator. */
    if (!cm_share_room(cm, CM_POOL_WAITERS, owner, NULL)) {
        cm->stats.refused_memory++;
        goto refused;
    }
    rc = cm_disc_claim(cm, bytes, len, uid, now_ns, &disc);
    if (rc < 0)
        goto refused;
    cm_share_take(cm, CM_POOL_WAITERS, owner, NULL);
    cm_holder_put(cm, owner); /* the discriminator has its own reference to the owner */
    waiter->wait = wait;
    waiter->disc = disc;
    waiter->backlog = backlog;
    TAILQ_INIT(&waiter->offered);
    if (backlog)
        disc->listeners++;
    TAILQ_INSERT_TAIL(&disc->waiters, waiter, of_disc);
    cm_table_add(cm, &cm->waiters, &waiter->by_wait, wait);
    *ret_waiter = waiter;
    return 0;

refused:
    cm_holder_put(cm, owner);
    cm_free(cm, waiter, sizeof(*waiter));
    return rc;
}

int cm_wait(struct cm *cm, uint64_t wait, uint64_t server, uint32_t uid, const uint8_t *disc,
            uint8_t len, uint64_t now_ns)
{
    struct cm_waiter *waiter;
    struct cm_pending *next;
    int rc = waiter_new(cm, wait, uid, disc, len, 0, now_ns, &waiter);

    if (rc)
        return rc;
    cm_disc_serve(cm, waiter->disc, server);
    next = cm_kept_next(cm, waiter, now_ns);
    if (next)
        offer(cm, next, waiter_with_room(cm, waiter->disc), now_ns);
    return 0;
}

void cm_server_gone(struct cm *cm, uint64_t server, uint64_t now_ns)
{
    struct cm_disc *disc, *next;
    struct cm_pending *pending;

    cm->now_ns = now_ns;
    for (disc = TAILQ_FIRST(&cm->served); disc; disc = next) {
        next = TAILQ_NEXT(disc, of_served);
        if (!cm_disc_unserve(cm, disc, server))
            continue;
        /* The grace of requests kept for this discriminator may end earlier now: let their timers
         * fire soon. */
        TAILQ_FOREACH(pending, &disc->kept, of_disc)
        cm_kept_look(cm, pending, cm_add_ns(now_ns, cm->config.grace_ns), now_ns);
    }
}

bool cm_serves_where(const struct cm *cm, uint64_t server, cm_where *where, void *ctx)
{
    const struct cm_disc *disc;

    TAILQ_FOREACH(disc, &cm->served, of_served)
    if (cm_disc_served_by(disc, server) && where(ctx, disc->bytes, disc->len))
        return true;
    return false;
}

int cm_listen(struct cm *cm, uint64_t wait, uint32_t uid, const uint8_t *disc, uint8_t len,
              uint32_t backlog, uint64_t now_ns)
{
    struct cm_waiter *waiter;
    int rc = waiter_new(cm, wait, uid, disc, len, backlog, now_ns, &waiter);

    VIP_ASSERT(backlog > 0);
    if (rc)
        return rc;
    waiter->disc->waited = true;
    waiter->disc->last_waiter_ns = now_ns;
    /* Set the timer of one kept request only: when the listener gets that request, the timer of the
     * next one is set. */
    cm_kept_wake(cm, waiter->disc, now_ns);
    return 0;
}

bool cm_unwait(struct cm *cm, uint64_t wait, uint64_t now_ns)
{
    struct cm_node *node = cm_table_find(cm, &cm->waiters, wait);
    struct cm_waiter *waiter;
    struct cm_disc *disc;

    if (!node)
        return false;
    waiter = CM_OF(struct cm_waiter, by_wait, node);
    disc = waiter->disc;
    disc->waited = true;
    disc->last_waiter_ns = now_ns;
    waiter_free(cm, waiter);
    cm_disc_put(cm, disc);
    return true;
}

/* ---- accept and reject ------------------------------------------------------------------- */

int cm_accept(struct cm *cm, uint64_t handle, uint64_t local_id, const struct vip_cm_attrs *attrs,
              const struct vip_private *data, uint64_t user, uint64_t now_ns)
{
    struct cm_pending *pending = cm_pending_by_handle(cm, handle);

    if (!pending)
        return -ENOENT;
    cm_disc_touch(cm, pending, now_ns);
    if (pending->state == CM_PENDING_CANCELLED) {
        cm_pending_free(cm, pending);
        return -ETIMEDOUT;
    }
    VIP_ASSERT(pending->state == CM_PENDING_OFFERED);
    /* Only the handle ends here. The request exists until CONFIRM comes or the accept fails. */
    cm_pending_handled(cm, pending);
    cm_pending_unoffer(cm, pending, now_ns);
    pending->user = user;
    cm_pending_accept(cm, pending, local_id, attrs, data,
                      cm_add_ns(now_ns, cm->config.accept_timeout_ns), now_ns);
    return 0;
}

const struct vip_cm_attrs *cm_pending_attrs(const struct cm *cm, uint64_t handle)
{
    struct cm_pending *pending = cm_pending_by_handle((struct cm *)(uintptr_t)cm, handle);

    return pending ? &pending->request.attrs : NULL;
}

int cm_pending_user(const struct cm *cm, uint64_t handle, uint32_t *ret_uid)
{
    const struct cm_pending *pending = cm_pending_by_handle((struct cm *)(uintptr_t)cm, handle);

    if (!pending)
        return -ENOENT;
    if (pending->source->kind == CM_HOLDER_HOST)
        return -EREMOTE;
    *ret_uid = cm_holder_uid(pending->source);
    return 0;
}

int cm_reject(struct cm *cm, uint64_t handle, enum vip_rc code, const struct vip_private *data,
              uint64_t now_ns)
{
    struct cm_pending *pending = cm_pending_by_handle(cm, handle);

    if (!pending)
        return -ENOENT;
    cm->stats.rejects++;
    cm_disc_touch(cm, pending, now_ns);
    if (pending->state == CM_PENDING_CANCELLED)
        cm_pending_free(cm, pending);
    else if (code == VIP_RC_NO_MATCH)
        cm_pending_answer(cm, pending, CM_ANSWER_NO_MATCH, 0, NULL, now_ns);
    else
        cm_pending_answer(cm, pending, CM_ANSWER_REJECT, code ? code : VIP_RC_REJECT, data, now_ns);
    return 0;
}

/* An accept did not become a connection: free the request and report the failure to the host. */
static void accept_fail(struct cm *cm, struct cm_pending *pending, const char *why, uint64_t now_ns)
{
    struct cm_attempt *attempt = pending->attempt;
    uint64_t user = pending->user;

    cm_disc_touch(cm, pending, now_ns);
    /* An accept that took more than a fifth of accept_timeout_ns has cost the server much time. It
     * counts as failed even if a CANCEL ended it. */
    if (!attempt && pending->give_up_ns < cm_add_ns(now_ns, cm->config.accept_timeout_ns / 5 * 4))
        cm_slow_add(cm, pending, now_ns);
    cm_pending_free(cm, pending);
    if (!attempt)
        cm->ops.accept_done(cm->ctx, user, VIP_RC_TIMEOUT, NULL, why);
    else if (now_ns >= attempt->give_up_ns)
        cm_attempt_fail(cm, attempt, VIP_RC_TIMEOUT, NULL, why);
    else
        cm_attempt_fail(cm, attempt, VIP_RC_NOT_REACHABLE, NULL, why);
}

void cm_implied_confirm(struct cm *cm, uint64_t local_id, const struct cm_host *from,
                        uint64_t src_epoch, uint64_t now_ns)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, local_id);

    /* If the peer is dead, no connection with it may open: the accept times out. */
    if (!assoc || assoc->state != CM_ASSOC_OPENING || assoc->peer->dead)
        return;
    if (assoc->peer->epoch != src_epoch || !cm_host_equal(&assoc->peer->host, from))
        return;
    if (!cm_setup_due(cm, from, &assoc->pending->request))
        cm_confirmed(cm, assoc, NULL, now_ns);
}

void cm_rx_confirm(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_of(cm, in);

    if (!assoc) {
        /* The connection does not exist here: send RESET. But send nothing if the id belongs to
         * another connection: then a copy of an old REQUEST has caused this message. */
        cm->stats.unexpected++;
        if (!cm_assoc_find(cm, in->msg->peer_conn_id))
            cm_reset_send(cm, in->from, in->src_epoch, in->msg->peer_conn_id, in->now_ns);
        return;
    }
    if (assoc->state != CM_ASSOC_OPENING) {
        cm->stats.duplicates++;
        return;
    }
    if (in->msg->type == VIP_CM_CONFIRM && cm_setup_due(cm, in->from, &assoc->pending->request)) {
        cm->stats.unexpected++; /* the client must send SETUP instead of CONFIRM */
        return;
    }
    cm_confirmed(cm, assoc, in->msg, in->now_ns);
}

void cm_rx_cancel(struct cm *cm, const struct cm_in *in)
{
    struct cm_pending *pending = cm_pending_find(cm, in);

    cm->stats.cancels++;
    if (!pending) {
        cm->stats.unexpected++;
        return;
    }
    switch (pending->state) {
    case CM_PENDING_KEPT:
        cm_pending_answer(cm, pending, CM_ANSWER_NONE, 0, NULL, in->now_ns);
        return;
    case CM_PENDING_OFFERED:
        /* The handle stays valid; an accept of it then ends with VIP_TIMEOUT (spec 3.11). */
        cm_pending_cancel(cm, pending, in->now_ns);
        return;
    case CM_PENDING_CANCELLED:
        VIP_ASSERT(false); /* cm_pending_find does not find cancelled requests */
        return;
    case CM_PENDING_ACCEPTED:
        cm_answered_add(cm, pending, CM_ANSWER_NONE, 0, NULL, in->now_ns);
        if (!pending->attempt) {
            accept_fail(cm, pending, "the client gave up", in->now_ns);
            return;
        }
        struct cm_attempt *attempt = pending->attempt;

        cm_pending_free(cm, pending);
        cm_match_alone(cm, attempt, in->now_ns);
        return;
    }
}

/* The timer of a kept request fires: its grace is over, or a waiter may have room for a request. */
static void fire_kept(struct cm *cm, struct cm_pending *pending, uint64_t now_ns)
{
    struct cm_disc *disc = pending->disc;
    struct cm_waiter *waiter = waiter_with_room(cm, disc);
    /* End of the grace. It becomes later if the server waits again or gets a request. */
    uint64_t served_ns = cm_disc_served_ns(cm, disc), again_ns;
    struct cm_pending *next;
    bool late;

    late = cm_timer_late_ns(&pending->timer, now_ns) > cm->config.grace_ns;
    cm_kept_awake(pending, now_ns);
    if (disc->listeners)
        served_ns = cm_add_ns(now_ns, cm->config.grace_busy_ns);
    next = waiter ? cm_kept_next(cm, waiter, now_ns) : NULL;
    if (cm_kept_silent(cm, pending, now_ns)) {
        /* The client is silent. Remember no answer, so that a later repetition counts as a new
         * request. */
        if (waiter)
            cm_kept_wake_but(cm, disc, pending, now_ns);
        cm_pending_free(cm, pending);
    } else if (waiter && next) {
        if (next == pending)
            cm_kept_wake_but(cm, disc, pending, now_ns);
        else
            cm_timer_set(cm, &pending->timer, now_ns);
        offer(cm, next, waiter, now_ns);
    } else if (waiter || served_ns > now_ns) {
        /* Check again at again_ns, even if served_ns is later, because served_ns may become
         * earlier. */
        again_ns = cm_add_ns(now_ns, cm->config.grace_busy_ns + cm->config.grace_loop_ns / 8);
        if (waiter)
            served_ns = cm_slow_held_ns(cm, disc, pending->source); /* later than now_ns */
        cm_timer_set(cm, &pending->timer, served_ns < again_ns ? served_ns : again_ns);
    } else if (late && !pending->excused) {
        /* vipd stood still. Meanwhile the server may have called VipConnectWait, and vipd may not
         * have read that message yet. So wait once more. */
        pending->excused = true;
        cm_timer_set(cm, &pending->timer, cm_add_ns(now_ns, cm->config.grace_ns));
    } else {
        cm->stats.no_match++;
        cm_pending_answer(cm, pending, CM_ANSWER_NO_MATCH, 0, NULL, now_ns);
    }
}

/* The timer of a request fires. If it is KEPT, fire_kept handles it. If it is ACCEPTED, repeat the
 * ACCEPT, or give up. */
void cm_fire_pending(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_pending *pending = CM_OF(struct cm_pending, timer, timer);
    uint64_t repeat_ns;

    if (pending->state == CM_PENDING_KEPT) {
        fire_kept(cm, pending, now_ns);
        return;
    }
    VIP_ASSERT(pending->state == CM_PENDING_ACCEPTED);
    if (!pending->attempt)
        pending->give_up_ns = cm_add_ns(pending->give_up_ns, cm_timer_late_ns(timer, now_ns));
    if (now_ns >= pending->give_up_ns) {
        cm->stats.timeouts++;
        cm_accept_withdraw(cm, pending, VIP_CLOSE_TIMEOUT, now_ns);
        accept_fail(cm, pending, "the client did not confirm in time", now_ns);
        return;
    }
    cm->stats.retransmits++;
    cm_accept_send(cm, pending);
    repeat_ns = cm_repeat_next(cm, &pending->repeat, now_ns);
    cm_timer_set(cm, timer, repeat_ns);
    cm_disc_touch(cm, pending, repeat_ns);
}

void cm_server_deinit(struct cm *cm)
{
    struct cm_node *node;
    unsigned bucket = 0;

    while ((node = cm_table_any(&cm->pendings, &bucket)))
        cm_pending_free(cm, CM_OF(struct cm_pending, by_key, node));
    bucket = 0;
    while ((node = cm_table_any(&cm->handles, &bucket))) /* only cancelled requests are left */
        cm_pending_free(cm, CM_OF(struct cm_pending, by_handle, node));
    bucket = 0;
    while ((node = cm_table_any(&cm->waiters, &bucket))) {
        waiter_free(cm, CM_OF(struct cm_waiter, by_wait, node));
    }
}
