/*
 * Discriminators on which programs wait or lately waited, or to which clients send requests: which
 * user owns them, and how long a request that finds no waiter is kept (spec 3.11).
 *
 * Owns: the table of discriminators, their owners and their lingering. Does not own what is
 * attached to them: waiters and listeners (cm_server.c), requests (cm_pending.c), meeting places
 * (cm_meet.c).
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>
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

/* Returns the index of `server` in disc->servers, or server_count if it is not in the array. */
static unsigned server_find(const struct cm_disc *disc, uint64_t server)
{
    unsigned at = 0;

    while (at < disc->server_count && disc->servers[at] != server)
        at++;
    return at;
}

void cm_disc_serve(struct cm *cm, struct cm_disc *disc, uint64_t server)
{
    unsigned at = server_find(disc, server);

    if (!disc->server_count)
        TAILQ_INSERT_TAIL(&cm->served, disc, of_served);
    disc->loops = disc->server_count && at == 0;
    if (at < disc->server_count)
        disc->settled = true;
    else if (at < CM_DISC_SERVERS)
        disc->server_count++;
    else
        at--; /* forget the server that waited longest ago */
    memmove(&disc->servers[1], &disc->servers[0], at * sizeof(disc->servers[0]));
    disc->servers[0] = server;
}

bool cm_disc_served_by(const struct cm_disc *disc, uint64_t server)
{
    return server_find(disc, server) < disc->server_count;
}

/* Forget all servers: they have ended, the owner has changed, or the discriminator is freed. */
static void servers_end(struct cm *cm, struct cm_disc *disc)
{
    if (disc->server_count)
        TAILQ_REMOVE(&cm->served, disc, of_served);
    disc->server_count = 0;
    disc->settled = disc->loops = false;
}

/* Add the discriminator to its owner's list of lingering discriminators. */
static void line_enter(struct cm_disc *disc)
{
    TAILQ_INSERT_TAIL(&disc->owner->lingering[disc->settled], disc, of_owner);
    if (!disc->settled)
        disc->owner->unsettled++;
}

static void line_leave(struct cm_disc *disc)
{
    TAILQ_REMOVE(&disc->owner->lingering[disc->settled], disc, of_owner);
    if (!disc->settled)
        disc->owner->unsettled--;
}

bool cm_disc_unserve(struct cm *cm, struct cm_disc *disc, uint64_t server)
{
    unsigned at = server_find(disc, server);

    if (at == disc->server_count)
        return false;
    if (at == 0)
        disc->loops = false;
    if (disc->server_count == 1) {
        if (disc->settled)
            disc->left_ns = cm->now_ns;
        if (disc->lingering)
            line_leave(disc);
        servers_end(cm, disc);
        if (disc->lingering)
            line_enter(disc);
    } else {
        disc->server_count--;
        memmove(&disc->servers[at], &disc->servers[at + 1],
                (disc->server_count - at) * sizeof(disc->servers[0]));
    }
    if (disc->lingering && !disc->settled)
        cm_timer_set(cm, &disc->timer, cm_disc_linger_ns(cm, disc));
    return at == 0;
}

/*
 * A server with an unanswered request has the longest grace: it will wait again after its answer. A
 * server that waited twice in a row has a shorter grace: it probably waits again soon, but if it
 * has stopped, clients must get NO_MATCH soon (spec 2.4). A server that waited only once has the
 * shortest grace. The grace of a server of vipd's last life ends at kept_ns, or when the server
 * waits.
 */
uint64_t cm_disc_served_ns(const struct cm *cm, const struct cm_disc *disc)
{
    uint64_t hold_ns = cm->config.grace_busy_ns;

    if (disc->loops && cm->config.grace_loop_ns > hold_ns)
        hold_ns = cm->config.grace_loop_ns;
    if (disc->at_work && cm->config.grace_work_ns > hold_ns)
        hold_ns = cm->config.grace_work_ns;
    return disc->waited ? cm_add_ns(disc->last_waiter_ns, hold_ns) : disc->kept_ns;
}

