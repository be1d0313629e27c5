/*
 * Connections on loan end, programs die, and vipd begins another life (vipd/nic/loan.c). The programs
 * are those of nic_lend.h.
 */
#include "vipd/nic/internal.h" /* before the names of the rig */

#include "unit/nic_lend.h"
#include "vipd/nic/outlive.h"

/* ---- the end --------------------------------------------------------------------------- */

/* The program disconnects: sends that have not completed are flushed, those of the table, too. */
static void test_disconnect(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    post_to_table(end);
    assert_int_equal(nic_vi_disconnect(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    assert_false(is_out(end));
    collect(end);
    assert_int_equal(end->sent, 2);
    assert_true(end->failed[VIP_Q_SEND]);
    assert_int_equal(end->got, MESSAGES);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(nic_vi_destroy(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
}

/* An owner that has used its loan for longer than the table of sends is long stops inside, until the
 * connection ends. The sends that it has posted since are flushed. */
static void test_ends_inside_after_use(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    while (end->sends < VIP_DESC_PER_QUEUE_MAX + 10)
        exchange();
    end->polls = false;
    post_to_table(end);
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    rig_pass(11 * RIG_SECOND);
    assert_false(is_out(end));
    collect(end);
    assert_int_equal(end->sent, end->sends);
    assert_int_equal(end->got, end->receives);
    assert_true(end->failed[VIP_Q_SEND]);
    assert_int_equal(rig_wait_event(end->app, 'e').code, VIP_EC_CONN_LOST);
}

/* The peer closes while the owner is inside: vipd waits for the owner. */
static void test_peer_closes(void **state)
{
    struct end *end = &ends[0];
    struct rig_event event;

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    /* The peer has processed this message, but the owner does not know it yet. */
    post_to_table(end);
    assert_true(stay(end));
    run(MS / 10);
    assert_int_equal(ends[1].got, 2);
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_int_equal(nic_vi_disconnect(ends[1].app->session, ends[1].vi, rig_now), VIP_RC_SUCCESS);
    run(20 * MS);
    assert_false(rig_event(end->app, 'e', &event));
    assert_true(is_out(end));
    assert_int_equal(end->sent, 1);
    (void)owner_leave(end);
    UNTIL(rig_event(end->app, 'e', &event), 5 * MS);
    assert_int_equal(event.code, VIP_EC_CONN_LOST);
    assert_false(is_out(end));
    assert_int_equal(end->sent, 2);
    assert_false(end->failed[VIP_Q_SEND]);
    /* A send that the program posts before it sees the end is flushed. */
    post_to_table(end);
    ask_sends(end);
    run(MS);
    assert_int_equal(end->sent, 3);
    assert_int_equal(end->got, MESSAGES);
}

/* The vipd of a peer stands still, while its program runs the data path: the peer is silent. */
static void test_peer_stands_still(void **state)
{
    struct nic *stopped = rig_nics[0];
    uint64_t end_ns = rig_now + 10 * RIG_SECOND;
    struct rig_event event;

    lend_to(&ends[0]);
    ends[0].polls = true;
    exchange();
    rig_nics[0] = NULL;
    while (!rig_event(ends[1].app, 'e', &event)) {
        assert_true(rig_now < end_ns);
        if (ends[1].sends - ends[1].sent < 4) {
            post_recv(&ends[0]);
            post_send(&ends[1]);
        }
        run(MS);
    }
    assert_int_equal(event.code, VIP_EC_CONN_LOST);
    assert_true(ends[1].sent > 100);
    rig_nics[0] = stopped;
}

/* The program dies inside its loan. */
static void test_death(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    assert_true(loan_enter(&end->owner, end->terms.number));
    rig_app_end(end->app, true);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
    end->app = rig_app(rig_nics[0]); /* for the end of the test */
}

/* An administrator ends the connection. */
static void test_sever(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_int_equal(nic_vi_sever(end->app->session, end->vi, "for a test", rig_now),
                     VIP_RC_SUCCESS);
    run(5 * MS);
    assert_true(is_out(end));
    owner_work(end);
    (void)owner_leave(end);
    assert_int_equal(rig_wait_event(end->app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(ends[1].app, 'e').code, VIP_EC_CONN_LOST);
}

/* ---- other lives of vipd --------------------------------------------------------------- */

/* What vipd leaves of the VI of this end: a copy of its part of the segment. */
static void *left_of(const struct end *end)
{
    const struct {
        uint64_t off, bytes;
    } parts[] = {
        {VIP_VIPD_VI_OFF + end->vi * 128u, 128},
        {VIP_VIPD_SHORT_OFF + end->vi * 2u * VIP_COMP_UNIT, 2 * VIP_COMP_UNIT},
        {VIP_VIPD_LONG_OFF + end->vi * 2ull * VIP_COMP_RING_BYTES, 2ull * VIP_COMP_RING_BYTES}};
    char *copy = rig_map(VIP_VIPD_BYTES);

    for (unsigned i = 0; i < 3; i++)
        memcpy(copy + parts[i].off, (char *)end->app->vipd + parts[i].off, parts[i].bytes);
    return copy;
}

/* What the program says of a loan that vipd has not taken back; `base`: from left_of. */
static void tell_loan(const struct end *end, void *base, struct nic_past_loan *ret)
{
    const struct vip_loan_vipd *words = &vip_vipd_vi(base, end->vi)->loan;
    const struct vip_loan_owner *owner = &end->parts[0].owner;

    if (!loan_words_out(words))
        return;
    ret->number = words->lent;
    ret->used = owner->number == words->lent;
    ret->at = owner->checkpoint;
}

/* The vipd of this end stops, and the next one goes on. Returns whether the connection can, too. */
static bool restart(struct end *end)
{
    struct nic_vi_checkpoint past;
    struct nic *nic = rig_nics[end->host];
    bool goes_on = nic_session_stay(end->app->session) == 1;
    struct nic_past_loan told = {0};
    char why[128] = "";
    void *base;

    assert_true(nic_vi_checkpoint(end->app->session, end->vi, &past));
    assert_int_equal(past.connected, goes_on);
    assert_int_equal(past.features & VIP_FEATURE_LOAN, 0);
    assert_int_equal(past.lends, past.connected);
    collect(end);
    base = left_of(end);
    if (end->owner.number)
        (void)owner_leave(end);
    tell_loan(end, base, &told);
    nic_vi_recover(base, &past, &told);
    rig_app_end(end->app, false);
    end->app = NULL;
    nic_leave(nic, 10 * RIG_SECOND, rig_now);
    nic_close(nic, rig_now);
    rig_nics[end->host] = NULL;
    end->terms.number = 0;
    run(5 * MS);

    rig_life++;
    nic_begin_udp(end->host);
    end->app = rig_app(rig_nics[end->host]);
    assert_int_equal(nic_session_set_receives(end->app->session, end->table), 0);
    assert_int_equal(nic_session_set_loans(end->app->session, end->parts), 0);
    memset(&end->parts[0].owner, 0, sizeof(end->parts[0].owner));
    if (!goes_on)
        return false;
    memory_add(end);
    past.recv_base = end->got;
    assert_int_equal(nic_vi_restore(end->app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    end->app->vi_gen[end->vi] = past.generation;
    loan_owner_init(&end->owner, &end->parts[0].owner, words_of(end));
    for (uint32_t k = end->sent; k != end->sends; k++)
        vip_sq_write(vip_app_sq(end->app->app), end->app->sq_position++, &end->send[k % MESSAGES]);
    assert_int_equal(
        nic_vi_rebind(end->app->session, end->vi, RIG_SECOND, rig_now, why, sizeof(why)),
        VIP_RC_SUCCESS);
    return true;
}

/* The vipd of the other end begins another life, while the owner polls. */
static void test_peer_restarts(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    post_to_table(end);
    assert_true(restart(&ends[1]));
    UNTIL(count(0, "conns_rebound") == 1, 100 * MS);
    assert_int_equal(count(0, "loans_back_gone"), 1);
    check_home();
    /* The numbers of both ends still fit. */
    run(1000 * MS);
    lend_to(end);
    end->polls = true;
    exchange();
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    check_home();
    lend_to(&ends[1]);
    ends[1].polls = true;
    exchange();
}

/* The vipd of the other end begins another life before it has answered an offer. */
static void test_peer_restarts_in_a_move(void **state)
{
    struct nic *peer = rig_nics[1];
    uint64_t sent = count(0, "tx_cm");

    assert_int_equal(ask_loan(&ends[0]), VIP_RC_SUCCESS);
    step(); /* the peer answers the probe */
    rig_nics[1] = NULL;
    step(); /* the engine of this end pauses */
    rig_nics[1] = peer;
    assert_int_equal(count(0, "tx_cm"), sent + 1);
    assert_true(restart(&ends[1]));
    UNTIL(count(0, "conns_rebound") == 1, 100 * MS);
    check_home();
    rig_pass(11 * RIG_SECOND); /* no timer of the move has stayed */
    check_home();
    assert_int_equal(count(0, "loans_lent"), 0);
}

/* The vipd of a loan stops: it takes the loan back first, and the next vipd goes on. */
static void test_own_vipd_restarts(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    post_to_table(end);
    assert_true(restart(end));
    check_home();
}

/* The next vipd does not lend: the connection goes on, and stays at home. */
static void test_next_vipd_does_not_lend(void **state)
{
    rig_more = VIP_FEATURE_REBIND;
    assert_true(restart(&ends[1]));
    check_home();
    assert_int_equal(ask_loan(&ends[1]), VIP_RC_INVALID_STATE);
    assert_int_equal(ask_loan(&ends[0]), VIP_RC_SUCCESS);
    run(100 * MS); /* the probe has no answer */
    assert_int_equal(count(0, "loans_lent"), 0);
    check_home();
}

/* The owner is inside when the vipd of the other end comes back: the connection goes on when the owner
 * is outside. The owner is inside when its own vipd stops: the program says how far it came. */
static void test_restart_inside(void **state)
{
    struct end *end = &ends[0];
    struct rig_event event;

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_true(restart(&ends[1]));
    run(100 * MS);
    assert_int_equal(count(0, "conns_rebound"), 0);
    assert_false(rig_event(end->app, 'e', &event));
    (void)owner_leave(end);
    UNTIL(count(0, "conns_rebound") == 1, 500 * MS);
    assert_false(rig_event(end->app, 'e', &event));
    assert_false(is_out(end));
    check_home();
    finish(state);

    begin(state);
    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    assert_true(loan_enter(&end->owner, end->terms.number));
    assert_true(restart(end));
    UNTIL(count(1, "conns_rebound") == 1, 500 * MS);
    check_home();
}

static struct end *leaves; /* this end's owner leaves its loan while vipd waits */
static unsigned waits;     /* how often vipd has waited */

/* In place of the C library's: vipd waits. */
int usleep(useconds_t us)
{
    (void)us;
    waits++;
    if (leaves)
        (void)owner_leave(leaves);
    leaves = NULL;
    return 0;
}

/* The owner is inside when its vipd stops, and leaves soon. vipd has then taken the loan back, so that
 * a next vipd without loans can go on, too. */
static void test_stop_waits_for_the_owner(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    assert_true(loan_enter(&end->owner, end->terms.number));
    leaves = end;
    rig_nics[0]->meter.over = true; /* the last turn used up its time */
    assert_int_equal(nic_session_stay(end->app->session), 1);
    assert_null(leaves);
    assert_false(is_out(end));
    assert_true(restart(end));
    UNTIL(count(1, "conns_rebound") == 1, 500 * MS);
    check_home();
}

/* An owner that stays inside costs a vipd that stops 100 waits, however often vipd asks. */
static void test_stop_does_not_wait_for_long(void **state)
{
    struct end *end = &ends[0];

    lend_to(end);
    end->polls = true;
    exchange();
    end->polls = false;
    assert_true(loan_enter(&end->owner, end->terms.number));
    waits = 0;
    for (unsigned i = 0; i < 3; i++)
        (void)nic_session_stay(end->app->session);
    assert_int_equal(waits, 100);
    assert_true(is_out(end));
    assert_true(restart(end));
    UNTIL(count(1, "conns_rebound") == 1, 500 * MS);
    check_home();
}

/* The next life reads what a killed one has left. Returns whether the connection can go on. */
static bool recover(const struct end *end, const struct nic_past_loan *told, void *base,
                    struct nic_vi_checkpoint *ret)
{
    struct nic_vi_checkpoint past;

    assert_true(nic_vi_identify(end->app->session, end->vi, &past));
    past.connected = true;
    nic_vi_recover(base, &past, told);
    assert_int_equal(past.lost, !past.connected);
    *ret = past;
    return past.connected;
}

/* vipd is killed while a loan is out. The next life goes on if the program says how far it came. */
static void test_killed(void **state)
{
    struct end *end = &ends[0];
    struct nic_past_loan told = {0};
    struct nic_vi_checkpoint past;
    void *base = left_of(end);

    assert_true(recover(end, &told, base, &past)); /* no loan is out */
    lend_to(end);
    base = left_of(end);
    assert_false(recover(end, &told, base, &past)); /* a program that says nothing */
    told.number = end->terms.number + 1;
    assert_false(recover(end, &told, base, &past));
    told.number = end->terms.number;
    assert_true(recover(end, &told, base, &past)); /* the program has not used the loan */
    assert_int_equal(past.completed, end->terms.checkpoint.completed);
    assert_int_equal(past.done, end->terms.checkpoint.done);

    end->polls = true;
    for (unsigned i = 0; i < 3; i++)
        exchange();
    told.used = true;
    told.at = end->parts[0].owner.checkpoint;
    base = left_of(end);
    assert_true(recover(end, &told, base, &past));
    for (unsigned again = 0; again < 2;
         again++) { /* killed again, before the program could see it */
        assert_int_equal(past.completed, end->terms.checkpoint.completed + 3);
        assert_int_equal(past.done, end->terms.checkpoint.done + 3);
        assert_int_equal(vip_vipd_vi(base, end->vi)->commit.received, end->received);
        assert_true(recover(end, &told, base, &past));
    }
    told.at.done = end->terms.checkpoint.done - 1;
    assert_false(recover(end, &told, left_of(end), &past));
    end->polls = false;
    assert_int_equal(nic_loan_give_back(end->app->session, end->vi, rig_now), VIP_RC_SUCCESS);
    check_home();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOAN_TEST(test_disconnect),
        LOAN_TEST(test_ends_inside_after_use),
        LOAN_TEST(test_peer_closes),
        LOAN_TEST(test_peer_stands_still),
        LOAN_TEST(test_death),
        LOAN_TEST(test_sever),
        LOAN_TEST(test_peer_restarts),
        LOAN_TEST(test_peer_restarts_in_a_move),
        LOAN_TEST(test_own_vipd_restarts),
        LOAN_TEST(test_next_vipd_does_not_lend),
        LOAN_TEST(test_restart_inside),
        LOAN_TEST(test_stop_waits_for_the_owner),
        LOAN_TEST(test_stop_does_not_wait_for_long),
        LOAN_TEST(test_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
