/*
 * The Ethernet link, as far as it can be tested without privilege: good and faulty frames, the
 * kernel's filter (attached to a pair of local sockets), and a link that stays down.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct ether_want plain = {.mac = {2, 0, 0, 0, 0, 1}, .ethertype = 0x88b5};
static const struct ether_want tagged = {.mac = {2, 0, 0, 0, 0, 1}, .ethertype = 0x88b5, .vlan = 7};
static const struct ether_want sender = {.mac = {2, 0, 0, 0, 0, 2}, .ethertype = 0x88b5};
static const struct ether_want sender7 = {
    .mac = {2, 0, 0, 0, 0, 2}, .ethertype = 0x88b5, .vlan = 7};

/* Check a frame in memory of exactly its size: a sanitizer then finds each read past its end. */
static enum ether_verdict judge(const struct ether_want *want, const uint8_t *bytes, uint32_t len,
                                const uint8_t **packet, uint32_t *packet_len)
{
    uint8_t *exact = malloc(len ? len : 1);
    struct ether_frame frame = {.bytes = exact, .len = len};
    struct ether_content content;
    enum ether_verdict verdict;

    memcpy(exact, bytes, len);
    verdict = ether_frame_get(want, &frame, &content);
    if (verdict == ETHER_OK || verdict == ETHER_PEER) {
        assert_true(content.bytes >= exact && content.bytes + content.len <= exact + len);
        *packet = bytes + (content.bytes - exact);
        *packet_len = content.len;
    }
    free(exact);
    return verdict;
}

/* Make a frame with packet "abcdefgh", from `from` to the card of `plain`. Returns its length. */
static uint32_t make(uint8_t out[128], const struct ether_want *from)
{
    unsigned head = ether_frame_put(out, from, plain.mac, ETHER_KIND, 8);

    memcpy(out + head, "abcdefgh", 8);
    return head + 8;
}

static void good(const struct ether_want *want, const uint8_t *bytes, uint32_t len)
{
    const uint8_t *packet;
    uint32_t packet_len;

    assert_int_equal(judge(want, bytes, len, &packet, &packet_len), ETHER_OK);
    assert_int_equal(packet_len, 8);
    assert_memory_equal(packet, "abcdefgh", 8);
}

static void bad(const struct ether_want *want, const uint8_t *bytes, uint32_t len,
                enum ether_verdict reason)
{
    const uint8_t *packet;
    uint32_t packet_len;

    assert_int_equal(judge(want, bytes, len, &packet, &packet_len), reason);
}

static void test_layout(void **state)
{
    static const uint8_t want_plain[] = {2, 0, 0, 0,    0,    1,    2,    0, 0,
                                         0, 0, 2, 0x88, 0xb5, 0x56, 0x11, 8, 0};
    static const uint8_t want_tagged[] = {2, 0,    0, 0, 0, 1,    2,    0,    0,    0, 0,
                                          2, 0x81, 0, 0, 7, 0x88, 0xb5, 0x56, 0x11, 8, 0};
    uint8_t frame[128];

    (void)state;
    assert_int_equal(make(frame, &sender), 26);
    assert_memory_equal(frame, want_plain, sizeof(want_plain));
    good(&plain, frame, 26);
    assert_int_equal(make(frame, &sender7), 30);
    assert_memory_equal(frame, want_tagged, sizeof(want_tagged));
    good(&tagged, frame, 30);
}

/* The network pads short frames to 60 bytes. Our header has the length of the packet. */
static void test_padding(void **state)
{
    uint8_t frame[128] = {0};
    uint32_t len = make(frame, &sender);

    (void)state;
    for (uint32_t padded = len; padded <= 64; padded++)
        good(&plain, frame, padded);
}

static void test_short(void **state)
{
    uint8_t frame[128];
    uint32_t len = make(frame, &sender);

    (void)state;
    for (uint32_t cut = 0; cut < len; cut++)
        bad(&plain, frame, cut, cut < 18 ? ETHER_SHORT : ETHER_LENGTH);
    len = make(frame, &sender7);
    for (uint32_t cut = 0; cut < len; cut++)
        bad(&tagged, frame, cut, cut < 22 ? ETHER_SHORT : ETHER_LENGTH);
}

