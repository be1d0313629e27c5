/*
 * Acknowledgements. Outgoing: which packet numbers arrived, and when to report them. Incoming: the
 * report of the peer about our packets.
 *
 * A packet number is never used twice, so the number of a lost packet never arrives. To go on past
 * such numbers, the receiver keeps the cumulative number less than ENG_BITS numbers behind the
 * newest number. So it acknowledges also lost packets. That harms nothing: the sender has no record
 * of packets so old, and it has repeated their content under new numbers.
 */
#include "proto/probe.h"
#include "vipd/engine/ready.h"

enum eng_number eng_number_judge(const struct eng_vi *vi, uint64_t number)
{
    if (number == 0 || number >= vi->rx.largest + ENG_NUMBER_JUMP_MAX)
        return ENG_NUMBER_IMPOSSIBLE;
    if (number < vi->rx.base)
        return ENG_NUMBER_SEEN;
    return number <= vi->rx.largest && eng_bits_test(&vi->rx.bits, number) ? ENG_NUMBER_SEEN
                                                                           : ENG_NUMBER_NEW;
}

/* Move the lower edge of the window to `base`. If packet `base` has arrived, move the edge further,
 * to the first packet that has not. */
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
        /* If packets arrive in order and without gaps (the usual case), no bit changes. */
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
    else if (rx->ack_ns == ENG_NEVER && !VIP_MUTANT(ACK_TIMER))
        rx->ack_ns = now_ns + vi->eng->config.ack_delay_ns;
}

void eng_ack_fill(const struct eng_vi *vi, struct vip_header *hdr, uint64_t now_ns)
{
    if (!vi->rx.largest)
        return;
    hdr->flags |= VIP_PKTF_ACK;
    hdr->ack_cumulative = vi->rx.base;
    hdr->ops_done = vi->rx.at.op;
    if (VIP_MUTANT(ACK_CUMULATIVE) && vi->rx.largest > vi->rx.base)
        hdr->ack_cumulative++;
    if (VIP_MUTANT(ACK_BEFORE_PLACEMENT) && vi->rx.at.off)
        hdr->ops_done++;
    hdr->ts_echo = vi->rx.ts;
    hdr->ack_delay = (uint32_t)(now_ns >> VIP_WIRE_TICK_SHIFT) - vi->rx.ts_arrival;
}

/* Write at most the `max` newest ranges: the sender already knows the oldest gaps. */
unsigned eng_ack_ranges(const struct eng_vi *vi, struct vip_range out[VIP_WIRE_RANGES_MAX],
                        unsigned max)
{
    const struct eng_rx_state *rx = &vi->rx;
    unsigned count = 0;

    for (uint64_t n = rx->largest; n > rx->base && count < max;) {
        uint64_t gap = eng_bits_prev(&rx->bits, n, rx->base, false);
        struct vip_range *range = &out[VIP_WIRE_RANGES_MAX - 1 - count++];

        range->start = (uint32_t)(gap + 1 - rx->base);
        if (VIP_MUTANT(ACK_RANGE) && gap > rx->base)
            range->start--;
        range->end = (uint32_t)(n + 1 - rx->base);
        n = eng_bits_prev(&rx->bits, gap, rx->base, true);
    }
    /* The loop found the highest range first; the wire has the ranges in ascending order. */
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
    /* Ranges ascend, so the last range has the largest number. */
    if (hdr->range_count && hdr->ack_cumulative + packet->ranges[hdr->range_count - 1].end > sent)
        return false;
    return !eng_before(vi->tx.at.op, hdr->ops_done);
}

/* The new facts in an acknowledgement. */
struct news {
    uint64_t bytes;   /* sum of the sizes of the packets that arrived */
    bool content;     /* a packet with content arrived */
    uint64_t newest;  /* largest number of a packet that arrived, 0 = none arrived */
    uint64_t largest; /* tx.largest_acked before this acknowledgement */
};

/* Handle packets of [from, to) that arrived after they had been declared lost. */
static void take_declared(struct eng_vi *vi, uint64_t from, uint64_t to)
{
    uint64_t known = vi->tx.number > ENG_BITS ? vi->tx.number - ENG_BITS : 0;

    /* A number below `known` shares its bit with a newer number, so that bit is no proof. */
    if (from < known)
        from = known;
    for (uint64_t n; (n = eng_bits_next(&vi->tx.declared, from, to)) < to; from = n + 1) {
        eng_declared_forget(vi, n);
        eng_mtu_arrived(vi, n, vi->sent[n % ENG_SENT_SLOTS].bytes);
        eng_loss_reordered(vi, n, true);
    }
}

