/*
 * A network that swallows a full ring of packet numbers. When it is back, the peer must get what it
 * needs first, although that was repeated in vain meanwhile and has a young number: a peer that holds
 * as many later packets as it may takes nothing else.
 */
#include "eng_rig.h"

#define PACKET_BYTES 512u
#define WINDOW_BYTES (64u << 20)
#define MESSAGE      65536u
#define MESSAGES     64u

/* So many packets under way leave no number for new contents (vipd/engine/internal.h). */
#define NUMBERS_MIN 1700u

/* What the peer holds: so many packets, so far behind the one that it needs. */
#define HELD      512u
#define HELD_FROM 1000u

/* Send and acknowledge everything until the congestion window is no bound any more; returns how many
 * packets the last round had, which is not acknowledged, and its first number. */
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

/* Wait so long; was the fragment among what was repeated? */
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
    /* A ring that is full at once, whatever the path is thought to take. */
    config.congestion = ENG_CONGESTION_FIXED;
    rig = rig_new_with(VIP_LVL_DELIVERY, &config);
    rig_connect(rig, PACKET_BYTES, WINDOW_BYTES);
    for (unsigned i = 0; i < MESSAGES; i++)
        rig_send(rig, 0, MESSAGE);
    /* Nothing is said of operations, so the first packet that is not acknowledged tells what the peer
     * needs: it is the first one that goes again when the answers stay away. */
    assert_true(grow(rig, &first) >= NUMBERS_MIN);
    rig->now_ns = eng_deadline(rig->eng);
    eng_tick(rig->eng, rig->now_ns);
    assert_true(rig_pull(rig));
    op = rig->decoded.frames[0].op;
    offset = rig->decoded.frames[0].offset;
    assert_true(repeats(rig, op, offset, 1000000000));
    /* The network is back, and lets the peer say that it holds what it may of the packets behind. All
     * others before these count as lost then. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_needed_comes_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
