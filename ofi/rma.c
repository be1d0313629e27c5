/*
 * fi_read, fi_write and their variants. fi_inject_write and writes with FI_INJECT copy their short
 * data and post one descriptor. All other operations are transfers (transfer.c).
 */
#include "ofi/calls.h"

/* The arguments of fi_read, fi_write and all variants. */
struct rdma {
    uint16_t control; /* VIP_CONTROL_OP_* */
    const struct iovec *iov;
    void **mr;
    size_t count;
    uint64_t addr, key;
    void *context;
    uint64_t flags;
    uint64_t data;
    bool silent;
};

static void prepare(struct via_transfer *transfer, const struct rdma *rdma, size_t bytes)
{
    *transfer = (struct via_transfer){
        .active = true,
        .control = rdma->control,
        .iov_count = (unsigned)rdma->count,
        .remote = rdma->addr,
        .remote_handle = (uint32_t)rdma->key,
        .left = bytes,
        .imm_valid = (rdma->flags & FI_REMOTE_CQ_DATA) != 0,
        .imm = (uint32_t)rdma->data,
    };
    for (size_t i = 0; i < rdma->count; i++) {
        transfer->iov[i] = rdma->iov[i];
        if (rdma->iov[i].iov_len > 0)
            transfer->handle[i] = ((const struct via_mr *)rdma->mr[i])->region->handle;
    }
}

/* Copy short data into the inject slot, and post an RDMA Write of the slot. */
static void inject(struct via_ep *ep, const struct rdma *rdma, const struct via_op *what)
{
    bool imm = (rdma->flags & FI_REMOTE_CQ_DATA) != 0;
    struct via_op *op;
    VIP_DESCRIPTOR *desc = via_post_tx(ep, &op);

    *op = *what;
    via_post_remote(desc, (uint16_t)(rdma->control | (imm ? VIP_CONTROL_IMMEDIATE : 0)), rdma->addr,
                    (uint32_t)rdma->key);
    desc->CS.ImmediateData = (VIP_UINT32)rdma->data;
    via_post_inject(ep, desc, 1, rdma->iov[0].iov_base, rdma->iov[0].iov_len);
    via_post_send(ep, imm);
}

static ssize_t post(struct via_ep *ep, const struct rdma *rdma, size_t bytes)
{
    bool read = rdma->control == VIP_CONTROL_OP_RDMAREAD;
    struct via_op op = {0};
    ssize_t rc = via_post_may_send(ep);

    if (rc != 0)
        return rc;
    if (!rdma->silent) {
        op.context = rdma->context;
        op.buf = rdma->count > 0 ? rdma->iov[0].iov_base : NULL;
        op.len = bytes;
        op.flags = FI_RMA | (read ? FI_READ : FI_WRITE);
        if (!ep->tx_selective || (rdma->flags & FI_COMPLETION) != 0)
            op.flags |= FI_COMPLETION;
    }
    if (rdma->silent || (rdma->flags & FI_INJECT) != 0) {
        inject(ep, rdma, &op);
        return 0;
    }
    prepare(&ep->transfer, rdma, bytes);
    ep->transfer.op = op;
    via_transfer_go_on(ep);
    return 0;
}

static ssize_t do_rdma(struct fid_ep *fid, const struct rdma *rdma)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);
    bool copied = rdma->silent || (rdma->flags & FI_INJECT) != 0, waits;
    size_t bytes = via_iov_bytes(rdma->iov, rdma->count);
    ssize_t rc;

    if (rdma->count > VIA_IOV_MAX || (copied && rdma->count != 1))
        return -FI_EINVAL;
    if (copied && bytes > ep->inject_bytes)
        return -FI_EMSGSIZE;
    for (size_t i = 0; !copied && i < rdma->count; i++)
        if (rdma->iov[i].iov_len > 0 && (rdma->mr == NULL || rdma->mr[i] == NULL))
            return -FI_EINVAL;
    pthread_mutex_lock(&ep->lock);
    rc = post(ep, rdma, bytes);
    waits = ep->tx_posted != ep->tx_in;
    pthread_mutex_unlock(&ep->lock);
    if (waits)
        via_post_wait(ep);
    if (rc == -FI_EAGAIN)
        via_reap_sends(ep);
    return rc;
}

static ssize_t vector(struct fid_ep *fid, uint16_t control, const struct iovec *iov, void **mr,
                      size_t count, uint64_t addr, uint64_t key, void *context, uint64_t data_flag,
                      uint64_t data)
{
    struct rdma rdma = {
        .control = control,
        .iov = iov,
        .mr = mr,
        .count = count,
        .addr = addr,
        .key = key,
        .context = context,
        .flags = via_container(fid, struct via_ep, fid)->tx_op_flags | data_flag,
        .data = data,
    };

    if (control == VIP_CONTROL_OP_RDMAREAD)
        rdma.flags &= ~(uint64_t)FI_INJECT;
    return do_rdma(fid, &rdma);
}

static ssize_t message(struct fid_ep *fid, uint16_t control, const struct fi_msg_rma *msg,
                       uint64_t flags)
{
    struct rdma rdma = {
        .control = control,
        .iov = msg->msg_iov,
        .mr = msg->desc,
        .count = msg->iov_count,
        .context = msg->context,
        .flags = flags,
        .data = msg->data,
    };

    if (msg->rma_iov_count != 1)
        return -FI_EINVAL;
    rdma.addr = msg->rma_iov[0].addr;
    rdma.key = msg->rma_iov[0].key;
    return do_rdma(fid, &rdma);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                         fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
    return vector(fid, VIP_CONTROL_OP_RDMAREAD, iov, mr, count, addr, key, context, 0, 0);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *mr, fi_addr_t src,
                        uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return rma_readv(fid, &iov, &mr, 1, src, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return message(fid, VIP_CONTROL_OP_RDMAREAD, msg, flags & ~(uint64_t)FI_INJECT);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
    return vector(fid, VIP_CONTROL_OP_RDMAWRITE, iov, mr, count, addr, key, context, 0, 0);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *mr, fi_addr_t dest,
                         uint64_t addr, uint64_t key, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return rma_writev(fid, &iov, &mr, 1, dest, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
    return message(fid, VIP_CONTROL_OP_RDMAWRITE, msg, flags);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *mr,
                             uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                             void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return vector(fid, VIP_CONTROL_OP_RDMAWRITE, &iov, &mr, 1, addr, key, context,
                  FI_REMOTE_CQ_DATA, data);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest, uint64_t addr, uint64_t key)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct rdma rdma = {.control = VIP_CONTROL_OP_RDMAWRITE,
                        .iov = &iov,
                        .count = 1,
                        .addr = addr,
                        .key = key,
                        .flags = FI_REMOTE_CQ_DATA,
                        .data = data,
                        .silent = true};

    return do_rdma(fid, &rdma);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                          uint64_t addr, uint64_t key)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct rdma rdma = {.control = VIP_CONTROL_OP_RDMAWRITE,
                        .iov = &iov,
                        .count = 1,
                        .addr = addr,
                        .key = key,
                        .silent = true};

    return do_rdma(fid, &rdma);
}

struct fi_ops_rma via_rma_ops = {
    .size = sizeof(struct fi_ops_rma),
    .read = rma_read,
    .readv = rma_readv,
    .readmsg = rma_readmsg,
    .write = rma_write,
    .writev = rma_writev,
    .writemsg = rma_writemsg,
    .inject = rma_inject,
    .writedata = rma_writedata,
    .injectdata = rma_injectdata,
};
