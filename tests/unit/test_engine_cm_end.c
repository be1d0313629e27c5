/*
 * Connection manager, one rule at a time: how connections end, limits, bad input, lack of memory.
 */
#include "tests/unit/cm_world_run.h"
#include "vipd/engine/cm_internal.h"

#include <errno.h>

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
    host_server_ends(w, SERVER);
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

    /* If the peer does not answer, the host stops repeating its CLOSE after close_timeout_ns. */
    connect_pair(w, &c, &s);
    w->filter = drop_all;
    host_close(w, SERVER, s);
    host_server_ends(w, SERVER);
    world_run(w, 60 * S);
    assert_int_equal(w->hosts[SERVER].allocs, 0);
    assert_in_range(w->sent_of_type[VIP_CM_CLOSE], 15, 35);
    world_free(w);
}

/* A host acknowledges no CLOSE. CM_CLOSES_PER_S limits the rate of all repeated CLOSE messages. */
static void test_many_closes_of_a_silent_host(void **state)
{
    enum { MANY = 600 };
    struct world *w = world_new(2, 25);
    struct conn *c[MANY], *s[MANY];

    for (unsigned i = 0; i < MANY; i++)
        connect_pair(w, &c[i], &s[i]);
    w->filter = drop_all;
    w->sent_of_type[VIP_CM_CLOSE] = 0;
    for (unsigned i = 0; i < MANY; i++)
        host_close(w, SERVER, s[i]);
    assert_int_equal(w->sent_of_type[VIP_CM_CLOSE], MANY);
    host_server_ends(w, SERVER);
    world_run(w, 2 * S); /* the client does not detect the server's end in this time */
    assert_in_range(w->sent_of_type[VIP_CM_CLOSE], 2 * MANY, MANY + 2 * CM_CLOSES_PER_S);
    world_run(w, 50 * S);
    assert_int_equal(w->hosts[SERVER].allocs, 0);
    world_free(w);
}

static void test_both_close(void **state)
{
    struct world *w = world_new(2, 23);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    host_close(w, CLIENT, c);
    host_close(w, SERVER, s);
    host_server_ends(w, SERVER);
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
    /* PINGs are per peer, not per connection: one host sends a PING about once a second. */
    assert_in_range(w->sent_of_type[VIP_CM_PING], 90, 210);
    assert_int_equal(w->sent_of_type[VIP_CM_PONG], w->sent_of_type[VIP_CM_PING]);

    /* Data packets are signs of life, too, and make PINGs unnecessary. */
    w->sent_of_type[VIP_CM_PING] = 0;
    for (unsigned i = 0; i < 100; i++) {
        cm_heard(w->hosts[CLIENT].cm, c[0]->peer, w->now_ns);
        cm_heard(w->hosts[SERVER].cm, s[0]->peer, w->now_ns);
        world_run(w, 500 * MS);
    }
    assert_int_equal(w->sent_of_type[VIP_CM_PING], 0);
    cm_heard(w->hosts[CLIENT].cm, 0x12345, w->now_ns); /* no peer has this number */
    assert_null(cm_peer_host(w->hosts[CLIENT].cm, 0x12345));
    world_free(w);
}

/* A peer has our epoch: it is another NIC of our vipd, or hostile. We still detect its end. */
static void test_our_epoch_elsewhere(void **state)
{
    struct world *w = world_new(2, 26);
    struct conn *c, *s;

    w->hosts[SERVER].epoch = w->hosts[CLIENT].epoch;
    w->hosts[SERVER].cm->config.epoch = w->hosts[CLIENT].epoch;
    connect_pair(w, &c, &s);
    world_run(w, 20 * S);
    assert_true(c->alive && s->alive);
    w->filter = drop_all;
    world_run(w, 20 * S);
    assert_int_equal(c->lost, 1);
    assert_int_equal(s->lost, 1);
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

    /* After the loss a new connection works. */
    w->filter = NULL;
    connect_pair(w, &c, &s);
    world_free(w);
}

/* A peer is declared dead while an accept waits for a CONFIRM. Later data does not confirm it. */
static void test_data_after_death(void **state)
{
    struct world *w = world_new(2, 27);
    struct host *server = &w->hosts[SERVER];
    struct conn *c, *s;
    uint64_t local_id;

    connect_pair(w, &c, &s);
    world_run(w, 900 * MS);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 10 * MS);
    w->filter = drop_all;
    assert_int_equal(host_accept(w, SERVER, 1), 0);
    local_id = server->accepts[1].local_id;
    while (s->alive)
        world_run(w, 10 * MS);
    assert_int_equal(s->lost, 1);
    assert_int_equal(server->accepts[1].done, 0);
    cm_implied_confirm(server->cm, local_id, &w->hosts[CLIENT].addr, w->hosts[CLIENT].epoch,
                       w->now_ns);
    world_run(w, 20 * S);
    assert_int_equal(server->accepts[1].done, 1);
    assert_int_equal(server->accepts[1].rc, VIP_RC_TIMEOUT);
    assert_int_equal(stats_of(w, SERVER).peers, 0);
    world_free(w);
}

