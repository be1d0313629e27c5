/*
 * Hosts with several paths, over networks of this test in virtual time: proofs of addresses, cuts,
 * interfaces that go down, the return to path 0, false messages, hosts without paths, and limits.
 */
#include "vipd/link/paths.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/link/path_hosts.h"

#define HOSTS   3
#define PATHS   3
#define WAITING 256
#define MS      1000000ull
#define SECOND  (1000 * MS)
#define TRIP_NS (1 * MS)

struct waiting {
    uint64_t due_ns;
    struct link_addr from;
    uint32_t len;
    uint8_t bytes[256];
    bool out; /* the caller of recv has not released this buffer yet */
};

/* The link of one host on one network. */
struct card {
    struct link link;
    struct link_addr own; /* its true address, even if link.self is a false one */
    unsigned host, path;
    unsigned head, tail; /* indices into waiting, modulo WAITING */
    struct waiting waiting[WAITING];
    unsigned probes, data; /* numbers of path messages and of other packets that it has sent */
    int out;
    bool closed;
};

static struct card cards[HOSTS][PATHS];
static bool cut[PATHS][HOSTS][HOSTS]; /* index: network, from, to; true: packets are lost */
static bool still[HOSTS];             /* true: this host takes no turns */
static unsigned lose_probes;          /* the networks lose so many of the next messages */
static struct link *net[HOSTS];
static uint64_t now_ns;
static unsigned got[HOSTS], got_from[HOSTS][HOSTS]; /* number of packets that a host has received */

static struct link_addr address(unsigned host, unsigned path)
{
    return (struct link_addr){.len = 6,
                              .bytes = {10, (uint8_t)path, 0, (uint8_t)(host + 1), 18, 186}};
}

static struct card *card_at(unsigned path, const struct link_addr *addr)
{
    for (unsigned host = 0; host < HOSTS; host++)
        if (link_addr_equal(&cards[host][path].own, addr))
            return &cards[host][path];
    return NULL;
}

static unsigned card_send(struct link *link, const struct link_tx *packets, unsigned count,
                          uint64_t when_ns)
{
    struct card *card = (struct card *)link;

    for (unsigned i = 0; i < count; i++) {
        struct card *to = card_at(card->path, packets[i].to);
        const uint8_t *first = packets[i].iov[0].iov_base;
        bool message = vip_wire_is_path(first, packets[i].bytes);
        struct waiting *slot;

        card->probes += message;
        card->data += !message;
        if (card->link.down || !to || to->link.down || cut[card->path][card->host][to->host])
            continue;
        if (message && lose_probes > 0) {
            lose_probes--;
            continue;
        }
        assert_true(to->tail - to->head < WAITING);
        slot = &to->waiting[to->tail++ % WAITING];
        assert_false(slot->out);
        *slot = (struct waiting){
            .due_ns = when_ns + TRIP_NS, .from = card->own, .len = packets[i].bytes};
        assert_true(slot->len <= sizeof(slot->bytes));
        memcpy(slot->bytes, first, slot->len);
    }
    return count;
}

static unsigned card_recv(struct link *link, struct link_rx *packets, unsigned count,
                          uint64_t when_ns)
{
    struct card *card = (struct card *)link;
    unsigned n = 0;

    while (n < count && card->head != card->tail) {
        struct waiting *slot = &card->waiting[card->head % WAITING];

        if (slot->due_ns > when_ns)
            break;
        slot->out = true;
        card->out++;
        packets[n++] = (struct link_rx){
            .from = &slot->from, .bytes = slot->bytes, .len = slot->len, .buffer = slot};
        card->head++;
    }
    return n;
}

static void card_release(struct link *link, void *buffer)
{
    struct card *card = (struct card *)link;
    struct waiting *slot = buffer;

    assert_true(slot >= card->waiting && slot < card->waiting + WAITING);
    assert_true(slot->out);
    slot->out = false;
    card->out--;
}

static int card_fd(const struct link *link)
{
    (void)link;
    return -1;
}

static uint64_t card_deadline(const struct link *link)
{
    const struct card *card = (const struct card *)link;

    return card->head == card->tail ? UINT64_MAX : card->waiting[card->head % WAITING].due_ns;
}

static void card_stats(const struct link *link, struct link_stats *ret)
{
    (void)link;
    *ret = (struct link_stats){.tx_packets = 1};
}

