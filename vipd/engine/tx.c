/*
 * Packets out. eng_tx_pull serves the ready VIs in turn. The order for one VI: lost fragments (an
 * acknowledgement with ranges before them); new fragments (our own operations and answers to the
 * peer's reads in turn); a probe; a plain acknowledgement.
 */
#include "vipd/engine/ready.h"

/* Smallest packet of a lone RDMA Write, in bytes, that asks for an acknowledgement at once. */
#define LONE_WRITE_BYTES 4096

/*
 * The next number has been used: go on, and now and then skip a number. A peer learns only from
 * received packets which numbers are in use. A peer that acknowledges a skipped number did not wait
 * (eng_ack_invented).
 */
static void next_number(struct eng_vi *vi)
{
    struct eng_tx *tx = &vi->tx;

    tx->number++;
    if (tx->number != tx->skip_at)
        return;
    if (!eng_numbers_left(vi, ENG_SENT_SLOTS - 1)) {
        tx->skip_at++;
        return;
    }
    eng_declared_forget(vi, tx->number);
    tx->skipped = tx->number;
    if (tx->una == tx->number)
        tx->una++;
    tx->number++;
    eng_skip_draw(vi);
}

/* Write the header and account for the packet. `record` describes the contents of a packet that
 * must be acknowledged; NULL for a plain acknowledgement. */
static void finish(struct eng_build *build, struct eng_vi *vi, const struct eng_sent *record,
                   uint16_t flags, unsigned ranges, uint64_t now_ns)
{
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .flags = flags,
                             .conn_id = vi->conn.remote_id,
                             .src_epoch = vi->conn.local_epoch,
                             .dst_epoch = vi->conn.remote_epoch,
                             .packet_number = vi->tx.number,
                             .ts = (uint32_t)(now_ns >> VIP_WIRE_TICK_SHIFT),
                             .range_count = (uint16_t)ranges,
                             .frame_count = (uint16_t)build->frames};

    eng_ack_fill(vi, &hdr, now_ns);
    vip_wire_put_header(build->packet->head, &hdr);
    VIP_ASSERT(build->packet->bytes <= vi->conn.packet_bytes);
    vi->stats.tx_packets++;
    eng_declared_forget(vi, vi->tx.number);
    /* An acknowledgement without its ranges is incomplete: another one stays due. */
    if (ranges || !eng_ack_has_ranges(vi)) {
        vi->rx.ack_now = false;
        vi->rx.unacked = 0;
        vi->rx.ack_ns = ENG_NEVER;
    }
    if (!record) {
        if (VIP_MUTANT(NUMBER_REUSED))
            return;
        if (vi->tx.una == vi->tx.number)
            vi->tx.una++;
        next_number(vi);
        return;
    }
    /* The peer begins to owe an answer: the time for the answer runs from here. */
    if (!vi->tx.owed) {
        vi->tx.progress_ns = now_ns;
        vi->tx.tries = 0;
    }
    vi->tx.owed = true;
    vi->sent[vi->tx.number % ENG_SENT_SLOTS] = *record;
    eng_bits_set(&vi->tx.open, vi->tx.number);
    next_number(vi);
    vi->tx.inflight += record->bytes;
    vi->tx.elicit_ns = now_ns;
    eng_loss_arm(vi, now_ns);
}

/* Append up to `max` ranges of packet numbers that arrived. Returns their number. */
static unsigned put_ranges(struct eng_build *build, struct eng_vi *vi, unsigned max)
{
    struct vip_range ranges[VIP_WIRE_RANGES_MAX];
    unsigned count = eng_ack_ranges(vi, ranges, max);

    for (unsigned i = 0; i < count; i++)
        vip_wire_put_range(build->packet->head + build->head_bytes + i * VIP_WIRE_RANGE_BYTES,
                           &ranges[i]);
    if (count)
        eng_build_head(build, count * VIP_WIRE_RANGE_BYTES);
    return count;
}

/*
 * Begin a packet of new fragments. If an acknowledgement is due and has ranges, they take up to an
 * eighth of the packet; its size stays the same.
 */
