/*
 * The data path on loan, one rule per test: who gets a loan, when it ends, what crosses, what an
 * owner may write. The test is the host of one end; the shared words are plain memory.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/limits.h"
#include "vipd/engine/loan.h"

#define US       1000ull
#define MS       1000000ull
#define CONN_NS  (400 * MS)
#define STAY_GAP (100 * US)

/* One end, and its owner. */
struct rig {
    struct loan_config config;
    struct vip_loan_vipd own;
    struct vip_loan_owner words;
    struct loan_owner owner;
    struct loan *loan;
    uint64_t now_ns;
    bool rung; /* the last stay has rung vipd's bell */
};

static const struct vip_loan_checkpoint START = {.done = 10, .received = 5, .completed = 20};
static const struct loan_posted POSTED = {.sends = 30, .receives = 15};

static struct rig *begin(void)
{
    struct rig *rig = calloc(1, sizeof(*rig));

    rig->config = (struct loan_config){.conn_timeout_ns = CONN_NS, .moves_ns = LOAN_MOVES_NS};
    rig->own.number = 100;
    rig->own.peer = 200;
    rig->now_ns = 5000 * MS;
    rig->loan = loan_init(malloc(loan_bytes()), &rig->config, &rig->own, &rig->words);
    loan_owner_init(&rig->owner, &rig->words, &rig->own);
    return rig;
}

static void finish(struct rig *rig)
{
    free(rig->loan);
    free(rig);
}

/* Poll every 100 us until the loan asks for a probe, at most for `for_ns`. */
static bool polls_until_probe(struct rig *rig, uint64_t for_ns)
{
    for (uint64_t end_ns = rig->now_ns + for_ns; rig->now_ns < end_ns; rig->now_ns += STAY_GAP)
        if (loan_polls(rig->loan, 0, rig->now_ns) == LOAN_DO_PROBE)
            return true;
    return false;
}

/* From HOME to LENT. `timer_ns`: the owner's timer until its first stay. */
static void lend(struct rig *rig, uint64_t timer_ns)
{
    assert_true(polls_until_probe(rig, 3000 * MS));
    assert_int_equal(loan_probed(rig->loan, rig->now_ns), LOAN_DO_PAUSE | LOAN_DO_OFFER);
    assert_int_equal(loan_state(rig->loan), LOAN_MOVING_OUT);
    assert_int_equal(loan_peer_agreed(rig->loan, loan_number(rig->loan),
                                      loan_number_next(loan_peer(rig->loan)), true, rig->now_ns),
                     LOAN_DO_LEND);
    loan_lend(rig->loan, &START, timer_ns);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
}

static bool stay(struct rig *rig, uint64_t timer_ns)
{
    if (!loan_enter(&rig->owner, loan_offered(&rig->owner)))
        return false;
    rig->rung = loan_leave(&rig->owner, timer_ns, &START);
    return true;
}

/* Let time pass until `until_ns`; returns the actions of all ticks. */
static uint32_t pass(struct rig *rig, uint64_t until_ns)
{
    uint32_t actions = 0;

    while (loan_deadline(rig->loan) <= until_ns) {
        rig->now_ns = loan_deadline(rig->loan);
        actions |= loan_tick(rig->loan, rig->now_ns);
    }
    rig->now_ns = until_ns;
    return actions;
}

/* The take-back of a loan whose owner is outside; the peer agrees, and the engine is home. */
static void go_home(struct rig *rig, uint32_t actions)
{
    struct vip_loan_checkpoint checkpoint;

    assert_int_equal(actions & (LOAN_DO_TAKE | LOAN_DO_OFFER), LOAN_DO_TAKE | LOAN_DO_OFFER);
    assert_int_equal(loan_take(rig->loan, &POSTED, &checkpoint), 0);
    loan_taken(rig->loan);
    assert_int_equal(loan_peer_agreed(rig->loan, loan_number(rig->loan),
                                      loan_number_next(loan_peer(rig->loan)), false, rig->now_ns),
                     LOAN_DO_GO_ON);
    assert_int_equal(loan_state(rig->loan), LOAN_HOME);
}

/* Lose a lent loan to data. */
static uint32_t lose(struct rig *rig)
{
    uint32_t actions = 0;

    assert_true(pass(rig, rig->now_ns + 2 * LOAN_PATIENCE_MAX_NS) & LOAN_DO_WATCH);
    actions = loan_data_waits(rig->loan, rig->now_ns);
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_DATA);
    return actions;
}

