/*
 * Connection manager: a source that never confirms an accept must not block a serial server for
 * other sources. The tests show which request is next, and which request vipd drops (cm_kept.c).
 */
#include "tests/unit/cm_world_run.h"

enum { STRANGER = 7, EPOCH = 4711 };

static const char disc[] = "svc";

/* SERVER receives a message of `host`, which is not in the world. The answers to it are lost. */
static void says(struct world *w, unsigned host, const struct vip_cm *msg)
{
    struct cm_host from = w->hosts[CLIENT].addr;
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, EPOCH, 0, msg);

    from.bytes[1] = (uint8_t)(host >> 8);
    from.bytes[2] = (uint8_t)host;
    cm_rx(w->hosts[SERVER].cm, &from, packet, len_bytes, w->now_ns);
}

static void asks_at(struct world *w, unsigned host, uint64_t id, const char *where)
{
    const struct vip_cm msg = {.type = VIP_CM_REQUEST,
                               .request_id = id,
                               .conn_id = id,
                               .packet_bytes = 1000,
                               .window_bytes = 1000,
                               .attrs = world_attrs,
                               .remote = world_addr(&w->hosts[SERVER], where)};

    says(w, host, &msg);
}

static void asks(struct world *w, unsigned host, uint64_t id)
{
    asks_at(w, host, id, disc);
}

/* Let time pass; the stranger repeats its requests 1 to `count` every 500 ms. */
static void run_repeating(struct world *w, uint64_t for_ns, unsigned count)
{
    uint64_t end_ns = w->now_ns + for_ns;

    while (w->now_ns < end_ns) {
        for (unsigned id = 1; id <= count; id++)
            asks(w, STRANGER, id);
        world_run(w, end_ns - w->now_ns < 500 * MS ? end_ns - w->now_ns : 500 * MS);
    }
}

/* Returns the third byte of the source address of the last request that the server got; 0: the
 * source is a host of the world. */
static unsigned last_source(const struct world *w)
{
    const struct host *server = &w->hosts[SERVER];

    assert_true(server->incoming_count > 0);
    return server->incoming[server->incoming_count - 1].remote.host[2];
}

static bool all_answered(const struct host *server)
{
    return !server->incoming_count || server->incoming[server->incoming_count - 1].answered;
}

/* The server's program calls VipConnectWait. True: it gets a request at once. */
static bool waits(struct world *w)
{
    struct host *server = &w->hosts[SERVER];
    unsigned before = server->incoming_count;

    host_listen(w, SERVER, 1000 + before, disc);
    return server->incoming_count > before;
}

/* Returns a world whose server has an unanswered request of host 99. Until the server answers it,
 * vipd keeps other requests. */
static struct world *busy_server(uint64_t seed)
{
    struct world *w = world_new(3, seed);

    assert_false(waits(w));
    asks(w, 99, 99);
    assert_int_equal(last_source(w), 99);
    return w;
}

static void rejects(struct world *w)
{
    struct host *server = &w->hosts[SERVER];
    struct incoming *in = &server->incoming[server->incoming_count - 1];

    assert_int_equal(cm_reject(server->cm, in->handle, VIP_RC_REJECT, NULL, w->now_ns), 0);
    in->answered = true;
}

/* The server calls VipConnectWait and VipConnectAccept in a loop for this time. */
static void serve(struct world *w, uint64_t for_ns)
{
    struct host *server = &w->hosts[SERVER];
    uint64_t end_ns = w->now_ns + for_ns;

    while (w->now_ns < end_ns) {
        bool idle = !server->accept_count || server->accepts[server->accept_count - 1].done;

        if (!all_answered(server))
            assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
        else if (idle && stats_of(w, SERVER).waiters == 0)
            (void)waits(w);
        world_run(w, 1 * MS);
    }
}

