/*
 * The socket of the UDP link: making and binding it, its options, and the sizes that follow from
 * the kernel's receive buffer (vipd/link/udp.h).
 *
 * Owns: all options of the socket. They need no privilege. With CAP_NET_ADMIN, socket buffers may
 * exceed the system's bounds. Called from the engine's thread.
 */
#include "vipd/link/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Ask for a socket buffer of this size. With a privilege, it may exceed the system's bound. */
static void set_buffer(int sock, int force_option, int option, uint32_t bytes)
{
    /* The argument is an int, and the kernel doubles it, so 1 GiB is the largest size. */
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

/*
 * Forbid fragments, because one lost fragment loses the whole packet. The kernel must not
 * believe ICMP messages about the MTU of the path, because any host can forge them. The engine
 * finds the MTU of the path itself.
 */
static void set_no_fragments(const struct udp *udp)
{
    int discover4 = IP_PMTUDISC_PROBE, discover6 = IPV6_PMTUDISC_PROBE, one = 1;

    if (udp->link.kind == LINK_UDP) {
        setsockopt(udp->sock, IPPROTO_IP, IP_MTU_DISCOVER, &discover4, sizeof(discover4));
        return;
    }
    setsockopt(udp->sock, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discover6, sizeof(discover6));
    setsockopt(udp->sock, IPPROTO_IPV6, IPV6_DONTFRAG, &one, sizeof(one));
    setsockopt(udp->sock, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
}

static void set_options(struct udp *udp)
{
    uint32_t wanted = udp->buffer_bytes;
    int one = 1, zero = 0;
    char self[LINK_TEXT_BYTES];

    set_no_fragments(udp);
    set_buffer(udp->sock, SO_RCVBUFFORCE, SO_RCVBUF, wanted);
    set_buffer(udp->sock, SO_SNDBUFFORCE, SO_SNDBUF, wanted);
    /* getsockopt returns twice the size that was set. */
    if (get_buffer(udp->sock, SO_RCVBUF) / 2 < wanted && !udp->buffer_logged) {
        udp->buffer_logged = true;
        link_addr_format(&udp->own, self, sizeof(self));
        link_say("udp %s: receive buffer is %u of %u bytes; raise net.core.rmem_max or start "
                 "vipd with CAP_NET_ADMIN",
                 self, (unsigned)get_buffer(udp->sock, SO_RCVBUF) / 2, (unsigned)wanted);
    }
    /* Set GRO even if it is not wanted, because an inherited socket may have it switched on. */
    udp->gro =
        setsockopt(udp->sock, SOL_UDP, UDP_GRO, udp->want_gro ? &one : &zero, sizeof(one)) == 0 &&
        udp->want_gro;
    udp->gso =
        udp->want_gso && setsockopt(udp->sock, SOL_UDP, UDP_SEGMENT, &zero, sizeof(zero)) == 0;
}

/* Use the inherited socket if it is bound to the own address; else close it. true: udp->sock is
 * the inherited socket. */
static bool use_inherited(struct udp *udp)
{
    union udp_name name = {0};
    struct link_addr bound;
    socklen_t len = sizeof(name);
    int sock = udp->inherited;

    udp->inherited = -1;
    if (sock < 0)
        return false;
    if (getsockname(sock, &name.any, &len) < 0 || !udp_name_get(udp, &name, len, &bound) ||
        !link_addr_equal(&bound, &udp->own) ||
        (link_addr_is_local(&udp->own) && name.in6.sin6_scope_id != udp->if_index)) {
        close(sock);
        if (udp->opened)
            udp->opened(udp->opened_ctx, -1);
        return false;
    }
    udp->sock = sock;
    return true;
}

int udp_sock_open(struct udp *udp)
{
    struct epoll_event event = {.events = EPOLLIN};
    union udp_name name;
    socklen_t len = udp_name_put(udp, &udp->own, &name);
    bool bound;
    int r;

    udp_sock_close(udp);
    bound = use_inherited(udp);
    if (!bound)
        udp->sock = socket(name.any.sa_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (udp->sock < 0)
        return -errno;
    set_options(udp);
    if ((!bound && bind(udp->sock, &name.any, len) < 0) ||
        epoll_ctl(udp->epoll, EPOLL_CTL_ADD, udp->sock, &event) < 0) {
        r = -errno;
        udp_sock_close(udp);
        return r;
    }
    udp->sock_index = udp->if_index;
    if (udp->opened)
        udp->opened(udp->opened_ctx, udp->sock);
    return 0;
}

void udp_sock_close(struct udp *udp)
{
    if (udp->sock < 0)
        return;
    if (udp->opened)
        udp->opened(udp->opened_ctx, -1);
    close(udp->sock);
    udp->sock = -1;
}

/*
 * Bytes of the receive buffer that a packet of this size uses: the kernel counts all memory that
 * holds the packet. For a small packet this memory is a power of two, on real devices often a whole
 * page. For a large packet it is a number of pages.
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

    /* The kernel may free a quarter of the buffer late, so count on three quarters. */
    packets = buffer * 3 / 4 / packet_truesize(udp->link.packet_bytes);
    /* A window below two packets would stall each sender, which is worse than lost packets. */
    if (packets < 2)
        packets = 2;
    udp->link.window_bytes =
        (uint32_t)(packets * packet < UINT32_MAX ? packets * packet : UINT32_MAX);
}

bool udp_sock_size(struct udp *udp, uint32_t mtu)
{
    uint32_t headers = udp_overhead(udp);

    if (mtu < VIP_PACKET_BYTES_MIN + headers)
        return false;
    udp->link.packet_bytes =
        mtu - headers < VIP_PACKET_BYTES_MAX ? mtu - headers : VIP_PACKET_BYTES_MAX;
    set_window(udp);
    return true;
}
