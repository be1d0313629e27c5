/*
 * Inside libvipam: the token of a handler, by which it replies and asks about its message.
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
    bool request;   /* a request's: may be replied to */
    bool replied;
    bool returned; /* handler 0 */
    struct am_ep *ep;
    struct am_map *map;
    struct am_conn *conn; /* NULL: to ourselves */
    const struct am_message *msg;
    tag_t tag;
    uint64_t reply_tag;
    int reason;                      /* returned: why */
    const struct am_request *origin; /* returned request; NULL: a reply */
};

#define AM_TOKEN_MAGIC 0xA2704B17u

/* Handlers of one endpoint that run at once: a request's and, to ourselves, its reply's in it. */
#define AM_NESTED_MAX 2

#endif
