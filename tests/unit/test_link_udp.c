/*
 * The UDP link on the loopback interface, over IPv4 and IPv6: contents, batches, coalescing on both
 * sides, buffers held for long, limits, errors, the window, addresses of no interface.
 */
#include "vipd/link/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* The number of a packet determines all its bytes, so each byte can be checked. */
static void fill(uint8_t *bytes, uint32_t len, uint32_t number)
{
    for (uint32_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

static void check(const uint8_t *bytes, uint32_t len, uint32_t number)
{
    for (uint32_t i = 0; i < len; i++)
        if (bytes[i] != (uint8_t)(number * 31 + i * 7 + (i >> 8)))
            fail_msg("packet %u differs at byte %u", number, i);
}

/* Open a link on the first free port. The first port that is tried depends on the process id. */
static struct link *open_link(struct link_udp_config config)
{
    /* These ports are lower than the ports that scripts/own.sh gives to tests. */
    unsigned start = 10000 + (unsigned)getpid() % 9000;
    struct link *link = NULL;
    char err[200];

    for (unsigned i = 0; i < 1000; i++) {
        int rc;

        config.port = (uint16_t)(start + i);
        rc = link_udp_open(&config, &link, err, sizeof(err));
        if (rc == 0)
            return link;
        assert_int_equal(rc, -EADDRINUSE);
        assert_non_null(strstr(err, "cannot be bound"));
    }
    fail_msg("no free port");
    return NULL;
}

/* If no packet is ready, wait for the socket; then receive with one call. */
static unsigned receive(struct link *link, struct link_rx *packets, unsigned count)
{
    struct pollfd pfd = {.fd = link->class->fd(link), .events = POLLIN};

    if (link->class->deadline(link) == UINT64_MAX)
        assert_int_equal(poll(&pfd, 1, 5000), 1);
    return link->class->recv(link, packets, count, 0);
}

/* Send `count` packets, numbered from `first`. Packet i has the length lens[i % lens_count]. */
static void send_packets(struct link *from, struct link *to, uint32_t first, unsigned count,
                         const uint32_t *lens, unsigned lens_count)
{
    struct link_tx *packets = calloc(count, sizeof(*packets));
    struct iovec(*iovs)[3] = calloc(count, sizeof(*iovs));
    unsigned done = 0;

    for (unsigned i = 0; i < count; i++) {
        uint32_t len = lens[i % lens_count];
        uint8_t *bytes = malloc(len);

        fill(bytes, len, first + i);
        /* Each packet has three pieces; the second piece is empty. */
        iovs[i][0] = (struct iovec){bytes, len / 3};
        iovs[i][1] = (struct iovec){bytes + len / 3, 0};
        iovs[i][2] = (struct iovec){bytes + len / 3, len - len / 3};
        packets[i] = (struct link_tx){&to->self, iovs[i], 3, len};
    }
    while (done < count)
        done += from->class->send(from, packets + done, count - done, 0);
    for (unsigned i = 0; i < count; i++)
        free(iovs[i][0].iov_base);
    free(packets);
    free(iovs);
}

static void transfer(struct link *a, struct link *b, const uint32_t *lens, unsigned lens_count,
                     unsigned count)
{
    struct link_rx packets[7];
    unsigned got = 0;

    send_packets(a, b, 100, count, lens, lens_count);
    while (got < count) {
        unsigned n = receive(b, packets, 7);

        for (unsigned i = 0; i < n; i++, got++) {
            assert_int_equal(packets[i].len, lens[got % lens_count]);
            check(packets[i].bytes, packets[i].len, 100 + got);
            assert_true(link_addr_equal(packets[i].from, &a->self));
            b->class->release(b, packets[i].buffer);
        }
    }
    assert_int_equal(b->class->recv(b, packets, 7, 0), 0);
}

/* False if no interface has the address ::1 (no IPv6). Then the tests of IPv6 are skipped. */
static bool have_ipv6(void)
{
    struct link_udp_config config = {.address = "::1"};
    struct link *link = open_link(config);
    bool up = !link->down;

    link->class->close(link);
    if (!up)
        print_message("skipped: udp over IPv6, because no interface has the address ::1\n");
    return up;
}

static void test_sizes_and_coalescing(void **state)
{
    static const uint32_t mixed[] = {1, 64, 64, 64, 63, 1472, 2048, 2049, 500, 500, 501, 9000};
    static const uint32_t equal[] = {1400};
    static const uint32_t largest[] = {65507, 1, 65507, 40000};
    static const uint32_t largest6[] = {65488, 1, 65488, 40000};

    for (unsigned bits = 0; bits < (have_ipv6() ? 8 : 4); bits++) {
        bool six = bits & 4;
        struct link_udp_config config = {.address = six ? "::1" : "127.0.0.1",
                                         .gso = bits & 1,
                                         .gro = bits & 2,
                                         .buffer_bytes = 1 << 20};
        struct link *a = open_link(config), *b = open_link(config);
        struct link_stats sent, got;

        assert_int_equal(a->kind, six ? LINK_UDP6 : LINK_UDP);
        assert_int_equal(a->self.len, six ? 18 : 6);
        assert_int_equal(a->packet_bytes, six ? 65488 : 65507);

        transfer(a, b, mixed, 12, 60);
        transfer(a, b, equal, 1, 90);
        transfer(a, b, six ? largest6 : largest, 4, 4);
        a->class->stats(a, &sent);
        b->class->stats(b, &got);
        assert_int_equal(sent.tx_packets, 154);
        assert_int_equal(got.rx_packets, 154);
        assert_int_equal(sent.tx_bytes, got.rx_bytes);
        assert_int_equal(sent.tx_errors + got.rx_errors + got.rx_truncated, 0);
        a->class->close(a);
        b->class->close(b);
    }
}

static void test_joined_packets_take_few_system_calls(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.1", .gso = true, .gro = true};
    static const uint32_t lens[] = {1000};
    struct link *a = open_link(config), *b = open_link(config);
    struct link_stats stats;

    transfer(a, b, lens, 1, 192);
    a->class->stats(a, &stats);
    assert_true(stats.tx_syscalls <= 2);
    a->class->close(a);
    b->class->close(b);
}

/* The kernel refuses these packets joined, and also one by one (because of port 0). They are lost.
 * The link joins later packets as before. */
static void test_refused_packets_do_not_end_joining(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.1", .gso = true, .gro = true};
    static const uint32_t lens[] = {1000};
    struct link *a = open_link(config), *b = open_link(config);
    struct link nobody = {.self = b->self};
    struct link_stats before, after;

    memset(nobody.self.bytes + 4, 0, 2);
    send_packets(a, &nobody, 0, 8, lens, 1);
    a->class->stats(a, &before);
    assert_int_equal(before.tx_errors, 8);
    assert_int_equal(before.tx_packets, 0);
    transfer(a, b, lens, 1, 192);
    a->class->stats(a, &after);
    assert_true(after.tx_syscalls - before.tx_syscalls <= 2);
    a->class->close(a);
    b->class->close(b);
}

/* Buffers may be kept while many more packets are received, and released in any order. */
static void test_held_buffers_keep_their_bytes(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.1", .gso = true, .gro = true};
    static const uint32_t lens[] = {1200, 1200, 1200, 300, 5000};
    struct link *a = open_link(config), *b = open_link(config);
    static struct link_rx held[1000];
    unsigned count = 0;

    for (unsigned round = 0; round < 50; round++) {
        unsigned before = count;

        send_packets(a, b, count, 20, lens, 5);
        while (count < before + 20)
            count += receive(b, held + count, 20);
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned k = (i * 617) % count;

        assert_int_equal(held[k].len, lens[k % 5]);
        check(held[k].bytes, held[k].len, k);
        b->class->release(b, held[k].buffer);
    }
    a->class->close(a);
    b->class->close(b);
}

/* While all buffers are held, packets are dropped and counted. After a release, packets arrive. */
static void test_pool_exhaustion(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.1", .buffer_bytes = 4 << 20};
    static const uint32_t lens[] = {3000};
    struct link *a = open_link(config), *b = open_link(config);
    static struct link_rx held[1100];
    struct link_stats stats;
    unsigned count = 0;

    do {
        unsigned before = count;

        send_packets(a, b, count, 1, lens, 1);
        while (count == before) {
            count += receive(b, held + count, 1);
            b->class->stats(b, &stats);
            if (stats.rx_errors > 0)
                break;
        }
    } while (stats.rx_errors == 0 && count < 1100);
    assert_int_equal(stats.rx_errors, 1);
    /* Some of the 1024 buffers still wait for a packet, so the test gets fewer. */
    assert_in_range(count, 900, 1024);
    /* The mark `scarce` is set early, while buffers are left for packets in their turn. */
    assert_false(held[count - 100].scarce);
    assert_true(held[count - 30].scarce);
    assert_int_equal(stats.rx_spare_bytes, 0);
    for (unsigned i = 0; i < count; i++) {
        check(held[i].bytes, held[i].len, i);
        b->class->release(b, held[i].buffer);
    }
    b->class->stats(b, &stats);
    /* Some free buffers are kept and counted in rx_spare_bytes. The others are freed. */
    assert_in_range(stats.rx_spare_bytes, 100 << 16, 130 << 17);
    transfer(a, b, lens, 1, 10);
    a->class->close(a);
    b->class->close(b);
}

static void test_loss_is_not_failure(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.1"};
    struct link *a = open_link(config);
    static uint8_t bytes[70000];
    struct iovec iov = {bytes, 100}, large = {bytes, 66000};
    struct link_addr nobody, foreign = {.len = 16};
    struct link_tx packets[4] = {{&nobody, &iov, 1, 100},
                                 {&foreign, &iov, 1, 100},
                                 {&nobody, &large, 1, 66000},
                                 {&nobody, &iov, 1, 100}};
    struct link_stats stats;

    /* The kernel refuses packets to the broadcast address, because the socket has no permission. */
    assert_int_equal(link_addr_parse("127.255.255.255:9", 9, &nobody), 0);
    assert_int_equal(a->class->send(a, packets, 4, 0), 4);
    a->class->stats(a, &stats);
    assert_int_equal(stats.tx_errors, 4);
    assert_int_equal(stats.tx_packets, 0);
    a->class->close(a);
}

static void test_strange_datagrams(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.1", .gro = true};
    struct link *b = open_link(config);
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct link_rx packets[4];
    struct link_stats stats;
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned n;

    memcpy(&to.sin_addr, b->self.bytes, 4);
    memcpy(&to.sin_port, b->self.bytes + 4, 2);
    assert_int_equal(sendto(sock, "", 0, 0, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(sendto(sock, "x", 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
    n = receive(b, packets, 4);
    if (n == 0)
        n = receive(b, packets, 4);
    assert_int_equal(n, 1);
    assert_int_equal(packets[0].len, 1);
    b->class->release(b, packets[0].buffer);
    b->class->stats(b, &stats);
    assert_int_equal(stats.rx_errors, 1);
    close(sock);
    b->class->close(b);
}

/* A sender that fills the window loses no packet, whatever the size of the socket buffers. */
static void test_window_fits_the_buffer(void **state)
{
    static const uint32_t mtus[] = {576, 1500, 9000, 65536};
    static const uint32_t buffers[] = {100000, 212992, 2 << 20};

    for (unsigned m = 0; m < 4; m++) {
        for (unsigned k = 0; k < 3; k++) {
            struct link_udp_config config = {
                .address = "127.0.0.1", .mtu = mtus[m], .buffer_bytes = buffers[k], .gso = false};
            struct link *a = open_link(config), *b = open_link(config);
            uint32_t lens[1] = {a->packet_bytes};
            unsigned count = b->window_bytes / a->packet_bytes;

            assert_true(count >= 2);
            assert_true(b->window_bytes < 2 * buffers[k] || count == 2);
            transfer(a, b, lens, 1, count);
            a->class->close(a);
            b->class->close(b);
        }
    }
}

static void test_opening(void **state)
{
    struct link_udp_config config = {.address = "127.0.0.2", .port = 1};
    struct link *link = NULL;
    char err[200] = "", text[64];

    config.port = 0;
    assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), -EINVAL);
    config.port = 4794;
    config.address = "example";
    assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, "example"));
    config.address = "0.0.0.0";
    assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), -EINVAL);
    config.address = "fe80::1";
    assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, "fe80::1%eth0"));
    config.address = "127.0.0.1";
    config.mtu = 500;
    assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), -EINVAL);
    assert_null(link);

    /* The loopback interface has every address of 127.0.0.0/8. */
    config = (struct link_udp_config){.address = "127.1.2.3"};
    link = open_link(config);
    link_addr_format(&link->self, text, sizeof(text));
    assert_int_equal(strncmp(text, "127.1.2.3:", 10), 0);
    assert_string_equal(link->class->name, "udp");
    link->class->close(link);
    config.mtu = 1500;
    link = open_link(config);
    assert_int_equal(link->packet_bytes, 1472);
    link->class->close(link);
}

