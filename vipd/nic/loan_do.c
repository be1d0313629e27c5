/*
 * The actions of a loan (enum loan_do): what vipd does with the engine of a connection that moves,
 * and what both ends tell each other.
 *
 * A stay of the engine in vipd, and a loan, are both a binding of the connection, with data ids of
 * its own. While a loan is out (nic_conn.lent), vipd's engine of the VI is paused. If the owner has
 * used the loan, this engine is out of date: vipd then makes it anew from the owner's checkpoint and
 * the VI's table of sends.
 *
 * Owns: the actions, and the terms of a binding. Does not own: when they are due (loan.c), the table
 * of sends (sends.c), the socket (loan_sock.c).
 */
#include <string.h>

#include "proto/fence.h"
#include "vipd/nic/internal.h"

/* ---- bindings -------------------------------------------------------------------------- */

/* The terms of this end for the newest number. */
static void terms_make(const struct nic_loan *loan, struct cm_loan_terms *ret)
{
    const struct nic_conn *conn = loan->conn;
    const struct link *link = loan->nic->link;

    *ret = (struct cm_loan_terms){.number = loan_number(loan->machine),
                                  .data_id = nic_conn_id(conn),
                                  .out = loan_is_out(loan->machine),
                                  .packet_bytes = link->packet_bytes,
                                  .window_bytes = link->window_bytes};
    if (ret->out) {
        ret->host = loan->host;
        ret->window_bytes = nic_loan_window(loan, link->packet_bytes);
    }
    eng_vi_counts(conn->session->eng, conn->vi, &ret->counts);
}

/* Give the connection the data ids and the address of a new binding. Returns the arguments for the
 * engine. */
static struct eng_conn bind_anew(struct nic_loan *loan, const struct cm_loan_terms *ours)
{
    const struct cm_loan_terms *theirs = &loan->theirs;
    struct nic_conn *conn = loan->conn;
    struct nic *nic = loan->nic;
    uint32_t packet_bytes = nic->link->packet_bytes;
    struct eng_vi_stats before;

    /* The first packets of a binding may come before the other end has its engine. */
    eng_vi_stats(conn->session->eng, conn->vi, &before);
    if (before.srtt_ns > 0)
        loan->rtt_ns = before.srtt_ns;
    conn->data_id = ours->data_id;
    conn->remote_data_id = theirs->data_id;
    conn->data_to = conn->to;
    if (theirs->out)
        memcpy(conn->data_to.bytes, theirs->host.bytes, sizeof(conn->data_to.bytes));
    conn->parked = 0; /* parked packets of the old binding do not find the connection any more */
    cm_loan_data_id(nic->cm, conn->local_id, theirs->data_id);
    return (struct eng_conn){
        .local_id = conn->data_id,
        .remote_id = conn->remote_data_id,
        .local_epoch = nic->config.epoch,
        .remote_epoch = conn->remote_epoch,
        .packet_bytes = theirs->packet_bytes < packet_bytes ? theirs->packet_bytes : packet_bytes,
        .window_bytes = theirs->window_bytes,
        .path = conn->index,
        .features = (uint32_t)conn->features,
        .rtt_ns = loan->rtt_ns,
    };
}

/* ---- actions --------------------------------------------------------------------------- */

/* Is a loan of this connection out? If it is over, the program must learn this, because it may sleep
 * until packets come. */
static void lent_set(struct nic_conn *conn, bool lent)
{
    struct nic_session *session = conn->session;
    bool over = conn->lent && !lent;

    session->loans_out += lent;
    session->loans_out -= conn->lent;
    conn->lent = lent;
    if (over)
        session->sink->lent_over(session->ctx, conn->vi, session->vis[conn->vi].generation);
}

/*
 * The owner has used the loan: make the engine of the VI anew. vipd drops what the old engine has
 * in its queues; all of it is also in the tables of sends and receives.
 */