/* ---- who gets a loan ------------------------------------------------------------------- */

static void test_a_program_that_polls_gets_a_loan(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(loan_is_out(rig->loan));
    assert_int_equal(loan_offered(&rig->owner), loan_number(rig->loan));
    assert_true(stay(rig, 0));
    finish(rig);
}

static void test_a_probe_without_answer_keeps_the_path_in_vipd(void **state)
{
    struct rig *rig = begin();
    uint64_t began_ns;

    assert_true(polls_until_probe(rig, 1));
    began_ns = rig->now_ns;
    for (unsigned i = 1; i < LOAN_PROBES; i++)
        assert_int_equal(pass(rig, began_ns + i * LOAN_PROBE_NS), LOAN_DO_PROBE);
    assert_int_equal(pass(rig, began_ns + LOAN_PROBES * LOAN_PROBE_NS), LOAN_DO_SHUT);
    assert_int_equal(loan_state(rig->loan), LOAN_HOME);
    assert_int_equal(loan_probed(rig->loan, rig->now_ns), 0);
    assert_false(polls_until_probe(rig, LOAN_BLOCKED_NS));
    assert_true(polls_until_probe(rig, STAY_GAP + 1));
    finish(rig);
}

static void test_a_program_that_stopped_polling_gets_none(void **state)
{
    struct rig *rig = begin();

    assert_true(polls_until_probe(rig, 1));
    rig->now_ns += LOAN_PAUSE_NS + 1;
    assert_int_equal(loan_probed(rig->loan, rig->now_ns), LOAN_DO_SHUT);
    assert_int_equal(loan_state(rig->loan), LOAN_HOME);
    finish(rig);
}

static void test_a_peer_that_refuses_keeps_the_path_in_vipd(void **state)
{
    struct rig *rig = begin();

    assert_true(polls_until_probe(rig, 1));
    (void)loan_probed(rig->loan, rig->now_ns);
    assert_int_equal(loan_peer_agreed(rig->loan, 101, 201, false, rig->now_ns),
                     LOAN_DO_GO_ON | LOAN_DO_SHUT);
    assert_int_equal(loan_state(rig->loan), LOAN_HOME);
    assert_false(loan_is_out(rig->loan));
    finish(rig);
}

static void test_a_loan_lost_to_data_comes_again_after_steady_polling(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    go_home(rig, lose(rig));
    /* Each pause starts the time anew. */
    assert_false(polls_until_probe(rig, LOAN_STEADY_NS));
    rig->now_ns += LOAN_PAUSE_NS + 1;
    assert_false(polls_until_probe(rig, LOAN_STEADY_NS));
    assert_true(polls_until_probe(rig, 2 * STAY_GAP));
    finish(rig);
}

static void test_moves_are_limited(void **state)
{
    struct rig *rig = begin();
    uint64_t began_ns = rig->now_ns;

    for (unsigned i = 0; i < LOAN_MOVES_MAX / 2; i++) {
        lend(rig, 0);
        go_home(rig, loan_owner_gone(rig->loan, rig->now_ns));
    }
    assert_false(polls_until_probe(rig, began_ns + LOAN_MOVES_NS - rig->now_ns));
    assert_true(polls_until_probe(rig, LOAN_MOVES_NS));
    finish(rig);
}

/* The host may allow more moves. */
static void test_more_moves(void **state)
{
    struct rig *rig = begin();

    rig->config.moves_ns = LOAN_MOVES_NS / 100;
    free(rig->loan);
    rig->loan = loan_init(malloc(loan_bytes()), &rig->config, &rig->own, &rig->words);
    for (unsigned i = 0; i < LOAN_MOVES_MAX / 2; i++) {
        lend(rig, 0);
        go_home(rig, loan_owner_gone(rig->loan, rig->now_ns));
    }
    assert_true(polls_until_probe(rig, LOAN_MOVES_NS / 90));
    finish(rig);
}

/* ---- when a loan ends ------------------------------------------------------------------ */

