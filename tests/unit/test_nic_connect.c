/*
 * The life of connections through vipd/nic: accept, reject, no server, cancel, different
 * attributes, disconnect, the end of a program, and packets that belong to no connection.
 */
#include "unit/nic_rig.h"

struct two {
    struct rig_app *a, *b;
    uint16_t va, vb;
};

static struct two two_new(uint16_t level)
{
    struct two t = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nic(1))};

    t.va = rig_vi(t.a, level);
    t.vb = rig_vi(t.b, level);
    return t;
}

static uint32_t shown_state(const struct rig_app *app, uint16_t vi)
{
    return vip_load32(&rig_vi_head(app, vi)->state);
}

static enum vip_rc accept_rc(struct rig_app *app, uint64_t handle, uint32_t vi)
{
    char why[128] = "";

    return nic_accept(app->session, handle, vi, NULL, rig_now, why, sizeof(why));
}

static void test_states(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);

    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_IDLE);
    rig_listen(t.b, 1, "x");
    rig_connect_start(t.a, t.va, 0, 1, "x");
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_CONNECT_PENDING);
    assert_int_equal(accept_rc(t.b, rig_wait_event(t.b, 'i').handle, t.vb), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.b, 'r').code, VIP_RC_SUCCESS);
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_CONNECTED);
    assert_int_equal(shown_state(t.b, t.vb), VIP_VIST_CONNECTED);
    assert_int_equal(nic_vi_destroy(t.a->session, t.va, rig_now), VIP_RC_INVALID_STATE);

    assert_int_equal(nic_vi_disconnect(t.a->session, t.va, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_IDLE);
    assert_int_equal(rig_wait_event(t.b, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(shown_state(t.b, t.vb), VIP_VIST_ERROR);
    assert_int_equal(nic_vi_disconnect(t.b->session, t.vb, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_vi_disconnect(t.b->session, t.vb, rig_now), VIP_RC_SUCCESS);
    rig_connect(t.b, t.vb, 1, t.a, t.va, 0);
    assert_int_equal(t.a->event_count + t.b->event_count, 0);
}

static void test_no_match(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);

    rig_connect_start(t.a, t.va, 0, 1, "nobody");
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_NO_MATCH);
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_IDLE);
}

/* Receive descriptors stay posted when an attempt to connect fails (spec 3.15). */
static void test_reject_keeps_receives(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_mem mem = rig_mem(t.a, 4096, REGISTRY_SHARED);
    struct vip_comp comp;

    rig_post_recv(t.a, t.va, rig_seg(&mem, 0, 4096));
    rig_listen(t.b, 1, "x");
    rig_connect_start(t.a, t.va, 0, 1, "x");
    assert_int_equal(nic_reject(t.b->session, rig_wait_event(t.b, 'i').handle, NULL, rig_now),
                     VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_REJECT);
    assert_false(rig_done(t.a, t.va, VIP_Q_RECV, &comp));
    assert_int_equal(nic_vi_destroy(t.a->session, t.va, rig_now), VIP_RC_ERROR_RESOURCE);
    assert_int_equal(nic_vi_disconnect(t.a->session, t.va, rig_now), VIP_RC_SUCCESS);
    assert_true(rig_done(t.a, t.va, VIP_Q_RECV, &comp));
    assert_true(comp.status & VIP_ST_DESC_FLUSHED_ERROR);
    assert_int_equal(nic_vi_destroy(t.a->session, t.va, rig_now), VIP_RC_SUCCESS);
    rig_mem_free(&mem);
}

