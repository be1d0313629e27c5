/*
 * Many connections end at once: a session with a thousand VIs or with many requests ends, or a peer
 * with a thousand connections dies. vipd ends them in portions, so that no turn of the NIC is long.
 */
#define RIG_VIS    1024
#define RIG_EVENTS 4096

#include "unit/nic_rig.h"

#include "proto/wire.h"

#define VIS 1000u
/* VIs or requests of a session in one portion. (For connections of a peer, a time is the limit.) */
#define PORTION 24u

struct many {
    struct rig_app *a, *b;
};

static struct many many_new(void)
{
    struct many m = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nic(1))};

    for (unsigned i = 0; i < VIS; i++) {
        uint16_t va = rig_vi(m.a, VIP_LVL_DELIVERY), vb = rig_vi(m.b, VIP_LVL_DELIVERY);

        rig_connect(m.a, va, 0, m.b, vb, 1);
    }
    return m;
}

/* Returns the number of the connection manager's messages of this type on the way to host `to`. */
static unsigned sent_towards(unsigned to, enum vip_cm_type type)
{
    struct rig_host *host = rig_hosts[to];
    struct vip_header hdr;
    unsigned count = 0;

    for (unsigned i = 0; i < host->count; i++) {
        struct rig_packet *packet = host->queue[(host->head + i) % RIG_QUEUE];
        struct vip_cm cm;

        if (vip_wire_get_header(packet->bytes, packet->len, &hdr) == VIP_WIRE_OK &&
            hdr.kind == VIP_PKT_CM &&
            vip_wire_get_cm(packet->bytes, packet->len, &cm) == VIP_WIRE_OK)
            count += cm.type == type;
    }
    return count;
}

/* Lose all packets on the way to host `to`. */
static void drop_towards(unsigned to)
{
    struct rig_host *host = rig_hosts[to];

    while (host->count) {
        free(host->queue[host->head]);
        host->head = (host->head + 1) % RIG_QUEUE;
        host->count--;
    }
}

static unsigned lost_events(struct rig_app *app)
{
    struct rig_event event;
    unsigned count = 0;

    while (rig_event(app, 'e', &event)) {
        assert_int_equal(event.code, VIP_EC_CONN_LOST);
        count++;
    }
    return count;
}

static void test_session_in_portions(void **state)
{
    struct many m = many_new();
    struct nic_session_view view;
    unsigned turns = 0, total = 0, vis;
    bool gone = false;

    drop_towards(1);
    while (!gone) {
        unsigned closes;

        vis = PORTION;
        gone = nic_session_end(m.a->session, true, rig_now, &vis);
        assert_true(gone || vis == 0);
        closes = sent_towards(1, VIP_CM_CLOSE);
        assert_true(closes <= PORTION);
        total += closes;
        turns++;
        if (!gone) {
            nic_session_view(m.a->session, &view);
            assert_int_equal(view.vis, VIS - turns * PORTION); /* a VI counts until it has ended */
        }
        rig_now += RIG_STEP_NS;
        nic_turn(rig_nics[0], rig_now);
        drop_towards(1); /* the connection manager sends each lost CLOSE again */
    }
    assert_int_equal(total, VIS);
    assert_int_equal(turns, (VIS + PORTION - 1) / PORTION);
    assert_int_equal(m.a->event_count, 0); /* a session that ends gets no events */
    /* Each connection ends at the peer, too, although no CLOSE has arrived up to now. */
    total = 0;
    for (unsigned i = 0; i < 1000 && total < VIS; i++) {
        rig_pass(RIG_SECOND / 100);
        total += lost_events(m.b);
    }
    assert_int_equal(total, VIS);
    rig_app_forget(m.a);
}

/* A server dies with two listeners and many unanswered requests. Its listeners end first. Then vipd
 * rejects the requests in portions. */
