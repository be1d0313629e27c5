/*
 * Limits of one session, one user or one peer on a shared nic: kept packets, memory for segments,
 * room for messages of the connection manager, and time.
 */
#include "unit/nic_rig.h"
#include "vipd/engine/cm_internal.h"
#include "vipd/nic/internal.h"

/* Two honest applications on hosts 0 and 1. */
struct world {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb;
};

static struct world world_new(void)
{
    struct world w = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nic(1))};

    w.va = rig_vi(w.a, VIP_LVL_DELIVERY);
    w.vb = rig_vi(w.b, VIP_LVL_DELIVERY);
    w.ma = rig_mem(w.a, 65536, REGISTRY_SHARED);
    w.mb = rig_mem(w.b, 65536, REGISTRY_SHARED);
    rig_connect(w.a, w.va, 0, w.b, w.vb, 1);
    return w;
}

static void world_free(struct world *w)
{
    rig_mem_free(&w->ma);
    rig_mem_free(&w->mb);
}

/* Send a message of many packets from a to b, and a short message back. */
static void honest(struct world *w)
{
    struct vip_comp comp;

    rig_post_recv(w->b, w->vb, rig_seg(&w->mb, 0, 65536));
    rig_post_recv(w->a, w->va, rig_seg(&w->ma, 0, 65536));
    rig_post_send(w->a, w->va, rig_seg(&w->ma, 0, 60000));
    comp = rig_wait_done(w->b, w->vb, VIP_Q_RECV);
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
    assert_int_equal(comp.length, 60000);
    rig_post_send(w->b, w->vb, rig_seg(&w->mb, 0, 100));
    comp = rig_wait_done(w->a, w->va, VIP_Q_RECV);
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
    assert_int_equal(rig_wait_done(w->a, w->va, VIP_Q_SEND).status, VIP_ST_DONE);
    assert_int_equal(rig_wait_done(w->b, w->vb, VIP_Q_SEND).status, VIP_ST_DONE);
}

/* Application `from` writes to `to`, whose libvipl never reports staged bytes as placed. */
struct parker {
    struct rig_app *from, *to;
    uint16_t vf[RIG_VIS], vt[RIG_VIS];
    struct rig_mem mf, mt;
};

static struct parker parker_new(void)
{
    struct parker p = {.from = rig_app(rig_nics[0]), .to = rig_app(rig_nics[0])};

    p.mf = rig_mem(p.from, 4096, REGISTRY_SHARED);
    p.mt = rig_mem(p.to, 4096, REGISTRY_STAGED);
    for (unsigned i = 0; i < RIG_VIS; i++) {
        p.vf[i] = rig_vi(p.from, VIP_LVL_DELIVERY);
        p.vt[i] = rig_vi(p.to, VIP_LVL_DELIVERY);
        rig_connect(p.from, p.vf[i], 0, p.to, p.vt[i], 0);
    }
    return p;
}

/* Write one byte on each VI; drop the place events. */
static void parker_write(struct parker *p)
{
    struct rig_event event;

    for (unsigned i = 0; i < RIG_VIS; i++)
        rig_post_write(p->from, p->vf[i], rig_seg(&p->mf, 0, 1), rig_seg(&p->mt, 0, 0), false);
    rig_step();
    while (rig_event(p->to, 'p', &event))
        continue;
}

static void test_parked_leave_room(void **state)
{
    struct world w = world_new();
    struct parker one = parker_new(), two = parker_new();

    for (unsigned i = 0; i < 70; i++) {
        parker_write(&one);
        parker_write(&two);
    }
    assert_true(rig_counter(rig_nics[0], "parked") > 1000);
    honest(&w);
    rig_mem_free(&one.mf);
    rig_mem_free(&one.mt);
    rig_mem_free(&two.mf);
    rig_mem_free(&two.mt);
    world_free(&w);
}

/* ---- a peer that makes vipd keep packets ----------------------------------------------- */

