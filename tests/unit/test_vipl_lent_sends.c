/*
 * The table of sends at the beginning and end of a loan: it is written only while vipd cannot take
 * the loan back, and no send by the submission ring takes the place of one in the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/loan/internal.h"
#include "tests/unit/lent_rig.h"

#define SENDS 8u

static _Alignas(4096) unsigned char pages[4096];

struct sends {
    struct rig rig;
    struct vipl__vi *vi;
    struct vipl__lent *lent;
    struct vip_loan_vipd *words;
    VIP_MEM_HANDLE memory;
    unsigned posted;
};

static void sends_begin_outlive(struct sends *sends, uint32_t outlive_ms)
{
    *sends = (struct sends){0};
    setup_outlive(&sends->rig, outlive_ms);
    sends->rig.fake.number = 0x20001;
    OK(VipRegisterMem(sends->rig.nic, pages, sizeof(pages), NULL, &sends->memory));
    sends->vi = make_vi(&sends->rig, 0);
    sends->words = &vip_vipd_vi(sends->rig.fake.vipd, 0)->loan;
    vip_vipd_vi(sends->rig.fake.vipd, 0)->state = VIP_VIST_CONNECTED;
    connected(sends->vi);
    ask_until(&sends->rig, sends->vi, 1);
    pthread_mutex_lock(&sends->rig.session->lock);
    sends->lent = sends->vi->asks.made;
    pthread_mutex_unlock(&sends->rig.session->lock);
}

static void sends_begin(struct sends *sends)
{
    sends_begin_outlive(sends, 0);
}

static void sends_end(struct sends *sends)
{
    reset(sends->vi);
    teardown(&sends->rig);
}

/* vipd lends, and the program learns it. vipd has completed no send. */
static void offer(struct sends *sends, uint32_t number, uint32_t receive)
{
    uint8_t peer[] = {127, 0, 0, 9, 0x12, 0x35};
    Vip__Lent event = VIP__LENT__INIT;

    sends->words->revoked = number - 1;
    sends->words->lent = number;
    event.number = number;
    event.receive = receive;
    event.host.data = peer;
    event.host.len = sizeof(peer);
    event.local_id = event.remote_id = event.local_epoch = event.remote_epoch = 1;
    event.packet_bytes = event.window_bytes = 1400;
    event.rto_min_ns = event.ack_delay_ns = 1000000;
    event.rto_initial_ns = event.rto_max_ns = event.conn_timeout_ns = 1000000000;
    event.ack_every_packets = 2;
    pthread_mutex_lock(&sends->rig.session->lock);
    vipl__lent_offer(sends->vi, &event);
    pthread_mutex_unlock(&sends->rig.session->lock);
    assert_int_equal(vipl__lent_state_of(sends->lent), VIPL__LENT_OFFERED);
}

static void post_one(struct sends *sends)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)pages + sends->posted;

    assert_true(sends->posted < SENDS);
    memset(desc, 0, sizeof(*desc));
    desc->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    desc->CS.ImmediateData = sends->posted++;
    OK(VipPostSend((VIP_VI_HANDLE)(uintptr_t)sends->vi->handle, desc, sends->memory));
}

/* The submission ring has these slots: 'a' asks for a look at the table, a digit is that send. */
static void assert_ring(const struct sends *sends, const char *slots)
{
    const struct vip_sq_slot *ring = vip_app_sq(sends->rig.session->app_base);
    struct vip_sq_slot slot;
    uint32_t at = 0;

    for (; slots[at] != 0; at++) {
        assert_true(vip_sq_read(ring, at, &slot));
        if (slots[at] == 'a') {
            assert_int_equal(slot.kind, VIP_SQ_ASK);
            assert_int_equal(slot.flags, VIP_ASK_SENDS);
        } else {
            assert_int_equal(slot.kind, VIP_SQ_SEND);
            assert_int_equal(slot.imm, slots[at] - '0');
        }
    }
    assert_false(vip_sq_read(ring, at, &slot));
}

static void assert_table(const struct sends *sends, uint32_t posted, uint32_t used)
{
    assert_int_equal(sends->lent->part->posted, posted);
    assert_int_equal(sends->lent->part->owner.number, used);
    assert_int_equal(sends->lent->part->owner.inside, 0);
}

