/*
 * Staged regions: RDMA Writes wait until libvipl has placed their bytes, in order and once. Sends
 * and receive descriptors do not wait for libvipl.
 */
#include "unit/nic_rig.h"

#include "vipd/nic/state.h"

struct pair {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb, plain;
};

static struct pair pair_with(unsigned host_b, uint16_t level)
{
    struct pair p = {.a = rig_app(rig_nics[0]), .b = rig_app(rig_nics[host_b])};

    p.va = rig_vi(p.a, level);
    p.vb = rig_vi(p.b, level);
    p.ma = rig_mem(p.a, 200000, REGISTRY_SHARED);
    p.mb = rig_mem(p.b, 200000, REGISTRY_STAGED);
    p.plain = rig_mem(p.b, 200000, REGISTRY_SHARED);
    rig_fill(p.ma.at, 200000, 17);
    rig_connect(p.a, p.va, 0, p.b, p.vb, host_b);
    return p;
}

static struct pair pair_new(unsigned host_b, uint16_t level)
{
    rig_nic(0);
    if (host_b)
        rig_nic(host_b);
    return pair_with(host_b, level);
}

static void pair_free(struct pair *p)
{
    rig_mem_free(&p->ma);
    rig_mem_free(&p->mb);
    rig_mem_free(&p->plain);
}

/* Answer all place events. Returns their number. */
static unsigned place_all(struct pair *p)
{
    struct rig_event event;
    unsigned count = 0;

    while (rig_event(p->b, 'p', &event)) {
        rig_place(p->b, &p->mb, &event);
        count++;
    }
    return count;
}

/* Wait until a receive descriptor of b completes, while b's libvipl answers place events. */
static struct vip_comp wait_placing(struct pair *p)
{
    uint64_t end = rig_now + 30 * RIG_SECOND;
    struct vip_comp comp;

    while (!rig_done(p->b, p->vb, VIP_Q_RECV, &comp)) {
        assert_true(rig_now < end);
        rig_pass(RIG_STEP_NS);
        place_all(p);
    }
    return comp;
}

static void one_write(unsigned host_b)
{
    struct pair p = pair_new(host_b, VIP_LVL_DELIVERY);
    struct rig_event event;
    struct vip_comp comp;

    rig_post_recv(p.b, p.vb, rig_seg(&p.plain, 0, 0));
    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 1000), rig_seg(&p.mb, 50, 0), true);
    event = rig_wait_event(p.b, 'p');
    assert_int_equal(event.offset, 50);
    assert_int_equal(event.bytes, 1000);
    /* The write is not acknowledged, so the peer repeats it. libvipl gets no second place event. */
    rig_pass(RIG_SECOND);
    assert_false(rig_done(p.b, p.vb, VIP_Q_RECV, &comp));
    assert_false(rig_done(p.a, p.va, VIP_Q_SEND, &comp));
    assert_int_equal(p.b->event_count, 0);
    rig_place(p.b, &p.mb, &event);
    comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
    assert_int_equal(comp.length, 1000);
    assert_memory_equal(p.mb.at + 50, p.ma.at, 1000);
    comp = rig_wait_done(p.a, p.va, VIP_Q_SEND);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
    assert_int_equal(rig_counter(rig_nics[host_b], "places_late"), 0);
    pair_free(&p);
}

static void test_one_write(void **state)
{
    one_write(1);
    rig_teardown(state);
    one_write(0);
}

/* Post writes of many packets, then sends, with and without faults. Check order and contents. */
static void stream(unsigned host_b, uint16_t level, unsigned loss_ppm)
{
    struct pair p = pair_new(host_b, level);

    rig_loss_ppm = loss_ppm;
    rig_scarce = level == VIP_LVL_RECEPTION;
    rig_dup_ppm = rig_swap_ppm = loss_ppm;
    for (uint32_t i = 0; i < 30; i++) {
        uint32_t len = rig_random() % 60000, at = rig_random() % 100000;
        struct vip_comp comp;

        rig_fill(p.ma.at, len, i);
        rig_post_recv(p.b, p.vb, rig_seg(&p.plain, 0, 1000));
        rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, len), rig_seg(&p.mb, at, 0), false);
        rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 64), rig_seg(&p.mb, 190000, 0), false);
        rig_post_send(p.a, p.va, rig_seg(&p.ma, 0, 100));
        comp = wait_placing(&p);
        assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
        assert_memory_equal(p.mb.at + at, p.ma.at, len);
        assert_memory_equal(p.mb.at + 190000, p.ma.at, 64);
        for (unsigned s = 0; s < 3; s++)
            comp = rig_wait_done(p.a, p.va, VIP_Q_SEND);
    }
    assert_true(rig_counter(rig_nics[host_b], "parked") >= 30);
    assert_int_equal(rig_counter(rig_nics[host_b], "places_late"), 0);
    assert_int_equal(rig_counter(rig_nics[host_b], "kept_packets"), 0);
    pair_free(&p);
}

