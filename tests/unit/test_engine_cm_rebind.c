/*
 * Connection manager: REBIND. A vipd is gone, and its next life goes on with the connections. The tests say what each
 * manager reports to its host; that no operation is lost or done twice is shown by the engine (simrun --pair --rebind).
 */
#include "tests/unit/cm_world_run.h"

#define FEATURES (VIP_FEATURES | VIP_FEATURE_REBIND)

/* Two hosts with a connection that can be rebound. */
static struct world *world_of(uint64_t seed, struct conn **client, struct conn **server)
{
    struct world *w = world_new(2, seed);

    w->outlive_ns = 10 * S;
    host_feature(w, CLIENT, FEATURES);
    host_feature(w, SERVER, FEATURES);
    connect_pair(w, client, server);
    (*client)->counts = (struct vip_counts){.done = 5, .reads = 2, .read = {7, 9}};
    (*server)->counts = (struct vip_counts){.done = 11};
    return w;
}

static struct cm_rebind_args rebind_args(struct world *w, unsigned index, unsigned other,
                                         const struct conn *was)
{
    struct host *host = &w->hosts[index];
    unsigned user = host->request_count++;
    struct cm_rebind_args args = {.user = user,
                                  .local_id = (uint64_t)(index + 1) << 32 | ++host->id_counter,
                                  .remote = w->hosts[other].addr,
                                  .secret = was->info.secret,
                                  .asked = was->info.asked,
                                  .features = was->info.features,
                                  .counts = was->counts,
                                  .timeout_ns = 5 * S};

    host->requests[user] = (struct attempt){
        .used = true, .rc = VIP_RC_NOT_DONE, .local_id = args.local_id, .counts = was->counts};
    return args;
}

/* The host has a new life, which goes on with the connection `was`. */
static struct attempt *restart(struct world *w, unsigned index, const struct conn *was)
{
    struct conn old = *was;
    struct cm_rebind_args args;

    host_kill(w, index);
    host_start(w, index);
    args = rebind_args(w, index, !index, &old);
    assert_int_equal(cm_rebind(w->hosts[index].cm, &args, w->now_ns), 0);
    return &w->hosts[index].requests[args.user];
}

static void bound(struct world *w, const struct conn *a, const struct conn *b)
{
    assert_true(a->alive && b->alive);
    assert_true(a->local_id == b->remote_id && b->local_id == a->remote_id);
    assert_memory_equal(&a->info.secret, &b->info.secret, sizeof(a->info.secret));
    assert_true(a->info.asked != b->info.asked);
    assert_true(a->info.features == FEATURES && b->info.features == FEATURES);
    for (unsigned i = 0; i < w->host_count; i++)
        assert_int_equal(stats_of(w, i).malformed, 0);
}

/* Either end is restarted; the other end goes on, with the counts of both. */
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
        /* After the REBIND: CHALLENGE, PROOF, PROOF. And the other end asks who the new life is: PING, PONG. */
        assert_int_equal(w->packets - packets, 5);
        bound(w, now, other);
        assert_int_equal(other->rebound, 1);
        assert_int_equal(other->theirs.done, end == CLIENT ? 5 : 11);
        assert_int_equal(now->theirs.done, end == CLIENT ? 11 : 5);
        if (end == CLIENT) {
            assert_int_equal(other->theirs.reads, 2);
            assert_int_equal(other->theirs.read[1], 9);
        }
        /* The sizes of the new life hold. */
        assert_int_equal(other->info.window_bytes, world_config.window_bytes + 1000 * end);
        world_run(w, 60 * S);
        assert_true(now->alive && other->alive);
        host_close(w, !end, other);
        world_run(w, 1 * S);
        assert_int_equal(now->closed, 1);
        world_free(w);
    }
}

/* Hosts that are far from each other: answers come after several repetitions. */
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

/* A vipd with connections among its own programs. */
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

static unsigned lost_left;

/* Lose each message of a rebind the first `lost_left` times. */
static bool drop_some(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type < VIP_CM_REBIND || !lost_left)
        return true;
    lost_left--;
    return false;
}

/* The first n messages of the exchange are lost: both ends are bound once. */
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