static void test_the_first_stay_fills_the_table(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    post_one(&sends);
    assert_table(&sends, 0, 0);
    vipl__lent_turn(sends.lent);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_LIVE);
    assert_table(&sends, 1, 1);
    post_one(&sends);
    assert_table(&sends, 2, 1);
    assert_ring(&sends, "0");
    sends_end(&sends);
}

/* vipd ends the loan before the program begins it, and may be reading the table. A send that is in
 * the submission ring would then be taken twice. */
static void test_a_loan_that_is_over_leaves_the_table(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    post_one(&sends);
    sends.words->revoked = 1;
    vipl__lent_turn(sends.lent);
    assert_int_not_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_LIVE);
    assert_table(&sends, 0, 0);
    post_one(&sends);
    assert_ring(&sends, "01");
    sends_end(&sends);
}

/* The same for terms that do not fit: the loan counts as never used. */
static void test_old_terms_leave_the_table(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 1); /* no receive has completed */
    post_one(&sends);
    vipl__lent_turn(sends.lent);
    assert_int_not_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_LIVE);
    assert_table(&sends, 0, 0);
    sends_end(&sends);
}

/* After a loan, the first send by the ring comes behind a request to look at the table. */
static void test_a_request_before_the_first_send_by_the_ring(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    post_one(&sends);
    sends.words->revoked = sends.words->taken = 1;
    post_one(&sends);
    post_one(&sends);
    assert_ring(&sends, "a12");
    assert_table(&sends, 1, 1);
    sends_end(&sends);
}

/* The same if the next offer comes before the next send. */
static void test_a_request_after_the_next_offer(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    post_one(&sends);
    sends.words->taken = 1;
    offer(&sends, 2, 0);
    post_one(&sends);
    post_one(&sends);
    assert_ring(&sends, "a12");
    sends_end(&sends);
}

/* The VI connects anew. Its sends go by the ring, also while vipd's words have the number of the last
 * loan before; and vipd has no table to look at. */
static void test_the_next_connection_begins_without_the_table(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    assert_int_equal(sends.lent->out, 1);
    *sends.words = (struct vip_loan_vipd){0};
    connected(sends.vi);
    sends.words->lent = 1;
    post_one(&sends);
    assert_ring(&sends, "0");
    assert_int_equal(sends.lent->part->posted, 0);
    sends_end(&sends);
}

/* In the next stay, the engine breaks the connection, and then `bell` runs. */
static void break_soon(struct sends *sends, void (*bell)(void *ctx))
{
    struct vipl__loan *loan = sends->lent->loan;

    loan->event[0] = (struct eng_event){.kind = ENG_EVENT_BROKEN, .reason = VIP_CLOSE_TIMEOUT};
    loan->event_first = 0;
    loan->event_count = 1;
    loan->host.bell = bell;             /* the stay leaves a timer, */
    sends->words->look_ns = UINT64_MAX; /* and vipd sleeps */
}

/* At the end of a stay, as if another thread of the program had given the loan back. */
static void given_back(void *ctx)
{
    struct vipl__lent *lent = ctx;

    __atomic_store_n(&lent->state, VIPL__LENT_BACK, __ATOMIC_SEQ_CST);
}

/* The engine breaks the connection. vipd must learn it, whichever thread gives the loan back. */
static void test_a_break_while_another_thread_gives_back(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    break_soon(&sends, given_back);
    post_one(&sends);
    assert_true(vipl__lent_broken(sends.vi));
    while (!__atomic_load_n(&sends.rig.broken, __ATOMIC_SEQ_CST))
        usleep(1000);
    vipl__loan_end(sends.lent->loan);
    sends_end(&sends);
}

/* At the end of a stay, as if another thread had ended this connection and made the next one. */
static void connected_anew(void *ctx)
{
    struct vipl__lent *lent = ctx;

    __atomic_store_n(&lent->state, VIPL__LENT_NONE, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&lent->conns, 1, __ATOMIC_SEQ_CST);
}

/* The engine breaks a connection. Before its thread tells vipd, another thread makes the next
 * connection, which goes on. */
