#include "tests/sim/world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/store.h"
#include "vipd/engine/cm_internal.h"
#include "vipd/nic/state.h"

/* Limit of the rounds in one call of host_settle(). A host that needs more rounds is stuck. */
#define ROUNDS_MAX 20000

/* ---- the transcript -------------------------------------------------------------------- */

static const char *const line_formats[WORLD_LINES] = {
    [LINE_SEND] =
        "host %" PRIu64 " -> %" PRIu64 " #%" PRIu64 " %" PRIu64 " bytes, %" PRIu64 " frames",
    [LINE_LOST] = "host %" PRIu64 " -> %" PRIu64 " lost (%" PRIu64 ")",
    [LINE_ARRIVE] = "host %" PRIu64 " -> %" PRIu64 " arrives, %" PRIu64 " bytes",
    [LINE_CM] = "host %" PRIu64 " -> %" PRIu64 " CM type %" PRIu64 " request %" PRIx64
                " connection %" PRIx64,
    [LINE_HOST_UP] = "host %" PRIu64 " up, life %" PRIu64,
    [LINE_HOST_DOWN] = "host %" PRIu64 " down",
    [LINE_SESSION] = "host %" PRIu64 " session %" PRIu64 " opened, life %" PRIu64,
    [LINE_DEATH] = "host %" PRIu64 " session %" PRIu64 " ends, died %" PRIu64,
    [LINE_REQUEST] = "pair %" PRIu64 " attempt %" PRIu64 " requested",
    [LINE_ACCEPT] = "pair %" PRIu64 " attempt %" PRIu64 " accepted, rc %" PRIu64,
    [LINE_RESULT] = "pair %" PRIu64 " attempt %" PRIu64 " side %" PRIu64 " result %" PRIu64,
    [LINE_LOSS_OF] = "pair %" PRIu64 " attempt %" PRIu64 " side %" PRIu64 " connection lost",
    [LINE_CLOSE] = "pair %" PRIu64 " attempt %" PRIu64 " side %" PRIu64 " disconnects",
    [LINE_POST] = "pair %" PRIu64 " attempt %" PRIu64 " side %" PRIu64 " posts %" PRIu64
                  " kind|length %" PRIx64,
    [LINE_DONE] =
        "pair %" PRIu64 " side %" PRIu64 " queue %" PRIu64 " status %05" PRIx64 " length %" PRIu64,
    [LINE_ERROR] = "pair %" PRIu64 " side %" PRIu64 " error %" PRIu64,
    [LINE_FAULT] = "fault %" PRIu64 ": %" PRIu64 " %" PRIu64,
    [LINE_HEAL] = "the faults end",
    [LINE_NOTE] = "note %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
};

static void record_print(FILE *out, const struct world_record *record)
{
    fprintf(out, "%14.3f ", (double)record->at_ns / 1000);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    fprintf(out, line_formats[record->line], record->arg[0], record->arg[1], record->arg[2],
            record->arg[3], record->arg[4]);
#pragma GCC diagnostic pop
    fputc('\n', out);
}

static void mix(uint64_t *hash, uint64_t word)
{
    *hash = (*hash ^ word) * 0x9e3779b97f4a7c15ull;
    *hash ^= *hash >> 29;
}

void world_line(struct world *world, enum world_line line, uint64_t a, uint64_t b, uint64_t c,
                uint64_t d, uint64_t e)
{
    struct world_record *record = &world->tail[world->lines++ % WORLD_TAIL];

    *record = (struct world_record){.at_ns = world->now_ns, .line = line, .arg = {a, b, c, d, e}};
    mix(&world->hash, world->now_ns);
    mix(&world->hash, line);
    for (unsigned i = 0; i < 5; i++)
        mix(&world->hash, record->arg[i]);
    if (world->trace)
        record_print(world->trace, record);
}