/* A link can be opened although no interface has its address, because an interface may get it
 * later. Until then the link is down, and packets sent on it are lost. */
static void test_address_of_nobody(void **state)
{
    static const char *const addresses[] = {"198.51.100.7", "2001:db8::7", "fe80::7%vip-none"};
    static const char *const why[] = {"no interface has the address of 198.51.100.7:4794",
                                      "no interface has the address of [2001:db8::7]:4794",
                                      "no such interface: vip-none"};
    struct link_addr peer;
    struct iovec iov = {"x", 1};
    struct link_tx packet = {&peer, &iov, 1, 1};
    struct link_rx rx;
    struct link_stats stats;

    assert_int_equal(link_addr_parse("127.0.0.1", 9, &peer), 0);
    for (unsigned i = 0; i < 3; i++) {
        struct link_udp_config config = {.address = addresses[i], .port = 4794};
        struct link *link = NULL;
        char err[200];

        assert_int_equal(link_udp_open(&config, &link, err, sizeof(err)), 0);
        assert_true(link->down);
        assert_string_equal(link->why_down, why[i]);
        assert_int_equal(link->self.len, 0);
        assert_int_equal(link->class->send(link, &packet, 1, 0), 1);
        assert_int_equal(link->class->recv(link, &rx, 1, 0), 0);
        link->class->stats(link, &stats);
        assert_int_equal(stats.tx_down, 1);
        assert_true(link->class->fd(link) >= 0);
        link->class->close(link);
    }
}

