/*
 * RDMA Write with message and 64-bit immediate data, from the submission ring of one application to
 * the memory of another. Also: message slots that libvipl never writes.
 */
#include "unit/nic_rig.h"

struct pair {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb;
};

static struct pair pair_new(unsigned host_b, uint16_t level, enum registry_kind kind)
{
    struct pair p = {.a = rig_app(rig_nic(0))};

    if (host_b)
        rig_nic(host_b);
    p.b = rig_app(rig_nics[host_b]);
    p.va = rig_vi(p.a, level);
    p.vb = rig_vi(p.b, level);
    p.ma = rig_mem(p.a, 100000, REGISTRY_SHARED);
    p.mb = rig_mem(p.b, 100000, kind);
    rig_fill(p.ma.at, 100000, 3);
    rig_connect(p.a, p.va, 0, p.b, p.vb, host_b);
    return p;
}

static void pair_free(struct pair *p)
{
    rig_mem_free(&p->ma);
    rig_mem_free(&p->mb);
}

static struct vip_sq_slot write_slot(const struct pair *p, uint32_t bytes)
{
    struct vip_sq_slot slot = {.vi = p->va,
                               .kind = VIP_SQ_SEND,
                               .flags = VIP_SQF_MSG,
                               .control = VIP_CTL_OP_RDMAWRITE,
                               .seg_count = 2,
                               .length = bytes,
                               .vi_gen = p->a->vi_gen[p->va]};

    slot.seg[0] = rig_seg(&p->mb, 5000, 0);
    slot.seg[1] = rig_seg(&p->ma, 0, bytes);
    return slot;
}

/* Write one slot of a message that has `len` bytes in all. Each byte in the slot is `byte`. */
static void put_part(struct pair *p, uint32_t position, uint16_t len, uint8_t byte)
{
    struct vip_sq_msg part = {.vi = p->va, .kind = VIP_SQ_MSG, .len = len};
    struct vip_sq_slot slot;

    memset(part.bytes, byte, sizeof(part.bytes));
    memcpy(&slot, &part, sizeof(slot));
    vip_sq_write(vip_app_sq(p->a->app), position, &slot);
}

static void post_message(struct pair *p, uint32_t bytes, uint16_t len, uint8_t byte)
{
    struct vip_sq_slot slot = write_slot(p, bytes);
    uint32_t slots = VIP_SQ_SLOTS_FOR_MSG(len);

    for (uint32_t i = 0; i < slots; i++)
        put_part(p, p->a->sq_position + 1 + i, len, byte);
    vip_sq_write(vip_app_sq(p->a->app), p->a->sq_position, &slot);
    p->a->sq_position += 1 + slots;
}

static void one_message(struct pair *p, uint32_t bytes, uint16_t len)
{
    struct vip_comp comp;

    memset(p->mb.at, 0, 100000);
    rig_post_recv(p->b, p->vb, rig_seg(&p->mb, 0, 300));
    post_message(p, bytes, len, 0xA5);
    comp = rig_wait_done(p->b, p->vb, VIP_Q_RECV);
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE | VIP_ST_MESSAGE);
    assert_int_equal(comp.length, len);
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(p->mb.at[i], i < len ? 0xA5 : 0);
    assert_memory_equal(p->mb.at + 5000, p->ma.at, bytes);
    assert_int_equal(p->mb.at[5000 + bytes], 0);
    comp = rig_wait_done(p->a, p->va, VIP_Q_SEND);
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RDMA_WRITE);
    assert_int_equal(comp.length, bytes);
}

static void test_message(void **state)
{
    static const uint16_t lens[] = {1, 54, 55, 108, 255, 256};
    static const uint16_t levels[] = {VIP_LVL_UNRELIABLE, VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};

    for (unsigned host = 0; host < 2; host++) {
        for (unsigned l = 0; l < 3; l++) {
            struct pair p = pair_new(host, levels[l], REGISTRY_SHARED);

            assert_int_equal(rig_vi_head(p.a, p.va)->features, VIP_FEATURES);
            assert_int_equal(rig_vi_head(p.b, p.vb)->features, VIP_FEATURES);
            for (unsigned i = 0; i < 6; i++)
                one_message(&p, i * 9000, lens[i]);
            pair_free(&p);
            rig_teardown(state);
        }
    }
}

static void test_message_lossy(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY, REGISTRY_SHARED);

    rig_loss_ppm = 100000;
    rig_dup_ppm = 50000;
    rig_swap_ppm = 100000;
    for (unsigned i = 0; i < 40; i++)
        one_message(&p, i * 2000, (uint16_t)(1 + i * 6));
    pair_free(&p);
}

/* Staged memory at the target: libvipl places the data, but not the message. */
static void test_message_staged(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY, REGISTRY_STAGED);
    struct rig_mem plain = rig_mem(p.b, 4096, REGISTRY_SHARED);
    struct rig_event event;
    uint64_t placed = 0;
    struct vip_comp comp;

    rig_post_recv(p.b, p.vb, rig_seg(&plain, 0, 300));
    post_message(&p, 20000, 200, 0x77);
    for (unsigned i = 0; !rig_done(p.b, p.vb, VIP_Q_RECV, &comp); i++) {
        assert_true(i < 100000);
        rig_pass(RIG_STEP_NS);
        while (rig_event(p.b, 'p', &event)) {
            rig_place(p.b, &p.mb, &event);
            placed += event.bytes;
        }
    }
    assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE | VIP_ST_MESSAGE);
    assert_int_equal(placed, 20000);
    assert_memory_equal(p.mb.at + 5000, p.ma.at, 20000);
    assert_int_equal(plain.at[199], 0x77);
    assert_int_equal(plain.at[200], 0);
    rig_mem_free(&plain);
    pair_free(&p);
}

