/*
 * Helpers for the tests of REBIND: two hosts with a connection that can be bound anew, the restart
 * of a host, and filters that record or lose messages.
 */
#ifndef TESTS_UNIT_CM_REBIND_H
#define TESTS_UNIT_CM_REBIND_H

#include "tests/unit/cm_world_run.h"
#include "vipd/engine/cm_outlive.h"

#define FEATURES (VIP_FEATURES | VIP_FEATURE_REBIND)

/* Returns a world of two hosts with one connection, which can be bound anew. */
static inline struct world *world_of(uint64_t seed, struct conn **client, struct conn **server)
{
    struct world *w = world_new(2, seed);

    w->outlive_ns = 10 * S;
    host_feature(w, CLIENT, FEATURES);
    host_feature(w, SERVER, FEATURES);
    connect_pair(w, client, server);
    (*client)->counts = (struct vip_counts){.done = 5, .reads = 2, .read = {7, 9}};
    (*server)->counts = (struct vip_counts){.done = 11};
    return w;
}

static inline struct cm_rebind_args rebind_args(struct world *w, unsigned index, unsigned other,
                                                const struct conn *was)
{
    struct host *host = &w->hosts[index];
    unsigned user = host->request_count++;
    struct cm_rebind_args args = {.user = user,
                                  .local_id = (uint64_t)(index + 1) << 32 | ++host->id_counter,
                                  .remote = w->hosts[other].addr,
                                  .secret = was->info.secret,
                                  .asked = was->info.asked,
                                  .features = was->info.features,
                                  .counts = was->counts,
                                  .timeout_ns = 5 * S};

    host->requests[user] = (struct attempt){
        .used = true, .rc = VIP_RC_NOT_DONE, .local_id = args.local_id, .counts = was->counts};
    return args;
}

/* Kill and start the host. Its new life rebinds the connection `was`. Returns this attempt. */
static inline struct attempt *restart(struct world *w, unsigned index, const struct conn *was)
{
    struct conn old = *was;
    struct cm_rebind_args args;

    host_kill(w, index);
    host_start(w, index);
    args = rebind_args(w, index, !index, &old);
    assert_int_equal(cm_rebind(w->hosts[index].cm, &args, w->now_ns), 0);
    return &w->hosts[index].requests[args.user];
}

static inline void bound(struct world *w, const struct conn *a, const struct conn *b)
{
    assert_true(a->alive && b->alive);
    assert_true(a->local_id == b->remote_id && b->local_id == a->remote_id);
    assert_memory_equal(&a->info.secret, &b->info.secret, sizeof(a->info.secret));
    assert_true(a->info.asked != b->info.asked);
    assert_true(a->info.features == FEATURES && b->info.features == FEATURES);
    for (unsigned i = 0; i < w->host_count; i++)
        assert_int_equal(stats_of(w, i).malformed, 0);
}

static unsigned lost_left __attribute__((unused));

/* Filter: lose the next `lost_left` messages of a rebind. */
static inline bool drop_some(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type < VIP_CM_REBIND || !lost_left)
        return true;
    lost_left--;
    return false;
}

static struct vip_cm heard[32] __attribute__((unused));
static unsigned heard_count __attribute__((unused));
static uint8_t heard_items[32][VIP_ITEMS_BYTES_MAX] __attribute__((unused));

/* Filter: lose no message, and record the messages of a rebind. */
static inline bool hear(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type < VIP_CM_REBIND || heard_count == 32)
        return true;
    heard[heard_count] = *msg;
    if (msg->items.len)
        memcpy(heard_items[heard_count], msg->items.bytes, msg->items.len);
    heard[heard_count].items.bytes = heard_items[heard_count];
    heard_count++;
    return true;
}

#endif
