/*
 * Offsets and sizes in the two segments of a session, for each shared-memory ABI that vipd accepts:
 * proto/shm.h (the present one) and proto/shm3.h (the previous one).
 *
 * Owns: offsets and sizes. Does not own: what the words mean (proto/shm.h).
 */
#ifndef VIPD_NIC_LAYOUT_H
#define VIPD_NIC_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/shm.h"

struct nic_layout {
    uint32_t abi;
    uint64_t app_bytes, vipd_bytes; /* sizes of the segments */
    /* Segment app-writes. *_off: offsets of the waiter words of VI 0, of the waiter word of CQ 0,
     * and of the arm word of CQ 0. *_stride: bytes from one VI or CQ to the next. */
    uint32_t waiters_off, waiters_stride, cq_off, cq_stride, arm_off, arm_stride;
    uint32_t vi_stride; /* vipd-writes: bytes from the head of one VI to the next head */
    bool long_only;     /* the completion rings of a VI follow its head, and are long */
    bool outlives; /* the next vipd can map vipd-writes writable, and so go on with the session */
};

/* The layout for this ABI; NULL: vipd does not accept the ABI. Call it on any thread. */
const struct nic_layout *nic_layout(uint32_t abi);

/* Addresses of words in the segments. app, vipd: the address at which the segment is mapped. */
static inline const uint32_t *nic_layout_waiters(const struct nic_layout *layout, const void *app,
                                                 uint16_t vi, unsigned queue)
{
    return (const uint32_t *)(const void *)((const char *)app + layout->waiters_off +
                                            (uint64_t)vi * layout->waiters_stride) +
           queue;
}

/* The words of a CQ in app-writes. With ABI 3 only `waiters` and `cons` exist. */
static inline const struct vip_app_cq *nic_layout_cq(const struct nic_layout *layout,
                                                     const void *app, uint32_t cq)
{
    return (const struct vip_app_cq *)(const void *)((const char *)app + layout->cq_off +
                                                     (uint64_t)cq * layout->cq_stride);
}

static inline const uint32_t *nic_layout_arm(const struct nic_layout *layout, const void *app,
                                             uint32_t cq)
{
    return (const uint32_t *)(const void *)((const char *)app + layout->arm_off +
                                            (uint64_t)cq * layout->arm_stride);
}

/* The head of a VI in vipd-writes. With ABI 3 only its first 64 bytes exist. */
static inline struct vip_vipd_vi *nic_layout_vi(const struct nic_layout *layout, void *vipd,
                                                uint16_t vi)
{
    return (struct vip_vipd_vi *)(void *)((char *)vipd + VIP_VIPD_VI_OFF +
                                          (uint64_t)vi * layout->vi_stride);
}

#endif
