/*
 * What one user may have, in all NIC handles together ([limits] ..._per_uid).
 *
 * Owns: the sums over a user's sessions, and the limits. Does not own: limits of one session
 * (vipd/nic/, vipd/registry/). Called by vipd/client/ before it makes an object, and by vipd/ctl/
 * for a view. A user is the uid that the kernel reports when the program connects.
 */
#ifndef VIPD_QUOTA_H
#define VIPD_QUOTA_H

#include <stdint.h>
#include <sys/types.h>

struct client;
struct vipd;

enum quota {
    QUOTA_VIS = 0,
    QUOTA_CQS,
    QUOTA_REGIONS,
    QUOTA_REGISTER_BYTES, /* in whole pages; staged regions count twice (registry_held_bytes) */
    QUOTA_MAPPED_BYTES,   /* address space of vipd for the user's memory files */
    QUOTA_MAPPED_FILES,   /* mappings of memory files; Linux allows a process 65530 mappings */
    QUOTA_WAITS,    /* VipConnectWait, listeners, unanswered requests, own peer-to-peer requests */
    QUOTA_CONNECTS, /* connections being made, started by either side */
    QUOTA_LOANS,    /* connections with a socket of their program: lent, or to be lent */
    QUOTAS,
};

/* How much more of `quota` the client's user may have. */
uint64_t quota_left(const struct client *client, enum quota quota);

/* [limits] register_bytes_per_uid; auto: a quarter of this machine's memory. */
uint64_t quota_register_bytes(const struct vipd *vipd);

/* What a user has of one quota, its limit, and the limit's key in [limits]. */
struct quota_view {
    const char *key, *noun;
    uint64_t used, max;
};
void quota_look(const struct vipd *vipd, uid_t uid, enum quota quota, struct quota_view *ret);
/* Call visit for each key ..._per_uid of [limits] but loan_moves_per_uid, with the values that
 * quota_look returns. */
void quota_each(const struct vipd *vipd, uid_t uid,
                void (*visit)(void *ctx, const struct quota_view *view), void *ctx);

#endif
