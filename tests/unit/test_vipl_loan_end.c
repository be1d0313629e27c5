/* Loans that end (libvipl/loan/loan.h): faults of programs, and what vipd does. */
#include "unit/loan_ends.h"

#include <errno.h>
#include <pthread.h>
#include <sys/uio.h>

/* ---- faults of programs ----------------------------------------------------------------- */

/* Take the events of the end. Returns whether the engine has broken the connection. */
static bool broke(struct end *end, enum vip_error_code *ret_error)
{
    struct eng_event event;
    bool broken = false;

    *ret_error = 0;
    while (vipl__loan_event(end->loan, &event)) {
        if (event.kind == ENG_EVENT_ERROR)
            *ret_error = event.code;
        broken = broken || event.kind == ENG_EVENT_BROKEN;
    }
    return broken;
}

static void a_message_without_a_receive_breaks_the_connection(void **state)
{
    struct ends *ends = ends_new();
    enum vip_error_code error;

    (void)state;
    ends_lend(ends);
    send_bytes(&ends->a, 0, 100);
    (void)round_of(ends);
    assert_true(broke(&ends->b, &error));
    assert_int_equal(error, VIP_EC_RECVQ_EMPTY);
    assert_int_equal(ends->b.dones, 0);
    assert_came(&ends->b, 0, 0, 0);
    assert_true(timer_of(&ends->b) == UINT64_MAX);
    ends_free(ends);
}

static void a_message_that_does_not_fit_breaks_the_connection(void **state)
{
    struct ends *ends = ends_new();
    enum vip_error_code error;

    (void)state;
    ends_lend(ends);
    memset(ends->b.memory, 7, 200);
    receive_bytes(&ends->b, 0, 99);
    for (unsigned i = 0; i < 3; i++)
        receive_bytes(&ends->b, 0, 200);
    send_bytes(&ends->a, 0, 100);
    (void)round_of(ends);
    assert_true(broke(&ends->b, &error));
    assert_int_equal(ends->b.dones, 4);
    assert_int_equal(ends->b.done[0].status & VIP_ST_ERROR_MASK, VIP_ST_LENGTH_ERROR);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(ends->b.done[i].status & VIP_ST_ERROR_MASK, VIP_ST_DESC_FLUSHED_ERROR);
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(ends->b.memory[i], 7);
    ends_free(ends);
}

/* What a peer does to a region that does not allow it: 0: writes, 1: reads. */
static void touch(struct ends *ends, unsigned how)
{
    rdma(&ends->a, &ends->b, how ? VIP_CTL_OP_RDMAREAD : VIP_CTL_OP_RDMAWRITE, 0, 0, 100, 0);
    (void)round_of(ends);
}

static void regions_without_rights_are_not_touched(void **state)
{
    enum vip_error_code error;

    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        struct ends *ends = ends_new();
        struct vipl__region *region = &ends->b.region;

        fill(&ends->a, 8);
        switch (i / 2) {
        case 0:
            region->attrs.EnableRdmaWrite = region->attrs.EnableRdmaRead = 0;
            break;
        case 1:
            ends->b.terms.attrs.enable_rdma_write = ends->b.terms.attrs.enable_rdma_read = false;
            break;
        case 2:
            region->ptag = 5;
            ends->b.terms.ptag = 6;
            break;
        case 3:
            region->bytes = 99;
            break;
        case 6: /* the range is below the region */
            region->addr += 200;
            region->bytes -= 200;
            break;
        case 7: /* the range is above the region */
            region->addr -= 200;
            region->bytes = 150;
            break;
        case 4:
            (void)vipl__region_take(&ends->b.regions, region->handle);
            break;
        case 5:
            region->refused = true;
            break;
        }
        ends_lend(ends);
        touch(ends, i % 2);
        assert_true(broke(&ends->b, &error));
        assert_int_equal(error, i % 2 ? VIP_EC_RDMAR_PROT : VIP_EC_RDMAW_PROT);
        assert_int_equal(ends->b.memory[0], 0);
        assert_came(&ends->b, 0, 0, 0);
        ends_free(ends);
    }
}

