/*
 * Limits of one session in a turn, and the shares of several users of a NIC: slots of submission
 * rings, errors, processor time, direct rings, kept packets.
 */
#include "proto/capture.h"
#include "unit/nic_rig.h"
#include "vipd/nic/share.h"
#include "vipd/nic/internal.h"

#define PAIRS 30 /* number of pairs of Unreliable VIs that a hostile session connects */
#define EVERY 32 /* each 32nd slot is a send; all other slots name a VI that does not exist */

/*
 * A session sends without pause to its own VIs, which have no receive descriptors. refill_now keeps
 * its ring full while vipd takes slots, as a second thread of the program would do.
 */
struct refill {
    struct rig_app *app;
    uint16_t from[PAIRS], to[PAIRS];
    uint32_t written;
    unsigned every;
    bool receives; /* post receive descriptors, not sends; soon the receive queues are full */
};

static void refill_now(struct refill *r)
{
    const struct nic_session *session = r->app->session;

    while (r->written - session->sq_position < VIP_SQ_SLOTS - 1) {
        struct vip_sq_slot slot = {.vi = 9999, .kind = VIP_SQ_SEND};

        if (r->written % r->every == 0) {
            slot.vi = r->from[r->written / r->every % PAIRS];
            slot.vi_gen = r->app->vi_gen[slot.vi];
            slot.kind = r->receives ? VIP_SQ_RECV : VIP_SQ_SEND;
        }
        vip_sq_write(vip_app_sq(r->app->app), r->written++, &slot);
    }
}

static void on_seen(void *ctx, const struct nic_seen *seen)
{
    if (seen->kind == VIP_CAPTURE_POSTED)
        refill_now(ctx);
}

static struct refill refill_new(struct nic *nic, unsigned host, unsigned every)
{
    struct refill r = {.app = rig_app(nic), .every = every};

    r.app->deaf = true;
    for (unsigned i = 0; i < PAIRS; i++) {
        r.from[i] = rig_vi(r.app, VIP_LVL_UNRELIABLE);
        r.to[i] = rig_vi(r.app, VIP_LVL_UNRELIABLE);
        rig_connect(r.app, r.from[i], host, r.app, r.to[i], host);
    }
    r.written = r.app->session->sq_position;
    return r;
}

/* Run a turn. It must take at most one ring of slots from the session. */
static void turn_of(struct refill *r)
{
    uint32_t before = r->app->session->sq_position;

    nic_turn(r->app->nic, rig_now);
    assert_in_range(r->app->session->sq_position - before, 0,
                    VIP_SQ_SLOTS + VIP_SQ_SLOTS_FOR(VIP_SEGS_PER_DESC_MAX));
}

/* For a message vipd searches the submission ring, but at most one ring of slots in a turn. */
static void test_one_ring_a_turn(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill r = refill_new(nic, 0, EVERY);

    nic_look_on(nic, on_seen, &r);
    refill_now(&r);
    for (unsigned turn = 0; turn < 200; turn++) {
        /* The worst case: the session is never throttled. */
        r.app->session->faults_ns = 0;
        rig_now += RIG_STEP_NS;
        turn_of(&r);
    }
    nic_look_on(nic, NULL, NULL);
}

/* A peer is lost. For each connection with it, vipd takes the slots that were posted before, but at
 * most one ring of slots in a turn for all of them. */
static void test_lost_peer_one_ring(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill r = refill_new(nic, 0, EVERY);
    struct rig_app *far = rig_app(rig_nic(1));

    for (unsigned i = r.app->session->vi_count; i < RIG_VIS; i++)
        rig_connect(r.app, rig_vi(r.app, VIP_LVL_DELIVERY), 0, far, rig_vi(far, VIP_LVL_DELIVERY),
                    1);
    rig_hosts[0]->refuse = true;
    nic_look_on(nic, on_seen, &r);
    refill_now(&r);
    for (unsigned ms = 0; ms < 12000 && !rig_counter(nic, "conns_lost"); ms++) {
        r.app->session->faults_ns = 0;
        rig_now += 1000000;
        turn_of(&r);
    }
    assert_true(rig_counter(nic, "conns_lost") > 0);
    nic_look_on(nic, NULL, NULL);
}

