/*
 * Applications write wrong values into all memory that they share with vipd. The traffic of other
 * sessions on the same nic must stay correct.
 */
#include "unit/nic_rig.h"
#include "vipd/nic/share.h"
#include "vipd/nic/state.h"

/* Two honest applications on hosts 0 and 1, and a hostile one on host 0. */
struct world {
    struct rig_app *a, *b, *evil;
    uint16_t va, vb;
    struct rig_mem ma, mb, me;
};

static struct world world_new(void)
{
    struct world w = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nic(1))};

    w.evil = rig_app(rig_nics[0]);
    w.va = rig_vi(w.a, VIP_LVL_DELIVERY);
    w.vb = rig_vi(w.b, VIP_LVL_DELIVERY);
    w.ma = rig_mem(w.a, 65536, REGISTRY_SHARED);
    w.mb = rig_mem(w.b, 65536, REGISTRY_SHARED);
    w.me = rig_mem(w.evil, 65536, REGISTRY_SHARED);
    rig_connect(w.a, w.va, 0, w.b, w.vb, 1);
    return w;
}

static void world_free(struct world *w)
{
    rig_mem_free(&w->ma);
    rig_mem_free(&w->mb);
    rig_mem_free(&w->me);
}

static void honest(struct world *w, uint32_t seed)
{
    uint32_t len = seed * 37 % 20000;
    struct vip_comp comp;

    rig_fill(w->ma.at, len, seed);
    rig_post_recv(w->b, w->vb, rig_seg(&w->mb, 0, 65536));
    rig_post_send(w->a, w->va, rig_seg(&w->ma, 0, len));
    comp = rig_wait_done(w->b, w->vb, VIP_Q_RECV);
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
    assert_int_equal(comp.length, len);
    assert_memory_equal(w->ma.at, w->mb.at, len);
    comp = rig_wait_done(w->a, w->va, VIP_Q_SEND);
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_SEND);
}

static void evil_reset(struct world *w)
{
    rig_app_end(w->evil, true);
    rig_mem_free(&w->me);
    w->evil = rig_app(rig_nics[0]);
    w->me = rig_mem(w->evil, 65536, REGISTRY_SHARED);
}

/* The segment has random bytes, but the stamps in the submission ring are correct. */
static void test_garbage(void **state)
{
    struct world w = world_new();

    for (unsigned round = 0; round < 30; round++) {
        uint32_t *words = w.evil->app;

        rig_vi(w.evil, VIP_LVL_DELIVERY);
        for (uint64_t i = rig_layout()->app_bytes / 4; i--;)
            words[i] = rig_random();
        for (uint32_t i = 0; i < VIP_SQ_SLOTS; i++)
            vip_app_sq(w.evil->app)[i].stamp = i + 1;
        rig_steps(3);
        honest(&w, round);
        w.evil->event_count = 0;
        evil_reset(&w);
    }
    assert_true(rig_counter(rig_nics[0], "post_bad_kind") > 0);
    world_free(&w);
}

/* Returns a plausible slot with some wrong fields. */
static struct vip_sq_slot almost(struct world *w, uint16_t vi)
{
    struct vip_sq_slot slot = {.vi = vi,
                               .kind = (uint8_t)(1 + rig_random() % 2),
                               .seg_count = (uint16_t)(rig_random() % 4),
                               .vi_gen = w->evil->vi_gen[vi]};

    for (unsigned i = 0; i < 2; i++)
        slot.seg[i] = rig_seg(&w->me, rig_random() % 65536, rig_random() % 2000);
    slot.length = slot.seg[0].len;
    switch (rig_random() % 12) {
    case 0:
        slot.vi = (uint16_t)rig_random();
        break;
    case 1:
        slot.vi_gen = rig_random();
        break;
    case 2:
        slot.kind = (uint8_t)rig_random();
        break;
    case 3:
        slot.seg_count = (uint16_t)rig_random();
        break;
    case 4:
        slot.control = (uint16_t)rig_random();
        break;
    case 5:
        slot.length = rig_random();
        break;
    case 6:
        slot.seg[0].addr = rig_random() % 3 ? UINT64_MAX - rig_random() % 100 : 0;
        break;
    case 7:
        slot.seg[0].handle = rig_random();
        break;
    case 8:
        slot.seg[0].len = slot.seg[1].len = rig_random();
        break;
    case 9:
        slot.reserved1 = rig_random();
        break;
    case 10:
        slot.control = VIP_CTL_OP_RDMAWRITE;
        slot.seg[0].addr = rig_random();
        break;
    }
    return slot;
}

