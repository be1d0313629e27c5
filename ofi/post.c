/*
 * Posting of descriptors, and credits.
 *
 * If the peer has no receive descriptor for a send or for an RDMA Write with immediate data, the
 * connection ends. So each side counts the receives that it has posted since the start, and writes
 * this number into the peer's control page. The RDMA Write of the number uses up no receive. The
 * peer counts the receives that it has used up, and sends nothing when it has used up all. A batch
 * is a quarter of the posted receives, at most FI_VIA_CREDIT_BATCH. A side writes the number when
 * the peer does not know of a whole batch, or has less than a batch of credits left.
 *
 * A send without a credit waits in its descriptor, and all later sends wait, too. If no descriptor
 * is free, a call returns -FI_EAGAIN. New credits change only a word in memory, which wakes no
 * thread. So every read of a completion queue posts the waiting sends of its domain. While sends
 * wait, fi_trywait returns -FI_EAGAIN, and fi_cq_sread sleeps at most a millisecond at a time.
 */
#include <string.h>

#include "ofi/calls.h"

size_t via_iov_bytes(const struct iovec *iov, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

uint64_t via_post_told(const struct via_ep *ep)
{
    uint64_t told = __atomic_load_n(&ep->control->peer_posted, __ATOMIC_ACQUIRE);

    return told > ep->peer_posted ? told : ep->peer_posted;
}

ssize_t via_post_may_send(struct via_ep *ep)
{
    if (ep->state != VIA_EP_CONNECTED)
        return ep->state == VIA_EP_PENDING ? -FI_EAGAIN : -FI_ENOTCONN;
    if (via_settings.refuse_every > 0 &&
        ++ep->refuse_count % (uint32_t)via_settings.refuse_every == 0)
        return -FI_EAGAIN;
    return ep->transfer.active || ep->tx_in - ep->tx_out >= ep->tx_size ? -FI_EAGAIN : 0;
}

static VIP_DESCRIPTOR *descriptor(char *base, size_t index)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)(base + index * VIA_DESC_BYTES);

    memset(&desc->CS, 0, sizeof(desc->CS));
    return desc;
}

VIP_DESCRIPTOR *via_post_tx(struct via_ep *ep, struct via_op **ret_op)
{
    size_t index = ep->tx_in % ep->tx_size;

    memset(&ep->tx_op[index], 0, sizeof(ep->tx_op[index]));
    *ret_op = &ep->tx_op[index];
    return descriptor(ep->tx_desc, index);
}

VIP_DESCRIPTOR *via_post_rx(struct via_ep *ep, struct via_op **ret_op)
{
    size_t index = ep->rx_in % ep->rx_size;

    memset(&ep->rx_op[index], 0, sizeof(ep->rx_op[index]));
    *ret_op = &ep->rx_op[index];
    return descriptor(ep->rx_desc, index);
}

void via_post_segment(VIP_DESCRIPTOR *desc, unsigned at, const void *addr, size_t bytes,
                      VIP_MEM_HANDLE handle)
{
    /* Data segments follow the control segment. `at` may exceed the array of VIP_DESCRIPTOR. */
    VIP_DATA_SEGMENT *seg = (VIP_DATA_SEGMENT *)(void *)((char *)desc + sizeof(desc->CS)) + at;

    seg->Data.AddressBits = (uintptr_t)addr;
    seg->Handle = handle;
    seg->Length = (VIP_UINT32)bytes;
    desc->CS.Length += (VIP_UINT32)bytes;
    desc->CS.SegCount++;
}

int via_post_segments(VIP_DESCRIPTOR *desc, unsigned at, const struct iovec *iov, void **mr,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (iov[i].iov_len == 0)
            continue;
        if (mr == NULL || mr[i] == NULL)
            return -FI_EINVAL;
        via_post_segment(desc, at++, iov[i].iov_base, iov[i].iov_len,
                         ((const struct via_mr *)mr[i])->region->handle);
    }
    return 0;
}

void via_post_remote(VIP_DESCRIPTOR *desc, uint16_t control, uint64_t addr, uint32_t handle)
{
    desc->CS.Control = control;
    desc->CS.SegCount = 1;
    desc->DS[0].Remote.Data.AddressBits = addr;
    desc->DS[0].Remote.Handle = handle;
    desc->DS[0].Remote.Reserved = 0;
}

void via_post_inject(struct via_ep *ep, VIP_DESCRIPTOR *desc, unsigned at, const void *buf,
                     size_t bytes)
{
    char *slot = ep->inject + (ep->tx_in % ep->tx_size) * ep->inject_bytes;

    if (bytes == 0)
        return;
    memcpy(slot, buf, bytes);
    via_post_segment(desc, at, slot, bytes, ep->slab_handle);
}

