/*
 * Loss detection: losses that follow from an acknowledgement, and the retransmission timer for the
 * case that none comes.
 *
 * As in RACK (RFC 8985), time decides: a packet is lost when a packet has arrived that was sent
 * later by a tolerance. The tolerance begins at a quarter of the smallest round trip. It grows by a
 * quarter, at most once per round trip, when a packet arrives after it was declared lost. While the
 * path keeps the order, a number that is LOSS_PACKETS higher proves a loss, too.
 *
 * The first expiry of the timer is a tail-loss probe: early, one packet, no conclusion about the
 * path. Later expiries back off exponentially, with jitter to spread the retries of connections.
 */
#include "proto/probe.h"
#include "vipd/engine/internal.h"

/* A packet is lost if a number higher by this arrived, while the path keeps the order. */
#define LOSS_PACKETS 3
/* Largest tolerance for reordering, in quarters of the smallest round trip (and at most
 * srtt_ns). */
#define REORDER_QUARTERS_MAX 64u
/* More loss episodes than this without reordering: the path counts as keeping the order again. */
#define REORDER_QUIET 16u
/* Smallest tolerance for reordering: smaller differences mean nothing between threads of a host. */
#define REORDER_NS_MIN 20000u
/* A tail-loss probe waits at least rto_min_ns divided by this: a needless one costs a packet. */
#define PROBE_PART 8
/* Least number of timer expiries, each with a repetition, before a connection is given up. */
#define TRIES_MIN 3
/*
 * Time after a loss in which packets are sent from copies. A program may change memory while it is
 * being sent. If it does so after the checksum, the peer drops the packet, and the sender sees a
 * loss. With copies such a program causes one loss per period, and no repetition is lost.
 */
#define COPY_NS 1000000000ull

/* Put a lost record among the others in the order in which the peer needs their contents. */
static void lost_insert(struct eng_vi *vi, uint16_t index)
{
    struct eng_sent *record = &vi->sent[index];
    uint16_t after = vi->tx.lost_tail;

    /* Nearly always at the end: losses are found in the order of sending. */
    while (after != ENG_NONE && eng_sent_before(record, &vi->sent[after]))
        after = vi->sent[after].prev;
    record->prev = after;
    record->next = after == ENG_NONE ? vi->tx.lost_head : vi->sent[after].next;
    if (after == ENG_NONE)
        vi->tx.lost_head = index;
    else
        vi->sent[after].next = index;
    if (record->next == ENG_NONE)
        vi->tx.lost_tail = index;
    else
        vi->sent[record->next].prev = index;
    vi->tx.lost++;
}

static void lost_unlink(struct eng_vi *vi, const struct eng_sent *record)
{
    if (record->prev == ENG_NONE)
        vi->tx.lost_head = record->next;
    else
        vi->sent[record->prev].next = record->next;
    if (record->next == ENG_NONE)
        vi->tx.lost_tail = record->prev;
    else
        vi->sent[record->next].prev = record->prev;
    vi->tx.lost--;
}

void eng_sent_close(struct eng_vi *vi, uint64_t number)
{
    const struct eng_sent *record = &vi->sent[number % ENG_SENT_SLOTS];

    VIP_ASSERT(eng_bits_test(&vi->tx.open, number));
    eng_bits_clear(&vi->tx.open, number);
    if (record->lost)
        lost_unlink(vi, record);
    else
        vi->tx.inflight -= record->bytes;
    if (number == vi->tx.una)
        vi->tx.una = eng_bits_next(&vi->tx.open, number + 1, vi->tx.number);
}

void eng_sent_again(struct eng_vi *vi, const struct eng_sent *record)
{
    uint64_t number = vi->tx.number++;
    uint16_t index = (uint16_t)(number % ENG_SENT_SLOTS);

    vi->sent[index] = *record;
    vi->sent[index].lost = true;
    eng_bits_set(&vi->tx.open, number);
    lost_insert(vi, index);
}

/* Has everything that was sent arrived and been processed, and are only answers to reads
 * missing? */
