#include "tests/sim/sim.h"

#include "tests/eng_all.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SIM_TOKENS 8192

struct sim_region {
    struct sim_mem mem;
    unsigned rights;
    bool live;
};

struct sim_conn {
    unsigned host, peer;
    uint16_t vi;
    uint64_t local_id, remote_id;
    uint32_t packet_bytes, window_bytes;
    bool live;
};

/* A posted descriptor that has not completed. */
struct sim_posted {
    struct eng_post post;
    struct vip_shm_seg *segs;
};

/* The posted descriptors of one work queue, as a ring buffer. */
struct sim_queue {
    struct sim_posted at[VIP_DESC_PER_QUEUE_MAX];
    unsigned head, count;
};

struct sim_host {
    struct eng *eng;
    struct sim_queue *queue[VIP_VI_MAX]; /* two queues for each VI */
    void *vi_memory[VIP_VI_MAX];
    struct sim_region region[SIM_REGIONS_MAX];
    unsigned regions;
    uint8_t *held[SIM_TOKENS]; /* the held packets; index: the token */
    uint32_t held_len[SIM_TOKENS];
    unsigned held_count;
    const uint8_t *packet; /* the packet that the host's engine processes now */
    uint32_t packet_len;
    struct sim *sim;
    unsigned index;
    long segs; /* number of segment lists that the engine has and must return */
    uint16_t level[VIP_VI_MAX];
};

struct sim {
    struct sim_config config;
    struct medium *medium;
    uint64_t now_ns, hash;
    struct sim_host host[SIM_HOSTS_MAX];
    struct sim_conn conn[SIM_CONNS_MAX];
    unsigned conns;
    uint64_t last_id; /* number of ids that sim_rebind has given out */
    struct eng_packet packet;
    struct vip_packet decoded;
};

/* ---- transcript ------------------------------------------------------------------------ */

void sim_trace(struct sim *sim, const char *format, ...)
{
    char line[512];
    int at = snprintf(line, sizeof(line), "%9.3f ", (double)sim->now_ns / 1000);
    va_list args;

    va_start(args, format);
    vsnprintf(line + at, sizeof(line) - (size_t)at, format, args);
    va_end(args);
    for (const char *c = line; *c; c++)
        sim->hash = (sim->hash ^ (uint8_t)*c) * 0x100000001b3ull;
    if (sim->config.trace)
        fprintf(sim->config.trace, "%s\n", line);
}

void sim_fail(struct sim *sim, const char *format, ...)
{
    va_list args;

    fprintf(stderr, "FAILED at %.3f us, seed %" PRIu64 ": ", (double)sim->now_ns / 1000,
            sim->config.seed);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (sim->config.trace)
        fflush(sim->config.trace);
    abort();
}

uint64_t sim_now(const struct sim *sim)
{
    return sim->now_ns;
}

struct eng *sim_engine(struct sim *sim, unsigned host)
{
    return sim->host[host].eng;
}

struct medium_link *sim_link(struct sim *sim)
{
    return medium_link(sim->medium);
}

uint64_t sim_hash(const struct sim *sim)
{
    return sim->hash;
}

uint64_t sim_lost(const struct sim *sim)
{
    return medium_lost(sim->medium);
}

/* ---- memory ---------------------------------------------------------------------------- */

struct sim_mem sim_register(struct sim *sim, unsigned host, uint32_t len, unsigned rights)
{
    struct sim_host *of = &sim->host[host];
    struct sim_region *region = &of->region[of->regions];

    if (of->regions == SIM_REGIONS_MAX)
        sim_fail(sim, "too many regions");
    region->live = true;
    region->rights = rights;
    region->mem.handle = 0x100 + of->regions;
    region->mem.addr = 0x7f0000000000ull + ((uint64_t)host << 36) + ((uint64_t)of->regions << 26);
    region->mem.len = len;
    region->mem.bytes = calloc(1, len ? len : 1);
    of->regions++;
    return region->mem;
}

void sim_deregister(struct sim *sim, unsigned host, uint32_t handle)
{
    sim->host[host].region[handle - 0x100].live = false;
}

