/*
 * Connection manager, one rule at a time, over a link whose losses the test chooses.
 */
#include "tests/unit/cm_world.h"

#include <errno.h>
#include <sys/uio.h>

enum { CLIENT = 0, SERVER = 1, OTHER = 2 };

#define FOR_EVER UINT64_MAX

/* ---- filters: which messages get lost ---- */

static bool drop_all(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return false;
}

static unsigned dropped_type, dropped_left;

/* Lose the next dropped_left messages of dropped_type. */
static bool drop_type(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type != dropped_type || !dropped_left)
        return true;
    dropped_left--;
    return false;
}

static void lose(struct world *w, unsigned type, unsigned count)
{
    dropped_type = type;
    dropped_left = count;
    w->filter = drop_type;
}

static bool drop_from_server(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return from != SERVER;
}

/* ---- helpers ---- */

static struct cm_stats stats_of(struct world *w, unsigned host)
{
    struct cm_stats stats;

    cm_stats(w->hosts[host].cm, &stats);
    return stats;
}

/* One connection from CLIENT to SERVER through discriminator "svc". */
static void connect_pair(struct world *w, struct conn **ret_client, struct conn **ret_server)
{
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    unsigned request, offered = server->incoming_count;

    host_listen(w, SERVER, 900 + offered, "svc");
    request = host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(server->incoming_count, offered + 1);
    assert_int_equal(host_accept(w, SERVER, offered), 0);
    world_run(w, 5 * MS);
    assert_int_equal(client->requests[request].rc, VIP_RC_SUCCESS);
    assert_int_equal(client->requests[request].done, 1);
    assert_int_equal(server->accepts[server->accept_count - 1].done, 1);
    *ret_client = &client->conns[client->conn_count - 1];
    *ret_server = &server->conns[server->conn_count - 1];
    assert_true((*ret_client)->alive && (*ret_server)->alive);
}

/* A hand-made message. */
static void inject(struct world *w, unsigned from, unsigned to, uint64_t src_epoch,
                   uint64_t dst_epoch, const struct vip_cm *msg)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, src_epoch, dst_epoch, msg);

    cm_rx(w->hosts[to].cm, &w->hosts[from].addr, packet, len_bytes, w->now_ns);
    host_settle(&w->hosts[to]);
}

/* ---- set-up ---- */

static void test_connect(void **state)
{
    struct world *w = world_new(2, 1);
    struct conn *c, *s;
    struct incoming *in = &w->hosts[SERVER].incoming[0];

    connect_pair(w, &c, &s);
    assert_int_equal(in->wait, 900);
    assert_memory_equal(in->remote.disc, "client", 6);
    assert_memory_equal(&in->attrs, &world_attrs, sizeof(world_attrs));
    assert_true(c->local_id == s->remote_id && c->remote_id == s->local_id);
    assert_true(c->info.remote_epoch == w->hosts[SERVER].epoch);
    assert_true(s->info.remote_epoch == w->hosts[CLIENT].epoch);
    /* The smaller packet of both; each side the other's window. */
    assert_int_equal(c->info.packet_bytes, 8192);
    assert_int_equal(s->info.packet_bytes, 8192);
    assert_int_equal(c->info.window_bytes, 66536);
    assert_int_equal(s->info.window_bytes, 65536);
    assert_int_equal(c->info.attrs.max_transfer_bytes, 65536);
    assert_memory_equal(cm_peer_host(w->hosts[CLIENT].cm, c->peer)->bytes,
                        w->hosts[SERVER].addr.bytes, 6);
    /* Nothing was sent twice. */
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
    /* Oneself is never silent. */
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
    assert_int_equal(w->hosts[SERVER].incoming_count, 1); /* from within */
    world_free(w);
}

