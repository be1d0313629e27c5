/*
 * Control messages of a connection: permissions to write straight into a segment, and closing by
 * agreement. Each side has at most one control message under way: it sends the next one after
 * AM_KIND_AGREED has come. So control messages need only two receive buffers.
 *
 * Closing. The side that wants to close sends no more requests, waits for the answers to its
 * requests under way, and sends AM_KIND_CLOSE. The other side also stops sending requests, and
 * waits for the answers to its own requests before it agrees. Then no message can be under way, and
 * the first side disconnects. A new request waits for the disconnect and makes a new connection.
 */
#include "am/internal.h"

#include <string.h>

/* Largest segment, in bytes, that the library registers: registering takes memory even for pages
 * that the program never uses. */
#define SEGMENT_REGISTER_MAX ((uintptr_t)1 << 30)

/* Use the lane of RDMA Writes, so that the control message arrives after all earlier ones. */
void am_control_send(struct am_conn *conn, uint8_t kind, bool answer)
{
    struct am_lane *lane = &conn->lane[conn->lanes - 1];
    unsigned slot = conn->k + conn->peer_k + (answer ? 1u : 0u);
    struct am_message *msg = am_slot_get(lane, slot);
    size_t bytes = sizeof(*msg);

    memset(msg, 0, sizeof(*msg));
    msg->kind = kind;
    if (kind == AM_KIND_GRANT) {
        const struct am_grant *mine = &conn->my_grant;
        struct am_wire_grant grant = {
            .base = mine->base, .len = mine->len, .tag = mine->tag, .handle = mine->handle};

        memcpy(grant.handlers, mine->handlers, sizeof(grant.handlers));
        memcpy(msg->arg, &grant, sizeof(grant));
        bytes += sizeof(grant);
    }
    am_slot_post(lane, slot, bytes);
}

static void ask(struct am_conn *conn, uint8_t kind)
{
    conn->asked = kind;
    am_control_send(conn, kind, false);
}

/* ---- the segment ----------------------------------------------------------------------------- */

static bool segment_registered(struct am_ep *ep)
{
    VIP_MEM_ATTRIBUTES attrs = {.Ptag = am_net.ptag, .EnableRdmaWrite = VIP_TRUE};
    struct am_segment *seg = &ep->seg;

    if (seg->registered || seg->refused)
        return seg->registered;
    seg->refused =
        seg->len > SEGMENT_REGISTER_MAX || seg->base == NULL ||
        VipRegisterMem(am_net.nic, seg->base, seg->len, &attrs, &seg->handle) != VIP_SUCCESS;
    seg->registered = !seg->refused;
    return seg->registered;
}

static void make_grant(struct am_conn *conn)
{
    struct am_ep *ep = conn->map->ep;
    struct am_grant *grant = &conn->my_grant;

    *grant = (struct am_grant){.valid = true,
                               .base = (uintptr_t)ep->seg.base,
                               .len = ep->seg.len,
                               .handle = ep->seg.handle,
                               .tag = ep->tag};
    for (unsigned i = 0; i < 256; i++)
        if (ep->handler[i] != NULL && ep->handler[i] != (amvia_handler_fn_t)am_default_returned)
            grant->handlers[i / 8] |= (uint8_t)(1u << i % 8);
}

void am_grant_consider(struct am_conn *conn, const struct am_message *msg)
{
    const struct am_grant *grant = &conn->my_grant;
    struct am_ep *ep = conn->map->ep;

    if (msg->nbytes <= AM_DIRECT_MIN || conn->want_grant || conn->want_revoke ||
        (conn->state != AM_CONN_OPEN && conn->state != AM_CONN_CLOSING))
        return;
    if (grant->valid && (grant->handlers[msg->handler / 8] & 1u << msg->handler % 8))
        return; /* the other side has this permission, and did not use it */
    if (!segment_registered(ep))
        return;
    conn->want_grant = true;
    am_control_set(conn, true);
    am_control_work(conn);
}

/* Call a function for each connection of an endpoint. */
static void each_conn(struct am_ep *ep, void (*what)(struct am_conn *conn, void *ctx), void *ctx)
{
    for (unsigned i = 0; i < AM_MAP_BUCKETS; i++)
        for (struct am_map *map = ep->map_bucket[i]; map != NULL; map = map->next)
            if (map->conn != NULL)
                what(map->conn, ctx);
}

static void revoke_one(struct am_conn *conn, void *ctx)
{
    (void)ctx;
    conn->want_grant = false;
    if (!conn->my_grant.valid)
        return;
    conn->my_grant.valid = false;
    conn->want_revoke = true;
    am_control_set(conn, true);
    am_control_work(conn);
}

