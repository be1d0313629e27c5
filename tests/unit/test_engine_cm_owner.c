/*
 * Connection manager: discriminators have owners. The first user whose program waits on a
 * discriminator owns it. Programs of other users cannot wait there.
 */
#include "tests/unit/cm_world_run.h"
#include "vipd/engine/cm_internal.h"

#include <errno.h>

enum { OWN = 1001, THIEF = 2002 };

static int wait_as(struct world *w, uint32_t uid, uint64_t wait, uint64_t server)
{
    return cm_wait(w->hosts[SERVER].cm, wait, server, uid, (const uint8_t *)"svc", 3, w->now_ns);
}

static int listen_as(struct world *w, uint32_t uid, uint64_t wait)
{
    return cm_listen(w->hosts[SERVER].cm, wait, uid, (const uint8_t *)"svc", 3, 10, w->now_ns);
}

static int peer_as(struct world *w, uint32_t uid, unsigned user)
{
    struct host *host = &w->hosts[SERVER];
    struct cm_request_args args = {.user = user,
                                   .uid = uid,
                                   .local_id = 4000 + user,
                                   .timeout_ns = 500 * MS,
                                   .peer_to_peer = true,
                                   .local = world_addr(host, "svc"),
                                   .remote = world_addr(&w->hosts[CLIENT], "x"),
                                   .attrs = world_attrs};

    host->request_count = user + 1;
    host->requests[user] = (struct attempt){.used = true, .local_id = args.local_id};
    return cm_request(host->cm, &args, w->now_ns);
}

static void refused(struct world *w, uint32_t uid)
{
    unsigned before = (unsigned)stats_of(w, SERVER).refused_owner;

    assert_int_equal(wait_as(w, uid, 50, 77), -EPERM);
    assert_int_equal(listen_as(w, uid, 51), -EPERM);
    assert_int_equal(peer_as(w, uid, 100), -EPERM);
    assert_int_equal(stats_of(w, SERVER).refused_owner, before + 3);
}

/* Another user cannot listen at an owner's discriminator. The owner gets all requests. */
static void test_nothing_stolen(void **state)
{
    struct world *w = world_new(2, 400);

    assert_int_equal(listen_as(w, OWN, 1), 0);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(listen_as(w, THIEF, 10 + i), -EPERM);
    for (unsigned i = 0; i < 10; i++)
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(w->hosts[SERVER].incoming_count, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(w->hosts[SERVER].incoming[i].wait, 1);
    world_free(w);
}

/* A user owns a discriminator while its program waits, and one second longer. Other programs of
 * this user can wait there, too. */
static void test_while_it_waits(void **state)
{
    struct world *w = world_new(2, 401);

    assert_int_equal(wait_as(w, OWN, 1, 5), 0);
    world_run(w, 100 * S);
    refused(w, THIEF);
    refused(w, 0); /* root counts as another user, too */
    assert_int_equal(wait_as(w, OWN, 2, 6), 0);
    assert_int_equal(listen_as(w, OWN, 3), 0);
    assert_int_equal(peer_as(w, OWN, 0), 0);
    for (uint64_t wait = 1; wait <= 3; wait++)
        assert_true(cm_unwait(w->hosts[SERVER].cm, wait, w->now_ns));
    world_run(w, 900 * MS);
    refused(w, THIEF);
    world_run(w, 700 * MS);
    assert_int_equal(wait_as(w, THIEF, 4, 77), 0);
    refused(w, OWN);
    world_free(w);
}

/* A server takes one client and waits again much later. Meanwhile no other user can wait there. */
static void test_between_two_waits(void **state)
{
    struct world *w = world_new(2, 402);
    uint64_t server = 5;

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(wait_as(w, OWN, 1 + i, server), 0);
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
        world_run(w, 5 * MS);
        assert_int_equal(w->hosts[SERVER].incoming_count, i + 1);
        world_run(w, 3 * S); /* the application needs time to answer */
        refused(w, THIEF);
        assert_int_equal(host_accept(w, SERVER, i), 0);
        world_run(w, 900 * MS);
        refused(w, THIEF);
    }
    world_run(w, 3600 * S); /* the server has waited more than once and still runs */
    refused(w, THIEF);
    cm_server_gone(w->hosts[SERVER].cm, server, w->now_ns);
    world_run(w, 1100 * MS);
    assert_int_equal(wait_as(w, THIEF, 9, 77), 0);
    world_free(w);
}

