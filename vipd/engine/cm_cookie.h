/*
 * The state of cookies (cm_cookie.c). Only cm_objects.h includes it.
 */
#ifndef VIPD_ENGINE_CM_COOKIE_H
#define VIPD_ENGINE_CM_COOKIE_H

#include "vipd/engine/cm.h"
#include "vipd/engine/cm_tokens.h"
#include "proto/siphash.h"

/* The last cookie from another host. */
struct cm_cookie {
    struct cm_host host; /* len 0: no cookie */
    uint64_t cookie;
};

/* The state of cm_cookie.c. Its size does not depend on the number of requests. */
#define CM_SOURCES 1024
#define CM_COOKIES 1024 /* one place per hash of a host; a replaced cookie costs a round trip */
struct cm_cookies {
    struct siphash_key secret[2]; /* the present secret, and the secret before it */
    uint64_t secret_until_ns;     /* 0 = none yet */
    struct cm_tokens answers;
    struct cm_tokens sources[CM_SOURCES];  /* index: a keyed hash of the source's address */
    struct cm_tokens networks[CM_SOURCES]; /* index: a keyed hash of the network's address */
    struct cm_tokens clients[CM_SOURCES];  /* index: a keyed hash of the user's number */
    struct cm_tokens meetings[CM_SOURCES]; /* as `clients`, for repeated peer-to-peer requests */
    struct cm_cookie of_hosts[CM_COOKIES];
};

#endif
