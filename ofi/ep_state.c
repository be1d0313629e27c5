/*
 * VIPL reports that a connection is made, or that it has ended without a call of this program.
 * From each report this file makes the state of the endpoint and an event for the program.
 */
#include "ofi/calls.h"

bool via_ep_connected(struct via_ep *ep, const struct via_hello *hello, const void *data)
{
    bool stands;

    pthread_mutex_lock(&ep->lock);
    /* peer_posted may be higher already, from records of a channel (rdm.h): never lower it. */
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
    /* The connection ended before FI_CONNECTED was queued: queue FI_SHUTDOWN after it. */
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
