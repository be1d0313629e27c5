/*
 * SETUP: what the two ends of a connection tell each other between ACCEPT and the first data, for
 * all that has no room in REQUEST and ACCEPT (doc/wire.md, "SETUP").
 *
 * Owns: the decision if a connection has a SETUP, and its contents. Does not own: the exchange
 * (cm_pending.c for the server, cm_client.c for the client).
 */
#include "vipd/engine/cm_internal.h"

bool cm_setup_due(const struct cm *cm, const struct cm_host *peer, const struct vip_cm *theirs)
{
    /* This NIC knows its own features. */
    return (cm->config.features & theirs->attrs.features & VIP_FEATURE_SETUP) != 0 &&
           !cm_host_equal(peer, &cm->config.self);
}

void cm_setup_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t request_id,
                   uint64_t local_id, uint64_t remote_id)
{
    struct vip_cm setup = {
        .type = VIP_CM_SETUP,
        .request_id = request_id,
        .conn_id = local_id,
        .peer_conn_id = remote_id,
        .features = cm->config.features,
    };

    cm_send(cm, to, dst_epoch, &setup);
}

uint64_t cm_setup_features(const struct cm *cm, const struct cm_host *peer,
                           const struct vip_cm *theirs)
{
    if (cm_host_equal(peer, &cm->config.self))
        return cm->config.features;
    return theirs->type == VIP_CM_SETUP ? theirs->features : theirs->attrs.features;
}
