/* Connection manager: listeners with a back-log, servers that wait in a loop, private data. */
#include "tests/unit/cm_world_run.h"

#include <errno.h>

static void open_listener(struct world *w, uint64_t wait, uint32_t backlog)
{
    assert_int_equal(
        cm_listen(w->hosts[SERVER].cm, wait, w->uid, (const uint8_t *)"svc", 3, backlog, w->now_ns),
        0);
}

static void test_listener_takes_many(void **state)
{
    struct world *w = world_new(2, 300);
    struct host *server = &w->hosts[SERVER];

    open_listener(w, 5, 128);
    assert_true(cm_disc_in_use(server->cm, (const uint8_t *)"svc", 3));
    for (unsigned i = 0; i < 128; i++) {
        w->uid = i % 2; /* two users, because one user may have fewer places */
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    }
    world_run(w, 60 * S); /* the application is slow */
    assert_int_equal(server->incoming_count, 128);
    for (unsigned i = 0; i < 128; i++) {
        assert_int_equal(server->incoming[i].wait, 5);
        assert_int_equal(host_accept(w, SERVER, i), 0);
    }
    world_run(w, 5 * S);
    for (unsigned i = 0; i < 128; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    assert_int_equal(stats_of(w, SERVER).no_match, 0);
    assert_true(cm_unwait(server->cm, 5, w->now_ns));
    assert_false(cm_unwait(server->cm, 5, w->now_ns));
    assert_false(cm_disc_in_use(server->cm, (const uint8_t *)"svc", 3));
    world_free(w);
}

/* Back-log and kept requests are full: the other clients wait, and no client gets NO_MATCH. */
static void test_overfull_listener(void **state)
{
    enum { CLIENTS = 300, BACKLOG = 10 };
    struct world *w = world_new(2, 301);
    struct host *server = &w->hosts[SERVER];
    unsigned answered = 0;

    open_listener(w, 5, BACKLOG);
    for (unsigned i = 0; i < CLIENTS; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 30 * S);
    assert_int_equal(server->incoming_count, BACKLOG);
    while (answered < CLIENTS) {
        assert_true(server->incoming_count <= answered + BACKLOG);
        if (answered < server->incoming_count)
            assert_int_equal(host_accept(w, SERVER, answered++), 0);
        world_run(w, answered < server->incoming_count ? 1 * MS : 1 * S);
    }
    world_run(w, 5 * S);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    world_free(w);
}

static void test_listener_closes(void **state)
{
    struct world *w = world_new(2, 302);
    struct host *server = &w->hosts[SERVER];

    open_listener(w, 5, 1);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * S);
    assert_int_equal(server->incoming_count, 1);
    assert_true(cm_unwait(server->cm, 5, w->now_ns));
    /* The closed listener's program still has request 0. Request 1 has no listener any more. */
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[CLIENT].requests[1].rc, VIP_RC_NO_MATCH);
    assert_int_equal(w->hosts[CLIENT].requests[0].done, 0);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* A new listener gets the kept requests. Two listeners and a waiter share later requests. */
