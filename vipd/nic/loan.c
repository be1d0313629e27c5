/*
 * Loans: vipd's host of the state machine of vipd/engine/loan.c. It tells the state machine what
 * happens to each connection that its program wants to run itself, and to each connection whose
 * peer moves; loan_do.c does the actions that follow.
 *
 * Owns: which inputs the state machine gets, requests of programs. Does not own: states and numbers
 * (vipd/engine/loan.c), the socket (loan_sock.c), the table of sends (sends.c), the end of a
 * connection (conn_end.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "proto/assert.h"
#include "proto/fence.h"
#include "vipd/nic/internal.h"

#define LOOK_SOCKETS  16 /* most sockets that one turn looks at */
#define PROBE_ANSWERS 4  /* most packets that one look reads from a socket */

/* Begin at home, with the numbers in vipd's words. */
static void machine_begin(struct nic_loan *loan)
{
    static const struct vip_loan_owner no_owner;
    const struct vip_loan_part *part = nic_loan_vi(loan)->loan_part;
    const struct nic_config *nic = &loan->nic->config;
    struct loan_config config = {.first = loan->conn->asked,
                                 .conn_timeout_ns = nic->engine.conn_timeout_ns,
                                 .moves_ns = LOAN_MOVES_NS};
    struct vip_loan_vipd *words = nic_loan_words(loan);

    if (nic->loan_moves > 0)
        config.moves_ns = LOAN_MOVES_MAX * NIC_SECOND_NS / nic->loan_moves;
    /* Without an earlier move, both ends have number 1. */
    if (words->number == 0 || words->peer == 0)
        loan_words_number(words, 1, 1);
    loan->machine = loan_init(loan + 1, &config, words, part ? &part->owner : &no_owner);
    loan->state = LOAN_HOME;
    loan->offer.number = loan->answer.number = loan->answers = 0;
}

/* The loan object of a connection; NULL: no memory. */
static struct nic_loan *loan_of(struct nic_conn *conn)
{
    struct nic_loan *loan = conn->loan;

    if (loan)
        return loan;
    loan = calloc(1, sizeof(*loan) + loan_bytes());
    if (!loan)
        return NULL;
    loan->nic = conn->session->nic;
    loan->conn = conn;
    loan->sock = -1;
    nic_list_init(&loan->link);
    conn->loan = loan;
    machine_begin(loan);
    return loan;
}

void nic_loan_begin(struct nic_conn *conn)
{
    struct nic_session *session = conn->session;

    nic_sends_end(session, conn->vi);
    if (!session->layout->long_only)
        session->vis[conn->vi].head->loan = (struct vip_loan_vipd){0};
}

/* Put the loan into the list of loans with timers, which begins with the earliest one. Most timers
 * are later than all others, so look from the end. */
static void due_set(struct nic_loan *loan, uint64_t due_ns)
{
    struct nic_list *before;

    nic_list_del(&loan->link);
    loan->due_ns = due_ns;
    if (due_ns == LOAN_NEVER)
        return;
    before = loan->nic->loans.prev;
    while (before != &loan->nic->loans && NIC_ITEM(before, struct nic_loan, link)->due_ns > due_ns)
        before = before->prev;
    nic_list_add_tail(before->next, &loan->link);
}

/* After an input: which sockets and timers does vipd look at from now on? */
static void settle(struct nic_loan *loan)
{
    enum loan_state state = loan_state(loan->machine);

    loan->state = state;
    if (loan->sock >= 0)
        nic_loan_hear(loan, state == LOAN_ASKED || loan->watched);
    due_set(loan, state == LOAN_ENDED ? 0 : loan_deadline(loan->machine));
    loan->nic->loans_over |= state == LOAN_ENDED;
}

static void back_count(struct nic_loan *loan)
{
    struct nic_counts *counts = &loan->nic->counts;
    struct nic_loan_view *seen = &loan->seen;

    switch (loan_why_back(loan->machine)) {
    case LOAN_BACK_DATA:
        counts->loans_back_data++;
        seen->data++;
        break;
    case LOAN_BACK_TIMER:
        counts->loans_back_timer++;
        seen->timer++;
        break;
    case LOAN_BACK_PEER:
        counts->loans_back_peer++;
        seen->peer++;
        break;
    case LOAN_BACK_GONE:
        counts->loans_back_gone++;
        seen->gone++;
        break;
    case LOAN_BACK_NONE:
    case LOAN_BACK_RESTART:
    case LOAN_BACK_OVER:
        break;
    }
}

