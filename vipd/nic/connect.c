/*
 * Connections: calls between sessions, the connection manager and the engine.
 *
 * Owns: the beginning of connections; the functions that the connection manager calls. Does not
 * own: the end of connections (conn_end.c), connections of an earlier life (rebind.c), requests
 * that come in (wait.c), the exchange between daemons (vipd/engine/cm.c), connection ids (conn.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"
#include "vipd/nic/objects.h"

static struct vip_cm_attrs attrs_of(const struct nic_vi *vi)
{
    return (struct vip_cm_attrs){.level = vi->attrs.level,
                                 .rdma_write = vi->attrs.enable_rdma_write,
                                 .rdma_read = vi->attrs.enable_rdma_read,
                                 .max_transfer_bytes = vi->attrs.max_transfer_bytes,
                                 .qos = vi->qos};
}

/* Both sides agree: the VI is connected. */
static void conn_establish(struct nic_conn *conn, const struct cm_conn *result)
{
    struct nic_session *session = conn->session;
    struct nic *nic = session->nic;
    struct eng_conn args = nic_conn_bind(conn, result);

    session->connects--;
    session->meets -= conn->waits;
    session->vis[conn->vi].lost_told = false;
    nic->counts.conns_opened++;
    session->vis[conn->vi].head->features = args.features;
    nic_loan_begin(conn);
    eng_vi_connect(session->eng, conn->vi, &args, nic->now_ns);
    nic_commit_begin(session, conn->vi);
    vip_store32_release(&session->vis[conn->vi].head->ended, 0);
    if (conn->loop)
        nic_direct_begin(conn);
}

static void result_tell(struct nic_session *session, uint16_t vi, enum vip_rc rc,
                        const struct vip_cm_attrs *attrs, const struct vip_private *data,
                        const char *why)
{
    if (!session->closing)
        session->sink->result(session->ctx, vi, session->vis[vi].generation, rc,
                              rc == VIP_RC_SUCCESS ? attrs : NULL, data, why ? why : "");
}

/* cm_request or cm_accept has ended. Its argument `user` was the connection's local_id. */
static void conn_done(struct nic *nic, uint64_t local_id, enum nic_conn_state expected,
                      enum vip_rc rc, const struct cm_conn *result, const struct vip_private *data,
                      const char *why)
{
    struct nic_conn *conn = nic_conn_find(nic, local_id);
    struct nic_session *session;
    uint16_t vi;

    if (!conn || conn->state != expected) {
        /* The VI was disconnected or destroyed: tell the peer that the connection is closed. */
        if (rc == VIP_RC_SUCCESS) {
            struct cm_close_args args = {.local_id = local_id,
                                         .remote_id = result->remote_id,
                                         .peer = result->peer,
                                         .reason = VIP_CLOSE_DISCONNECT};

            nic_close_send(nic, &args);
        }
        return;
    }
    session = conn->session;
    vi = conn->vi;
    if (rc == VIP_RC_SUCCESS) {
        conn_establish(conn, result);
    } else {
        nic_conn_free(conn);
        if (expected == NIC_CONN_REQUESTED)
            eng_vi_set_idle(session->eng, vi);
    }
    result_tell(session, vi, rc, rc == VIP_RC_SUCCESS ? &result->attrs : NULL, data, why);
}

static enum vip_rc refuse(char *why, size_t why_bytes, enum vip_rc rc, const char *text)
{
    snprintf(why, why_bytes, "%s", text);
    return rc;
}

/* May this VI begin a connection? */
static bool vi_free(const struct nic_session *session, const struct nic_vi *vi)
{
    uint16_t number = (uint16_t)(vi - session->vis);

    return !vi->conn && eng_vi_state(session->eng, number) == VIP_VIST_IDLE;
}