/* Remove packets to host 1, up to the first data packet. Returns its connection id. */
static uint64_t taken_conn_id(void)
{
    struct rig_host *host = rig_hosts[1];
    struct vip_header hdr = {0};

    while (host->count) {
        struct rig_packet *packet = host->queue[host->head];

        assert_int_equal(vip_wire_get_header(packet->bytes, packet->len, &hdr), VIP_WIRE_OK);
        host->head = (host->head + 1) % RIG_QUEUE;
        host->count--;
        free(packet);
        if (hdr.kind == VIP_PKT_DATA)
            return hdr.conn_id;
    }
    fail();
    return 0;
}

/* Inject a long fragment that is far ahead of its turn. */
static void inject_ahead(uint64_t conn_id, uint32_t op, uint32_t len, const struct rig_mem *to)
{
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .flags = VIP_PKTF_ELICITS,
                             .conn_id = conn_id,
                             .src_epoch = 0x1234567800000001,
                             .dst_epoch = 0x1234567800000002,
                             .packet_number = op + 1,
                             .frame_count = 1};
    struct vip_frame frame = {.type = VIP_FRM_WRITE,
                              .flags = VIP_FRMF_LAST,
                              .op = op + 100,
                              .length = len,
                              .total = len,
                              .handle = to->handle,
                              .remote_addr = (uintptr_t)to->at};
    struct link_addr from = rig_addr(0);
    static uint8_t packet[VIP_PACKET_BYTES_MAX];
    struct iovec iov = {.iov_base = packet,
                        .iov_len = VIP_WIRE_HEADER_BYTES + VIP_WIRE_FRAME_BYTES + len};

    vip_wire_put_header(packet, &hdr);
    vip_wire_put_frame(packet + VIP_WIRE_HEADER_BYTES, &frame);
    vip_wire_seal(&iov, 1);
    rig_inject(&from, 1, packet, (uint32_t)iov.iov_len);
}

/* Inject a packet with two writes: the first in its turn, the second far ahead of its turn. */
static void inject_gap(uint64_t conn_id, uint32_t op, const struct rig_mem *to)
{
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .flags = VIP_PKTF_ELICITS,
                             .conn_id = conn_id,
                             .src_epoch = 0x1234567800000001,
                             .dst_epoch = 0x1234567800000002,
                             .packet_number = op + 1,
                             .frame_count = 2};
    struct vip_frame frame = {.type = VIP_FRM_WRITE,
                              .flags = VIP_FRMF_LAST,
                              .op = op,
                              .length = 1,
                              .total = 1,
                              .handle = to->handle,
                              .remote_addr = (uintptr_t)to->at};
    struct link_addr from = rig_addr(0);
    uint8_t packet[256] = {0};
    struct iovec iov = {.iov_base = packet, .iov_len = VIP_WIRE_HEADER_BYTES};

    vip_wire_put_header(packet, &hdr);
    for (unsigned i = 0; i < 2; i++) {
        iov.iov_len += vip_wire_put_frame(packet + iov.iov_len, &frame) + 1;
        frame.op += 1000;
    }
    vip_wire_seal(&iov, 1);
    rig_inject(&from, 1, packet, (uint32_t)iov.iov_len);
}

/* Inject a write of one byte, alone in its packet. */
static void inject_write(uint64_t conn_id, uint32_t op, const struct rig_mem *to)
{
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .flags = VIP_PKTF_ELICITS,
                             .conn_id = conn_id,
                             .src_epoch = 0x1234567800000001,
                             .dst_epoch = 0x1234567800000002,
                             .packet_number = op + 1,
                             .frame_count = 1};
    struct vip_frame frame = {.type = VIP_FRM_WRITE,
                              .flags = VIP_FRMF_LAST,
                              .op = op,
                              .length = 1,
                              .total = 1,
                              .handle = to->handle,
                              .remote_addr = (uintptr_t)to->at + op};
    struct link_addr from = rig_addr(0);
    uint8_t packet[256] = {0};
    struct iovec iov = {.iov_base = packet, .iov_len = VIP_WIRE_HEADER_BYTES};

    vip_wire_put_header(packet, &hdr);
    iov.iov_len += vip_wire_put_frame(packet + iov.iov_len, &frame);
    packet[iov.iov_len++] = (uint8_t)(1 + op % 255);
    vip_wire_seal(&iov, 1);
    rig_inject(&from, 1, packet, (uint32_t)iov.iov_len);
}

