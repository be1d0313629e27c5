/*
 * Connection manager: how connections are made. Each test checks one rule over a link, and chooses
 * which packets the link loses. test_engine_cm_end.c tests the end of connections, limits and bad
 * input.
 */
#include "tests/unit/cm_world_run.h"

#include <errno.h>

/* ---- set-up ---- */

static void test_connect(void **state)
{
    struct world *w = world_new(2, 1);
    struct conn *c, *s;
    struct incoming *in = &w->hosts[SERVER].incoming[0];

    connect_pair(w, &c, &s);
    assert_int_equal(in->wait, 900);
    assert_memory_equal(in->remote.disc, "client", 6);
    world_attrs_check(&in->attrs);
    assert_true(c->local_id == s->remote_id && c->remote_id == s->local_id);
    assert_true(c->info.remote_epoch == w->hosts[SERVER].epoch);
    assert_true(s->info.remote_epoch == w->hosts[CLIENT].epoch);
    /* Both sides use the smaller packet size of the two. Each side uses the other side's window. */
    assert_int_equal(c->info.packet_bytes, 8192);
    assert_int_equal(s->info.packet_bytes, 8192);
    assert_int_equal(c->info.window_bytes, 66536);
    assert_int_equal(s->info.window_bytes, 65536);
    assert_int_equal(c->info.attrs.max_transfer_bytes, 65536);
    assert_memory_equal(cm_peer_host(w->hosts[CLIENT].cm, c->peer)->bytes,
                        w->hosts[SERVER].addr.bytes, 6);
    /* No message was sent twice. */
    assert_int_equal(w->packets, 4);
    assert_int_equal(stats_of(w, SERVER).waiters, 0);
    assert_int_equal(stats_of(w, SERVER).pending, 0);
    assert_int_equal(stats_of(w, SERVER).accepts, 1);
    world_free(w);
}

static void test_connect_to_self(void **state)
{
    struct world *w = world_new(1, 2);
    struct host *host = &w->hosts[0];

    host_listen(w, 0, 1, "svc");
    host_request(w, 0, 0, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(host_accept(w, 0, 0), 0);
    world_run(w, 5 * MS);
    assert_int_equal(host->conn_count, 2);
    assert_true(host->conns[0].local_id == host->conns[1].remote_id);
    assert_true(host->conns[0].peer == host->conns[1].peer);
    /* A host sends no PING to itself. */
    world_run(w, 60 * S);
    assert_int_equal(w->sent_of_type[VIP_CM_PING], 0);
    assert_true(host->conns[0].alive && host->conns[1].alive);
    host_close(w, 0, &host->conns[0]);
    world_run(w, 1 * S);
    assert_int_equal(host->conns[1].closed, 1);
    assert_int_equal(stats_of(w, 0).peers, 0);
    world_free(w);
}

static void test_no_match_within_grace(void **state)
{
    struct world *w = world_new(2, 3);
    uint64_t start_ns = w->now_ns;
    unsigned r = host_request(w, CLIENT, SERVER, "nobody", FOR_EVER);
    struct attempt *attempt = &w->hosts[CLIENT].requests[r];

    world_run(w, 1 * S);
    assert_int_equal(attempt->done, 1);
    assert_int_equal(attempt->rc, VIP_RC_NO_MATCH);
    assert_in_range(attempt->done_ns - start_ns, 20 * MS, 22 * MS);
    assert_int_equal(stats_of(w, SERVER).no_match, 1);
    world_run(w, 10 * S);
    assert_true(cm_deadline(w->hosts[SERVER].cm) == UINT64_MAX);
    assert_int_equal(w->hosts[SERVER].allocs, 0);
    world_free(w);
}

static void test_grace_finds_late_waiter(void **state)
{
    struct world *w = world_new(2, 4);

    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 15 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 1);
    host_listen(w, SERVER, 1, "svc");
    /* cm_wait has called op_incoming. */
    assert_int_equal(w->hosts[SERVER].incoming_count, 1);
    world_free(w);
}