static void card_close(struct link *link)
{
    ((struct card *)link)->closed = true;
}

static const struct link_class card_class = {
    .name = "card",
    .send = card_send,
    .recv = card_recv,
    .release = card_release,
    .fd = card_fd,
    .deadline = card_deadline,
    .stats = card_stats,
    .close = card_close,
};

/* ---- hosts --------------------------------------------------------------------------------- */

static unsigned learned_of[HOSTS]; /* number of calls of `learned` */

static void learned(void *ctx)
{
    ++*(unsigned *)ctx;
}

static int begin(void **state)
{
    (void)state;
    memset(cards, 0, sizeof(cards));
    memset(cut, 0, sizeof(cut));
    memset(still, 0, sizeof(still));
    memset(got, 0, sizeof(got));
    memset(got_from, 0, sizeof(got_from));
    memset(learned_of, 0, sizeof(learned_of));
    lose_probes = 0;
    now_ns = 5 * SECOND;
    for (unsigned host = 0; host < HOSTS; host++) {
        struct link *inner[PATHS];
        uint64_t seed[2] = {host + 1, 77};

        for (unsigned path = 0; path < PATHS; path++) {
            struct card *card = &cards[host][path];

            card->link = (struct link){.class = &card_class,
                                       .kind = LINK_UDP,
                                       .self = address(host, path),
                                       .packet_bytes = 1500 - 100 * path,
                                       .window_bytes = 100000 + path};
            card->own = card->link.self;
            card->host = host;
            card->path = path;
            inner[path] = &card->link;
        }
        assert_int_equal(
            link_paths_join(inner, PATHS, seed, learned, &learned_of[host], &net[host]), 0);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (unsigned host = 0; host < HOSTS; host++) {
        net[host]->class->close(net[host]);
        for (unsigned path = 0; path < PATHS; path++) {
            assert_true(cards[host][path].closed);
            assert_int_equal(cards[host][path].out, 0);
        }
    }
    return 0;
}

static void send_packet(unsigned from, unsigned to)
{
    struct link_addr name = address(to, 0);
    uint8_t bytes[64] = {0x11, (uint8_t)from};
    struct iovec iov = {bytes, sizeof(bytes)};
    struct link_tx tx = {&name, &iov, 1, sizeof(bytes)};

    assert_int_equal(net[from]->class->send(net[from], &tx, 1, now_ns), 1);
}

/* Run one turn of a host: it receives packets that have arrived. Byte 1 of each is its sender. */
static void turn(unsigned host)
{
    struct link_rx rx[8];
    unsigned n = net[host]->class->recv(net[host], rx, 8, now_ns);

    for (unsigned i = 0; i < n; i++) {
        unsigned from = rx[i].bytes[1];
        struct link_addr name = address(from, 0);

        assert_true(link_addr_equal(rx[i].from, &name));
        got[host]++;
        got_from[host][from]++;
        net[host]->class->release(net[host], rx[i].buffer);
    }
}

/* Run `ms` steps of 1 ms. talking: hosts 0 and 1 send each other a packet every 10 ms. */
static void pass(uint64_t ms, bool talking)
{
    for (uint64_t i = 0; i < ms; i++) {
        now_ns += MS;
        for (unsigned host = 0; host < HOSTS; host++)
            if (!still[host])
                turn(host);
        if (talking && i % 10 == 0 && !still[0])
            send_packet(0, 1);
        if (talking && i % 10 == 5 && !still[1])
            send_packet(1, 0);
    }
}

/* Send a packet between two hosts. Returns its path: the path of the card that sent it. */
static unsigned path_of(unsigned from, unsigned to)
{
    unsigned before[PATHS], path = PATHS;

    for (unsigned i = 0; i < PATHS; i++)
        before[i] = cards[from][i].data;
    send_packet(from, to);
    for (unsigned i = 0; i < PATHS; i++)
        if (cards[from][i].data != before[i])
            path = i;
    assert_in_range(path, 0, PATHS - 1);
    return path;
}

static void cut_path(unsigned path, bool is_cut)
{
    for (unsigned from = 0; from < HOSTS; from++)
        for (unsigned to = 0; to < HOSTS; to++)
            cut[path][from][to] = is_cut;
}

static struct link_stats stats_of(unsigned host)
{
    struct link_stats stats;

    net[host]->class->stats(net[host], &stats);
    return stats;
}

/* Run until packets in both directions use this path, but at most `ms`. Returns the time in ms. */
static uint64_t until_path(unsigned path, uint64_t ms)
{
    uint64_t i = 0;

    while (i < ms && (path_of(0, 1) != path || path_of(1, 0) != path)) {
        pass(1, true);
        i++;
    }
    return i;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_the_first_path_is_used(void **state)
{
    (void)state;
    pass(3000, true);
    assert_int_equal(path_of(0, 1), 0);
    assert_int_equal(cards[0][1].data + cards[0][2].data, 0);
    assert_in_range(got_from[1][0], 299, 302);
    assert_int_equal(stats_of(0).path_moves, 0);
    assert_int_equal(stats_of(0).drop_path_message, 0);
    /* The limits of the joined link are the smallest limits of its paths. */
    assert_int_equal(net[0]->packet_bytes, 1300);
    assert_int_equal(net[0]->window_bytes, 100000);
    assert_int_equal(stats_of(0).tx_packets, PATHS);
}

static void test_a_cut_moves_packets_and_10_s_of_answers_return_them(void **state)
{
    uint64_t took;

    (void)state;
    pass(3000, true);
    cut_path(0, true);
    took = until_path(1, 1000);
    assert_in_range(took, 200, 320); /* the path is silent 200 ms after an unanswered probe */
    got[0] = got[1] = 0;
    pass(1000, true);
    assert_in_range(got[0], 98, 102);
    assert_in_range(got[1], 98, 102);
    cut_path(0, false);
    pass(9000, true);
    assert_int_equal(path_of(0, 1), 1);
    assert_true(until_path(0, 3000) < 3000);
    assert_int_equal(stats_of(0).path_moves, 2);
    assert_int_equal(stats_of(1).path_moves, 2);
}

static void test_the_third_path_when_two_are_cut(void **state)
{
    (void)state;
    pass(3000, true);
    cut_path(0, true);
    cut_path(1, true);
    assert_true(until_path(2, 2000) < 2000);
    got[1] = 0;
    pass(1000, true);
    assert_in_range(got[1], 98, 102);
}

/* Packets pass only in one direction, so the probes of both hosts get no answers. */
static void test_a_cut_in_one_direction(void **state)
{
    (void)state;
    pass(3000, true);
    cut[0][0][1] = true;
    assert_true(until_path(1, 1000) < 1000);
}

static void test_an_interface_that_goes_down(void **state)
{
    (void)state;
    pass(3000, true);
    cards[0][0].link.down = true;
    snprintf(cards[0][0].link.why_down, sizeof(cards[0][0].link.why_down), "no carrier");
    cards[0][0].link.changes++;
    pass(1, false);
    assert_int_equal(path_of(0, 1), 1); /* host 0 changes the path at once */
    assert_false(net[0]->down);
    assert_string_equal(net[0]->without, "path 1 (no carrier)");
    assert_true(until_path(1, 1000) < 1000); /* host 1 detects the cut by a silence */
    cards[0][0].link.down = false;
    cards[0][0].link.changes++;
    pass(9000, true);
    assert_int_equal(path_of(0, 1), 1);
    assert_true(until_path(0, 3000) < 3000);
    for (unsigned path = 0; path < PATHS; path++) {
        cards[0][path].link.down = true;
        cards[0][path].link.changes++;
    }
    pass(1, false);
    assert_true(net[0]->down);
    assert_string_equal(net[0]->why_down, "path 1 (no carrier), path 2 (), path 3 ()");
}

/* Packets keep their path if few messages are lost, or if a host stops for a while. */
static void test_what_is_no_silence(void **state)
{
    (void)state;
    pass(3000, true);
    for (unsigned i = 0; i < 50; i++) {
        lose_probes = 2;
        pass(500, true);
    }
    still[0] = true;
    pass(700, false);
    still[0] = false;
    pass(3000, true);
    assert_int_equal(stats_of(0).path_moves, 0);
    assert_int_equal(stats_of(1).path_moves, 0);
}

/* The other host answers on no path: packets keep their path. */
static void test_a_host_that_stands_still(void **state)
{
    (void)state;
    pass(3000, true);
    still[1] = true;
    for (unsigned i = 0; i < 150; i++) { /* host 1 has room for so many packets */
        send_packet(0, 1);
        pass(10, false);
    }
    assert_int_equal(path_of(0, 1), 0);
    assert_int_equal(stats_of(0).path_moves, 0);
    still[1] = false;
    pass(500, false);
}

static void test_without_traffic_nothing_is_asked(void **state)
{
    unsigned probes;

    (void)state;
    pass(3000, true);
    pass(1000, false);
    probes = cards[0][0].probes + cards[0][1].probes + cards[0][2].probes;
    assert_int_equal(net[0]->class->deadline(net[0]), UINT64_MAX);
    pass(60000, false);
    assert_int_equal(cards[0][0].probes + cards[0][1].probes + cards[0][2].probes, probes);
    /* After a minute without traffic, a cut is still detected. */
    cut_path(0, true);
    assert_in_range(until_path(1, 1000), 200, 500);
}

/* ---- who is believed ----------------------------------------------------------------------- */

static void give(struct card *to, struct link_addr from, const void *bytes, uint32_t len)
{
    struct waiting *slot = &to->waiting[to->tail++ % WAITING];

    *slot = (struct waiting){.due_ns = now_ns, .from = from, .len = len};
    memcpy(slot->bytes, bytes, len);
}

static void give_message(struct card *to, struct link_addr from, struct vip_path_message message)
{
    uint8_t bytes[VIP_WIRE_PATH_BYTES];

    vip_wire_put_path(bytes, &message);
    give(to, from, bytes, sizeof(bytes));
}

static struct vip_path_addr name_of(unsigned host)
{
    struct link_addr addr = address(host, 0);
    struct vip_path_addr ret = {.len = addr.len};

    memcpy(ret.bytes, addr.bytes, addr.len);
    return ret;
}

static void test_packets_of_strangers_by_a_further_path(void **state)
{
    static const uint8_t packet[64] = {0x11, 1};

    (void)state;
    give(&cards[0][1], address(1, 1), packet, sizeof(packet)); /* no address is proved yet */
    pass(1, false);
    assert_int_equal(got[0], 0);
    assert_int_equal(stats_of(0).drop_path, 1);
    pass(3000, true);
    got[0] = 0;
    give(&cards[0][1], address(2, 1), packet, sizeof(packet)); /* the source is an unknown host */
    give(&cards[0][2], address(1, 1), packet, sizeof(packet)); /* it arrives on the wrong path */
    pass(1, false);
    assert_int_equal(got[0], 0);
    assert_int_equal(stats_of(0).drop_path, 3);
    give(&cards[0][1], address(1, 1), packet, sizeof(packet));
    pass(1, false);
    assert_int_equal(got_from[0][1], got[0] + got_from[0][1] - 1);
    assert_int_equal(got[0], 1);
}

static void test_answers_to_no_question(void **state)
{
    struct vip_path_message echo = {
        .type = VIP_PATH_ECHO, .nonce = 1, .host = name_of(1), .count = 1};

    (void)state;
    echo.addr[0] = name_of(2); /* the message claims: "host 1 has the address of host 2" */
    pass(3000, true);
    for (unsigned nonce = 1; nonce < 100; nonce++) {
        echo.nonce = nonce;
        give_message(&cards[0][0], address(1, 0), echo);
        pass(1, true);
    }
    assert_int_equal(stats_of(0).drop_path_message, 99);
    cut_path(0, true);
    assert_true(until_path(1, 1000) < 1000);
}

static void test_a_question_for_another_host(void **state)
{
    struct vip_path_message probe = {.type = VIP_PATH_PROBE, .nonce = 7, .host = name_of(2)};
    unsigned probes = cards[0][0].probes;

    (void)state;
    give_message(&cards[0][0], address(1, 0), probe);
    probe.path = 1; /* the message arrives on another path than it names */
    probe.host = name_of(0);
    give_message(&cards[0][0], address(1, 0), probe);
    pass(2, false);
    assert_int_equal(cards[0][0].probes, probes);
    assert_int_equal(stats_of(0).drop_path_message, 2);
    probe.path = 0;
    give_message(&cards[0][0], address(1, 0), probe);
    pass(2, false);
    assert_int_equal(cards[0][0].probes, probes + 1);
}

/* Host 1 reports host 2's address as its own on path 1. Host 2 answers no probes for host 1. */
static void test_a_host_that_claims_the_address_of_another(void **state)
{
    (void)state;
    cards[1][1].link.self = address(2, 1);
    pass(3000, true);
    cards[1][2].link.down = true;
    cut_path(0, true);
    pass(2000, true);
    assert_int_equal(path_of(0, 1), 0);
    assert_int_equal(cards[0][1].data, 0);
}

/* Host 0's packets to host 1 use path 1. Then host 1 reports another address for this path, or
 * none. No packet goes to an address that has not answered a probe. */
static void test_an_address_that_changes_while_it_is_used(void **state)
{
    struct card *card = &cards[1][1];

    (void)state;
    for (unsigned none = 0; none < 2; none++) {
        card->link.self = card->own;
        pass(3000, true);
        cut_path(0, true);
        assert_true(until_path(1, 1000) < 1000);
        cut_path(0, false);
        card->link.self = none ? (struct link_addr){.len = 0} : address(2, 1);
        pass(2000, true); /* long enough for an answer on path 0 with the new address */
        assert_int_not_equal(path_of(0, 1), 1);
        pass(15000, true); /* packets return to path 0 */
    }
    card->link.self = card->own;
}

/* Host 1 never sends to host 0 and does not know its addresses, so host 0 must not use path 1. */
static void test_a_host_that_does_not_accept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        send_packet(0, 1);
        pass(1, false);
    }
    cut[0][0][1] = true;
    for (unsigned i = 0; i < 1000; i++) {
        send_packet(0, 1);
        pass(1, false);
    }
    assert_int_equal(path_of(0, 1), 0);
    assert_int_equal(stats_of(1).drop_path, 0);
}

