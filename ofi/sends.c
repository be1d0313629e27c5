/*
 * Sends that await an answer of the receiver. Some are offers, whose data the receiver fetches.
 * The others are short sends that complete only when a receive has matched them. Each peer has a
 * list of sends that await its answer. An offer's memory stays registered until the answer comes.
 */
#include <stdlib.h>

#include "ofi/rdm.h"

static void send_over(struct via_rdm *rdm, struct via_send *send, int err)
{
    struct via_comp comp = {
        .context = send->context,
        .flags = send->flags & ~(uint64_t)FI_COMPLETION,
        .len = send->len,
        .buf = send->buf,
        .err = err,
    };

    if (send->region != NULL)
        via_region_put(rdm->domain, send->region);
    if (err != 0 || (send->flags & FI_COMPLETION) != 0)
        via_cq_tell(rdm->tx_cq, &comp);
    free(send);
}

static struct via_send *take_send(struct via_peer *peer, struct via_send **at)
{
    struct via_send *send = *at;

    *at = send->next;
    if (*at == NULL)
        peer->sends_end = at;
    return send;
}

uint64_t via_send_flags(const struct via_rdm *rdm, const struct via_message *msg)
{
    uint64_t flags = FI_SEND | (msg->tagged ? FI_TAGGED : FI_MSG);

    if (!rdm->tx_selective || (msg->flags & FI_COMPLETION) != 0)
        flags |= FI_COMPLETION;
    return flags;
}

int via_send_add(struct via_rdm *rdm, struct via_peer *peer, const struct via_message *msg,
                 struct via_head *head, struct via_offer *offer)
{
    struct via_send *send = calloc(1, sizeof(*send));
    int rc = 0;

    if (send == NULL)
        return -FI_ENOMEM;
    *send = (struct via_send){.id = rdm->next_id++,
                              .flags = via_send_flags(rdm, msg),
                              .context = msg->context,
                              .buf = (void *)msg->buf,
                              .len = msg->len};
    if (head->kind == VIA_KIND_OFFER) {
        offer->addr = (uintptr_t)msg->buf;
        if (!peer->is_self)
            rc = via_region_get(rdm->domain, msg->buf, msg->len, FI_REMOTE_READ, &send->region);
        if (rc == 0 && send->region != NULL)
            offer->handle = send->region->handle;
    }
    if (rc != 0) {
        free(send);
        return rc;
    }
    head->answer = 1;
    head->id = send->id;
    *peer->sends_end = send;
    peer->sends_end = &send->next;
    return 0;
}

void via_send_drop(struct via_rdm *rdm, struct via_peer *peer, uint64_t id)
{
    struct via_send **at = &peer->sends, *send;

    while ((*at)->id != id)
        at = &(*at)->next;
    send = take_send(peer, at);
    if (send->region != NULL)
        via_region_put(rdm->domain, send->region);
    free(send);
}

void via_send_answered(struct via_rdm *rdm, struct via_peer *peer, uint64_t id, int err)
{
    for (struct via_send **at = &peer->sends; *at != NULL; at = &(*at)->next) {
        if ((*at)->id == id) {
            send_over(rdm, take_send(peer, at), err);
            return;
        }
    }
    VIA_WARN(FI_LOG_EP_DATA, "an answer to no message\n");
}

void via_sends_fail(struct via_rdm *rdm, struct via_peer *peer)
{
    while (peer->sends != NULL)
        send_over(rdm, take_send(peer, &peer->sends), FI_ECONNRESET);
}
