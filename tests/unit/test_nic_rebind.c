/*
 * vipd is killed and started again, and programs live on: connections go on (vipd/nic/rebind.c).
 */
#include <unistd.h>

#include "unit/nic_outlive.h"
#include "vipd/nic/objects.h"

/* End the nic so that no peer learns of its end. */
static void kill_nic(unsigned host)
{
    unsigned loss_ppm = rig_loss_ppm;

    rig_loss_ppm = 1000000;
    nic_close(rig_nics[host], rig_now);
    rig_nics[host] = NULL;
    rig_loss_ppm = loss_ppm;
}

/* End the vipd of this program. Its last messages are lost, as after SIGKILL. The program sees the
 * completions that vipd has written. */
static void kill_vipd(struct program *p)
{
    unsigned loss_ppm = rig_loss_ppm;

    assert_true(nic_vi_checkpoint(p->app->session, p->vi, &p->past));
    see(p, !p->host);
    rig_loss_ppm = 1000000;
    rig_app_end(p->app, true);
    rig_loss_ppm = loss_ppm;
    kill_nic(p->host);
}

/* Start a new vipd. The program opens its NIC, registers memory, posts what has not completed. */
static void new_vipd(struct program *p, const struct program *peer)
{
    struct memory *all[] = {&p->land, &p->book, &p->out, &p->in, &p->window};
    char why[128] = "";

    rig_life++;
    p->app = rig_app(rig_nic(p->host));
    for (unsigned i = 0; i < 5; i++)
        memory_add(p->app, all[i], all[i]->mem.handle);
    assert_int_equal(nic_vi_restore(p->app->session, &p->past, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    assert_int_equal(rig_vi_head(p->app, p->vi)->state, VIP_VIST_CONNECTED);
    p->app->vi_gen[p->vi] = p->past.generation;
    for (unsigned i = p->received; i < p->offered; i++)
        recv_post(p, i);
    for (unsigned i = p->completed; i < p->posted; i++)
        op_post(p, peer, i);
    assert_int_equal(
        nic_vi_rebind(p->app->session, p->vi, 5 * RIG_SECOND, rig_now, why, sizeof(why)),
        VIP_RC_SUCCESS);
}

/* Run operations in both directions. After each `every` steps, kill the vipds in mask `which`. */
static void traffic(uint16_t level, unsigned which, unsigned every, unsigned loss_ppm)
{
    struct program p[2];
    unsigned kills = 0;

    rig_more = VIP_FEATURE_REBIND;
    p[0] = begin(0, level, false);
    p[1] = begin(1, level, false);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    rig_loss_ppm = loss_ppm;
    for (unsigned step = 1; p[0].received < TAKING || p[1].received < TAKING; step++) {
        assert_true(rig_now < 500 * RIG_SECOND);
        if (step % every == 0 && kills < 20) {
            kills++;
            for (unsigned i = 0; i < 2; i++)
                if (which >> i & 1)
                    kill_vipd(&p[i]);
            for (unsigned i = 0; i < 2; i++)
                if (which >> i & 1)
                    new_vipd(&p[i], &p[!i]);
            rig_pass(RIG_SECOND / 10);
        }
        for (unsigned i = 0; i < 2; i++)
            act(&p[i], &p[!i]);
        rig_pass(RIG_STEP_NS);
    }
    RIG_UNTIL(
        (act(&p[0], &p[1]), act(&p[1], &p[0]), p[0].completed == TOTAL && p[1].completed == TOTAL),
        10 * RIG_SECOND);
    assert_int_equal(p[0].received + p[1].received, 2 * TAKING);
    assert_true(kills > 0);
    for (unsigned i = 0; i < 2; i++) {
        struct rig_event event;

        if (which != 3)
            assert_true(rig_counter(rig_nics[i], "conns_rebound") > 0);
        assert_false(rig_event(p[i].app, 'e', &event));
    }
    /* The connection ends like any other connection. */
    assert_int_equal(nic_vi_disconnect(p[0].app->session, p[0].vi, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(p[1].app, 'e').code, VIP_EC_CONN_LOST);
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
}

static void test_first_host(void **state)
{
    traffic(VIP_LVL_DELIVERY, 1, 7, 0);
}

static void test_second_host(void **state)
{
    traffic(VIP_LVL_RECEPTION, 2, 7, 0);
}

static void test_both_hosts(void **state)
{
    traffic(VIP_LVL_DELIVERY, 3, 11, 0);
}

static void test_with_losses(void **state)
{
    traffic(VIP_LVL_DELIVERY, 1, 9, 100000);
    rig_teardown(state);
    traffic(VIP_LVL_RECEPTION, 3, 13, 100000);
}

/* The new vipd starts too late: both programs learn that the connection is lost. */
static void test_too_late(void **state)
{
    struct program p[2];
    char why[128] = "";

    rig_more = VIP_FEATURE_REBIND;
    p[0] = begin(0, VIP_LVL_DELIVERY, false);
    p[1] = begin(1, VIP_LVL_DELIVERY, false);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    kill_vipd(&p[0]);
    rig_pass(6 * RIG_SECOND); /* longer than peer_dead */
    assert_int_equal(rig_wait_event(p[1].app, 'e').code, VIP_EC_CONN_LOST);
    new_vipd(&p[0], &p[1]);
    assert_int_equal(rig_wait_event(p[0].app, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_vi_head(p[0].app, p[0].vi)->state, VIP_VIST_ERROR);
    assert_int_equal(
        nic_vi_rebind(p[0].app->session, p[0].vi, RIG_SECOND, rig_now, why, sizeof(why)),
        VIP_RC_INVALID_STATE);
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
}

/* A restored VI is disconnected, or its program ends, before the other end has answered. */
static void test_given_up(void **state)
{
    for (unsigned how = 0; how < 2; how++) {
        struct program p[2];
        struct rig_event event;

        rig_more = VIP_FEATURE_REBIND;
        p[0] = begin(0, VIP_LVL_DELIVERY, false);
        p[1] = begin(1, VIP_LVL_DELIVERY, false);
        rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
        kill_vipd(&p[0]);
        rig_loss_ppm = 1000000;
        new_vipd(&p[0], &p[1]);
        rig_pass(RIG_SECOND);
        if (how == 0) {
            assert_int_equal(nic_vi_disconnect(p[0].app->session, p[0].vi, rig_now),
                             VIP_RC_SUCCESS);
            assert_false(rig_event(p[0].app, 'r', &event));
        } else {
            rig_app_end(p[0].app, true);
        }
        rig_loss_ppm = 0;
        assert_int_equal(rig_wait_event(p[1].app, 'e').code, VIP_EC_CONN_LOST);
        for (unsigned i = 0; i < 2; i++)
            end(&p[i]);
        rig_teardown(state);
    }
}

static bool count_peer(void *ctx, const struct nic_peer_view *view)
{
    *(uint32_t *)ctx += view->cm.connections;
    return true;
}

/* Returns the number of connections of all peers of a host, as in `vipctl show peers`. */
static uint32_t connections_of(unsigned host)
{
    uint32_t count = 0;

    assert_int_equal(nic_peer_views(rig_nics[host], NULL, 0, rig_now, count_peer, &count),
                     UINT32_MAX);
    return count;
}

/* Two connections are bound anew in turn. vipd lists each of them only for the peer's new life. */
static void test_lists_of_peers(void **state)
{
    struct program p[2];
    struct nic_vi_checkpoint second;
    char why[128] = "";
    uint16_t vi[2];

    rig_more = VIP_FEATURE_REBIND;
    for (unsigned i = 0; i < 2; i++) {
        p[i] = begin(i, VIP_LVL_DELIVERY, false);
        vi[i] = rig_vi(p[i].app, VIP_LVL_DELIVERY);
    }
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    rig_connect(p[0].app, vi[0], 0, p[1].app, vi[1], 1);
    assert_true(nic_vi_checkpoint(p[0].app->session, vi[0], &second));
    kill_vipd(&p[0]);
    (void)alarm(60); /* stops the test if the list is a circle */
    new_vipd(&p[0], &p[1]);
    rig_pass(RIG_SECOND);
    assert_int_equal(connections_of(1), 2);
    assert_int_equal(nic_vi_restore(p[0].app->session, &second, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    assert_int_equal(nic_vi_rebind(p[0].app->session, vi[0], RIG_SECOND, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    rig_pass(RIG_SECOND);
    assert_int_equal(connections_of(1), 2);
    assert_int_equal(connections_of(0), 2);
    (void)alarm(0);
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
}

static bool take_view(void *ctx, const struct nic_vi_view *view)
{
    *(struct nic_vi_view *)ctx = *view;
    return false;
}

static struct nic_binding_view binding_of(const struct program *p)
{
    struct nic_vi_view view = {.vi = UINT16_MAX};

    nic_session_vis(p->app->session, p->vi, take_view, &view);
    assert_int_equal(view.vi, p->vi);
    return view.binding;
}

/* Check what `vipctl show vi` shows of a connection that outlives a vipd, at both ends. */
static void test_seen(void **state)
{
    for (unsigned told = 0; told < 2; told++) {
        struct nic_binding_view view;
        struct program p[2];
        uint64_t killed_ns;

        rig_more = VIP_FEATURE_REBIND;
        for (unsigned i = 0; i < 2; i++)
            p[i] = begin(i, VIP_LVL_DELIVERY, false);
        assert_int_equal(binding_of(&p[0]).since_ns, 0);
        rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
        view = binding_of(&p[1]);
        assert_true(view.wait == NIC_WAIT_NONE && view.rebound == 0 && view.until_ns == 0);
        assert_in_range(view.since_ns, 1, rig_now);
        rig_pass(RIG_SECOND);
        killed_ns = rig_now;
        if (told) {
            nic_leave(rig_nics[0], 7 * RIG_SECOND, rig_now);
            rig_pass(RIG_SECOND / 10);
        }
        kill_vipd(&p[0]);
        rig_life++;
        (void)rig_nic(0); /* the program has not opened its session again */
        rig_pass(2 * RIG_SECOND);
        view = binding_of(&p[1]);
        assert_true(view.wait == NIC_WAIT_PEER && view.rebound == 0);
        assert_in_range(view.since_ns, killed_ns, rig_now);
        assert_int_equal(view.until_ns - view.since_ns, (told ? 7 : 10) * RIG_SECOND);
        assert_int_equal(view.told_ns, told ? 7 * RIG_SECOND : 0);
        kill_nic(0);
        new_vipd(&p[0], &p[1]);
        view = binding_of(&p[0]);
        assert_true(view.wait == NIC_WAIT_ANSWER && view.rebound == 0);
        assert_int_equal(view.until_ns, rig_now + 5 * RIG_SECOND);
        rig_pass(RIG_SECOND);
        for (unsigned i = 0; i < 2; i++) {
            view = binding_of(&p[i]);
            assert_true(view.wait == NIC_WAIT_NONE && view.rebound == 1);
            assert_in_range(view.since_ns, rig_now - RIG_SECOND, rig_now);
        }
        for (unsigned i = 0; i < 2; i++)
            end(&p[i]);
        rig_teardown(state);
    }
}

/* A failed operation ends its connection, and no next life goes on with this connection. */
static void test_failed_operation(void **state)
{
    struct program p[2];
    struct nic_vi_checkpoint past;

    rig_more = VIP_FEATURE_REBIND;
    for (unsigned i = 0; i < 2; i++)
        p[i] = begin(i, VIP_LVL_DELIVERY, false);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    assert_true(nic_vi_checkpoint(p[1].app->session, p[1].vi, &past));
    rig_post_recv(p[1].app, p[1].vi, rig_seg(&p[1].in.mem, 0, 10));
    rig_post_recv(p[1].app, p[1].vi, rig_seg(&p[1].in.mem, 0, 10));
    rig_post_send(p[0].app, p[0].vi, rig_seg(&p[0].out.mem, 0, 10));
    (void)rig_wait_done(p[1].app, p[1].vi, VIP_Q_RECV);
    nic_vi_recover(p[1].app->vipd, &past, &(struct nic_past_loan){0});
    assert_true(past.connected);
    rig_post_send(p[0].app, p[0].vi, rig_seg(&p[0].out.mem, 0, 11));
    (void)rig_wait_done(p[1].app, p[1].vi, VIP_Q_RECV);
    /* Set the old state, as if vipd was killed before it published the new state. */
    rig_vi_head(p[1].app, p[1].vi)->state = VIP_VIST_CONNECTED;
    nic_vi_recover(p[1].app->vipd, &past, &(struct nic_past_loan){0});
    assert_false(past.connected);
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
}

/* The second vipd is killed before the other end has answered. The third vipd binds anew. */
static void test_killed_while_rebinding(void **state)
{
    struct program p[2];

    rig_more = VIP_FEATURE_REBIND;
    for (unsigned i = 0; i < 2; i++)
        p[i] = begin(i, VIP_LVL_DELIVERY, false);
    rig_connect(p[0].app, p[0].vi, 0, p[1].app, p[1].vi, 1);
    for (unsigned i = 0; i < 2; i++)
        act(&p[i], &p[!i]);
    rig_loss_ppm = 1000000;
    kill_vipd(&p[0]);
    new_vipd(&p[0], &p[1]);
    rig_pass(RIG_SECOND / 2);
    kill_vipd(&p[0]);
    assert_true(p[0].past.connected);
    new_vipd(&p[0], &p[1]);
    rig_loss_ppm = 0;
    RIG_UNTIL(
        (act(&p[0], &p[1]), act(&p[1], &p[0]), p[0].completed == TOTAL && p[1].completed == TOTAL),
        10 * RIG_SECOND);
    for (unsigned i = 0; i < 2; i++)
        end(&p[i]);
}

/* A checkpoint that cannot be restored: a number in use or too large, a feature that vipd lacks. */
static void test_bad_checkpoints(void **state)
{
    struct program p = begin(0, VIP_LVL_DELIVERY, false);
    struct nic_vi_checkpoint past;
    char why[128] = "";

    assert_true(nic_vi_checkpoint(p.app->session, p.vi, &past));
    assert_false(past.connected);
    assert_false(nic_vi_checkpoint(p.app->session, 40, &past));
    assert_int_equal(nic_vi_restore(p.app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_INVALID_PARAMETER);
    past.vi = RIG_VIS;
    assert_int_equal(nic_vi_restore(p.app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_INVALID_PARAMETER);
    past.vi = 20;
    past.generation = 77;
    past.connected = true;
    past.features = VIP_FEATURES | 1ull << 40;
    assert_int_equal(nic_vi_restore(p.app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_ERROR_NOT_SUPPORTED);
    past.args.send_cq = 3;
    assert_int_equal(nic_vi_restore(p.app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_INVALID_PARAMETER);
    past.args.send_cq = -1;
    past.connected = false;
    assert_int_equal(nic_vi_restore(p.app->session, &past, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    assert_true(nic_vi_checkpoint(p.app->session, 20, &past));
    assert_int_equal(past.generation, 77);
    assert_int_equal(nic_vi_rebind(p.app->session, 20, RIG_SECOND, rig_now, why, sizeof(why)),
                     VIP_RC_INVALID_STATE);
    /* The numbers below the restored numbers are free. */
    assert_true(rig_vi(p.app, VIP_LVL_DELIVERY) < 20);
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_first_host, rig_teardown),
        cmocka_unit_test_teardown(test_second_host, rig_teardown),
        cmocka_unit_test_teardown(test_both_hosts, rig_teardown),
        cmocka_unit_test_teardown(test_with_losses, rig_teardown),
        cmocka_unit_test_teardown(test_too_late, rig_teardown),
        cmocka_unit_test_teardown(test_given_up, rig_teardown),
        cmocka_unit_test_teardown(test_lists_of_peers, rig_teardown),
        cmocka_unit_test_teardown(test_seen, rig_teardown),
        cmocka_unit_test_teardown(test_failed_operation, rig_teardown),
        cmocka_unit_test_teardown(test_killed_while_rebinding, rig_teardown),
        cmocka_unit_test_teardown(test_bad_checkpoints, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
