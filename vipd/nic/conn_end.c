/*
 * How connections end: a program here, the engine, the peer or an administrator ends them. A
 * connection is NIC_CONN_ESTABLISHED or NIC_CONN_REBINDING exactly while the engine's VI is
 * Connected.
 */
#include "proto/assert.h"
#include "vipd/nic/internal.h"
#include "vipd/nic/objects.h"

/* Arguments of a CLOSE to the peer of this connection, without the details of the engine. */
static struct cm_close_args close_args(const struct nic_conn *conn, enum vip_close_reason reason)
{
    return (struct cm_close_args){.local_id = conn->local_id,
                                  .remote_id = conn->remote_id,
                                  .peer = conn->peer,
                                  .reason = reason};
}

void nic_close_send(struct nic *nic, const struct cm_close_args *args)
{
    cm_close(nic->cm, args, nic->now_ns);
    cm_conn_gone(nic->cm, args->local_id, args->peer);
}

void nic_conn_close(struct nic_conn *conn, enum vip_close_reason reason, bool ops_valid,
                    uint32_t ops_done)
{
    struct nic *nic = conn->session->nic;
    struct cm_close_args args = close_args(conn, reason);
    enum nic_conn_state state = conn->state;

    if (conn->session->stays && nic_conn_goes_on(conn)) { /* nic_leave will tell the peer */
        nic_conn_free(conn);
        return;
    }
    args.ops_valid = ops_valid;
    args.ops_done = ops_done;
    if (state == NIC_CONN_REBINDING)
        nic_rebound_tell(conn, "the program gave it up");
    if (state == NIC_CONN_ESTABLISHED)
        nic_close_send(nic, &args);
    nic_conn_free(conn);
    switch (state) {
    case NIC_CONN_REQUESTED:
        (void)cm_request_cancel(nic->cm, args.local_id, nic->now_ns);
        break;
    case NIC_CONN_ACCEPTING: /* no op_accept_done follows; CLOSE tells the client at once */
        cm_close(nic->cm, &args, nic->now_ns);
        break;
    case NIC_CONN_REBINDING:
        (void)cm_rebind_cancel(nic->cm, args.local_id, reason, nic->now_ns);
        break;
    case NIC_CONN_ESTABLISHED:
    case NIC_CONN_FREE:
        break;
    }
}

void nic_conn_broken(struct nic_conn *conn, const struct eng_event *event)
{
    struct nic *nic = conn->session->nic;
    struct cm_close_args args = close_args(conn, event->reason);

    VIP_ASSERT(conn->state == NIC_CONN_ESTABLISHED);
    args.ops_valid = true;
    args.ops_done = event->ops_done;
    args.op_status = event->op_status;
    args.failed_op = event->failed_op;
    nic->counts.conns_broken++;
    nic_close_send(nic, &args);
    nic_conn_free(conn);
}

enum vip_rc nic_vi_sever(struct nic_session *session, uint32_t number, const char *why,
                         uint64_t now_ns)
{
    struct nic_vi *vi = nic_vi_get(session, number);
    struct eng_close close = {.why = why};
    struct cm_close_args args;

    session->nic->now_ns = now_ns; /* nic_begin is too slow: a turn may end many connections */
    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    if (!vi->conn || vi->conn->state != NIC_CONN_ESTABLISHED)
        return VIP_RC_INVALID_STATE;
    nic_session_fetch(session);
    if (!vi->conn || vi->conn->state != NIC_CONN_ESTABLISHED)
        return VIP_RC_INVALID_STATE; /* a fetched posting broke the connection */
    if (!nic_loan_over(vi->conn, &close, false)) {
        vi->conn->loan->tell = true;
        return VIP_RC_SUCCESS;
    }
    args = close_args(vi->conn, VIP_CLOSE_ERROR);
    nic_close_send(session->nic, &args);
    nic_conn_free(vi->conn);
    eng_vi_closed(session->eng, (uint16_t)number, &close, now_ns);
    nic_vi_lost(session, (uint16_t)number, why);
    if (vi->loan_part)
        nic_sends_take(session, (uint16_t)number); /* flushes sends of a loan */
    nic_deferred_publish_of(session, (int32_t)number);
    return VIP_RC_SUCCESS;
}

void nic_conn_lost(struct nic_conn *conn, const struct eng_close *close)
{
    struct nic_session *session = conn->session;
    struct nic *nic = session->nic;
    uint64_t local_id = conn->local_id;
    uint32_t peer = conn->peer;
    uint16_t vi = conn->vi;
    struct nic_session *before;

    VIP_ASSERT(conn->state == NIC_CONN_ESTABLISHED);
    if (!nic_loan_over(conn, close, false))
        return;
    before = nic_share_switch(nic, session);
    nic_session_fetch(session);
    nic_conn_free(conn);
    cm_conn_gone(nic->cm, local_id, peer);
    eng_vi_closed(session->eng, vi, close, nic->now_ns);
    nic_vi_lost(session, vi, close->why);
    if (session->vis[vi].loan_part)
        nic_sends_take(session, vi); /* flushes sends of a loan */
    nic_share_switch(nic, before);
}

void nic_conn_loan_ended(struct nic_conn *conn)
{
    const struct nic_loan *loan = conn->loan;
    struct eng_close close = loan->close; /* the object ends with the connection */
    struct cm_close_args args =
        close_args(conn, close.transport ? VIP_CLOSE_TIMEOUT : VIP_CLOSE_ERROR);

    VIP_ASSERT(loan->closes);
    if (loan->broke) {
        args.reason = loan->broken.reason;
        args.ops_valid = true;
        args.ops_done = loan->broken.ops_done;
        args.op_status = loan->broken.op_status;
        args.failed_op = loan->broken.failed_op;
        conn->session->nic->counts.conns_broken++;
    }
    if (loan->tell)
        cm_close(conn->session->nic->cm, &args, conn->session->nic->now_ns);
    nic_conn_lost(conn, &close);
}

enum vip_rc nic_loan_broken(struct nic_session *session, uint32_t number,
                            const struct nic_loan_broken *broken, uint64_t now_ns)
{
    static const char why[] = "the program's engine broke the connection on loan";
    struct nic_vi *vi = nic_vi_get(session, number);
    struct nic_conn *conn = vi ? vi->conn : NULL;
    const struct eng_close close = {.why = why};

    session->nic->now_ns = now_ns;
    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    if (!conn || conn->state != NIC_CONN_ESTABLISHED)
        return VIP_RC_SUCCESS;
    if (!conn->loan)
        return nic_vi_sever(session, number, why, now_ns);
    conn->loan->broke = conn->loan->tell = true;
    conn->loan->broken = *broken;
    if (nic_loan_over(conn, &close, false))
        nic_conn_loan_ended(conn);
    return VIP_RC_SUCCESS;
}
