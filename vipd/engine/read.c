/*
 * RDMA Read. At the target a request is an operation like others: processed in order, then answered
 * in its own stream of fragments. At the initiator answers come back in the order of the reads.
 *
 * At most ENG_READS_MAX reads are open, so the target keeps a slot for each and needs no message to
 * free one: request number n + ENG_READS_MAX proves that answer n has arrived.
 */
#include "vipd/engine/internal.h"

bool eng_read_readable(struct eng_vi *vi, const struct eng_read *read)
{
    struct eng_access access = {.vi = vi->index,
                                .kind = ENG_ACCESS_REMOTE_READ,
                                .handle = read->handle,
                                .addr = read->addr,
                                .len = read->total};

    if (!vi->attrs.enable_rdma_read || read->addr + read->total < read->addr)
        return false;
    return !read->total || vi->eng->ops.check(vi->eng->ctx, &access);
}

/* Both reliable levels report it to the initiator (spec 3.6). */
void eng_read_denied(struct eng_vi *vi, uint32_t op)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .op_status = VIP_ST_RDMA_PROT_ERROR,
                              .failed_op = op,
                              .why = "the peer read memory that it may not read"};

    eng_event_error(vi, VIP_EC_RDMAR_PROT, VIP_CTL_OP_RDMAREAD, fault.why);
    eng_break(vi, &fault);
}

enum eng_step eng_read_request(struct eng_vi *vi, const struct vip_frame *frame)
{
    struct eng_read read = {.seq = vi->reads.asked,
                            .op = frame->op,
                            .handle = frame->handle,
                            .total = frame->total,
                            .addr = frame->remote_addr};

    /* Unreliable Delivery has no reads, and no vipd has more than ENG_READS_MAX open. */
    if (!vi->reliable || vi->reads.asked - vi->reads.at.op >= ENG_READS_MAX)
        return ENG_STEP_BAD;
    if (!eng_read_readable(vi, &read)) {
        eng_read_denied(vi, frame->op);
        return ENG_STEP_BROKE;
    }
    vi->reads.slot[read.seq % ENG_READS_MAX] = read;
    vi->reads.asked++;
    vi->stats.rx_messages++;
    eng_rx_op_done(vi);
    return ENG_STEP_DONE;
}

/* Is an answer to a read of the peer not yet cut, or not yet acknowledged? */
static bool unanswered(const struct eng_vi *vi)
{
    if (vi->reads.at.op != vi->reads.asked)
        return true;
    for (uint64_t n = eng_bits_next(&vi->tx.open, vi->tx.una, vi->tx.number); n < vi->tx.number;
         n = eng_bits_next(&vi->tx.open, n + 1, vi->tx.number))
        if (vi->sent[n % ENG_SENT_RING].stream == ENG_STREAM_READS)
            return true;
    return false;
}

/*
 * The transport failed. Writes of the peer have other error codes, our own reads have descriptors.
 * Only the callback can report reads of the peer that were not answered (spec 1.9, 3.9).
 */
void eng_reads_transport(struct eng_vi *vi)
{
    if (unanswered(vi))
        eng_event_error(vi, VIP_EC_RDMA_TRANSPORT, VIP_CTL_OP_RDMAREAD,
                        "the answer to an RDMA Read of the peer could not be delivered");
}

void eng_read_started(struct eng_vi *vi, uint32_t op)
{
    if (!vi->reads.open++)
        vi->reads.want = (struct eng_pos){op, 0};
}

/* The oldest open read is over; the next one is the next read of the queue. */
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

/* Is `op` one of our open reads: the expected one or a later one? */
static bool read_is_open(struct eng_vi *vi, uint32_t op)
{
    const struct eng_desc *desc;

    if (!eng_before(op, vi->tx.at.op) || eng_before(op, vi->reads.want.op))
        return false;
    desc = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, op));
    return (desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD;
}

enum eng_step eng_read_answer(struct eng_vi *vi, const struct vip_frame *frame)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .why = "the destination of a read is not accessible any more"};
    struct eng_pos at = {frame->op, frame->offset};
    struct eng_desc *desc;
    uint32_t skip;

    if (!vi->reliable || !eng_before(frame->op, vi->tx.at.op))
        return ENG_STEP_BAD;
    if (!vi->reads.open || eng_before(frame->op, vi->reads.want.op))
        return ENG_STEP_DONE;
    if (!read_is_open(vi, frame->op))
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
        fault.first_status = VIP_ST_PROTECTION_ERROR;
        eng_break(vi, &fault);
        return ENG_STEP_BROKE;
    }
    vi->reads.want.off += frame->length - skip;
    vi->stats.rx_bytes += frame->length - skip;
    if (frame->flags & VIP_FRMF_LAST) {
        desc->state = ENG_DESC_READ_DONE;
        read_finished(vi);
        eng_send_advance(vi);
        /* A send behind it may have lost its memory and is now due to fail. */
        eng_fail_head(vi);
        if (vi->state != VIP_VIST_CONNECTED)
            return ENG_STEP_BROKE;
    }
    return ENG_STEP_DONE;
}
