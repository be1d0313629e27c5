/*
 * Cookies. Before a request uses memory or a waiter, the client must prove that it receives at its
 * address. A client remembers its cookies. The server changes its secret. The client's address in a
 * REQUEST must be the source address of the packet.
 */
#include "tests/unit/cm_world_run.h"

#include "proto/siphash.h"

/* Published test vectors of SipHash-2-4: key 00..0f, inputs 00 01 02 ... of 0 to 3 and 15 bytes. */
static void test_siphash(void **state)
{
    static const uint64_t want[] = {0x726fdb47dd0e0e31ull, 0x74f839c593dc67fdull,
                                    0x0d6c8009d9a94f5aull, 0x85676696d7fb7e2dull};
    const struct siphash_key key = {0x0706050403020100ull, 0x0f0e0d0c0b0a0908ull};
    uint8_t bytes[16];

    (void)state;
    for (unsigned i = 0; i < 16; i++)
        bytes[i] = (uint8_t)i;
    for (unsigned i = 0; i < 4; i++)
        assert_true(siphash(&key, bytes, i) == want[i]);
    assert_true(siphash(&key, bytes, 15) == 0xa129ca6149be45e5ull);
}

/* Returns a REQUEST that a stranger makes. */
static struct vip_cm forged(struct world *w, const char *disc, uint64_t id, uint64_t cookie)
{
    return (struct vip_cm){.type = VIP_CM_REQUEST,
                           .request_id = id,
                           .conn_id = id + 1,
                           .packet_bytes = 1000,
                           .window_bytes = 1000,
                           .cookie = cookie,
                           .attrs = world_attrs,
                           .local = {.disc_len = 1, .disc = "x"},
                           .remote = world_addr(&w->hosts[SERVER], disc)};
}

static void flood(struct world *w, unsigned count, uint64_t first_id, const char *disc)
{
    for (unsigned i = 0; i < count; i++) {
        struct vip_cm msg = forged(w, disc, first_id + i, 0);

        inject(w, CLIENT, SERVER, 666, 0, &msg);
    }
}

/* A flood of requests without a cookie uses no memory and no waiter. An honest client connects. */
static void test_flood(void **state)
{
    struct world *w = world_new_asking(2, 71, true);
    long allocs;

    (void)state;
    w->filter = NULL;
    host_listen(w, SERVER, 1, "svc");
    allocs = w->hosts[SERVER].allocs;
    for (unsigned i = 0; i < 100; i++)
        flood(w, 10, 5000 + 10 * i, "svc");
    assert_int_equal(stats_of(w, SERVER).waiters, 1);
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 1000);
    assert_int_equal(w->hosts[SERVER].allocs, allocs);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    assert_int_equal(w->hosts[CLIENT].requests[0].done, 1);
    assert_true(stats_of(w, CLIENT).cookies_received > 0);
    world_free(w);
}

/* Two hosts are connected. A stranger knows their epochs and sends requests with the client's or
 * the server's address. Although the hosts are connected, the server ignores these requests,
 * because they have no cookie. */
static void test_connection_is_no_proof(void **state)
{
    struct world *w = world_new_asking(2, 76, true);
    struct conn *client, *server;
    unsigned offered;

    (void)state;
    connect_pair(w, &client, &server);
    host_listen(w, SERVER, 5, "svc");
    offered = w->hosts[SERVER].incoming_count;
    for (unsigned from = 0; from < 2; from++)
        for (unsigned i = 0; i < 1000; i++) {
            struct vip_cm msg = forged(w, "svc", 7000 + i, 0);

            msg.local = world_addr(&w->hosts[from], "x");
            inject(w, from, SERVER, w->hosts[from].epoch, w->hosts[SERVER].epoch, &msg);
        }
    assert_int_equal(w->hosts[SERVER].incoming_count, offered);
    assert_int_equal(stats_of(w, SERVER).waiters, 1);
    world_free(w);
}

/* The client address in a REQUEST must be empty, or be the source address of the packet. */
static void test_true_address(void **state)
{
    struct world *w = world_new(3, 77);
    struct vip_cm msg = forged(w, "svc", 1, 0);
    struct incoming *in = &w->hosts[SERVER].incoming[0];

    (void)state;
    host_listen(w, SERVER, 1, "svc");
    for (unsigned host = 1; host <= 2; host++) {
        msg.local = world_addr(&w->hosts[host], "root");
        inject(w, CLIENT, SERVER, 666, 0, &msg);
    }
    msg.local.host_len = 4;
    memcpy(msg.local.host, w->hosts[CLIENT].addr.bytes, 4);
    inject(w, CLIENT, SERVER, 666, 0, &msg);
    assert_int_equal(stats_of(w, SERVER).wrong_source, 3);
    assert_int_equal(stats_of(w, SERVER).waiters, 1);
    msg.local.host_len = 0;
    inject(w, CLIENT, SERVER, 666, 0, &msg);
    assert_int_equal(w->hosts[SERVER].incoming_count, 1);
    assert_int_equal(in->remote.host_len, 6);
    assert_memory_equal(in->remote.host, w->hosts[CLIENT].addr.bytes, 6);
    assert_int_equal(in->remote.disc_len, 4);
    world_free(w);
}