static void test_a_break_of_the_connection_before(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    break_soon(&sends, connected_anew);
    post_one(&sends);
    assert_false(vipl__lent_broken(sends.vi));
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_NONE);
    vipl__loan_end(sends.lent->loan);
    sends_end(&sends);
    assert_false(sends.rig.broken);
}

/* The engine has broken the connection, and no turn has told it when vipd takes the loan back. */
static void test_a_break_before_the_loan_is_over(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    break_soon(&sends, given_back);
    sends.words->revoked = 1;
    vipl__lent_turn(sends.lent);
    assert_true(vipl__lent_broken(sends.vi));
    while (!__atomic_load_n(&sends.rig.broken, __ATOMIC_SEQ_CST))
        usleep(1000);
    sends_end(&sends);
}

/* The session dies while a loan is out. The library flushes the descriptors, so the engine must not
 * write into their buffers any more. */
static void test_no_loan_outlives_the_session(void **state)
{
    VIP_DESCRIPTOR *desc;
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_LIVE);
    post_one(&sends);
    fake_die(&sends.rig.fake);
    while (!vipl__is_dead(sends.rig.session))
        usleep(1000);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_NONE);
    post_one(&sends);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(VipSendDone((VIP_VI_HANDLE)(uintptr_t)sends.vi->handle, &desc),
                         VIP_DESCRIPTOR_ERROR);
    assert_int_equal(sends.lent->part->posted, 1);
    sends_end(&sends);
}

/* vipd dies while a loan is out, and the next one knows no loans: it would take the same sends again,
 * so it must not go on with the connection. */
static void test_a_vipd_without_loans_does_not_go_on(void **state)
{
    struct sends sends;
    uint32_t life;

    (void)state;
    sends_begin_outlive(&sends, 600000);
    offer(&sends, 1, 0);
    vipl__lent_turn(sends.lent);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_LIVE);
    life = __atomic_load_n(&sends.rig.session->lives, __ATOMIC_ACQUIRE);
    sends.rig.fake.no_loans = true;
    fake_die(&sends.rig.fake);
    while (__atomic_load_n(&sends.rig.session->lives, __ATOMIC_ACQUIRE) == life)
        usleep(1000);
    assert_int_equal(__atomic_load_n(&sends.vi->refused, __ATOMIC_SEQ_CST), VIPL__REFUSED);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_NONE);
    sends_end(&sends);
}

/* The VI ends before the thread of the session has given the loan back. The next VI with this object
 * can ask again. */
static void test_a_vi_that_ends_with_a_loan_to_give_back(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    __atomic_store_n(&sends.lent->state, VIPL__LENT_BACK, __ATOMIC_SEQ_CST);
    reset(sends.vi);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_NONE);
    teardown(&sends.rig);
}

/* The session ends before its thread has given the loan back. The next session has the same objects,
 * and can ask again. */
static void test_a_session_that_ends_with_a_loan_to_give_back(void **state)
{
    struct sends sends;

    (void)state;
    sends_begin(&sends);
    __atomic_store_n(&sends.lent->state, VIPL__LENT_BACK, __ATOMIC_SEQ_CST);
    sends_end(&sends);
    assert_int_equal(vipl__lent_state_of(sends.lent), VIPL__LENT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_stay_fills_the_table),
        cmocka_unit_test(test_a_loan_that_is_over_leaves_the_table),
        cmocka_unit_test(test_old_terms_leave_the_table),
        cmocka_unit_test(test_a_request_before_the_first_send_by_the_ring),
        cmocka_unit_test(test_a_request_after_the_next_offer),
        cmocka_unit_test(test_the_next_connection_begins_without_the_table),
        cmocka_unit_test(test_a_break_while_another_thread_gives_back),
        cmocka_unit_test(test_a_break_of_the_connection_before),
        cmocka_unit_test(test_a_break_before_the_loan_is_over),
        cmocka_unit_test(test_no_loan_outlives_the_session),
        cmocka_unit_test(test_a_vipd_without_loans_does_not_go_on),
        cmocka_unit_test(test_a_vi_that_ends_with_a_loan_to_give_back),
        cmocka_unit_test(test_a_session_that_ends_with_a_loan_to_give_back),
    };

    return cmocka_run_group_tests_name("sends on loan", tests, NULL, NULL);
}
