/*
 * Loss detection: an acknowledgement of later packets shows the loss of earlier ones. If no
 * acknowledgement comes, the retransmission timer expires.
 *
 * Time decides, as in RACK (RFC 8985). A packet is lost if a packet with a higher number has
 * arrived and the lost one is late: its age exceeds the round trip of the arrived one by a
 * tolerance. The tolerance begins at a quarter of the smallest round trip. When a packet arrives
 * after it was declared lost, the tolerance grows by another quarter, at most once per round trip.
 * While the path keeps the order, the arrival of a number that is LOSS_PACKETS higher also proves a
 * loss.
 *
 * The first expiry of the timer comes early and sends one packet (a tail-loss probe); the window
 * stays as it is. It waits as long as the peer usually keeps acknowledgements back, but no longer
 * than the retransmission timeout. The intervals to the later expiries grow exponentially and are
 * slightly random.
 */
#include "proto/probe.h"
#include "vipd/engine/internal.h"

/* While the path keeps the order, the arrival of a number higher by this proves a packet lost. */
#define LOSS_PACKETS 3
/* Largest tolerance for reordering, in quarters of the smallest round trip. */
#define REORDER_QUARTERS_MAX 64u
/* After more loss episodes than this without reordering, the path counts as keeping the order. */
#define REORDER_QUIET 16u
/* Smallest tolerance for reordering, in ns: threads of one host already cause such differences. */
#define REORDER_NS_MIN 20000u
/* A tail-loss probe waits at least rto_min_ns divided by this, to avoid needless packets. */
#define PROBE_PART 8
/* The connection ends after at least this many timer expiries; each expiry sends a packet. */
#define TRIES_MIN 3
/*
 * After a loss, packets are sent from copies for this time. Reason: if a program changes memory
 * after vipd has computed the checksum, the peer drops the packet, and the sender sees a loss. With
 * copies, such a program causes at most one loss in this time.
 */
#define COPY_NS 1000000000ull

/* Insert a record into the list of lost packets, in the order in which the peer needs them. */
static void lost_insert(struct eng_vi *vi, uint16_t index)
{
    struct eng_sent *record = &vi->sent[index];
    uint16_t after = vi->tx.lost_tail;

    /* The place is nearly always the tail, because losses are found in the order of sending. */
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

/* Has the peer received and processed all that was sent, and are only answers to reads missing? */
static bool only_reads_open(const struct eng_vi *vi)
{
    return vi->reliable && vi->reads.open && vi->tx.una == vi->tx.number &&
           vi->tx.ops_acked == vi->tx.at.op;
}

bool eng_tx_owes(const struct eng_vi *vi)
{
    /* A read request may be acknowledged long before its answer comes. So an open read counts as
     * owed. Otherwise no timer would run, and vipd would not notice that the peer is gone. */
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

/* Mark a packet as lost. Returns true if its loss may be a sign of congestion. */
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

/* Declare a packet lost, because later packets have arrived. */
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

/* Lowest number of [una, to) whose packet is under way and not lost; `to` if there is none. */
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

/* Time to wait for an answer. It grows with each expiry of the timer in a row. */
static uint64_t interval(struct eng_vi *vi)
{
    const struct eng_config *config = &vi->eng->config;
    uint64_t rto = eng_loss_rto(vi), wait_ns;

    if (!vi->tx.backoff) {
        wait_ns = vi->tx.srtt_ns + 4 * vi->tx.rttvar_ns;
        if (wait_ns < 2 * vi->tx.srtt_ns)
            wait_ns = 2 * vi->tx.srtt_ns;
        wait_ns += vi->tx.habit_ns ? vi->tx.habit_ns : config->ack_delay_ns;
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
    /* The answer to a read may take any time. Rare probes check that the peer is still there. */
    if (only_reads_open(vi))
        vi->tx.timer_ns = from + vi->eng->config.conn_timeout_ns / 4;
    if (vi->reliable && vi->tx.tries >= TRIES_MIN && vi->tx.timer_ns > end && end > now_ns)
        vi->tx.timer_ns = end;
    /* given_up counts the time from timer_ns to now as lateness of the timer, so timer_ns must not
     * be in the past. */
    if (vi->tx.timer_ns < now_ns)
        vi->tx.timer_ns = now_ns;
}

/*
 * Has the peer all content of this packet, although the packet is not acknowledged? Another packet
 * may have carried the same content. ops_done of the peer shows that it has the operations. A later
 * read of the peer in the same slot shows that the peer has an answer (struct eng_read).
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
 * Number of the packet under way whose content the peer needs first. It need not be the lowest
 * number. tx.number: the peer needs no packet under way. A peer that can hold no more packets
 * accepts only the content that it needs first.
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
 * Probes may exceed the window of congestion control, but not the peer's window. So mark the oldest
 * packets under way as lost until `wanted` probes have room. Returns the number of probes:
 * `wanted`, or 1 if the peer's window is smaller than that.
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

/* Has the peer made no progress for conn_timeout? The time by which this engine's timer was late
 * does not count. */
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
        /* Nothing counts as lost, so send a probe only. */
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
        /* Packets that are not acknowledged now have left the network. */
        while ((n = first_sent(vi, vi->tx.number)) < vi->tx.number)
            (void)mark_lost(vi, n, now_ns);
        vi->tx.timer_ns = ENG_NEVER;
        return true;
    }
    n = most_wanted(vi);
    if (n < vi->tx.number) {
        if (vi->tx.backoff == 1) {
            vi->tx.probed = n;
            vi->tx.probed_ns = vi->sent[n % ENG_SENT_SLOTS].sent_ns;
        }
        (void)mark_lost(vi, n, now_ns);
    }
    if (vi->tx.lost)
        eng_mtu_silence(vi, vi->sent[vi->tx.lost_head].bytes, now_ns);
    /* If the ring is nearly full, repeat its oldest packet, which blocks the ring. */
    if (vi->tx.number - vi->tx.una >= ENG_SENT_FRESH_MAX &&
        !vi->sent[vi->tx.una % ENG_SENT_SLOTS].lost)
        (void)mark_lost(vi, vi->tx.una, now_ns);
    if (vi->tx.lost)
        vi->tx.probes = probe_room(vi, vi->tx.backoff > 1 ? 2 : 1, now_ns);
    else
        vi->tx.ping = true;
    /* The next wait begins now, even if the host sends the packet later. */
    vi->tx.elicit_ns = now_ns;
    vi->tx.owed = true;
    eng_loss_arm(vi, now_ns);
    return true;
}
