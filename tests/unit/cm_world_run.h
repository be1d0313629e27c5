/*
 * The second part of the world of connection managers (cm_world.h): lives of hosts and virtual
 * time. Actions of applications are in cm_world_app.h.
 */
#ifndef TESTS_UNIT_CM_WORLD_RUN_H
#define TESTS_UNIT_CM_WORLD_RUN_H

#include "tests/unit/cm_world.h"

/* Returns memory for host number `slot`, or for the world if `slot` is HOSTS_MAX. The macros of the
 * fuzz target use the same memory for each world. */
#ifndef WORLD_MEMORY
#define WORLD_MEMORY(slot, bytes) aligned_alloc(64, ((bytes) + 63) / 64 * 64)
#define WORLD_MEMORY_FREE(memory) free(memory)
#endif

static const struct cm_config world_config UNUSED = {
    .source_bytes = 4,
    .port_bytes = 2,
    .packet_bytes = 8192,
    .window_bytes = 65536,
    .grace_ns = 20 * MS,
    .grace_busy_ns = 200 * MS,
    .grace_loop_ns = 2 * S,
    .grace_work_ns = 10 * S,
    .backlog_max = 128,
    .retry_ns = 10 * MS,
    .retry_max_ns = 500 * MS,
    .accept_timeout_ns = 5 * S,
    .close_timeout_ns = 5 * S,
    .keepalive_ns = 1 * S,
    .peer_dead_ns = 4 * S,
};

/* The request keeps its number `user` and gets another connection id. */
static inline void op_renew(void *ctx, uint64_t *user, uint64_t *local_id)
{
    struct host *host = ctx;

    assert_true(*user < host->request_count && !host->requests[*user].done);
    assert_true(host->requests[*user].local_id == *local_id);
    *local_id = (uint64_t)(host->index + 1) << 32 | ++host->id_counter;
    host->requests[*user].local_id = *local_id;
    host->renewed++;
}

static inline void op_away(void *ctx, uint64_t local_id)
{
    struct host *host = ctx;

    assert_true(host_conn(host, local_id) && host_conn(host, local_id)->alive);
    host_conn(host, local_id)->away++;
}

static inline uint64_t op_other_id(void *ctx, uint64_t local_id)
{
    struct host *host = ctx;

    assert_true(host_conn(host, local_id) && host_conn(host, local_id)->alive);
    return (uint64_t)(host->index + 1) << 32 | ++host->id_counter;
}

static inline bool op_rebind(void *ctx, uint64_t local_id, const struct cm_conn *info,
                             const struct vip_counts *theirs, struct vip_counts *ours)
{
    struct host *host = ctx;
    struct conn *conn = host_conn(host, local_id);

    assert_true(conn && conn->alive && !host_conn(host, info->local_id));
    conn->local_id = info->local_id;
    if (host->refuse_counts)
        return false;
    conn->rebound++;
    conn->remote_id = info->remote_id;
    conn->peer = info->peer;
    conn->info = *info;
    conn->theirs = *theirs;
    *ours = conn->counts;
    return true;
}

/* Rebind `user` has ended. On success, add the connection to the host's `conns`. */
static inline void op_rebound(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *info,
                              const struct vip_counts *theirs, const char *why)
{
    struct host *host = ctx;

    assert_true(user < host->request_count);
    attempt_done(host, &host->requests[user], rc, info, why);
    if (rc != VIP_RC_SUCCESS)
        return;
    host->conns[host->conn_count - 1].theirs = *theirs;
    host->conns[host->conn_count - 1].counts = host->requests[user].counts;
    host->conns[host->conn_count - 1].rebound++;
}

static inline void op_owned(void *ctx, uint32_t *record, uint32_t uid, const uint8_t *disc,
                            uint8_t len)
{
    struct host *host = ctx;

    (void)uid;
    assert_true(disc && len <= VIP_DISCRIMINATOR_BYTES_MAX);
    host->owned += *record == 0;
    *record = 1;
}