/* Only the n-th message is lost, in both directions; the server's PROOF, too. */
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

/* A new life that is heard of before its REBIND: the connection waits for outlive_ns, then it is lost. */
static void test_outlive(void **state)
{
    for (unsigned late = 0; late < 2; late++) {
        struct conn *c, *s;
        struct world *w = world_of(40 + late, &c, &s);
        struct conn was = *c;
        struct cm_rebind_args args;

        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        host_request(w, CLIENT, SERVER, "other", 1 * S); /* the server learns of the new life */
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

/* Both vipd are restarted, and the program of one end comes back two seconds after the other: it finds the other end. */
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

/* Without a secret (an older vipd) the connection is lost at once, as before. */
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
    world_run(w, 11 * S); /* the server is not new any more */
    host_kill(w, CLIENT);
    host_start(w, CLIENT);
    args = rebind_args(w, CLIENT, SERVER, &was);
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
    world_run(w, 2 * S);
    assert_int_equal(w->hosts[CLIENT].requests[args.user].rc, VIP_RC_NO_MATCH);
    assert_int_equal(s->lost, 1);
    /* A vipd that lacks a feature of the connection does not try. */
    args = rebind_args(w, CLIENT, SERVER, &was);
    args.features = FEATURES | 1ull << 40;
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), -EPROTO);
    world_free(w);
}

/* The host of the other end says that the counts cannot be: both ends learn that the connection is over. */
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

static struct vip_cm heard[32];
static unsigned heard_count;
static uint8_t heard_items[32][VIP_ITEMS_BYTES_MAX];

/* Remember the messages of the exchange; nothing is lost. */
static bool hear(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    if (msg->type < VIP_CM_REBIND || heard_count == 32)
        return true;
    heard[heard_count] = *msg;
    if (msg->items.len)
        memcpy(heard_items[heard_count], msg->items.bytes, msg->items.len);
    heard[heard_count].items.bytes = heard_items[heard_count];
    heard_count++;
    return true;
}

/*
 * Forgers that have heard everything but the secret. Old messages, changed messages and messages in another role change
 * nothing: the connection stays with the true end.
 */
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
    /* Each message again, to either host, in the epoch of its sender and of others. */
    for (unsigned i = 0; i < 4; i++)
        for (unsigned to = 0; to < 2; to++)
            for (unsigned e = 0; e < 3; e++)
                inject(w, !to, to, e == 2 ? 4711 : w->hosts[e].epoch, w->hosts[to].epoch,
                       &heard[i]);
    world_run(w, 1 * S);
    assert_int_equal(s->rebound, 1);
    bound(w, now, s);
    /* A host without the secret sends REBIND and gets a CHALLENGE. Each PROOF that it can make is refused. */
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

/* Random restarts of both ends in a bad network. While no more than one restart is under way, nothing is lost. */
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

static bool cancel(struct world *w, unsigned index, const struct cm_rebind_args *args)
{
    return cm_rebind_cancel(w->hosts[index].cm, args->user, VIP_CLOSE_DISCONNECT, w->now_ns);
}

/* A program ends while its connection waits for an answer of the other end, of which nothing has come. The other end
 * learns it as soon as messages get through, whichever of them are lost. */
