/*
 * Connection manager: when a silent peer counts as dead. Time in which our vipd did not run does
 * not count as silence. The peer must also leave four PINGs unanswered.
 */
#include "tests/unit/cm_world_run.h"

#define GAP (world_config.keepalive_ns / 4) /* time between two PINGs to a silent peer */

/* All hosts stop for `ns`. Packets and timers wait, then all of them are due at once. */
static void all_stop(struct world *w, uint64_t ns)
{
    w->now_ns += ns;
}

/* Both hosts of an idle connection stop at any point of the keepalive. The connection survives. */
static void test_both_stopped(void **state)
{
    for (uint64_t phase = 0; phase < 40; phase++) {
        struct world *w = world_new(2, 300 + phase);
        struct conn *c, *s;

        connect_pair(w, &c, &s);
        world_run(w, phase * 50 * MS);
        all_stop(w, 6 * S + phase * MS);
        world_turn(w);
        world_run(w, 100 * S);
        assert_true(c->alive && s->alive);
        world_free(w);
    }
}

/* A host takes a turn only every six seconds, so its peer seems silent. The connection survives. */
static void test_one_stopped(void **state)
{
    struct world *w = world_new(2, 340);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t awake_ns = w->now_ns + 6 * S;

        /* Only the server runs. It sends no PING, because other packets of the client arrive. */
        while (w->now_ns < awake_ns) {
            cm_heard(w->hosts[SERVER].cm, s->peer, w->now_ns);
            while (cm_tick(w->hosts[SERVER].cm, w->now_ns))
                continue;
            w->now_ns += 100 * MS;
        }
        world_turn(w);
        assert_true(c->alive);
    }
    world_run(w, 10 * S);
    assert_true(c->alive && s->alive);
    world_free(w);
}

/* After a stop a real silence is still detected, and not much later than without the stop. */
static void test_silence_after_a_stop(void **state)
{
    struct world *w = world_new(2, 350);
    struct conn *c, *s;
    uint64_t start_ns;

    connect_pair(w, &c, &s);
    world_run(w, 1500 * MS);
    all_stop(w, 6 * S);
    start_ns = w->now_ns;
    w->filter = drop_all;
    w->flight_count = 0;
    while (c->alive && w->now_ns < start_ns + 60 * S)
        world_run(w, 10 * MS);
    assert_int_equal(c->lost, 1);
    assert_in_range(w->now_ns - start_ns, world_config.peer_dead_ns - 2 * S,
                    world_config.peer_dead_ns + S);
    world_free(w);
}

/* A host that takes each turn late still detects a dead peer. */
static void test_always_late(void **state)
{
    struct world *w = world_new(2, 360);
    struct conn *c, *s;
    uint64_t turns = 0;

    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    while (c->alive && turns < 1000) {
        w->now_ns += 3 * GAP;
        world_turn(w);
        turns++;
    }
    assert_int_equal(c->lost, 1);
    assert_in_range(turns, 4, 2 * world_config.peer_dead_ns / GAP);
    world_free(w);
}

/* Even with a short peer_dead_ns, each of the four PINGs has a whole GAP for its answer. */
static void test_four_questions(void **state)
{
    struct world *w = world_new(2, 370);
    struct cm_config times = world_config;
    struct conn *c, *s;
    uint64_t start_ns;

    connect_pair(w, &c, &s);
    times.peer_dead_ns = times.keepalive_ns + 1;
    cm_set_config(w->hosts[CLIENT].cm, &times);
    w->filter = drop_all;
    start_ns = w->now_ns;
    while (c->alive && w->now_ns < start_ns + 60 * S)
        world_run(w, 10 * MS);
    assert_int_equal(c->lost, 1);
    assert_in_range(w->now_ns - start_ns, times.keepalive_ns + 4 * GAP - 20 * MS,
                    times.keepalive_ns + 4 * GAP + 20 * MS);
    assert_int_equal(stats_of(w, CLIENT).pings_sent, 4);
    world_free(w);
}

/* A PONG that takes longer than a GAP is a sign of life. */
static void test_slow_answers(void **state)
{
    struct world *w = world_new(2, 380);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    w->delay_min_ns = 3 * GAP;
    world_run(w, 100 * S);
    assert_true(c->alive && s->alive);
    assert_int_equal(stats_of(w, CLIENT).peers_lost, 0);
    world_free(w);
}

/* While the medium may hold more packets, a peer does not count as silent, but only for a limited
 * time. When the medium is empty, the peer counts as silent. */
static void test_behind(void **state)
{
    struct world *w = world_new(2, 390);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    cm_behind(w->hosts[CLIENT].cm, true);
    world_run(w, 2 * world_config.peer_dead_ns);
    assert_true(c->alive);
    cm_behind(w->hosts[CLIENT].cm, false);
    world_run(w, world_config.peer_dead_ns + S);
    assert_int_equal(c->lost, 1);
    world_free(w);
}

