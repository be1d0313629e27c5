/*
 * Applications on two nics and a network in memory: data of each kind arrives as it was sent, over
 * the link with and without faults, over loopback, and when the link is full.
 */
#include "unit/nic_rig.h"

/* Client and server on two hosts (or one), connected. */
struct pair {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb;
};

static struct pair pair_new(unsigned host_a, unsigned host_b, uint16_t level, uint64_t bytes)
{
    struct pair p;

    for (unsigned i = 0; i < 2; i++) {
        unsigned host = i ? host_b : host_a;

        if (!rig_nics[host])
            rig_nic(host);
    }
    p.a = rig_app(rig_nics[host_a]);
    p.b = rig_app(rig_nics[host_b]);
    p.va = rig_vi(p.a, level);
    p.vb = rig_vi(p.b, level);
    p.ma = rig_mem(p.a, bytes, REGISTRY_SHARED);
    p.mb = rig_mem(p.b, bytes, REGISTRY_SHARED);
    rig_connect(p.a, p.va, host_a, p.b, p.vb, host_b);
    return p;
}

static void pair_free(struct pair *p)
{
    rig_mem_free(&p->ma);
    rig_mem_free(&p->mb);
}

static void check_ok(const struct vip_comp *comp, uint32_t op, uint32_t length)
{
    assert_int_equal(comp->status & VIP_ST_ERROR_MASK, 0);
    assert_true(comp->status & VIP_ST_DONE);
    assert_int_equal(comp->status & VIP_ST_OP_MASK, op);
    assert_int_equal(comp->length, length);
}

/* Send one message of `len` bytes from a to b, and check it. */
static void exchange(struct pair *p, uint32_t len, uint32_t seed)
{
    struct vip_comp comp;

    rig_fill(p->ma.at, len, seed);
    memset(p->mb.at, 0, p->mb.bytes);
    rig_post_recv(p->b, p->vb, rig_seg(&p->mb, 0, (uint32_t)p->mb.bytes));
    rig_post_send(p->a, p->va, rig_seg(&p->ma, 0, len));
    comp = rig_wait_done(p->b, p->vb, VIP_Q_RECV);
    check_ok(&comp, VIP_ST_OP_RECEIVE, len);
    comp = rig_wait_done(p->a, p->va, VIP_Q_SEND);
    check_ok(&comp, VIP_ST_OP_SEND, len);
    assert_memory_equal(p->ma.at, p->mb.at, len);
}

static const uint16_t levels[] = {VIP_LVL_UNRELIABLE, VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};

static void test_send_recv(void **state)
{
    static const uint32_t sizes[] = {0, 1, 64, 1000, 1472, 5000, 65536, 300000};

    for (unsigned l = 0; l < 3; l++) {
        struct pair p = pair_new(0, 1, levels[l], 400000);

        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            exchange(&p, sizes[i], i + 1);
        assert_int_equal(rig_counter(rig_nics[0], "loop_packets"), 0);
        pair_free(&p);
        rig_teardown(state);
    }
}

/* Descriptors of many segments use continuation slots; the bytes have the order of the segments. */
static void test_many_segments(void **state)
{
    struct pair p = pair_new(0, 1, VIP_LVL_DELIVERY, 65536);
    struct vip_shm_seg from[252], to[100];
    struct vip_comp comp;

    rig_fill(p.ma.at, 65536, 5);
    for (unsigned i = 0; i < 252; i++)
        from[i] = rig_seg(&p.ma, (251 - i) * 100, 100);
    for (unsigned i = 0; i < 100; i++)
        to[i] = rig_seg(&p.mb, i * 252, 252);
    rig_post(p.b, p.vb, VIP_Q_RECV, 0, 0, to, 100);
    rig_post(p.a, p.va, VIP_Q_SEND, 0, 0, from, 252);
    comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
    check_ok(&comp, VIP_ST_OP_RECEIVE, 25200);
    for (unsigned i = 0; i < 252; i++)
        assert_memory_equal(p.mb.at + i * 100, p.ma.at + (251 - i) * 100, 100);
    comp = rig_wait_done(p.a, p.va, VIP_Q_SEND);
    check_ok(&comp, VIP_ST_OP_SEND, 25200);
    pair_free(&p);
}