static void test_grace_is_longer_where_a_server_loops(void **state)
{
    struct world *w = world_new(2, 5);
    struct attempt *attempt;
    uint64_t start_ns;

    host_listen(w, SERVER, 1, "svc");
    assert_true(cm_listen_cancel(w->hosts[SERVER].cm, 1, w->now_ns));
    assert_false(cm_listen_cancel(w->hosts[SERVER].cm, 1, w->now_ns));
    world_run(w, 900 * MS);
    start_ns = w->now_ns;
    attempt = &w->hosts[CLIENT].requests[host_request(w, CLIENT, SERVER, "svc", FOR_EVER)];
    world_run(w, 1 * S);
    assert_in_range(attempt->done_ns - start_ns, 200 * MS, 202 * MS);
    /* A second without a waiter: the short grace again. */
    world_run(w, 1 * S);
    start_ns = w->now_ns;
    attempt = &w->hosts[CLIENT].requests[host_request(w, CLIENT, SERVER, "svc", FOR_EVER)];
    world_run(w, 1 * S);
    assert_in_range(attempt->done_ns - start_ns, 20 * MS, 22 * MS);
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
    assert_int_equal(server->incoming[0].wait, 3); /* the one that waited longest */
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
        {VIP_RC_NOT_DONE, VIP_RC_REJECT}, /* would make no sense to the client */
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
            cm_reject(server->cm, server->incoming[i].handle, cases[i].sent, w->now_ns), 0);
        assert_null(cm_pending_attrs(server->cm, server->incoming[i].handle));
        assert_int_equal(
            cm_reject(server->cm, server->incoming[i].handle, cases[i].sent, w->now_ns), -ENOENT);
        world_run(w, 5 * MS);
        assert_int_equal(client->requests[i].done, 1);
        assert_int_equal(client->requests[i].rc, cases[i].seen);
    }
    assert_int_equal(cm_accept(server->cm, 12345, 1, &world_attrs, 0, w->now_ns), -ENOENT);
    world_free(w);
}

static void test_answers_are_given_again(void **state)
{
    struct world *w = world_new(2, 8);
    struct host *client = &w->hosts[CLIENT];

    /* The first NO_MATCH is lost; the repeated REQUEST is no new request. */
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
                               VIP_RC_REJECT, w->now_ns),
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

    /* Nobody there at all. */
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

    /* There, but the application does not answer: the limit, and accept says so. */
    w->filter = NULL;
    host_listen(w, SERVER, 1, "svc");
    start_ns = w->now_ns;
    host_request(w, CLIENT, SERVER, "svc", 2 * S);
    world_run(w, 10 * S);
    assert_int_equal(r[3].rc, VIP_RC_TIMEOUT);
    assert_true(r[3].done_ns - start_ns == 2 * S);
    assert_int_equal(host_accept(w, SERVER, 0), -ETIMEDOUT);
    assert_int_equal(cm_reject(w->hosts[SERVER].cm, w->hosts[SERVER].incoming[0].handle,
                               VIP_RC_REJECT, w->now_ns),
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
    /* A probe and its answer about twice a second. */
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
    /* The client's daemon answers the ACCEPT with another CANCEL. */
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
    struct host *server = &w->hosts[SERVER];

    lose(w, VIP_CM_CONFIRM, 1);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * MS);
    cm_implied_confirm(server->cm, server->accepts[0].local_id, w->now_ns);
    assert_int_equal(server->accepts[0].rc, VIP_RC_SUCCESS);
    cm_implied_confirm(server->cm, server->accepts[0].local_id, w->now_ns); /* no-op */
    cm_implied_confirm(server->cm, 99, w->now_ns);
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
    /* The client had believed in it. */
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

static void test_close_before_confirm(void **state)
{
    struct world *w = world_new(2, 20);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];

    /* The client closes at once, and its CONFIRM is lost: the server sees both. */
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

/* ---- close, keepalive, reset ---- */

