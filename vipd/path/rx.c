#include "vipd/path/rx.h"

#include "proto/assert.h"

/* Answers to RDMA Reads are numbered by our own send queue. So the engine may hold a packet that
 * has an answer and other frames. */
bool path_frames_follow(const struct vip_packet *packet)
{
    for (unsigned i = 1; i < packet->hdr.frame_count; i++) {
        const struct vip_frame *before = &packet->frames[i - 1], *frame = &packet->frames[i];

        if (frame->type == VIP_FRM_READ_RESP || before->type == VIP_FRM_READ_RESP ||
            !(before->flags & VIP_FRMF_LAST) || frame->offset || frame->op != before->op + 1)
            return false;
    }
    return true;
}

void path_decode_again(const uint8_t *bytes, uint32_t len_bytes, struct vip_packet *ret)
{
    enum vip_wire_verdict verdict = vip_wire_get_data(bytes, len_bytes, ret);

    VIP_ASSERT(verdict == VIP_WIRE_OK);
}
