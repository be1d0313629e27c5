/* The endpoints of this process. */
#include "am/internal.h"

struct am_ep *am_ep_find(uint32_t number)
{
    struct am_ep *ep = am_net.known[number % AM_EP_BUCKETS];

    while (ep != NULL && ep->name.number != number)
        ep = ep->next_known;
    return ep;
}

unsigned am_ep_depth(const struct am_ep *ep)
{
    return ep->depth != 0 ? ep->depth : am_net.depth;
}
