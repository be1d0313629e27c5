/*
 * Connections that are bound anew: the peer's vipd has begun another life, or the connection is of
 * an earlier life of this vipd.
 *
 * Owns: what a later life must know of a VI (nic_vi_checkpoint), restoring a VI (nic_vi_restore).
 * Does not own: the exchange with the other end (vipd/engine/cm_rebind.c), the numbers of
 * operations (vipd/engine/rebind.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/engine/mutant.h"
#include "vipd/nic/internal.h"

/* When vipd stops, it waits this often at most for owners that are inside their loans, and each time
 * this long, in us. */
#define HOME_WAITS_MAX 100u
#define HOME_WAIT_US   100u

bool nic_is_self(const struct nic *nic, const struct cm_host *host)
{
    return host->len == nic->self.len && memcmp(host->bytes, nic->self.bytes, host->len) == 0;
}

struct eng_conn nic_conn_bind(struct nic_conn *conn, const struct cm_conn *result)
{
    struct nic *nic = conn->session->nic;
    const struct cm_host *host = cm_peer_host(nic->cm, result->peer);
    struct eng_conn args = {
        .local_id = conn->local_id,
        .remote_id = result->remote_id,
        .local_epoch = nic->config.epoch,
        .remote_epoch = result->remote_epoch,
        .packet_bytes = result->packet_bytes,
        .window_bytes = result->window_bytes,
        .path = conn->index,
        .features = (uint32_t)result->features,
    };

    conn->state = NIC_CONN_ESTABLISHED;
    conn->data_id = conn->local_id;
    conn->remote_id = conn->remote_data_id = result->remote_id;
    conn->remote_epoch = result->remote_epoch;
    conn->secret = result->secret;
    conn->asked = result->asked;
    conn->features = result->features;
    conn->parked = 0;
    conn->since_ns = nic->now_ns;
    conn->to.len = host->len;
    memcpy(conn->to.bytes, host->bytes, sizeof(conn->to.bytes));
    conn->data_to = conn->to;
    conn->loop = !nic->loop_by_link && nic_is_self(nic, host);
    if (conn->loop) {
        args.packet_bytes = VIP_PACKET_BYTES_MAX;
        args.window_bytes = NIC_LOOP_WINDOW;
        args.local = true;
    }
    nic_conn_set_peer(conn, result->peer);
    return args;
}

/* ---- the peer's vipd begins another life -------------------------------------------------- */

void nic_op_away(void *ctx, uint64_t local_id)
{
    struct nic *nic = ctx;
    struct nic_conn *conn = nic_conn_find(nic, local_id);
    struct nic_session *before;

    VIP_ASSERT(conn && conn->state == NIC_CONN_ESTABLISHED);
    before = nic_share_switch(nic, conn->session);
    (void)nic_loan_home(conn);
    eng_vi_pause(conn->session->eng, conn->vi);
    nic_share_switch(nic, before);
}

uint64_t nic_op_other_id(void *ctx, uint64_t local_id)
{
    struct nic_conn *conn = nic_conn_find(ctx, local_id);

    VIP_ASSERT(conn && conn->state == NIC_CONN_ESTABLISHED);
    return nic_conn_id(conn);
}

bool nic_op_rests(void *ctx, uint64_t local_id)
{
    const struct nic *nic = ctx;
    struct nic_conn *conn = nic_conn_find(nic, local_id);

    VIP_ASSERT(conn && conn->state == NIC_CONN_ESTABLISHED);
    /* While the owner is inside its loan, only the program knows how far the connection is. */
    return nic_loan_home(conn);
}

bool nic_op_rebind(void *ctx, uint64_t local_id, const struct cm_conn *result,
                   const struct vip_counts *theirs, struct vip_counts *ours)
{
    struct nic *nic = ctx;
    struct nic_conn *conn = nic_conn_find(nic, local_id);
    struct nic_session *session, *before;
    struct eng_conn args;
    bool good;

    VIP_ASSERT(conn && conn->state == NIC_CONN_ESTABLISHED);
    session = conn->session;
    before = nic_share_switch(nic, session);
    eng_vi_pause(session->eng, conn->vi);
    eng_vi_counts(session->eng, conn->vi, ours);
    conn->local_id = result->local_id;
    args = nic_conn_bind(conn, result);
    good = nic_direct_matches(conn) &&
           eng_vi_rebind(session->eng, conn->vi, &args, theirs, nic->now_ns) == 0;
    conn->rebound += good;
    nic->counts.conns_rebound += good;
    nic_share_switch(nic, before);
    return good;
}

/* ---- a connection of an earlier life ----------------------------------------------------- */

