/*
 * Send the content of lost packets again, in new packets with new numbers. loss.c decides which
 * packets are lost.
 */
#include "vipd/engine/ready.h"

/* Remove the content before `at` from `record`: a new packet has it now. */
static void record_trim(struct eng_sent *record, struct eng_pos at)
{
    record->ops = (uint8_t)(record->at.op + record->ops - at.op);
    record->at = at;
}

/* Has the peer processed the operation, or has the operation failed? Then it is not sent again. */
static bool is_settled(struct eng_vi *vi, uint32_t op)
{
    if (eng_before(op, vi->tx.ops_acked))
        return !eng_read_asked_again(vi, op);
    return eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, op))->fault;
}

/*
 * The first byte of [at, end) that must be sent again. Skips operations that the peer has
 * processed, and failed operations (their memory is not registered any more). Operations after a
 * failed one are sent again, because an earlier packet may have brought the failed one to the peer.
 */
static struct eng_pos skip_settled(struct eng_vi *vi, struct eng_pos at, struct eng_pos end)
{
    while (eng_pos_before(at, end) && is_settled(vi, at.op))
        at = at.op == end.op ? end : (struct eng_pos){at.op + 1, 0};
    return at;
}

/* Append operations [at, end) to the packet, up to the first failed operation. Returns the position
 * after the last byte that was appended. */
static struct eng_pos rebuild_ops(struct eng_build *build, struct eng_vi *vi, struct eng_pos at,
                                  struct eng_pos end)
{
    while (eng_pos_before(at, end)) {
        const struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, at.op));

        if (desc->fault)
            return at;
        if (!eng_build_op(build, vi, desc, &at, at.op == end.op ? end.off : eng_desc_bytes(desc)))
            return at;
        vi->stats.retransmits++;
    }
    return at;
}

static struct eng_pos rebuild_answers(struct eng_build *build, struct eng_vi *vi, struct eng_pos at,
                                      struct eng_pos end)
{
    while (eng_pos_before(at, end)) {
        const struct eng_read *read = &vi->reads.slot[at.op % ENG_READS_MAX];

        /* If the slot has a later read, the answer at.op has arrived (struct eng_read). */
        if (read->seq != at.op) {
            at = (struct eng_pos){at.op + 1, 0};
            continue;
        }
        if (!eng_build_answer(build, vi, read, &at, at.op == end.op ? end.off : read->total))
            return at;
        vi->stats.retransmits++;
    }
    return at;
}

/* Join the oldest record, which is lost, with the next lost record. False: the content of the next
 * record does not follow directly, or the sum is too large. */
static bool merge_oldest(struct eng_vi *vi)
{
    const struct eng_sent *oldest = &vi->sent[vi->tx.una % ENG_SENT_SLOTS];
    struct eng_sent *next;
    struct eng_pos end = eng_sent_end(oldest);

    if (oldest->next == ENG_NONE)
        return false;
    next = &vi->sent[oldest->next];
    if (next->stream != oldest->stream || next->at.op != end.op || next->at.off != end.off ||
        oldest->ops + next->ops > UINT8_MAX)
        return false;
    next->ops = (uint8_t)(oldest->ops + next->ops);
    next->at = oldest->at;
    eng_sent_close(vi, vi->tx.una);
    return true;
}

/*
 * Make room in a full ring. After packets have shrunk (mtu.c), several packets replace each lost
 * packet. Their numbers can fill the ring while the oldest lost record still waits. So join lost
 * records. If the oldest record cannot be joined, it gets the next number, which has the same slot.
 * False: the ring is still full.
 */
static bool make_room(struct eng_vi *vi)
{
    for (unsigned i = 0; i < ENG_SENT_SLOTS && !eng_numbers_left(vi, ENG_SENT_SLOTS); i++) {
        if (!eng_oldest_lost(vi))
            return false;
        if (merge_oldest(vi))
            continue;
        eng_declared_forget(vi, vi->tx.una);
        if (++vi->tx.number == vi->tx.skip_at)
            vi->tx.skip_at++;
        vi->tx.una = eng_bits_next(&vi->tx.open, vi->tx.una + 1, vi->tx.number);
    }
    return eng_numbers_left(vi, ENG_SENT_SLOTS);
}

bool eng_resend(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .first_status = VIP_ST_TRANSPORT_ERROR,
                              .why = "more packets are lost than can be remembered"};

    if (!make_room(vi)) {
        /* If the oldest packet is still under way, wait: its acknowledgement or loss makes room. */
        if (eng_oldest_lost(vi))
            eng_break(vi, &fault);
        return false;
    }
    while (vi->tx.lost) {
        uint16_t index = vi->tx.lost_head;
        struct eng_sent *record = &vi->sent[index];
        /* The packet number of slot `index`: the lowest number from una on with this remainder. */
        uint64_t number = vi->tx.una + (index - vi->tx.una) % ENG_SENT_SLOTS;
        struct eng_pos at = record->at, end = eng_sent_end(record), from, to;
        enum eng_stream stream = (enum eng_stream)record->stream;
        struct eng_build build;

        VIP_ASSERT(record->lost && !record->probe && number < vi->tx.number);
        if (stream == ENG_STREAM_OPS)
            at = skip_settled(vi, at, end);
        eng_build_begin(&build, vi, ret);
        from = at;
        to = stream == ENG_STREAM_OPS ? rebuild_ops(&build, vi, at, end)
                                      : rebuild_answers(&build, vi, at, end);
        if (!eng_pos_before(to, end))
            eng_sent_close(vi, number);
        else
            record_trim(record, to);
        if (!build.frames)
            continue;
        build.more = eng_tx_held_back(vi);
        eng_build_finish_data(&build, vi, from, to, stream, 0, now_ns);
        return true;
    }
    return false;
}
