/*
 * Messages for connections on loan (cm_loan.h; doc/wire.md, "Loans").
 *
 *   end whose engine moves                 other end
 *   LOAN_PROBE over the loan's socket  ->  (only before the engine moves out)
 *                                      <-  LOAN_PROBED
 *   LOAN_OFFER (number, terms)         ->  cm_ops.loan_offered
 *   cm_ops.loan_agreed                 <-  LOAN_AGREE (both numbers, terms)
 *
 * As proof these messages have both connection ids, like CLOSE. The host repeats them and ignores
 * old numbers.
 */
#include "vipd/engine/cm_loan.h"
#include "vipd/engine/cm_internal.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"

/* ---- data ids ---------------------------------------------------------------------------- */

static void own_id_add(struct cm *cm, struct cm_assoc *assoc, uint64_t id)
{
    struct cm_node *node = &assoc->own_ids[assoc->own_next];

    cm_node_del(node);
    cm_table_add(cm, &cm->own_ids, node, id);
    assoc->own_next = (assoc->own_next + 1) % CM_OWN_IDS;
}

/* This end tells the peer its new data id. The host may repeat the message with the same id. */
static void own_id_told(struct cm *cm, struct cm_assoc *assoc, uint64_t id)
{
    bool first = true;

    for (unsigned i = 0; i < CM_OWN_IDS; i++) {
        if (!assoc->own_ids[i].linked)
            continue;
        if (assoc->own_ids[i].key == id)
            return;
        first = false;
    }
    if (first)
        own_id_add(cm, assoc, assoc->local_id);
    own_id_add(cm, assoc, id);
}

void cm_loan_closing(struct cm *cm, struct cm_closing *closing, const struct cm_assoc *assoc)
{
    for (unsigned i = 0; i < CM_OWN_IDS; i++)
        if (assoc->own_ids[i].linked)
            cm_table_add(cm, &cm->own_ids, &closing->own_ids[i], assoc->own_ids[i].key);
}

bool cm_loan_own_id(struct cm *cm, uint64_t data_id)
{
    return cm_table_find(cm, &cm->own_ids, data_id) != NULL;
}

void cm_loan_data_id(struct cm *cm, uint64_t local_id, uint64_t data_id)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, local_id);

    if (!assoc)
        return;
    cm_node_del(&assoc->by_data);
    cm_table_add(cm, &cm->assocs_data, &assoc->by_data, data_id);
}

struct cm_assoc *cm_loan_reset(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_with(cm, in);
    struct cm_node *node = cm_table_find(cm, &cm->assocs_data, in->msg->conn_id);

    if (assoc && !assoc->by_data.linked)
        return assoc;
    for (; in->peer && node; node = cm_table_again(node)) {
        assoc = CM_OF(struct cm_assoc, by_data, node);
        if (assoc->peer == in->peer && assoc->state == CM_ASSOC_OPEN)
            return assoc;
    }
    return NULL;
}

/* ---- terms ------------------------------------------------------------------------------- */

/* Can a loan of this peer have this address? It is an address of the same machine, but not the
 * address of the peer's NIC. */
static bool is_loan_host(const struct cm *cm, const struct cm_peer *peer,
                         const struct cm_host *host)
{
    return host->len == peer->host.len &&
           !memcmp(host->bytes, peer->host.bytes, cm->config.source_bytes) &&
           !cm_host_equal(host, &peer->host);
}

/* Send LOAN_OFFER, or LOAN_AGREE if `offered` is not 0. Outcomes: those of cm_loan_offer. */
static int terms_send(struct cm *cm, uint64_t local_id, uint32_t offered,
                      const struct cm_loan_terms *ours, uint64_t now_ns)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, local_id);
    struct cm_counts_item counts = cm_counts_put(&ours->counts);
    uint8_t items[VIP_ITEMS_BYTES_MAX];
    struct vip_cm msg = {.type = offered ? VIP_CM_LOAN_AGREE : VIP_CM_LOAN_OFFER,
                         .number = ours->number,
                         .offered = offered,
                         .conn_id = local_id,
                         .data_id = ours->data_id,
                         .packet_bytes = ours->packet_bytes,
                         .window_bytes = ours->window_bytes,
                         .items = {.bytes = items}};

    if (!assoc || assoc->state != CM_ASSOC_OPEN)
        return -ENOENT;
    if (!(assoc->features & VIP_FEATURE_LOAN))
        return -EPROTO;
    VIP_ASSERT(!ours->out || ours->host.len == assoc->peer->host.len);
    cm->now_ns = now_ns;
    own_id_told(cm, assoc, ours->data_id);
    if (assoc->peer->dead)
        return 0;
    msg.peer_conn_id = assoc->remote_id;
    vip_items_put(items, &msg.items.len, VIP_ITEM_COUNTS, counts.word, counts.bytes);
    if (ours->out)
        vip_items_put(items, &msg.items.len, VIP_ITEM_HOST, ours->host.bytes, ours->host.len);
    cm_send(cm, &assoc->peer->host, assoc->peer->epoch, &msg);
    return 0;
}

