/*
 * Connection manager: REBIND. A vipd has ended, and its next life goes on with the connections.
 * These tests check the reports of each manager to its host. simrun --pair --rebind checks that no
 * operation is lost or done twice.
 */
#include "tests/unit/cm_rebind.h"

/* One end is restarted, the other end runs on. Each end gets the counts of the other end. */
static void test_one_end(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        struct conn *c[2];
        struct world *w = world_of(1 + end, &c[CLIENT], &c[SERVER]);
        struct attempt *attempt = restart(w, end, c[end]);
        struct conn *now = &w->hosts[end].conns[0], *other = c[!end];
        uint64_t packets = w->packets;

        world_run(w, 5 * MS);
        assert_int_equal(attempt->rc, VIP_RC_SUCCESS);
        /* After the REBIND, hosts send CHALLENGE, PROOF, PROOF. The other end also asks the unknown
         * new life for its epoch: PING, PONG. */
        assert_int_equal(w->packets - packets, 5);
        bound(w, now, other);
        assert_int_equal(other->rebound, 1);
        assert_int_equal(other->theirs.done, end == CLIENT ? 5 : 11);
        assert_int_equal(now->theirs.done, end == CLIENT ? 11 : 5);
        if (end == CLIENT) {
            assert_int_equal(other->theirs.reads, 2);
            assert_int_equal(other->theirs.read[1], 9);
        }
        /* The other end uses the window size of the new life. */
        assert_int_equal(other->info.window_bytes, world_config.window_bytes + 1000 * end);
        world_run(w, 60 * S);
        assert_true(now->alive && other->alive);
        host_close(w, !end, other);
        world_run(w, 1 * S);
        assert_int_equal(now->closed, 1);
        world_free(w);
    }
}

/* Two hosts are far apart, so answers arrive after several repetitions. */
static void test_far(void **state)
{
    static const uint64_t way_ms[] = {20, 60, 150, 400};

    for (unsigned i = 0; i < 4; i++) {
        struct conn *c, *s;
        struct world *w = world_of(40 + i, &c, &s);
        struct attempt *attempt;

        w->delay_min_ns = way_ms[i] * MS;
        attempt = restart(w, CLIENT, c);
        world_run(w, 4 * S);
        assert_int_equal(attempt->rc, VIP_RC_SUCCESS);
        bound(w, &w->hosts[CLIENT].conns[0], s);
        world_free(w);
    }
}

/* Both ends are restarted at once: one exchange binds both. */
static void test_both_ends(void **state)
{
    struct conn *c, *s;
    struct world *w = world_of(3, &c, &s);
    struct conn was = *s;
    struct attempt *client = restart(w, CLIENT, c), *server;

    server = restart(w, SERVER, &was);
    world_run(w, 1 * S);
    assert_int_equal(client->rc, VIP_RC_SUCCESS);
    assert_int_equal(server->rc, VIP_RC_SUCCESS);
    bound(w, &w->hosts[CLIENT].conns[0], &w->hosts[SERVER].conns[0]);
    assert_int_equal(w->hosts[CLIENT].conns[0].theirs.done, 11);
    assert_int_equal(w->hosts[SERVER].conns[0].theirs.done, 5);
    world_free(w);
}

/* A vipd with connections between its own programs is restarted, and rebinds both ends of them. */
static void test_self(void **state)
{
    struct world *w = world_new(1, 4);
    struct host *host = &w->hosts[0];
    struct cm_rebind_args args[2];
    struct conn was[2];

    host_feature(w, 0, FEATURES);
    host_listen(w, 0, 1, "svc");
    host_request(w, 0, 0, "svc", FOR_EVER);
    world_run(w, 5 * MS);
    assert_int_equal(host_accept(w, 0, 0), 0);
    world_run(w, 5 * MS);
    assert_int_equal(host->conn_count, 2);
    memcpy(was, host->conns, sizeof(was));
    bound(w, &was[0], &was[1]);
    host_kill(w, 0);
    host_start(w, 0);
    for (unsigned i = 0; i < 2; i++) {
        args[i] = rebind_args(w, 0, 0, &was[i]);
        assert_int_equal(cm_rebind(host->cm, &args[i], w->now_ns), 0);
    }
    world_run(w, 1 * S);
    assert_int_equal(host->conn_count, 2);
    bound(w, &host->conns[0], &host->conns[1]);
    world_free(w);
}