static void no_send(void *ctx, unsigned path, const struct link_addr *to,
                    const struct vip_path_message *message)
{
    (void)ctx, (void)path, (void)to, (void)message;
}

static void no_tell(void *ctx, const struct path_moves *moves, unsigned from, unsigned to)
{
    (void)ctx, (void)moves, (void)from, (void)to;
}

static void remember(void *ctx, const struct link_addr *host, unsigned path,
                     const struct link_addr *addr)
{
    struct link *link = ctx;

    link->class->remember_path(link, host, path, addr);
}

/* The vipd of host 1 starts while path 0 is cut. It knows host 0's addresses from its last life,
 * but uses an address only after it has answered a probe. */
static void test_a_vipd_that_begins_while_a_path_is_cut(void **state)
{
    static const uint8_t packet[64] = {0x11, 0};
    struct link *inner[PATHS], *before = net[1];
    const uint64_t seed[2] = {7, 8};

    (void)state;
    pass(3000, true);
    assert_true(learned_of[1] > 0);
    cut_path(0, true);
    assert_true(until_path(1, 1000) < 1000);
    for (unsigned path = 0; path < PATHS; path++)
        inner[path] = &cards[1][path].link;
    assert_int_equal(link_paths_join(inner, PATHS, seed, NULL, NULL, &net[1]), 0);
    before->class->visit_paths(before, remember, net[1]);
    give(&cards[1][1], address(0, 1), packet, sizeof(packet));
    got[1] = 0;
    now_ns += 2 * TRIP_NS;
    turn(1);
    assert_int_equal(got[1], 0); /* the address is not proved yet */
    assert_true(stats_of(1).drop_path > 0);
    assert_true(until_path(1, 1000) < 1000);
    got[0] = got[1] = 0;
    pass(1000, true);
    assert_in_range(got[0], 98, 102);
    assert_in_range(got[1], 98, 102);
    before->class->close(before);
}