int cm_loan_offer(struct cm *cm, uint64_t local_id, const struct cm_loan_terms *ours,
                  uint64_t now_ns)
{
    return terms_send(cm, local_id, 0, ours, now_ns);
}

int cm_loan_agree(struct cm *cm, uint64_t local_id, uint32_t offered,
                  const struct cm_loan_terms *ours, uint64_t now_ns)
{
    VIP_ASSERT(offered);
    return terms_send(cm, local_id, offered, ours, now_ns);
}

/* Read the terms in the message of this peer; false: they are not valid. */
static bool terms_get(const struct cm *cm, const struct cm_in *in, struct cm_loan_terms *ret)
{
    struct cm_counts_item item;
    uint16_t len = 0;
    const uint8_t *host = vip_items_find(&in->msg->items, VIP_ITEM_HOST, &len);

    *ret = (struct cm_loan_terms){.number = in->msg->number,
                                  .data_id = in->msg->data_id,
                                  .out = host != NULL,
                                  .packet_bytes = in->msg->packet_bytes,
                                  .window_bytes = in->msg->window_bytes};
    if (!cm_counts_get(&in->msg->items, &item, &ret->counts))
        return false;
    if (!host)
        return true;
    if (len > VIP_HOST_ADDR_BYTES_MAX)
        return false;
    ret->host.len = (uint8_t)len;
    memcpy(ret->host.bytes, host, len);
    return is_loan_host(cm, in->peer, &ret->host);
}

/* Can messages LOAN_* for this association have an effect? */
static bool lendable(const struct cm_assoc *assoc)
{
    return assoc && assoc->state == CM_ASSOC_OPEN && !assoc->peer->dead &&
           (assoc->features & VIP_FEATURE_LOAN);
}

void cm_rx_loan_terms(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_of(cm, in);
    struct cm_loan_terms theirs;

    if (!lendable(assoc) || !cm->ops.loan_offered || !terms_get(cm, in, &theirs))
        cm->stats.unexpected++;
    else if (in->msg->type == VIP_CM_LOAN_OFFER)
        cm->ops.loan_offered(cm->ctx, assoc->local_id, &theirs);
    else
        cm->ops.loan_agreed(cm->ctx, assoc->local_id, in->msg->offered, &theirs);
}

/* ---- probes ------------------------------------------------------------------------------ */

size_t cm_loan_probe(struct cm *cm, uint64_t local_id, uint64_t nonce,
                     uint8_t packet[VIP_WIRE_CM_BYTES_MAX])
{
    struct cm_assoc *assoc = cm_assoc_find(cm, local_id);
    struct vip_cm msg = {.type = VIP_CM_LOAN_PROBE, .request_id = nonce, .conn_id = local_id};

    if (!lendable(assoc))
        return 0;
    msg.peer_conn_id = assoc->remote_id;
    return vip_wire_put_cm(packet, cm->config.epoch, assoc->peer->epoch, &msg);
}

/* The answer goes to the address of the loan; it is not longer than the probe. */
void cm_rx_loan_probe(struct cm *cm, const struct cm_in *in)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, in->msg->peer_conn_id);
    struct vip_cm msg = {.type = VIP_CM_LOAN_PROBED,
                         .request_id = in->msg->request_id,
                         .conn_id = in->msg->peer_conn_id,
                         .peer_conn_id = in->msg->conn_id};

    if (!lendable(assoc) || assoc->remote_id != in->msg->conn_id ||
        assoc->peer->epoch != in->src_epoch || !is_loan_host(cm, assoc->peer, in->from)) {
        cm->stats.unexpected++;
        return;
    }
    cm_answer(cm, in, &msg);
}

bool cm_loan_probed(struct cm *cm, uint64_t local_id, uint64_t nonce, const uint8_t *packet,
                    size_t len_bytes)
{
    struct cm_assoc *assoc = cm_assoc_find(cm, local_id);
    struct vip_header hdr;
    struct vip_cm msg;

    return lendable(assoc) && vip_wire_check_seal(packet, len_bytes) &&
           vip_wire_get_header(packet, len_bytes, &hdr) == VIP_WIRE_OK &&
           vip_wire_get_cm(packet, len_bytes, &msg) == VIP_WIRE_OK &&
           msg.type == VIP_CM_LOAN_PROBED && msg.request_id == nonce &&
           msg.conn_id == assoc->remote_id && msg.peer_conn_id == local_id &&
           hdr.src_epoch == assoc->peer->epoch && hdr.dst_epoch == cm->config.epoch;
}