/* Each reading of the clock advances it by 1 ms, the longest time of a turn. */
static uint64_t slow_looks;

static uint64_t slow_clock(void)
{
    return rig_now + 1000000 * slow_looks++;
}

static void slow_turn(void)
{
    slow_looks = 0;
    rig_now += RIG_STEP_NS;
    nic_turn(rig_nics[1], rig_now);
}

/* Hundreds of packets wait for a missing packet. When it arrives, each turn processes some of the
 * waiting packets. A message of another connection does not wait for all of these. disconnect: the
 * connection of the waiting packets ends meanwhile. */
static void gap_closes(bool disconnect)
{
    enum { GAP = 600 };
    struct world w;
    struct rig_app *evil, *victim;
    struct rig_mem from, to;
    uint16_t vf, vt;
    uint64_t conn_id, kept;
    unsigned turns = 0;
    struct vip_comp comp;

    rig_cost_clock = slow_clock;
    w = world_new();
    evil = rig_app(rig_nics[0]);
    victim = rig_app(rig_nics[1]);
    from = rig_mem(evil, 4096, REGISTRY_SHARED);
    to = rig_mem(victim, 4096, REGISTRY_SHARED);
    vf = rig_vi(evil, VIP_LVL_DELIVERY);
    vt = rig_vi(victim, VIP_LVL_DELIVERY);
    rig_connect(evil, vf, 0, victim, vt, 1);
    rig_pass(RIG_SECOND / 100);
    rig_post_recv(w.b, w.vb, rig_seg(&w.mb, 0, 100));
    rig_post_write(evil, vf, rig_seg(&from, 0, 1), rig_seg(&to, 0, 0), false);
    nic_turn(rig_nics[0], rig_now);
    conn_id = taken_conn_id();
    for (uint32_t op = 1; op <= GAP; op++)
        inject_write(conn_id, op, &to);
    while (rig_counter(rig_nics[1], "kept_packets") < GAP) {
        assert_true(turns++ < GAP);
        slow_turn();
    }
    inject_write(conn_id, 0, &to);
    rig_post_send(w.a, w.va, rig_seg(&w.ma, 0, 100));
    nic_turn(rig_nics[0], rig_now);
    for (turns = 0; !rig_done(w.b, w.vb, VIP_Q_RECV, &comp); turns++) {
        assert_true(turns < 8);
        slow_turn();
    }
    assert_in_range(rig_counter(rig_nics[1], "kept_packets"), GAP / 2, GAP - 1);
    if (disconnect)
        assert_int_equal(nic_vi_disconnect(victim->session, vt, rig_now), VIP_RC_SUCCESS);
    for (turns = 0; (kept = rig_counter(rig_nics[1], "kept_packets")) > 0; turns++) {
        assert_false(nic_try_sleep(rig_nics[1]));
        slow_turn();
        assert_in_range(kept - rig_counter(rig_nics[1], "kept_packets"), 0, 130);
        assert_true(turns < GAP);
    }
    assert_true(turns >= 3);
    for (uint32_t op = 0; op <= GAP && !disconnect; op++)
        assert_int_equal(to.at[op], 1 + op % 255);
    rig_mem_free(&from);
    rig_mem_free(&to);
    world_free(&w);
}

static void test_gap_closes(void **state)
{
    gap_closes(false);
    rig_teardown(state);
    gap_closes(true);
}