static void test_requests_in_portions(void **state)
{
    enum { REQUESTS = 60 }; /* one user may have 64 requests under way to one host */
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    struct vip_addr addr = rig_vip_addr(0, "name"), other = rig_vip_addr(0, "other");
    struct rig_event event;
    uint64_t wait;
    unsigned turns = 0, total = 0;
    bool gone = false;

    assert_int_equal(nic_listen(a->session, &addr, 1024, rig_now, &wait, NULL, 0), VIP_RC_SUCCESS);
    for (unsigned i = 0; i < REQUESTS; i++) {
        rig_connect_start(b, rig_vi(b, VIP_LVL_DELIVERY), 1, 0, "name");
        rig_wait_event(a, 'i');
    }
    assert_int_equal(nic_listen(a->session, &other, 1, rig_now, &wait, NULL, 0), VIP_RC_SUCCESS);
    for (; !gone; turns++) {
        unsigned rejects, ends = PORTION;

        drop_towards(1);
        gone = nic_session_end(a->session, true, rig_now, &ends);
        assert_true(gone || ends == 0);
        rejects = sent_towards(1, VIP_CM_REJECT);
        assert_true(rejects <= PORTION);
        total += rejects;
        rig_now += RIG_STEP_NS;
        nic_turn(rig_nics[0], rig_now);
        if (turns == 0) { /* both listeners have ended */
            uint16_t late = rig_vi(b, VIP_LVL_DELIVERY);

            rig_connect_start(b, late, 1, 0, "other");
            do
                event = rig_wait_event(b, 'r');
            while (event.vi != late);
            assert_int_equal(event.code, VIP_RC_NO_MATCH);
        }
    }
    assert_int_equal(total, REQUESTS);
    assert_int_equal(turns, (REQUESTS + PORTION - 1) / PORTION);
    rig_app_forget(a);
}

/* Each reading of the clock advances it by dear_ns, the cost of the end of one connection. */
static uint64_t dear_ns, dear_looks;

static uint64_t dear_clock(void)
{
    return rig_now + dear_ns * dear_looks++;
}

/* The peer of all connections dies. busy: true: each connection has a posted send; false: none. */
static void peer_in_portions(bool busy)
{
    struct many m;
    struct nic *dead;
    unsigned total = 0, most = 0;
    uint64_t usual_ns = rig_peer_dead_ns;

    rig_cost_clock = dear_clock;
    rig_peer_dead_ns =
        (busy ? 60 : 1) * usual_ns; /* busy: missing acknowledgements end the connections earlier */
    m = many_new();
    rig_peer_dead_ns = usual_ns;
    dead = rig_nics[1];
    dear_ns = 100000;
    rig_nics[1] = NULL; /* host 1 runs no more turns */
    for (unsigned i = 0; busy && i < VIS; i++)
        rig_post(m.a, (uint16_t)i, VIP_Q_SEND, VIP_CTL_OP_SENDRECV, 0, NULL, 0);
    for (uint64_t end = rig_now + 30 * RIG_SECOND; rig_now < end && total < VIS;) {
        unsigned lost;
        uint64_t next = nic_deadline(rig_nics[0]);

        rig_now = next > rig_now + RIG_STEP_NS ? next : rig_now + RIG_STEP_NS;
        drop_towards(1);
        dear_looks = 0;
        nic_turn(rig_nics[0], rig_now);
        lost = lost_events(m.a);
        assert_in_range(lost, 0, 12);
        if (lost > most)
            most = lost;
        total += lost;
    }
    assert_int_equal(total, VIS);
    assert_in_range(most, 5, 12);
    rig_nics[1] = dead;
    dear_ns = 0;
}

static void test_peer_in_portions(void **state)
{
    peer_in_portions(false);
}

static void test_busy_peer_in_portions(void **state)
{
    peer_in_portions(true);
}

/* The peer of many busy connections of one program dies. Another program does not wait until all
 * these connections have ended: its unreliable sends complete. */