/* ---- limits -------------------------------------------------------------------------------- */

static void test_a_host_with_one_path(void **state)
{
    (void)state;
    still[1] = true; /* like a host without paths, host 1 answers no probes */
    for (unsigned i = 0; i < 100; i++) {
        send_packet(0, 1);
        pass(10, false);
        cards[1][0].head = cards[1][0].tail;
    }
    assert_int_equal(cards[0][0].probes, 4);
    for (unsigned i = 0; i < 200; i++) {
        send_packet(0, 1);
        pass(1000, false);
        cards[1][0].head = cards[1][0].tail;
    }
    assert_in_range(cards[0][0].probes, 6, 8); /* host 0 sends one probe per minute */
    assert_int_equal(cards[0][1].probes, 0);
}

/* The vipd of host 1 starts late. When packets arrive from it, host 0 sends probes to it again. */
static void test_a_host_that_was_asked_too_early(void **state)
{
    (void)state;
    still[1] = true;
    for (unsigned i = 0; i < 100; i++) {
        send_packet(0, 1);
        pass(10, false);
        cards[1][0].head = cards[1][0].tail;
    }
    assert_int_equal(cards[0][0].probes, 4);
    still[1] = false;
    pass(3000, true);
    cut_path(0, true);
    assert_true(until_path(1, 1000) < 1000);
}