/* A server works for its first client for a long time. Then two processes of a server wait by
 * turns, with pauses. In both cases the user still owns the discriminator. */
static void test_before_the_second_wait(void **state)
{
    struct world *w = world_new(2, 406);
    struct cm *cm = w->hosts[SERVER].cm;

    assert_int_equal(wait_as(w, OWN, 1, 5), 0);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 100 * S);
    refused(w, THIEF);
    cm_server_gone(cm, 5, w->now_ns);
    refused(w, THIEF);
    world_run(w, 1100 * MS);
    assert_int_equal(wait_as(w, THIEF, 2, 77), 0);
    assert_true(cm_unwait(cm, 2, w->now_ns));
    world_run(w, 1100 * MS);
    /* The user stays the owner if no request arrives, and if one of the two processes ends. */
    for (uint64_t wait = 3; wait < 7; wait++) {
        assert_int_equal(wait_as(w, OWN, wait, 5 + wait % 2), 0);
        world_run(w, 300 * MS);
        assert_true(cm_unwait(cm, wait, w->now_ns));
        world_run(w, wait < 6 ? 500 * MS : 100 * S);
    }
    refused(w, THIEF);
    cm_server_gone(cm, 5, w->now_ns);
    world_run(w, 100 * S);
    refused(w, THIEF);
    cm_server_gone(cm, 6, w->now_ns);
    world_run(w, 1100 * MS);
    assert_int_equal(wait_as(w, THIEF, 9, 77), 0);
    world_free(w);
}

/* One user has more server processes at a discriminator than vipd remembers (CM_DISC_SERVERS). */
static void test_many_servers(void **state)
{
    struct world *w = world_new(2, 407);
    struct cm *cm = w->hosts[SERVER].cm;

    for (uint64_t server = 0; server < 2 * CM_DISC_SERVERS; server++) {
        assert_int_equal(wait_as(w, OWN, server, server), 0);
        assert_true(cm_unwait(cm, server, w->now_ns));
    }
    /* The last server waits again, then server 0. vipd records server 0 and forgets the oldest. */
    assert_int_equal(wait_as(w, OWN, 98, 2 * CM_DISC_SERVERS - 1), 0);
    assert_true(cm_unwait(cm, 98, w->now_ns));
    assert_int_equal(wait_as(w, OWN, 99, 0), 0);
    assert_true(cm_unwait(cm, 99, w->now_ns));
    for (uint64_t server = 2 * CM_DISC_SERVERS; server-- > CM_DISC_SERVERS + 1;) {
        world_run(w, 100 * S);
        refused(w, THIEF);
        cm_server_gone(cm, server, w->now_ns);
    }
    world_run(w, 100 * S);
    refused(w, THIEF);
    cm_server_gone(cm, 0, w->now_ns);
    world_run(w, 1100 * MS);
    assert_int_equal(wait_as(w, THIEF, 9, 77), 0);
    world_free(w);
}

/* Requests of other hosts do not make an owner. They also do not prolong the ownership after a
 * server has stopped waiting. */
static void test_requests_own_nothing(void **state)
{
    struct world *w = world_new(2, 403);

    assert_int_equal(wait_as(w, OWN, 1, 5), 0);
    assert_true(cm_unwait(w->hosts[SERVER].cm, 1, w->now_ns));
    for (unsigned i = 0; i < 20; i++) {
        host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
        world_run(w, 100 * MS);
    }
    assert_int_equal(wait_as(w, THIEF, 2, 77), 0);
    refused(w, OWN);
    world_free(w);
}