static void linger_begin(struct cm *cm, struct cm_disc *disc)
{
    struct cm_holder *owner = disc->owner;

    cm_share_take(cm, CM_POOL_LINGER, owner, NULL);
    if (owner->has[CM_POOL_LINGER] == CM_SMALL)
        TAILQ_INSERT_TAIL(&cm->lingerers, owner, of_lingerers);
    disc->lingering = true;
    line_enter(disc);
    if (!disc->settled) /* a settled discriminator lingers until its servers have ended */
        cm_timer_set(cm, &disc->timer, cm_disc_linger_ns(cm, disc));
}

static void linger_end(struct cm *cm, struct cm_disc *disc)
{
    struct cm_holder *owner = disc->owner;

    if (!disc->lingering)
        return;
    line_leave(disc);
    disc->lingering = false;
    if (owner->has[CM_POOL_LINGER] == CM_SMALL)
        TAILQ_REMOVE(&cm->lingerers, owner, of_lingerers);
    cm_share_give(cm, CM_POOL_LINGER, owner, NULL);
    cm_timer_clear(cm, &disc->timer);
}

void cm_disc_free(struct cm *cm, struct cm_disc *disc)
{
    VIP_ASSERT(TAILQ_EMPTY(&disc->waiters) && TAILQ_EMPTY(&disc->kept) && !disc->at_work);
    VIP_ASSERT(!disc->meets);
    linger_end(cm, disc);
    servers_end(cm, disc);
    if (disc->owner && cm->ops.disowned && !cm->ends)
        cm->ops.disowned(cm->ctx, disc->record);
    cm_holder_put(cm, disc->owner);
    cm_timer_clear(cm, &disc->timer);
    cm_node_del(&disc->by_bytes);
    cm_free(cm, disc, sizeof(*disc));
}

uint64_t cm_disc_linger_ns(const struct cm *cm, const struct cm_disc *disc)
{
    uint64_t linger_ns = cm_add_ns(disc->last_waiter_ns, CM_DISC_LINGER_NS);
    uint64_t served_ns = cm_disc_served_ns(cm, disc);
    uint64_t left_ns = disc->left_ns ? cm_add_ns(disc->left_ns, CM_DISC_LINGER_NS) : 0;

    if (served_ns > linger_ns)
        linger_ns = served_ns;
    if (disc->kept_ns > linger_ns)
        linger_ns = disc->kept_ns;
    return left_ns > linger_ns ? left_ns : linger_ns;
}

bool cm_disc_served(const struct cm *cm, const struct cm_disc *disc, uint64_t now_ns)
{
    return now_ns <= (disc->waited ? cm_disc_linger_ns(cm, disc) : disc->kept_ns);
}

void cm_fire_linger(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_disc *disc = CM_OF(struct cm_disc, timer, timer);

    if (now_ns < cm_disc_linger_ns(cm, disc))
        cm_timer_set(cm, timer, cm_disc_linger_ns(cm, disc));
    else
        cm_disc_free(cm, disc);
}

bool cm_disc_in_use(struct cm *cm, const uint8_t *bytes, uint8_t len)
{
    const struct cm_disc *disc = cm_disc_find(cm, bytes, len);

    return disc && (!TAILQ_EMPTY(&disc->waiters) || disc->meets);
}

/*
 * The server of a request has answered the request, or has a connection, so it will probably wait
 * again. It cannot wait before the client's CONFIRM comes, which may take longer than the grace. So
 * while an ACCEPT is repeated, `now_ns` is the time of the next repetition. Otherwise a slow client
 * would cause NO_MATCH for other clients.
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
        linger_end(cm, disc);
        return disc;
    }
    disc = cm_alloc(cm, sizeof(*disc));
    if (!disc)
        return NULL;
    TAILQ_INIT(&disc->waiters);
    TAILQ_INIT(&disc->kept);
    disc->len = len;
    memcpy(disc->bytes, bytes, len);
    disc->timer.kind = CM_TIMER_LINGER;
    cm_table_add(cm, &cm->discs, &disc->by_bytes, cm_hash(cm, bytes, len, 1));
    return disc;
}

/* Does the owner still own the discriminator? Requests of clients do not count, because any host
 * can send them. */
static bool held(const struct cm *cm, const struct cm_disc *disc, uint64_t now_ns)
{
    return !TAILQ_EMPTY(&disc->waiters) || disc->meets || disc->at_work || disc->settled ||
           now_ns < cm_disc_linger_ns(cm, disc);
}

