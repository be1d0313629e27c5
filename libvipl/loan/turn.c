/*
 * One stay of the owner: packets that arrive, posted sends, timers, packets that leave. The socket
 * never blocks: what it does not take counts as lost, and the engine repeats it.
 */
#include "libvipl/loan/internal.h"
#include "libvipl/spin.h"
#include "proto/assert.h"
#include "vipd/path/rx.h"

/* Packets that a stay receives or replays, at most: the other half of the stay's packets is for
 * sending, so that a stay can always acknowledge. */
#define IN_MAX (LOAN_STAY_PACKETS / 2)

/* Calls of eng_tick in one stay, at most. One handles all timers of a single VI, in most cases. */
#define TICKS_MAX 8u

/* After this many stays with work, the part gets the counts. */
#define TELL_STAYS 64u

/* ---- packets that arrive ---------------------------------------------------------------- */

/* Is this a packet of the loan's binding? If so, it is in loan->packet; else it is counted. */
static bool judge(struct vipl__loan *loan, const uint8_t *bytes, uint32_t len)
{
    const struct eng_conn *conn = &loan->terms.conn;
    struct vipl__loan_counts *counts = &loan->counts;
    enum vip_wire_verdict verdict;
    struct vip_header hdr;

    verdict = path_open(bytes, len, &hdr);
    if (verdict != VIP_WIRE_OK) {
        counts->drop[verdict]++;
        return false;
    }
    if (hdr.kind != VIP_PKT_DATA) {
        counts->drop_kind++;
        return false;
    }
    if (hdr.conn_id != conn->local_id) {
        counts->drop_conn++;
        return false;
    }
    if (hdr.dst_epoch != conn->local_epoch) {
        counts->drop_dst_epoch++;
        return false;
    }
    verdict = vip_wire_get_data(bytes, len, &loan->packet);
    if (verdict != VIP_WIRE_OK) {
        counts->drop[verdict]++;
        return false;
    }
    if (hdr.src_epoch != conn->remote_epoch) {
        counts->drop_src_epoch++;
        return false;
    }
    return true;
}

/* Replay held packets whose turn has come, while *in lets. */
static void replay(struct vipl__loan *loan, unsigned *in)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    while (eng_replay_waits(loan->eng) && *in && loan_packet(&loan->owner)) {
        (*in)--;
        if (!eng_replay(loan->eng, &vi, &token, &feed))
            return;
        if (feed) {
            const struct vipl__held *held = vipl__held_get(&loan->helds, token);

            path_decode_again(held->bytes, held->len, &loan->packet);
            loan->cur = held->bytes;
            eng_rx_replay(loan->eng, vi, &loan->packet, loan->now_ns);
            loan->cur = NULL;
            loan->counts.replayed++;
        }
        vipl__held_free(&loan->helds, token);
    }
}

/* Give loan->packet to the engine. */
static void feed_engine(struct vipl__loan *loan, const uint8_t *bytes, uint32_t len)
{
    struct vipl__loan_counts *counts = &loan->counts;
    uint16_t vi = loan->terms.vi;
    enum eng_rx_verdict verdict;

    /* Without memory to hold the packet, it must be dropped before the engine acknowledges it. */
    if ((loan->packet.hdr.frame_count > 1 || path_is_ahead(loan->eng, vi, &loan->packet)) &&
        !vipl__held_room(&loan->helds)) {
        counts->drop_held_full++;
        return;
    }
    loan->cur = bytes;
    verdict = eng_rx(loan->eng, vi, &loan->packet, loan->helds.free, loan->now_ns);
    loan->cur = NULL;
    counts->rx++;
    switch (verdict) {
    case ENG_RX_DONE:
        break;
    case ENG_RX_HOLD:
        vipl__held_keep(&loan->helds, bytes, len);
        counts->held++;
        break;
    case ENG_RX_DUPLICATE:
        counts->duplicate++;
        break;
    case ENG_RX_STALE:
        counts->stale++;
        break;
    case ENG_RX_FULL:
        counts->full++;
        break;
    }
}

/* Is a timer of the engine due? It is judged after a look at everything that has come. */
static bool is_due(const struct vipl__loan *loan)
{
    return eng_deadline(loan->eng) <= loan->now_ns;
}