/* The local discriminator of a peer-to-peer request has an owner, too. */
static void test_peers(void **state)
{
    struct world *w = world_new(2, 404);

    assert_int_equal(peer_as(w, OWN, 0), 0);
    refused(w, THIEF);
    assert_int_equal(peer_as(w, OWN, 1), 0);
    world_run(w, 400 * MS);
    refused(w, THIEF);
    world_run(w, 200 * MS); /* both requests have timed out */
    assert_int_equal(w->hosts[SERVER].requests[1].rc, VIP_RC_TIMEOUT);
    refused(w, THIEF);
    world_run(w, 1 * S);
    assert_int_equal(peer_as(w, THIEF, 2), 0);
    world_free(w);
}

/* One user can own only a part of the discriminators without waiter. Other users still get some. */
static void test_lingering_share(void **state)
{
    struct world *w = world_new(2, 405);
    struct cm *cm = w->hosts[SERVER].cm;

    for (uint32_t i = 0; i < 6000; i++) {
        assert_int_equal(cm_wait(cm, 100 + i, 77, THIEF, (const uint8_t *)&i, 4, w->now_ns), 0);
        assert_true(cm_unwait(cm, 100 + i, w->now_ns));
    }
    assert_in_range(w->hosts[SERVER].allocs, 1024, 1030);
    assert_int_equal(wait_as(w, OWN, 1, 5), 0);
    assert_true(cm_unwait(cm, 1, w->now_ns));
    refused(w, THIEF);
    world_run(w, 3 * S);
    assert_int_equal(w->hosts[SERVER].allocs, 0);
    world_free(w);
}

/* A server of this user waits once at discriminator number i. With `settle` the server waits twice,
 * so the user owns the discriminator until the server ends. */
static int waits_at(struct world *w, uint32_t uid, uint32_t i, bool settle)
{
    struct cm *cm = w->hosts[SERVER].cm;
    uint8_t name[] = {'n', (uint8_t)uid, (uint8_t)(i >> 8), (uint8_t)i};

    for (unsigned n = settle ? 2 : 1; n; n--) {
        int rc = cm_wait(cm, 7, uid, uid, name, sizeof(name), w->now_ns);

        if (rc)
            return rc;
        assert_true(cm_unwait(cm, 7, w->now_ns));
    }
    return 0;
}

static bool owns(struct world *w, uint32_t uid, uint32_t i)
{
    const uint8_t name[] = {'n', (uint8_t)uid, (uint8_t)(i >> 8), (uint8_t)i};

    return cm_disc_of_other(w->hosts[SERVER].cm, name, sizeof(name), uid + 1, w->now_ns);
}

/* Some users have thousands of discriminators. A user with 20 servers still owns the discriminators
 * of these servers. Its other discriminators, which linger for a second, do not replace them. */
static void full_of_names(bool settled)
{
    enum { HOGS = 5, EACH = 1500, SERVERS = 20 };
    struct world *w = world_new(2, 410);
    struct cm *cm = w->hosts[SERVER].cm;

    for (uint32_t i = 0; i < SERVERS / 2; i++)
        assert_int_equal(waits_at(w, OWN, i, true), 0);
    for (uint32_t i = 0; i < EACH; i++)
        for (uint32_t hog = 0; hog < HOGS; hog++)
            assert_int_equal(waits_at(w, 3000 + 2 * hog, i, settled), 0);
    for (uint32_t i = SERVERS / 2; i < SERVERS; i++)
        assert_int_equal(waits_at(w, OWN, i, true), 0);
    for (uint32_t i = 0; i < EACH; i++) {
        assert_int_equal(waits_at(w, OWN, SERVERS + i, false), 0);
        assert_int_equal(waits_at(w, 3000, EACH + i, settled), 0);
    }
    assert_in_range(cm->pool_used[CM_POOL_LINGER], 4096, 4096 + 256);
    world_run(w, 100 * S);
    for (uint32_t i = 0; i < SERVERS; i++)
        assert_true(owns(w, OWN, i));
    /* User 3000 owns its newest discriminator if it has a server there, but not its oldest. */
    assert_int_equal(owns(w, 3000, 2 * EACH - 1), settled);
    assert_false(owns(w, 3000, 0));
    cm_server_gone(cm, OWN, w->now_ns);
    world_run(w, 2 * S);
    for (uint32_t i = 0; i < SERVERS; i++)
        assert_false(owns(w, OWN, i));
    world_free(w);
}

