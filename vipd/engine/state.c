/*
 * The VI state machine from Idle to Connected to Error and back (spec 3.1). A connection ends in
 * one of three ways: this end breaks it, the peer closes it, or the application disconnects it.
 */
#include "vipd/engine/internal.h"

#include <string.h>

/* Change the state and report the change to the host. No other function changes a state. */
static void state_set(struct eng_vi *vi, enum vip_vi_state state)
{
    enum vip_vi_state old = (enum vip_vi_state)vi->state;
    struct eng_event event = {.kind = ENG_EVENT_STATE, .vi = vi->index, .state = state};

    switch (state) {
    case VIP_VIST_IDLE:
        break;
    case VIP_VIST_CONNECT_PENDING:
        VIP_ASSERT(old == VIP_VIST_IDLE);
        break;
    case VIP_VIST_CONNECTED:
        VIP_ASSERT(old == VIP_VIST_IDLE || old == VIP_VIST_CONNECT_PENDING);
        break;
    case VIP_VIST_ERROR:
        VIP_ASSERT(old == VIP_VIST_CONNECTED);
        break;
    }
    if (old == state)
        return;
    vi->state = (uint8_t)state;
    vi->eng->ops.event(vi->eng->ctx, &event);
}

void eng_vi_set_pending(struct eng *eng, uint16_t vi)
{
    state_set(eng_vi_get(eng, vi), VIP_VIST_CONNECT_PENDING);
}

void eng_vi_set_idle(struct eng *eng, uint16_t vi)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    VIP_ASSERT(of->state == VIP_VIST_CONNECT_PENDING);
    state_set(of, VIP_VIST_IDLE);
}

void eng_conn_begin(struct eng_vi *of, const struct eng_conn *conn, uint64_t now_ns)
{
    const struct eng *eng = of->eng;

    VIP_ASSERT(conn->packet_bytes >= VIP_PACKET_BYTES_MIN);
    VIP_ASSERT(conn->packet_bytes <= VIP_PACKET_BYTES_MAX);
    of->conn = *conn;
    memset(&of->tx, 0, sizeof(of->tx));
    if (!VIP_MUTANT(RECONNECT))
        memset(&of->rx, 0, sizeof(of->rx));
    memset(&of->reads, 0, sizeof(of->reads));
    of->tx.number = of->tx.una = of->tx.first_sent = 1 + eng->config.start_number;
    of->tx.largest_acked = eng->config.start_number;
    if (!conn->local)
        eng_skip_draw(of);
    of->tx.at.op = of->tx.ops_acked = of->rx.at.op = eng->config.start_op;
    of->reads.asked = of->reads.at.op = of->reads.again_end = eng->config.start_op;
    of->tx.lost_head = of->tx.lost_tail = ENG_NONE;
    of->tx.timer_ns = of->tx.loss_ns = ENG_NEVER;
    of->tx.progress_ns = now_ns;
    of->tx.srtt_ns = conn->rtt_ns;
    of->tx.rttvar_ns = conn->rtt_ns / 2;
    of->rx.base = 1 + eng->config.start_number;
    of->rx.largest = eng->config.start_number;
    of->rx.ack_ns = ENG_NEVER;
    eng_mtu_init(of);
    eng_cc_init(&of->tx.cc,
                conn->local ? ENG_CONGESTION_FIXED : (enum eng_congestion)eng->config.congestion,
                conn->packet_bytes, conn->window_bytes);
}

void eng_vi_connect(struct eng *eng, uint16_t vi, const struct eng_conn *conn, uint64_t now_ns)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    VIP_ASSERT(of->sq.head == of->sq.tail);
    eng_conn_begin(of, conn, now_ns);
    of->paused = of->restored = false;
    of->stats.error = NULL;
    state_set(of, VIP_VIST_CONNECTED);
}

/* Call it whenever a connection ends: drop held packets, stop sending, stop the timers. */
static void conn_over(struct eng_vi *vi)
{
    eng_held_drop(vi);
    eng_list_del(vi, ENG_LIST_READY);
    eng_list_del(vi, ENG_LIST_SENT);
    if (!VIP_MUTANT(TIMER_LEFT))
        eng_timer_set(vi, ENG_NEVER);
    vi->tx.timer_ns = vi->tx.loss_ns = vi->rx.ack_ns = ENG_NEVER;
    vi->tx.inflight = 0;
}

/*
 * Enter Error state, then flush the receive queue once more. After the first flush, the application
 * may have posted a receive descriptor because it did not see the new state yet.
 */
