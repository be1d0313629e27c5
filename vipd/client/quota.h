/*
 * What one user may have, in all NIC handles together ([limits] ..._per_uid).
 *
 * Owns: the sums over a user's sessions, and the sentence that names the key of a limit that was
 * reached. Does not own: limits of one session (vipd/nic/, vipd/registry/). Called by vipd/client/
 * before something is made. A user is the uid that the kernel gives when the program connects.
 */
#ifndef VIPD_CLIENT_QUOTA_H
#define VIPD_CLIENT_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct answer;
struct client;
struct vipd;

enum quota {
    QUOTA_VIS = 0,
    QUOTA_CQS,
    QUOTA_REGIONS,
    QUOTA_REGISTER_BYTES, /* in whole pages, and twice for staged regions (registry_held_bytes) */
    QUOTA_MAPPED_BYTES,   /* address space of vipd for the user's memory files */
    QUOTA_MAPPED_FILES,   /* mappings of them: a process has 65530 in all */
    QUOTA_WAITS,    /* VipConnectWait, listeners, unanswered requests, own ones peer to peer */
    QUOTA_CONNECTS, /* connections being made, from either side */
    QUOTAS,
};

/*
 * May the client's user have `more` of it? Outcomes: true; false: ERROR_RESOURCE and the reason are
 * in answer.
 */
bool quota_room(const struct client *client, enum quota quota, uint64_t more,
                struct answer *answer);

/* How many more the user may have. */
uint64_t quota_left(const struct client *client, enum quota quota);

/* [limits] register_bytes_per_uid; auto: a quarter of this machine's memory. */
uint64_t quota_register_bytes(const struct vipd *vipd);

/* For views: what a user has of each limit per user. visit is called once per key of [limits]. */
struct quota_view {
    const char *key, *noun;
    uint64_t used, max;
};
void quota_each(const struct vipd *vipd, uid_t uid,
                void (*visit)(void *ctx, const struct quota_view *view), void *ctx);

#endif