static unsigned begin_fresh(struct eng_build *build, struct eng_vi *vi, struct eng_packet *ret,
                            uint64_t now_ns)
{
    unsigned max = vi->tx.packet_bytes / 8 / VIP_WIRE_RANGE_BYTES;

    eng_build_begin(build, vi, ret);
    build->limit_bytes = eng_mtu_limit(vi, now_ns);
    if (vi->tx.inflight && vi->tx.inflight + build->limit_bytes > vi->conn.window_bytes)
        build->limit_bytes = vi->tx.packet_bytes;
    if (!vi->rx.unacked || !eng_ack_has_ranges(vi))
        return 0;
    return put_ranges(build, vi, max < VIP_WIRE_RANGES_MAX ? max : VIP_WIRE_RANGES_MAX);
}

static bool emit_ack(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_build build;
    unsigned count;

    /* The ring is nearly full; the retransmission timer soon makes room. */
    if (!eng_numbers_left(vi, ENG_SENT_ACK_MAX))
        return false;
    eng_build_begin(&build, vi, ret);
    count = put_ranges(&build, vi, VIP_WIRE_RANGES_MAX);
    finish(&build, vi, NULL, 0, count, now_ns);
    vi->stats.acks_sent++;
    return true;
}

/*
 * A probe without frames, which the peer must answer with its state. It takes no room of the
 * window: if answers take longer than the timer, a probe is always under way, and it would keep a
 * window of one packet shut for ever.
 */
static bool emit_ping(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_sent record = {.sent_ns = now_ns, .probe = true};
    struct eng_build build;

    vi->tx.ping = false;
    if (!eng_numbers_left(vi, ENG_SENT_SLOTS))
        return false;
    eng_build_begin(&build, vi, ret);
    finish(&build, vi, &record, VIP_PKTF_ELICITS | VIP_PKTF_ACK_NOW, 0, now_ns);
    return true;
}

/*
 * Pad a packet of new fragments if another one follows: packets of equal size can leave in one call
 * (UDP_SEGMENT). A message of 4 KiB, for example, ends 8 bytes before the end of a packet of 1,472.
 */
static void fill_up(struct eng_build *build, struct eng_vi *vi)
{
    if (build->more)
        eng_build_fill(build, vi);
}

/* Close a data packet that carries [from, to) of a stream, behind `ranges` ranges. */
static void finish_data(struct eng_build *build, struct eng_vi *vi, struct eng_pos from,
                        struct eng_pos to, enum eng_stream stream, unsigned ranges, uint64_t now_ns)
{
    struct eng_sent record = {.sent_ns = now_ns,
                              .bytes = build->packet->bytes,
                              .at = from,
                              .end_off = to.off,
                              .ops = (uint8_t)(to.op - from.op),
                              .stream = (uint8_t)stream};
    uint16_t flags = VIP_PKTF_ELICITS;
    bool probe = vi->tx.probes > 0;
    bool more = build->more;
    bool open, few;

    vi->tx.inflight += record.bytes;
    open = eng_tx_window_open(vi);
    vi->tx.inflight -= record.bytes;
    vi->tx.burst++;
    /*
     * Ask for an acknowledgement at once where the sender would wait for it: at the end of a burst,
     * or if a full window has fewer packets than the peer acknowledges unasked. A lone message does
     * not ask; its acknowledgement travels with the reply. A lone large RDMA Write without
     * immediate data asks: no reply follows, and a program with few writes would wait each time.
     */
    few = vi->tx.inflight < (uint64_t)vi->eng->config.ack_every_packets * vi->tx.packet_bytes;
    if (probe || (more && !open && few) ||
        (!more && (vi->tx.burst > 1 || (build->unheard && record.bytes >= LONE_WRITE_BYTES))))
        flags |= VIP_PKTF_ACK_NOW;
    if (!more)
        vi->tx.burst = 0;
    if (probe)
        vi->tx.probes--;
    eng_mtu_sent(vi, record.bytes);
    eng_pace_sent(vi, record.bytes, now_ns);
    finish(build, vi, &record, flags, ranges, now_ns);
}