static void test_grace_is_longer_where_a_server_loops(void **state)
{
    struct world *w = world_new(2, 5);
    struct attempt *attempt;
    uint64_t start_ns;

    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_unwait(w->hosts[SERVER].cm, 1, w->now_ns));
    assert_false(cm_unwait(w->hosts[SERVER].cm, 1, w->now_ns));
    world_run(w, 900 * MS);
    start_ns = w->now_ns;
    attempt = &w->hosts[CLIENT].requests[host_request(w, CLIENT, SERVER, "svc", FOR_EVER)];
    world_run(w, 1 * S);
    assert_in_range(attempt->done_ns - start_ns, 200 * MS, 202 * MS);
    /* vipd now keeps a request only for a short time, because nobody has waited for a second. */
    world_run(w, 1 * S);
    start_ns = w->now_ns;
    attempt = &w->hosts[CLIENT].requests[host_request(w, CLIENT, SERVER, "svc", FOR_EVER)];
    world_run(w, 1 * S);
    assert_in_range(attempt->done_ns - start_ns, 20 * MS, 22 * MS);
    world_free(w);
}

/* A server has waited twice, so vipd keeps a request for grace_loop_ns (2 s). Case 0: the server
 * waits again and gets the request. Case 1: the server ends, and the client soon gets NO_MATCH.
 * Case 2: the server runs on without a wait, and the client gets NO_MATCH after 2 s. */
static void test_a_server_that_loops_loses_no_request(void **state)
{
    for (unsigned how = 0; how < 3; how++) {
        struct world *w = world_new(2, 50 + how);
        struct host *server = &w->hosts[SERVER], *client = &w->hosts[CLIENT];
        uint64_t start_ns;

        for (unsigned i = 0; i < 2; i++) {
            host_listen(w, SERVER, 1 + i, "svc");
            host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
            world_run(w, 1 * MS);
            assert_int_equal(host_accept(w, SERVER, i), 0);
            world_run(w, 1 * MS);
            assert_int_equal(client->requests[i].rc, VIP_RC_SUCCESS);
        }
        start_ns = w->now_ns;
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
        world_run(w, 1800 * MS);
        assert_false(client->requests[2].done);
        if (how == 0)
            host_listen(w, SERVER, 3, "svc");
        if (how == 1)
            cm_server_gone(server->cm, 1 + SERVER, w->now_ns);
        world_run(w, how == 2 ? 1 * S : 100 * MS);
        assert_int_equal(server->incoming_count, how == 0 ? 3 : 2);
        assert_int_equal(client->requests[2].done, how > 0);
        if (how > 0)
            assert_int_equal(client->requests[2].rc, VIP_RC_NO_MATCH);
        if (how == 2)
            assert_in_range(client->requests[2].done_ns - start_ns, 1900 * MS, 2100 * MS);
        world_free(w);
    }
}

/* A server needs seconds for an answer and then does not wait again. vipd keeps the next client's
 * request. This client gets NO_MATCH about 2 s after the answer. */
static void test_a_server_that_loops_ends_with_its_work(void **state)
{
    struct world *w = world_new(2, 55);
    struct host *client = &w->hosts[CLIENT];
    uint64_t answered_ns;

    for (unsigned i = 0; i < 2; i++) {
        host_listen(w, SERVER, 1 + i, "svc");
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
        world_run(w, 1 * MS);
        if (i == 0)
            assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 1 * MS);
    }
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 6 * S);
    assert_false(client->requests[2].done);
    assert_int_equal(host_accept(w, SERVER, 1), 0);
    answered_ns = w->now_ns;
    world_run(w, 4 * S);
    assert_true(client->requests[2].done);
    assert_int_equal(client->requests[2].rc, VIP_RC_NO_MATCH);
    assert_in_range(client->requests[2].done_ns - answered_ns, 1900 * MS, 2600 * MS);
    world_free(w);
}