static bool only_reads_open(const struct eng_vi *vi)
{
    return vi->reliable && vi->reads.open && vi->tx.una == vi->tx.number &&
           vi->tx.ops_acked == vi->tx.at.op;
}

/* Does the peer owe us anything? */
bool eng_tx_owes(const struct eng_vi *vi)
{
    /* A read request may be acknowledged long before its answer comes. If an open read did not
     * count, vipd would never notice that the peer has forgotten the connection. */
    return vi->tx.una != vi->tx.number ||
           (vi->reliable && (vi->tx.ops_acked != vi->tx.at.op || vi->reads.open));
}

void eng_loss_reordered(struct eng_vi *vi, uint64_t number, bool declared)
{
    vi->tx.reorder_quiet = 0;
    if (!vi->tx.reordered) {
        vi->tx.reordered = true;
        vi->tx.reorder_quarters = 1;
    }
    if (!declared)
        return;
    vi->stats.spurious++;
    eng_cc_spurious(&vi->tx.cc, number);
    if (number < vi->tx.reorder_fence)
        return;
    vi->tx.reorder_fence = vi->tx.number;
    if (vi->tx.reorder_quarters < REORDER_QUARTERS_MAX)
        vi->tx.reorder_quarters++;
}

/* True if the loss may be a sign of congestion. */
static bool mark_lost(struct eng_vi *vi, uint64_t number, uint64_t now_ns)
{
    struct eng_sent *record = &vi->sent[number % ENG_SENT_SLOTS];
    bool test = eng_mtu_lost(vi, number, record->bytes, now_ns);

    vi->tx.copy_until_ns = now_ns + COPY_NS;

    /* Unreliable Delivery repeats nothing, and a probe has nothing to repeat. */
    if (!vi->reliable || record->probe) {
        eng_sent_close(vi, number);
        return !test;
    }
    record->lost = true;
    if (!VIP_MUTANT(LOSS_INFLIGHT))
        vi->tx.inflight -= record->bytes;
    lost_insert(vi, (uint16_t)(number % ENG_SENT_SLOTS));
    return !test;
}

/* Declare a packet lost, because later ones arrived. */
static void declare(struct eng_vi *vi, uint64_t number, uint64_t now_ns)
{
    struct eng_cc_loss loss = {.now_ns = now_ns,
                               .number = number,
                               .next = vi->tx.number,
                               .bytes = vi->sent[number % ENG_SENT_SLOTS].bytes};

    vi->stats.lost++;
    eng_bits_set(&vi->tx.declared, number);
    vi->tx.declared_count++;
    if (number >= vi->tx.cc.recovery_end && ++vi->tx.reorder_quiet > REORDER_QUIET)
        vi->tx.reordered = false;
    if (mark_lost(vi, number, now_ns))
        eng_cc_lost(&vi->tx.cc, &loss);
}

/* Lowest number of [una, to) that is under way, or `to`. */
static uint64_t first_sent(struct eng_vi *vi, uint64_t to)
{
    uint64_t n = vi->tx.first_sent > vi->tx.una ? vi->tx.first_sent : vi->tx.una;

    while ((n = eng_bits_next(&vi->tx.open, n, to)) < to && vi->sent[n % ENG_SENT_SLOTS].lost)
        n++;
    vi->tx.first_sent = n;
    return n;
}

/* Tolerance: a packet may arrive this much later than one that was sent after it. */
static uint64_t reorder_ns(const struct eng_vi *vi)
{
    uint64_t quarters = vi->tx.reordered ? vi->tx.reorder_quarters : 1;
    uint64_t ns = eng_loss_base(vi) / 4 * quarters;

    if (ns > vi->tx.srtt_ns)
        ns = vi->tx.srtt_ns;
    return ns > REORDER_NS_MIN ? ns : REORDER_NS_MIN;
}

