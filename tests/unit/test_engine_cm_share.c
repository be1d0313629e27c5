/*
 * Connection manager: shares of its pools. No user and no host can use all places of a pool. The
 * tests show how many places each of them can have, and that others still connect.
 */
#include "tests/unit/cm_shares.h"

/* `users` users of host `from` send many requests without time limit. No listener answers. */
static void hog(struct world *w, unsigned from, unsigned users)
{
    static const char *const discs[] = {"h1", "h2", "h3", "h4", "h5"};

    w->uid = HOG;
    for (unsigned i = 0; i < 5; i++)
        listener(w, SERVER, 1 + i, discs[i]);
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        w->uid = HOG + i % users;
        host_request(w, from, SERVER, discs[i % 5], FOR_EVER);
        if (i % 100 == 99)
            world_run(w, 1 * MS);
    }
    world_run(w, 3 * S);
}

static void test_local_user(void **state)
{
    struct world *w = world_new_asking(2, 500, true);

    hog(w, SERVER, 1);
    assert_int_equal(stats_of(w, SERVER).pending, 512);
    for (unsigned i = 0; i < 3; i++)
        connects(w, SERVER, "honest");
    connects(w, CLIENT, "honest too");
    world_free(w);
}

static void test_remote_address(void **state)
{
    struct world *w = world_new_asking(3, 501, true);

    hog(w, CLIENT, 4);
    assert_int_equal(stats_of(w, SERVER).pending, 256);
    for (unsigned i = 0; i < 3; i++)
        connects(w, OTHER, "honest");
    connects(w, SERVER, "honest too");
    world_free(w);
}

/* One user of another host leaves most of that host's part to the host's other users. */
static void test_remote_user(void **state)
{
    struct world *w = world_new_asking(3, 522, true);

    hog(w, CLIENT, 1);
    assert_int_equal(stats_of(w, SERVER).pending, CM_ASKED_EACH);
    for (unsigned i = 0; i < 3; i++)
        connects(w, CLIENT, "honest");
    world_free(w);
}

/* Every program of this host can use many addresses (here 10.0.0.0/8), and one program sends
 * requests from many of them. All these addresses are one source. So another user's program and
 * another host still get places at the server. */
static void test_addresses_of_this_host(void **state)
{
    struct world *w = world_new(3, 509);
    struct host *server = &w->hosts[SERVER];
    unsigned here, there;

    server->cm->config.local = (struct cm_host){.len = 1, .bytes = {10}};
    w->uid = HONEST;
    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(server->cm, 1, w->now_ns));
    for (unsigned i = 1; i <= 300; i++) {
        struct cm_host at = address(w, i, i);

        at.bytes[0] = 10;
        from_address(w, at, i, "svc");
    }
    assert_int_equal(stats_of(w, SERVER).pending, 128);
    there = host_request(w, OTHER, SERVER, "svc", FOR_EVER);
    w->uid = HOG;
    here = host_request(w, SERVER, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 130);
    assert_int_equal(server->requests[here].done, 0);
    assert_int_equal(w->hosts[OTHER].requests[there].done, 0);
    world_free(w);
}

/* Many other hosts fill the places of a server. Further places are only for users of this host. */
static void test_hosts_and_users(void **state)
{
    struct world *w = world_new(2, 510);
    struct host *server = &w->hosts[SERVER];
    unsigned request;

    w->uid = HONEST;
    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(server->cm, 1, w->now_ns));
    for (unsigned i = 1; i <= 300; i++)
        from_address(w, address(w, i, i), i, "svc");
    assert_int_equal(stats_of(w, SERVER).pending, 128 + CM_KEPT_SPARE);
    w->uid = HOG;
    request = host_request(w, SERVER, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(server->requests[request].done, 0);
    assert_int_equal(stats_of(w, SERVER).pending, 128 + CM_KEPT_SPARE + 1);
    world_free(w);
}