/* Do the actions that follow from an input. */
static void follow(struct nic_loan *loan, uint32_t actions)
{
    enum loan_state before = loan->state; /* before the input */
    struct nic_session *charged;

    if (before == LOAN_LENT && (loan_state(loan->machine) != LOAN_LENT || actions & LOAN_DO_TAKE))
        back_count(loan);
    charged = nic_share_switch(loan->nic, loan->conn->session);
    nic_loan_do(loan, actions);
    if (before != LOAN_ENDED && loan_state(loan->machine) == LOAN_ENDED)
        nic_loan_closes(loan);
    settle(loan);
    nic_share_switch(loan->nic, charged);
}

/* ---- the peer -------------------------------------------------------------------------- */

/* An established connection whose peer sends messages about loans; NULL: none has this id. */
static struct nic_conn *lendable(const struct nic *nic, uint64_t local_id)
{
    struct nic_conn *conn = nic_conn_find(nic, local_id);

    return conn && conn->state == NIC_CONN_ESTABLISHED ? conn : NULL;
}

void nic_op_loan_offered(void *ctx, uint64_t local_id, const struct cm_loan_terms *theirs)
{
    struct nic *nic = ctx;
    struct nic_conn *conn = lendable(nic, local_id);
    struct nic_loan *loan = conn ? loan_of(conn) : NULL;
    enum loan_verdict verdict;
    uint32_t actions;

    if (!loan)
        return; /* the peer repeats its request */
    verdict = loan_peer_asks(loan->machine, theirs->number, nic->now_ns, &actions);
    if (verdict == LOAN_TAKEN) {
        loan->theirs = *theirs;
        loan->answers = 0;
    }
    if (verdict == LOAN_AGAIN && loan->answers == theirs->number)
        (void)cm_loan_agree(nic->cm, local_id, loan->answers, &loan->answer, nic->now_ns);
    follow(loan, actions);
}

void nic_op_loan_agreed(void *ctx, uint64_t local_id, uint32_t offered,
                        const struct cm_loan_terms *theirs)
{
    struct nic *nic = ctx;
    struct nic_conn *conn = lendable(nic, local_id);
    struct nic_loan *loan = conn ? conn->loan : NULL;
    uint32_t actions;

    if (!loan)
        return;
    /* A peer that knows these messages sends to any address of the loan that the probe has used. */
    actions = loan_peer_agreed(loan->machine, offered, theirs->number, true, nic->now_ns);
    if (!actions)
        return;
    loan->theirs = *theirs;
    follow(loan, actions);
}

/* ---- the program ----------------------------------------------------------------------- */

int nic_session_set_loans(struct nic_session *session, const struct vip_loan_part *parts)
{
    if (session->loan_parts)
        return -EBUSY;
    session->loan_parts = parts;
    return 0;
}

bool nic_session_has_loans(const struct nic_session *session)
{
    return session->loan_parts != NULL;
}

/* Why this connection cannot be lent; NULL: it can. */
static const char *conn_fault(const struct nic_session *session, const struct nic_vi *vi)
{
    const struct nic_conn *conn = vi->conn;
    struct registry_usage usage;

    if (session->nic->loan_fd < 0)
        return "this NIC lends no connections";
    if (!session->loan_parts || !session->recv_base || session->layout->long_only)
        return "the session has no memory for loans, no table of receives, or an old ABI";
    if (!conn || conn->state != NIC_CONN_ESTABLISHED)
        return "the VI is not connected";
    if (vi->attrs.level == VIP_LVL_UNRELIABLE)
        return "each move of a connection on Unreliable Delivery may lose messages";
    if (conn->loop || vi->had_ring)
        return "the other end is, or was, on this host";
    if (!(conn->features & VIP_FEATURE_LOAN))
        return "the vipd of one end does not know loans, or does not allow them";
    if (session->nic->see)
        return "a capture of this NIC runs";
    registry_usage(session->registry, &usage);
    if (usage.staged > 0)
        return "the session has staged memory";
    return NULL;
}

bool nic_loan_host(const struct nic_session *session, uint16_t number, struct cm_host *ret)
{
    const struct nic_vi *vi = nic_vi_get(session, number);
    const struct nic_conn *conn = vi ? vi->conn : NULL;

    if (!conn || conn->state != NIC_CONN_ESTABLISHED || conn->loop || session->nic->loan_fd < 0 ||
        vi->attrs.level == VIP_LVL_UNRELIABLE || !(conn->features & VIP_FEATURE_LOAN))
        return false;
    ret->len = conn->to.len;
    memcpy(ret->bytes, conn->to.bytes, sizeof(ret->bytes));
    return true;
}

