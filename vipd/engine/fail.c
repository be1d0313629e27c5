/*
 * Operations that fail at this end: a faulty descriptor whose turn has come, a posted send whose
 * memory is not registered any more, and an RDMA Read of memory that the peer may not read.
 */
#include "vipd/engine/internal.h"

bool eng_refuse(struct eng_vi *vi, struct eng_desc *desc)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR, .why = "a posted send was faulty"};

    if (!vi->reliable) {
        /* With Unreliable Delivery the queue goes on after a faulty descriptor (spec 3.6). */
        desc->state = ENG_DESC_SENT;
        vi->sq.next++;
        vi->tx.at = (struct eng_pos){vi->tx.at.op + 1, 0};
        eng_list_add(vi, ENG_LIST_SENT);
        return true;
    }
    VIP_ASSERT(vi->sq.next == vi->sq.head);
    eng_send_complete(vi, desc->fault);
    eng_break(vi, &fault);
    return false;
}

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

/* Both reliable levels report a denied read to the initiator (spec 3.6). */
struct eng_fault eng_read_denied(struct eng_vi *vi, uint32_t op)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .op_status = VIP_ST_RDMA_PROT_ERROR,
                              .failed_op = op,
                              .why = "the peer read memory that it may not read"};

    eng_event_error(vi, VIP_EC_RDMAR_PROT, VIP_CTL_OP_RDMAREAD, fault.why);
    return fault;
}

/* Find the first operation in a packet that uses memory which is not registered any more, and mark
 * it as failed. False: there is none. */
static bool fail_record(struct eng_vi *vi, const struct eng_sent *record)
{
    struct eng_pos end = eng_sent_end(record);

    for (uint32_t op = record->at.op; op != end.op + (end.off > 0); op++) {
        struct eng_desc *desc;

        if (eng_before(op, vi->tx.ops_acked))
            continue;
        desc = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, op));
        if ((desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD ||
            eng_desc_check(vi, desc, ENG_ACCESS_SEND, desc->sum))
            continue;
        desc->fault = VIP_ST_PROTECTION_ERROR;
        return true;
    }
    return false;
}

/* Set tx.fail_op to the oldest failed operation that the peer has not acknowledged, if any. Search
 * the whole send queue each time, because operations need not fail in their order. */
static void find_failed(struct eng_vi *vi)
{
    uint32_t end = vi->tx.at.op + (vi->tx.at.off > 0);

    vi->tx.fail_valid = false;
    for (uint32_t op = vi->tx.ops_acked; op != end && !vi->tx.fail_valid; op++) {
        vi->tx.fail_valid = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, op))->fault;
        vi->tx.fail_op = op;
    }
}

/* The packet of `record` answers RDMA Reads of the peer. Returns the first one that is not allowed
 * any more, or NULL. */
static const struct eng_read *denied_read(struct eng_vi *vi, const struct eng_sent *record)
{
    struct eng_pos end = eng_sent_end(record);

    for (uint32_t seq = record->at.op; seq != end.op + (end.off > 0); seq++) {
        const struct eng_read *read = &vi->reads.slot[seq % ENG_READS_MAX];

        if (read->seq == seq && !eng_read_readable(vi, read))
            return read;
    }
    return NULL;
}

static void fail_unreliable(struct eng_vi *vi, uint32_t op)
{
    for (uint32_t i = vi->sq.head; i != vi->sq.tail; i++) {
        struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, i);

        if (desc->state == ENG_DESC_POSTED)
            return;
        if (desc->op != op || desc->fault || eng_desc_check(vi, desc, ENG_ACCESS_SEND, desc->sum))
            continue;
        desc->fault = VIP_ST_PROTECTION_ERROR;
        if (i == vi->sq.next) {
            /* A part of the message was sent. The peer drops this part when the next message
             * begins. */
            (void)eng_refuse(vi, desc);
        }
        return;
    }
}

void eng_fail_head(struct eng_vi *vi)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .first_status = VIP_ST_PROTECTION_ERROR,
                              .why = "memory of a posted send is not registered any more"};

    /* If the peer has fail_op from an earlier packet, look for a later failed operation. */
    if (vi->tx.fail_valid && eng_before(vi->tx.fail_op, vi->tx.ops_acked))
        find_failed(vi);
    /* If all operations before fail_op are done, fail_op fails now. */
    if (vi->tx.fail_valid && eng_op_position(vi, vi->tx.fail_op) == vi->sq.head)
        eng_break(vi, &fault);
}

void eng_tx_failed(struct eng *eng, uint16_t vi, uint32_t op, uint64_t now_ns)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    (void)now_ns;
    if (of->state != VIP_VIST_CONNECTED)
        return;
    if (!of->reliable) {
        fail_unreliable(of, op);
        eng_vi_update(of);
        return;
    }
    /* The packet was pulled a moment ago, so start with the newest packet. */
    for (uint64_t number = of->tx.number - 1; number >= of->tx.una && number; number--) {
        const struct eng_sent *record = &of->sent[number % ENG_SENT_SLOTS];

        if (!eng_bits_test(&of->tx.open, number) || record->probe)
            continue;
        if (record->stream == ENG_STREAM_READS) {
            const struct eng_read *read = denied_read(of, record);

            if (read) {
                struct eng_fault fault = eng_read_denied(of, read->op);

                eng_break(of, &fault);
                return;
            }
        } else if (record->at.op == op && fail_record(of, record)) {
            find_failed(of);
            break;
        }
    }
    eng_fail_head(of);
    eng_vi_update(of);
}