/* A message for a throttled session does not make vipd take the session's posted descriptors. */
static void test_throttled_waits(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill r = refill_new(nic, 0, VIP_SQ_SLOTS + 1);
    struct rig_app *other = rig_app(nic);
    uint16_t from = rig_vi(other, VIP_LVL_UNRELIABLE), to = rig_vi(r.app, VIP_LVL_UNRELIABLE);
    uint32_t before;

    rig_connect(other, from, 0, r.app, to, 0);
    r.written = r.app->session->sq_position;
    while (!nic_session_throttled(r.app->session)) {
        refill_now(&r);
        turn_of(&r);
    }
    refill_now(&r);
    before = r.app->session->sq_position;
    for (unsigned i = 0; i < 16; i++)
        rig_post(other, from, VIP_Q_SEND, VIP_CTL_OP_SENDRECV, 0, NULL, 0);
    nic_turn(nic, rig_now);
    assert_true(rig_counter(nic, "recvq_empty") >= 16);
    assert_int_equal(r.app->session->sq_position, before);
}

/* A program makes errors without end: vipd reports a thousand to the program, then one per
 * millisecond, and counts all of them. */
static void test_errors_told(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill r = refill_new(nic, 0, 1);
    uint64_t start = rig_now;

    for (unsigned turn = 0; turn < 500; turn++) {
        refill_now(&r);
        nic_turn(nic, rig_now += RIG_STEP_NS);
    }
    assert_true(rig_counter(nic, "recvq_empty") > 5000);
    assert_in_range(r.app->errors, 1000, 1025 + (rig_now - start) / 1000000);
    assert_true(rig_counter(nic, "errors_untold") + r.app->errors >=
                rig_counter(nic, "recvq_empty"));
}

/* ---- time ------------------------------------------------------------------------------ */

/* Only work advances the clock of the NIC. These are the costs of a posted descriptor of session
 * `id`, of a packet that session `id` sends, and of a packet from the network. */
#define IDS 8
static uint64_t clock_ns, cost_post_ns[IDS], cost_packet_ns[IDS], cost_rx_ns;
static unsigned flood; /* messages of another host's connection manager before each turn */
static struct refill *refills[IDS];

static uint64_t clock_of_cost(void)
{
    if (clock_ns < rig_now)
        clock_ns = rig_now;
    return clock_ns;
}

static void on_cost(void *ctx, const struct nic_seen *seen)
{
    uint64_t id = seen->session;

    (void)ctx;
    if (seen->kind == VIP_CAPTURE_POSTED)
        clock_ns += cost_post_ns[id];
    if (seen->kind == VIP_CAPTURE_LOCAL || seen->kind == VIP_CAPTURE_SENT)
        clock_ns += cost_packet_ns[id];
    if (seen->kind == VIP_CAPTURE_RECEIVED)
        clock_ns += cost_rx_ns;
    if (seen->kind == VIP_CAPTURE_POSTED && refills[id])
        refill_now(refills[id]);
}

static int cost_setup(void **state)
{
    rig_reset();
    clock_ns = rig_now;
    memset(cost_post_ns, 0, sizeof(cost_post_ns));
    memset(cost_packet_ns, 0, sizeof(cost_packet_ns));
    memset(refills, 0, sizeof(refills));
    cost_rx_ns = 0;
    flood = 0;
    rig_cost_clock = clock_of_cost;
    return 0;
}

/* Make session `id` of user `uid`, whose ring is always full. every: like EVERY; 0: the session
 * posts only receive descriptors. */
static void contender(struct refill *r, struct nic *nic, uint32_t uid, unsigned id, unsigned every)
{
    rig_uid = uid;
    *r = refill_new(nic, 0, every ? every : 1);
    r->receives = !every;
    r->app->session->id = id;
    refills[id] = r;
    refill_now(r);
}

