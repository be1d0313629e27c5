/* Hosts that stop for a while, and dead hosts: nics in virtual time. */
#include "unit/nic_rig.h"

#define MS 1000000ull

struct two {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb;
};

static struct two two_new(void)
{
    struct two t = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nic(1))};

    t.va = rig_vi(t.a, VIP_LVL_DELIVERY);
    t.vb = rig_vi(t.b, VIP_LVL_DELIVERY);
    t.ma = rig_mem(t.a, 65536, REGISTRY_SHARED);
    t.mb = rig_mem(t.b, 65536, REGISTRY_SHARED);
    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    return t;
}

static void two_free(struct two *t)
{
    rig_mem_free(&t->ma);
    rig_mem_free(&t->mb);
}

static bool lives(const struct two *t)
{
    return vip_load32(&rig_vi_head(t->a, t->va)->state) == VIP_VIST_CONNECTED &&
           vip_load32(&rig_vi_head(t->b, t->vb)->state) == VIP_VIST_CONNECTED;
}

static void one_message(struct two *t)
{
    rig_post_recv(t->b, t->vb, rig_seg(&t->mb, 0, 65536));
    rig_post_send(t->a, t->va, rig_seg(&t->ma, 0, 20000));
    assert_int_equal(rig_wait_done(t->b, t->vb, VIP_Q_RECV).length, 20000);
    rig_wait_done(t->a, t->va, VIP_Q_SEND);
}

/* Both hosts stop for 6 s, at any moment, while a connection is idle. */
static void test_both_stop_idle(void **state)
{
    struct two t = two_new();

    for (unsigned i = 0; i < 40; i++) {
        rig_pass(i * 100 * MS);
        rig_now += 6 * RIG_SECOND;
        rig_pass(2 * RIG_SECOND);
        assert_true(lives(&t));
    }
    one_message(&t);
    two_free(&t);
}

/* Both hosts stop while packets of a message are under way, and some of these packets are lost. */
static void test_both_stop_busy(void **state)
{
    struct two t = two_new();
    struct vip_comp comp;

    for (unsigned i = 0; i < 40; i++) {
        rig_post_recv(t.b, t.vb, rig_seg(&t.mb, 0, 65536));
        rig_post_send(t.a, t.va, rig_seg(&t.ma, 0, 60000));
        rig_loss_ppm = i % 2 ? 500000 : 0;
        rig_steps(1 + i % 5);
        if (i % 3 == 0) { /* the packets under way are also lost */
            rig_loss_ppm = 1000000;
            rig_steps(3);
        }
        rig_now += 6 * RIG_SECOND;
        rig_loss_ppm = 0;
        RIG_UNTIL(rig_done(t.b, t.vb, VIP_Q_RECV, &comp), 2 * RIG_SECOND);
        assert_int_equal(comp.length, 60000);
        RIG_UNTIL(rig_done(t.a, t.va, VIP_Q_SEND, &comp), 2 * RIG_SECOND);
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
        assert_true(lives(&t));
    }
    two_free(&t);
}

/* After both hosts have stopped for a while, a silent peer is still detected in bounded time. */
static void test_silence_after_a_stop(void **state)
{
    struct two t = two_new();
    uint64_t from_ns;

    rig_pass(1500 * MS);
    rig_now += 6 * RIG_SECOND;
    from_ns = rig_now;
    rig_loss_ppm = 1000000;
    while (rig_hosts[0]->count || rig_hosts[1]->count)
        rig_step();
    assert_int_equal(rig_wait_event(t.a, 'e').code, VIP_EC_CONN_LOST);
    assert_in_range(rig_now - from_ns, 2 * RIG_SECOND, 6 * RIG_SECOND);
    two_free(&t);
}

/* Host 0 loses the processor after it has read the clock, before it reads the link. Host 1 runs. */
static void stop_host_0(void)
{
    uint64_t until_ns = rig_now + 6 * RIG_SECOND;

    rig_hosts[0]->before_recv = NULL;
    while (rig_now < until_ns) {
        rig_now += 10 * MS;
        nic_turn(rig_nics[1], rig_now);
    }
}

static void test_stop_before_the_look(void **state)
{
    struct two t;

    rig_nic(0);
    rig_peer_dead_ns = 60 * RIG_SECOND; /* host 1 must not declare host 0 dead */
    rig_nic(1);
    t = (struct two){.a = rig_app(rig_nics[0]), .b = rig_app(rig_nics[1])};
    t.va = rig_vi(t.a, VIP_LVL_DELIVERY);
    t.vb = rig_vi(t.b, VIP_LVL_DELIVERY);
    t.ma = rig_mem(t.a, 65536, REGISTRY_SHARED);
    t.mb = rig_mem(t.b, 65536, REGISTRY_SHARED);
    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t heard_ns = rig_now;

        rig_pass(i * 90 * MS);
        rig_hosts[0]->before_recv = stop_host_0;
        rig_step();
        assert_true(rig_now > heard_ns + 6 * RIG_SECOND);
        rig_step();
        assert_true(lives(&t));
    }
    one_message(&t);
    two_free(&t);
}

/* Lose all packets on the way to host 1, which is dead. */
static void drop_for_host_1(void)
{
    struct rig_host *dead = rig_hosts[1];

    for (; dead->count; dead->count--) {
        free(dead->queue[dead->head]);
        dead->head = (dead->head + 1) % RIG_QUEUE;
    }
}

/* Packets of another host fill the link in each turn. Host 0 still detects that host 1 is dead. */
static void test_death_under_a_flood(void **state)
{
    struct two t = two_new();
    struct link_addr stranger = rig_addr(2);
    struct nic *dead = rig_nics[1];
    uint8_t junk[40] = {0};
    struct rig_event event;
    uint64_t from_ns = rig_now;

    rig_nics[1] = NULL;
    while (!rig_event(t.a, 'e', &event)) {
        assert_true(rig_now < from_ns + 60 * RIG_SECOND);
        while (rig_hosts[0]->count < 256)
            rig_inject(&stranger, 0, junk, sizeof(junk));
        rig_now += MS;
        nic_turn(rig_nics[0], rig_now);
        assert_true(rig_hosts[0]->link.behind);
        drop_for_host_1();
    }
    assert_int_equal(event.code, VIP_EC_CONN_LOST);
    rig_nics[1] = dead;
    two_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_both_stop_idle, rig_teardown),
        cmocka_unit_test_teardown(test_both_stop_busy, rig_teardown),
        cmocka_unit_test_teardown(test_silence_after_a_stop, rig_teardown),
        cmocka_unit_test_teardown(test_stop_before_the_look, rig_teardown),
        cmocka_unit_test_teardown(test_death_under_a_flood, rig_teardown),
    };

    return cmocka_run_group_tests_name("nic_silence", tests, NULL, NULL);
}