static void test_others_while_a_peer_dies(void **state)
{
    struct many m;
    struct rig_app *c, *d;
    struct nic *dead;
    uint64_t usual_ns = rig_peer_dead_ns;
    uint16_t vc, vd;
    unsigned total = 0, sent = 0, waits = 0;
    struct vip_comp comp;

    rig_cost_clock = dear_clock;
    rig_peer_dead_ns = 60 * usual_ns;
    m = many_new();
    rig_peer_dead_ns = usual_ns;
    c = rig_app(rig_nics[0]);
    d = rig_app(rig_nics[0]);
    vc = rig_vi(c, VIP_LVL_UNRELIABLE);
    vd = rig_vi(d, VIP_LVL_UNRELIABLE);
    rig_connect(c, vc, 0, d, vd, 0);
    dead = rig_nics[1];
    dear_ns = 100000;
    rig_nics[1] = NULL;
    for (unsigned i = 0; i < VIS; i++)
        rig_post(m.a, (uint16_t)i, VIP_Q_SEND, VIP_CTL_OP_SENDRECV, 0, NULL, 0);
    for (uint64_t end = rig_now + 30 * RIG_SECOND; rig_now < end && total < VIS;) {
        uint64_t next = nic_deadline(rig_nics[0]);

        rig_now = next > rig_now + RIG_STEP_NS ? next : rig_now + RIG_STEP_NS;
        drop_towards(1);
        dear_looks = 0;
        nic_turn(rig_nics[0], rig_now);
        total += lost_events(m.a);
        if (total == 0)
            continue;
        if (waits == 0) {
            rig_post(c, vc, VIP_Q_SEND, VIP_CTL_OP_SENDRECV, 0, NULL, 0);
            sent++;
        }
        waits = rig_done(c, vc, VIP_Q_SEND, &comp) ? 0 : waits + 1;
        assert_in_range(waits, 0, 15);
    }
    assert_int_equal(total, VIS);
    assert_true(sent > 5);
    rig_nics[1] = dead;
    dear_ns = 0;
}

/* Each of many connections has a faulty send, which ends the connection. */
static void test_faults_in_portions(void **state)
{
    struct many m;
    unsigned total = 0, most = 0;

    rig_cost_clock = dear_clock;
    m = many_new();
    dear_ns = 100000;
    for (unsigned i = 0; i < VIS; i++)
        rig_post(m.a, (uint16_t)i, VIP_Q_SEND, VIP_CTL_RESERVED, 0, NULL, 0);
    for (unsigned turns = 0; turns < VIS && total < VIS; turns++) {
        unsigned lost;

        rig_now += RIG_STEP_NS;
        dear_looks = 0;
        nic_turn(rig_nics[0], rig_now);
        lost = lost_events(m.a);
        if (lost > most)
            most = lost;
        total += lost;
    }
    assert_int_equal(total, VIS);
    assert_in_range(most, 5, 12);
    dear_ns = 0;
}

/* A program dies with more waits than a portion. No wait of this program gets a request. */
static void test_waits_of_the_dead(void **state)
{
    struct rig_app *a = rig_app(rig_nic(0)), *c = rig_app(rig_nics[0]), *b = rig_app(rig_nic(1));
    struct vip_addr addr = rig_vip_addr(0, "name");
    unsigned ends = PORTION;
    uint64_t wait;
    bool found;

    for (unsigned i = 0; i < 3 * PORTION; i++) {
        assert_int_equal(
            nic_connect_wait(a->session, &addr, false, rig_now, &wait, &found, NULL, 0),
            VIP_RC_SUCCESS);
        rig_vi(a, VIP_LVL_DELIVERY);
    }
    assert_int_equal(nic_connect_wait(c->session, &addr, false, rig_now, &wait, &found, NULL, 0),
                     VIP_RC_SUCCESS);
    assert_false(nic_session_end(a->session, true, rig_now, &ends));
    rig_connect_start(b, rig_vi(b, VIP_LVL_DELIVERY), 1, 0, "name");
    rig_wait_event(c, 'i');
    ends = UINT32_MAX;
    assert_true(nic_session_end(a->session, true, rig_now, &ends));
    rig_app_forget(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_session_in_portions, rig_teardown),
        cmocka_unit_test_teardown(test_requests_in_portions, rig_teardown),
        cmocka_unit_test_teardown(test_peer_in_portions, rig_teardown),
        cmocka_unit_test_teardown(test_busy_peer_in_portions, rig_teardown),
        cmocka_unit_test_teardown(test_others_while_a_peer_dies, rig_teardown),
        cmocka_unit_test_teardown(test_faults_in_portions, rig_teardown),
        cmocka_unit_test_teardown(test_waits_of_the_dead, rig_teardown),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
