/*
 * vip_store_note marks the points at which a test kills vipd: after each store to a segment that
 * the next life of vipd reads. Only in test builds (compile definition VIP_STORE_CHECK).
 *
 * Does not own: how to store (ring.h).
 */
#ifndef VIP_PROTO_STORE_H
#define VIP_PROTO_STORE_H

#ifdef VIP_STORE_CHECK
void vip_store_note(void);
#else
#define vip_store_note() ((void)0)
#endif
#endif
