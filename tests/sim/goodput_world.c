#include "tests/sim/goodput_world.h"

#include "tests/eng_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GP_VIS     8u
#define GP_PINGS   200000u
#define GP_BUFFERS 65536u

/* A packet on the link, or a packet that an engine holds. Its payload bytes are not stored. */
struct gp_packet {
    uint64_t at_ns;
    uint16_t vi;
    uint32_t len, next;
    uint8_t *bytes;
};

/* One direction: packets in the order of their arrival. */
struct gp_wire {
    uint64_t free_ns; /* time at which the transmitter is free again */
    uint32_t head, tail;
};

struct gp_host {
    struct gp *gp;
    unsigned index;
    struct eng *eng;
    void *memory[GP_VIS];
    struct gp_wire wire; /* packets from this host to the other */
    unsigned posted[GP_VIS], bulk_depth[GP_VIS];
    uint32_t bulk_bytes[GP_VIS];
    unsigned receives_due[GP_VIS];
    unsigned replies_due[GP_VIS];
    uint64_t received[GP_VIS];
};

struct gp {
    struct gp_config config;
    uint64_t now_ns, random, drops, queue_max;
    unsigned vis;
    struct gp_host host[2];
    struct gp_packet packet[GP_BUFFERS]; /* index 0: no packet */
    uint32_t free_list, fresh;
    uint32_t ping_bytes[GP_VIS];
    uint64_t ping_from_ns;
    uint64_t ping_ns[GP_PINGS];
    unsigned pings;
    struct eng_packet out;
    struct vip_packet decoded;
};

static uint32_t chance(struct gp *gp)
{
    uint64_t z = gp->random += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)(((z ^ (z >> 31)) >> 32) * 1000000 >> 32);
}

static void fail(const char *what)
{
    fprintf(stderr, "goodput: %s\n", what);
    abort();
}

/* ---- buffers --------------------------------------------------------------------------- */

static uint32_t buffer_take(struct gp *gp)
{
    uint32_t index = gp->free_list;

    if (index) {
        gp->free_list = gp->packet[index].next;
    } else {
        index = ++gp->fresh;
        if (index == GP_BUFFERS)
            fail("too many packets under way");
        gp->packet[index].bytes = calloc(1, gp->config.packet_bytes);
    }
    gp->packet[index].next = 0;
    return index;
}

static void buffer_give(struct gp *gp, uint32_t index)
{
    gp->packet[index].next = gp->free_list;
    gp->free_list = index;
}

/* ---- operations of the engine ---------------------------------------------------------- */

static bool op_check(void *ctx, const struct eng_access *access)
{
    (void)ctx;
    (void)access;
    return true;
}

static bool op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    (void)ctx;
    (void)access;
    (void)payload_offset;
    return true;
}

static void op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
    struct gp_host *host = ctx;

    (void)imm;
    if (status & VIP_ST_ERROR_MASK)
        fail("a descriptor failed");
    if (queue == VIP_Q_SEND) {
        host->posted[vi]--;
        return;
    }
    host->received[vi] += length;
    host->receives_due[vi]++;
    if (host->gp->ping_bytes[vi])
        host->replies_due[vi]++;
}

static void op_event(void *ctx, const struct eng_event *event)
{
    (void)ctx;
    if (event->kind != ENG_EVENT_STATE)
        fail(event->why);
}

static void op_fetch(void *ctx)
{
    (void)ctx;
}

static struct vip_shm_seg *op_segs_alloc(void *ctx, unsigned count)
{
    (void)ctx;
    return malloc(count * sizeof(struct vip_shm_seg));
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    (void)ctx;
    (void)count;
    free(segs);
}

/* ---- set-up ---------------------------------------------------------------------------- */

static void *zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    if (!memory)
        fail("no memory");
    memset(memory, 0, bytes);
    return memory;
}

static void post(struct gp_host *host, uint16_t vi, enum vip_queue queue, uint32_t bytes)
{
    struct vip_shm_seg seg = {.addr = 0x10000, .handle = 1, .len = bytes};
    struct eng_post post = {
        .vi = vi, .queue = queue, .seg_count = 1, .length = bytes, .app_segs = &seg};

    eng_post(host->eng, &post, host->gp->now_ns);
    if (queue == VIP_Q_SEND)
        host->posted[vi]++;
}

struct gp *gp_new(const struct gp_config *config, unsigned vis)
{
    static const struct eng_ops ops = {.check = op_check,
                                       .place = op_place,
                                       .complete = op_complete,
                                       .event = op_event,
                                       .fetch_posts = op_fetch,
                                       .segs_alloc = op_segs_alloc,
                                       .segs_free = op_segs_free};
    struct eng_vi_attrs attrs = {.level = VIP_LVL_DELIVERY,
                                 .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX};
    struct gp *gp = zeroed(sizeof(*gp));