static void write_and_check(struct pair *p, uint32_t len)
{
    struct vip_comp comp;

    rig_fill(p->ma.at, len, 9);
    memset(p->mb.at, 0, p->mb.bytes);
    rig_post_recv(p->b, p->vb, rig_seg(&p->mb, 0, 0));
    rig_post_write(p->a, p->va, rig_seg(&p->ma, 0, len), rig_seg(&p->mb, 100, 0), true);
    comp = rig_wait_done(p->b, p->vb, VIP_Q_RECV);
    check_ok(&comp, VIP_ST_OP_REMOTE_RDMA_WRITE, len);
    assert_true(comp.status & VIP_ST_IMMEDIATE);
    assert_int_equal(comp.imm, 4711);
    assert_memory_equal(p->mb.at + 100, p->ma.at, len);
    comp = rig_wait_done(p->a, p->va, VIP_Q_SEND);
    check_ok(&comp, VIP_ST_OP_RDMA_WRITE, len);
}

static void test_rdma_write(void **state)
{
    for (unsigned l = 0; l < 3; l++) {
        struct pair p = pair_new(0, 1, levels[l], 200000);

        write_and_check(&p, 64);
        write_and_check(&p, 150000);
        pair_free(&p);
        rig_teardown(state);
    }
}

/* Messages within a NIC do not use the link. */
static void test_loopback(void **state)
{
    for (unsigned l = 0; l < 3; l++) {
        struct pair p = pair_new(0, 0, levels[l], 400000);

        exchange(&p, 0, 1);
        exchange(&p, 64, 1);
        exchange(&p, 300000, 2);
        write_and_check(&p, 150000);
        assert_true(rig_counter(rig_nics[0], "loop_packets") > 0);
        assert_int_equal(rig_counter(rig_nics[0], "tx_data"), 0);
        assert_int_equal(rig_hosts[0]->stats.tx_packets, 0);
        pair_free(&p);
        rig_teardown(state);
    }
}

/* Both ends of a connection are in one session, even with overlapping memory. */
static void test_loopback_one_session(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    uint16_t va = rig_vi(app, VIP_LVL_DELIVERY), vb = rig_vi(app, VIP_LVL_DELIVERY);
    struct rig_mem mem = rig_mem(app, 100000, REGISTRY_SHARED);
    struct vip_comp comp;
    uint8_t want[50000];

    rig_connect(app, va, 0, app, vb, 0);
    rig_fill(mem.at, 100000, 3);
    memcpy(want, mem.at, 50000);
    rig_post_recv(app, vb, rig_seg(&mem, 50000, 50000));
    rig_post_send(app, va, rig_seg(&mem, 0, 50000));
    comp = rig_wait_done(app, vb, VIP_Q_RECV);
    check_ok(&comp, VIP_ST_OP_RECEIVE, 50000);
    assert_memory_equal(mem.at + 50000, want, 50000);
    rig_mem_free(&mem);
}

/* If a link has planted faults, messages within the NIC use the link, so they have the faults. */
static void test_loopback_with_faults(void **state)
{
    struct pair p;

    rig_nic_class(0, &rig_fault_class);
    p = pair_new(0, 0, VIP_LVL_DELIVERY, 400000);
    rig_loss_ppm = 50000;
    exchange(&p, 300000, 2);
    assert_int_equal(rig_counter(rig_nics[0], "loop_packets"), 0);
    assert_true(rig_hosts[0]->stats.tx_packets > 200);
    pair_free(&p);
}

/* Loss, duplicates and reordering: every byte of every message arrives, in order. */
static void test_faults(void **state)
{
    for (unsigned l = 1; l < 3; l++) {
        struct pair p = pair_new(0, 1, levels[l], 200000);

        rig_scarce = l == 2;
        rig_loss_ppm = 100000;
        rig_dup_ppm = 30000;
        rig_swap_ppm = 50000;
        for (unsigned i = 0; i < 40; i++) {
            exchange(&p, rig_random() % 100000, i);
            if (i % 8 == 0)
                write_and_check(&p, rig_random() % 100000);
        }
        assert_true(rig_counter(rig_nics[0], "retransmits") > 0);
        assert_true(rig_counter(rig_nics[1], "rx_held") > 0);
        assert_int_equal(rig_counter(rig_nics[1], "kept_packets"), 0);
        pair_free(&p);
        rig_teardown(state);
    }
}