/* Spec 3.5: no tag, on either side, matches every tag. */
static void a_region_or_vi_without_a_tag_matches(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct ends *ends = ends_new();

        ends->b.region.ptag = i == 0 ? 0 : 5;
        ends->b.terms.ptag = i == 1 ? 0 : 5;
        ends_lend(ends);
        touch(ends, 0);
        run(ends);
        assert_came(&ends->b, 1, 0, 0);
        ends_free(ends);
    }
}

static void own_memory_without_a_region_fails_the_descriptor(void **state)
{
    struct ends *ends = ends_new();
    enum vip_error_code error;

    (void)state;
    ends_lend(ends);
    send_bytes(&ends->a, MEMORY - 10, 11);
    (void)round_of(ends);
    assert_int_equal(ends->a.dones, 1);
    assert_int_equal(ends->a.done[0].status & VIP_ST_ERROR_MASK, VIP_ST_PROTECTION_ERROR);
    assert_true(broke(&ends->a, &error));
    assert_int_equal(counts_of(&ends->a).tx, 0);
    ends_free(ends);

    ends = ends_new();
    ends_lend(ends);
    receive_bytes(&ends->b, MEMORY - 10, 11);
    send_bytes(&ends->a, 0, 11);
    (void)round_of(ends);
    assert_int_equal(ends->b.dones, 1);
    assert_int_equal(ends->b.done[0].status & VIP_ST_ERROR_MASK, VIP_ST_PROTECTION_ERROR);
    assert_true(broke(&ends->b, &error));
    ends_free(ends);
}

/* A region goes between the packets of one message: the rest of it is not sent. */
static void memory_that_is_deregistered_meanwhile_is_not_sent(void **state)
{
    struct ends *ends = ends_new();
    enum vip_error_code error;

    (void)state;
    ends_lend(ends);
    rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, 0, 0, 900000, 0);
    (void)round_of(ends);
    assert_int_equal(ends->a.dones, 0);
    vipl__loan_lock(ends->a.loan);
    assert_int_equal(vipl__loan_turn(ends->a.loan, ends->now_ns), VIPL__LOAN_BUSY);
    (void)vipl__region_take(&ends->a.regions, ends->a.region.handle);
    vipl__loan_unlock(ends->a.loan);
    for (unsigned i = 0; i < 20 && ends->a.dones == 0; i++)
        (void)round_of(ends);
    assert_int_equal(counts_of(&ends->a).tx_unresolved, 1);
    assert_int_equal(ends->a.dones, 1);
    assert_int_equal(ends->a.done[0].status & VIP_ST_ERROR_MASK, VIP_ST_PROTECTION_ERROR);
    assert_true(broke(&ends->a, &error));
    ends_free(ends);
}

/* Only an unreliable connection goes on after errors: the end keeps some and counts the others. */
static void errors_that_nobody_takes_are_counted(void **state)
{
    struct ends *ends = ends_new();
    struct eng_event event;
    unsigned kept = 0;

    (void)state;
    ends->a.terms.attrs.level = ends->b.terms.attrs.level = VIP_LVL_UNRELIABLE;
    ends_lend(ends);
    for (unsigned i = 0; i < 40; i++) {
        send_bytes(&ends->a, 0, 10);
        (void)round_of(ends);
    }
    while (vipl__loan_event(ends->b.loan, &event)) {
        assert_int_equal(event.kind, ENG_EVENT_ERROR);
        assert_int_equal(event.code, VIP_EC_RECVQ_EMPTY);
        kept++;
    }
    assert_true(kept > 0 && kept < VIPL__LOAN_EVENTS);
    assert_int_equal(kept + counts_of(&ends->b).events_lost, 40);
    ends_free(ends);
}

/* ---- vipd ------------------------------------------------------------------------------- */

