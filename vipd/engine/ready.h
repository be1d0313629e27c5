/* Tests of what a VI may send now. */
#ifndef VIPD_ENGINE_READY_H
#define VIPD_ENGINE_READY_H

#include "vipd/engine/internal.h"

static inline bool eng_tx_window_open(const struct eng_vi *vi)
{
    uint64_t limit = vi->tx.cc.now.window_bytes;

    if (limit > vi->conn.window_bytes)
        limit = vi->conn.window_bytes;
    if (VIP_MUTANT(WINDOW))
        return vi->tx.inflight <= limit;
    return !vi->tx.inflight || vi->tx.inflight + vi->tx.packet_bytes <= limit;
}

static inline bool eng_numbers_left(const struct eng_vi *vi, uint32_t limit)
{
    return vi->tx.number - vi->tx.una < limit;
}

static inline bool eng_answers_ready(const struct eng_vi *vi)
{
    return eng_before(vi->reads.at.op, vi->reads.asked);
}

/* May the next posted operation be cut into packets, if window and pace allow? */
static inline bool eng_ops_ready(struct eng_vi *vi)
{
    const struct eng_desc *desc;

    if (vi->sq.next == vi->sq.tail || vi->tx.fail_valid)
        return false;
    desc = eng_desc_at(vi, VIP_Q_SEND, vi->sq.next);
    /* A faulty descriptor fails only when all descriptors before it have completed (spec 3.6). */
    if (desc->fault)
        return !vi->reliable || vi->sq.next == vi->sq.head;
    if (vi->tx.at.off)
        return true;
    /* Spec 3.7: a fenced descriptor waits for the reads before it. */
    if (vi->reads.open && (desc->control & VIP_CTL_QFENCE) && !VIP_MUTANT(FENCE))
        return false;
    return (desc->control & VIP_CTL_OP_MASK) != VIP_CTL_OP_RDMAREAD ||
           vi->reads.open < ENG_READS_MAX + VIP_MUTANT(READ_SLOTS);
}

/* May new fragments be sent now, or a fault be reported? */
static inline bool eng_fresh_ready(struct eng_vi *vi)
{
    return !vi->tx.paced && eng_tx_window_open(vi) && eng_numbers_left(vi, ENG_SENT_FRESH_MAX) &&
           (eng_ops_ready(vi) || eng_answers_ready(vi));
}

/* Is the packet with the oldest open number lost? */
static inline bool eng_oldest_lost(const struct eng_vi *vi)
{
    return vi->tx.una != vi->tx.number && vi->sent[vi->tx.una % ENG_SENT_SLOTS].lost;
}

static inline bool eng_lost_ready(const struct eng_vi *vi)
{
    return vi->tx.lost && (eng_numbers_left(vi, ENG_SENT_SLOTS) || eng_oldest_lost(vi)) &&
           (vi->tx.probes || (!vi->tx.paced && eng_tx_window_open(vi)));
}

/* Has the VI content that it would send if window and pace allowed it? */
static inline bool eng_tx_held_back(struct eng_vi *vi)
{
    return vi->tx.lost || eng_ops_ready(vi) || eng_answers_ready(vi);
}

/* Has the VI a packet that may be sent now? */
static inline bool eng_tx_wants(struct eng_vi *vi)
{
    if (vi->state != VIP_VIST_CONNECTED || vi->paused)
        return false;
    if (vi->rx.ack_now && eng_numbers_left(vi, ENG_SENT_ACK_MAX))
        return true;
    return vi->tx.ping || eng_lost_ready(vi) || eng_fresh_ready(vi);
}

#endif