bool nic_vi_identify(const struct nic_session *session, uint32_t number,
                     struct nic_vi_checkpoint *ret)
{
    const struct nic_vi *vi = nic_vi_get(session, number);
    const struct nic_conn *conn = vi ? vi->conn : NULL;

    if (!vi)
        return false;
    *ret = (struct nic_vi_checkpoint){
        .vi = (uint16_t)number,
        .generation = vi->generation,
        .args = {.attrs = vi->attrs,
                 .qos = vi->qos,
                 .ptag = vi->ptag,
                 .send_cq = vi->cq[VIP_Q_SEND],
                 .recv_cq = vi->cq[VIP_Q_RECV]},
    };
    if (!conn || !nic_conn_goes_on(conn))
        return true;
    ret->connected = true;
    ret->peer.len = conn->to.len;
    memcpy(ret->peer.bytes, conn->to.bytes, sizeof(ret->peer.bytes));
    ret->peer_disc_len = conn->remote_disc_len;
    ret->secret = conn->secret;
    ret->asked = conn->asked;
    ret->features = conn->features & ~(uint64_t)VIP_FEATURE_LOAN;
    ret->lends = (conn->features & VIP_FEATURE_LOAN) != 0;
    return true;
}

/*
 * Take the loan of this VI back, if it has one. An owner that is inside leaves soon, so wait a little:
 * any next vipd can then go on with the connection. If the owner stays inside, the program tells the
 * next life how far it came; a vipd that knows no loans cannot ask. All programs of a NIC together
 * can make vipd wait HOME_WAITS_MAX times.
 */
static void loan_home(struct nic_session *session, uint32_t number)
{
    const struct nic_vi *vi = &session->vis[number];
    struct nic *nic = session->nic;

    while (vi->conn && !nic_loan_home(vi->conn) && vi->conn->lent &&
           nic->home_waits < HOME_WAITS_MAX) {
        nic->home_waits++;
        usleep(HOME_WAIT_US);
        nic->now_ns += HOME_WAIT_US * 1000;
        nic->meter.over = false; /* the last turn may have used up its time */
        (void)nic_loans_run(nic);
    }
}

uint32_t nic_session_stay(struct nic_session *session)
{
    uint32_t count = 0;

    VIP_ASSERT(session->layout->outlives);
    nic_deferred_publish_of(session, -1);
    nic_wake_flush(session->nic);
    session->stays = true;
    for (uint32_t i = 0; i < session->vi_high; i++) {
        if (!session->vis[i].used)
            continue;
        loan_home(session, i);
        if (session->vis[i].conn)
            count += nic_conn_goes_on(session->vis[i].conn);
    }
    return count;
}

void nic_session_stay_not(struct nic_session *session)
{
    session->stays = false;
}

void nic_leave(struct nic *nic, uint64_t back_ns, uint64_t now_ns)
{
    cm_leave(nic->cm, back_ns, now_ns);
}

bool nic_vi_checkpoint(struct nic_session *session, uint32_t number, struct nic_vi_checkpoint *ret)
{
    struct vip_counts counts;

    if (nic_vi_get(session, number))
        nic_deferred_publish_of(session, (int32_t)number);
    if (!nic_vi_identify(session, number, ret))
        return false;
    if (!ret->connected)
        return true;
    eng_vi_counts(session->eng, (uint16_t)number, &counts);
    ret->completed = eng_vi_completed(session->eng, (uint16_t)number);
    ret->done = counts.done;
    return true;
}

/* Had the earlier life of vipd begun to end the ring of this VI, at this end or at the other end?
 * Then the connection had ended, too. */
static bool ring_over(const struct vip_vipd_vi *head)
{
    switch (vip_load32_own(&head->ring)) {
    case VIP_RING_NONE:
    case VIP_RING_LOST: /* the lost ring was of an earlier connection */
        return false;
    case VIP_RING_OPEN:
        return (vip_load32_own(&head->ring_mute) & VIP_RING_MUTE_OVER) != 0;
    default:
        return true;
    }
}

/* The program has used its loan up to `at`: count what has completed on loan. Repeating this does no
 * harm, because vipd may be killed between any two stores. */
static void loan_count(struct vip_vipd_vi *head, const struct vip_loan_checkpoint *at)
{
    uint32_t pokes =
        vip_load32_own(&head->prod[VIP_Q_RECV]) - vip_load32_own(&head->commit.received);

    vip_store32_release(&head->prod[VIP_Q_SEND], at->completed - vip_load32_own(&head->send_base));
    vip_store32_release(&head->prod[VIP_Q_RECV], at->received + pokes);
    vip_commit_write(&head->commit,
                     (struct vip_commit){.done = at->done, .received = at->received});
}