/* Other hosts fill the places of all servers of one owner. Users of this host still get places. */
static void test_hosts_and_users_of_an_owner(void **state)
{
    static const char *const discs[] = {"d1", "d2", "d3"};
    struct world *w = world_new(2, 511);
    struct host *server = &w->hosts[SERVER];
    unsigned request, id = 1;

    w->uid = HONEST;
    for (unsigned i = 0; i < 3; i++) {
        host_listen(w, SERVER, 1 + i, discs[i]);
        assert_true(cm_unwait(server->cm, 1 + i, w->now_ns));
    }
    for (unsigned host = 1; host <= 60; host++)
        for (unsigned port = 1; port <= 130; port++, id++)
            from_address(w, address(w, host, port), id, discs[host < 3 ? host - 1 : 2]);
    w->uid = HOG;
    request = host_request(w, SERVER, SERVER, "d1", FOR_EVER);
    id = stats_of(w, SERVER).pending;
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, id + 1);
    assert_int_equal(server->requests[request].done, 0);
    world_free(w);
}

/* Get a peer entry for each of `ports` ports of `host`. Returns the number of entries. */
static unsigned peers_of(struct world *w, unsigned host, unsigned ports, struct cm_peer **peer)
{
    unsigned count = 0;

    for (unsigned port = 1; port <= ports; port++) {
        struct cm_host at = address(w, host, port);

        peer[count] = cm_peer_get(w->hosts[SERVER].cm, &at, 4711, w->now_ns);
        count += peer[count] != NULL;
    }
    return count;
}

/* One or several hosts with many peers cannot fill the table. Other hosts still get entries. */
static void test_peers(void **state)
{
    struct world *w = world_new(2, 509);
    static struct cm_peer *peer[8000];
    unsigned count = peers_of(w, 1, 2000, peer);

    assert_int_equal(count, 960);
    for (unsigned host = 2; host <= 5; host++)
        count += peers_of(w, host, 1000, peer + count);
    assert_int_equal(count, CM_PEERS_MAX - 256 + CM_SMALL);
    for (unsigned host = 6; host < 6 + 15; host++)
        assert_int_equal(peers_of(w, host, 10, peer + count + 10 * (host - 6)), 10);
    connects(w, CLIENT, "honest");
    count += 150;
    while (count)
        cm_peer_put(w->hosts[SERVER].cm, peer[--count]);
    world_free(w);
}

/* Many hosts and users fill the pool, except a reserve for hosts and users with few requests. */
static void test_reserve(void **state)
{
    static const char *const discs[] = {"h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"};
    struct world *w = world_new(2, 502);

    for (unsigned i = 0; i < 8; i++) {
        w->uid = HOG + i;
        listener(w, SERVER, 1 + i, discs[i]);
    }
    for (unsigned host = 1; host <= 30; host++)
        for (unsigned i = 0; i < 200; i++)
            from_address(w, address(w, host, 4794), 1000 * host + i + 1, discs[host % 8]);
    assert_in_range(stats_of(w, SERVER).pending, 4096, 4096 + 256);
    connects(w, CLIENT, "honest");
    connects(w, SERVER, "honest too");
    world_free(w);
}

/* The kept requests of one host leave places at the discriminator for another host. */
static void test_kept(void **state)
{
    struct world *w = world_new(3, 503);
    struct host *server = &w->hosts[SERVER];
    unsigned request;

    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(server->cm, 1, w->now_ns));
    for (unsigned i = 0; i < 300; i++) {
        w->uid = HOG + i % 3;
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    }
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 128);
    request = host_request(w, OTHER, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 129);
    assert_int_equal(w->hosts[OTHER].requests[request].done, 0);
    world_free(w);
}