static void test_close(void **state)
{
    struct world *w = world_new(2, 21);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    host_close(w, CLIENT, c);
    world_run(w, 1 * MS);
    assert_int_equal(s->closed, 1);
    assert_int_equal(s->close.reason, VIP_CLOSE_DISCONNECT);
    assert_int_equal(s->close.ops_valid, 1);
    assert_int_equal(s->close.ops_done, 42);
    world_run(w, 10 * S);
    assert_int_equal(s->closed, 1);
    assert_int_equal(w->sent_of_type[VIP_CM_CLOSE], 1);
    assert_int_equal(w->sent_of_type[VIP_CM_PING], 0);
    assert_int_equal(stats_of(w, CLIENT).peers + stats_of(w, SERVER).peers, 0);
    assert_true(world_next_ns(w) == UINT64_MAX);
    assert_int_equal(w->hosts[CLIENT].allocs + w->hosts[SERVER].allocs, 0);
    world_free(w);
}

static void test_close_lost(void **state)
{
    struct world *w = world_new(2, 22);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    lose(w, VIP_CM_CLOSE, 3);
    host_close(w, CLIENT, c);
    world_run(w, 1 * S);
    assert_int_equal(s->closed, 1);

    connect_pair(w, &c, &s);
    lose(w, VIP_CM_CLOSE_ACK, 2);
    host_close(w, SERVER, s);
    world_run(w, 1 * S);
    assert_int_equal(c->closed, 1);

    /* Nobody answers: forgotten after the time limit. */
    connect_pair(w, &c, &s);
    w->filter = drop_all;
    host_close(w, SERVER, s);
    world_run(w, 60 * S);
    assert_int_equal(w->hosts[SERVER].allocs, 0);
    assert_in_range(w->sent_of_type[VIP_CM_CLOSE], 15, 35);
    world_free(w);
}

static void test_both_close(void **state)
{
    struct world *w = world_new(2, 23);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    host_close(w, CLIENT, c);
    host_close(w, SERVER, s);
    world_run(w, 10 * S);
    assert_int_equal(c->closed + s->closed, 0);
    assert_int_equal(w->hosts[CLIENT].allocs + w->hosts[SERVER].allocs, 0);
    world_free(w);
}

static void test_keepalive(void **state)
{
    struct world *w = world_new(2, 24);
    struct conn *c[8], *s[8];

    for (unsigned i = 0; i < 8; i++)
        connect_pair(w, &c[i], &s[i]);
    world_run(w, 100 * S);
    assert_true(c[0]->alive && s[0]->alive);
    world_run(w, 10 * MS);
    /* Per peer, not per connection: one of the two asks about once a second. */
    assert_in_range(w->sent_of_type[VIP_CM_PING], 90, 210);
    assert_int_equal(w->sent_of_type[VIP_CM_PONG], w->sent_of_type[VIP_CM_PING]);

    /* Data packets are as good. */
    w->sent_of_type[VIP_CM_PING] = 0;
    for (unsigned i = 0; i < 100; i++) {
        cm_heard(w->hosts[CLIENT].cm, c[0]->peer, w->now_ns);
        cm_heard(w->hosts[SERVER].cm, s[0]->peer, w->now_ns);
        world_run(w, 500 * MS);
    }
    assert_int_equal(w->sent_of_type[VIP_CM_PING], 0);
    cm_heard(w->hosts[CLIENT].cm, 0x12345, w->now_ns); /* nobody */
    assert_null(cm_peer_host(w->hosts[CLIENT].cm, 0x12345));
    world_free(w);
}

static void test_peer_dead(void **state)
{
    struct world *w = world_new(2, 25);
    struct conn *c, *s;
    uint64_t start_ns;

    connect_pair(w, &c, &s);
    start_ns = w->now_ns;
    w->filter = drop_all;
    while (c->alive && w->now_ns < start_ns + 20 * S)
        world_run(w, 10 * MS);
    assert_int_equal(c->lost, 1);
    assert_in_range(w->now_ns - start_ns, 3900 * MS, 4100 * MS);
    world_run(w, 20 * S);
    assert_int_equal(s->lost, 1);
    assert_int_equal(stats_of(w, CLIENT).peers_lost, 1);
    assert_int_equal(stats_of(w, CLIENT).peers, 0);
    assert_true(world_next_ns(w) == UINT64_MAX);

    /* Afterwards a new connection works. */
    w->filter = NULL;
    connect_pair(w, &c, &s);
    world_free(w);
}