/* Does vipd know how far the connection is? If the earlier life had lent it and not taken it back,
 * only the program can say that. Wrong numbers harm its own connection only. */
static bool loan_recover(struct vip_vipd_vi *head, const struct nic_past_loan *told)
{
    const struct vip_loan_checkpoint *lent = &head->loan.checkpoint, *at = &told->at;

    if (!loan_words_out(&head->loan))
        return true;
    if (told->number != vip_load32_own(&head->loan.lent))
        return false;
    if (told->used &&
        ((int32_t)(at->done - lent->done) < 0 || (int32_t)(at->received - lent->received) < 0 ||
         (int32_t)(at->completed - lent->completed) < 0))
        return false;
    if (told->used)
        loan_count(head, at);
    loan_words_revoke(&head->loan);
    loan_words_taken(&head->loan);
    return true;
}

void nic_vi_recover(void *vipd_base, struct nic_vi_checkpoint *past,
                    const struct nic_past_loan *loan)
{
    struct vip_vipd_vi *head = vip_vipd_vi(vipd_base, past->vi);
    bool known = loan_recover(head, loan);
    uint32_t sent = vip_load32_own(&head->prod[VIP_Q_SEND]);
    uint32_t state = vip_load32_own(&head->state);
    struct vip_comps_out sends;

    vip_comps_resume(&sends, vipd_base, past->vi, VIP_Q_SEND, sent);
    past->completed = vip_load32_own(&head->send_base) + vip_comps_shown(&sends, sent);
    if (!VIP_MUTANT(DONE_FORGOTTEN))
        past->done = vip_load32_own(&head->commit.done);
    if (vip_load32_own(&head->ended) || state != VIP_VIST_CONNECTED || ring_over(head) || !known)
        past->connected = false;
    past->lost = !past->connected && (state == VIP_VIST_CONNECTED || state == VIP_VIST_ERROR);
    past->lost_told = state == VIP_VIST_ERROR;
}

/* Make the connection of a restored VI (state REBINDING). NULL: see *ret_rc and why. */
static struct nic_conn *conn_restore(struct nic_session *session,
                                     const struct nic_vi_checkpoint *past, uint64_t now_ns,
                                     enum vip_rc *ret_rc, char *why, size_t why_bytes)
{
    uint64_t ours = nic_features(session->nic);
    uint64_t features = past->features | (past->lends ? ours & VIP_FEATURE_LOAN : 0);
    struct nic_conn *conn;

    *ret_rc = VIP_RC_SUCCESS;
    if ((features & ours) != features) {
        snprintf(why, why_bytes, "this vipd lacks a feature of the connection");
        *ret_rc = VIP_RC_ERROR_NOT_SUPPORTED;
        return NULL;
    }
    conn = nic_conn_new(session, past->vi, NIC_CONN_REBINDING);
    if (!conn) {
        snprintf(why, why_bytes, "no memory for a connection");
        *ret_rc = VIP_RC_ERROR_RESOURCE;
        return NULL;
    }
    conn->to.len = past->peer.len;
    memcpy(conn->to.bytes, past->peer.bytes, sizeof(conn->to.bytes));
    conn->since_ns = now_ns;
    conn->lost_before = past->lost;
    conn->remote_disc_len = past->peer_disc_len;
    conn->secret = past->secret;
    conn->asked = past->asked;
    conn->features = features;
    return conn;
}

