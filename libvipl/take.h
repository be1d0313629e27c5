/*
 * Take one completion or one CQ entry, if there is one. The Done, Wait and Notify calls share these
 * functions. They never block; any thread may call them.
 */
#ifndef LIBVIPL_TAKE_H
#define LIBVIPL_TAKE_H

#include "libvipl/session.h"

/* Watched sessions only: statuses written into a queue's descriptors before their Done calls. */
struct vipl__ahead {
    uint32_t next;                           /* next descriptor to fill in, as `posted` counts */
    uint32_t status[VIP_DESC_PER_QUEUE_MAX]; /* the written status, 0 = none yet; indexed as fifo */
};

/*
 * Take the oldest descriptor of a work queue (done.c). Outcomes: VIP_SUCCESS; VIP_DESCRIPTOR_ERROR:
 * the descriptor completed with an error or, if *ret_desc is NULL, the queue is empty;
 * VIP_NOT_DONE; VIP_INVALID_PARAMETER: the VI has another handle by now. *ret_desc is always set.
 */
VIP_RETURN vipl__take_desc(struct vipl__vi *vi, uint64_t handle, enum vip_queue which,
                           VIP_DESCRIPTOR **ret_desc);

/*
 * In a watched session: fill in every descriptor of the VI that has completed. The descriptors stay
 * on their queues (done.c). The caller may hold the lock of notify.c, but no other lock.
 */
void vipl__fill_ahead(struct vipl__vi *vi);

/*
 * Take a CQ's oldest entry (cq_take.c). Outcomes: VIP_SUCCESS; VIP_NOT_DONE; VIP_INVALID_PARAMETER:
 * the CQ has another handle by now.
 */
VIP_RETURN vipl__take_entry(struct vipl__cq *cq, uint64_t handle, VIP_VI_HANDLE *ret_vi,
                            VIP_BOOLEAN *ret_recv);

#endif
