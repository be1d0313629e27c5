#include "vipd/path/post.h"

#include "proto/assert.h"

int path_segs_further(const struct vip_sq_slot *ring, uint32_t *at, const struct vip_sq_slot *slot,
                      struct path_parts *ret)
{
    unsigned got = VIP_SQ_INLINE_SEGS;

    VIP_ASSERT(slot->seg_count <= PATH_SEGS_MAX);
    memcpy(ret->segs, slot->seg, sizeof(slot->seg));
    while (got < slot->seg_count) {
        unsigned count = slot->seg_count - got;
        struct vip_sq_slot copy;
        struct vip_sq_cont cont;

        if (!vip_sq_read(ring, *at, &copy))
            return 0;
        (*at)++;
        memcpy(&cont, &copy, sizeof(cont));
        if (cont.kind != VIP_SQ_CONT || cont.vi != slot->vi)
            return -1;
        if (count > VIP_SQ_CONT_SEGS)
            count = VIP_SQ_CONT_SEGS;
        memcpy(ret->segs + got, cont.seg, count * sizeof(cont.seg[0]));
        got += count;
    }
    return 1;
}

int path_message(const struct vip_sq_slot *ring, uint32_t *at, const struct vip_sq_slot *slot,
                 struct path_parts *ret)
{
    uint32_t got = 0, want = 1;

    while (got < want) {
        struct vip_sq_slot copy;
        struct vip_sq_msg part;
        uint32_t count;

        if (!vip_sq_read(ring, *at, &copy))
            return 0;
        (*at)++;
        memcpy(&part, &copy, sizeof(part));
        if (part.kind != VIP_SQ_MSG || part.vi != slot->vi || part.len == 0 ||
            part.len > VIP_MESSAGE_BYTES_MAX || (got && part.len != want))
            return -1;
        want = part.len;
        count = want - got < VIP_SQ_MSG_BYTES ? want - got : VIP_SQ_MSG_BYTES;
        memcpy(ret->message + got, part.bytes, count);
        got += count;
    }
    ret->message_bytes = got;
    return 1;
}

bool path_receive(void *base, uint16_t vi, uint32_t gen, uint32_t k, uint32_t *left,
                  struct path_parts *parts, struct eng_post *ret)
{
    struct vip_sq_slot slot;
    uint32_t first, at;
    int taken = -1;

    if (!vip_recv_read(base, vi, gen, k, &slot))
        return false;
    slot.vi = vi;
    slot.kind = VIP_SQ_RECV;
    first = at = (uint32_t)slot.imm;
    if (slot.seg_count <= VIP_SEGS_PER_DESC_MAX && VIP_SQ_SLOTS_FOR(slot.seg_count) - 1 <= *left)
        taken = path_segs(vip_recv_conts(base, vi), &at, &slot, parts);
    *left -= at - first;
    *ret = taken > 0 ? path_post(&slot, parts) : path_post_malformed(&slot, parts);
    return true;
}

bool path_send(const struct vip_loan_part *part, uint16_t vi, uint32_t gen, uint32_t k,
               struct path_parts *parts, struct eng_post *ret)
{
    struct vip_sq_slot slot;
    int taken = -1;
    uint32_t at;

    if (!vip_loan_send_read(part, gen, k, &slot))
        return false;
    slot.vi = vi;
    slot.kind = VIP_SQ_SEND;
    at = vip_load32(&part->conts_at[k & (VIP_DESC_PER_QUEUE_MAX - 1)]);
    if (slot.seg_count <= PATH_SEGS_MAX)
        taken = path_segs(part->conts, &at, &slot, parts);
    if (taken > 0 && (slot.flags & VIP_SQF_MSG))
        taken = path_message(part->conts, &at, &slot, parts);
    *ret = taken > 0 ? path_post(&slot, parts) : path_post_malformed(&slot, parts);
    return true;
}