/* Restore a VI. ring: does it go on with its ring? */
static enum vip_rc restore(struct nic_session *session, const struct nic_vi_checkpoint *past,
                           bool ring, uint64_t now_ns, char *why, size_t why_bytes)
{
    struct eng_conn args = {.packet_bytes = VIP_PACKET_BYTES_MIN,
                            .window_bytes = VIP_PACKET_BYTES_MIN,
                            .features = (uint32_t)past->features}; /* some postings need one */
    bool lost = past->lost || (past->connected && !ring && nic_direct_was_open(session, past->vi));
    enum vip_rc rc = nic_vi_create_as(session, past, ring, why, why_bytes);
    struct vip_vipd_vi *head;
    struct nic_conn *conn;

    if (rc != VIP_RC_SUCCESS || !(past->connected || lost))
        return rc;
    head = session->vis[past->vi].head;
    conn = conn_restore(session, past, now_ns, &rc, why, why_bytes);
    if (!conn) {
        nic_vi_drop(session, past->vi);
        /* Put back the state of the earlier life, because the program may try again. */
        vip_store32_release(&head->state, past->lost_told ? VIP_VIST_ERROR : VIP_VIST_CONNECTED);
        return rc;
    }
    conn->lost = lost;
    vip_store32_release(&head->ended, lost); /* stored before the state; the next life reads both */
    eng_vi_restore(session->eng, past->vi, &args, past->completed, past->done, now_ns);
    nic_commit_begin(session, past->vi);
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_vi_restore_ring(struct nic_session *session, const struct nic_vi_checkpoint *past,
                                const struct nic_past_ring *told, uint64_t now_ns, char *why,
                                size_t why_bytes)
{
    const char *fault = NULL;
    struct nic_ring *ring = told ? nic_direct_find(session, past, told, &fault) : NULL;
    enum vip_rc rc;

    if (told && !ring) {
        snprintf(why, why_bytes, "%s", fault);
        return VIP_RC_ERROR_NOT_SUPPORTED;
    }
    rc = restore(session, past, ring != NULL, now_ns, why, why_bytes);
    if (ring && rc == VIP_RC_SUCCESS)
        nic_direct_restore(session, past->vi, ring, told);
    else if (ring)
        nic_direct_find_drop(session, ring);
    return rc;
}

enum vip_rc nic_vi_restore(struct nic_session *session, const struct nic_vi_checkpoint *past,
                           uint64_t now_ns, char *why, size_t why_bytes)
{
    return nic_vi_restore_ring(session, past, NULL, now_ns, why, why_bytes);
}

enum vip_rc nic_vi_rebind(struct nic_session *session, uint32_t number, uint64_t timeout_ns,
                          uint64_t now_ns, char *why, size_t why_bytes)
{
    struct nic_vi *vi = nic_vi_get(session, number);
    struct nic_conn *conn = vi ? vi->conn : NULL;
    struct cm_rebind_args args = {.uid = session->uid, .timeout_ns = timeout_ns};
    int rc;

    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    if (!conn || conn->state != NIC_CONN_REBINDING)
        return VIP_RC_INVALID_STATE;
    nic_begin(session, now_ns); /* take the postings that the program has repeated */
    if (conn->lost) {
        nic_op_rebound(session->nic, conn->local_id, VIP_RC_ERROR_RESOURCE, NULL, NULL,
                       vi->ring_fault ? vi->ring_fault
                                      : "vipd has begun anew, and this connection cannot go on");
        return VIP_RC_SUCCESS;
    }
    args.user = args.local_id = conn->local_id;
    args.remote.len = conn->to.len;
    memcpy(args.remote.bytes, conn->to.bytes, sizeof(args.remote.bytes));
    args.secret = conn->secret;
    args.asked = conn->asked;
    args.features = conn->features;
    eng_vi_counts(session->eng, (uint16_t)number, &args.counts);
    rc = cm_rebind(session->nic->cm, &args, now_ns);
    if (rc == 0)
        return VIP_RC_SUCCESS;
    if (rc == -EALREADY)
        return VIP_RC_INVALID_STATE;
    snprintf(why, why_bytes, "%s",
             rc == -EPROTO
                 ? "this vipd lacks a feature of the connection"
                 : "vipd has no memory to go on with this connection, or its user has too "
                   "many attempts under way");
    nic_op_rebound(session->nic, conn->local_id, VIP_RC_ERROR_RESOURCE, NULL, NULL, why);
    return VIP_RC_SUCCESS;
}

void nic_op_rebound(void *ctx, uint64_t local_id, enum vip_rc rc, const struct cm_conn *result,
                    const struct vip_counts *theirs, const char *why)
{
    struct nic *nic = ctx;
    struct nic_conn *conn = nic_conn_find(nic, local_id);
    struct eng_close close = {.why = why, .transport = true};
    struct nic_session *session;
    struct eng_conn args;
    uint16_t vi;

    VIP_ASSERT(conn && conn->state == NIC_CONN_REBINDING); /* nic_conn_close cancels the rebind */
    session = conn->session;
    vi = conn->vi;
    if (rc == VIP_RC_SUCCESS) {
        session->connects--;
        args = nic_conn_bind(conn, result);
        close.why = "the counts of the other end contradict those of this end";
        if (!nic_direct_matches(conn)) {
            close.why = "the other end of the connection did not bring the same ring";
        } else if (eng_vi_rebind(session->eng, vi, &args, theirs, nic->now_ns) == 0) {
            conn->rebound++;
            nic->counts.conns_rebound++;
            nic_rebound_tell(conn, NULL);
            nic_direct_ask_again(session, vi);
            return;
        }
        nic_close_send(nic, &(struct cm_close_args){.local_id = conn->local_id,
                                                    .remote_id = conn->remote_id,
                                                    .peer = conn->peer,
                                                    .reason = VIP_CLOSE_ERROR});
    }
    nic_rebound_tell(conn, close.why);
    nic_conn_free(conn);
    eng_vi_closed(session->eng, vi, &close, nic->now_ns);
    nic_vi_lost(session, vi, close.why);
}