/* Post nearly correct descriptors. The VI on peer_host has faulty receive descriptors. */
static void hostile_posts(unsigned peer_host)
{
    struct world w = world_new();
    unsigned rounds = 40;

    while (rounds--) {
        struct rig_app *peer = rig_app(rig_nics[peer_host]);
        uint16_t level = rounds % 2 ? VIP_LVL_DELIVERY : VIP_LVL_UNRELIABLE;
        uint16_t vi = rig_vi(w.evil, level), other = rig_vi(peer, level);

        rig_connect(w.evil, vi, 0, peer, other, peer_host);
        for (unsigned i = 0; i < 200; i++) {
            struct vip_sq_slot slot = almost(&w, vi);

            vip_sq_write(vip_app_sq(w.evil->app), w.evil->sq_position++, &slot);
            if (i % 16 == 0) {
                rig_post_recv(peer, other, (struct vip_shm_seg){.len = 5, .addr = 7, .handle = 9});
                rig_step();
            }
        }
        rig_steps(20);
        honest(&w, rounds);
        w.evil->event_count = 0;
        peer->event_count = 0;
        rig_app_end(peer, false);
        evil_reset(&w);
    }
    world_free(&w);
}

static void test_hostile_posts_link(void **state)
{
    hostile_posts(1);
}

static void test_hostile_posts_loop(void **state)
{
    hostile_posts(0);
}

/* A fault in the structure of the ring breaks the session; other sessions go on. */
static void test_broken(void **state)
{
    struct world w = world_new();
    uint16_t vi = rig_vi(w.evil, VIP_LVL_DELIVERY);
    struct vip_sq_slot cont = {.vi = vi, .kind = VIP_SQ_CONT};
    struct vip_sq_slot three = {.vi = vi, .kind = VIP_SQ_RECV, .seg_count = 3, .vi_gen = 1};
    struct vip_sq_slot zero = {.vi = vi, .kind = VIP_SQ_RECV, .vi_gen = 1};
    struct vip_sq_slot *ring = vip_app_sq(w.evil->app);

    vip_sq_write(ring, 0, &cont);
    assert_false(nic_session_broken(w.evil->session));
    rig_step();
    assert_true(nic_session_broken(w.evil->session));
    vip_sq_write(ring, 1, &zero);
    assert_true(nic_try_sleep(rig_nics[0]));
    nic_awake(rig_nics[0]);
    honest(&w, 1);

    evil_reset(&w);
    vi = rig_vi(w.evil, VIP_LVL_DELIVERY);
    ring = vip_app_sq(w.evil->app);
    three.vi_gen = zero.vi_gen = w.evil->vi_gen[vi];
    vip_sq_write(ring, 0, &three);
    vip_sq_write(ring, 1, &zero); /* wrong: a continuation must be here */
    rig_step();
    assert_true(nic_session_broken(w.evil->session));
    assert_int_equal(rig_counter(rig_nics[0], "sessions_broken"), 2);
    honest(&w, 2);
    world_free(&w);
}

