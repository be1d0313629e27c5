/*
 * Packets that arrive: from the link to the engine of the right session.
 *
 * Order of the checks: checksum, header, connection id, our epoch, contents, state of the
 * connection, peer's epoch, source address. Each check that fails has its own drop counter.
 *
 * Owns: the receive batch. Does not own: kept packets (held.c), contents of data packets (engine),
 * the meaning of CM messages (cm).
 */
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "proto/probe.h"
#include "proto/stats.h"
#include "vipd/nic/internal.h"
#include "vipd/path/rx.h"

/* ---- to the engine --------------------------------------------------------------------- */

/* Is there room if the engine holds the packet? A packet in its turn needs only a free slot. */
static bool may_keep(struct nic_conn *conn, const struct vip_packet *packet, struct nic_src *src)
{
    struct nic_session *session = conn->session;
    struct nic *nic = session->nic;
    bool ahead = path_is_ahead(session->eng, conn->vi, packet);

    if (!nic->held_free)
        return false;
    if (ahead && !nic_held_room(session, src->len))
        return false;
    /* The engine may hold the packet. Copy it now: without memory, vipd can still drop it. */
    if (nic_src_must_copy(src) && (ahead || packet->hdr.frame_count > 1))
        return nic_src_own(nic, src);
    return true;
}

/* Call eng_rx, and keep the bytes if the engine holds the packet. true: the bytes are kept. */
static bool engine_rx(struct nic_conn *conn, const struct vip_packet *packet, struct nic_src *src)
{
    struct nic_session *session = conn->session;
    struct nic *nic = session->nic;
    uint32_t token = nic->held_free;
    enum eng_rx_verdict verdict;

    if (!may_keep(conn, packet, src)) {
        nic->counts.drop_held_full++;
        return false;
    }
    session->cur = src;
    verdict = eng_rx(session->eng, conn->vi, packet, token, nic->now_ns);
    session->cur = NULL;

    switch (verdict) {
    case ENG_RX_DONE:
        return false;
    case ENG_RX_HOLD: {
        struct nic_held *held = nic_held_new(conn, src);

        VIP_ASSERT(held == &nic->held[token - 1]);
        nic->counts.rx_held++;
        return true;
    }
    case ENG_RX_DUPLICATE:
        nic->counts.rx_duplicate++;
        return false;
    case ENG_RX_STALE:
        nic->counts.rx_stale++;
        return false;
    case ENG_RX_FULL:
        nic->counts.rx_engine_full++;
        return false;
    }
    return false;
}

/* The peer's vipd lives, if the packet comes from it: not from a program that has a loan. */
static void heard(struct nic_conn *conn)
{
    struct nic *nic = conn->session->nic;

    if (conn->heard_turn == nic->counts.turns || !link_addr_equal(&conn->data_to, &conn->to))
        return;
    conn->heard_turn = nic->counts.turns;
    cm_heard(nic->cm, conn->peer, nic->now_ns);
}

bool nic_rx_feed(struct nic_conn *conn, const struct vip_packet *packet, struct nic_src *src)
{
    struct nic_session *session = conn->session;
    bool kept;

    heard(conn);
    nic_share_worked(session->nic, packet->hdr.frame_count);
    switch (nic_stage(conn, packet, src, NULL)) {
    case NIC_STAGE_PARKED:
        return true;
    case NIC_STAGE_DROP:
        return false;
    case NIC_STAGE_NO:
        break;
    }
    kept = engine_rx(conn, packet, src);
    nic_rx_replay(session);
    return kept;
}

/* The connection of a kept packet; NULL: the connection is not established any more. */
static struct nic_conn *held_conn(const struct nic *nic, const struct nic_held *held)
{
    struct nic_conn *conn = nic_conn_of_data(nic, held->data_id);

    return conn && conn->state == NIC_CONN_ESTABLISHED ? conn : NULL;
}

static void engine_replay(struct nic_conn *conn, struct nic_src *src)
{
    struct nic_session *session = conn->session;
    struct nic *nic = session->nic;

    session->cur = src;
    eng_rx_replay(session->eng, conn->vi, &nic->replay_packet, nic->now_ns);
    session->cur = NULL;
    nic->counts.rx_replayed++;
}