static void test_data_without_a_beat_takes_the_loan_back(void **state)
{
    struct rig *rig = begin();
    uint64_t began_ns;

    lend(rig, 0);
    began_ns = rig->now_ns;
    assert_true(stay(rig, 0));
    /* The first look finds the stay's beat, so patience begins there. */
    assert_int_equal(pass(rig, began_ns + LOAN_PATIENCE_NS), 0);
    assert_int_equal(loan_data_waits(rig->loan, rig->now_ns), 0);
    assert_int_equal(pass(rig, began_ns + 2 * LOAN_PATIENCE_NS), LOAN_DO_WATCH);
    assert_int_equal(loan_data_waits(rig->loan, rig->now_ns),
                     LOAN_DO_UNWATCH | LOAN_DO_SHUT | LOAN_DO_TAKE | LOAN_DO_OFFER);
    assert_int_equal(loan_state(rig->loan), LOAN_MOVING_HOME);
    assert_false(stay(rig, 0));
    finish(rig);
}

static void test_a_beat_ends_the_watch(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_int_equal(pass(rig, rig->now_ns + LOAN_PATIENCE_NS), LOAN_DO_WATCH);
    assert_true(stay(rig, 0));
    assert_int_equal(loan_data_waits(rig->loan, rig->now_ns), LOAN_DO_UNWATCH);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
    finish(rig);
}

/* The packet wakes an owner that sleeps: vipd looks once, and lets it come. */
static void test_an_owner_that_sleeps_has_time_to_wake(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    loan_words_asleep(&rig->words, true);
    assert_true(stay(rig, 0));
    assert_int_equal(pass(rig, rig->now_ns + LOAN_PATIENCE_MAX_NS), 0);
    assert_int_equal(pass(rig, rig->now_ns + LOAN_PATIENCE_NS), LOAN_DO_WATCH);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(loan_data_waits(rig->loan, rig->now_ns), LOAN_DO_UNWATCH);
        assert_int_equal(loan_data_waits(rig->loan, rig->now_ns), 0);
        assert_int_equal(pass(rig, rig->now_ns + LOAN_PATIENCE_MAX_NS - 1), 0);
        assert_true(stay(rig, 0));
        assert_int_equal(pass(rig, rig->now_ns + 3 * LOAN_PATIENCE_MAX_NS), LOAN_DO_WATCH);
    }
    finish(rig);
}

static void test_an_owner_that_is_stopped_asleep_loses_its_loan(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    loan_words_asleep(&rig->words, true);
    assert_true(stay(rig, 0));
    assert_int_equal(pass(rig, rig->now_ns + 2 * LOAN_PATIENCE_MAX_NS), LOAN_DO_WATCH);
    assert_int_equal(loan_data_waits(rig->loan, rig->now_ns), LOAN_DO_UNWATCH);
    assert_int_equal(pass(rig, rig->now_ns + LOAN_PATIENCE_MAX_NS),
                     LOAN_DO_SHUT | LOAN_DO_TAKE | LOAN_DO_OFFER);
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_DATA);
    finish(rig);
}

/* A timer wakes an owner that sleeps; vipd gives it twice the time of a packet. */
static void test_an_owner_that_sleeps_has_time_for_its_timer(void **state)
{
    struct rig *rig = begin();
    uint64_t timer_ns;

    lend(rig, 0);
    loan_words_asleep(&rig->words, true);
    timer_ns = rig->now_ns + 5 * MS;
    assert_true(stay(rig, timer_ns));
    (void)pass(rig, timer_ns + 2 * LOAN_PATIENCE_MAX_NS);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
    (void)pass(rig, timer_ns + 2 * LOAN_PATIENCE_MAX_NS + LOAN_PATIENCE_NS);
    assert_int_equal(loan_state(rig->loan), LOAN_MOVING_HOME);
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_TIMER);
    finish(rig);
}

static void test_an_owner_that_computes_keeps_its_loan(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(stay(rig, 0));
    (void)pass(rig, rig->now_ns + 3600ull * 1000 * MS);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
    /* vipd sleeps: no timer runs. */
    assert_true(loan_deadline(rig->loan) == LOAN_NEVER);
    assert_true(stay(rig, 0));
    finish(rig);
}

static void test_a_timer_that_is_over_takes_the_loan_back(void **state)
{
    struct rig *rig = begin();
    uint64_t timer_ns;

    lend(rig, 0);
    timer_ns = rig->now_ns + 20 * MS;
    assert_true(stay(rig, timer_ns));
    (void)pass(rig, timer_ns + LOAN_TIMER_NS);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
    assert_true(pass(rig, timer_ns + LOAN_TIMER_NS + 1) & LOAN_DO_TAKE);
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_TIMER);
    finish(rig);
}

