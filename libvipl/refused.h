/*
 * What the next vipd refuses (outlive.h): a region, a tag, a CQ, a listener or a VI that it has no
 * room for, or that needs another one of these. The program learns of each by an asynchronous
 * error with vipd's reason, and the rest goes on.
 *
 * A refused VI is in Error state, and everything that is posted on it completes as flushed, by this
 * library alone. vipd does not know it, so vipd may give its number to a new VI. Then VipCreateVi
 * fails until the program has destroyed the refused one. The same holds for CQs.
 *
 * Owns: the mark of refused objects, their end. Does not own: what is told to the next vipd
 * (outlive.c), flushing (done.c, cq_take.c).
 */
#ifndef LIBVIPL_REFUSED_H
#define LIBVIPL_REFUSED_H

#include "libvipl/session.h"

/* The provider thread calls these after vipd's refusal; VipxLastError has the reason. */
void vipl__refuse_vi(struct vipl__vi *vi);
void vipl__refuse_cq(struct vipl__cq *cq);
void vipl__refuse_region(struct vipl__session *session, struct vipl__region *region);
void vipl__refuse_ptag(struct vipl__session *session, uint32_t number);
void vipl__refuse_listener(struct vipl__session *session);

/* Take a refused region out of the table. NULL: it is not refused, or a next vipd is being told. */
struct vipl__region *vipl__refused_region(struct vipl__session *session, VIP_MEM_HANDLE handle);

/* VipDisconnect of a refused VI: it is Idle now. False: it is not refused. */
bool vipl__refused_disconnect(struct vipl__vi *vi);

/* VipDestroyVi, VipDestroyCQ: the object is not refused any more, because it ends. */
void vipl__refused_over(struct vipl__session *session, uint32_t *refused);

#endif
