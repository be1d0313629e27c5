/* Congestion control without an engine: the test makes acknowledgements and losses by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "vipd/engine/cc.h"

#define US 1000ull
#define MS 1000000ull

/* A path that works in rounds. In each round the peer acknowledges the whole window. */
struct path {
    uint64_t now_ns, base_ns, number;
};

static void round_trip(struct eng_cc *cc, struct path *path, uint64_t rtt_ns, bool limited)
{
    uint64_t packets = cc->now.window_bytes / cc->packet_bytes, first = path->number;

    path->number += packets;
    path->now_ns += rtt_ns;
    if (!path->base_ns || rtt_ns < path->base_ns)
        path->base_ns = rtt_ns;
    for (uint64_t i = 0; i < packets; i++)
        eng_cc_acked(cc, &(struct eng_cc_ack){.now_ns = path->now_ns,
                                              .bytes = cc->packet_bytes,
                                              .rtt_ns = rtt_ns,
                                              .base_ns = path->base_ns,
                                              .newest = first + i,
                                              .next = path->number,
                                              .limited = limited});
}

static void lose(struct eng_cc *cc, uint64_t number, uint64_t next)
{
    eng_cc_lost(cc, &(struct eng_cc_loss){
                        .now_ns = 1, .number = number, .next = next, .bytes = cc->packet_bytes});
}

static void cubic_grows_and_yields(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc cc;
    uint64_t before;

    eng_cc_init(&cc, ENG_CONGESTION_CUBIC, 1000, 1000000);
    before = cc.now.window_bytes;
    /* A window that is not used up does not grow. A window that is used up doubles. */
    round_trip(&cc, &path, 100 * US, false);
    assert_int_equal(cc.now.window_bytes, before);
    round_trip(&cc, &path, 100 * US, true);
    assert_in_range(cc.now.window_bytes, 2 * before - 1000, 2 * before);
    /* Several losses in one window of packets shrink the window only once. */
    before = cc.now.window_bytes;
    lose(&cc, path.number, path.number + 40);
    assert_int_equal(cc.now.window_bytes, before - before * 3 / 10);
    lose(&cc, path.number + 39, path.number + 60);
    assert_int_equal(cc.now.window_bytes, before - before * 3 / 10);
    /* The window grows slowly at first, but reaches its old size and more. */
    path.number += 100;
    round_trip(&cc, &path, 10 * MS, true);
    assert_in_range(cc.now.window_bytes, before * 7 / 10, before * 7 / 10 + 3000);
    for (unsigned i = 0; i < 200; i++)
        round_trip(&cc, &path, 10 * MS, true);
    assert_true(cc.now.window_bytes > before);
    for (unsigned i = 0; i < 100; i++)
        lose(&cc, 100000 + i, 100001 + i);
    assert_int_equal(cc.now.window_bytes, 4000);
    for (unsigned i = 0; i < 20000; i++)
        round_trip(&cc, &path, 10 * MS, true);
    assert_int_equal(cc.now.window_bytes, 1000000);
}

/* Returns the round-trip time of a path that holds 100 packets. More packets wait in its queue. */
static uint64_t bottleneck(const struct eng_cc *cc)
{
    uint64_t packets = cc->now.window_bytes / cc->packet_bytes;

    return packets > 100 ? packets * US : 100 * US;
}

static void delay_keeps_a_share(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc cc;

    eng_cc_init(&cc, ENG_CONGESTION_DELAY, 1000, 4000000);
    for (unsigned i = 0; i < 100; i++)
        round_trip(&cc, &path, bottleneck(&cc), true);
    assert_false(cc.now.delay.starting);
    assert_in_range(cc.now.window_bytes, 155000, 175000);
    /* Rare losses on a path with this queue shrink the window, but the path stays full. */
    for (unsigned i = 0; i < 300; i++) {
        lose(&cc, path.number, path.number + 1);
        round_trip(&cc, &path, bottleneck(&cc), true);
        if (!cc.now.delay.drain && i > 20)
            assert_in_range(cc.now.window_bytes, 100000, 175000);
    }
    /* A quarter of all packets is lost: the window becomes small. */
    for (unsigned i = 0; i < 100; i++) {
        for (uint64_t lost = 0; lost < cc.now.window_bytes / 4000; lost++)
            lose(&cc, path.number + lost, path.number + 100);
        path.number += 100;
        round_trip(&cc, &path, 100 * US, true);
    }
    assert_true(cc.now.window_bytes < 30000);
}