static void test_cancel(void **state)
{
    for (unsigned n = 0; n < 24; n++) {
        struct conn *c[2], was, *other;
        struct world *w = world_of(300 + n, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args;
        unsigned end = n % 2;

        was = *c[end];
        other = c[!end];
        host_kill(w, end);
        host_start(w, end);
        args = rebind_args(w, end, !end, &was);
        args.timeout_ns = 10 * S;
        w->filter = drop_all;
        assert_int_equal(cm_rebind(w->hosts[end].cm, &args, w->now_ns), 0);
        world_run(w, 1 * S);
        assert_true(cancel(w, end, &args));
        assert_false(cancel(w, end, &args));
        w->filter = drop_some;
        lost_left = n / 2;
        world_run(w, 8 * S); /* the time of the rebind has not ended */
        assert_int_equal(w->hosts[end].requests[args.user].done, 0);
        assert_int_equal(other->closed, 1);
        assert_int_equal(other->lost + other->reset, 0);
        assert_int_equal(other->close.reason, VIP_CLOSE_DISCONNECT);
        world_run(w, 20 * S);
        assert_int_equal(w->hosts[end].conn_count, 0);
        world_free(w);
    }
}

/* Both ends wait for each other in a new life, and the program of one of them ends. Whichever messages are lost, the
 * other program learns that the connection is over, before its time ends. */
static void test_cancel_of_two(void **state)
{
    for (unsigned n = 0; n < 32; n++) {
        struct conn *c[2], was[2], *bound;
        struct world *w = world_of(340 + n, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args[2];
        unsigned end = n % 2;
        const struct attempt *other;

        for (unsigned i = 0; i < 2; i++) {
            was[i] = *c[i];
            host_kill(w, i);
            host_start(w, i);
        }
        w->filter = drop_all;
        for (unsigned i = 0; i < 2; i++) {
            args[i] = rebind_args(w, i, !i, &was[i]);
            args[i].timeout_ns = 8 * S;
            assert_int_equal(cm_rebind(w->hosts[i].cm, &args[i], w->now_ns), 0);
        }
        world_run(w, 1 * S);
        assert_true(cancel(w, end, &args[end]));
        w->filter = drop_some;
        lost_left = n / 2;
        world_run(w, 6 * S);
        other = &w->hosts[!end].requests[args[!end].user];
        bound = &w->hosts[!end].conns[0];
        assert_int_equal(other->done, 1);
        assert_true(other->rc == VIP_RC_SUCCESS ? bound->closed == 1
                                                : other->rc == VIP_RC_NO_MATCH);
        assert_int_equal(w->hosts[end].conn_count, 0);
        assert_int_equal(w->hosts[end].requests[args[end].user].done, 0);
        world_free(w);
    }
}

/* Nothing is repeated any more once the other end does not know the connection, or the time is over. */
static void test_cancel_ends(void **state)
{
    for (unsigned unknown = 0; unknown < 2; unknown++) {
        struct conn *c, *s, was;
        struct world *w = world_of(375 + unknown, &c, &s);
        struct cm_rebind_args args;
        uint64_t packets;

        was = *c;
        world_run(w, 11 * S); /* the server is not new any more */
        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        args = rebind_args(w, CLIENT, SERVER, &was);
        w->filter = drop_all;
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_run(w, 100 * MS);
        assert_true(cancel(w, CLIENT, &args));
        if (unknown) {
            host_kill(w, SERVER);
            w->outlive_ns = 0;
            host_start(w, SERVER);
            w->filter = NULL;
            world_run(w, 1 * S);
        } else {
            world_run(w, 5 * S);
        }
        w->filter = NULL;
        packets = stats_of(w, CLIENT).retransmits;
        world_run(w, 3 * S);
        assert_int_equal(stats_of(w, CLIENT).retransmits, packets);
        assert_int_equal(w->hosts[CLIENT].requests[args.user].done, 0);
        /* The same user may ask again. */
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_free(w);
    }
}

/* A CHALLENGE is no proof: the end that wants to close sends nothing but its own PROOF, and needs a true one. */
static void test_cancel_forged(void **state)
{
    struct conn *c, *s, was;
    struct world *w = world_of(380, &c, &s);
    struct cm_rebind_args args;
    struct vip_cm proof, challenge = {.type = VIP_CM_CHALLENGE, .conn_id = 0x77, .nonce = 5};

    was = *c;
    host_kill(w, CLIENT);
    host_start(w, CLIENT);
    args = rebind_args(w, CLIENT, SERVER, &was);
    heard_count = 0;
    w->filter = hear;
    assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
    assert_int_equal(heard[0].type, VIP_CM_REBIND);
    w->filter = drop_all;
    assert_true(cancel(w, CLIENT, &args));
    challenge.peer_conn_id = args.local_id;
    challenge.request_id = heard[0].request_id + 1; /* not the latest nonce */
    inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &challenge);
    assert_int_equal(stats_of(w, CLIENT).unexpected, 1);
    challenge.request_id--;
    inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &challenge);
    assert_int_equal(stats_of(w, CLIENT).closes_sent, 0);
    proof = (struct vip_cm){.type = VIP_CM_PROOF,
                            .request_id = challenge.request_id,
                            .nonce = challenge.nonce,
                            .conn_id = challenge.conn_id,
                            .peer_conn_id = args.local_id,
                            .packet_bytes = 8192,
                            .window_bytes = 65536};
    inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch, w->hosts[CLIENT].epoch, &proof);
    assert_int_equal(stats_of(w, CLIENT).closes_sent, 0);
    /* Data of an end that is bound: a CLOSE follows, so a RESET must not come first. */
    cm_unknown_conn(w->hosts[CLIENT].cm, &w->hosts[SERVER].addr,
                    &(struct vip_header){.conn_id = args.local_id, .src_epoch = 1}, w->now_ns);
    assert_int_equal(stats_of(w, CLIENT).resets_sent, 0);
    cm_unknown_conn(w->hosts[CLIENT].cm, &w->hosts[CLIENT].addr,
                    &(struct vip_header){.conn_id = args.local_id, .src_epoch = 1}, w->now_ns);
    assert_int_equal(stats_of(w, CLIENT).resets_sent, 1);
    w->filter = NULL; /* the true server answers, as before */
    world_run(w, 4 * S);
    assert_int_equal(s->closed, 1);
    world_free(w);
}

