/*
 * Makes completions of libfabric from completed descriptors of VIPL, and puts them into the list of
 * the completion queue. The program or, for a channel, channel_done.c reads this list. An internal
 * operation gets no entry; an operation without a wanted completion gets one only if it fails.
 */
#include "ofi/calls.h"

#define OP_INDEX(desc, base) ((size_t)((char *)(desc) - (base)) / VIA_DESC_BYTES)

void via_cqs_lock(struct via_ep *ep)
{
    struct via_cq *a = ep->tx_cq < ep->rx_cq ? ep->tx_cq : ep->rx_cq;
    struct via_cq *b = ep->tx_cq < ep->rx_cq ? ep->rx_cq : ep->tx_cq;

    if (a != NULL)
        pthread_mutex_lock(&a->lock);
    if (b != NULL && b != a)
        pthread_mutex_lock(&b->lock);
}

void via_cqs_unlock(struct via_ep *ep)
{
    if (ep->tx_cq != NULL)
        pthread_mutex_unlock(&ep->tx_cq->lock);
    if (ep->rx_cq != NULL && ep->rx_cq != ep->tx_cq)
        pthread_mutex_unlock(&ep->rx_cq->lock);
}

static int status_error(VIP_UINT32 status, bool receive)
{
    if ((status & VIP_STATUS_FORMAT_ERROR) != 0)
        return FI_EINVAL;
    if ((status & (VIP_STATUS_PROTECTION_ERROR | VIP_STATUS_RDMA_PROT_ERROR)) != 0)
        return FI_EACCES;
    if ((status & VIP_STATUS_LENGTH_ERROR) != 0)
        return receive ? FI_ETRUNC : FI_EMSGSIZE;
    if ((status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
        return FI_ECANCELED;
    if ((status & VIP_STATUS_REMOTE_DESC_ERROR) != 0)
        return FI_EREMOTEIO;
    return FI_EIO;
}

static void put_error(struct via_cq *cq, const struct via_op *op, int err, int prov_errno)
{
    struct via_comp comp = {
        .context = op->context,
        .flags = op->flags & ~(uint64_t)FI_COMPLETION,
        .len = op->len,
        .buf = op->buf,
        .err = err,
        .prov_errno = prov_errno,
    };

    if (cq != NULL)
        via_cq_put(cq, &comp);
}

/* An internal RDMA Write is complete: that of own_posted or that of own_bye. */
static void own_done(struct via_ep *ep, size_t index)
{
    if (index == ep->tx_size) {
        __atomic_store_n(&ep->publishing, false, __ATOMIC_RELAXED);
        via_post_credits(ep);
    } else {
        ep->saying_bye = false;
    }
}

static void send_done(struct via_ep *ep, const VIP_DESCRIPTOR *desc)
{
    size_t index = OP_INDEX(desc, ep->tx_desc);
    VIP_UINT32 bad = desc->CS.Status & VIP_STATUS_ERROR_MASK;
    struct via_op op;

    if (index >= ep->tx_size) {
        own_done(ep, index);
        return;
    }
    op = ep->tx_op[index];
    ep->tx_out++;
    if (op.is_piece && bad != 0 && ep->transfer.active) {
        /* The connection has ended: the last piece is never posted, so report the error now. */
        ep->transfer.active = false;
        op = ep->transfer.op;
        put_error(ep->tx_cq, &op, status_error(bad, false), (int)bad);
    } else if (op.flags != 0 && bad != 0) {
        put_error(ep->tx_cq, &op, status_error(bad, false), (int)bad);
    } else if ((op.flags & FI_COMPLETION) != 0 && ep->tx_cq != NULL) {
        struct via_comp comp = {
            .context = op.context,
            .flags = op.flags & ~(uint64_t)FI_COMPLETION,
            .len = op.len,
            .buf = op.buf,
        };

        via_cq_put(ep->tx_cq, &comp);
    }
    if (ep->transfer.active)
        via_transfer_go_on(ep);
    if (ep->tx_posted != ep->tx_in)
        via_post_push(ep);
}

static void receive_done(struct via_ep *ep, const VIP_DESCRIPTOR *desc)
{
    const struct via_op *op = &ep->rx_op[OP_INDEX(desc, ep->rx_desc)];
    VIP_UINT32 status = desc->CS.Status, bad = status & VIP_STATUS_ERROR_MASK;
    bool write = (status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE;
    struct via_comp comp = {
        .context = op->context,
        .flags = write ? FI_REMOTE_WRITE | FI_RMA : FI_RECV | FI_MSG,
        .len = desc->CS.Length,
        .buf = op->buf,
    };

    ep->rx_out++;
    /* The peer has used up a credit: send new credits if it has few left. */
    via_post_credits(ep);
    if (bad != 0) {
        put_error(ep->rx_cq, op, status_error(bad, true), (int)bad);
        return;
    }
    if ((status & VIP_STATUS_IMMEDIATE) != 0) {
        comp.flags |= FI_REMOTE_CQ_DATA;
        comp.data = desc->CS.ImmediateData;
    }
    /* Report each RDMA Write of the peer, but a message only if the program wants that. */
    if (ep->rx_cq != NULL && ((op->flags & FI_COMPLETION) != 0 || write))
        via_cq_put(ep->rx_cq, &comp);
}

bool via_reap_ep(struct via_ep *ep, bool receive)
{
    VIP_DESCRIPTOR *desc;

    if (receive)
        VipRecvDone(ep->vi, &desc);
    else
        VipSendDone(ep->vi, &desc);
    if (desc == NULL)
        return false;
    if (receive)
        receive_done(ep, desc);
    else
        send_done(ep, desc);
    return true;
}

bool via_reap_cq(struct via_cq *cq)
{
    VIP_BOOLEAN receive;
    VIP_VI_HANDLE vi;
    struct via_ep *ep;

    if (VipCQDone(cq->cq, &vi, &receive) != VIP_SUCCESS)
        return false;
    /* The endpoint still exists: via_ep_dismantle destroys the VI only under cq->lock. */
    ep = VipGetUserData(vi);
    if (ep == NULL)
        return true;
    pthread_mutex_lock(&ep->lock);
    via_reap_ep(ep, receive == VIP_TRUE);
    pthread_mutex_unlock(&ep->lock);
    return true;
}

/*
 * A call that finds no room for its descriptor uses this function to take completions of the send
 * queue. A program that uses only fi_inject never reads this queue, so it would stay full.
 */
void via_reap_sends(struct via_ep *ep)
{
    struct via_cq *cq = ep->tx_cq;

    if (cq == NULL)
        return;
    pthread_mutex_lock(&cq->lock);
    while (via_reap_cq(cq))
        continue;
    pthread_mutex_unlock(&cq->lock);
}

void via_reap_cancel(struct via_ep *ep)
{
    if (ep->transfer.active) {
        ep->transfer.active = false;
        put_error(ep->tx_cq, &ep->transfer.op, FI_ECANCELED, VIP_STATUS_DESC_FLUSHED_ERROR);
    }
    for (; ep->tx_out != ep->tx_in; ep->tx_out++) {
        const struct via_op *op = &ep->tx_op[ep->tx_out % ep->tx_size];

        if (op->flags != 0)
            put_error(ep->tx_cq, op, FI_ECANCELED, VIP_STATUS_DESC_FLUSHED_ERROR);
    }
    for (; ep->rx_out != ep->rx_in; ep->rx_out++)
        put_error(ep->rx_cq, &ep->rx_op[ep->rx_out % ep->rx_size], FI_ECANCELED,
                  VIP_STATUS_DESC_FLUSHED_ERROR);
}
