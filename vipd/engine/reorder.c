/*
 * Held packets: packets that came ahead of their turn. The host keeps their bytes; this file keeps
 * their tokens. Two lists per VI have the packets that wait, in the order of their turns. A third
 * list has the packets that the host must free.
 */
#include "vipd/engine/internal.h"

/*
 * Limits of the search for the place of a new held packet, in comparisons of some ns each. STEPS:
 * the first search goes from the tail back. GAP: the second search goes forward, from the packet
 * that was last put before the tail, or from the head. With 1 % of losses, two packets that are
 * sent again one after the other have places some hundreds of packets apart.
 */
#define SEARCH_STEPS 64u
#define GAP_STEPS    1024u

void eng_held_init(struct eng_vi *vi)
{
    for (unsigned i = 0; i < ENG_STREAMS; i++)
        vi->held[i].head = vi->held[i].tail = vi->held[i].last = ENG_NONE;
    vi->dropped.head = vi->dropped.tail = ENG_NONE;
    vi->held_free = ENG_NONE;
}

static void insert_after(struct eng_vi *vi, struct eng_held_list *list, uint16_t slot,
                         uint16_t prev)
{
    struct eng_held *held = &vi->slot[slot];

    held->prev = prev;
    held->next = prev == ENG_NONE ? list->head : vi->slot[prev].next;
    if (prev == ENG_NONE)
        list->head = slot;
    else
        vi->slot[prev].next = slot;
    if (held->next == ENG_NONE)
        list->tail = slot;
    else
        vi->slot[held->next].prev = slot;
}

/* Find the slot after which a packet belongs; ENG_NONE: it belongs at the head. Search from slot
 * `from` towards the head, in at most SEARCH_STEPS steps. False: not found. */
static bool search_back(const struct eng_vi *vi, struct eng_pos at, uint16_t from, uint16_t *ret)
{
    for (unsigned i = 0; i < SEARCH_STEPS; i++) {
        if (from == ENG_NONE || !eng_pos_before(at, vi->slot[from].at) || VIP_MUTANT(HELD_ORDER)) {
            *ret = from;
            return true;
        }
        from = vi->slot[from].prev;
    }
    return false;
}

/* Find the slot after which a packet belongs; ENG_NONE: it belongs at the head. Search from slot
 * `from` towards the tail, in at most `steps` steps. False: not found. */
static bool search_on(const struct eng_vi *vi, struct eng_pos at, uint16_t from, unsigned steps,
                      uint16_t *ret)
{
    for (unsigned i = 0; i < steps && from != ENG_NONE; i++) {
        if (eng_pos_before(at, vi->slot[from].at)) {
            *ret = vi->slot[from].prev;
            return true;
        }
        from = vi->slot[from].next;
    }
    return false;
}

/*
 * Find the place of a packet. It is nearly always the tail, because packets after a gap come in
 * order. Packets that are sent again also come in order: each belongs after the previous one.
 * Packets in reverse order belong at the head. With another order the search may fail; then the
 * packet is not held, and the peer sends it again.
 */
static bool search(const struct eng_vi *vi, const struct eng_held_list *list, struct eng_pos at,
                   uint16_t *ret)
{
    bool behind = list->last != ENG_NONE && !eng_pos_before(at, vi->slot[list->last].at);

    return search_back(vi, at, list->tail, ret) ||
           search_on(vi, at, behind ? list->last : list->head, GAP_STEPS, ret);
}

bool eng_held_add(struct eng_vi *vi, enum eng_stream stream, struct eng_pos at, uint32_t token)
{
    struct eng_held_list *list = &vi->held[stream];
    uint16_t slot, after;

    VIP_ASSERT(token);
    if (vi->held_count >= vi->eng->config.held_packets_max || !search(vi, list, at, &after))
        return false;
    if (vi->held_free != ENG_NONE) {
        slot = vi->held_free;
        vi->held_free = vi->slot[slot].next;
    } else {
        VIP_ASSERT(vi->held_fresh < ENG_HELD_MAX);
        slot = vi->held_fresh++;
    }
    vi->held_count++;
    vi->slot[slot].token = token;
    vi->slot[slot].at = at;
    insert_after(vi, list, slot, after);
    if (slot != list->tail)
        list->last = slot;
    vi->stats.held++;
    return true;
}