static bool drop_answer(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    return msg->type != VIP_CM_PROOF || from == CLIENT;
}

/* The server is bound anew, and its PROOF never arrives. The client gives up: by its time limit, or because its program
 * ends. The server learns that the connection is over. */
static void test_half_open(void **state)
{
    for (unsigned cancels = 0; cancels < 2; cancels++) {
        struct conn *c, *s, was;
        struct world *w = world_of(310 + cancels, &c, &s);
        struct cm_rebind_args args;

        was = *c;
        host_kill(w, CLIENT);
        host_start(w, CLIENT);
        args = rebind_args(w, CLIENT, SERVER, &was);
        w->filter = drop_answer;
        assert_int_equal(cm_rebind(w->hosts[CLIENT].cm, &args, w->now_ns), 0);
        world_run(w, 2 * S);
        assert_int_equal(s->rebound, 1);
        assert_true(s->alive);
        if (cancels)
            assert_true(cancel(w, CLIENT, &args));
        world_run(w, 5 * S);
        assert_int_equal(w->hosts[CLIENT].requests[args.user].done, !cancels);
        assert_int_equal(s->closed, 1);
        world_free(w);
    }
}

/* The server is bound anew, its PROOF does not arrive, and its program ends: its CLOSE ends the client's rebind, too. */
static void test_closed_half_open(void **state)
{
    struct conn *c, *s, was;
    struct world *w = world_of(315, &c, &s);
    struct attempt *attempt;
    struct vip_cm close = {.type = VIP_CM_CLOSE, .peer_conn_id = 0x99};

    was = *c;
    w->filter = drop_answer;
    attempt = restart(w, CLIENT, &was);
    world_run(w, 100 * MS);
    assert_int_equal(s->rebound, 1);
    /* CLOSE messages that name another end, or come from another life, change nothing. */
    for (unsigned i = 0; i < 3; i++) {
        close.conn_id = s->local_id + (i == 0);
        close.peer_conn_id = attempt->local_id + (i == 1);
        inject(w, SERVER, CLIENT, w->hosts[SERVER].epoch + (i == 2), w->hosts[CLIENT].epoch,
               &close);
    }
    assert_int_equal(attempt->done, 0);
    host_close(w, SERVER, s);
    world_run(w, 100 * MS);
    assert_int_equal(attempt->done, 1);
    assert_int_equal(attempt->rc, VIP_RC_NO_MATCH);
    world_free(w);
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

/* A peer that sends one CHALLENGE after the other, each with another nonce, does not hold up the end of the time. */
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

/* A vipd that says when the next one comes is waited for so long, and is not asked meanwhile. */
static void test_away(void **state)
{
    for (unsigned end = 0; end < 2; end++) {
        struct conn *c[2], was;
        struct world *w = world_of(350 + end, &c[CLIENT], &c[SERVER]);
        struct cm_rebind_args args;
        uint64_t packets;

        was = *c[end];
        cm_leave(w->hosts[end].cm, 60 * S, w->now_ns);
        world_run(w, 1 * MS);
        assert_int_equal(c[!end]->away, 1);
        host_kill(w, end);
        packets = w->packets;
        world_run(w, 9 * S);
        assert_true(c[!end]->alive && w->packets == packets);
        host_start(w, end);
        args = rebind_args(w, end, !end, &was);
        assert_int_equal(cm_rebind(w->hosts[end].cm, &args, w->now_ns), 0);
        world_run(w, 100 * MS);
        bound(w, &w->hosts[end].conns[0], c[!end]);
        world_run(w, 60 * S);
        assert_true(c[!end]->alive && c[!end]->rebound == 1);
        assert_int_equal(stats_of(w, !end).peers_lost, 0);
        world_free(w);
    }
}

/* If no next one comes in this time, or in the receiver's own `outlive`, the connection is lost. */
static void test_away_for_ever(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct conn *c, *s;
        struct world *w = world_of(360, &c, &s);

        cm_leave(w->hosts[CLIENT].cm, i ? 60 * S : 3 * S, w->now_ns);
        world_run(w, 1 * MS);
        host_kill(w, CLIENT);
        world_run(w, i ? 9 * S : 2 * S);
        assert_int_equal(s->lost, 0);
        assert_int_equal(stats_of(w, SERVER).peers_lost, 0);
        world_run(w, 2 * S);
        assert_int_equal(s->lost, 1);
        assert_int_equal(stats_of(w, SERVER).peers_lost, 1);
        world_free(w);
    }
}