/* A client gets a cookie once. Its later requests to the same host need no extra round trip. */
static void test_remembered(void **state)
{
    struct world *w = world_new_asking(3, 78, true);
    struct conn *client, *server;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        connect_pair(w, &client, &server);
        host_close(w, CLIENT, client);
        world_run(w, 1 * S);
    }
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 1);
    assert_int_equal(stats_of(w, CLIENT).cookies_received, 1);
    /* Another life of the server has another secret, so it asks for a cookie again. */
    host_kill(w, SERVER);
    host_start(w, SERVER);
    connect_pair(w, &client, &server);
    connect_pair(w, &client, &server);
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 1);
    assert_int_equal(stats_of(w, CLIENT).cookies_received, 2);
    world_free(w);
}

/* The last cookie, valid for one address, for one life of the client, and for a limited time. */
static uint64_t last_cookie;

static bool watch(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    (void)w;
    (void)from;
    (void)to;
    if (msg->type == VIP_CM_COOKIE)
        last_cookie = msg->cookie;
    return false;
}

static uint64_t ask_cookie(struct world *w, uint64_t id)
{
    struct vip_cm msg = forged(w, "svc", id, 0);

    last_cookie = 0;
    inject(w, CLIENT, SERVER, 666, 0, &msg);
    return last_cookie;
}

static unsigned waiters_after(struct world *w, unsigned from, uint64_t epoch, uint64_t id,
                              uint64_t cookie)
{
    struct vip_cm msg = forged(w, "svc", id, cookie);

    inject(w, from, SERVER, epoch, 0, &msg);
    return stats_of(w, SERVER).waiters;
}

static void test_binding(void **state)
{
    struct world *w = world_new_asking(3, 72, true);
    uint64_t cookie, old;

    (void)state;
    w->filter = watch;
    host_listen(w, SERVER, 1, "svc");
    cookie = ask_cookie(w, 4);
    assert_true(cookie != 0);
    assert_true(ask_cookie(w, 4) == cookie);
    assert_int_equal(waiters_after(w, CLIENT, 667, 4, cookie), 1);
    assert_int_equal(waiters_after(w, OTHER, 666, 4, cookie), 1);
    assert_int_equal(waiters_after(w, CLIENT, 666, 4, cookie ^ 1), 1);
    assert_int_equal(waiters_after(w, CLIENT, 666, 5, cookie), 0);

    /* A cookie is valid after one change of the secret, but not after two changes. */
    host_listen(w, SERVER, 2, "svc");
    host_listen(w, SERVER, 3, "svc");
    old = ask_cookie(w, 40);
    w->now_ns += 121 * S;
    assert_true(ask_cookie(w, 41) != 0);
    assert_int_equal(waiters_after(w, CLIENT, 666, 40, old), 1);
    old = ask_cookie(w, 42);
    w->now_ns += 242 * S;
    assert_int_equal(waiters_after(w, CLIENT, 666, 42, old), 1);
    world_free(w);
}

/* Even a quiet host's first request needs a cookie. Without one, the request uses no memory. */
static void test_always(void **state)
{
    struct world *w = world_new_asking(3, 73, true);
    struct conn *client, *server;
    long allocs;

    (void)state;
    w->filter = NULL;
    host_listen(w, SERVER, 1, "svc");
    allocs = w->hosts[SERVER].allocs;
    flood(w, 1, 1000, "svc");
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 1);
    assert_int_equal(stats_of(w, SERVER).waiters, 1);
    assert_int_equal(w->hosts[SERVER].allocs, allocs);
    assert_int_equal(w->hosts[SERVER].incoming_count, 0);
    assert_true(cm_unwait(w->hosts[SERVER].cm, 1, w->now_ns));
    /* An honest client returns its cookie and is connected. */
    connect_pair(w, &client, &server);
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 2);
    assert_int_equal(stats_of(w, CLIENT).cookies_received, 1);
    /* This client remembers its cookie and is not asked again, but another host is asked. */
    connect_pair(w, &client, &server);
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 2);
    host_listen(w, SERVER, 2, "svc");
    host_request(w, OTHER, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 3);
    assert_int_equal(stats_of(w, SERVER).waiters, 0);
    world_free(w);
}

/* COOKIE messages are lost: the client repeats its REQUEST, and the server sends another COOKIE. */
static void test_always_lost(void **state)
{
    struct world *w = world_new_asking(2, 74, true);

    (void)state;
    lose(w, VIP_CM_COOKIE, 3);
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 500 * MS);
    assert_int_equal(dropped_left, 0);
    assert_int_equal(stats_of(w, SERVER).cookies_sent, 4);
    assert_int_equal(w->hosts[SERVER].incoming_count, 1);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[CLIENT].requests[0].rc, VIP_RC_SUCCESS);
    world_free(w);
}

/* Two peer-to-peer requests meet, although at least one host asks the other for a cookie. */
static void test_always_peers(void **state)
{
    struct world *w = world_new_asking(2, 75, true);

    (void)state;
    w->filter = NULL;
    host_peer(w, CLIENT, SERVER, "a", "b", FOR_EVER);
    host_peer(w, SERVER, CLIENT, "b", "a", FOR_EVER);
    world_run(w, 50 * MS);
    assert_true(stats_of(w, CLIENT).cookies_sent + stats_of(w, SERVER).cookies_sent > 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(w->hosts[i].requests[0].done, 1);
        assert_int_equal(w->hosts[i].requests[0].rc, VIP_RC_SUCCESS);
    }
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection_is_no_proof),
        cmocka_unit_test(test_true_address),
        cmocka_unit_test(test_remembered),
        cmocka_unit_test(test_siphash),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_always),
        cmocka_unit_test(test_always_lost),
        cmocka_unit_test(test_always_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
