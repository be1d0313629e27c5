/*
 * Objects that the next vipd refuses (outlive.h): regions, tags, CQs, listeners and VIs. vipd
 * refuses an object if vipd has no room for it, or if the object needs another refused object. For
 * each refused object the program gets an asynchronous error with vipd's reason; the others go on.
 *
 * A refused VI is in Error state; this library completes all its descriptors as flushed. vipd does
 * not know the VI and may give the VI's number to a new VI. Then VipCreateVi fails until the
 * program has destroyed the refused VI. VipCreateCQ fails in the same way after a CQ was refused.
 *
 * Owns: the mark of refused objects, and their end. Does not own: what the library tells the next
 * vipd (outlive.c), flushing (done.c, cq_take.c).
 */
#ifndef LIBVIPL_REFUSED_H
#define LIBVIPL_REFUSED_H

#include "libvipl/session.h"

/* The provider thread calls these functions after vipd's refusal; VipxLastError has the reason. */
void vipl__refuse_vi(struct vipl__vi *vi);
void vipl__refuse_cq(struct vipl__cq *cq);
void vipl__refuse_region(struct vipl__session *session, struct vipl__region *region);
void vipl__refuse_ptag(struct vipl__session *session, uint32_t number);
void vipl__refuse_listener(struct vipl__session *session);

/* Take a refused region out of the table. NULL: the region is not refused, or vipd is away. */
struct vipl__region *vipl__refused_region(struct vipl__session *session, VIP_MEM_HANDLE handle);

/* VipDisconnect was called: make a refused VI Idle. False: the VI is not refused. */
bool vipl__refused_disconnect(struct vipl__vi *vi);

/* VipDestroyVi or VipDestroyCQ ends the object: clear its mark `refused`. */
void vipl__refused_over(struct vipl__session *session, uint32_t *refused);

#endif