/* Give the VI its part. Returns what is wrong with the part; NULL: nothing. */
static const char *part_take(struct nic_loan *loan, uint32_t part)
{
    struct nic_session *session = loan->conn->session;
    const struct vip_loan_part *wanted = &session->loan_parts[part];
    struct nic_vi *vi = nic_loan_vi(loan);
    struct loan_look look;

    if (vi->loan_part)
        return vi->loan_part == wanted ? NULL : "the VI has another part of the memory for loans";
    loan_words_look(&wanted->owner, &look);
    if (!nic_sends_begin(session, loan->conn->vi, part))
        return "another VI has this part of the memory for loans, or vipd has no memory";
    /* Words of an earlier connection would count for this one. */
    if (look.inside || look.app_number || !nic_sends_none(vi)) {
        nic_sends_end(session, loan->conn->vi);
        return "the owner's words in the part, or `posted`, are not zero";
    }
    machine_begin(loan);
    return NULL;
}

static const char no_answer[] =
    "no answer comes to packets of the program's own socket: a firewall "
    "or address translation is between the hosts";

static const char no_probe[] = "the program did not poll after its request, so it sent no probe";

/* Write into why what is wrong. It must be a constant, because the views show it later. */
static enum vip_rc refuse(struct nic_session *session, struct nic_conn *conn, enum vip_rc rc,
                          const char *text, char *why, size_t why_bytes)
{
    session->nic->counts.loans_refused++;
    if (conn)
        conn->not_lent = text;
    snprintf(why, why_bytes, "%s", text);
    return rc;
}

/* Does the limit of the user's moves allow a loan now, and its end? */
static bool user_may_move(const struct nic_session *session)
{
    const struct nic *nic = session->nic;
    const struct nic_user *user = session->user;

    return nic->config.loan_moves_user == 0 || nic->now_ns - user->moves_ns >= NIC_SECOND_NS ||
           user->moves + 2 <= nic->config.loan_moves_user;
}

/* May the program have this loan? Outcomes: VIP_RC_SUCCESS; another one, with *fault. */
static enum vip_rc judge(struct nic_session *session, const struct nic_loan_ask *ask, int sock,
                         const char **fault)
{
    struct nic_vi *vi = nic_vi_get(session, ask->vi);
    uint64_t now_ns = session->nic->now_ns;
    struct nic_loan *loan;
    struct loan_look look;

    *fault = "no such VI or part";
    if (!vi || ask->part >= VIP_LOANS_MAX)
        return VIP_RC_INVALID_PARAMETER;
    *fault = conn_fault(session, vi);
    if (*fault)
        return VIP_RC_INVALID_STATE;
    *fault = "no memory for a loan";
    loan = loan_of(vi->conn);
    if (!loan)
        return VIP_RC_ERROR_RESOURCE;
    *fault = "the VI is on loan, or moves";
    if (loan->state != LOAN_HOME)
        return VIP_RC_INVALID_STATE;
    *fault = part_take(loan, ask->part);
    if (*fault)
        return VIP_RC_INVALID_STATE;
    loan_words_look(&vi->loan_part->owner, &look);
    loan->beat = look.app_beat;
    *fault =
        loan_is_blocked(loan->machine, now_ns)
            ? no_answer
            : "it had too many moves or probes in the last second, or its program does not poll "
              "without a pause";
    if (!user_may_move(session)) {
        *fault = "the connections of its user had too many moves in the last second";
        return VIP_RC_ERROR_RESOURCE;
    }
    if (nic_session_throttled(session) || !loan_polls(loan->machine, ask->steady_ns, now_ns))
        return VIP_RC_ERROR_RESOURCE;
    *fault = nic_loan_sock_fault(vi->conn, sock, ask->port, &loan->host);
    if (!*fault)
        return VIP_RC_SUCCESS;
    nic_session_fault(session); /* the checks of a socket cost much */
    follow(loan, loan_owner_gone(loan->machine, now_ns));
    return VIP_RC_INVALID_PARAMETER;
}