static void test_attributes_differ(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct nic_vi_args args = {
        .attrs = {.level = VIP_LVL_RECEPTION, .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX},
        .send_cq = -1,
        .recv_cq = -1};
    uint64_t handle;

    rig_listen(t.b, 1, "x");
    rig_connect_start(t.a, t.va, 0, 1, "x");
    handle = rig_wait_event(t.b, 'i').handle;
    assert_int_equal(nic_vi_set_attrs(t.b->session, t.vb, &args), VIP_RC_SUCCESS);
    assert_int_equal(accept_rc(t.b, handle, t.vb), VIP_RC_INVALID_RELIABILITY_LEVEL);
    args.attrs.level = VIP_LVL_DELIVERY;
    args.attrs.max_transfer_bytes = 1000;
    assert_int_equal(nic_vi_set_attrs(t.b->session, t.vb, &args), VIP_RC_SUCCESS);
    assert_int_equal(accept_rc(t.b, handle, t.vb), VIP_RC_INVALID_MTU);
    args.attrs.max_transfer_bytes = VIP_TRANSFER_BYTES_MAX;
    args.qos = 5;
    assert_int_equal(nic_vi_set_attrs(t.b->session, t.vb, &args), VIP_RC_SUCCESS);
    assert_int_equal(accept_rc(t.b, handle, t.vb), VIP_RC_INVALID_QOS);
    args.qos = 0;
    assert_int_equal(nic_vi_set_attrs(t.b->session, t.vb, &args), VIP_RC_SUCCESS);
    assert_int_equal(accept_rc(t.b, handle + 1, t.vb), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(accept_rc(t.b, handle, 55), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(accept_rc(t.b, handle, t.vb), VIP_RC_SUCCESS);
    assert_int_equal(accept_rc(t.b, handle, t.vb), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_SUCCESS);
}

/* A connection handle belongs to the session that waited for the request. */
static void test_foreign_handle(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_app *thief = rig_app(rig_nics[1]);
    uint16_t vi = rig_vi(thief, VIP_LVL_DELIVERY);
    uint64_t handle;

    rig_listen(t.b, 1, "x");
    rig_connect_start(t.a, t.va, 0, 1, "x");
    handle = rig_wait_event(t.b, 'i').handle;
    assert_int_equal(accept_rc(thief, handle, vi), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_reject(thief->session, handle, NULL, rig_now), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(accept_rc(t.b, handle, t.vb), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_SUCCESS);
}

static uint64_t wait_on(struct rig_app *app, const char *disc)
{
    struct vip_addr addr = rig_vip_addr(1, disc);
    uint64_t wait;
    bool found;

    assert_int_equal(nic_connect_wait(app->session, &addr, false, rig_now, &wait, &found, NULL, 0),
                     VIP_RC_SUCCESS);
    return wait;
}

/* Numbers from an earlier life of vipd name no request and no wait of the new life. */
static void test_numbers_of_an_earlier_life(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    uint16_t va = rig_vi(t.a, VIP_LVL_DELIVERY);
    uint64_t wait[2], handle[2];
    uint32_t uid;
    bool found;

    for (rig_life = 0; rig_life < 2; rig_life++) {
        if (rig_life == 1) {
            rig_app_end(t.b, true);
            nic_close(rig_nics[1], rig_now);
            t.b = rig_app(rig_nic(1));
            t.vb = rig_vi(t.b, VIP_LVL_DELIVERY);
        }
        wait_on(t.b, "x");
        rig_connect_start(t.a, rig_life == 0 ? t.va : va, 0, 1, "x");
        handle[rig_life] = rig_wait_event(t.b, 'i').handle;
        wait[rig_life] = wait_on(t.b, "y");
    }
    assert_int_equal(nic_request_user(t.b->session, handle[0], &uid), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(accept_rc(t.b, handle[0], t.vb), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_reject(t.b->session, handle[0], NULL, rig_now), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_connect_wait_cancel(t.b->session, wait[0], rig_now, &found),
                     VIP_RC_INVALID_PARAMETER);
    assert_int_equal(nic_connect_wait_cancel(t.b->session, wait[1], rig_now, &found),
                     VIP_RC_SUCCESS);
    assert_int_equal(accept_rc(t.b, handle[1], t.vb), VIP_RC_SUCCESS);
}

static void test_cancel(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_event event;

    rig_listen(t.b, 1, "x");
    rig_connect_start(t.a, t.va, 0, 1, "x");
    event = rig_wait_event(t.b, 'i');
    assert_int_equal(nic_connect_cancel(t.a->session, t.va, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_connect_cancel(t.a->session, t.va, rig_now), VIP_RC_INVALID_STATE);
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_IDLE);
    rig_pass(RIG_SECOND / 10);
    assert_int_equal(accept_rc(t.b, event.handle, t.vb), VIP_RC_TIMEOUT);
    assert_int_equal(shown_state(t.b, t.vb), VIP_VIST_IDLE);
    assert_int_equal(t.a->event_count, 0);
    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
}

/* VipDisconnect of a VI that is being connected or accepted ends the attempt with a result. */
static void test_disconnect_attempts(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);

    rig_listen(t.b, 1, "x");
    rig_connect_start(t.a, t.va, 0, 1, "x");
    assert_int_equal(accept_rc(t.b, rig_wait_event(t.b, 'i').handle, t.vb), VIP_RC_SUCCESS);
    assert_int_equal(nic_vi_disconnect(t.b->session, t.vb, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.b, 'r').code, VIP_RC_INVALID_STATE);
    /* The client is connected for a moment, then gets an error for the lost connection. */
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.a, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(nic_vi_disconnect(t.a->session, t.va, rig_now), VIP_RC_SUCCESS);

    rig_connect_start(t.a, t.va, 0, 1, "y");
    assert_int_equal(nic_vi_disconnect(t.a->session, t.va, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_INVALID_STATE);
    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
}

static void test_wait_cancel(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct vip_addr addr = rig_vip_addr(1, "x");
    uint64_t wait;
    bool found = true;

    assert_int_equal(nic_connect_wait(t.b->session, &addr, true, rig_now, &wait, &found, NULL, 0),
                     VIP_RC_SUCCESS);
    assert_false(found);
    assert_int_equal(nic_connect_wait(t.b->session, &addr, false, rig_now, &wait, &found, NULL, 0),
                     VIP_RC_SUCCESS);
    assert_int_equal(nic_connect_wait_cancel(t.b->session, wait, rig_now, &found), VIP_RC_SUCCESS);
    assert_false(found);
    assert_int_equal(nic_connect_wait_cancel(t.b->session, wait, rig_now, &found),
                     VIP_RC_INVALID_PARAMETER);
    /* vipd keeps a request for a short time, for a server that calls VipConnectWait in a loop. */
    rig_connect_start(t.a, t.va, 0, 1, "x");
    rig_steps(20);
    assert_int_equal(nic_connect_wait(t.b->session, &addr, true, rig_now, &wait, &found, NULL, 0),
                     VIP_RC_SUCCESS);
    assert_true(found);
    assert_int_equal(nic_connect_wait_cancel(t.b->session, wait, rig_now, &found), VIP_RC_SUCCESS);
    assert_true(found);
    assert_int_equal(accept_rc(t.b, rig_wait_event(t.b, 'i').handle, t.vb), VIP_RC_SUCCESS);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_SUCCESS);
}

/* A session ends while it has connections in several states. died: its program has died. */
static void session_ends(bool died)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    uint16_t asking = rig_vi(t.a, VIP_LVL_DELIVERY), waiting = rig_vi(t.a, VIP_LVL_DELIVERY);
    uint16_t third = rig_vi(t.b, VIP_LVL_DELIVERY);
    struct vip_comp comp;
    struct rig_mem mem = rig_mem(t.a, 4096, REGISTRY_SHARED);

    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    rig_post_recv(t.a, t.va, rig_seg(&mem, 0, 4096));
    rig_listen(t.b, 1, "again");
    rig_listen(t.b, 1, "unused");
    rig_connect_start(t.a, asking, 0, 1, "again");
    rig_wait_event(t.b, 'i');
    rig_listen(t.a, 0, "never");
    rig_connect_start(t.b, third, 1, 0, "never");
    rig_wait_event(t.a, 'i');
    (void)waiting;
    rig_app_end(t.b, died);
    assert_int_equal(rig_wait_event(t.a, 'e').code, VIP_EC_CONN_LOST);
    assert_int_equal(rig_wait_event(t.a, 'r').code, VIP_RC_REJECT);
    comp = rig_wait_done(t.a, t.va, VIP_Q_RECV);
    assert_true(comp.status & VIP_ST_DESC_FLUSHED_ERROR);
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_ERROR);
    rig_mem_free(&mem);
}

static void test_session_ends(void **state)
{
    session_ends(false);
    rig_teardown(state);
    session_ends(true);
}

/* A vipd that ends in order tells its peers the reason. */
static void test_shutdown(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_host *host = rig_hosts[0];
    unsigned closes = 0;

    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    nic_stopping(rig_nics[1]);
    rig_app_end(t.b, false);
    for (unsigned i = 0; i < host->count; i++) {
        const struct rig_packet *packet = host->queue[(host->head + i) % RIG_QUEUE];
        struct vip_cm cm;

        if (vip_wire_get_cm(packet->bytes, packet->len, &cm) != VIP_WIRE_OK ||
            cm.type != VIP_CM_CLOSE)
            continue;
        assert_int_equal(cm.reason, VIP_CLOSE_SHUTDOWN);
        closes++;
    }
    assert_int_equal(closes, 1);
    assert_int_equal(rig_wait_event(t.a, 'e').code, VIP_EC_CONN_LOST);
}

/* A nic disappears. Its peers detect this in time and lose only their connections with it. */
static void test_peer_lost(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_app *c = rig_app(rig_nic(2));
    uint16_t vc = rig_vi(c, VIP_LVL_DELIVERY), other = rig_vi(t.a, VIP_LVL_DELIVERY);
    struct nic *dead = rig_nics[1];
    struct rig_event event;

    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    rig_connect(t.a, other, 0, c, vc, 2);
    rig_nics[1] = NULL; /* host 1 runs no more turns */
    event = rig_wait_event(t.a, 'e');
    assert_int_equal(event.code, VIP_EC_CONN_LOST);
    assert_int_equal(event.vi, t.va);
    rig_pass(10 * RIG_SECOND);
    assert_int_equal(t.a->event_count, 0);
    assert_int_equal(shown_state(t.a, other), VIP_VIST_CONNECTED);
    rig_nics[1] = dead;
    assert_int_equal(rig_wait_event(t.b, 'e').code, VIP_EC_CONN_LOST);
}

/* Copy the first data packet that is on the way to host `to`. Returns its length. */
static uint32_t catch_data(unsigned to, uint8_t *ret, struct vip_header *ret_hdr)
{
    struct rig_host *host = rig_hosts[to];

    for (unsigned i = 0; i < host->count; i++) {
        struct rig_packet *packet = host->queue[(host->head + i) % RIG_QUEUE];

        if (vip_wire_get_header(packet->bytes, packet->len, ret_hdr) == VIP_WIRE_OK &&
            ret_hdr->kind == VIP_PKT_DATA) {
            memcpy(ret, packet->bytes, packet->len);
            return packet->len;
        }
    }
    fail();
    return 0;
}

/* vipd drops packets that arrive with its own address: its packets to itself use no link. */
static void test_own_address(void **state)
{
    struct link_addr own = rig_addr(1), other = rig_addr(0);
    struct vip_cm msg = {.type = VIP_CM_PING, .request_id = 4711};
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len = vip_wire_put_cm(packet, 815, 0, &msg);
    struct nic *nic;
    uint64_t sent;

    (void)two_new(VIP_LVL_DELIVERY);
    nic = rig_nics[1];
    sent = rig_counter(nic, "tx_cm");
    rig_inject(&own, 1, packet, (uint32_t)len);
    rig_step();
    assert_int_equal(rig_counter(nic, "drop_source"), 1);
    assert_int_equal(rig_counter(nic, "tx_cm"), sent);
    rig_inject(&other, 1, packet, (uint32_t)len);
    rig_step();
    assert_int_equal(rig_counter(nic, "drop_source"), 1);
    assert_int_equal(rig_counter(nic, "tx_cm"), sent + 1);
}

/* Inject the packet with another header and a correct checksum, then run a step. */
static void inject_as(const struct link_addr *from, uint8_t *packet, uint32_t len,
                      const struct vip_header *hdr)
{
    struct iovec iov = {.iov_base = packet, .iov_len = len};

    vip_wire_put_header(packet, hdr);
    vip_wire_seal(&iov, 1);
    rig_inject(from, 1, packet, len);
    rig_step();
}

static void test_foreign_packets(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_mem ma = rig_mem(t.a, 4096, REGISTRY_SHARED);
    struct rig_mem mb = rig_mem(t.b, 4096, REGISTRY_SHARED);
    struct link_addr a = rig_addr(0), c = rig_addr(2);
    struct vip_header good, bad;
    uint8_t packet[RIG_MTU];
    struct nic *nic = rig_nics[1];
    struct vip_comp comp;
    uint32_t len;

    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    rig_post_recv(t.b, t.vb, rig_seg(&mb, 0, 4096));
    rig_step();
    rig_post_send(t.a, t.va, rig_seg(&ma, 0, 100));
    nic_turn(rig_nics[0], rig_now);
    len = catch_data(1, packet, &good);

    bad = good;
    bad.conn_id ^= 1ull << 40;
    inject_as(&a, packet, len, &bad);
    assert_int_equal(rig_counter(nic, "drop_unknown_conn"), 1);
    bad.conn_id = UINT64_MAX;
    inject_as(&a, packet, len, &bad);
    assert_int_equal(rig_counter(nic, "drop_unknown_conn"), 2);
    bad = good;
    bad.src_epoch++;
    inject_as(&a, packet, len, &bad);
    assert_int_equal(rig_counter(nic, "drop_src_epoch"), 1);
    bad = good;
    bad.dst_epoch++;
    inject_as(&a, packet, len, &bad);
    assert_int_equal(rig_counter(nic, "drop_dst_epoch"), 1);
    inject_as(&c, packet, len, &good);
    assert_int_equal(rig_counter(nic, "drop_source"), 1);
    packet[len - 1] ^= 1;
    rig_inject(&a, 1, packet, len);
    rig_inject(&a, 1, packet, 10);
    rig_step();
    assert_int_equal(rig_counter(nic, vip_wire_verdict_name(VIP_WIRE_CRC_BAD)), 1);
    assert_int_equal(rig_counter(nic, vip_wire_verdict_name(VIP_WIRE_SHORT)), 1);
    comp = rig_wait_done(t.b, t.vb, VIP_Q_RECV);
    assert_int_equal(comp.length, 100);
    rig_pass(RIG_SECOND);
    assert_int_equal(shown_state(t.a, t.va), VIP_VIST_CONNECTED);
    assert_int_equal(shown_state(t.b, t.vb), VIP_VIST_CONNECTED);
    rig_mem_free(&ma);
    rig_mem_free(&mb);
}

/* Connect under heavy loss. Data may arrive before the CONFIRM. */
static void test_connect_under_loss(void **state)
{
    struct two t = two_new(VIP_LVL_DELIVERY);
    struct rig_mem ma = rig_mem(t.a, 4096, REGISTRY_SHARED);
    struct rig_mem mb = rig_mem(t.b, 4096, REGISTRY_SHARED);
    struct vip_comp comp;

    rig_loss_ppm = 300000;
    for (unsigned i = 0; i < 20; i++) {
        rig_fill(ma.at, 1000, i);
        rig_post_recv(t.b, t.vb, rig_seg(&mb, 0, 4096));
        rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
        rig_post_send(t.a, t.va, rig_seg(&ma, 0, 1000));
        comp = rig_wait_done(t.b, t.vb, VIP_Q_RECV);
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
        assert_memory_equal(ma.at, mb.at, 1000);
        comp = rig_wait_done(t.a, t.va, VIP_Q_SEND);
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
        nic_vi_disconnect(t.a->session, t.va, rig_now);
        assert_int_equal(rig_wait_event(t.b, 'e').code, VIP_EC_CONN_LOST);
        nic_vi_disconnect(t.b->session, t.vb, rig_now);
    }
    rig_mem_free(&ma);
    rig_mem_free(&mb);
}

static bool view_first(void *ctx, const struct nic_vi_view *view)
{
    *(struct nic_vi_view *)ctx = *view;
    return false;
}

/* An operation fails at the other end. At both reliable levels, the statistics of this end name the
 * end at fault. Only with Reliable Reception does the operation complete with the error of the
 * fault (spec 3.6). */
static void fails_there(uint16_t level, bool write, uint32_t want, const char *why)
{
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    uint16_t va = rig_vi(a, level), vb = rig_vi(b, level);
    struct rig_mem mem = rig_mem(a, 4096, REGISTRY_SHARED);
    struct vip_shm_seg nowhere = {.addr = 4096, .handle = 4711};
    struct nic_vi_view view = {.vi = 999};
    struct vip_comp comp;

    rig_connect(a, va, 0, b, vb, 1);
    if (write)
        rig_post_write(a, va, rig_seg(&mem, 0, 100), nowhere, false);
    else
        rig_post_send(a, va, rig_seg(&mem, 0, 100));
    comp = rig_wait_done(a, va, VIP_Q_SEND);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK,
                     level == VIP_LVL_RECEPTION ? want : VIP_ST_DESC_FLUSHED_ERROR);
    assert_int_equal(rig_wait_event(a, 'e').code, VIP_EC_CONN_LOST);
    nic_session_vis(a->session, va, view_first, &view);
    assert_string_equal(view.stats.error, why);
    rig_mem_free(&mem);
    rig_teardown(NULL);
}

static void test_which_end_is_at_fault(void **state)
{
    static const uint16_t levels[] = {VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};

    for (unsigned i = 0; i < 2; i++) {
        fails_there(levels[i], false, VIP_ST_REMOTE_DESC_ERROR,
                    "the receive of the other end was missing, too short or faulty");
        fails_there(levels[i], true, VIP_ST_RDMA_PROT_ERROR,
                    "the other end does not allow an RDMA operation of this side to its memory");
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_states),
        T(test_no_match),
        T(test_reject_keeps_receives),
        T(test_attributes_differ),
        T(test_foreign_handle),
        T(test_numbers_of_an_earlier_life),
        T(test_cancel),
        T(test_disconnect_attempts),
        T(test_wait_cancel),
        T(test_session_ends),
        T(test_shutdown),
        T(test_peer_lost),
        T(test_foreign_packets),
        T(test_own_address),
        T(test_connect_under_loss),
        T(test_which_end_is_at_fault),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
