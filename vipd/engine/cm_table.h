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

/* Buckets per table: chains are short up to some thousand objects; 20 tables take 160 KiB. */
#define CM_BUCKETS 1024

/* Member of an object for each table that the object can be in; zeroed = in no table. */
struct cm_node {
    LIST_ENTRY(cm_node) chain;
    uint64_t key; /* an id, or a hash; if a hash, the caller must compare the fields itself */
    bool linked;
};
LIST_HEAD(cm_bucket, cm_node);
struct cm_table {
    struct cm_bucket bucket[CM_BUCKETS];
};

void cm_table_add(struct cm *cm, struct cm_table *table, struct cm_node *node, uint64_t key);
void cm_node_del(struct cm_node *node); /* legal for a node in no table */
/* The first node with this key, and the next node with the same key; NULL: none. */
struct cm_node *cm_table_find(struct cm *cm, struct cm_table *table, uint64_t key);
struct cm_node *cm_table_again(struct cm_node *node);
/* Any node, for cm_deinit; NULL = the table is empty. *bucket is 0 in the first call; the function
 * keeps its place there. */
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

/* A timer, a member of an object. All armed timers form a pairing heap, ordered by at_ns. */
struct cm_timer {
    struct cm_timer *child, *next; /* first child, next sibling */
    struct cm_timer *prev;         /* previous sibling, or the parent of a first child */
    uint64_t at_ns;
    bool armed;
    enum cm_timer_kind kind; /* cm_tick calls cm_fire_KIND */
};

void cm_timer_set(struct cm *cm, struct cm_timer *timer, uint64_t at_ns); /* arm or move */
void cm_timer_clear(struct cm *cm, struct cm_timer *timer);               /* legal if not armed */

uint64_t cm_random(struct cm *cm);
uint64_t cm_random_id(struct cm *cm); /* never 0 */
uint64_t cm_hash(struct cm *cm, const void *bytes, size_t len, uint64_t start);

/* The time by which the timer fired late, because vipd stood still. Callers extend time limits for
 * the peer by it, but not limits that an application has set. */
static inline uint64_t cm_timer_late_ns(const struct cm_timer *timer, uint64_t now_ns)
{
    return now_ns > timer->at_ns ? now_ns - timer->at_ns : 0;
}

/* Interval of repetitions: it doubles up to retry_max_ns. A random part of up to a quarter is
 * added, so that many repetitions do not come at the same time. */
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