/* The content of a record before `at` is under way again; the record keeps the rest. */
static void record_trim(struct eng_sent *record, struct eng_pos at)
{
    record->ops = (uint8_t)(record->at.op + record->ops - at.op);
    record->at = at;
}

/*
 * The first byte of [at, end) of our own operations that can be sent again. It skips operations
 * that the peer has, and failed ones, which lost their memory. Operations behind a failed one are
 * sent again: the peer may turn out to have the failed one, and then it needs them.
 */
static struct eng_pos skip_settled(struct eng_vi *vi, struct eng_pos at, struct eng_pos end)
{
    if (eng_before(at.op, vi->tx.ops_acked))
        at = (struct eng_pos){vi->tx.ops_acked, 0};
    while (eng_pos_before(at, end) &&
           eng_desc_at(vi, VIP_Q_SEND, eng_op_position(vi, at.op))->fault)
        at = at.op == end.op ? end : (struct eng_pos){at.op + 1, 0};
    return at;
}

/*
 * Append [at, end) of our own operations, up to one that lost its memory. Returns the position
 * where it stopped.
 */
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

        /* The slot has a later read, so this answer has arrived. */
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

/* Add the content of the oldest record, a lost one, to the next lost record of its stream. */
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
 * After a cut of the packet size, more packets replace the lost ones. Their numbers can fill the
 * ring while the oldest record still waits. Then records are merged. A record that cannot be merged
 * takes a new number without a packet; in a full ring that is the same slot. False: still no room.
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

/* Send the content of the first lost packet that matters in a new packet. False: none was made. */
static bool emit_lost(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_fault fault = {.reason = VIP_CLOSE_ERROR,
                              .first_status = VIP_ST_TRANSPORT_ERROR,
                              .why = "more packets are lost than can be remembered"};

    if (!make_room(vi)) {
        /* If the oldest packet is under way, news of it makes room. */
        if (eng_oldest_lost(vi))
            eng_break(vi, &fault);
        return false;
    }
    while (vi->tx.lost) {
        uint16_t index = vi->tx.lost_head;
        struct eng_sent *record = &vi->sent[index];
        /* `index` is the number modulo ENG_SENT_SLOTS; numbers of the ring begin at una. */
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
        finish_data(&build, vi, from, to, stream, 0, now_ns);
        return true;
    }
    return false;
}

static bool emit_answers(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_pos from = vi->reads.at;
    struct eng_build build;
    unsigned ranges = begin_fresh(&build, vi, ret, now_ns);

    while (eng_answers_ready(vi)) {
        const struct eng_read *read = &vi->reads.slot[vi->reads.at.op % ENG_READS_MAX];

        VIP_ASSERT(read->seq == vi->reads.at.op);
        if (!eng_build_answer(&build, vi, read, &vi->reads.at, read->total))
            break;
    }
    if (!build.frames)
        return false;
    build.more = eng_tx_held_back(vi);
    fill_up(&build, vi);
    vi->stats.tx_bytes += ret->bytes - build.head_bytes;
    finish_data(&build, vi, from, vi->reads.at, ENG_STREAM_READS, ranges, now_ns);
    return true;
}

