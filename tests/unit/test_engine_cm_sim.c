/*
 * Connection managers in a bad network, with random requests, accepts, rejects, cancels,
 * disconnects and restarts. The link loses, duplicates and reorders packets. Each test runs many
 * seeds.
 *
 * Rules: each request and each accept ends exactly once. A manager reports the end of a connection
 * at most once (cm_world.h asserts both rules). No memory leaks. In the end both sides are
 * connected, or neither side is.
 */
#include "tests/unit/cm_world_run.h"

struct program {
    unsigned hosts, loss, dup, steps;
    bool restarts, eager;
    unsigned peers; /* share of the requests that are peer-to-peer, in percent */
    bool setup;     /* in most runs all hosts know SETUP, in some runs one host does not */
};

static uint64_t wait_numbers;

/* The application of a host answers some of its pending requests, chosen at random. */
static void answer_some(struct world *w, unsigned index)
{
    struct host *host = &w->hosts[index];

    for (unsigned i = 0; i < host->incoming_count; i++) {
        if (host->incoming[i].answered || !world_percent(w, 30))
            continue;
        if (world_percent(w, 80)) {
            host_accept(w, index, i);
            continue;
        }
        host->incoming[i].answered = true;
        assert_int_equal(
            cm_reject(host->cm, host->incoming[i].handle, VIP_RC_REJECT, NULL, w->now_ns), 0);
    }
}

static void cancel_something(struct world *w, unsigned index)
{
    struct host *host = &w->hosts[index];

    for (unsigned i = 0; i < host->request_count; i++) {
        struct attempt *attempt = &host->requests[i];

        if (attempt->done || attempt->given_up || !world_percent(w, 30))
            continue;
        attempt->given_up = true;
        assert_true(cm_request_cancel(host->cm, i, w->now_ns));
    }
    for (unsigned i = 0; i < host->accept_count; i++) {
        struct attempt *attempt = &host->accepts[i];
        struct cm_close_args args = {.local_id = attempt->local_id, .reason = VIP_CLOSE_DEATH};

        if (!attempt->used || attempt->done || attempt->given_up || !world_percent(w, 20))
            continue;
        attempt->given_up = true;
        cm_close(host->cm, &args, w->now_ns);
    }
}

static void close_something(struct world *w, unsigned index)
{
    struct host *host = &w->hosts[index];

    for (unsigned i = 0; i < host->conn_count; i++)
        if (host->conns[i].alive && world_percent(w, 25))
            host_close(w, index, &host->conns[i]);
}

/* True if an accept or a request is under way that may become the connection with this id. vipd
 * then drops data for this id without a RESET. */
static bool host_opens(const struct host *host, uint64_t local_id)
{
    for (unsigned i = 0; i < host->accept_count; i++)
        if (host->accepts[i].local_id == local_id && host->accepts[i].used &&
            !host->accepts[i].done && !host->accepts[i].given_up)
            return true;
    for (unsigned i = 0; i < host->request_count; i++)
        if (host->requests[i].local_id == local_id && !host->requests[i].done &&
            !host->requests[i].given_up)
            return true;
    return false;
}

/* Send a data packet on each live connection. The end of some connections is detected only so. */
static void exchange_data(struct world *w, unsigned index)
{
    struct host *host = &w->hosts[index];

    for (unsigned i = 0; i < host->conn_count; i++) {
        struct conn *conn = &host->conns[i];
        const struct cm_host *to;
        struct vip_header hdr = {.kind = VIP_PKT_DATA, .src_epoch = host->epoch};
        struct host *peer;
        struct conn *other;

        if (!conn->alive || world_percent(w, w->loss_percent))
            continue;
        to = cm_peer_host(host->cm, conn->peer);
        assert_non_null(to);
        peer = &w->hosts[host_at(w, to)];
        if (!peer->cm)
            continue;
        other = host_conn(peer, conn->remote_id);
        hdr.conn_id = conn->remote_id;
        hdr.dst_epoch = conn->info.remote_epoch;
        if (hdr.dst_epoch != peer->epoch)
            cm_unknown_conn(peer->cm, &host->addr, &hdr, w->now_ns);
        else if (other && other->alive)
            cm_heard(peer->cm, other->peer, w->now_ns);
        else
            cm_implied_confirm(peer->cm, conn->remote_id, &host->addr, host->epoch, w->now_ns);
        if (hdr.dst_epoch == peer->epoch && !host_conn(peer, conn->remote_id) &&
            !host_opens(peer, conn->remote_id))
            cm_unknown_conn(peer->cm, &host->addr, &hdr, w->now_ns);
        host_settle(peer);
    }
}