/* Is the packet at the head of a list due? */
static bool due(const struct eng_vi *vi, unsigned stream)
{
    const struct eng_pos *at;

    if (vi->held[stream].head == ENG_NONE)
        return false;
    at = &vi->slot[vi->held[stream].head].at;
    if (stream == ENG_STREAM_OPS)
        return !eng_pos_before(vi->rx.at, *at);
    /* Without an open read every answer is old, and so no answer has to wait. */
    return !vi->reads.open || !eng_pos_before(vi->reads.want, *at);
}

/* Call it after a frame was processed, because a held packet may be due now. */
void eng_held_check(struct eng_vi *vi)
{
    if (due(vi, ENG_STREAM_OPS) || due(vi, ENG_STREAM_READS))
        eng_list_add(vi, ENG_LIST_REPLAY);
}

/* Move all held packets to the list `dropped`, so that the host frees them. */
void eng_held_drop(struct eng_vi *vi)
{
    for (unsigned i = 0; i < ENG_STREAMS; i++) {
        struct eng_held_list *list = &vi->held[i];

        if (list->head == ENG_NONE || VIP_MUTANT(HELD_LEAK))
            continue;
        if (vi->dropped.tail == ENG_NONE)
            vi->dropped.head = list->head;
        else
            vi->slot[vi->dropped.tail].next = list->head;
        vi->dropped.tail = list->tail;
        list->head = list->tail = list->last = ENG_NONE;
        eng_list_add(vi, ENG_LIST_REPLAY);
    }
}

static uint32_t take_head(struct eng_vi *vi, struct eng_held_list *list)
{
    uint16_t slot = list->head;

    if (list->last == slot)
        list->last = ENG_NONE;
    list->head = vi->slot[slot].next;
    if (list->head == ENG_NONE)
        list->tail = ENG_NONE;
    else
        vi->slot[list->head].prev = ENG_NONE;
    vi->slot[slot].next = vi->held_free;
    vi->held_free = slot;
    vi->held_count--;
    return vi->slot[slot].token;
}

/* The VI is destroyed: keep the tokens of its packets in the engine until the host gets them. */
void eng_held_orphan(struct eng_vi *vi)
{
    struct eng *eng = vi->eng;

    while (vi->dropped.head != ENG_NONE) {
        /* There is room, because the host gets all orphans after every eng_vi_destroy. */
        VIP_ASSERT(eng->orphan_count < 2 * ENG_HELD_MAX);
        eng->orphan[eng->orphan_count].token = take_head(vi, &vi->dropped);
        eng->orphan[eng->orphan_count++].vi = vi->index;
    }
}

bool eng_replay(struct eng *eng, uint16_t *ret_vi, uint32_t *ret_token, bool *ret_feed)
{
    struct eng_vi *vi;

    if (eng->orphan_count) {
        eng->orphan_count--;
        *ret_vi = eng->orphan[eng->orphan_count].vi;
        *ret_token = eng->orphan[eng->orphan_count].token;
        *ret_feed = false;
        return true;
    }
    while ((vi = eng_list_first(eng, ENG_LIST_REPLAY))) {
        *ret_vi = vi->index;
        if (vi->dropped.head != ENG_NONE) {
            *ret_token = take_head(vi, &vi->dropped);
            *ret_feed = false;
            return true;
        }
        for (unsigned i = 0; i < ENG_STREAMS; i++) {
            if (!due(vi, i))
                continue;
            *ret_token = take_head(vi, &vi->held[i]);
            *ret_feed = true;
            return true;
        }
        eng_list_del(vi, ENG_LIST_REPLAY);
    }
    return false;
}

bool eng_replay_waits(const struct eng *eng)
{
    return eng->orphan_count || eng->list[ENG_LIST_REPLAY].head != ENG_NONE;
}

unsigned eng_orphans(const struct eng *eng)
{
    return eng->orphan_count;
}
