/*
 * Sending requests and replies: credits, where the payload of a long message goes, tokens.
 */
#include "am/internal.h"

#include <sched.h>
#include <string.h>

/* Largest long payload, in bytes, copied to the send buffer so that the caller need not wait. */
#define STAGE_MAX 32768u

/* ---- where things go ------------------------------------------------------------------------- */

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
 * May these bytes be written straight into the other's segment? It must be granted. The place must
 * not overlap another long message that its handler may not have seen: each handler must see its
 * own bytes.
 */
static bool may_write_direct(const struct am_conn *conn, const struct am_message *msg)
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

/* The way of one message. */
struct way {
    struct am_lane *lane;
    unsigned slot;
    struct am_range *range; /* set to what a long message covers in the segment */
    bool wait;              /* the source must be free on return */
};

/* The place of a payload and the lane that goes with it. */
static void choose(struct am_conn *conn, struct am_message *msg, struct way *way)
{
    enum am_class class = am_class_of(msg->kind);

    if (class == AM_LONG && msg->kind != AM_KIND_GET) {
        if (may_write_direct(conn, msg))
            msg->place = AM_PLACE_DIRECT;
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

/* Write the payload to the other side, then the message of the buffer. */
static int post_write(struct am_conn *conn, struct am_message *msg, const struct way *way,
                      const void *source)
{
    size_t head = am_head_bytes(msg->numargs), staged_at = (head + 63) / 64 * 64;
    struct am_transfer transfer = {.bytes = msg->nbytes, .from = source};
    struct am_region *region = NULL;
    bool staged = msg->nbytes <= STAGE_MAX && way->lane->room >= staged_at + msg->nbytes;

    if (msg->place == AM_PLACE_DIRECT) {
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
        am_slot_get(way->lane, way->slot); /* the source is free when the buffer is */
    return AM_OK;
}

/* Fill the buffer given by `way`, and post it. */
static int send_message(struct am_conn *conn, const struct am_message *head, const int32_t *arg,
                        const void *source, struct way *way)
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
    struct way way = {.slot = conn->k + id, .range = &conn->reply[id].range, .wait = true};
    int rc;

    if (conn->state == AM_CONN_DEAD)
        return AM_OK; /* the requester is gone; no reply is needed */
    msg.id = id;
    conn->reply[id].range.len = 0;
    if (conn->peer_busy[id]) {
        conn->peer_busy[id] = 0;
        conn->serving--;
    }
    rc = send_message(conn, &msg, arg, source, &way);
    conn->reply[id].lane = (uint8_t)way.lane->index;
    if (conn->control_work)
        am_control_work(conn);
    return rc;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A request as the caller gave it. */
struct ask {
    struct am_ep *ep;
    int dest;
    void *source;
    bool async;
    int32_t arg[AM_ARGS_MAX];
    union am_message_room room; /* its head; last, because it ends in a flexible array */
};

/* The request cannot be sent: it comes back at once. */
static void return_unsent(struct ask *ask, struct am_map *map, int status)
{
    union am_message_room copy;
    struct am_request origin = {.dest = ask->dest, .source = ask->source};
    struct am_token token = {.ep = ask->ep, .map = map, .origin = &origin, .reason = status};

    copy.msg = ask->room.msg;
    memcpy(copy.msg.arg, ask->arg, ask->room.msg.numargs * sizeof(ask->arg[0]));
    am_wait_turn(ask->ep);
    ask->ep->busy = true;
    am_run_returned(&token, &copy.msg, status);
    ask->ep->busy = false;
}

/*
 * Wait until the map has an open connection with a credit, handling what arrives meanwhile. 0 with
 * *ret; AM_ERR_IN_USE: an asynchronous one would wait for a credit; negative: -E... status, there
 * can be no connection.
 */
static int wait_for_credit(struct am_map *map, tag_t tag, bool async, struct am_conn **ret)
{
    unsigned empty = 0;

    for (;;) {
        struct am_conn *conn = map->conn;

        if (conn != NULL && conn->state == AM_CONN_OPEN && conn->free_ids > 0) {
            *ret = conn;
            return 0;
        }
        if (conn == NULL) {
            int status = am_map_connect(map, tag);

            if (status != 0)
                return -status;
            continue;
        }
        if (async && conn->state == AM_CONN_OPEN)
            return AM_ERR_IN_USE;
        if (am_poll(map->ep->bundle) == 0)
            am_pause(map->ep->bundle, empty++);
        else
            empty = 0;
    }
}

static int get_credit(struct am_map *map, tag_t tag, bool async, struct am_conn **ret)
{
    enum am_part part = am_part(AM_PART_FLOW);
    int rc = wait_for_credit(map, tag, async, ret);

    am_part(part);
    return rc;
}

static int send_request(struct ask *ask, struct am_map *map, struct am_conn *conn)
{
    uint16_t id = conn->free_id[--conn->free_ids];
    struct am_request *request = &conn->request[id];
    struct way way = {.slot = id, .range = &request->range, .wait = !ask->async};
    int rc;

    *request = (struct am_request){.dest = ask->dest, .source = ask->source};
    ask->room.msg.id = id;
    rc = send_message(conn, &ask->room.msg, ask->arg, ask->source, &way);
    request->lane = (uint8_t)way.lane->index;
    request->used = true;
    am_conn_touch(conn);
    if (rc != AM_OK)
        am_request_over(conn, id);
    return rc;
}

/* Under the lock. */
static int request_locked(struct ask *ask)
{
    struct am_ep *ep = ask->ep;
    struct am_conn *conn = NULL;
    struct am_map *map;
    int rc;

    am_poll(ep->bundle);
    /* A handler may have changed the table. */
    if (ask->dest >= ep->trans_count || ep->trans[ask->dest].map == NULL)
        return am_fail(AM_ERR_BAD_ARG, "request: translation %d is not in use", ask->dest);
    map = ep->trans[ask->dest].map;
    ask->room.msg.tag = ep->trans[ask->dest].tag;
    ask->room.msg.reply_tag = ep->tag;
    if (map == &ep->self) {
        ep->stats.RequestsSent[am_class_of(ask->room.msg.kind)]++;
        return am_loop_request(ep, ask->dest, &ask->room.msg, ask->arg, ask->source);
    }
    map->waiters++;
    rc = get_credit(map, ask->room.msg.tag, ask->async, &conn);
    map->waiters--;
    if (rc == AM_ERR_IN_USE)
        return am_busy();
    am_stats_sent(ep, &ask->room.msg, true);
    if (rc < 0) {
        return_unsent(ask, map, -rc);
        return AM_OK;
    }
    return send_request(ask, map, conn);
}

static int check_request(const struct am_ep *ep, int dest, int numargs, const void *source,
                         size_t nbytes, size_t max)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "request: AM_Init was not called");
    if (ep == NULL)
        return am_fail(AM_ERR_BAD_ARG, "request: the endpoint is NULL");
    if (dest < 0 || dest >= ep->trans_count || ep->trans[dest].map == NULL)
        return am_fail(AM_ERR_BAD_ARG, "request: translation %d is not in use", dest);
    if (numargs < 0 || numargs > AM_ARGS_MAX)
        return am_fail(AM_ERR_BAD_ARG, "request: %d arguments; 0 to 16 are possible", numargs);
    if (nbytes > max)
        return am_fail(AM_ERR_BAD_ARG, "request: %zu bytes; at most %zu are possible", nbytes, max);
    if (source == NULL && nbytes > 0)
        return am_fail(AM_ERR_BAD_ARG, "request: %zu bytes at NULL", nbytes);
    if (am_in_handler > 0)
        return am_fail(AM_ERR_RESOURCE, "request: a handler may only reply");
    return AM_OK;
}

static void read_args(int32_t *arg, int numargs, va_list args)
{
    for (int i = 0; i < numargs; i++)
        arg[i] = (int32_t)va_arg(args, int);
}

static int request(struct ask *ask)
{
    struct am_bundle *bundle = ask->ep->bundle;
    enum am_part part = am_part(AM_PART_SEMANTICS);
    int rc;

    am_lock(bundle);
    rc = request_locked(ask);
    am_unlock(bundle);
    am_part(part);
    return rc;
}

int AMVIA_RequestVA(ep_t ea, int dest, handler_t handler, int numargs, va_list args)
{
    struct ask ask = {.ep = ea, .dest = dest};
    int rc = check_request(ea, dest, numargs, "", 0, 0);

    if (rc != AM_OK)
        return rc;
    ask.room.msg.kind = AM_KIND_SHORT;
    ask.room.msg.handler = handler;
    ask.room.msg.numargs = (uint8_t)numargs;
    read_args(ask.arg, numargs, args);
    return request(&ask);
}

int AMVIA_RequestIVA(ep_t ea, int dest, handler_t handler, void *source, size_t nbytes, int numargs,
                     va_list args)
{
    struct ask ask = {.ep = ea, .dest = dest, .source = source};
    int rc = check_request(ea, dest, numargs, source, nbytes, AM_MEDIUM_MAX);

    if (rc != AM_OK)
        return rc;
    ask.room.msg.kind = AM_KIND_MEDIUM;
    ask.room.msg.handler = handler;
    ask.room.msg.numargs = (uint8_t)numargs;
    ask.room.msg.nbytes = (uint32_t)nbytes;
    read_args(ask.arg, numargs, args);
    return request(&ask);
}

int AMVIA_RequestXferVA(ep_t ea, int dest, uintptr_t dest_offset, handler_t handler, void *source,
                        size_t nbytes, int async, int numargs, va_list args)
{
    struct ask ask = {.ep = ea, .dest = dest, .source = source, .async = async != 0};
    int rc = check_request(ea, dest, numargs, source, nbytes, AM_LONG_MAX);

    if (rc != AM_OK)
        return rc;
    ask.room.msg.kind = AM_KIND_LONG;
    ask.room.msg.handler = handler;
    ask.room.msg.numargs = (uint8_t)numargs;
    ask.room.msg.nbytes = (uint32_t)nbytes;
    ask.room.msg.offset = dest_offset;
    read_args(ask.arg, numargs, args);
    return request(&ask);
}

int AMVIA_GetXferVA(ep_t ea, int dest, uintptr_t source_offset, handler_t handler,
                    uintptr_t dest_offset, size_t nbytes, int async, int numargs, va_list args)
{
    struct ask ask = {.ep = ea, .dest = dest, .async = async != 0};
    int rc = check_request(ea, dest, numargs, "", nbytes, AM_LONG_MAX);

    if (rc != AM_OK)
        return rc;
    ask.room.msg.kind = AM_KIND_GET;
    ask.room.msg.handler = handler;
    ask.room.msg.numargs = (uint8_t)numargs;
    ask.room.msg.nbytes = (uint32_t)nbytes;
    ask.room.msg.offset = dest_offset;
    ask.room.msg.source = source_offset;
    read_args(ask.arg, numargs, args);
    return request(&ask);
}

/* ---- replies --------------------------------------------------------------------------------- */

static int check_reply(const struct am_token *token, int numargs, const void *source, size_t nbytes,
                       size_t max)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "reply: AM_Init was not called");
    if (token == NULL)
        return am_fail(AM_ERR_BAD_ARG, "reply: the token is NULL");
    if (token->magic != AM_TOKEN_MAGIC)
        return am_fail(AM_ERR_RESOURCE, "reply: its handler has returned");
    if (!token->request || token->returned)
        return am_fail(AM_ERR_RESOURCE, "reply: only a request's handler may reply");
    if (token->replied)
        return am_fail(AM_ERR_RESOURCE, "reply: this handler has replied already");
    if (numargs < 0 || numargs > AM_ARGS_MAX)
        return am_fail(AM_ERR_BAD_ARG, "reply: %d arguments; 0 to 16 are possible", numargs);
    if (nbytes > max)
        return am_fail(AM_ERR_BAD_ARG, "reply: %zu bytes; at most %zu are possible", nbytes, max);
    if (source == NULL && nbytes > 0)
        return am_fail(AM_ERR_BAD_ARG, "reply: %zu bytes at NULL", nbytes);
    return AM_OK;
}

