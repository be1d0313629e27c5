/* The library's side of VipxCQGetFd: keeps the file descriptor of a CQ with entries readable. */
#ifndef LIBVIPL_CQ_FD_H
#define LIBVIPL_CQ_FD_H

#include "libvipl/session.h"

/*
 * The CQ was found empty and has a file descriptor: make the file descriptor unreadable and ask
 * vipd for the next signal. Returns true if the caller must look at the ring once more. Under
 * done_lock.
 */
bool vipl__cq_fd_arm(struct vipl__cq *cq);

/*
 * Make the file descriptor readable, because there are entries for which vipd sends no message.
 * Under done_lock.
 */
void vipl__cq_fd_signal(struct vipl__cq *cq);

/* vipd is dead, so the CQ may have flushed descriptors: signal its file descriptor, if any. */
void vipl__cq_fd_flushed(struct vipl__cq *cq);

/* The CQ is gone: close its file descriptor, if it has one. */
void vipl__cq_fd_close(struct vipl__cq *cq);

#endif