void eng_loss_detect(struct eng_vi *vi, uint64_t now_ns)
{
    uint64_t wait_ns = vi->tx.rack_ns + reorder_ns(vi), n;

    vi->tx.loss_ns = ENG_NEVER;
    if (vi->tx.first_sent >= vi->tx.largest_acked)
        return;
    while ((n = first_sent(vi, vi->tx.largest_acked)) < vi->tx.largest_acked) {
        uint64_t due_ns = vi->sent[n % ENG_SENT_SLOTS].sent_ns + wait_ns;

        if ((vi->tx.reordered || vi->tx.largest_acked - n < LOSS_PACKETS) && due_ns > now_ns) {
            vi->tx.loss_ns = due_ns;
            return;
        }
        declare(vi, n, now_ns);
    }
}

/* Time to wait for an answer; it grows with the expiries in a row. */
static uint64_t interval(struct eng_vi *vi)
{
    const struct eng_config *config = &vi->eng->config;
    uint64_t rto = eng_loss_rto(vi), wait_ns;

    if (!vi->tx.backoff) {
        wait_ns = vi->tx.srtt_ns + 4 * vi->tx.rttvar_ns;
        if (wait_ns < 2 * vi->tx.srtt_ns)
            wait_ns = 2 * vi->tx.srtt_ns;
        wait_ns += config->ack_delay_ns;
        if (wait_ns < config->rto_min_ns / PROBE_PART)
            wait_ns = config->rto_min_ns / PROBE_PART;
        return vi->tx.srtt_ns && wait_ns < rto ? wait_ns : rto;
    }
    wait_ns = vi->tx.backoff > 16 ? config->rto_max_ns : rto << (vi->tx.backoff - 1);
    if (wait_ns > config->rto_max_ns)
        wait_ns = config->rto_max_ns;
    return wait_ns + wait_ns / 8 * (eng_random(vi->eng) & 0xff) / 256;
}

void eng_loss_arm(struct eng_vi *vi, uint64_t now_ns)
{
    uint64_t from = vi->tx.elicit_ns > vi->tx.progress_ns ? vi->tx.elicit_ns : vi->tx.progress_ns;
    uint64_t end = vi->tx.progress_ns + vi->eng->config.conn_timeout_ns;

    vi->tx.timer_ns = ENG_NEVER;
    if (!vi->tx.inflight && !(vi->reliable && vi->tx.owed))
        return;
    if (VIP_MUTANT(LOSS_TIMER) && vi->tx.backoff)
        return;
    vi->tx.timer_ns = from + interval(vi);
    /* The answer to a read may take any time; probes ask if the peer still knows the connection. */
    if (only_reads_open(vi))
        vi->tx.timer_ns = from + vi->eng->config.conn_timeout_ns / 4;
    if (vi->reliable && vi->tx.tries >= TRIES_MIN && vi->tx.timer_ns > end && end > now_ns)
        vi->tx.timer_ns = end;
    /* A time in the past would count as lateness of our own timer (given_up). */
    if (vi->tx.timer_ns < now_ns)
        vi->tx.timer_ns = now_ns;
}

/*
 * Has the peer all content of this packet, although the packet is not acknowledged? Another packet
 * may have carried the same content. For operations ops_done proves it, for answers a later read of
 * the peer in the same slot (struct eng_read).
 */
static bool settled(struct eng_vi *vi, const struct eng_sent *record)
{
    struct eng_pos end = eng_sent_end(record);
    uint32_t last = end.off ? end.op : end.op - 1;

    if (record->stream == ENG_STREAM_OPS) {
        for (uint32_t op = record->at.op; op != last + 1; op++)
            if (!eng_before(op, vi->tx.ops_acked) || eng_read_asked_again(vi, op))
                return false;
        return true;
    }
    return vi->reads.slot[last % ENG_READS_MAX].seq != last;
}

/*
 * The packet under way that the peer needs first, by content, not by number: a peer that can hold
 * no more packets accepts nothing else. Repeating content that the peer has would waste this try.
 * Returns tx.number if nothing that the peer needs is under way.
 */
