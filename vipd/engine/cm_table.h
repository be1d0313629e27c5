/*
 * Hash tables, timers and randomness of the connection manager. Private to vipd/engine/cm*.c.
 *
 * Nodes and timers are members of the objects. So adding a node or arming a timer cannot fail.
 */
#ifndef VIPD_ENGINE_CM_TABLE_H
#define VIPD_ENGINE_CM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct cm;

/* Buckets per table. Up to some thousand objects, chains are short; 22 tables take 176 KiB. */
#define CM_BUCKETS 1024

/* An object has one node for each table that it can be in. Zeroed: the node is in no table. */
struct cm_node {
    LIST_ENTRY(cm_node) chain;
    uint64_t key; /* an id, or a hash; if a hash, the caller must also compare the hashed fields */
    bool linked;
};
LIST_HEAD(cm_bucket, cm_node);
struct cm_table {
    struct cm_bucket bucket[CM_BUCKETS];
};

void cm_table_add(struct cm *cm, struct cm_table *table, struct cm_node *node, uint64_t key);
void cm_node_del(struct cm_node *node); /* also allowed if the node is in no table */
/* cm_table_find: the first node with this key. cm_table_again: the next node with the key of
 * `node`. NULL: there is none. */
struct cm_node *cm_table_find(struct cm *cm, struct cm_table *table, uint64_t key);
struct cm_node *cm_table_again(struct cm_node *node);
/* Any node, for cm_deinit; NULL: the table is empty. Set *bucket to 0 before the first call. The
 * function stores there where its search continues. */
struct cm_node *cm_table_any(struct cm_table *table, unsigned *bucket);

#define CM_OF(type, member, ptr) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

enum cm_timer_kind {
    CM_TIMER_NONE = 0,
    CM_TIMER_LINGER,    /* of a discriminator */
    CM_TIMER_KEEPALIVE, /* of a peer */
    CM_TIMER_LOST,      /* of a dead peer with connections */
    CM_TIMER_ATTEMPT,
    CM_TIMER_PENDING,
    CM_TIMER_ANSWERED,
    CM_TIMER_CLOSING,
    CM_TIMER_REBIND,
};

/* A timer; it is a member of an object. All armed timers form a pairing heap, ordered by at_ns. */
struct cm_timer {
    struct cm_timer *child, *next; /* first child, next sibling */
    struct cm_timer *prev;         /* previous sibling; for a first child: its parent */
    uint64_t at_ns;
    bool armed;
    enum cm_timer_kind kind; /* cm_tick calls the function cm_fire_* for this kind */
};

void cm_timer_set(struct cm *cm, struct cm_timer *timer, uint64_t at_ns); /* arm or move */
void cm_timer_clear(struct cm *cm, struct cm_timer *timer);               /* even if not armed */

uint64_t cm_random(struct cm *cm);
uint64_t cm_random_id(struct cm *cm); /* never 0 */
uint64_t cm_hash(struct cm *cm, const void *bytes, size_t len, uint64_t start);

/* How late the timer fired, because vipd stood still. Callers add this time to their limits for the
 * peer, but not to limits that an application has set. */
static inline uint64_t cm_timer_late_ns(const struct cm_timer *timer, uint64_t now_ns)
{
    return now_ns > timer->at_ns ? now_ns - timer->at_ns : 0;
}

/* Interval of repetitions. It doubles up to retry_max_ns. A random time, up to a quarter of the
 * interval, is added, so that many repetitions do not come at the same time. */
struct cm_repeat {
    uint64_t interval_ns;
};
uint64_t cm_repeat_next(struct cm *cm, struct cm_repeat *repeat, uint64_t now_ns);

/* a + b, at most UINT64_MAX. */
static inline uint64_t cm_add_ns(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

#endif
