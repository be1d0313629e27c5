/*
 * Discriminators that somebody waits on, waited on a moment ago, or asked for: who serves them, and
 * until when a request that finds nobody there is kept (spec 3.11).
 *
 * Owns: the table of discriminators and their lingering. Does not own: waiters, listeners and
 * requests (cm_server.c), which hang on it.
 */
#include "vipd/engine/cm_internal.h"

#include <string.h>

#include "proto/assert.h"

struct cm_disc *cm_disc_find(struct cm *cm, const uint8_t *bytes, uint8_t len)
{
    struct cm_node *node = cm_table_find(cm, &cm->discs, cm_hash(cm, bytes, len, 1));

    for (; node; node = cm_table_again(node)) {
        struct cm_disc *disc = CM_OF(struct cm_disc, by_bytes, node);

        if (disc->len == len && !memcmp(disc->bytes, bytes, len))
            return disc;
    }
    return NULL;
}

void cm_disc_loops(struct cm *cm, struct cm_disc *disc, bool loops)
{
    if (loops && !disc->loops)
        TAILQ_INSERT_TAIL(&cm->looping, disc, of_looping);
    else if (!loops && disc->loops)
        TAILQ_REMOVE(&cm->looping, disc, of_looping);
    disc->loops = loops;
}

/*
 * Until when whoever serves the discriminator counts as on its way back to VipConnectWait. A server
 * with a request in its hands is away for as long as its answer takes. One that has waited again and
 * again is expected back soon; but it may have had enough, and clients that come afterwards are to hear
 * of it soon as well (spec 2.4). One that has waited once may have had enough at once.
 */
uint64_t cm_disc_served_ns(const struct cm *cm, const struct cm_disc *disc)
{
    uint64_t hold_ns = cm->config.grace_busy_ns;

    if (disc->loops && cm->config.grace_loop_ns > hold_ns)
        hold_ns = cm->config.grace_loop_ns;
    if (disc->at_work && cm->config.grace_work_ns > hold_ns)
        hold_ns = cm->config.grace_work_ns;
    return disc->waited ? cm_add_ns(disc->last_waiter_ns, hold_ns) : 0;
}

void cm_disc_free(struct cm *cm, struct cm_disc *disc)
{
    VIP_ASSERT(TAILQ_EMPTY(&disc->waiters) && TAILQ_EMPTY(&disc->kept) && !disc->at_work);
    if (disc->lingering)
        cm->lingering--;
    cm_disc_loops(cm, disc, false);
    cm_timer_clear(cm, &disc->timer);
    cm_node_del(&disc->by_bytes);
    cm_free(cm, disc, sizeof(*disc));
}

uint64_t cm_disc_linger_ns(const struct cm *cm, const struct cm_disc *disc)
{
    uint64_t linger_ns = cm_add_ns(disc->last_waiter_ns, CM_DISC_LINGER_NS);
    uint64_t served_ns = cm_disc_served_ns(cm, disc);

    return served_ns > linger_ns ? served_ns : linger_ns;
}

static void fire_linger(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_disc *disc = CM_OF(struct cm_disc, timer, timer);

    if (now_ns < cm_disc_linger_ns(cm, disc))
        cm_timer_set(cm, timer, cm_disc_linger_ns(cm, disc));
    else
        cm_disc_free(cm, disc);
}

bool cm_disc_waited(struct cm *cm, const uint8_t *bytes, uint8_t len)
{
    const struct cm_disc *disc = cm_disc_find(cm, bytes, len);

    return disc && !TAILQ_EMPTY(&disc->waiters);
}

/*
 * The server of a request has answered it, or is connected: it is at work and will wait again. While
 * it waits for the client's CONFIRM it cannot, and that may take longer than the grace: then `now_ns`
 * is the time of the next repetition, and one slow client does not cost the others their match.
 */
void cm_disc_touch(struct cm *cm, const struct cm_pending *pending, uint64_t now_ns)
{
    const struct vip_addr *addr = &pending->request.remote;
    struct cm_disc *disc = cm_disc_find(cm, addr->disc, addr->disc_len);

    if (disc && disc->waited)
        disc->last_waiter_ns = now_ns;
}

struct cm_disc *cm_disc_get(struct cm *cm, const uint8_t *bytes, uint8_t len)
{
    struct cm_disc *disc = cm_disc_find(cm, bytes, len);

    if (disc) {
        if (disc->lingering)
            cm->lingering--;
        disc->lingering = false;
        cm_timer_clear(cm, &disc->timer);
        return disc;
    }
    disc = cm_alloc(cm, sizeof(*disc));
    if (!disc)
        return NULL;
    TAILQ_INIT(&disc->waiters);
    TAILQ_INIT(&disc->kept);
    disc->len = len;
    memcpy(disc->bytes, bytes, len);
    disc->timer.fire = fire_linger;
    cm_table_add(cm, &cm->discs, &disc->by_bytes, cm_hash(cm, bytes, len, 1));
    return disc;
}

/* Nobody may need it any more: free it, but remember for a while that somebody served it. */
void cm_disc_put(struct cm *cm, struct cm_disc *disc)
{
    if (!TAILQ_EMPTY(&disc->waiters) || !TAILQ_EMPTY(&disc->kept) || disc->at_work)
        return;
    if (!disc->waited || cm->lingering >= CM_DISC_LINGER_MAX) {
        cm_disc_free(cm, disc);
        return;
    }
    cm->lingering++;
    disc->lingering = true;
    cm_timer_set(cm, &disc->timer, cm_disc_linger_ns(cm, disc));
}
