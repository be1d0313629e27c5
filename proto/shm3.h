/*
 * ABI 3, the previous ABI between an application and vipd: only the differences to shm.h. Programs
 * with an older libvipl use it; vipd/nic/layout.h supports both.
 *
 * Only the heads, submission ring and CQ blocks are in the same places as in ABI 4. A VI's two
 * completion rings directly follow the VI's head. vip_app_cq ends after `cons`, vip_vipd_vi after
 * 64 bytes, vip_vipd_head after `notify`. The segment of vipd has the seal FUTURE_WRITE.
 */
#ifndef VIP_PROTO_SHM3_H
#define VIP_PROTO_SHM3_H

#include "proto/shm.h"

#define VIP_SHM3_ABI 3
#define VIP_SHM3_VIS 4096u

#define VIP_APP3_WAITERS_OFF 0x1000u /* uint32_t [VIP_SHM3_VIS][2], indexed [vi][queue] */
#define VIP_APP3_CQ_OFF      0x9000u /* uint32_t waiters, uint32_t cons; by CQ number */
#define VIP_APP3_CQ_ARM_OFF  0xB000u /* uint32_t [], by CQ number */
#define VIP_APP3_BYTES       (VIP_APP_SQ_OFF + VIP_SQ_SLOTS * 64u)
_Static_assert(VIP_APP3_WAITERS_OFF + VIP_SHM3_VIS * 8u <= VIP_APP3_CQ_OFF, "ABI 3");
_Static_assert(VIP_APP3_CQ_OFF + VIP_CQ_MAX * 8u <= VIP_APP3_CQ_ARM_OFF, "ABI 3");

#define VIP_VIPD3_VI_BYTES  64u /* head of a VI; the two rings follow */
#define VIP_VIPD3_VI_STRIDE (VIP_VIPD3_VI_BYTES + 2u * VIP_COMP_RING_BYTES)
#define VIP_VIPD3_BYTES                                                                            \
    ((VIP_VIPD_VI_OFF + (uint64_t)VIP_SHM3_VIS * VIP_VIPD3_VI_STRIDE + 4095u) & ~(uint64_t)4095u)
_Static_assert(VIP_VIPD3_BYTES == 402984960u && VIP_APP3_BYTES == 327680u, "ABI 3");

#endif
