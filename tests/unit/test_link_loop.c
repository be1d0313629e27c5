/* The loop link, which has no medium. The fault decorator copies changes of its inner link. */
#include "vipd/link/link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct link *open_loop(void)
{
    struct link *link;

    assert_int_equal(link_loop_open(&link), 0);
    return link;
}

static unsigned send_bytes(struct link *link, const struct link_addr *to, const void *bytes,
                           uint32_t len)
{
    struct iovec iov[3] = {{(void *)(uintptr_t)bytes, len / 2},
                           {NULL, 0},
                           {(uint8_t *)(uintptr_t)bytes + len / 2, len - len / 2}};
    struct link_tx packet = {to, iov, 3, len};

    return link->class->send(link, &packet, 1, 0);
}

static void test_comes_back_in_order(void **state)
{
    struct link *link = open_loop();
    struct link_rx rx[4];
    char text[32];

    (void)state;
    link_addr_format_as(link->kind, &link->self, text, sizeof(text));
    assert_string_equal(text, "00:00:00:00:00:01");
    assert_int_equal(link->packet_bytes, VIP_PACKET_BYTES_MAX);
    assert_false(link->down);
    assert_int_equal(link->class->fd(link), -1);
    assert_true(link->class->deadline(link) == UINT64_MAX);
    assert_int_equal(link->class->recv(link, rx, 4, 0), 0);
    assert_int_equal(send_bytes(link, &link->self, "first", 5), 1);
    assert_int_equal(send_bytes(link, &link->self, "2", 1), 1);
    assert_int_equal(send_bytes(link, &link->self, "third", 5), 1);
    assert_true(link->class->deadline(link) == 0);
    assert_int_equal(link->class->recv(link, rx, 2, 0), 2);
    assert_int_equal(link->class->recv(link, rx + 2, 2, 0), 1);
    assert_memory_equal(rx[0].bytes, "first", 5);
    assert_int_equal(rx[1].len, 1);
    assert_memory_equal(rx[2].bytes, "third", 5);
    assert_true(link_addr_equal(rx[2].from, &link->self));
    /* Buffers may be released in any order, and a link may be closed with packets under way. */
    link->class->release(link, rx[1].buffer);
    link->class->release(link, rx[2].buffer);
    link->class->release(link, rx[0].buffer);
    assert_int_equal(send_bytes(link, &link->self, "last", 4), 1);
    link->class->close(link);
}

static void test_reaches_nobody_else(void **state)
{
    struct link *link = open_loop();
    struct link_addr other = {.len = 6, .bytes = {0, 0, 0, 0, 0, 2}};
    struct link_stats stats;
    struct link_rx rx;

    (void)state;
    assert_int_equal(send_bytes(link, &other, "lost", 4), 1);
    assert_int_equal(link->class->recv(link, &rx, 1, 0), 0);
    link->class->stats(link, &stats);
    assert_int_equal(stats.tx_errors, 1);
    assert_int_equal(stats.tx_packets, 0);
    link->class->close(link);
}

/* The number of packets under way and of buffers that a receiver keeps is limited. Near the limit,
 * packets have the mark `scarce`. */
static void test_bounds(void **state)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    struct link *link = open_loop();
    unsigned sent = 0, scarce = 0, got = 0;
    void **buffers = calloc(10000, sizeof(*buffers));
    struct link_stats stats;
    struct link_rx rx;

    (void)state;
    while (sent < 10000 && send_bytes(link, &link->self, bytes, sizeof(bytes)) == 1)
        sent++;
    assert_in_range(sent, 64, 9999);
    while (link->class->recv(link, &rx, 1, 0) == 1) {
        buffers[got++] = rx.buffer;
        scarce += rx.scarce;
    }
    assert_int_equal(got, sent);
    assert_true(scarce > 0);
    assert_int_equal(send_bytes(link, &link->self, bytes, sizeof(bytes)), 0);
    link->class->stats(link, &stats);
    assert_int_equal(stats.tx_again, 2);
    while (got > 0)
        link->class->release(link, buffers[--got]);
    assert_int_equal(send_bytes(link, &link->self, bytes, sizeof(bytes)), 1);
    free(buffers);
    link->class->close(link);
}

static void test_faults_follow_the_link(void **state)
{
    struct link *inner = open_loop(), *link;
    struct link_faults faults = {.loss = 0};
    struct link_rx rx;

    (void)state;
    assert_int_equal(link_fault_wrap(inner, &faults, &link), 0);
    assert_int_equal(link->kind, LINK_LOOP);
    inner->down = true;
    inner->self.bytes[5] = 9;
    inner->packet_bytes = 1000;
    snprintf(inner->why_down, sizeof(inner->why_down), "no carrier");
    inner->changes++;
    assert_false(link->down);
    link->class->recv(link, &rx, 1, 0);
    assert_true(link->down);
    assert_string_equal(link->why_down, "no carrier");
    assert_string_equal(link->class->name, "fault");
    assert_int_equal(link->self.bytes[5], 9);
    assert_int_equal(link->packet_bytes, 1000);
    inner->down = false;
    inner->changes++;
    assert_int_equal(send_bytes(link, &link->self, "x", 1), 1);
    assert_false(link->down);
    link->class->close(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back_in_order),
        cmocka_unit_test(test_reaches_nobody_else),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_faults_follow_the_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
