/*
 * Posting: copy the descriptor and check its format (spec 3.4). A faulty descriptor completes with
 * an error status when its turn comes. Access to the segments of any descriptor is checked only
 * when its turn comes, because regions may change before.
 */
#include "vipd/engine/ready.h"

#include <string.h>

/* Does the post use an extension of VIPL 1.0 that is not allowed here, or an unknown flag? */
static bool extension_fault(const struct eng_vi *vi, const struct eng_post *post)
{
    if (!post->flags)
        return false;
    if ((post->flags & ~VIP_SQF_KNOWN) || post->queue == VIP_Q_RECV ||
        !(vi->conn.features & VIP_FEATURE_IMM64_MSG))
        return true;
    return (post->flags & VIP_SQF_MSG) &&
           ((post->control & VIP_CTL_OP_MASK) != VIP_CTL_OP_RDMAWRITE || !post->message_bytes ||
            post->message_bytes > VIP_MESSAGE_BYTES_MAX);
}

/* Format faults of the descriptor (spec 3.4). */
static uint32_t format_fault(const struct eng_vi *vi, const struct eng_post *post)
{
    uint32_t op = post->control & VIP_CTL_OP_MASK;
    unsigned extra = op != VIP_CTL_OP_SENDRECV;

    if ((post->control & VIP_CTL_RESERVED) || post->reserved || extension_fault(vi, post))
        return VIP_ST_FORMAT_ERROR;
    if (post->queue == VIP_Q_RECV)
        /* The immediate flag of a receive descriptor is ignored (spec 3.3). */
        return op != VIP_CTL_OP_SENDRECV || post->seg_count > VIP_SEGS_PER_DESC_MAX
                   ? VIP_ST_FORMAT_ERROR
                   : 0;
    if (op == VIP_CTL_OP_RESERVED)
        return VIP_ST_FORMAT_ERROR;
    if (post->seg_count < extra || post->seg_count > VIP_SEGS_PER_DESC_MAX)
        return VIP_ST_FORMAT_ERROR;
    /* The length of an address segment is reserved (spec 1.7, 3.4). */
    if (extra && post->app_segs[0].len)
        return VIP_ST_FORMAT_ERROR;
    if (op == VIP_CTL_OP_RDMAREAD && ((post->control & VIP_CTL_IMMEDIATE) || !vi->reliable))
        return VIP_ST_FORMAT_ERROR;
    return 0;
}

/* Set desc->sum to the bytes of the data segments. In the send queue, the sum must be equal to
 * Length and at most the VI's maximum transfer size. */
static uint32_t length_fault(const struct eng_vi *vi, const struct eng_post *post,
                             struct eng_desc *desc)
{
    unsigned skip = (post->control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV;
    uint64_t sum = 0;

    for (unsigned i = skip; i < post->seg_count; i++)
        sum += post->app_segs[i].len;
    desc->sum = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
    if (post->queue == VIP_Q_SEND && (sum != post->length || sum > vi->attrs.max_transfer_bytes))
        return VIP_ST_LENGTH_ERROR;
    return 0;
}

/* Copy segments and message. False: the session's memory for segments is used up. */
static bool keep_segs(struct eng_vi *vi, const struct eng_post *post, struct eng_desc *desc)
{
    struct vip_shm_seg *segs = desc->seg;

    unsigned kept;

    desc->seg_count = post->seg_count;
    if (post->flags & VIP_SQF_MSG)
        desc->message_bytes = (uint16_t)post->message_bytes;
    kept = eng_desc_kept(desc);
    if (kept) {
        segs = vi->eng->ops.segs_alloc(vi->eng->ctx, kept);
        if (!segs) {
            desc->seg_count = 0;
            desc->message_bytes = 0;
            return false;
        }
        desc->more = segs;
    }
    if (post->seg_count)
        memcpy(segs, post->app_segs, post->seg_count * sizeof(*segs));
    if (desc->message_bytes)
        memcpy(segs + post->seg_count, post->app_message, desc->message_bytes);
    return true;
}

static void append(struct eng_vi *vi, const struct eng_post *post)
{
    struct eng_queue *queue = post->queue == VIP_Q_SEND ? &vi->sq : &vi->rq;
    struct eng_desc *desc = eng_desc_at(vi, post->queue, queue->tail);

    if (queue->tail - queue->head >= VIP_DESC_PER_QUEUE_MAX) {
        eng_event_error(vi, VIP_EC_VI_OVERRUN, post->control & VIP_CTL_OP_MASK,
                        "more descriptors posted than the work queue holds");
        return;
    }
    desc->imm = post->imm;
    desc->length = post->length;
    desc->sum = 0;
    desc->op = 0;
    desc->control = post->control;
    desc->seg_count = 0;
    desc->message_bytes = 0;
    desc->state = ENG_DESC_POSTED;
    desc->fault = format_fault(vi, post);
    if (!desc->fault) {
        desc->fault = length_fault(vi, post, desc);
        /* The faulty descriptor stays in the queue: the application expects its completion. */
        if (!desc->fault && !keep_segs(vi, post, desc)) {
            desc->fault = VIP_ST_FORMAT_ERROR;
            eng_event_error(vi, VIP_EC_VI_OVERRUN, post->control & VIP_CTL_OP_MASK,
                            "no memory left for the segments of long descriptors");
        }
    }
    queue->tail++;
}

void eng_post(struct eng *eng, const struct eng_post *post, uint64_t now_ns)
{
    struct eng_vi *vi = eng_vi_get(eng, post->vi);

    eng->now_ns = now_ns;
    if (post->queue == VIP_Q_SEND)
        vi->posted[vi->sq.tail & ENG_QUEUE_MASK] = (uint32_t)(now_ns >> ENG_TICK_SHIFT);
    append(vi, post);
    switch ((enum vip_vi_state)vi->state) {
    case VIP_VIST_CONNECTED:
        if (post->queue != VIP_Q_SEND || vi->listed[ENG_LIST_READY])
            return;
        /* The usual case is fast: a post changes the timer only if the pace holds the VI back. */
        eng_pace_refresh(vi, now_ns);
        if (eng_tx_wants(vi))
            eng_list_add(vi, ENG_LIST_READY);
        else if (vi->tx.paced)
            eng_vi_update(vi);
        return;
    case VIP_VIST_IDLE:
    case VIP_VIST_CONNECT_PENDING:
        /* Receive descriptors stay posted until the VI is connected; send descriptors are flushed
         * (spec 3.2). */
        eng_send_flush(vi, &(struct eng_flush){0});
        return;
    case VIP_VIST_ERROR:
        eng_send_flush(vi, &(struct eng_flush){0});
        eng_recv_flush_posted(vi);
        return;
    }
}

bool eng_desc_check(struct eng_vi *vi, const struct eng_desc *desc, enum eng_access_kind kind,
                    uint32_t bytes)
{
    const struct vip_shm_seg *seg;
    unsigned count = eng_desc_data(desc, &seg);

    for (; count; count--, seg++) {
        struct eng_access access = {.vi = vi->index,
                                    .kind = kind,
                                    .handle = seg->handle,
                                    .addr = seg->addr,
                                    .len = eng_min32(seg->len, bytes)};

        bytes -= access.len;
        /* A segment of length 0 refers to no memory. */
        if (seg->len && !vi->eng->ops.check(vi->eng->ctx, &access))
            return false;
    }
    return true;
}