/* Handle packets [from, to): they have arrived. */
static void take_range(struct eng_vi *vi, uint64_t from, uint64_t to, struct news *news)
{
    if (vi->tx.declared_count)
        take_declared(vi, from, to);
    if (from < vi->tx.una)
        from = vi->tx.una;
    for (uint64_t n; (n = eng_bits_next(&vi->tx.open, from, to)) < to; from = n + 1) {
        const struct eng_sent *record = &vi->sent[n % ENG_SENT_SLOTS];

        VIP_PROBE4(ack, vi->conn.local_id, vi->index, n, vi->eng->now_ns - record->sent_ns);
        if (vi->eng->config.latency && !record->lost) {
            uint64_t age_ns = vi->eng->now_ns - record->sent_ns;

            vip_hist_add(&vi->eng->config.latency->wire_to_ack, age_ns);
            if (vi->latency)
                vip_hist_add(&vi->latency->wire_to_ack, age_ns);
        }
        news->bytes += record->bytes;
        news->content = news->content || !record->probe;
        if (n > news->newest)
            news->newest = n;
        if (n < news->largest && !record->lost)
            eng_loss_reordered(vi, n, false);
        eng_mtu_arrived(vi, n, record->bytes);
        eng_sent_close(vi, n);
        if (n > vi->tx.largest_acked)
            vi->tx.largest_acked = n;
    }
}

/* Update round trip time, window and pace after an acknowledgement with new facts. */
static void take_news(struct eng_vi *vi, const struct vip_header *hdr, const struct news *news,
                      bool limited, uint64_t now_ns)
{
    struct eng_cc_ack ack = {.now_ns = now_ns,
                             .bytes = news->bytes,
                             .newest = news->newest,
                             .next = vi->tx.number,
                             .limited = limited};

    if (news->newest > news->largest)
        vi->tx.rack_ns = now_ns - vi->sent[news->newest % ENG_SENT_SLOTS].sent_ns;
    eng_loss_sample(vi, hdr, now_ns);
    ack.rtt_ns = vi->tx.latest_ns;
    ack.base_ns = eng_loss_base(vi);
    eng_cc_acked(&vi->tx.cc, &ack);
    eng_pace_set(vi);
    eng_pace_refresh(vi, now_ns);
}

/* Do the new facts show progress? An answer to a probe does, but only if no content is under way.
 * Otherwise probes would keep a connection alive on a path that drops all packets with content. */
static bool is_progress(const struct eng_vi *vi, const struct news *news, bool ops)
{
    return news->content || ops || (!vi->tx.inflight && !vi->tx.lost);
}

void eng_ack_take(struct eng_vi *vi, const struct vip_packet *packet, uint64_t now_ns)
{
    const struct vip_header *hdr = &packet->hdr;
    uint64_t cumulative = hdr->ack_cumulative;
    bool limited = (vi->tx.paced && eng_tx_held_back(vi)) ||
                   vi->tx.inflight + 2 * (uint64_t)vi->tx.packet_bytes > vi->tx.cc.now.window_bytes;
    struct news news = {.largest = vi->tx.largest_acked};
    bool ops = false;

    take_range(vi, 0, cumulative, &news);
    for (unsigned i = 0; i < hdr->range_count; i++)
        take_range(vi, cumulative + packet->ranges[i].start, cumulative + packet->ranges[i].end,
                   &news);
    if (news.newest)
        take_news(vi, hdr, &news, limited, now_ns);
    if (vi->tx.probed)
        eng_loss_probed(vi, cumulative, now_ns);
    /* An acknowledgement that arrives late has a smaller ops_done. */
    if (eng_before(vi->tx.ops_acked, hdr->ops_done)) {
        vi->tx.ops_acked = hdr->ops_done;
        ops = true;
        if (vi->reliable)
            eng_send_advance(vi);
    }
    if (!news.newest && !ops)
        return;
    if (is_progress(vi, &news, ops)) {
        vi->tx.progress_ns = now_ns;
        vi->tx.tries = 0;
    }
    /* Keep the back-off if the peer has all content, processes none, and answers only probes. */
    if (news.content || ops || vi->tx.inflight || vi->tx.lost)
        vi->tx.backoff = 0;
    vi->tx.owed = eng_tx_owes(vi);
    if (news.newest)
        eng_loss_detect(vi, now_ns);
    eng_loss_arm(vi, now_ns);
    eng_fail_head(vi);
}
