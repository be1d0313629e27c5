/*
 * The calls of the program on a connected endpoint: open, bind, connect, accept, shut down, close.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/calls.h"
#include "ofi/nosys.h"

/* ---- connections ----------------------------------------------------------------------------- */

static int ep_connect(struct fid_ep *fid, const void *addr, const void *param, size_t bytes)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);
    int rc;

    if (bytes > VIA_CM_DATA_MAX)
        return -FI_EINVAL;
    if (addr != NULL)
        memcpy(&ep->peer, addr, sizeof(ep->peer));
    if (ep->peer.sin_family != AF_INET)
        return -FI_EINVAL;
    rc = via_ep_enable(ep);
    if (rc != 0)
        return rc;
    if (ep->state != VIA_EP_ENABLED)
        return -FI_EOPBADSTATE;
    via_hello_write(ep, param, bytes, &ep->cm_data);
    rc = via_cm_connect(ep);
    if (rc != 0)
        __atomic_store_n(&ep->state, VIA_EP_ENABLED, __ATOMIC_RELEASE);
    return rc;
}

static int ep_accept(struct fid_ep *fid, const void *param, size_t bytes)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);
    int rc;

    if (bytes > VIA_CM_DATA_MAX || ep->cm_request == NULL)
        return -FI_EINVAL;
    rc = via_ep_enable(ep);
    if (rc != 0)
        return rc;
    if (ep->state != VIA_EP_ENABLED)
        return -FI_EOPBADSTATE;
    via_hello_write(ep, param, bytes, &ep->cm_data);
    rc = via_cm_accept(ep);
    if (rc != 0)
        __atomic_store_n(&ep->state, VIA_EP_ENABLED, __ATOMIC_RELEASE);
    return rc;
}

static int ep_shutdown(struct fid_ep *fid, uint64_t flags)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);

    if (__atomic_load_n(&ep->state, __ATOMIC_ACQUIRE) == VIA_EP_NEW)
        return -FI_EOPBADSTATE;
    via_cm_cancel(ep);
    via_ep_disconnect(ep);
    return 0;
}

static int ep_getname(fid_t fid, void *addr, size_t *bytes)
{
    return via_addr_copy(&via_container(fid, struct via_ep, fid.fid)->own, addr, bytes);
}

static int ep_getpeer(struct fid_ep *fid, void *addr, size_t *bytes)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid);

    if (__atomic_load_n(&ep->state, __ATOMIC_ACQUIRE) != VIA_EP_CONNECTED)
        return -FI_ENOTCONN;
    return via_addr_copy(&ep->peer, addr, bytes);
}

static struct fi_ops_cm ep_cm_ops = {
    .size = sizeof(struct fi_ops_cm),
    .setname = via_no_setname,
    .getname = ep_getname,
    .getpeer = ep_getpeer,
    .connect = ep_connect,
    .listen = via_no_listen,
    .accept = ep_accept,
    .reject = via_no_reject,
    .shutdown = ep_shutdown,
    .join = via_no_join,
};

/* ---- options --------------------------------------------------------------------------------- */

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid.fid);
    struct via_cq *cq;

    if (ep->state != VIA_EP_NEW)
        return -FI_EOPBADSTATE;
    switch (other->fclass) {
    case FI_CLASS_EQ:
        ep->eq = via_container(other, struct via_eq, fid.fid);
        return 0;
    case FI_CLASS_CQ:
        cq = via_container(other, struct via_cq, fid.fid);
        if (cq->domain != ep->domain || (flags & (FI_TRANSMIT | FI_RECV)) == 0 ||
            ((flags & FI_TRANSMIT) != 0 && ep->tx_cq != NULL) ||
            ((flags & FI_RECV) != 0 && ep->rx_cq != NULL))
            return -FI_EINVAL;
        if ((flags & FI_TRANSMIT) != 0) {
            ep->tx_cq = cq;
            ep->tx_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
            __atomic_add_fetch(&cq->users, 1, __ATOMIC_RELAXED);
        }
        if ((flags & FI_RECV) != 0) {
            ep->rx_cq = cq;
            ep->rx_selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
            __atomic_add_fetch(&cq->users, 1, __ATOMIC_RELAXED);
        }
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

static int ep_control(struct fid *fid, int command, void *arg)
{
    if (command != FI_ENABLE)
        return -FI_ENOSYS;
    return via_ep_enable(via_container(fid, struct via_ep, fid.fid));
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
    /* VIA has no way to cancel a posted descriptor. */
    return -FI_ENOENT;
}

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *bytes)
{
    size_t answer = VIA_CM_DATA_MAX;

    if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE)
        return -FI_ENOPROTOOPT;
    if (*bytes < sizeof(answer)) {
        *bytes = sizeof(answer);
        return -FI_ETOOSMALL;
    }
    memcpy(value, &answer, sizeof(answer));
    *bytes = sizeof(answer);
    return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t bytes)
{
    return -FI_ENOPROTOOPT;
}