/* The end of a connection that cannot go on may arrive after the AWAY for the others. */
static void test_away_and_close(void **state)
{
    struct vip_cm close = {.type = VIP_CM_CLOSE, .reason = VIP_CLOSE_SHUTDOWN};
    struct conn *c, *s;
    struct world *w = world_of(380, &c, &s);

    close.conn_id = c->local_id;
    close.peer_conn_id = s->local_id;
    cm_leave(w->hosts[CLIENT].cm, 60 * S, w->now_ns);
    world_run(w, 1 * MS);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch + 1, w->hosts[SERVER].epoch, &close);
    assert_int_equal(s->closed, 0);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &close);
    assert_int_equal(s->closed, 1);
    world_run(w, 20 * S);
    assert_int_equal(s->lost, 0);
    world_free(w);
}

/* Only the host of a connection can say that it will be away. */
static void test_away_forged(void **state)
{
    struct vip_cm away = {.type = VIP_CM_AWAY, .back_ms = 600000};
    struct conn *c, *s;
    struct world *w = world_of(370, &c, &s);

    away.conn_id = c->local_id;
    away.peer_conn_id = s->local_id + 1;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    away.conn_id++;
    away.peer_conn_id = s->local_id;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    away.conn_id = c->local_id;
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch + 1, w->hosts[SERVER].epoch, &away);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch + 1, &away);
    inject(w, SERVER, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    assert_int_equal(s->away, 0);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    inject(w, CLIENT, SERVER, w->hosts[CLIENT].epoch, w->hosts[SERVER].epoch, &away);
    assert_int_equal(s->away, 1);
    world_free(w);
}

static bool drop_setup_of_client(struct world *w, unsigned from, unsigned to,
                                 const struct vip_cm *msg)
{
    return msg->type != VIP_CM_SETUP || from != CLIENT;
}

/* A reload holds for later connections; for one that begins now, both ends keep to what they have told. */
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
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_of_two),
        cmocka_unit_test(test_cancel_ends),
        cmocka_unit_test(test_cancel_forged),
        cmocka_unit_test(test_half_open),
        cmocka_unit_test(test_closed_half_open),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_challenged_for_ever),
        cmocka_unit_test(test_reload),
        cmocka_unit_test(test_away),
        cmocka_unit_test(test_away_for_ever),
        cmocka_unit_test(test_away_and_close),
        cmocka_unit_test(test_away_forged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
