/* Shares of the pools (cm_share.h), and the sizes of the pools. */
#include "vipd/engine/cm_share.h"

#include <string.h>

#include "proto/assert.h"
#include "vipd/engine/cm_internal.h"

/* A pool. Each holder of kind k may have size / of[k] objects; of[k] 0: no limit for this kind. */
struct share {
    uint32_t size, reserve;
    uint32_t of[CM_HOLDER_KINDS];
};

static const struct share shares[CM_POOLS] = {
    /* One source may have at most half as many requests as one owner. */
    [CM_POOL_PENDING] = {CM_PENDING_MAX, 256, {4, 8, 0, CM_PENDING_MAX / CM_PENDING_HOST, 4}},
    /* One discriminator keeps backlog_max requests (128 by default); all of them may be from one
     * host. */
    [CM_POOL_KEPT] = {CM_KEPT_MAX, 64, {4, 8, 0, 8, 4}},
    [CM_POOL_OFFERED] = {UINT32_MAX, 0, {0, 0, 0, 0, 0}},
    [CM_POOL_WAITERS] = {CM_WAITERS_MAX, 256, {4, 0, 0, 0, 0}},
    [CM_POOL_LINGER] = {CM_DISC_LINGER_MAX, 256, {4, 0, 0, 0, 0}},
    [CM_POOL_ATTEMPTS] = {CM_ATTEMPTS_MAX, 256, {0, 4, 0, 0, 0}},
    [CM_POOL_ASKED] = {CM_ATTEMPTS_MAX, 0, {0, 0, CM_ATTEMPTS_MAX / CM_ASKED_EACH, 0, 0}},
    [CM_POOL_ANSWERED] = {CM_ANSWERED_MAX, 256, {0, 4, 0, 4, 2}},
    /* Half of the pool is enough for a host whose connections are all with one other host. */
    [CM_POOL_CLOSINGS] = {CM_CLOSINGS_MAX, 256, {0, 0, 0, 2, 2}},
    [CM_POOL_PEERS] = {CM_PEERS_MAX - 256, 256, {0, 0, 0, 4, 2}},
};

static struct cm_holder *holder_get(struct cm *cm, enum cm_holder_kind kind,
                                    const struct cm_host *id)
{
    uint64_t key = cm_hash(cm, id->bytes, id->len, 16 + (uint64_t)kind);
    struct cm_node *node = cm_table_find(cm, &cm->holders, key);
    struct cm_holder *holder;

    for (; node; node = cm_table_again(node)) {
        holder = CM_OF(struct cm_holder, by_key, node);
        if (holder->kind == kind && cm_host_equal(&holder->id, id))
            return cm_holder_ref(holder);
    }
    holder = cm_alloc(cm, sizeof(*holder));
    if (!holder)
        return NULL;
    holder->kind = kind;
    holder->id = *id;
    holder->refs = 1;
    TAILQ_INIT(&holder->answered);
    TAILQ_INIT(&holder->unsent);
    for (unsigned i = 0; i < 2; i++)
        TAILQ_INIT(&holder->lingering[i]);
    cm_table_add(cm, &cm->holders, &holder->by_key, key);
    return holder;
}

struct cm_holder *cm_holder_user(struct cm *cm, enum cm_holder_kind kind, uint32_t uid)
{
    struct cm_host id = {.len = sizeof(uid)};

    VIP_ASSERT(kind == CM_HOLDER_OWNER || kind == CM_HOLDER_CLIENT);
    memcpy(id.bytes, &uid, sizeof(uid));
    return holder_get(cm, kind, &id);
}

struct cm_holder *cm_holder_host(struct cm *cm, const struct cm_host *host)
{
    struct cm_host source = cm_source_of(cm, host), network = {.len = cm->config.network_bytes};
    struct cm_holder *holder = holder_get(cm, CM_HOLDER_HOST, &source);

    if (!holder || holder->within || !network.len || source.len <= network.len)
        return holder;
    memcpy(network.bytes, source.bytes, network.len);
    holder->within = holder_get(cm, CM_HOLDER_NETWORK, &network);
    if (holder->within)
        return holder;
    cm_holder_put(cm, holder);
    return NULL;
}

struct cm_holder *cm_holder_asker(struct cm *cm, uint32_t uid, const struct cm_host *host)
{
    struct cm_host id = {.len = sizeof(uid)};
    uint8_t port = cm->config.port_bytes < host->len ? cm->config.port_bytes : 0;
    uint64_t at = cm_hash(cm, host->bytes, (size_t)(host->len - port), 15);