/* More packets arrive on path 0 than one call of recv takes. Path 1 waits for two calls at most. */
static void test_a_flood_by_one_path(void **state)
{
    static const uint8_t packet[64] = {0x11, 1}, junk[64] = {0x11, 2};

    (void)state;
    pass(3000, true);
    got_from[0][1] = 0;
    for (unsigned i = 0; i < 100; i++)
        give(&cards[0][0], address(2, 0), junk, sizeof(junk));
    give(&cards[0][1], address(1, 1), packet, sizeof(packet));
    pass(3, false);
    assert_int_equal(got_from[0][1], 1);
    pass(20, false);
}

/* One machine has many hosts (ports). They share a part of the table; the rest use only path 0. */
static void test_many_hosts_of_one_machine(void **state)
{
    const uint64_t seed[2] = {1, 2};
    struct path_hosts *hosts = path_hosts_new(2, 4, seed);
    unsigned proved = 0;

    (void)state;
    for (unsigned i = 0; i < 3 * PATH_HOSTS_SOURCE; i++) {
        struct link_addr name = {.len = 6, .bytes = {10, 0, 0, 9, (uint8_t)(i >> 8), (uint8_t)i}};
        struct vip_path_message echo = {.type = VIP_PATH_ECHO, .accepts = true};
        struct path_host *host = path_hosts_to(hosts, &name, now_ns);
        bool up[VIP_PATHS_MAX] = {true, true};

        now_ns += 100 * MS;
        path_hosts_tick(hosts, up, now_ns, no_send, no_tell, NULL);
        assert_true(host->way[0].asked > 0);
        echo.nonce = host->way[0].nonce;
        echo.host.len = name.len;
        memcpy(echo.host.bytes, name.bytes, name.len);
        assert_true(path_hosts_answered(hosts, &echo, &name, now_ns));
        proved += host->way[0].proved;
    }
    assert_int_equal(proved, PATH_HOSTS_SOURCE);
    path_hosts_free(hosts);
}