static uint64_t time_of(const struct refill *r)
{
    return nic_session_time_ns(r->app->session);
}

static void flood_now(unsigned host)
{
    static const struct link_addr stranger = {.len = 6, .bytes = {127, 0, 0, 99, 0x12, 0xba}};
    struct vip_cm ping = {.type = VIP_CM_PING, .request_id = 5};
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len = vip_wire_put_cm(packet, 7777, 0, &ping);

    for (unsigned i = 0; i < flood; i++)
        rig_inject(&stranger, host, packet, (uint32_t)len);
}

/* Run turns until users have competed for `ns`. Each turn must be short. */
static void compete(struct nic *nic, uint64_t ns)
{
    uint64_t end = rig_counter(nic, "shared_time") + ns;

    nic_look_on(nic, on_cost, NULL);
    while (rig_counter(nic, "shared_time") < end) {
        uint64_t start = clock_ns;

        for (unsigned i = 0; i < IDS; i++) {
            if (!refills[i])
                continue;
            refill_now(refills[i]);
            refills[i]->app->session->faults_ns = 0;
        }
        rig_now = clock_ns;
        flood_now(0);
        assert_true(nic_turn(nic, rig_now));
        /* A turn takes at most its time limit plus the work between two readings of the clock. */
        assert_in_range(clock_ns - start, 0, NIC_TURN_SHARED_NS + 2 * 64 * 10000);
    }
    nic_look_on(nic, NULL, NULL);
}

/* Descriptors of one session cost ten times as much. vipd takes fewer of them, in the same time. */
static void test_dear_postings(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill cheap, dear;
    uint64_t slots;

    contender(&cheap, nic, 1000, 1, 0);
    contender(&dear, nic, 1001, 2, 0);
    cost_post_ns[1] = 1000;
    cost_post_ns[2] = 10000;
    compete(nic, RIG_SECOND / 10);
    assert_in_range(time_of(&cheap) * 100, 40 * (RIG_SECOND / 10), 60 * (RIG_SECOND / 10));
    assert_in_range(time_of(&dear) * 100, 40 * (RIG_SECOND / 10), 60 * (RIG_SECOND / 10));
    slots = nic_session_slots(cheap.app->session);
    assert_true(slots > 4 * nic_session_slots(dear.app->session));
}

/* Both sessions have equal work: they get equal time and equally many slots. */
static void test_equal_postings(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill one, two;

    contender(&one, nic, 1000, 1, 0);
    contender(&two, nic, 1001, 2, 0);
    cost_post_ns[1] = cost_post_ns[2] = 2000;
    compete(nic, RIG_SECOND / 10);
    assert_in_range(time_of(&one) * 100, 45 * (RIG_SECOND / 10), 55 * (RIG_SECOND / 10));
    assert_in_range(nic_session_slots(one.app->session) * 100,
                    80 * nic_session_slots(two.app->session),
                    125 * nic_session_slots(two.app->session));
}

/* A flood of packets belongs to neither of two users and takes equal time from both. */
static void test_flood_is_nobodys(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill one, two;

    contender(&one, nic, 1000, 1, 0);
    contender(&two, nic, 1001, 2, 0);
    cost_post_ns[1] = cost_post_ns[2] = 2000;
    cost_rx_ns = 10000;
    flood = 16;
    compete(nic, RIG_SECOND / 10);
    assert_true(rig_counter(nic, "rx_cm") > 1000);
    assert_in_range(nic_session_slots(one.app->session) * 100,
                    90 * nic_session_slots(two.app->session),
                    110 * nic_session_slots(two.app->session));
}