/* The first n messages of the exchange are lost. Still each end is bound exactly once. */
static void test_lost(void **state)
{
    for (unsigned n = 0; n < 12; n++) {
        struct conn *c, *s;
        struct world *w = world_of(10 + n, &c, &s);
        struct attempt *attempt;

        w->filter = drop_some;
        lost_left = n;
        attempt = restart(w, CLIENT, c);
        world_run(w, 4 * S);
        assert_int_equal(attempt->rc, VIP_RC_SUCCESS);
        bound(w, &w->hosts[CLIENT].conns[0], s);
        assert_int_equal(s->rebound, 1);
        world_free(w);
    }
}

static unsigned only_lost;

static bool drop_nth(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return msg->type < VIP_CM_REBIND || only_lost-- != 0;
}

/* Only the n-th message of the exchange, counted over both directions, is lost. */
static void test_one_lost(void **state)
{
    for (unsigned n = 0; n < 6; n++) {
        struct conn *c, *s;
        struct world *w = world_of(30 + n, &c, &s);
        struct attempt *attempt;

        w->filter = drop_nth;
        only_lost = n;
        attempt = restart(w, CLIENT, c);
        world_run(w, 4 * S);
        assert_int_equal(attempt->rc, VIP_RC_SUCCESS);
        bound(w, &w->hosts[CLIENT].conns[0], s);
        assert_int_equal(s->rebound, 1);
        world_free(w);
    }
}

/* The peer detects a new life, but no REBIND arrives. After outlive_ns the connection is lost. */
static void test_outlive(void **state)
{
    for (unsigned late = 0; late < 2; late++) {
        struct conn *c, *s;
        struct world *w = world_of(40 + late, &c, &s);
        struct conn was = *c;
        struct cm_rebind_args args;

        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        host_request(w, CLIENT, SERVER, "other", 1 * S); /* the server detects the new life */
        world_run(w, late ? 11 * S : 9 * S);
        assert_int_equal(s->lost, late);
        args = rebind_args(w, CLIENT, SERVER, &was);
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_run(w, 1 * S);
        assert_int_equal(w->hosts[CLIENT].requests[args.user].rc,
                         late ? VIP_RC_NO_MATCH : VIP_RC_SUCCESS);
        world_run(w, 30 * S);
        assert_int_equal(s->lost, late);
        world_free(w);
    }
}

/* Both vipd are restarted. The program of one end claims its session two seconds after the program
 * of the other end. The ends still rebind. */
static void test_other_end_comes_later(void **state)
{
    for (unsigned first = 0; first < 2; first++) {
        struct conn *c[2], was[2];
        struct world *w = world_of(45 + first, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args[2];

        for (unsigned i = 0; i < 2; i++) {
            was[i] = *c[i];
            host_kill(w, i);
            host_start(w, i);
        }
        args[first] = rebind_args(w, first, !first, &was[first]);
        assert_int_equal(cm_rebind(w->hosts[first].cm, &args[first], w->now_ns), 0);
        world_run(w, 2 * S);
        args[!first] = rebind_args(w, !first, first, &was[!first]);
        assert_int_equal(cm_rebind(w->hosts[!first].cm, &args[!first], w->now_ns), 0);
        world_run(w, 2 * S);
        bound(w, &w->hosts[CLIENT].conns[0], &w->hosts[SERVER].conns[0]);
        world_free(w);
    }
}

/* Without a secret (the peer has an older vipd) the connection is lost at once. */
static void test_without(void **state)
{
    struct world *w = world_new(2, 50);
    struct cm_rebind_args args;
    struct conn *c, *s, was;

    w->outlive_ns = 10 * S;
    host_feature(w, CLIENT, FEATURES);
    host_feature(w, SERVER, VIP_FEATURES);
    connect_pair(w, &c, &s);
    assert_true(c->info.features == VIP_FEATURES);
    was = *c;
    world_run(w, 11 * S); /* the server's life no longer counts as new */
    host_kill(w, CLIENT);
    host_start(w, CLIENT);
    args = rebind_args(w, CLIENT, SERVER, &was);
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
    world_run(w, 2 * S);
    assert_int_equal(w->hosts[CLIENT].requests[args.user].rc, VIP_RC_NO_MATCH);
    assert_int_equal(s->lost, 1);
    /* A vipd that lacks a feature of the connection does not try to rebind it. */
    args = rebind_args(w, CLIENT, SERVER, &was);
    args.features = FEATURES | 1ull << 40;
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), -EPROTO);
    world_free(w);
}

