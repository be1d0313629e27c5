/* Further slots of a descriptor, and descriptors that are posted again (slot.h). */
#include "libvipl/slot.h"

const struct vipl__extra vipl__no_extra = {.bad_seg = -1};

void vipl__slot_segs(struct vip_sq_slot *ring, uint32_t position, const struct vipl__vi *vi,
                     const VIP_DESCRIPTOR *desc, unsigned seg_count,
                     const struct vipl__extra *extra)
{
    const char *segs = (const char *)desc + sizeof(VIP_CONTROL_SEGMENT);

    for (unsigned at = VIP_SQ_INLINE_SEGS; at < seg_count; at += VIP_SQ_CONT_SEGS, position++) {
        unsigned n = seg_count - at < VIP_SQ_CONT_SEGS ? seg_count - at : VIP_SQ_CONT_SEGS;
        struct vip_sq_cont cont = {.vi = vi->index, .kind = VIP_SQ_CONT};
        struct vip_sq_slot slot;

        memcpy(cont.seg, segs + at * sizeof(struct vip_shm_seg), n * sizeof(struct vip_shm_seg));
        if (extra->bad_seg >= (int)at && extra->bad_seg < (int)(at + n))
            cont.seg[extra->bad_seg - (int)at].handle = 0;
        memcpy(&slot, &cont, sizeof(slot));
        vip_sq_write(ring, position, &slot);
    }
}

void vipl__slot_message(struct vip_sq_slot *ring, const struct vipl__vi *vi,
                        const struct vipl__extra *extra, uint32_t position)
{
    const char *from = extra->message;

    for (uint32_t at = 0; at < extra->message_bytes; at += VIP_SQ_MSG_BYTES, position++) {
        uint32_t n = extra->message_bytes - at;
        struct vip_sq_msg part = {
            .vi = vi->index, .kind = VIP_SQ_MSG, .len = (uint16_t)extra->message_bytes};
        struct vip_sq_slot slot;

        memcpy(part.bytes, from + at, n < VIP_SQ_MSG_BYTES ? n : VIP_SQ_MSG_BYTES);
        memcpy(&slot, &part, sizeof(slot));
        vip_sq_write(ring, position, &slot);
    }
}

bool vipl__slot_again(const struct vipl__vi *vi, enum vip_queue which, uint32_t count,
                      struct vipl__extra *ret_extra, struct vip_sq_slot *ret_slot)
{
    const struct vipl__queue *queue = &vi->queue[which];
    uint32_t slot_of = count & (VIP_DESC_PER_QUEUE_MAX - 1);
    uint8_t how = queue->how[slot_of];

    *ret_extra = (struct vipl__extra){.bad_seg = -1, .flags = how & VIP_SQF_KNOWN};
    *ret_slot = (struct vip_sq_slot){.vi = vi->index,
                                     .kind = which == VIP_Q_SEND ? VIP_SQ_SEND : VIP_SQ_RECV,
                                     .control = VIP_CONTROL_RESERVED,
                                     .vi_gen = vi->generation};
    if ((how & VIPL__HOW_BAD) != 0)
        return false;
    if ((how & VIP_SQF_IMM64) != 0)
        ret_extra->imm = queue->imm[slot_of];
    if ((how & VIP_SQF_MSG) != 0) {
        ret_extra->message = queue->message[slot_of].bytes;
        ret_extra->message_bytes = queue->message[slot_of].len;
    }
    return vipl__slot_in_region(vi->session, vi, queue->fifo[slot_of],
                                queue->origin[slot_of].region);
}
