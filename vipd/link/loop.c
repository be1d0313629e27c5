/*
 * The link without a medium (vipd/link/link.h): for programs of one host without a network.
 *
 * vipd/nic passes packets between sessions of one NIC without a link. So this link carries packets
 * only behind a fault decorator. It returns packets to its own address, and drops all other
 * packets.
 *
 * Owns: copies of the packets under way. Called from the engine's thread.
 */
#include "vipd/link/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/link/kinds.h"

/* Limits of the packets under way: when they reach a limit, the link is full. */
#define PACKETS_MAX 8192u
#define BYTES_MAX   (32u << 20)

/* Bytes that one connection may have under way. */
#define WINDOW_BYTES (8u << 20)

/* 00:00:00:00:00:01: no card has this address. (All zeroes would mean "no address".) */
static const uint8_t own_address[] = {0, 0, 0, 0, 0, 1};

struct packet {
    struct packet *next;
    uint32_t len;
    uint8_t bytes[];
};

struct loop {
    struct link link;
    struct packet *first, **end; /* packets under way, in order */
    uint32_t count, bytes;       /* sums of the packets not released yet, also those handed out */
    struct link_stats stats;
};

static struct packet *copy_packet(const struct link_tx *tx)
{
    struct packet *packet = malloc(sizeof(*packet) + tx->bytes);
    uint32_t at = 0;

    if (!packet)
        return NULL;
    packet->next = NULL;
    packet->len = tx->bytes;
    for (unsigned i = 0; i < tx->iov_count; i++) {
        VIP_ASSERT(tx->iov[i].iov_len <= tx->bytes - at);
        if (tx->iov[i].iov_len > 0)
            memcpy(packet->bytes + at, tx->iov[i].iov_base, tx->iov[i].iov_len);
        at += (uint32_t)tx->iov[i].iov_len;
    }
    VIP_ASSERT(at == tx->bytes);
    return packet;
}

static unsigned loop_send(struct link *link, const struct link_tx *packets, unsigned count,
                          uint64_t now_ns)
{
    struct loop *loop = (struct loop *)link;
    unsigned i;

    (void)now_ns;
    for (i = 0; i < count; i++) {
        struct packet *packet;

        if (loop->count == PACKETS_MAX || loop->bytes + packets[i].bytes > BYTES_MAX) {
            loop->stats.tx_again++;
            break;
        }
        packet = link_addr_equal(packets[i].to, &link->self) ? copy_packet(&packets[i]) : NULL;
        if (!packet) {
            loop->stats.tx_errors++;
            continue;
        }
        *loop->end = packet;
        loop->end = &packet->next;
        loop->count++;
        loop->bytes += packet->len;
        loop->stats.tx_packets++;
        loop->stats.tx_bytes += packet->len;
    }
    return i;
}

static unsigned loop_recv(struct link *link, struct link_rx *packets, unsigned count,
                          uint64_t now_ns)
{
    struct loop *loop = (struct loop *)link;
    unsigned n = 0;

    (void)now_ns;
    while (n < count && loop->first) {
        struct packet *packet = loop->first;

        loop->first = packet->next;
        if (!loop->first)
            loop->end = &loop->first;
        packets[n++] = (struct link_rx){.from = &link->self,
                                        .bytes = packet->bytes,
                                        .len = packet->len,
                                        .buffer = packet,
                                        .scarce = loop->count > PACKETS_MAX / 2 ||
                                                  loop->bytes > BYTES_MAX / 2};
        loop->stats.rx_packets++;
        loop->stats.rx_bytes += packet->len;
    }
    return n;
}

static void loop_release(struct link *link, void *buffer)
{
    struct loop *loop = (struct loop *)link;
    struct packet *packet = buffer;

    VIP_ASSERT(loop->count > 0 && loop->bytes >= packet->len);
    loop->count--;
    loop->bytes -= packet->len;
    free(packet);
}

static int loop_fd(const struct link *link)
{
    (void)link;
    return -1;
}

static uint64_t loop_deadline(const struct link *link)
{
    return ((const struct loop *)link)->first ? 0 : UINT64_MAX;
}

static void loop_stats(const struct link *link, struct link_stats *ret)
{
    *ret = ((const struct loop *)link)->stats;
}

static void loop_close(struct link *link)
{
    struct loop *loop = (struct loop *)link;

    while (loop->first) {
        struct packet *packet = loop->first;

        loop->first = packet->next;
        loop_release(link, packet);
    }
    VIP_ASSERT(loop->count == 0);
    free(loop);
}

static const struct link_class loop_class = {
    .name = "loop",
    .send = loop_send,
    .recv = loop_recv,
    .release = loop_release,
    .fd = loop_fd,
    .deadline = loop_deadline,
    .stats = loop_stats,
    .close = loop_close,
};

int link_loop_open(struct link **ret)
{
    struct loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    loop->link.class = &loop_class;
    loop->link.kind = LINK_LOOP;
    loop->link.self.len = sizeof(own_address);
    memcpy(loop->link.self.bytes, own_address, sizeof(own_address));
    loop->link.packet_bytes = VIP_PACKET_BYTES_MAX;
    loop->link.window_bytes = WINDOW_BYTES;
    loop->end = &loop->first;
    *ret = &loop->link;
    return 0;
}

static int open_wish(const struct link_wish *wish, struct link **ret, char *err, size_t err_bytes)
{
    (void)wish;
    snprintf(err, err_bytes, "out of memory");
    return link_loop_open(ret);
}

const struct link_kind_row link_loop_row = {
    .name = "loop",
    .open = open_wish,
    .sends_to_self = true,
    .only_host = "00:00:00:00:00:01", /* own_address */
    .only_host_why = "loop reaches programs of this host only",
    .source_bytes = LINK_MAC_BYTES,
    .parse = link_mac_parse,
    .format = link_mac_format,
};