static void count_writers(struct am_conn *conn, void *ctx)
{
    *(unsigned *)ctx += conn->want_revoke || conn->asked == AM_KIND_REVOKE;
}

void am_segment_revoke(struct am_ep *ep)
{
    each_conn(ep, revoke_one, NULL);
}

unsigned am_segment_writers(struct am_ep *ep)
{
    unsigned writers = 0;

    each_conn(ep, count_writers, &writers);
    return writers;
}

bool am_segment_granted(struct am_ep *ep)
{
    unsigned writers = 0;

    for (unsigned i = 0; i < AM_MAP_BUCKETS; i++)
        for (struct am_map *map = ep->map_bucket[i]; map != NULL; map = map->next)
            if (map->conn != NULL)
                writers += map->conn->my_grant.valid || map->conn->want_revoke ||
                           map->conn->asked == AM_KIND_REVOKE;
    return writers > 0;
}

void am_segment_drop(struct am_ep *ep)
{
    if (ep->seg.registered)
        (void)VipDeregisterMem(am_net.nic, ep->seg.base, ep->seg.handle);
    ep->seg = (struct am_segment){.base = NULL};
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Are all requests of both sides answered, and all arrived messages handled? */
static bool quiet(const struct am_conn *conn)
{
    return conn->free_ids == conn->k && conn->serving == 0 && conn->running == 0;
}

void am_conn_close(struct am_conn *conn)
{
    if (conn->state != AM_CONN_OPEN)
        return;
    conn->state = AM_CONN_CLOSING;
    conn->want_close = true;
    conn->bundle->closing++;
    conn->counted_closing = true;
    am_control_set(conn, true);
    am_control_work(conn);
}

static void answer_close(struct am_conn *conn)
{
    conn->must_agree = false;
    if (conn->asked != AM_KIND_CLOSE && !conn->close_agreed)
        conn->state = AM_CONN_CLOSED;
    am_control_send(conn, AM_KIND_AGREED, true);
}

void am_control_work(struct am_conn *conn)
{
    if (conn->state == AM_CONN_DEAD || conn->state == AM_CONN_ACCEPTED)
        return;
    if (conn->must_agree && quiet(conn) && (conn->asked == 0 || conn->asked == AM_KIND_CLOSE) &&
        !conn->want_revoke)
        answer_close(conn);
    if (conn->asked == 0 && conn->state != AM_CONN_CLOSED) {
        if (conn->want_revoke) {
            conn->want_revoke = false;
            ask(conn, AM_KIND_REVOKE);
        } else if (conn->want_grant) {
            conn->want_grant = false;
            make_grant(conn);
            ask(conn, AM_KIND_GRANT);
        } else if (conn->want_close && quiet(conn)) {
            conn->want_close = false;
            ask(conn, AM_KIND_CLOSE);
        }
    }
    if (conn->close_agreed && !conn->must_agree && am_conn_sent(conn)) {
        am_conn_broken(conn);
        return;
    }
    am_control_set(conn, conn->must_agree || conn->want_revoke || conn->want_grant ||
                             conn->want_close || conn->close_agreed);
}

/* ---- arriving control messages --------------------------------------------------------------- */

static void take_grant(struct am_conn *conn, const struct am_wire_grant *wire)
{
    struct am_grant *grant = &conn->peer_grant;

    *grant = (struct am_grant){.valid = true,
                               .base = wire->base,
                               .len = wire->len,
                               .handle = wire->handle,
                               .tag = wire->tag};
    memcpy(grant->handlers, wire->handlers, sizeof(grant->handlers));
}

static void agreed(struct am_conn *conn)
{
    if (conn->asked == AM_KIND_CLOSE)
        conn->close_agreed = true;
    conn->asked = 0;
}

void am_control_arrived(struct am_conn *conn, uint8_t kind, const struct am_wire_grant *grant)
{
    switch (kind) {
    case AM_KIND_READY:
        if (conn->state == AM_CONN_ACCEPTED)
            conn->state = AM_CONN_OPEN;
        break;
    case AM_KIND_GRANT:
        if (grant != NULL)
            take_grant(conn, grant);
        am_control_send(conn, AM_KIND_AGREED, true);
        break;
    case AM_KIND_REVOKE:
        conn->peer_grant.valid = false;
        am_control_send(conn, AM_KIND_AGREED, true);
        break;
    case AM_KIND_CLOSE:
        if (conn->state == AM_CONN_OPEN)
            conn->state = AM_CONN_CLOSING;
        conn->must_agree = true;
        break;
    default:
        agreed(conn);
        break;
    }
    am_control_set(conn, true);
    am_control_work(conn);
}
