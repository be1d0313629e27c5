/*
 * Connection manager: peer-to-peer requests (spec 2.5), one rule at a time. test_engine_cm_sim.c
 * tests them in random bad networks.
 */
#include "tests/unit/cm_world_run.h"

#include <errno.h>

enum { LOW = 0, HIGH = 1 }; /* HIGH has the greater address, so it accepts */

static struct attempt *req(struct world *w, unsigned host, unsigned i)
{
    return &w->hosts[host].requests[i];
}

/* Check that request i of LOW and request j of HIGH have become one connection. */
static void check_pair(struct world *w, unsigned i, unsigned j)
{
    struct attempt *low = req(w, LOW, i), *high = req(w, HIGH, j);
    struct conn *a, *b;

    assert_int_equal(low->done, 1);
    assert_int_equal(high->done, 1);
    assert_int_equal(low->rc, VIP_RC_SUCCESS);
    assert_int_equal(high->rc, VIP_RC_SUCCESS);
    a = host_conn(&w->hosts[LOW], low->local_id);
    b = host_conn(&w->hosts[HIGH], high->local_id);
    assert_true(a && b && a->alive && b->alive);
    assert_true(a->remote_id == b->local_id && b->remote_id == a->local_id);
    world_attrs_check(&a->info.attrs);
    world_attrs_check(&b->info.attrs);
}

static void test_either_side_first(void **state)
{
    for (unsigned first = LOW; first <= HIGH; first++) {
        struct world *w = world_new(2, 100 + first);

        host_peer(w, first, 1 - first, "x", "x", FOR_EVER);
        world_run(w, 3 * S);
        assert_int_equal(req(w, first, 0)->done, 0);
        host_peer(w, 1 - first, first, "x", "x", FOR_EVER);
        world_run(w, 1 * MS); /* the match comes at once, not with the next repetition */
        check_pair(w, 0, 0);
        world_run(w, 10 * S);
        assert_int_equal(w->sent_of_type[VIP_CM_ACCEPT], 1);
        assert_int_equal(w->sent_of_type[VIP_CM_NO_MATCH], 0);
        assert_int_equal(stats_of(w, LOW).pending + stats_of(w, HIGH).pending, 0);
        world_free(w);
    }
}

static void test_simultaneous(void **state)
{
    struct world *w = world_new(2, 102);

    host_peer_attrs(w, LOW, HIGH, "a", "b", S, &world_attrs, "from low");
    host_peer_attrs(w, HIGH, LOW, "b", "a", S, &world_attrs, "from high");
    world_run(w, 1 * MS);
    check_pair(w, 0, 0);
    assert_int_equal(req(w, LOW, 0)->data.len, 9);
    assert_memory_equal(req(w, LOW, 0)->data.bytes, "from high", 9);
    assert_int_equal(req(w, HIGH, 0)->data.len, 8);
    assert_memory_equal(req(w, HIGH, 0)->data.bytes, "from low", 8);
    world_free(w);
}

static void test_pending_until_the_limit(void **state)
{
    struct world *w = world_new(2, 103);
    uint64_t start_ns = w->now_ns;

    for (unsigned host = LOW; host <= HIGH; host++) {
        host_peer(w, host, 1 - host, "x", "only mine", 700 * MS);
        host_peer(w, host, 1 - host, "y", "only mine", FOR_EVER);
    }
    world_run(w, 100 * S);
    for (unsigned host = LOW; host <= HIGH; host++) {
        assert_int_equal(req(w, host, 0)->rc, VIP_RC_TIMEOUT);
        assert_true(req(w, host, 0)->done_ns - start_ns == 700 * MS);
        assert_int_equal(req(w, host, 1)->done, 0);
        assert_true(cm_disc_in_use(w->hosts[host].cm, (const uint8_t *)"y", 1));
        assert_false(cm_disc_in_use(w->hosts[host].cm, (const uint8_t *)"x", 1));
        req(w, host, 1)->given_up = true;
        assert_true(cm_request_cancel(w->hosts[host].cm, 1, w->now_ns));
    }
    world_run(w, 1 * S);
    for (unsigned host = LOW; host <= HIGH; host++)
        assert_int_equal(w->hosts[host].allocs, 0);
    world_free(w);
}

