/*
 * Peer-to-peer connections, listeners, private data, and users: between two nics, and on one nic.
 */
#include "unit/nic_rig.h"

static uint32_t shown_state(const struct rig_app *app, uint16_t vi)
{
    return vip_load32(&rig_vi_head(app, vi)->state);
}

/* Start a peer-to-peer request from nic `own` to nic `other`. Both use discriminator `disc`. */
static void ask(struct rig_app *app, uint16_t vi, unsigned own, unsigned other, const char *disc,
                const char *data)
{
    struct nic_connect_args args = {.local = rig_vip_addr(own, disc),
                                    .remote = rig_vip_addr(other, disc),
                                    .timeout_ns = 10 * RIG_SECOND,
                                    .peer_to_peer = true,
                                    .data = {.len = (uint8_t)strlen(data)}};
    char why[128] = "";

    memcpy(args.data.bytes, data, strlen(data));
    memset(args.local.host, 0xEE, sizeof(args.local.host)); /* vipd must ignore the local host */
    assert_int_equal(nic_connect(app->session, vi, &args, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    assert_int_equal(shown_state(app, vi), VIP_VIST_CONNECT_PENDING);
}

static void expect(struct rig_app *app, enum vip_rc rc, const char *data)
{
    struct rig_event event = rig_wait_event(app, 'r');

    assert_int_equal(event.code, rc);
    assert_int_equal(event.data.len, strlen(data));
    assert_memory_equal(event.data.bytes, data, strlen(data));
}

static void talk(struct rig_app *from, uint16_t from_vi, struct rig_app *to, uint16_t to_vi)
{
    struct rig_mem out = rig_mem(from, 4096, REGISTRY_SHARED);
    struct rig_mem in = rig_mem(to, 4096, REGISTRY_SHARED);

    rig_post_recv(to, to_vi, rig_seg(&in, 0, 4096));
    rig_post_send(from, from_vi, rig_seg(&out, 0, 1000));
    assert_int_equal(rig_wait_done(to, to_vi, VIP_Q_RECV).length, 1000);
    rig_wait_done(from, from_vi, VIP_Q_SEND);
    rig_mem_free(&out);
    rig_mem_free(&in);
}

/* The two requests start in any order, with and without losses. Then data flows both ways. */
static void test_two_nics(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));

    for (unsigned i = 0; i < 40; i++) {
        uint16_t va = rig_vi(a, VIP_LVL_DELIVERY), vb = rig_vi(b, VIP_LVL_DELIVERY);

        rig_loss_ppm = i < 4 ? 0 : 200000;
        if (i % 2)
            ask(a, va, 0, 1, "p", "from a");
        else
            ask(b, vb, 1, 0, "p", "from b");
        rig_pass(i % 4 * RIG_SECOND / 4);
        if (i % 2)
            ask(b, vb, 1, 0, "p", "from b");
        else
            ask(a, va, 0, 1, "p", "from a");
        expect(a, VIP_RC_SUCCESS, "from b");
        expect(b, VIP_RC_SUCCESS, "from a");
        talk(a, va, b, vb);
        talk(b, vb, a, va);
        assert_int_equal(nic_vi_disconnect(a->session, va, rig_now), VIP_RC_SUCCESS);
        assert_int_equal(rig_wait_event(b, 'e').code, VIP_EC_CONN_LOST);
        assert_int_equal(nic_vi_disconnect(b->session, vb, rig_now), VIP_RC_SUCCESS);
        assert_int_equal(nic_vi_destroy(a->session, va, rig_now), VIP_RC_SUCCESS);
        assert_int_equal(nic_vi_destroy(b->session, vb, rig_now), VIP_RC_SUCCESS);
    }
}

/* Connect two VIs of one session, then VIs of two sessions of one nic. */
static void test_one_nic(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nics[0]);
    uint16_t va = rig_vi(a, VIP_LVL_DELIVERY), vc = rig_vi(a, VIP_LVL_DELIVERY);
    uint16_t vb = rig_vi(b, VIP_LVL_DELIVERY);

    ask(a, va, 0, 0, "p", "1");
    rig_pass(RIG_SECOND);
    assert_int_equal(a->event_count, 0);
    ask(a, vc, 0, 0, "p", "1");
    expect(a, VIP_RC_SUCCESS, "1");
    expect(a, VIP_RC_SUCCESS, "1");
    talk(a, va, a, vc);
    assert_int_equal(nic_vi_disconnect(a->session, va, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(a, 'e').code, VIP_EC_CONN_LOST);
    ask(a, va, 0, 0, "q", "");
    ask(b, vb, 0, 0, "q", "");
    expect(a, VIP_RC_SUCCESS, "");
    expect(b, VIP_RC_SUCCESS, "");
    talk(b, vb, a, va);
}