/* Returns the bytes of an access; NULL: the access is not allowed. */
static uint8_t *resolve(struct sim_host *host, const struct eng_access *access)
{
    unsigned index = access->handle - 0x100;
    struct sim_region *region = &host->region[index];

    if (index >= host->regions || !region->live)
        return NULL;
    if (access->len && (access->addr < region->mem.addr || access->len > region->mem.len ||
                        access->addr - region->mem.addr > region->mem.len - access->len))
        return NULL;
    if (access->kind == ENG_ACCESS_REMOTE_WRITE && !(region->rights & SIM_REMOTE_WRITE))
        return NULL;
    if (access->kind == ENG_ACCESS_REMOTE_READ && !(region->rights & SIM_REMOTE_READ))
        return NULL;
    return region->mem.bytes + (access->len ? access->addr - region->mem.addr : 0);
}

/* ---- operations of the engine ---------------------------------------------------------- */

static bool op_check(void *ctx, const struct eng_access *access)
{
    return resolve(ctx, access) != NULL;
}

static bool op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    struct sim_host *host = ctx;
    uint8_t *to = resolve(host, access);

    if (!host->packet || access->len > host->packet_len ||
        payload_offset > host->packet_len - access->len)
        sim_fail(host->sim, "place outside of the packet");
    if (!to)
        return false;
    memcpy(to, host->packet + payload_offset, access->len);
    return true;
}

static void queue_push(struct sim_queue *queue, const struct eng_post *post)
{
    struct sim_posted *to = &queue->at[(queue->head + queue->count) % VIP_DESC_PER_QUEUE_MAX];

    if (queue->count == VIP_DESC_PER_QUEUE_MAX)
        return; /* the engine drops such a descriptor, too */
    queue->count++;
    to->post = *post;
    to->segs = malloc((post->seg_count + 1u) * sizeof(*to->segs));
    memcpy(to->segs, post->app_segs, post->seg_count * sizeof(*to->segs));
    to->post.app_segs = to->segs;
}

static void queue_pop(struct sim_queue *queue)
{
    if (!queue->count)
        return;
    free(queue->at[queue->head].segs);
    queue->head = (queue->head + 1) % VIP_DESC_PER_QUEUE_MAX;
    queue->count--;
}

static void op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                        uint32_t length, uint64_t imm)
{
    struct sim_host *host = ctx;

    sim_trace(host->sim, "%c vi%u %s complete status=%05x length=%u imm=%" PRIx64,
              'A' + (int)host->index, vi, queue == VIP_Q_SEND ? "send" : "recv", status, length,
              imm);
    if (!(status & VIP_ST_DONE))
        sim_fail(host->sim, "completion without DONE");
    queue_pop(&host->queue[vi][queue]);
    host->sim->config.app.complete(host->sim->config.app.ctx, host->index, vi, queue, status,
                                   length, imm);
}

static struct sim_conn *conn_of_vi(struct sim *sim, unsigned host, uint16_t vi)
{
    for (unsigned i = 0; i < sim->conns; i++)
        if (sim->conn[i].host == host && sim->conn[i].vi == vi && sim->conn[i].live)
            return &sim->conn[i];
    return NULL;
}

static void close_send(struct sim *sim, struct sim_conn *conn, const struct eng_close *close)
{
    medium_close(sim->medium, conn->peer, conn->remote_id, close, sim->now_ns);
    conn->live = false;
}

static void op_event(void *ctx, const struct eng_event *event)
{
    struct sim_host *host = ctx;
    struct sim *sim = host->sim;
    struct sim_conn *conn = conn_of_vi(sim, host->index, event->vi);

    switch (event->kind) {
    case ENG_EVENT_ERROR:
        sim_trace(sim, "%c vi%u error code=%u: %s", 'A' + (int)host->index, event->vi, event->code,
                  event->why);
        break;
    case ENG_EVENT_STATE:
        sim_trace(sim, "%c vi%u state=%u", 'A' + (int)host->index, event->vi, event->state);
        break;
    case ENG_EVENT_BROKEN:
        sim_trace(sim, "%c vi%u broken reason=%u op_status=%x failed_op=%u ops_done=%u: %s",
                  'A' + (int)host->index, event->vi, event->reason, event->op_status,
                  event->op_status ? event->failed_op : 0, event->ops_done, event->why);
        if (conn)
            close_send(sim, conn,
                       &(struct eng_close){.ops_valid = true,
                                           .ops_done = event->ops_done,
                                           .op_status = event->op_status,
                                           .failed_op = event->failed_op,
                                           .why = "the peer reported an error"});
        break;
    }
    sim->config.app.event(sim->config.app.ctx, host->index, event);
}

