/*
 * Bind a connection anew: it gets new ids, epochs and packet numbers, but operations keep their
 * numbers. Each end sends its counts to the other end: how many operations of the other end it has
 * processed, and which of its own RDMA Reads have no answer yet. Then each end sends again all
 * operations that the other end has not processed, each from its first byte. An RDMA Read without
 * an answer is requested again, too, although its target counts the request as processed. The
 * target then answers it again.
 *
 * Between eng_vi_pause (or eng_vi_restore) and eng_vi_rebind the engine sends and accepts no
 * packet.
 *
 * Owns: these steps of one end. Does not own: the exchange of the counts (connection manager).
 */
#include "vipd/engine/internal.h"

#include <errno.h>

_Static_assert(ENG_READS_MAX == VIP_COUNTS_READS_MAX, "every open read is told");

static bool is_open_read(const struct eng_desc *desc)
{
    return (desc->control & VIP_CTL_OP_MASK) == VIP_CTL_OP_RDMAREAD &&
           desc->state != ENG_DESC_READ_DONE && !desc->fault;
}

/* Number of the oldest operation in the send queue. */
static uint32_t oldest_op(const struct eng_vi *vi)
{
    return vi->tx.at.op - (vi->sq.next - vi->sq.head);
}

void eng_vi_pause(struct eng *eng, uint16_t vi)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    VIP_ASSERT(of->state == VIP_VIST_CONNECTED);
    of->paused = true;
    if (!of->reliable)
        eng_place_abandon(of); /* the rest of a partly received message may never come */
    of->tx.timer_ns = of->tx.loss_ns = of->rx.ack_ns = ENG_NEVER;
    eng_held_drop(of);
    eng_list_del(of, ENG_LIST_READY);
    eng_vi_timer(of);
}

void eng_vi_restore(struct eng *eng, uint16_t vi, const struct eng_conn *conn, uint32_t completed,
                    uint32_t done, uint64_t now_ns)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    eng_vi_connect(eng, vi, conn, now_ns);
    of->tx.at.op = of->tx.ops_acked = completed;
    of->rx.at.op = done;
    of->restored = true;
    eng_vi_pause(eng, vi);
}

uint32_t eng_vi_done(const struct eng *eng, uint16_t vi)
{
    return eng_vi_get(eng, vi)->rx.at.op;
}

void eng_vi_commit_to(struct eng *eng, uint16_t vi, uint32_t *done)
{
    eng_vi_get(eng, vi)->done = done;
}

uint32_t eng_vi_completed(const struct eng *eng, uint16_t vi)
{
    return oldest_op(eng_vi_get(eng, vi));
}

void eng_vi_counts(const struct eng *eng, uint16_t vi, struct vip_counts *ret)
{
    struct eng_vi *of = eng_vi_get(eng, vi);
    uint32_t op = oldest_op(of);

    *ret = (struct vip_counts){.done = of->rx.at.op};
    if (!of->reliable)
        return;
    for (uint32_t at = of->sq.head; at != of->sq.tail && ret->reads < ENG_READS_MAX; at++, op++)
        if (is_open_read(eng_desc_at(of, VIP_Q_SEND, at)))
            ret->read[ret->reads++] = op;
}

/* Are the peer's counts possible, as far as this end knows? */
static bool counts_fit(struct eng_vi *vi, const struct vip_counts *peer)
{
    /* After eng_vi_restore, each descriptor in the queue may have been sent in the earlier life. */
    uint32_t sent = vi->restored ? oldest_op(vi) + (vi->sq.tail - vi->sq.head) : vi->tx.at.op;
    unsigned open = 0;

    if (peer->reads > ENG_READS_MAX)
        return false;
    for (unsigned i = 1; i < peer->reads; i++)
        if (!eng_before(peer->read[i - 1], peer->read[i]))
            return false;
    if (!vi->reliable)
        return true;
    if (eng_before(peer->done, vi->tx.ops_acked) || eng_before(sent, peer->done))
        return false;
    for (uint32_t op = oldest_op(vi), at = vi->sq.head; at != vi->sq.tail; op++, at++) {
        const struct eng_desc *desc = eng_desc_at(vi, VIP_Q_SEND, at);

        /* Impossible: the peer has answered this read, but its counts do not include the read. */
        if (desc->state == ENG_DESC_READ_DONE && !eng_before(op, peer->done))
            return false;
        open += eng_before(op, peer->done) && is_open_read(desc);
    }
    return open <= ENG_READS_MAX;
}

/* Request our reads again that the peer has processed and whose bytes have not arrived. */
static void reads_again(struct eng_vi *vi)
{
    uint32_t op = oldest_op(vi);

    for (uint32_t at = vi->sq.head; at != vi->sq.next; at++, op++) {
        if (!is_open_read(eng_desc_at(vi, VIP_Q_SEND, at)))
            continue;
        eng_read_started(vi, op);
        eng_sent_again(vi, &(struct eng_sent){.at = {op, 0}, .ops = 1, .stream = ENG_STREAM_OPS});
    }
    vi->reads.again_end = vi->tx.at.op;
}

int eng_vi_rebind(struct eng *eng, uint16_t vi, const struct eng_conn *conn,
                  const struct vip_counts *peer, uint64_t now_ns)
{
    struct eng_vi *of = eng_vi_get(eng, vi);
    uint32_t sent = of->tx.at.op, done = of->rx.at.op;

    VIP_ASSERT(of->state == VIP_VIST_CONNECTED && of->paused);
    if (!counts_fit(of, peer))
        return -EPROTO;
    eng->now_ns = now_ns;
    if (of->reliable) {
        uint32_t from = peer->done + (VIP_MUTANT(REWIND_SHORT) && eng_before(peer->done, sent)) -
                        VIP_MUTANT(REWIND_LONG);

        of->sq.next += from - sent;
        sent = from;
    }
    eng_conn_begin(of, conn, now_ns);
    of->tx.at.op = of->tx.ops_acked = sent;
    if (!VIP_MUTANT(POSITION_LOST))
        of->rx.at.op = done;
    of->paused = of->restored = false;
    for (unsigned i = 0; i < peer->reads; i++)
        if (eng_before(peer->read[i], done) && !VIP_MUTANT(READ_FORGOTTEN))
            of->reads.again[of->reads.again_count++] = peer->read[i];
    if (of->reliable) {
        reads_again(of);
        eng_send_advance(of);
    }
    if (!conn->local)
        eng_skip_draw(of);
    of->tx.owed = eng_tx_owes(of);
    eng_loss_arm(of, now_ns);
    eng_vi_update(of);
    return 0;
}