/* A server needs seconds to answer its first request. vipd keeps the next request for it. */
static void test_a_server_at_work_loses_no_request(void **state)
{
    struct world *w = world_new(2, 60);
    struct host *server = &w->hosts[SERVER], *client = &w->hosts[CLIENT];

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * S);
    assert_int_equal(server->incoming_count, 1);
    assert_false(client->requests[1].done);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 100 * MS);
    host_listen(w, SERVER, 2, "svc");
    assert_int_equal(server->incoming_count, 2);
    world_free(w);
}

static void test_discriminators_match_exactly(void **state)
{
    struct world *w = world_new(2, 6);
    struct host *server = &w->hosts[SERVER];

    host_listen(w, SERVER, 1, "");
    host_listen(w, SERVER, 2, "ab");
    host_listen(w, SERVER, 3, "abc");
    host_listen(w, SERVER, 4, "abc");
    host_request(w, CLIENT, SERVER, "abc", FOR_EVER);
    world_run(w, 1 * MS);
    host_request(w, CLIENT, SERVER, "", FOR_EVER);
    world_run(w, 1 * MS);
    host_request(w, CLIENT, SERVER, "abcd", FOR_EVER);
    world_run(w, 1 * S);
    assert_int_equal(server->incoming_count, 2);
    assert_int_equal(server->incoming[0].wait, 3); /* waiter 3 has waited longer than 4 */
    assert_int_equal(server->incoming[1].wait, 1);
    assert_int_equal(w->hosts[CLIENT].requests[2].rc, VIP_RC_NO_MATCH);
    assert_int_equal(stats_of(w, SERVER).waiters, 2);
    world_free(w);
}

static void test_reject(void **state)
{
    static const struct {
        enum vip_rc sent, seen;
    } cases[] = {
        {VIP_RC_REJECT, VIP_RC_REJECT},
        {VIP_RC_NO_MATCH, VIP_RC_NO_MATCH},
        {VIP_RC_INVALID_MTU, VIP_RC_INVALID_MTU},
        {VIP_RC_NOT_DONE, VIP_RC_REJECT}, /* NOT_DONE is no valid result of a connect */
        {VIP_RC_SUCCESS, VIP_RC_REJECT},
    };
    struct world *w = world_new(2, 7);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        host_listen(w, SERVER, i, "svc");
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
        world_run(w, 5 * MS);
        assert_non_null(cm_pending_attrs(server->cm, server->incoming[i].handle));
        assert_int_equal(
            cm_reject(server->cm, server->incoming[i].handle, cases[i].sent, NULL, w->now_ns), 0);
        assert_null(cm_pending_attrs(server->cm, server->incoming[i].handle));
        assert_int_equal(
            cm_reject(server->cm, server->incoming[i].handle, cases[i].sent, NULL, w->now_ns),
            -ENOENT);
        world_run(w, 5 * MS);
        assert_int_equal(client->requests[i].done, 1);
        assert_int_equal(client->requests[i].rc, cases[i].seen);
    }
    assert_int_equal(cm_accept(server->cm, 12345, 1, &world_attrs, NULL, 0, w->now_ns), -ENOENT);
    world_free(w);
}

static void test_answers_are_given_again(void **state)
{
    struct world *w = world_new(2, 8);
    struct host *client = &w->hosts[CLIENT];

    /* The first NO_MATCH is lost. The repeated REQUEST is not new: it gets the same answer. */
    lose(w, VIP_CM_NO_MATCH, 1);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 21 * MS);
    assert_int_equal(stats_of(w, SERVER).no_match, 1);
    host_listen(w, SERVER, 1, "svc");
    world_run(w, 1 * S);
    assert_int_equal(client->requests[0].rc, VIP_RC_NO_MATCH);
    assert_int_equal(w->hosts[SERVER].incoming_count, 0);
    assert_int_equal(stats_of(w, SERVER).no_match, 1);
    assert_true(stats_of(w, SERVER).duplicates >= 1);

    lose(w, VIP_CM_REJECT, 1);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(cm_reject(w->hosts[SERVER].cm, w->hosts[SERVER].incoming[0].handle,
                               VIP_RC_REJECT, NULL, w->now_ns),
                     0);
    world_run(w, 2 * S);
    assert_int_equal(client->requests[1].rc, VIP_RC_REJECT);
    world_free(w);
}