static void a_revoked_stay_touches_nothing(void **state)
{
    struct ends *ends = ends_new();
    struct vip_loan_owner was;
    uint8_t packet[PACKET];

    (void)state;
    ends_lend(ends);
    receive_bytes(&ends->b, 0, 100);
    (void)vipl__loan_turn(ends->b.loan, ends->now_ns);
    send_bytes(&ends->a, 0, 100);
    send_bytes(&ends->b, 0, 100);
    (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
    was = ends->b.part->owner;
    loan_words_revoke(&ends->b.vipd);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_OVER);
    was.beat += 3;
    assert_memory_equal(&ends->b.part->owner, &was, sizeof(was));
    assert_int_equal(ends->b.dones, 0);
    assert_int_equal(counts_of(&ends->b).rx, 0);
    assert_int_equal(counts_of(&ends->b).tx, 0);
    assert_true(recv(ends->b.terms.sock, packet, sizeof(packet), MSG_DONTWAIT) > 0);

    vipl__loan_end(ends->b.loan);
    assert_int_equal(vipl__loan_turn(ends->b.loan, ends->now_ns), VIPL__LOAN_OVER);
    vipl__loan_end(ends->b.loan);
    ends_free(ends);
}

/* vipd sleeps while the owner owes nothing. An owner that leaves with a timer rings the bell. */
static void the_bell_rings_when_vipd_looks_too_late(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    end_lend(ends, &ends->a, ends->now_ns + 1000000 * MS);
    end_lend(ends, &ends->b, ends->now_ns);
    (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
    assert_int_equal(ends->a.bells, 0);
    send_bytes(&ends->a, 0, 10);
    (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
    assert_int_equal(ends->a.bells, 1);
    assert_true(timer_of(&ends->a) > ends->now_ns && timer_of(&ends->a) < ends->now_ns + 1000 * MS);
    loan_words_awake(&ends->a.vipd, timer_of(&ends->a));
    (void)vipl__loan_turn(ends->a.loan, ends->now_ns);
    assert_int_equal(ends->a.bells, 1);
    ends_free(ends);
}

/* vipd has sent operations before; one of them has arrived. */
static void a_loan_goes_on_where_vipd_paused(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    fill(&ends->a, 9);
    for (unsigned i = 0; i < 3; i++) {
        receive_bytes(&ends->b, 100 * i, 100);
        send_bytes(&ends->a, 100 * i, 100);
    }
    ends->b.terms.checkpoint.done++;
    ends->b.terms.checkpoint.received++;
    ends->b.terms.receive = 1;
    ends->a.terms.peer.done++;
    ends_lend(ends);
    run(ends);
    assert_int_equal(ends->a.dones, 3);
    assert_int_equal(ends->b.dones, 2);
    assert_memory_equal(ends->b.memory + 100, ends->a.memory + 100, 200);
    assert_int_equal(ends->b.memory[0], 0);
    assert_came(&ends->a, 0, 0, 3);
    assert_came(&ends->b, 3, 3, 0);
    ends_free(ends);
}

/* The peer has processed a send already, so it completes when the loan begins. If vipd takes the loan
 * back before the first poll, it must not complete the send again. */
static void a_send_that_completes_at_the_beginning(void **state)
{
    struct ends *ends = ends_new();

    (void)state;
    send_bytes(&ends->a, 0, 10);
    send_bytes(&ends->a, 0, 10);
    ends->a.terms.peer.done++;
    end_lend(ends, &ends->a, ends->now_ns);
    assert_int_equal(ends->a.dones, 1);
    assert_came(&ends->a, 0, 0, 1);
    ends_free(ends);
}

/* vipd has ended the loan before it begins. */
static void a_loan_that_is_over_does_not_begin(void **state)
{
    struct ends *ends = ends_new();
    struct end *a = &ends->a;

    (void)state;
    send_bytes(a, 0, 10);
    a->terms.peer.done++;
    loan_words_lend(&a->vipd, 1, &a->terms.checkpoint, 0);
    loan_words_revoke(&a->vipd);
    assert_int_equal(end_begin(ends, a), -ECANCELED);
    assert_int_equal(a->dones, 0);
    assert_int_equal(vipl__loan_turn(a->loan, ends->now_ns), VIPL__LOAN_OVER);
    ends_free(ends);
}

static void terms_that_contradict_each_other_begin_no_loan(void **state)
{
    struct ends *ends = ends_new();
    struct end *a = &ends->a;

    (void)state;
    send_bytes(a, 0, 10);
    loan_words_lend(&a->vipd, 1, &a->terms.checkpoint, 0);
    a->terms.peer.done += 2; /* more than was sent */
    assert_int_equal(end_begin(ends, a), -EPROTO);
    a->terms.peer.done -= 2;
    a->part->posted++; /* a send that is not in the table */
    assert_int_equal(end_begin(ends, a), -EPROTO);
    assert_int_equal(vipl__loan_turn(a->loan, ends->now_ns), VIPL__LOAN_OVER);
    assert_int_equal(a->part->owner.inside, 0);
    assert_came(a, 0, 0, 0);
    a->part->posted--;
    assert_int_equal(end_begin(ends, a), 0);
    assert_int_equal(vipl__loan_turn(a->loan, ends->now_ns), VIPL__LOAN_DID);
    ends_free(ends);
}

/* End both loans, and begin new ones from the checkpoints that the last stays have left. */
static void move(struct ends *ends)
{
    struct vip_loan_checkpoint a = checkpoint_of(&ends->a), b = checkpoint_of(&ends->b);

    loan_words_revoke(&ends->a.vipd);
    loan_words_revoke(&ends->b.vipd);
    vipl__loan_end(ends->a.loan);
    vipl__loan_end(ends->b.loan);
    ends->a.terms.number++;
    ends->b.terms.number++;
    ends->a.terms.receive += a.received - ends->a.terms.checkpoint.received;
    ends->b.terms.receive += b.received - ends->b.terms.checkpoint.received;
    ends->a.terms.checkpoint = a;
    ends->b.terms.checkpoint = b;
    ends->a.terms.peer.done = b.done;
    ends->b.terms.peer.done = a.done;
    ends->a.terms.conn.local_id = ++ends->b.terms.conn.remote_id;
    ends->b.terms.conn.local_id = ++ends->a.terms.conn.remote_id;
    ends_lend(ends);
}

/* Sends and writes of many sizes, while the engines move every few stays and packets are lost. */
static void moves_lose_and_repeat_nothing(void **state)
{
    struct ends *ends = ends_new();
    uint32_t at = 0;

    (void)state;
    ends_lend(ends);
    fill(&ends->a, 10);
    ends->loss = 9;
    for (unsigned i = 0; i < 60; i++) {
        uint32_t len = i % 7 == 0 ? 30000 : 1 + i * 13;

        if (i % 3 == 0) {
            rdma(&ends->a, &ends->b, VIP_CTL_OP_RDMAWRITE, at, at, len, 0);
        } else {
            receive_bytes(&ends->b, at, len);
            send_bytes(&ends->a, at, len);
        }
        at += len;
        (void)round_of(ends);
        (void)round_of(ends);
        if (i % 4 == 0)
            move(ends);
    }
    run(ends);
    assert_true(at < MEMORY);
    assert_memory_equal(ends->b.memory, ends->a.memory, at);
    assert_came(&ends->a, 0, 0, 60);
    assert_came(&ends->b, 60, 40, 0);
    assert_int_equal(ends->b.dones, 40);
    /* Packets of older bindings. */
    assert_true(counts_of(&ends->a).drop_conn + counts_of(&ends->b).drop_conn > 0);
    ends_free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_without_a_receive_breaks_the_connection),
        cmocka_unit_test(a_message_that_does_not_fit_breaks_the_connection),
        cmocka_unit_test(regions_without_rights_are_not_touched),
        cmocka_unit_test(a_region_or_vi_without_a_tag_matches),
        cmocka_unit_test(own_memory_without_a_region_fails_the_descriptor),
        cmocka_unit_test(memory_that_is_deregistered_meanwhile_is_not_sent),
        cmocka_unit_test(errors_that_nobody_takes_are_counted),
        cmocka_unit_test(a_revoked_stay_touches_nothing),
        cmocka_unit_test(the_bell_rings_when_vipd_looks_too_late),
        cmocka_unit_test(a_loan_goes_on_where_vipd_paused),
        cmocka_unit_test(a_send_that_completes_at_the_beginning),
        cmocka_unit_test(a_loan_that_is_over_does_not_begin),
        cmocka_unit_test(terms_that_contradict_each_other_begin_no_loan),
        cmocka_unit_test(moves_lose_and_repeat_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