/* Five sessions of one user together get the same time as one session of another user. */
static void test_many_sessions(void **state)
{
    enum { EVIL = 5 };
    struct nic *nic = rig_nic(0);
    struct refill victim, evil[EVIL];
    uint64_t least = UINT64_MAX, most = 0;

    contender(&victim, nic, 1000, 1, 0);
    cost_post_ns[1] = 3000;
    for (unsigned i = 0; i < EVIL; i++) {
        contender(&evil[i], nic, 1001, 2 + i, 0);
        cost_post_ns[2 + i] = 1000 + 1000 * i;
    }
    compete(nic, RIG_SECOND / 10);
    assert_in_range(time_of(&victim) * 100, 40 * (RIG_SECOND / 10), 60 * (RIG_SECOND / 10));
    for (unsigned i = 0; i < EVIL; i++) {
        uint64_t time = time_of(&evil[i]);

        least = time < least ? time : least;
        most = time > most ? time : most;
    }
    assert_in_range(least * 100, 60 * most, 100 * most);
}

/* A session's packets are expensive, its descriptors are cheap. Both users still get equal time. */
static void test_dear_packets(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill victim, evil;

    contender(&victim, nic, 1000, 1, 1);
    contender(&evil, nic, 1001, 2, EVERY);
    cost_post_ns[1] = cost_post_ns[2] = 100;
    cost_packet_ns[1] = 1000;
    cost_packet_ns[2] = 10000;
    compete(nic, RIG_SECOND / 10);
    assert_in_range(time_of(&victim) * 100, 40 * (RIG_SECOND / 10), 60 * (RIG_SECOND / 10));
}

/* The slots of one session cost little, so vipd must take many to give both sessions the same time.
 * vipd takes many in one turn, because a turn itself costs more than a few slots. */
static void test_cheap_slots(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill victim, evil;
    uint64_t slots;

    contender(&victim, nic, 1000, 1, 0);
    contender(&evil, nic, 1001, 2, 0);
    cost_post_ns[1] = 20000;
    cost_post_ns[2] = 50;
    compete(nic, RIG_SECOND / 20);
    slots = nic_session_slots(evil.app->session);
    assert_true(slots > 100 * rig_counter(nic, "turns")); /* far more than 16 slots in each turn */
    assert_in_range(time_of(&victim) * 100, 90 * time_of(&evil), 110 * time_of(&evil));
}

/* Time that vipd spends on control requests of a user counts like the user's time in turns. */
static void test_requests_count(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill victim, evil;
    uint64_t asked = 0;

    contender(&victim, nic, 1000, 1, 0);
    contender(&evil, nic, 1001, 2, 0);
    cost_post_ns[1] = cost_post_ns[2] = 1000;
    for (unsigned i = 0; i < 100; i++) {
        compete(nic, RIG_SECOND / 2000);
        nic_charge(nic, 1001, RIG_SECOND / 10000, true);
        asked += RIG_SECOND / 10000;
    }
    assert_int_equal(rig_counter(nic, "control_time"), asked);
    assert_in_range(time_of(&victim) * 100, 90 * (time_of(&evil) + asked),
                    110 * (time_of(&evil) + asked));
}

/* A user that had no work for long has not saved up time: the other users still get their time. */
static void test_no_savings(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill one, two, idle;
    uint64_t before;

    contender(&one, nic, 1000, 1, 0);
    contender(&two, nic, 1001, 2, 0);
    cost_post_ns[1] = cost_post_ns[2] = cost_post_ns[3] = 1000;
    compete(nic, RIG_SECOND / 10);
    contender(&idle, nic, 1002, 3, 0);
    before = time_of(&one) + time_of(&two);
    compete(nic, RIG_SECOND / 100);
    assert_true(time_of(&one) + time_of(&two) - before > RIG_SECOND / 200);
    assert_in_range(time_of(&idle), RIG_SECOND / 400, RIG_SECOND / 250);
}

/* Returns the longest series of turns that took no slot of the session with much work. Other
 * sessions have a little work in each turn. */