static void test_time_limit(void **state)
{
    struct world *w = world_new(2, 9);
    uint64_t start_ns = w->now_ns;
    struct attempt *r = w->hosts[CLIENT].requests;

    w->filter = drop_all;
    host_request(w, CLIENT, SERVER, "svc", 300 * MS);
    host_request(w, CLIENT, SERVER, "svc", 30 * S);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 60 * S);
    assert_int_equal(r[0].rc, VIP_RC_TIMEOUT);
    assert_true(r[0].done_ns - start_ns == 300 * MS);
    assert_int_equal(r[1].rc, VIP_RC_TIMEOUT);
    assert_true(r[1].done_ns - start_ns == 30 * S);
    assert_int_equal(r[2].rc, VIP_RC_NOT_REACHABLE);
    assert_true(r[2].done_ns - start_ns == 10 * S);
    assert_true(cm_deadline(w->hosts[CLIENT].cm) == UINT64_MAX);

    /* The server's vipd answers, but its application does not. The time limit ends the request, and
     * a later cm_accept reports that. */
    w->filter = NULL;
    host_listen(w, SERVER, 1, "svc");
    start_ns = w->now_ns;
    host_request(w, CLIENT, SERVER, "svc", 2 * S);
    world_run(w, 10 * S);
    assert_int_equal(r[3].rc, VIP_RC_TIMEOUT);
    assert_true(r[3].done_ns - start_ns == 2 * S);
    assert_int_equal(host_accept(w, SERVER, 0), -ETIMEDOUT);
    assert_int_equal(cm_reject(w->hosts[SERVER].cm, w->hosts[SERVER].incoming[0].handle,
                               VIP_RC_REJECT, NULL, w->now_ns),
                     -ENOENT);
    world_free(w);
}

static void test_pending_for_ever(void **state)
{
    struct world *w = world_new(2, 10);

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 300 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].done, 0);
    /* The client repeats its REQUEST about twice a second. */
    assert_in_range(w->sent_of_type[VIP_CM_REQUEST], 450, 650);
    assert_int_equal(w->hosts[SERVER].incoming_count, 1);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(w->hosts[SERVER].accepts[0].rc, VIP_RC_SUCCESS);
    world_free(w);
}

static void test_server_restart_while_pending(void **state)
{
    struct world *w = world_new(2, 11);

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * S);
    host_kill(w, SERVER);
    host_start(w, SERVER);
    host_listen(w, SERVER, 2, "svc");
    world_run(w, 2 * S);
    assert_int_equal(w->hosts[SERVER].incoming_count, 1);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* ---- cancel, at each stage ---- */

static void cancel(struct world *w, unsigned request)
{
    w->hosts[CLIENT].requests[request].given_up = true;
    assert_true(cm_request_cancel(w->hosts[CLIENT].cm, request, w->now_ns));
    assert_false(cm_request_cancel(w->hosts[CLIENT].cm, request, w->now_ns));
}

static void test_cancel_while_kept(void **state)
{
    struct world *w = world_new(2, 12);

    w->dup_percent = 100;
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    cancel(w, 0);
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 0);
    host_listen(w, SERVER, 1, "svc");
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[SERVER].incoming_count, 0);
    world_free(w);
}

static void test_cancel_while_offered(void **state)
{
    struct world *w = world_new(2, 13);

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    cancel(w, 0);
    world_run(w, 2 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), -ETIMEDOUT);
    assert_int_equal(stats_of(w, SERVER).pending, 0);
    world_free(w);
}

static void test_cancel_lost(void **state)
{
    struct world *w = world_new(2, 14);
    struct attempt *accept = &w->hosts[SERVER].accepts[0];

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    lose(w, VIP_CM_CANCEL, 1);
    cancel(w, 0);
    /* The client's vipd answers the ACCEPT with another CANCEL. */
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 2 * MS);
    assert_int_equal(accept->done, 1);
    assert_int_equal(accept->rc, VIP_RC_TIMEOUT);
    world_free(w);
}