static void test_stream(void **state)
{
    stream(1, VIP_LVL_DELIVERY, 0);
    rig_teardown(state);
    stream(1, VIP_LVL_UNRELIABLE, 0);
    rig_teardown(state);
    stream(1, VIP_LVL_RECEPTION, 30000);
    rig_teardown(state);
    stream(0, VIP_LVL_DELIVERY, 0);
    rig_teardown(state);
    stream(0, VIP_LVL_UNRELIABLE, 0);
}

/* libvipl answers a large write once per millisecond. A place event asks for many fragments, and
 * vipd drops no packet meanwhile. */
static void test_large_write(void **state)
{
    enum { BYTES = 190000 };
    struct pair p = pair_new(1, VIP_LVL_DELIVERY);
    uint64_t end = rig_now + RIG_SECOND;
    struct vip_comp comp;
    unsigned asked = 0;

    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, BYTES), rig_seg(&p.mb, 5, 0), false);
    while (!rig_done(p.a, p.va, VIP_Q_SEND, &comp)) {
        assert_true(rig_now < end);
        rig_pass(RIG_SECOND / 1000);
        asked += place_all(&p);
    }
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
    assert_memory_equal(p.mb.at + 5, p.ma.at, BYTES);
    assert_true(rig_counter(rig_nics[1], "places") >= BYTES / RIG_MTU);
    assert_in_range(asked, 1, rig_counter(rig_nics[1], "places") / 4);
    assert_int_equal(rig_counter(rig_nics[1], "drop_park_full"), 0);
    pair_free(&p);
}

/* Each reading of the clock advances it by 0.1 ms, the cost of one packet that vipd resumes. */
static uint64_t dear_looks;

static uint64_t dear_clock(void)
{
    return rig_now + 100000 * dear_looks++;
}

/* libvipl reports many packets as placed at once. Each turn resumes some of them, in about 1 ms. */
static void test_placed_in_turns(void **state)
{
    enum { BYTES = 190000, PACKETS = 20 };
    struct rig_event event, last = {0};
    struct pair p;
    unsigned turns = 0;
    uint64_t end;

    rig_cost_clock = dear_clock;
    p = pair_new(1, VIP_LVL_DELIVERY);
    rig_app(rig_nics[1]); /* this session comes after the session of b and has no work */
    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, BYTES), rig_seg(&p.mb, 5, 0), false);
    end = rig_now + RIG_SECOND;
    while (rig_counter(rig_nics[1], "kept_packets") < PACKETS) {
        assert_true(rig_now < end);
        dear_looks = 0;
        rig_pass(RIG_STEP_NS);
    }
    while (rig_event(p.b, 'p', &event))
        last = event;
    assert_true(nic_placed(p.b->session, last.number, true, rig_now));
    while (rig_counter(rig_nics[1], "kept_packets") > 0) {
        uint64_t before = rig_counter(rig_nics[1], "kept_packets");

        dear_looks = 0;
        rig_now += RIG_STEP_NS;
        nic_turn(rig_nics[1], rig_now);
        assert_in_range(before - rig_counter(rig_nics[1], "kept_packets"), 1, 12);
        turns++;
    }
    assert_true(turns >= (PACKETS + 11) / 12);
    pair_free(&p);
}

/* Two libvipl report many packets as placed. A new packet does not wait until vipd has resumed all
 * of them. Each turn resumes packets of both sessions. */
