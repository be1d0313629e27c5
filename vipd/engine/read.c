/*
 * RDMA Read. The target processes a request in order, like other operations. Then it sends the
 * answer, in a separate stream of fragments. The initiator gets the answers in the order of its
 * reads.
 *
 * At most ENG_READS_MAX reads are open, and the target has a slot for each. The target needs no
 * message to free a slot: request number n + ENG_READS_MAX proves that answer n has arrived.
 */
#include "vipd/engine/internal.h"

enum eng_step eng_read_request(struct eng_vi *vi, const struct vip_frame *frame)
{
    struct eng_read read = {.seq = vi->reads.asked,
                            .op = frame->op,
                            .handle = frame->handle,
                            .total = frame->total,
                            .addr = frame->remote_addr};

    /* After a rebind the peer requests its open reads again. Process these requests first, and in
     * order: with the answers in another order, the peer would have to hold many packets. */
    bool again = vi->reads.again_count && frame->op == vi->reads.again[vi->reads.again_first];

    if (vi->reads.again_count && !again)
        return ENG_STEP_LATER;
    /* Unreliable Delivery has no reads, and a correct peer has at most ENG_READS_MAX open. */
    if (!vi->reliable || vi->reads.asked - vi->reads.at.op >= ENG_READS_MAX)
        return ENG_STEP_BAD;
    if (!eng_read_readable(vi, &read)) {
        vi->rx.fault = eng_read_denied(vi, frame->op);
        return ENG_STEP_FAULT;
    }
    vi->reads.slot[read.seq % ENG_READS_MAX] = read;
    vi->reads.asked++;
    if (again) {
        vi->reads.again_first++;
        vi->reads.again_count--;
        return ENG_STEP_DONE;
    }
    vi->stats.rx_messages++;
    eng_rx_op_commit(vi);
    return ENG_STEP_DONE;
}

void eng_read_started(struct eng_vi *vi, uint32_t op)
{
    if (!vi->reads.open++)
        vi->reads.want = (struct eng_pos){op, 0};
}

/* The oldest open read has all its bytes: move reads.want to the next read in the send queue. */
static void read_finished(struct eng_vi *vi)
{
    vi->reads.want.off = 0;
    if (!--vi->reads.open) {
        vi->tx.owed = eng_tx_owes(vi);
        eng_loss_arm(vi, vi->eng->now_ns);
        return;
    }
    do {
        const struct eng_desc *desc;

        vi->reads.want.op++;
        VIP_ASSERT(eng_before(vi->reads.want.op, vi->tx.at.op));
        desc = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, vi->reads.want.op));
        if ((desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD)
            return;
    } while (true);
}

enum eng_step eng_read_answer(struct eng_vi *vi, const struct vip_frame *frame)
{
    struct eng_pos at = {frame->op, frame->offset};
    struct eng_desc *desc;
    uint32_t skip;

    if (!vi->reliable || !eng_before(frame->op, vi->tx.at.op))
        return ENG_STEP_BAD;
    if (!vi->reads.open || eng_before(frame->op, vi->reads.want.op))
        return ENG_STEP_DONE;
    if (!eng_read_is_open(vi, frame->op))
        return ENG_STEP_BAD;
    if (eng_pos_before(vi->reads.want, at))
        return ENG_STEP_AHEAD;
    desc = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, frame->op));
    if (frame->total != desc->sum)
        return ENG_STEP_BAD;
    if (vi->reads.want.off && frame->offset + frame->length <= vi->reads.want.off)
        return ENG_STEP_DONE;
    skip = vi->reads.want.off - frame->offset;
    if (frame->length > skip &&
        !eng_scatter(vi, desc, vi->reads.want.off, frame->length - skip, frame->payload + skip)) {
        desc->fault = VIP_ST_PROTECTION_ERROR;
        vi->rx.fault =
            (struct eng_fault){.reason = VIP_CLOSE_ERROR,
                               .first_status = VIP_ST_PROTECTION_ERROR,
                               .why = "the destination of a read is not accessible any more"};
        return ENG_STEP_FAULT;
    }
    vi->reads.want.off += frame->length - skip;
    vi->stats.rx_bytes += frame->length - skip;
    if (frame->flags & VIP_FRMF_LAST) {
        desc->state = ENG_DESC_READ_DONE;
        read_finished(vi);
        eng_send_advance(vi);
        /* If tx.fail_op is the oldest operation now, it fails. */
        eng_fail_head(vi);
        if (vi->state != VIP_VIST_CONNECTED)
            return ENG_STEP_BROKE;
    }
    return ENG_STEP_DONE;
}