static int reply(struct am_token *token, struct am_message *head, int numargs, va_list args,
                 const void *source)
{
    struct am_ep *ep = token->ep;
    enum am_part part = am_part(AM_PART_SEMANTICS);
    int32_t arg[AM_ARGS_MAX];
    int rc;

    read_args(arg, numargs, args);
    head->numargs = (uint8_t)numargs;
    head->tag = am_reply_tag(token->map, token->reply_tag);
    am_lock(ep->bundle);
    token->replied = true;
    if (token->conn == NULL) {
        ep->stats.RepliesSent[am_class_of(head->kind)]++;
        rc = am_loop_reply(token, head, arg, source);
    } else {
        am_stats_sent(ep, head, false);
        rc = am_send_reply(token->conn, token->msg->id, head, arg, source);
        /* Nothing was sent: the credit goes back by the automatic reply. */
        token->replied = rc == AM_OK;
    }
    am_unlock(ep->bundle);
    am_part(part);
    return rc;
}

int AMVIA_ReplyVA(void *token, handler_t handler, int numargs, va_list args)
{
    struct am_message head = {.kind = AM_KIND_R_SHORT, .handler = handler};
    int rc = check_reply(token, numargs, "", 0, 0);

    return rc != AM_OK ? rc : reply(token, &head, numargs, args, NULL);
}

int AMVIA_ReplyIVA(void *token, handler_t handler, void *source, size_t nbytes, int numargs,
                   va_list args)
{
    struct am_message head = {
        .kind = AM_KIND_R_MEDIUM, .handler = handler, .nbytes = (uint32_t)nbytes};
    int rc = check_reply(token, numargs, source, nbytes, AM_MEDIUM_MAX);

    return rc != AM_OK ? rc : reply(token, &head, numargs, args, source);
}

int AMVIA_ReplyXferVA(void *token, uintptr_t dest_offset, handler_t handler, void *source,
                      size_t nbytes, int numargs, va_list args)
{
    struct am_message head = {.kind = AM_KIND_R_LONG,
                              .handler = handler,
                              .nbytes = (uint32_t)nbytes,
                              .offset = dest_offset};
    int rc = check_reply(token, numargs, source, nbytes, AM_LONG_MAX);

    return rc != AM_OK ? rc : reply(token, &head, numargs, args, source);
}