static void engine_again(struct nic_loan *loan, const struct vip_loan_checkpoint *past)
{
    struct nic_conn *conn = loan->conn;
    struct nic_session *session = conn->session;
    const struct vip_loan_checkpoint *lent = &nic_loan_words(loan)->checkpoint;
    struct nic_vi *vi = nic_loan_vi(loan);
    struct eng_conn args = {.packet_bytes = VIP_PACKET_BYTES_MIN,
                            .window_bytes = VIP_PACKET_BYTES_MIN,
                            .features = (uint32_t)conn->features}; /* some sends need one */

    nic_vi_engine_again(session, conn->vi);
    vi->recv_next = past->received + loan->receive;
    eng_vi_restore(session->eng, conn->vi, &args, past->completed, past->done, loan->nic->now_ns);
    nic_completed_elsewhere(session, conn->vi, past->completed - lent->completed,
                            past->received - lent->received);
}

/* The loan is over, and the owner is outside. Returns whether its checkpoint is possible. */
static bool take(struct nic_loan *loan)
{
    struct nic_session *session = loan->conn->session;
    uint16_t number = loan->conn->vi;
    struct nic_vi *vi = nic_loan_vi(loan);
    struct vip_loan_checkpoint app, past;
    struct loan_posted posted;
    bool used;

    /* First take the sends that the program posted to the submission ring before the loan. */
    nic_begin(session, loan->nic->now_ns);
    nic_deferred_publish_of(session, number);
    posted.sends = nic_sends_posted(session, number);
    vip_fetch_begin();
    posted.receives =
        vip_load32_acquire(&vip_recv_head(session->recv_base, number)->posted) - loan->receive;
    vip_fetch_end();
    used = loan_words_checkpoint(&vi->loan_part->owner, nic_loan_words(loan)->lent, &app);
    if (loan_take(loan->machine, &posted, &past) != 0)
        return false;
    if (used)
        engine_again(loan, &past);
    lent_set(loan->conn, false);
    nic_sends_take(session, number);
    loan_taken(loan->machine);
    vip_fence_sleep();
    nic_sends_take(session, number); /* a send that the program posted before it saw `taken` */
    return true;
}

static void answer(struct nic_loan *loan)
{
    terms_make(loan, &loan->answer);
    loan->answers = loan->theirs.number;
    (void)cm_loan_agree(loan->nic->cm, loan->conn->local_id, loan->answers, &loan->answer,
                        loan->nic->now_ns);
}

/* A repetition of an offer has the same terms. */
static void offer(struct nic_loan *loan)
{
    if (loan->offer.number != loan_number(loan->machine))
        terms_make(loan, &loan->offer);
    (void)cm_loan_offer(loan->nic->cm, loan->conn->local_id, &loan->offer, loan->nic->now_ns);
}

/* The engine goes on in vipd. Returns whether the peer's counts are possible. */
static bool go_on(struct nic_loan *loan, const struct cm_loan_terms *ours)
{
    struct nic_conn *conn = loan->conn;
    struct eng_conn args = bind_anew(loan, ours);

    return eng_vi_rebind(conn->session->eng, conn->vi, &args, &loan->theirs.counts,
                         loan->nic->now_ns) == 0;
}

/* Number of the VI's next receive descriptor in its table that has not completed. */
static uint32_t next_receive(const struct nic_loan *loan, const struct eng_vi_stats *stats)
{
    return nic_loan_vi(loan)->recv_next - stats->recv_depth;
}

/* Count a loan and its end. */
static void moves_count(struct nic_user *user, uint64_t now_ns)
{
    if (now_ns - user->moves_ns >= NIC_SECOND_NS) {
        user->moves_ns = now_ns;
        user->moves = 0;
    }
    user->moves += 2;
}