static bool receive(struct vipl__loan *loan)
{
    uint32_t most = loan->terms.conn.packet_bytes, completions = loan->completions;
    unsigned in = IN_MAX;
    bool did = false;

    replay(loan, &in);
    while (in && (loan->completions == completions || is_due(loan)) && loan_packet(&loan->owner)) {
        const uint8_t *bytes;
        uint32_t len;

        if (!vipl__inbox_next(&loan->inbox, loan->terms.sock, &bytes, &len))
            break;
        in--;
        did = true;
        if (len > most) {
            loan->counts.drop_long++;
        } else if (judge(loan, bytes, len)) {
            feed_engine(loan, bytes, len);
            replay(loan, &in);
        }
    }
    return did;
}

/* ---- packets that leave ----------------------------------------------------------------- */

/* Send the burst. False: the socket did not take all of it. */
static bool transmit(struct vipl__loan *loan)
{
    unsigned packets = loan->burst.packets;
    unsigned lost = vipl__burst_send(&loan->burst, loan->terms.sock);

    loan->counts.tx += packets - lost;
    loan->counts.tx_lost += lost;
    return lost == 0;
}

static bool send_packets(struct vipl__loan *loan)
{
    bool did = false, full = false;

    while (!full && eng_tx_ready(loan->eng) && loan_packet(&loan->owner)) {
        if (!eng_tx_pull(loan->eng, &loan->tx.packet, loan->now_ns))
            continue;
        if (!path_tx_resolve(&loan->tx, vipl__loan_address, loan)) {
            loan->counts.tx_unresolved++;
            eng_tx_failed(loan->eng, loan->terms.vi, loan->tx.packet.op, loan->now_ns);
            continue;
        }
        did = true;
        if (!vipl__burst_joins(&loan->burst, &loan->tx))
            full = !transmit(loan);
        vipl__burst_add(&loan->burst, &loan->tx);
    }
    (void)transmit(loan);
    return did;
}

/* ---- the stay --------------------------------------------------------------------------- */

static void tick(struct vipl__loan *loan)
{
    for (unsigned i = 0; i < TICKS_MAX && is_due(loan); i++)
        (void)eng_tick(loan->eng, loan->now_ns);
}

/* When the engine must run again; 0: when a packet or a post comes. */
static uint64_t timer_ns(const struct vipl__loan *loan)
{
    uint64_t due = eng_deadline(loan->eng);

    if (due < loan->now_ns || eng_tx_ready(loan->eng) || eng_replay_waits(loan->eng) ||
        vipl__inbox_waits(&loan->inbox))
        due = loan->now_ns;
    return due == ENG_NEVER ? 0 : due;
}

/* Number of the operation after the last one that may wait for others. */
static uint32_t may_wait(const struct vipl__loan *loan)
{
    bool stream = eng_vi_under_way(loan->eng, loan->terms.vi) >= VIPL__LOAN_STREAM;

    return loan->sends + (stream ? VIPL__LOAN_TOGETHER - 1 : 0);
}

void vipl__loan_leave(struct vipl__loan *loan)
{
    struct vip_loan_checkpoint checkpoint = {.done = eng_vi_done(loan->eng, loan->terms.vi),
                                             .received = loan->received,
                                             .completed =
                                                 eng_vi_completed(loan->eng, loan->terms.vi)};

    __atomic_store_n(&loan->may_wait, may_wait(loan), __ATOMIC_RELAXED);
    if (loan_leave(&loan->owner, timer_ns(loan), &checkpoint))
        loan->host.bell(loan->host.ctx);
}