static void test_full_of_brief_names(void **state)
{
    full_of_names(false);
}

static void test_full_of_servers(void **state)
{
    full_of_names(true);
}

/* A limit refuses a wait. The refusal changes nothing: the waiting user does not become the owner,
 * and vipd keeps the record of the other user's server that stopped waiting there. */
static void test_refused_by_a_limit(void **state)
{
    struct world *w = world_new(2, 408);
    struct cm *cm = w->hosts[SERVER].cm;
    const uint8_t *svc = (const uint8_t *)"svc", *other = (const uint8_t *)"other";
    struct cm_disc *disc;
    uint64_t wait = 1000;

    assert_int_equal(wait_as(w, OWN, 1, 5), 0);
    assert_true(cm_unwait(cm, 1, w->now_ns));
    world_run(w, 950 * MS);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    /* The discriminator still exists because of the request, but any user may wait there. */
    world_run(w, 100 * MS);
    while (!cm_listen(cm, wait, THIEF, (const uint8_t *)"thief", 5, 1, w->now_ns))
        wait++;
    assert_int_equal(wait_as(w, THIEF, 50, 77), -ENOMEM);
    assert_int_equal(listen_as(w, THIEF, 51), -ENOMEM);
    disc = cm_disc_find(cm, svc, 3);
    assert_true(disc && disc->owner && cm_disc_served_by(disc, 5));
    assert_int_equal(cm_holder_uid(disc->owner), OWN);
    assert_int_equal(cm_wait(cm, 52, 77, THIEF, other, 5, w->now_ns), -ENOMEM);
    assert_null(cm_disc_find(cm, other, 5));
    assert_int_equal(wait_as(w, OWN, 2, 5), 0);
    world_free(w);
}

/* Without memory a peer-to-peer request is refused, and its discriminator does not exist. */
static void test_refused_for_memory(void **state)
{
    struct world *w = world_new(2, 409);
    struct host *host = &w->hosts[SERVER];
    int rc = -ENOMEM;

    for (long n = 0; rc; n++) {
        host->fail_after = n;
        rc = peer_as(w, THIEF, 0);
        host->fail_after = -1;
        assert_true(!rc || !cm_disc_find(host->cm, (const uint8_t *)"svc", 3));
    }
    assert_int_equal(rc, 0);
    world_free(w);
}

/* vipd knows which user sent a pending request only if it is a user of this host. */
static void test_client_user(void **state)
{
    struct world *w = world_new(2, 406);
    struct host *server = &w->hosts[SERVER];
    uint32_t uid = 1;

    assert_int_equal(listen_as(w, OWN, 1), 0);
    w->uid = 3003;
    host_request(w, SERVER, SERVER, "svc", FOR_EVER);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(server->incoming_count, 2);
    for (unsigned i = 0; i < 2; i++) {
        bool local = server->incoming[i].remote.host[3] == server->addr.bytes[3];

        assert_int_equal(cm_pending_user(server->cm, server->incoming[i].handle, &uid),
                         local ? 0 : -EREMOTE);
    }
    assert_int_equal(uid, 3003);
    assert_int_equal(cm_pending_user(server->cm, 12345, &uid), -ENOENT);
    world_free(w);
}

