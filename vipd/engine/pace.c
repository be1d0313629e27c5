/*
 * The pace spreads a window over its round trip, because one burst of it would fill the queues of
 * the path. The pace is a bucket of time: every byte sent costs its time at the pace; an idle
 * connection saves up one burst. With an empty bucket the VI waits for a quantum, so one timer
 * serves several packets.
 */
#include "vipd/engine/internal.h"

/* Burst after a pause, in bytes and packets: at least one batch of the segmentation offload */
#define PACE_BURST_BYTES   65536u
#define PACE_BURST_PACKETS 4u
/* ... and at least the bytes of this time at the pace: on fast paths a batch is larger. */
#define PACE_BURST_NS 200000u
/* A VI with an empty bucket waits until 1/PACE_QUANTUM of a burst is saved. */
#define PACE_QUANTUM 4u
/* A pace of fewer ps per byte is no pace: 1 ps per byte is 1 TB/s. */
#define PACE_PS_MIN 2u

static uint64_t burst_ns(const struct eng_vi *vi)
{
    uint64_t bytes = PACE_BURST_PACKETS * (uint64_t)vi->tx.packet_bytes;

    if (bytes < PACE_BURST_BYTES)
        bytes = PACE_BURST_BYTES;
    bytes = bytes * vi->tx.pace_ps / 1000;
    return bytes > PACE_BURST_NS ? bytes : PACE_BURST_NS;
}

void eng_pace_set(struct eng_vi *vi)
{
    unsigned eighths = eng_cc_pace(&vi->tx.cc);
    uint64_t window = vi->tx.cc.now.window_bytes;

    vi->tx.pace_ps = 0;
    if (!eighths || !vi->tx.srtt_ns)
        return;
    /* A round trip is below a minute, 2^36 ns: times 8000 it fits. */
    vi->tx.pace_ps = vi->tx.srtt_ns * 8000 / (window * eighths);
    if (vi->tx.pace_ps < PACE_PS_MIN)
        vi->tx.pace_ps = 0;
}

void eng_pace_sent(struct eng_vi *vi, uint32_t bytes, uint64_t now_ns)
{
    uint64_t saved_ns;

    if (!vi->tx.pace_ps)
        return;
    saved_ns = burst_ns(vi);
    if (vi->tx.pace_ns + saved_ns < now_ns)
        vi->tx.pace_ns = now_ns - saved_ns;
    vi->tx.pace_ns += bytes * vi->tx.pace_ps / 1000;
    if (vi->tx.pace_ns <= now_ns)
        return;
    vi->tx.paced = true;
    vi->tx.paced_until_ns = vi->tx.pace_ns + saved_ns / PACE_QUANTUM;
}

void eng_pace_refresh(struct eng_vi *vi, uint64_t now_ns)
{
    if (vi->tx.paced && (vi->tx.paced_until_ns <= now_ns || !vi->tx.pace_ps))
        vi->tx.paced = false;
}