void via_post_push(struct via_ep *ep)
{
    while (ep->tx_posted != ep->tx_in) {
        size_t index = ep->tx_posted % ep->tx_size;
        bool consumes = ep->tx_op[index].consumes;

        /* Without a connection a send needs no credit: VIPL returns every descriptor at once. */
        if (consumes && ep->state == VIA_EP_CONNECTED && ep->consumed >= via_post_told(ep))
            return;
        if (VipPostSend(ep->vi, (VIP_DESCRIPTOR *)(void *)(ep->tx_desc + index * VIA_DESC_BYTES),
                        ep->slab_handle) != VIP_SUCCESS) {
            VIA_WARN(FI_LOG_EP_DATA, "VipPostSend: %s\n", VipxLastError());
            return;
        }
        ep->tx_posted++;
        ep->consumed += consumes;
    }
}

void via_post_send(struct via_ep *ep, bool consumes)
{
    ep->tx_op[ep->tx_in % ep->tx_size].consumes = consumes;
    ep->tx_in++;
    via_post_push(ep);
}

/* ---- endpoints that wait for credits --------------------------------------------------------- */

void via_post_wait(struct via_ep *ep)
{
    struct via_domain *domain = ep->domain;

    pthread_mutex_lock(&domain->wait_lock);
    if (!ep->wait_listed) {
        ep->wait_listed = true;
        ep->wait_next = domain->waiting;
        domain->waiting = ep;
        __atomic_add_fetch(&domain->waiting_count, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&domain->wait_lock);
}

static void unlist(struct via_domain *domain, struct via_ep **at)
{
    (*at)->wait_listed = false;
    *at = (*at)->wait_next;
    __atomic_sub_fetch(&domain->waiting_count, 1, __ATOMIC_RELEASE);
}

void via_post_push_all(struct via_domain *domain)
{
    struct via_ep **at = &domain->waiting, *ep;

    pthread_mutex_lock(&domain->wait_lock);
    while ((ep = *at) != NULL) {
        bool done;

        pthread_mutex_lock(&ep->lock);
        via_post_push(ep);
        done = ep->tx_posted == ep->tx_in;
        pthread_mutex_unlock(&ep->lock);
        if (done)
            unlist(domain, at);
        else
            at = &ep->wait_next;
    }
    pthread_mutex_unlock(&domain->wait_lock);
}

void via_post_wait_no_more(struct via_ep *ep)
{
    struct via_domain *domain = ep->domain;

    pthread_mutex_lock(&domain->wait_lock);
    for (struct via_ep **at = &domain->waiting; *at != NULL; at = &(*at)->wait_next) {
        if (*at == ep) {
            unlist(domain, at);
            break;
        }
    }
    pthread_mutex_unlock(&domain->wait_lock);
}

ssize_t via_post_recv(struct via_ep *ep, VIP_DESCRIPTOR *desc)
{
    VIP_RETURN code = VipPostRecv(ep->vi, desc, ep->slab_handle);

    if (code != VIP_SUCCESS) {
        VIA_WARN(FI_LOG_EP_DATA, "VipPostRecv: %s\n", VipxLastError());
        return code == VIP_ERROR_RESOURCE ? -FI_EAGAIN : via_errno(code);
    }
    ep->rx_in++;
    via_post_credits(ep);
    return 0;
}

/* ---- writes to the peer's control page ------------------------------------------------------- */

/* Write a word of our control page to offset `to` of the peer's control page. index: the descriptor
 * to use. */
static bool write_word(struct via_ep *ep, size_t index, const uint64_t *from, size_t to)
{
    VIP_DESCRIPTOR *desc = descriptor(ep->tx_desc, index);

    via_post_remote(desc, VIP_CONTROL_OP_RDMAWRITE, ep->peer_control + to, ep->peer_handle);
    via_post_segment(desc, 1, from, sizeof(*from), ep->control_handle);
    return VipPostSend(ep->vi, desc, ep->slab_handle) == VIP_SUCCESS;
}

void via_post_credits(struct via_ep *ep)
{
    uint64_t untold = ep->rx_in - ep->published, left = ep->published - ep->rx_out;
    uint64_t batch = (ep->rx_in - ep->rx_out) / 4;

    if (ep->state != VIA_EP_CONNECTED || ep->publishing || untold == 0)
        return;
    if (batch > (uint64_t)via_settings.credit_batch)
        batch = (uint64_t)via_settings.credit_batch;
    /* left: the peer's unused credits; negative if it uses receives that our hello lacked. */
    if (untold < batch && (int64_t)left >= (int64_t)batch && !ep->tell_now)
        return;
    ep->control->own_posted = ep->rx_in;
    if (write_word(ep, ep->tx_size, &ep->control->own_posted,
                   offsetof(struct via_control, peer_posted))) {
        __atomic_store_n(&ep->publishing, true, __ATOMIC_RELAXED);
        ep->published = ep->rx_in;
        ep->tell_now = false;
    }
}

void via_post_bye(struct via_ep *ep)
{
    if (ep->state != VIA_EP_CONNECTED || ep->saying_bye)
        return;
    ep->control->own_bye = 1;
    ep->saying_bye = write_word(ep, ep->tx_size + 1, &ep->control->own_bye,
                                offsetof(struct via_control, peer_bye));
}
