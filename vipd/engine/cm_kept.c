/*
 * Kept requests: they wait for a VipConnectWait, or for a listener to have room. This file decides
 * how many are kept, which one is next, and which ones are forgotten because their client is
 * silent.
 *
 * A serial server takes one request at a time; an accept without CONFIRM blocks it for
 * accept_timeout_ns. So one source (a host, or a user of this host) could block the server for
 * others. Three rules prevent this. First: a request that its client no longer repeats is
 * forgotten. Second: sources take turns. The turn of a request is its time of arrival, or the time
 * of its source's last turn if this time is later. While an accept of the source waits for its
 * CONFIRM, accept_timeout_ns is added to the time of the last turn. Third: after failed accepts,
 * the source must wait (cm_slow.c).
 *
 * Owns: cm_disc.kept and the turns. Does not own: the handling of the timer, and giving a request
 * to a waiter (cm_server.c).
 */
#include "vipd/engine/cm_internal.h"

#include "proto/assert.h"

/* If a client is silent for this time, its kept request is forgotten. A client repeats a request at
 * least every 1.25 * retry_max_ns, so four repetitions in a row must be lost. */
#define SILENT_NS 3000000000ull

/* Returns the end of a kept request's grace. It is later if a program waited on `disc` lately. */
static uint64_t grace_end_ns(const struct cm *cm, const struct cm_disc *disc, uint64_t now_ns)
{
    if (cm_disc_served(cm, disc, now_ns))
        return cm_add_ns(now_ns, cm->config.grace_busy_ns);
    return cm_add_ns(now_ns, cm->config.grace_ns);
}

bool cm_kept_room(const struct cm *cm, const struct cm_disc *disc, const struct cm_holder *source)
{
    unsigned spare = CM_KEPT_SPARE;
    const struct cm_pending *kept;
    bool stranger = cm_slow_stranger(cm, source), has = false;

    if (source->kind == CM_HOLDER_CLIENT)
        spare = 3 * CM_KEPT_SPARE;
    else if (!stranger)
        spare = 2 * CM_KEPT_SPARE;
    if (disc && disc->kept_count >= cm->config.backlog_max) {
        TAILQ_FOREACH(kept, &disc->kept, of_disc)
        has = has || kept->source == source ||
              (stranger && source->within && kept->source->within == source->within);
        if (has || disc->kept_count >= cm->config.backlog_max + spare)
            return false;
    }
    return cm_share_room(cm, CM_POOL_KEPT, disc ? disc->owner : NULL, source);
}

void cm_kept_add(struct cm *cm, struct cm_pending *pending, struct cm_disc *disc, uint64_t now_ns)
{
    pending->disc = disc;
    TAILQ_INSERT_TAIL(&disc->kept, pending, of_disc);
    disc->kept_count++;
    cm_share_take(cm, CM_POOL_KEPT, pending->owner, pending->source);
    cm_timer_set(cm, &pending->timer, grace_end_ns(cm, disc, now_ns));
}

void cm_kept_remove(struct cm *cm, struct cm_pending *pending)
{
    struct cm_disc *disc = pending->disc;

    TAILQ_REMOVE(&disc->kept, pending, of_disc);
    disc->kept_count--;
    cm_share_give(cm, CM_POOL_KEPT, pending->owner, pending->source);
    pending->disc = NULL;
    cm_disc_put(cm, disc);
}

bool cm_kept_long(const struct cm *cm, const struct cm_pending *pending, uint64_t now_ns)
{
    return pending->state == CM_PENDING_KEPT &&
           now_ns >= cm_add_ns(pending->arrived_ns, cm->config.grace_busy_ns);
}

/* ---- silence ----------------------------------------------------------------------------- */

/* Returns the time of the client's last message. If the timer is late, vipd stood still, so this
 * function adds the delay of the timer. */
static uint64_t heard_ns(const struct cm_pending *pending, uint64_t now_ns)
{
    uint64_t at_ns = cm_add_ns(pending->heard_ns, cm_timer_late_ns(&pending->timer, now_ns));

    return at_ns < now_ns ? at_ns : now_ns;
}

void cm_kept_awake(struct cm_pending *pending, uint64_t now_ns)
{
    pending->heard_ns = heard_ns(pending, now_ns);
}

bool cm_kept_silent(const struct cm *cm, const struct cm_pending *pending, uint64_t now_ns)
{
    uint64_t from_ns = pending->timer.armed ? heard_ns(pending, now_ns) : pending->heard_ns;

    /* If the medium has more packets, a repetition may be among them: wait twice as long. */
    return now_ns >= cm_add_ns(from_ns, cm->behind ? 2 * SILENT_NS : SILENT_NS);
}

void cm_kept_look(struct cm *cm, struct cm_pending *pending, uint64_t at_ns, uint64_t now_ns)
{
    if (pending->timer.armed)
        cm_kept_awake(pending, now_ns);
    cm_timer_set(cm, &pending->timer, at_ns);
}

void cm_kept_heard(struct cm *cm, struct cm_pending *pending, uint64_t now_ns)
{
    /* A waiter may have skipped the request while its client was silent: look for a waiter now. */
    if (cm_kept_silent(cm, pending, now_ns))
        cm_timer_set(cm, &pending->timer, now_ns);
    pending->heard_ns = now_ns;
}

void cm_kept_wake_but(struct cm *cm, struct cm_disc *disc, const struct cm_pending *but,
                      uint64_t now_ns)
{
    struct cm_pending *pending = TAILQ_FIRST(&disc->kept);

    if (pending && pending == but)
        pending = TAILQ_NEXT(pending, of_disc);
    if (pending)
        cm_kept_look(cm, pending, now_ns, now_ns);
}

void cm_kept_wake(struct cm *cm, struct cm_disc *disc, uint64_t now_ns)
{
    cm_kept_wake_but(cm, disc, NULL, now_ns);
}

/* ---- turns ------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > b_ns ? a_ns : b_ns;
}

/*
 * The time of the request's turn; the request with the earliest turn is next. A turn is not
 * before the arrival of its request, so newer requests cannot delay an older one for ever.
 */
static uint64_t turn_ns(const struct cm *cm, const struct cm_pending *pending)
{
    const struct cm_holder *source = pending->source;
    uint64_t at_ns = source->turn_ns;

    if (source->unconfirmed)
        at_ns = cm_add_ns(at_ns, cm->config.accept_timeout_ns);
    at_ns = later(at_ns, cm_slow_behind_ns(cm, source));
    return later(at_ns, pending->arrived_ns);
}

struct cm_pending *cm_kept_next(const struct cm *cm, const struct cm_waiter *waiter,
                                uint64_t now_ns)
{
    const struct cm_disc *disc = waiter->disc;
    struct cm_pending *pending, *next = NULL;

    TAILQ_FOREACH(pending, &disc->kept, of_disc)
    {
        if (!cm_kept_silent(cm, pending, now_ns) &&
            (waiter->backlog || cm_slow_held_ns(cm, disc, pending->source) <= now_ns) &&
            (!next || turn_ns(cm, pending) < turn_ns(cm, next)))
            next = pending;
    }
    return next;
}
