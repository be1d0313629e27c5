/*
 * Tests of the decorator that plants faults. Its inner link only records packets. Topics:
 * statistics per seed, order, damage, delays in virtual time, a full medium, limits.
 */
#include "vipd/link/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LOG_MAX 65536

/* A link that records the packets that it gets. */
struct log_link {
    struct link link;
    uint32_t value[LOG_MAX];   /* the first four bytes of each packet */
    uint32_t flipped[LOG_MAX]; /* number of bits not zero in the other bytes of each packet */
    uint64_t at_ns[LOG_MAX];
    unsigned count, calls, room; /* room: number of packets until the link is full */
    bool closed;
};

static unsigned log_send(struct link *link, const struct link_tx *packets, unsigned count,
                         uint64_t now_ns)
{
    struct log_link *log = (struct log_link *)link;
    unsigned i;

    log->calls++;
    for (i = 0; i < count && log->room > 0 && log->count < LOG_MAX; i++) {
        uint8_t bytes[64] = {0};
        uint32_t at = 0, flipped = 0;

        assert_true(packets[i].bytes <= sizeof(bytes));
        for (unsigned k = 0; k < packets[i].iov_count; k++) {
            memcpy(bytes + at, packets[i].iov[k].iov_base, packets[i].iov[k].iov_len);
            at += (uint32_t)packets[i].iov[k].iov_len;
        }
        assert_int_equal(at, packets[i].bytes);
        memcpy(&log->value[log->count], bytes, 4);
        for (uint32_t k = 4; k < at; k++)
            flipped += (uint32_t)__builtin_popcount(bytes[k]);
        log->flipped[log->count] = flipped;
        log->at_ns[log->count++] = now_ns;
        log->room--;
    }
    return i;
}

static unsigned log_recv(struct link *link, struct link_rx *packets, unsigned count,
                         uint64_t now_ns)
{
    return 0;
}

static void log_release(struct link *link, void *buffer)
{
}

static int log_fd(const struct link *link)
{
    return 7;
}

static uint64_t log_deadline(const struct link *link)
{
    return UINT64_MAX;
}

static void log_stats(const struct link *link, struct link_stats *ret)
{
    *ret = (struct link_stats){.tx_packets = ((const struct log_link *)link)->count};
}

static void log_close(struct link *link)
{
    ((struct log_link *)link)->closed = true;
}

static const struct link_class log_class = {
    .name = "log",
    .send = log_send,
    .recv = log_recv,
    .release = log_release,
    .fd = log_fd,
    .deadline = log_deadline,
    .stats = log_stats,
    .close = log_close,
};

static struct log_link inner;

static struct link *wrap(const char *faults)
{
    struct link_faults parsed;
    struct link *link;

    memset(&inner, 0, sizeof(inner));
    inner.link.class = &log_class;
    inner.link.packet_bytes = 1472;
    inner.link.window_bytes = 100000;
    inner.room = UINT32_MAX;
    assert_int_equal(link_faults_parse(faults, &parsed, NULL, 0), 0);
    assert_int_equal(link_fault_wrap(&inner.link, &parsed, &link), 0);
    return link;
}

/* Send packets first..first+count-1, at most 16 per call. The first bytes of a packet are its
 * number. The link must take all packets. */
static void send_numbers(struct link *link, uint32_t first, uint32_t count, uint64_t now_ns)
{
    static uint8_t zeroes[28];
    static const struct link_addr to = {.len = 6};
    uint32_t numbers[16];
    struct iovec iovs[16][2];
    struct link_tx packets[16];

    while (count > 0) {
        uint32_t n = count < 16 ? count : 16;

        for (uint32_t i = 0; i < n; i++) {
            numbers[i] = first + i;
            iovs[i][0] = (struct iovec){&numbers[i], 4};
            iovs[i][1] = (struct iovec){zeroes, sizeof(zeroes)};
            packets[i] = (struct link_tx){&to, iovs[i], 2, 32};
        }
        assert_int_equal(link->class->send(link, packets, n, now_ns), n);
        first += n;
        count -= n;
    }
}

static struct link_stats stats_of(struct link *link)
{
    struct link_stats stats;

    link->class->stats(link, &stats);
    return stats;
}

