/*
 * Requests: each waits for a free credit and uses it until the reply comes. If no connection
 * can be made, the request comes back at once: handler 0 runs.
 */
#include "am/internal.h"

#include <string.h>

/* The parameters of a request. */
struct ask {
    struct am_ep *ep;
    int dest;
    void *source;
    bool async;
    int32_t arg[AM_ARGS_MAX];
    union am_message_room room; /* head of the message; last, because of its flexible array */
};

/* The request cannot be sent: run handler 0 with it. */
static void return_unsent(struct ask *ask, struct am_map *map, int status)
{
    union am_message_room copy;
    struct am_request origin = {.dest = ask->dest, .source = ask->source};
    struct am_token token = {.ep = ask->ep, .map = map, .origin = &origin, .reason = status};

    copy.msg = ask->room.msg;
    memcpy(copy.msg.arg, ask->arg, ask->room.msg.numargs * sizeof(ask->arg[0]));
    am_wait_idle(ask->ep);
    ask->ep->busy = true;
    am_run_returned(&token, &copy.msg, status);
    ask->ep->busy = false;
}

/*
 * Wait until the map has an open connection with a free credit, and handle arriving messages
 * meanwhile. Outcomes: 0 (the connection is in *ret); AM_ERR_IN_USE (an asynchronous request would
 * have to wait for a credit); minus an E... status (the reason why there is no connection).
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
    struct am_way way = {.slot = id, .range = &request->range, .wait = !ask->async};
    int rc;

    *request = (struct am_request){.dest = ask->dest, .source = ask->source};
    ask->room.msg.id = id;
    rc = am_send_message(conn, &ask->room.msg, ask->arg, ask->source, &way);
    request->lane = (uint8_t)way.lane->index;
    request->used = true;
    am_conn_touch(conn);
    if (rc != AM_OK)
        am_request_over(conn, id);
    return rc;
}

/* Under the bundle's lock. */
static int request_locked(struct ask *ask)
{
    struct am_ep *ep = ask->ep;
    struct am_conn *conn = NULL;
    struct am_map *map;
    int rc;

    am_poll(ep->bundle);
    /* Check again: a handler in am_poll may have changed the translation table. */
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
    am_read_args(ask.arg, numargs, args);
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
    am_read_args(ask.arg, numargs, args);
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
    am_read_args(ask.arg, numargs, args);
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
    am_read_args(ask.arg, numargs, args);
    return request(&ask);
}