    /* Hash the whole address without its port, not only its source part, so that a silent host
     * delays no other host of its network. */
    _Static_assert(sizeof(uid) + sizeof(at) <= sizeof(id.bytes), "both fit");
    memcpy(id.bytes, &uid, sizeof(uid));
    memcpy(id.bytes + id.len, &at, sizeof(at));
    id.len += sizeof(at);
    return holder_get(cm, CM_HOLDER_ASKER, &id);
}

static bool starts_with(const struct cm_host *host, const struct cm_host *start)
{
    return start->len && host->len >= start->len &&
           memcmp(host->bytes, start->bytes, start->len) == 0;
}

struct cm_host cm_source_of(const struct cm *cm, const struct cm_host *host)
{
    const struct cm_config *config = &cm->config;
    struct cm_host source = {.len = config->source_bytes};
    bool local = starts_with(host, &config->local);
    uint8_t port = config->port_bytes, at;

    if (local)
        source.len = config->local.len;
    if (host->len < source.len)
        source.len = host->len;
    memcpy(source.bytes, host->bytes, source.len);
    if (local || !port || host->len != config->self.len || host->len < source.len + port)
        return source;
    at = host->len - port;
    if (memcmp(host->bytes + at, config->self.bytes + at, port) == 0) {
        memcpy(source.bytes + source.len, host->bytes + at, port);
        source.len += port;
    }
    return source;
}

struct cm_holder *cm_holder_ref(struct cm_holder *holder)
{
    holder->refs++;
    return holder;
}

void cm_holder_put(struct cm *cm, struct cm_holder *holder)
{
    if (!holder || --holder->refs)
        return;
    for (unsigned i = 0; i < CM_POOLS; i++)
        VIP_ASSERT(holder->has[i] == 0);
    cm_holder_put(cm, holder->within);
    cm_node_del(&holder->by_key);
    cm_free(cm, holder, sizeof(*holder));
}

uint32_t cm_holder_uid(const struct cm_holder *holder)
{
    uint32_t uid;

    VIP_ASSERT(holder->kind < CM_HOLDER_HOST);
    memcpy(&uid, holder->id.bytes, sizeof(uid));
    return uid;
}

/* Has the holder fewer objects than its part, enlarged by `quarters` quarters? And has its network
 * fewer than the part of a network? */
static bool within_part(enum cm_pool pool, const struct cm_holder *holder, uint32_t quarters)
{
    uint32_t of = holder ? shares[pool].of[holder->kind] : 0;
    uint32_t part = of ? shares[pool].size / of : 0;

    if (holder && holder->within && !within_part(pool, holder->within, 0))
        return false;
    return !of || holder->has[pool] < part + part / 4 * quarters;
}

/* The number of quarters by which an owner's part is larger for a source with few objects. Reason:
 * a few other sources may have used up the part. A user of this host gets two quarters. */
static uint32_t spare_quarters(enum cm_pool pool, const struct cm_holder *source)
{
    if (!source || source->has[pool] >= CM_SMALL)
        return 0;
    return source->kind == CM_HOLDER_CLIENT ? 2 : 1;
}

static bool small(enum cm_pool pool, const struct cm_holder *holder)
{
    return !holder || holder->has[pool] < CM_SMALL;
}

bool cm_share_room(const struct cm *cm, enum cm_pool pool, const struct cm_holder *a,
                   const struct cm_holder *b)
{
    uint32_t size = shares[pool].size;

    if (small(pool, a) && small(pool, b))
        size += shares[pool].reserve;
    return cm->pool_used[pool] < size && within_part(pool, a, spare_quarters(pool, b)) &&
           within_part(pool, b, 0);
}

bool cm_share_part(enum cm_pool pool, const struct cm_holder *holder)
{
    return within_part(pool, holder, 0);
}

void cm_share_count(enum cm_pool pool, struct cm_holder *holder, int by)
{
    for (; holder; holder = holder->within) {
        VIP_ASSERT(by > 0 || holder->has[pool]);
        holder->has[pool] += (uint32_t)by;
    }
}

void cm_share_take(struct cm *cm, enum cm_pool pool, struct cm_holder *a, struct cm_holder *b)
{
    cm->pool_used[pool]++;
    cm_share_count(pool, a, 1);
    cm_share_count(pool, b, 1);
}

void cm_share_give(struct cm *cm, enum cm_pool pool, struct cm_holder *a, struct cm_holder *b)
{
    VIP_ASSERT(cm->pool_used[pool]);
    cm->pool_used[pool]--;
    cm_share_count(pool, a, -1);
    cm_share_count(pool, b, -1);
}