static inline void op_disowned(void *ctx, uint32_t record)
{
    struct host *host = ctx;

    assert_true(record == 1 && host->owned > 0);
    host->owned--;
}

static inline void op_loan_offered(void *ctx, uint64_t local_id, const struct cm_loan_terms *theirs)
{
    struct conn *conn = host_conn(ctx, local_id);

    assert_true(conn && conn->alive);
    conn->offers++;
    conn->terms = *theirs;
}

static inline void op_loan_agreed(void *ctx, uint64_t local_id, uint32_t offered,
                                  const struct cm_loan_terms *theirs)
{
    struct conn *conn = host_conn(ctx, local_id);

    assert_true(conn && conn->alive);
    conn->agrees++;
    conn->offered = offered;
    conn->terms = *theirs;
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
    memset(memory, 0x5a, bytes); /* makes a wrong size or a use after free visible */
    free(memory);
}

/* Start a host, or start it again in a new life. */
static inline void host_start(struct world *w, unsigned index)
{
    struct cm_ops ops = {op_send,     op_incoming,     op_request_done, op_accept_done, op_closed,
                         op_lost,     op_reset,        op_renew,        op_away,        op_alloc,
                         op_free,     op_other_id,     op_rebind,       op_rebound,     op_owned,
                         op_disowned, op_loan_offered, op_loan_agreed};
    struct host *host = &w->hosts[index];
    struct cm_config config = world_config;
    uint64_t id_counter = host->id_counter;

    if (w->lends_nothing)
        ops.loan_offered = NULL, ops.loan_agreed = NULL;
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
    config.features = w->features[index];
    config.outlive_ns = w->outlive_ns;
    config.seed = world_random(w);
    config.verify_all = w->verify_all;
    config.packet_bytes += 100 * index;
    config.window_bytes += 1000 * index;
    host->memory = WORLD_MEMORY(index, cm_bytes());
    memset(host->memory, 0, cm_bytes());
    host->cm = cm_init(host->memory, &config, &ops, host, w->now_ns);
}

/* End the life of a host without a message, as if its vipd were killed. No memory may leak. */
static inline void host_kill(struct world *w, unsigned index)
{
    struct host *host = &w->hosts[index];

    cm_deinit(host->cm);
    assert_int_equal(host->allocs, 0);
    WORLD_MEMORY_FREE(host->memory);
    host->cm = NULL;
    host->down = true;
}

/* Returns a new world. With verify_all its hosts always ask every new client for a cookie. */
static inline struct world *world_new_asking(unsigned hosts, uint64_t seed, bool verify_all)
{
    struct world *w = WORLD_MEMORY(HOSTS_MAX, sizeof(*w));

    memset(w, 0, sizeof(*w));
    w->random = seed * 0x9e3779b97f4a7c15ull + 1;
    w->host_count = hosts;
    w->verify_all = verify_all;
    w->now_ns = 1000 * S;
    w->delay_min_ns = 50000;
    for (unsigned i = 0; i < hosts; i++)
        host_start(w, i);
    return w;
}

static inline struct world *world_new(unsigned hosts, uint64_t seed)
{
    return world_new_asking(hosts, seed, false);
}

/* Restart the host as a vipd with these features. */
static inline void host_feature(struct world *w, unsigned index, uint64_t features)
{
    bool eager = w->hosts[index].eager;

    w->features[index] = features;
    host_kill(w, index);
    host_start(w, index);
    w->hosts[index].eager = eager;
}

static inline void world_free(struct world *w)
{
    for (unsigned i = 0; i < w->host_count; i++)
        if (w->hosts[i].cm)
            host_kill(w, i);
    WORLD_MEMORY_FREE(w);
}

/* The host forgets the connections that have ended. */
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

/* Deliver the packets that are due, then let timers fire. */
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
        while (cm_tick(w->hosts[i].cm, w->now_ns))
            continue;
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

#include "tests/unit/cm_world_app.h"

#endif