/* The server refuses impossible counts of the client: both ends learn of the connection's end. */
static void test_false_counts(void **state)
{
    struct conn *c, *s;
    struct world *w = world_of(60, &c, &s);
    struct attempt *attempt;

    w->hosts[SERVER].refuse_counts = true;
    attempt = restart(w, CLIENT, c);
    world_run(w, 20 * S);
    assert_int_equal(s->lost, 1);
    assert_true(attempt->done == 1 && attempt->rc != VIP_RC_SUCCESS);
    assert_int_equal(w->hosts[CLIENT].conn_count, 0);
    world_free(w);
}

/* A forger knows all messages but not the secret. Old messages, changed messages and messages in
 * another role change nothing: the true end keeps the connection. */
static void test_forged(void **state)
{
    struct conn *c, *s, *now;
    struct world *w = world_of(70, &c, &s);
    struct attempt *attempt;

    heard_count = 0;
    w->filter = hear;
    attempt = restart(w, CLIENT, c);
    world_run(w, 5 * MS);
    assert_int_equal(attempt->rc, VIP_RC_SUCCESS);
    assert_int_equal(heard_count, 4);
    now = &w->hosts[CLIENT].conns[0];
    /* Send each message again, to either host, in the epoch of its sender and in other epochs. */
    for (unsigned i = 0; i < 4; i++)
        for (unsigned to = 0; to < 2; to++)
            for (unsigned e = 0; e < 3; e++)
                inject(w, !to, to, e == 2 ? 4711 : w->hosts[e].epoch, w->hosts[to].epoch,
                       &heard[i]);
    world_run(w, 1 * S);
    assert_int_equal(s->rebound, 1);
    bound(w, now, s);
    /* A host without the secret sends REBIND and gets a CHALLENGE. Its PROOFs are refused. */
    heard_count = 0;
    inject(w, CLIENT, SERVER, 4711, w->hosts[SERVER].epoch,
           &(struct vip_cm){
               .type = VIP_CM_REBIND, .request_id = 99, .conn_id = 0x1234, .tag = heard[0].tag});
    assert_int_equal(heard[0].type, VIP_CM_CHALLENGE);
    for (unsigned bit = 0; bit < 64; bit++) {
        struct vip_cm proof = heard[2];

        proof.request_id = 99;
        proof.nonce = heard[0].nonce;
        proof.conn_id = 0x1234;
        proof.peer_conn_id = heard[0].conn_id;
        heard_items[2][proof.items.len - 8 + bit / 8] ^= (uint8_t)(1 << bit % 8);
        inject(w, CLIENT, SERVER, 4711, w->hosts[SERVER].epoch, &proof);
        heard_items[2][proof.items.len - 8 + bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    assert_int_equal(s->rebound, 1);
    world_run(w, 20 * S);
    bound(w, now, s);
    assert_int_equal(s->lost + now->lost, 0);
    world_free(w);
}

/* In a bad network one end or both restart, again and again. Each time they are bound anew. */
static void test_again_and_again(void **state)
{
    for (uint64_t seed = 100; seed < 130; seed++) {
        struct conn *c[2], was[2];
        struct world *w = world_of(seed, &c[CLIENT], &c[SERVER]);

        w->loss_percent = seed % 3 ? 30 : 0;
        w->dup_percent = 20;
        w->delay_spread_ns = 20 * MS;
        for (unsigned round = 0; round < 20; round++) {
            unsigned ends = 1 + (unsigned)(world_random(w) % 3);

            was[0] = *c[0];
            was[1] = *c[1];
            for (unsigned end = 0; end < 2; end++)
                if (ends >> end & 1)
                    (void)restart(w, end, &was[end]);
            world_run(w, 5 * S + 5 * S);
            for (unsigned end = 0; end < 2; end++) {
                if (!(ends >> end & 1))
                    continue;
                c[end] = &w->hosts[end].conns[w->hosts[end].conn_count - 1];
                if (w->hosts[end].conn_count != 1)
                    fail_msg("seed %llu, round %u: end %u of %u was not bound",
                             (unsigned long long)seed, round, end, ends);
            }
            bound(w, c[0], c[1]);
            assert_int_equal(c[0]->theirs.done, was[1].counts.done);
            assert_int_equal(c[1]->theirs.done, was[0].counts.done);
            c[0]->counts.done = (uint32_t)world_random(w);
            c[1]->counts.done = (uint32_t)world_random(w);
        }
        world_free(w);
    }
}

static void test_no_memory(void **state)
{
    for (long n = 0; n < 8; n++) {
        struct conn *c, *s;
        struct world *w = world_of(200 + (uint64_t)n, &c, &s);
        struct conn was = *c;
        struct cm_rebind_args args;

        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        args = rebind_args(w, CLIENT, SERVER, &was);
        w->hosts[CLIENT].fail_after = n;
        if (cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns) == -ENOMEM) {
            w->hosts[CLIENT].fail_after = -1;
            assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        }
        world_run(w, 500 * MS);
        w->hosts[CLIENT].fail_after = -1;
        world_run(w, 4 * S);
        assert_int_equal(w->hosts[CLIENT].requests[args.user].rc, VIP_RC_SUCCESS);
        world_free(w);
    }
}

/* A second rebind of the same connection is refused. */
static void test_twice(void **state)
{
    struct conn *c, *s;
    struct world *w = world_of(320, &c, &s);
    struct conn was = *c;
    struct cm_rebind_args args;

    host_kill(w, CLIENT);
    host_start(w, CLIENT);
    args = rebind_args(w, CLIENT, SERVER, &was);
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), -EALREADY);
    world_run(w, 1 * S);
    assert_int_equal(w->hosts[CLIENT].requests[args.user].rc, VIP_RC_SUCCESS);
    bound(w, &w->hosts[CLIENT].conns[0], s);
    world_free(w);
}