static void test_an_owner_that_never_comes_counts_as_late_for_its_timer(void **state)
{
    struct rig *rig = begin();

    rig->words.timer_ns = 1; /* left by an older loan */
    lend(rig, rig->now_ns + 5 * MS);
    (void)pass(rig, rig->now_ns + 5 * MS);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
    (void)pass(rig, rig->now_ns + 2 * LOAN_TIMER_NS);
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_TIMER);
    finish(rig);
}

static void test_an_owner_with_a_new_timer_wakes_vipd(void **state)
{
    struct rig *rig = begin();
    uint64_t timer_ns;

    lend(rig, 0);
    assert_true(stay(rig, rig->now_ns + 5 * MS));
    assert_false(rig->rung);
    assert_true(stay(rig, 0));
    (void)pass(rig, rig->now_ns + 100 * MS);
    assert_true(loan_deadline(rig->loan) == LOAN_NEVER);
    timer_ns = rig->now_ns + 5 * MS;
    assert_true(stay(rig, timer_ns));
    assert_true(rig->rung);
    assert_int_equal(loan_rung(rig->loan, rig->now_ns), LOAN_DO_UNWATCH);
    (void)pass(rig, timer_ns + LOAN_TIMER_NS + 1);
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_TIMER);
    finish(rig);
}

static void test_a_timer_left_before_the_present_stay_does_not_count_at_once(void **state)
{
    struct rig *rig = begin();
    uint64_t timer_ns;

    lend(rig, 0);
    timer_ns = rig->now_ns + 20 * MS;
    assert_true(stay(rig, timer_ns));
    (void)pass(rig, timer_ns + LOAN_TIMER_NS);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    (void)pass(rig, rig->now_ns + LOAN_TIMER_NS / 2);
    assert_int_equal(loan_state(rig->loan), LOAN_LENT);
    (void)pass(rig, rig->now_ns + 3 * LOAN_TIMER_NS);
    assert_int_equal(loan_state(rig->loan), LOAN_TAKING_BACK);
    finish(rig);
}

static void test_patience_doubles_up_to_its_limit(void **state)
{
    struct rig *rig = begin();
    uint64_t expected_ns = LOAN_PATIENCE_NS;

    for (unsigned i = 0; i < 8; i++) {
        lend(rig, 0);
        go_home(rig, lose(rig));
        /* The program comes back in time. It asks for a loan later. */
        rig->now_ns += LOAN_RETURN_NS + LOAN_STEADY_NS - 1;
        (void)loan_polls(rig->loan, LOAN_STEADY_NS - 1, rig->now_ns);
        expected_ns =
            expected_ns * 2 < LOAN_PATIENCE_MAX_NS ? expected_ns * 2 : LOAN_PATIENCE_MAX_NS;
        assert_int_equal(loan_patience_ns(rig->loan), expected_ns);
    }
    /* A program that stays away longer does not change it; a long loan halves it. */
    lend(rig, 0);
    go_home(rig, lose(rig));
    rig->now_ns += LOAN_RETURN_NS + 1;
    (void)loan_polls(rig->loan, 0, rig->now_ns);
    assert_int_equal(loan_patience_ns(rig->loan), LOAN_PATIENCE_MAX_NS);
    lend(rig, 0);
    (void)pass(rig, rig->now_ns + LOAN_CALM_NS);
    (void)loan_owner_gone(rig->loan, rig->now_ns);
    assert_int_equal(loan_patience_ns(rig->loan), LOAN_PATIENCE_MAX_NS / 2);
    finish(rig);
}

static void test_an_owner_that_forks_loses_its_loan(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    go_home(rig, loan_owner_gone(rig->loan, rig->now_ns));
    assert_int_equal(loan_why_back(rig->loan), LOAN_BACK_GONE);
    /* It may have the next one. */
    assert_true(polls_until_probe(rig, MS));
    assert_int_equal(loan_owner_gone(rig->loan, rig->now_ns), LOAN_DO_SHUT);
    assert_true(polls_until_probe(rig, MS));
    (void)loan_probed(rig->loan, rig->now_ns);
    assert_int_equal(loan_owner_gone(rig->loan, rig->now_ns), LOAN_DO_SHUT | LOAN_DO_OFFER);
    assert_false(loan_is_out(rig->loan));
    finish(rig);
}

