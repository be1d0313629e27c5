/*
 * The world of connection managers (cm_world.h), second part: lives of hosts, virtual time, and what
 * applications do.
 */
#ifndef TESTS_UNIT_CM_WORLD_RUN_H
#define TESTS_UNIT_CM_WORLD_RUN_H

#include "tests/unit/cm_world.h"

static const struct cm_config world_config UNUSED = {
    .packet_bytes = 8192,
    .window_bytes = 65536,
    .grace_ns = 20 * MS,
    .grace_busy_ns = 200 * MS,
    .backlog_max = 128,
    .retry_ns = 10 * MS,
    .retry_max_ns = 500 * MS,
    .accept_timeout_ns = 5 * S,
    .close_timeout_ns = 5 * S,
    .keepalive_ns = 1 * S,
    .peer_dead_ns = 4 * S,
};

/* Start a host, or start it again in a new life. */
static inline void host_start(struct world *w, unsigned index)
{
    static const struct cm_ops ops = {op_send,        op_incoming, op_request_done,
                                      op_accept_done, op_closed,   op_peer_lost,
                                      op_reset,       op_alloc,    op_free};
    struct host *host = &w->hosts[index];
    struct cm_config config = world_config;
    uint64_t id_counter = host->id_counter;

    memset(host, 0, sizeof(*host));
    host->world = w;
    host->index = index;
    host->fail_after = -1;
    host->id_counter = id_counter;
    host->addr.len = 6;
    memcpy(host->addr.bytes, (uint8_t[]){127, 0, 0, (uint8_t)(index + 1), 0x12, 0xba}, 6);
    host->epoch = world_random(w) | 1;
    config.self = host->addr;
    config.epoch = host->epoch;
    config.seed = world_random(w);
    config.packet_bytes += 100 * index;
    config.window_bytes += 1000 * index;
    host->memory = aligned_alloc(64, (cm_bytes() + 63) / 64 * 64);
    memset(host->memory, 0, cm_bytes());
    host->cm = cm_init(host->memory, &config, &ops, host, w->now_ns);
}

/* End a host's life without a word, as when it is killed. Nothing may leak. */
static inline void host_kill(struct world *w, unsigned index)
{
    struct host *host = &w->hosts[index];

    cm_deinit(host->cm);
    assert_int_equal(host->allocs, 0);
    free(host->memory);
    host->cm = NULL;
    host->down = true;
}

static inline struct world *world_new(unsigned hosts, uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));

    w->random = seed * 0x9e3779b97f4a7c15ull + 1;
    w->host_count = hosts;
    w->now_ns = 1000 * S;
    w->delay_min_ns = 50000;
    for (unsigned i = 0; i < hosts; i++)
        host_start(w, i);
    return w;
}

static inline void world_free(struct world *w)
{
    for (unsigned i = 0; i < w->host_count; i++)
        if (w->hosts[i].cm)
            host_kill(w, i);
    free(w);
}

/* What a host does between two events: forget what is over. */
static inline void host_settle(struct host *host)
{
    for (unsigned i = 0; i < host->conn_count; i++) {
        if (!host->conns[i].gone_due)
            continue;
        host->conns[i].gone_due = false;
        cm_conn_gone(host->cm, host->conns[i].local_id, host->conns[i].peer);
    }
}

static inline uint64_t world_next_ns(const struct world *w)
{
    uint64_t next_ns = UINT64_MAX;

    for (unsigned i = 0; i < w->flight_count; i++)
        if (w->flights[i].at_ns < next_ns)
            next_ns = w->flights[i].at_ns;
    for (unsigned i = 0; i < w->host_count; i++)
        if (w->hosts[i].cm && cm_deadline(w->hosts[i].cm) < next_ns)
            next_ns = cm_deadline(w->hosts[i].cm);
    return next_ns;
}

/* Deliver what has arrived by now and let timers fire. */
static inline void world_turn(struct world *w)
{
    for (unsigned i = 0; i < w->flight_count;) {
        struct flight flight = w->flights[i];
        struct host *host = &w->hosts[flight.to];

        if (flight.at_ns > w->now_ns) {
            i++;
            continue;
        }
        w->flights[i] = w->flights[--w->flight_count];
        if (host->cm && !host->down) {
            cm_rx(host->cm, &flight.from, flight.bytes, flight.len_bytes, w->now_ns);
            host_settle(host);
        }
    }
    for (unsigned i = 0; i < w->host_count; i++) {
        if (!w->hosts[i].cm)
            continue;
        cm_tick(w->hosts[i].cm, w->now_ns);
        host_settle(&w->hosts[i]);
    }
}