static bool of_other(const struct cm *cm, const struct cm_disc *disc, uint32_t uid, uint64_t now_ns)
{
    return disc && disc->owner && cm_holder_uid(disc->owner) != uid && held(cm, disc, now_ns);
}

bool cm_disc_of_other(struct cm *cm, const uint8_t *bytes, uint8_t len, uint32_t uid,
                      uint64_t now_ns)
{
    return of_other(cm, cm_disc_find(cm, bytes, len), uid, now_ns);
}

int cm_disc_claim(struct cm *cm, const uint8_t *bytes, uint8_t len, uint32_t uid, uint64_t now_ns,
                  struct cm_disc **ret)
{
    struct cm_disc *disc = cm_disc_find(cm, bytes, len);
    struct cm_holder *owner;

    if (of_other(cm, disc, uid, now_ns)) {
        cm->stats.refused_owner++;
        return -EPERM;
    }
    owner = cm_holder_user(cm, CM_HOLDER_OWNER, uid);
    disc = owner ? cm_disc_get(cm, bytes, len) : NULL;
    if (!disc) {
        cm_holder_put(cm, owner);
        return -ENOMEM;
    }
    if (disc->owner != owner) {
        servers_end(cm, disc);
        if (cm->ops.owned)
            cm->ops.owned(cm->ctx, &disc->record, uid, bytes, len);
    }
    cm_holder_put(cm, disc->owner);
    disc->owner = owner;
    *ret = disc;
    return 0;
}

int cm_disc_keep(struct cm *cm, const uint8_t *bytes, uint8_t len, uint32_t uid, uint64_t until_ns,
                 uint64_t now_ns)
{
    struct cm_disc *disc;
    int rc = len > VIP_DISCRIMINATOR_BYTES_MAX ? -EINVAL
                                               : cm_disc_claim(cm, bytes, len, uid, now_ns, &disc);

    if (rc)
        return rc;
    cm->now_ns = now_ns;
    disc->kept_ns = until_ns;
    cm_disc_put(cm, disc);
    return 0;
}

void cm_disc_deinit(struct cm *cm)
{
    struct cm_node *node;
    unsigned bucket = 0;

    cm->ends = true;
    while ((node = cm_table_any(&cm->discs, &bucket)))
        cm_disc_free(cm, CM_OF(struct cm_disc, by_bytes, node));
}

/*
 * The pool of lingering discriminators has no room for `disc`. Returns the discriminator to be
 * freed, or NULL. First choice: the oldest unsettled discriminator of the user who has most of
 * them, because an unsettled discriminator lingers for a second only. Second choice: the oldest
 * settled discriminator of the user who has most lingering discriminators. If the part of disc's
 * owner is full, the discriminator must be that owner's.
 */
static struct cm_disc *room_maker(const struct cm *cm, const struct cm_disc *disc)
{
    struct cm_holder *most = disc->owner, *unsettled = disc->owner, *user;

    if (cm_share_part(CM_POOL_LINGER, disc->owner)) {
        /* The list has only users that have CM_SMALL or more lingering discriminators. */
        TAILQ_FOREACH(user, &cm->lingerers, of_lingerers)
        {
            if (user->has[CM_POOL_LINGER] > most->has[CM_POOL_LINGER])
                most = user;
            if (user->unsettled > unsettled->unsettled)
                unsettled = user;
        }
    }
    if (unsettled->unsettled)
        return TAILQ_FIRST(&unsettled->lingering[0]);
    return disc->settled || most != disc->owner ? TAILQ_FIRST(&most->lingering[1]) : NULL;
}

void cm_disc_put(struct cm *cm, struct cm_disc *disc)
{
    struct cm_disc *other = NULL;
    bool room;

    if (!TAILQ_EMPTY(&disc->waiters) || !TAILQ_EMPTY(&disc->kept) || disc->at_work || disc->meets)
        return;
    room = disc->owner && cm_share_room(cm, CM_POOL_LINGER, disc->owner, NULL);
    if (disc->owner && !room)
        other = room_maker(cm, disc);
    if (!room && !other) {
        cm_disc_free(cm, disc);
        return;
    }
    if (other)
        cm_disc_free(cm, other);
    linger_begin(cm, disc);
}
