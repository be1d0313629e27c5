/* Completions of one work queue (comps.h). */
#include "proto/comps.h"

void vip_comps_resume(struct vip_comps_out *out, void *base, uint16_t vi, unsigned queue,
                      uint32_t position)
{
    struct vip_comp_at at = vip_comp_at_read(&vip_vipd_vi(base, vi)->at[queue]);
    uint64_t short_off = vip_comp_short_off(vi, queue), long_off = vip_comp_long_off(vi, queue);
    bool is_short = at.where == vip_comp_at(0, short_off, VIP_COMP_SHORT).where;
    bool is_long = at.where == vip_comp_at(0, long_off, VIP_DESC_PER_QUEUE_MAX).where;

    if (!is_short && !is_long) {
        vip_comps_begin(out, base, vi, queue, position);
        return;
    }
    *out = (struct vip_comps_out){.ring = vip_comp_ring(base, is_short ? short_off : long_off),
                                  .at = &vip_vipd_vi(base, vi)->at[queue],
                                  .longer = vip_comp_ring(base, long_off),
                                  .longer_off = long_off,
                                  .since = at.since,
                                  .slots = is_short ? VIP_COMP_SHORT : VIP_DESC_PER_QUEUE_MAX};
}

void vip_comps_show(struct vip_comps_out *out, uint32_t position)
{
    if (position + 1 != out->since)
        (void)vip_comp_stamp(&out->ring[position & (out->slots - 1)], position);
}

uint32_t vip_comps_shown(const struct vip_comps_out *out, uint32_t position)
{
    uint32_t end = position + out->slots;

    while (position != end &&
           vip_load32_own(&out->ring[position & (out->slots - 1)].stamp) == position + 1)
        position++;
    return position;
}

/*
 * vipd writes the last completion to the short ring, then the word, then the first completion to
 * the long ring. So if the word names the long ring, all completions before `since` are in the
 * short ring.
 */
bool vip_comps_read_long(struct vip_comps_in *in, uint32_t oldest, uint32_t position,
                         struct vip_comp *ret)
{
    struct vip_comp_at at = vip_comp_at_read(in->at);
    uint64_t offset = (uint64_t)(at.where >> 4) * VIP_COMP_UNIT;
    uint32_t slots = 1u << (at.where & 15u);
    const struct vip_comp *ring = vip_comp_ring((void *)(uintptr_t)in->base, offset);

    if (slots != VIP_DESC_PER_QUEUE_MAX || offset > VIP_VIPD_BYTES - VIP_COMP_RING_BYTES)
        return false;
    if ((int32_t)(position - at.since) < 0)
        return vip_comp_read(in->ring, in->mask, position, ret);
    if ((int32_t)(oldest - at.since) >= 0) {
        in->ring = ring;
        in->mask = slots - 1;
        in->where = at.where;
    }
    return vip_comp_read(ring, slots - 1, position, ret);
}