/* A data packet arrives after we have closed the connection. No RESET answers it, because the
 * repeated CLOSE also reports ops_done to the peer. */
static void test_close_before_reset(void **state)
{
    struct world *w = world_new(2, 28);
    struct vip_header late = {.kind = VIP_PKT_DATA};
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    late.conn_id = s->local_id;
    late.src_epoch = w->hosts[CLIENT].epoch;
    lose(w, VIP_CM_CLOSE, 1);
    host_close(w, SERVER, s);
    cm_unknown_conn(w->hosts[SERVER].cm, &w->hosts[CLIENT].addr, &late, w->now_ns);
    world_run(w, 1 * S);
    assert_int_equal(c->reset, 0);
    assert_int_equal(c->closed, 1);
    assert_int_equal(c->close.ops_done, 42);
    /* After CLOSE_ACK the manager forgets the connection, so a RESET answers the packet. */
    cm_unknown_conn(w->hosts[SERVER].cm, &w->hosts[CLIENT].addr, &late, w->now_ns);
    world_run(w, 1 * S);
    assert_int_equal(w->sent_of_type[VIP_CM_RESET], 1);
    world_free(w);
}

/* The server's host has ended, and a stranger sends messages with the server's address. The
 * stranger knows both epochs, because each host tells its epoch to any host that asks. The stranger
 * knows no connection id and no nonce of a PING. So its messages are no sign of life, and the
 * client declares the server dead in time. */
static void test_forged_life(void **state)
{
    static const uint8_t types[] = {VIP_CM_PING,    VIP_CM_PONG,  VIP_CM_REQUEST, VIP_CM_PENDING,
                                    VIP_CM_CONFIRM, VIP_CM_CLOSE, VIP_CM_RESET,   VIP_CM_CANCEL};
    struct world *w = world_new(2, 29);
    struct conn *c, *s;
    uint64_t start_ns;

    connect_pair(w, &c, &s);
    start_ns = w->now_ns;
    w->filter = drop_all;
    while (c->alive && w->now_ns < start_ns + 20 * S) {
        for (unsigned i = 0; i < sizeof(types); i++) {
            struct vip_cm msg = {.type = types[i],
                                 .request_id = 4711 + i,
                                 .conn_id = 815 + i,
                                 .peer_conn_id = 42 + i,
                                 .packet_bytes = 1000,
                                 .window_bytes = 1000,
                                 .attrs = world_attrs,
                                 .remote = world_addr(&w->hosts[CLIENT], "nothing")};

            inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &msg);
        }
        world_run(w, 100 * MS);
    }
    assert_int_equal(c->lost, 1);
    assert_in_range(w->now_ns - start_ns, 3900 * MS, 4200 * MS);
    world_free(w);
}

/* The round trip is longer than the gap between two PINGs. Each PONG arrives after the next PING,
 * and is still a sign of life. */
static void test_slow_pong(void **state)
{
    struct world *w = world_new(2, 30);
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    w->delay_min_ns = 350 * MS;
    world_run(w, 60 * S);
    assert_int_equal(c->lost + s->lost, 0);
    assert_true(c->alive && s->alive);
    world_free(w);
}