static unsigned longest_wait(uint32_t little_uid, uint32_t much_uid)
{
    enum { LITTLE = 3, TURNS = 500 };
    struct nic *nic = rig_nic(0);
    struct refill much;
    struct rig_app *little[LITTLE];
    uint16_t vi[LITTLE];
    unsigned wait = 0, longest = 0;

    rig_uid = little_uid;
    for (unsigned i = 0; i < LITTLE; i++) {
        little[i] = rig_app(nic);
        little[i]->session->id = 1;
        vi[i] = rig_vi(little[i], VIP_LVL_DELIVERY);
    }
    cost_post_ns[1] = 1000;
    cost_post_ns[2] = 5000;
    contender(&much, nic, much_uid, 2, 0);
    nic_look_on(nic, on_cost, NULL);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        uint64_t slots = nic_session_slots(much.app->session);

        refill_now(&much);
        much.app->session->faults_ns = 0;
        for (unsigned i = 0; i < LITTLE; i++)
            rig_post(little[i], vi[i], VIP_Q_RECV, 0, 0, NULL, 0);
        rig_now = clock_ns += 1000;
        nic_turn(nic, rig_now);
        wait = nic_session_slots(much.app->session) == slots ? wait + 1 : 0;
        longest = wait > longest ? wait : longest;
    }
    nic_look_on(nic, NULL, NULL);
    return longest;
}

static void test_little_work_of_the_user(void **state)
{
    assert_in_range(longest_wait(1000, 1000), 0, 2);
}

static void test_little_work_of_another(void **state)
{
    assert_in_range(longest_wait(1000, 1001), 0, 2);
}

/* A descriptor posted after the turn has passed its session waits for the next turn. The time due
 * to the session is at most the time that the session gets. */
static struct {
    struct rig_app *app;
    uint16_t vi;
    bool posts;
} behind;

static void on_cost_post_late(void *ctx, const struct nic_seen *seen)
{
    on_cost(ctx, seen);
    if (!behind.posts || seen->kind != VIP_CAPTURE_POSTED || seen->session != 2)
        return;
    behind.posts = false;
    rig_post(behind.app, behind.vi, VIP_Q_RECV, 0, 0, NULL, 0);
}

static void test_due_of_late_postings(void **state)
{
    enum { TURNS = 200 };
    struct nic *nic = rig_nic(0);
    struct refill much;
    uint64_t due_ns, had_ns;

    rig_uid = 1000;
    behind.app = rig_app(nic);
    behind.app->session->id = 1;
    behind.vi = rig_vi(behind.app, VIP_LVL_DELIVERY);
    cost_post_ns[1] = 1000;
    cost_post_ns[2] = 5000;
    contender(&much, nic, 1001, 2, 0);
    nic_look_on(nic, on_cost_post_late, NULL);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        refill_now(&much);
        much.app->session->faults_ns = 0;
        behind.posts = turn % 2;
        if (behind.posts)
            rig_post(behind.app, behind.vi, VIP_Q_RECV, 0, 0, NULL, 0);
        rig_now = clock_ns += 1000;
        nic_turn(nic, rig_now);
    }
    nic_look_on(nic, NULL, NULL);
    due_ns = nic_session_due_ns(behind.app->session);
    had_ns = nic_session_time_ns(behind.app->session);
    assert_in_range(due_ns, TURNS / 2 * 1000, had_ns);
    assert_true(nic_session_due_ns(much.app->session) > 10 * due_ns);
}

/* A session without competitors is not measured, but its turns still end after a millisecond. */
static void test_turn_ends(void **state)
{
    struct nic *nic = rig_nic(0);
    struct refill r;

    contender(&r, nic, 1000, 1, 1);
    cost_post_ns[1] = 5000;
    cost_packet_ns[1] = 100000;
    nic_look_on(nic, on_cost, NULL);
    for (unsigned i = 0; i < 50; i++) {
        uint64_t start = clock_ns;

        assert_true(nic_turn(nic, rig_now = clock_ns));
        /* Messages that find no receive descriptor make vipd search one ring of slots. */
        assert_in_range(clock_ns - start, 1, NIC_TURN_NS + 64 * 100000 + VIP_SQ_SLOTS * 5000);
    }
    assert_true(rig_counter(nic, "turns_cut") > 10);
    assert_int_equal(time_of(&r), 0);
    nic_look_on(nic, NULL, NULL);
}

