/*
 * Receiving. A poll takes the arrived messages from the completion queue and checks their form.
 * Then it handles replies and returned messages, then requests in the order of arrival. Of each
 * endpoint only one handler runs at a time.
 */
#include "am/internal.h"

#include <string.h>

/* A poll takes at most this many messages before it handles the first one. So a large number of
 * requests does not delay replies. */
#define GATHER_MAX 64

static struct am_message *arrival_msg(const struct am_arrival *arrival)
{
    return (struct am_message *)(arrival->lane->recv_bytes + arrival->recv * arrival->lane->room);
}

static void queue_put(struct am_queue *queue, struct am_arrival *arrival)
{
    arrival->next = NULL;
    if (queue->last != NULL)
        queue->last->next = arrival;
    else
        queue->first = arrival;
    queue->last = arrival;
}

/* Take the first arrival whose endpoint runs no handler in another thread. NULL: there is none. */
static struct am_arrival *queue_take(struct am_queue *queue)
{
    struct am_arrival *before = NULL, *arrival = queue->first;

    while (arrival != NULL && arrival->lane->conn->map->ep->busy) {
        before = arrival;
        arrival = arrival->next;
    }
    if (arrival == NULL)
        return NULL;
    if (before != NULL)
        before->next = arrival->next;
    else
        queue->first = arrival->next;
    if (queue->last == arrival)
        queue->last = before;
    return arrival;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* Is the message valid: are its lengths, counts and numbers possible for this connection? */
static bool well_formed(const struct am_conn *conn, const struct am_message *msg, size_t bytes)
{
    bool reply = msg->kind >= AM_KIND_R_SHORT && msg->kind <= AM_KIND_REFUSED;

    if (bytes < sizeof(*msg) || msg->numargs > AM_ARGS_MAX || bytes < am_head_bytes(msg->numargs))
        return false;
    if (msg->kind >= AM_KIND_READY)
        return msg->kind <= AM_KIND_AGREED;
    if (msg->kind == 0 || msg->kind > AM_KIND_REFUSED ||
        (msg->kind > AM_KIND_REPLY_REFUSED && msg->kind < AM_KIND_R_SHORT))
        return false;
    if (msg->id >= (reply ? conn->k : conn->peer_k))
        return false;
    if (reply)
        return conn->request[msg->id].used;
    return msg->kind == AM_KIND_REPLY_REFUSED || !conn->peer_busy[msg->id];
}

/* Does the payload fit into the place that the message names? */
static bool payload_fits(const struct am_message *msg, size_t bytes)
{
    enum am_class class = am_class_of(msg->kind);

    if (class == AM_MEDIUM ||
        (class == AM_LONG && msg->place == AM_PLACE_INLINE && msg->kind != AM_KIND_GET))
        return msg->nbytes <= AM_MEDIUM_MAX && msg->nbytes <= bytes - am_head_bytes(msg->numargs);
    if (class == AM_LONG)
        return msg->nbytes <= AM_LONG_MAX && msg->place <= AM_PLACE_SEGMENT;
    return msg->nbytes == 0;
}

static void arrived(struct am_arrival *arrival, size_t bytes)
{
    struct am_lane *lane = arrival->lane;
    struct am_conn *conn = lane->conn;
    struct am_message *msg = arrival_msg(arrival);

    if (!well_formed(conn, msg, bytes)) {
        am_net.counts.dropped++;
        am_recv_post(lane, arrival->recv);
        return;
    }
    if (msg->kind >= AM_KIND_READY) {
        struct am_wire_grant grant = {.reserved = 0};
        uint8_t kind = msg->kind;
        bool whole = bytes >= sizeof(*msg) + sizeof(grant);

        if (whole)
            memcpy(&grant, msg->arg, sizeof(grant));
        am_recv_post(lane, arrival->recv);
        am_control_arrived(conn, kind, whole ? &grant : NULL);
        return;
    }
    if (msg->kind == AM_KIND_NONE) {
        uint16_t id = msg->id;

        am_recv_post(lane, arrival->recv);
        am_request_over(conn, id);
        return;
    }
    if (msg->kind < AM_KIND_REPLY_REFUSED) {
        conn->peer_busy[msg->id] = 1;
        conn->serving++;
        conn->reply[msg->id].range.len = 0; /* the last reply with this id has been handled */
        am_conn_touch(conn);
    }
    if (!payload_fits(msg, bytes))
        msg->place = AM_PLACE_BAD;
    conn->running++;
    queue_put(msg->kind < AM_KIND_REPLY_REFUSED ? &conn->bundle->requests : &conn->bundle->replies,
              arrival);
}

int am_gather(struct am_bundle *bundle)
{
    VIP_DESCRIPTOR *desc;
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE vi;
    enum am_part part = am_part(AM_PART_EVENTS);
    int n = 0;

    while (n < GATHER_MAX && VipCQDone(bundle->recv_cq, &vi, &recv) == VIP_SUCCESS) {
        struct am_lane *lane = VipGetUserData(vi);
        struct am_conn *conn;

        desc = NULL;
        n++;
        am_part(AM_PART_VI);
        if (lane != NULL)
            (void)VipRecvDone(vi, &desc);
        am_part(AM_PART_EVENTS);
        if (desc == NULL)
            continue;
        conn = lane->conn;
        if (conn->state == AM_CONN_ACCEPTED && !conn->adopted)
            am_bundle_adopt(bundle);
        if (conn->state == AM_CONN_DEAD)
            continue;
        am_part(part);
        if (desc->CS.Status & VIP_STATUS_ERROR_MASK)
            am_conn_broken(conn);
        else
            arrived(&conn->arrival[lane->index * conn->recvs + (unsigned)(desc - lane->recv)],
                    desc->CS.Length);
        am_part(AM_PART_EVENTS);
    }
    am_part(part);
    return n;
}

/* ---- copying the payload --------------------------------------------------------------------- */

/* If a long payload is not in the segment yet, copy it there. Returns the payload's address. */
static void *bring_payload(struct am_conn *conn, struct am_message *msg)
{
    struct am_ep *ep = conn->map->ep;
    char *inside = (char *)msg + am_head_bytes(msg->numargs), *to;
    size_t landing = conn->landing_at;

    if (am_class_of(msg->kind) != AM_LONG)
        return inside;
    to = ep->seg.base + msg->offset;
    if (msg->nbytes == 0 || msg->place == AM_PLACE_SEGMENT)
        return to;
    am_net.counts.longs_copied++;
    if (msg->place == AM_PLACE_LANDING) {
        landing += (size_t)(msg->kind == AM_KIND_LONG ? conn->k + msg->id : msg->id) * AM_LONG_MAX;
        inside = (char *)conn->block + landing;
    }
    memmove(to, inside, msg->nbytes);
    am_grant_consider(conn, msg);
    return to;
}

/* Copy head and arguments of a message out of its buffer, because the buffer is used again. */
static void copy_head(union am_message_room *to, const struct am_message *from)
{
    to->msg = *from;
    memcpy(to->msg.arg, from->arg, from->numargs * sizeof(from->arg[0]));
}

/* ---- handling -------------------------------------------------------------------------------- */

static void arrival_over(struct am_arrival *arrival)
{
    struct am_conn *conn = arrival->lane->conn;

    if (conn->state != AM_CONN_DEAD)
        am_recv_post(arrival->lane, arrival->recv);
    conn->running--;
}

void am_request_over(struct am_conn *conn, uint16_t id)
{
    enum am_part part = am_part(AM_PART_FLOW);

    conn->request[id].used = false;
    conn->request[id].range.len = 0;
    conn->free_id[conn->free_ids++] = id;
    if (conn->control_work)
        am_control_work(conn);
    am_part(part);
}

/* Answer a get without running a handler of the program. */
static void answer_get(struct am_conn *conn, const struct am_message *msg)
{
    struct am_message head = {.kind = AM_KIND_R_LONG,
                              .handler = msg->handler,
                              .numargs = msg->numargs,
                              .nbytes = msg->nbytes,
                              .tag = am_reply_tag(conn->map, msg->reply_tag),
                              .offset = msg->offset};

    am_send_reply(conn, msg->id, &head, msg->arg, conn->map->ep->seg.base + msg->source);
}

static void handle_request(struct am_arrival *arrival)
{
    struct am_message *msg = arrival_msg(arrival), head = {.kind = AM_KIND_NONE};
    struct am_conn *conn = arrival->lane->conn;
    struct am_ep *ep = conn->map->ep;
    struct am_token token = {.request = true, .ep = ep, .map = conn->map, .conn = conn};
    uint16_t id = msg->id;
    int status = am_judge(ep, msg);

    if (status == 0 && msg->kind == AM_KIND_GET) {
        answer_get(conn, msg);
        arrival_over(arrival);
        return;
    }
    if (status == 0) {
        am_stats_received(ep, msg);
        am_run(&token, msg, bring_payload(conn, msg));
    }
    arrival_over(arrival);
    if (token.replied)
        return;
    if (status != 0) {
        head.kind = AM_KIND_REFUSED;
        head.status = (uint16_t)status;
    }
    am_send_reply(conn, id, &head, NULL, NULL);
}

/* Refuse a reply. The request stays in use until the replier answers with AM_KIND_NONE. */
static void refuse_reply(struct am_conn *conn, uint16_t id, int status)
{
    struct am_lane *lane = &conn->lane[0];
    struct am_message *out = am_slot_get(lane, id);

    memset(out, 0, sizeof(*out));
    out->kind = AM_KIND_REPLY_REFUSED;
    out->id = id;
    out->status = (uint16_t)status;
    am_slot_post(lane, id, sizeof(*out));
}

/* Our request came back. The request's buffer is free before handler 0 runs, so the handler gets a
 * copy of the message. */
static void handle_refused(struct am_conn *conn, uint16_t id, int status)
{
    struct am_request origin = conn->request[id];
    union am_message_room copy;
    struct am_token token = {
        .ep = conn->map->ep, .map = conn->map, .conn = conn, .origin = &origin, .reason = status};

    copy_head(&copy, am_slot_get(&conn->lane[origin.lane], id));
    am_request_over(conn, id);
    am_run_returned(&token, &copy.msg, status);
}

/* Our reply came back. */
static void handle_reply_refused(struct am_conn *conn, uint16_t id, int status)
{
    struct am_message head = {.kind = AM_KIND_NONE};
    union am_message_room copy;
    struct am_token token = {.ep = conn->map->ep, .map = conn->map, .conn = conn, .reason = status};

    copy_head(&copy, am_slot_get(&conn->lane[conn->reply[id].lane], conn->k + id));
    if (copy.msg.kind >= AM_KIND_R_SHORT && copy.msg.kind <= AM_KIND_R_LONG)
        am_run_returned(&token, &copy.msg, EREPLYREJECTED);
    am_send_reply(conn, id, &head, NULL, NULL);
}

static void handle_reply(struct am_arrival *arrival)
{
    struct am_message *msg = arrival_msg(arrival);
    struct am_conn *conn = arrival->lane->conn;
    struct am_ep *ep = conn->map->ep;
    struct am_token token = {.ep = ep, .map = conn->map, .conn = conn};
    uint16_t id = msg->id;
    int status;

    if (msg->kind == AM_KIND_REFUSED || msg->kind == AM_KIND_REPLY_REFUSED) {
        status = msg->status;
        if (msg->kind == AM_KIND_REFUSED)
            handle_refused(conn, id, status);
        else
            handle_reply_refused(conn, id, status);
        arrival_over(arrival);
        return;
    }
    status = am_judge(ep, msg);
    if (status == 0) {
        void *buf = bring_payload(conn, msg);

        am_stats_received(ep, msg);
        am_request_over(conn, id);
        am_run(&token, msg, buf);
    } else {
        refuse_reply(conn, id, status);
    }
    arrival_over(arrival);
}

/* The connection has broken: call handler 0 once for each request that was under way on it. */
static void return_all(struct am_conn *conn)
{
    struct am_ep *ep = conn->map->ep;

    for (unsigned id = 0; id < conn->k; id++) {
        if (!conn->request[id].used)
            continue;
        ep->busy = true;
        handle_refused(conn, (uint16_t)id, EUNREACHABLE);
        ep->busy = false;
    }
}

/* Free the dead connections that nothing uses now. Returns the number of handlers run. */
static int bury(struct am_bundle *bundle)
{
    struct am_conn **at = &bundle->dead, *conn;
    uint64_t before = bundle->handled;

    while ((conn = *at) != NULL) {
        if (conn->running > 0 || conn->accepting || conn->map->ep->busy) {
            at = &conn->next;
            continue;
        }
        *at = conn->next;
        conn->running++;
        if (!conn->map->ep->closing)
            return_all(conn);
        am_map_bury(conn);
        at = &bundle->dead; /* begin anew: handlers may have changed the list */
    }
    return (int)(bundle->handled - before);
}

static bool handle_one(struct am_queue *queue, void (*handle)(struct am_arrival *))
{
    struct am_arrival *arrival = queue_take(queue);
    struct am_ep *ep;

    if (arrival == NULL)
        return false;
    ep = arrival->lane->conn->map->ep;
    ep->busy = true;
    handle(arrival);
    ep->busy = false;
    return true;
}

int am_poll(struct am_bundle *bundle)
{
    uint64_t before = bundle->handled;

    if (__atomic_load_n(&bundle->attention, __ATOMIC_ACQUIRE) != 0)
        am_bundle_attend(bundle);
    am_gather(bundle);
    do {
        while (handle_one(&bundle->replies, handle_reply))
            continue;
    } while (handle_one(&bundle->requests, handle_request));
    if (bundle->dead != NULL)
        bury(bundle);
    if (bundle->par && bundle->handled != before)
        am_wake_sleepers(bundle);
    return (int)(bundle->handled - before);
}

int AM_Poll(eb_t bundle)
{
    enum am_part part;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_Poll: AM_Init was not called");
    if (bundle == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_Poll: the bundle is NULL");
    if (am_in_handler > 0)
        return am_fail(AM_ERR_RESOURCE, "AM_Poll: a handler may not poll");
    part = am_part(AM_PART_SEMANTICS);
    am_lock(bundle);
    am_poll(bundle);
    am_unlock(bundle);
    am_part(part);
    return AM_OK;
}
