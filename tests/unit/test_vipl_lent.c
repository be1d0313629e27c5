/*
 * Requests for loans: what each has, and what becomes of it if its VI ends meanwhile. The fake vipd
 * lends nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/lent_rig.h"

/* vipd may be another one since the last request, and does not know the file of the parts then. */
static void test_each_request_has_the_file_of_the_parts(void **state)
{
    struct vipl__vi *vi;
    struct rig rig;

    (void)state;
    setup(&rig);
    vi = make_vi(&rig, 0);
    connected(vi);
    for (unsigned i = 1; i <= 2; i++) {
        ask_until(&rig, vi, i);
        assert_int_equal(__atomic_load_n(&rig.files, __ATOMIC_SEQ_CST), 2);
    }
    teardown(&rig);
}

/* A request waits for another request. Meanwhile the VI ends, and files of the program get the
 * number that its socket had. vipd must get none of them. */
static void test_a_vi_that_ends_while_its_request_waits(void **state)
{
    struct vipl__vi *vi;
    bool prepared = false;
    struct rig rig;
    int others[8];

    (void)state;
    setup(&rig);
    vi = make_vi(&rig, 0);
    connected(vi);
    pthread_mutex_lock(&rig.session->call_lock);
    vipl__lent_ask(vi);
    while (!prepared) {
        pthread_mutex_lock(&rig.session->lock);
        prepared = vi->asks.made != NULL && vi->asks.made->sock >= 0;
        pthread_mutex_unlock(&rig.session->lock);
        usleep(1000);
    }
    reset(vi);
    for (unsigned i = 0; i < 8; i++)
        others[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&rig.session->call_lock);
    while (requests(&rig) == 0 && !vipl__is_gone(rig.session))
        usleep(1000);
    assert_false(vipl__is_gone(rig.session));
    assert_true(__atomic_load_n(&rig.socket, __ATOMIC_SEQ_CST));
    for (unsigned i = 0; i < 8; i++)
        close(others[i]);
    teardown(&rig);
}

/* A VI ends just before its request would be made. It keeps none of the session's few parts. */
static void test_a_vi_that_has_ended_takes_no_part(void **state)
{
    struct vipl__vi *vi, *next;
    struct rig rig;

    (void)state;
    setup(&rig);
    vi = make_vi(&rig, 0);
    next = make_vi(&rig, 1);
    connected(vi);
    connected(next);
    pthread_mutex_lock(&rig.session->lock);
    vipl__lent_ask(vi);
    vipl__lent_reset(vi);
    pthread_mutex_unlock(&rig.session->lock);
    ask_until(&rig, next, 1); /* after the request of the first VI */
    pthread_mutex_lock(&rig.session->lock);
    assert_true(vi->asks.made == NULL || vi->asks.made->part == NULL);
    assert_ptr_not_equal(next->asks.made->part, NULL);
    pthread_mutex_unlock(&rig.session->lock);
    assert_int_equal(requests(&rig), 1);
    teardown(&rig);
}

/* A program that sleeps between two polls does not poll without a pause. */
static void test_a_program_that_sleeps_does_not_ask(void **state)
{
    struct rig rig;
    struct vipl__vi *vi;

    setup(&rig);
    rig.session->loans_eager = false;
    vi = make_vi(&rig, 1);
    connected(vi);
    for (unsigned i = 0; i < 50; i++) {
        vi->asks.steady_ns = vi->asks.polled_ns = vipl__now_ns();
        vi->asks.steady_ns -= 5000000;
        vipl__lent_sleep(rig.session, &vi->asks.sleeps);
        vipl__lent_ask(vi);
        assert_int_equal(vi->asks.next_ns, 0);
        assert_int_equal(vi->asks.steady_ns, vi->asks.polled_ns);
    }
    /* Without sleep it asks, but not if the processor is away between the next lines. */
    while (vi->asks.next_ns == 0) {
        vi->asks.steady_ns = vi->asks.polled_ns = vipl__now_ns();
        vi->asks.steady_ns -= 5000000;
        vipl__lent_ask(vi);
    }
    reset(vi);
    teardown(&rig);
}

/* The program takes descriptors `uses` times between two looks at the clock. Each look comes
 * `pause_ns` after the one before. */
static void take_descriptors(struct vipl__vi *vi, unsigned uses, uint64_t pause_ns)
{
    for (unsigned i = 0; i < uses && vi->asks.next_ns == 0; i++) {
        vi->asks.use_ns = vipl__now_ns() - pause_ns;
        for (unsigned take = 0; take < VIPL__LENT_TAKES; take++)
            vipl__lent_took(vi);
    }
}