static void test_gaps_leave_room(void **state)
{
    struct world w = world_new();
    struct rig_app *evil = rig_app(rig_nics[0]), *victim = rig_app(rig_nics[1]);
    struct rig_mem from = rig_mem(evil, 4096, REGISTRY_SHARED);
    struct rig_mem to = rig_mem(victim, 4096, REGISTRY_SHARED);

    for (unsigned n = 0; n < 17; n++) {
        uint16_t vf = rig_vi(evil, VIP_LVL_DELIVERY), vt = rig_vi(victim, VIP_LVL_DELIVERY);
        uint64_t conn_id;

        rig_connect(evil, vf, 0, victim, vt, 1);
        rig_pass(RIG_SECOND / 100);
        rig_post_write(evil, vf, rig_seg(&from, 0, 1), rig_seg(&to, 0, 0), false);
        nic_turn(rig_nics[0], rig_now);
        conn_id = taken_conn_id();
        for (uint32_t op = 0; op < 600; op++) {
            inject_gap(conn_id, op, &to);
            if (op % 32 == 31)
                nic_turn(rig_nics[1], rig_now);
        }
        nic_turn(rig_nics[1], rig_now);
    }
    assert_in_range(rig_counter(rig_nics[1], "kept_packets"), 1000, 4096);
    honest(&w);
    rig_mem_free(&from);
    rig_mem_free(&to);
    world_free(&w);
}

/* The bytes of kept packets are limited. When the session ends, vipd frees the packets. */
static void test_bytes_leave_room(void **state)
{
    struct world w = world_new();
    struct rig_app *evil = rig_app(rig_nics[0]), *victim = rig_app(rig_nics[1]);
    struct rig_mem from = rig_mem(evil, 4096, REGISTRY_SHARED);
    struct rig_mem to = rig_mem(victim, 65536, REGISTRY_SHARED);

    for (unsigned n = 0; n < 3; n++) {
        uint16_t vf = rig_vi(evil, VIP_LVL_DELIVERY), vt = rig_vi(victim, VIP_LVL_DELIVERY);
        uint64_t conn_id;

        rig_connect(evil, vf, 0, victim, vt, 1);
        rig_pass(RIG_SECOND / 100);
        rig_post_write(evil, vf, rig_seg(&from, 0, 1), rig_seg(&to, 0, 0), false);
        nic_turn(rig_nics[0], rig_now);
        conn_id = taken_conn_id();
        for (uint32_t op = 0; op < 500; op++) {
            inject_ahead(conn_id, op, 65000, &to);
            if (op % 32 == 31)
                nic_turn(rig_nics[1], rig_now);
        }
        nic_turn(rig_nics[1], rig_now);
    }
    assert_in_range(rig_counter(rig_nics[1], "kept_bytes"), 30u << 20, 32u << 20);
    assert_true(rig_counter(rig_nics[1], "drop_held_full") > 0);
    honest(&w);
    rig_app_end(victim, true);
    assert_int_equal(rig_counter(rig_nics[1], "kept_bytes"), 0);
    assert_int_equal(rig_counter(rig_nics[1], "kept_packets"), 0);
    rig_mem_free(&from);
    rig_mem_free(&to);
    world_free(&w);
}

/* ---- long descriptors ------------------------------------------------------------------ */

/* A session posts more segments than it may have. Each descriptor still completes, in order. */
static void test_segments(void **state)
{
    struct rig_app *app = rig_app(rig_nic(0));
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX] = {{.len = 0}};
    struct rig_event event;
    uint16_t vis[9];

    for (unsigned v = 0; v < 9; v++) {
        vis[v] = rig_vi(app, VIP_LVL_DELIVERY);
        for (unsigned i = 0; i < VIP_DESC_PER_QUEUE_MAX; i++) {
            rig_post(app, vis[v], VIP_Q_RECV, 0, 0, segs, VIP_SEGS_PER_DESC_MAX);
            rig_step();
            while (rig_event(app, 'e', &event))
                assert_int_equal(event.code, VIP_EC_VI_OVERRUN);
        }
    }
    assert_true(rig_counter(rig_nics[0], "segs_refused") > 0);
    for (unsigned v = 0; v < 9; v++) {
        unsigned count = 0;
        struct vip_comp comp;

        nic_vi_disconnect(app->session, vis[v], rig_now);
        while (rig_done(app, vis[v], VIP_Q_RECV, &comp))
            count++;
        assert_int_equal(count, VIP_DESC_PER_QUEUE_MAX);
    }
}

