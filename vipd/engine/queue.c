/*
 * Work queues: completion in the order of posting (spec 3.3), and the flush. Only eng_send_complete
 * and eng_recv_complete report completions. This file also tests whether an RDMA Read is open.
 */
#include "vipd/engine/internal.h"

uint64_t eng_desc_age_ns(const struct eng_vi *vi, uint32_t position, uint64_t now_ns)
{
    uint32_t posted = vi->posted[position & ENG_QUEUE_MASK];

    return (uint64_t)((uint32_t)(now_ns >> ENG_TICK_SHIFT) - posted) << ENG_TICK_SHIFT;
}

bool eng_read_is_open(struct eng_vi *vi, uint32_t op)
{
    const struct eng_desc *desc;

    if (!vi->reads.open || !eng_before(op, vi->tx.at.op) || eng_before(op, vi->reads.want.op))
        return false;
    desc = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, op));
    return (desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD;
}

bool eng_read_asked_again(struct eng_vi *vi, uint32_t op)
{
    return eng_before(op, vi->reads.again_end) && eng_read_is_open(vi, op);
}

void eng_desc_release(struct eng_vi *vi, struct eng_desc *desc)
{
    unsigned kept = eng_desc_kept(desc);

    if (kept)
        vi->eng->ops.segs_free(vi->eng->ctx, desc->more, kept);
    desc->seg_count = 0;
    desc->message_bytes = 0;
}

/* Operation field in the completion of a send. */
static uint32_t send_operation(const struct eng_desc *desc)
{
    switch (desc->control & VIP_CTL_OP_MASK) {
    case VIP_CTL_OP_RDMAWRITE:
        return VIP_ST_OP_RDMA_WRITE;
    case VIP_CTL_OP_RDMAREAD:
        return VIP_ST_OP_RDMA_READ;
    }
    return VIP_ST_OP_SEND;
}

void eng_send_complete(struct eng_vi *vi, uint32_t bits)
{
    struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, vi->sq.head);
    uint32_t status = VIP_ST_DONE | send_operation(desc) | bits;

    VIP_ASSERT(vi->sq.head != vi->sq.tail);
    eng_desc_release(vi, desc);
    if (!bits) {
        vi->stats.tx_messages++;
        if (vi->eng->config.latency) {
            uint64_t age_ns = eng_desc_age_ns(vi, vi->sq.head, vi->eng->now_ns);

            vip_hist_add(&vi->eng->config.latency->post_to_complete, age_ns);
            if (vi->latency)
                vip_hist_add(&vi->latency->post_to_complete, age_ns);
        }
    }
    if (vi->sq.next == vi->sq.head)
        vi->sq.next++;
    vi->sq.head++;
    if (vi->sq.head == vi->sq.tail)
        vi->sq.head = vi->sq.next = vi->sq.tail = 0;
    vi->eng->ops.complete(vi->eng->ctx, vi->index, VIP_Q_SEND, status, desc->length, desc->imm);
}

void eng_recv_complete(struct eng_vi *vi, uint32_t bits, uint32_t length, uint64_t imm)
{
    struct eng_desc *desc = eng_desc_at(vi, VIP_Q_RECV, vi->rq.head);
    /* If an RDMA Write consumes the descriptor, `bits` has that operation already (spec 1.7). */
    uint32_t op = bits & VIP_ST_OP_MASK ? 0 : VIP_ST_OP_RECEIVE;

    VIP_ASSERT(vi->rq.head != vi->rq.tail);
    eng_desc_release(vi, desc);
    vi->rq.head++;
    if (vi->rq.head == vi->rq.tail)
        vi->rq.head = vi->rq.tail = 0;
    vi->eng->ops.complete(vi->eng->ctx, vi->index, VIP_Q_RECV, VIP_ST_DONE | op | bits, length,
                          imm);
}

void eng_send_advance(struct eng_vi *vi)
{
    while (vi->sq.head != vi->sq.next) {
        const struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, vi->sq.head);
        uint32_t op = vi->tx.at.op - (vi->sq.next - vi->sq.head);

        if (!eng_before(op - VIP_MUTANT(SEND_EARLY), vi->tx.ops_acked))
            return;
        /* An RDMA Read completes only when its bytes are in place. The peer processes the request
         * earlier. */
        if ((desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD &&
            desc->state != ENG_DESC_READ_DONE && !VIP_MUTANT(READ_EARLY))
            return;
        eng_send_complete(vi, 0);
    }
}

unsigned eng_send_advance_sent(struct eng_vi *vi)
{
    unsigned done = 0;

    for (; vi->sq.head != vi->sq.next; done++) {
        const struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, vi->sq.head);

        if (desc->state != ENG_DESC_SENT)
            break;
        eng_send_complete(vi, desc->fault);
    }
    return done;
}

void eng_send_flush(struct eng_vi *vi, const struct eng_flush *flush)
{
    uint32_t op = vi->tx.at.op - (vi->sq.next - vi->sq.head);
    uint32_t first = flush->first_status;

    for (; vi->sq.head + VIP_MUTANT(FLUSH_SHORT) != vi->sq.tail && vi->sq.head != vi->sq.tail;
         op++) {
        const struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, vi->sq.head);
        uint32_t status = VIP_ST_DESC_FLUSHED_ERROR;

        if (desc->state == ENG_DESC_SENT && !vi->reliable)
            status = desc->fault;
        else if (flush->failed && vi->reliable && op == flush->failed_op &&
                 (!flush->reads_only || send_operation(desc) == VIP_ST_OP_RDMA_READ))
            status = flush->failed_status;
        else if (first)
            status = first;
        first = 0;
        eng_send_complete(vi, status);
    }
    vi->tx.at.off = 0;
}

void eng_recv_flush_posted(struct eng_vi *vi)
{
    while (vi->rq.head != vi->rq.tail)
        eng_recv_complete(vi, VIP_ST_DESC_FLUSHED_ERROR, 0, 0);
}

void eng_recv_flush(struct eng_vi *vi)
{
    if (vi->eng->ops.fetch_receives)
        vi->eng->ops.fetch_receives(vi->eng->ctx, vi->index, true);
    eng_recv_flush_posted(vi);
}