static void step(struct world *w, const struct program *program)
{
    static const char *const discs[] = {"a", "b", "c", ""};
    static const uint64_t limits[] = {UINT64_MAX, 5 * MS, 300 * MS, 8 * S};
    unsigned index = (unsigned)(world_random(w) % w->host_count);
    unsigned to = (unsigned)(world_random(w) % w->host_count);
    unsigned action = (unsigned)(world_random(w) % 100);

    if (action < 35 && world_percent(w, program->peers))
        host_peer(w, index, to, discs[world_random(w) % 4], discs[world_random(w) % 4],
                  limits[1 + world_random(w) % 3]);
    else if (action < 35)
        host_request(w, index, to, discs[world_random(w) % 4], limits[world_random(w) % 4]);
    else if (action < 60)
        host_listen(w, index, ++wait_numbers, discs[world_random(w) % 4]);
    else if (action < 75)
        answer_some(w, index);
    else if (action < 80)
        cancel_something(w, index);
    else if (action < 90)
        close_something(w, index);
    else if (action < 97)
        exchange_data(w, index);
    else if (program->restarts && action < 99) {
        host_kill(w, index);
        host_start(w, index);
        w->hosts[index].eager = program->eager;
    }
    world_run(w, world_random(w) % (50 * MS));
}

static void settle(struct world *w)
{
    /* Applications answer pending requests. The network stays bad for a while, then it recovers. */
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < w->host_count; i++)
            answer_some(w, i);
        world_run(w, 500 * MS);
    }
    w->loss_percent = w->dup_percent = 0;
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < w->host_count; i++)
            answer_some(w, i);
        world_run(w, 500 * MS);
    }
}

static unsigned check_agreement(struct world *w, uint64_t seed)
{
    unsigned alive = 0;

    for (unsigned i = 0; i < w->host_count; i++) {
        struct host *host = &w->hosts[i];

        for (unsigned j = 0; j < host->request_count; j++)
            if (host->requests[j].done != !host->requests[j].given_up)
                fail_msg("seed %llu: request %u of host %u ended %u times",
                         (unsigned long long)seed, j, i, host->requests[j].done);
        for (unsigned j = 0; j < host->accept_count; j++)
            if (host->accepts[j].used && host->accepts[j].done != !host->accepts[j].given_up)
                fail_msg("seed %llu: accept %u of host %u ended %u times", (unsigned long long)seed,
                         j, i, host->accepts[j].done);
        for (unsigned j = 0; j < host->conn_count; j++) {
            struct conn *conn = &host->conns[j], *other = NULL;

            if (!conn->alive)
                continue;
            alive++;
            for (unsigned k = 0; k < w->host_count && !other; k++)
                other = host_conn(&w->hosts[k], conn->remote_id);
            if (!other || !other->alive || other->remote_id != conn->local_id)
                fail_msg("seed %llu: host %u is alone in connection %llx", (unsigned long long)seed,
                         i, (unsigned long long)conn->local_id);
        }
    }
    return alive;
}

static void run(const struct program *program, uint64_t seed, unsigned *connected, unsigned *alive)
{
    struct world *w = world_new(program->hosts, seed);

    w->loss_percent = program->loss;
    w->dup_percent = program->dup;
    w->delay_spread_ns = seed % 3 ? 30 * MS : 100000; /* most seeds reorder many packets */
    for (unsigned i = 0; i < w->host_count; i++)
        w->hosts[i].eager = program->eager;
    for (unsigned i = 0; program->setup && i < w->host_count; i++)
        if (seed % 4 || i)
            host_feature(w, i, VIP_FEATURES);
    for (unsigned i = 0; i < program->steps; i++)
        step(w, program);
    settle(w);
    *alive += check_agreement(w, seed);
    for (unsigned i = 0; i < w->host_count; i++) {
        struct cm_stats stats;

        *connected += w->hosts[i].conn_count;
        cm_stats(w->hosts[i].cm, &stats);
        assert_int_equal(stats.malformed, 0);
        assert_int_equal(stats.pending, 0);
    }
    world_free(w);
}