static struct fi_ops_ep ep_ops = {
    .size = sizeof(struct fi_ops_ep),
    .cancel = ep_cancel,
    .getopt = ep_getopt,
    .setopt = ep_setopt,
    .tx_ctx = via_no_tx_ctx,
    .rx_ctx = via_no_rx_ctx,
    .rx_size_left = via_no_size_left,
    .tx_size_left = via_no_size_left,
};

/* ---- life ------------------------------------------------------------------------------------ */

static int ep_close(struct fid *fid)
{
    struct via_ep *ep = via_container(fid, struct via_ep, fid.fid);

    via_cm_cancel(ep);
    if (__atomic_load_n(&ep->state, __ATOMIC_ACQUIRE) != VIA_EP_NEW)
        via_ep_dismantle(ep);
    if (ep->eq != NULL)
        via_eq_forget(ep->eq, fid);
    if (ep->tx_cq != NULL)
        __atomic_sub_fetch(&ep->tx_cq->users, 1, __ATOMIC_RELEASE);
    if (ep->rx_cq != NULL)
        __atomic_sub_fetch(&ep->rx_cq->users, 1, __ATOMIC_RELEASE);
    __atomic_sub_fetch(&ep->domain->users, 1, __ATOMIC_RELEASE);
    pthread_mutex_destroy(&ep->lock);
    free(ep);
    return 0;
}

static struct fi_ops ep_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = ep_close,
    .bind = ep_bind,
    .control = ep_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

/* Read the queue sizes from `info`. The program may have changed what fi_getinfo returned. */
static int take_sizes(struct via_ep *ep, const struct fi_info *info)
{
    ep->tx_size = ep->rx_size = VIA_QUEUE;
    ep->inject_bytes = ((size_t)via_settings.inject_bytes + 63) & ~(size_t)63;
    if (info->tx_attr != NULL) {
        ep->tx_op_flags = info->tx_attr->op_flags;
        if (info->tx_attr->size > 0)
            ep->tx_size = info->tx_attr->size;
    }
    if (info->rx_attr != NULL) {
        ep->rx_op_flags = info->rx_attr->op_flags;
        if (info->rx_attr->size > 0)
            ep->rx_size = info->rx_attr->size;
    }
    return ep->tx_size <= VIA_QUEUE_MAX && ep->rx_size <= VIA_QUEUE_MAX ? 0 : -FI_EINVAL;
}

int via_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret, void *context)
{
    struct via_domain *domain = via_container(fid, struct via_domain, fid);
    struct via_ep *ep;

    if (info == NULL || info->ep_attr == NULL || info->ep_attr->type != FI_EP_MSG ||
        (info->handle != NULL && info->handle->fclass != FI_CLASS_CONNREQ))
        return -FI_EINVAL;
    ep = calloc(1, sizeof(*ep));
    if (ep == NULL)
        return -FI_ENOMEM;
    if (take_sizes(ep, info) != 0) {
        free(ep);
        return -FI_EINVAL;
    }
    pthread_mutex_init(&ep->lock, NULL);
    ep->domain = domain;
    ep->own = domain->fabric->addr;
    ep->cm_fd = -1;
    if (info->handle != NULL) {
        ep->cm_request = via_container(info->handle, struct via_request, fid);
        ep->peer = ep->cm_request->from;
    } else if (info->dest_addr != NULL && info->dest_addrlen >= sizeof(ep->peer)) {
        memcpy(&ep->peer, info->dest_addr, sizeof(ep->peer));
    }
    __atomic_add_fetch(&domain->users, 1, __ATOMIC_RELAXED);
    ep->fid.fid.fclass = FI_CLASS_EP;
    ep->fid.fid.context = context;
    ep->fid.fid.ops = &ep_fid_ops;
    ep->fid.ops = &ep_ops;
    ep->fid.cm = &ep_cm_ops;
    ep->fid.msg = &via_msg_ops;
    ep->fid.rma = &via_rma_ops;
    *ret = &ep->fid;
    return 0;
}