static void test_sharing(void **state)
{
    struct world *w = world_new(2, 303);
    struct host *server = &w->hosts[SERVER];
    unsigned of[3] = {0, 0, 0};

    for (unsigned i = 0; i < 5; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    open_listener(w, 0, 128);
    world_run(w, 1 * MS);
    assert_int_equal(server->incoming_count, 5);
    open_listener(w, 1, 128);
    host_listen(w, SERVER, 2, "svc");
    for (unsigned i = 0; i < 9; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(server->incoming_count, 14);
    for (unsigned i = 5; i < 14; i++)
        of[server->incoming[i].wait]++;
    assert_int_equal(of[2], 1);
    assert_int_equal(of[0], 4);
    assert_int_equal(of[1], 4);
    assert_int_equal(cm_listen(server->cm, 9, 0, (const uint8_t *)"", 129, 1, w->now_ns), -EINVAL);
    world_free(w);
}

/* A client cancels its request. After the server's answer to it the back-log has room again. */
static void test_given_up_in_the_backlog(void **state)
{
    struct world *w = world_new(2, 304);

    open_listener(w, 5, 1);
    host_request(w, CLIENT, SERVER, "svc", 500 * MS);
    world_run(w, 1 * MS);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 3 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_TIMEOUT);
    assert_int_equal(host_accept(w, SERVER, 0), -ETIMEDOUT);
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[SERVER].incoming_count, 2);
    assert_int_equal(host_accept(w, SERVER, 1), 0);
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[CLIENT].requests[1].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* A server waits in a loop. It needs 150 ms for each answer, and 150 ms before each next wait. */
static void test_looping_server(void **state)
{
    enum { CLIENTS = 128 };
    struct world *w = world_new(2, 305);
    struct host *server = &w->hosts[SERVER];

    host_listen(w, SERVER, 1, "svc");
    for (unsigned i = 0; i < CLIENTS; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    for (unsigned i = 0; i < CLIENTS; i++) {
        assert_int_equal(server->incoming_count, i + 1);
        world_run(w, 150 * MS);
        assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 150 * MS);
        host_listen(w, SERVER, 2 + i, "svc");
    }
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    assert_int_equal(stats_of(w, SERVER).no_match, 0);
    world_free(w);
}

/* A client confirms late, so the accept takes long. vipd keeps the next client's request. */
static void test_looping_server_with_a_slow_client(void **state)
{
    struct world *w = world_new(2, 307);
    struct host *server = &w->hosts[SERVER];
    unsigned connected_ms = 0;

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    lose(w, VIP_CM_CONFIRM, 8);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    for (; dropped_left && connected_ms < 4000; connected_ms += 10)
        world_run(w, 10 * MS);
    assert_in_range(connected_ms, 1000, 4000);
    world_run(w, 50 * MS);
    host_listen(w, SERVER, 2, "svc");
    assert_int_equal(server->incoming_count, 2);
    assert_int_equal(host_accept(w, SERVER, 1), 0);
    world_run(w, 1 * S);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(w->hosts[CLIENT].requests[i].rc, VIP_RC_SUCCESS);
    assert_int_equal(stats_of(w, SERVER).no_match, 0);
    world_free(w);
}

static void test_private_data(void **state)
{
    struct world *w = world_new(2, 306);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    struct vip_private hello = {.len = 5, .bytes = "hello"};
    struct vip_private welcome = {.len = VIP_PRIVATE_BYTES_MAX};
    struct cm_request_args args = {.timeout_ns = FOR_EVER,
                                   .local = world_addr(client, "c"),
                                   .remote = world_addr(server, "svc"),
                                   .attrs = world_attrs,
                                   .data = hello};

    memset(welcome.bytes, 7, sizeof(welcome.bytes));
    for (unsigned i = 0; i < 2; i++) {
        args.user = i;
        args.local_id = 50 + i;
        client->requests[i] = (struct attempt){.used = true, .local_id = 50 + i};
        client->request_count = i + 1;
        host_listen(w, SERVER, i, "svc");
        assert_int_equal(cm_request(client->cm, &args, w->now_ns), 0);
        world_run(w, 5 * MS);
        assert_memory_equal(&server->incoming[i].data, &hello, sizeof(hello));
    }
    lose(w, VIP_CM_ACCEPT, 1);
    server->accepts[0] = (struct attempt){.used = true, .local_id = 99};
    server->accept_count = 1;
    assert_int_equal(
        cm_accept(server->cm, server->incoming[0].handle, 99, &world_attrs, &welcome, 0, w->now_ns),
        0);
    world_run(w, 1 * S);
    lose(w, VIP_CM_REJECT, 1);
    assert_int_equal(
        cm_reject(server->cm, server->incoming[1].handle, VIP_RC_REJECT, &welcome, w->now_ns), 0);
    world_run(w, 1 * S);
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);
    assert_memory_equal(&client->requests[0].data, &welcome, sizeof(welcome));
    assert_int_equal(client->requests[1].rc, VIP_RC_REJECT);
    assert_memory_equal(&client->requests[1].data, &welcome, sizeof(welcome));
    args.data.len = VIP_PRIVATE_BYTES_MAX + 1;
    assert_int_equal(cm_request(client->cm, &args, w->now_ns), -EINVAL);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listener_takes_many),
        cmocka_unit_test(test_overfull_listener),
        cmocka_unit_test(test_listener_closes),
        cmocka_unit_test(test_sharing),
        cmocka_unit_test(test_given_up_in_the_backlog),
        cmocka_unit_test(test_looping_server),
        cmocka_unit_test(test_looping_server_with_a_slow_client),
        cmocka_unit_test(test_private_data),
    };

    return cmocka_run_group_tests_name("engine_cm_listen", tests, NULL, NULL);
}