/* Two users have many kept requests at servers of one owner. Another client still gets a place. */
static void test_kept_of_an_owner(void **state)
{
    static const char *const discs[] = {"a", "b", "c"};
    struct world *w = world_new(3, 523);
    struct host *server = &w->hosts[SERVER];
    unsigned request;

    w->uid = HONEST;
    for (unsigned i = 0; i < 3; i++) {
        host_listen(w, SERVER, 1 + i, discs[i]);
        assert_true(cm_unwait(server->cm, 1 + i, w->now_ns));
    }
    for (unsigned user = 0; user < 2; user++) {
        w->uid = HOG + user;
        for (unsigned i = 0; i < 300; i++)
            host_request(w, SERVER, SERVER, discs[i % 2], FOR_EVER);
        world_run(w, 2 * MS);
        assert_int_equal(stats_of(w, SERVER).pending, (user + 1) * 128);
    }
    /* The owner's part of kept requests is used up, but discriminator "c" has places left. */
    w->uid = HONEST;
    request = host_request(w, CLIENT, SERVER, "c", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[request].done, 0);
    host_listen(w, SERVER, 9, "c");
    world_run(w, 2 * MS);
    assert_int_equal(host_accept(w, SERVER, server->incoming_count - 1), 0);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[request].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* Requests that vipd kept for one user count for another user when that user takes them. */
static void test_kept_for_another(void **state)
{
    struct world *w = world_new(2, 524);
    struct host *server = &w->hosts[SERVER];
    struct cm_holder *former;

    w->uid = HONEST;
    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(server->cm, 1, w->now_ns));
    w->uid = HOG;
    for (unsigned i = 0; i < 200; i++) {
        host_request(w, CLIENT, SERVER, "svc", 100 * MS);
        world_run(w, 10 * MS);
    }
    assert_true(stats_of(w, SERVER).pending > 0);
    former = cm_holder_user(server->cm, CM_HOLDER_OWNER, HONEST);
    assert_true(former->has[CM_POOL_PENDING] > 0);
    listener(w, SERVER, 2, "svc");
    world_run(w, 5 * MS);
    assert_true(server->incoming_count > 0);
    assert_int_equal(former->has[CM_POOL_PENDING], 0);
    assert_int_equal(former->has[CM_POOL_OFFERED], 0);
    cm_holder_put(server->cm, former);
    world_free(w);
}

/* Unanswered requests of a listener count as waits of its user (waits_max). */
static void test_offered_are_waits(void **state)
{
    struct world *w = world_new(2, 504);
    struct host *server = &w->hosts[SERVER];
    struct cm_config config = world_config;

    config.waits_max = 10;
    cm_set_config(server->cm, &config);
    listener(w, SERVER, 1, "svc");
    listener(w, SERVER, 2, "svc2");
    for (unsigned i = 0; i < 40; i++)
        host_request(w, CLIENT, SERVER, i & 1 ? "svc" : "svc2", FOR_EVER);
    world_run(w, 2 * S);
    assert_int_equal(server->incoming_count, 8);
    for (unsigned i = 0; i < server->incoming_count && i < 40; i++) {
        assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 1 * S);
    }
    assert_int_equal(server->incoming_count, 40);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* A host that invents lives gets few entries in the table of peers. The table does not get full. */
static void test_lives(void **state)
{
    struct world *w = world_new(3, 505);

    w->filter = NULL;
    w->uid = HOG;
    listener(w, SERVER, 1, "svc");
    for (unsigned i = 0; i < 200; i++) {
        struct vip_cm msg = {.type = VIP_CM_REQUEST,
                             .request_id = 1 + i,
                             .conn_id = 1 + i,
                             .packet_bytes = 1000,
                             .window_bytes = 1000,
                             .attrs = world_attrs,
                             .remote = world_addr(&w->hosts[SERVER], "svc")};

        inject(w, CLIENT, SERVER, 5000 + i, 0, &msg);
    }
    assert_in_range(stats_of(w, SERVER).peers, 1, 16);
    connects(w, OTHER, "honest");
    world_free(w);
}

