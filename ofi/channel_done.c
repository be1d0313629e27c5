/*
 * The completions of channels. reap.c puts them into the list of the core; this file takes them
 * out. It gives a record of the peer to match.c, but an answer to sends.c. An RDMA Read completes
 * the receive that it has filled. Other completions are those of the program's sends.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/rdm.h"

/* Handle the record at offset `at` of the ring. Copy its head first, because the peer can change
 * the ring. false: the record is invalid. */
static bool take_record(struct via_channel *channel, size_t at)
{
    const char *data = channel->in + at + sizeof(struct via_head);
    struct via_rdm *rdm = channel->rdm;
    struct via_head head;
    size_t room, bytes = 0;

    if (at > channel->ring_bytes - sizeof(head))
        return false;
    memcpy(&head, channel->in + at, sizeof(head));
    room = channel->ring_bytes - sizeof(head) - at;
    head.tagged = head.tagged != 0;
    switch (head.kind) {
    case VIA_KIND_ANSWER:
        via_send_answered(rdm, channel->peer, head.id, 0);
        break;
    case VIA_KIND_EAGER:
        bytes = head.bytes;
        break;
    case VIA_KIND_OFFER:
        bytes = sizeof(struct via_offer);
        break;
    default:
        return false;
    }
    if (bytes > room)
        return false;
    if (head.kind != VIA_KIND_ANSWER)
        via_match_arrived(rdm, channel->peer, &head, data, bytes);
    via_channel_taken(channel, head.posted, bytes);
    return true;
}

/* A receive descriptor of a channel has completed. */
static void received(const struct via_comp *comp)
{
    struct via_channel *channel = comp->context;

    /* After an error the channel has ended; peer.c handles this. */
    if (comp->err != 0)
        return;
    if ((comp->flags & FI_REMOTE_CQ_DATA) == 0 ||
        !take_record(channel, (size_t)comp->data * VIA_RECORD))
        via_cqs_fail(channel->rdm->domain, "a peer sends what makes no sense");
}

void via_channel_take_done(struct via_rdm *rdm)
{
    const struct via_comp *comp;

    while ((comp = via_cq_take(rdm->core)) != NULL) {
        if ((comp->flags & (FI_RECV | FI_REMOTE_WRITE)) != 0)
            received(comp);
        else if ((comp->flags & FI_READ) != 0)
            via_match_fetched(rdm, comp->context, comp->err, comp->prov_errno);
        else
            via_cq_tell(rdm->tx_cq, comp);
    }
}

void via_channel_fail(struct via_channel *channel)
{
    struct via_channel **at = &channel->rdm->busy;
    struct via_answer *answer;
    struct via_want *want;

    while (*at != NULL && *at != channel)
        at = &(*at)->busy_next;
    if (*at == channel)
        *at = channel->busy_next;
    while ((answer = channel->answers) != NULL) {
        channel->answers = answer->next;
        free(answer);
    }
    while ((want = channel->reads) != NULL) {
        channel->reads = want->next;
        via_match_fetched(channel->rdm, want, FI_ECONNRESET, VIP_STATUS_DESC_FLUSHED_ERROR);
    }
}
