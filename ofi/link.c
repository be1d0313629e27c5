/*
 * Links: records in rings, RDMA Reads of offered messages, answers (rdm.h has the protocol). What
 * of it completes is handled in link_done.c.
 *
 * The sender tracks the peer's ring: it counts its records and stores where each one ended. Every
 * receive that the peer has posted beyond the first VIA_LINK_RECVS means that one more record is
 * out of the ring. The sender writes from a copy of the ring at the same offset, so that a free
 * place there is free here too. Records do not wrap; the rest at the end of the ring stays empty.
 *
 * Answers and reads without room wait in lists, and their link in the list of busy links; every
 * read of a completion queue tries these again. New messages are refused instead, and their callers
 * try again.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/rdm.h"

static size_t record_bytes(size_t bytes)
{
    return (sizeof(struct via_head) + bytes + VIA_RECORD - 1) & ~(size_t)(VIA_RECORD - 1);
}

/* ---- sending --------------------------------------------------------------------------------- */

/*
 * Where a record of `bytes` bytes can begin, counted like link->head. false: no room in the ring,
 * or no receive of the peer. Under ep->lock, as all here except via_link_post.
 */
static bool find_place(const struct via_link *link, size_t bytes, uint64_t *ret)
{
    uint64_t told = via_post_told(link->ep), begin = link->head, end_of_free = link->ring_bytes;
    size_t at = begin % link->ring_bytes;

    if (told < VIA_LINK_RECVS || link->ep->consumed >= told)
        return false;
    if (told > VIA_LINK_RECVS)
        end_of_free += link->ends[(told - VIA_LINK_RECVS - 1) % VIA_LINK_RECVS];
    if (at + bytes > link->ring_bytes)
        begin += link->ring_bytes - at;
    if (begin + bytes > end_of_free)
        return false;
    *ret = begin;
    return true;
}

static ssize_t may_send(struct via_link *link)
{
    struct via_ep *ep = link->ep;

    if (!link->up || ep->state != VIA_EP_CONNECTED)
        return -FI_ENOTCONN;
    if (via_settings.refuse_every > 0 &&
        ++link->rdm->refuse_count % (uint32_t)via_settings.refuse_every == 0)
        return -FI_EAGAIN;
    return ep->tx_in - ep->tx_out >= ep->tx_size ? -FI_EAGAIN : 0;
}

static ssize_t post_record(struct via_link *link, struct via_head *head, const void *data,
                           size_t bytes, const struct via_op *what)
{
    struct via_ep *ep = link->ep;
    size_t room = record_bytes(bytes), at;
    ssize_t rc = may_send(link);
    VIP_DESCRIPTOR *desc;
    struct via_op *op;
    uint64_t begin;

    if (rc != 0)
        return rc;
    if (!find_place(link, room, &begin))
        return -FI_EAGAIN;
    at = begin % link->ring_bytes;
    link->head = begin + room;
    link->ends[ep->consumed % VIA_LINK_RECVS] = link->head;
    /* The record also carries our credits. */
    head->posted = (uint32_t)ep->rx_in;
    ep->published = ep->rx_in;
    ep->tell_now = false;
    link->untold_bytes = 0;
    memcpy(link->out + at, head, sizeof(*head));
    if (bytes > 0)
        memcpy(link->out + at + sizeof(*head), data, bytes);
    desc = via_post_tx(ep, &op);
    *op = *what;
    via_post_remote(desc, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, link->peer_ring + at,
                    link->peer_handle);
    via_post_segment(desc, 1, link->out + at, sizeof(*head) + bytes, link->out_handle);
    desc->CS.ImmediateData = (VIP_UINT32)(at / VIA_RECORD);
    via_post_send(ep, true);
    return 0;
}

ssize_t via_link_post(struct via_link *link, struct via_head *head, const void *data, size_t bytes,
                      const struct via_op *op)
{
    ssize_t rc;

    pthread_mutex_lock(&link->ep->lock);
    rc = post_record(link, head, data, bytes, op);
    pthread_mutex_unlock(&link->ep->lock);
    return rc;
}

/* ---- answers and reads, which may wait ------------------------------------------------------- */

static void mark_busy(struct via_link *link)
{
    if (link->is_busy)
        return;
    link->is_busy = true;
    link->busy_next = link->rdm->busy;
    link->rdm->busy = link;
}