static void op_fetch(void *ctx)
{
    struct sim_host *host = ctx;

    if (host->sim->config.app.fetch)
        host->sim->config.app.fetch(host->sim->config.app.ctx, host->index);
}

static struct vip_shm_seg *op_segs_alloc(void *ctx, unsigned count)
{
    struct sim_host *host = ctx;

    host->segs++;
    return malloc(count * sizeof(struct vip_shm_seg));
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    struct sim_host *host = ctx;

    (void)count;
    host->segs--;
    free(segs);
}

static const struct eng_ops OPS = {.check = op_check,
                                   .place = op_place,
                                   .complete = op_complete,
                                   .event = op_event,
                                   .fetch_posts = op_fetch,
                                   .segs_alloc = op_segs_alloc,
                                   .segs_free = op_segs_free};

/* ---- set-up ---------------------------------------------------------------------------- */

static void *zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    memset(memory, 0, bytes);
    return memory;
}

struct sim *sim_new(const struct sim_config *config)
{
    struct sim *sim = calloc(1, sizeof(*sim));

    sim->config = *config;
    sim->medium = medium_new(&config->link, config->hosts, config->seed);
    sim->hash = 0xcbf29ce484222325ull;
    sim->now_ns = 1000000;
    for (unsigned i = 0; i < config->hosts; i++) {
        struct sim_host *host = &sim->host[i];
        struct eng_config engine = config->engine;

        host->sim = sim;
        host->index = i;
        engine.seed = config->seed * 16 + i + 1;
        host->eng = eng_init(zeroed(eng_bytes()), &engine, &OPS, host, sim->now_ns);
    }
    return sim;
}

static void replay(struct sim *sim, struct sim_host *host);

void sim_free(struct sim *sim)
{
    for (unsigned i = 0; i < sim->config.hosts; i++) {
        struct sim_host *host = &sim->host[i];

        for (unsigned vi = 0; vi < VIP_VI_MAX; vi++)
            if (host->vi_memory[vi])
                sim_vi_destroy(sim, i, (uint16_t)vi);
        if (host->held_count)
            sim_fail(sim, "%u held packets were never given back", host->held_count);
        if (host->segs)
            sim_fail(sim, "%ld segment lists leaked", host->segs);
        for (unsigned r = 0; r < host->regions; r++)
            free(host->region[r].mem.bytes);
        free(host->eng);
    }
    medium_free(sim->medium);
    free(sim);
}

void sim_vi(struct sim *sim, unsigned host, uint16_t vi, uint16_t level, uint32_t max_transfer)
{
    struct eng_vi_attrs attrs = {.level = level,
                                 .max_transfer_bytes = max_transfer,
                                 .enable_rdma_write = true,
                                 .enable_rdma_read = true};

    sim->host[host].vi_memory[vi] = zeroed(eng_vi_bytes());
    sim->host[host].queue[vi] = calloc(2, sizeof(struct sim_queue));
    sim->host[host].level[vi] = level;
    eng_vi_create(sim->host[host].eng, vi, sim->host[host].vi_memory[vi], &attrs);
}

void sim_vi_destroy(struct sim *sim, unsigned host, uint16_t vi)
{
    struct sim_host *of = &sim->host[host];

    eng_vi_destroy(of->eng, vi);
    free(of->vi_memory[vi]);
    of->vi_memory[vi] = NULL;
    for (unsigned q = 0; q < 2; q++)
        while (of->queue[vi][q].count)
            queue_pop(&of->queue[vi][q]);
    free(of->queue[vi]);
    of->queue[vi] = NULL;
    replay(sim, of);
}

static struct eng_conn conn_args(const struct sim_conn *end)
{
    return (struct eng_conn){.local_id = end->local_id,
                             .remote_id = end->remote_id,
                             .local_epoch = 1 + end->host,
                             .remote_epoch = 1 + end->peer,
                             .packet_bytes = end->packet_bytes,
                             .window_bytes = end->window_bytes,
                             .path = end->peer};
}

