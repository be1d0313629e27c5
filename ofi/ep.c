/*
 * The VI of an endpoint. fi_enable makes the VI: a VI cannot change its completion queues, and they
 * are known only then. The level is Reliable Reception, so that a send completes when its data are
 * in the peer's memory.
 *
 * This file makes and frees the slab of an endpoint, and starts and closes the endpoint. To close
 * it, it writes own_bye to the peer and waits until sent data have arrived. Before fi_close
 * returns, every posted operation gets a completion: done or cancelled (FI_ECANCELED).
 */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "ofi/calls.h"

#define CONTROL_BYTES 4096 /* the peer may write to the control page, so nothing else is in it */

/* Longest time, in ns, to wait until vipd has returned all posted descriptors. On a busy machine
 * vipd needs seconds to return them. */
#define DRAIN_NS 30000000000ull

/* A wait often takes only microseconds: its first QUICK_LOOKS looks do not sleep. */
#define QUICK_LOOKS 200

/* ---- enable ---------------------------------------------------------------------------------- */

static void slab_free(struct via_ep *ep)
{
    VIP_NIC_HANDLE nic = ep->domain->fabric->nic;

    if (ep->slab_handle != 0)
        VipDeregisterMem(nic, ep->slab + CONTROL_BYTES, ep->slab_handle);
    if (ep->control_handle != 0)
        VipDeregisterMem(nic, ep->slab, ep->control_handle);
    ep->slab_handle = ep->control_handle = 0;
    if (ep->slab != NULL)
        VipxFreeMem(ep->slab);
    ep->slab = NULL;
    free(ep->tx_op);
    free(ep->rx_op);
    ep->tx_op = ep->rx_op = NULL;
}

static int slab_make(struct via_ep *ep)
{
    struct via_domain *domain = ep->domain;
    VIP_MEM_ATTRIBUTES own = {.Ptag = domain->ptag};
    VIP_MEM_ATTRIBUTES open = {.Ptag = domain->ptag, .EnableRdmaWrite = VIP_TRUE};
    /* Two extra descriptors are for the RDMA Writes of own_posted and of own_bye. */
    size_t tx_bytes = (ep->tx_size + 2) * VIA_DESC_BYTES, rx_bytes = ep->rx_size * VIA_DESC_BYTES;
    VIP_PVOID memory;

    ep->slab_bytes = CONTROL_BYTES + tx_bytes + rx_bytes + ep->tx_size * ep->inject_bytes;
    ep->tx_op = calloc(ep->tx_size, sizeof(*ep->tx_op));
    ep->rx_op = calloc(ep->rx_size, sizeof(*ep->rx_op));
    if (ep->tx_op == NULL || ep->rx_op == NULL ||
        VipxAllocMem(ep->slab_bytes, &memory) != VIP_SUCCESS)
        return -FI_ENOMEM;
    ep->slab = memory;
    if (VipRegisterMem(domain->fabric->nic, ep->slab, CONTROL_BYTES, &open, &ep->control_handle) !=
            VIP_SUCCESS ||
        VipRegisterMem(domain->fabric->nic, ep->slab + CONTROL_BYTES,
                       ep->slab_bytes - CONTROL_BYTES, &own, &ep->slab_handle) != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_EP_CTRL, "VipRegisterMem: %s\n", VipxLastError());
        return -FI_ENOMEM;
    }
    ep->control = (struct via_control *)(void *)ep->slab;
    ep->tx_desc = ep->slab + CONTROL_BYTES;
    ep->rx_desc = ep->tx_desc + tx_bytes;
    ep->inject = ep->rx_desc + rx_bytes;
    return 0;
}

static int make_vi(struct via_ep *ep)
{
    const struct via_fabric *fabric = ep->domain->fabric;
    VIP_VI_ATTRIBUTES attrs = {
        .ReliabilityLevel = VIP_SERVICE_RELIABLE_RECEPTION,
        .MaxTransferSize = fabric->attrs.MaxTransferSize,
        .Ptag = ep->domain->ptag,
        .EnableRdmaWrite = VIP_TRUE,
        .EnableRdmaRead = VIP_TRUE,
    };
    VIP_RETURN code = VipCreateVi(fabric->nic, &attrs, ep->tx_cq->cq, ep->rx_cq->cq, &ep->vi);

    if (code != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_EP_CTRL, "VipCreateVi: %s\n", VipxLastError());
        return via_errno(code);
    }
    VipSetUserData(ep->vi, ep);
    return 0;
}