/* Replay one held packet, or free it if the engine does not need it. false: no packet is due. */
static bool replay_one(struct nic_session *session)
{
    struct nic *nic = session->nic;
    struct nic_conn *conn;
    struct nic_held *held;
    uint32_t token;
    uint16_t vi;
    bool feed;

    if (!eng_replay(session->eng, &vi, &token, &feed))
        return false;
    VIP_ASSERT(token && token <= NIC_HELD_MAX);
    held = &nic->held[token - 1];
    VIP_ASSERT(held->used && held->session == session);
    conn = held_conn(nic, held);
    if (feed && conn) {
        struct nic_src src = nic_held_src(held);

        path_decode_again(held->bytes, held->len, &nic->replay_packet);
        nic_share_worked(nic, nic->replay_packet.hdr.frame_count + (held->len >> 12));
        if (nic_stage(conn, &nic->replay_packet, &src, held) == NIC_STAGE_PARKED)
            return true;
        engine_replay(conn, &src);
    }
    nic_held_free(nic, held);
    return true;
}

void nic_rx_replay(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (!eng_replay_waits(session->eng))
        return;
    for (unsigned i = 0; i < NIC_REPLAY_SERVE && !nic->meter.over && replay_one(session); i++)
        nic_share_worked(nic, 1);
}

void nic_rx_orphans(struct nic_session *session)
{
    for (unsigned left = eng_orphans(session->eng); left; left--)
        (void)replay_one(session);
}

void nic_rx_resume(struct nic_held *held)
{
    struct nic_session *session = held->session;
    struct nic *nic = session->nic;
    struct nic_conn *conn = held_conn(nic, held);
    struct nic_src src = nic_held_src(held);
    bool replay = held->replay, kept = false;
    uint32_t spoiled = held->spoiled;

    if (conn)
        path_decode_again(held->bytes, held->len, &nic->replay_packet);
    nic_held_slot_free(nic, held);
    if (conn) {
        VIP_ASSERT(conn->parked);
        conn->parked--;
        src.placed = true;
        src.spoiled = spoiled;
        if (replay)
            engine_replay(conn, &src);
        else
            kept = engine_rx(conn, &nic->replay_packet, &src);
    }
    if (!kept)
        nic_src_release(nic, &src);
}

/* ---- from the link --------------------------------------------------------------------- */

/* Count a dropped packet; the probe tells tracers the name of the counter. */
static bool drop(struct nic *nic, uint64_t *counter, enum vip_stat reason)
{
    (*counter)++;
    VIP_PROBE3(drop, nic->name, vip_stats[reason].name, *counter);
    return false;
}

#define DROP(nic, what) drop(nic, &(nic)->counts.what, VIP_STAT_NIC_##what)

static bool drop_verdict(struct nic *nic, enum vip_wire_verdict verdict)
{
    return drop(nic, &nic->counts.rx_verdict[verdict],
                VIP_STAT_NIC_drop_short + (verdict - VIP_WIRE_SHORT));
}

static struct cm_host host_of(const struct link_addr *addr)
{
    struct cm_host host = {.len = addr->len};

    memcpy(host.bytes, addr->bytes, sizeof(host.bytes));
    return host;
}

/* Does the packet have a forged source, namely this NIC's own address? Loopback packets do not pass
 * the link, unless the link has planted faults. */
static bool forged_self(const struct nic *nic, const struct link_rx *rx)
{
    return !nic->loop_by_link && link_addr_equal(rx->from, &nic->link->self);
}

/* Process a data packet with a good checksum and header. true: src's bytes are kept. */
static bool rx_data(struct nic *nic, const struct link_rx *rx, const struct vip_header *hdr,
                    struct nic_src *src)
{
    struct nic_conn *conn = nic_conn_of_data(nic, hdr->conn_id);
    enum vip_wire_verdict verdict;

