/*
 * Connecting an endpoint, and the end of its connection.
 */
#include <string.h>

#include "ofi/calls.h"
#include "ofi/nosys.h"

bool via_ep_connected(struct via_ep *ep, const struct via_hello *hello, const void *data)
{
    bool stands;

    pthread_mutex_lock(&ep->lock);
    /* A link's first records may have arrived earlier, with a higher count (rdm.h). */
    if (ep->peer_posted < hello->posted)
        ep->peer_posted = hello->posted;
    ep->peer_control = hello->control;
    ep->peer_handle = hello->handle;
    stands = ep->state == VIA_EP_PENDING;
    if (stands) {
        __atomic_store_n(&ep->state, VIA_EP_CONNECTED, __ATOMIC_RELEASE);
        via_post_credits(ep);
    }
    pthread_mutex_unlock(&ep->lock);
    via_eq_put(ep->eq, FI_CONNECTED, &ep->fid.fid, NULL, data,
               data == NULL ? 0 : hello->user_bytes);
    /* It ended before FI_CONNECTED was queued. */
    if (!stands)
        via_eq_put(ep->eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
    return stands;
}

void via_ep_lost(struct via_ep *ep, const char *why)
{
    struct via_fabric *fabric = ep->domain->fabric;
    bool was_connected, orderly;

    pthread_mutex_lock(&ep->lock);
    was_connected = ep->state == VIA_EP_CONNECTED;
    if (was_connected || ep->state == VIA_EP_PENDING)
        __atomic_store_n(&ep->state, VIA_EP_DOWN, __ATOMIC_RELEASE);
    orderly = __atomic_load_n(&ep->control->peer_bye, __ATOMIC_ACQUIRE) != 0;
    pthread_mutex_unlock(&ep->lock);
    if (!was_connected)
        return;
    if (!orderly) {
        VIA_INFO(FI_LOG_EP_CTRL, "a connection was lost: %s\n", why);
        if (via_settings.loss_fatal)
            __atomic_store_n(&fabric->lost, 1, __ATOMIC_RELEASE);
    }
    via_eq_put(ep->eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
}

void via_error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct via_fabric *fabric = context;

    if (error->ErrorCode == VIP_ERROR_POST_DESC || error->ErrorCode == VIP_ERROR_VI_OVERRUN) {
        VIA_WARN(FI_LOG_EP_DATA, "VIPL refused a descriptor: error %d\n", (int)error->ErrorCode);
        return;
    }
    if (error->ResourceCode == VIP_RESOURCE_NIC || error->ErrorCode == VIP_ERROR_CATASTROPHIC) {
        VIA_WARN(FI_LOG_FABRIC, "vipd has ended\n");
        __atomic_store_n(&fabric->lost, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_lock(&fabric->lock);
    for (struct via_ep *ep = fabric->eps; ep != NULL; ep = ep->next)
        if (ep->vi == error->ViHandle || error->ResourceCode == VIP_RESOURCE_NIC)
            via_ep_lost(ep, "its peer, the network or vipd has gone");
    pthread_mutex_unlock(&fabric->lock);
}

/* ---- calls of the program -------------------------------------------------------------------- */

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

struct fi_ops_cm via_ep_cm_ops = {
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