static void test_immediate_64(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY, REGISTRY_SHARED);
    struct vip_sq_slot slot = {.vi = p.va,
                               .kind = VIP_SQ_SEND,
                               .flags = VIP_SQF_IMM64,
                               .control = VIP_CTL_IMMEDIATE,
                               .imm = 0xFEDCBA9876543210ull,
                               .vi_gen = p.a->vi_gen[p.va]};
    struct vip_comp comp;

    for (unsigned i = 0; i < 2; i++) {
        rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 0, 0));
        slot.flags = i ? 0 : VIP_SQF_IMM64;
        vip_sq_write(vip_app_sq(p.a->app), p.a->sq_position++, &slot);
        comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
        assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE | VIP_ST_IMMEDIATE);
        assert_int_equal(comp.imm, i ? 0x76543210ull : 0xFEDCBA9876543210ull);
    }
    pair_free(&p);
}

/* vipd takes a message only when its last slot is there. */
static void test_message_in_pieces(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_DELIVERY, REGISTRY_SHARED);
    struct vip_sq_slot slot = write_slot(&p, 10);
    uint32_t at = p.a->sq_position;
    struct vip_comp comp;

    rig_post_recv(p.b, p.vb, rig_seg(&p.mb, 0, 300));
    put_part(&p, at + 1, 60, 1);
    vip_sq_write(vip_app_sq(p.a->app), at, &slot);
    rig_pass(1000000);
    assert_int_equal(vip_load32(&((const struct vip_vipd_head *)p.a->vipd)->sq_cons), at);
    put_part(&p, at + 2, 60, 2);
    p.a->sq_position = at + 3;
    comp = rig_wait_done(p.b, p.vb, VIP_Q_RECV);
    assert_int_equal(comp.length, 60);
    assert_int_equal(p.mb.at[53], 1);
    assert_int_equal(p.mb.at[54], 2);
    pair_free(&p);
}

/* Malformed message slots break their own session, and no other session. */
static void test_message_slots_hostile(void **state)
{
    static const struct {
        uint8_t kind;
        uint16_t len, second; /* the `len` fields of the two slots */
    } cases[] = {{VIP_SQ_CONT, 60, 60},  {VIP_SQ_SEND, 60, 60},   {VIP_SQ_MSG, 0, 0},
                 {VIP_SQ_MSG, 257, 257}, {VIP_SQ_MSG, 0xFFFF, 1}, {VIP_SQ_MSG, 60, 61}};

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pair p = pair_new(1, VIP_LVL_DELIVERY, REGISTRY_SHARED);
        struct vip_sq_slot slot = write_slot(&p, 10), part;

        put_part(&p, p.a->sq_position + 1, cases[i].len, 1);
        put_part(&p, p.a->sq_position + 2, cases[i].second, 1);
        part = vip_app_sq(p.a->app)[(p.a->sq_position + 1) & (VIP_SQ_SLOTS - 1)];
        part.kind = cases[i].kind;
        vip_sq_write(vip_app_sq(p.a->app), p.a->sq_position + 1, &part);
        vip_sq_write(vip_app_sq(p.a->app), p.a->sq_position, &slot);
        rig_pass(1000000);
        assert_true(nic_session_broken(p.a->session));
        assert_false(nic_session_broken(p.b->session));
        pair_free(&p);
        rig_teardown(state);
    }
}

/* An unknown flag, a message on a send, a message on an RDMA Read: each such descriptor fails. */
static void test_flags_hostile(void **state)
{
    struct pair p = pair_new(1, VIP_LVL_UNRELIABLE, REGISTRY_SHARED);
    struct vip_sq_slot slot = write_slot(&p, 10);
    struct vip_comp comp;

    for (unsigned i = 0; i < 3; i++) {
        slot.flags = i == 0 ? 0x40 : VIP_SQF_MSG;
        slot.control = i == 2 ? VIP_CTL_OP_RDMAREAD : i == 1 ? 0 : VIP_CTL_OP_RDMAWRITE;
        if (i > 0)
            put_part(&p, p.a->sq_position + 1, 10, 1);
        vip_sq_write(vip_app_sq(p.a->app), p.a->sq_position, &slot);
        p.a->sq_position += i == 0 ? 1 : 2;
        comp = rig_wait_done(p.a, p.va, VIP_Q_SEND);
        assert_true(comp.status & VIP_ST_FORMAT_ERROR);
    }
    assert_false(nic_session_broken(p.a->session));
    one_message(&p, 100, 10);
    pair_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_message, rig_teardown),
        cmocka_unit_test_teardown(test_message_lossy, rig_teardown),
        cmocka_unit_test_teardown(test_message_staged, rig_teardown),
        cmocka_unit_test_teardown(test_immediate_64, rig_teardown),
        cmocka_unit_test_teardown(test_message_in_pieces, rig_teardown),
        cmocka_unit_test_teardown(test_message_slots_hostile, rig_teardown),
        cmocka_unit_test_teardown(test_flags_hostile, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