/* A burst of requests of one source delays other clients by only one accept. */
static void test_burst(void **state)
{
    struct world *w = world_new(3, 600);
    unsigned request;

    serve(w, 10 * MS);
    for (unsigned id = 1; id <= 128; id++)
        asks(w, STRANGER, id);
    serve(w, 10 * MS);
    request = host_request(w, CLIENT, SERVER, disc, FOR_EVER);
    serve(w, 4 * S);
    assert_int_equal(w->hosts[CLIENT].requests[request].done, 0);
    /* vipd drops requests of silent clients, also while no server waits. Two requests are left: the
     * accepted request and the client's request. */
    assert_int_equal(stats_of(w, SERVER).pending, 2);
    serve(w, 1700 * MS); /* the accept ends when the ACCEPT is due for a repetition */
    assert_int_equal(w->hosts[CLIENT].requests[request].rc, VIP_RC_SUCCESS);
    assert_int_equal(w->hosts[CLIENT].requests[request].done, 1);
    assert_int_equal(stats_of(w, SERVER).pending, 0);
    world_free(w);
}

/* A server gets no request of a silent client. If the client repeats its request, even after
 * seconds, the server gets it. */
static void test_silent(void **state)
{
    struct world *w = busy_server(601);
    unsigned long before = stats_of(w, SERVER).no_match;

    asks(w, STRANGER, 1);
    asks(w, STRANGER, 2);
    for (unsigned i = 0; i < 4; i++) {
        world_run(w, 1 * S);
        asks(w, STRANGER, 2);
    }
    rejects(w);
    assert_int_equal(stats_of(w, SERVER).pending, 1);
    assert_int_equal(stats_of(w, SERVER).no_match, before);
    assert_true(waits(w));
    rejects(w);
    assert_false(waits(w));
    /* vipd has dropped the request without an answer, so the same request counts as a new one. */
    asks(w, STRANGER, 1);
    assert_int_equal(last_source(w), STRANGER);
    assert_false(all_answered(&w->hosts[SERVER]));
    world_free(w);
}

/* All repetitions of an honest client are lost for a while, so vipd drops its request. The next
 * repetition counts as a new request, and the client connects. */