static void test_without_faults_everything_passes_in_batches(void **state)
{
    struct link *link = wrap("seed=1");

    assert_int_equal(link->packet_bytes, 1472);
    assert_int_equal(link->window_bytes, 100000);
    assert_int_equal(link->class->fd(link), 7);
    send_numbers(link, 0, 1600, 5);
    assert_int_equal(inner.count, 1600);
    assert_int_equal(inner.calls, 100);
    for (uint32_t i = 0; i < 1600; i++)
        assert_int_equal(inner.value[i], i);
    assert_true(link->class->deadline(link) == UINT64_MAX);
    link->class->close(link);
    assert_true(inner.closed);
}

static void test_loss_statistics_and_seeds(void **state)
{
    static uint32_t first_run[LOG_MAX];
    unsigned first_count = 0;

    for (unsigned run = 0; run < 3; run++) {
        struct link *link = wrap(run < 2 ? "loss=10%,seed=42" : "loss=10%,seed=43");
        struct link_stats stats;

        send_numbers(link, 0, 20000, 1);
        stats = stats_of(link);
        /* The expected number is 2000. The range is five standard deviations to each side. */
        assert_in_range(stats.fault_lost, 1790, 2210);
        assert_int_equal(stats.fault_lost + inner.count, 20000);
        for (unsigned i = 1; i < inner.count; i++)
            assert_true(inner.value[i] > inner.value[i - 1]);
        if (run == 0) {
            first_count = inner.count;
            memcpy(first_run, inner.value, sizeof(first_run));
        } else {
            bool same = inner.count == first_count &&
                        memcmp(first_run, inner.value, first_count * sizeof(uint32_t)) == 0;

            /* The same seed loses the same packets; another seed loses other packets. */
            assert_int_equal(same, run == 1);
        }
        link->class->close(link);
    }
}

static void test_duplicates(void **state)
{
    struct link *link = wrap("dup=5%,seed=7");
    static uint8_t seen[20000];
    unsigned twice = 0;

    memset(seen, 0, sizeof(seen));
    send_numbers(link, 0, 20000, 1);
    for (unsigned i = 0; i < inner.count; i++)
        seen[inner.value[i]]++;
    for (unsigned i = 0; i < 20000; i++) {
        assert_in_range(seen[i], 1, 2);
        twice += seen[i] == 2;
    }
    /* The expected number is 1000, its standard deviation 31. */
    assert_in_range(twice, 850, 1150);
    assert_int_equal(stats_of(link).fault_duplicated, twice);
    link->class->close(link);
}

static void test_corruption_flips_one_bit(void **state)
{
    struct link *link = wrap("corrupt=50%,seed=3");
    unsigned damaged = 0;

    send_numbers(link, 0, 4000, 1);
    assert_int_equal(inner.count, 4000);
    for (unsigned i = 0; i < 4000; i++) {
        uint32_t wrong = (uint32_t)__builtin_popcount(inner.value[i] ^ i) + inner.flipped[i];

        assert_in_range(wrong, 0, 1);
        damaged += wrong;
    }
    assert_in_range(damaged, 1840, 2160);
    assert_int_equal(stats_of(link).fault_corrupted, damaged);
    link->class->close(link);
}

static void test_reordered_packets_are_overtaken_and_arrive(void **state)
{
    struct link *link = wrap("reorder=2%,seed=5");
    static uint8_t seen[10000];
    unsigned late = 0;
    uint32_t highest = 0;

    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < 10000; i++)
        send_numbers(link, i, 1, 1000ull * i);
    assert_true(link->class->deadline(link) <= 1000ull * 10000 + 500000);
    link->class->recv(link, NULL, 0, 1000ull * 20000);
    assert_true(link->class->deadline(link) == UINT64_MAX);
    assert_int_equal(inner.count, 10000);
    for (unsigned i = 0; i < inner.count; i++) {
        assert_int_equal(seen[inner.value[i]]++, 0);
        if (inner.value[i] < highest)
            late++;
        else
            highest = inner.value[i];
    }
    assert_in_range(late, 130, 270);
    assert_int_equal(stats_of(link).fault_reordered, late);
    link->class->close(link);
}