void world_fail(struct world *world, const char *format, ...)
{
    uint64_t from = world->lines > WORLD_TAIL ? world->lines - WORLD_TAIL : 0;
    va_list args;

    fflush(stdout);
    for (uint64_t i = from; !world->trace && i < world->lines; i++)
        record_print(stderr, &world->tail[i % WORLD_TAIL]);
    fprintf(stderr, "FAILED: seed %" PRIu64 " at %.3f us: ", world->seed,
            (double)world->now_ns / 1000);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr,
            "\nrepeat with: simrun --seed %" PRIu64 "%s --trace (of the same commit; it takes the "
            "same course in every build)\n",
            world->seed, world->options ? world->options : "");
    fflush(stderr);
    _Exit(1);
}

/* ---- clocks ---------------------------------------------------------------------------- */

uint64_t world_host_now(const struct world_host *host)
{
    uint64_t now_ns = host->world->now_ns;

    return host->clock_base_ns + now_ns +
           (uint64_t)((__int128)(int64_t)now_ns * host->drift_ppm / 1000000);
}

uint64_t world_host_when(const struct world_host *host, uint64_t host_ns)
{
    uint64_t rel = host_ns > host->clock_base_ns ? host_ns - host->clock_base_ns : 0;

    if (host_ns == WORLD_NEVER)
        return WORLD_NEVER;
    /* Round up: at the returned time the host's clock must have reached host_ns. */
    return (uint64_t)((unsigned __int128)rel * 1000000 / (uint64_t)(1000000 + host->drift_ppm)) +
           (host->drift_ppm ? 2 : 0);
}

/* ---- packets under way ----------------------------------------------------------------- */

