/*
 * Packets to send. eng_tx_pull serves the ready VIs in turn. The order of a VI's packets is: lost
 * fragments, new fragments, a probe, a plain acknowledgement. An acknowledgement with ranges comes
 * before lost fragments. New fragments are, in turn, of operations and of answers to reads.
 *
 * Does not own: lost fragments (resend.c), headers and numbers (finish.c).
 */
#include "vipd/engine/ready.h"

/* Append up to `max` ranges of packet numbers that arrived. Returns how many ranges. */
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

/* Begin a packet of new fragments. If an acknowledgement with ranges is due, the ranges get up to
 * an eighth of the packet. Returns the number of ranges. */
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

    /* If the ring is nearly full, send nothing: the retransmission timer soon makes room. */
    if (!eng_numbers_left(vi, ENG_SENT_ACK_MAX))
        return false;
    eng_build_begin(&build, vi, ret);
    count = put_ranges(&build, vi, VIP_WIRE_RANGES_MAX);
    eng_build_finish(&build, vi, NULL, 0, count, now_ns);
    vi->stats.acks_sent++;
    return true;
}

/*
 * Build a probe: a packet without frames, which the peer must acknowledge at once. tx.inflight does
 * not include probes. Reason: if answers take longer than the timer, a probe is always under way.
 * In a window of one packet, a counted probe would leave no room for content.
 */
static bool emit_ping(struct eng_vi *vi, struct eng_packet *ret, uint64_t now_ns)
{
    struct eng_sent record = {.sent_ns = now_ns, .probe = true};
    struct eng_build build;

    vi->tx.ping = false;
    if (!eng_numbers_left(vi, ENG_SENT_SLOTS))
        return false;
    eng_build_begin(&build, vi, ret);
    eng_build_finish(&build, vi, &record, VIP_PKTF_ELICITS | VIP_PKTF_ACK_NOW, 0, now_ns);
    return true;
}

/*
 * Pad a packet of new fragments if another packet follows: the link can send packets of equal size
 * in one call (UDP_SEGMENT). For example, the last packet of a message of 4 KiB may lack only 8
 * bytes.
 */
static void fill_up(struct eng_build *build, struct eng_vi *vi)
{
    if (build->more)
        eng_build_fill(build, vi);
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
    eng_build_finish_data(&build, vi, from, vi->reads.at, ENG_STREAM_READS, ranges, now_ns);
    return true;
}

/* The last byte of the descriptor at sq.next is in a packet: go to the next descriptor. */
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

/* Largest number of faulty sends of Unreliable Delivery that one call of eng_tx_pull completes. */
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
                continue; /* it may have to wait for the descriptors before it */
        }
        if (desc->fault) {
            /* First send the operations that are in this packet already. */
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
    eng_build_finish_data(&build, vi, from, vi->tx.at, ENG_STREAM_OPS, ranges, now_ns);
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
    /* Repeated fragments may fill their packet, so ranges of numbers need a packet of their own. */
    if (vi->rx.ack_now && vi->tx.lost && eng_ack_has_ranges(vi) && emit_ack(vi, ret, now_ns))
        return true;
    if (eng_lost_ready(vi) && eng_resend(vi, ret, now_ns))
        return true;
    /* A packet must be sent to get an answer. If no lost packet serves, send a probe. */
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
        /* The VI's turn is over: move the VI to the end of the ready list. */
        eng_list_del(vi, ENG_LIST_READY);
        eng_list_add(vi, ENG_LIST_READY);
    }
    eng_vi_timer(vi);
    return true;
}
