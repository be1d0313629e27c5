/*
 * A small world for connection managers: hosts with one struct cm each, a link that loses, doubles
 * and reorders from a seed, and virtual time. A host records what the manager
 * tells it and acts on it later, or, if it is eager, from within, as vipd/nic/ does.
 *
 * Included by the test_engine_cm*.c programs only.
 */
#ifndef TESTS_UNIT_CM_WORLD_H
#define TESTS_UNIT_CM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vipd/engine/cm.h"

#define MS         1000000ull
#define S          1000000000ull
#define HOSTS_MAX  3
#define FLIGHT_MAX 8192
#define THINGS_MAX 1024
#define UNUSED     __attribute__((unused))

struct flight {
    uint64_t at_ns;
    unsigned to;
    struct cm_host from;
    size_t len_bytes;
    uint8_t bytes[VIP_WIRE_CM_BYTES_MAX];
};

/* A request or an accept of the host; `user` is its index. */
struct attempt {
    bool used;
    unsigned done; /* times its end was reported */
    bool given_up; /* we cancelled it, or closed the accept */
    enum vip_rc rc;
    uint64_t done_ns, local_id;
};

struct conn {
    uint64_t local_id, remote_id;
    uint32_t peer;
    bool alive;
    bool gone_due; /* to be reported with cm_conn_gone at the next step */
    unsigned closed, reset, lost;
    struct vip_cm close;
    struct cm_conn info;
};

struct incoming {
    uint64_t wait, handle;
    struct vip_addr remote;
    struct vip_cm_attrs attrs;
    bool answered;
};

struct host {
    struct world *world;
    unsigned index;
    struct cm *cm;
    void *memory;
    struct cm_host addr;
    uint64_t epoch;
    bool down;               /* packets to it vanish */
    bool eager;              /* acts from within operations */
    long allocs, fail_after; /* fail_after >= 0: allocations that still succeed */
    uint64_t id_counter;
    struct attempt requests[THINGS_MAX], accepts[THINGS_MAX];
    struct conn conns[THINGS_MAX];
    struct incoming incoming[THINGS_MAX];
    unsigned request_count, accept_count, conn_count, incoming_count;
};

struct world {
    uint64_t now_ns, random;
    unsigned loss_percent, dup_percent;
    uint64_t delay_min_ns, delay_spread_ns;
    unsigned host_count, flight_count;
    uint64_t packets, bytes_sent[HOSTS_MAX];
    unsigned sent_of_type[VIP_CM_TYPES], longest;
    bool (*filter)(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg);
    struct host hosts[HOSTS_MAX];
    struct flight flights[FLIGHT_MAX];
};

