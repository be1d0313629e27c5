/*
 * Packets that leave. vipd pulls packets from the engines, finds the addresses of their pieces,
 * seals them, and gives them to the link in batches. When the link is full, the batch waits. Before
 * the next attempt vipd finds the addresses again: memory may have been deregistered meanwhile.
 *
 * Owns: the batch, order of sessions. Does not own: packet contents (engine), which packets leave
 * from a copy (vipd/path/tx.c), loopback (self.c).
 */
#include "proto/assert.h"
#include "proto/probe.h"
#include "vipd/nic/internal.h"
#include "vipd/registry/guard.h"

/* Resolve and seal a packet. false: access to a piece is not allowed any more, or a page of it is
 * missing. Then the operation of the packet has failed. */
static bool prepare(struct nic_session *session, struct nic_tx *tx)
{
    struct nic *nic = session->nic;
    uint32_t faults = guard_copy_faults();

    if (nic_tx_resolve(session, &tx->out)) {
        path_tx_seal(&tx->out);
        if (guard_copy_faults() == faults)
            return true;
    }
    nic->counts.tx_unresolved++;
    eng_tx_failed(session->eng, tx->out.packet.vi, tx->out.packet.op, nic->now_ns);
    return false;
}

/* Remove entry i from the filled entries; the others keep their order. */
static void batch_remove(struct nic *nic, unsigned i)
{
    struct nic_tx *gone = nic->tx[i];

    for (nic->tx_count--; i < nic->tx_count; i++)
        nic->tx[i] = nic->tx[i + 1];
    nic->tx[nic->tx_count] = gone;
}

/* The link has just taken `taken` packets. Read the clock only if an operation begins in them. */
static void batch_sent(struct nic *nic, unsigned taken)
{
    uint64_t now_ns = 0;

    for (unsigned i = 0; i < taken; i++) {
        const struct nic_tx *tx = nic->tx[i];
        uint64_t posted_ns = tx->out.packet.posted_ns;
        struct eng_latency *vi_latency;

        if (nic->see)
            nic_see_packet(nic, VIP_CAPTURE_SENT, tx);

        VIP_PROBE4(tx, tx->session->id, tx->out.packet.vi, tx->data_id, tx->out.packet.bytes);

        if (!posted_ns)
            continue;
        if (!now_ns)
            now_ns = nic->config.clock ? nic->config.clock() : nic->now_ns;
        vip_hist_add(&nic->latency.post_to_wire, now_ns - posted_ns);
        vi_latency = nic_vi_latency(tx->session, tx->out.packet.vi);
        if (vi_latency)
            vip_hist_add(&vi_latency->post_to_wire, now_ns - posted_ns);
    }
}

/* Give the batch to the link. Returns whether the link took all packets; the packets that it did
 * not take move to the front. */
static bool batch_send(struct nic *nic)
{
    unsigned count = nic->tx_count, taken = 0;

    for (unsigned i = 0; i < count; i++)
        nic->tx_link[i] = (struct link_tx){.to = &nic->tx[i]->to,
                                           .iov = nic->tx[i]->out.iov,
                                           .iov_count = nic->tx[i]->out.iov_count,
                                           .bytes = nic->tx[i]->out.packet.bytes};
    if (count)
        taken = nic->link->class->send(nic->link, nic->tx_link, count, nic->now_ns);
    VIP_ASSERT(taken <= count);
    batch_sent(nic, taken);
    for (unsigned i = 0; i < count - taken; i++) {
        struct nic_tx *sent = nic->tx[i];

        nic->tx[i] = nic->tx[taken + i];
        nic->tx[taken + i] = sent;
    }
    nic->counts.tx_data += taken;
    nic->tx_count = count - taken;
    nic->tx_retry_ns = 0;
    if (nic->tx_count) {
        nic->counts.tx_full++;
        nic->tx_retry_ns = nic->now_ns + NIC_TX_RETRY_NS;
    }
    return !nic->tx_count;
}

