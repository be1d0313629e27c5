/*
 * A hostile network: packets from strangers to a vipd, at a given rate for a given time.
 *
 *   forge    from 127.0.0.3: random bytes, well-formed packets with guessed ids, truncated, oversized,
 *            and, if it may listen on the wire (root), packets of a real connection: replayed as they
 *            were, with bits flipped, and with the source that they had
 *   connect  well-formed requests for DISCRIMINATOR from thousands of addresses 127.x.y.z
 *
 * Prints what it sent and what came back; ends with 1 if more bytes came back than it sent.
 * usage: net forge|connect ADDRESS PORT SECONDS PACKETS_PER_SECOND SEED
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto/status.h"
#include "proto/wire.h"

#define KEPT_MAX  256
#define SEND_MAX  65507
#define LISTEN_MS 300

struct kept {
    uint32_t from, len;
    uint16_t port;
    uint8_t bytes[9000];
};

static struct kept kept[KEPT_MAX];
static unsigned kept_count;
static uint64_t seed, sent, sent_bytes, replayed, back, back_bytes, cookies;
static struct sockaddr_in target;
static uint8_t packet[SEND_MAX];

static uint64_t any(void)
{
    uint64_t z = seed += 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ---- recording --------------------------------------------------------------------------- */

static void keep(const uint8_t *ip, size_t len)
{
    struct iphdr head;
    struct udphdr udp;
    size_t at;

    if (len < sizeof(head) + sizeof(udp))
        return;
    memcpy(&head, ip, sizeof(head));
    at = head.ihl * 4u;
    if (head.protocol != IPPROTO_UDP || head.daddr != target.sin_addr.s_addr ||
        at + sizeof(udp) > len)
        return;
    memcpy(&udp, ip + at, sizeof(udp));
    at += sizeof(udp);
    if (udp.dest != target.sin_port || len - at > sizeof(kept[0].bytes) || len == at)
        return;
    kept[kept_count].from = head.saddr;
    kept[kept_count].port = udp.source;
    kept[kept_count].len = (uint32_t)(len - at);
    memcpy(kept[kept_count++].bytes, ip + at, len - at);
}

static void record(void)
{
    struct sockaddr_ll lo = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)if_nametoindex("lo")};
    int sock = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_IP));
    struct pollfd fd = {.fd = sock, .events = POLLIN};
    double until = now_s() + LISTEN_MS * 1e-3;

    if (sock < 0 || bind(sock, (struct sockaddr *)&lo, sizeof(lo)) < 0) {
        printf("no replay: listening on the wire needs root\n");
        return;
    }
    while (kept_count < KEPT_MAX && now_s() < until && poll(&fd, 1, 100) >= 0) {
        ssize_t len = recv(sock, packet, sizeof(packet), MSG_DONTWAIT);

        if (len > 0)
            keep(packet, (size_t)len);
    }
    close(sock);
}

/* ---- what is sent ------------------------------------------------------------------------ */

static size_t made_cm(enum vip_cm_type type)
{
    struct vip_cm cm = {.type = (uint8_t)type,
                        .request_id = any() | 1,
                        .conn_id = any() | 1,
                        .peer_conn_id = any() | 1,
                        .packet_bytes = 1400,
                        .window_bytes = 65536,
                        .code = VIP_RC_REJECT,
                        .cookie = type == VIP_CM_REQUEST ? 0 : any() | 1,
                        .attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 65536},
                        .local = {.host_len = 6, .disc_len = 4, .disc = "evil"},
                        .remote = {.host_len = 6, .disc_len = 6, .disc = "target"}};

    return vip_wire_put_cm(packet, any() | 1, 0, &cm);
}

static size_t made_data(void)
{
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .flags = VIP_PKTF_ELICITS,
                             .conn_id = any() | 1,
                             .src_epoch = any() | 1,
                             .dst_epoch = any() | 1,
                             .packet_number = 1 + any() % 1000,
                             .frame_count = 1};
    struct vip_frame frame = {.type = VIP_FRM_SEND,
                              .flags = VIP_FRMF_LAST,
                              .op = (uint32_t)any(),
                              .length = 64,
                              .total = 64};
    struct iovec iov = {.iov_base = packet, .iov_len = VIP_WIRE_HEADER_BYTES};

    vip_wire_put_header(packet, &hdr);
    iov.iov_len += vip_wire_put_frame(packet + iov.iov_len, &frame) + 64;
    vip_wire_seal(&iov, 1);
    return iov.iov_len;
}

static size_t made_noise(void)
{
    size_t len = any() % 64 ? any() % 1500 : any() % SEND_MAX;

    for (size_t i = 0; i < len && i < 256; i++)
        packet[i] = (uint8_t)any();
    return len;
}

/* One of the recorded ones, as it was or damaged; *ret_from: as who. */
static size_t made_replay(const struct kept **ret_from)
{
    const struct kept *k = &kept[any() % kept_count];
    size_t len = k->len;

    *ret_from = k;
    memcpy(packet, k->bytes, len);
    switch (any() % 4) {
    case 0:
        packet[any() % len] ^= (uint8_t)(1u << any() % 8);
        break;
    case 1:
        len = any() % len;
        break;
    default:
        replayed++;
        break;
    }
    return len;
}