static void run_seeds(const struct program *program, uint64_t from, unsigned count)
{
    unsigned connected = 0, alive = 0;

#ifdef __SANITIZE_ADDRESS__
    count = (count + 3) / 4; /* with AddressSanitizer each run takes several times longer */
#endif
    for (uint64_t seed = from; seed < from + count; seed++)
        run(program, seed, &connected, &alive);
    /* Without connections the checks in run() would prove nothing. */
    assert_true(connected > count && alive > 0);
}

static void test_clean_network(void **state)
{
    run_seeds(&(struct program){.hosts = 2, .steps = 120}, 1, 40);
}

static void test_one_percent(void **state)
{
    run_seeds(&(struct program){.hosts = 3, .loss = 1, .dup = 1, .steps = 120}, 1000, 60);
}

static void test_ten_percent(void **state)
{
    run_seeds(&(struct program){.hosts = 3, .loss = 10, .dup = 10, .steps = 120}, 2000, 60);
}

static void test_half_lost(void **state)
{
    run_seeds(&(struct program){.hosts = 2, .loss = 50, .dup = 20, .steps = 120}, 3000, 100);
}

static void test_restarts(void **state)
{
    run_seeds(&(struct program){.hosts = 3, .loss = 5, .dup = 5, .steps = 150, .restarts = true},
              4000, 100);
}

static void test_restarts_and_half_lost(void **state)
{
    run_seeds(&(struct program){.hosts = 3, .loss = 50, .dup = 5, .steps = 150, .restarts = true},
              5000, 60);
}

/* The hosts close and forget connections inside the operations that report them. */
static void test_eager_hosts(void **state)
{
    run_seeds(
        &(struct program){
            .hosts = 3, .loss = 10, .dup = 10, .steps = 150, .restarts = true, .eager = true},
        7000, 100);
    run_seeds(&(struct program){.hosts = 1, .steps = 120, .eager = true}, 8000, 20);
}

/* With these seeds a PENDING arrives after the ACCEPT. The client must not answer it with a CANCEL,
 * because then only the client would be connected. */
static void test_pending_overtaken_by_accept(void **state)
{
    const struct program ten = {.hosts = 3, .loss = 10, .dup = 10, .steps = 120};
    const struct program half = {.hosts = 2, .loss = 50, .dup = 20, .steps = 120};
    unsigned connected = 0, alive = 0;

    run(&ten, 2183, &connected, &alive);
    run(&half, 3238, &connected, &alive);
}

static void test_self(void **state)
{
    run_seeds(&(struct program){.hosts = 1, .steps = 120}, 6000, 20);
}

/* Peer-to-peer requests: of two hosts, of one host, and of three hosts beside other requests. */
static void test_peers(void **state)
{
    struct program program = {.hosts = 2, .steps = 120, .peers = 100};

    run_seeds(&program, 10000, 40);
    program.hosts = 1;
    run_seeds(&program, 10100, 40);
    program.peers = 50;
    program.hosts = 3;
    run_seeds(&program, 10200, 40);
}

static void test_peers_in_a_bad_network(void **state)
{
    struct program program = {.hosts = 2, .loss = 10, .dup = 10, .steps = 150, .peers = 100};

    run_seeds(&program, 11000, 60);
    program.loss = 50;
    run_seeds(&program, 11100, 60);
    program.hosts = 1;
    run_seeds(&program, 11200, 60);
    program.hosts = 3;
    program.loss = 5;
    program.restarts = program.eager = true;
    run_seeds(&program, 11300, 60);
}

/* All hosts know SETUP, except one host in some runs. */
static void test_setup(void **state)
{
    struct program program = {
        .hosts = 3, .loss = 10, .dup = 10, .steps = 150, .peers = 20, .setup = true};

    run_seeds(&program, 12000, 60);
    program.loss = 50;
    run_seeds(&program, 12100, 60);
    program.loss = 5;
    program.restarts = program.eager = true;
    run_seeds(&program, 12200, 60);
}

/* ---- a peer that knows every id and lies ---- */

#define SEEN_MAX 64
static uint64_t seen_ids[SEEN_MAX];
static unsigned seen_count;

/* A filter that loses nothing and records the ids of the messages. */
static bool listen_in(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    seen_ids[seen_count++ % SEEN_MAX] = msg->request_id;
    seen_ids[seen_count++ % SEEN_MAX] = msg->conn_id;
    seen_ids[seen_count++ % SEEN_MAX] = msg->peer_conn_id;
    return true;
}

