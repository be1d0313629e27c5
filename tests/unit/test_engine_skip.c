/*
 * The engine skips some packet numbers. If a peer acknowledges a skipped number, it acknowledges
 * packets that have not arrived, so its connection breaks. For an honest peer nothing changes.
 */
#include "eng_rig.h"

#include "vipd/engine/bits.h"

#define MESSAGES 6000

static struct rig *begin_at(uint32_t level, uint32_t skip_packets)
{
    struct eng_config config = ENG_CONFIG_DEFAULT;
    struct rig *rig;

    config.skip_packets = skip_packets;
    config.seed = 7;
    rig = rig_new_with(level, &config);
    rig_connect(rig, 1472, 1 << 20);
    return rig;
}

static struct rig *begin(uint32_t skip_packets)
{
    return begin_at(VIP_LVL_DELIVERY, skip_packets);
}

static struct eng_vi_stats stats_of(const struct rig *rig)
{
    struct eng_vi_stats stats;

    eng_vi_stats(rig->eng, RIG_VI, &stats);
    return stats;
}

/* Acknowledge all packets that arrived, with ranges for gaps, as vipd does. */
static void ack_honestly(struct rig *rig, const bool *came, uint64_t largest, uint32_t ops)
{
    uint64_t base = 1;
    struct vip_packet packet;

    while (base <= largest && (came[base] || largest - base >= ENG_BITS))
        base++;
    packet = rig_ack(rig, base, ops);
    for (uint64_t n = base; n <= largest; n++)
        if (came[n] && !came[n - 1]) {
            struct vip_range *range = &packet.ranges[packet.hdr.range_count++];

            assert_true(packet.hdr.range_count <= VIP_WIRE_RANGES_MAX);
            range->start = (uint32_t)(n - base);
            while (n <= largest && came[n])
                n++;
            range->end = (uint32_t)(n - base);
        }
    assert_int_equal(rig_feed_as(rig, 1, &packet), ENG_RX_DONE);
}

static void test_an_honest_peer_notices_nothing(void **state)
{
    static bool came[2 * MESSAGES];
    struct rig *rig = begin(200);
    uint64_t largest = 0, skipped = 0;

    (void)state;
    memset(came, 0, sizeof(came));
    came[0] = true;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        rig_send(rig, 0, 100);
        assert_true(rig_pull(rig));
        skipped += rig->decoded.hdr.packet_number - largest - 1;
        largest = rig->decoded.hdr.packet_number;
        came[largest] = true;
        rig->now_ns += 10000;
        ack_honestly(rig, came, largest, i + 1);
    }
    assert_in_range(skipped, MESSAGES / 300, MESSAGES / 100);
    assert_int_equal(stats_of(rig).tx_messages, MESSAGES);
    assert_int_equal(stats_of(rig).retransmits, 0);
    assert_int_equal(stats_of(rig).lost, 0);
    assert_int_equal(stats_of(rig).timeouts, 0);
    assert_int_equal(stats_of(rig).acks_invented, 0);
    assert_null(stats_of(rig).error);
    rig_free(rig);
}

/* The peer acknowledges all numbers up to the newest packet, including a skipped number. */
static void test_a_peer_that_acknowledges_ahead_is_cut_off(void **state)
{
    struct rig *rig = begin(200);
    uint32_t i = 0;

    (void)state;
    for (; i < MESSAGES && !stats_of(rig).error; i++) {
        uint64_t number;

        rig_send(rig, 0, 100);
        assert_true(rig_pull(rig));
        number = rig->decoded.hdr.packet_number;
        rig->now_ns += 10000;
        (void)rig_feed_ack(rig, number + 1, i + 1);
    }
    assert_true(i < 400);
    assert_int_equal(stats_of(rig).acks_invented, 1);
    assert_non_null(strstr(stats_of(rig).error, "never sent"));
    rig_free(rig);
}

/* Unreliable Delivery: the engine ignores acknowledgements of skipped numbers, and sends go on. */
static void test_without_reliability_it_is_not_believed(void **state)
{
    struct rig *rig = begin_at(VIP_LVL_UNRELIABLE, 200);
    uint64_t number = 0;

    (void)state;
    for (uint32_t i = 0; i < 400; i++) {
        rig_send(rig, 0, 100);
        rig->now_ns += 10000;
        eng_tick(rig->eng, rig->now_ns);
        if (rig_pull(rig))
            number = rig->decoded.hdr.packet_number;
        (void)rig_feed_ack(rig, number + 1, i + 1);
    }
    assert_in_range(stats_of(rig).acks_invented, 1, 400);
    assert_null(stats_of(rig).error);
    rig_free(rig);
}

/* A range, not the cumulative acknowledgement, acknowledges a skipped number. */
static void test_ranges_over_a_missing_number(void **state)
{
    struct rig *rig = begin(200);
    uint32_t i = 0;

    (void)state;
    for (; i < 1000 && !stats_of(rig).error; i++) {
        struct vip_packet packet;
        uint64_t number;

        rig_send(rig, 0, 100);
        assert_true(rig_pull(rig));
        number = rig->decoded.hdr.packet_number;
        rig->now_ns += 10000;
        packet = rig_ack(rig, 1, 0);
        packet.hdr.range_count = 1;
        packet.ranges[0] = (struct vip_range){1, (uint32_t)number};
        (void)rig_feed_as(rig, 1, &packet);
    }
    assert_true(i < 400);
    assert_int_equal(stats_of(rig).acks_invented, 1);
    rig_free(rig);
}

static void test_none_is_left_out_without_being_asked(void **state)
{
    struct rig *rig = begin(0);

    (void)state;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        rig_send(rig, 0, 100);
        assert_true(rig_pull(rig));
        assert_int_equal(rig->decoded.hdr.packet_number, i + 1);
        rig->now_ns += 10000;
        assert_int_equal(rig_feed_ack(rig, i + 2, i + 1), ENG_RX_DONE);
    }
    rig_free(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_honest_peer_notices_nothing),
        cmocka_unit_test(test_a_peer_that_acknowledges_ahead_is_cut_off),
        cmocka_unit_test(test_without_reliability_it_is_not_believed),
        cmocka_unit_test(test_ranges_over_a_missing_number),
        cmocka_unit_test(test_none_is_left_out_without_being_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