    nic->counts.rx_data++;
    /* For an established connection to another host, a check of the source address follows. */
    if ((!conn || conn->loop || conn->state != NIC_CONN_ESTABLISHED) && forged_self(nic, rx))
        return DROP(nic, drop_source);
    if (!conn) {
        struct cm_host from = host_of(rx->from);

        cm_unknown_conn(nic->cm, &from, hdr, nic->now_ns);
        return DROP(nic, drop_unknown_conn);
    }
    if (hdr->dst_epoch != nic->config.epoch)
        return DROP(nic, drop_dst_epoch);
    verdict = vip_wire_get_data(rx->bytes, rx->len, &nic->rx_packet);
    if (verdict != VIP_WIRE_OK)
        return drop_verdict(nic, verdict);

    /* Data proves that our ACCEPT (also that of a peer-to-peer request) has arrived; only the
     * CONFIRM is missing. */
    if (conn->state == NIC_CONN_ACCEPTING || conn->state == NIC_CONN_REQUESTED) {
        struct cm_host from = host_of(rx->from);

        cm_implied_confirm(nic->cm, conn->local_id, &from, hdr->src_epoch, nic->now_ns);
        conn = nic_conn_of_data(nic, hdr->conn_id);
    }
    if (!conn || conn->state != NIC_CONN_ESTABLISHED)
        return DROP(nic, drop_early);
    if (conn->lent)
        return DROP(nic, drop_lent);
    if (hdr->src_epoch != conn->remote_epoch)
        return DROP(nic, drop_src_epoch);
    if (!link_addr_equal(rx->from, &conn->data_to))
        return DROP(nic, drop_source);
    if (nic->see)
        nic_see_received(nic, conn, rx);
    VIP_PROBE4(rx, conn->session->id, conn->vi, conn->data_id, rx->len);
    nic_share_switch(nic, conn->session);
    return nic_rx_feed(conn, &nic->rx_packet, src);
}

/* Check and process a packet from the link. true: src's bytes are kept. */
static bool rx_packet(struct nic *nic, const struct link_rx *rx, struct nic_src *src)
{
    enum vip_wire_verdict verdict;
    struct vip_header hdr;

    verdict = path_open(rx->bytes, rx->len, &hdr);
    if (verdict != VIP_WIRE_OK)
        return drop_verdict(nic, verdict);
    if (hdr.kind == VIP_PKT_CM) {
        struct cm_host from = host_of(rx->from);

        /* Too many CM messages: drop this one. Senders repeat important messages. */
        if (!nic->cm_budget)
            return DROP(nic, drop_cm_budget);
        nic->cm_budget--;
        if (forged_self(nic, rx))
            return DROP(nic, drop_source);
        nic->counts.rx_cm++;
        if (nic->see)
            nic_see_received(nic, NULL, rx);
        cm_rx(nic->cm, &from, rx->bytes, rx->len, nic->now_ns);
        nic_share_worked(nic, NIC_CM_UNITS);
        return false;
    }
    return rx_data(nic, rx, &hdr, src);
}

bool nic_rx_take(struct nic *nic)
{
    if (nic->rx_at == nic->rx_count) {
        nic->rx_at = 0;
        nic->rx_count = nic->link->class->recv(nic->link, nic->rx, NIC_RX_BATCH, nic->now_ns);
    }
    return nic->rx_count > 0;
}

static struct nic_src rx_next(struct nic *nic, const struct link_rx **ret)
{
    const struct link_rx *rx = &nic->rx[nic->rx_at++];

    *ret = rx;
    return (struct nic_src){
        .bytes = rx->bytes, .len = rx->len, .buffer = rx->buffer, .scarce = rx->scarce};
}

void nic_rx_process(struct nic *nic)
{
    nic->cm_budget = NIC_CM_TURN;
    while (nic->rx_at < nic->rx_count && !nic->meter.over) {
        const struct link_rx *rx;
        struct nic_src src = rx_next(nic, &rx);

        /* Until vipd knows the session of the packet, it charges the time to no session. */
        nic_share_switch(nic, NULL);
        if (!rx_packet(nic, rx, &src))
            nic_src_release(nic, &src);
        nic_share_worked(nic, 1 + (rx->len >> 12));
    }
}

void nic_rx_forget(struct nic *nic)
{
    while (nic->rx_at < nic->rx_count) {
        const struct link_rx *rx;
        struct nic_src src = rx_next(nic, &rx);

        nic_src_release(nic, &src);
    }
}