/* The medium is never empty, as in an endless flood of packets. A dead peer is still detected. */
static void test_behind_for_ever(void **state)
{
    struct world *w = world_new(2, 391);
    struct conn *c, *s;
    uint64_t start_ns;

    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    cm_behind(w->hosts[CLIENT].cm, true);
    start_ns = w->now_ns;
    while (c->alive && w->now_ns < start_ns + 20 * world_config.peer_dead_ns)
        world_run(w, 10 * MS);
    assert_int_equal(c->lost, 1);
    assert_in_range(w->now_ns - start_ns, 2 * world_config.peer_dead_ns,
                    3 * world_config.peer_dead_ns + 3 * GAP);
    world_free(w);
}

/* The medium is never empty, and the host takes each turn late. It still detects a dead peer. */
static void test_behind_and_late(void **state)
{
    struct world *w = world_new(2, 396);
    struct conn *c, *s;
    uint64_t turns = 0;

    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    cm_behind(w->hosts[CLIENT].cm, true);
    while (c->alive && turns < 1000) {
        w->now_ns += 3 * GAP;
        world_turn(w);
        turns++;
    }
    assert_int_equal(c->lost, 1);
    assert_in_range(turns, 4, 4 * world_config.peer_dead_ns / GAP);
    world_free(w);
}

/* Each sign of life starts the limited time again. In a flood one answer in this time is enough. */
static void test_behind_and_alive(void **state)
{
    struct world *w = world_new(2, 397);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    cm_behind(w->hosts[CLIENT].cm, true);
    cm_behind(w->hosts[SERVER].cm, true);
    for (unsigned i = 0; i < 20; i++) {
        w->filter = drop_all;
        world_run(w, 2 * world_config.peer_dead_ns);
        assert_true(c->alive);
        w->filter = NULL;
        cm_heard(w->hosts[CLIENT].cm, c->peer, w->now_ns);
        cm_heard(w->hosts[SERVER].cm, s->peer, w->now_ns);
    }
    assert_int_equal(stats_of(w, CLIENT).peers_lost, 0);
    world_free(w);
}

/* An accept waits for its CONFIRM. The time in which both hosts stop does not count. */
static void test_accept_over_a_stop(void **state)
{
    struct world *w = world_new(2, 392);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 10 * MS);
    w->filter = drop_all;
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 300 * MS);
    all_stop(w, 2 * world_config.accept_timeout_ns);
    w->filter = NULL;
    world_run(w, 2 * S);
    assert_int_equal(server->accepts[0].done, 1);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);
    /* The accept ends if the client really does not answer. */
    host_listen(w, SERVER, 2, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 10 * MS);
    w->filter = drop_all;
    assert_int_equal(host_accept(w, SERVER, 1), 0);
    all_stop(w, 2 * world_config.accept_timeout_ns);
    world_run(w, world_config.accept_timeout_ns + S);
    assert_int_equal(server->accepts[1].done, 1);
    assert_int_equal(server->accepts[1].rc, VIP_RC_TIMEOUT);
    world_free(w);
}

/* A host stops and so gets no answer for a while. Its request without time limit does not end. */
static void test_request_over_a_stop(void **state)
{
    struct world *w = world_new(2, 394);

    w->filter = drop_all;
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 300 * MS);
    all_stop(w, 30 * S);
    w->filter = NULL;
    host_listen(w, SERVER, 1, "svc");
    world_run(w, 2 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].done, 0);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 2 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* What counts is the time when vipd takes a packet from the medium, not when its turn began. */
static void test_heard_when_taken(void **state)
{
    struct world *w = world_new(2, 395);
    struct cm_peer_view view = {0};
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    cm_looked(w->hosts[CLIENT].cm, w->now_ns + 3 * S);
    cm_heard(w->hosts[CLIENT].cm, c->peer, w->now_ns);
    for (uint32_t i = 0; i < CM_PEER_INDEXES && view.number != c->peer; i++)
        if (!cm_peer_view(w->hosts[CLIENT].cm, i, &view))
            view.number = ~c->peer;
    assert_int_equal(view.number, c->peer);
    assert_true(view.heard_ns == w->now_ns + 3 * S);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_stopped),
        cmocka_unit_test(test_one_stopped),
        cmocka_unit_test(test_silence_after_a_stop),
        cmocka_unit_test(test_always_late),
        cmocka_unit_test(test_four_questions),
        cmocka_unit_test(test_slow_answers),
        cmocka_unit_test(test_behind),
        cmocka_unit_test(test_behind_for_ever),
        cmocka_unit_test(test_behind_and_late),
        cmocka_unit_test(test_behind_and_alive),
        cmocka_unit_test(test_heard_when_taken),
        cmocka_unit_test(test_accept_over_a_stop),
        cmocka_unit_test(test_request_over_a_stop),
    };

    return cmocka_run_group_tests_name("engine_cm_silence", tests, NULL, NULL);
}