static void test_cancel_crosses_accept(void **state)
{
    struct world *w = world_new(2, 15);
    struct attempt *accept = &w->hosts[SERVER].accepts[0];

    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 2 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    cancel(w, 0);
    world_run(w, 2 * MS);
    assert_int_equal(accept->done, 1);
    assert_int_equal(accept->rc, VIP_RC_TIMEOUT);
    world_run(w, 10 * S);
    assert_int_equal(w->hosts[CLIENT].conn_count, 0);
    assert_true(cm_deadline(w->hosts[SERVER].cm) == UINT64_MAX);
    world_free(w);
}

/* ---- accept ---- */

static void test_confirm_lost(void **state)
{
    struct world *w = world_new(2, 16);

    lose(w, VIP_CM_CONFIRM, 2);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[0].done, 1);
    assert_int_equal(w->hosts[SERVER].accepts[0].done, 0);
    world_run(w, 100 * MS);
    assert_int_equal(w->hosts[SERVER].accepts[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(w->sent_of_type[VIP_CM_ACCEPT], 3);
    assert_int_equal(w->hosts[CLIENT].requests[0].done, 1);
    world_free(w);
}

static void test_implied_confirm(void **state)
{
    struct world *w = world_new(2, 17);
    struct host *server = &w->hosts[SERVER], *client = &w->hosts[CLIENT];
    uint64_t local_id;

    lose(w, VIP_CM_CONFIRM, 1);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * MS);
    local_id = server->accepts[0].local_id;
    /* A packet from another life or from another host is not a confirmation. */
    cm_implied_confirm(server->cm, local_id, &client->addr, client->epoch + 1, w->now_ns);
    cm_implied_confirm(server->cm, local_id, &server->addr, client->epoch, w->now_ns);
    assert_int_equal(server->accepts[0].done, 0);
    cm_implied_confirm(server->cm, local_id, &client->addr, client->epoch, w->now_ns);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    /* A second confirmation, or a confirmation of an unknown connection id, changes nothing. */
    cm_implied_confirm(server->cm, local_id, &client->addr, client->epoch, w->now_ns);
    cm_implied_confirm(server->cm, 99, &client->addr, client->epoch, w->now_ns);
    world_run(w, 3 * S);
    assert_int_equal(w->sent_of_type[VIP_CM_ACCEPT], 1);
    world_free(w);
}

static void test_never_confirmed(void **state)
{
    struct world *w = world_new(2, 18);
    struct host *client = &w->hosts[CLIENT];
    struct attempt *accept = &w->hosts[SERVER].accepts[0];
    uint64_t start_ns;

    lose(w, VIP_CM_CONFIRM, 1000);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    start_ns = w->now_ns;
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 20 * S);
    assert_int_equal(accept->rc, VIP_RC_TIMEOUT);
    assert_in_range(accept->done_ns - start_ns, 5 * S, 6 * S);
    /* The client had a connection; a CLOSE has ended it. */
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->conns[0].closed, 1);
    assert_int_equal(client->conns[0].close.reason, VIP_CLOSE_TIMEOUT);
    world_free(w);
}

static void test_close_while_accepting(void **state)
{
    struct world *w = world_new(2, 19);
    struct host *server = &w->hosts[SERVER];
    struct cm_close_args args = {.reason = VIP_CLOSE_DEATH};

    lose(w, VIP_CM_ACCEPT, 1000);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 50 * MS);
    server->accepts[0].given_up = true;
    args.local_id = server->accepts[0].local_id;
    cm_close(server->cm, &args, w->now_ns);
    cm_conn_gone(server->cm, args.local_id, 0);
    world_run(w, 5 * S);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_REJECT);
    world_free(w);
}

/* The server's program accepts, then ends. The CLOSE arrives before the ACCEPT. The client sends a
 * CONFIRM, and the server's RESET is lost. A repeated CLOSE must end the connection. */