static inline uint64_t world_random(struct world *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static inline bool world_percent(struct world *w, unsigned percent)
{
    return world_random(w) % 100 < percent;
}

static inline int host_at(struct world *w, const struct cm_host *addr)
{
    for (unsigned i = 0; i < w->host_count; i++)
        if (w->hosts[i].addr.len == addr->len &&
            !memcmp(w->hosts[i].addr.bytes, addr->bytes, addr->len))
            return (int)i;
    return -1;
}

static inline void world_fly(struct world *w, const struct cm_host *from, unsigned to,
                             const uint8_t *bytes, size_t len_bytes)
{
    struct flight *flight = &w->flights[w->flight_count++];

    assert_true(w->flight_count < FLIGHT_MAX);
    flight->at_ns = w->now_ns + w->delay_min_ns +
                    (w->delay_spread_ns ? world_random(w) % w->delay_spread_ns : 0);
    flight->to = to;
    flight->from = *from;
    flight->len_bytes = len_bytes;
    memcpy(flight->bytes, bytes, len_bytes);
}

static inline void op_send(void *ctx, const struct cm_host *to, const uint8_t *packet,
                           size_t len_bytes)
{
    struct host *host = ctx;
    struct world *w = host->world;
    int target = host_at(w, to);
    struct vip_cm msg;

    assert_true(len_bytes <= VIP_WIRE_CM_BYTES_MAX && vip_wire_check_seal(packet, len_bytes));
    assert_int_equal(vip_wire_get_cm(packet, len_bytes, &msg), VIP_WIRE_OK);
    w->sent_of_type[msg.type]++;
    w->packets++;
    w->bytes_sent[host->index] += len_bytes;
    if (target < 0 || (w->filter && !w->filter(w, host->index, (unsigned)target, &msg)))
        return;
    if (!world_percent(w, w->loss_percent))
        world_fly(w, &host->addr, (unsigned)target, packet, len_bytes);
    if (world_percent(w, w->dup_percent))
        world_fly(w, &host->addr, (unsigned)target, packet, len_bytes);
}

static inline void op_incoming(void *ctx, uint64_t wait, uint64_t handle,
                               const struct vip_addr *remote, const struct vip_cm_attrs *attrs)
{
    struct host *host = ctx;
    struct incoming *in = &host->incoming[host->incoming_count++];

    assert_true(host->incoming_count < THINGS_MAX);
    *in = (struct incoming){.wait = wait, .handle = handle, .remote = *remote, .attrs = *attrs};
}

static inline struct conn *host_conn(struct host *host, uint64_t local_id)
{
    for (unsigned i = 0; i < host->conn_count; i++)
        if (host->conns[i].local_id == local_id)
            return &host->conns[i];
    return NULL;
}

/* VipDisconnect of an established connection. */
static inline void host_close(struct world *w, unsigned index, struct conn *conn)
{
    struct host *host = &w->hosts[index];
    struct cm_close_args args = {.local_id = conn->local_id,
                                 .remote_id = conn->remote_id,
                                 .peer = conn->peer,
                                 .reason = VIP_CLOSE_DISCONNECT,
                                 .ops_valid = true,
                                 .ops_done = 42};

    assert_true(conn->alive);
    conn->alive = false;
    cm_close(host->cm, &args, w->now_ns);
    cm_conn_gone(host->cm, conn->local_id, conn->peer);
}

/* A connection has ended by what the manager said: forget it, now or at the next step. */
static inline void conn_over(struct host *host, struct conn *conn)
{
    conn->alive = false;
    conn->gone_due = !host->eager;
    if (host->eager)
        cm_conn_gone(host->cm, conn->local_id, conn->peer);
}

static inline void attempt_done(struct host *host, struct attempt *attempt, enum vip_rc rc,
                                const struct cm_conn *info, const char *why)
{
    struct conn *conn;

    assert_true(attempt->used && !attempt->given_up && attempt->done == 0 && why);
    attempt->done++;
    attempt->rc = rc;
    attempt->done_ns = host->world->now_ns;
    if (rc != VIP_RC_SUCCESS) {
        assert_null(info);
        return;
    }
    assert_non_null(info);
    assert_true(info->local_id == attempt->local_id && !host_conn(host, info->local_id));
    conn = &host->conns[host->conn_count++];
    assert_true(host->conn_count < THINGS_MAX);
    *conn = (struct conn){.local_id = info->local_id,
                          .remote_id = info->remote_id,
                          .peer = info->peer,
                          .alive = true,
                          .info = *info};
    if (host->eager && host->world->now_ns % 4 == 0)
        host_close(host->world, host->index, conn);
}

static inline void op_request_done(void *ctx, uint64_t user, enum vip_rc rc,
                                   const struct cm_conn *conn, const char *why)
{
    struct host *host = ctx;

    assert_true(user < host->request_count);
    attempt_done(host, &host->requests[user], rc, conn, why);
}

static inline void op_accept_done(void *ctx, uint64_t user, enum vip_rc rc,
                                  const struct cm_conn *conn, const char *why)
{
    struct host *host = ctx;

    assert_true(user < host->accept_count);
    attempt_done(host, &host->accepts[user], rc, conn, why);
}

static inline void op_closed(void *ctx, uint64_t local_conn_id, const struct vip_cm *close)
{
    struct conn *conn = host_conn(ctx, local_conn_id);

    assert_true(conn && conn->alive);
    conn->closed++;
    conn->close = *close;
    conn_over(ctx, conn);
}

static inline void op_peer_lost(void *ctx, uint32_t peer, const char *why)
{
    struct host *host = ctx;

    assert_non_null(why);
    for (unsigned i = 0; i < host->conn_count; i++) {
        struct conn *conn = &host->conns[i];

        if (conn->peer != peer || !conn->alive)
            continue;
        conn->lost++;
        conn_over(host, conn);
    }
}

static inline void op_reset(void *ctx, uint64_t local_conn_id, uint32_t peer)
{
    struct conn *conn = host_conn(ctx, local_conn_id);

    assert_true(conn && conn->alive && conn->peer == peer);
    conn->reset++;
    conn_over(ctx, conn);
}

static inline void *op_alloc(void *ctx, size_t bytes)
{
    struct host *host = ctx;

    if (host->fail_after == 0)
        return NULL;
    if (host->fail_after > 0)
        host->fail_after--;
    host->allocs++;
    return calloc(1, bytes);
}

static inline void op_free(void *ctx, void *memory, size_t bytes)
{
    struct host *host = ctx;

    host->allocs--;
    memset(memory, 0x5a, bytes); /* proves the size, and that nobody looks afterwards */
    free(memory);
}

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

#endif