/* A program makes few polls, but it often takes descriptors. So it asks for a loan. */
static void test_a_program_that_takes_often_asks(void **state)
{
    struct rig rig;
    struct vipl__vi *vi;

    (void)state;
    setup(&rig);
    rig.session->loans_eager = false;
    vi = make_vi(&rig, 1);
    connected(vi);
    take_descriptors(vi, 100, 1000000000);
    assert_int_equal(vi->asks.next_ns, 0);
    take_descriptors(vi, 14, 0);
    assert_int_equal(vi->asks.next_ns, 0);
    take_descriptors(vi, 10000, 0); /* the processor may be away between two looks */
    assert_int_not_equal(vi->asks.next_ns, 0);
    assert_false(vi->asks.asked_asleep);
    reset(vi);
    teardown(&rig);
}

/* A vipd of before this feature ends a session that sends it a request about loans. */
static void test_no_request_to_a_vipd_without_loans(void **state)
{
    struct vipl__vi *vi;
    struct vipl__lent *lent;
    struct rig rig;

    (void)state;
    setup(&rig);
    vi = make_vi(&rig, 0);
    connected(vi);
    ask_until(&rig, vi, 1);
    __atomic_store_n(&rig.session->loans_known, false, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&rig.session->lock);
    lent = vi->asks.made;
    pthread_mutex_unlock(&rig.session->lock);
    __atomic_store_n(&lent->pending_ns, 0, __ATOMIC_SEQ_CST);
    vi->asks.next_ns = 0;
    vipl__lent_ask(vi);
    assert_int_equal(vi->asks.next_ns, 0);
    vipl__lent_state_end(lent, VIPL__LENT_BACK);
    vipl__lent_work(rig.session->loans);
    while (vipl__lent_state_of(lent) != VIPL__LENT_NONE)
        usleep(1000);
    assert_int_equal(requests(&rig), 1);
    assert_int_equal(
        __atomic_load_n(&rig.fake.requests[VIP__REQUEST__BODY_LOAN_END], __ATOMIC_SEQ_CST), 0);
    teardown(&rig);
}

/* ---- rest ------------------------------------------------------------------------------- */

/* More attempts than a thread makes that sleeps. */
#define FEW 20u

/* A VI on loan whose engine is this test: an attempt is done when `done` says so. */
struct resting {
    struct rig rig;
    struct vipl__vi *vi;
    struct vipl__lent *lent;
    struct vipl__sleeper wait;
    int peer;          /* connected to the VI's socket, and back */
    unsigned attempts; /* atomic */
    bool (*done)(struct resting *resting);
    VIP_RETURN result; /* of the thread that rests */
};

static VIP_RETURN attempt(struct vipl__sleeper *wait)
{
    struct resting *resting = wait->object;

    __atomic_add_fetch(&resting->attempts, 1, __ATOMIC_SEQ_CST);
    return resting->done(resting) ? VIP_SUCCESS : VIP_NOT_DONE;
}

static void resting_begin(struct resting *resting, bool (*done)(struct resting *resting))
{
    int sock[2];

    memset(resting, 0, sizeof(*resting));
    setup(&resting->rig);
    resting->vi = make_vi(&resting->rig, 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sock), 0);
    resting->lent = calloc(1, sizeof(*resting->lent));
    resting->lent->vi = resting->vi;
    resting->lent->sock = sock[0];
    resting->peer = sock[1];
    resting->lent->part = calloc(1, sizeof(*resting->lent->part));
    resting->lent->tells = true;
    resting->lent->offered = 1;
    resting->lent->state = VIPL__LENT_LIVE;
    assert_true(vipl__lent_rest_ready(resting->rig.session));
    resting->vi->lent = resting->lent;
    resting->wait = (struct vipl__sleeper){.attempt = attempt, .object = resting};
    resting->done = done;
}

static void resting_end(struct resting *resting)
{
    assert_ptr_equal(resting->rig.session->rest.vi, NULL);
    assert_int_equal(resting->lent->part->owner.asleep, 0);
    resting->vi->lent = NULL;
    close(resting->lent->sock);
    close(resting->peer);
    free(resting->lent->part);
    free(resting->lent);
    teardown(&resting->rig);
}

static void *rest(void *arg)
{
    struct resting *resting = arg;

    resting->result = vipl__lent_rest(resting->vi, VIP_Q_RECV, &resting->wait, VIPL__NEVER);
    return NULL;
}

/* Start a thread that rests, and wait until it has found nothing. */
static pthread_t rest_begin(struct resting *resting)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, rest, resting), 0);
    while (__atomic_load_n(&resting->attempts, __ATOMIC_SEQ_CST) == 0)
        usleep(100);
    assert_ptr_equal(__atomic_load_n(&resting->rig.session->rest.vi, __ATOMIC_SEQ_CST),
                     resting->vi);
    assert_int_equal(__atomic_load_n(&resting->lent->part->owner.asleep, __ATOMIC_SEQ_CST), 1);
    return thread;
}