static uint64_t most_wanted(struct eng_vi *vi)
{
    uint64_t best = vi->tx.number;

    for (uint64_t n = first_sent(vi, vi->tx.number); n < vi->tx.number;
         n = eng_bits_next(&vi->tx.open, n + 1, vi->tx.number)) {
        const struct eng_sent *record = &vi->sent[n % ENG_SENT_SLOTS];

        if (record->lost || record->probe || settled(vi, record))
            continue;
        if (best == vi->tx.number || VIP_MUTANT(PROBE_NEWEST) ||
            eng_sent_before(record, &vi->sent[best % ENG_SENT_SLOTS]))
            best = n;
    }
    return best;
}

/*
 * Probes leave even if the window is full, but the peer's window must hold. So the oldest packets
 * under way are marked lost to make room. Returns the number of probes with room: `wanted` or 1.
 */
static uint32_t probe_room(struct eng_vi *vi, uint32_t wanted, uint64_t now_ns)
{
    uint64_t packet = vi->tx.packet_bytes, window = vi->conn.window_bytes;

    for (uint64_t n = first_sent(vi, vi->tx.number);
         n < vi->tx.number && vi->tx.inflight + wanted * packet > window;
         n = eng_bits_next(&vi->tx.open, n + 1, vi->tx.number))
        if (!vi->sent[n % ENG_SENT_SLOTS].lost && !vi->sent[n % ENG_SENT_SLOTS].probe)
            (void)mark_lost(vi, n, now_ns);
    return wanted * packet <= window ? wanted : 1;
}

/* The time by which our own timer was late does not count against the peer. */
static bool given_up(struct eng_vi *vi, uint64_t now_ns)
{
    if (!VIP_MUTANT(GIVE_UP_LATE))
        vi->tx.progress_ns += now_ns - vi->tx.timer_ns;
    return vi->reliable && vi->tx.tries >= TRIES_MIN &&
           now_ns >= vi->tx.progress_ns + vi->eng->config.conn_timeout_ns;
}

bool eng_loss_expired(struct eng_vi *vi, uint64_t now_ns)
{
    uint64_t n;

    if (given_up(vi, now_ns))
        return false;
    vi->tx.tries++;
    if (only_reads_open(vi)) {
        /* No loss is known. */
        vi->tx.ping = true;
        vi->tx.elicit_ns = now_ns;
        eng_loss_arm(vi, now_ns);
        return true;
    }
    vi->stats.timeouts++;
    VIP_PROBE3(timeout, vi->conn.local_id, vi->index, vi->tx.backoff);
    vi->tx.backoff++;
    if (vi->tx.backoff > 1 && (vi->tx.inflight || vi->tx.lost)) {
        eng_cc_silence(&vi->tx.cc, vi->tx.number);
        eng_pace_set(vi);
    }
    if (!vi->reliable) {
        /* Packets not acknowledged by now are no longer in the network. */
        while ((n = first_sent(vi, vi->tx.number)) < vi->tx.number)
            (void)mark_lost(vi, n, now_ns);
        vi->tx.timer_ns = ENG_NEVER;
        return true;
    }
    n = most_wanted(vi);
    if (n < vi->tx.number)
        (void)mark_lost(vi, n, now_ns);
    if (vi->tx.lost)
        eng_mtu_silence(vi, vi->sent[vi->tx.lost_head].bytes, now_ns);
    /* A full ring gets room only when its oldest number is settled. */
    if (vi->tx.number - vi->tx.una >= ENG_SENT_FRESH_MAX &&
        !vi->sent[vi->tx.una % ENG_SENT_SLOTS].lost)
        (void)mark_lost(vi, vi->tx.una, now_ns);
    if (vi->tx.lost)
        vi->tx.probes = probe_room(vi, vi->tx.backoff > 1 ? 2 : 1, now_ns);
    else
        vi->tx.ping = true;
    /* The next wait begins now, even if the host sends later. */
    vi->tx.elicit_ns = now_ns;
    vi->tx.owed = true;
    eng_loss_arm(vi, now_ns);
    return true;
}
