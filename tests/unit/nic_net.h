/*
 * The network of nic_rig.h: links in memory, and virtual time. A seed decides which packets are
 * lost, duplicated and reordered.
 */
#ifndef TESTS_UNIT_NIC_NET_H
#define TESTS_UNIT_NIC_NET_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/ring.h"
#include "proto/shm.h"
#include "vipd/nic/nic.h"

#define RIG __attribute__((unused)) static

#define RIG_HOSTS 4
#define RIG_QUEUE 4096
#define RIG_APPS  72
#ifndef RIG_VIS
#define RIG_VIS 64
#endif
#define RIG_MTU     1472
#define RIG_STEP_NS 20000
#ifndef RIG_EVENTS
#define RIG_EVENTS 256
#endif

static uint64_t rig_now = 1000000000;

/* ---- the network ----------------------------------------------------------------------- */

struct rig_packet {
    struct link_addr from;
    uint32_t len;
    unsigned refs;
    uint8_t bytes[];
};

struct rig_host {
    struct link link; /* must be first: the code casts a pointer to `link` to one to rig_host */
    struct rig_packet *queue[RIG_QUEUE];
    unsigned head, count;
    unsigned out;              /* buffers that recv has returned and that are not yet released */
    unsigned send_max;         /* most packets in one call of send (a full link); 0: no limit */
    bool refuse;               /* send takes no packets */
    void (*before_recv)(void); /* called at the start of recv; the NIC has read the clock before */
    void (*before_send)(void); /* called at the start of send; the packets have their checksums */
    struct link_stats stats;
};

static struct rig_host *rig_hosts[RIG_HOSTS];
static uint64_t rig_seed = 1;
static unsigned rig_loss_ppm, rig_dup_ppm, rig_swap_ppm;
static bool rig_scarce; /* the links have few buffers: a nic may keep no buffer after its turn */

RIG uint32_t rig_random(void)
{
    rig_seed ^= rig_seed >> 12;
    rig_seed ^= rig_seed << 25;
    rig_seed ^= rig_seed >> 27;
    return (uint32_t)((rig_seed * 0x2545f4914f6cdd1dull) >> 32);
}

RIG bool rig_chance(unsigned ppm)
{
    return rig_random() % 1000000 < ppm;
}

static uint8_t rig_subnet[2]; /* second and third byte of all addresses */

RIG struct link_addr rig_addr(unsigned host)
{
    return (struct link_addr){
        .len = 6, .bytes = {127, rig_subnet[0], rig_subnet[1], (uint8_t)(host + 1), 0x12, 0xba}};
}

RIG void rig_enqueue(struct rig_host *to, struct rig_packet *packet)
{
    if (to->count == RIG_QUEUE) {
        free(packet);
        return;
    }
    to->queue[(to->head + to->count++) % RIG_QUEUE] = packet;
    if (to->count >= 2 && rig_chance(rig_swap_ppm)) {
        unsigned a = (to->head + to->count - 1) % RIG_QUEUE;
        unsigned b = (to->head + rig_random() % to->count) % RIG_QUEUE;
        struct rig_packet *tmp = to->queue[a];

        to->queue[a] = to->queue[b];
        to->queue[b] = tmp;
    }
}

/* Send bytes on the network as if the host `from` had sent them. */
RIG void rig_inject(const struct link_addr *from, unsigned host, const void *bytes, uint32_t len)
{
    struct rig_packet *packet = malloc(sizeof(*packet) + len);

    packet->from = *from;
    packet->len = len;
    memcpy(packet->bytes, bytes, len);
    rig_enqueue(rig_hosts[host], packet);
}

RIG unsigned rig_send(struct link *link, const struct link_tx *packets, unsigned count,
                      uint64_t now_ns)
{
    struct rig_host *host = (struct rig_host *)link;

    if (host->refuse)
        return 0;
    if (host->before_send)
        host->before_send();
    if (host->send_max && count > host->send_max)
        count = host->send_max;
    for (unsigned i = 0; i < count; i++) {
        unsigned to = packets[i].to->bytes[3] - 1u;
        unsigned copies = rig_chance(rig_dup_ppm) ? 2 : 1;

        host->stats.tx_packets++;
        assert_true(packets[i].bytes <= link->packet_bytes);
        if (to >= RIG_HOSTS || !rig_hosts[to] || rig_chance(rig_loss_ppm))
            continue;
        while (copies--) {
            struct rig_packet *packet = malloc(sizeof(*packet) + packets[i].bytes);
            uint32_t at = 0;

            packet->from = link->self;
            for (unsigned p = 0; p < packets[i].iov_count; p++) {
                memcpy(packet->bytes + at, packets[i].iov[p].iov_base, packets[i].iov[p].iov_len);
                at += (uint32_t)packets[i].iov[p].iov_len;
            }
            assert_int_equal(at, packets[i].bytes);
            packet->len = at;
            rig_enqueue(rig_hosts[to], packet);
        }
    }
    return count;
}

RIG unsigned rig_recv(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns)
{
    struct rig_host *host = (struct rig_host *)link;
    unsigned n = 0;

    if (host->before_recv)
        host->before_recv();
    while (n < count && host->count) {
        struct rig_packet *packet = host->queue[host->head];

        host->head = (host->head + 1) % RIG_QUEUE;
        host->count--;
        packets[n++] = (struct link_rx){.from = &packet->from,
                                        .bytes = packet->bytes,
                                        .len = packet->len,
                                        .buffer = packet,
                                        .scarce = rig_scarce};
        host->out++;
    }
    link->behind = n == count;
    return n;
}

RIG void rig_release(struct link *link, void *buffer)
{
    ((struct rig_host *)link)->out--;
    free(buffer);
}

RIG int rig_fd(const struct link *link)
{
    return -1;
}

RIG uint64_t rig_link_deadline(const struct link *link)
{
    return UINT64_MAX;
}

RIG void rig_link_stats(const struct link *link, struct link_stats *ret)
{
    *ret = ((const struct rig_host *)link)->stats;
}

RIG void rig_link_close(struct link *link)
{
    struct rig_host *host = (struct rig_host *)link;

    assert_int_equal(host->out, 0); /* the nic must have returned every buffer */
    while (host->count) {
        free(host->queue[host->head]);
        host->head = (host->head + 1) % RIG_QUEUE;
        host->count--;
    }
    for (unsigned i = 0; i < RIG_HOSTS; i++)
        if (rig_hosts[i] == host)
            rig_hosts[i] = NULL;
    free(host);
}

static const struct link_class rig_class = {
    .name = "fake",
    .send = rig_send,
    .recv = rig_recv,
    .release = rig_release,
    .fd = rig_fd,
    .deadline = rig_link_deadline,
    .stats = rig_link_stats,
    .close = rig_link_close,
};

/* This class has the name of the class with planted faults. A link with this name also carries the
 * packets of a nic to itself. */
static const struct link_class rig_fault_class = {
    .name = "fault",
    .send = rig_send,
    .recv = rig_recv,
    .release = rig_release,
    .fd = rig_fd,
    .deadline = rig_link_deadline,
    .stats = rig_link_stats,
    .close = rig_link_close,
};

#endif
