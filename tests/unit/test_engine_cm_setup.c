/*
 * Connection manager: by SETUP the two ends of a connection tell each other their features before
 * the first data (doc/wire.md, "SETUP"). An older vipd lacks VIP_FEATURE_SETUP.
 */
#include "tests/unit/cm_world_run.h"

#define FUTURE_A (1ull << 40) /* features that this version does not have */
#define FUTURE_B (1ull << 63)

static struct world *world_of(uint64_t seed, uint64_t client, uint64_t server)
{
    struct world *w = world_new(2, seed);

    host_feature(w, CLIENT, client);
    host_feature(w, SERVER, server);
    return w;
}

/* A client sends a request. The server accepts after 1 ms. The ACCEPT has not arrived yet. */
static void ask_and_accept(struct world *w)
{
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
}

static bool drop_setup_of_client(struct world *w, unsigned from, unsigned to,
                                 const struct vip_cm *msg)
{
    return msg->type != VIP_CM_SETUP || from != CLIENT;
}

static bool drop_setup_of_server(struct world *w, unsigned from, unsigned to,
                                 const struct vip_cm *msg)
{
    return msg->type != VIP_CM_SETUP || from != SERVER;
}

/* Both ends use their common features, also those outside the eight bits of REQUEST and ACCEPT. */
static void test_both_know(void **state)
{
    struct world *w = world_of(1, VIP_FEATURES | FUTURE_A, VIP_FEATURES | FUTURE_A | FUTURE_B);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    assert_true(c->info.features == (VIP_FEATURES | FUTURE_A));
    assert_true(s->info.features == (VIP_FEATURES | FUTURE_A));
    assert_int_equal(w->sent_of_type[VIP_CM_SETUP], 2);
    assert_int_equal(w->sent_of_type[VIP_CM_CONFIRM], 0);
    assert_int_equal(w->packets, 5); /* REQUEST, PENDING, ACCEPT, two SETUP: none was repeated */
    world_free(w);
}

/* Only one end knows SETUP: no SETUP is sent, and no feature beyond the eight bits is used. */
static void test_one_knows(void **state)
{
    for (unsigned client = 0; client < 2; client++) {
        struct world *w =
            world_of(2, VIP_FEATURE_PADDING | FUTURE_A, VIP_FEATURE_PADDING | FUTURE_A);
        struct conn *c, *s;

        host_feature(w, client ? CLIENT : SERVER, VIP_FEATURES | FUTURE_A);
        connect_pair(w, &c, &s);
        assert_true(c->info.features == VIP_FEATURE_PADDING);
        assert_true(s->info.features == VIP_FEATURE_PADDING);
        assert_int_equal(w->sent_of_type[VIP_CM_SETUP], 0);
        assert_int_equal(w->sent_of_type[VIP_CM_CONFIRM], 1);
        world_free(w);
    }
}

