/*
 * Matches messages with the receives (struct via_want) that the program has posted. One list has
 * the receives that wait for a message, another list has the early messages, which wait for a
 * receive. Each list is in the order of arrival, and the oldest match wins. Tagged messages have
 * their own two lists. An early message is also in a list of its peer.
 *
 * This file copies early messages out of the ring at once. Their number has no limit, so a program
 * can fill the memory of another program with early messages. MPI allows this.
 */
#include <stdlib.h>
#include <string.h>

#include "ofi/rdm.h"

static bool takes(const struct via_want *want, const struct via_peer *from, uint64_t tag)
{
    return (want->peer == NULL || want->peer == from) && ((want->tag ^ tag) & ~want->ignore) == 0;
}

/* ---- completions for the program ------------------------------------------------------------- */

static struct via_comp describe(const struct via_head *head)
{
    struct via_comp comp = {
        .flags = FI_RECV | (head->tagged ? FI_TAGGED : FI_MSG),
        .len = head->bytes,
        .data = head->data,
        .tag = head->tag,
    };

    if (head->has_data)
        comp.flags |= FI_REMOTE_CQ_DATA;
    return comp;
}

/* Report the completion of a receive, and free `want`. */
static void finish(struct via_rdm *rdm, struct via_want *want, const struct via_head *head, int err,
                   int prov_errno)
{
    struct via_comp comp = describe(head);

    comp.context = want->context;
    comp.buf = want->buf;
    comp.err = err;
    comp.prov_errno = prov_errno;
    if (err == 0 && head->bytes > want->len) {
        comp.err = FI_ETRUNC;
        comp.olen = head->bytes - want->len;
        comp.len = want->len;
    }
    if (comp.err != 0 || !want->silent)
        via_cq_tell(rdm->rx_cq, &comp);
    free(want);
}

void via_match_fetched(struct via_rdm *rdm, struct via_want *want, int err, int prov_errno)
{
    if (want->region != NULL)
        via_region_put(rdm->domain, want->region);
    /* Answer even after an error: the sender keeps the data until it gets the answer. */
    via_channel_answer(rdm, want->from, want->head.id);
    finish(rdm, want, &want->head, err, prov_errno);
}

/* ---- one receive and one message ------------------------------------------------------------- */

static void fetch(struct via_rdm *rdm, struct via_want *want)
{
    size_t bytes = want->head.bytes < want->len ? want->head.bytes : want->len;

    if (want->from->is_self || bytes == 0) {
        /* An endpoint's message to itself: its data are in memory of this program. */
        if (bytes > 0)
            memcpy(want->buf, (const void *)(uintptr_t)want->offer.addr, bytes);
        via_match_fetched(rdm, want, 0, 0);
        return;
    }
    if (want->from->channel == NULL)
        via_match_fetched(rdm, want, FI_ECONNRESET, 0);
    else if (via_region_get(rdm->domain, want->buf, bytes, 0, &want->region) != 0)
        via_match_fetched(rdm, want, FI_ENOMEM, 0);
    else
        via_channel_read(want->from->channel, want);
}

static void deliver(struct via_rdm *rdm, struct via_want *want, struct via_peer *peer,
                    const struct via_head *head, const void *data)
{
    size_t bytes = head->bytes < want->len ? head->bytes : want->len;

    switch ((enum via_kind)head->kind) {
    case VIA_KIND_OFFER:
        want->from = peer;
        want->head = *head;
        memcpy(&want->offer, data, sizeof(want->offer));
        fetch(rdm, want);
        break;
    case VIA_KIND_EAGER:
        if (bytes > 0)
            memcpy(want->buf, data, bytes);
        if (head->answer)
            via_channel_answer(rdm, peer, head->id);
        finish(rdm, want, head, 0, 0);
        break;
    case VIA_KIND_LOST:
    case VIA_KIND_ANSWER:
        finish(rdm, want, head, FI_ECONNRESET, 0);
        break;
    }
}

/* ---- early messages -------------------------------------------------------------------------- */

static void list_add(struct via_early_list *list, struct via_early *early,
                     enum via_early_list_kind kind)
{
    early->next[kind] = NULL;
    early->prev[kind] = list->last;
    if (list->last == NULL)
        list->first = early;
    else
        list->last->next[kind] = early;
    list->last = early;
}

static void list_remove(struct via_early_list *list, struct via_early *early,
                        enum via_early_list_kind kind)
{
    struct via_early *next = early->next[kind], *prev = early->prev[kind];

    if (prev == NULL)
        list->first = next;
    else
        prev->next[kind] = next;
    if (next == NULL)
        list->last = prev;
    else
        next->prev[kind] = prev;
}

static void add_early(struct via_rdm *rdm, struct via_early *early)
{
    list_add(&rdm->earlies[early->head.tagged], early, VIA_OF_ALL);
    list_add(&early->peer->earlies[early->head.tagged], early, VIA_OF_PEER);
}

static void remove_early(struct via_rdm *rdm, struct via_early *early)
{
    list_remove(&rdm->earlies[early->head.tagged], early, VIA_OF_ALL);
    list_remove(&early->peer->earlies[early->head.tagged], early, VIA_OF_PEER);
}

/* Find the oldest early message that matches `want`. NULL: no message matches. */
static struct via_early *find_early(struct via_rdm *rdm, const struct via_want *want, bool tagged)
{
    enum via_early_list_kind kind = want->peer == NULL ? VIA_OF_ALL : VIA_OF_PEER;
    struct via_early *early =
        want->peer == NULL ? rdm->earlies[tagged].first : want->peer->earlies[tagged].first;