/* Compare the attributes that must agree on both sides (spec 3.11). */
static enum vip_rc compare(const struct nic_vi *vi, const struct vip_cm_attrs *theirs, char *why,
                           size_t why_bytes)
{
    if (theirs->level != vi->attrs.level)
        return refuse(why, why_bytes, VIP_RC_INVALID_RELIABILITY_LEVEL,
                      "the reliability levels of VI and request differ");
    if (theirs->max_transfer_bytes != vi->attrs.max_transfer_bytes)
        return refuse(why, why_bytes, VIP_RC_INVALID_MTU,
                      "the MaxTransferSizes of VI and request differ");
    if (theirs->qos != vi->qos)
        return refuse(why, why_bytes, VIP_RC_INVALID_QOS, "the QoS of VI and request differ");
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_accept(struct nic_session *session, uint64_t conn_handle, uint32_t number,
                       const struct vip_private *data, uint64_t now_ns, char *why, size_t why_bytes)
{
    struct nic *nic = session->nic;
    struct nic_waiter *wait = nic_waiter_of_handle(session, conn_handle);
    struct nic_vi *vi = nic_vi_get(session, number);
    const struct vip_cm_attrs *theirs;
    struct vip_cm_attrs ours;
    struct nic_conn *conn;
    enum vip_rc rc;
    int rc_cm;

    if (!wait)
        return refuse(why, why_bytes, VIP_RC_INVALID_PARAMETER, "no such connection request");
    if (!vi)
        return refuse(why, why_bytes, VIP_RC_INVALID_PARAMETER, "no such VI");
    nic_begin(session, now_ns);
    if (!vi_free(session, vi))
        return refuse(why, why_bytes, VIP_RC_INVALID_STATE, "the VI is not Idle");
    theirs = cm_pending_attrs(nic->cm, conn_handle);
    if (theirs) {
        rc = compare(vi, theirs, why, why_bytes);
        if (rc != VIP_RC_SUCCESS)
            return rc;
    }
    conn = nic_conn_new(session, (uint16_t)number, NIC_CONN_ACCEPTING);
    if (!conn)
        return refuse(why, why_bytes, VIP_RC_ERROR_RESOURCE, "no memory for a connection");
    conn->remote_disc_len = wait->remote_disc_len;
    ours = attrs_of(vi);
    nic_waiter_remove(session, wait);
    rc_cm = cm_accept(nic->cm, conn_handle, conn->local_id, &ours, data, conn->local_id, now_ns);
    if (rc_cm < 0) {
        nic_conn_free(conn);
        return refuse(why, why_bytes, VIP_RC_TIMEOUT, "the client has given up meanwhile");
    }
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_reject(struct nic_session *session, uint64_t conn_handle,
                       const struct vip_private *data, uint64_t now_ns)
{
    struct nic_waiter *wait = nic_waiter_of_handle(session, conn_handle);

    session->nic->now_ns = now_ns;
    if (!wait)
        return VIP_RC_INVALID_PARAMETER;
    nic_waiter_remove(session, wait);
    (void)cm_reject(session->nic->cm, conn_handle, VIP_RC_REJECT, data, now_ns);
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_connect(struct nic_session *session, uint32_t number,
                        const struct nic_connect_args *wanted, uint64_t now_ns, char *why,
                        size_t why_bytes)
{
    struct nic *nic = session->nic;
    struct nic_vi *vi = nic_vi_get(session, number);
    struct cm_request_args args = {.timeout_ns = wanted->timeout_ns,
                                   .uid = session->uid,
                                   .peer_to_peer = wanted->peer_to_peer,
                                   .local = wanted->local,
                                   .remote = wanted->remote,
                                   .data = wanted->data};
    struct nic_conn *conn;
    uint64_t local_id;
    int rc;

    if (!vi)
        return refuse(why, why_bytes, VIP_RC_INVALID_PARAMETER, "no such VI");
    if (args.remote.host_len != nic->self.len)
        return refuse(why, why_bytes, VIP_RC_INVALID_PARAMETER,
                      "the host part of the remote address has not the length of this NIC's");
    nic_begin(session, now_ns);
    if (!vi_free(session, vi))
        return refuse(why, why_bytes, VIP_RC_INVALID_STATE, "the VI is not Idle");
    conn = nic_conn_new(session, (uint16_t)number, NIC_CONN_REQUESTED);
    if (!conn)
        return refuse(why, why_bytes, VIP_RC_ERROR_RESOURCE, "no memory for a connection");

    /* Programs leave the host part of their own address unset (spec 3.11). */
    args.local.host_len = nic->self.len;
    memcpy(args.local.host, nic->self.bytes, sizeof(args.local.host));
    /* Old programs name the server's discriminator as their own discriminator. If it belongs to
     * another user, send no discriminator, because the program cannot be reached there. */
    if (!args.peer_to_peer && args.local.disc_len <= sizeof(args.local.disc) &&
        cm_disc_of_other(nic->cm, args.local.disc, args.local.disc_len, session->uid, now_ns))
        args.local.disc_len = 0;
    args.attrs = attrs_of(vi);
    args.user = args.local_id = local_id = conn->local_id;
    conn->remote_disc_len = args.remote.disc_len;
    conn->waits = args.peer_to_peer;
    session->meets += conn->waits;
    eng_vi_set_pending(session->eng, (uint16_t)number);
    rc = cm_request(nic->cm, &args, now_ns);
    if (rc < 0) {
        nic_conn_free(nic_conn_find(nic, local_id));
        eng_vi_set_idle(session->eng, (uint16_t)number);
        return refuse(why, why_bytes,
                      rc == -EINVAL ? VIP_RC_INVALID_PARAMETER : VIP_RC_ERROR_RESOURCE,
                      rc == -EINVAL  ? "an address has parts of impossible length"
                      : rc == -EPERM ? NIC_WHY_OWNER
                                     : "no memory for a connection request");
    }
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_connect_cancel(struct nic_session *session, uint32_t number, uint64_t now_ns)
{
    struct nic *nic = session->nic;
    struct nic_vi *vi = nic_vi_get(session, number);

    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    nic_begin(session, now_ns);
    if (!vi->conn || vi->conn->state != NIC_CONN_REQUESTED ||
        !cm_request_cancel(nic->cm, vi->conn->local_id, now_ns))
        return VIP_RC_INVALID_STATE;
    nic_conn_free(vi->conn);
    eng_vi_set_idle(session->eng, (uint16_t)number);
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_vi_disconnect(struct nic_session *session, uint32_t number, uint64_t now_ns)
{
    struct nic_vi *vi = nic_vi_get(session, number);
    uint32_t ops_done = 0;

    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    nic_begin(session, now_ns);
    if (vi->conn)
        (void)nic_loan_over(vi->conn, NULL, false);
    eng_vi_disconnect(session->eng, (uint16_t)number, &ops_done);
    nic_direct_asked(vi); /* the program's requests were for this connection only */
    if (vi->conn) {
        bool connected = vi->conn->state == NIC_CONN_ESTABLISHED;
        bool asked = !connected && vi->conn->state != NIC_CONN_REBINDING;

        nic_conn_close(vi->conn, VIP_CLOSE_DISCONNECT, connected, ops_done);
        /* Another thread may be waiting for the result of the attempt. */
        if (asked)
            result_tell(session, (uint16_t)number, VIP_RC_INVALID_STATE, NULL, NULL,
                        "the attempt was cancelled by VipDisconnect");
    }
    nic_deferred_publish_of(session, (int32_t)number);
    return VIP_RC_SUCCESS;
}

/* ---- operations of the connection manager ---------------------------------------------- */

#define NO_USER UINT32_MAX /* no user has this number */

/*
 * The user for whom a CM message of this NIC to itself counts. Messages of both sides of an attempt
 * count for the user that asks for the connection. Messages of a connection count for the user that
 * has it. Other messages (answers to CLOSE, repeated CLOSE; few in a turn) count for NO_USER.
 */
static uint32_t loop_uid(const struct nic *nic, const uint8_t *packet, size_t len_bytes)
{
    const struct nic_conn *conn;
    struct vip_cm msg;
    uint32_t uid;

    if (vip_wire_get_cm(packet, len_bytes, &msg) != VIP_WIRE_OK)
        return NO_USER;
    if (cm_asker(nic->cm, msg.request_id, &uid))
        return uid;
    conn = nic_conn_find(nic, msg.conn_id);
    if (!conn)
        conn = nic_conn_find(nic, msg.peer_conn_id);
    return conn ? conn->session->uid : NO_USER;
}

/* Keep a CM message to this NIC itself until the next turn. false: no room left for its user. */
static bool loop_send(struct nic *nic, const uint8_t *packet, size_t len_bytes)
{
    uint32_t at = (nic->cm_loop_head + nic->cm_loop_count) % NIC_CM_LOOP_MAX;
    struct nic_pool pool = {.used = nic->cm_loop_count,
                            .max = NIC_CM_LOOP_MAX,
                            .small = NIC_CM_LOOP_SMALL,
                            .reserve = NIC_CM_LOOP_RESERVE,
                            .times = 2};
    uint32_t uid = loop_uid(nic, packet, len_bytes);

    VIP_ASSERT(len_bytes <= VIP_WIRE_CM_BYTES_MAX);
    for (uint32_t i = 0; i < nic->cm_loop_count; i++)
        pool.have += nic->cm_loop_uid[(nic->cm_loop_head + i) % NIC_CM_LOOP_MAX] == uid;
    if (!nic_pool_room(&pool, 1))
        return false;
    nic->cm_loop[at].len = (uint16_t)len_bytes;
    memcpy(nic->cm_loop[at].bytes, packet, len_bytes);
    nic->cm_loop_uid[at] = uid;
    nic->cm_loop_count++;
    return true;
}

static void op_send(void *ctx, const struct cm_host *to, const uint8_t *packet, size_t len_bytes)
{
    struct nic *nic = ctx;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)packet, .iov_len = len_bytes};
    struct link_addr addr = {.len = to->len};
    struct link_tx tx = {.to = &addr, .iov = &iov, .iov_count = 1, .bytes = (uint32_t)len_bytes};

    nic->counts.tx_cm++;
    if (!nic->loop_by_link && nic_is_self(nic, to)) {
        if (!loop_send(nic, packet, len_bytes))
            nic->counts.loop_cm_lost++; /* the connection manager repeats important messages */
        return;
    }
    memcpy(addr.bytes, to->bytes, sizeof(addr.bytes));
    if (nic->see)
        nic->see(nic->see_ctx, &(struct nic_seen){.kind = VIP_CAPTURE_SENT,
                                                  .peer = &addr,
                                                  .iov = &iov,
                                                  .iov_count = 1,
                                                  .bytes = (uint32_t)len_bytes});
    if (nic->link->class->send(nic->link, &tx, 1, nic->now_ns) != 1)
        nic->counts.tx_cm_lost++;
}

/* Process the CM packets of this NIC to itself. They have waited for this turn, so that the
 * connection manager is not entered while it runs. */
bool nic_cm_loop_run(struct nic *nic)
{
    uint32_t count = nic->cm_loop_count;

    for (uint32_t i = 0; i < count && !nic->meter.over; i++) {
        uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
        uint16_t len = nic->cm_loop[nic->cm_loop_head].len;

        memcpy(packet, nic->cm_loop[nic->cm_loop_head].bytes, len);
        nic->cm_loop_head = (nic->cm_loop_head + 1) % NIC_CM_LOOP_MAX;
        nic->cm_loop_count--;
        nic->counts.loop_cm++;
        nic_share_switch(nic, NULL);
        cm_rx(nic->cm, &nic->self, packet, len, nic->now_ns);
        nic_share_worked(nic, NIC_CM_UNITS);
    }
    return count > 0;
}

static void op_request_done(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                            const struct vip_private *data, const char *why)
{
    conn_done(ctx, user, NIC_CONN_REQUESTED, rc, conn, data, why);
}

static void op_accept_done(void *ctx, uint64_t user, enum vip_rc rc, const struct cm_conn *conn,
                           const char *why)
{
    conn_done(ctx, user, NIC_CONN_ACCEPTING, rc, conn, NULL, why);
}

static void op_renew(void *ctx, uint64_t *user, uint64_t *local_id)
{
    struct nic_conn *conn = nic_conn_find(ctx, *local_id);

    VIP_ASSERT(conn && conn->state == NIC_CONN_REQUESTED && *user == *local_id);
    nic_conn_renew(conn);
    *user = *local_id = conn->local_id;
}

/* The error that the other end reports, as a sentence. */
static const char *error_of(uint32_t op_status)
{
    switch (op_status) {
    case VIP_ST_REMOTE_DESC_ERROR:
        return "the receive of the other end was missing, too short or faulty";
    case VIP_ST_RDMA_PROT_ERROR:
        return "the other end does not allow an RDMA operation of this side to its memory";
    }
    return "an error at the other end broke the connection";
}

static void op_closed(void *ctx, uint64_t local_conn_id, const struct vip_cm *msg)
{
    struct nic_conn *conn = nic_conn_find(ctx, local_conn_id);
    struct eng_close close = {.ops_valid = msg->ops_valid,
                              .ops_done = msg->ops_done,
                              .op_status = msg->op_status,
                              .failed_op = msg->failed_op};

    switch ((enum vip_close_reason)msg->reason) {
    case VIP_CLOSE_DISCONNECT:
        close.why = "the peer disconnected";
        break;
    case VIP_CLOSE_DEATH:
        close.why = "the application at the other end is gone";
        break;
    case VIP_CLOSE_ERROR:
        close.why = error_of(msg->op_status);
        break;
    case VIP_CLOSE_TIMEOUT:
        close.why = "the peer got no answer from here for too long";
        close.transport = true;
        break;
    case VIP_CLOSE_SHUTDOWN:
        close.why = "vipd at the other end stops";
        break;
    }
    if (conn && conn->state == NIC_CONN_ESTABLISHED)
        nic_conn_lost(conn, &close);
}

static void op_lost(void *ctx, uint64_t local_conn_id, const char *why)
{
    struct nic_conn *conn = nic_conn_find(ctx, local_conn_id);
    struct eng_close close = {.why = why, .transport = true};

    if (conn && conn->state == NIC_CONN_ESTABLISHED)
        nic_conn_lost(conn, &close);
}

static void op_reset(void *ctx, uint64_t local_conn_id, uint32_t peer)
{
    struct nic_conn *conn = nic_conn_find(ctx, local_conn_id);
    struct eng_close close = {.why = "the other end does not know this connection"};

    if (conn && conn->state == NIC_CONN_ESTABLISHED && conn->peer == peer)
        nic_conn_lost(conn, &close);
}

static void *op_alloc(void *ctx, size_t bytes)
{
    struct nic *nic = ctx;
    void *memory = calloc(1, bytes);

    if (memory)
        nic->cm_bytes += bytes;
    return memory;
}

static void op_free(void *ctx, void *memory, size_t bytes)
{
    struct nic *nic = ctx;

    VIP_ASSERT(nic->cm_bytes >= bytes);
    nic->cm_bytes -= bytes;
    free(memory);
}

static void op_owned(void *ctx, uint32_t *record, uint32_t uid, const uint8_t *disc, uint8_t len)
{
    const struct nic *nic = ctx;

    if (nic->config.owners)
        nic->config.owners->owned(nic->config.owners_ctx, nic->name, record, uid, disc, len);
}

/* While vipd stops, the records of owners stay: the next vipd needs the present owners. */
static void op_disowned(void *ctx, uint32_t record)
{
    const struct nic *nic = ctx;

    if (nic->config.owners && !nic->stopping)
        nic->config.owners->disowned(nic->config.owners_ctx, record);
}

int nic_disc_keep(struct nic *nic, const uint8_t *disc, uint8_t len, uint32_t uid,
                  uint64_t until_ns, uint64_t now_ns)
{
    return cm_disc_keep(nic->cm, disc, len, uid, until_ns, now_ns);
}

const struct cm_ops nic_cm_ops = {
    .send = op_send,
    .incoming = nic_op_incoming,
    .request_done = op_request_done,
    .accept_done = op_accept_done,
    .closed = op_closed,
    .lost = op_lost,
    .reset = op_reset,
    .renew = op_renew,
    .alloc = op_alloc,
    .free = op_free,
    .away = nic_op_away,
    .other_id = nic_op_other_id,
    .rests = nic_op_rests,
    .rebind = nic_op_rebind,
    .rebound = nic_op_rebound,
    .owned = op_owned,
    .disowned = op_disowned,
    .loan_offered = nic_op_loan_offered,
    .loan_agreed = nic_op_loan_agreed,
};
