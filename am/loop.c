/*
 * Messages to ourselves: the request's handler runs inside the request call, and the reply's
 * handler inside the reply call. Such messages need no connection and no credits.
 */
#include "am/internal.h"

#include <stdlib.h>
#include <string.h>

/* Put the payload into the memory that the handler gets. NULL: no memory. */
static void *bring(struct am_ep *ep, const struct am_message *msg, const void *source)
{
    unsigned reply = msg->kind >= AM_KIND_R_SHORT;
    void *to;

    if (am_class_of(msg->kind) == AM_SHORT)
        return source != NULL ? (void *)(uintptr_t)source : ep;
    if (am_class_of(msg->kind) == AM_LONG) {
        to = ep->seg.base + msg->offset;
        if (msg->nbytes > 0)
            memmove(to, source, msg->nbytes);
        return to;
    }
    if (ep->loop_medium[reply] == NULL)
        ep->loop_medium[reply] = malloc(AM_MEDIUM_MAX);
    if (ep->loop_medium[reply] != NULL && msg->nbytes > 0)
        memmove(ep->loop_medium[reply], source, msg->nbytes);
    return ep->loop_medium[reply];
}

/* Run handler 0 for a message that came back. One endpoint has both sent and refused it. */
static void returned(struct am_ep *ep, const struct am_message *msg, struct am_request *origin,
                     int status)
{
    struct am_token token = {.ep = ep, .map = &ep->self, .origin = origin, .reason = status};

    am_run_returned(&token, msg, origin != NULL ? status : EREPLYREJECTED);
}

static int run(struct am_ep *ep, struct am_message *msg, const void *source,
               struct am_request *origin, bool request)
{
    struct am_token token = {.ep = ep, .map = &ep->self, .request = request};
    int status = am_judge(ep, msg);
    void *buf;

    if (status != 0) {
        returned(ep, msg, origin, status);
        return AM_OK;
    }
    buf = bring(ep, msg, source);
    if (buf == NULL && am_class_of(msg->kind) == AM_MEDIUM)
        return am_fail(AM_ERR_RESOURCE, "no memory for a message to ourselves");
    am_stats_received(ep, msg);
    am_run(&token, msg, buf);
    return AM_OK;
}

int am_loop_request(struct am_ep *ep, int dest, const struct am_message *head, const int32_t *arg,
                    const void *source)
{
    struct am_request origin = {.dest = dest, .source = (void *)(uintptr_t)source};
    union am_message_room room;
    struct am_message *msg = &room.msg;
    int rc = AM_OK;

    room.msg = *head;
    memcpy(msg->arg, arg, head->numargs * sizeof(*arg));
    am_wait_idle(ep);
    ep->busy = true;
    if (msg->kind == AM_KIND_GET) {
        int status = am_judge(ep, msg);

        if (status != 0) {
            returned(ep, msg, &origin, status);
        } else {
            /* Answer the get by a long reply, which copies the source to the destination. */
            source = ep->seg.base + msg->source;
            msg->kind = AM_KIND_R_LONG;
            rc = run(ep, msg, source, NULL, false);
        }
    } else {
        rc = run(ep, msg, source, &origin, true);
    }
    ep->busy = false;
    return rc;
}

int am_loop_reply(struct am_token *token, const struct am_message *head, const int32_t *arg,
                  const void *source)
{
    union am_message_room room;

    room.msg = *head;
    memcpy(room.msg.arg, arg, head->numargs * sizeof(*arg));
    return run(token->ep, &room.msg, source, NULL, false);
}
