/*
 * Congestion control by delay: the default.
 *
 * Each connection keeps a small share of bytes of its own in the queue of the path: enough to keep
 * the link busy, but little delay for other traffic. The round trip times now and on the empty path
 * show how many bytes of the window are in the queue: window * (now - empty) / now. Once per round
 * trip the window moves half of the way to its target: the bytes that the empty path holds, plus
 * the share. All connections with the same share reach the same rate (the equation of FAST TCP). A
 * loss alone proves no congestion: on a path with random losses the rate stays. A loss together
 * with a queue, or the loss of a large part of a window, proves congestion; then the share shrinks.
 *
 * The round trip of the empty path can be measured only while the queue is empty, but the shares of
 * all connections fill the queue. So from time to time there is a drain: the connection uses the
 * smallest window for two round trips.
 */
#include "vipd/engine/cc.h"

/* The full share is SHARE_BYTES or SHARE_PACKETS packets, whichever is larger. A system call can
 * then send a batch. */
#define SHARE_BYTES   65536u
#define SHARE_PACKETS 2u
/*
 * Short paths: the round trip of the empty path (E) is below SHORT_NS / SHORT_ROUNDS. There most
 * delay comes from batches of packets inside the two hosts, and batches make the hosts fast. So a
 * delay of SHORT_NS - SHORT_ROUNDS * E does not count as queue. Measured: doc/performance.md.
 */
#define SHORT_NS     1000000u
#define SHORT_ROUNDS 10u
/* Smallest share, in packets. SHARE_SOME_PACKETS: after losses together with a queue.
 * SHARE_LEAST_PACKETS: after a round that lost more than an eighth of its bytes. */
#define SHARE_SOME_PACKETS  4u
#define SHARE_LEAST_PACKETS 2u
/* Samples that are necessary to prove a queue during the start: one late packet is no proof. */
#define START_SAMPLES 4u
/* Time between two drains, in round trips; the limits are DRAIN_MIN_NS and DRAIN_MAX_NS. On paths
 * with a round trip below 25 ms, drains cost at most 0.5 % of the rate. */
#define DRAIN_ROUNDS 400u
/* Time before the first drain, in round trips. It is short, because on a busy path a new connection
 * has not yet measured the empty path. */
#define DRAIN_FIRST_ROUNDS 32u
#define DRAIN_MIN_NS       50000000ull
#define DRAIN_MAX_NS       10000000000ull

static uint64_t packets(const struct eng_cc *cc, uint64_t count)
{
    return count * cc->packet_bytes;
}

static uint64_t share_max(const struct eng_cc *cc)
{
    uint64_t share = packets(cc, SHARE_PACKETS);

    return share > SHARE_BYTES ? share : SHARE_BYTES;
}

static void delay_start(struct eng_cc *cc)
{
    cc->now.delay = (struct eng_cc_delay){.starting = true, .share_bytes = share_max(cc)};
}

static uint64_t delay_over(uint64_t rtt_ns, uint64_t base_ns)
{
    return rtt_ns > base_ns ? rtt_ns - base_ns : 0;
}

/* Returns how many bytes of the window are in the queue. */
static uint64_t queued(const struct eng_cc *cc, uint64_t rtt_ns, uint64_t base_ns)
{
    /* On short paths a part of the delay comes from batches, not from the queue. After losses this
     * part is smaller, like the share. */
    if (base_ns * SHORT_ROUNDS < SHORT_NS)
        base_ns += (SHORT_NS - base_ns * SHORT_ROUNDS) * cc->now.delay.share_bytes / share_max(cc);
    /* No overflow: windows are below 2^32 bytes, round trips below 2^36 ns; the shifts remove 8
     * bits. */
    return rtt_ns ? (cc->now.window_bytes >> 5) * (delay_over(rtt_ns, base_ns) >> 3) /
                        ((rtt_ns >> 8) + 1)
                  : 0;
}

