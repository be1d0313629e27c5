/*
 * Sending a message over an open connection: chooses the place of a long payload, fills a send
 * buffer and posts it. Sending waits only for this buffer, never for the other program.
 */
#include "am/internal.h"

#include <string.h>

/* A long payload of up to this many bytes is copied to the send buffer, so that the caller need not
 * wait until the payload has left. */
#define STAGE_MAX 32768u

static struct am_lane *lane_for(struct am_conn *conn, enum am_class class)
{
    return &conn->lane[conn->lanes == 1 ? 0 : class];
}

tag_t am_reply_tag(const struct am_map *map, tag_t told)
{
    return map->entry >= 0 ? map->ep->trans[map->entry].tag : told;
}

static bool overlap(const struct am_range *a, uint64_t off, uint64_t len)
{
    return a->len != 0 && off < a->off + a->len && a->off < off + len;
}

/*
 * May the payload be written straight into the other side's segment? The other side must have
 * granted direct writes. The payload must not overlap an earlier long message whose handler may not
 * have run yet, because this handler must find the payload of its own message.
 */
static bool may_write_straight(const struct am_conn *conn, const struct am_message *msg)
{
    const struct am_grant *grant = &conn->peer_grant;

    if (!grant->valid || msg->nbytes <= AM_DIRECT_MIN || msg->offset > grant->len ||
        msg->nbytes > grant->len - msg->offset)
        return false;
    if (grant->tag != AM_ALL && grant->tag != msg->tag)
        return false;
    if (!(grant->handlers[msg->handler / 8] & 1u << msg->handler % 8))
        return false;
    for (unsigned i = 0; i < conn->k; i++)
        if (conn->request[i].used && overlap(&conn->request[i].range, msg->offset, msg->nbytes))
            return false;
    for (unsigned i = 0; i < conn->peer_k; i++)
        if (overlap(&conn->reply[i].range, msg->offset, msg->nbytes))
            return false;
    return true;
}

/* Choose the place of a long payload, and the lane. */
static void choose(struct am_conn *conn, struct am_message *msg, struct am_way *way)
{
    enum am_class class = am_class_of(msg->kind);

    if (class == AM_LONG && msg->kind != AM_KIND_GET) {
        if (may_write_straight(conn, msg))
            msg->place = AM_PLACE_SEGMENT;
        else if (msg->nbytes <= AM_MEDIUM_MAX)
            msg->place = AM_PLACE_INLINE;
        else
            msg->place = AM_PLACE_LANDING;
        *way->range = (struct am_range){msg->offset, msg->nbytes};
        if (msg->place == AM_PLACE_INLINE && msg->nbytes > 0)
            class = AM_MEDIUM;
    }
    way->lane = lane_for(conn, class);
}

/* Write the payload to the other side by RDMA, then send msg, which is in the send buffer. */
static int post_write(struct am_conn *conn, struct am_message *msg, const struct am_way *way,
                      const void *source)
{
    size_t head = am_head_bytes(msg->numargs), staged_at = (head + 63) / 64 * 64;
    struct am_transfer transfer = {.bytes = msg->nbytes, .from = source};
    struct am_region *region = NULL;
    bool staged = msg->nbytes <= STAGE_MAX && way->lane->room >= staged_at + msg->nbytes;

    if (msg->place == AM_PLACE_SEGMENT) {
        transfer.to = conn->peer_grant.base + msg->offset;
        transfer.to_mem = conn->peer_grant.handle;
        am_net.counts.longs_direct++;
    } else {
        transfer.to_mem = conn->peer_landing_mem;
        transfer.to =
            conn->peer_landing +
            (uint64_t)AM_LONG_MAX * (msg->kind == AM_KIND_LONG ? conn->peer_k + msg->id : msg->id);
    }
    if (staged) {
        transfer.from = memcpy((char *)msg + staged_at, source, msg->nbytes);
        transfer.from_mem = conn->mem;
    } else if ((region = am_region_get(source, msg->nbytes, &transfer.from_mem)) == NULL) {
        return am_fail(AM_ERR_RESOURCE, "%u bytes at %p cannot be registered for sending: %s",
                       (unsigned)msg->nbytes, source, VipxLastError());
    }
    way->lane->region[way->slot] = region;
    am_slot_post_write(way->lane, way->slot, head, &transfer);
    if (!staged && way->wait)
        am_slot_get(way->lane, way->slot); /* after this the program may change the source */
    return AM_OK;
}

int am_send_message(struct am_conn *conn, const struct am_message *head, const int32_t *arg,
                    const void *source, struct am_way *way)
{
    struct am_message place = *head, *msg;
    size_t bytes = am_head_bytes(head->numargs);

    choose(conn, &place, way);
    msg = am_slot_get(way->lane, way->slot);
    *msg = place;
    if (head->numargs > 0)
        memcpy(msg->arg, arg, head->numargs * sizeof(*arg));
    if (am_class_of(msg->kind) == AM_LONG && msg->place != AM_PLACE_INLINE)
        return post_write(conn, msg, way, source);
    if (msg->nbytes > 0 && msg->kind != AM_KIND_GET) {
        memmove((char *)msg + bytes, source, msg->nbytes);
        bytes += msg->nbytes;
    }
    am_slot_post(way->lane, way->slot, bytes);
    return AM_OK;
}

int am_send_reply(struct am_conn *conn, uint16_t id, const struct am_message *head,
                  const int32_t *arg, const void *source)
{
    struct am_message msg = *head;
    struct am_way way = {.slot = conn->k + id, .range = &conn->reply[id].range, .wait = true};
    int rc;

    if (conn->state == AM_CONN_DEAD)
        return AM_OK; /* the requester is gone; no reply is needed */
    msg.id = id;
    conn->reply[id].range.len = 0;
    if (conn->peer_busy[id]) {
        conn->peer_busy[id] = 0;
        conn->serving--;
    }
    rc = am_send_message(conn, &msg, arg, source, &way);
    conn->reply[id].lane = (uint8_t)way.lane->index;
    if (conn->control_work)
        am_control_work(conn);
    return rc;
}