static void test_placed_beside_packets(void **state)
{
    enum { BYTES = 190000, PACKETS = 36 };
    struct pair p, q, third;
    struct rig_event event, last = {0};
    struct vip_comp comp;
    unsigned turns = 0, held[2];
    bool done;

    rig_cost_clock = dear_clock;
    p = pair_new(1, VIP_LVL_DELIVERY);
    q = pair_with(1, VIP_LVL_DELIVERY);
    third = pair_with(1, VIP_LVL_DELIVERY);
    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, BYTES), rig_seg(&p.mb, 0, 0), false);
    rig_post_write(q.a, q.va, rig_seg(&q.ma, 0, BYTES), rig_seg(&q.mb, 0, 0), false);
    for (unsigned i = 0; rig_counter(rig_nics[1], "kept_packets") < PACKETS; i++) {
        assert_true(i < 100000);
        dear_looks = 0;
        rig_pass(RIG_STEP_NS);
    }
    rig_post_recv(third.b, third.vb, rig_seg(&third.plain, 0, 100));
    rig_post_send(third.a, third.va, rig_seg(&third.ma, 0, 100));
    dear_looks = 0;
    nic_turn(rig_nics[0], rig_now);
    held[0] = p.b->session->held_count;
    held[1] = q.b->session->held_count;
    for (struct pair *one = &p; one; one = one == &p ? &q : NULL) {
        while (rig_event(one->b, 'p', &event))
            last = event;
        assert_true(nic_placed(one->b->session, last.number, true, rig_now));
    }
    do {
        assert_true(turns++ < 3);
        dear_looks = 0;
        rig_now += RIG_STEP_NS;
        nic_turn(rig_nics[1], rig_now);
        done = rig_done(third.b, third.vb, VIP_Q_RECV, &comp);
    } while (!done);
    assert_in_range(rig_counter(rig_nics[1], "kept_packets"), PACKETS / 4, UINT64_MAX);
    assert_true(p.b->session->held_count < held[0] && q.b->session->held_count < held[1]);
    rig_cost_clock = NULL;
    pair_free(&p);
    pair_free(&q);
    pair_free(&third);
}

/* Received messages are in the "in" half of staged memory; sends read the "out" half. */
static void test_send_recv(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY);
    uint8_t *in = p.mb.half + ((200000 + 4095) & ~4095);
    struct vip_comp comp;

    rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 10, 5000));
    rig_post_send(p.a, p.va, rig_seg(&p.ma, 0, 5000));
    comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
    assert_int_equal(comp.length, 5000);
    assert_memory_equal(in + 10, p.ma.at, 5000);
    assert_int_equal(p.b->event_count, 0);

    rig_fill(p.mb.half + 10, 5000, 99);
    rig_post_recv(p.a, p.va, rig_seg(&p.ma, 10000, 5000));
    rig_post_send(p.b, p.vb, rig_seg(&p.mb, 10, 5000));
    comp = rig_wait_done(p.a, p.va, VIP_Q_RECV);
    assert_int_equal(comp.length, 5000);
    assert_memory_equal(p.mb.half + 10, p.ma.at + 10000, 5000);
    pair_free(&p);
}

/* libvipl must answer each place event once and in order; nic_placed refuses other answers. */
static void test_lies(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY);
    struct rig_event event;

    assert_false(nic_placed(p.b->session, 0, true, rig_now));
    assert_false(nic_placed(p.b->session, 1, true, rig_now));
    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 1000), rig_seg(&p.mb, 0, 0), false);
    event = rig_wait_event(p.b, 'p');
    assert_false(nic_placed(p.b->session, event.number + 1, true, rig_now));
    assert_true(nic_placed(p.b->session, event.number, true, rig_now));
    assert_false(nic_placed(p.b->session, event.number, true, rig_now));
    rig_wait_done(p.a, p.va, VIP_Q_SEND);
    pair_free(&p);
}

/* While vipd waits for libvipl: a region is deregistered, a VI disconnected or a session ended. */
static void test_ends_while_parked(void **state)
{
    for (unsigned how = 0; how < 4; how++) {
        struct pair p = pair_new(1, VIP_LVL_DELIVERY);
        struct rig_event event;

        rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 10000), rig_seg(&p.mb, 0, 0), false);
        event = rig_wait_event(p.b, 'p');
        switch (how) {
        case 0:
            assert_int_equal(registry_remove(p.b->registry, p.mb.handle, (uintptr_t)p.mb.at),
                             VIP_RC_SUCCESS);
            break;
        case 1:
            nic_vi_disconnect(p.b->session, p.vb, rig_now);
            break;
        case 2:
            nic_vi_disconnect(p.a->session, p.va, rig_now);
            rig_pass(RIG_SECOND / 100);
            break;
        case 3:
            rig_app_end(p.b, true);
            break;
        }
        if (how != 3)
            assert_true(nic_placed(p.b->session, event.number, true, rig_now));
        if (how != 2)
            assert_int_equal(rig_wait_event(p.a, 'e').code, VIP_EC_CONN_LOST);
        if (how != 3) {
            rig_pass(RIG_SECOND / 100);
            while (rig_event(p.b, 'p', &event))
                assert_true(nic_placed(p.b->session, event.number, true, rig_now));
        }
        rig_pass(RIG_SECOND / 100);
        assert_int_equal(rig_counter(rig_nics[1], "kept_packets"), 0);
        pair_free(&p);
        rig_teardown(state);
    }
}

