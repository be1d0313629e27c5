/*
 * The pace: spread a window over its round trip instead of sending it in one burst, which would fill
 * the queues of the path. A bucket of time: every byte sent costs the time it may take at the pace; an
 * idle connection saves up a burst. When the bucket is empty the VI waits until a quantum has come
 * together, so that a timer serves several packets.
 */
#include "vipd/engine/internal.h"

/* What may leave at once after a pause: one batch of the host's segmentation offload. */
#define PACE_BURST_BYTES   65536u
#define PACE_BURST_PACKETS 4u
/* ... or what the path takes in such a time: on fast paths a batch is larger. */
#define PACE_BURST_NS 200000u
/* Wait for this part of a burst before going on. */
#define PACE_QUANTUM 4u
/* A pace of more than so much is none: 1 ps per byte is 1 TB/s. */
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