static bool when_a_packet_comes(struct resting *resting)
{
    char packet;

    return recv(resting->lent->sock, &packet, sizeof(packet), MSG_DONTWAIT) == 1;
}

static void test_a_packet_wakes_a_thread_that_rests(void **state)
{
    struct resting resting;
    pthread_t thread;

    (void)state;
    resting_begin(&resting, when_a_packet_comes);
    thread = rest_begin(&resting);
    assert_int_equal(send(resting.peer, "", 1, 0), 1);
    pthread_join(thread, NULL);
    assert_int_equal(resting.result, VIP_SUCCESS);
    resting_end(&resting);
}

/* The timer of the engine, in the owner's words. */
static bool when_the_timer_is_over(struct resting *resting)
{
    return vipl__now_ns() >= resting->lent->part->owner.timer_ns;
}

static void test_the_engines_timer_wakes_a_thread_that_rests(void **state)
{
    struct resting resting;

    (void)state;
    resting_begin(&resting, when_the_timer_is_over);
    resting.lent->part->owner.timer_ns = vipl__now_ns() + 3000000;
    (void)rest(&resting);
    assert_int_equal(resting.result, VIP_SUCCESS);
    assert_in_range(resting.attempts, 1, FEW);
    resting_end(&resting);
}

static bool never(struct resting *resting)
{
    (void)resting;
    return false;
}

static void test_a_rest_has_a_time_limit(void **state)
{
    struct resting resting;
    uint64_t until_ns;

    (void)state;
    resting_begin(&resting, never);
    until_ns = vipl__now_ns() + 3000000;
    assert_int_equal(vipl__lent_rest(resting.vi, VIP_Q_SEND, &resting.wait, until_ns), VIP_TIMEOUT);
    assert_true(vipl__now_ns() >= until_ns);
    assert_in_range(resting.attempts, 1, FEW);
    resting_end(&resting);
}

/* Without a file descriptor the thread must sleep in another way, and not try again and again. */
static void test_no_thread_rests_without_a_descriptor(void **state)
{
    struct resting resting;

    (void)state;
    resting_begin(&resting, never);
    close(resting.rig.session->rest.fd);
    resting.rig.session->rest.fd = -1;
    assert_false(vipl__lent_can_rest(resting.vi));
    (void)rest(&resting);
    assert_int_equal(resting.result, VIP_NOT_DONE);
    assert_int_equal(resting.attempts, 0);
    resting_end(&resting);
}

/* vipd's words have another number than the offer. So no thread can begin this loan. */
static void test_no_thread_rests_for_an_old_offer(void **state)
{
    struct resting resting;
    struct vip_loan_vipd *words;

    (void)state;
    resting_begin(&resting, never);
    words = &vip_vipd_vi(resting.rig.fake.vipd, resting.vi->index)->loan;
    resting.lent->state = VIPL__LENT_OFFERED;
    assert_false(vipl__lent_can_rest(resting.vi));
    words->lent = 1;
    assert_true(vipl__lent_can_rest(resting.vi));
    words->revoked = 1;
    assert_false(vipl__lent_can_rest(resting.vi));
    words->lent = words->revoked = 2;
    assert_false(vipl__lent_can_rest(resting.vi));
    resting_end(&resting);
}

/* Another thread has the loan's lock, so the attempt does not see that vipd has ended the loan. The
 * thread that rests must not sleep: nothing wakes it any more. */
static bool when_the_lock_is_free(struct resting *resting)
{
    return __atomic_load_n(&resting->attempts, __ATOMIC_SEQ_CST) > FEW;
}

static void test_no_sleep_on_a_revoked_loan(void **state)
{
    struct resting resting;

    (void)state;
    resting_begin(&resting, when_the_lock_is_free);
    vip_vipd_vi(resting.rig.fake.vipd, resting.vi->index)->loan.revoked = 1;
    (void)rest(&resting);
    assert_int_equal(resting.result, VIP_SUCCESS);
    resting_end(&resting);
}

/* While regions change, no thread can be in a stay. Afterwards a thread that rests must look again. */
static void test_the_lock_of_all_loans_wakes_a_thread_that_rests(void **state)
{
    struct resting resting;
    struct vipl__loans *loans;
    pthread_t thread;
    unsigned attempts;

    (void)state;
    resting_begin(&resting, when_the_lock_is_free);
    connected(resting.vi);
    thread = rest_begin(&resting);
    while ((attempts = __atomic_load_n(&resting.attempts, __ATOMIC_SEQ_CST)) <= FEW) {
        loans = vipl__lent_lock(resting.rig.session);
        vipl__lent_unlock(loans);
        while (__atomic_load_n(&resting.attempts, __ATOMIC_SEQ_CST) == attempts)
            usleep(100);
    }
    pthread_join(thread, NULL);
    assert_int_equal(resting.result, VIP_SUCCESS);
    resting_end(&resting);
}

