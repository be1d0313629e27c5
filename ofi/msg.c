/*
 * fi_send, fi_recv and their variants. Each call posts one descriptor, so a message has at most
 * MaxTransferSize bytes. A send uses up a receive descriptor of the peer, so it needs a credit.
 */
#include "ofi/calls.h"

/* Does the program want the completion of this operation? FI_COMPLETION: yes; 0: no. */
static uint64_t wanted(bool selective, uint64_t op_flags)
{
    return !selective || (op_flags & FI_COMPLETION) != 0 ? FI_COMPLETION : 0;
}

/* ---- receives -------------------------------------------------------------------------------- */

static ssize_t receive(struct via_ep *ep, const struct iovec *iov, void **mr, size_t count,
                       void *context, uint64_t flags)
{
    VIP_DESCRIPTOR *desc;
    struct via_op *op;
    ssize_t rc = 0;

    if (count > VIA_IOV_MAX)
        return -FI_EINVAL;
    if (__atomic_load_n(&ep->publishing, __ATOMIC_RELAXED) && ep->tx_cq != ep->rx_cq)
        via_reap_sends(ep);
    pthread_mutex_lock(&ep->lock);
    if (ep->state == VIA_EP_NEW || ep->state == VIA_EP_DOWN)
        rc = ep->state == VIA_EP_NEW ? -FI_EOPBADSTATE : -FI_ENOTCONN;
    else if (ep->rx_in - ep->rx_out >= ep->rx_size)
        rc = -FI_EAGAIN;
    if (rc == 0) {
        desc = via_post_rx(ep, &op);
        rc = via_post_segments(desc, 0, iov, mr, count);
    }
    if (rc == 0) {
        op->context = context;
        op->buf = count > 0 ? iov[0].iov_base : NULL;
        op->flags = FI_RECV | FI_MSG | wanted(ep->rx_selective, flags);
        rc = via_post_recv(ep, desc);
    }
    pthread_mutex_unlock(&ep->lock);
    return rc;
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                         fi_addr_t src, void *context)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);

    return receive(ep, iov, mr, count, context, ep->rx_op_flags);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *mr, fi_addr_t src,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(fid, &iov, &mr, 1, src, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    return receive(via_container(fid, struct via_ep, fid), msg->msg_iov, msg->desc, msg->iov_count,
                   msg->context, flags);
}

/* ---- sends ----------------------------------------------------------------------------------- */

/* The arguments of fi_send and all its variants. */
struct send {
    const struct iovec *iov;
    void **mr;
    size_t count;
    void *context;
    uint64_t flags; /* FI_INJECT, FI_COMPLETION, FI_REMOTE_CQ_DATA (`data` is valid) */
    uint64_t data;
    bool silent; /* the call is fi_inject: no completion */
};

/* Copy all pieces of the data into the inject slot. */
static void copy(struct via_ep *ep, VIP_DESCRIPTOR *desc, const struct send *send)
{
    char all[4096]; /* size: the largest FI_VIA_INJECT */
    size_t at = 0;

    if (send->count == 1) {
        via_post_inject(ep, desc, 0, send->iov[0].iov_base, send->iov[0].iov_len);
        return;
    }
    for (size_t i = 0; i < send->count; i++) {
        const char *from = send->iov[i].iov_base;

        for (size_t n = 0; n < send->iov[i].iov_len; n++)
            all[at++] = from[n];
    }
    via_post_inject(ep, desc, 0, all, at);
}

static ssize_t post(struct via_ep *ep, const struct send *send, size_t bytes)
{
    bool inject = send->silent || (send->flags & FI_INJECT) != 0;
    VIP_DESCRIPTOR *desc;
    struct via_op *op;
    ssize_t rc = via_post_may_send(ep);

    if (rc != 0)
        return rc;
    desc = via_post_tx(ep, &op);
    if (inject)
        copy(ep, desc, send);
    else
        rc = via_post_segments(desc, 0, send->iov, send->mr, send->count);
    if (rc != 0)
        return rc;
    if ((send->flags & FI_REMOTE_CQ_DATA) != 0) {
        desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
        desc->CS.ImmediateData = (VIP_UINT32)send->data;
    }
    if (!send->silent) {
        op->context = send->context;
        op->buf = send->count > 0 ? send->iov[0].iov_base : NULL;
        op->len = bytes;
        op->flags = FI_SEND | FI_MSG | wanted(ep->tx_selective, send->flags);
    }
    via_post_send(ep, true);
    return 0;
}

static ssize_t do_send(struct fid_ep *fid, const struct send *send)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);
    bool inject = send->silent || (send->flags & FI_INJECT) != 0, waits;
    size_t bytes = via_iov_bytes(send->iov, send->count);
    ssize_t rc;

    if (send->count > VIA_IOV_MAX)
        return -FI_EINVAL;
    if (bytes > (inject ? ep->inject_bytes : ep->domain->fabric->attrs.MaxTransferSize))
        return -FI_EMSGSIZE;
    pthread_mutex_lock(&ep->lock);
    rc = post(ep, send, bytes);
    waits = ep->tx_posted != ep->tx_in;
    pthread_mutex_unlock(&ep->lock);
    if (waits)
        via_post_wait(ep);
    if (rc == -FI_EAGAIN)
        via_reap_sends(ep);
    return rc;
}

static uint64_t default_flags(struct fid_ep *fid)
{
    return via_container(fid, struct via_ep, fid)->tx_op_flags;
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                         fi_addr_t dest, void *context)
{
    struct send send = {
        .iov = iov, .mr = mr, .count = count, .context = context, .flags = default_flags(fid)};

    return do_send(fid, &send);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *mr, fi_addr_t dest,
                        void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return msg_sendv(fid, &iov, &mr, 1, dest, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct send send = {.iov = msg->msg_iov,
                        .mr = msg->desc,
                        .count = msg->iov_count,
                        .context = msg->context,
                        .flags = flags,
                        .data = msg->data};

    return do_send(fid, &send);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct send send = {.iov = &iov, .count = 1, .silent = true};

    return do_send(fid, &send);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *mr,
                            uint64_t data, fi_addr_t dest, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct send send = {.iov = &iov,
                        .mr = &mr,
                        .count = 1,
                        .context = context,
                        .flags = default_flags(fid) | FI_REMOTE_CQ_DATA,
                        .data = data};

    return do_send(fid, &send);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct send send = {
        .iov = &iov, .count = 1, .flags = FI_REMOTE_CQ_DATA, .data = data, .silent = true};

    return do_send(fid, &send);
}

struct fi_ops_msg via_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};