enum vip_rc nic_loan_ask(struct nic_session *session, const struct nic_loan_ask *ask, int *sock,
                         uint64_t now_ns, struct nic_loan_probe *ret, char *why, size_t why_bytes)
{
    const struct nic_vi *vi = nic_vi_get(session, ask->vi);
    struct nic *nic = session->nic;
    struct nic_loan *loan;
    const char *fault;
    enum vip_rc rc;

    nic->now_ns = now_ns;
    rc = judge(session, ask, *sock, &fault);
    if (rc != VIP_RC_SUCCESS)
        return refuse(session, vi ? vi->conn : NULL, rc, fault, why, why_bytes);
    loan = vi->conn->loan;
    loan->sock = *sock;
    *sock = -1;
    loan->nonce = nic_random(nic) | 1;
    ret->bytes = cm_loan_probe(nic->cm, vi->conn->local_id, loan->nonce, ret->packet);
    settle(loan);
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_loan_give_back(struct nic_session *session, uint32_t number, uint64_t now_ns)
{
    struct nic_vi *vi = nic_vi_get(session, number);
    struct nic_loan *loan = vi && vi->conn ? vi->conn->loan : NULL;

    session->nic->now_ns = now_ns;
    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    if (loan)
        follow(loan, loan_owner_gone(loan->machine, now_ns));
    return VIP_RC_SUCCESS;
}

void nic_session_rung(struct nic_session *session, uint64_t now_ns)
{
    session->nic->now_ns = now_ns;
    for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
        const struct nic_vi *vi =
            session->loan_vi[i] ? &session->vis[session->loan_vi[i] - 1] : NULL;
        struct nic_loan *loan = vi && vi->conn ? vi->conn->loan : NULL;

        if (loan)
            follow(loan, loan_rung(loan->machine, now_ns));
    }
}

void nic_loans_give_back(struct nic *nic)
{
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        for (unsigned i = 0; i < VIP_LOANS_MAX; i++)
            if (session->loan_vi[i])
                (void)nic_loan_give_back(session, session->loan_vi[i] - 1, nic->now_ns);
    }
}

static uint32_t depth(uint32_t posted, uint32_t done)
{
    return posted - done <= VIP_DESC_PER_QUEUE_MAX ? posted - done : 0;
}

void nic_loan_depths(const struct nic_conn *conn, uint32_t *ret_sends, uint32_t *ret_receives)
{
    const struct nic_session *session = conn->session;
    const struct vip_loan_vipd *words = nic_loan_words(conn->loan);
    struct vip_loan_checkpoint at;
    const struct vip_loan_part *part = nic_loan_vi(conn->loan)->loan_part;
    uint32_t sends, receives;

    if (!loan_words_checkpoint(&part->owner, words->lent, &at))
        at = words->checkpoint;
    vip_fetch_begin();
    sends = vip_load32(&part->posted);
    receives = vip_load32(&vip_recv_head(session->recv_base, conn->vi)->posted);
    vip_fetch_end();
    *ret_sends = depth(sends, at.completed);
    *ret_receives = depth(receives, at.received + conn->loan->receive);
}

uint32_t nic_session_loans(const struct nic_session *session)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
        const struct nic_vi *vi =
            session->loan_vi[i] ? &session->vis[session->loan_vi[i] - 1] : NULL;

        count += vi && vi->conn && vi->conn->loan && vi->conn->loan->sock >= 0;
    }
    return count;
}

struct nic_loan_view nic_loan_view(const struct nic_conn *conn)
{
    struct nic_loan_view view = {0};

    if (conn->loan)
        view = conn->loan->seen;
    view.refused = conn->not_lent;
    return view;
}

/* ---- the end, and other lives ---------------------------------------------------------- */

bool nic_loan_over(struct nic_conn *conn, const struct eng_close *close, bool died)
{
    struct nic_loan *loan = conn->loan;
    struct nic *nic = conn->session->nic;

    if (!loan || loan_state(loan->machine) == LOAN_ENDED)
        return true;
    if (!loan->closes && close) {
        loan->closes = true;
        loan->close = *close;
    }
    if (!died)
        follow(loan, loan_over(loan->machine, nic->now_ns));
    if (loan_state(loan->machine) == LOAN_ENDED)
        return true;
    if (close)
        return false;
    follow(loan, loan_owner_died(loan->machine));
    return true;
}

bool nic_loan_home(struct nic_conn *conn)
{
    struct nic_loan *loan = conn->loan;

    if (!loan)
        return true;
    follow(loan, loan_owner_gone(loan->machine, loan->nic->now_ns));
    if (conn->lent || loan->state == LOAN_ENDED)
        return false;
    /* No answer of the peer is to come, so no timer for it may run. */
    nic_loan_shut(loan);
    machine_begin(loan);
    settle(loan);
    return true;
}

/* ---- turns ----------------------------------------------------------------------------- */