/* If a host asks without end, the answers to it replace remembered answers to this host only. */
static void test_answers(void **state)
{
    struct world *w = world_new(2, 506);
    struct cm *cm = w->hosts[SERVER].cm;
    unsigned long before;

    from_address(w, address(w, 7, 4794), 1, "nobody");
    world_run(w, 500 * MS);
    before = stats_of(w, SERVER).duplicates;
    from_address(w, address(w, 7, 4794), 1, "nobody");
    assert_int_equal(stats_of(w, SERVER).duplicates, before + 1);
    /* Host 9 sends twice as many requests as vipd can remember answers. */
    for (unsigned i = 0; i < 2 * CM_ANSWERED_MAX; i++) {
        from_address(w, address(w, 9, 4794), 10000 + i, "nobody");
        if (i % 200 == 199)
            world_run(w, 20 * MS);
    }
    assert_in_range(cm->pool_used[CM_POOL_ANSWERED], CM_ANSWERED_MAX / 4, CM_ANSWERED_MAX / 4 + 1);
    before = stats_of(w, SERVER).duplicates;
    from_address(w, address(w, 7, 4794), 1, "nobody");
    assert_int_equal(stats_of(w, SERVER).duplicates, before + 1);
    world_free(w);
}

static bool lost(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return false;
}

/* End a connection with `host`, which never acknowledges the CLOSE. */
static void ends(struct world *w, uint8_t host, uint64_t id)
{
    struct cm_peer peer = {.host = w->hosts[CLIENT].addr, .epoch = 5000};
    struct cm_assoc assoc = {.peer = &peer, .local_id = id, .remote_id = id};

    peer.host.bytes[2] = host;
    cm_closing_start(w->hosts[SERVER].cm, &assoc, NULL, w->now_ns);
}

/* Hosts that acknowledge no CLOSE leave places for repeated CLOSE messages to other hosts. */
static void test_closings(void **state)
{
    struct world *w = world_new(2, 507);
    struct cm *cm = w->hosts[SERVER].cm;

    w->filter = lost;
    for (unsigned i = 1; i <= CM_CLOSINGS_MAX; i++)
        ends(w, 7, i);
    assert_int_equal(cm->pool_used[CM_POOL_CLOSINGS], CM_CLOSINGS_MAX / 2);
    for (unsigned i = 1; i <= CM_CLOSINGS_MAX; i++)
        ends(w, 8, CM_CLOSINGS_MAX + i);
    assert_int_equal(cm->pool_used[CM_POOL_CLOSINGS], CM_CLOSINGS_MAX);
    ends(w, 9, 3 * CM_CLOSINGS_MAX);
    assert_int_equal(cm->pool_used[CM_POOL_CLOSINGS], CM_CLOSINGS_MAX + 1);
    world_free(w);
}

/* One user has thousands of requests without a final answer, and vipd repeats them. Other users of
 * the same host can still connect to the same server host. */
static void asks_without_end(unsigned from, bool peer)
{
    struct world *w = world_new_asking(3, 520, true);
    uint64_t sent;

    w->uid = HOG;
    if (!peer)
        listener(w, SERVER, 1, "h1");
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        char own[8];

        snprintf(own, sizeof(own), "p%u", i);
        if (peer)
            host_peer(w, from, SERVER, own, "h1", FOR_EVER);
        else
            host_request(w, from, SERVER, "h1", FOR_EVER);
        if (i % 100 == 99)
            world_run(w, 1 * MS);
    }
    world_run(w, 3 * S);
    sent = stats_of(w, from).requests_sent;
    world_run(w, 10 * S);
    assert_in_range(stats_of(w, from).requests_sent - sent, 1000, 26000);
    assert_int_equal(stats_of(w, from).client_limited > 0, peer);
    for (unsigned i = 0; i < 10; i++)
        connects(w, from, "honest");
    world_free(w);
}

static void test_asks_without_end(void **state)
{
    asks_without_end(CLIENT, false);
    asks_without_end(CLIENT, true);
    asks_without_end(SERVER, true);
}