void sim_connect(struct sim *sim, unsigned host_a, uint16_t vi_a, unsigned host_b, uint16_t vi_b,
                 uint32_t packet_bytes, uint32_t window_bytes)
{
    struct sim_conn *a = &sim->conn[sim->conns], *b = a + 1;

    if (sim->conns + 2 > SIM_CONNS_MAX)
        sim_fail(sim, "too many connections");
    *a = (struct sim_conn){.host = host_a,
                           .peer = host_b,
                           .vi = vi_a,
                           .local_id = 1000 + sim->conns,
                           .remote_id = 1001 + sim->conns,
                           .live = true};
    *b = (struct sim_conn){.host = host_b,
                           .peer = host_a,
                           .vi = vi_b,
                           .local_id = a->remote_id,
                           .remote_id = a->local_id,
                           .live = true};
    sim->conns += 2;
    for (struct sim_conn *end = a; end <= b; end++) {
        struct eng_conn conn;

        end->packet_bytes = packet_bytes;
        end->window_bytes = window_bytes;
        conn = conn_args(end);
        eng_vi_connect(sim->host[end->host].eng, end->vi, &conn, sim->now_ns);
    }
}

void sim_disconnect(struct sim *sim, unsigned host, uint16_t vi)
{
    struct sim_conn *conn = conn_of_vi(sim, host, vi);
    struct eng_close close = {.ops_valid = true, .why = "the peer disconnected"};

    sim_trace(sim, "%c vi%u disconnects", 'A' + (int)host, vi);
    eng_vi_disconnect(sim->host[host].eng, vi, &close.ops_done);
    if (conn)
        close_send(sim, conn, &close);
    replay(sim, &sim->host[host]);
}

/* ---- sending --------------------------------------------------------------------------- */

void sim_drop(struct sim *sim, unsigned host, uint64_t packet_number)
{
    if (!medium_drop(sim->medium, host, packet_number))
        sim_fail(sim, "too many packets to drop");
}

static void transmit(struct sim *sim, const struct sim_host *host, unsigned to, uint64_t conn_id,
                     const uint8_t *bytes, uint32_t len)
{
    struct medium_packet packet = {
        .from = host->index, .to = to, .conn_id = conn_id, .bytes = bytes, .len = len};
    char text[MEDIUM_TEXT_BYTES];

    if (vip_wire_get_data(bytes, len, &sim->decoded) != VIP_WIRE_OK)
        sim_fail(sim, "the engine emitted a malformed packet");
    packet.number = sim->decoded.hdr.packet_number;
    medium_describe(&sim->decoded, medium_send(sim->medium, &packet, sim->now_ns), text);
    sim_trace(sim, "%c -> %s", 'A' + (int)host->index, text);
}

/* Send a packet of the engine: copy its pieces into one buffer. All pieces must be accessible, and
 * the sum of their lengths must be correct. */
static void send_packet(struct sim *sim, struct sim_host *host)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    const struct eng_packet *packet = &sim->packet;
    const struct sim_conn *conn = conn_of_vi(sim, host->index, packet->vi);
    uint32_t at = 0;

    for (unsigned i = 0; i < packet->piece_count; i++) {
        const struct eng_piece *piece = &packet->piece[i];
        const uint8_t *from = packet->head + piece->offset;

        if (piece->from_region) {
            struct eng_access access = {.vi = packet->vi,
                                        .kind = packet->remote_read ? ENG_ACCESS_REMOTE_READ
                                                                    : ENG_ACCESS_SEND,
                                        .handle = piece->handle,
                                        .addr = piece->addr,
                                        .len = piece->len};

            from = resolve(host, &access);
            if (!from) {
                sim_trace(sim, "%c vi%u packet failed", 'A' + (int)host->index, packet->vi);
                eng_tx_failed(host->eng, packet->vi, packet->op, sim->now_ns);
                return;
            }
        }
        if (!piece->len || at + piece->len > sizeof(bytes))
            sim_fail(sim, "piece of %u bytes", piece->len);
        memcpy(bytes + at, from, piece->len);
        at += piece->len;
    }
    if (at != packet->bytes)
        sim_fail(sim, "pieces add up to %u, not %u bytes", at, packet->bytes);
    if (conn)
        transmit(sim, host, packet->path, conn->remote_id, bytes, at);
}

/* ---- arrivals -------------------------------------------------------------------------- */

static uint32_t token_free(struct sim *sim, const struct sim_host *host)
{
    for (uint32_t i = 1; i < SIM_TOKENS; i++)
        if (!host->held[i])
            return i;
    sim_fail(sim, "no token left");
}

