/*
 * Taking one completion, or one CQ entry, if it is there: what the Done, Wait and Notify calls have
 * in common. Never blocks, any thread.
 */
#ifndef LIBVIPL_TAKE_H
#define LIBVIPL_TAKE_H

#include "libvipl/session.h"

/*
 * The oldest descriptor of a work queue (done.c). Outcomes: VIP_SUCCESS; VIP_DESCRIPTOR_ERROR, with a
 * descriptor that completed badly or, *ret_desc NULL, because the queue is empty; VIP_NOT_DONE;
 * VIP_INVALID_PARAMETER: the VI has another handle by now. *ret_desc is always set.
 */
VIP_RETURN vipl__take_desc(struct vipl__vi *vi, uint64_t handle, enum vip_queue which,
                           VIP_DESCRIPTOR **ret_desc);

/* The oldest entry of a CQ (cq.c). Outcomes: VIP_SUCCESS; VIP_NOT_DONE; VIP_INVALID_PARAMETER. */
VIP_RETURN vipl__take_entry(struct vipl__cq *cq, uint64_t handle, VIP_VI_HANDLE *ret_vi,
                            VIP_BOOLEAN *ret_recv);

#endif