/* Has the program polled, or does it sleep, since its request? It sends the probe only then. */
static bool came_by(const struct nic_loan *loan)
{
    struct loan_look look;

    loan_words_look(&nic_loan_vi(loan)->loan_part->owner, &look);
    return look.app_beat != loan->beat || look.asleep;
}

/* Read the answer to a probe. */
static void answer_look(struct nic_loan *loan)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    struct nic *nic = loan->nic;

    for (unsigned i = 0; i < PROBE_ANSWERS; i++) {
        size_t bytes = nic_loan_sock_recv(loan, packet, sizeof(packet));

        if (bytes == 0)
            return;
        if (!cm_loan_probed(nic->cm, loan->conn->local_id, loan->nonce, packet, bytes))
            continue;
        if (came_by(loan))
            (void)loan_polls(loan->machine, 0, nic->now_ns);
        follow(loan, loan_probed(loan->machine, nic->now_ns));
        return;
    }
    nic_loan_hear_again(loan);
}

bool nic_loans_look(struct nic *nic)
{
    struct epoll_event event;
    unsigned looked = 0;

    /* One socket at a time: work for one loan may end another one. */
    for (; looked < LOOK_SOCKETS && epoll_wait(nic->loan_fd, &event, 1, 0) == 1; looked++) {
        struct nic_loan *loan = event.data.ptr;

        if (loan->state == LOAN_ASKED)
            answer_look(loan);
        else
            follow(loan, loan_data_waits(loan->machine, nic->now_ns));
    }
    return looked > 0;
}

/* The timer of a loan has expired. */
static void tick(struct nic_loan *loan)
{
    bool asked = loan->state == LOAN_ASKED;

    follow(loan, loan_tick(loan->machine, loan->nic->now_ns));
    if (asked && loan_is_blocked(loan->machine, loan->nic->now_ns))
        loan->conn->not_lent = came_by(loan) ? no_answer : no_probe;
}

/* The loan with the earliest timer; NULL: no timer runs. Loans that have ended come first in the
 * list. */
static struct nic_loan *first_due(const struct nic *nic)
{
    for (const struct nic_list *item = nic->loans.next; item != &nic->loans; item = item->next) {
        struct nic_loan *loan = NIC_ITEM(item, struct nic_loan, link);

        if (loan->state != LOAN_ENDED)
            return loan;
    }
    return NULL;
}

/* A loan whose timer has expired; NULL: there is none. */
static struct nic_loan *expired(const struct nic *nic)
{
    struct nic_loan *loan = first_due(nic);

    return loan && loan->due_ns <= nic->now_ns ? loan : NULL;
}

/*
 * A program has posted sends to the submission ring while a loan is out: it did not know of the loan
 * yet. The engine in vipd keeps them, so the owner must come by soon.
 */
static void posts_tell(struct nic_session *session)
{
    for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
        const struct nic_vi *vi =
            session->loan_vi[i] ? &session->vis[session->loan_vi[i] - 1] : NULL;
        struct eng_vi_stats stats;

        if (!vi || !vi->conn || !vi->conn->lent)
            continue;
        eng_vi_stats(session->eng, vi->conn->vi, &stats);
        if (stats.send_depth > 0)
            follow(vi->conn->loan, loan_owes(vi->conn->loan->machine, session->nic->now_ns));
    }
}

static void posts_look(struct nic *nic)
{
    if (!nic->loans_posted)
        return;
    nic->loans_posted = false;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if (session->loans_out > 0)
            posts_tell(session);
    }
}

bool nic_loans_run(struct nic *nic)
{
    struct nic_loan *loan;
    bool did = false;

    posts_look(nic);
    while (!nic->meter.over && (loan = expired(nic)) != NULL) {
        tick(loan);
        nic_share_worked(nic, NIC_CM_UNITS);
        did = true;
    }
    return did;
}

uint64_t nic_loans_deadline(const struct nic *nic)
{
    const struct nic_loan *loan = first_due(nic);

    if (nic->loans_posted)
        return 0;
    return loan ? loan->due_ns : UINT64_MAX;
}

struct nic_conn *nic_loans_ended(struct nic *nic)
{
    if (!nic->loans_over)
        return NULL;
    if (!nic_list_empty(&nic->loans)) {
        const struct nic_loan *loan = NIC_ITEM(nic->loans.next, struct nic_loan, link);

        if (loan->state == LOAN_ENDED)
            return loan->conn;
    }
    nic->loans_over = false;
    return NULL;
}