static void replay(struct sim *sim, struct sim_host *host)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    while (eng_replay(host->eng, &vi, &token, &feed)) {
        uint8_t *bytes = host->held[token];

        if (!bytes)
            sim_fail(sim, "token %u given back twice", token);
        host->held[token] = NULL;
        host->held_count--;
        if (feed) {
            host->packet = bytes;
            host->packet_len = host->held_len[token];
            vip_wire_get_data(bytes, host->packet_len, &sim->decoded);
            eng_rx_replay(host->eng, vi, &sim->decoded, sim->now_ns);
            host->packet = NULL;
        }
        free(bytes);
    }
}

static struct sim_conn *conn_of_id(struct sim *sim, uint64_t id)
{
    for (unsigned i = 0; i < sim->conns; i++)
        if (sim->conn[i].local_id == id && sim->conn[i].live)
            return &sim->conn[i];
    return NULL;
}

static void arrive_packet(struct sim *sim, struct medium_arrival *arrival,
                          const struct sim_conn *conn)
{
    static const char *const names[] = {"", "held", "duplicate", "stale", "full"};
    struct sim_host *host = &sim->host[arrival->host];
    uint32_t token = token_free(sim, host);
    enum eng_rx_verdict verdict;

    if (vip_wire_get_data(arrival->bytes, arrival->len, &sim->decoded) != VIP_WIRE_OK)
        sim_fail(sim, "malformed packet");
    host->packet = arrival->bytes;
    host->packet_len = arrival->len;
    verdict = eng_rx(host->eng, conn->vi, &sim->decoded, token, sim->now_ns);
    host->packet = NULL;
    if (verdict != ENG_RX_DONE)
        sim_trace(sim, "%c <- #%" PRIu64 " %s", 'A' + (int)host->index,
                  sim->decoded.hdr.packet_number, names[verdict]);
    if (verdict == ENG_RX_HOLD) {
        host->held[token] = arrival->bytes;
        host->held_len[token] = arrival->len;
        host->held_count++;
        arrival->bytes = NULL;
    }
    replay(sim, host);
}

static void arrive(struct sim *sim, struct medium_arrival *arrival)
{
    struct sim_conn *conn = conn_of_id(sim, arrival->conn_id);

    if (conn && arrival->kind == MEDIUM_PACKET) {
        arrive_packet(sim, arrival, conn);
    } else if (conn) {
        eng_vi_closed(sim->host[arrival->host].eng, conn->vi, &arrival->close, sim->now_ns);
        conn->live = false;
        replay(sim, &sim->host[arrival->host]);
    }
    free(arrival->bytes);
}

/* ---- rebind ---------------------------------------------------------------------------- */

/* Make the VI of this end anew, as the next life of vipd does, and go on. */
static void end_restart(struct sim *sim, const struct sim_conn *end, uint32_t completed,
                        uint32_t done)
{
    struct sim_host *host = &sim->host[end->host];
    struct eng_vi_attrs attrs = {.level = host->level[end->vi],
                                 .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX,
                                 .enable_rdma_write = true,
                                 .enable_rdma_read = true};
    struct eng_conn conn = conn_args(end);

    eng_vi_destroy(host->eng, end->vi);
    replay(sim, host);
    memset(host->vi_memory[end->vi], 0, eng_vi_bytes());
    eng_vi_create(host->eng, end->vi, host->vi_memory[end->vi], &attrs);
    eng_vi_restore(host->eng, end->vi, &conn, completed, done, sim->now_ns);
    for (unsigned q = 0; q < 2; q++) {
        struct sim_queue *queue = &host->queue[end->vi][q];

        for (unsigned i = 0; i < queue->count; i++)
            eng_post(host->eng, &queue->at[(queue->head + i) % VIP_DESC_PER_QUEUE_MAX].post,
                     sim->now_ns);
    }
}