/* Many requests of one user wait. The limit of repetitions delays no match and ends no request. */
static void test_many_wait(void **state)
{
    enum { MANY = 600 };
    struct world *w = world_new(2, 121);
    struct host *low = &w->hosts[LOW];
    unsigned sent, i;
    char mine[8];

    for (i = 0; i < MANY; i++) {
        snprintf(mine, sizeof(mine), "%u", i);
        host_peer(w, LOW, HIGH, mine, "x", FOR_EVER);
        world_run(w, 1 * MS);
    }
    world_run(w, 30 * S);
    sent = w->sent_of_type[VIP_CM_REQUEST];
    world_run(w, 30 * S);
    sent = w->sent_of_type[VIP_CM_REQUEST] - sent;
    assert_in_range(sent, 200 * 30, 250 * 30 + 500); /* without a limit: about 1.8 * MANY * 30 */
    assert_int_equal(stats_of(w, LOW).timeouts, 0);
    host_peer(w, HIGH, LOW, "x", mine, FOR_EVER);
    world_run(w, 1 * MS);
    check_pair(w, MANY - 1, 0);
    /* Even if the first message of the later request is lost, the match comes soon. */
    for (i = 0; i < 10; i++) {
        snprintf(mine, sizeof(mine), "y%u", i);
        host_peer(w, HIGH, LOW, mine, mine, FOR_EVER);
        world_run(w, 700 * MS);
        w->filter = drop_all;
        host_peer(w, LOW, HIGH, mine, mine, FOR_EVER);
        world_run(w, 5 * MS);
        w->filter = NULL;
        world_run(w, 30 * MS);
        check_pair(w, MANY + i, 1 + i);
    }
    /* The loss of packets ends no request. */
    w->loss_percent = 10;
    world_run(w, 60 * S);
    w->loss_percent = 0;
    assert_int_equal(stats_of(w, LOW).timeouts, 0);
    w->filter = drop_all;
    world_run(w, 60 * S);
    for (i = 0; i < MANY - 1; i++)
        assert_int_equal(low->requests[i].rc, VIP_RC_NOT_REACHABLE);
    world_free(w);
}

static void test_nobody_there(void **state)
{
    struct world *w = world_new(2, 104);

    w->filter = drop_all;
    host_peer(w, LOW, HIGH, "x", "x", 300 * MS);
    host_peer(w, LOW, HIGH, "x", "x", FOR_EVER);
    world_run(w, 60 * S);
    assert_int_equal(req(w, LOW, 0)->rc, VIP_RC_TIMEOUT);
    assert_int_equal(req(w, LOW, 1)->rc, VIP_RC_NOT_REACHABLE);
    world_free(w);
}

/* Two requests match if the remote address of each is exactly the local address of the other. */
static void test_addresses(void **state)
{
    static const struct {
        const char *low_local, *low_remote, *high_local, *high_remote;
        bool match;
    } cases[] = {
        {"a", "b", "b", "a", true},    {"a", "b", "a", "b", false}, {"a", "b", "b", "aa", false},
        {"ab", "b", "b", "a", false},  {"", "", "", "", true},      {"", "b", "b", "", true},
        {"a", "", "", "", false},      {"a", "b", "b", "b", false}, {"a", "b", "bb", "a", false},
        {"ab", "c", "a", "bc", false},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world *w = world_new(2, 105 + i);

        host_peer(w, LOW, HIGH, cases[i].low_local, cases[i].low_remote, S);
        host_peer(w, HIGH, LOW, cases[i].high_local, cases[i].high_remote, S);
        world_run(w, 3 * S);
        assert_int_equal(req(w, LOW, 0)->rc, cases[i].match ? VIP_RC_SUCCESS : VIP_RC_TIMEOUT);
        assert_int_equal(req(w, HIGH, 0)->rc, cases[i].match ? VIP_RC_SUCCESS : VIP_RC_TIMEOUT);
        world_free(w);
    }
}

static void test_host_must_match(void **state)
{
    struct world *w = world_new(3, 120);

    host_peer(w, LOW, HIGH, "x", "x", S);
    host_peer(w, OTHER, HIGH, "x", "x", S);
    host_peer(w, HIGH, OTHER, "x", "x", S);
    world_run(w, 3 * S);
    assert_int_equal(req(w, LOW, 0)->rc, VIP_RC_TIMEOUT);
    assert_int_equal(req(w, OTHER, 0)->rc, VIP_RC_SUCCESS);
    assert_int_equal(req(w, HIGH, 0)->rc, VIP_RC_SUCCESS);
    world_free(w);
}