static void test_one_sided_silence(void **state)
{
    struct world *w = world_new(2, 26);
    struct conn *c, *s;

    /* The client hears nothing and gives up; the server, which hears, must not stay connected. */
    connect_pair(w, &c, &s);
    w->filter = drop_from_server;
    world_run(w, 6 * S);
    assert_int_equal(c->lost, 1);
    assert_false(s->alive);
    assert_int_equal(s->closed, 1);
    assert_int_equal(s->close.reason, VIP_CLOSE_TIMEOUT);
    world_free(w);
}

static void test_peer_restart(void **state)
{
    struct world *w = world_new(2, 27);
    struct conn *c, *s;

    /* Found by the keepalive. */
    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    host_start(w, SERVER);
    world_run(w, 1100 * MS);
    assert_int_equal(c->lost, 1);

    /* Found by a packet of the old connection: at once. */
    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    host_start(w, SERVER);
    cm_unknown_conn(w->hosts[SERVER].cm, &w->hosts[CLIENT].addr,
                    &(struct vip_header){.kind = VIP_PKT_DATA,
                                         .conn_id = c->remote_id,
                                         .src_epoch = w->hosts[CLIENT].epoch,
                                         .dst_epoch = 1},
                    w->now_ns);
    world_run(w, 1 * MS);
    assert_int_equal(c->lost, 1);

    /* Found by a request from the new life: at once. */
    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    host_start(w, SERVER);
    host_request(w, SERVER, CLIENT, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(c->lost, 1);
    connect_pair(w, &c, &s);
    world_free(w);
}

static void test_forged_epoch_is_only_a_rumour(void **state)
{
    struct world *w = world_new(2, 28);
    struct vip_cm ping = {.type = VIP_CM_PING, .request_id = 5};
    struct vip_cm pong = {.type = VIP_CM_PONG, .request_id = 5};
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    world_run(w, 1500 * MS);
    for (unsigned i = 0; i < 1000; i++) {
        inject(w, SERVER, CLIENT, 1000 + i, 0, &ping);
        inject(w, SERVER, CLIENT, 1000 + i, w->hosts[CLIENT].epoch, &pong);
        world_run(w, 1 * MS);
    }
    world_run(w, 10 * S);
    assert_true(c->alive && s->alive);
    /* A stream of rumours makes no stream of questions. */
    assert_true(stats_of(w, CLIENT).pings_sent < 30);
    world_free(w);
}

static void test_reset(void **state)
{
    struct world *w = world_new(2, 29);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    struct vip_header hdr = {.kind = VIP_PKT_DATA, .src_epoch = client->epoch};
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    hdr.conn_id = s->local_id;
    hdr.dst_epoch = server->epoch;
    /* The server's host has forgotten it without a word. */
    s->alive = false;
    cm_conn_gone(server->cm, s->local_id, s->peer);
    cm_unknown_conn(server->cm, &client->addr, &hdr, w->now_ns);
    cm_unknown_conn(server->cm, &client->addr, &hdr, w->now_ns);
    world_run(w, 1 * MS);
    assert_int_equal(c->reset, 1);
    assert_int_equal(stats_of(w, CLIENT).unexpected, 1); /* the second */

    /* Not more than the bucket holds. */
    w->sent_of_type[VIP_CM_RESET] = 0;
    for (unsigned i = 0; i < 5000; i++)
        cm_unknown_conn(server->cm, &client->addr, &hdr, w->now_ns);
    assert_in_range(w->sent_of_type[VIP_CM_RESET], 1, 64);
    world_run(w, 1 * S);
    w->sent_of_type[VIP_CM_RESET] = 0;
    for (unsigned i = 0; i < 1000; i++) {
        cm_unknown_conn(server->cm, &client->addr, &hdr, w->now_ns);
        world_run(w, 10 * MS);
    }
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 1000);
    assert_true(stats_of(w, SERVER).resets_suppressed > 4000);
    world_free(w);
}

