/* RDMA Reads whose answer does not arrive, or arrives late. */
#include "eng_rig.h"

#define MS 1000000ull

static struct rig *read_asked(uint32_t len)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, len);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_REQ);
    /* The peer reports the read request as processed. */
    rig_feed_ack(rig, 2, 1);
    assert_int_equal(rig->dones, 0);
    return rig;
}

/* The peer has forgotten the connection, and its CLOSE was lost. The connection times out. */
static void unanswered(void **state)
{
    struct rig *rig = read_asked(1000);

    (void)rig_wait(rig, ENG_CONFIG_DEFAULT.conn_timeout_ns + 1000 * MS);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
    assert_int_equal(rig->dones, 1);
    assert_true(rig_last(rig)->status & VIP_ST_TRANSPORT_ERROR);
    rig_free(rig);
}

/* A live peer may answer a read late. Its answers to PINGs keep the connection. */
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
    /* After the answer to the read, the engine sends only the acknowledgement of the answer. */
    (void)rig_wait(rig, 100 * MS);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 1);
    assert_int_equal(rig_wait(rig, 5000 * MS), 0);
    assert_true(eng_deadline(rig->eng) == ENG_NEVER);
    rig_free(rig);
}

/* A send follows a read. vipd cannot send its packet, because the send's memory is inaccessible.
 * The send fails only when the answer to the read has arrived. */
static void failed_send_behind(void **state)
{
    struct rig *rig = read_asked(1000);
    struct vip_frame answer = rig_frame(VIP_FRM_READ_RESP, 0, 0, 1000, 1000);

    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_SENDRECV, 0, 10);
    assert_true(rig_pull(rig));
    rig->deny = true;
    eng_tx_failed(rig->eng, RIG_VI, 1, rig->now_ns);
    rig->deny = false;
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    assert_int_equal(rig->dones, 0);
    assert_int_equal(rig_feed(rig, 1, answer), ENG_RX_DONE);
    assert_int_equal(rig->dones, 2);
    assert_int_equal(rig->done[0].status & VIP_ST_ERROR_MASK, 0);
    assert_int_equal(rig->done[1].status, VIP_ST_DONE | VIP_ST_PROTECTION_ERROR);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
    rig_free(rig);
}

static struct vip_frame asked_by_peer(uint32_t len)
{
    struct vip_frame frame = rig_frame(VIP_FRM_READ_REQ, 0, 0, 0, len);

    frame.remote_addr = 100;
    return frame;
}

/* While vipd waits for the answer to a read, it sends PINGs. If the round trip is long, a PING is
 * always under way. A PING must not fill a window of less than a packet, because this end must
 * answer a read of the peer, too. */
static void answer_beside_a_probe(void **state)
{
    struct rig *rig = rig_new_with(VIP_LVL_DELIVERY, &ENG_CONFIG_DEFAULT);

    rig_connect(rig, 1472, 1000);
    rig_post(rig, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 100, 1000);
    assert_true(rig_pull(rig));
    rig_feed_ack(rig, 2, 1);
    assert_int_equal(rig_wait(rig, ENG_CONFIG_DEFAULT.conn_timeout_ns / 4), 1);
    assert_int_equal(rig->decoded.hdr.frame_count, 0);
    assert_int_equal(rig_feed(rig, 1, asked_by_peer(1000)), ENG_RX_DONE);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.frame_count, 1);
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_RESP);
    rig_free(rig);
}

/* The peer never acknowledges the answer to its read. The error callback reports this. */
static void answer_not_delivered(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    assert_int_equal(rig_feed(rig, 1, asked_by_peer(1000)), ENG_RX_DONE);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.frames[0].type, VIP_FRM_READ_RESP);
    (void)rig_wait(rig, ENG_CONFIG_DEFAULT.conn_timeout_ns + 1000 * MS);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_ERROR);
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->code, VIP_EC_RDMA_TRANSPORT);
    assert_int_equal(rig_find(rig, ENG_EVENT_ERROR)->opcode, VIP_CTL_OP_RDMAREAD);
    rig_free(rig);
}

/* Cases 0 to 2: the transport fails when the answer to a read of the peer is not yet cut (0), cut
 * (1), acknowledged (2). Case 3: the peer disconnects when the answer is not yet cut. */
static void answer_and_the_end(void **state)
{
    for (unsigned how = 0; how < 4; how++) {
        struct rig *rig = rig_new(VIP_LVL_DELIVERY);
        struct eng_close close = {.transport = how != 3, .why = "a test"};
        const struct eng_event *event;
        bool told = false;

        assert_int_equal(rig_feed(rig, 1, asked_by_peer(1000)), ENG_RX_DONE);
        if (how == 1 || how == 2)
            assert_true(rig_pull(rig));
        if (how == 2) {
            struct vip_packet ack = rig_ack(rig, rig->decoded.hdr.packet_number + 1, 0);

            assert_int_equal(rig_feed_as(rig, 2, &ack), ENG_RX_DONE);
        }
        eng_vi_closed(rig->eng, RIG_VI, &close, rig->now_ns);
        event = rig_find(rig, ENG_EVENT_ERROR);
        assert_non_null(event); /* the event CONN_LOST must exist at least */
        for (unsigned i = 0; i < rig->events; i++)
            told = told || (rig->event[i].kind == ENG_EVENT_ERROR &&
                            rig->event[i].code == VIP_EC_RDMA_TRANSPORT);
        assert_int_equal(told, how < 2);
        rig_free(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unanswered),         cmocka_unit_test(late),
        cmocka_unit_test(failed_send_behind), cmocka_unit_test(answer_not_delivered),
        cmocka_unit_test(answer_and_the_end), cmocka_unit_test(answer_beside_a_probe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