static void test_attributes_must_match(void **state)
{
    struct vip_cm_attrs other[3] = {world_attrs, world_attrs, world_attrs};
    static const enum vip_rc rc[3] = {VIP_RC_INVALID_RELIABILITY_LEVEL, VIP_RC_INVALID_MTU,
                                      VIP_RC_INVALID_QOS};

    other[0].level = VIP_LVL_RECEPTION;
    other[1].max_transfer_bytes = 1;
    other[2].qos = 8;
    for (unsigned i = 0; i < 6; i++) {
        struct world *w = world_new(2, 130 + i);
        unsigned first = i / 3;

        host_peer_attrs(w, first, 1 - first, "x", "x", 10 * S, &other[i % 3], "");
        host_peer(w, 1 - first, first, "x", "x", 10 * S);
        lose(w, VIP_CM_REJECT, 1); /* the first REJECT is lost and repeated */
        world_run(w, 1 * S);
        assert_int_equal(req(w, LOW, 0)->rc, rc[i % 3]);
        assert_int_equal(req(w, HIGH, 0)->rc, rc[i % 3]);
        /* Requests with the same addresses match if they have the same attributes. */
        host_peer(w, 1 - first, first, "x", "x", 10 * S);
        host_peer(w, first, 1 - first, "x", "x", 10 * S);
        world_run(w, 1 * S);
        check_pair(w, 1, 1);
        world_free(w);
    }
    /* Requests match, too, if their rights for RDMA differ. */
    struct world *w = world_new(1, 136);
    struct vip_cm_attrs attrs = world_attrs;

    attrs.rdma_write = 0;
    attrs.rdma_read = 1;
    host_peer_attrs(w, 0, 0, "x", "x", 10 * S, &attrs, "");
    host_peer(w, 0, 0, "x", "x", 10 * S);
    world_run(w, 1 * S);
    assert_int_equal(req(w, 0, 0)->rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* Both ends are on one NIC. A request does not match itself. A third equal request has no match. */
static void test_one_nic(void **state)
{
    for (uint64_t seed = 140; seed < 160; seed++) {
        struct world *w = world_new(1, seed);
        unsigned connected = 0;

        host_peer(w, 0, 0, "x", "x", 2 * S);
        world_run(w, 100 * MS);
        assert_int_equal(req(w, 0, 0)->done, 0);
        host_peer(w, 0, 0, "x", "x", 2 * S);
        host_peer(w, 0, 0, "x", "x", 2 * S);
        host_peer(w, 0, 0, "a", "b", 2 * S);
        host_peer(w, 0, 0, "b", "a", 2 * S);
        world_run(w, 10 * S);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(req(w, 0, i)->done, 1);
            connected += req(w, 0, i)->rc == VIP_RC_SUCCESS;
        }
        assert_int_equal(connected, 2);
        assert_int_equal(req(w, 0, 3)->rc, VIP_RC_SUCCESS);
        assert_int_equal(req(w, 0, 4)->rc, VIP_RC_SUCCESS);
        assert_int_equal(w->hosts[0].conn_count, 4);
        world_free(w);
    }
}

static void test_never_meets_a_server(void **state)
{
    struct world *w = world_new(2, 160);

    host_listen(w, HIGH, 1, "x");
    host_peer(w, LOW, HIGH, "x", "x", S);
    host_peer(w, HIGH, LOW, "client", "y", S);
    host_request(w, LOW, HIGH, "y", S); /* its local address is "client" */
    host_request(w, LOW, HIGH, "client", S);
    world_run(w, 5 * S);
    assert_int_equal(w->hosts[HIGH].incoming_count, 0);
    assert_int_equal(req(w, LOW, 0)->rc, VIP_RC_TIMEOUT);
    assert_int_equal(req(w, HIGH, 0)->rc, VIP_RC_TIMEOUT);
    assert_int_equal(req(w, LOW, 1)->rc, VIP_RC_NO_MATCH);
    assert_int_equal(req(w, LOW, 2)->rc, VIP_RC_NO_MATCH);
    world_free(w);
}

/* All requests have the same addresses. One side starts all its requests before the other side. */
static void test_many(void **state)
{
    enum { MANY = 100 };

    for (unsigned first = LOW; first <= HIGH; first++) {
        struct world *w = world_new(2, 161 + first);

        for (unsigned i = 0; i < MANY; i++)
            host_peer(w, first, 1 - first, "x", "x", FOR_EVER);
        world_run(w, 5 * S);
        for (unsigned i = 0; i < MANY; i++)
            host_peer(w, 1 - first, first, "x", "x", FOR_EVER);
        world_run(w, 50 * MS);
        for (unsigned i = 0; i < MANY; i++) {
            assert_int_equal(req(w, LOW, i)->done, 1);
            assert_int_equal(req(w, HIGH, i)->done, 1);
        }
        assert_int_equal(w->hosts[LOW].conn_count, MANY);
        assert_int_equal(w->hosts[HIGH].conn_count, MANY);
        world_free(w);
    }
}

static void test_losses(void **state)
{
    static const unsigned types[] = {VIP_CM_REQUEST, VIP_CM_ACCEPT, VIP_CM_CONFIRM, VIP_CM_PENDING};

    for (unsigned i = 0; i < 4; i++)
        for (unsigned first = LOW; first <= HIGH; first++) {
            struct world *w = world_new(2, 170 + i);

            lose(w, types[i], 4);
            w->dup_percent = 50;
            host_peer(w, first, 1 - first, "x", "x", 60 * S);
            world_run(w, 20 * MS);
            host_peer(w, 1 - first, first, "x", "x", 60 * S);
            world_run(w, 5 * S);
            check_pair(w, 0, 0);
            assert_int_equal(w->hosts[LOW].conn_count + w->hosts[HIGH].conn_count, 2);
            world_free(w);
        }
}

/* LOW cancels its request while HIGH waits for the CONFIRM. HIGH then waits for another match. */
static void test_requester_withdraws(void **state)
{
    struct world *w = world_new(2, 180);
    uint64_t id;

    host_peer(w, HIGH, LOW, "x", "x", 60 * S);
    id = req(w, HIGH, 0)->local_id;
    lose(w, VIP_CM_ACCEPT, 2);
    host_peer(w, LOW, HIGH, "x", "x", 60 * S);
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, HIGH).pending, 1);
    req(w, LOW, 0)->given_up = true;
    assert_true(cm_request_cancel(w->hosts[LOW].cm, 0, w->now_ns));
    world_run(w, 1 * S);
    assert_int_equal(req(w, HIGH, 0)->done, 0);
    assert_int_equal(w->hosts[HIGH].renewed, 1);
    assert_true(req(w, HIGH, 0)->local_id != id);
    host_peer(w, LOW, HIGH, "x", "x", 60 * S);
    world_run(w, 1 * S);
    check_pair(w, 1, 0);
    world_free(w);
}

