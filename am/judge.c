/* Checks whether an endpoint may handle a message (specification of AM-II, 4.11). Messages to
 * ourselves are checked, too. */
#include "am/internal.h"

/* Is the range inside the segment? Returns 0, or an E... status. */
static int judge_range(const struct am_ep *ep, uint64_t offset, uint64_t nbytes)
{
    if (nbytes == 0)
        return 0;
    if (ep->seg.len == 0 || offset > ep->seg.len)
        return EBADSEGOFF;
    return nbytes > ep->seg.len - offset ? EBADLENGTH : 0;
}

int am_judge(const struct am_ep *ep, const struct am_message *msg)
{
    if (ep->tag == AM_NONE || (ep->tag != AM_ALL && ep->tag != msg->tag))
        return EBADTAG;
    if (msg->place == AM_PLACE_BAD)
        return EBADLENGTH;
    if (msg->kind == AM_KIND_GET)
        return judge_range(ep, msg->source, msg->nbytes);
    if (ep->handler[msg->handler] == NULL ||
        ep->handler[msg->handler] == (amvia_handler_fn_t)am_default_returned)
        return EBADHANDLER;
    if (am_class_of(msg->kind) == AM_LONG)
        return judge_range(ep, msg->offset, msg->nbytes);
    return 0;
}
