/*
 * When the engine repeats packets, the content that the peer needs next comes first. The difficult
 * case: a network has lost a full ring of packet numbers. The needed content was repeated in vain,
 * so it has a high number now. The peer holds as many later packets as it can, so it accepts only
 * the needed content.
 */
#include "eng_rig.h"

#define PACKET_BYTES 512u
#define WINDOW_BYTES (64u << 20)
#define MESSAGE      65536u
#define MESSAGES     64u

/* With this many packets under way no number is left for new content (vipd/engine/internal.h). */
#define NUMBERS_MIN 1700u

/* Number of reads that may be open at once (ENG_READS_MAX). */
#define READS 16u

/* The peer holds HELD packets. They begin HELD_FROM numbers after the packet that it needs. */
#define HELD      512u
#define HELD_FROM 1000u

/* Send and acknowledge rounds of packets, except the first round with at least NUMBERS_MIN packets:
 * it is only sent. Returns this round's number of packets and its first packet number. */
static unsigned grow(struct rig *rig, uint64_t *ret_first)
{
    uint64_t sent = 0;
    unsigned packets = 0;

    for (unsigned round = 0; round < 40 && packets < NUMBERS_MIN; round++) {
        *ret_first = sent + 1;
        packets = rig_drain(rig);
        if (packets >= NUMBERS_MIN)
            break;
        sent += packets;
        rig->now_ns += 100000;
        rig_feed_ack(rig, sent + 1, 0);
    }
    return packets;
}

/* Let `ns` pass. True: the engine sent a packet with the fragment at `offset` of operation `op`. */
static bool repeats(struct rig *rig, uint32_t op, uint32_t offset, uint64_t ns)
{
    uint64_t until_ns = rig->now_ns + ns;
    bool found = false;

    while (eng_deadline(rig->eng) <= until_ns) {
        if (eng_deadline(rig->eng) > rig->now_ns)
            rig->now_ns = eng_deadline(rig->eng);
        eng_tick(rig->eng, rig->now_ns);
        while (rig_pull(rig))
            for (unsigned i = 0; i < rig->decoded.hdr.frame_count; i++)
                found = found || (rig->decoded.frames[i].op == op &&
                                  rig->decoded.frames[i].offset == offset);
    }
    rig->now_ns = until_ns;
    return found;
}

static void test_what_is_needed_comes_first(void **state)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct vip_packet ack;
    struct rig *rig;
    uint32_t op, offset;
    uint64_t first;
    struct eng_vi_stats stats;

    (void)state;
    config.turn_packets = 4096;
    config.turn_bytes = 1u << 30;
    config.conn_timeout_ns = 60000000000;
    /* Use a fixed window, so that the ring of packet numbers is soon full. */
    config.congestion = ENG_CONGESTION_FIXED;
    rig = rig_new_with(VIP_LVL_DELIVERY, &config);
    rig_connect(rig, PACKET_BYTES, WINDOW_BYTES);
    for (unsigned i = 0; i < MESSAGES; i++)
        rig_send(rig, 0, MESSAGE);
    /* The peer has processed no operation, so it needs the content of the first unacknowledged
     * packet. If no answer arrives, the engine repeats this packet first. */
    assert_true(grow(rig, &first) >= NUMBERS_MIN);
    rig->now_ns = eng_deadline(rig->eng);
    eng_tick(rig->eng, rig->now_ns);
    assert_true(rig_pull(rig));
    op = rig->decoded.frames[0].op;
    offset = rig->decoded.frames[0].offset;
    assert_true(repeats(rig, op, offset, 1000000000));
    /* The network works again, and the peer acknowledges the later packets that it holds. All
     * packets before these now count as lost. */
    ack = rig_ack(rig, first, 0);
    ack.hdr.range_count = 1;
    ack.ranges[0] = (struct vip_range){.start = HELD_FROM, .end = HELD_FROM + HELD};
    assert_int_equal(rig_feed_as(rig, 1, &ack), ENG_RX_DONE);
    for (unsigned second = 0; second < 8; second++)
        assert_true(repeats(rig, op, offset, 1000000000));
    eng_vi_stats(rig->eng, RIG_VI, &stats);
    assert_true(stats.timeouts > 20);
    assert_int_equal(eng_vi_state(rig->eng, RIG_VI), VIP_VIST_CONNECTED);
    rig_free(rig);
}

/* Let the timer expire. Returns the frame of the first packet that the engine then sends. */
static const struct vip_frame *expire(struct rig *rig)
{
    rig->now_ns = eng_deadline(rig->eng);
    eng_tick(rig->eng, rig->now_ns);
    assert_true(rig_pull(rig));
    assert_int_equal(rig->decoded.hdr.frame_count, 1);
    return &rig->decoded.frames[0];
}

/* The peer has processed operation 0 but acknowledged none of its packets, because it dropped
 * repeated packets. The first repetition must have the content of operation 1. */
static void test_operation_that_is_done(void **state)
{
    struct rig *rig = rig_new_with(VIP_LVL_DELIVERY, &ENG_CONFIG_DEFAULT);
    const struct vip_frame *frame;

    rig_connect(rig, PACKET_BYTES, WINDOW_BYTES);
    rig_send(rig, 0, 10 * PACKET_BYTES);
    rig_send(rig, 0, 10 * PACKET_BYTES);
    assert_true(rig_drain(rig) > 20);
    assert_int_equal(rig_feed_ack(rig, 1, 1), ENG_RX_DONE);
    assert_false(rig_pull(rig));
    frame = expire(rig);
    /* The frame has the start of operation 1. A packet with the end of operation 0 had it, too. */
    assert_int_equal(frame->op, 1);
    assert_int_equal(frame->offset, 0);
    rig_free(rig);
}

/* A peer that uses a slot for a new read has the answer to the old read: it is not repeated. */
static void test_answer_that_is_there(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    const struct vip_frame *answer;

    for (uint32_t op = 0; op < READS + 2; op++) {
        struct vip_frame frame = rig_frame(VIP_FRM_READ_REQ, op, 0, 0, 1000);

        assert_int_equal(rig_feed(rig, 1, frame), ENG_RX_DONE);
        assert_true(rig_pull(rig));
        assert_int_equal(rig->decoded.frames[0].op, op);
    }
    answer = expire(rig);
    assert_int_equal(answer->type, VIP_FRM_READ_RESP);
    assert_int_equal(answer->op, 2);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_needed_comes_first),
        cmocka_unit_test(test_operation_that_is_done),
        cmocka_unit_test(test_answer_that_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