static void test_the_connection_of_a_dead_program_ends(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    assert_int_equal(loan_owner_died(rig->loan), LOAN_DO_SHUT | LOAN_DO_END);
    assert_int_equal(loan_why_ended(rig->loan), LOAN_END_DIED);
    assert_int_equal(loan_owner_died(rig->loan), 0);
    finish(rig);
}

/* ---- the fence ------------------------------------------------------------------------- */

static void test_vipd_waits_while_the_owner_is_inside(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    assert_int_equal(loan_owner_gone(rig->loan, rig->now_ns), LOAN_DO_SHUT);
    assert_int_equal(pass(rig, rig->now_ns + CONN_NS / 2), 0);
    assert_int_equal(loan_state(rig->loan), LOAN_TAKING_BACK);
    loan_leave(&rig->owner, 0, &START);
    go_home(rig, pass(rig, rig->now_ns + LOAN_LOOK_MAX_NS));
    finish(rig);
}

static void test_an_owner_that_stays_inside_ends_its_connection(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    (void)loan_owner_gone(rig->loan, rig->now_ns);
    assert_int_equal(pass(rig, rig->now_ns + CONN_NS - 1), 0);
    assert_int_equal(pass(rig, rig->now_ns + 1), LOAN_DO_END);
    assert_int_equal(loan_why_ended(rig->loan), LOAN_END_INSIDE);
    finish(rig);
}

static void test_a_late_owner_cannot_enter_an_old_loan(void **state)
{
    struct rig *rig = begin();
    uint32_t old;

    lend(rig, 0);
    old = loan_offered(&rig->owner);
    go_home(rig, loan_owner_gone(rig->loan, rig->now_ns));
    assert_false(loan_enter(&rig->owner, old));
    lend(rig, 0);
    assert_false(loan_enter(&rig->owner, old));
    assert_int_equal(rig->words.inside, 0);
    assert_true(stay(rig, 0));
    finish(rig);
}

static void test_a_stay_has_a_limit_of_packets(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    for (unsigned i = 0; i < LOAN_STAY_PACKETS; i++)
        assert_true(loan_packet(&rig->owner));
    assert_false(loan_packet(&rig->owner));
    loan_leave(&rig->owner, 0, &START);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    assert_true(loan_packet(&rig->owner));
    finish(rig);
}

/* ---- the checkpoint -------------------------------------------------------------------- */

static int take(struct rig *rig, struct vip_loan_checkpoint app, struct vip_loan_checkpoint *ret)
{
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    loan_leave(&rig->owner, 0, &app);
    return loan_take(rig->loan, &POSTED, ret);
}

static void test_vipd_goes_on_with_the_owners_checkpoint(void **state)
{
    struct vip_loan_checkpoint app = {.done = 12, .received = 6, .completed = 29}, checkpoint;
    struct rig *rig = begin();

    assert_int_equal(loan_take(rig->loan, &POSTED, &checkpoint), 1);
    lend(rig, 0);
    /* The owner has not used the loan yet. */
    assert_int_equal(loan_take(rig->loan, &POSTED, &checkpoint), 0);
    assert_memory_equal(&checkpoint, &START, sizeof(START));
    assert_int_equal(take(rig, app, &checkpoint), 0);
    assert_memory_equal(&checkpoint, &app, sizeof(app));
    loan_taken(rig->loan);
    assert_int_equal(loan_take(rig->loan, &POSTED, &checkpoint), 1);
    finish(rig);
}

static void test_an_impossible_checkpoint_is_refused(void **state)
{
    struct vip_loan_checkpoint checkpoint;
    struct rig *rig = begin();

    lend(rig, 0);
    assert_int_equal(take(rig, (struct vip_loan_checkpoint){9, 5, 20}, &checkpoint), -EPROTO);
    assert_int_equal(take(rig, (struct vip_loan_checkpoint){10, 4, 20}, &checkpoint), -EPROTO);
    assert_int_equal(take(rig, (struct vip_loan_checkpoint){10, 16, 20}, &checkpoint), -EPROTO);
    assert_int_equal(take(rig, (struct vip_loan_checkpoint){10, 5, 19}, &checkpoint), -EPROTO);
    assert_int_equal(take(rig, (struct vip_loan_checkpoint){10, 5, 31}, &checkpoint), -EPROTO);
    assert_int_equal(take(rig, (struct vip_loan_checkpoint){10, 5, 30}, &checkpoint), 0);
    finish(rig);
}