static void test_foreign(void **state)
{
    uint8_t frame[128];
    uint32_t len = make(frame, &sender);

    (void)state;
    frame[5] ^= 1; /* the destination is another card */
    bad(&plain, frame, len, ETHER_MAC);
    memset(frame, 0xff, 6); /* the destination is all cards, but our packets go to one card only */
    bad(&plain, frame, len, ETHER_MAC);
    len = make(frame, &sender);
    frame[6] |= 1; /* the source is a group address */
    bad(&plain, frame, len, ETHER_MAC);
    memset(frame + 6, 0, 6);
    bad(&plain, frame, len, ETHER_MAC);
    len = make(frame, &sender);
    frame[13] = 0xb6;
    bad(&plain, frame, len, ETHER_ETHERTYPE);
    frame[12] = 0x08; /* the EtherType of IPv4 */
    frame[13] = 0x00;
    bad(&plain, frame, len, ETHER_ETHERTYPE);
    len = make(frame, &sender);
    for (unsigned i = 14; i < 16; i++) { /* byte 14: wrong magic; byte 15: wrong version or kind */
        frame[i] ^= 1;
        bad(&plain, frame, len, ETHER_HEADER);
        frame[i] ^= 1;
    }
    good(&plain, frame, len);
    frame[16] = 0;
    bad(&plain, frame, len, ETHER_LENGTH);
    frame[17] = 0xff;
    bad(&plain, frame, len, ETHER_LENGTH);
}

static void test_vlans(void **state)
{
    uint8_t bytes[128];
    uint32_t len = make(bytes, &sender);
    struct ether_frame frame = {.bytes = bytes, .len = len, .tagged = true, .tag = 0xe007};
    struct ether_content content;

    (void)state;
    bad(&tagged, bytes, len, ETHER_VLAN);
    /* The kernel has removed the VLAN tag and reports it. The tag's upper bits are a priority. */
    assert_int_equal(ether_frame_get(&tagged, &frame, &content), ETHER_OK);
    assert_int_equal(ether_frame_get(&plain, &frame, &content), ETHER_VLAN);
    frame.tag = 0xe000;
    assert_int_equal(ether_frame_get(&plain, &frame, &content), ETHER_OK);
    /* The kernel has taken the tag out of the frame and does not report it. It only reports that
     * the frame is for another host. */
    frame.tagged = false;
    frame.foreign = true;
    assert_int_equal(ether_frame_get(&plain, &frame, &content), ETHER_VLAN);
    frame.foreign = false;
    assert_int_equal(ether_frame_get(&plain, &frame, &content), ETHER_OK);
    len = make(bytes, &sender7);
    bad(&plain, bytes, len, ETHER_VLAN);
    bytes[15] = 8;
    bad(&tagged, bytes, len, ETHER_VLAN);
    bytes[14] = 0xe0;
    bytes[15] = 0;
    good(&plain, bytes, len);
    /* The frame has two tags: the inner tag is in the place of our EtherType. */
    bytes[15] = 7;
    bytes[16] = 0x81;
    bytes[17] = 0;
    bad(&tagged, bytes, len, ETHER_ETHERTYPE);
}

/* Messages between hosts: a SOLICIT goes to all cards, a QUERY or an ANNOUNCE to one card. A link
 * accepts these messages only if `peers` is true. */
static void test_messages_of_peers(void **state)
{
    struct ether_want want = plain;
    uint8_t frame[128] = {0};
    uint32_t len = make(frame, &sender), packet_len;
    const uint8_t *packet;

    (void)state;
    want.peers = true;
    good(&want, frame, len);
    frame[15] = 0x10 | ETHER_PEER_ANNOUNCE;
    bad(&plain, frame, len, ETHER_HEADER);
    assert_int_equal(judge(&want, frame, len, &packet, &packet_len), ETHER_PEER);
    assert_int_equal(packet_len, 8);
    frame[15] = 0x10 | ETHER_PEER_QUERY;
    bad(&plain, frame, len, ETHER_HEADER);
    assert_int_equal(judge(&want, frame, len, &packet, &packet_len), ETHER_PEER);
    frame[15] = 0x10 | ETHER_PEER_SOLICIT;
    bad(&want, frame, len, ETHER_MAC);
    memset(frame, 0xff, 6);
    assert_int_equal(judge(&want, frame, len, &packet, &packet_len), ETHER_PEER);
    for (uint32_t cut = 0; cut < len; cut++)
        bad(&want, frame, cut, cut < 18 ? ETHER_SHORT : ETHER_LENGTH);
    bad(&plain, frame, len, ETHER_MAC);
    frame[15] = 0x10 | ETHER_PEER_ANNOUNCE;
    bad(&want, frame, len, ETHER_MAC);
    frame[15] = 0x10 | ETHER_PEER_QUERY;
    bad(&want, frame, len, ETHER_MAC);
    frame[15] = 0x10 | ETHER_KIND; /* a packet to all cards */
    bad(&want, frame, len, ETHER_MAC);
    frame[15] = 0x15;
    bad(&want, frame, len, ETHER_HEADER);
}

static void test_counters(void **state)
{
    struct link_stats stats = {0};

    (void)state;
    for (int v = ETHER_OK; v <= ETHER_LENGTH; v++)
        ether_frame_count(&stats, (enum ether_verdict)v);
    assert_int_equal(stats.drop_frame_short, 1);
    assert_int_equal(stats.drop_frame_mac, 1);
    assert_int_equal(stats.drop_frame_vlan, 1);
    assert_int_equal(stats.drop_frame_ethertype, 1);
    assert_int_equal(stats.drop_frame_header, 1);
    assert_int_equal(stats.drop_frame_length, 1);
}