static void test_attributes(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    uint16_t va = rig_vi(a, VIP_LVL_DELIVERY), vb = rig_vi(b, VIP_LVL_RECEPTION);

    ask(a, va, 0, 1, "p", "");
    ask(b, vb, 1, 0, "p", "");
    assert_int_equal(rig_wait_event(a, 'r').code, VIP_RC_INVALID_RELIABILITY_LEVEL);
    assert_int_equal(rig_wait_event(b, 'r').code, VIP_RC_INVALID_RELIABILITY_LEVEL);
    assert_int_equal(shown_state(a, va), VIP_VIST_IDLE);
    assert_int_equal(shown_state(b, vb), VIP_VIST_IDLE);
}

/* One side calls VipDisconnect at any moment of the exchange. Then the VIs connect again. */
static void test_disconnect_at_any_moment(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    uint16_t va = rig_vi(a, VIP_LVL_DELIVERY), vb = rig_vi(b, VIP_LVL_DELIVERY);

    for (unsigned side = 0; side < 2; side++)
        for (unsigned steps = 0; steps < 12; steps++) {
            struct rig_event event;

            rig_loss_ppm = steps % 3 * 300000;
            ask(a, va, 0, 1, "p", "");
            ask(b, vb, 1, 0, "p", "");
            rig_steps(steps);
            assert_int_equal(side ? nic_vi_disconnect(b->session, vb, rig_now)
                                  : nic_vi_disconnect(a->session, va, rig_now),
                             VIP_RC_SUCCESS);
            rig_loss_ppm = 0;
            rig_pass(11 * RIG_SECOND); /* by then the other request has ended */
            assert_int_equal(nic_vi_disconnect(a->session, va, rig_now), VIP_RC_SUCCESS);
            assert_int_equal(nic_vi_disconnect(b->session, vb, rig_now), VIP_RC_SUCCESS);
            rig_pass(RIG_SECOND);
            assert_true(rig_event(a, 'r', &event));
            assert_true(rig_event(b, 'r', &event));
            while (rig_event(a, 'e', &event) || rig_event(b, 'e', &event))
                assert_int_equal(event.code, VIP_EC_CONN_LOST);
            assert_int_equal(a->event_count + b->event_count, 0);
            assert_int_equal(shown_state(a, va), VIP_VIST_IDLE);
            assert_int_equal(shown_state(b, vb), VIP_VIST_IDLE);
            ask(b, vb, 1, 0, "p", "");
            ask(a, va, 0, 1, "p", "");
            expect(a, VIP_RC_SUCCESS, "");
            expect(b, VIP_RC_SUCCESS, "");
            talk(a, va, b, vb);
            assert_int_equal(nic_vi_disconnect(a->session, va, rig_now), VIP_RC_SUCCESS);
            assert_int_equal(rig_wait_event(b, 'e').code, VIP_EC_CONN_LOST);
            assert_int_equal(nic_vi_disconnect(b->session, vb, rig_now), VIP_RC_SUCCESS);
        }
}

/* A session ends while its peer-to-peer request is pending or is being accepted. */
static void test_session_ends(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0));
    uint16_t va = rig_vi(a, VIP_LVL_DELIVERY);

    rig_nic(1);
    for (unsigned steps = 0; steps < 8; steps++) {
        struct rig_app *b = rig_app(rig_nics[1]);
        struct rig_event event;

        ask(a, va, 0, 1, "p", "");
        ask(b, rig_vi(b, VIP_LVL_DELIVERY), 1, 0, "p", "");
        rig_steps(steps);
        rig_app_end(b, steps % 2);
        event = rig_wait_event(a, 'r');
        if (event.code == VIP_RC_SUCCESS)
            assert_int_equal(rig_wait_event(a, 'e').code, VIP_EC_CONN_LOST);
        else
            assert_true(event.code == VIP_RC_REJECT || event.code == VIP_RC_TIMEOUT);
        assert_int_equal(nic_vi_disconnect(a->session, va, rig_now), VIP_RC_SUCCESS);
    }
}

