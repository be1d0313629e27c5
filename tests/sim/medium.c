#include "tests/sim/medium.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rand.h"

/* A packet, or a report of the end of a connection, that is under way. */
struct event {
    uint64_t at_ns, order;
    struct medium_arrival arrival;
};

struct transmitter {
    uint64_t free_ns;         /* time at which the transmitter is free again */
    uint64_t last_arrival_ns; /* latest arrival of its packets that stay in order */
};

struct medium {
    struct medium_link link;
    struct sim_rand rand;
    uint64_t order, lost;
    struct {
        unsigned host;
        uint64_t number; /* 0: the place is unused */
    } drop[MEDIUM_DROPS_MAX];
    struct event *event; /* a binary heap, ordered by time */
    unsigned events, events_room;
    struct transmitter transmitter[]; /* index: the host */
};

/* ---- events ---------------------------------------------------------------------------- */

static bool sooner(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void event_push(struct medium *medium, struct event event)
{
    unsigned at = medium->events++;

    if (medium->events > medium->events_room) {
        medium->events_room = medium->events_room ? 2 * medium->events_room : 256;
        medium->event = realloc(medium->event, medium->events_room * sizeof(*medium->event));
    }
    event.order = medium->order++;
    for (; at && sooner(&event, &medium->event[(at - 1) / 2]); at = (at - 1) / 2)
        medium->event[at] = medium->event[(at - 1) / 2];
    medium->event[at] = event;
}

static struct event event_pop(struct medium *medium)
{
    struct event first = medium->event[0], last = medium->event[--medium->events];
    unsigned at = 0;

    for (unsigned child; (child = 2 * at + 1) < medium->events; at = child) {
        if (child + 1 < medium->events && sooner(&medium->event[child + 1], &medium->event[child]))
            child++;
        if (!sooner(&medium->event[child], &last))
            break;
        medium->event[at] = medium->event[child];
    }
    if (medium->events)
        medium->event[at] = last;
    return first;
}

uint64_t medium_next_ns(const struct medium *medium)
{
    return medium->events ? medium->event[0].at_ns : ENG_NEVER;
}

bool medium_take(struct medium *medium, uint64_t now_ns, struct medium_arrival *ret)
{
    if (!medium->events || medium->event[0].at_ns > now_ns)
        return false;
    *ret = event_pop(medium).arrival;
    return true;
}

/* ---- set-up ---------------------------------------------------------------------------- */

struct medium *medium_new(const struct medium_link *link, unsigned hosts, uint64_t seed)
{
    struct medium *medium = calloc(1, sizeof(*medium) + hosts * sizeof(medium->transmitter[0]));

    medium->link = *link;
    medium->rand.state = seed;
    return medium;
}

void medium_free(struct medium *medium)
{
    while (medium->events)
        free(event_pop(medium).arrival.bytes);
    free(medium->event);
    free(medium);
}

struct medium_link *medium_link(struct medium *medium)
{
    return &medium->link;
}

uint64_t medium_lost(const struct medium *medium)
{
    return medium->lost;
}

/* ---- sending --------------------------------------------------------------------------- */

static void launch(struct medium *medium, const struct medium_packet *packet, uint64_t at_ns)
{
    struct event event = {.at_ns = at_ns,
                          .arrival = {.kind = MEDIUM_PACKET,
                                      .host = packet->to,
                                      .conn_id = packet->conn_id,
                                      .len = packet->len}};

    event.arrival.bytes = malloc(packet->len);
    memcpy(event.arrival.bytes, packet->bytes, packet->len);
    event_push(medium, event);
}

bool medium_drop(struct medium *medium, unsigned host, uint64_t packet_number)
{
    for (unsigned i = 0; i < MEDIUM_DROPS_MAX; i++) {
        if (medium->drop[i].number)
            continue;
        medium->drop[i].host = host;
        medium->drop[i].number = packet_number;
        return true;
    }
    return false;
}

static bool drop_asked(struct medium *medium, const struct medium_packet *packet)
{
    for (unsigned i = 0; i < MEDIUM_DROPS_MAX; i++) {
        if (medium->drop[i].host != packet->from || medium->drop[i].number != packet->number)
            continue;
        medium->drop[i].number = 0;
        return true;
    }
    return false;
}

enum medium_fate medium_send(struct medium *medium, const struct medium_packet *packet,
                             uint64_t now_ns)
{
    const struct medium_link *link = &medium->link;
    struct transmitter *from = &medium->transmitter[packet->from];
    enum medium_fate fate = MEDIUM_SENT;
    uint64_t at_ns = now_ns;

    if (link->bytes_per_s) {
        uint64_t start = from->free_ns > at_ns ? from->free_ns : at_ns;

        if (link->queue_bytes &&
            (start - at_ns) * link->bytes_per_s / 1000000000 > link->queue_bytes) {
            medium->lost++;
            return MEDIUM_QUEUE_FULL;
        }
        at_ns = start + (uint64_t)packet->len * 1000000000 / link->bytes_per_s;
        from->free_ns = at_ns;
    }
    if (link->dead || sim_chance(&medium->rand, link->loss) || drop_asked(medium, packet)) {
        medium->lost++;
        return MEDIUM_LOST;
    }
    at_ns += link->delay_ns;
    if (link->jitter_ns)
        at_ns += sim_below(&medium->rand, (uint32_t)link->jitter_ns);
    if (sim_chance(&medium->rand, link->reorder)) {
        fate = MEDIUM_LATE;
        at_ns += link->reorder_ns;
    } else {
        if (at_ns < from->last_arrival_ns)
            at_ns = from->last_arrival_ns;
        from->last_arrival_ns = at_ns;
    }
    launch(medium, packet, at_ns);
    if (sim_chance(&medium->rand, link->dup))
        launch(medium, packet, at_ns + 1 + sim_below(&medium->rand, 100000));
    return fate;
}

void medium_close(struct medium *medium, unsigned to, uint64_t conn_id,
                  const struct eng_close *close, uint64_t now_ns)
{
    event_push(
        medium,
        (struct event){
            .at_ns = now_ns + medium->link.delay_ns + 1000,
            .arrival = {.kind = MEDIUM_CLOSE, .host = to, .conn_id = conn_id, .close = *close}});
}

/* ---- transcript ------------------------------------------------------------------------ */

void medium_describe(const struct vip_packet *packet, enum medium_fate fate,
                     char ret_text[MEDIUM_TEXT_BYTES])
{
    static const char *const fates[] = {[MEDIUM_SENT] = "",
                                        [MEDIUM_LATE] = "late",
                                        [MEDIUM_LOST] = "LOST",
                                        [MEDIUM_QUEUE_FULL] = "QUEUE FULL"};
    char text[300];
    int at = 0;

    for (unsigned i = 0; i < packet->hdr.frame_count && i < 4; i++) {
        const struct vip_frame *frame = &packet->frames[i];

        at += snprintf(text + at, sizeof(text) - (size_t)at, " %c%u[%u+%u/%u]%s",
                       "?SWQR"[frame->type], frame -> op, frame -> offset, frame -> length,
                       frame -> total, frame -> flags &VIP_FRMF_LAST ? "." : "");
    }
    text[at] = 0;
    snprintf(ret_text, MEDIUM_TEXT_BYTES, "#%" PRIu64 "%s%s ack<%" PRIu64 "%s ops=%u%s%s %s",
             packet->hdr.packet_number, packet->hdr.flags & VIP_PKTF_ELICITS ? " E" : "",
             packet->hdr.flags & VIP_PKTF_ACK_NOW ? "N" : "", packet->hdr.ack_cumulative,
             packet->hdr.range_count ? "+" : "", packet->hdr.ops_done, text,
             packet->hdr.frame_count > 4 ? " .." : "", fates[fate]);
}