/* The link was full: prepare the waiting packets again, then send. false: some still wait. */
static bool batch_retry(struct nic *nic)
{
    for (unsigned i = nic->tx_count; i-- > 0;) {
        struct nic_tx *tx = nic->tx[i];
        struct nic_conn *conn = nic_conn_of_data(nic, tx->data_id);

        if (!conn || conn->state != NIC_CONN_ESTABLISHED) {
            nic->counts.tx_gone++;
            batch_remove(nic, i);
        } else if (!prepare(tx->session, tx)) {
            batch_remove(nic, i);
        }
    }
    return batch_send(nic);
}

/* Put a pulled packet into the batch, or give it to a session of this NIC. */
static void pulled(struct nic_session *session, struct nic_tx *tx)
{
    struct nic *nic = session->nic;
    struct nic_conn *conn = NULL;

    if (tx->out.packet.path < nic->conns_used)
        conn = nic->conns[tx->out.packet.path];
    if (!conn || conn->state != NIC_CONN_ESTABLISHED || conn->session != session ||
        conn->vi != tx->out.packet.vi) {
        nic->counts.tx_gone++;
        return;
    }
    tx->session = session;
    tx->data_id = conn->data_id;
    if (conn->loop) {
        nic_loop_deliver(nic, conn, tx);
        return;
    }
    tx->to = conn->data_to;
    if (prepare(session, tx))
        nic->tx_count++;
}

/* Pull up to `budget` packets of one session. Returns their number. Stops when the link is full. */
static unsigned session_tx(struct nic_session *session, unsigned budget)
{
    struct nic *nic = session->nic;
    unsigned count = 0, units = 0;

    while (count < budget && eng_tx_ready(session->eng)) {
        struct nic_tx *tx;
        unsigned more;

        /* While users compete, each session gets a small amount at a time. */
        if (nic->meter.over || (nic->meter.several && units >= NIC_UNITS))
            break;

        if (nic->tx_count == NIC_TX_BATCH && !batch_send(nic))
            break;
        tx = nic->tx[nic->tx_count];
        count++;
        if (!eng_tx_pull(session->eng, &tx->out.packet, nic->now_ns)) {
            /* No packet: eng_tx_pull may have ended a connection at a high cost. Read the clock. */
            units += NIC_UNITS;
            nic_share_worked(nic, NIC_UNITS);
            continue;
        }
        /* Compute the units first: after pulled(), the packet belongs to the batch. */
        more = 1 + (tx->out.packet.bytes >> 12) + tx->out.packet.piece_count / 2;
        units += more;
        pulled(session, tx);
        nic_share_worked(nic, more);
    }
    return count;
}

/* Serve every session that has packets once, beginning where the last turn ended. Returns the
 * number of packets pulled. */
static unsigned sessions_tx(struct nic *nic)
{
    struct nic_list *item = nic->tx_next ? nic->tx_next : nic->sessions.next;
    struct nic_list *first = NULL;
    unsigned budget = NIC_TX_TURN;

    while (budget && !nic->tx_retry_ns && !nic->meter.over) {
        if (item == &nic->sessions)
            item = item->next;
        if (item == &nic->sessions || item == first)
            break;
        if (!first)
            first = item;

        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        item = item->next;
        if (!eng_tx_ready(session->eng) || !nic_share_due(session))
            continue;
        nic_share_switch(nic, session);
        budget -= session_tx(session, budget < NIC_TX_SESSION ? budget : NIC_TX_SESSION);
        /* Sending costs more than making packets. So send now, while the time is charged to the
         * user of the packets. */
        if (nic->meter.several && nic->tx_count)
            batch_send(nic);
    }
    nic->tx_next = item;
    return NIC_TX_TURN - budget;
}

bool nic_tx_run(struct nic *nic)
{
    bool retried = nic->tx_retry_ns != 0;
    unsigned count;

    if (retried && (nic->now_ns < nic->tx_retry_ns || !batch_retry(nic)))
        return false;
    count = sessions_tx(nic);
    if (!nic->tx_retry_ns)
        batch_send(nic);
    if (!nic->tx_count)
        nic_deferred_publish(nic);
    return count > 0 || retried;
}

/* A session ends: drop its packets that wait for the link. */
void nic_tx_forget(struct nic *nic, const struct nic_session *session)
{
    for (unsigned i = nic->tx_count; i-- > 0;)
        if (nic->tx[i]->session == session)
            batch_remove(nic, i);
    if (!nic->tx_count)
        nic->tx_retry_ns = 0;
}
