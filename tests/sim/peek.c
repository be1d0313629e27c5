/*
 * Checks inside engines and connection managers. Some conditions must hold after any step. At the
 * end of a run no record of any connection may be left.
 */
#include <inttypes.h>

#include "tests/sim/actor.h"
#include "vipd/engine/cm_internal.h"
#include "vipd/engine/internal.h"
#include "vipd/nic/state.h"

static void vi_check(struct play *play, const struct eng_vi *vi)
{
    const struct eng_tx *tx = &vi->tx;
    uint64_t inflight = 0, under_way = 0, open = 0, lost = 0;

    if (vi->sq.tail - vi->sq.head > VIP_DESC_PER_QUEUE_MAX ||
        vi->rq.tail - vi->rq.head > VIP_DESC_PER_QUEUE_MAX ||
        vi->sq.next - vi->sq.head > vi->sq.tail - vi->sq.head)
        play_fail(play, "positions of a work queue");
    if (vi->held_count > vi->eng->config.held_packets_max)
        play_fail(play, "%u packets held", vi->held_count);
    if (vi->state != VIP_VIST_CONNECTED && (vi->heap_at || eng_held_any(vi)))
        play_fail(play, "a VI without a connection has a timer, or packets held");
    if (vi->state != VIP_VIST_CONNECTED)
        return;
    if (tx->number - tx->una > ENG_SENT_SLOTS || tx->largest_acked >= tx->number)
        play_fail(play, "numbers of sent packets");
    for (uint64_t n = tx->una; n < tx->number; n++) {
        if (!eng_bits_test(&tx->open, n))
            continue;
        open++;
        lost += vi->sent[n % ENG_SENT_SLOTS].lost;
        if (vi->sent[n % ENG_SENT_SLOTS].lost)
            continue;
        inflight += vi->sent[n % ENG_SENT_SLOTS].bytes;
        under_way += !vi->sent[n % ENG_SENT_SLOTS].probe;
    }
    if (inflight != tx->inflight || lost != tx->lost)
        play_fail(play,
                  "%" PRIu64 " bytes and %" PRIu64 " lost packets are counted as %" PRIu64
                  " and %u",
                  inflight, lost, tx->inflight, tx->lost);
    /* At most the bytes that the peer has granted are under way. One packet is always allowed. */
    if (under_way > 1 && inflight > vi->conn.window_bytes)
        play_fail(play, "%" PRIu64 " bytes under way, the peer granted %u", inflight,
                  vi->conn.window_bytes);
    /* A VI that waits for an acknowledgement must have a timer or a packet to send at once. */
    if (vi->reliable && open && !vi->paused && !vi->heap_at && !vi->listed[ENG_LIST_READY])
        play_fail(play, "packets are under way and no timer runs");
}

static void timers_check(struct play *play, const struct eng *eng)
{
    for (uint32_t i = 1; i < eng->timer_count; i++)
        if (eng->timer[(i - 1) / 2].at_ns > eng->timer[i].at_ns)
            play_fail(play, "the timers are out of order");
}

void peek_check(struct play *play)
{
    for (unsigned host = 0; host < play->world.hosts; host++)
        for (unsigned i = 0; i < play->plan.sessions; i++) {
            const struct sess *sess = &play->sess[host][i];

            if (!sess->alive || play->renewing[host])
                continue;
            timers_check(play, sess->nic->eng);
            for (uint32_t vi = 0; vi < sess->nic->vi_high; vi++)
                if (sess->nic->vis[vi].used)
                    vi_check(play, sess->nic->eng->vi[vi]);
        }
}

uint32_t peek_backlog(const struct sess *sess)
{
    return sess->nic->cqs[sess->cq].backlog.live;
}

/* True if a record is left in a pool, except for discriminators that a living server owns. */
static bool pools_used(const struct cm *cm)
{
    const struct cm_disc *disc;
    uint32_t settled = 0;

    TAILQ_FOREACH(disc, &cm->served, of_served)
    settled += disc->settled;
    for (unsigned i = 0; i < CM_POOLS; i++)
        if (cm->pool_used[i] > (i == CM_POOL_LINGER ? settled : 0))
            return true;
    return false;
}

void peek_quiet(struct play *play)
{
    for (unsigned host = 0; host < play->world.hosts; host++) {
        const struct nic *nic = play->world.host[host].nic;
        const struct cm *cm = nic->cm;

        if (pools_used(cm))
            play_fail(play,
                      "host %u remembers %u peers, %u requests (%u kept, %u offered), %u waiters, "
                      "%u discriminators, %u attempts, %u closings, %u answers",
                      host, cm->pool_used[CM_POOL_PEERS], cm->pool_used[CM_POOL_PENDING],
                      cm->pool_used[CM_POOL_KEPT], cm->pool_used[CM_POOL_OFFERED],
                      cm->pool_used[CM_POOL_WAITERS], cm->pool_used[CM_POOL_LINGER],
                      cm->pool_used[CM_POOL_ATTEMPTS], cm->pool_used[CM_POOL_CLOSINGS],
                      cm->pool_used[CM_POOL_ANSWERED]);
        if (cm->stats.malformed)
            play_fail(play, "host %u got malformed CM messages", host);
        if (nic->held_used || play->world.host[host].out)
            play_fail(play, "host %u keeps %u packets", host, nic->held_used);
        for (unsigned i = 0; i < play->plan.sessions; i++)
            if (eng_deadline(play->sess[host][i].nic->eng) != ENG_NEVER)
                play_fail(play, "host %u: a timer runs without a connection", host);
    }
}

/* Without faults nothing is sent twice, nothing is lost, and no retransmission timer fires. Runs
 * with staged memory are exceptions: if a packet waits for libvipl while later packets are
 * acknowledged, it looks like an overtaken packet. */
void peek_clean(struct play *play)
{
    if (play->plan.staged)
        return;
    for (unsigned host = 0; host < play->world.hosts; host++) {
        const struct nic *nic = play->world.host[host].nic;

        if (nic->counts.rx_duplicate || nic->counts.rx_stale || nic->counts.rx_engine_full)
            play_fail(play, "host %u got packets twice in a good network", host);
        for (unsigned i = 0; i < play->plan.sessions; i++) {
            const struct sess *sess = &play->sess[host][i];

            for (uint32_t vi = 0; vi < sess->nic->vi_high; vi++) {
                struct eng_vi_stats stats;

                if (!sess->nic->vis[vi].used)
                    continue;
                eng_vi_stats(sess->nic->eng, (uint16_t)vi, &stats);
                /* With RDMA Reads, timeouts may occur: answers may wait for room in a window. */
                if (stats.retransmits || stats.duplicates || (stats.timeouts && !play->plan.reads))
                    play_fail(play,
                              "host %u VI %u: %" PRIu64 " fragments again, %" PRIu64
                              " timeouts, in a good network",
                              host, vi, stats.retransmits, stats.timeouts);
            }
        }
    }
}