/* One user starts thousands of requests at the same time. In the end all are connected. */
static void test_asks_at_once(void **state)
{
    enum { MANY = 4000 };
    struct world *w = world_new_asking(2, 521, true);
    unsigned done = 0;

    w->uid = HOG;
    listener(w, SERVER, 1, "h1");
    for (unsigned i = 0; i < MANY; i++)
        host_request(w, CLIENT, SERVER, "h1", FOR_EVER);
    for (unsigned tenths = 0; tenths < 100; tenths++) {
        world_run(w, 100 * MS);
        assert_in_range(stats_of(w, SERVER).pending, 0, CM_ASKED_EACH);
        for (; done < w->hosts[SERVER].incoming_count; done++)
            (void)host_accept(w, SERVER, done);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    assert_int_equal(done, MANY);
    world_free(w);
}

/* Without end, one user sends requests to a serial server of another host. The kept requests of
 * this user leave places for another user of the same host, which does not get NO_MATCH. */
static void test_nagging_user(void **state)
{
    struct world *w = world_new_asking(2, 524, true);
    struct host *server = &w->hosts[SERVER];
    unsigned request;

    w->uid = HONEST;
    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(server->cm, 1, w->now_ns));
    w->uid = HOG;
    for (unsigned i = 0; i < 300; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, CM_ASKED_EACH);
    w->uid = HOG + 1;
    request = host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, CM_ASKED_EACH + 1);
    assert_int_equal(w->hosts[CLIENT].requests[request].done, 0);
    world_free(w);
}

/* One user starts many probes of hosts (cm_probe). They do not replace another user's probe. */
static void test_probes(void **state)
{
    struct world *w = world_new(2, 530);
    struct cm *cm = w->hosts[CLIENT].cm;
    uint64_t number = cm_probe(cm, &w->hosts[SERVER].addr, HONEST, w->now_ns), rtt_ns, epoch;

    for (unsigned i = 0; i < 10 * CM_PROBES_MAX; i++)
        (void)cm_probe(cm, &w->hosts[SERVER].addr, HOG, ++w->now_ns);
    world_run(w, 5 * MS);
    assert_int_equal(cm_probe_result(cm, number, &rtt_ns, &epoch), 1);
    world_free(w);
}

/* Clients that find no place for a kept request get no NO_MATCH while the server may wait again. */
static void test_full_is_not_nobody(void **state)
{
    struct world *w = world_new(2, 525);
    struct host *server = &w->hosts[SERVER];
    unsigned done = 0;

    w->uid = HONEST;
    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(server->cm, 1, w->now_ns));
    for (unsigned i = 0; i < 200; i++) {
        w->uid = HOG + i % 10;
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    }
    world_run(w, 50 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 128);
    assert_true(stats_of(w, SERVER).backlog_full > 0);
    for (unsigned i = 0; i < 200; i++)
        done += w->hosts[CLIENT].requests[i].done;
    assert_int_equal(done, 0);
    assert_int_equal(stats_of(w, SERVER).no_match, 0);
    world_run(w, 5 * S); /* the server does not wait again */
    for (unsigned i = 0; i < 200; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_NO_MATCH);
    world_free(w);
}

/* A peer cannot find requests with equal keys, which would make each look-up slow. */
static void test_keys(void **state)
{
    struct world *w = world_new(2, 503);
    struct cm_host host = {.len = 4, .bytes = {192, 0, 2, 1}};
    uint64_t first = cm_request_key(w->hosts[SERVER].cm, &host, 0, 0);

    (void)state;
    for (uint64_t id = 1; id < 2000; id++) {
        assert_true(cm_request_key(w->hosts[SERVER].cm, &host, id << 1, id) != first);
        assert_true(cm_request_key(w->hosts[SERVER].cm, &host, id, id) != first);
        assert_true(cm_request_key(w->hosts[SERVER].cm, &host, 0 - id, id) != first);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_user),
        cmocka_unit_test(test_remote_user),
        cmocka_unit_test(test_remote_address),
        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_of_an_owner),
        cmocka_unit_test(test_kept_for_another),
        cmocka_unit_test(test_addresses_of_this_host),
        cmocka_unit_test(test_hosts_and_users),
        cmocka_unit_test(test_hosts_and_users_of_an_owner),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_offered_are_waits),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_closings),
        cmocka_unit_test(test_asks_without_end),
        cmocka_unit_test(test_asks_at_once),
        cmocka_unit_test(test_nagging_user),
        cmocka_unit_test(test_full_is_not_nobody),
        cmocka_unit_test(test_probes),
    };

    return cmocka_run_group_tests_name("engine_cm_share", tests, NULL, NULL);
}
