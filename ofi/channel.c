/*
 * Channels: records in rings, RDMA Reads of offered messages, answers (rdm.h has the protocol).
 * channel_done.c handles their completions.
 *
 * The sender knows which parts of the peer's ring are free. It counts its records and stores the
 * end of each record. The peer first posts VIA_CHANNEL_RECVS receives; each further receive means
 * that one more record is out of the ring. The sender makes a record in its copy of the ring, at
 * the same offset, and the RDMA Write reads it there. A record does not continue at the start of
 * the ring: if it does not fit at the end, the rest of the ring stays empty.
 *
 * An answer or an RDMA Read that finds no room waits in a list, and its channel is in the list of
 * busy channels. Every fi_cq_read tries to post the answers and RDMA Reads that wait. If there is
 * no room for a new message, the send call returns -FI_EAGAIN, and the program calls again.
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
 * Find the place where a record of `bytes` bytes can begin, as a count like channel->head. false:
 * no room in the ring, or no receive descriptor of the peer is left. Under ep->lock, as all
 * functions of this section except via_channel_post.
 */
static bool find_place(const struct via_channel *channel, size_t bytes, uint64_t *ret)
{
    uint64_t told = via_post_told(channel->ep), begin = channel->head,
             end_of_free = channel->ring_bytes;
    size_t at = begin % channel->ring_bytes;

    if (told < VIA_CHANNEL_RECVS || channel->ep->consumed >= told)
        return false;
    if (told > VIA_CHANNEL_RECVS)
        end_of_free += channel->ends[(told - VIA_CHANNEL_RECVS - 1) % VIA_CHANNEL_RECVS];
    if (at + bytes > channel->ring_bytes)
        begin += channel->ring_bytes - at;
    if (begin + bytes > end_of_free)
        return false;
    *ret = begin;
    return true;
}

static ssize_t may_send(struct via_channel *channel)
{
    struct via_ep *ep = channel->ep;

    if (!channel->up || ep->state != VIA_EP_CONNECTED)
        return -FI_ENOTCONN;
    if (via_settings.refuse_every > 0 &&
        ++channel->rdm->refuse_count % (uint32_t)via_settings.refuse_every == 0)
        return -FI_EAGAIN;
    return ep->tx_in - ep->tx_out >= ep->tx_size ? -FI_EAGAIN : 0;
}

static ssize_t post_record(struct via_channel *channel, struct via_head *head, const void *data,
                           size_t bytes, const struct via_op *what)
{
    struct via_ep *ep = channel->ep;
    size_t room = record_bytes(bytes), at;
    ssize_t rc = may_send(channel);
    VIP_DESCRIPTOR *desc;
    struct via_op *op;
    uint64_t begin;

    if (rc != 0)
        return rc;
    if (!find_place(channel, room, &begin))
        return -FI_EAGAIN;
    at = begin % channel->ring_bytes;
    channel->head = begin + room;
    channel->ends[ep->consumed % VIA_CHANNEL_RECVS] = channel->head;
    /* The record also tells the peer its credits: how many receives we have posted. */
    head->posted = (uint32_t)ep->rx_in;
    ep->published = ep->rx_in;
    ep->tell_now = false;
    channel->untold_bytes = 0;
    memcpy(channel->out + at, head, sizeof(*head));
    if (bytes > 0)
        memcpy(channel->out + at + sizeof(*head), data, bytes);
    desc = via_post_tx(ep, &op);
    *op = *what;
    via_post_remote(desc, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, channel->peer_ring + at,
                    channel->peer_handle);
    via_post_segment(desc, 1, channel->out + at, sizeof(*head) + bytes, channel->out_handle);
    desc->CS.ImmediateData = (VIP_UINT32)(at / VIA_RECORD);
    via_post_send(ep, true);
    return 0;
}

ssize_t via_channel_post(struct via_channel *channel, struct via_head *head, const void *data,
                         size_t bytes, const struct via_op *op)
{
    ssize_t rc;

    pthread_mutex_lock(&channel->ep->lock);
    rc = post_record(channel, head, data, bytes, op);
    pthread_mutex_unlock(&channel->ep->lock);
    return rc;
}

/* ---- answers and reads ----------------------------------------------------------------------- */

static void mark_busy(struct via_channel *channel)
{
    if (channel->is_busy)
        return;
    channel->is_busy = true;
    channel->busy_next = channel->rdm->busy;
    channel->rdm->busy = channel;
}