/* One session has connections with three hosts. The end of a connection costs 0.1 ms. */
#define CONNECTIONS 60
#define END_COST_NS 100000

static struct rig_app *connected(struct nic *nic)
{
    struct rig_app *app = rig_app(nic), *far[3];

    app->session->id = 1;
    for (unsigned h = 0; h < 3; h++)
        far[h] = rig_app(rig_nic(h + 1));
    for (unsigned i = 0; i < CONNECTIONS; i++)
        rig_connect(app, rig_vi(app, VIP_LVL_DELIVERY), 0, far[i % 3],
                    rig_vi(far[i % 3], VIP_LVL_DELIVERY), 1 + i % 3);
    cost_packet_ns[0] = END_COST_NS; /* cost of sending a CLOSE message */
    return app;
}

/* Run turns until the counter is CONNECTIONS. Each turn must end after a millisecond. */
static void until_ended(struct nic *nic, const char *counter, uint64_t limit_ns)
{
    uint64_t limit = clock_of_cost() + limit_ns;

    nic_look_on(nic, on_cost, NULL);
    while (rig_counter(nic, counter) < CONNECTIONS) {
        uint64_t start = clock_of_cost();

        assert_true(start < limit);
        nic_turn(nic, rig_now = start);
        assert_in_range(clock_ns - start, 0, NIC_TURN_NS + END_COST_NS);
        clock_ns += RIG_SECOND / 1000;
    }
    nic_look_on(nic, NULL, NULL);
    assert_true(rig_counter(nic, "turns_cut") > 0);
}

/* Several peers become silent at once. The turns stay short, and all of the connections end. */
static void test_lost_peers(void **state)
{
    struct nic *nic = rig_nic(0);

    connected(nic);
    until_ended(nic, "conns_lost", 20 * RIG_SECOND);
}

/* A program asks vipd to break all of its connections at once. */
static void test_asked_breaks(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *app = connected(nic);

    for (unsigned i = 0; i < app->session->vi_high; i++)
        nic_direct_ask(app->session, (uint16_t)i, VIP_ASK_BREAK);
    until_ended(nic, "ring_breaks", RIG_SECOND);
}

/* VIs with requests are in a list, in the order of their first requests, each VI once. */
static void test_asks_in_order(void **state)
{
    struct nic *nic = rig_nic(0);
    struct nic_session *session = connected(nic)->session;
    struct nic_list *asks = &session->asks;

    nic_direct_ask(session, 5, VIP_ASK_FLUSH);
    nic_direct_ask(session, 1, VIP_ASK_FLUSH);
    nic_direct_ask(session, 5, VIP_ASK_BREAK);
    assert_ptr_equal(asks->next, &session->vis[5].in_asks);
    assert_ptr_equal(asks->next->next, &session->vis[1].in_asks);
    assert_ptr_equal(asks->next->next->next, asks);
    /* The end of the connection removes its request. */
    nic_direct_ask(session, 9, VIP_ASK_BREAK);
    assert_int_equal(nic_vi_disconnect(session, 9, rig_now), VIP_RC_SUCCESS);
    assert_ptr_equal(asks->next->next->next, asks);
    assert_false(session->vis[9].ask_break);
    rig_pass(RIG_SECOND / 100);
    assert_true(nic_list_empty(asks));
}