/* If the configuration has no address, the link takes the address of the default route. If there is
 * no default route, the error reports this. */
static void test_address_of_the_default_route(void **state)
{
    struct link_udp_config config = {.port = 4793};
    struct link *link = NULL;
    char err[200] = "";
    int rc = link_udp_open(&config, &link, err, sizeof(err));

    if (rc == 0) {
        assert_int_not_equal(link->self.bytes[0], 0);
        assert_int_not_equal(link->self.bytes[0], 127);
        link->class->close(link);
    } else {
        assert_true(strstr(err, "default route") || strstr(err, "cannot be bound"));
    }
}

static uint16_t inet_sum(const void *bytes, size_t len)
{
    const uint16_t *word = bytes;
    uint32_t sum = 0;

    for (size_t i = 0; i < len / 2; i++)
        sum += word[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~(sum + (sum >> 16));
}

/* Forge an ICMP message from `to` to `from`: a packet of `from` was larger than 552 bytes. */
static void forge_too_big(int raw, int ear, const struct link *from, const struct link *to)
{
    struct {
        struct icmphdr icmp;
        struct iphdr ip;
        struct udphdr udp;
    } packet = {.icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_FRAG_NEEDED},
                .ip = {.version = 4,
                       .ihl = 5,
                       .tot_len = htons(9028),
                       .frag_off = htons(0x4000),
                       .ttl = 64,
                       .protocol = IPPROTO_UDP},
                .udp = {.len = htons(9008)}};
    struct sockaddr_in victim = {.sin_family = AF_INET};
    uint8_t heard[256];

    packet.icmp.un.frag.mtu = htons(552);
    memcpy(&packet.ip.saddr, from->self.bytes, 4);
    memcpy(&packet.ip.daddr, to->self.bytes, 4);
    memcpy(&packet.udp.source, from->self.bytes + 4, 2);
    memcpy(&packet.udp.dest, to->self.bytes + 4, 2);
    packet.ip.check = inet_sum(&packet.ip, sizeof(packet.ip));
    packet.icmp.checksum = inet_sum(&packet, sizeof(packet));
    memcpy(&victim.sin_addr, from->self.bytes, 4);
    assert_int_equal(
        sendto(raw, &packet, sizeof(packet), 0, (struct sockaddr *)&victim, sizeof(victim)),
        sizeof(packet));
    /* When the message arrives at the socket `ear`, the kernel has processed it. */
    do
        assert_true(recv(ear, heard, sizeof(heard), 0) > 0);
    while (memcmp(heard + 20, &packet, sizeof(packet)) != 0);
}

