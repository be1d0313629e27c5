/* Replies: the functions by which a handler answers its request. No reply waits for a credit. */
#include "am/internal.h"

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

    am_read_args(arg, numargs, args);
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
        /* If the reply could not be sent, the library sends AM_KIND_NONE after the handler. */
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
