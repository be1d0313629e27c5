/*
 * A program changes memory while vipd sends from it. RDMA Reads, RDMA Writes and sends of this
 * memory still complete, and each packet has the bytes of one moment. The test changes the memory
 * at each send, between the checksum and the medium. So each packet that vipd has not copied
 * arrives damaged.
 */
#include "unit/nic_rig.h"

#define BYTES 300000u
#define STILL 64u /* bytes at the beginning of the region; they do not change */

static uint8_t *changing;

static void change(void)
{
    for (uint32_t i = STILL; i < BYTES; i++)
        changing[i]++;
}

struct two {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb;
};

/* Connect two hosts. Region ma of host 0 changes at each send. */
static struct two two_new(uint16_t level)
{
    struct two t = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nic(1))};

    t.va = rig_vi(t.a, level);
    t.vb = rig_vi(t.b, level);
    t.ma = rig_mem(t.a, BYTES, REGISTRY_SHARED);
    t.mb = rig_mem(t.b, BYTES, REGISTRY_SHARED);
    rig_connect(t.a, t.va, 0, t.b, t.vb, 1);
    rig_fill(t.ma.at, STILL, 5);
    changing = t.ma.at;
    rig_hosts[0]->before_send = change;
    return t;
}

static void two_free(struct two *t)
{
    rig_hosts[0]->before_send = NULL;
    rig_mem_free(&t->ma);
    rig_mem_free(&t->mb);
}

static void post(struct two *t, uint16_t op, uint32_t len)
{
    struct vip_shm_seg read[2] = {rig_seg(&t->ma, 0, 0), rig_seg(&t->mb, 0, len)};

    switch (op) {
    case VIP_CTL_OP_RDMAREAD:
        rig_post(t->b, t->vb, VIP_Q_SEND, op, 0, read, 2);
        break;
    case VIP_CTL_OP_RDMAWRITE:
        rig_post_write(t->a, t->va, rig_seg(&t->ma, 0, len), rig_seg(&t->mb, 0, len), false);
        break;
    default:
        rig_post_recv(t->b, t->vb, rig_seg(&t->mb, 0, BYTES));
        rig_post_send(t->a, t->va, rig_seg(&t->ma, 0, len));
    }
}

static void one(struct two *t, uint16_t op, uint32_t len)
{
    struct rig_app *poster = op == VIP_CTL_OP_RDMAREAD ? t->b : t->a;
    uint16_t vi = op == VIP_CTL_OP_RDMAREAD ? t->vb : t->va;
    struct vip_comp comp;

    memset(t->mb.at, 0, len);
    post(t, op, len);
    RIG_UNTIL(rig_done(poster, vi, VIP_Q_SEND, &comp), 2 * RIG_SECOND);
    assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
    assert_int_equal(comp.length, len);
    if (op == VIP_CTL_OP_SENDRECV)
        assert_int_equal(rig_wait_done(t->b, t->vb, VIP_Q_RECV).length, len);
    assert_memory_equal(t->mb.at, t->ma.at, len < STILL ? len : STILL);
    /* At each moment all changing bytes are equal, and a packet has the bytes of one moment. */
    for (uint32_t i = STILL + 1; i < len && i < 1000; i++)
        assert_int_equal(t->mb.at[i], t->mb.at[STILL]);
}

static const uint16_t ops[] = {VIP_CTL_OP_RDMAREAD, VIP_CTL_OP_RDMAWRITE, VIP_CTL_OP_SENDRECV};
static const uint16_t levels[] = {VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};

/* vipd always copies packets of up to 1 KiB, so no such packet arrives damaged. */
static void test_small(void **state)
{
    for (unsigned l = 0; l < 2; l++) {
        struct two t = two_new(levels[l]);

        for (unsigned i = 0; i < 3; i++)
            for (uint32_t len = 8; len <= 800; len += 99)
                one(&t, ops[i], STILL + len);
        assert_int_equal(rig_counter(rig_nics[1], "drop_crc"), 0);
        two_free(&t);
        rig_teardown(state);
    }
}

/* Larger packets: some arrive damaged, and vipd sends them again. All operations complete. */
static void test_bulk(void **state)
{
    for (unsigned l = 0; l < 2; l++)
        for (unsigned i = 0; i < 3; i++) {
            struct two t = two_new(levels[l]);
            uint64_t from_ns = rig_now, dropped;

            for (unsigned n = 0; n < 30; n++)
                one(&t, ops[i], n % 3 ? BYTES : 1400);
            dropped = rig_counter(rig_nics[1], "drop_crc");
            assert_true(dropped > 0);
            /* After a damaged packet vipd copies all packets for a second. Between two such seconds
             * at most one window of packets is damaged: 210 packets, as many as a transfer has. */
            assert_in_range(dropped, 1, (1 + (rig_now - from_ns) / RIG_SECOND) * 220);
            two_free(&t);
            rig_teardown(state);
        }
}

/* Unreliable Delivery repeats nothing. After a loss vipd copies packets; later messages arrive. */
static void test_unreliable(void **state)
{
    struct two t = two_new(VIP_LVL_UNRELIABLE);
    unsigned arrived = 0;
    struct vip_comp comp;

    for (unsigned n = 0; n < 20; n++)
        rig_post_recv(t.b, t.vb, rig_seg(&t.mb, 0, BYTES));
    for (unsigned n = 0; n < 20; n++) {
        rig_post_send(t.a, t.va, rig_seg(&t.ma, 0, 1400));
        rig_pass(30 * 1000000);
        while (rig_done(t.b, t.vb, VIP_Q_RECV, &comp))
            arrived += !(comp.status & VIP_ST_ERROR_MASK);
    }
    assert_in_range(arrived, 15, 19);
    two_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_small, rig_teardown),
        cmocka_unit_test_teardown(test_bulk, rig_teardown),
        cmocka_unit_test_teardown(test_unreliable, rig_teardown),
    };

    return cmocka_run_group_tests_name("nic_changing", tests, NULL, NULL);
}
