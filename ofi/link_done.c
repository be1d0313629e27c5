/*
 * What has completed on links. reap.c puts completions of links, as those of all endpoints, into
 * the list of their completion queue, the core. Here they are taken out: a record of the peer goes
 * to matching or to the send that it answers, an RDMA Read to the receive that it fills, and
 * another send of ours to the program.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/rdm.h"

/* Handle the record at this place of the ring; its head is copied once. false: it is invalid. */
static bool take_record(struct via_link *link, size_t at)
{
    const char *data = link->in + at + sizeof(struct via_head);
    struct via_rdm *rdm = link->rdm;
    struct via_head head;
    size_t room, bytes = 0;

    if (at > link->ring_bytes - sizeof(head))
        return false;
    memcpy(&head, link->in + at, sizeof(head));
    room = link->ring_bytes - sizeof(head) - at;
    head.tagged = head.tagged != 0;
    switch (head.kind) {
    case VIA_KIND_ANSWER:
        via_send_answered(rdm, link->peer, head.id, 0);
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
        via_match_arrived(rdm, link->peer, &head, data, bytes);
    via_link_taken(link, head.posted, bytes);
    return true;
}

/* A receive of a link is used up. */
static void received(const struct via_comp *comp)
{
    struct via_link *link = comp->context;

    /* The link has ended; the fabric reports why. */
    if (comp->err != 0)
        return;
    if ((comp->flags & FI_REMOTE_CQ_DATA) == 0 ||
        !take_record(link, (size_t)comp->data * VIA_RECORD))
        via_cqs_fail(link->rdm->domain, "a peer sends what makes no sense");
}

void via_link_take_done(struct via_rdm *rdm)
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

void via_link_fail(struct via_link *link)
{
    struct via_link **at = &link->rdm->busy;
    struct via_answer *answer;
    struct via_want *want;

    while (*at != NULL && *at != link)
        at = &(*at)->busy_next;
    if (*at == link)
        *at = link->busy_next;
    while ((answer = link->answers) != NULL) {
        link->answers = answer->next;
        free(answer);
    }
    while ((want = link->reads) != NULL) {
        link->reads = want->next;
        via_match_fetched(link->rdm, want, FI_ECONNRESET, VIP_STATUS_DESC_FLUSHED_ERROR);
    }
}