static bool sooner(const struct world_packet *a, const struct world_packet *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void heap_push(struct world *world, struct world_packet *packet)
{
    unsigned at = world->heap_count++;

    if (world->heap_count > world->heap_room) {
        world->heap_room = world->heap_room ? 2 * world->heap_room : 256;
        world->heap = realloc(world->heap, world->heap_room * sizeof(*world->heap));
    }
    packet->order = world->order++;
    for (; at && sooner(packet, world->heap[(at - 1) / 2]); at = (at - 1) / 2)
        world->heap[at] = world->heap[(at - 1) / 2];
    world->heap[at] = packet;
}

static struct world_packet *heap_pop(struct world *world)
{
    struct world_packet *first = world->heap[0], *last = world->heap[--world->heap_count];
    unsigned at = 0;

    for (unsigned child; (child = 2 * at + 1) < world->heap_count; at = child) {
        if (child + 1 < world->heap_count && sooner(world->heap[child + 1], world->heap[child]))
            child++;
        if (!sooner(world->heap[child], last))
            break;
        world->heap[at] = world->heap[child];
    }
    if (world->heap_count)
        world->heap[at] = last;
    return first;
}

/* The world reuses the memory of packets of at most this many bytes. With the address sanitizer
 * each packet gets memory of its exact size. */
#define PACKET_ROOM 2048

static struct world_packet *packet_new(struct world *world, uint32_t len)
{
    struct world_packet *packet = world->free;
    uint32_t room = len > PACKET_ROOM ? len : PACKET_ROOM;

#ifndef __SANITIZE_ADDRESS__
    if (packet && room == PACKET_ROOM) {
        world->free = packet->next;
        memset(packet, 0, sizeof(*packet));
        packet->room = room;
        packet->len = len;
        return packet;
    }
#else
    room = len;
#endif
    packet = calloc(1, sizeof(*packet) + room);
    packet->room = room;
    packet->len = len;
    return packet;
}

static void packet_free(struct world *world, struct world_packet *packet)
{
#ifndef __SANITIZE_ADDRESS__
    if (packet->room == PACKET_ROOM) {
        packet->next = world->free;
        world->free = packet;
        return;
    }
#endif
    free(packet);
}

/* ---- faults ---------------------------------------------------------------------------- */

static bool type_matches(enum world_only only, const struct vip_header *hdr)
{
    switch (only) {
    case WORLD_ONLY_ANY:
        return true;
    case WORLD_ONLY_CM:
        return hdr->kind == VIP_PKT_CM;
    case WORLD_ONLY_ACKS:
        return hdr->kind == VIP_PKT_DATA && !hdr->frame_count;
    case WORLD_ONLY_DATA:
        return hdr->kind == VIP_PKT_DATA && hdr->frame_count;
    case WORLD_ONLY_RANGES:
        return hdr->kind == VIP_PKT_DATA && hdr->range_count;
    }
    return false;
}

/* Returns the number of the reason why this packet is lost, or 0 if it is not lost. */
static unsigned fate(struct world *world, struct world_path *path, const struct vip_header *hdr,
                     uint32_t len)
{
    const struct world_net *net = &world->net;

    path->count++;
    if (path->cut_until_ns > world->now_ns)
        return 1;
    if (path->hole_bytes && len > path->hole_bytes)
        return 2;
    if (!world->faults)
        return 0;
    if (path->burst_left) {
        path->burst_left--;
        return 3;
    }
    if (chance_ppm(&world->chance, net->burst_begin_ppm)) {
        path->burst_left = (uint32_t)chance_below(&world->chance, 2 * (uint64_t)net->burst_len);
        return 3;
    }
    if (net->every_nth && path->count % net->every_nth == 0)
        return 4;
    if (type_matches(net->loss_only, hdr) && chance_ppm(&world->chance, net->loss_ppm))
        return 5;
    return 0;
}

static void corrupt(struct world *world, struct world_packet *packet)
{
    struct chance *chance = &world->chance;
    uint64_t count;

    switch (chance_below(chance, 4)) {
    case 0:
        packet->len = (uint32_t)chance_below(chance, packet->len);
        break;
    case 1:
        /* Add a byte at the end. launch() has allocated memory for it. */
        packet->bytes[packet->len++] = (uint8_t)chance_next(chance);
        break;
    default:
        count = chance_between(chance, 1, 64);
        while (count--) {
            uint64_t bit = chance_below(chance, (uint64_t)packet->len * 8);

            packet->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    /* The loop may have flipped a bit twice, so only the checksum shows whether a bit is wrong. */
    packet->corrupt =
        packet->len < VIP_WIRE_HEADER_BYTES || !vip_wire_check_seal(packet->bytes, packet->len);
}

static void launch(struct world *world, const struct world_host *from, uint8_t to,
                   const struct link_tx *tx, uint64_t at_ns)
{
    /* Allocate one byte more, because corrupt() may add one. */
    struct world_packet *packet = packet_new(world, tx->bytes + 1);
    uint32_t at = 0;

    packet->len = tx->bytes;
    packet->at_ns = at_ns;
    packet->sent_ns = world->now_ns;
    packet->heard_ns = world->view[from->index][to].heard_ns;
    packet->from = from->link.self;
    packet->to = to;
    for (unsigned i = 0; i < tx->iov_count; i++) {
        memcpy(packet->bytes + at, tx->iov[i].iov_base, tx->iov[i].iov_len);
        at += (uint32_t)tx->iov[i].iov_len;
    }
    if (at != tx->bytes)
        world_fail(world, "the pieces of a packet add up to %u, not %u bytes", at, tx->bytes);
    if (world->faults && tx->iov_count > 1 && chance_ppm(&world->chance, world->net.changing_ppm)) {
        packet->bytes[tx->iov[0].iov_len] ^= 1;
        packet->corrupt = true;
    } else if (world->faults && chance_ppm(&world->chance, world->net.corrupt_ppm)) {
        corrupt(world, packet);
    }
    heap_push(world, packet);
}

static void describe(struct world *world, unsigned from, unsigned to, const struct link_tx *tx,
                     struct vip_header *hdr)
{
    struct vip_cm msg;
    uint8_t bytes[VIP_WIRE_CM_BYTES_MAX];

    if (tx->iov[0].iov_len < VIP_WIRE_HEADER_BYTES ||
        vip_wire_get_header(tx->iov[0].iov_base, tx->bytes, hdr) != VIP_WIRE_OK)
        world_fail(world, "host %u sent a malformed packet", from);
    if (hdr->kind == VIP_PKT_CM) {
        memcpy(bytes, tx->iov[0].iov_base, tx->bytes);
        if (vip_wire_get_cm(bytes, tx->bytes, &msg) != VIP_WIRE_OK)
            world_fail(world, "host %u sent a malformed CM message", from);
        world_line(world, LINE_CM, from, to, msg.type, msg.request_id, msg.conn_id);
        return;
    }
    world_line(world, LINE_SEND, from, to, hdr->packet_number, tx->bytes, hdr->frame_count);
}

static void transmit(struct world *world, struct world_host *from, const struct link_tx *tx)
{
    unsigned to = tx->to->bytes[3] - 1u, why;
    const struct world_net *net = &world->net;
    struct world_path *path;
    struct vip_header hdr;
    uint64_t at_ns = world->now_ns;

    describe(world, from->index, to, tx, &hdr);
    from->sent++;
    world->packets++;
    if (to >= world->hosts || tx->bytes > VIP_PACKET_BYTES_MAX)
        world_fail(world, "a packet of %u bytes to host %u", tx->bytes, to);
    path = &world->path[from->index][to];
    if (net->bytes_per_s) {
        uint64_t start = from->busy_until_ns > at_ns ? from->busy_until_ns : at_ns;

        if ((start - at_ns) * net->bytes_per_s / WORLD_S > net->queue_bytes) {
            world_line(world, LINE_LOST, from->index, to, 6, 0, 0);
            return;
        }
        from->busy_until_ns = at_ns = start + tx->bytes * WORLD_S / net->bytes_per_s;
    }
    why = fate(world, path, &hdr, tx->bytes);
    if (why) {
        world_line(world, LINE_LOST, from->index, to, why, 0, 0);
        return;
    }
    at_ns += net->latency_ns + chance_below(&world->chance, net->jitter_ns + 1);
    if (world->faults && chance_ppm(&world->chance, net->reorder_ppm))
        at_ns += chance_below(&world->chance, net->reorder_ns);
    else if (at_ns < path->last_arrival_ns)
        at_ns = path->last_arrival_ns;
    else
        path->last_arrival_ns = at_ns;
    launch(world, from, (uint8_t)to, tx, at_ns);
    if (world->faults && chance_ppm(&world->chance, net->dup_ppm))
        launch(world, from, (uint8_t)to, tx,
               at_ns + chance_below(&world->chance, net->dup_delay_ns + 1));
}

/* ---- the link of a host ---------------------------------------------------------------- */

static unsigned link_send(struct link *link, const struct link_tx *packets, unsigned count,
                          uint64_t now_ns)
{
    struct world_host *host = (struct world_host *)(void *)link;

    (void)now_ns;
    for (unsigned i = 0; i < count && !host->mute; i++)
        transmit(host->world, host, &packets[i]);
    return count;
}

/* vipd may ignore a packet that was under way for longer than this time. */
#define LATE_NS WORLD_S

/* Record that a host has received an intact packet. */
static void hear(struct world *world, unsigned host, const struct world_packet *packet)
{
    struct world_view *view = &world->view[host][packet->from.bytes[3] - 1u];
    uint64_t now_ns = world->now_ns;

    if (now_ns - packet->sent_ns <= LATE_NS)
        view->heard_ns = now_ns;
    if (packet->heard_ns <= view->round_ns)
        return;
    if (now_ns - view->round_ns >= view->silent_to_ns - view->silent_from_ns ||
        view->silent_to_ns + WORLD_LATE_NS < now_ns) {
        view->silent_from_ns = view->round_ns;
        view->silent_to_ns = now_ns;
    }
    view->round_ns = packet->heard_ns;
}

static uint64_t stretch(uint64_t from_ns, uint64_t since_ns, uint64_t to_ns)
{
    uint64_t begin_ns = from_ns > since_ns ? from_ns : since_ns;

    return to_ns > begin_ns ? to_ns - begin_ns : 0;
}

/* Only passed parts of recent cuts count, less 1/GOOD_PART of the time since the last cut's end. */
#define GOOD_PART 4u

static uint64_t cuts_ns(const struct world_view *view, uint64_t now_ns)
{
    uint64_t good_ns = stretch(view->cut_to_ns, 0, now_ns) / GOOD_PART;
    uint64_t rest_ns = stretch(now_ns, 0, view->cut_to_ns);

    return stretch(good_ns + rest_ns, 0, view->cut_ns);
}

static void cut_note(struct world_view *view, uint64_t now_ns, uint64_t ns)
{
    uint64_t until_ns = view->cut_to_ns > now_ns ? view->cut_to_ns : now_ns;

    view->cut_ns = view->cut_to_ns > now_ns ? view->cut_ns : cuts_ns(view, now_ns);
    if (now_ns + ns <= until_ns)
        return;
    view->cut_ns += now_ns + ns - until_ns;
    view->cut_to_ns = now_ns + ns;
}

uint64_t world_silence_ns(const struct world *world, unsigned a, unsigned b, uint64_t since_ns)
{
    const struct world_view *view = &world->view[a][b];
    uint64_t now_ns = stretch(view->round_ns, since_ns, world->now_ns), past_ns = 0;
    uint64_t cut_ns = cuts_ns(view, world->now_ns);

    if (cut_ns > world->now_ns - since_ns)
        cut_ns = world->now_ns - since_ns;
    now_ns = cut_ns > now_ns ? cut_ns : now_ns;

    if (view->silent_to_ns + WORLD_LATE_NS >= world->now_ns)
        past_ns = stretch(view->silent_from_ns, since_ns, view->silent_to_ns);
    return now_ns > past_ns ? now_ns : past_ns;
}

/* Add by_ns, which may be negative, to two times of a view. The results are at least 0. */
static void view_shift(struct world_view *view, int64_t by_ns)
{
    int64_t round_ns = (int64_t)view->round_ns + by_ns, heard_ns = (int64_t)view->heard_ns + by_ns;

    view->round_ns = round_ns > 0 ? (uint64_t)round_ns : 0;
    view->heard_ns = heard_ns > 0 ? (uint64_t)heard_ns : 0;
}

void world_leap(struct world *world, unsigned host, uint64_t ns)
{
    world->host[host].clock_base_ns += ns;
    world->host[host].due = true;
    for (unsigned i = 0; i < world->hosts; i++)
        view_shift(&world->view[host][i], -(int64_t)(ns < WORLD_TIMER_NS ? ns : WORLD_TIMER_NS));
}

void world_pause(struct world *world, uint64_t ns)
{
    for (unsigned a = 0; a < world->hosts; a++) {
        if (world->host[a].stalled_until_ns < world->now_ns + ns)
            world->host[a].stalled_until_ns = world->now_ns + ns;
        for (unsigned b = 0; b < world->hosts; b++)
            if (ns > WORLD_TIMER_NS)
                view_shift(&world->view[a][b], (int64_t)(ns - WORLD_TIMER_NS));
    }
}

static unsigned link_recv(struct link *link, struct link_rx *packets, unsigned count,
                          uint64_t now_ns)
{
    struct world_host *host = (struct world_host *)(void *)link;
    unsigned n = 0;

    (void)now_ns;
    for (; n < count && host->head; n++) {
        struct world_packet *packet = host->head;

        host->head = packet->next;
        host->out++;
        if (!packet->corrupt)
            hear(host->world, host->index, packet);
        packets[n] = (struct link_rx){
            .from = &packet->from, .bytes = packet->bytes, .len = packet->len, .buffer = packet};
    }
    return n;
}

static void link_release(struct link *link, void *buffer)
{
    struct world_host *host = (struct world_host *)(void *)link;

    host->out--;
    packet_free(host->world, buffer);
}

static int link_fd(const struct link *link)
{
    (void)link;
    return -1;
}

static uint64_t link_deadline(const struct link *link)
{
    (void)link;
    return UINT64_MAX;
}

static void link_stats(const struct link *link, struct link_stats *ret)
{
    (void)link;
    memset(ret, 0, sizeof(*ret));
}

static void link_close(struct link *link)
{
    struct world_host *host = (struct world_host *)(void *)link;

    if (host->out)
        world_fail(host->world, "host %u kept %u packets of its link", host->index, host->out);
    while (host->head) {
        struct world_packet *packet = host->head;

        host->head = packet->next;
        packet_free(host->world, packet);
    }
}

static const struct link_class world_class = {
    .name = "world",
    .send = link_send,
    .recv = link_recv,
    .release = link_release,
    .fd = link_fd,
    .deadline = link_deadline,
    .stats = link_stats,
    .close = link_close,
};

/* ---- hosts ----------------------------------------------------------------------------- */

struct link_addr world_addr(unsigned host)
{
    return (struct link_addr){.len = 6, .bytes = {127, 0, 0, (uint8_t)(host + 1), 0x12, 0xba}};
}

void world_host_up(struct world *world, unsigned index)
{
    struct world_host *host = &world->host[index];
    struct nic_config config = {
        .name = "vip0",
        .engine = world->engine,
        .cm = {.grace_ns = 20 * WORLD_MS,
               .grace_busy_ns = 200 * WORLD_MS,
               .grace_loop_ns = 2000 * WORLD_MS,
               .grace_work_ns = 10000 * WORLD_MS,
               .backlog_max = 128,
               .retry_ns = 10 * WORLD_MS,
               .retry_max_ns = 500 * WORLD_MS,
               .accept_timeout_ns = 5 * WORLD_S,
               .close_timeout_ns = 20 * WORLD_S,
               .keepalive_ns = WORLD_S,
               .peer_dead_ns = 4 * WORLD_S,
               .outlive_ns = world->more & VIP_FEATURE_REBIND ? WORLD_OUTLIVE_NS : 0,
               .verify_all = world->verify_all},
        .seed = chance_next(&world->chance),
        .epoch = chance_next(&world->chance) | 1,
        .without = world->without[index],
        .more = world->without[index] & VIP_FEATURE_SETUP ? 0 : world->more,
        .vi_max = 64,
        .cq_max = 16,
    };

    host->world = world;
    host->index = index;
    host->life++;
    host->mute = false;
    host->corrupt_arrived = 0;
    host->link = (struct link){.class = &world_class,
                               .kind = LINK_UDP,
                               .self = world_addr(index),
                               .packet_bytes = world->net.packet_bytes,
                               .window_bytes = world->net.window_bytes};
    if (nic_open(&config, &host->link, world_host_now(host), &host->nic) < 0)
        world_fail(world, "nic_open");
    host->due = true;
    world_line(world, LINE_HOST_UP, index, host->life, 0, 0, 0);
}

/* Check that the codec has dropped each corrupt packet and no other packet. */
static void corrupt_check(const struct world_host *host)
{
    uint64_t dropped = 0, waiting = 0;

    for (unsigned i = 0; i < VIP_WIRE_VERDICTS; i++)
        dropped += host->nic->counts.rx_verdict[i];
    for (const struct world_packet *packet = host->head; packet; packet = packet->next)
        waiting += packet->corrupt;
    if (dropped + waiting != host->corrupt_arrived)
        world_fail(host->world, "host %u got %" PRIu64 " corrupt packets and dropped %" PRIu64,
                   host->index, host->corrupt_arrived - waiting, dropped);
}

void world_host_down(struct world *world, unsigned index)
{
    struct world_host *host = &world->host[index];

    world_line(world, LINE_HOST_DOWN, index, 0, 0, 0, 0);
    corrupt_check(host);
    world->cookies_sent += host->nic->cm->stats.cookies_sent;
    world->rebound += host->nic->counts.conns_rebound;
    nic_close(host->nic, world_host_now(host));
    host->nic = NULL;
    host->head = NULL;
    host->kill_in = 0;
}

void world_cut(struct world *world, unsigned from, unsigned to, bool both, uint64_t ns)
{
    world->path[from][to].cut_until_ns = world->now_ns + ns;
    cut_note(&world->view[from][to], world->now_ns, ns);
    cut_note(&world->view[to][from], world->now_ns, ns);
    if (both)
        world->path[to][from].cut_until_ns = world->now_ns + ns;
}

void world_set_mtu(struct world *world, unsigned host, uint32_t packet_bytes)
{
    struct link *link = &world->host[host].link;

    link->packet_bytes = packet_bytes;
    link->changes++;
    world->host[host].due = true;
    for (unsigned i = 0; i < world->hosts; i++)
        world->path[host][i].hole_bytes = world->path[i][host].hole_bytes = packet_bytes;
}

void world_init(struct world *world, uint64_t seed)
{
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->hash = seed;
    world->chance.state = seed * 0x2545f4914f6cdd1dull + 1;
}

void world_deinit(struct world *world)
{
    while (world->heap_count)
        packet_free(world, heap_pop(world));
    free(world->heap);
    while (world->free) {
        struct world_packet *packet = world->free;

        world->free = packet->next;
        free(packet);
    }
}

/* ---- a vipd that is killed in its turn ------------------------------------------------- */

static struct world_host *victim; /* the host whose vipd is in its turn and will be killed */

void vip_store_note(void)
{
    struct world_host *host = victim;

    if (!host || --host->kill_in)
        return;
    victim = NULL;
    host->mute = host->killed = true;
    host->world->hooks.kill(host->world->hooks.ctx, host->index);
}

/* Run one turn of a host's vipd. Returns true if vipd has more work. */
static bool host_turn(struct world *world, struct world_host *host)
{
    bool again;

    victim = host->kill_in ? host : NULL;
    again = nic_turn(host->nic, world_host_now(host));
    victim = NULL;
    if (!host->killed)
        return again || !nic_try_sleep(host->nic);
    host->killed = false;
    world->hooks.killed(world->hooks.ctx, host->index);
    return false;
}

/* ---- time ------------------------------------------------------------------------------ */

/* Run a host's vipd until it sleeps, then its applications. Repeat until neither has work. */
static void host_settle(struct world *world, struct world_host *host)
{
    bool again = true;

    if (host->nic)
        nic_awake(host->nic);
    for (unsigned rounds = 0; again; rounds++) {
        again = false;
        if (rounds > ROUNDS_MAX)
            world_fail(world, "host %u does not come to rest", host->index);
        if (host->nic)
            again = host_turn(world, host);
        if (!again)
            again = world->hooks.act(world->hooks.ctx, host->index);
        if (again && host->nic)
            nic_awake(host->nic);
        world->steps++;
    }
    host->due = false;
}

static void arrive(struct world *world, struct world_packet *packet)
{
    struct world_host *host = &world->host[packet->to];

    if (!host->nic) {
        packet_free(world, packet);
        return;
    }
    world_line(world, LINE_ARRIVE, packet->from.bytes[3] - 1u, packet->to, packet->len, 0, 0);
    host->corrupt_arrived += packet->corrupt;
    packet->next = NULL;
    if (host->head)
        host->tail->next = packet;
    else
        host->head = packet;
    host->tail = packet;
    host->due = true;
}

/* Returns the next time at which this host has work. */
static uint64_t host_wants(struct world *world, const struct world_host *host)
{
    uint64_t at_ns = world->hooks.wants_ns(world->hooks.ctx, host->index), nic_ns;

    if (host->due)
        at_ns = world->now_ns;
    if (host->nic) {
        nic_ns = world_host_when(host, nic_deadline(host->nic));
        at_ns = nic_ns < at_ns ? nic_ns : at_ns;
    }
    if (at_ns != WORLD_NEVER && at_ns < host->stalled_until_ns)
        at_ns = host->stalled_until_ns;
    return at_ns;
}

bool world_run(struct world *world, uint64_t until_ns, bool (*done)(void *ctx))
{
    for (;;) {
        uint64_t at_ns = world->heap_count ? world->heap[0]->at_ns : WORLD_NEVER;
        uint64_t wants_ns[WORLD_HOSTS_MAX];

        for (unsigned i = 0; i < world->hosts; i++) {
            wants_ns[i] = host_wants(world, &world->host[i]);
            at_ns = wants_ns[i] < at_ns ? wants_ns[i] : at_ns;
        }
        if (at_ns > until_ns) {
            world->now_ns = until_ns;
            return false;
        }
        if (at_ns > world->now_ns)
            world->now_ns = at_ns;
        while (world->heap_count && world->heap[0]->at_ns <= world->now_ns)
            arrive(world, heap_pop(world));
        for (unsigned i = 0; i < world->hosts; i++)
            if ((wants_ns[i] <= world->now_ns || world->host[i].due) &&
                world->host[i].stalled_until_ns <= world->now_ns)
                host_settle(world, &world->host[i]);
        if (world->hooks.check)
            world->hooks.check(world->hooks.ctx);
        if (done && done(world->hooks.ctx))
            return true;
    }
}
