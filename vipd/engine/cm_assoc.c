/* Associations: this NIC's ends of connections, open or being opened. */
#include "vipd/engine/cm_internal.h"

#include "proto/assert.h"

struct cm_assoc *cm_assoc_find(struct cm *cm, uint64_t local_id)
{
    struct cm_node *node = cm_table_find(cm, &cm->assocs_local, local_id);

    return node ? CM_OF(struct cm_assoc, by_local, node) : NULL;
}

struct cm_assoc *cm_assoc_of(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, in->msg->peer_conn_id);

    if (!assoc || assoc->remote_id != in->msg->conn_id || !in->peer || assoc->peer != in->peer)
        return NULL;
    return assoc;
}

struct cm_assoc *cm_assoc_with(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->assocs_remote, in->msg->conn_id);

    for (; (in->peer || VIP_MUTANT(RESET_BELIEVED)) && node; node = cm_table_again(node)) {
        struct cm_assoc *assoc = CM_OF(struct cm_assoc, by_remote, node);

        if ((assoc->peer == in->peer || VIP_MUTANT(RESET_BELIEVED)) &&
            assoc->state == CM_ASSOC_OPEN)
            return assoc;
    }
    return NULL;
}

void cm_assoc_set_state(struct cm *cm, struct cm_assoc *assoc, enum cm_assoc_state state,
                        uint64_t now_ns)
{
    enum cm_assoc_state old = assoc->state;

    VIP_ASSERT((old == CM_ASSOC_NEW && (state == CM_ASSOC_OPENING || state == CM_ASSOC_OPEN)) ||
               (old == CM_ASSOC_OPENING && state == CM_ASSOC_OPEN) ||
               (old == CM_ASSOC_OPEN && state == CM_ASSOC_CLOSED));
    assoc->state = state;
    if (state == CM_ASSOC_OPEN)
        cm_peer_opened(cm, assoc->peer, now_ns);
    if (old == CM_ASSOC_OPEN)
        cm_peer_closed(cm, assoc->peer);
}

void cm_assoc_add(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                  uint64_t remote_id, enum cm_assoc_state state, uint64_t now_ns)
{
    VIP_ASSERT(assoc->state == CM_ASSOC_NEW && !cm_assoc_find(cm, local_id));
    assoc->peer = peer;
    peer->refs++;
    TAILQ_INSERT_TAIL(&peer->assocs, assoc, of_peer);
    assoc->local_id = local_id;
    assoc->remote_id = remote_id;
    cm_table_add(cm, &cm->assocs_local, &assoc->by_local, local_id);
    cm_table_add(cm, &cm->assocs_remote, &assoc->by_remote, remote_id);
    cm_assoc_set_state(cm, assoc, state, now_ns);
}

uint64_t cm_tag(const struct siphash_key *secret, bool asked)
{
    uint8_t role = asked ? 1 : 2;
    uint64_t tag = siphash(secret, &role, sizeof(role));

    return tag ? tag : 1;
}

void cm_assoc_secret(struct cm *cm, struct cm_assoc *assoc, const struct siphash_key *secret,
                     bool asked)
{
    assoc->secret = *secret;
    assoc->asked = asked;
    cm_table_add(cm, &cm->assocs_tag, &assoc->by_tag, cm_tag(secret, asked));
}

/* Forget the data ids of both ends. */
static void forget_data_ids(struct cm_assoc *assoc)
{
    cm_node_del(&assoc->by_data);
    for (unsigned i = 0; i < CM_OWN_IDS; i++)
        cm_node_del(&assoc->own_ids[i]);
}

void cm_assoc_move(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                   uint64_t remote_id, uint64_t now_ns)
{
    struct cm_peer *old = assoc->peer;

    VIP_ASSERT(assoc->state == CM_ASSOC_OPEN);
    cm_peer_closed(cm, old);
    forget_data_ids(assoc);
    TAILQ_REMOVE(&old->assocs, assoc, of_peer);
    cm_node_del(&assoc->by_remote);
    cm_node_del(&assoc->by_local);
    assoc->peer = peer;
    peer->refs++;
    TAILQ_INSERT_TAIL(&peer->assocs, assoc, of_peer);
    assoc->local_id = local_id;
    assoc->remote_id = remote_id;
    cm_table_add(cm, &cm->assocs_local, &assoc->by_local, local_id);
    cm_table_add(cm, &cm->assocs_remote, &assoc->by_remote, remote_id);
    cm_peer_opened(cm, peer, now_ns);
    cm_peer_put(cm, old);
}

void cm_assoc_free(struct cm *cm, struct cm_assoc *assoc)
{
    cm_node_del(&assoc->by_tag);
    forget_data_ids(assoc);
    if (assoc->offer) {
        cm_node_del(&assoc->offer->by_id);
        cm_free(cm, assoc->offer, sizeof(*assoc->offer));
    }
    if (assoc->state != CM_ASSOC_NEW) {
        if (assoc->state == CM_ASSOC_OPEN)
            cm_peer_closed(cm, assoc->peer);
        cm_node_del(&assoc->by_local);
        cm_node_del(&assoc->by_remote);
        TAILQ_REMOVE(&assoc->peer->assocs, assoc, of_peer);
        cm_peer_put(cm, assoc->peer);
    }
    cm_free(cm, assoc, sizeof(*assoc));
}

void cm_conn_fill(struct cm *cm, struct cm_conn *ret, struct cm_assoc *assoc,
                  const struct vip_cm *msg, uint64_t features)
{
    assoc->features = cm->config.features & features & ~(uint64_t)VIP_FEATURE_REBIND;
    if (assoc->by_tag.linked) /* the connection has a secret, so both ends offered REBIND */
        assoc->features |= VIP_FEATURE_REBIND;
    *ret = (struct cm_conn){
        .local_id = assoc->local_id,
        .remote_id = assoc->remote_id,
        .remote_epoch = assoc->peer->epoch,
        .packet_bytes = msg->packet_bytes < cm->config.packet_bytes ? msg->packet_bytes
                                                                    : cm->config.packet_bytes,
        .window_bytes = msg->window_bytes,
        .peer = assoc->peer->number,
        .features = assoc->features,
        .secret = assoc->secret,
        .asked = assoc->asked,
        .attrs = msg->attrs,
    };
}