static void test_any_words_of_the_owner_are_survived(void **state)
{
    static const uint64_t values[] = {0,          1,          100,        0x7fffffff,
                                      0x80000000, 0xffffffff, UINT64_MAX, UINT64_MAX - MS};
    struct rig *rig = begin();
    struct vip_loan_checkpoint checkpoint;

    for (unsigned i = 0; i < 8 * 8 * 8; i++) {
        rig->words.inside = (uint32_t)values[i % 8];
        rig->words.beat = (uint32_t)values[i / 8 % 8];
        rig->words.timer_ns = values[i / 64];
        rig->words.number = loan_number(rig->loan);
        if (loan_state(rig->loan) == LOAN_HOME) {
            rig->now_ns += LOAN_MOVES_NS;
            lend(rig, 0);
        }
        (void)pass(rig, rig->now_ns + MS);
        (void)loan_data_waits(rig->loan, rig->now_ns);
        if (loan_state(rig->loan) == LOAN_MOVING_HOME) {
            (void)loan_take(rig->loan, &POSTED, &checkpoint);
            loan_taken(rig->loan);
            (void)loan_peer_agreed(rig->loan, loan_number(rig->loan),
                                   loan_number_next(loan_peer(rig->loan)), false, rig->now_ns);
        }
    }
    assert_int_not_equal(loan_state(rig->loan), LOAN_ENDED);
    finish(rig);
}

/* ---- the peer -------------------------------------------------------------------------- */

static void test_a_request_at_home_is_answered_at_once(void **state)
{
    struct rig *rig = begin();
    uint32_t actions;

    assert_int_equal(loan_peer_asks(rig->loan, 201, rig->now_ns, &actions), LOAN_TAKEN);
    assert_int_equal(actions, LOAN_DO_PAUSE | LOAN_DO_ANSWER | LOAN_DO_GO_ON);
    assert_int_equal(loan_number(rig->loan), 101);
    assert_int_equal(loan_peer_asks(rig->loan, 201, rig->now_ns, &actions), LOAN_AGAIN);
    assert_int_equal(actions, 0);
    finish(rig);
}

static void test_old_numbers_have_no_effect(void **state)
{
    struct rig *rig = begin();
    uint32_t actions;

    assert_int_equal(loan_peer_asks(rig->loan, 205, rig->now_ns, &actions), LOAN_TAKEN);
    assert_int_equal(loan_peer_asks(rig->loan, 204, rig->now_ns, &actions), LOAN_STALE);
    assert_int_equal(loan_peer_asks(rig->loan, 0, rig->now_ns, &actions), LOAN_STALE);
    lend(rig, 0);
    assert_int_equal(loan_peer_agreed(rig->loan, loan_number(rig->loan), 300, true, rig->now_ns),
                     0);
    (void)loan_owner_gone(rig->loan, rig->now_ns);
    assert_int_equal(
        loan_peer_agreed(rig->loan, loan_number(rig->loan) - 1, 300, true, rig->now_ns), 0);
    finish(rig);
}

static void test_a_request_takes_the_loan_back_and_the_answer_lends_again(void **state)
{
    struct rig *rig = begin();
    uint32_t actions, old;

    lend(rig, 0);
    old = loan_number(rig->loan);
    assert_true(stay(rig, 0));
    assert_int_equal(loan_peer_asks(rig->loan, 300, rig->now_ns, &actions), LOAN_TAKEN);
    assert_int_equal(actions, LOAN_DO_TAKE | LOAN_DO_ANSWER | LOAN_DO_LEND);
    assert_true(loan_is_out(rig->loan));
    assert_int_equal(loan_number(rig->loan), old + 1);
    assert_false(loan_enter(&rig->owner, old));
    finish(rig);
}

static void test_a_request_waits_for_the_owner_and_is_answered_from_home(void **state)
{
    struct rig *rig = begin();
    uint32_t actions;

    lend(rig, 0);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    assert_int_equal(loan_peer_asks(rig->loan, 300, rig->now_ns, &actions), LOAN_TAKEN);
    assert_int_equal(actions, 0);
    assert_int_equal(loan_peer_asks(rig->loan, 300, rig->now_ns, &actions), LOAN_LATER);
    loan_leave(&rig->owner, 0, &START);
    assert_int_equal(pass(rig, rig->now_ns + LOAN_LOOK_MAX_NS),
                     LOAN_DO_SHUT | LOAN_DO_TAKE | LOAN_DO_ANSWER | LOAN_DO_GO_ON);
    assert_int_equal(loan_state(rig->loan), LOAN_HOME);
    assert_false(loan_is_out(rig->loan));
    finish(rig);
}