/* Post 300 receive descriptors of the maximum size. Their segment lists have 1.2 MB. */
static void post_long(struct rig_app *app)
{
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX] = {{.len = 0}};
    uint16_t vi = rig_vi(app, VIP_LVL_DELIVERY);
    struct rig_event event;

    for (unsigned i = 0; i < 300; i++) {
        rig_post(app, vi, VIP_Q_RECV, 0, 0, segs, VIP_SEGS_PER_DESC_MAX);
        rig_step();
        while (rig_event(app, 'e', &event))
            assert_int_equal(event.code, VIP_EC_VI_OVERRUN);
    }
}

/* The limit of a user is for all sessions of this user together. Another user has its own limit. */
static void test_segments_of_a_user(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *first = rig_app(nic), *second = rig_app(nic), *other;
    uint64_t refused;

    nic->config.kept_bytes_user = 300 * VIP_SEGS_PER_DESC_MAX * sizeof(struct vip_shm_seg);
    rig_uid = 7;
    other = rig_app(nic);
    post_long(first);
    assert_int_equal(rig_counter(nic, "segs_refused"), 0);
    post_long(second);
    refused = rig_counter(nic, "segs_refused");
    assert_in_range(refused, 1, 300);
    post_long(other);
    assert_int_equal(rig_counter(nic, "segs_refused"), refused);
}

/* ---- a full link ----------------------------------------------------------------------- */