    gp->config = *config;
    gp->random = config->seed;
    gp->now_ns = 1000000000;
    gp->vis = vis;
    for (unsigned h = 0; h < 2; h++) {
        struct gp_host *host = &gp->host[h];
        struct eng_config engine = config->engine;

        host->gp = gp;
        host->index = h;
        engine.seed = config->seed * 2 + h + 1;
        host->eng = eng_init(zeroed(eng_bytes()), &engine, &ops, host, gp->now_ns);
        for (uint16_t vi = 0; vi < vis; vi++) {
            struct eng_conn conn = {.local_id = 2u * vi + h + 1,
                                    .remote_id = 2u * vi + !h + 1,
                                    .local_epoch = 1 + h,
                                    .remote_epoch = 1 + !h,
                                    .packet_bytes = config->packet_bytes,
                                    .window_bytes = config->window_bytes};

            host->memory[vi] = zeroed(eng_vi_bytes());
            eng_vi_create(host->eng, vi, host->memory[vi], &attrs);
            eng_vi_connect(host->eng, vi, &conn, gp->now_ns);
            for (unsigned i = 0; i < config->receives; i++)
                post(host, vi, VIP_Q_RECV, VIP_TRANSFER_BYTES_MAX);
        }
    }
    return gp;
}

void gp_free(struct gp *gp)
{
    for (unsigned h = 0; h < 2; h++) {
        for (unsigned vi = 0; vi < gp->vis; vi++)
            free(gp->host[h].memory[vi]);
        free(gp->host[h].eng);
    }
    for (uint32_t i = 1; i <= gp->fresh; i++)
        free(gp->packet[i].bytes);
    free(gp);
}

struct gp_link *gp_link(struct gp *gp)
{
    return &gp->config.link;
}

uint64_t gp_now(const struct gp *gp)
{
    return gp->now_ns;
}

void gp_bulk(struct gp *gp, uint16_t vi, uint32_t bytes, unsigned depth)
{
    gp->host[0].bulk_bytes[vi] = bytes;
    gp->host[0].bulk_depth[vi] = depth;
}

void gp_ping(struct gp *gp, uint16_t vi, uint32_t bytes)
{
    gp->ping_bytes[vi] = bytes;
    gp->ping_from_ns = gp->now_ns;
    post(&gp->host[0], vi, VIP_Q_SEND, bytes);
}

/* ---- the link -------------------------------------------------------------------------- */

static void wire_append(struct gp *gp, struct gp_wire *wire, uint32_t index)
{
    uint32_t at = wire->head, before = 0;

    /* Try the end of the list first, because nearly every packet belongs there. */
    if (!wire->tail || gp->packet[wire->tail].at_ns <= gp->packet[index].at_ns)
        before = wire->tail;
    else
        for (; at && gp->packet[at].at_ns <= gp->packet[index].at_ns; at = gp->packet[at].next)
            before = at;
    gp->packet[index].next = before ? gp->packet[before].next : wire->head;
    if (before)
        gp->packet[before].next = index;
    else
        wire->head = index;
    if (!gp->packet[index].next)
        wire->tail = index;
}

static void transmit(struct gp *gp, struct gp_host *from)
{
    const struct gp_link *link = &gp->config.link;
    const struct eng_packet *out = &gp->out;
    struct gp_wire *wire = &from->wire;
    uint64_t start = wire->free_ns > gp->now_ns ? wire->free_ns : gp->now_ns, queued;
    struct gp_packet *packet;
    uint32_t index, at = 0;

    queued = (start - gp->now_ns) * (link->bits_per_s / 1000000) / 8000;
    if (queued > gp->queue_max)
        gp->queue_max = queued;
    if (queued + out->bytes > link->queue_bytes) {
        gp->drops++;
        return;
    }
    wire->free_ns = start + out->bytes * 8000ull / (link->bits_per_s / 1000000);
    if (link->cut || (link->mtu_bytes && out->bytes > link->mtu_bytes) ||
        (link->loss_ppm && chance(gp) < link->loss_ppm))
        return;
    index = buffer_take(gp);
    packet = &gp->packet[index];
    for (unsigned i = 0; i < out->piece_count; i++) {
        if (!out->piece[i].from_region)
            memcpy(packet->bytes + at, out->head + out->piece[i].offset, out->piece[i].len);
        at += out->piece[i].len;
    }
    packet->vi = out->vi;
    packet->len = at;
    packet->at_ns = wire->free_ns + link->delay_ns;
    if (link->late_ppm && chance(gp) < link->late_ppm)
        packet->at_ns += link->late_ns;
    wire_append(gp, wire, index);
}

