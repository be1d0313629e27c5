/*
 * The UDP link over IPv4: opening, sizes, closing (vipd/link/link.h; inside: vipd/link/udp.h).
 *
 * Owns: the socket and its options, the largest packet and the window that follow from the interface
 * and from the kernel's receive buffer. Needs no privilege; with it, buffers may exceed the system's
 * default bounds.
 */
#include "vipd/link/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Socket buffers if the configuration says nothing. */
#define DEFAULT_BUFFER_BYTES (4u << 20)

static int udp_fd(const struct link *link)
{
    return ((const struct udp *)link)->sock;
}

static uint64_t udp_deadline(const struct link *link)
{
    /* What is already in memory does not make the descriptor readable. */
    return udp_rx_pending((const struct udp *)link) ? 0 : UINT64_MAX;
}

static void udp_stats(const struct link *link, struct link_stats *ret)
{
    *ret = ((const struct udp *)link)->stats;
}

static void udp_close(struct link *link)
{
    struct udp *udp = (struct udp *)link;

    udp_rx_drain(udp);
    if (udp->sock >= 0)
        close(udp->sock);
    free(udp);
}

static const struct link_class udp_class = {
    .name = "udp",
    .send = udp_send,
    .recv = udp_recv,
    .release = udp_release,
    .fd = udp_fd,
    .deadline = udp_deadline,
    .stats = udp_stats,
    .close = udp_close,
};

/* Say why opening failed; returns rc. */
__attribute__((format(printf, 4, 5))) static int failed(int rc, char *err, size_t err_bytes,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (err && err_bytes > 0)
        vsnprintf(err, err_bytes, format, args);
    va_end(args);
    return rc;
}

/* Own address from the configuration or from the default route. */
static int choose_address(const struct link_udp_config *config, struct sockaddr_in *ret, char *err,
                          size_t err_bytes)
{
    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(config->port)};
    if (config->port == 0)
        return failed(-EINVAL, err, err_bytes, "the UDP port is missing");
    if (!config->address) {
        if (udp_if_default_address(&ret->sin_addr) < 0)
            return failed(-ENETUNREACH, err, err_bytes,
                          "there is no default route to take the address of; set one with "
                          "\"address = ...\"");
        return 0;
    }
    if (inet_pton(AF_INET, config->address, &ret->sin_addr) != 1)
        return failed(-EINVAL, err, err_bytes, "\"%s\" is not an IPv4 address", config->address);
    /* Peers answer to the own address, so it must be one. */
    if (ret->sin_addr.s_addr == htonl(INADDR_ANY) || IN_MULTICAST(ntohl(ret->sin_addr.s_addr)) ||
        ret->sin_addr.s_addr == htonl(INADDR_BROADCAST))
        return failed(-EINVAL, err, err_bytes, "%s is not the address of one host",
                      config->address);
    return 0;
}

/* Ask for a buffer, beyond the system's bound where allowed. */
static void set_buffer(int sock, int force_option, int option, uint32_t bytes)
{
    /* The kernel doubles the number for its own bookkeeping; the argument is an int. */
    int value = bytes < (1u << 30) ? (int)bytes : 1 << 30;

    if (setsockopt(sock, SOL_SOCKET, force_option, &value, sizeof(value)) < 0)
        setsockopt(sock, SOL_SOCKET, option, &value, sizeof(value));
}

static uint32_t get_buffer(int sock, int option)
{
    int value = 0;
    socklen_t len = sizeof(value);

    if (getsockopt(sock, SOL_SOCKET, option, &value, &len) < 0 || value < 0)
        return 0;
    return (uint32_t)value;
}

static void set_options(struct udp *udp, const struct link_udp_config *config)
{
    uint32_t wanted = config->buffer_bytes ? config->buffer_bytes : DEFAULT_BUFFER_BYTES;
    int discover = IP_PMTUDISC_DO, one = 1, zero = 0;
    char self[64];

    /* Never fragment: a lost fragment would cost the whole packet. */
    setsockopt(udp->sock, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover));
    set_buffer(udp->sock, SO_RCVBUFFORCE, SO_RCVBUF, wanted);
    set_buffer(udp->sock, SO_SNDBUFFORCE, SO_SNDBUF, wanted);
    /* getsockopt answers twice the number that was set. */
    if (get_buffer(udp->sock, SO_RCVBUF) / 2 < wanted) {
        link_addr_format(&udp->link.self, self, sizeof(self));
        fprintf(stderr,
                "vipd: udp %s: receive buffer is %u of %u bytes; raise net.core.rmem_max or start "
                "vipd with CAP_NET_ADMIN\n",
                self, (unsigned)get_buffer(udp->sock, SO_RCVBUF) / 2, (unsigned)wanted);
    }
    udp->gro = config->gro && setsockopt(udp->sock, SOL_UDP, UDP_GRO, &one, sizeof(one)) == 0;
    udp->gso = config->gso && setsockopt(udp->sock, SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero)) == 0;
}