/* Any host can forge the ICMP message "packet too large". It must not make packets smaller. */
static void test_forged_icmp_shrinks_nothing(void **state)
{
    static const uint32_t lens[] = {9000};
    struct link_udp_config config = {.address = "127.0.0.1", .gso = true, .gro = true};
    struct link_stats stats;
    struct sockaddr_in name = {.sin_family = AF_INET};
    char other[32];
    struct link *a, *b;
    int raw, ear;

    (void)state;
    if (geteuid() != 0) {
        print_message("not root: no ICMP message can be forged\n");
        return;
    }
    a = open_link(config);
    /* Only this test uses this address, because the kernel may remember the size for 10 minutes. */
    snprintf(other, sizeof(other), "127.77.%d.%d", getpid() / 250 % 250, 1 + getpid() % 250);
    config.address = other;
    b = open_link(config);
    raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    ear = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    assert_true(raw >= 0 && ear >= 0);
    memcpy(&name.sin_addr, b->self.bytes, 4);
    assert_int_equal(bind(raw, (struct sockaddr *)&name, sizeof(name)), 0);
    transfer(a, b, lens, 1, 10);
    for (unsigned i = 0; i < 3; i++)
        forge_too_big(raw, ear, a, b);
    transfer(a, b, lens, 1, 10);
    a->class->stats(a, &stats);
    assert_int_equal(stats.tx_errors, 0);
    close(raw);
    close(ear);
    a->class->close(a);
    b->class->close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_and_coalescing),
        cmocka_unit_test(test_joined_packets_take_few_system_calls),
        cmocka_unit_test(test_refused_packets_do_not_end_joining),
        cmocka_unit_test(test_held_buffers_keep_their_bytes),
        cmocka_unit_test(test_pool_exhaustion),
        cmocka_unit_test(test_loss_is_not_failure),
        cmocka_unit_test(test_strange_datagrams),
        cmocka_unit_test(test_window_fits_the_buffer),
        cmocka_unit_test(test_opening),
        cmocka_unit_test(test_address_of_nobody),
        cmocka_unit_test(test_address_of_the_default_route),
        cmocka_unit_test(test_forged_icmp_shrinks_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
