/*
 * A simulated network for tests of the connection manager: hosts with one struct cm each, virtual
 * time, and a link that loses, duplicates and reorders packets. A seed decides what the link does.
 * A host records the operations (struct cm_ops) that its manager calls, and the test acts on the
 * records later. An eager host acts inside the operation, as vipd/nic/ does.
 *
 * This file has the link and the operations. Test programs include cm_world_run.h, which adds
 * virtual time and applications.
 */
#ifndef TESTS_UNIT_CM_WORLD_H
#define TESTS_UNIT_CM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vipd/engine/cm_loan.h"

#define MS        1000000ull
#define S         1000000000ull
#define HOSTS_MAX 3
/* Limits of the packets under way (FLIGHT_MAX) and of each array of a host (THINGS_MAX). The fuzz
 * target sets smaller limits, because it makes thousands of worlds a second. */
#ifndef FLIGHT_MAX
#define FLIGHT_MAX 8192
#define THINGS_MAX 1024
#endif
#define UNUSED __attribute__((unused))

struct flight {
    uint64_t at_ns;
    unsigned to;
    struct cm_host from;
    size_t len_bytes;
    uint8_t bytes[VIP_WIRE_CM_BYTES_MAX];
};

/* A request or an accept of the host. Operations name it by its index in the array (`user`). */
struct attempt {
    bool used;
    unsigned done; /* number of reports that this attempt has ended */
    bool given_up; /* the host cancelled the request, or closed the accept */
    enum vip_rc rc;
    uint64_t done_ns, local_id;
    struct vip_private data;  /* private data of the other application, from its answer */
    struct vip_counts counts; /* the counts given to cm_rebind */
};

struct conn {
    uint64_t local_id, remote_id;
    uint32_t peer;
    bool alive;
    bool gone_due; /* host_settle must call cm_conn_gone for this connection */
    unsigned closed, reset, lost;
    struct vip_cm close;
    struct cm_conn info;
    struct vip_counts counts;   /* counts of this end; tests of rebinding set and read them */
    struct vip_counts theirs;   /* latest counts that this end has got from the other end */
    unsigned rebound;           /* number of times that this end was bound anew */
    unsigned away;              /* number of AWAY messages from the other end's vipd */
    unsigned offers, agrees;    /* number of LOAN_OFFER and of LOAN_AGREE messages */
    uint32_t offered;           /* number of the own offer in the last LOAN_AGREE */
    struct cm_loan_terms terms; /* terms in the last LOAN_OFFER or LOAN_AGREE */
};

struct incoming {
    uint64_t wait, handle;
    struct vip_addr remote;
    struct vip_cm_attrs attrs;
    struct vip_private data;
    bool answered;
};

struct host {
    struct world *world;
    unsigned index;
    struct cm *cm;
    void *memory;
    struct cm_host addr;
    uint64_t epoch;
    bool down;               /* packets to this host are lost */
    bool eager;              /* the host acts inside the operations */
    long allocs, fail_after; /* blocks in use; allocations that will still succeed (< 0: all) */
    uint64_t id_counter;
    bool refuse_counts; /* op_rebind refuses the counts as impossible */
    unsigned owned;     /* number of discriminators that have an owner */
    unsigned renewed;   /* number of calls of op_renew: a peer-to-peer request lost its match */
    struct attempt requests[THINGS_MAX], accepts[THINGS_MAX];
    struct conn conns[THINGS_MAX];
    struct incoming incoming[THINGS_MAX];
    unsigned request_count, accept_count, conn_count, incoming_count;
};

struct world {
    uint64_t now_ns, random;
    unsigned loss_percent, dup_percent;
    bool verify_all;              /* cm_config.verify_all of the hosts */
    uint32_t uid;                 /* the user whose programs act from now on */
    uint64_t outlive_ns;          /* cm_config.outlive_ns for the next lives of the hosts */
    uint64_t features[HOSTS_MAX]; /* cm_config.features for the next lives of the hosts */
    uint64_t delay_min_ns, delay_spread_ns;
    unsigned host_count, flight_count;
    uint64_t packets, bytes_sent[HOSTS_MAX];
    unsigned strays;     /* number of packets to addresses of no host */
    struct flight stray; /* the last of them; `from` is its destination */
    bool lends_nothing;  /* the next lives of the hosts have no operations for loans */
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
    if (target < 0) {
        w->strays++;
        w->stray = (struct flight){.from = *to, .len_bytes = len_bytes};
        memcpy(w->stray.bytes, packet, len_bytes);
    }
    if (target < 0 || (w->filter && !w->filter(w, host->index, (unsigned)target, &msg)))
        return;
    if (!world_percent(w, w->loss_percent))
        world_fly(w, &host->addr, (unsigned)target, packet, len_bytes);
    if (world_percent(w, w->dup_percent))
        world_fly(w, &host->addr, (unsigned)target, packet, len_bytes);
}

static inline void op_incoming(void *ctx, uint64_t wait, uint64_t handle,
                               const struct vip_addr *remote, const struct vip_cm_attrs *attrs,
                               const struct vip_private *data)
{
    struct host *host = ctx;
    struct incoming *in = &host->incoming[host->incoming_count++];

    assert_true(host->incoming_count < THINGS_MAX);
    *in = (struct incoming){
        .wait = wait, .handle = handle, .remote = *remote, .attrs = *attrs, .data = *data};
}

static inline struct conn *host_conn(struct host *host, uint64_t local_id)
{
    for (unsigned i = 0; i < host->conn_count; i++)
        if (host->conns[i].local_id == local_id)
            return &host->conns[i];
    return NULL;
}

/* The host's program calls VipDisconnect for an established connection. */
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

/* A connection has ended. An eager host forgets it now, another host forgets it in host_settle. */
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
                                   const struct cm_conn *conn, const struct vip_private *data,
                                   const char *why)
{
    struct host *host = ctx;

    assert_true(user < host->request_count);
    host->requests[user].data = *data;
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

static inline void op_lost(void *ctx, uint64_t local_conn_id, const char *why)
{
    struct conn *conn = host_conn(ctx, local_conn_id);

    assert_non_null(why);
    assert_true(conn && conn->alive);
    conn->lost++;
    conn_over(ctx, conn);
}

static inline void op_reset(void *ctx, uint64_t local_conn_id, uint32_t peer)
{
    struct conn *conn = host_conn(ctx, local_conn_id);

    assert_true(conn && conn->alive && conn->peer == peer);
    conn->reset++;
    conn_over(ctx, conn);
}

#endif