static void lend(struct nic_loan *loan, const struct cm_loan_terms *ours)
{
    struct nic_conn *conn = loan->conn;
    struct nic_session *session = conn->session;
    const struct nic_vi *vi = nic_loan_vi(loan);
    struct nic_loan_terms terms = {.vi = conn->vi,
                                   .generation = vi->generation,
                                   .number = loan_number(loan->machine),
                                   .conn = bind_anew(loan, ours),
                                   .peer = loan->theirs.counts,
                                   .engine = &loan->nic->config.engine};
    struct eng_vi_stats stats;
    bool owes;

    terms.to = conn->data_to;
    nic_session_fetch(session);
    nic_deferred_publish_of(session, conn->vi);
    eng_vi_stats(session->eng, conn->vi, &stats);
    terms.receive = next_receive(loan, &stats);
    loan->receive = terms.receive - vi->position[VIP_Q_RECV];
    terms.checkpoint =
        (struct vip_loan_checkpoint){.done = eng_vi_done(session->eng, conn->vi),
                                     .received = vi->position[VIP_Q_RECV],
                                     .completed = eng_vi_completed(session->eng, conn->vi)};
    owes = stats.send_depth > 0 || terms.peer.reads > 0;
    lent_set(conn, true);
    moves_count(session->user, loan->nic->now_ns);
    loan->nic->counts.loans_lent++;
    loan->seen.lent++;
    conn->not_lent = NULL;
    /* When the program has the terms, it can enter. */
    loan_lend(loan->machine, &terms.checkpoint, owes ? loan->nic->now_ns : 0);
    session->sink->lent(session->ctx, &terms);
}

/* The program's words, or the peer's counts, contradict what vipd knows: the connection ends. */
static void contradiction(struct nic_loan *loan, const char *why)
{
    loan->closes = true;
    loan->close = (struct eng_close){.why = why};
    loan->tell = true;
    /* The checkpoint is still not possible, so the other actions do not matter. */
    if (loan_over(loan->machine, loan->nic->now_ns) & LOAN_DO_SHUT)
        nic_loan_shut(loan);
}

void nic_loan_closes(struct nic_loan *loan)
{
    /* An owner that is still inside has left a checkpoint at the end of its last stay. From there on
     * vipd flushes. What the owner completes later in this stay comes once more as flushed. */
    if (loan->conn->lent && (loan_why_ended(loan->machine) != LOAN_END_INSIDE || !take(loan)))
        loan_taken(loan->machine); /* vipd does not have the checkpoint, and will never want it */
    lent_set(loan->conn, false);
    if (loan->closes)
        return;
    loan->closes = loan->tell = true;
    loan->close.transport = loan_why_ended(loan->machine) == LOAN_END_SILENT;
    loan->close.why = loan->close.transport
                          ? "the peer did not answer the request to move the connection"
                          : "the program did not leave its loan";
}

void nic_loan_do(struct nic_loan *loan, uint32_t actions)
{
    const struct cm_loan_terms *ours = actions & LOAN_DO_ANSWER ? &loan->answer : &loan->offer;

    if (actions & (LOAN_DO_WATCH | LOAN_DO_UNWATCH))
        loan->watched = (actions & LOAN_DO_WATCH) != 0;
    if (actions & LOAN_DO_SHUT)
        nic_loan_shut(loan);
    if (actions & LOAN_DO_TAKE && !take(loan)) {
        contradiction(loan, "the checkpoint of the program's loan is not possible");
        return;
    }
    if (loan_state(loan->machine) == LOAN_ENDED)
        return;
    if (actions & LOAN_DO_PAUSE)
        eng_vi_pause(loan->conn->session->eng, loan->conn->vi);
    if (actions & LOAN_DO_ANSWER)
        answer(loan);
    if (actions & LOAN_DO_GO_ON && !go_on(loan, ours)) {
        contradiction(loan, "the counts of the other end contradict those of this end");
        return;
    }
    if (actions & LOAN_DO_LEND)
        lend(loan, ours);
    if (actions & LOAN_DO_OFFER)
        offer(loan);
    /* LOAN_DO_PROBE: the program sends the probe, which it has got from nic_loan_ask. */
}