/* With the source that the recorded packet had. */
static void send_as(int raw, const struct kept *k, size_t len)
{
    uint8_t out[sizeof(struct iphdr) + sizeof(struct udphdr) + sizeof(k->bytes)];
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = 64,
                       .protocol = IPPROTO_UDP,
                       .saddr = k->from,
                       .daddr = target.sin_addr.s_addr};
    struct udphdr udp = {
        .source = k->port, .dest = target.sin_port, .len = htons((uint16_t)(sizeof(udp) + len))};

    ip.tot_len = htons((uint16_t)(sizeof(ip) + sizeof(udp) + len));
    memcpy(out, &ip, sizeof(ip));
    memcpy(out + sizeof(ip), &udp, sizeof(udp));
    memcpy(out + sizeof(ip) + sizeof(udp), packet, len);
    (void)sendto(raw, out, sizeof(ip) + sizeof(udp) + len, 0, (struct sockaddr *)&target,
                 sizeof(target));
}

static void forge(int sock, int raw)
{
    const struct kept *from = NULL;
    size_t len;

    switch (any() % 8) {
    case 0:
        len = made_noise();
        break;
    case 1:
        len = made_cm((enum vip_cm_type)(1 + any() % (VIP_CM_TYPES - 1)));
        break;
    case 2:
        len = made_data();
        break;
    case 3:
        len = made_data();
        len = any() % 2 ? any() % len : len + any() % 1000;
        break;
    default:
        len = kept_count ? made_replay(&from) : made_data();
        break;
    }
    sent++;
    sent_bytes += len;
    if (from && raw >= 0 && any() % 2)
        send_as(raw, from, len);
    else
        (void)sendto(sock, packet, len, 0, (struct sockaddr *)&target, sizeof(target));
}

static void connect_from(int sock)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    size_t len = made_cm(VIP_CM_REQUEST);
    struct iovec iov = {.iov_base = packet, .iov_len = len};
    struct msghdr msg = {.msg_name = &target,
                         .msg_namelen = sizeof(target),
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    struct in_pktinfo info = {.ipi_spec_dst.s_addr =
                                  htonl(0x7f010000u + 1 + (uint32_t)(any() % 0xfe0000u))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

    head->cmsg_level = IPPROTO_IP;
    head->cmsg_type = IP_PKTINFO;
    head->cmsg_len = CMSG_LEN(sizeof(info));
    memcpy(CMSG_DATA(head), &info, sizeof(info));
    if (sendmsg(sock, &msg, 0) == (ssize_t)len) {
        sent++;
        sent_bytes += len;
    }
}

static void take_back(int sock)
{
    static uint8_t bytes[SEND_MAX];
    struct vip_cm cm;
    ssize_t len;

    while ((len = recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        back++;
        back_bytes += (uint64_t)len;
        if (vip_wire_get_cm(bytes, (size_t)len, &cm) == VIP_WIRE_OK && cm.type == VIP_CM_COOKIE)
            cookies++;
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in self = {.sin_family = AF_INET};
    int sock = socket(AF_INET, SOCK_DGRAM, 0), raw, buffer = 8 << 20;
    bool connects;
    double start, seconds, rate;

    if (argc != 7) {
        fprintf(stderr, "usage: net forge|connect ADDRESS PORT SECONDS PER_SECOND SEED\n");
        return 2;
    }
    connects = strcmp(argv[1], "connect") == 0;
    target.sin_family = AF_INET;
    target.sin_port = htons((uint16_t)atoi(argv[3]));
    inet_pton(AF_INET, argv[2], &target.sin_addr);
    seconds = atof(argv[4]);
    rate = atof(argv[5]);
    seed = strtoull(argv[6], NULL, 0);
    self.sin_addr.s_addr = htonl(connects ? INADDR_ANY : 0x7f000003u);
    setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    if (bind(sock, (struct sockaddr *)&self, sizeof(self)) < 0) {
        perror("net: bind");
        return 1;
    }
    raw = connects ? -1 : socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    if (!connects)
        record();
    start = now_s();
    while (now_s() - start < seconds) {
        uint64_t due = (uint64_t)((now_s() - start) * rate);

        for (unsigned i = 0; i < 64 && sent < due; i++) {
            if (connects)
                connect_from(sock);
            else
                forge(sock, raw);
        }
        take_back(sock);
        if (sent >= due)
            usleep(100);
    }
    usleep(100000);
    take_back(sock);
    printf("net %s: %llu packets, %llu bytes in %.1f s; %u recorded, %llu replayed; back %llu "
           "packets, %llu bytes, %llu cookies\n",
           argv[1], (unsigned long long)sent, (unsigned long long)sent_bytes, seconds, kept_count,
           (unsigned long long)replayed, (unsigned long long)back, (unsigned long long)back_bytes,
           (unsigned long long)cookies);
    return back_bytes > sent_bytes;
}
