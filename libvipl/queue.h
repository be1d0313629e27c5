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
struct vipl__cq;
struct vipl__session;
struct vipl__vi;

/*
 * Largest number of work queues on one CQ whose completions do not all come from vipd, but also
 * from a ring (direct.h) or a loan (lent.h). VipCQDone checks all of them if the CQ is empty, so a
 * larger number would make VipCQDone slow.
 */
#define VIPL__CQ_DIRECT_MAX 16

#define VIPL__CQ_LOAN 2u

struct vipl__cq_direct {
    struct vipl__vi *vi; /* atomic: polls look at it without a lock */
    unsigned queue;      /* enum vip_queue; for completions on loan plus VIPL__CQ_LOAN */
};

/* Add a queue (as in struct vipl__cq_direct) to the list of its CQ, unless it is there; a NULL CQ
 * is harmless. False: the list is full. Remove all queues of a VI from the list (queue.c). */
bool vipl__cq_list_add(struct vipl__cq *cq, struct vipl__vi *vi, unsigned which);
void vipl__cq_list_remove(struct vipl__cq *cq, const struct vipl__vi *vi);

/* A completion queue. */
struct vipl__cq {
    uint64_t handle; /* atomic; the valid handle, 0 = not in use */
    struct vipl__session *session;
    const struct vip_cqe *ring; /* CQ entries, written by vipd */
    const uint32_t *prod;       /* futex word, written by vipd */
    struct vip_app_cq *app;     /* fields that libvipl publishes to vipd */
    uint16_t index;             /* vipd's number */
    uint16_t uses;              /* number of CQs made in this object; part of the handle */
    uint32_t refused;           /* atomic; enum vipl__refused */
    uint32_t done_lock;         /* guards position, flush_next and direct */
    uint32_t position;          /* next entry to read; atomic: also loaded without the lock */
    uint32_t spin_ns;           /* atomic; how long the next wait polls */
    uint32_t flush_next;        /* VI at which the next search for flushed descriptors starts */
    struct vipl__target target; /* VipCQNotify */
    struct vipl__cq_direct direct[VIPL__CQ_DIRECT_MAX];
    unsigned direct_count; /* atomic */
    unsigned direct_next;
    unsigned lent_turn;   /* atomic; number of polls of VIs on loan (lent.h) */
    uint32_t sleeps;      /* atomic; number of times that a thread went to sleep, or woke up */
    unsigned lent_count;  /* atomic; number of elements of `direct` for loans */
    unsigned direct_turn; /* number of looks since the last look that began with the rings */
    int fd[2]; /* socket pair of VipxCQGetFd: [0] application (atomic), [1] sender; -1 = none */
    pthread_mutex_t fd_lock; /* held while a thread asks vipd for fd */
    uint32_t fd_arm;         /* value of app->arm; done_lock guards fd_arm and fd_messages */
    uint32_t fd_messages;    /* messages to take out of fd[0]; some may not have come yet */
};

#define VIPL__HOW_RING 0x80u /* a send that went by the ring */
#define VIPL__HOW_BAD  0x40u /* a segment's memory was not accessible */
#define VIPL__HOW_LOAN 0x20u /* the descriptor has completed on loan (lent.h) */

/* The message of one VipxPostWriteMessage call. */
struct vipl__message {
    uint16_t len;
    uint8_t bytes[VIP_MESSAGE_BYTES_MAX];
};

/* One work queue of a VI. */
struct vipl__queue {
    uint32_t posted; /* atomic; number of descriptors ever posted; written under post_lock */
    /* Send queue: the result of vipl__sends_completed when all sends that did not go by a ring have
     * completed. Atomic; written under post_lock. */
    uint32_t via;
    uint32_t direct_done;     /* send queue: sends by the ring; atomic, written under post_lock */
    uint32_t direct_reported; /* send queue: ring sends that the CQ reported; under the CQ's lock */
    uint32_t conts;           /* receive queue: next continuation slot to use; under post_lock */
    uint32_t conts_used;      /* receive queue: continuation slots in use; atomic */
    uint32_t done_lock __attribute__((aligned(64)));
    uint32_t reaped;            /* atomic; descriptors ever returned; written under done_lock */
    uint32_t position;          /* of the next completion, by vipd or on loan; under done_lock */
    uint32_t first;             /* position of the VI's first completion on this queue */
    uint32_t again;             /* number of the next descriptor for a new vipd (outlive.c) */
    uint32_t spin_ns;           /* atomic; how long the next wait polls */
    uint32_t reported;          /* CQ entries returned for this queue; under the CQ's done_lock */
    struct vip_comps_in comps;  /* completions, written by vipd; read under done_lock */
    const uint32_t *prod;       /* futex word, written by vipd */
    uint32_t *waiters;          /* number of threads asleep on prod, published to vipd */
    struct vipl__cq *cq;        /* NULL = none */
    struct vipl__target target; /* VipSendNotify, VipRecvNotify */
    struct vipl__ahead *ahead;  /* take.h; NULL: no session was watched; under done_lock */
    /* Descriptors that are posted and not returned; a ring that the count `posted` indexes. */
    VIP_DESCRIPTOR *fifo[VIP_DESC_PER_QUEUE_MAX];
    struct vipl__origin {      /* where a descriptor of fifo lies */
        uint32_t region_epoch; /* session->region_epoch at the post; it changes with the regions */
        VIP_MEM_HANDLE region; /* the region that holds the descriptor */
    } origin[VIP_DESC_PER_QUEUE_MAX];
    /* Flags of each descriptor in fifo: VIPL__HOW_* and VIP_SQF_*. Atomic if the VI was on loan. */
    uint8_t how[VIP_DESC_PER_QUEUE_MAX];
    /* Data of posts with VIP_SQF_IMM64 or VIP_SQF_MSG, kept for a next vipd; indexed as fifo. NULL:
     * no post on the queue had such data. */
    uint64_t *imm;
    struct vipl__message *message;
};

/* Number, as `posted` counts, of the queue's first descriptor that has not completed. Under its
 * done_lock. */
uint32_t vipl__first_undone(struct vipl__queue *queue);

#endif