/* A send waits for the link. It does not complete when other VIs or other sessions end. */
static void test_wait_for_link(void **state)
{
    struct world w = world_new();
    struct rig_app *other = rig_app(rig_nics[0]);
    uint16_t va = rig_vi(w.a, VIP_LVL_UNRELIABLE), vb = rig_vi(w.b, VIP_LVL_UNRELIABLE);
    uint16_t vo = rig_vi(other, VIP_LVL_UNRELIABLE), more = rig_vi(w.a, VIP_LVL_UNRELIABLE);
    struct vip_comp comp;

    rig_connect(w.a, va, 0, w.b, vb, 1);
    rig_post_recv(w.b, vb, rig_seg(&w.mb, 0, 1000));
    rig_hosts[0]->refuse = true;
    rig_fill(w.ma.at, 1000, 1);
    rig_post_send(w.a, va, rig_seg(&w.ma, 0, 1000));
    rig_pass(RIG_SECOND / 1000);
    nic_vi_disconnect(other->session, vo, rig_now);
    assert_int_equal(nic_vi_destroy(other->session, vo, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(nic_vi_destroy(w.a->session, more, rig_now), VIP_RC_SUCCESS);
    rig_app_end(other, true);
    assert_false(rig_done(w.a, va, VIP_Q_SEND, &comp));
    rig_hosts[0]->refuse = false;
    assert_int_equal(rig_wait_done(w.a, va, VIP_Q_SEND).status, VIP_ST_DONE);
    assert_int_equal(rig_wait_done(w.b, vb, VIP_Q_RECV).length, 1000);
    assert_memory_equal(w.ma.at, w.mb.at, 1000);

    /* When the VI of the send ends, the send completes and does not wait for the link. */
    rig_hosts[0]->refuse = true;
    rig_post_send(w.a, va, rig_seg(&w.ma, 0, 1000));
    rig_pass(RIG_SECOND / 1000);
    nic_vi_disconnect(w.a->session, va, rig_now);
    assert_true(rig_done(w.a, va, VIP_Q_SEND, &comp));
    rig_hosts[0]->refuse = false;
    rig_pass(RIG_SECOND / 1000);
    world_free(&w);
}

static uint16_t vi_for_reads(struct rig_app *app)
{
    struct nic_vi_args args = {
        .attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 65536, .enable_rdma_read = true},
        .send_cq = -1,
        .recv_cq = -1};
    struct nic_vi_created created;
    char why[128];

    assert_int_equal(nic_vi_create(app->session, &args, &created, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    app->vi_gen[created.vi] = created.generation;
    return created.vi;
}

/* Answers to two RDMA Reads wait for the link in one packet. The memory of the second answer is
 * deregistered: the second read completes with an error. */
static void test_read_memory_gone(void **state)
{
    struct world w = world_new();
    uint16_t va = vi_for_reads(w.a), vb = vi_for_reads(w.b);
    struct rig_mem gone = rig_mem(w.b, 4096, REGISTRY_SHARED);
    uint64_t start = rig_now;

    rig_connect(w.a, va, 0, w.b, vb, 1);
    rig_hosts[1]->refuse = true;
    for (unsigned i = 0; i < 2; i++) {
        struct vip_shm_seg segs[2] = {i ? rig_seg(&gone, 0, 0) : rig_seg(&w.mb, 0, 0),
                                      rig_seg(&w.ma, i * 100, 100)};

        rig_post(w.a, va, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 0, segs, 2);
    }
    rig_pass(RIG_SECOND / 1000);
    assert_int_equal(registry_remove(w.b->registry, gone.handle, (uintptr_t)gone.at),
                     VIP_RC_SUCCESS);
    rig_hosts[1]->refuse = false;
    assert_int_equal(rig_wait_event(w.b, 'e').code, VIP_EC_RDMAR_PROT);
    assert_int_equal(rig_wait_done(w.a, va, VIP_Q_SEND).status & VIP_ST_DONE, VIP_ST_DONE);
    assert_int_equal(rig_wait_done(w.a, va, VIP_Q_SEND).status,
                     VIP_ST_DONE | VIP_ST_OP_RDMA_READ | VIP_ST_RDMA_PROT_ERROR);
    assert_true(rig_now - start < RIG_SECOND);
    rig_mem_free(&gone);
    world_free(&w);
}

/* ---- time ------------------------------------------------------------------------------ */

/* vipd waits for slot 1. The program writes slot 1, but takes back slot 0: vipd has no work. */
static void test_taken_back(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *app = rig_app(nic);
    struct rig_mem mem = rig_mem(app, 4096, REGISTRY_SHARED);
    uint16_t vi = rig_vi(app, VIP_LVL_DELIVERY);
    struct vip_sq_slot *ring = vip_app_sq(app->app);
    struct vip_shm_seg segs[5];
    uint32_t stamp;

    for (unsigned i = 0; i < 5; i++)
        segs[i] = rig_seg(&mem, i, 1);
    rig_post(app, vi, VIP_Q_RECV, 0, 0, segs, 5);
    stamp = ring[1].stamp;
    ring[1].stamp = 0;
    rig_step();
    ring[1].stamp = stamp;
    stamp = ring[0].stamp;
    ring[0].stamp = 0;
    rig_step();
    assert_true(nic_try_sleep(nic));
    nic_awake(nic);
    /* When slot 0 is there again, vipd takes the descriptor. */
    ring[0].stamp = stamp;
    rig_step();
    assert_int_equal(vip_load32(&((const struct vip_vipd_head *)app->vipd)->sq_cons), 2);
    rig_mem_free(&mem);
}

enum { HOGS = 10 };

/* These programs send and cancel so many requests that vipd has no room for the messages. */
static void ask_and_withdraw(struct rig_app **hog)
{
    struct nic *nic = hog[0]->nic;
    uint64_t lost = rig_counter(nic, "loop_cm_lost");
    struct rig_event event;

    for (unsigned i = 0; i < HOGS * RIG_VIS; i++) {
        struct rig_app *app = hog[i % HOGS];
        uint16_t vi = (uint16_t)(i / HOGS);

        (void)nic_connect_cancel(app->session, vi, rig_now); /* the request may have ended */
        while (rig_event(app, 'r', &event))
            continue;
        rig_connect_start(app, vi, 0, 0, "nobody");
    }
    assert_true(rig_counter(nic, "loop_cm_lost") > lost);
}

/* Run some turns, in less time than the connection manager waits before it repeats a message. */
static void a_few_turns(struct nic *nic)
{
    for (unsigned turns = 0; turns < 8; turns++) {
        rig_now += 1000;
        nic_turn(nic, rig_now);
    }
}

/* Programs of one host exchange messages. One user sends more messages than there is room for. No
 * message of another user is lost: its programs connect and disconnect at once. */
static void test_own_messages(void **state)
{
    struct nic *nic = rig_nic(0);
    struct rig_app *hog[HOGS], *a, *b;
    struct rig_event event;
    uint16_t va, vb;
    uint64_t lost;

    rig_uid = 1;
    for (unsigned i = 0; i < HOGS; i++) {
        hog[i] = rig_app(nic);
        for (unsigned n = 0; n < RIG_VIS; n++)
            assert_int_equal(rig_vi(hog[i], VIP_LVL_DELIVERY), n);
    }
    rig_uid = 2;
    a = rig_app(nic);
    b = rig_app(nic);
    va = rig_vi(a, VIP_LVL_DELIVERY);
    vb = rig_vi(b, VIP_LVL_DELIVERY);
    rig_listen(b, 0, "b");

    ask_and_withdraw(hog);
    lost = rig_counter(nic, "loop_cm_lost");
    rig_connect_start(a, va, 0, 0, "b");
    assert_int_equal(rig_counter(nic, "loop_cm_lost"), lost);
    a_few_turns(nic);
    assert_true(rig_event(b, 'i', &event));

    ask_and_withdraw(hog);
    lost = rig_counter(nic, "loop_cm_lost");
    assert_int_equal(nic_accept(b->session, event.handle, vb, NULL, rig_now, NULL, 0),
                     VIP_RC_SUCCESS);
    assert_int_equal(rig_counter(nic, "loop_cm_lost"), lost);
    a_few_turns(nic);
    assert_true(rig_event(a, 'r', &event) && event.code == VIP_RC_SUCCESS);
    assert_true(rig_event(b, 'r', &event) && event.code == VIP_RC_SUCCESS);

    ask_and_withdraw(hog);
    lost = rig_counter(nic, "loop_cm_lost");
    assert_int_equal(nic_vi_disconnect(a->session, va, rig_now), VIP_RC_SUCCESS);
    assert_int_equal(rig_counter(nic, "loop_cm_lost"), lost);
    a_few_turns(nic);
    assert_true(rig_event(b, 'e', &event) && event.code == VIP_EC_CONN_LOST);
}

/* Each local program can use each address 127.x.x.x, so all these addresses are one source. */
static void test_local_addresses(void **state)
{
    const struct nic *nic = rig_nic(0);

    assert_int_equal(nic->link->kind, LINK_UDP);
    assert_int_equal(nic->cm->config.local.len, 1);
    assert_int_equal(nic->cm->config.local.bytes[0], 127);
}

int main(void)
{
#define T(name) cmocka_unit_test_teardown(name, rig_teardown)
    const struct CMUnitTest tests[] = {
        T(test_parked_leave_room), T(test_gaps_leave_room),    T(test_bytes_leave_room),
        T(test_segments),          T(test_wait_for_link),      T(test_read_memory_gone),
        T(test_taken_back),        T(test_segments_of_a_user), T(test_local_addresses),
        T(test_own_messages),      T(test_gap_closes),
    };

    rig_reset();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