static inline void world_run(struct world *w, uint64_t for_ns)
{
    uint64_t end_ns = w->now_ns + for_ns;

    for (;;) {
        uint64_t next_ns = world_next_ns(w);

        if (next_ns > end_ns)
            break;
        if (next_ns > w->now_ns)
            w->now_ns = next_ns;
        world_turn(w);
    }
    w->now_ns = end_ns;
}

/* ---- what applications do ---------------------------------------------------------------- */

static const struct vip_cm_attrs world_attrs UNUSED = {
    .level = VIP_LVL_DELIVERY, .rdma_write = 1, .max_transfer_bytes = 65536, .qos = 7};

static inline struct vip_addr world_addr(const struct host *host, const char *disc)
{
    struct vip_addr addr = {.host_len = host->addr.len, .disc_len = (uint8_t)strlen(disc)};

    memcpy(addr.host, host->addr.bytes, host->addr.len);
    memcpy(addr.disc, disc, addr.disc_len);
    return addr;
}

/* Start a request; returns its index. */
static inline unsigned host_request(struct world *w, unsigned from, unsigned to, const char *disc,
                                    uint64_t timeout_ns)
{
    struct host *host = &w->hosts[from];
    unsigned index = host->request_count++;
    struct cm_request_args args = {
        .user = index,
        .local_id = (uint64_t)(from + 1) << 32 | ++host->id_counter,
        .timeout_ns = timeout_ns,
        .local = world_addr(host, "client"),
        .remote = world_addr(&w->hosts[to], disc),
        .attrs = world_attrs,
    };

    assert_true(index < THINGS_MAX);
    host->requests[index] = (struct attempt){.used = true, .local_id = args.local_id};
    assert_int_equal(cm_request(host->cm, &args, w->now_ns), 0);
    return index;
}

static inline void host_listen(struct world *w, unsigned index, uint64_t wait, const char *disc)
{
    assert_int_equal(cm_listen(w->hosts[index].cm, wait, (const uint8_t *)disc,
                               (uint8_t)strlen(disc), w->now_ns),
                     0);
}

/* Accept incoming[i]; returns what cm_accept says. */
static inline int host_accept(struct world *w, unsigned index, unsigned i)
{
    struct host *host = &w->hosts[index];
    unsigned user = host->accept_count++;
    uint64_t local_id = (uint64_t)(index + 1) << 32 | ++host->id_counter;
    int rc;

    assert_true(user < THINGS_MAX && !host->incoming[i].answered);
    host->incoming[i].answered = true;
    host->accepts[user] = (struct attempt){.used = true, .local_id = local_id};
    rc = cm_accept(host->cm, host->incoming[i].handle, local_id, &world_attrs, user, w->now_ns);
    if (rc)
        host->accepts[user].used = false;
    return rc;
}

enum { CLIENT = 0, SERVER = 1, OTHER = 2 };

#define FOR_EVER UINT64_MAX

/* ---- filters: which messages get lost ---- */

static inline bool drop_all(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return false;
}

static unsigned dropped_type UNUSED, dropped_left UNUSED;

/* Lose the next dropped_left messages of dropped_type. */
static inline bool drop_type(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type != dropped_type || !dropped_left)
        return true;
    dropped_left--;
    return false;
}

static inline void lose(struct world *w, unsigned type, unsigned count)
{
    dropped_type = type;
    dropped_left = count;
    w->filter = drop_type;
}

static inline bool drop_from_server(struct world *w, unsigned from, unsigned to,
                                    const struct vip_cm *msg)
{
    return from != SERVER;
}

/* ---- helpers ---- */

static inline struct cm_stats stats_of(struct world *w, unsigned host)
{
    struct cm_stats stats;

    cm_stats(w->hosts[host].cm, &stats);
    return stats;
}

/* One connection from CLIENT to SERVER through discriminator "svc". */
static inline void connect_pair(struct world *w, struct conn **ret_client, struct conn **ret_server)
{
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    unsigned request, offered = server->incoming_count;

    host_listen(w, SERVER, 900 + offered, "svc");
    request = host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(server->incoming_count, offered + 1);
    assert_int_equal(host_accept(w, SERVER, offered), 0);
    world_run(w, 5 * MS);
    assert_int_equal(client->requests[request].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->requests[request].done, 1);
    assert_int_equal(server->accepts[server->accept_count - 1].done, 1);
    *ret_client = &client->conns[client->conn_count - 1];
    *ret_server = &server->conns[server->conn_count - 1];
    assert_true((*ret_client)->alive && (*ret_server)->alive);
}

/* A hand-made message. */
static inline void inject(struct world *w, unsigned from, unsigned to, uint64_t src_epoch,
                          uint64_t dst_epoch, const struct vip_cm *msg)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, src_epoch, dst_epoch, msg);

    cm_rx(w->hosts[to].cm, &w->hosts[from].addr, packet, len_bytes, w->now_ns);
    host_settle(&w->hosts[to]);
}

#endif
