/*
 * Transfers: RDMA operations of any length. This file cuts a transfer into pieces: RDMA descriptors
 * of at most MaxTransferSize bytes. Only the last piece reports a completion. If the send queue has
 * no room for all pieces, reap.c posts the rest when earlier pieces complete. To keep the order of
 * operations, other sends are refused until the last piece is posted.
 */
#include "ofi/calls.h"

/* Enter the local memory of the next piece, of at most `most` bytes, into its descriptor. */
static void cut(struct via_transfer *transfer, size_t most, VIP_DESCRIPTOR *desc)
{
    VIP_DATA_SEGMENT *seg = &desc->DS[1].Local;

    while (most > 0 && transfer->iov_at < transfer->iov_count) {
        struct iovec *from = &transfer->iov[transfer->iov_at];
        size_t bytes = from->iov_len < most ? from->iov_len : most;

        if (bytes > 0) {
            seg->Data.Address = from->iov_base;
            seg->Handle = transfer->handle[transfer->iov_at];
            seg->Length = (VIP_UINT32)bytes;
            seg++;
            desc->CS.SegCount++;
            desc->CS.Length += (VIP_UINT32)bytes;
        }
        from->iov_base = (char *)from->iov_base + bytes;
        from->iov_len -= bytes;
        most -= bytes;
        if (from->iov_len == 0)
            transfer->iov_at++;
    }
    transfer->remote += desc->CS.Length;
    transfer->left -= desc->CS.Length;
}

/* Post the next piece of the transfer. */
static void piece(struct via_ep *ep)
{
    struct via_transfer *transfer = &ep->transfer;
    VIP_DESCRIPTOR *desc;
    struct via_op *op;
    bool last;

    desc = via_post_tx(ep, &op);
    via_post_remote(desc, transfer->control, transfer->remote, transfer->remote_handle);
    cut(transfer, ep->domain->fabric->attrs.MaxTransferSize, desc);
    last = transfer->left == 0;
    if (last && transfer->imm_valid) {
        desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
        desc->CS.ImmediateData = transfer->imm;
    }
    if (last)
        *op = transfer->op;
    op->is_piece = !last;
    transfer->active = !last;
    via_post_send(ep, last && transfer->imm_valid);
}

void via_transfer_go_on(struct via_ep *ep)
{
    while (ep->transfer.active && ep->tx_in - ep->tx_out < ep->tx_size)
        piece(ep);
}
