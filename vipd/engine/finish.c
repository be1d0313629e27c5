/*
 * Finish a packet that is being built: write its header with its number, keep a record of its
 * contents, and add its size to the bytes under way.
 */
#include "vipd/engine/ready.h"

/* A packet with a lone RDMA Write of at least this many bytes asks for an acknowledgement at
 * once. */
#define LONE_WRITE_BYTES 4096

/* Go on to the next packet number. Skip that number if it is the one to be skipped (skip.c), and if
 * the ring of sent packets has room. */
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

void eng_build_finish(struct eng_build *build, struct eng_vi *vi, const struct eng_sent *record,
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
    /* If ranges are left out, the acknowledgement is incomplete, and another one stays due. */
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
    /* If no answer of the peer was due before this packet, the peer's time for an answer begins
     * now. */
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

void eng_build_finish_data(struct eng_build *build, struct eng_vi *vi, struct eng_pos from,
                           struct eng_pos to, enum eng_stream stream, unsigned ranges,
                           uint64_t now_ns)
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
     * Ask for an acknowledgement at once if a delayed one would make the sender wait. There are
     * three such cases: a probe; the end of a burst; a full window with fewer packets than
     * ack_every_packets. A lone packet does not ask: the reply of the peer's program brings the
     * acknowledgement. But a lone large RDMA Write without immediate data asks, because it gets no
     * reply.
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
    eng_build_finish(build, vi, &record, flags, ranges, now_ns);
}