/*
 * What one packet of the largest size costs of the receive buffer: the kernel charges the memory
 * that holds it. Small packets lie in a power of two, on real devices often in a page of their own;
 * large ones in pages.
 */
static uint32_t packet_truesize(uint32_t packet_bytes)
{
    const uint32_t head = 256, tail = 576, page = 4096;
    uint32_t bytes = page;

    if (packet_bytes > 16384)
        return packet_bytes + 2 * page;
    while (bytes < packet_bytes + tail)
        bytes *= 2;
    return bytes + head;
}

static void set_window(struct udp *udp)
{
    uint64_t buffer = get_buffer(udp->sock, SO_RCVBUF);
    uint64_t packet = udp->link.packet_bytes;
    uint64_t packets;

    /* The kernel gives back up to a quarter of the buffer late. */
    packets = buffer * 3 / 4 / packet_truesize(udp->link.packet_bytes);
    /* Less than two packets would stall every sender; a buffer so small loses packets instead. */
    if (packets < 2)
        packets = 2;
    udp->link.window_bytes =
        (uint32_t)(packets * packet < UINT32_MAX ? packets * packet : UINT32_MAX);
}

/* Largest packet: what an interface frame holds besides the headers. */
static int set_packet_bytes(struct udp *udp, const struct link_udp_config *config,
                            struct in_addr address, char *err, size_t err_bytes)
{
    uint32_t mtu = config->mtu;
    int rc;

    if (mtu == 0) {
        rc = udp_if_mtu(address, &mtu);
        if (rc < 0)
            return failed(rc, err, err_bytes, "no interface of this host has the address %s",
                          inet_ntoa(address));
    }
    if (mtu < VIP_PACKET_BYTES_MIN + UDP_HEADERS_BYTES)
        return failed(-EINVAL, err, err_bytes, "an MTU of %u is too small; at least %u is needed",
                      (unsigned)mtu, VIP_PACKET_BYTES_MIN + UDP_HEADERS_BYTES);
    udp->link.packet_bytes = mtu - UDP_HEADERS_BYTES < VIP_PACKET_BYTES_MAX
                                 ? mtu - UDP_HEADERS_BYTES
                                 : VIP_PACKET_BYTES_MAX;
    return 0;
}

int link_udp_open(const struct link_udp_config *config, struct link **ret, char *err,
                  size_t err_bytes)
{
    struct sockaddr_in address;
    struct udp *udp;
    int rc = choose_address(config, &address, err, err_bytes);

    if (rc < 0)
        return rc;
    udp = calloc(1, sizeof(*udp));
    if (!udp)
        return failed(-ENOMEM, err, err_bytes, "out of memory");
    udp->link.class = &udp_class;
    udp->rx_used = UDP_RX_BATCH;
    udp->small = (struct udp_pool){.max = UDP_SMALL_MAX};
    udp->large = (struct udp_pool){.max = UDP_LARGE_MAX, .large = true};
    udp->link.self.len = 6;
    memcpy(udp->link.self.bytes, &address.sin_addr, 4);
    memcpy(udp->link.self.bytes + 4, &address.sin_port, 2);
    udp->sock = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (udp->sock < 0) {
        rc = failed(-errno, err, err_bytes, "cannot make a UDP socket: %s", strerror(errno));
        goto fail;
    }
    rc = set_packet_bytes(udp, config, address.sin_addr, err, err_bytes);
    if (rc < 0)
        goto fail;
    if (bind(udp->sock, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        rc = failed(-errno, err, err_bytes, "cannot bind %s:%u: %s", inet_ntoa(address.sin_addr),
                    (unsigned)config->port, strerror(errno));
        goto fail;
    }
    set_options(udp, config);
    set_window(udp);
    *ret = &udp->link;
    return 0;
fail:
    udp_close(&udp->link);
    return rc;
}