/* A turn has no time for all packets. The next turn begins with the other packets; none is lost. */
static void test_packets_left(void **state)
{
    enum { MESSAGES = 60 };
    struct rig_app *a = rig_app(rig_nic(0)), *b = rig_app(rig_nic(1));
    struct rig_mem ma = rig_mem(a, 65536, REGISTRY_SHARED), mb = rig_mem(b, 65536, REGISTRY_SHARED);
    uint16_t va = rig_vi(a, VIP_LVL_UNRELIABLE), vb = rig_vi(b, VIP_LVL_UNRELIABLE);
    unsigned turns = 0, got = 0;
    struct vip_comp comp;

    rig_connect(a, va, 0, b, vb, 1);
    rig_pass(RIG_SECOND / 100);
    clock_ns = rig_now;
    for (unsigned i = 0; i < MESSAGES; i++) {
        rig_post_recv(b, vb, rig_seg(&mb, i * 1000, 1000));
        rig_post_send(a, va, rig_seg(&ma, i * 1000, 1000));
    }
    rig_step();
    nic_turn(rig_nics[0], rig_now);
    nic_look_on(rig_nics[1], on_cost, NULL);
    cost_rx_ns = NIC_TURN_NS;
    for (; got < MESSAGES && turns < 10 * MESSAGES; turns++) {
        clock_ns += 1000;
        rig_now = clock_ns;
        nic_turn(rig_nics[1], rig_now);
        while (rig_done(b, vb, VIP_Q_RECV, &comp)) {
            assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
            got++;
        }
    }
    assert_int_equal(got, MESSAGES);
    assert_true(rig_counter(rig_nics[1], "turns_cut") > 0);
    nic_look_on(rig_nics[1], NULL, NULL);
    rig_mem_free(&ma);
    rig_mem_free(&mb);
}

/* The descriptors of many sessions use up each turn. Packets still do not wait, because the next
 * turn begins with the stage after the descriptors. */
static void test_packets_beside_postings(void **state)
{
    enum { EVIL = 64, MESSAGES = 50 };
    struct rig_app *a = rig_app(rig_nic(1)), *b;
    struct nic *nic = rig_nic(0);
    struct refill *evil = calloc(EVIL, sizeof(*evil));
    struct rig_mem ma, mb;
    uint16_t va, vb;
    struct vip_comp comp;

    rig_uid = 1000;
    b = rig_app(nic);
    b->session->id = 0;
    ma = rig_mem(a, 65536, REGISTRY_SHARED);
    mb = rig_mem(b, 65536, REGISTRY_SHARED);
    va = rig_vi(a, VIP_LVL_UNRELIABLE);
    vb = rig_vi(b, VIP_LVL_UNRELIABLE);
    rig_connect(a, va, 1, b, vb, 0);
    for (unsigned i = 0; i < MESSAGES; i++)
        rig_post_recv(b, vb, rig_seg(&mb, i * 1000, 1000));
    rig_pass(RIG_SECOND / 100);
    /* With this cost, 16 slots take less time than a session may be ahead of the others. */
    cost_post_ns[1] = 1200;
    rig_uid = 1001;
    for (unsigned i = 0; i < EVIL; i++) {
        evil[i] = (struct refill){.app = rig_app(nic), .every = 1, .receives = true};
        evil[i].app->session->id = 1;
        evil[i].app->deaf = true;
        for (unsigned p = 0; p < PAIRS; p++)
            evil[i].from[p] = p ? evil[i].from[0] : rig_vi(evil[i].app, VIP_LVL_UNRELIABLE);
    }
    nic_look_on(nic, on_cost, NULL);
    for (unsigned n = 0; n < MESSAGES; n++) {
        unsigned turns = 0;

        rig_now = clock_of_cost();
        rig_post_send(a, va, rig_seg(&ma, n * 1000, 1000));
        nic_turn(rig_nics[1], rig_now);
        do {
            assert_true(++turns <= 8);
            for (unsigned i = 0; i < EVIL; i++) {
                refill_now(&evil[i]);
                evil[i].app->session->faults_ns = 0;
            }
            rig_now = clock_of_cost();
            nic_turn(nic, rig_now);
        } while (!rig_done(b, vb, VIP_Q_RECV, &comp));
        while (rig_done(a, va, VIP_Q_SEND, &comp))
            continue;
    }
    nic_look_on(nic, NULL, NULL);
    assert_true(rig_counter(nic, "turns_cut") > MESSAGES);
    free(evil);
    rig_mem_free(&ma);
    rig_mem_free(&mb);
}

/* ---- room ------------------------------------------------------------------------------ */