/* HIGH cancels its request after it has accepted. If LOW has received the ACCEPT (seen = 1), a
 * CLOSE ends LOW's connection. If not, LOW's request goes on waiting. */
static void test_accepter_withdraws(void **state)
{
    for (unsigned seen = 0; seen < 2; seen++) {
        struct world *w = world_new(2, 181 + seen);

        host_peer(w, LOW, HIGH, "x", "x", 60 * S);
        world_run(w, 50 * MS);
        lose(w, seen ? VIP_CM_CONFIRM : VIP_CM_ACCEPT, 1);
        host_peer(w, HIGH, LOW, "x", "x", 60 * S);
        world_run(w, 5 * MS);
        assert_int_equal(stats_of(w, HIGH).pending, 1);
        req(w, HIGH, 0)->given_up = true;
        assert_true(cm_request_cancel(w->hosts[HIGH].cm, 0, w->now_ns));
        assert_false(cm_request_cancel(w->hosts[HIGH].cm, 0, w->now_ns));
        world_run(w, 5 * S);
        assert_int_equal(req(w, LOW, 0)->done, seen);
        if (seen) {
            assert_int_equal(req(w, LOW, 0)->rc, VIP_RC_SUCCESS);
            assert_int_equal(w->hosts[LOW].conns[0].closed, 1);
        }
        assert_int_equal(stats_of(w, HIGH).pending, 0);
        world_run(w, 60 * S);
        assert_int_equal(req(w, LOW, 0)->done, 1);
        assert_int_equal(req(w, LOW, 0)->rc, seen ? VIP_RC_SUCCESS : VIP_RC_TIMEOUT);
        assert_int_equal(w->hosts[HIGH].allocs, 0);
        world_free(w);
    }
}

static void test_never_confirmed(void **state)
{
    static const uint64_t limits[] = {FOR_EVER, 2 * S};

    for (unsigned i = 0; i < 2; i++) {
        struct world *w = world_new(2, 183 + i);
        uint64_t start_ns;

        host_peer(w, LOW, HIGH, "x", "x", FOR_EVER);
        world_run(w, 50 * MS);
        lose(w, VIP_CM_CONFIRM, 100000);
        start_ns = w->now_ns;
        host_peer(w, HIGH, LOW, "x", "x", limits[i]);
        world_run(w, 20 * S);
        assert_int_equal(req(w, HIGH, 0)->rc, i ? VIP_RC_TIMEOUT : VIP_RC_NOT_REACHABLE);
        assert_true(req(w, HIGH, 0)->done_ns - start_ns <= 6 * S);
        assert_int_equal(w->hosts[LOW].conns[0].closed, 1);
        world_free(w);
    }
}