static bool drop_proofs(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return hear(w, from, to, msg) && msg->type != VIP_CM_PROOF;
}

/* A peer sends one CHALLENGE after the other, each with another nonce. They do not prolong the time
 * limit of the rebind. */
static void test_challenged_for_ever(void **state)
{
    struct conn *c, *s;
    struct world *w = world_of(330, &c, &s);
    struct attempt *attempt;

    heard_count = 0;
    w->filter = drop_proofs;
    attempt = restart(w, CLIENT, c);
    world_run(w, 5 * MS);
    assert_int_equal(heard[1].type, VIP_CM_CHALLENGE);
    for (unsigned i = 0; i < 100; i++) {
        heard[1].nonce++;
        inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &heard[1]);
        world_run(w, 100 * MS);
    }
    assert_true(attempt->done == 1 && attempt->rc == VIP_RC_TIMEOUT);
    world_free(w);
}

static bool drop_setup_of_client(struct world *w, unsigned from, unsigned to,
                                 const struct vip_cm *msg)
{
    return msg->type != VIP_CM_SETUP || from != CLIENT;
}

/* A connection whose ends have already sent their features keeps these through a reload. */
static void test_reload(void **state)
{
    struct cm_config config = world_config;
    struct world *w = world_new(2, 340);
    struct conn *c, *s;

    w->outlive_ns = config.outlive_ns = 10 * S;
    config.features = FEATURES;
    for (unsigned i = 0; i < 2; i++)
        cm_set_config(w->hosts[i].cm, &config);
    w->filter = drop_setup_of_client;
    host_listen(w, SERVER, 1, "svc");
    host_request(w, CLIENT, SERVER, "svc", FOR_EVER);
    world_run(w, 1 * MS);
    assert_int_equal(host_accept(w, SERVER, 0), 0);
    world_run(w, 1 * MS);
    assert_int_equal(w->hosts[CLIENT].conn_count, 1);
    assert_int_equal(w->hosts[SERVER].conn_count, 0);
    config.features = VIP_FEATURES;
    for (unsigned i = 0; i < 2; i++)
        cm_set_config(w->hosts[i].cm, &config);
    w->filter = NULL;
    world_run(w, 600 * MS);
    bound(w, &w->hosts[CLIENT].conns[0], &w->hosts[SERVER].conns[0]);
    connect_pair(w, &c, &s);
    assert_true(c->info.features == VIP_FEATURES && s->info.features == VIP_FEATURES);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_end),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_both_ends),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_one_lost),
        cmocka_unit_test(test_outlive),
        cmocka_unit_test(test_other_end_comes_later),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_false_counts),
        cmocka_unit_test(test_forged),
        cmocka_unit_test(test_again_and_again),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_challenged_for_ever),
        cmocka_unit_test(test_reload),
    };

    return cmocka_run_group_tests_name("engine_cm_rebind", tests, NULL, NULL);
}