bool sim_rebind(struct sim *sim, unsigned host, uint16_t vi, unsigned restart)
{
    struct sim_conn *end[2] = {conn_of_vi(sim, host, vi), NULL};
    struct vip_counts counts[2];
    uint32_t completed[2];

    end[1] = end[0] ? conn_of_id(sim, end[0]->remote_id) : NULL;
    if (!end[1])
        return false;
    sim_trace(sim, "%c vi%u rebind %u", 'A' + (int)host, vi, restart);
    for (unsigned i = 0; i < 2; i++) {
        struct eng *eng = sim->host[end[i]->host].eng;

        if (!(restart >> i & 1))
            eng_vi_pause(eng, end[i]->vi);
        replay(sim, &sim->host[end[i]->host]);
        eng_vi_counts(eng, end[i]->vi, &counts[i]);
        completed[i] = eng_vi_completed(eng, end[i]->vi);
    }
    /* No connection has the old ids any more, so packets with these ids are dropped. */
    end[0]->local_id = end[1]->remote_id = 1000000 + ++sim->last_id;
    end[1]->local_id = end[0]->remote_id = 1000000 + ++sim->last_id;
    for (unsigned i = 0; i < 2; i++) {
        if (restart >> i & 1)
            end_restart(sim, end[i], completed[i], counts[i].done);
        eng_vi_counts(sim->host[end[i]->host].eng, end[i]->vi, &counts[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct eng_conn conn = conn_args(end[i]);

        if (eng_vi_rebind(sim->host[end[i]->host].eng, end[i]->vi, &conn, &counts[!i], sim->now_ns))
            sim_fail(sim, "the counts of the other end were refused");
        replay(sim, &sim->host[end[i]->host]);
    }
    return true;
}

/* ---- time ------------------------------------------------------------------------------ */

/* Let engines and applications act at this time until none of them has work. */
static void settle(struct sim *sim)
{
    bool again = true;

    for (unsigned rounds = 0; again; rounds++) {
        again = false;
        if (rounds > 100000)
            sim_fail(sim, "an engine does not come to rest");
        for (unsigned i = 0; i < sim->config.hosts; i++) {
            struct sim_host *host = &sim->host[i];

            for (unsigned n = 0; n < 32 && eng_pull_any(host->eng, &sim->packet, sim->now_ns);
                 n++) {
                send_packet(sim, host);
                again = true;
            }
            if (eng_deadline(host->eng) <= sim->now_ns) {
                eng_tick_all(host->eng, sim->now_ns);
                replay(sim, host);
                again = true;
            }
        }
        if (sim->config.app.poll)
            sim->config.app.poll(sim->config.app.ctx);
        for (unsigned i = 0; i < sim->config.hosts; i++)
            if (eng_tx_ready(sim->host[i].eng) || eng_deadline(sim->host[i].eng) <= sim->now_ns)
                again = true;
    }
}

/* Time of the next event or timer. */
static uint64_t next_ns(const struct sim *sim)
{
    uint64_t at_ns = medium_next_ns(sim->medium);

    for (unsigned i = 0; i < sim->config.hosts; i++)
        if (eng_deadline(sim->host[i].eng) < at_ns)
            at_ns = eng_deadline(sim->host[i].eng);
    return at_ns;
}

bool sim_run_until(struct sim *sim, uint64_t until_ns, bool (*done)(void *ctx), void *ctx)
{
    struct medium_arrival arrival;

    settle(sim);
    while (!done || !done(ctx)) {
        uint64_t at_ns = next_ns(sim);

        if (at_ns == ENG_NEVER || at_ns > until_ns) {
            if (at_ns != ENG_NEVER)
                sim->now_ns = until_ns;
            return !done && at_ns == ENG_NEVER;
        }
        if (at_ns > sim->now_ns)
            sim->now_ns = at_ns;
        while (medium_take(sim->medium, sim->now_ns, &arrival))
            arrive(sim, &arrival);
        settle(sim);
    }
    return true;
}

bool sim_run(struct sim *sim, uint64_t until_ns)
{
    return sim_run_until(sim, until_ns, NULL, NULL);
}

/* ---- posting --------------------------------------------------------------------------- */

void sim_post(struct sim *sim, unsigned host, const struct eng_post *post)
{
    queue_push(&sim->host[host].queue[post->vi][post->queue], post);
    eng_post(sim->host[host].eng, post, sim->now_ns);
}

void sim_post_simple(struct sim *sim, unsigned host, uint16_t vi, enum vip_queue queue,
                     uint16_t control, const struct vip_shm_seg *remote, const struct sim_mem *mem,
                     uint32_t offset, uint32_t len, uint64_t imm)
{
    struct vip_shm_seg segs[2];
    struct eng_post post = {
        .vi = vi, .queue = queue, .control = control, .length = len, .imm = imm, .app_segs = segs};

    if (remote)
        segs[post.seg_count++] = *remote;
    if (mem)
        segs[post.seg_count++] =
            (struct vip_shm_seg){.addr = mem->addr + offset, .handle = mem->handle, .len = len};
    sim_post(sim, host, &post);
}