/* vipd has taken the loan back: the thread must sleep for vipd instead. */
static void test_the_end_of_the_loan_ends_a_rest(void **state)
{
    struct resting resting;
    pthread_t thread;

    (void)state;
    resting_begin(&resting, never);
    thread = rest_begin(&resting);
    vipl__lent_state_end(resting.lent, VIPL__LENT_NONE);
    pthread_join(thread, NULL);
    assert_int_equal(resting.result, VIP_NOT_DONE);
    resting_end(&resting);
}

/* vipd of before this feature does not say when it has taken a loan back. */
static void test_no_thread_rests_if_vipd_does_not_tell(void **state)
{
    struct resting resting;

    (void)state;
    resting_begin(&resting, never);
    resting.lent->tells = false;
    (void)rest(&resting);
    assert_int_equal(resting.result, VIP_NOT_DONE);
    assert_int_equal(resting.attempts, 0);
    resting_end(&resting);
}

static bool when_the_other_one_came(struct resting *resting)
{
    return __atomic_load_n(&resting->lent->queue[VIP_Q_RECV].done, __ATOMIC_SEQ_CST) == 1;
}

/* One thread rests; a second one does not. What it completes wakes the first one. */
static void test_one_thread_of_a_session_rests(void **state)
{
    struct resting resting;
    pthread_t thread;

    (void)state;
    resting_begin(&resting, when_the_other_one_came);
    thread = rest_begin(&resting);
    assert_false(vipl__lent_can_rest(resting.vi));
    assert_int_equal(vipl__lent_rest(resting.vi, VIP_Q_SEND, &resting.wait, VIPL__NEVER),
                     VIP_NOT_DONE);
    __atomic_store_n(&resting.lent->queue[VIP_Q_RECV].done, 1, __ATOMIC_SEQ_CST);
    vipl__lent_tell(resting.lent);
    pthread_join(thread, NULL);
    assert_int_equal(resting.result, VIP_SUCCESS);
    resting_end(&resting);
}

static bool when_another_timer_is_over(struct resting *resting)
{
    uint64_t timer_ns = __atomic_load_n(&resting->lent->part->owner.timer_ns, __ATOMIC_SEQ_CST);

    return timer_ns != 0 && vipl__now_ns() >= timer_ns;
}

/* A thread that posts leaves a timer for the packet that it has sent. */
static void test_a_timer_of_another_thread_wakes_a_thread_that_rests(void **state)
{
    struct resting resting;
    pthread_t thread;

    (void)state;
    resting_begin(&resting, when_another_timer_is_over);
    thread = rest_begin(&resting);
    __atomic_store_n(&resting.lent->part->owner.timer_ns, vipl__now_ns() + 3000000,
                     __ATOMIC_SEQ_CST);
    vipl__lent_tell(resting.lent);
    pthread_join(thread, NULL);
    assert_int_equal(resting.result, VIP_SUCCESS);
    resting_end(&resting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_request_has_the_file_of_the_parts),
        cmocka_unit_test(test_a_vi_that_ends_while_its_request_waits),
        cmocka_unit_test(test_a_vi_that_has_ended_takes_no_part),
        cmocka_unit_test(test_a_program_that_sleeps_does_not_ask),
        cmocka_unit_test(test_a_program_that_takes_often_asks),
        cmocka_unit_test(test_no_request_to_a_vipd_without_loans),
        cmocka_unit_test(test_a_packet_wakes_a_thread_that_rests),
        cmocka_unit_test(test_the_engines_timer_wakes_a_thread_that_rests),
        cmocka_unit_test(test_a_rest_has_a_time_limit),
        cmocka_unit_test(test_no_thread_rests_without_a_descriptor),
        cmocka_unit_test(test_no_thread_rests_for_an_old_offer),
        cmocka_unit_test(test_no_sleep_on_a_revoked_loan),
        cmocka_unit_test(test_the_lock_of_all_loans_wakes_a_thread_that_rests),
        cmocka_unit_test(test_the_end_of_the_loan_ends_a_rest),
        cmocka_unit_test(test_no_thread_rests_if_vipd_does_not_tell),
        cmocka_unit_test(test_one_thread_of_a_session_rests),
        cmocka_unit_test(test_a_timer_of_another_thread_wakes_a_thread_that_rests),
    };

    return cmocka_run_group_tests_name("requests for loans", tests, NULL, NULL);
}