    while (early != NULL && !takes(want, early->peer, early->head.tag))
        early = early->next[kind];
    return early;
}

/* ---- calls ----------------------------------------------------------------------------------- */

void via_match_arrived(struct via_rdm *rdm, struct via_peer *peer, const struct via_head *head,
                       const void *data, size_t data_bytes)
{
    struct via_early *early;

    for (struct via_want **at = &rdm->wants[head->tagged]; *at != NULL; at = &(*at)->next) {
        struct via_want *want = *at;

        if (!takes(want, peer, head->tag))
            continue;
        *at = want->next;
        if (*at == NULL)
            rdm->wants_end[head->tagged] = at;
        deliver(rdm, want, peer, head, data);
        return;
    }
    early = malloc(sizeof(*early) + data_bytes);
    if (early == NULL) {
        via_cqs_fail(rdm->domain, "out of memory: a message is lost");
        return;
    }
    early->peer = peer;
    early->head = *head;
    early->claimed_by = NULL;
    if (data_bytes > 0)
        memcpy(early->data, data, data_bytes);
    add_early(rdm, early);
}

void via_match_want(struct via_rdm *rdm, struct via_want *want, bool tagged)
{
    struct via_early *early = find_early(rdm, want, tagged);

    if (early != NULL) {
        remove_early(rdm, early);
        deliver(rdm, want, early->peer, &early->head, early->data);
        free(early);
        return;
    }
    want->next = NULL;
    *rdm->wants_end[tagged] = want;
    rdm->wants_end[tagged] = &want->next;
}

void via_match_peek(struct via_rdm *rdm, const struct via_want *what, bool tagged, bool claim)
{
    struct via_early *early = find_early(rdm, what, tagged);
    struct via_comp comp = {.flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG), .err = FI_ENOMSG};

    if (early != NULL)
        comp = describe(&early->head);
    comp.context = what->context;
    if (early != NULL && claim) {
        remove_early(rdm, early);
        early->claimed_by = what->context;
        early->next[VIA_OF_ALL] = rdm->claimed;
        rdm->claimed = early;
    }
    via_cq_tell(rdm->rx_cq, &comp);
}

/* Remove and return the message that FI_CLAIM reserved with this context. NULL: no such message. */
static struct via_early *take_claimed(struct via_rdm *rdm, const void *context)
{
    struct via_early *early;

    for (struct via_early **at = &rdm->claimed; (early = *at) != NULL;
         at = &early->next[VIA_OF_ALL]) {
        if (early->claimed_by == context) {
            *at = early->next[VIA_OF_ALL];
            return early;
        }
    }
    return NULL;
}

ssize_t via_match_claimed(struct via_rdm *rdm, struct via_want *want)
{
    struct via_early *early = take_claimed(rdm, want->context);

    if (early == NULL)
        return -FI_EINVAL;
    deliver(rdm, want, early->peer, &early->head, early->data);
    free(early);
    return 0;
}

ssize_t via_match_discard(struct via_rdm *rdm, void *context)
{
    struct via_early *early = take_claimed(rdm, context);
    struct via_comp comp;

    if (early == NULL)
        return -FI_EINVAL;
    comp = describe(&early->head);
    comp.context = context;
    if (early->head.answer && early->head.kind != VIA_KIND_LOST)
        via_channel_answer(rdm, early->peer, early->head.id);
    free(early);
    via_cq_tell(rdm->rx_cq, &comp);
    return 0;
}

ssize_t via_match_cancel(struct via_rdm *rdm, void *context)
{
    for (int tagged = 0; tagged < 2; tagged++) {
        for (struct via_want **at = &rdm->wants[tagged]; *at != NULL; at = &(*at)->next) {
            struct via_want *want = *at;
            struct via_head none = {.tagged = (uint8_t)tagged, .tag = want->tag};

            if (want->context != context)
                continue;
            *at = want->next;
            if (*at == NULL)
                rdm->wants_end[tagged] = at;
            finish(rdm, want, &none, FI_ECANCELED, 0);
            return 0;
        }
    }
    return -FI_ENOENT;
}

static void spoil(struct via_early *list, enum via_early_list_kind kind,
                  const struct via_peer *peer)
{
    for (struct via_early *early = list; early != NULL; early = early->next[kind])
        if (early->peer == peer && early->head.kind == VIA_KIND_OFFER)
            early->head.kind = VIA_KIND_LOST;
}

void via_match_lost(struct via_rdm *rdm, const struct via_peer *peer)
{
    spoil(peer->earlies[0].first, VIA_OF_PEER, peer);
    spoil(peer->earlies[1].first, VIA_OF_PEER, peer);
    spoil(rdm->claimed, VIA_OF_ALL, peer);
}

static void drop_earlies(struct via_early *list)
{
    for (struct via_early *next; list != NULL; list = next) {
        next = list->next[VIA_OF_ALL];
        free(list);
    }
}

void via_match_drop(struct via_rdm *rdm)
{
    for (int tagged = 0; tagged < 2; tagged++) {
        struct via_want *want;

        while ((want = rdm->wants[tagged]) != NULL) {
            struct via_head none = {.tagged = (uint8_t)tagged, .tag = want->tag};

            rdm->wants[tagged] = want->next;
            finish(rdm, want, &none, FI_ECANCELED, 0);
        }
        drop_earlies(rdm->earlies[tagged].first);
    }
    drop_earlies(rdm->claimed);
}