static void test_listener(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    struct vip_private yes = {.len = 3, .bytes = "yes"}, no = {.len = 2, .bytes = "no"};
    struct vip_addr addr = rig_vip_addr(1, "svc");
    uint64_t listener, delivered = 99;
    uint16_t va[6], vb = rig_vi(b, VIP_LVL_DELIVERY);
    struct rig_event event;
    char why[128] = "";
    bool found;

    assert_int_equal(nic_listen(b->session, &addr, 4, rig_now, &listener, NULL, 0), VIP_RC_SUCCESS);
    for (unsigned i = 0; i < 6; i++) {
        va[i] = rig_vi(a, VIP_LVL_DELIVERY);
        rig_connect_start(a, va[i], 0, 1, "svc");
    }
    rig_pass(RIG_SECOND);
    assert_int_equal(b->event_count, 4);
    event = rig_wait_event(b, 'i');
    assert_int_equal(event.number, listener);
    assert_int_equal(nic_accept(b->session, event.handle, vb, &yes, rig_now, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    expect(a, VIP_RC_SUCCESS, "yes");
    assert_int_equal(nic_reject(b->session, rig_wait_event(b, 'i').handle, &no, rig_now),
                     VIP_RC_SUCCESS);
    expect(a, VIP_RC_REJECT, "no");
    rig_pass(RIG_SECOND);
    assert_int_equal(nic_listen_close(b->session, listener, rig_now, &delivered), VIP_RC_SUCCESS);
    assert_int_equal(delivered, 6);
    assert_int_equal(nic_listen_close(b->session, listener, rig_now, &delivered),
                     VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_connect_wait_cancel(b->session, listener, rig_now, &found),
                     VIP_RC_INVALID_PARAMETER);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(nic_reject(b->session, rig_wait_event(b, 'i').handle, NULL, rig_now),
                         VIP_RC_SUCCESS);
    for (unsigned i = 0; i < 4; i++)
        expect(a, VIP_RC_REJECT, "");
    /* A session ends with an open listener: vipd rejects the listener's requests. */
    assert_int_equal(nic_listen(b->session, &addr, 4, rig_now, &listener, NULL, 0), VIP_RC_SUCCESS);
    rig_connect_start(a, va[5], 0, 1, "svc");
    rig_wait_event(b, 'i');
    rig_app_end(b, true);
    assert_int_equal(rig_wait_event(a, 'e').code, VIP_EC_CONN_LOST); /* the accepted connection */
    expect(a, VIP_RC_REJECT, "");
}

/* Nobody can compute the next discriminator from earlier ones or from the epoch. */
static void test_new_discriminators(void **state)
{
    enum { COUNT = 1000 };
    uint64_t seen[COUNT];

    (void)state;
    rig_app(rig_nic(0));
    for (unsigned i = 0; i < COUNT; i++) {
        seen[i] = nic_new_discriminator(rig_nics[0]);
        for (unsigned j = 0; j < i; j++)
            assert_true(seen[i] >> 32 != seen[j] >> 32 || (uint32_t)seen[i] != (uint32_t)seen[j]);
        assert_true(i < 2 || seen[i] - seen[i - 1] != seen[i - 1] - seen[i - 2]);
        assert_true(!i || seen[i] >> 32 != seen[i - 1] >> 32);
    }
}

/* A user listens on a discriminator. vipd does not let another user listen, wait or start
 * peer-to-peer requests on it, and gives a reason. */
static void test_two_users(void **state)
{
    struct vip_addr addr = {.disc_len = 3, .disc = "svc"};
    struct nic_connect_args args = {.timeout_ns = RIG_SECOND, .peer_to_peer = true};
    struct rig_app *own, *thief;
    uint64_t wait, delivered;
    char why[160] = "";
    bool found;
    uint16_t vi;

    (void)state;
    rig_uid = 1001;
    own = rig_app(rig_nic(0));
    rig_uid = 2002;
    thief = rig_app(rig_nics[0]);
    rig_uid = 0;
    vi = rig_vi(thief, VIP_LVL_DELIVERY);
    assert_int_equal(nic_listen(own->session, &addr, 4, rig_now, &wait, NULL, 0), VIP_RC_SUCCESS);
    assert_int_equal(nic_listen(thief->session, &addr, 4, rig_now, &delivered, why, sizeof(why)),
                     VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(why, "belongs to another user"));
    why[0] = '\0';
    assert_int_equal(nic_connect_wait(thief->session, &addr, false, rig_now, &delivered, &found,
                                      why, sizeof(why)),
                     VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(why, "belongs to another user"));
    why[0] = '\0';
    args.local = args.remote = addr;
    args.remote.host_len = 6;
    memcpy(args.remote.host, rig_addr(0).bytes, 6);
    assert_int_equal(nic_connect(thief->session, vi, &args, rig_now, why, sizeof(why)),
                     VIP_RC_ERROR_RESOURCE);
    assert_non_null(strstr(why, "belongs to another user"));
    assert_int_equal(nic_listen_close(own->session, wait, rig_now, &delivered), VIP_RC_SUCCESS);
    rig_pass(2 * RIG_SECOND);
    assert_int_equal(nic_listen(thief->session, &addr, 4, rig_now, &wait, NULL, 0), VIP_RC_SUCCESS);
    assert_int_equal(rig_counter(rig_nics[0], "cm_refused_owner"), 3);
}

/* A server can ask for the user of a request from its own host, but not from another host. */
static void test_request_user(void **state)
{
    struct vip_addr addr = {.disc_len = 3, .disc = "svc"};
    struct nic_connect_args args = {.timeout_ns = RIG_SECOND, .local = addr, .remote = addr};
    struct rig_app *server, *local, *remote;
    struct rig_event event;
    uint64_t wait;
    uint32_t uid = 0;

    (void)state;
    rig_uid = 1001;
    server = rig_app(rig_nic(0));
    rig_uid = 2002;
    local = rig_app(rig_nics[0]);
    remote = rig_app(rig_nic(1));
    rig_uid = 0;
    assert_int_equal(nic_listen(server->session, &addr, 4, rig_now, &wait, NULL, 0),
                     VIP_RC_SUCCESS);
    args.remote.host_len = 6;
    memcpy(args.remote.host, rig_addr(0).bytes, 6);
    assert_int_equal(
        nic_connect(local->session, rig_vi(local, VIP_LVL_DELIVERY), &args, rig_now, NULL, 0),
        VIP_RC_SUCCESS);
    event = rig_wait_event(server, 'i');
    /* vipd removes the client's discriminator from the request, because another user owns it. */
    assert_int_equal(event.remote.disc_len, 0);
    assert_int_equal(nic_request_user(server->session, event.handle, &uid), VIP_RC_SUCCESS);
    assert_int_equal(uid, 2002);
    assert_int_equal(nic_request_user(local->session, event.handle, &uid),
                     VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_reject(server->session, event.handle, NULL, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_request_user(server->session, event.handle, &uid),
                     VIP_RC_INVALID_PARAMETER);
    assert_int_equal(
        nic_connect(remote->session, rig_vi(remote, VIP_LVL_DELIVERY), &args, rig_now, NULL, 0),
        VIP_RC_SUCCESS);
    event = rig_wait_event(server, 'i');
    assert_int_equal(event.remote.disc_len, 3);
    assert_int_equal(nic_request_user(server->session, event.handle, &uid),
                     VIP_RC_ERROR_NOT_SUPPORTED);
}

/* A peer-to-peer request counts as a wait at its discriminator until it is connected or over. */
static void test_peer_requests_wait(void **state)
{
    struct nic_connect_args args = {
        .timeout_ns = RIG_SECOND, .peer_to_peer = true, .local = {.disc_len = 1, .disc = "a"}};
    struct rig_app *app = rig_app(rig_nic(0));
    struct nic_session_view view;

    (void)state;
    args.remote = rig_vip_addr(1, "b");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(
            nic_connect(app->session, rig_vi(app, VIP_LVL_DELIVERY), &args, rig_now, NULL, 0),
            VIP_RC_SUCCESS);
    nic_session_view(app->session, &view);
    assert_int_equal(view.waits, 3);
    assert_int_equal(nic_connect_cancel(app->session, 0, rig_now), VIP_RC_SUCCESS);
    nic_session_view(app->session, &view);
    assert_int_equal(view.waits, 2);
    rig_pass(2 * RIG_SECOND);
    nic_session_view(app->session, &view);
    assert_int_equal(view.waits, 0);
    assert_int_equal(view.connects, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_two_nics, rig_teardown),
        cmocka_unit_test_teardown(test_one_nic, rig_teardown),
        cmocka_unit_test_teardown(test_attributes, rig_teardown),
        cmocka_unit_test_teardown(test_disconnect_at_any_moment, rig_teardown),
        cmocka_unit_test_teardown(test_session_ends, rig_teardown),
        cmocka_unit_test_teardown(test_listener, rig_teardown),
        cmocka_unit_test_teardown(test_new_discriminators, rig_teardown),
        cmocka_unit_test_teardown(test_two_users, rig_teardown),
        cmocka_unit_test_teardown(test_request_user, rig_teardown),
        cmocka_unit_test_teardown(test_peer_requests_wait, rig_teardown),
    };

    return cmocka_run_group_tests_name("nic_peer", tests, NULL, NULL);
}
