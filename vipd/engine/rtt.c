/*
 * Round-trip times: samples, the smallest sample, and the time after which an answer is late.
 *
 * A program that runs the engine itself acknowledges when it sends or polls next. So a peer that
 * computes between two messages keeps acknowledgements back for longer than ack_delay. The largest
 * such time, which slowly becomes smaller, is the peer's habit. A tail-loss probe waits for it, and
 * for a quarter more. The peer tells this time, but only of the newest packet. So if a probe was
 * needless, because the packet that it repeats had arrived, the time since that packet was sent
 * counts.
 */
#include "vipd/engine/internal.h"

/* Length of a period. The smallest round trip is the smallest sample of the present and the
 * previous period. */
#define BASE_PERIOD_NS 10000000000ull
/* Larger samples are dropped: no path has such a round trip, so the peer's time stamp is wrong. */
#define RTT_MAX_NS 60000000000ull

uint64_t eng_loss_base(const struct eng_vi *vi)
{
    const uint64_t *base = vi->tx.base_ns;

    if (!base[0] || !base[1])
        return base[0] ? base[0] : base[1];
    return base[0] < base[1] ? base[0] : base[1];
}

static void base_sample(struct eng_vi *vi, uint64_t sample_ns, uint64_t now_ns)
{
    uint64_t *base = vi->tx.base_ns;

    if (now_ns >= vi->tx.base_turn_ns) {
        base[1] = base[0];
        base[0] = 0;
        vi->tx.base_turn_ns = now_ns + BASE_PERIOD_NS;
    }
    if (!base[0] || sample_ns < base[0])
        base[0] = sample_ns;
}

/* The peer has kept an acknowledgement back for this time. */
static __attribute__((noinline)) void habit_learn(struct eng_vi *vi, uint64_t kept_ns)
{
    const struct eng_config *config = &vi->eng->config;

    if (kept_ns > config->rto_min_ns) /* a longer pause says nothing about the next */
        kept_ns = config->rto_min_ns;
    kept_ns += kept_ns / 4;
    vi->tx.habit_ns -= vi->tx.habit_ns / 8;
    if (kept_ns > vi->tx.habit_ns)
        vi->tx.habit_ns = kept_ns;
    if (vi->tx.habit_ns <= config->ack_delay_ns)
        vi->tx.habit_ns = 0;
}

void eng_loss_probed(struct eng_vi *vi, uint64_t cumulative, uint64_t now_ns)
{
    uint64_t number = vi->tx.probed;

    if (cumulative <= number && vi->tx.largest_acked <= number)
        return;
    vi->tx.probed = 0;
    if (cumulative > number)
        habit_learn(vi, now_ns - vi->tx.probed_ns);
}

void eng_loss_sample(struct eng_vi *vi, const struct vip_header *hdr, uint64_t now_ns)
{
    uint32_t ticks = (uint32_t)(now_ns >> VIP_WIRE_TICK_SHIFT) - hdr->ts_echo - hdr->ack_delay;
    uint64_t sample = (uint64_t)(ticks ? ticks : 1) << VIP_WIRE_TICK_SHIFT;
    uint64_t apart, kept_ns = (uint64_t)hdr->ack_delay << VIP_WIRE_TICK_SHIFT;

    if (sample > RTT_MAX_NS && !VIP_MUTANT(RTT_NONSENSE))
        return;
    vi->tx.latest_ns = sample;
    if (kept_ns > vi->eng->config.ack_delay_ns || vi->tx.habit_ns)
        habit_learn(vi, kept_ns);
    base_sample(vi, sample, now_ns);
    if (!vi->tx.srtt_ns) {
        vi->tx.srtt_ns = sample;
        vi->tx.rttvar_ns = sample / 2;
        return;
    }
    apart = sample > vi->tx.srtt_ns ? sample - vi->tx.srtt_ns : vi->tx.srtt_ns - sample;
    vi->tx.rttvar_ns += apart / 4;
    vi->tx.rttvar_ns -= vi->tx.rttvar_ns / 4;
    vi->tx.srtt_ns += sample / 8;
    vi->tx.srtt_ns -= vi->tx.srtt_ns / 8;
    if (!vi->tx.srtt_ns)
        vi->tx.srtt_ns = 1;
}

uint64_t eng_loss_rto(const struct eng_vi *vi)
{
    const struct eng_config *config = &vi->eng->config;
    uint64_t rto = config->rto_initial_ns;

    if (vi->tx.srtt_ns)
        rto = vi->tx.srtt_ns + 4 * vi->tx.rttvar_ns + config->ack_delay_ns;
    if (rto < config->rto_min_ns)
        rto = config->rto_min_ns;
    return rto < config->rto_max_ns ? rto : config->rto_max_ns;
}
