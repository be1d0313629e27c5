/* Reports packets and descriptors of a NIC to vipctl capture. Called only while a capture runs. */
#include "vipd/nic/internal.h"

void nic_see_packet(struct nic *nic, enum vip_capture_kind kind, const struct nic_tx *tx)
{
    nic->see(nic->see_ctx, &(struct nic_seen){.kind = kind,
                                              .session = tx->session->id,
                                              .vi = tx->out.packet.vi,
                                              .peer = kind == VIP_CAPTURE_LOCAL ? NULL : &tx->to,
                                              .iov = tx->out.iov,
                                              .iov_count = tx->out.iov_count,
                                              .bytes = tx->out.packet.bytes});
}

void nic_see_received(struct nic *nic, const struct nic_conn *conn, const struct link_rx *rx)
{
    const struct iovec iov = {.iov_base = (void *)(uintptr_t)rx->bytes, .iov_len = rx->len};

    nic->see(nic->see_ctx, &(struct nic_seen){.kind = VIP_CAPTURE_RECEIVED,
                                              .session = conn ? conn->session->id : 0,
                                              .vi = conn ? conn->vi : 0,
                                              .peer = rx->from,
                                              .iov = &iov,
                                              .iov_count = 1,
                                              .bytes = rx->len});
}

void nic_see_descriptor(const struct nic_session *session, enum vip_capture_kind kind,
                        const struct nic_deferred *desc)
{
    const struct nic *nic = session->nic;

    nic->see(nic->see_ctx, &(struct nic_seen){.kind = kind,
                                              .session = session->id,
                                              .vi = desc->vi,
                                              .bytes = desc->length,
                                              .queue = desc->queue,
                                              .status = desc->status});
}
