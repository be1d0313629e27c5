/*
 * Peer-to-peer connections: VipConnectPeerRequest (spec 2.5). Two requests meet when the remote
 * address of each request is the local address of the other request, in host and discriminator.
 *
 * Both hosts repeat their REQUEST. One host is the accepter: it answers the other's REQUEST with
 * ACCEPT, like a server (cm_server.c), and stops sending its own REQUEST. The other host is the
 * requester. Each host finds the accepter from the two REQUESTs alone. The accepter is the host
 * with the greater address, or, on one NIC, the request with the greater request_id. The requester
 * never sends ACCEPT. When the requester gets a REQUEST of the accepter, it repeats its own REQUEST
 * at once. A REQUEST without a match gets PENDING, not NO_MATCH, and vipd does not remember it.
 *
 * If the requester withdraws its request between ACCEPT and CONFIRM, the accepter's request waits
 * again, with new ids. If the accepter withdraws before its ACCEPT arrives, the requester waits on.
 *
 * Does not own: meeting places (cm_meet.c), the life of an attempt (cm_attempt.c).
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"

/* Compare the attributes that must be equal in both VIs (spec 3.11). */
static enum vip_rc compare(const struct vip_cm_attrs *ours, const struct vip_cm_attrs *theirs)
{
    if (ours->level != theirs->level)
        return VIP_RC_INVALID_RELIABILITY_LEVEL;
    if (ours->max_transfer_bytes != theirs->max_transfer_bytes)
        return VIP_RC_INVALID_MTU;
    return ours->qos == theirs->qos ? VIP_RC_SUCCESS : VIP_RC_INVALID_QOS;
}

/* Is this end the accepter? Both ends compare the same two requests, so they agree. */
static bool we_accept(const struct cm_attempt *attempt, const struct vip_cm *theirs)
{
    const struct vip_addr *a = &attempt->request.local, *b = &theirs->local;
    int order;

    if (VIP_MUTANT(MEET_BOTH))
        return true;
    if (a->host_len != b->host_len)
        return a->host_len > b->host_len;
    order = memcmp(a->host, b->host, a->host_len);
    return order ? order > 0 : attempt->request.request_id > theirs->request_id;
}

/* Returns our oldest request that must accept the request `theirs`, or NULL. */
static struct cm_attempt *find_accepter(const struct cm_meet *meet, const struct vip_cm *theirs)
{
    struct cm_attempt *attempt;

    TAILQ_FOREACH(attempt, &meet->waiting, of_meet)
    if (we_accept(attempt, theirs))
        return attempt;
    return NULL;
}

/*
 * A REQUEST of the accepter came: our requests may have been lost, so send one of them again now.
 * This makes no loop, because our request never makes the accepter repeat its request. Returns
 * false if we have no request to send.
 */
static bool ask_again(struct cm *cm, struct cm_meet *meet, const struct cm_in *in)
{
    struct cm_attempt *attempt = TAILQ_FIRST(&meet->waiting);

    /* If both requests are on this NIC, the first request of the list may be the one that came:
     * take the next. */
    if (attempt && attempt->request.request_id == in->msg->request_id)
        attempt = TAILQ_NEXT(attempt, of_meet);
    if (!attempt)
        return false;
    /* Move the request to the end, so that the next call sends another one. */
    TAILQ_REMOVE(&meet->waiting, attempt, of_meet);
    TAILQ_INSERT_TAIL(&meet->waiting, attempt, of_meet);
    attempt->heard = true;
    attempt->unanswered = 0;
    attempt->heard_ns = in->now_ns;
    cm_attempt_again(cm, attempt, in->now_ns);
    return true;
}

static void match(struct cm *cm, struct cm_attempt *attempt, const struct cm_in *in)
{
    enum vip_rc rc = compare(&attempt->request.attrs, &in->msg->attrs);
    struct cm_pending *pending;
    uint64_t give_up_ns;

    if (rc != VIP_RC_SUCCESS) {
        cm_refuse(cm, in, rc);
        cm_attempt_fail(cm, attempt, rc, &in->msg->data,
                        "the peer's VI differs in reliability level, MaxTransferSize or QoS");
        return;
    }
    pending = cm_pending_new(cm, in, attempt->meet->disc, false);
    if (!pending) {
        cm_answer_pending(cm, in); /* no room now; the peer will repeat its request */
        return;
    }
    TAILQ_REMOVE(&attempt->meet->waiting, attempt, of_meet);
    cm_timer_clear(cm, &attempt->timer);
    attempt->pending = pending;
    attempt->heard = true;
    pending->attempt = attempt;
    give_up_ns = cm_add_ns(in->now_ns, cm->config.accept_timeout_ns);
    if (attempt->give_up_ns < give_up_ns)
        give_up_ns = attempt->give_up_ns;
    cm_pending_accept(cm, pending, attempt->request.conn_id, &attempt->request.attrs,
                      &attempt->request.data, give_up_ns, in->now_ns);
}

void cm_match_request(struct cm *cm, const struct cm_in *in)
{
    struct cm_meet *meet = cm_meet_find(cm, in->from, &in->msg->remote, &in->msg->local);
    struct cm_attempt *attempt = meet ? find_accepter(meet, in->msg) : NULL;

    if (attempt)
        match(cm, attempt, in);
    else if (!meet || !ask_again(cm, meet, in))
        cm_answer_pending(cm, in);
}

void cm_match_alone(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns)
{
    VIP_ASSERT(attempt->pending && attempt->meet);
    attempt->pending = NULL;
    TAILQ_INSERT_HEAD(&attempt->meet->waiting, attempt, of_meet);
    attempt->unanswered = 0;
    attempt->heard_ns = now_ns;
    cm_attempt_renew(cm, attempt);
    cm_attempt_again(cm, attempt, now_ns);
}