static uint64_t some_id(struct world *w)
{
    uint64_t id = seen_ids[world_random(w) % SEEN_MAX];

    return id ? id : world_random(w) | 1;
}

static void lie(struct world *w)
{
    unsigned from = (unsigned)(world_random(w) % w->host_count);
    unsigned to = (unsigned)(world_random(w) % w->host_count);
    uint64_t epochs[] = {w->hosts[0].epoch, w->hosts[1].epoch, 4711};
    struct vip_cm msg = {.type = (uint8_t)(1 + world_random(w) % (VIP_CM_TYPES - 1)),
                         .request_id = some_id(w),
                         .conn_id = some_id(w),
                         .peer_conn_id = some_id(w),
                         .packet_bytes = 512 + (uint32_t)(world_random(w) % 60000),
                         .window_bytes = 512,
                         .code = 1 + (uint32_t)(world_random(w) % 16),
                         .reason = (uint8_t)(world_random(w) % 5),
                         .cookie = some_id(w),
                         .tag = some_id(w),
                         .nonce = some_id(w),
                         .back_ms = some_id(w),
                         .data_id = some_id(w),
                         .number = 1 + (uint32_t)(world_random(w) % 5),
                         .offered = 1 + (uint32_t)(world_random(w) % 5),
                         .attrs = world_attrs};
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes;

    if (world_percent(w, 50))
        msg.remote = world_addr(&w->hosts[to], "a");
    if (world_percent(w, 50))
        msg.attrs.features = VIP_FEATURES;
    if (world_percent(w, 50)) {
        msg.peer_to_peer = 1;
        msg.local = world_addr(&w->hosts[world_random(w) % 2], "a");
    }
    len_bytes =
        vip_wire_put_cm(packet, epochs[world_random(w) % 3], epochs[world_random(w) % 3], &msg);
    cm_rx(w->hosts[to].cm, &w->hosts[from].addr, packet, len_bytes, w->now_ns);
    host_settle(&w->hosts[to]);
}

/* A lying peer cannot break the manager: no assertion fails, no memory leaks, each accept ends. */
static void test_lying_peer(void **state)
{
    static const struct program program = {.hosts = 2, .steps = 60, .peers = 30};

    for (uint64_t seed = 9000; seed < 9060; seed++) {
        struct world *w = world_new(program.hosts, seed);

        for (unsigned i = 0; seed % 4 > 1 && i < w->host_count; i++)
            host_feature(w, i, VIP_FEATURES);
        w->filter = listen_in;
        for (unsigned i = 0; i < program.steps; i++) {
            for (unsigned j = 0; j < w->host_count; j++)
                w->hosts[j].eager = seed % 2;
            step(w, &program);
            for (unsigned j = world_random(w) % 60; j > 0; j--)
                lie(w);
        }
        world_run(w, 60 * S);
        for (unsigned i = 0; i < w->host_count; i++)
            for (unsigned j = 0; j < w->hosts[i].accept_count; j++)
                assert_true(!w->hosts[i].accepts[j].used || w->hosts[i].accepts[j].done ||
                            w->hosts[i].accepts[j].given_up);
        world_free(w);
    }
}

/* The same seed gives the same run: the same number of packets. */
static void test_replay(void **state)
{
    uint64_t packets[2];

    for (unsigned i = 0; i < 2; i++) {
        struct program program = {.hosts = 3, .loss = 20, .dup = 20, .steps = 100};
        struct world *w = world_new(3, 77);

        w->loss_percent = w->dup_percent = 20;
        w->delay_spread_ns = 10 * MS;
        for (unsigned j = 0; j < program.steps; j++)
            step(w, &program);
        packets[i] = w->packets;
        world_free(w);
    }
    assert_true(packets[0] == packets[1] && packets[0] > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean_network),
        cmocka_unit_test(test_one_percent),
        cmocka_unit_test(test_ten_percent),
        cmocka_unit_test(test_half_lost),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_restarts_and_half_lost),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_eager_hosts),
        cmocka_unit_test(test_pending_overtaken_by_accept),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_peers),
        cmocka_unit_test(test_peers_in_a_bad_network),
        cmocka_unit_test(test_setup),
        cmocka_unit_test(test_lying_peer),
    };

    return cmocka_run_group_tests_name("engine_cm_sim", tests, NULL, NULL);
}