/* Too many segments: the descriptor fails in its turn, and vipd skips its continuations. */
static void test_too_many_segments(void **state)
{
    struct world w = world_new();
    uint16_t vi = rig_vi(w.evil, VIP_LVL_DELIVERY), to = rig_vi(w.evil, VIP_LVL_DELIVERY);
    struct vip_sq_slot slot = {.vi = vi, .kind = VIP_SQ_RECV, .seg_count = 300};
    struct vip_sq_slot cont = {.vi = vi, .kind = VIP_SQ_CONT};
    struct vip_comp comp;

    slot.vi_gen = w.evil->vi_gen[vi];
    vip_sq_write(vip_app_sq(w.evil->app), w.evil->sq_position++, &slot);
    for (unsigned i = 0; i < 5; i++)
        vip_sq_write(vip_app_sq(w.evil->app), w.evil->sq_position++, &cont);
    rig_connect(w.evil, to, 0, w.evil, vi, 0);
    rig_post_send(w.evil, to, rig_seg(&w.me, 0, 10));
    comp = rig_wait_done(w.evil, vi, VIP_Q_RECV);
    assert_true(comp.status & VIP_ST_FORMAT_ERROR);
    assert_false(nic_session_broken(w.evil->session));
    assert_int_equal(rig_counter(rig_nics[0], "post_bad_segs"), 1);
    world_free(&w);
}

/* One turn takes only a part of a full ring. */
static void test_budget(void **state)
{
    struct world w = world_new();
    struct vip_sq_slot slot = {.vi = 9999, .kind = VIP_SQ_SEND};
    const struct vip_vipd_head *head = w.evil->vipd;

    for (unsigned i = 0; i < VIP_SQ_SLOTS; i++)
        vip_sq_write(vip_app_sq(w.evil->app), i, &slot);
    assert_true(nic_turn(rig_nics[0], rig_now));
    assert_in_range(vip_load32(&head->sq_cons), 1, VIP_SQ_SLOTS - 1);
    honest(&w, 3);
    world_free(&w);
}

/* Several rings are always full: a turn takes at most TURN_MAX slots, the same number from each. */
static void test_budget_is_shared(void **state)
{
    enum { EVIL = 6, TURNS = 60, TURN_MAX = 1100 };
    struct world w = world_new();
    struct vip_sq_slot slot = {.vi = 9999, .kind = VIP_SQ_SEND};
    struct rig_app *evil[EVIL] = {w.evil};
    uint32_t written[EVIL] = {0}, taken[EVIL] = {0}, least = UINT32_MAX, most = 0;

    for (unsigned k = 1; k < EVIL; k++)
        evil[k] = rig_app(rig_nics[0]);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        uint32_t sum = 0;

        for (unsigned k = 0; k < EVIL; k++)
            while (written[k] - taken[k] < VIP_SQ_SLOTS)
                vip_sq_write(vip_app_sq(evil[k]->app), written[k]++, &slot);
        assert_true(nic_turn(rig_nics[0], rig_now));
        for (unsigned k = 0; k < EVIL; k++) {
            const struct vip_vipd_head *head = evil[k]->vipd;
            uint32_t now = vip_load32(&head->sq_cons);

            sum += now - taken[k];
            taken[k] = now;
        }
        assert_in_range(sum, 1, TURN_MAX);
    }
    for (unsigned k = 0; k < EVIL; k++) {
        least = taken[k] < least ? taken[k] : least;
        most = taken[k] > most ? taken[k] : most;
    }
    assert_in_range(most - least, 0, TURN_MAX);
    for (unsigned k = 1; k < EVIL; k++)
        rig_app_end(evil[k], true);
    honest(&w, 3);
    world_free(&w);
}

static uint32_t taken_of(const struct rig_app *app)
{
    const struct vip_vipd_head *head = app->vipd;

    return vip_load32(&head->sq_cons);
}

/* All descriptors of a session fail. vipd takes some thousands of them, then a few at intervals.
 * Meanwhile vipd can sleep, and other sessions do not wait. Receive descriptors posted before a
 * connection are ready when the connection is made. */