/* True if the frame passes the filter of the receiving socket. */
static bool passes(const int pair[2], const uint8_t *frame, uint32_t len)
{
    uint8_t got[128];

    assert_int_equal(send(pair[0], frame, len, 0), len);
    return recv(pair[1], got, sizeof(got), MSG_DONTWAIT) == (ssize_t)len;
}

static void test_filter(void **state)
{
    uint8_t frame[128];
    uint32_t len = make(frame, &sender);
    struct ether_want want = plain;
    int pair[2];
    char why[128];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
    assert_true(passes(pair, frame, len));
    assert_int_equal(ether_filter(pair[1], NULL, why, sizeof(why)), 0);
    assert_false(passes(pair, frame, len));
    assert_int_equal(ether_filter(pair[1], &plain, why, sizeof(why)), 0);
    assert_true(passes(pair, frame, len));
    frame[5] ^= 1;
    assert_false(passes(pair, frame, len));
    frame[5] ^= 1;
    frame[13] ^= 1;
    assert_false(passes(pair, frame, len));
    frame[13] ^= 1;
    assert_true(passes(pair, frame, len));
    assert_false(passes(pair, frame, 13));
    /* Of frames to all cards only SOLICIT passes, and only if `peers` is true. */
    memset(frame, 0xff, 6);
    frame[15] = 0x10 | ETHER_PEER_SOLICIT;
    assert_false(passes(pair, frame, len));
    want.peers = true;
    assert_int_equal(ether_filter(pair[1], &want, why, sizeof(why)), 0);
    assert_true(passes(pair, frame, len));
    frame[15] = 0x10 | ETHER_KIND;
    assert_false(passes(pair, frame, len));
    memcpy(frame, plain.mac, 6);
    assert_true(passes(pair, frame, len));
    /* The filter does not check the VLAN, because vipd counts the frames of other VLANs. */
    assert_int_equal(ether_filter(pair[1], &tagged, why, sizeof(why)), 0);
    assert_true(passes(pair, frame, len));
    frame[5] ^= 1;
    assert_false(passes(pair, frame, len));
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(ether_filter(-1, &plain, why, sizeof(why)), -EBADF);
    assert_non_null(strstr(why, "refused"));
}

/* With and without CAP_NET_RAW the link exists and is down. Packets sent on the link are lost. */
static void check_down(struct link *link, const char *why)
{
    struct link_addr to = {.len = 6, .bytes = {2, 0, 0, 0, 0, 2}};
    struct iovec iov = {(void *)(uintptr_t) "abc", 3};
    struct link_tx packet = {&to, &iov, 1, 3};
    struct link_stats stats;
    struct link_rx rx;

    assert_true(link->down);
    if (strcmp(link->why_down, "CAP_NET_RAW is missing") != 0)
        assert_string_equal(link->why_down, why);
    assert_string_equal(link->class->name, "ether");
    assert_int_equal(link->kind, LINK_ETHER);
    assert_int_equal(link->self.len, 0);
    assert_int_equal(link->class->send(link, &packet, 1, 5000000), 1);
    assert_int_equal(link->class->recv(link, &rx, 1, 5000000), 0);
    assert_true(link->class->deadline(link) == UINT64_MAX);
    link->class->stats(link, &stats);
    assert_int_equal(stats.tx_down, 1);
    assert_int_equal(stats.tx_packets, 0);
    link->class->close(link);
}

static void test_cannot_come_up(void **state)
{
    struct link_ether_config config = {.interface = "vipnone0", .ethertype = 0x88b5};
    struct link *link;
    char err[200];

    (void)state;
    assert_int_equal(link_ether_open(&config, &link, err, sizeof(err)), 0);
    check_down(link, "no such interface");
    config.interface = "lo";
    assert_int_equal(link_ether_open(&config, &link, err, sizeof(err)), 0);
    check_down(link, "not an Ethernet device");
}

static void test_bad_config(void **state)
{
    struct link_ether_config config = {.interface = "eth0", .ethertype = 0x05ff};
    struct link *link;
    char err[200];

    (void)state;
    assert_int_equal(link_ether_open(&config, &link, err, sizeof(err)), -EINVAL);
    config.ethertype = 0x88b5;
    config.vlan = 4095;
    assert_int_equal(link_ether_open(&config, &link, err, sizeof(err)), -EINVAL);
    config.vlan = 0;
    config.interface = "sixteen-letters-";
    assert_int_equal(link_ether_open(&config, &link, err, sizeof(err)), -EINVAL);
    assert_non_null(strstr(err, "not the name of an interface"));
    config.interface = "";
    assert_int_equal(link_ether_open(&config, &link, err, sizeof(err)), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_short),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_vlans),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_messages_of_peers),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_cannot_come_up),
        cmocka_unit_test(test_bad_config),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