/* A REQUEST that arrives after its sender has cancelled it makes no connection. */
static void test_late_request(void **state)
{
    struct world *w = world_new(2, 190);

    w->delay_min_ns = 50 * MS;
    host_peer(w, LOW, HIGH, "x", "x", 10 * MS);
    world_run(w, 40 * MS);
    assert_int_equal(req(w, LOW, 0)->rc, VIP_RC_TIMEOUT);
    w->delay_min_ns = 1 * MS;
    host_peer(w, HIGH, LOW, "x", "x", 60 * S);
    world_run(w, 1 * S);
    assert_int_equal(req(w, HIGH, 0)->done, 0);
    assert_int_equal(w->hosts[LOW].conn_count, 0);
    host_peer(w, LOW, HIGH, "x", "x", 60 * S);
    world_run(w, 1 * S);
    check_pair(w, 1, 0);
    world_free(w);
}

/* Data that arrives before the CONFIRM counts as the CONFIRM. */
static void test_implied_confirm(void **state)
{
    struct world *w = world_new(2, 191);

    lose(w, VIP_CM_CONFIRM, 9);
    host_peer(w, HIGH, LOW, "x", "x", 60 * S);
    host_peer(w, LOW, HIGH, "x", "x", 60 * S);
    world_run(w, 1 * MS);
    assert_int_equal(req(w, HIGH, 0)->done, 0);
    cm_implied_confirm(w->hosts[HIGH].cm, req(w, HIGH, 0)->local_id, &w->hosts[LOW].addr,
                       w->hosts[LOW].epoch, w->now_ns);
    check_pair(w, 0, 0);
    world_free(w);
}

/* The accepting vipd is restarted while it waits for the CONFIRM. */
static void test_restart(void **state)
{
    struct world *w = world_new(2, 192);

    lose(w, VIP_CM_ACCEPT, 9);
    host_peer(w, LOW, HIGH, "x", "x", 60 * S);
    host_peer(w, HIGH, LOW, "x", "x", 60 * S);
    world_run(w, 1 * MS);
    w->filter = NULL;
    host_kill(w, HIGH);
    host_start(w, HIGH);
    host_peer(w, HIGH, LOW, "x", "x", 60 * S);
    world_run(w, 2 * S);
    check_pair(w, 0, 0);
    world_free(w);
}

static void test_no_memory(void **state)
{
    for (unsigned side = LOW; side <= HIGH; side++)
        for (long n = 0; n < 14; n++) {
            struct world *w = world_new(2, 200 + (uint64_t)n);
            struct cm_request_args args = {.local_id = 77,
                                           .timeout_ns = 2 * S,
                                           .peer_to_peer = true,
                                           .local = world_addr(&w->hosts[side], "x"),
                                           .remote = world_addr(&w->hosts[1 - side], "x"),
                                           .attrs = world_attrs};
            int asked;

            w->hosts[side].fail_after = n;
            w->hosts[side].requests[0] = (struct attempt){.used = true, .local_id = 77};
            w->hosts[side].request_count = 1;
            asked = cm_request(w->hosts[side].cm, &args, w->now_ns);
            assert_true(asked == 0 || asked == -ENOMEM);
            host_peer(w, 1 - side, side, "x", "x", 2 * S);
            world_run(w, 20 * S);
            assert_int_equal(req(w, side, 0)->done, asked == 0);
            assert_int_equal(req(w, 1 - side, 0)->done, 1);
            assert_int_equal(w->hosts[0].conn_count && w->hosts[0].conns[0].alive,
                             w->hosts[1].conn_count && w->hosts[1].conns[0].alive);
            w->hosts[side].fail_after = -1;
            world_free(w);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_either_side_first),
        cmocka_unit_test(test_simultaneous),
        cmocka_unit_test(test_pending_until_the_limit),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_many_wait),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_host_must_match),
        cmocka_unit_test(test_attributes_must_match),
        cmocka_unit_test(test_one_nic),
        cmocka_unit_test(test_never_meets_a_server),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_requester_withdraws),
        cmocka_unit_test(test_accepter_withdraws),
        cmocka_unit_test(test_never_confirmed),
        cmocka_unit_test(test_late_request),
        cmocka_unit_test(test_implied_confirm),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("engine_cm_peer", tests, NULL, NULL);
}
