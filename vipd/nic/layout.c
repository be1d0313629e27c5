/* The shared-memory ABIs that vipd accepts (layout.h). */
#include "vipd/nic/layout.h"

#include <stddef.h>

#include "proto/shm3.h"

static const struct nic_layout layouts[] = {
    {.abi = VIP_SHM_ABI,
     .app_bytes = VIP_APP_BYTES,
     .vipd_bytes = VIP_VIPD_BYTES,
     .waiters_off = VIP_APP_VI_OFF,
     .waiters_stride = sizeof(struct vip_app_vi),
     .cq_off = VIP_APP_CQ_OFF,
     .cq_stride = sizeof(struct vip_app_cq),
     .arm_off = VIP_APP_CQ_OFF + offsetof(struct vip_app_cq, arm),
     .arm_stride = sizeof(struct vip_app_cq),
     .vi_stride = sizeof(struct vip_vipd_vi),
     .outlives = true},
    {.abi = VIP_SHM3_ABI,
     .app_bytes = VIP_APP3_BYTES,
     .vipd_bytes = VIP_VIPD3_BYTES,
     .waiters_off = VIP_APP3_WAITERS_OFF,
     .waiters_stride = 8,
     .cq_off = VIP_APP3_CQ_OFF,
     .cq_stride = 8,
     .arm_off = VIP_APP3_CQ_ARM_OFF,
     .arm_stride = 4,
     .vi_stride = VIP_VIPD3_VI_STRIDE,
     .long_only = true},
};
_Static_assert(offsetof(struct vip_app_vi, waiters) == 0, "nic_layout_waiters");
_Static_assert(VIP_VI_MAX <= VIP_SHM3_VIS, "a session with ABI 3 has no room for more VIs");

const struct nic_layout *nic_layout(uint32_t abi)
{
    for (unsigned i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (layouts[i].abi == abi)
            return &layouts[i];
    return NULL;
}