static void test_delay_is_exact_and_keeps_order(void **state)
{
    struct link *link = wrap("delay=50us");

    for (uint32_t i = 0; i < 100; i++)
        send_numbers(link, 2 * i, 2, 1000ull * i);
    /* All packets that were sent at 0 to 49 us must have left at 99 us. */
    assert_int_equal(inner.count, 100);
    assert_int_equal(link->class->deadline(link), 100000);
    for (uint64_t now = 100000; inner.count < 200; now = link->class->deadline(link))
        link->class->recv(link, NULL, 0, now);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(inner.value[i], i);
        assert_int_equal(inner.at_ns[i], 1000ull * (i / 2) + 50000);
    }
    assert_true(link->class->deadline(link) == UINT64_MAX);
    assert_int_equal(stats_of(link).fault_delayed, 200);
    link->class->close(link);
}

static void test_jitter_stays_in_its_bounds(void **state)
{
    struct link *link = wrap("delay=100us,jitter=20us,seed=9");
    unsigned spread[2] = {0, 0};

    send_numbers(link, 0, 1000, 0);
    assert_int_equal(inner.count, 0);
    while (link->class->deadline(link) != UINT64_MAX)
        link->class->recv(link, NULL, 0, link->class->deadline(link));
    assert_int_equal(inner.count, 1000);
    for (unsigned i = 0; i < 1000; i++) {
        assert_in_range(inner.at_ns[i], 100000, 120000);
        spread[inner.at_ns[i] >= 110000]++;
    }
    assert_in_range(spread[0], 400, 600);
    link->class->close(link);
}

static void test_blackhole(void **state)
{
    struct link *link = wrap("blackhole,dup=50%,delay=1ms");

    send_numbers(link, 0, 100, 1);
    assert_int_equal(inner.count, 0);
    assert_int_equal(stats_of(link).fault_lost, 100);
    assert_true(link->class->deadline(link) == UINT64_MAX);
    link->class->close(link);
}

/* If the inner link is full, packets wait in order, and none is lost. */
static void test_full_inner_link(void **state)
{
    struct link *link = wrap("dup=1%,seed=2");
    unsigned expected;

    inner.room = 10;
    send_numbers(link, 0, 500, 1000);
    assert_int_equal(inner.count, 10);
    expected = 500 + (unsigned)stats_of(link).fault_duplicated;
    /* The decorator waits before it offers packets to the full link again. */
    assert_true(link->class->deadline(link) > 1000);
    inner.room = 20;
    link->class->recv(link, NULL, 0, link->class->deadline(link));
    assert_int_equal(inner.count, 30);
    inner.room = UINT32_MAX;
    link->class->recv(link, NULL, 0, link->class->deadline(link));
    assert_int_equal(inner.count, expected);
    for (unsigned i = 1; i < inner.count; i++)
        assert_true(inner.value[i] >= inner.value[i - 1]);
    link->class->close(link);
}

static void test_delayed_packets_are_bounded(void **state)
{
    struct link *link = wrap("delay=1s");
    static uint8_t bytes[60000];
    static const struct link_addr to = {.len = 6};
    struct iovec iov = {bytes, sizeof(bytes)};
    struct link_tx packet = {&to, &iov, 1, sizeof(bytes)};
    unsigned taken = 0;

    while (taken < 100000 && link->class->send(link, &packet, 1, 0) == 1)
        taken++;
    /* The decorator takes 64 MiB of packets, minus room for one duplicate. */
    assert_in_range(taken, 1100, 1118);
    link->class->close(link);

    link = wrap("delay=1s");
    packet.bytes = 4;
    iov.iov_len = 4;
    for (taken = 0; taken < 100000 && link->class->send(link, &packet, 1, 0) == 1;)
        taken++;
    assert_in_range(taken, 16000, 16384);
    link->class->recv(link, NULL, 0, 2000000000);
    assert_int_equal(inner.count, taken);
    link->class->close(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_faults_everything_passes_in_batches),
        cmocka_unit_test(test_loss_statistics_and_seeds),
        cmocka_unit_test(test_duplicates),
        cmocka_unit_test(test_corruption_flips_one_bit),
        cmocka_unit_test(test_reordered_packets_are_overtaken_and_arrive),
        cmocka_unit_test(test_delay_is_exact_and_keeps_order),
        cmocka_unit_test(test_jitter_stays_in_its_bounds),
        cmocka_unit_test(test_blackhole),
        cmocka_unit_test(test_full_inner_link),
        cmocka_unit_test(test_delayed_packets_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
