/*
 * Congestion control by delay: the default.
 *
 * Each connection keeps a small share of bytes of its own in the queue of the path: enough to keep
 * the link busy, and little delay for others. The bytes of the window that lie in the queue follow
 * from the round trip times now and on the empty path: window * (now - empty) / now. Once per round
 * trip the window moves half the way to the bytes that the empty path holds plus the share. All
 * connections with the same share converge to the same rate (the equation of FAST TCP). A loss
 * alone proves no congestion: on a path with random losses the rate stays. A loss together with a
 * queue, or the loss of a large part of a window, proves congestion; then the share shrinks.
 *
 * The round trip of the empty path is visible only while the queue is empty, and the shares of all
 * connections prevent that. So from time to time there is a drain: the smallest window for two
 * round trips.
 */
#include "vipd/engine/cc.h"

/* Full share in the queue, the larger of bytes and packets: enough for batches of system calls. */
#define SHARE_BYTES   65536u
#define SHARE_PACKETS 2u
/*
 * Where the empty round trip is below SHORT_NS / SHORT_ROUNDS, most delay comes from batches of
 * packets inside the two hosts; the batches make the hosts fast. There a delay of SHORT_NS minus
 * empty round trips does not count as queue. Measured: doc/performance.md.
 */
#define SHORT_NS     1000000u
#define SHORT_ROUNDS 10u
/* Least share in packets: after losses with a queue; after a round that lost over an eighth of its
 * bytes. */
#define SHARE_SOME_PACKETS  4u
#define SHARE_LEAST_PACKETS 2u
/* Least samples in a round before a queue may end the start: one late packet is no queue. */
#define START_SAMPLES 4u
/* Round trips between two drains, within DRAIN_MIN_NS and DRAIN_MAX_NS. Drains cost at most 0.5 %
 * of the rate where a round trip is below 25 ms. */
#define DRAIN_ROUNDS 400u
/* Round trips before the first drain: few, as a connection that starts late has never seen the path
 * empty. */
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

/* Bytes of the window that lie in the queue. */
static uint64_t queued(const struct eng_cc *cc, uint64_t rtt_ns, uint64_t base_ns)
{
    /* After losses, with less than the full share, the tolerance is smaller in proportion. */
    if (base_ns * SHORT_ROUNDS < SHORT_NS)
        base_ns += (SHORT_NS - base_ns * SHORT_ROUNDS) * cc->now.delay.share_bytes / share_max(cc);
    /* Windows are below 4 GiB and a round trip below a minute: 2^32 * 2^36 / 2^10 fits. */
    return rtt_ns ? (cc->now.window_bytes >> 5) * (delay_over(rtt_ns, base_ns) >> 3) /
                        ((rtt_ns >> 8) + 1)
                  : 0;
}

/* Judge the losses of the round, adapt the share. Returns whether they mean congestion. */
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
    /* A window that was not used up proves nothing about the path, but a queue does. */
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
    /* A window that is not used up makes no queue. */
    if (ack->now_ns < delay->drain_ns || !delay->limited)
        return;
    delay->drain_ns = ack->now_ns + apart_ns;
    delay->drain_window = cc->now.window_bytes;
    /* In the first round the queue runs empty; the second one measures the empty path. */
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
        /* The start doubles the window in each round, so it must be able to end inside a round. */
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
