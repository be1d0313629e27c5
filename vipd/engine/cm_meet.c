/*
 * Meeting places. One meeting place has all peer-to-peer requests of this host from one local
 * address to one remote address.
 *
 * Owns: struct cm_meet. Does not own: the matching of requests (cm_match.c).
 */
#include "vipd/engine/cm_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"

static uint64_t meet_key(struct cm *cm, const struct cm_host *remote, const struct vip_addr *ours,
                         const struct vip_addr *theirs)
{
    uint64_t key = cm_hash(cm, remote->bytes, remote->len, 2);

    key = cm_hash(cm, ours->disc, ours->disc_len, key);
    return cm_hash(cm, theirs->disc, theirs->disc_len, key);
}

static bool disc_equal(const struct vip_addr *a, const struct vip_addr *b)
{
    return a->disc_len == b->disc_len && !memcmp(a->disc, b->disc, a->disc_len);
}

struct cm_meet *cm_meet_find(struct cm *cm, const struct cm_host *remote,
                             const struct vip_addr *ours, const struct vip_addr *theirs)
{
    struct cm_node *node = cm_table_find(cm, &cm->meets, meet_key(cm, remote, ours, theirs));

    for (; node; node = cm_table_again(node)) {
        struct cm_meet *meet = CM_OF(struct cm_meet, by_addrs, node);

        if (meet->remote.host_len == remote->len &&
            !memcmp(meet->remote.host, remote->bytes, remote->len) &&
            disc_equal(&meet->local, ours) && disc_equal(&meet->remote, theirs))
            return meet;
    }
    return NULL;
}

int cm_meet_enter(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns)
{
    const struct vip_addr *local = &attempt->request.local, *remote = &attempt->request.remote;
    struct cm_meet *meet = cm_meet_find(cm, &attempt->host, local, remote);
    struct cm_meet *made = meet ? NULL : cm_alloc(cm, sizeof(*made));
    struct cm_disc *disc;
    int rc;

    if (!meet && !made)
        return -ENOMEM;
    /* This is the last step that can fail: a refused request does not change the discriminator. */
    rc = cm_disc_claim(cm, local->disc, local->disc_len, cm_holder_uid(attempt->client), now_ns,
                       &disc);
    if (rc) {
        if (made)
            cm_free(cm, made, sizeof(*made));
        return rc;
    }
    if (made) {
        meet = made;
        meet->disc = disc;
        disc->meets++;
        TAILQ_INIT(&meet->waiting);
        meet->local = *local;
        meet->remote = *remote;
        cm_table_add(cm, &cm->meets, &meet->by_addrs, meet_key(cm, &attempt->host, local, remote));
    }
    meet->attempts++;
    attempt->meet = meet;
    TAILQ_INSERT_TAIL(&meet->waiting, attempt, of_meet);
    return 0;
}

void cm_meet_leave(struct cm *cm, struct cm_attempt *attempt)
{
    struct cm_meet *meet = attempt->meet;

    if (!meet)
        return;
    if (!attempt->pending)
        TAILQ_REMOVE(&meet->waiting, attempt, of_meet);
    attempt->meet = NULL;
    VIP_ASSERT(meet->attempts > 0);
    if (--meet->attempts)
        return;
    cm_node_del(&meet->by_addrs);
    meet->disc->meets--;
    meet->disc->left_ns = cm->now_ns;
    cm_disc_put(cm, meet->disc);
    cm_free(cm, meet, sizeof(*meet));
}