void via_channel_answer(struct via_rdm *rdm, struct via_peer *peer, uint64_t id)
{
    struct via_answer *answer;

    if (peer->is_self) {
        via_send_answered(rdm, peer, id, 0);
        return;
    }
    /* If the peer has ended, it needs no answer. */
    if (peer->channel == NULL)
        return;
    answer = malloc(sizeof(*answer));
    if (answer == NULL) {
        via_cqs_fail(rdm->domain, "out of memory: an answer is lost");
        return;
    }
    *answer = (struct via_answer){.id = id};
    *peer->channel->answers_end = answer;
    peer->channel->answers_end = &answer->next;
    mark_busy(peer->channel);
}

void via_channel_read(struct via_channel *channel, struct via_want *want)
{
    want->next = NULL;
    *channel->reads_end = want;
    channel->reads_end = &want->next;
    mark_busy(channel);
}

static bool send_answer(struct via_channel *channel)
{
    struct via_answer *answer = channel->answers;
    struct via_head head = {.kind = VIA_KIND_ANSWER, .id = answer->id};
    struct via_op op = {0};

    if (post_record(channel, &head, NULL, 0, &op) != 0)
        return false;
    channel->answers = answer->next;
    if (channel->answers == NULL)
        channel->answers_end = &channel->answers;
    free(answer);
    return true;
}

/* Start the first waiting RDMA Read as a transfer (transfer.c). false: no room to post it. */
static bool start_read(struct via_channel *channel)
{
    struct via_want *want = channel->reads;
    struct via_ep *ep = channel->ep;
    size_t bytes = want->head.bytes < want->len ? want->head.bytes : want->len;

    if (ep->transfer.active || may_send(channel) != 0)
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
    channel->reads = want->next;
    if (channel->reads == NULL)
        channel->reads_end = &channel->reads;
    via_transfer_go_on(ep);
    return true;
}

/* Post the waiting answers and RDMA Reads of a channel. true: nothing waits any more. */
static bool go_on(struct via_channel *channel)
{
    bool done;

    if (!channel->up)
        return false;
    pthread_mutex_lock(&channel->ep->lock);
    while (channel->answers != NULL && send_answer(channel))
        continue;
    while (channel->reads != NULL && start_read(channel))
        continue;
    done = channel->answers == NULL && channel->reads == NULL;
    pthread_mutex_unlock(&channel->ep->lock);
    return done;
}

void via_channel_go_on(struct via_rdm *rdm)
{
    struct via_channel **at = &rdm->busy, *channel;

    while ((channel = *at) != NULL) {
        if (go_on(channel)) {
            *at = channel->busy_next;
            channel->is_busy = false;
        } else {
            at = &channel->busy_next;
        }
    }
}

/* ---- receives -------------------------------------------------------------------------------- */

ssize_t via_channel_receive(struct via_channel *channel)
{
    struct via_op *op;
    VIP_DESCRIPTOR *desc = via_post_rx(channel->ep, &op);

    op->context = channel;
    op->flags = FI_RECV | FI_MSG | FI_COMPLETION;
    return via_post_recv(channel->ep, desc);
}

/* posted: the low 32 bits of the number of receives that the peer has posted. A value below
 * ep->peer_posted is old: ignore it. */
static void learn_credit(struct via_ep *ep, uint32_t posted)
{
    uint32_t more = posted - (uint32_t)ep->peer_posted;

    if (more < UINT32_MAX / 2)
        ep->peer_posted += more;
}

void via_channel_taken(struct via_channel *channel, uint32_t posted, size_t bytes)
{
    struct via_ep *ep = channel->ep;
    bool failed;

    if (ep == NULL)
        return;
    pthread_mutex_lock(&ep->lock);
    learn_credit(ep, posted);
    channel->untold_bytes += record_bytes(bytes);
    /* Long records fill the ring after few messages: send credits before a batch is full. */
    if (channel->untold_bytes >= channel->ring_bytes / 4) {
        channel->untold_bytes = 0;
        ep->tell_now = true;
    }
    failed = via_channel_receive(channel) != 0 && ep->state == VIA_EP_CONNECTED;
    pthread_mutex_unlock(&ep->lock);
    if (failed)
        via_cqs_fail(channel->rdm->domain, "no receive can be posted");
}
