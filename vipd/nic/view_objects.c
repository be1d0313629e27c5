/*
 * Views of connections, completion queues, waits and peers, for vipctl. Views do not change the
 * NIC's state; only nic_probe sends a packet to a peer.
 */
#include <string.h>

#include "vipd/nic/internal.h"
#include "vipd/nic/objects.h"

static const char *conn_state_name(enum nic_conn_state state)
{
    switch (state) {
    case NIC_CONN_FREE:
        break;
    case NIC_CONN_REQUESTED:
        return "requested";
    case NIC_CONN_ACCEPTING:
        return "accepting";
    case NIC_CONN_REBINDING:
        return "rebinding";
    case NIC_CONN_ESTABLISHED:
        return "established";
    }
    return "?";
}

void nic_session_conns(const struct nic_session *session, uint32_t from,
                       bool (*visit)(void *ctx, const struct nic_conn_view *view), void *ctx)
{
    for (uint32_t i = from; i < session->vi_high; i++) {
        const struct nic_conn *conn = session->vis[i].used ? session->vis[i].conn : NULL;
        struct nic_conn_view view = {.vi = (uint16_t)i};

        if (!conn)
            continue;
        view.state = nic_conn_binding(conn).wait == NIC_WAIT_NONE
                         ? conn_state_name(conn->state)
                         : conn_state_name(NIC_CONN_REBINDING);
        view.loop = conn->loop;
        view.local_id = conn->local_id;
        view.remote_id = conn->remote_id;
        view.remote_epoch = conn->remote_epoch;
        view.peer.len = conn->to.len;
        memcpy(view.peer.bytes, conn->to.bytes, conn->to.len);
        if (conn->state == NIC_CONN_ESTABLISHED)
            view.carrier = session->vis[i].ring                    ? NIC_CARRIER_RING
                           : !conn->lent                           ? NIC_CARRIER_VIPD
                           : conn->loan->state == LOAN_TAKING_BACK ? NIC_CARRIER_REVOKED
                                                                   : NIC_CARRIER_LOAN;
        view.loan = nic_loan_view(conn);
        if (!visit(ctx, &view))
            return;
    }
}

static bool take_first(void *ctx, const struct nic_conn_view *view)
{
    *(struct nic_conn_view *)ctx = *view;
    return false;
}

bool nic_session_next_conn(const struct nic_session *session, uint32_t *from,
                           struct nic_conn_view *ret)
{
    *ret = (struct nic_conn_view){0};
    nic_session_conns(session, *from, take_first, ret);
    if (!ret->state)
        return false;
    *from = ret->vi + 1u;
    return true;
}

bool nic_session_has_vi(const struct nic_session *session, uint32_t vi)
{
    return nic_vi_get(session, vi) != NULL;
}

void nic_session_cqs(const struct nic_session *session, uint32_t from,
                     bool (*visit)(void *ctx, const struct nic_cq_view *view), void *ctx)
{
    for (uint32_t i = from; i < session->cq_high; i++) {
        const struct nic_cq *cq = &session->cqs[i];
        struct nic_cq_view view = {.cq = i,
                                   .written = cq->position,
                                   .waiting = cq->backlog.live,
                                   .bound = cq->bound,
                                   .has_fd = cq->sock >= 0};

        if (cq->used && !visit(ctx, &view))
            return;
    }
}

void nic_session_waits(const struct nic_session *session, uint32_t from,
                       bool (*visit)(void *ctx, const struct nic_waiter_view *view), void *ctx)
{
    for (uint32_t i = from; i < session->wait_count; i++) {
        const struct nic_waiter *wait = &session->waits[i];
        struct nic_waiter_view view = {.kind = wait->handle_valid ? "request"
                                               : wait->listener   ? "listener"
                                                                  : "wait",
                                       .number = wait->handle_valid ? wait->handle : wait->id,
                                       .delivered = wait->delivered,
                                       .disc_len = wait->local_disc_len};

        memcpy(view.disc, wait->local_disc, sizeof(view.disc));
        if (!visit(ctx, &view))
            return;
    }
}

/* ---- peers ----------------------------------------------------------------------------- */

/* Add up the connections of the user *uid, or of all users (NULL); returns their number. */
static uint32_t sum_peer(const struct nic *nic, const uint32_t *uid, struct nic_peer_view *view)
{
    const struct nic_list *head = &nic->peers[view->cm.number % NIC_PEER_BUCKETS];
    uint32_t count = 0;

    for (struct nic_list *item = head->next; item != head; item = item->next) {
        const struct nic_conn *conn = NIC_ITEM(item, struct nic_conn, by_peer);
        struct eng_vi_stats one;

        if (conn->peer != view->cm.number || conn->state != NIC_CONN_ESTABLISHED ||
            (uid && conn->session->uid != *uid))
            continue;
        count++;
        view->rebound += conn->rebound > 0;
        nic_vi_counts(conn->session, conn->vi, &one);
        nic_stats_add(&view->stats, &one);
        view->stats.cwnd_bytes += one.cwnd_bytes;
        view->stats.inflight_bytes += one.inflight_bytes;
        if (one.srtt_ns && (!view->stats.srtt_ns || one.srtt_ns < view->stats.srtt_ns))
            view->stats.srtt_ns = one.srtt_ns;
        if (one.srtt_ns > view->srtt_max_ns)
            view->srtt_max_ns = one.srtt_ns;
    }
    return count;
}

uint32_t nic_peer_views(const struct nic *nic, const uint32_t *uid, uint32_t from, uint64_t now_ns,
                        bool (*visit)(void *ctx, const struct nic_peer_view *view), void *ctx)
{
    for (uint32_t i = from; i < CM_PEER_INDEXES; i++) {
        struct nic_peer_view view = {0};
        uint32_t count;

        if (!cm_peer_view(nic->cm, i, &view.cm))
            continue;
        view.heard_ago_ns = now_ns > view.cm.heard_ns ? now_ns - view.cm.heard_ns : 0;
        count = sum_peer(nic, uid, &view);
        if (uid && !count)
            continue;
        if (uid)
            view.cm.connections = count;
        if (!visit(ctx, &view))
            return i;
    }
    return UINT32_MAX;
}

uint64_t nic_probe(struct nic *nic, const struct cm_host *host, uint32_t uid, uint64_t now_ns)
{
    nic->now_ns = now_ns;
    return cm_probe(nic->cm, host, uid, now_ns);
}

int nic_probe_result(const struct nic *nic, uint64_t number, uint64_t *ret_rtt_ns,
                     uint64_t *ret_epoch)
{
    return cm_probe_result(nic->cm, number, ret_rtt_ns, ret_epoch);
}