/* Adapt the share to the losses of the round. Returns whether the losses prove congestion. */
static bool congested(struct eng_cc *cc, uint64_t base_ns)
{
    struct eng_cc_delay *delay = &cc->now.delay;
    uint64_t least = packets(cc, SHARE_SOME_PACKETS);
    bool heavy = delay->round_lost * 8 > delay->round_acked + delay->round_lost;
    bool queue = delay_over(delay->round_rtt_ns, base_ns) > base_ns / 4;

    if (!delay->round_lost || (!heavy && !queue)) {
        delay->share_bytes += cc->packet_bytes;
        if (delay->share_bytes > share_max(cc))
            delay->share_bytes = share_max(cc);
        return false;
    }
    if (heavy) {
        least = packets(cc, SHARE_LEAST_PACKETS);
        eng_cc_set(cc, cc->now.window_bytes - cc->now.window_bytes / 4);
    }
    if (delay->share_bytes > least)
        delay->share_bytes = delay->share_bytes / 2 > least ? delay->share_bytes / 2 : least;
    return true;
}

static void adjust(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    struct eng_cc_delay *delay = &cc->now.delay;
    bool loss = congested(cc, ack->base_ns);
    uint64_t mine = queued(cc, delay->round_rtt_ns, ack->base_ns);
    uint64_t window = cc->now.window_bytes;
    uint64_t target = window - mine + delay->share_bytes;

    if (delay->starting && !loss && mine <= delay->share_bytes)
        return;
    delay->starting = false;
    /* The window may always shrink, but it grows only if the connection used it up. */
    if (target < window || delay->limited)
        eng_cc_set(cc, (window + target) / 2);
}

/* Begin a drain if it is time to measure the empty path. */
static void drain_consider(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    struct eng_cc_delay *delay = &cc->now.delay;
    uint64_t apart_ns = ack->rtt_ns * DRAIN_ROUNDS;

    if (apart_ns < DRAIN_MIN_NS)
        apart_ns = DRAIN_MIN_NS;
    if (apart_ns > DRAIN_MAX_NS)
        apart_ns = DRAIN_MAX_NS;
    if (!delay->drain_ns)
        delay->drain_ns = ack->now_ns + ack->rtt_ns * DRAIN_FIRST_ROUNDS;
    /* If the window is not used up, there is no queue to empty. */
    if (ack->now_ns < delay->drain_ns || !delay->limited)
        return;
    delay->drain_ns = ack->now_ns + apart_ns;
    delay->drain_window = cc->now.window_bytes;
    /* The first round trip empties the queue; the second round trip measures the empty path. */
    delay->drain = 2;
    eng_cc_set(cc, 0);
}

static void round_end(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    struct eng_cc_delay *delay = &cc->now.delay;

    if (delay->drain) {
        if (--delay->drain == 0)
            eng_cc_set(cc, delay->drain_window);
    } else {
        adjust(cc, ack);
        if (!delay->starting)
            drain_consider(cc, ack);
    }
    delay->round_end = ack->next;
    delay->round_rtt_ns = delay->round_samples = 0;
    delay->round_acked = delay->round_lost = 0;
    delay->limited = false;
}

static void delay_acked(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    struct eng_cc_delay *delay = &cc->now.delay;

    if (!delay->round_rtt_ns || ack->rtt_ns < delay->round_rtt_ns)
        delay->round_rtt_ns = ack->rtt_ns;
    delay->round_samples++;
    delay->round_acked += ack->bytes;
    delay->limited |= ack->limited;
    if (delay->starting && ack->limited) {
        eng_cc_set(cc, cc->now.window_bytes + ack->bytes);
        /* The window doubles in each round, so the start can end in the middle of a round. */
        if (delay->round_samples >= START_SAMPLES &&
            queued(cc, delay->round_rtt_ns, ack->base_ns) > delay->share_bytes) {
            round_end(cc, ack);
            return;
        }
    }
    if (ack->newest >= delay->round_end)
        round_end(cc, ack);
}

static void delay_lost(struct eng_cc *cc, const struct eng_cc_loss *loss, bool first)
{
    (void)first;
    cc->now.delay.round_lost += loss->bytes;
}

static void delay_silence(struct eng_cc *cc)
{
    cc->now.delay.starting = true;
    cc->now.delay.drain = 0;
    eng_cc_set(cc, 0);
}

static bool delay_searching(const struct eng_cc *cc)
{
    return cc->now.delay.starting;
}

const struct eng_cc_class eng_cc_delay = {.name = "delay",
                                          .start = delay_start,
                                          .acked = delay_acked,
                                          .lost = delay_lost,
                                          .silence = delay_silence,
                                          .paced = true,
                                          .searching = delay_searching};