static void test_one_sided_silence(void **state)
{
    struct world *w = world_new(2, 26);
    struct conn *c, *s;

    /* Nothing arrives at the client, so it ends the connection. Packets arrive at the server, but
     * the server's end must not stay connected either. */
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

    /* The PINGs detect the restart. */
    connect_pair(w, &c, &s);
    host_kill(w, SERVER);
    host_start(w, SERVER);
    world_run(w, 1100 * MS);
    assert_int_equal(c->lost, 1);

    /* A packet of the old connection shows the restart at once. */
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

    /* A request from the new life shows the restart at once. */
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
    /* A stream of forged epochs must not cause a stream of PINGs. */
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
    /* The server's host forgets the connection and sends no message. */
    s->alive = false;
    cm_conn_gone(server->cm, s->local_id, s->peer);
    cm_unknown_conn(server->cm, &client->addr, &hdr, w->now_ns);
    cm_unknown_conn(server->cm, &client->addr, &hdr, w->now_ns);
    world_run(w, 1 * MS);
    assert_int_equal(c->reset, 1);
    assert_int_equal(stats_of(w, CLIENT).unexpected, 1); /* the second RESET was unexpected */

    /* The host sends at most as many RESET messages as the token bucket has tokens. */
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

    /* Three users send the requests, because one user alone cannot use all places. */
    for (unsigned i = 0; i < 130; i++) {
        w->uid = 1000 + i % 3;
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    }
    world_run(w, 1 * MS);
    for (unsigned i = 0; i < 130; i++)
        no_match += client->requests[i].rc == VIP_RC_NO_MATCH;
    assert_int_equal(no_match, 2);
    assert_int_equal(stats_of(w, SERVER).backlog_full, 2);

    /* A server that takes one request every 100 ms gets all kept requests. */
    w->uid = 1000;
    for (unsigned i = 0; i < 128; i++) {
        host_listen(w, SERVER, i, "svc");
        assert_int_equal(server->incoming_count, i + 1);
        assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 100 * MS);
        assert_int_equal(server->accepts[i].rc, VIP_RC_SUCCESS);
    }
    assert_int_equal(server->conn_count, 128);

    /* One host can use only a part of all places for kept requests. */
    for (unsigned i = 0; i < 14; i++) {
        char disc[16];

        snprintf(disc, sizeof(disc), "other%u", i);
        for (unsigned j = 0; j < 60; j++) {
            w->uid = 1000 + j % 3;
            host_request(w, CLIENT, SERVER, disc, 5 * MS);
        }
    }
    world_run(w, 2 * MS);
    assert_int_equal(stats_of(w, SERVER).pending, 128);
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
                         .cookie = 3,
                         .tag = 3,
                         .nonce = 3,
                         .back_ms = 3,
                         .data_id = 3,
                         .number = 3,
                         .offered = 3,
                         .attrs = world_attrs};
    uint8_t junk[600];
    struct conn *c, *s;

    connect_pair(w, &c, &s);
    memset(junk, 0x11, sizeof(junk));
    for (size_t len = 0; len < sizeof(junk); len++)
        cm_rx(server->cm, &w->hosts[CLIENT].addr, junk, len, w->now_ns);
    assert_int_equal(stats_of(w, SERVER).malformed, 600);

    /* Send each type of message from an unknown and from the known life of the client, with a wrong
     * and with the right epoch of the server. The connection stays. */
    for (unsigned type = VIP_CM_REQUEST; type < VIP_CM_TYPES; type++) {
        msg.type = (uint8_t)type;
        inject(w, CLIENT, SERVER, 4711, 4712, &msg);
        inject(w, CLIENT, SERVER, 4711, server->epoch, &msg);
        inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, 4712, &msg);
        inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, server->epoch, &msg);
    }
    assert_int_equal(stats_of(w, SERVER).wrong_epoch, 2 * 18);
    world_run(w, 5 * S);
    assert_true(c->alive && s->alive);

    assert_int_equal(cm_request(server->cm, &args, w->now_ns), -EINVAL);
    args.remote.host_len = 0;
    assert_int_equal(cm_request(server->cm, &args, w->now_ns), -EINVAL);
    args.remote.host_len = 6;
    args.local.disc_len = 129;
    assert_int_equal(cm_request(server->cm, &args, w->now_ns), -EINVAL);
    assert_int_equal(cm_wait(server->cm, 1, 1, 0, junk, 129, w->now_ns), -EINVAL);
    world_free(w);
}

/* No answer is longer than the message that it answers. */
static void test_no_amplification(void **state)
{
    struct world *w = world_new(2, 34);
    struct vip_cm msg = {.request_id = 9,
                         .conn_id = 8,
                         .peer_conn_id = 7,
                         .packet_bytes = 1000,
                         .window_bytes = 1000,
                         .code = 5,
                         .cookie = 3,
                         .tag = 3,
                         .nonce = 3,
                         .back_ms = 3,
                         .data_id = 3,
                         .number = 3,
                         .offered = 3,
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

/* On one side, all allocations after the first n fail. Every attempt ends; no memory leaks. */
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
            listened = cm_wait(server->cm, 1, 1, 0, (const uint8_t *)"svc", 3, w->now_ns);
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
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_close_lost),
        cmocka_unit_test(test_many_closes_of_a_silent_host),
        cmocka_unit_test(test_both_close),
        cmocka_unit_test(test_keepalive),
        cmocka_unit_test(test_peer_dead),
        cmocka_unit_test(test_data_after_death),
        cmocka_unit_test(test_close_before_reset),
        cmocka_unit_test(test_forged_life),
        cmocka_unit_test(test_slow_pong),
        cmocka_unit_test(test_one_sided_silence),
        cmocka_unit_test(test_peer_restart),
        cmocka_unit_test(test_forged_epoch_is_only_a_rumour),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_confirm_for_nothing),
        cmocka_unit_test(test_backlog),
        cmocka_unit_test(test_our_epoch_elsewhere),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_no_amplification),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests_name("engine_cm_end", tests, NULL, NULL);
}
