/*
 * Acknowledgements. Outgoing: which packet numbers arrived, and when to say so. Incoming: what the
 * peer says about ours.
 *
 * A packet number is never sent twice, so the number of a lost packet never arrives and the
 * cumulative number would stand still. It follows at a distance of ENG_BITS numbers: a sender keeps
 * no record so old, and what it repeats travels under a new number.
 */
#include "vipd/engine/internal.h"

enum eng_number eng_number_judge(const struct eng_vi *vi, uint64_t number)
{
    if (number == 0 || number >= vi->rx.largest + ENG_NUMBER_JUMP_MAX)
        return ENG_NUMBER_IMPOSSIBLE;
    if (number < vi->rx.base)
        return ENG_NUMBER_SEEN;
    return number <= vi->rx.largest && eng_bits_test(&vi->rx.bits, number) ? ENG_NUMBER_SEEN
                                                                           : ENG_NUMBER_NEW;
}

/* Move the lower edge of the window to `base`, and on over what has arrived. */
static void base_advance(struct eng_rx_state *rx, uint64_t base)
{
    if (base - rx->base >= ENG_BITS)
        rx->bits = (struct eng_bits){0};
    else
        for (uint64_t n = rx->base; n < base; n++)
            eng_bits_clear(&rx->bits, n);
    while (base <= rx->largest && eng_bits_test(&rx->bits, base))
        eng_bits_clear(&rx->bits, base++);
    rx->base = base;
}

void eng_number_record(struct eng_vi *vi, const struct vip_header *hdr, uint64_t now_ns)
{
    struct eng_rx_state *rx = &vi->rx;
    uint64_t number = hdr->packet_number;

    if (number > rx->largest) {
        rx->ts = hdr->ts;
        rx->ts_arrival = (uint32_t)(now_ns >> VIP_WIRE_TICK_SHIFT);
    }
    if (number == rx->base && number > rx->largest) {
        /* In order and nothing missing: the usual case touches no bit. */
        rx->base = number + 1;
        rx->largest = number;
        return;
    }
    if (number - rx->base >= ENG_BITS)
        base_advance(rx, number - ENG_BITS + 1);
    eng_bits_set(&rx->bits, number);
    if (number > rx->largest)
        rx->largest = number;
    if (number == rx->base)
        base_advance(rx, number);
}

void eng_ack_schedule(struct eng_vi *vi, bool at_once, uint64_t now_ns)
{
    struct eng_rx_state *rx = &vi->rx;

    rx->unacked++;
    if (at_once || rx->unacked >= vi->eng->config.ack_every_packets)
        rx->ack_now = true;
    else if (rx->ack_ns == ENG_NEVER)
        rx->ack_ns = now_ns + vi->eng->config.ack_delay_ns;
}

void eng_ack_fill(const struct eng_vi *vi, struct vip_header *hdr, uint64_t now_ns)
{
    if (!vi->rx.largest)
        return;
    hdr->flags |= VIP_PKTF_ACK;
    hdr->ack_cumulative = vi->rx.base;
    hdr->ops_done = vi->rx.at.op;
    hdr->ts_echo = vi->rx.ts;
    hdr->ack_delay = (uint32_t)(now_ns >> VIP_WIRE_TICK_SHIFT) - vi->rx.ts_arrival;
}

/* The newest ranges, if there are more than max: the sender has dealt with the oldest gaps. */
unsigned eng_ack_ranges(const struct eng_vi *vi, struct vip_range out[VIP_WIRE_RANGES_MAX],
                        unsigned max)
{
    const struct eng_rx_state *rx = &vi->rx;
    unsigned count = 0;

    for (uint64_t n = rx->largest; n > rx->base && count < max;) {
        uint64_t gap = eng_bits_prev(&rx->bits, n, rx->base, false);
        struct vip_range *range = &out[VIP_WIRE_RANGES_MAX - 1 - count++];

        range->start = (uint32_t)(gap + 1 - rx->base);
        range->end = (uint32_t)(n + 1 - rx->base);
        n = eng_bits_prev(&rx->bits, gap, rx->base, true);
    }
    /* Found from the top; the wire has them in ascending order. */
    for (unsigned i = 0; i < count && count < VIP_WIRE_RANGES_MAX; i++)
        out[i] = out[VIP_WIRE_RANGES_MAX - count + i];
    return count;
}

bool eng_ack_possible(const struct eng_vi *vi, const struct vip_packet *packet)
{
    const struct vip_header *hdr = &packet->hdr;
    uint64_t sent = vi->tx.number;

    if (!(hdr->flags & VIP_PKTF_ACK))
        return true;
    if (hdr->ack_cumulative > sent)
        return false;
    /* Ranges ascend, so the last one reaches furthest. */
    if (hdr->range_count && hdr->ack_cumulative + packet->ranges[hdr->range_count - 1].end > sent)
        return false;
    return !eng_before(vi->tx.at.op, hdr->ops_done);
}

/* Numbers [from, to) have arrived. Returns the bytes that this was news of. */
static uint64_t take_range(struct eng_vi *vi, uint64_t from, uint64_t to, bool *news)
{
    uint64_t bytes = 0;

    if (from < vi->tx.una)
        from = vi->tx.una;
    for (uint64_t n; (n = eng_bits_next(&vi->tx.open, from, to)) < to; from = n + 1) {
        bytes += vi->sent[n % ENG_SENT_RING].bytes;
        eng_sent_close(vi, n);
        if (n > vi->tx.largest_acked)
            vi->tx.largest_acked = n;
        *news = true;
    }
    return bytes;
}

void eng_ack_take(struct eng_vi *vi, const struct vip_packet *packet, uint64_t now_ns)
{
    const struct vip_header *hdr = &packet->hdr;
    uint64_t cumulative = hdr->ack_cumulative;
    bool limited = vi->tx.inflight + 2 * (uint64_t)vi->conn.packet_bytes > vi->tx.cc.window_bytes;
    bool news = false, ops = false;
    uint64_t bytes = take_range(vi, 0, cumulative, &news);

    for (unsigned i = 0; i < hdr->range_count; i++)
        bytes += take_range(vi, cumulative + packet->ranges[i].start,
                            cumulative + packet->ranges[i].end, &news);
    if (news) {
        eng_loss_sample(vi, hdr, now_ns);
        eng_cc_acked(&vi->tx.cc, bytes, limited);
    }
    /* An acknowledgement that was overtaken tells an older, smaller number. */
    if (eng_before(vi->tx.ops_acked, hdr->ops_done)) {
        vi->tx.ops_acked = hdr->ops_done;
        ops = true;
        if (vi->reliable)
            eng_send_advance(vi);
    }
    if (!news && !ops)
        return;
    vi->tx.progress_ns = now_ns;
    vi->tx.backoff = 0;
    vi->tx.owed = eng_tx_owes(vi);
    if (news)
        eng_loss_detect(vi, now_ns);
    eng_loss_arm(vi, now_ns);
    eng_fail_head(vi);
}