static void put(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

void vipl__loan_tell_counts(struct vipl__loan *loan)
{
    struct vip_loan_counts *to = &loan->terms.part->counts;
    const struct vip_loan_counts *before = &loan->before;
    struct eng_vi_stats now;

    eng_vi_stats(loan->eng, loan->terms.vi, &now);
    put(&to->tx_messages, before->tx_messages + now.tx_messages);
    put(&to->tx_bytes, before->tx_bytes + now.tx_bytes);
    put(&to->rx_messages, before->rx_messages + now.rx_messages);
    put(&to->rx_bytes, before->rx_bytes + now.rx_bytes);
    put(&to->tx_packets, before->tx_packets + now.tx_packets);
    put(&to->rx_packets, before->rx_packets + now.rx_packets);
    put(&to->retransmits, before->retransmits + now.retransmits);
    put(&to->lost, before->lost + now.lost);
    put(&to->timeouts, before->timeouts + now.timeouts);
    loan->untold = 0;
}

/* A stay ends: tell the counts if the stay had no work and others had, or after TELL_STAYS stays. */
static void counts_later(struct vipl__loan *loan, bool did)
{
    loan->untold += did;
    if (loan->untold >= (did ? TELL_STAYS : 1))
        vipl__loan_tell_counts(loan);
}

static enum vipl__loan_stay stay(struct vipl__loan *loan, bool posted)
{
    bool did;

    if (loan->terms.number == 0 || !loan_enter(&loan->owner, loan->terms.number))
        return VIPL__LOAN_OVER;
    loan->counts.stays++;
    did = vipl__loan_take_posts(loan, loan->now_ns);
    if (!posted || !eng_tx_ready(loan->eng) || is_due(loan))
        did = receive(loan) || did;
    tick(loan);
    did = send_packets(loan) || did;
    tick(loan); /* sends of Unreliable Delivery complete when their packets have left */
    counts_later(loan, did);
    vipl__loan_leave(loan);
    return did ? VIPL__LOAN_DID : VIPL__LOAN_IDLE;
}

/* ---- the lock --------------------------------------------------------------------------- */

/*
 * Get the lock, if it is free. A thread that posts and then does not get the lock relies on the
 * thread that has it: that one looks for posts after it has released the lock. A full barrier lies
 * between the post and the second attempt, and between the release and that look. So at least one
 * of the two threads takes the post.
 */
static bool lock_try(struct vipl__loan *loan)
{
    if (__atomic_exchange_n(&loan->lock, 1, __ATOMIC_ACQUIRE) == 0)
        return true;
    vip_fence_sleep();
    return __atomic_exchange_n(&loan->lock, 1, __ATOMIC_ACQUIRE) == 0;
}

/* Release the lock. Returns whether the table has sends that no stay has taken. */
static bool lock_release(struct vipl__loan *loan)
{
    uint32_t sends = loan->sends;
    bool out = loan->terms.number != 0;

    vipl__spin_unlock_full(&loan->lock); /* [rest STAY] */
    return out && vip_load32(&loan->terms.part->posted) != sends;
}

static enum vipl__loan_stay turn(struct vipl__loan *loan, bool posted, uint64_t now_ns)
{
    enum vipl__loan_stay result = VIPL__LOAN_BUSY;
    bool more = true;

    for (bool first = true; more && lock_try(loan); first = false) {
        uint32_t before = loan->sends;
        enum vipl__loan_stay one;
        bool took, over;

        if (now_ns > loan->now_ns) /* another thread may have read a later time */
            loan->now_ns = now_ns;
        one = stay(loan, posted || !first);
        over = one == VIPL__LOAN_OVER;
        if (loan->event_count > 0)
            one = VIPL__LOAN_EVENT;
        if (first || (one != VIPL__LOAN_IDLE && result != VIPL__LOAN_EVENT))
            result = one;
        /* Without the last two conditions, a wrong entry in the table would make a loop. */
        took = loan->sends != before;
        more = lock_release(loan) && !over && (first || took);
    }
    return result;
}

enum vipl__loan_stay vipl__loan_turn(struct vipl__loan *loan, uint64_t now_ns)
{
    return turn(loan, false, now_ns);
}

bool vipl__loan_may_wait(const struct vipl__loan *loan, uint32_t posted)
{
    return (int32_t)(posted - __atomic_load_n(&loan->may_wait, __ATOMIC_RELAXED)) <= 0;
}

enum vipl__loan_stay vipl__loan_post(struct vipl__loan *loan, uint64_t now_ns)
{
    return turn(loan, true, now_ns);
}

void vipl__loan_lock(struct vipl__loan *loan)
{
    vipl__spin_lock(&loan->lock);
}

void vipl__loan_unlock(struct vipl__loan *loan)
{
    uint64_t now_ns = loan->now_ns;

    if (lock_release(loan))
        (void)vipl__loan_post(loan, now_ns);
}