void via_link_answer(struct via_rdm *rdm, struct via_peer *peer, uint64_t id)
{
    struct via_answer *answer;

    if (peer->is_self) {
        via_send_answered(rdm, peer, id, 0);
        return;
    }
    /* A peer that has ended awaits no answer. */
    if (peer->link == NULL)
        return;
    answer = malloc(sizeof(*answer));
    if (answer == NULL) {
        via_cqs_fail(rdm->domain, "out of memory: an answer is lost");
        return;
    }
    *answer = (struct via_answer){.id = id};
    *peer->link->answers_end = answer;
    peer->link->answers_end = &answer->next;
    mark_busy(peer->link);
}

void via_link_read(struct via_link *link, struct via_want *want)
{
    want->next = NULL;
    *link->reads_end = want;
    link->reads_end = &want->next;
    mark_busy(link);
}

static bool send_answer(struct via_link *link)
{
    struct via_answer *answer = link->answers;
    struct via_head head = {.kind = VIA_KIND_ANSWER, .id = answer->id};
    struct via_op op = {0};

    if (post_record(link, &head, NULL, 0, &op) != 0)
        return false;
    link->answers = answer->next;
    if (link->answers == NULL)
        link->answers_end = &link->answers;
    free(answer);
    return true;
}

/* Start to fetch; transfer.c continues a read that is longer than one descriptor can carry. */
static bool start_read(struct via_link *link)
{
    struct via_want *want = link->reads;
    struct via_ep *ep = link->ep;
    size_t bytes = want->head.bytes < want->len ? want->head.bytes : want->len;

    if (ep->transfer.active || may_send(link) != 0)
        return false;
    ep->transfer = (struct via_transfer){
        .active = true,
        .control = VIP_CONTROL_OP_RDMAREAD,
        .iov_count = 1,
        .iov[0] = {.iov_base = want->buf, .iov_len = bytes},
        .handle[0] = want->region->handle,
        .remote = want->offer.addr,
        .remote_handle = want->offer.handle,
        .left = bytes,
        .op = {.context = want, .flags = FI_READ | FI_COMPLETION},
    };
    link->reads = want->next;
    if (link->reads == NULL)
        link->reads_end = &link->reads;
    via_transfer_go_on(ep);
    return true;
}

/* Post what waits. true: nothing waits any more. */
static bool go_on(struct via_link *link)
{
    bool done;

    if (!link->up)
        return false;
    pthread_mutex_lock(&link->ep->lock);
    while (link->answers != NULL && send_answer(link))
        continue;
    while (link->reads != NULL && start_read(link))
        continue;
    done = link->answers == NULL && link->reads == NULL;
    pthread_mutex_unlock(&link->ep->lock);
    return done;
}

void via_link_go_on(struct via_rdm *rdm)
{
    struct via_link **at = &rdm->busy, *link;

    while ((link = *at) != NULL) {
        if (go_on(link)) {
            *at = link->busy_next;
            link->is_busy = false;
        } else {
            at = &link->busy_next;
        }
    }
}

/* ---- receives -------------------------------------------------------------------------------- */

ssize_t via_link_receive(struct via_link *link)
{
    struct via_op *op;
    VIP_DESCRIPTOR *desc = via_post_rx(link->ep, &op);

    op->context = link;
    op->flags = FI_RECV | FI_MSG | FI_COMPLETION;
    return via_post_recv(link->ep, desc);
}

/* posted: the low half of the peer's count. It is either slightly ahead of ours, or old. */
static void learn_credit(struct via_ep *ep, uint32_t posted)
{
    uint32_t more = posted - (uint32_t)ep->peer_posted;

    if (more < UINT32_MAX / 2)
        ep->peer_posted += more;
}

void via_link_taken(struct via_link *link, uint32_t posted, size_t bytes)
{
    struct via_ep *ep = link->ep;
    bool failed;

    if (ep == NULL)
        return;
    pthread_mutex_lock(&ep->lock);
    learn_credit(ep, posted);
    link->untold_bytes += record_bytes(bytes);
    /* Long records fill the ring before a batch of credits is full: send credits now. */
    if (link->untold_bytes >= link->ring_bytes / 4) {
        link->untold_bytes = 0;
        ep->tell_now = true;
    }
    failed = via_link_receive(link) != 0 && ep->state == VIA_EP_CONNECTED;
    pthread_mutex_unlock(&ep->lock);
    if (failed)
        via_cqs_fail(link->rdm->domain, "no receive can be posted");
}