int via_ep_enable(struct via_ep *ep)
{
    struct via_fabric *fabric = ep->domain->fabric;
    int rc;

    if (ep->state != VIA_EP_NEW)
        return 0;
    if (ep->eq == NULL)
        return -FI_ENOEQ;
    if (ep->tx_cq == NULL || ep->rx_cq == NULL)
        return -FI_ENOCQ;
    if (__atomic_load_n(&fabric->lost, __ATOMIC_RELAXED) != 0)
        return -FI_ENODEV;
    rc = via_cq_bind(ep->tx_cq, ep->tx_size + 2);
    if (rc == 0)
        rc = via_cq_bind(ep->rx_cq, ep->rx_size);
    if (rc == 0)
        rc = slab_make(ep);
    if (rc == 0)
        rc = make_vi(ep);
    if (rc != 0) {
        slab_free(ep);
        return rc;
    }
    pthread_mutex_lock(&fabric->lock);
    ep->next = fabric->eps;
    fabric->eps = ep;
    pthread_mutex_unlock(&fabric->lock);
    __atomic_store_n(&ep->state, VIA_EP_ENABLED, __ATOMIC_RELEASE);
    return 0;
}

/* ---- disconnect and close -------------------------------------------------------------------- */

static void pause_at(unsigned look)
{
    if (look < QUICK_LOOKS)
        sched_yield();
    else
        usleep(100);
}

/* Handle completions. true: some posted sends (or receives, if `all` is set) are not complete. */
static bool reap_and_look(struct via_ep *ep, bool all)
{
    bool out;

    via_cqs_lock(ep);
    pthread_mutex_lock(&ep->lock);
    while (via_reap_ep(ep, false))
        continue;
    while (via_reap_ep(ep, true))
        continue;
    via_post_push(ep);
    out = ep->tx_in != ep->tx_out || ep->publishing || ep->saying_bye ||
          (all && ep->rx_in != ep->rx_out);
    pthread_mutex_unlock(&ep->lock);
    via_cqs_unlock(ep);
    return out;
}

void via_ep_disconnect(struct via_ep *ep)
{
    uint64_t end_ns = via_now_ns() + (uint64_t)via_settings.linger_ms * 1000000;
    bool was_connected;

    pthread_mutex_lock(&ep->lock);
    was_connected = ep->state == VIA_EP_CONNECTED;
    via_post_bye(ep);
    pthread_mutex_unlock(&ep->lock);
    for (unsigned look = 0; was_connected && reap_and_look(ep, false); look++) {
        if (__atomic_load_n(&ep->state, __ATOMIC_ACQUIRE) != VIA_EP_CONNECTED ||
            via_now_ns() >= end_ns)
            break;
        pause_at(look);
    }
    pthread_mutex_lock(&ep->lock);
    __atomic_store_n(&ep->state, VIA_EP_DOWN, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ep->lock);
    VipDisconnect(ep->vi);
}

/* Wait until vipd has returned all descriptors. via_reap_cancel reports the missing ones. */
static void drain(struct via_ep *ep)
{
    uint64_t end_ns = via_now_ns() + DRAIN_NS;

    for (unsigned look = 0; reap_and_look(ep, true) && via_now_ns() < end_ns; look++)
        pause_at(look);
}

static void unlist(struct via_ep *ep)
{
    struct via_fabric *fabric = ep->domain->fabric;
    struct via_ep **at;

    pthread_mutex_lock(&fabric->lock);
    for (at = &fabric->eps; *at != NULL && *at != ep; at = &(*at)->next)
        continue;
    if (*at == ep)
        *at = ep->next;
    pthread_mutex_unlock(&fabric->lock);
}

void via_ep_dismantle(struct via_ep *ep)
{
    bool gone;

    via_ep_disconnect(ep);
    unlist(ep);
    via_post_wait_no_more(ep);
    drain(ep);
    via_cqs_lock(ep);
    pthread_mutex_lock(&ep->lock);
    via_reap_cancel(ep);
    VipSetUserData(ep->vi, NULL);
    gone = VipDestroyVi(ep->vi) == VIP_SUCCESS;
    pthread_mutex_unlock(&ep->lock);
    via_cqs_unlock(ep);
    /* If VipDestroyVi has failed, vipd may still write to the slab: do not free the slab. */
    if (gone || __atomic_load_n(&ep->domain->fabric->lost, __ATOMIC_RELAXED) != 0)
        slab_free(ep);
    else
        VIA_WARN(FI_LOG_EP_CTRL, "VipDestroyVi: %s; its memory is not freed\n", VipxLastError());
}
