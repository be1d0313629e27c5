/* Tests when the engine breaks a connection because the peer does not acknowledge its packets. */
#include "eng_rig.h"

#define MS 1000000ull
#define S  1000000000ull

#define TIMEOUT_NS (ENG_CONFIG_DEFAULT.conn_timeout_ns)

/* Post one send and lose its packet. */
static struct rig *send_lost(void)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    rig_send(rig, 0, 100);
    assert_int_equal(rig_drain(rig), 1);
    return rig;
}

static bool lives(const struct rig *rig)
{
    return eng_vi_state(rig->eng, RIG_VI) == VIP_VIST_CONNECTED;
}

/* A packet is lost, and its sender stops for longer than the timeout. Then the sender repeats the
 * packet, and the connection does not break. */
static void stopped_sender(void **state)
{
    for (unsigned i = 0; i < 10; i++) {
        struct rig *rig = send_lost();
        uint64_t number;

        (void)rig_wait(rig, i * 7 * MS);
        rig->now_ns += TIMEOUT_NS + 100 * MS;
        eng_tick(rig->eng, rig->now_ns);
        assert_true(lives(rig));
        assert_true(rig_drain(rig) > 0);
        number = rig->decoded.hdr.packet_number;
        rig_feed_ack(rig, number + 1, 1);
        assert_int_equal(rig->dones, 1);
        rig_free(rig);
    }
}

/* Each timer is late. The connection still breaks in time, but not before three repetitions. */
static void always_late(void **state)
{
    struct rig *rig = send_lost();
    unsigned turns = 0, packets = 0;

    while (lives(rig) && turns < 1000) {
        rig->now_ns += 3 * S;
        eng_tick(rig->eng, rig->now_ns);
        packets += rig_drain(rig);
        turns++;
    }
    assert_false(lives(rig));
    assert_in_range(turns, 4, 100);
    assert_true(packets >= 3);
    rig_free(rig);
}

/* The timeout is shorter than the repetition interval. The engine still sends three repetitions. */
static void three_tries(void **state)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct rig *rig;
    unsigned packets;

    config.conn_timeout_ns = 10 * MS; /* the first repetition is sent after 20 ms */
    rig = rig_new_with(VIP_LVL_DELIVERY, &config);
    rig_connect(rig, 1472, 1 << 20);
    rig_send(rig, 0, 100);
    (void)rig_drain(rig);
    packets = rig_wait(rig, 1 * S);
    assert_false(lives(rig));
    assert_in_range(packets, 3, 6);
    rig_free(rig);
}

/* Serve timers until until_ns. The peer acknowledges only empty packets. Returns their number. */
static unsigned answer_empty(struct rig *rig, uint64_t until_ns)
{
    unsigned answered = 0;

    while (rig->now_ns < until_ns && lives(rig)) {
        uint64_t next_ns;

        eng_tick(rig->eng, rig->now_ns);
        while (rig_pull(rig)) {
            uint32_t number = (uint32_t)rig->decoded.hdr.packet_number;
            struct vip_packet ack = rig_ack(rig, 1, 0);

            if (rig->decoded.hdr.frame_count || !(rig->decoded.hdr.flags & VIP_PKTF_ELICITS))
                continue;
            ack.hdr.range_count = 1;
            ack.ranges[0] = (struct vip_range){number - 1, number};
            assert_int_equal(rig_feed_as(rig, 1, &ack), ENG_RX_DONE);
            answered++;
        }
        next_ns = eng_deadline(rig->eng);
        if (next_ns > rig->now_ns)
            rig->now_ns = next_ns < until_ns ? next_ns : until_ns;
    }
    return answered;
}

/* The peer sends PINGs and answers ours, but packets with content never reach it, for example
 * because a path drops them. The connection must time out. */
static void empty_answers(void **state)
{
    struct rig *rig = send_lost();
    uint64_t start_ns = rig->now_ns;
    unsigned answered = 0;

    while (lives(rig) && rig->now_ns < start_ns + 4 * TIMEOUT_NS) {
        struct vip_packet ping = rig_packet(rig, 0, NULL);

        ping.hdr.flags = VIP_PKTF_ELICITS | VIP_PKTF_ACK_NOW;
        assert_int_equal(rig_feed_as(rig, 1, &ping), ENG_RX_DONE);
        answered += answer_empty(rig, rig->now_ns + 1 * S);
    }
    assert_true(answered > 3);
    assert_false(lives(rig));
    assert_in_range(rig->now_ns - start_ns, TIMEOUT_NS - 1 * S, TIMEOUT_NS + 2 * S);
    assert_true(rig->done[0].status & VIP_ST_TRANSPORT_ERROR);
    rig_free(rig);
}

/* The peer acknowledges packets, but never reports an operation as processed. PINGs become rare. */
static void acknowledged_and_never_done(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);
    uint64_t until_ns = rig->now_ns + 60 * S;
    unsigned packets = 0;

    rig_send(rig, 0, 1000);
    while (rig->now_ns < until_ns) {
        uint64_t next_ns;

        eng_tick(rig->eng, rig->now_ns);
        while (rig_pull(rig)) {
            packets++;
            rig->now_ns += MS / 10;
            rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 0);
        }
        next_ns = eng_deadline(rig->eng);
        rig->now_ns = next_ns < until_ns ? next_ns : until_ns;
    }
    assert_true(lives(rig));
    assert_in_range(packets, 60, 600);
    rig_free(rig);
}

/* Only repeated packets, and packets sent soon after a loss, have the mark `copy`. */
static void copies(void **state)
{
    struct rig *rig = rig_new(VIP_LVL_DELIVERY);

    rig_send(rig, 0, 1000);
    assert_true(rig_pull(rig));
    assert_false(rig->out.copy);
    assert_true(rig_wait(rig, 50 * MS) > 0);
    assert_true(rig->out.copy);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 1);
    rig_send(rig, 0, 1000);
    assert_true(rig_pull(rig));
    assert_true(rig->out.copy);
    rig_feed_ack(rig, rig->decoded.hdr.packet_number + 1, 2);
    rig->now_ns += 2 * S;
    rig_send(rig, 0, 1000);
    assert_true(rig_pull(rig));
    assert_false(rig->out.copy);
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stopped_sender),
        cmocka_unit_test(always_late),
        cmocka_unit_test(three_tries),
        cmocka_unit_test(empty_answers),
        cmocka_unit_test(acknowledged_and_never_done),
        cmocka_unit_test(copies),
    };

    return cmocka_run_group_tests_name("engine_patience", tests, NULL, NULL);
}
