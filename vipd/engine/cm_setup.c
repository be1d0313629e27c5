/*
 * SETUP: each end of a connection sends this message between ACCEPT and the first data. It has the
 * facts for which REQUEST and ACCEPT have no room (doc/wire.md, "SETUP").
 *
 * Owns: the decision whether a connection has SETUP messages, and their contents. Does not own: the
 * exchange (cm_pending.c for the server, cm_client.c for the client).
 */
#include "vipd/engine/cm_internal.h"

#include <endian.h>
#include <string.h>

bool cm_setup_due(const struct cm *cm, const struct cm_host *peer, const struct vip_cm *theirs)
{
    /* If both ends are on this NIC, no SETUP is necessary: both know the features already. */
    return (cm->config.features & theirs->attrs.features & VIP_FEATURE_SETUP) != 0 &&
           !cm_host_equal(peer, &cm->config.self);
}

void cm_setup_draw(struct cm *cm, struct cm_assoc *assoc)
{
    if (cm->config.features & VIP_FEATURE_REBIND)
        assoc->part = (struct siphash_key){cm_random_id(cm), cm_random_id(cm)};
}

/* Did this end offer REBIND for this connection? Look at the association: a reload may have changed
 * the configuration, but must not change the answer. */
static uint64_t offered(const struct cm_assoc *assoc)
{
    return assoc->part.k0 | assoc->part.k1 ? VIP_FEATURE_REBIND : 0;
}

void cm_setup_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t request_id,
                   const struct cm_assoc *assoc, uint64_t local_id, uint64_t remote_id)
{
    const uint64_t part[2] = {htole64(assoc->part.k0), htole64(assoc->part.k1)};
    uint8_t items[VIP_ITEMS_BYTES_MAX];
    struct vip_cm setup = {
        .type = VIP_CM_SETUP,
        .request_id = request_id,
        .conn_id = local_id,
        .peer_conn_id = remote_id,
        .features = (cm->config.features & ~(uint64_t)VIP_FEATURE_REBIND) | offered(assoc),
        .items = {.bytes = items},
    };

    if (offered(assoc))
        vip_items_put(items, &setup.items.len, VIP_ITEM_SECRET, part, sizeof(part));
    cm_send(cm, to, dst_epoch, &setup);
}

uint64_t cm_setup_features(const struct cm *cm, const struct cm_host *peer,
                           const struct vip_cm *theirs)
{
    if (cm_host_equal(peer, &cm->config.self))
        return cm->config.features;
    return theirs->type == VIP_CM_SETUP ? theirs->features : theirs->attrs.features;
}

/* The secret of a connection with both ends on this NIC. Both ends compute the same secret; no
 * other vipd can compute it. */
static struct siphash_key secret_of_self(const struct cm *cm, const struct cm_assoc *assoc)
{
    uint64_t text[3] = {assoc->local_id ^ assoc->remote_id, assoc->local_id + assoc->remote_id, 0};
    struct siphash_key secret = {.k0 = siphash(&cm->random_key, text, sizeof(text))};

    text[2] = 1;
    secret.k1 = siphash(&cm->random_key, text, sizeof(text));
    return secret;
}

void cm_setup_done(struct cm *cm, struct cm_assoc *assoc, const struct vip_cm *theirs, bool asked)
{
    struct siphash_key secret;
    uint16_t len = sizeof(secret);
    const uint8_t *value;
    uint64_t part[2];

    if (cm->config.features & VIP_FEATURE_REBIND && assoc->peer->self) {
        secret = secret_of_self(cm, assoc);
        cm_assoc_secret(cm, assoc, &secret, asked);
        return;
    }
    if (!theirs || !(offered(assoc) & theirs->features))
        return;
    value = vip_items_find(&theirs->items, VIP_ITEM_SECRET, &len);
    if (!value)
        return; /* the connection has no secret, so it cannot be rebound */
    memcpy(part, value, sizeof(part));
    secret =
        (struct siphash_key){assoc->part.k0 ^ le64toh(part[0]), assoc->part.k1 ^ le64toh(part[1])};
    cm_assoc_secret(cm, assoc, &secret, asked);
}
