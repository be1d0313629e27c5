/* RDMA Reads whose answer does not come, or comes late. */
#include "eng_rig.h"

#define MS 1000000ull

static struct rig *read_asked(uint32_t len)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, len);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_REQ);
    /* The request has arrived and was taken in its turn. */
    rig_feed_ack(rig, 2, 1);
    assert_int_equal(rig->dones, 0);
    return rig;
}

/* The peer has forgotten the connection and its CLOSE was lost: found out within the limit. */
static void unanswered(void **state)
{
    struct rig *rig = read_asked(1000);

    (void)rig_wait(rig, ENG_CONFIG_DEFAULT.conn_timeout_ns + 1000 * MS);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
    assert_int_equal(rig->dones, 1);
    assert_true(rig_last(rig)->status & VIP_ST_TRANSPORT_ERROR);
    rig_free(rig);
}

/* A peer that lives may take its time: it is asked, and its answers to that count. */
static void late(void **state)
{
    struct rig *rig = read_asked(1000);
    struct vip_frame frame = rig_frame(VIP_FRM_READ_RESP, 0, 0, 1000, 1000);
    uint64_t end_ns = rig->now_ns + 2 * ENG_CONFIG_DEFAULT.conn_timeout_ns;

    while (rig->now_ns < end_ns) {
        if (rig_wait(rig, 20 * MS))
            rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 1);
    }
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    assert_int_equal(rig_feed(rig, 1, frame), ENG_RX_DONE);
    assert_int_equal(rig->dones, 1);
    assert_false(rig_last(rig)->status & VIP_ST_ERROR_MASK);
    /* Then it is silent, but for the acknowledgement. */
    (void)rig_wait(rig, 100 * MS);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 1);
    assert_int_equal(rig_wait(rig, 5000 * MS), 0);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unanswered),
        cmocka_unit_test(late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