static void test_throttled(void **state)
{
    struct world w = world_new();
    uint16_t vi = rig_vi(w.evil, VIP_LVL_DELIVERY), to = rig_vi(w.a, VIP_LVL_DELIVERY);
    struct vip_sq_slot slot = {.vi = 9999, .kind = VIP_SQ_SEND};
    const struct vip_vipd_head *head = w.evil->vipd;
    uint32_t written = 0, before;
    uint64_t start;

    while (!nic_session_throttled(w.evil->session)) {
        assert_in_range(written, 0, NIC_FAULT_BURST + VIP_SQ_SLOTS + NIC_POSTS_SESSION);
        while (written - taken_of(w.evil) < VIP_SQ_SLOTS)
            vip_sq_write(vip_app_sq(w.evil->app), written++, &slot);
        assert_true(nic_turn(rig_nics[0], rig_now));
    }
    before = taken_of(w.evil);
    assert_in_range(before, NIC_FAULT_BURST, NIC_FAULT_BURST + NIC_POSTS_SESSION);
    assert_false(nic_turn(rig_nics[0], rig_now));
    assert_true(nic_try_sleep(rig_nics[0]));
    assert_int_equal(head->asleep, 0);
    nic_awake(rig_nics[0]);
    assert_true(nic_deadline(rig_nics[0]) > rig_now);
    assert_true(nic_deadline(rig_nics[0]) <= rig_now + NIC_POSTS_SESSION * NIC_FAULT_NS);
    assert_int_equal(rig_counter(rig_nics[0], "throttled"), 1);

    start = rig_now;
    before = taken_of(w.evil);
    for (unsigned i = 0; i < 20; i++)
        honest(&w, i);
    rig_pass(RIG_SECOND / 100);
    assert_in_range(taken_of(w.evil) - before, 1,
                    (rig_now - start) / NIC_FAULT_NS + NIC_POSTS_SESSION);

    /* Post 100 receive descriptors after the failing ones. Connect the VIs and send a message. */
    while (written - taken_of(w.evil) > VIP_SQ_SLOTS - 100)
        rig_pass(RIG_STEP_NS);
    w.evil->sq_position = written;
    for (unsigned i = 0; i < 100; i++)
        rig_post_recv(w.evil, vi, rig_seg(&w.me, 0, 64));
    rig_connect(w.evil, vi, 0, w.a, to, 0);
    rig_post_send(w.a, to, rig_seg(&w.ma, 0, 10));
    assert_int_equal(rig_wait_done(w.evil, vi, VIP_Q_RECV).status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
    world_free(&w);
}

/* Make a packet with a correct checksum, a nearly correct header and random contents. */
static uint32_t random_packet(uint8_t packet[RIG_MTU])
{
    uint32_t len = 64 + rig_random() % 200;
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .conn_id = 1 + rig_random() % 4,
                             .src_epoch = 0x1234567800000001,
                             .dst_epoch = 0x1234567800000002,
                             .packet_number = 1 + rig_random(),
                             .frame_count = 1};
    struct vip_cm cm = {.type = (uint8_t)(1 + rig_random() % (VIP_CM_TYPES - 1)),
                        .request_id = 1 + rig_random() % 5,
                        .conn_id = 1 + rig_random() % 5,
                        .peer_conn_id = 1 + rig_random() % 5,
                        .packet_bytes = 1000 + rig_random() % 10000,
                        .window_bytes = 512 + rig_random() / 2,
                        .code = VIP_RC_REJECT,
                        .cookie = 1 + rig_random() % 5,
                        .tag = 1 + rig_random() % 5,
                        .nonce = 1 + rig_random() % 5,
                        .back_ms = 1 + rig_random() % 5,
                        .data_id = 1 + rig_random() % 5,
                        .number = 1 + (uint32_t)rig_random() % 5,
                        .offered = 1 + (uint32_t)rig_random() % 5,
                        .attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 1000},
                        .local = {.host_len = 6},
                        .remote = {.host_len = 6}};

    for (uint32_t i = 0; i < len; i++)
        packet[i] = (uint8_t)rig_random();
    switch (rig_random() % 5) {
    case 0:
        break;
    case 1:
    case 2:
        vip_wire_put_header(packet, &hdr);
        break;
    case 3:
        len = (uint32_t)vip_wire_put_cm(packet, hdr.src_epoch, hdr.dst_epoch, &cm);
        break;
    case 4:
        len = (uint32_t)vip_wire_put_cm(packet, hdr.src_epoch, hdr.dst_epoch, &cm);
        packet[64 + rig_random() % (len - 64)] = (uint8_t)rig_random();
        break;
    }
    return len;
}