/* Many messages are under way at once, in both directions. */
static void test_pipelined(void **state)
{
    struct pair p = pair_new(0, 1, VIP_LVL_DELIVERY, 1 << 20);
    struct vip_comp comp;

    rig_loss_ppm = 20000;
    rig_swap_ppm = 20000;
    for (uint32_t i = 0; i < 500; i++) {
        rig_post_recv(p.a, p.va, rig_seg(&p.ma, 524288 + 64 * i, 64));
        rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 524288 + 64 * i, 64));
    }
    rig_fill(p.ma.at, 500 * 64, 11);
    rig_fill(p.mb.at, 500 * 64, 12);
    for (uint32_t i = 0; i < 500; i++) {
        rig_post_send(p.a, p.va, rig_seg(&p.ma, 64 * i, i % 64));
        rig_post_send(p.b, p.vb, rig_seg(&p.mb, 64 * i, i % 64));
    }
    for (uint32_t i = 0; i < 500; i++) {
        comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
        check_ok(&comp, VIP_ST_OP_RECEIVE, i % 64);
        comp = rig_wait_done(p.a, p.va, VIP_Q_RECV);
        check_ok(&comp, VIP_ST_OP_RECEIVE, i % 64);
        assert_memory_equal(p.mb.at + 524288 + 64 * i, p.ma.at + 64 * i, i % 64);
        assert_memory_equal(p.ma.at + 524288 + 64 * i, p.mb.at + 64 * i, i % 64);
    }
    pair_free(&p);
}

/* A full link: packets wait, in order. Unreliable sends complete only when the link has taken their
 * bytes, so the test overwrites the buffer right after the completion. */
static void test_full_link(void **state)
{
    struct pair p = pair_new(0, 1, VIP_LVL_UNRELIABLE, 100000);
    struct vip_comp comp;

    rig_fill(p.ma.at, 50000, 7);
    rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 0, 100000));
    rig_hosts[0]->refuse = true;
    rig_post_send(p.a, p.va, rig_seg(&p.ma, 0, 50000));
    rig_pass(RIG_SECOND / 100);
    assert_false(rig_done(p.a, p.va, VIP_Q_SEND, &comp));
    assert_true(nic_deadline(rig_nics[0]) < rig_now + RIG_SECOND / 1000);
    rig_hosts[0]->refuse = false;
    rig_hosts[0]->send_max = 3;
    comp = rig_wait_done(p.a, p.va, VIP_Q_SEND);
    check_ok(&comp, VIP_ST_OP_SEND, 50000);
    memset(p.ma.at, 0xff, 50000);
    comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
    check_ok(&comp, VIP_ST_OP_RECEIVE, 50000);
    rig_fill(p.ma.at, 50000, 7);
    assert_memory_equal(p.ma.at, p.mb.at, 50000);
    assert_true(rig_counter(rig_nics[0], "tx_full") > 0);
    pair_free(&p);
}

/* Memory is deregistered while packets wait for the link. vipd no longer reads this memory. */
static void test_full_link_deregister(void **state)
{
    struct pair p = pair_new(0, 1, VIP_LVL_DELIVERY, 100000);
    struct vip_comp comp;

    rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 0, 100000));
    rig_hosts[0]->refuse = true;
    rig_post_send(p.a, p.va, rig_seg(&p.ma, 0, 50000));
    rig_steps(3);
    assert_int_equal(registry_remove(p.a->registry, p.ma.handle, (uintptr_t)p.ma.at),
                     VIP_RC_SUCCESS);
    rig_hosts[0]->refuse = false;
    comp = rig_wait_done(p.a, p.va, VIP_Q_SEND);
    assert_true(comp.status & VIP_ST_PROTECTION_ERROR);
    assert_int_equal(rig_wait_event(p.b, 'e').code, VIP_EC_CONN_LOST);
    assert_true(rig_counter(rig_nics[0], "tx_unresolved") > 0);
    pair_free(&p);
}

/* A session ends while its packets wait for the link: vipd drops these packets. */
static void test_full_link_session_ends(void **state)
{
    struct pair p = pair_new(0, 1, VIP_LVL_DELIVERY, 100000);

    rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 0, 100000));
    rig_hosts[0]->refuse = true;
    rig_post_send(p.a, p.va, rig_seg(&p.ma, 0, 50000));
    rig_steps(3);
    rig_app_end(p.a, true);
    rig_hosts[0]->refuse = false;
    assert_int_equal(rig_wait_event(p.b, 'e').code, VIP_EC_CONN_LOST);
    pair_free(&p);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_send_recv),
        T(test_many_segments),
        T(test_rdma_write),
        T(test_loopback),
        T(test_loopback_one_session),
        T(test_loopback_with_faults),
        T(test_faults),
        T(test_pipelined),
        T(test_full_link),
        T(test_full_link_deregister),
        T(test_full_link_session_ends),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