static void test_confirm_for_nothing(void **state)
{
    struct world *w = world_new(2, 30);
    struct vip_cm confirm = {
        .type = VIP_CM_CONFIRM, .request_id = 5, .conn_id = 77, .peer_conn_id = 88};

    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &confirm);
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 1);
    assert_int_equal(stats_of(w, SERVER).unexpected, 1);
    world_free(w);
}

/* ---- limits, bad input, memory ---- */

static void test_backlog(void **state)
{
    struct world *w = world_new(2, 31);
    struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
    unsigned no_match = 0;

    for (unsigned i = 0; i < 130; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    for (unsigned i = 0; i < 130; i++)
        no_match += client->requests[i].rc == VIP_RC_NO_MATCH;
    assert_int_equal(no_match, 2);
    assert_int_equal(stats_of(w, SERVER).backlog_full, 2);

    /* A server that comes for them one by one, 100 ms apart, gets all. */
    for (unsigned i = 0; i < 128; i++) {
        host_listen(w, SERVER, i, "svc");
        assert_int_equal(server->incoming_count, i + 1);
        assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 100 * MS);
        assert_int_equal(server->accepts[i].rc, VIP_RC_SUCCESS);
    }
    assert_int_equal(server->conn_count, 128);

    /* The NIC as a whole has a bound too. */
    for (unsigned i = 0; i < 14; i++) {
        char disc[16];

        snprintf(disc, sizeof(disc), "other%u", i);
        for (unsigned j = 0; j < 60; j++)
            host_request(w, CLIENT, SERVER, disc, 5 * MS);
    }
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 840);
    world_run(w, 1 * S);
    assert_int_equal(stats_of(w, SERVER).pending, 0);
    world_free(w);
}

static void test_bad_input(void **state)
{
    struct world *w = world_new(2, 32);
    struct host *server = &w->hosts[SERVER];
    struct cm_request_args args = {.remote.host_len = 25};
    struct vip_cm msg = {.request_id = 9,
                         .conn_id = 8,
                         .peer_conn_id = 7,
                         .packet_bytes = 1000,
                         .window_bytes = 1000,
                         .code = 5,
                         .attrs = world_attrs};
    uint8_t junk[600];
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    memset(junk, 0x11, sizeof(junk));
    for (size_t len = 0; len < sizeof(junk); len++)
        cm_rx(server->cm, &w->hosts[CLIENT].addr, junk, len, w->now_ns);
    assert_int_equal(stats_of(w, SERVER).malformed, 600);

    /* Every type, from a stranger, with our epoch wrong and right: nothing happens to anybody. */
    for (unsigned type = VIP_CM_REQUEST; type < VIP_CM_TYPES; type++) {
        msg.type = (uint8_t)type;
        inject(w, CLIENT, SERVER, 4711, 4712, &msg);
        inject(w, CLIENT, SERVER, 4711, server->epoch, &msg);
        inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, 4712, &msg);
        inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, server->epoch, &msg);
    }
    assert_int_equal(stats_of(w, SERVER).wrong_epoch, 2 * 9);
    world_run(w, 5 * S);
    assert_true(c->alive && s->alive);

    assert_int_equal(cm_request(server->cm, &args, w->now_ns), -EINVAL);
    args.remote.host_len = 0;
    assert_int_equal(cm_request(server->cm, &args, w->now_ns), -EINVAL);
    args.remote.host_len = 6;
    args.local.disc_len = 129;
    assert_int_equal(cm_request(server->cm, &args, w->now_ns), -EINVAL);
    assert_int_equal(cm_listen(server->cm, 1, junk, 129, w->now_ns), -EINVAL);
    world_free(w);
}