/* The next life of a vipd keeps a discriminator for its owner, for a limited time. */
static void test_kept(void **state)
{
    struct world *w = world_new(2, 420);
    struct cm *cm = w->hosts[SERVER].cm;
    const uint8_t *name = (const uint8_t *)"svc";
    uint8_t long_name[VIP_DISCRIMINATOR_BYTES_MAX + 1] = {0};

    (void)state;
    assert_int_equal(cm_disc_keep(cm, long_name, sizeof(long_name), OWN, w->now_ns + S, w->now_ns),
                     -EINVAL);
    assert_int_equal(cm_disc_keep(cm, name, 3, OWN, w->now_ns + 10 * S, w->now_ns), 0);
    assert_int_equal(cm_disc_keep(cm, name, 3, THIEF, w->now_ns + 10 * S, w->now_ns), -EPERM);
    assert_int_equal(w->hosts[SERVER].owned, 1);
    world_run(w, 9 * S);
    refused(w, THIEF);
    /* The owner's program waits at the discriminator for a moment. */
    assert_int_equal(wait_as(w, OWN, 1, 1), 0);
    assert_true(cm_unwait(cm, 1, w->now_ns));
    refused(w, THIEF);
    world_run(w, 3 * S);
    assert_int_equal(w->hosts[SERVER].owned, 0);
    assert_int_equal(wait_as(w, THIEF, 2, 2), 0);
    assert_int_equal(w->hosts[SERVER].owned, 1);
    assert_true(cm_unwait(cm, 2, w->now_ns));
    /* No program waits at this discriminator, so its owner loses it after the 4 s. */
    assert_int_equal(cm_disc_keep(cm, long_name, 5, OWN, w->now_ns + 4 * S, w->now_ns), 0);
    world_run(w, 5 * S);
    assert_int_equal(w->hosts[SERVER].owned, 0);
    world_free(w);
}

/* vipd keeps a discriminator for its program; meanwhile requests of clients wait. If the program
 * waits, it gets the request. If the program has waited and ended, vipd does not expect it again.
 * If the program never waits, the requests wait only while vipd keeps the discriminator. */
static void test_clients_of_a_kept_one(void **state)
{
    struct world *w = world_new(2, 421);
    struct host *client = &w->hosts[CLIENT];
    struct cm *cm = w->hosts[SERVER].cm;
    const uint8_t *name = (const uint8_t *)"svc";

    assert_int_equal(cm_disc_keep(cm, name, 3, OWN, w->now_ns + 10 * S, w->now_ns), 0);
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 9 * S);
    assert_int_equal(client->requests[0].done, 0);
    assert_int_equal(w->hosts[SERVER].incoming_count, 0);
    assert_int_equal(wait_as(w, OWN, 1, 1), 0);
    world_run(w, 10 * MS);
    assert_int_equal(w->hosts[SERVER].incoming_count, 1);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 10 * MS);
    assert_int_equal(client->requests[0].done, 1);
    assert_int_equal(client->requests[0].rc, VIP_RC_SUCCESS);

    name = (const uint8_t *)"two";
    assert_int_equal(cm_disc_keep(cm, name, 3, OWN, w->now_ns + 10 * S, w->now_ns), 0);
    host_request(w, CLIENT, SERVER, "two", FOR_EVER);
    world_run(w, 9 * S);
    assert_int_equal(client->requests[1].done, 0);
    world_run(w, 1 * S + 500 * MS);
    assert_int_equal(client->requests[1].done, 1);
    assert_int_equal(client->requests[1].rc, VIP_RC_NO_MATCH);

    name = (const uint8_t *)"tri";
    assert_int_equal(cm_disc_keep(cm, name, 3, OWN, w->now_ns + 10 * S, w->now_ns), 0);
    assert_int_equal(cm_wait(cm, 2, 1, OWN, name, 3, w->now_ns), 0);
    assert_true(cm_unwait(cm, 2, w->now_ns));
    world_run(w, 2 * S);
    host_request(w, CLIENT, SERVER, "tri", FOR_EVER);
    world_run(w, 1 * S);
    assert_int_equal(client->requests[2].done, 1);
    assert_int_equal(client->requests[2].rc, VIP_RC_NO_MATCH);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_clients_of_a_kept_one),
        cmocka_unit_test(test_nothing_stolen),
        cmocka_unit_test(test_while_it_waits),
        cmocka_unit_test(test_between_two_waits),
        cmocka_unit_test(test_before_the_second_wait),
        cmocka_unit_test(test_many_servers),
        cmocka_unit_test(test_requests_own_nothing),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_lingering_share),
        cmocka_unit_test(test_full_of_brief_names),
        cmocka_unit_test(test_full_of_servers),
        cmocka_unit_test(test_refused_by_a_limit),
        cmocka_unit_test(test_refused_for_memory),
        cmocka_unit_test(test_client_user),
    };

    return cmocka_run_group_tests_name("engine_cm_owner", tests, NULL, NULL);
}