static void test_close_overtakes_accept(void **state)
{
    struct world *w = world_new(2, 21);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    struct cm_close_args args = {.reason = VIP_CLOSE_DEATH};
    struct vip_cm msg;

    lose(w, VIP_CM_RESET, 1000);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    assert_int_equal(w->flight_count, 1);
    assert_int_equal(vip_wire_get_cm(w->flights[0].bytes, w->flights[0].len_bytes, &msg),
                     VIP_WIRE_OK);
    assert_int_equal(msg.type, VIP_CM_ACCEPT);
    w->flights[0].at_ns += 8 * MS;
    server->accepts[0].given_up = true;
    args.local_id = server->accepts[0].local_id;
    cm_close(server->cm, &args, w->now_ns);
    cm_conn_gone(server->cm, args.local_id, 0);
    world_run(w, 5 * S);
    assert_int_equal(client->requests[0].done, 1);
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->conns[0].closed, 1);
    assert_int_equal(client->conns[0].close.reason, VIP_CLOSE_DEATH);
    world_free(w);
}

/* A program accepts a request and ends. Another program on its host accepts the same request. The
 * first ACCEPT arrives after the second one. The client must not answer it with a CANCEL, because a
 * CANCEL would end the connection of the second ACCEPT (simrun --seed 1796000000012350). */
static void test_late_other_accept(void **state)
{
    struct world *w = world_new(2, 22);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    struct vip_cm msg;

    lose(w, VIP_CM_CONFIRM, 1);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    assert_int_equal(vip_wire_get_cm(w->flights[0].bytes, w->flights[0].len_bytes, &msg),
                     VIP_WIRE_OK);
    assert_int_equal(msg.type, VIP_CM_ACCEPT);
    w->now_ns += 60000;
    world_turn(w);
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);
    msg.conn_id++;
    inject(w, SERVER, CLIENT, server->epoch, client->epoch, &msg);
    world_run(w, 1 * S);
    assert_int_equal(w->sent_of_type[VIP_CM_CANCEL], 0);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->conns[0].closed, 0);
    world_free(w);
}

static void test_close_before_confirm(void **state)
{
    struct world *w = world_new(2, 20);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];

    /* The client closes at once; its CONFIRM is lost. The server reports connection and end. */
    lose(w, VIP_CM_CONFIRM, 1);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    w->now_ns += 60000;
    world_turn(w);
    assert_int_equal(client->requests[0].done, 1);
    host_close(w, CLIENT, &client->conns[0]);
    world_run(w, 1 * MS);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(server->conns[0].closed, 1);
    world_run(w, 10 * S);
    assert_int_equal(server->conns[0].closed, 1);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connect),
        cmocka_unit_test(test_connect_to_self),
        cmocka_unit_test(test_no_match_within_grace),
        cmocka_unit_test(test_grace_finds_late_waiter),
        cmocka_unit_test(test_grace_is_longer_where_a_server_loops),
        cmocka_unit_test(test_a_server_that_loops_loses_no_request),
        cmocka_unit_test(test_a_server_that_loops_ends_with_its_work),
        cmocka_unit_test(test_a_server_at_work_loses_no_request),
        cmocka_unit_test(test_discriminators_match_exactly),
        cmocka_unit_test(test_reject),
        cmocka_unit_test(test_answers_are_given_again),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_pending_for_ever),
        cmocka_unit_test(test_server_restart_while_pending),
        cmocka_unit_test(test_cancel_while_kept),
        cmocka_unit_test(test_cancel_while_offered),
        cmocka_unit_test(test_cancel_lost),
        cmocka_unit_test(test_cancel_crosses_accept),
        cmocka_unit_test(test_confirm_lost),
        cmocka_unit_test(test_implied_confirm),
        cmocka_unit_test(test_never_confirmed),
        cmocka_unit_test(test_close_while_accepting),
        cmocka_unit_test(test_close_overtakes_accept),
        cmocka_unit_test(test_late_other_accept),
        cmocka_unit_test(test_close_before_confirm),
    };

    return cmocka_run_group_tests_name("engine_cm", tests, NULL, NULL);
}