/* A connection of a vipd with itself needs no SETUP, because the vipd knows its own features. */
static void test_self(void **state)
{
    struct world *w = world_new(1, 3);
    struct host *host = &w->hosts[0];

    host_feature(w, 0, VIP_FEATURES | FUTURE_A);
    host_listen(w, 0, 1, "svc");
    host_request(w, 0, 0, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(host_accept(w, 0, 0), 0);
    world_run(w, 5 * MS);
    assert_int_equal(host->conn_count, 2);
    assert_true(host->conns[0].info.features == (VIP_FEATURES | FUTURE_A));
    assert_true(host->conns[1].info.features == (VIP_FEATURES | FUTURE_A));
    assert_int_equal(w->sent_of_type[VIP_CM_SETUP], 0);
    world_free(w);
}

/* A SETUP or the ACCEPT is lost. The server repeats, and each side reports one connection. */
static void test_lost(void **state)
{
    static const unsigned types[] = {VIP_CM_SETUP, VIP_CM_SETUP, VIP_CM_SETUP, VIP_CM_ACCEPT};

    for (unsigned i = 0; i < 4; i++) {
        struct world *w = world_of(4 + i, VIP_FEATURES, VIP_FEATURES);

        lose(w, types[i], i == 2 ? 5 : 1);
        if (i == 1)
            w->filter = drop_setup_of_client;
        ask_and_accept(w);
        world_run(w, 1 * MS);
        assert_int_equal(w->hosts[CLIENT].requests[0].done, i == 1);
        assert_int_equal(w->hosts[SERVER].accepts[0].done, 0);
        if (i == 1)
            w->filter = NULL;
        world_run(w, 600 * MS);
        assert_int_equal(w->hosts[CLIENT].requests[0].done, 1);
        assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
        assert_int_equal(w->hosts[SERVER].accepts[0].done, 1);
        assert_int_equal(w->hosts[SERVER].accepts[0].rc, VIP_RC_SUCCESS);
        assert_true(w->hosts[SERVER].conns[0].info.features == VIP_FEATURES);
        world_free(w);
    }
}

/* Until the client's SETUP tells the client's features, the server takes no data and no CONFIRM. */
static void test_server_waits(void **state)
{
    struct world *w = world_of(8, VIP_FEATURES, VIP_FEATURES);
    struct host *server = &w->hosts[SERVER], *client = &w->hosts[CLIENT];
    struct vip_cm confirm = {.type = VIP_CM_CONFIRM};

    w->filter = drop_setup_of_client;
    ask_and_accept(w);
    world_run(w, 1 * MS);
    assert_int_equal(client->requests[0].done, 1);
    cm_implied_confirm(server->cm, server->accepts[0].local_id, &client->addr, client->epoch,
                       w->now_ns);
    confirm.request_id = 1;
    confirm.conn_id = client->requests[0].local_id;
    confirm.peer_conn_id = server->accepts[0].local_id;
    inject(w, CLIENT, SERVER, client->epoch, server->epoch, &confirm);
    assert_int_equal(server->accepts[0].done, 0);
    /* The client's SETUP never arrives. The accept ends as if no CONFIRM arrived, and a CLOSE ends
     * the connection. */
    world_run(w, 20 * S);
    assert_int_equal(server->accepts[0].rc, VIP_RC_TIMEOUT);
    assert_int_equal(client->conns[0].closed, 1);
    world_free(w);
}

/* The client closes at once; its SETUP is lost. The server reports the connection, then its end. */
static void test_close_overtakes(void **state)
{
    struct world *w = world_of(9, VIP_FEATURES, VIP_FEATURES);
    struct host *server = &w->hosts[SERVER];

    w->filter = drop_setup_of_client;
    ask_and_accept(w);
    world_run(w, 1 * MS);
    host_close(w, CLIENT, &w->hosts[CLIENT].conns[0]);
    world_run(w, 1 * MS);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(server->conns[0].closed, 1);
    world_free(w);
}

static struct vip_cm seen_request;

static bool note_request(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type == VIP_CM_REQUEST)
        seen_request = *msg;
    return true;
}

static bool note_and_drop_setup(struct world *w, unsigned from, unsigned to,
                                const struct vip_cm *msg)
{
    return note_request(w, from, to, msg) && drop_setup_of_server(w, from, to, msg);
}

/* The server's SETUP never arrives, but forged messages do. A SETUP with a wrong id, or from
 * another life, changes nothing. A SETUP with items and features of the future makes the
 * connection. */
static void test_items_of_the_future(void **state)
{
    static const uint8_t items[] = {7, 0, 2, 0, 'a', 'b', 0xff, 0xff, 0, 0};
    struct world *w = world_of(10, VIP_FEATURES | FUTURE_A, VIP_FEATURES);
    struct host *server = &w->hosts[SERVER], *client = &w->hosts[CLIENT];
    struct vip_cm setup = {.type = VIP_CM_SETUP,
                           .features = VIP_FEATURES | FUTURE_A | FUTURE_B,
                           .items = {.bytes = items, .len = sizeof(items)}};

    w->filter = note_and_drop_setup;
    ask_and_accept(w);
    world_run(w, 1 * MS);
    setup.request_id = seen_request.request_id;
    setup.conn_id = server->accepts[0].local_id;
    setup.peer_conn_id = client->requests[0].local_id + 1;
    inject(w, SERVER, CLIENT, server->epoch, client->epoch, &setup);
    setup.peer_conn_id = client->requests[0].local_id;
    setup.conn_id++;
    inject(w, SERVER, CLIENT, server->epoch, client->epoch, &setup);
    setup.conn_id--;
    inject(w, SERVER, CLIENT, server->epoch + 2, client->epoch, &setup);
    assert_int_equal(client->requests[0].done, 0);
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 0);
    inject(w, SERVER, CLIENT, server->epoch, client->epoch, &setup);
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);
    assert_true(client->conns[0].info.features == (VIP_FEATURES | FUTURE_A));
    world_run(w, 1 * MS);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    assert_true(server->conns[0].info.features == VIP_FEATURES);
    world_free(w);
}

