/* Work queues and completion queues of a session; session.h explains the locks. */
#ifndef LIBVIPL_QUEUE_H
#define LIBVIPL_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "libvipl/notify.h"
#include "libvipl/vipl.h"
#include "proto/comps.h"
#include "proto/limits.h"
#include "proto/shm.h"
#include "proto/status.h"

struct vipl__ahead;
struct vipl__session;
struct vipl__vi;

/*
 * Largest number of work queues with a ring (direct.h) on one CQ. A look at an empty CQ looks at
 * all these rings, so more would make it slow.
 */
#define VIPL__CQ_DIRECT_MAX 16

struct vipl__cq_direct {
    struct vipl__vi *vi;
    enum vip_queue queue;
};

/* A completion queue. */
struct vipl__cq {
    uint64_t handle; /* atomic; the valid handle, 0 = not in use */
    struct vipl__session *session;
    const struct vip_cqe *ring; /* vipd writes it */
    const uint32_t *prod;       /* futex word, vipd writes it */
    struct vip_app_cq *app;     /* fields that this side publishes */
    uint16_t index;             /* vipd's number */
    uint16_t uses;              /* counts creations of this object: makes handles differ */
    uint32_t refused;           /* atomic; enum vipl__refused */
    uint32_t done_lock;         /* guards position, flush_next and direct */
    uint32_t position;          /* next entry to read; atomic: also loaded without the lock */
    uint32_t spin_ns;           /* atomic; how long the next wait polls */
    uint32_t flush_next;        /* after vipd's death: the VI to look at next */
    struct vipl__target target; /* VipCQNotify */
    struct vipl__cq_direct direct[VIPL__CQ_DIRECT_MAX];
    unsigned direct_count; /* atomic */
    unsigned direct_next;
    unsigned direct_turn; /* looks at the CQ since a look that began with the rings */
    int fd[2]; /* VipxCQGetFd: the application's end (atomic), the sending end; -1 = none */
    pthread_mutex_t fd_lock; /* a thread holds it while it asks vipd for fd */
    uint32_t fd_arm;         /* as published; fd_arm and fd_messages are under done_lock */
    uint32_t fd_messages;    /* messages to take out of fd; some may still be on their way */
};

#define VIPL__HOW_RING 0x80u /* a send that went by the ring */
#define VIPL__HOW_BAD  0x40u /* a segment's memory was not accessible */

/* The bytes of a VipxPostWriteMessage. */
struct vipl__message {
    uint16_t len;
    uint8_t bytes[VIP_MESSAGE_BYTES_MAX];
};

/* One work queue of a VI. */
struct vipl__queue {
    uint32_t posted; /* atomic; number of descriptors ever posted; written under post_lock */
    /*
     * send: atomic; `prod` has this value when vipd has completed all sends that went through vipd;
     * written under post_lock
     */
    uint32_t via;
    uint32_t direct_done;     /* send: atomic; sent by the ring; written under post_lock */
    uint32_t direct_reported; /* send: those of direct_done that the CQ reported; under its lock */
    uint32_t conts;           /* receive: next continuation of the table; under post_lock */
    uint32_t conts_used;      /* atomic; continuations of receives that were not returned yet */
    uint32_t done_lock __attribute__((aligned(64)));
    uint32_t reaped;            /* atomic; descriptors ever returned; written under done_lock */
    uint32_t position;          /* next completion to read; under done_lock */
    uint32_t first;             /* position of the VI's first completion */
    uint32_t again;             /* next descriptor that a new vipd gets (outlive.c) */
    uint32_t spin_ns;           /* atomic; how long the next wait polls */
    uint32_t reported;          /* CQ entries returned for this queue; under the CQ's done_lock */
    struct vip_comps_in comps;  /* vipd writes them; under done_lock */
    const uint32_t *prod;       /* futex word, vipd writes it */
    uint32_t *waiters;          /* number of threads asleep on prod, published to vipd */
    struct vipl__cq *cq;        /* NULL = none */
    struct vipl__target target; /* VipSendNotify, VipRecvNotify */
    struct vipl__ahead *ahead;  /* take.h; NULL = never watched; under done_lock */
    VIP_DESCRIPTOR *fifo[VIP_DESC_PER_QUEUE_MAX]; /* posted and not returned; a ring by `posted` */
    struct vipl__origin {                         /* of each descriptor in fifo */
        uint32_t region_epoch; /* session->region_epoch at the post; if equal, no region changed */
        VIP_MEM_HANDLE region; /* the region that holds the descriptor */
    } origin[VIP_DESC_PER_QUEUE_MAX];
    /* For each descriptor in fifo: VIPL__HOW_* and VIP_SQF_*. */
    uint8_t how[VIP_DESC_PER_QUEUE_MAX];
    /* Data of posts with VIP_SQF_IMM64 or VIP_SQF_MSG that are not in the descriptor, by slot of
     * fifo; kept for a next vipd. NULL: no post of the queue had such data. */
    uint64_t *imm;
    struct vipl__message *message;
};

#endif