/* Bookkeeping when the last byte of the descriptor at sq.next has been cut. */
static void cut_through(struct eng_vi *vi, struct eng_desc *desc, uint32_t op)
{
    vi->sq.next++;
    if ((desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD)
        eng_read_started(vi, op);
    if (!vi->reliable) {
        desc->state = ENG_DESC_SENT;
        eng_list_add(vi, ENG_LIST_SENT);
    }
}

/* Limit of faulty sends of Unreliable Delivery that one call of eng_tx_pull passes over. */
#define REFUSED_MAX 16

static bool emit_ops(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_pos from = vi->tx.at;
    struct eng_build build;
    unsigned ranges = begin_fresh(&build, vi, ret, now_ns), refused = 0;

    while (eng_ops_ready(vi)) {
        struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, vi->sq.next);
        enum eng_access_kind kind = (desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD
                                        ? ENG_ACCESS_RECV
                                        : ENG_ACCESS_SEND;
        uint32_t op = vi->tx.at.op, position = vi->sq.next;
        bool begins = vi->tx.at.off == 0;

        if (!desc->fault && desc->state == ENG_DESC_POSTED) {
            if (!eng_desc_check(vi, desc, kind, desc->sum))
                desc->fault = VIP_ST_PROTECTION_ERROR;
            desc->state = ENG_DESC_CHECKED;
            desc->op = op;
            if (desc->fault)
                continue; /* it may have to wait for those before it */
        }
        if (desc->fault) {
            /* Operations that were cut before it leave first. */
            if (vi->reliable && build.frames)
                break;
            if (!eng_refuse(vi, desc))
                return false;
            if (++refused == REFUSED_MAX)
                break;
            continue;
        }
        if (!eng_build_op(&build, vi, desc, &vi->tx.at, eng_desc_bytes(desc)))
            break;
        if (begins && !ret->posted_ns && vi->eng->config.latency)
            ret->posted_ns = now_ns - eng_desc_age_ns(vi, position, now_ns);
        if (vi->tx.at.op != op)
            cut_through(vi, desc, op);
        build.unheard = vi->reliable && vi->tx.at.op != op &&
                        (desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAWRITE &&
                        !(desc->control & VIP_CTL_IMMEDIATE);
    }
    if (!build.frames)
        return false;
    build.more = eng_tx_held_back(vi);
    fill_up(&build, vi);
    vi->stats.tx_bytes += ret->bytes - build.head_bytes + build.message_bytes;
    finish_data(&build, vi, from, vi->tx.at, ENG_STREAM_OPS, ranges, now_ns);
    return true;
}

static bool emit_fresh(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    bool reads_first = !vi->tx.turn_reads;

    for (unsigned i = 0; i < 2; i++, reads_first = !reads_first) {
        if (vi->state != VIP_VIST_CONNECTED || !eng_fresh_ready(vi))
            return false;
        vi->tx.turn_reads = reads_first;
        if (reads_first ? eng_answers_ready(vi) && emit_answers(vi, ret, now_ns)
                        : eng_ops_ready(vi) && emit_ops(vi, ret, now_ns))
            return true;
    }
    return false;
}

static bool emit(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    /* Repeated fragments keep their size, so ranges do not fit beside them. */
    if (vi->rx.ack_now && vi->tx.lost && eng_ack_has_ranges(vi) && emit_ack(vi, ret, now_ns))
        return true;
    if (eng_lost_ready(vi) && emit_lost(vi, ret, now_ns))
        return true;
    /* A probe is due, and no lost packet is left to be one: send a probe without frames. */
    if (vi->tx.probes && !vi->tx.lost) {
        vi->tx.probes = 0;
        vi->tx.ping = true;
    }
    if (emit_fresh(vi, ret, now_ns))
        return true;
    if (vi->state != VIP_VIST_CONNECTED)
        return false;
    if (vi->tx.ping && emit_ping(vi, ret, now_ns))
        return true;
    return vi->rx.ack_now && emit_ack(vi, ret, now_ns);
}

bool eng_tx_ready(const struct eng *eng)
{
    return eng->list[ENG_LIST_READY].head != ENG_NONE;
}

bool eng_tx_pull(struct eng *eng, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_vi *vi = eng_list_first(eng, ENG_LIST_READY);

    if (!vi)
        return false;
    if (vi->state != VIP_VIST_CONNECTED || !emit(vi, ret, now_ns)) {
        eng_list_del(vi, ENG_LIST_READY);
        eng_vi_update(vi);
        return false;
    }
    eng->turn_packets++;
    eng->turn_bytes += ret->bytes;
    if (!eng_tx_wants(vi)) {
        eng_list_del(vi, ENG_LIST_READY);
    } else if (eng->turn_packets >= eng->config.turn_packets ||
               eng->turn_bytes >= eng->config.turn_bytes) {
        /* To the end of the list. */
        eng_list_del(vi, ENG_LIST_READY);
        eng_list_add(vi, ENG_LIST_READY);
    }
    eng_vi_timer(vi);
    return true;
}