/* The answer to a SETUP for an ended connection is a RESET, so the sender learns of the end. */
static void test_unknown_connection(void **state)
{
    struct world *w = world_of(11, VIP_FEATURES, VIP_FEATURES);
    const struct vip_cm setup = {
        .type = VIP_CM_SETUP, .request_id = 5, .conn_id = 77, .peer_conn_id = 88};

    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &setup);
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 1);
    world_free(w);
}

/* To a server a late copy of a REQUEST looks like a new request. The server's SETUP names the
 * client's connection, which is in use, and an id that the client does not know. The client must
 * send no RESET, because a RESET would end the connection in use. */
static void test_setup_after_a_late_copy(void **state)
{
    static const uint8_t types[] = {VIP_CM_SETUP, VIP_CM_CONFIRM};
    struct world *w = world_of(13, VIP_FEATURES, VIP_FEATURES);
    struct conn *client, *server;

    connect_pair(w, &client, &server);
    for (unsigned i = 0; i < 2; i++) {
        const struct vip_cm late = {.type = types[i],
                                    .request_id = 5,
                                    .conn_id = server->local_id + 1000,
                                    .peer_conn_id = client->local_id};

        inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &late);
        world_run(w, 100 * MS);
    }
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 0);
    assert_int_equal(client->reset + server->reset, 0);
    assert_true(client->alive && server->alive);
    world_free(w);
}

/* A REQUEST's late copy is not new while its connection exists, even if its answer is forgotten. */
static void test_late_copy_of_a_request(void **state)
{
    struct world *w = world_of(14, VIP_FEATURES, VIP_FEATURES);
    struct conn *client, *server;

    w->filter = note_request;
    connect_pair(w, &client, &server);
    host_listen(w, SERVER, 2, "svc");
    world_run(w, 30 * S);
    for (unsigned i = 0; i < 2; i++) {
        unsigned duplicates = (unsigned)stats_of(w, SERVER).duplicates;

        inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, 0, &seen_request);
        world_run(w, 100 * MS);
        assert_int_equal(w->hosts[SERVER].incoming_count, 1 + i);
        assert_int_equal(stats_of(w, SERVER).duplicates, duplicates + !i);
        if (i == 0)
            host_close(w, CLIENT, client);
        world_run(w, 30 * S);
    }
    assert_int_equal(server->closed, 1);
    world_free(w);
}

/* Peer-to-peer requests exchange SETUP, too, even if the first SETUP messages are lost. */
static void test_peers(void **state)
{
    for (unsigned lost = 0; lost < 4; lost++) {
        struct world *w = world_of(12 + lost, VIP_FEATURES | FUTURE_A, VIP_FEATURES | FUTURE_A);

        lose(w, VIP_CM_SETUP, lost);
        host_peer(w, CLIENT, SERVER, "left", "right", 20 * S);
        world_run(w, 5 * MS);
        host_peer(w, SERVER, CLIENT, "right", "left", 20 * S);
        world_run(w, 10 * S);
        for (unsigned i = 0; i < 2; i++) {
            assert_int_equal(w->hosts[i].requests[0].done, 1);
            assert_int_equal(w->hosts[i].requests[0].rc, VIP_RC_SUCCESS);
            assert_true(w->hosts[i].conns[0].info.features == (VIP_FEATURES | FUTURE_A));
        }
        world_free(w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_know),
        cmocka_unit_test(test_one_knows),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_server_waits),
        cmocka_unit_test(test_close_overtakes),
        cmocka_unit_test(test_items_of_the_future),
        cmocka_unit_test(test_unknown_connection),
        cmocka_unit_test(test_setup_after_a_late_copy),
        cmocka_unit_test(test_late_copy_of_a_request),
        cmocka_unit_test(test_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
