/*
 * The pace spreads the packets of a window over a round trip; in one burst they would fill the
 * queues of the path. At the pace, each byte takes some time; at tx.pace_ns the time of all bytes
 * sent is over. If tx.pace_ns is in the future, the VI waits until a part of a burst may be sent,
 * so that one timer serves several packets. After a pause the VI may send one burst at once.
 */
#include "vipd/engine/internal.h"

/* Smallest burst, in bytes and in packets: a batch of the segmentation offload. */
#define PACE_BURST_BYTES   65536u
#define PACE_BURST_PACKETS 4u
/* Smallest burst, as time at the pace. On fast paths it has more bytes than PACE_BURST_BYTES. */
#define PACE_BURST_NS 200000u
/* A paced VI waits until it may send 1/PACE_QUANTUM of a burst. */
#define PACE_QUANTUM 4u
/* A pace of fewer ps per byte has no effect, because 1 ps per byte is already 1 TB/s. */
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
    /* This cannot overflow: a round trip is below a minute, that is, below 2^36 ns. */
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
