/* Queries about the message of a running handler. */
#include "am/internal.h"

#include <string.h>

static int check(const struct am_token *token, const void *out, const char *call)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "%s: AM_Init was not called", call);
    if (token == NULL || out == NULL)
        return am_fail(AM_ERR_BAD_ARG, "%s: NULL", call);
    if (token->magic != AM_TOKEN_MAGIC)
        return am_fail(AM_ERR_RESOURCE, "%s: the token's handler has returned", call);
    return AM_OK;
}

int AM_GetSourceEndpoint(void *token, en_t *name)
{
    const struct am_token *t = token;
    int rc = check(t, name, "AM_GetSourceEndpoint");

    if (rc == AM_OK)
        *name = t->map->name;
    return rc;
}

int AM_GetDestEndpoint(void *token, ep_t *ea)
{
    const struct am_token *t = token;
    int rc = check(t, ea, "AM_GetDestEndpoint");

    if (rc == AM_OK)
        *ea = t->ep;
    return rc;
}

int AM_GetMsgTag(void *token, tag_t *tag)
{
    const struct am_token *t = token;
    int rc = check(t, tag, "AM_GetMsgTag");

    if (rc == AM_OK)
        *tag = t->tag;
    return rc;
}

int amvia_GetReturned(void *token, amvia_returned_t *returned)
{
    const struct am_token *t = token;
    int rc = check(t, returned, "amvia_GetReturned");

    if (rc != AM_OK)
        return rc;
    if (!t->returned)
        return am_fail(AM_ERR_RESOURCE, "amvia_GetReturned: this message did not come back");
    memset(returned, 0, sizeof(*returned));
    returned->reason = t->reason;
    returned->dest = t->origin != NULL ? t->origin->dest : -1;
    returned->source = t->origin != NULL ? t->origin->source : NULL;
    returned->handler = t->msg->handler;
    returned->numargs = t->msg->numargs;
    memcpy(returned->arg, t->msg->arg, t->msg->numargs * sizeof(t->msg->arg[0]));
    returned->nbytes = t->msg->nbytes;
    returned->offset = t->msg->offset;
    return AM_OK;
}

int am_token_info(void *token, handler_t *handler, int *category, int *is_request, int *rank)
{
    const struct am_token *t = token;
    int rc = check(t, t, "token");

    if (rc != AM_OK)
        return rc;
    *handler = t->msg->handler;
    *category = (int)am_class_of(t->msg->kind);
    *is_request = t->msg->kind < AM_KIND_R_SHORT;
    *rank = t->map->entry;
    return AM_OK;
}
