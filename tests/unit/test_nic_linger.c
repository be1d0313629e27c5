/*
 * VipDisconnect in libvipl waits for posted sends. For this purpose vipd publishes the longest wait
 * and a count of completed sends. This count reaches the count of posted sends as soon as the peer
 * has processed all sends or the connection is over.
 */
#include "unit/nic_rig.h"

#define MESSAGES 40

static const uint16_t levels[] = {VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};

struct side {
    struct rig_app *app;
    struct rig_mem mem;
    uint32_t posted; /* number of sends posted */
    uint16_t vi;
};

static void side_new(struct side *side, unsigned host, uint16_t level)
{
    if (!rig_nics[host])
        rig_nic(host);
    side->app = rig_app(rig_nics[host]);
    side->mem = rig_mem(side->app, MESSAGES * 20000, REGISTRY_SHARED);
    side->posted = 0;
    side->vi = rig_vi(side->app, level);
}

static void sides_new(struct side *a, struct side *b, unsigned host_b, uint16_t level)
{
    side_new(a, 0, level);
    side_new(b, host_b, level);
    rig_connect(a->app, a->vi, 0, b->app, b->vi, host_b);
}

static uint32_t message_bytes(unsigned i)
{
    return i * 7919 % 20000;
}

static void post_receives(struct side *side)
{
    for (unsigned i = 0; i < MESSAGES; i++)
        rig_post_recv(side->app, side->vi, rig_seg(&side->mem, i * 20000, 20000));
}

/* Post sends, and an RDMA Write after each third send. */
static void post_sends(struct side *side, const struct side *to)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        struct vip_shm_seg from = rig_seg(&side->mem, i * 20000, message_bytes(i));

        rig_post_send(side->app, side->vi, from);
        side->posted++;
        if (i % 3)
            continue;
        rig_post_write(side->app, side->vi, from, rig_seg(&to->mem, i * 20000, 0), false);
        side->posted++;
    }
}

/* True if all posted sends are complete, according to the word on which VipSendWait sleeps. */
static bool sends_over(const struct side *side)
{
    return vip_load32(&rig_vi_head(side->app, side->vi)->prod[VIP_Q_SEND]) == side->posted;
}

/* Take the completions of a queue. Returns the number without error that are no RDMA Writes. */
static unsigned take_good(struct side *side, enum vip_queue queue)
{
    struct vip_comp comp;
    unsigned good = 0;

    while (rig_done(side->app, side->vi, queue, &comp))
        good += (comp.status & VIP_ST_ERROR_MASK) == 0 &&
                (comp.status & VIP_ST_OP_MASK) != VIP_ST_OP_RDMA_WRITE;
    return good;
}

static void side_disconnect(struct side *side)
{
    assert_int_equal(nic_vi_disconnect(side->app->session, side->vi, rig_now), VIP_RC_SUCCESS);
}

static uint32_t told_ms(const struct side *side)
{
    return vip_load32(&((const struct vip_vipd_head *)side->app->vipd)->linger_ms);
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_time_limit_is_told_and_follows(void **state)
{
    static const struct {
        uint64_t linger_ns;
        uint32_t told_ms;
    } cases[] = {{0, 0}, {1, 1}, {1000000, 1}, {1500000, 2}, {60000000000, 60000}};
    struct nic_config config = {.engine = ENG_CONFIG_DEFAULT,
                                .cm = {.keepalive_ns = RIG_SECOND, .peer_dead_ns = 4 * RIG_SECOND},
                                .vi_max = RIG_VIS,
                                .cq_max = 16};
    struct side early, late;

    side_new(&early, 0, VIP_LVL_DELIVERY);
    assert_int_equal(told_ms(&early), 1000);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        config.linger_ns = cases[i].linger_ns;
        nic_set_config(rig_nics[0], &config);
        assert_int_equal(told_ms(&early), cases[i].told_ms);
    }
    side_new(&late, 0, VIP_LVL_DELIVERY);
    assert_int_equal(told_ms(&late), 60000);
    rig_mem_free(&early.mem);
    rig_mem_free(&late.mem);
    (void)state;
}

/* Each completed message has arrived: over the link, within one NIC, with and without losses. */
static void test_what_was_posted_arrives(void **state)
{
    for (unsigned n = 0; n < 8; n++) {
        struct side a, b;

        sides_new(&a, &b, n & 1, levels[n >> 1 & 1]);
        rig_loss_ppm = n & 4 ? 50000 : 0;
        post_receives(&b);
        post_sends(&a, &b);
        rig_step();
        RIG_UNTIL(sends_over(&a), RIG_SECOND);
        side_disconnect(&a);
        assert_int_equal(take_good(&a, VIP_Q_SEND), MESSAGES);
        assert_int_equal(take_good(&b, VIP_Q_RECV), MESSAGES);
        rig_wait_event(b.app, 'e');
        rig_mem_free(&a.mem);
        rig_mem_free(&b.mem);
        rig_teardown(state);
    }
}

/* Both sides post sends, and disconnect when these are complete. Neither side delays the other. */
static void test_both_at_once(void **state)
{
    for (unsigned n = 0; n < 4; n++) {
        struct side a, b;
        uint64_t began_ns;

        sides_new(&a, &b, n & 1, levels[n >> 1]);
        post_receives(&a);
        post_receives(&b);
        post_sends(&a, &b);
        post_sends(&b, &a);
        began_ns = rig_now;
        RIG_UNTIL(sends_over(&a) || sends_over(&b), RIG_SECOND);
        side_disconnect(sends_over(&a) ? &a : &b);
        RIG_UNTIL(sends_over(&a) && sends_over(&b), RIG_SECOND);
        side_disconnect(&a);
        side_disconnect(&b);
        assert_true(rig_now - began_ns < RIG_SECOND / 5);
        assert_true(take_good(&b, VIP_Q_RECV) >= take_good(&a, VIP_Q_SEND));
        assert_true(take_good(&a, VIP_Q_RECV) >= take_good(&b, VIP_Q_SEND));
        rig_mem_free(&a.mem);
        rig_mem_free(&b.mem);
        rig_teardown(state);
    }
}

/* The peer dies, disconnects, or has no receive descriptors. The sends end before the limit. */
static void test_not_for_a_peer_that_does_not_take_it(void **state)
{
    for (unsigned n = 0; n < 6; n++) {
        struct side a, b;
        uint64_t began_ns;

        sides_new(&a, &b, 1, levels[n & 1]);
        if (n >> 1 < 2)
            post_receives(&b);
        post_sends(&a, &b);
        rig_step();
        began_ns = rig_now;
        if (n >> 1 == 0)
            rig_app_end(b.app, true);
        else if (n >> 1 == 1)
            side_disconnect(&b);
        RIG_UNTIL(sends_over(&a), RIG_SECOND);
        assert_true(rig_now - began_ns < RIG_SECOND / 10);
        assert_true(take_good(&a, VIP_Q_SEND) < MESSAGES);
        side_disconnect(&a);
        rig_mem_free(&a.mem);
        rig_mem_free(&b.mem);
        rig_teardown(state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_time_limit_is_told_and_follows, rig_teardown),
        cmocka_unit_test_teardown(test_what_was_posted_arrives, rig_teardown),
        cmocka_unit_test_teardown(test_both_at_once, rig_teardown),
        cmocka_unit_test_teardown(test_not_for_a_peer_that_does_not_take_it, rig_teardown),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