static void replay(struct gp *gp, struct gp_host *host)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    while (eng_replay(host->eng, &vi, &token, &feed)) {
        if (feed) {
            if (vip_wire_get_data(gp->packet[token].bytes, gp->packet[token].len, &gp->decoded) !=
                VIP_WIRE_OK)
                fail("malformed packet");
            eng_rx_replay(host->eng, vi, &gp->decoded, gp->now_ns);
        }
        buffer_give(gp, token);
    }
}

static void arrive(struct gp *gp, struct gp_host *to, struct gp_wire *wire)
{
    uint32_t index = wire->head;
    struct gp_packet *packet = &gp->packet[index];

    wire->head = packet->next;
    if (!wire->head)
        wire->tail = 0;
    if (vip_wire_get_data(packet->bytes, packet->len, &gp->decoded) != VIP_WIRE_OK)
        fail("malformed packet");
    if (eng_rx(to->eng, packet->vi, &gp->decoded, index, gp->now_ns) != ENG_RX_HOLD)
        buffer_give(gp, index);
    replay(gp, to);
}

/* ---- time ------------------------------------------------------------------------------ */

static void applications(struct gp *gp, struct gp_host *host)
{
    for (uint16_t vi = 0; vi < gp->vis; vi++) {
        for (; host->receives_due[vi]; host->receives_due[vi]--)
            post(host, vi, VIP_Q_RECV, VIP_TRANSFER_BYTES_MAX);
        for (; host->replies_due[vi]; host->replies_due[vi]--) {
            if (host->index == 0) {
                gp->ping_ns[gp->pings++ % GP_PINGS] = gp->now_ns - gp->ping_from_ns;
                gp->ping_from_ns = gp->now_ns;
            }
            post(host, vi, VIP_Q_SEND, gp->ping_bytes[vi]);
        }
        while (host->posted[vi] < host->bulk_depth[vi])
            post(host, vi, VIP_Q_SEND, host->bulk_bytes[vi]);
    }
}

static void act(struct gp *gp)
{
    for (bool again = true; again;) {
        again = false;
        for (unsigned h = 0; h < 2; h++) {
            struct gp_host *host = &gp->host[h];

            applications(gp, host);
            while (eng_pull_any(host->eng, &gp->out, gp->now_ns)) {
                transmit(gp, host);
                again = true;
            }
            if (eng_deadline(host->eng) <= gp->now_ns) {
                eng_tick_all(host->eng, gp->now_ns);
                replay(gp, host);
                again = true;
            }
        }
    }
}

static uint64_t next_ns(const struct gp *gp)
{
    uint64_t at_ns = ENG_NEVER;

    for (unsigned h = 0; h < 2; h++) {
        const struct gp_host *host = &gp->host[h];

        if (eng_deadline(host->eng) < at_ns)
            at_ns = eng_deadline(host->eng);
        if (host->wire.head && gp->packet[host->wire.head].at_ns < at_ns)
            at_ns = gp->packet[host->wire.head].at_ns;
    }
    return at_ns;
}

void gp_run(struct gp *gp, uint64_t for_ns)
{
    uint64_t end_ns = gp->now_ns + for_ns;

    for (;;) {
        uint64_t at_ns;

        act(gp);
        at_ns = next_ns(gp);
        if (at_ns > end_ns)
            break;
        if (at_ns > gp->now_ns)
            gp->now_ns = at_ns;
        for (unsigned h = 0; h < 2; h++) {
            struct gp_wire *wire = &gp->host[h].wire;

            while (wire->head && gp->packet[wire->head].at_ns <= gp->now_ns)
                arrive(gp, &gp->host[!h], wire);
        }
    }
    gp->now_ns = end_ns;
}

/* ---- results --------------------------------------------------------------------------- */

uint64_t gp_received(const struct gp *gp, uint16_t vi)
{
    return gp->host[1].received[vi];
}

static int by_duration(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

uint64_t gp_pings(struct gp *gp, unsigned permille, uint64_t *ret_ns)
{
    uint64_t count = gp->pings < GP_PINGS ? gp->pings : GP_PINGS;
    uint64_t rank = (count * permille + 999) / 1000; /* rank in the sorted times, from 1 */

    qsort(gp->ping_ns, count, sizeof(gp->ping_ns[0]), by_duration);
    *ret_ns = rank ? gp->ping_ns[rank - 1] : 0;
    gp->pings = 0;
    return count;
}

void gp_stats(struct gp *gp, uint16_t vi, struct eng_vi_stats *ret)
{
    eng_vi_stats(gp->host[0].eng, vi, ret);
}

uint64_t gp_queue_max(struct gp *gp)
{
    uint64_t max = gp->queue_max;

    gp->queue_max = 0;
    return max;
}

uint64_t gp_queue_drops(const struct gp *gp)
{
    return gp->drops;
}