/* Without the right to write, vipd places no bytes and does not ask libvipl. */
static void test_rights(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY);
    struct registry_attrs attrs = {.enable_rdma_write = false};

    assert_int_equal(registry_set_attrs(p.b->registry, p.mb.handle, (uintptr_t)p.mb.at, &attrs),
                     VIP_RC_SUCCESS);
    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 1000), rig_seg(&p.mb, 0, 0), false);
    assert_int_equal(rig_wait_event(p.a, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(p.b, 'e').code, VIP_EC_RDMAW_PROT);
    assert_int_equal(rig_counter(rig_nics[1], "places"), 0);
    pair_free(&p);
}

/* A write that would leave the region is denied before its first fragment is placed anywhere. */
static void test_whole_range(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY);

    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 100000), rig_seg(&p.mb, 150000, 0), false);
    assert_int_equal(rig_wait_event(p.a, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(p.b, 'e').code, VIP_EC_RDMAW_PROT);
    assert_int_equal(rig_counter(rig_nics[1], "places"), 0);
    pair_free(&p);
}

/* libvipl reports that the memory did not take the bytes. With immediate data the receive
 * descriptor completes with an error, otherwise the program gets an error callback. The connection
 * breaks, over the link and within the NIC. */
static void spoiled(unsigned host_b, bool imm)
{
    struct pair p = pair_new(host_b, VIP_LVL_DELIVERY);
    struct rig_event event;
    struct vip_comp comp;

    rig_post_recv(p.b, p.vb, rig_seg(&p.plain, 0, 0));
    rig_post_write(p.a, p.va, rig_seg(&p.ma, 0, 1000), rig_seg(&p.mb, 50, 0), imm);
    event = rig_wait_event(p.b, 'p');
    assert_true(nic_placed(p.b->session, event.number, false, rig_now));
    comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
    if (imm)
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, VIP_ST_TRANSPORT_ERROR);
    else
        assert_int_equal(rig_wait_event(p.b, 'e').code, VIP_EC_RDMAW_DATA);
    assert_int_equal(rig_wait_event(p.b, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(p.a, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_counter(rig_nics[host_b], "places_spoiled"), 1);
    pair_free(&p);
}

static void test_spoiled(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        spoiled(i / 2, i % 2);
        rig_teardown(state);
    }
}

/* Several small writes in one packet. In each run the memory does not take one of the writes. */
static void test_spoiled_beside_good_ones(void **state)
{
    enum { WRITES = 6 };

    for (unsigned bad = 0; bad < WRITES; bad++) {
        struct pair p = pair_new(1, VIP_LVL_UNRELIABLE);
        struct rig_event event;
        unsigned n = 0;

        for (unsigned i = 0; i < WRITES; i++)
            rig_post_write(p.a, p.va, rig_seg(&p.ma, i * 100, 100), rig_seg(&p.mb, i * 100, 0),
                           true);
        for (unsigned i = 0; i < WRITES; i++)
            rig_post_recv(p.b, p.vb, rig_seg(&p.plain, 0, 0));
        while (n < WRITES) {
            event = rig_wait_event(p.b, 'p');
            assert_true(nic_placed(p.b->session, event.number, event.offset != bad * 100, rig_now));
            n++;
        }
        for (unsigned i = 0; i < WRITES; i++) {
            struct vip_comp comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);

            assert_int_equal(comp.status & VIP_ST_ERROR_MASK,
                             i == bad ? VIP_ST_TRANSPORT_ERROR : 0);
        }
        pair_free(&p);
        rig_teardown(state);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_one_write),
        T(test_stream),
        T(test_large_write),
        T(test_placed_in_turns),
        T(test_placed_beside_packets),
        T(test_send_recv),
        T(test_lies),
        T(test_ends_while_parked),
        T(test_rights),
        T(test_whole_range),
        T(test_spoiled),
        T(test_spoiled_beside_good_ones),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