static void test_packets(void **state)
{
    struct world w = world_new();
    uint8_t packet[RIG_MTU];

    for (unsigned i = 0; i < 20000; i++) {
        struct iovec iov = {.iov_base = packet, .iov_len = random_packet(packet)};
        struct link_addr from = rig_addr(rig_random() % 3);

        vip_wire_seal(&iov, 1);
        rig_inject(&from, 1, packet, (uint32_t)iov.iov_len);
        if (i % 50 == 0)
            rig_step();
    }
    rig_steps(10);
    honest(&w, 4);
    world_free(&w);
}

/* Returns the connection id of the first data packet to host 1, from the hostile application. */
static uint64_t evil_conn_id(void)
{
    const struct rig_host *host = rig_hosts[1];
    struct vip_header hdr;

    for (unsigned i = 0; i < host->count; i++) {
        const struct rig_packet *packet = host->queue[(host->head + i) % RIG_QUEUE];

        if (vip_wire_get_header(packet->bytes, packet->len, &hdr) == VIP_WIRE_OK &&
            hdr.kind == VIP_PKT_DATA)
            return hdr.conn_id;
    }
    fail();
    return 0;
}

/* Change some packets of this connection and correct their checksums, like a hostile vipd. */
static void mutate(uint64_t conn_id)
{
    struct rig_host *host = rig_hosts[1];
    struct vip_header hdr;

    for (unsigned i = 0; i < host->count; i++) {
        struct rig_packet *packet = host->queue[(host->head + i) % RIG_QUEUE];
        struct iovec iov = {.iov_base = packet->bytes, .iov_len = packet->len};

        if (vip_wire_get_header(packet->bytes, packet->len, &hdr) != VIP_WIRE_OK ||
            hdr.conn_id != conn_id || rig_random() % 3)
            continue;
        for (unsigned n = rig_random() % 3; n; n--)
            packet->bytes[16 + rig_random() % (packet->len < 140 ? packet->len - 16 : 124)] =
                (uint8_t)rig_random();
        vip_wire_seal(&iov, 1);
    }
}

/* A peer sends wrong packets with correct checksums. It can break only its own connections. */
static void test_hostile_peer(void **state)
{
    struct world w = world_new();

    for (unsigned round = 0; round < 60; round++) {
        struct rig_app *victim = rig_app(rig_nics[1]);
        struct rig_mem mem = rig_mem(victim, 65536, round % 3 ? REGISTRY_SHARED : REGISTRY_STAGED);
        uint16_t level = round % 2 ? VIP_LVL_DELIVERY : VIP_LVL_UNRELIABLE;
        uint16_t vi = rig_vi(w.evil, level), to = rig_vi(victim, level);
        struct rig_event event;
        uint64_t conn_id;

        rig_connect(w.evil, vi, 0, victim, to, 1);
        rig_steps(5);
        rig_post_recv(victim, to, rig_seg(&mem, 0, 65536));
        rig_post_send(w.evil, vi, rig_seg(&w.me, 0, 10));
        nic_turn(rig_nics[0], rig_now);
        conn_id = evil_conn_id();
        for (unsigned i = 0; i < 40; i++) {
            rig_post_recv(victim, to, rig_seg(&mem, 0, 65536));
            rig_post_write(w.evil, vi, rig_seg(&w.me, 0, 8000), rig_seg(&mem, 100, 0), i % 2);
            rig_post_send(w.evil, vi, rig_seg(&w.me, 0, rig_random() % 9000));
            nic_turn(rig_nics[0], rig_now);
            mutate(conn_id);
            nic_turn(rig_nics[1], rig_now);
            rig_step();
            while (rig_event(victim, 'p', &event))
                assert_true(nic_placed(victim->session, event.number, true, rig_now));
        }
        honest(&w, round);
        w.evil->event_count = 0;
        rig_app_end(victim, false);
        rig_mem_free(&mem);
        evil_reset(&w);
    }
    world_free(&w);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_garbage),          T(test_hostile_posts_link), T(test_hostile_posts_loop),
        T(test_broken),           T(test_too_many_segments),  T(test_budget),
        T(test_budget_is_shared), T(test_throttled),          T(test_packets),
        T(test_hostile_peer),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