/* A host sends to many addresses that do not answer. They do not fill the table and get only a
 * share of the probes. A host that answers still gets its place. */
static void test_many_addresses(void **state)
{
    unsigned probes;

    (void)state;
    for (unsigned i = 0; i < 3 * PATH_HOSTS_MAX; i++) {
        struct link_addr name = {.len = 6,
                                 .bytes = {11, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
        uint8_t byte = 0x11;
        struct iovec iov = {&byte, 1};
        struct link_tx tx = {&name, &iov, 1, 1};

        assert_int_equal(net[0]->class->send(net[0], &tx, 1, now_ns), 1);
        if (i % 16 == 0)
            pass(1, false);
    }
    probes = cards[0][0].probes;
    assert_in_range(probes, 50, 300);
    pass(5000, true);
    cut_path(0, true);
    assert_true(until_path(1, 1000) < 1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_path_is_used),
        TEST(test_a_cut_moves_packets_and_10_s_of_answers_return_them),
        TEST(test_the_third_path_when_two_are_cut),
        TEST(test_a_cut_in_one_direction),
        TEST(test_an_interface_that_goes_down),
        TEST(test_what_is_no_silence),
        TEST(test_a_host_that_stands_still),
        TEST(test_without_traffic_nothing_is_asked),
        TEST(test_packets_of_strangers_by_a_further_path),
        TEST(test_answers_to_no_question),
        TEST(test_a_question_for_another_host),
        TEST(test_a_host_that_claims_the_address_of_another),
        TEST(test_an_address_that_changes_while_it_is_used),
        TEST(test_a_host_that_does_not_accept),
        TEST(test_a_host_that_was_asked_too_early),
        TEST(test_a_flood_by_one_path),
        TEST(test_a_vipd_that_begins_while_a_path_is_cut),
        TEST(test_many_hosts_of_one_machine),
        TEST(test_a_host_with_one_path),
        TEST(test_many_addresses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
