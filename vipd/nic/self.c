/*
 * Loopback: a packet of one session's engine goes directly into the engine of another session (or
 * of the same session) of this NIC. It passes no link and has no checksum. vipd copies its payload
 * once, from region to region.
 *
 * Owns: the hand-over. Does not own: which connections are loopback (nic_conn_bind decides).
 */
#include <string.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"
#include "vipd/registry/guard.h"

/* Size of the smallest page of any processor, in bytes. */
#define PAGE_BYTES 4096u

/*
 * Are all pages of the sender's memory there? A page that is missing during the copy would fail the
 * receiver's descriptor. So touch each page first: a page that is missing now fails the sender. A
 * page lost just before the copy (unsealed memory, broken memory) still fails the receiver.
 */
static bool source_is_there(const struct nic_tx *tx)
{
    uint32_t faults = guard_copy_faults();

    for (unsigned i = 0; i < tx->out.packet.piece_count; i++) {
        const volatile uint8_t *at = tx->out.iov[i].iov_base;
        size_t len = tx->out.iov[i].iov_len;

        if (!tx->out.packet.piece[i].from_region || !len)
            continue;
        for (size_t offset = 0; offset < len; offset += PAGE_BYTES)
            (void)at[offset];
        (void)at[len - 1];
    }
    return guard_copy_faults() == faults;
}

/*
 * Decode the packet: copy its header parts to their offsets in a scratch packet. The payload
 * between them is not copied; the decoder does not look at it.
 */
static void decode(struct nic *nic, const struct nic_tx *tx)
{
    const struct eng_packet *packet = &tx->out.packet;
    enum vip_wire_verdict verdict;
    uint32_t at = 0;

    VIP_ASSERT(packet->bytes <= VIP_PACKET_BYTES_MAX);
    for (unsigned i = 0; i < packet->piece_count; i++) {
        const struct eng_piece *piece = &packet->piece[i];

        VIP_ASSERT(at + piece->len <= packet->bytes);
        if (!piece->from_region)
            memcpy(nic->loop_head + at, packet->head + piece->offset, piece->len);
        at += piece->len;
    }
    VIP_ASSERT(at == packet->bytes);
    verdict = vip_wire_get_data(nic->loop_head, packet->bytes, &nic->loop_packet);
    VIP_ASSERT(verdict == VIP_WIRE_OK);
}

void nic_loop_deliver(struct nic *nic, struct nic_conn *from, struct nic_tx *tx)
{
    uint64_t remote_id = from->remote_id;
    struct nic_src src = {.len = tx->out.packet.bytes,
                          .piece = tx->out.iov,
                          .piece_count = tx->out.packet.piece_count};
    struct nic_conn *to;

    if (!nic_tx_resolve(tx->session, &tx->out) || !source_is_there(tx)) {
        nic->counts.tx_unresolved++;
        eng_tx_failed(tx->session->eng, tx->out.packet.vi, tx->out.packet.op, nic->now_ns);
        return;
    }
    if (nic->see)
        nic_see_packet(nic, VIP_CAPTURE_LOCAL, tx);
    decode(nic, tx);
    nic->counts.loop_packets++;
    nic->counts.loop_bytes += tx->out.packet.bytes;
    to = nic_conn_find(nic, remote_id);
    if (to && (to->state == NIC_CONN_ACCEPTING || to->state == NIC_CONN_REQUESTED)) {
        cm_implied_confirm(nic->cm, remote_id, &nic->self, nic->config.epoch, nic->now_ns);
        to = nic_conn_find(nic, remote_id);
    }
    if (!to)
        cm_unknown_conn(nic->cm, &nic->self, &nic->loop_packet.hdr, nic->now_ns);
    if (!to || to->state != NIC_CONN_ESTABLISHED) {
        nic->counts.loop_lost++;
        return;
    }
    if (!nic_rx_feed(to, &nic->loop_packet, &src))
        nic_src_release(nic, &src);
}