static void test_requests_that_cross_are_answered_by_one_end(void **state)
{
    struct rig *first = begin(), *second = begin();
    uint32_t actions;

    first->config.first = true;
    free(first->loan);
    first->loan = loan_init(malloc(loan_bytes()), &first->config, &first->own, &first->words);
    assert_true(polls_until_probe(first, 1) && polls_until_probe(second, 1));
    (void)loan_probed(first->loan, first->now_ns);
    (void)loan_probed(second->loan, second->now_ns);
    /* The first end asks again, once, with a new number. */
    assert_int_equal(loan_peer_asks(first->loan, 201, first->now_ns, &actions), LOAN_LATER);
    assert_int_equal(actions, LOAN_DO_OFFER);
    assert_int_equal(loan_number(first->loan), 102);
    assert_int_equal(loan_peer_asks(first->loan, 201, first->now_ns, &actions), LOAN_LATER);
    assert_int_equal(actions, 0);
    /* The second end moves with its answer. */
    assert_int_equal(loan_peer_asks(second->loan, 202, second->now_ns, &actions), LOAN_TAKEN);
    assert_int_equal(actions, LOAN_DO_ANSWER | LOAN_DO_LEND);
    assert_int_equal(loan_peer_agreed(first->loan, 102, 203, true, first->now_ns), LOAN_DO_LEND);
    finish(first);
    finish(second);
}

static void test_a_request_is_repeated_until_the_peer_counts_as_silent(void **state)
{
    struct rig *rig = begin();
    uint64_t began_ns;

    assert_true(polls_until_probe(rig, 1));
    began_ns = rig->now_ns;
    (void)loan_probed(rig->loan, rig->now_ns);
    assert_int_equal(pass(rig, began_ns + LOAN_ASK_NS), LOAN_DO_OFFER);
    assert_int_equal(pass(rig, began_ns + 3 * LOAN_ASK_NS), LOAN_DO_OFFER);
    assert_int_equal(pass(rig, began_ns + CONN_NS - 1), LOAN_DO_OFFER);
    assert_int_equal(pass(rig, began_ns + CONN_NS), LOAN_DO_SHUT | LOAN_DO_END);
    assert_int_equal(loan_why_ended(rig->loan), LOAN_END_SILENT);
    finish(rig);
}

static void test_the_end_of_the_connection_waits_for_the_owner(void **state)
{
    struct rig *rig = begin();

    lend(rig, 0);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    assert_int_equal(loan_over(rig->loan, rig->now_ns), LOAN_DO_SHUT);
    loan_leave(&rig->owner, 0, &START);
    assert_int_equal(pass(rig, rig->now_ns + LOAN_LOOK_MAX_NS), LOAN_DO_TAKE | LOAN_DO_END);
    assert_int_equal(loan_why_ended(rig->loan), LOAN_END_OVER);
    finish(rig);
}

/* ---- the next life of vipd ------------------------------------------------------------- */

static uint32_t restart(struct rig *rig)
{
    uint32_t actions;

    free(rig->loan);
    rig->loan = loan_restore(malloc(loan_bytes()), &rig->config, &rig->own, &rig->words,
                             rig->now_ns, &actions);
    return actions;
}

static void test_the_next_life_takes_the_loan_back_first(void **state)
{
    struct rig *rig = begin();
    uint32_t old;

    lend(rig, 0);
    old = loan_number(rig->loan);
    assert_true(loan_enter(&rig->owner, loan_offered(&rig->owner)));
    assert_int_equal(restart(rig), LOAN_DO_SHUT);
    assert_int_equal(loan_state(rig->loan), LOAN_TAKING_BACK);
    /* The life after that one waits, too, although the loan is revoked. */
    (void)restart(rig);
    assert_int_equal(loan_state(rig->loan), LOAN_TAKING_BACK);
    loan_leave(&rig->owner, 0, &START);
    go_home(rig, pass(rig, rig->now_ns + LOAN_LOOK_MAX_NS));
    assert_true(loan_before(old, loan_number(rig->loan)));
    finish(rig);
}

