/*
 * The size of packets: the largest size that the path transports. At first it is the limit of the
 * host's interface. A path with a smaller limit may drop large packets without a message. Then only
 * large packets are lost, or no answer comes at all. In these cases packets shrink to STEP_SMALL,
 * later to VIP_PACKET_BYTES_MIN. From time to time a test packet is one step larger; if it arrives,
 * all packets get its size.
 *
 * A test packet carries data like any other. If it is lost, its data is sent again, and the loss is
 * no sign of congestion.
 */
#include "vipd/engine/internal.h"

/* Packets shrink if large packets were lost in this many round trips, and none arrived since. */
#define MTU_ROUNDS_MAX 3u
/* At least this many large packets must be lost before packets shrink. */
#define MTU_LOST_MAX 10u
/* Packets shrink after this many timer expiries in a row. SMALL: the number if the packet that the
 * peer needs first has at most STEP_SMALL bytes; few paths drop such a packet for its size. */
#define MTU_SILENCES       3u
#define MTU_SILENCES_SMALL 4u
/* Time between two tests of a larger size, in ns. It begins at MTU_TEST_NS. Each failed test
 * doubles it, until it is at least MTU_TEST_MAX_NS. */
#define MTU_TEST_NS     100000000ull
#define MTU_TEST_MAX_NS 60000000000ull

/* Sizes to test, in bytes. 1200: every IPv6 path transports 1280 bytes, headers included. */
static const uint32_t steps[] = {
    VIP_PACKET_BYTES_MIN, 1200, 1400, 1472, 4096, 8192, 16384, 32768, 65536};
#define STEPS      (sizeof(steps) / sizeof(steps[0]))
#define STEP_SMALL 1200u

/* The largest step below the size `bytes`. */
static uint32_t step_below(uint32_t bytes)
{
    uint32_t below = VIP_PACKET_BYTES_MIN;

    for (unsigned i = 0; i < STEPS && steps[i] < bytes; i++)
        below = steps[i];
    return below;
}

/* The step above the present size, but at most the limit of the interface. */
static uint32_t step_above(const struct eng_vi *vi)
{
    for (unsigned i = 0; i < STEPS; i++)
        if (steps[i] > vi->tx.packet_bytes)
            return eng_min32(steps[i], vi->conn.packet_bytes);
    return vi->conn.packet_bytes;
}

void eng_mtu_init(struct eng_vi *vi)
{
    vi->tx.packet_bytes = vi->conn.packet_bytes;
    vi->tx.mtu_wait_ns = MTU_TEST_NS;
}

static void shrink(struct eng_vi *vi, uint64_t now_ns)
{
    vi->tx.mtu_lost = vi->tx.mtu_rounds = 0;
    if (vi->tx.packet_bytes <= VIP_PACKET_BYTES_MIN || VIP_MUTANT(MTU_STUCK))
        return;
    vi->tx.packet_bytes = vi->tx.packet_bytes > STEP_SMALL ? STEP_SMALL : VIP_PACKET_BYTES_MIN;
    vi->tx.mtu_test_ns = now_ns + vi->tx.mtu_wait_ns;
    vi->tx.mtu_test = 0;
    vi->stats.mtu_cuts++;
}

uint32_t eng_mtu_limit(const struct eng_vi *vi, uint64_t now_ns)
{
    if (vi->tx.packet_bytes == vi->conn.packet_bytes || vi->tx.mtu_test ||
        now_ns < vi->tx.mtu_test_ns)
        return vi->tx.packet_bytes;
    return step_above(vi);
}

void eng_mtu_sent(struct eng_vi *vi, uint32_t bytes)
{
    /* A packet above the present size is a test packet. Only one test runs at a time. */
    if (bytes > vi->tx.packet_bytes)
        vi->tx.mtu_test = vi->tx.number;
}

bool eng_mtu_lost(struct eng_vi *vi, uint64_t number, uint32_t bytes, uint64_t now_ns)
{
    if (number == vi->tx.mtu_test) {
        vi->tx.mtu_test = 0;
        vi->tx.mtu_test_ns = now_ns + vi->tx.mtu_wait_ns;
        if (vi->tx.mtu_wait_ns < MTU_TEST_MAX_NS)
            vi->tx.mtu_wait_ns *= 2;
        return true;
    }
    if (bytes <= step_below(vi->tx.packet_bytes))
        return false;
    vi->tx.mtu_lost++;
    if (number >= vi->tx.mtu_fence) {
        vi->tx.mtu_fence = vi->tx.number;
        vi->tx.mtu_rounds++;
    }
    if (vi->tx.mtu_rounds >= MTU_ROUNDS_MAX && vi->tx.mtu_lost >= MTU_LOST_MAX)
        shrink(vi, now_ns);
    return false;
}

void eng_mtu_arrived(struct eng_vi *vi, uint64_t number, uint32_t bytes)
{
    if (vi->tx.mtu_lost && bytes > step_below(vi->tx.packet_bytes))
        vi->tx.mtu_lost = vi->tx.mtu_rounds = 0;
    if (bytes <= vi->tx.packet_bytes)
        return;
    /* A packet above the present size arrived: the test packet, or a packet sent before packets
     * shrank. Test the next step at once. */
    vi->tx.packet_bytes = bytes;
    if (number == vi->tx.mtu_test) {
        vi->tx.mtu_test = 0;
        vi->tx.mtu_wait_ns = MTU_TEST_NS;
    }
    vi->tx.mtu_test_ns = 0;
}

void eng_mtu_silence(struct eng_vi *vi, uint32_t bytes, uint64_t now_ns)
{
    uint32_t silences = bytes > STEP_SMALL ? MTU_SILENCES : MTU_SILENCES_SMALL;

    if (vi->tx.backoff >= silences && bytes > VIP_PACKET_BYTES_MIN)
        shrink(vi, now_ns);
}