/* Count packets of `len` bytes as kept by the session, up to its limit. Returns their number. */
static unsigned keep_all(struct nic_session *session, uint32_t len)
{
    unsigned n = 0;

    for (; nic_held_room(session, len); n++) {
        session->nic->held_used++;
        session->nic->held_bytes += len;
        session->user->held_count++;
        session->user->held_bytes += len;
        session->held_count++;
        session->held_bytes += len;
    }
    return n;
}

static void keep_none(struct nic_session *session)
{
    session->nic->held_used -= session->held_count;
    session->nic->held_bytes -= session->held_bytes;
    session->user->held_count -= session->held_count;
    session->user->held_bytes -= session->held_bytes;
    session->held_count = 0;
    session->held_bytes = 0;
}

/* A user with three sessions keeps packets up to its limit. Later users still have room. */
static void test_kept_packets_shared(void **state)
{
    static const uint32_t lens[] = {100, 60000};
    struct nic *nic = rig_nic(0);
    struct nic_session *greedy[3], *late[2];

    for (unsigned i = 0; i < 3; i++)
        greedy[i] = rig_app(nic)->session;
    for (unsigned i = 0; i < 2; i++) {
        rig_uid = 1001 + i;
        late[i] = rig_app(nic)->session;
    }
    for (unsigned l = 0; l < 2; l++) {
        unsigned small = lens[l] == 100 ? NIC_HELD_SMALL : NIC_HELD_BYTES_SMALL / lens[l];
        unsigned most = lens[l] == 100 ? NIC_HELD_MAX : NIC_HELD_BYTES / lens[l];
        unsigned n = 0;

        for (unsigned i = 0; i < 3; i++)
            n += keep_all(greedy[i], lens[l]);
        assert_in_range(n, most / 3, most * 2 / 3);
        for (unsigned i = 0; i < 2; i++)
            assert_true(keep_all(late[i], lens[l]) >= small);
        for (unsigned i = 0; i < 3; i++)
            keep_none(greedy[i]);
        for (unsigned i = 0; i < 2; i++)
            keep_none(late[i]);
    }
}

/* Direct rings: a later user gets room, while another user has as many rings as it can get. */
static void test_pool(void **state)
{
    struct nic_pool greedy = {
        .max = NIC_RINGS_MAX, .small = NIC_RINGS_SMALL, .reserve = NIC_RINGS_RESERVE, .times = 3};
    struct nic_pool late = greedy;

    while (nic_pool_room(&greedy, 1)) {
        greedy.have++;
        greedy.used++;
    }
    assert_in_range(greedy.used, NIC_RINGS_MAX / 2, NIC_RINGS_MAX * 3 / 4);
    late.used = greedy.used;
    while (nic_pool_room(&late, 1)) {
        late.have++;
        late.used++;
    }
    assert_true(late.have >= 3 * NIC_RINGS_RESERVE / 2);
    /* The reserve is only for users with few rings, and the maximum is valid for each user. */
    late.used = NIC_RINGS_MAX - NIC_RINGS_RESERVE;
    late.have = NIC_RINGS_SMALL;
    assert_false(nic_pool_room(&late, 1));
    late.have = NIC_RINGS_SMALL - 1;
    assert_true(nic_pool_room(&late, 1));
    late.used = NIC_RINGS_MAX;
    assert_false(nic_pool_room(&late, 1));
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
#define C(name) cmocka_unit_test_setup_teardown(name, cost_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_one_ring_a_turn),
        T(test_lost_peer_one_ring),
        T(test_throttled_waits),
        T(test_errors_told),
        C(test_dear_postings),
        C(test_equal_postings),
        C(test_flood_is_nobodys),
        C(test_many_sessions),
        C(test_dear_packets),
        C(test_cheap_slots),
        C(test_requests_count),
        C(test_no_savings),
        C(test_little_work_of_the_user),
        C(test_little_work_of_another),
        C(test_due_of_late_postings),
        C(test_turn_ends),
        C(test_lost_peers),
        C(test_asks_in_order),
        C(test_asked_breaks),
        C(test_packets_left),
        C(test_packets_beside_postings),
        T(test_kept_packets_shared),
        T(test_pool),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
