/*
 * Connection manager: which ports count as one host in the shares (cm_share.h): all ports of an
 * address except the port of its vipd. Also tested: networks of hosts, and cancelled requests.
 */
#include "tests/unit/cm_shares.h"

/* All ports of an address count as one host. */
static void test_ports(void **state)
{
    struct world *w = world_new(2, 508);

    w->uid = HOG;
    listener(w, SERVER, 1, "svc");
    for (unsigned i = 1; i <= 2000; i++)
        from_address(w, address(w, 1, i), i, "svc");
    assert_int_equal(stats_of(w, SERVER).pending, 256);
    world_free(w);
}

/* Requests from other ports of a host use all places that a server has for these ports. One of
 * them, which never confirms, makes the server wait. The vipd of this host has the port of the
 * server's vipd. Its request still gets a place, and is among the next two that the server gets. */
static void test_vipd_of_the_host(void **state)
{
    struct world *w = world_new(2, 526);
    struct host *server = &w->hosts[SERVER];
    unsigned request;

    w->uid = HONEST;
    host_listen(w, SERVER, 1, "svc");
    for (unsigned port = 1; port <= 250; port++)
        from_address(w, port_of(w, port), port, "svc");
    assert_int_equal(server->incoming_count, 1);
    request = host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[request].done, 0);
    assert_int_equal(host_accept(w, SERVER, 0), 0); /* this accept is never confirmed */
    host_listen(w, SERVER, 2, "svc");
    world_run(w, 2 * MS);
    host_listen(w, SERVER, 3, "svc");
    world_run(w, 2 * MS);
    assert_in_range(server->incoming_count, 2, 3);
    for (unsigned i = 1; i < server->incoming_count; i++)
        (void)host_accept(w, SERVER, i);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[request].done, 1);
    assert_int_equal(w->hosts[CLIENT].requests[request].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* Another host counts as two sources: the port number of our vipd, and all other ports. Connections
 * do not change this. All ports and addresses of our own host count as one source. */
static void test_two_sources_of_a_host(void **state)
{
    struct world *w = world_new(2, 527);
    struct cm *cm = w->hosts[SERVER].cm;
    struct cm_host vipd = cm_source_of(cm, &w->hosts[CLIENT].addr), other = port_of(w, 1), port;

    other = cm_source_of(cm, &other);
    assert_false(cm_host_equal(&vipd, &other));
    w->uid = HONEST;
    connects(w, CLIENT, "first");
    for (unsigned i = 1; i < 3000; i++) {
        port = port_of(w, i);
        port = cm_source_of(cm, &port);
        assert_true(cm_host_equal(&port, &other));
    }
    cm->config.local = (struct cm_host){.len = 1, .bytes = {127}};
    port = cm_source_of(cm, &w->hosts[CLIENT].addr);
    assert_int_equal(port.len, 1);
    world_free(w);
}

/* A listener never answers. Clients of another host cancel one request after the other. Cancelled
 * requests use no places of the clients' host, and no entry in the table of peers. */
static void test_given_up_at_a_stuck_listener(void **state)
{
    struct world *w = world_new(2, 528);

    w->uid = HOG;
    listener(w, SERVER, 1, "stuck");
    for (unsigned i = 0; i < 300; i++) {
        host_request(w, CLIENT, SERVER, "stuck", 5 * MS);
        world_run(w, 8 * MS);
    }
    assert_int_equal(stats_of(w, SERVER).pending, 300);
    assert_int_equal(w->hosts[SERVER].incoming_count, 300);
    connects(w, CLIENT, "other");
    /* A late answer of the listener makes no connection. */
    assert_int_equal(host_accept(w, SERVER, 0), -ETIMEDOUT);
    assert_int_equal(cm_reject(w->hosts[SERVER].cm, w->hosts[SERVER].incoming[1].handle,
                               VIP_RC_REJECT, NULL, w->now_ns),
                     0);
    assert_int_equal(stats_of(w, SERVER).pending, 298);
    world_free(w);
}

/* Without end, a host sends requests to a slow listener and cancels them. It cannot use all places
 * of the listener's user: a request of another host still gets a place. */
static void test_asks_and_gives_up(void **state)
{
    struct world *w = world_new(3, 532);
    unsigned offered;

    w->uid = HOG;
    listener(w, SERVER, 1, "slow");
    for (unsigned i = 0; i < 700; i++) {
        host_request(w, CLIENT, SERVER, "slow", 5 * MS);
        world_run(w, 8 * MS);
    }
    assert_int_equal(stats_of(w, SERVER).pending, 2 * CM_PENDING_HOST);
    listener(w, SERVER, 2, "other");
    offered = w->hosts[SERVER].incoming_count;
    host_request(w, OTHER, SERVER, "other", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[SERVER].incoming_count, offered + 1);
    world_free(w);
}

/* Remembered answers fill a network's part: a new answer then replaces one to the same network. */
static void test_answers_of_a_network(void **state)
{
    struct world *w = world_new(2, 533);
    struct host *server = &w->hosts[SERVER];
    uint64_t duplicates;

    server->cm->config.network_bytes = 2;
    from_address(w, address(w, 256, 1), 1, "nothing");
    world_run(w, 30 * MS);
    for (unsigned host = 1; host <= 45; host++) {
        for (unsigned i = 1; i <= 100; i++)
            from_address(w, address(w, host, i), i, "nothing");
        world_run(w, 30 * MS);
    }
    for (unsigned host = 50; host < 250; host++) {
        from_address(w, address(w, host, 1), 1, "nothing");
        world_run(w, 1 * MS);
    }
    world_run(w, 30 * MS);
    duplicates = server->cm->stats.duplicates;
    from_address(w, address(w, 256, 1), 1, "nothing");
    assert_int_equal(server->cm->stats.duplicates, duplicates + 1);
    world_free(w);
}

/* Each host of a network has a share, and all hosts of a network together have four shares. Another
 * network has four shares of its own. */
static void test_hosts_of_a_network(void **state)
{
    struct world *w = world_new(2, 531);

    w->hosts[SERVER].cm->config.network_bytes = 2; /* network of 127.0.0.2: 127.0 */
    w->uid = HOG;
    for (unsigned i = 0; i < 5; i++)
        listener(w, SERVER, 1 + i, (const char *[]){"h1", "h2", "h3", "h4", "h5"}[i]);
    for (unsigned i = 1; i <= 300; i++)
        from_address(w, address(w, 9, i), i, "h1");
    assert_int_equal(stats_of(w, SERVER).pending, CM_PENDING_HOST);
    connects(w, CLIENT, "honest"); /* host CLIENT is in the same network */
    for (unsigned host = 10; host < 20; host++)
        for (unsigned i = 1; i <= 300; i++)
            from_address(w, address(w, host, i), i, "h2");
    assert_int_equal(stats_of(w, SERVER).pending, 4 * CM_PENDING_HOST);
    from_address(w, address(w, 256, 1), 1, "h3");
    assert_int_equal(stats_of(w, SERVER).pending, 4 * CM_PENDING_HOST + 1);
    world_free(w);
}

/* Requests to a silent host do not use the places for requests to other hosts of its network. */
static void test_asked_by_address(void **state)
{
    struct world *w = world_new(2, 529);
    struct cm *cm = w->hosts[CLIENT].cm;
    struct cm_host one = {.len = 18, .bytes = {0xfd, 0x77}}, other = one, port = one;
    struct cm_holder *a, *b, *c;

    cm->config.source_bytes = 8;
    other.bytes[15] = 1;
    port.bytes[17] = 1;
    a = cm_holder_asker(cm, 1000, &one);
    b = cm_holder_asker(cm, 1000, &other);
    c = cm_holder_asker(cm, 1000, &port);
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(a, c);
    cm_holder_put(cm, a);
    cm_holder_put(cm, b);
    cm_holder_put(cm, c);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_vipd_of_the_host),
        cmocka_unit_test(test_two_sources_of_a_host),
        cmocka_unit_test(test_given_up_at_a_stuck_listener),
        cmocka_unit_test(test_asks_and_gives_up),
        cmocka_unit_test(test_answers_of_a_network),
        cmocka_unit_test(test_hosts_of_a_network),
        cmocka_unit_test(test_asked_by_address),
    };

    return cmocka_run_group_tests_name("engine_cm_hosts", tests, NULL, NULL);
}
