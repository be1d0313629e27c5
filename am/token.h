/*
 * Inside libvipam: the token of a handler, for calls that reply or that query the message.
 */
#ifndef AM_TOKEN_H
#define AM_TOKEN_H

#include <stdbool.h>

#include "am/am.h"

struct am_conn;
struct am_ep;
struct am_map;
struct am_message;
struct am_request;

/* The token of a handler. The program sees a copy in am_ep.shown. */
struct am_token {
    uint32_t magic; /* AM_TOKEN_MAGIC while the handler runs */
    bool request;   /* token of a request: the handler may reply */
    bool replied;
    bool returned; /* token of handler 0 */
    struct am_ep *ep;
    struct am_map *map;
    struct am_conn *conn; /* NULL for a message to ourselves */
    const struct am_message *msg;
    tag_t tag;
    uint64_t reply_tag;
    int reason;                      /* handler 0: the reason why the message came back */
    const struct am_request *origin; /* handler 0: the returned request; NULL: a reply came back */
};

#define AM_TOKEN_MAGIC 0xA2704B17u

/* The maximum number of handlers of one endpoint that run at the same time. Two run if an endpoint
 * sends a request to itself: the reply's handler runs inside the request's handler. */
#define AM_NESTED_MAX 2

#endif