static void error_set(struct eng_vi *vi)
{
    state_set(vi, VIP_VIST_ERROR);
    if (vi->eng->ops.fetch_receives)
        eng_recv_flush(vi);
}

/* Is an answer to a read of the peer not yet cut, or not yet acknowledged? */
static bool unanswered(const struct eng_vi *vi)
{
    if (vi->reads.at.op != vi->reads.asked)
        return true;
    for (uint64_t n = eng_bits_next(&vi->tx.open, vi->tx.una, vi->tx.number); n < vi->tx.number;
         n = eng_bits_next(&vi->tx.open, n + 1, vi->tx.number))
        if (vi->sent[n % ENG_SENT_SLOTS].stream == ENG_STREAM_READS)
            return true;
    return false;
}

/* The transport failed: report reads of the peer whose answers did not arrive. Only the error
 * callback can report them, because they have no descriptor at this end (spec 1.9, 3.9). */
static void reads_transport(struct eng_vi *vi)
{
    if (unanswered(vi))
        eng_event_error(vi, VIP_EC_RDMA_TRANSPORT, VIP_CTL_OP_RDMAREAD,
                        "the answer to an RDMA Read of the peer could not be delivered");
}

void eng_break(struct eng_vi *vi, const struct eng_fault *fault)
{
    struct eng_event event = {.kind = ENG_EVENT_BROKEN,
                              .vi = vi->index,
                              .code = VIP_EC_CONN_LOST,
                              .reason = fault->reason,
                              .op_status = fault->op_status,
                              .failed_op = fault->failed_op,
                              .ops_done = vi->rx.at.op,
                              .why = fault->why};

    VIP_ASSERT(vi->state == VIP_VIST_CONNECTED && vi->reliable);
    if (fault->reason == VIP_CLOSE_TIMEOUT)
        reads_transport(vi);
    conn_over(vi);
    eng_place_abandon(vi);
    eng_send_flush(vi, &(struct eng_flush){.first_status = fault->first_status});
    eng_recv_flush(vi);
    vi->stats.error = fault->why;
    error_set(vi);
    vi->eng->ops.event(vi->eng->ctx, &event);
}

void eng_vi_disconnect(struct eng *eng, uint16_t vi, uint32_t *ret_ops_done)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    *ret_ops_done = of->rx.at.op;
    conn_over(of);
    /* Flush a partly filled receive descriptor like the others; report no partial message. */
    of->rx.phase = ENG_PHASE_START;
    eng_send_flush(of, &(struct eng_flush){0});
    eng_recv_flush(of);
    of->stats.error = NULL;
    state_set(of, VIP_VIST_IDLE);
}

/*
 * After eng_vi_restore the engine has sent nothing, but the engine of the binding before may have
 * sent each operation in the queue. So operations before ops_done, which the peer has processed,
 * count as sent.
 */
static void sent_before(struct eng_vi *vi, uint32_t ops_done)
{
    uint32_t count = ops_done - vi->tx.at.op;

    if (!vi->restored || count > vi->sq.tail - vi->sq.next)
        return;
    vi->sq.next += count;
    vi->tx.at.op = ops_done;
}

void eng_vi_closed(struct eng *eng, uint16_t vi, const struct eng_close *close, uint64_t now_ns)
{
    struct eng_vi *of = eng_vi_get(eng, vi);
    struct eng_flush flush = {0};
    const char *why = close->why ? close->why : "the peer closed the connection";

    (void)now_ns;
    if (of->state != VIP_VIST_CONNECTED)
        return;
    if (close->ops_valid && of->reliable) {
        sent_before(of, close->ops_done);
        /* The peer's ops_done is not trusted: use it only if these operations were sent. */
        if (!eng_before(of->tx.at.op, close->ops_done) &&
            eng_before(of->tx.ops_acked, close->ops_done)) {
            of->tx.ops_acked = close->ops_done;
            eng_send_advance(of);
        }
        flush.failed_status = close->op_status & VIP_ST_ERROR_MASK;
        flush.failed = flush.failed_status != 0;
        flush.failed_op = close->failed_op;
        /* With Reliable Delivery only an RDMA Read gets op_status (spec 3.6). */
        flush.reads_only = of->level != VIP_LVL_RECEPTION;
    }
    if (close->transport)
        reads_transport(of);
    conn_over(of);
    eng_place_abandon(of);
    eng_send_flush(of, &flush);
    if (!VIP_MUTANT(FLUSH_RECV))
        eng_recv_flush(of);
    of->stats.error = why;
    error_set(of);
    eng_event_error(of, VIP_EC_CONN_LOST, VIP_CTL_OP_SENDRECV, why);
}
