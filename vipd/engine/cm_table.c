/*
 * Hash tables, timers and randomness of the connection manager.
 *
 * Owns: no state. Nodes and timers are members of their objects, so adding one cannot fail. The
 * bucket of a key depends on a random salt, because peers choose many of the keys.
 */
#include "vipd/engine/cm_internal.h"

#include "proto/assert.h"

/* The finalizer of splitmix64: every input bit influences every output bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

/* A keyed hash of a counter. Peers see some of the results, but cannot compute the next ones. */
uint64_t cm_random(struct cm *cm)
{
    cm->random++;
    return siphash(&cm->random_key, &cm->random, sizeof(cm->random));
}

uint64_t cm_random_id(struct cm *cm)
{
    uint64_t id = cm_random(cm);

    return id ? id : 1;
}

uint64_t cm_hash(struct cm *cm, const void *bytes, size_t len, uint64_t start)
{
    const uint8_t *at = bytes;
    uint64_t hash = mix(cm->salt ^ start ^ len);

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return mix(hash);
}

static struct cm_bucket *bucket_of(struct cm *cm, struct cm_table *table, uint64_t key)
{
    return &table->bucket[mix(key ^ cm->salt) % CM_BUCKETS];
}

void cm_table_add(struct cm *cm, struct cm_table *table, struct cm_node *node, uint64_t key)
{
    VIP_ASSERT(!node->linked);
    node->key = key;
    node->linked = true;
    LIST_INSERT_HEAD(bucket_of(cm, table, key), node, chain);
}

void cm_node_del(struct cm_node *node)
{
    if (!node->linked)
        return;
    LIST_REMOVE(node, chain);
    node->linked = false;
}

static struct cm_node *same_key(struct cm_node *node, uint64_t key)
{
    while (node && node->key != key)
        node = LIST_NEXT(node, chain);
    return node;
}

struct cm_node *cm_table_find(struct cm *cm, struct cm_table *table, uint64_t key)
{
    return same_key(LIST_FIRST(bucket_of(cm, table, key)), key);
}

struct cm_node *cm_table_again(struct cm_node *node)
{
    return same_key(LIST_NEXT(node, chain), node->key);
}

struct cm_node *cm_table_any(struct cm_table *table, unsigned *bucket)
{
    for (; *bucket < CM_BUCKETS; ++*bucket)
        if (!LIST_EMPTY(&table->bucket[*bucket]))
            return LIST_FIRST(&table->bucket[*bucket]);
    return NULL;
}

/* Join two heaps; their roots have no siblings. The root with the later time becomes a child. */
static struct cm_timer *meld(struct cm_timer *a, struct cm_timer *b)
{
    struct cm_timer *top = a, *sub = b;

    if (!a || !b)
        return a ? a : b;
    if (b->at_ns < a->at_ns) {
        top = b;
        sub = a;
    }
    sub->prev = top;
    sub->next = top->child;
    if (sub->next)
        sub->next->prev = sub;
    top->child = sub;
    return top;
}

/* Join a list of siblings: first in pairs from the left, then all pairs from the right. */
static struct cm_timer *meld_siblings(struct cm_timer *first)
{
    struct cm_timer *pairs = NULL, *root = NULL;

    while (first) {
        struct cm_timer *a = first, *b = first->next;

        first = b ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b)
            b->next = b->prev = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct cm_timer *a = pairs;

        pairs = a->next;
        a->next = NULL;
        root = meld(root, a);
    }
    return root;
}

void cm_timer_clear(struct cm *cm, struct cm_timer *timer)
{
    struct cm_timer *children;

    if (!timer->armed)
        return;
    children = meld_siblings(timer->child);
    if (timer == cm->timers) {
        cm->timers = children;
    } else {
        if (timer->prev->child == timer)
            timer->prev->child = timer->next;
        else
            timer->prev->next = timer->next;
        if (timer->next)
            timer->next->prev = timer->prev;
        cm->timers = meld(cm->timers, children);
    }
    timer->child = timer->next = timer->prev = NULL;
    timer->armed = false;
}

void cm_timer_set(struct cm *cm, struct cm_timer *timer, uint64_t at_ns)
{
    VIP_ASSERT(timer->kind != CM_TIMER_NONE);
    cm_timer_clear(cm, timer);
    timer->at_ns = at_ns;
    timer->armed = true;
    cm->timers = meld(cm->timers, timer);
}

uint64_t cm_repeat_next(struct cm *cm, struct cm_repeat *repeat, uint64_t now_ns)
{
    uint64_t interval_ns = repeat->interval_ns ? repeat->interval_ns : cm->config.retry_ns;
    uint64_t spread_ns = interval_ns / 4;

    repeat->interval_ns = interval_ns * 2;
    if (repeat->interval_ns > cm->config.retry_max_ns)
        repeat->interval_ns = cm->config.retry_max_ns;
    return cm_add_ns(now_ns, interval_ns + (spread_ns ? cm_random(cm) % spread_ns : 0));
}