static void test_peer_request_is_not_supported(void **state)
{
    struct world *w = world_new(2, 33);
    struct vip_cm msg = {.type = VIP_CM_REQUEST,
                         .peer_to_peer = 1,
                         .request_id = 9,
                         .conn_id = 8,
                         .packet_bytes = 1000,
                         .window_bytes = 1000,
                         .attrs = world_attrs};

    host_listen(w, SERVER, 1, "");
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, 0, &msg);
    assert_int_equal(w->hosts[SERVER].incoming_count, 0);
    assert_int_equal(w->sent_of_type[VIP_CM_REJECT], 1);
    world_free(w);
}

/* No answer is longer than what it answers. */
static void test_no_amplification(void **state)
{
    struct world *w = world_new(2, 34);
    struct vip_cm msg = {.request_id = 9,
                         .conn_id = 8,
                         .peer_conn_id = 7,
                         .packet_bytes = 1000,
                         .window_bytes = 1000,
                         .code = 5,
                         .attrs = world_attrs};

    host_listen(w, SERVER, 1, "");
    w->filter = drop_all;
    for (unsigned type = VIP_CM_REQUEST; type < VIP_CM_TYPES; type++) {
        uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
        size_t len_bytes;

        msg.type = (uint8_t)type;
        len_bytes = vip_wire_put_cm(packet, 5, w->hosts[SERVER].epoch, &msg);
        w->bytes_sent[SERVER] = 0;
        cm_rx(w->hosts[SERVER].cm, &w->hosts[CLIENT].addr, packet, len_bytes, w->now_ns);
        assert_true(w->bytes_sent[SERVER] <= len_bytes);
    }
    world_free(w);
}

/* Each allocation fails once, on either side: every attempt still ends, nothing leaks. */
static void test_no_memory(void **state)
{
    for (unsigned side = CLIENT; side <= SERVER; side++) {
        for (long n = 0; n < 12; n++) {
            struct world *w = world_new(2, 35 + (uint64_t)n);
            struct host *client = &w->hosts[CLIENT], *server = &w->hosts[SERVER];
            struct cm_request_args args = {.user = 0,
                                           .local_id = 77,
                                           .timeout_ns = 2 * S,
                                           .local = world_addr(client, "c"),
                                           .remote = world_addr(server, "svc"),
                                           .attrs = world_attrs};
            int listened, asked;

            w->hosts[side].fail_after = n;
            listened = cm_listen(server->cm, 1, (const uint8_t *)"svc", 3, w->now_ns);
            client->requests[0] = (struct attempt){.used = true, .local_id = 77};
            client->request_count = 1;
            asked = cm_request(client->cm, &args, w->now_ns);
            assert_true(listened == 0 || listened == -ENOMEM);
            assert_true(asked == 0 || asked == -ENOMEM);
            world_run(w, 1 * MS);
            if (server->incoming_count)
                assert_int_equal(host_accept(w, SERVER, 0), 0);
            world_run(w, 10 * S);
            assert_int_equal(client->requests[0].done, asked == 0);
            if (server->accept_count)
                assert_int_equal(server->accepts[0].done, 1);
            assert_int_equal(client->conn_count && client->conns[0].alive,
                             server->conn_count && server->conns[0].alive);
            if (client->conn_count)
                host_close(w, CLIENT, &client->conns[0]);
            world_run(w, 10 * S);
            w->hosts[side].fail_after = -1;
            world_free(w);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connect),
        cmocka_unit_test(test_connect_to_self),
        cmocka_unit_test(test_no_match_within_grace),
        cmocka_unit_test(test_grace_finds_late_waiter),
        cmocka_unit_test(test_grace_is_longer_where_a_server_loops),
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
        cmocka_unit_test(test_close_before_confirm),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_lost),
        cmocka_unit_test(test_both_close),
        cmocka_unit_test(test_keepalive),
        cmocka_unit_test(test_peer_dead),
        cmocka_unit_test(test_one_sided_silence),
        cmocka_unit_test(test_peer_restart),
        cmocka_unit_test(test_forged_epoch_is_only_a_rumour),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_confirm_for_nothing),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_peer_request_is_not_supported),
        cmocka_unit_test(test_no_amplification),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("engine_cm", tests, NULL, NULL);
}