static void test_silent_honest(void **state)
{
    struct world *w = busy_server(602);
    unsigned request = host_request(w, CLIENT, SERVER, disc, FOR_EVER);

    world_run(w, 1 * S);
    assert_int_equal(stats_of(w, SERVER).pending, 2);
    w->filter = drop_all;
    world_run(w, 4 * S);
    assert_int_equal(stats_of(w, SERVER).pending, 1);
    w->filter = NULL;
    world_run(w, 1 * S);
    assert_int_equal(stats_of(w, SERVER).pending, 2);
    rejects(w);
    assert_true(waits(w));
    serve(w, 10 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[request].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* Time in which vipd did not run does not count as silence of a client. While the medium may hold
 * more packets, a client may be silent for twice the time. */
static void test_standstill(void **state)
{
    struct world *w = busy_server(603);
    struct host *server = &w->hosts[SERVER];

    asks(w, STRANGER, 1);
    world_run(w, 1 * S);
    w->now_ns += 5 * S; /* no timer fires, and vipd takes no packets */
    world_turn(w);
    assert_int_equal(stats_of(w, SERVER).pending, 2);
    world_run(w, 1 * S);
    w->now_ns += 5 * S;
    rejects(w); /* the server rejects before the timers fire */
    assert_true(waits(w));
    assert_int_equal(last_source(w), STRANGER);

    asks(w, STRANGER, 2);
    cm_behind(server->cm, true);
    world_run(w, 5900 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 2);
    world_run(w, 600 * MS); /* a full medium excuses a silence only for a limited time */
    assert_int_equal(stats_of(w, SERVER).pending, 1);
    world_free(w);
}

/* vipd has a kept request and does not run for a while. If the server then waits again (again = 1),
 * it gets the request. If not, vipd answers NO_MATCH, but not in its first turn. */
static void test_standstill_served(void **state)
{
    for (unsigned again = 0; again < 2; again++) {
        struct world *w = busy_server(605);
        unsigned long before = stats_of(w, SERVER).no_match;

        rejects(w);
        asks(w, STRANGER, 1);
        w->now_ns += 2 * S;
        world_turn(w); /* the timers fire before vipd reads messages of programs */
        assert_int_equal(stats_of(w, SERVER).no_match, before);
        if (again) {
            assert_true(waits(w));
            assert_int_equal(last_source(w), STRANGER);
        } else {
            for (unsigned i = 0; i < 2; i++) {
                w->now_ns += 100 * MS;
                world_turn(w);
            }
            assert_int_equal(stats_of(w, SERVER).no_match, before + 1);
        }
        world_free(w);
    }
}

/* A listener that rejects a request gets the next request, even if vipd did not run for a while. */
static void test_standstill_listener(void **state)
{
    struct world *w = world_new(2, 604);
    struct host *server = &w->hosts[SERVER];

    assert_int_equal(cm_listen(server->cm, 1, 0, (const uint8_t *)disc, 3, 1, w->now_ns), 0);
    for (unsigned id = 1; id <= 3; id++)
        asks(w, STRANGER, id);
    for (unsigned id = 1; id <= 3; id++) {
        assert_int_equal(server->incoming_count, id);
        w->now_ns += 5 * S;
        rejects(w);
        world_turn(w);
    }
    world_free(w);
}

/* A server gets a silent client's request as soon as the client repeats the request. */
static void test_silent_after_all(void **state)
{
    struct world *w = busy_server(630);

    asks(w, STRANGER, 1);
    world_run(w, 3100 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 2);
    rejects(w);
    assert_false(waits(w));
    asks(w, STRANGER, 1);
    world_run(w, 1 * MS);
    assert_int_equal(last_source(w), STRANGER);
    world_free(w);
}

/* A listener with room gets all kept requests at once, but none of silent clients. */
static void test_listener(void **state)
{
    for (unsigned silent = 0; silent < 2; silent++) {
        struct world *w = busy_server(631);
        struct host *server = &w->hosts[SERVER];

        if (silent) {
            asks(w, STRANGER + 2, 1);
            world_run(w, 3100 * MS);
        }
        for (unsigned i = 0; i < 4; i++)
            asks(w, (uint8_t)(STRANGER + i / 2), 1 + i);
        world_run(w, 1 * MS);
        rejects(w);
        assert_int_equal(stats_of(w, SERVER).pending, 4 + silent);
        assert_int_equal(cm_listen(server->cm, 1, w->uid, (const uint8_t *)disc, 3, 9, w->now_ns),
                         0);
        world_run(w, 1 * MS);
        assert_int_equal(server->incoming_count, 5);
        for (unsigned i = 0; i < 4; i++)
            assert_int_equal(server->incoming[1 + i].remote.host[2], STRANGER + i % 2);
        assert_int_equal(stats_of(w, SERVER).pending, 4);
        world_free(w);
    }
}

/* The server gets requests of two sources by turns, and those of one source in order of arrival. */
static void test_in_turn(void **state)
{
    struct world *w = busy_server(605);
    const struct host *server = &w->hosts[SERVER];

    for (unsigned id = 1; id <= 5; id++)
        asks(w, STRANGER, id);
    world_run(w, 1 * MS);
    for (unsigned id = 1; id <= 3; id++)
        asks(w, STRANGER + 1, id);
    for (unsigned i = 0; i < 8; i++) {
        rejects(w);
        world_run(w, 1 * MS);
        assert_true(waits(w));
        assert_int_equal(last_source(w), i < 6 ? STRANGER + i % 2 : STRANGER);
    }
    assert_int_equal(server->incoming_count, 9);
    world_free(w);
}

/* New sources arrive without end. They do not delay sources that arrived before them. */
static void test_newcomers(void **state)
{
    struct world *w = busy_server(606);

    asks(w, STRANGER, 1);
    asks(w, STRANGER, 2);
    for (unsigned i = 0; i < 3; i++) {
        world_run(w, 1 * MS);
        asks(w, (uint8_t)(STRANGER + 1 + i), 1);
    }
    for (unsigned i = 0; i < 5; i++) {
        rejects(w);
        world_run(w, 1 * MS);
        assert_true(waits(w));
        assert_int_equal(last_source(w), i < 4 ? STRANGER + i : STRANGER);
        asks(w, (uint8_t)(100 + i), 1); /* the turn of this new source comes later */
    }
    world_free(w);
}

/* While an accept of a source is not confirmed, the server gets requests of other sources first. */
static void test_one_unconfirmed(void **state)
{
    struct world *w = busy_server(607);
    struct host *server = &w->hosts[SERVER];

    asks(w, STRANGER, 1);
    asks(w, STRANGER, 2);
    for (unsigned i = 0; i < 3; i++)
        host_request(w, CLIENT, SERVER, disc, FOR_EVER);
    world_run(w, 1 * MS);
    rejects(w);
    assert_true(waits(w));
    assert_int_equal(last_source(w), STRANGER);
    assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
    for (unsigned i = 0; i < 3; i++) {
        world_run(w, 100 * MS);
        assert_true(waits(w));
        assert_int_equal(last_source(w), 0);
        assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
    }
    world_run(w, 100 * MS);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    assert_true(waits(w)); /* no other source has a request */
    assert_int_equal(last_source(w), STRANGER);
    world_free(w);
}

/* An accept of the stranger has failed for lack of a CONFIRM, and the stranger asks again. For
 * `for_ns` the server gets requests of other sources first. Then the stranger is next. */
static void behind_others(struct world *w, uint64_t for_ns)
{
    struct host *server = &w->hosts[SERVER];
    uint64_t end_ns = w->now_ns + for_ns;

    while (w->now_ns + 1500 * MS < end_ns) {
        unsigned request = host_request(w, CLIENT, SERVER, disc, FOR_EVER);

        run_repeating(w, 1 * S, 5);
        assert_true(waits(w));
        assert_int_equal(last_source(w), 0);
        assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
        world_run(w, 10 * MS);
        assert_int_equal(w->hosts[CLIENT].requests[request].rc, VIP_RC_SUCCESS);
    }
    run_repeating(w, end_ns - w->now_ns, 5);
    host_request(w, CLIENT, SERVER, disc, FOR_EVER);
    run_repeating(w, 400 * MS, 5); /* the server waits again within grace_loop_ns */
    assert_true(waits(w));
    assert_int_equal(last_source(w), STRANGER);
}

/* For a minute after a failed accept, the source comes after all other sources. */
static void test_slow(void **state)
{
    struct world *w = busy_server(608);
    struct host *server = &w->hosts[SERVER];

    rejects(w);
    run_repeating(w, 100 * MS, 2);
    assert_true(waits(w));
    assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
    run_repeating(w, 5700 * MS, 2);
    assert_int_equal(server->accepts[0].rc, VIP_RC_TIMEOUT);
    behind_others(w, 60 * S);
    world_free(w);
}

/* A CANCEL just before the time limit counts as a failed accept. An early CANCEL does not. */
static void test_slow_cancel(void **state)
{
    static const struct vip_cm cancel = {.type = VIP_CM_CANCEL, .request_id = 1};

    for (unsigned soon = 0; soon < 2; soon++) {
        struct world *w = busy_server(609);
        struct host *server = &w->hosts[SERVER];

        rejects(w);
        run_repeating(w, 100 * MS, 2);
        assert_true(waits(w));
        assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
        run_repeating(w, soon ? 900 * MS : 4900 * MS, 2);
        says(w, STRANGER, &cancel);
        assert_int_equal(server->accepts[0].rc, VIP_RC_TIMEOUT);
        behind_others(w, soon ? 0 : 60 * S);
        world_free(w);
    }
}

/* Counts of a client's connections. Strangers that never confirm ask the same serial server. */
struct seen {
    unsigned connected, slow; /* slow: number of connections that took more than 100 ms */
};

/* For two minutes the client sends a request every 4 s. strangers() sends requests every 250 ms. */
static struct seen serve_beside(struct world *w, void (*strangers)(struct world *w, unsigned turn))
{
    struct seen seen = {0};

    for (unsigned i = 0; i < 30; i++) {
        unsigned request = host_request(w, CLIENT, SERVER, disc, FOR_EVER);
        uint64_t from_ns = w->now_ns;
        const struct attempt *attempt = &w->hosts[CLIENT].requests[request];

        for (unsigned turn = 0; turn < 16 || !attempt->done; turn++) {
            assert_true(turn < 100);
            strangers(w, 16 * i + turn);
            serve(w, 250 * MS);
        }
        assert_int_equal(attempt->rc, VIP_RC_SUCCESS);
        seen.connected++;
        if (attempt->done_ns - from_ns > 100 * MS)
            seen.slow++;
    }
    return seen;
}

static void one_stranger(struct world *w, unsigned turn)
{
    asks(w, STRANGER, 1000 + turn);
    for (unsigned back = 1; back < 40 && back < turn; back++) /* repeat earlier requests */
        asks(w, STRANGER, 1000 + turn - back);
}

static void invented_hosts(struct world *w, unsigned turn)
{
    for (unsigned host = 0; host < 200; host++)
        asks(w, 1000 + 5 * (turn / 20) + host, 1);
}

/* The server gets the requests of a source that never confirms less and less often. */
static void test_held(void **state)
{
    struct world *w = world_new(3, 640);
    struct seen seen;

    serve(w, 10 * MS);
    seen = serve_beside(w, one_stranger);
    assert_int_equal(seen.connected, 30);
    assert_in_range(seen.slow, 0, 5);
    /* Each failed accept takes 5 s. The pauses between accepts are 0, 10, 20, 40 and 80 s. */
    assert_int_equal(w->hosts[SERVER].accept_count - seen.connected, 5);
    world_free(w);
}

/* Invented hosts fill all places for strangers. Each of them is new, so it has no failed accept
 * yet. A host that was connected before still gets a place, and waits for few of their accepts. */
static void test_invented(void **state)
{
    struct world *w = world_new(3, 641);
    struct seen seen;
    uint64_t before;

    host_request(w, CLIENT, SERVER, disc, FOR_EVER);
    serve(w, 10 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    for (unsigned turn = 0; turn < 40; turn++) {
        invented_hosts(w, turn);
        serve(w, 250 * MS);
    }
    before = stats_of(w, SERVER).pending;
    assert_in_range(before, 128 + 16, 128 + 16 + 1);
    host_request(w, OTHER, SERVER, disc, 1 * S); /* host OTHER is a stranger, too */
    world_run(w, 1 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, before);
    host_request(w, CLIENT, SERVER, disc, 1 * S);
    world_run(w, 1 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, before + 1);
    world_run(w, 2 * S);
    seen = serve_beside(w, invented_hosts);
    assert_int_equal(seen.connected, 30);
    assert_in_range(seen.slow, 0, 10);
    world_free(w);
}

/* vipd holds a request back for some time. Then the server gets it without any other event. */
static void test_held_ends(void **state)
{
    struct world *w = world_new(3, 642);
    struct host *server = &w->hosts[SERVER];

    serve(w, 10 * MS);
    for (unsigned i = 0; i < 2; i++) {
        asks(w, STRANGER, 1 + i);
        assert_int_equal(server->incoming_count, 1 + i);
        serve(w, 6 * S);
    }
    for (unsigned i = 0; i < 17; i++) {
        asks(w, STRANGER, 3);
        assert_int_equal(server->incoming_count, 2);
        serve(w, 500 * MS);
    }
    serve(w, 2 * S); /* the stranger is silent, but vipd has not dropped its request yet */
    assert_int_equal(server->incoming_count, 3);
    assert_int_equal(stats_of(w, SERVER).no_match, 0);
    world_free(w);
}

/* Several accepts of one source are under way together and fail. They count as one failure, at a
 * listener and at serial servers. */
static void test_held_once(void **state)
{
    struct world *w = world_new(3, 643);
    struct host *server = &w->hosts[SERVER];

    assert_int_equal(cm_listen(server->cm, 1, w->uid, (const uint8_t *)"all", 3, 9, w->now_ns), 0);
    for (unsigned i = 0; i < 4; i++) {
        asks_at(w, STRANGER + i % 2, 1 + i, "all");
        assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 1100 * MS);
    }
    world_run(w, 10 * S);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(server->accepts[i].rc, VIP_RC_TIMEOUT);
    assert_false(waits(w));
    asks(w, STRANGER, 9);
    assert_int_equal(server->incoming_count, 5);
    rejects(w);
    assert_false(waits(w));
    asks(w, STRANGER + 7, 9); /* failures at a listener do not delay other strangers */
    assert_int_equal(server->incoming_count, 6);
    rejects(w);

    for (unsigned i = 0; i < 2; i++) {
        const char *where = i ? "two" : "one";

        host_listen(w, SERVER, 90 + i, where);
        asks_at(w, STRANGER + 20, 20 + i, where);
        assert_int_equal(host_accept(w, SERVER, 6 + i), 0);
        world_run(w, 1100 * MS);
    }
    world_run(w, 10 * S);
    assert_false(waits(w));
    asks(w, STRANGER + 20, 30);
    assert_int_equal(server->incoming_count, 9);
    world_free(w);
}

/* Clients on bad networks are connected, while a source sends many requests and never confirms. */
static void test_loss(void **state)
{
    for (unsigned percent = 10; percent <= 30; percent += 10) {
        struct world *w = world_new(3, 610 + percent);
        unsigned requests[6];

        w->loss_percent = percent;
        w->dup_percent = 5;
        serve(w, 10 * MS);
        for (unsigned i = 0; i < 6; i++) {
            for (unsigned id = 1; id <= 50; id++)
                asks(w, STRANGER, id);
            requests[i] = host_request(w, i % 2 ? CLIENT : OTHER, SERVER, disc, FOR_EVER);
        }
        for (unsigned i = 0; i < 40; i++) {
            for (unsigned id = 1; id <= 50; id++)
                asks(w, STRANGER, id);
            serve(w, 500 * MS);
        }
        for (unsigned i = 0; i < 6; i++)
            assert_int_equal(w->hosts[i % 2 ? CLIENT : OTHER].requests[requests[i]].rc,
                             VIP_RC_SUCCESS);
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_burst),         cmocka_unit_test(test_silent),
        cmocka_unit_test(test_silent_honest), cmocka_unit_test(test_standstill),
        cmocka_unit_test(test_in_turn),       cmocka_unit_test(test_standstill_listener),
        cmocka_unit_test(test_newcomers),     cmocka_unit_test(test_one_unconfirmed),
        cmocka_unit_test(test_slow),          cmocka_unit_test(test_slow_cancel),
        cmocka_unit_test(test_loss),          cmocka_unit_test(test_silent_after_all),
        cmocka_unit_test(test_listener),      cmocka_unit_test(test_held),
        cmocka_unit_test(test_invented),      cmocka_unit_test(test_held_ends),
        cmocka_unit_test(test_held_once),     cmocka_unit_test(test_standstill_served),
    };

    return cmocka_run_group_tests_name("engine_cm_serial", tests, NULL, NULL);
}