static void test_the_next_life_without_a_loan_binds_anew(void **state)
{
    struct rig *rig = begin();
    struct vip_loan_checkpoint checkpoint;

    assert_int_equal(restart(rig), LOAN_DO_TAKE | LOAN_DO_OFFER);
    assert_int_equal(loan_take(rig->loan, &POSTED, &checkpoint), 1);
    assert_int_equal(loan_peer_agreed(rig->loan, 101, 201, false, rig->now_ns), LOAN_DO_GO_ON);
    finish(rig);
}

static void test_numbers_wrap(void **state)
{
    struct rig *rig = begin();
    uint32_t old;

    rig->own.number = rig->own.peer = 0xfffffffe;
    free(rig->loan);
    rig->loan = loan_init(malloc(loan_bytes()), &rig->config, &rig->own, &rig->words);
    lend(rig, 0);
    old = loan_offered(&rig->owner);
    assert_true(old == 0xffffffff);
    assert_true(stay(rig, 0));
    go_home(rig, loan_owner_gone(rig->loan, rig->now_ns));
    assert_int_equal(loan_number(rig->loan), 1);
    assert_false(loan_enter(&rig->owner, old));
    lend(rig, 0);
    assert_false(loan_enter(&rig->owner, old));
    assert_true(stay(rig, 0));
    finish(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_program_that_polls_gets_a_loan),
        cmocka_unit_test(test_a_probe_without_answer_keeps_the_path_in_vipd),
        cmocka_unit_test(test_a_program_that_stopped_polling_gets_none),
        cmocka_unit_test(test_a_peer_that_refuses_keeps_the_path_in_vipd),
        cmocka_unit_test(test_a_loan_lost_to_data_comes_again_after_steady_polling),
        cmocka_unit_test(test_moves_are_limited),
        cmocka_unit_test(test_more_moves),
        cmocka_unit_test(test_data_without_a_beat_takes_the_loan_back),
        cmocka_unit_test(test_a_beat_ends_the_watch),
        cmocka_unit_test(test_an_owner_that_sleeps_has_time_to_wake),
        cmocka_unit_test(test_an_owner_that_is_stopped_asleep_loses_its_loan),
        cmocka_unit_test(test_an_owner_that_sleeps_has_time_for_its_timer),
        cmocka_unit_test(test_an_owner_that_computes_keeps_its_loan),
        cmocka_unit_test(test_a_timer_that_is_over_takes_the_loan_back),
        cmocka_unit_test(test_an_owner_that_never_comes_counts_as_late_for_its_timer),
        cmocka_unit_test(test_an_owner_with_a_new_timer_wakes_vipd),
        cmocka_unit_test(test_a_timer_left_before_the_present_stay_does_not_count_at_once),
        cmocka_unit_test(test_patience_doubles_up_to_its_limit),
        cmocka_unit_test(test_an_owner_that_forks_loses_its_loan),
        cmocka_unit_test(test_the_connection_of_a_dead_program_ends),
        cmocka_unit_test(test_vipd_waits_while_the_owner_is_inside),
        cmocka_unit_test(test_an_owner_that_stays_inside_ends_its_connection),
        cmocka_unit_test(test_a_late_owner_cannot_enter_an_old_loan),
        cmocka_unit_test(test_a_stay_has_a_limit_of_packets),
        cmocka_unit_test(test_vipd_goes_on_with_the_owners_checkpoint),
        cmocka_unit_test(test_an_impossible_checkpoint_is_refused),
        cmocka_unit_test(test_any_words_of_the_owner_are_survived),
        cmocka_unit_test(test_a_request_at_home_is_answered_at_once),
        cmocka_unit_test(test_old_numbers_have_no_effect),
        cmocka_unit_test(test_a_request_takes_the_loan_back_and_the_answer_lends_again),
        cmocka_unit_test(test_a_request_waits_for_the_owner_and_is_answered_from_home),
        cmocka_unit_test(test_requests_that_cross_are_answered_by_one_end),
        cmocka_unit_test(test_a_request_is_repeated_until_the_peer_counts_as_silent),
        cmocka_unit_test(test_the_end_of_the_connection_waits_for_the_owner),
        cmocka_unit_test(test_the_next_life_takes_the_loan_back_first),
        cmocka_unit_test(test_the_next_life_without_a_loan_binds_anew),
        cmocka_unit_test(test_numbers_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