/* At intervals the window is small for two rounds, to measure the empty path, then large again. */
static void delay_looks_at_the_empty_path(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc cc;
    unsigned drains = 0;

    eng_cc_init(&cc, ENG_CONGESTION_DELAY, 1000, 4000000);
    for (unsigned i = 0; i < 2000; i++) {
        round_trip(&cc, &path, bottleneck(&cc), true);
        drains += cc.now.window_bytes == 4000;
    }
    assert_in_range(drains, 4, 16);
    assert_true(cc.now.window_bytes == 4000 || cc.now.window_bytes > 150000);
}

/* The delay control does not change a window that is not used up. */
static void delay_unused(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc cc;
    uint64_t before;

    eng_cc_init(&cc, ENG_CONGESTION_DELAY, 1000, 4000000);
    before = cc.now.window_bytes;
    for (unsigned i = 0; i < 1000; i++)
        round_trip(&cc, &path, 100 * US, false);
    assert_int_equal(cc.now.window_bytes, before);
}

/* Packets arrive after they counted as lost. When all have arrived, the window has its old size. */
static void spurious_undone(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc cc;
    uint64_t before;

    eng_cc_init(&cc, ENG_CONGESTION_CUBIC, 1000, 1000000);
    round_trip(&cc, &path, 100 * US, true);
    before = cc.now.window_bytes;
    lose(&cc, 100, 120);
    lose(&cc, 110, 125);
    assert_true(cc.now.window_bytes < before);
    eng_cc_spurious(&cc, 99);
    eng_cc_spurious(&cc, 120);
    eng_cc_spurious(&cc, 100);
    assert_true(cc.now.window_bytes < before);
    eng_cc_spurious(&cc, 110);
    assert_int_equal(cc.now.window_bytes, before);
    eng_cc_spurious(&cc, 110);
    assert_int_equal(cc.now.window_bytes, before);
}

/* A silence shrinks the window to its minimum. If the next acknowledgement is for a packet from
 * before the silence, nothing was lost, and the window gets its old size again. */
static void silence_undone(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc_ack ack = {.now_ns = 2 * MS, .bytes = 1000, .rtt_ns = MS, .base_ns = MS};
    struct eng_cc cc;
    uint64_t before;

    for (unsigned kind = ENG_CONGESTION_DELAY; kind <= ENG_CONGESTION_CUBIC; kind++) {
        eng_cc_init(&cc, (enum eng_congestion)kind, 1000, 1000000);
        round_trip(&cc, &path, 100 * US, true);
        before = cc.now.window_bytes;
        eng_cc_silence(&cc, 500);
        eng_cc_silence(&cc, 502);
        assert_int_equal(cc.now.window_bytes, 4000);
        ack.newest = 500;
        ack.next = 503;
        eng_cc_acked(&cc, &ack);
        assert_true(cc.now.window_bytes < before / 2);
        cc.now.window_bytes = before;
        eng_cc_silence(&cc, 600);
        ack.newest = 599;
        ack.next = 601;
        eng_cc_acked(&cc, &ack);
        assert_int_equal(cc.now.window_bytes, before);
    }
}

static void fixed_stays(void **state)
{
    struct path path = {.number = 1, .now_ns = MS};
    struct eng_cc cc;

    eng_cc_init(&cc, ENG_CONGESTION_FIXED, 1000, 300000);
    lose(&cc, 1, 2);
    eng_cc_silence(&cc, 3);
    round_trip(&cc, &path, 100 * US, true);
    assert_int_equal(cc.now.window_bytes, 300000);
    assert_int_equal(eng_cc_pace(&cc), 0);
}

/* The minimum of the window is never larger than the window that the peer allows. */
static void small_limit(void **state)
{
    struct eng_cc cc;

    for (unsigned kind = ENG_CONGESTION_DELAY; kind <= ENG_CONGESTION_FIXED; kind++) {
        eng_cc_init(&cc, (enum eng_congestion)kind, 65507, 100000);
        assert_int_equal(cc.now.window_bytes, 100000);
        eng_cc_silence(&cc, 1);
        assert_int_equal(cc.now.window_bytes, 100000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cubic_grows_and_yields),
        cmocka_unit_test(delay_keeps_a_share),
        cmocka_unit_test(delay_looks_at_the_empty_path),
        cmocka_unit_test(delay_unused),
        cmocka_unit_test(spurious_undone),
        cmocka_unit_test(silence_undone),
        cmocka_unit_test(fixed_stays),
        cmocka_unit_test(small_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
