/*
 * A hostile network: packets from strangers to a vipd, at a given rate for a given time.
 *
 *   forge    from 127.0.0.3: random bytes, well-formed packets with guessed ids, truncated packets,
 *            oversized packets. As root also recorded packets of living connections, from 127.0.0.3
 *            or their true source: unchanged, truncated, with a bit flipped, and with a bit flipped
 *            and a correct checksum
 *   connect  well-formed requests for DISCRIMINATOR from thousands of addresses 127.x.y.z
 *   sink     sends nothing: receives packets at ADDRESS and drops them, as cheaply as possible
 *   answer   receives packets like sink, and sends a short packet back for each
 *
 * net must use less processor time than vipd. So it gives packets to the kernel in batches. Half of
 * the time, several packets of one length are one datagram, which the kernel divides (UDP_SEGMENT).
 * net prints how much it sent and what came back. Exit status 1: more bytes came back than it sent.
 * usage: net forge ADDRESS PORT SECONDS PACKETS_PER_SECOND SEED VICTIM PID  (SIGTERM ends net)
 *          VICTIM: the address whose packets are recorded
 *          PACKETS_PER_SECOND: per second of processor time of process PID. 0: PID is not used, and
 *          SECONDS is a number of packets, which net sends at once
 *        net connect ADDRESS PORT SECONDS PACKETS_PER_SECOND SEED DISCRIMINATOR PID
 *        net sink|answer ADDRESS PORT
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "proto/status.h"
#include "proto/wire.h"

#define LONG_BYTES      9000 /* few sent packets are longer, because short packets load vipd more */
#define KEPT_SHORT      64
#define KEPT_LONG       4
#define SEND_MAX        65507
#define LISTEN_EVERY_S  0.05 /* time between two recordings of packets on the wire */
#define LISTEN_PACKETS  32   /* a recording ends after this many packets */
#define LISTEN_S        0.02 /* a recording also ends after these seconds */
#define TTL_OURS        63   /* TTL of our packets with a foreign source; the tap ignores them */
#define BATCH           32   /* datagrams given to the kernel at once */
#define TRAIN_MAX       16   /* packets in a datagram that the kernel divides */
#define TRAIN_BYTES_MAX 4000 /* longest packet in a datagram that the kernel divides */
#define OWED_MAX        1024 /* most packets sent at once after net had no processor */
#define CONTROL_MAX     64
#define LONG_RARE_AS    16 /* one replay in 16 with the recorded source is of a long packet */
#define LONG_RARE       64 /* one replay in 64 from our own address is of a long packet */
#define ANSWER_BYTES    64
#define STRANGER        0x7f000003u

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

struct kept {
    uint32_t from, len;
    uint16_t port;
    uint8_t bytes[SEND_MAX];
};

/* The newest recorded packets; a new packet overwrites the oldest. */
struct record {
    struct kept *kept;
    unsigned room;
    uint64_t count; /* all packets recorded so far, also overwritten ones */
};
static struct kept kept_short[KEPT_SHORT], kept_long[KEPT_LONG];
static struct record record_short = {kept_short, KEPT_SHORT, 0},
                     record_long = {kept_long, KEPT_LONG, 0};
static int tap = -1;
static bool tap_open;
static unsigned tap_taken; /* packets that came since the tap was opened */
static double tap_s;       /* last time at which the tap was opened or closed */

static const char *discriminator = "";
static uint32_t victim; /* packets to this address are recorded */
static uint64_t seed, queued, sent, sent_bytes, replayed, resealed, back, back_bytes, cookies;
static struct sockaddr_in target;
static uint8_t packet[SEND_MAX]; /* packet under construction */
static volatile sig_atomic_t stopping;

/* Datagrams that wait to be sent through one socket. */
struct batch {
    int sock;
    unsigned count;
    struct mmsghdr msg[BATCH];
    struct iovec iov[BATCH];
    unsigned packets[BATCH]; /* packets in each datagram */
    union {
        char bytes[CONTROL_MAX];
        struct cmsghdr align;
    } control[BATCH];
    uint8_t bytes[BATCH][SEND_MAX];
};
static struct batch stranger, spoofed;

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
    struct record *record;
    struct iphdr head;
    struct udphdr udp;
    struct kept *k;
    size_t at;

    if (len < sizeof(head) + sizeof(udp))
        return;
    memcpy(&head, ip, sizeof(head));
    at = head.ihl * 4u;
    if (at + sizeof(udp) > len)
        return;
    memcpy(&udp, ip + at, sizeof(udp));
    at += sizeof(udp);
    if (udp.dest != target.sin_port || len - at > sizeof(k->bytes) || len == at)
        return;
    record = len - at > LONG_BYTES ? &record_long : &record_short;
    k = &record->kept[record->count++ % record->room];
    k->from = head.saddr;
    k->port = udp.source;
    k->len = (uint32_t)(len - at);
    memcpy(k->bytes, ip + at, len - at);
}

/* Set the filter of the tap. open: the filter passes the UDP packets to the victim, except those
 * from this program. Otherwise it passes no packet. */
static void tap_filter(bool open)
{
    struct sock_filter others[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 8), /* time to live */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TTL_OURS, 7, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9), /* protocol */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 16), /* destination */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, victim, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 12), /* source */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STRANGER, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {.len = 1, .filter = nothing};

    if (open)
        program = (struct sock_fprog){sizeof(others) / sizeof(others[0]), others};
    (void)setsockopt(tap, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
    tap_open = open;
    tap_taken = 0;
    tap_s = now_s();
}

static void tap_begin(void)
{
    struct sockaddr_ll lo = {.sll_family = AF_PACKET,
                             .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)if_nametoindex("lo")};
    int buffer = 1 << 20;

    tap = socket(AF_PACKET, SOCK_DGRAM, 0);
    if (tap < 0) {
        printf("no replay: listening on the wire needs root\n");
        return;
    }
    tap_filter(false);
    (void)setsockopt(tap, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    if (bind(tap, (struct sockaddr *)&lo, sizeof(lo)) < 0) {
        perror("net: no replay: bind");
        close(tap);
        tap = -1;
    }
}

/* From time to time record some packets on the wire: old packets may be of ended connections. */
static void listen_on(double now)
{
    if (tap < 0)
        return;
    if (!tap_open && now - tap_s >= LISTEN_EVERY_S)
        tap_filter(true);
    while (tap_open) {
        ssize_t len = recv(tap, packet, sizeof(packet), MSG_DONTWAIT);

        if (len > 0)
            keep(packet, (size_t)len);
        if (len > 0 && ++tap_taken < LISTEN_PACKETS)
            continue;
        if (tap_taken >= LISTEN_PACKETS || now - tap_s >= LISTEN_S) {
            tap_filter(false);
            /* Drop the packets that wait in the tap: they would be too old at the next opening. */
            while (recv(tap, packet, sizeof(packet), MSG_DONTWAIT) > 0)
                continue;
        }
        return;
    }
}

/* ---- packets ----------------------------------------------------------------------------- */

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
                        .tag = any() | 1,
                        .nonce = any() | 1,
                        .back_ms = any() | 1,
                        .data_id = any() | 1,
                        .number = (uint32_t)any() | 1,
                        .offered = (uint32_t)any() | 1,
                        .attrs = {.level = VIP_LVL_DELIVERY, .max_transfer_bytes = 65536},
                        .local = {.host_len = 6, .disc_len = 4, .disc = "evil"},
                        .remote = {.host_len = 6, .disc_len = (uint8_t)strlen(discriminator)}};

    memcpy(cm.remote.disc, discriminator, cm.remote.disc_len);
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

/* Flip a bit of `packet`: any bit, or (identity) a bit of an epoch or of the connection id. */
static void flip(size_t len, bool identity)
{
    struct vip_header hdr;

    if (!identity) {
        packet[any() % len] ^= (uint8_t)(1u << any() % 8);
        return;
    }
    if (vip_wire_get_header(packet, len, &hdr) != VIP_WIRE_OK)
        return;
    switch (any() % 3) {
    case 0:
        hdr.src_epoch ^= 1ull << any() % 64;
        break;
    case 1:
        hdr.dst_epoch ^= 1ull << any() % 64;
        break;
    default:
        if (hdr.kind == VIP_PKT_DATA)
            hdr.conn_id ^= 1ull << any() % 64;
        else
            hdr.src_epoch ^= 1ull << any() % 64;
    }
    vip_wire_put_header(packet, &hdr);
}

/* Make a packet from a recorded one, unchanged or damaged. With the recorded source (as_sender) and
 * a correct checksum, flip only a bit of a number that a stranger must guess. vipd cannot detect a
 * change of other bits in this case. */
static size_t made_replay(const struct kept *k, bool as_sender)
{
    struct iovec iov = {.iov_base = packet, .iov_len = k->len};
    size_t len = k->len;

    memcpy(packet, k->bytes, len);
    switch (any() % 8) {
    case 0:
        flip(len, false);
        break;
    case 1:
        flip(len, as_sender);
        if (len >= VIP_WIRE_HEADER_BYTES) {
            vip_wire_seal(&iov, 1);
            resealed++;
        }
        break;
    case 2:
    case 3:
        len = any() % len;
        break;
    default:
        replayed++;
        break;
    }
    return len;
}

/* Choose a recorded packet: one in `rare` is a long packet. NULL: none is recorded. */
static const struct kept *recorded(unsigned rare)
{
    const struct record *record = any() % rare == 0 ? &record_long : &record_short;
    uint64_t count = record->count < record->room ? record->count : record->room;

    return count ? &record->kept[any() % count] : NULL;
}

/* ---- sending ----------------------------------------------------------------------------- */

static void flush(struct batch *batch)
{
    unsigned done = 0;

    while (done < batch->count) {
        int n = sendmmsg(batch->sock, batch->msg + done, batch->count - done, 0);

        if (n < 0) {
            done++; /* the kernel has refused this datagram (full buffer?): do not count it */
            continue;
        }
        for (unsigned i = done; i < done + (unsigned)n; i++) {
            sent += batch->packets[i];
            sent_bytes += batch->iov[i].iov_len;
        }
        done += (unsigned)n;
    }
    batch->count = 0;
}

/* Add a datagram of `packets` packets, `len` bytes in all. The caller may add a control message. */
static struct msghdr *add(struct batch *batch, size_t len, unsigned packets)
{
    unsigned i;
    struct msghdr *msg;

    if (batch->count == BATCH)
        flush(batch);
    i = batch->count++;
    queued += packets;
    msg = &batch->msg[i].msg_hdr;
    batch->iov[i] = (struct iovec){.iov_base = batch->bytes[i], .iov_len = len};
    batch->packets[i] = packets;
    *msg = (struct msghdr){.msg_name = &target,
                           .msg_namelen = sizeof(target),
                           .msg_iov = &batch->iov[i],
                           .msg_iovlen = 1};
    return msg;
}

static void add_control(struct batch *batch, struct msghdr *msg, int level, int type,
                        const void *value, size_t bytes)
{
    char *room = batch->control[batch->count - 1].bytes;
    struct cmsghdr *head = (struct cmsghdr *)(void *)room;

    msg->msg_control = room;
    msg->msg_controllen = CMSG_SPACE(bytes);
    *head = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(bytes)};
    memcpy(CMSG_DATA(head), value, bytes);
}

static uint8_t *bytes_of(struct batch *batch)
{
    return batch->bytes[batch->count == BATCH ? 0 : batch->count];
}

/* Send a packet with the recorded source. */
static void send_as(const struct kept *k, size_t len)
{
    struct iphdr ip = {.version = 4,
                       .ihl = 5,
                       .ttl = TTL_OURS,
                       .protocol = IPPROTO_UDP,
                       .saddr = k->from,
                       .daddr = target.sin_addr.s_addr};
    struct udphdr udp = {
        .source = k->port, .dest = target.sin_port, .len = htons((uint16_t)(sizeof(udp) + len))};
    uint8_t *out;

    if (spoofed.count == BATCH)
        flush(&spoofed);
    out = bytes_of(&spoofed);
    ip.tot_len = htons((uint16_t)(sizeof(ip) + sizeof(udp) + len));
    memcpy(out, &ip, sizeof(ip));
    memcpy(out + sizeof(ip), &udp, sizeof(udp));
    memcpy(out + sizeof(ip) + sizeof(udp), packet, len);
    (void)add(&spoofed, sizeof(ip) + sizeof(udp) + len, 1);
}

/* Make one packet in `packet`, of this kind and variant; k: the packet to replay, or NULL. */
static size_t made(unsigned kind, uint64_t variant, const struct kept *k)
{
    size_t len;

    switch (kind) {
    case 0:
        return made_noise();
    case 1:
        return made_cm((enum vip_cm_type)(1 + variant % (VIP_CM_TYPES - 1)));
    case 2:
        return made_data();
    case 3:
        len = made_data();
        return variant % 2 ? (variant >> 1) % len : len + (variant >> 1) % 1000;
    default:
        return k ? made_replay(k, false) : made_data();
    }
}

/* Send one packet, or several packets of one variant and length as one datagram. */
static void forge(void)
{
    unsigned kind = (unsigned)(any() % 8),
             count = any() % 2 ? 1 : 2 + (unsigned)(any() % (TRAIN_MAX - 1));
    bool as_sender = kind >= 4 && spoofed.sock >= 0 && any() % 2;
    const struct kept *k = kind >= 4 ? recorded(as_sender ? LONG_RARE_AS : LONG_RARE) : NULL;
    uint64_t variant = any();
    size_t len, at = 0;
    uint16_t segment;
    struct msghdr *msg;
    uint8_t *out;

    if (k && as_sender) {
        send_as(k, made_replay(k, true));
        return;
    }
    len = made(kind, variant, k);
    segment = (uint16_t)len;
    if (stranger.count == BATCH)
        flush(&stranger);
    out = bytes_of(&stranger);
    if (len == 0 || len > TRAIN_BYTES_MAX)
        count = 1;
    for (unsigned i = 0; i < count; i++) {
        memcpy(out + at, packet, len);
        at += len;
        if (i + 1 < count)
            (void)made(kind, variant, k);
    }
    msg = add(&stranger, at, count);
    if (count > 1)
        add_control(&stranger, msg, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
}

static void connect_from(void)
{
    struct in_pktinfo info = {.ipi_spec_dst.s_addr =
                                  htonl(0x7f010000u + 1 + (uint32_t)(any() % 0xfe0000u))};
    size_t len = made_cm(VIP_CM_REQUEST);
    struct msghdr *msg;

    if (stranger.count == BATCH)
        flush(&stranger);
    memcpy(bytes_of(&stranger), packet, len);
    msg = add(&stranger, len, 1);
    add_control(&stranger, msg, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
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

/* Send this number of packets as fast as possible. Returns the seconds used. */
static double pour_out(int sock, bool connects, uint64_t packets)
{
    double begin = now_s();

    while (!stopping && queued < packets) {
        if (connects)
            connect_from();
        else
            forge();
    }
    flush(&stranger);
    flush(&spoofed);
    take_back(sock);
    return now_s() - begin;
}

static double seconds_on(clockid_t clock)
{
    struct timespec ts;

    return clock_gettime(clock, &ts) < 0 ? 0 : (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* Send for some seconds: `rate` packets per second of the attacked process's processor time, and at
 * least a tenth of `rate` packets per real second. So on a busy machine too the process gets the
 * same number of packets in a second of its processor time. Returns the seconds used. */
static double pour(int sock, bool connects, double seconds, double rate, clockid_t attacked)
{
    double begin = now_s(), last = begin, last_used = seconds_on(attacked), owed = 0, now;

    for (now = begin; !stopping && now < begin + seconds; now = now_s()) {
        double used = seconds_on(attacked), step = (now - last) / 10;
        uint64_t until;

        owed += rate * (used - last_used > step ? used - last_used : step);
        owed = owed < OWED_MAX ? owed : OWED_MAX;
        last = now;
        last_used = used;
        if (!connects)
            listen_on(now);
        until = queued + (owed > 0 ? (uint64_t)owed : 0);
        owed += (double)queued;
        while (queued < until) {
            if (connects)
                connect_from();
            else
                forge();
        }
        owed -= (double)queued;
        flush(&stranger);
        flush(&spoofed);
        take_back(sock);
        usleep(100);
    }
    return now - begin;
}

static void on_term(int number)
{
    (void)number;
    stopping = 1;
}

/* Receive packets and drop them, or answer each one. */
static int sink(bool answers)
{
    static struct sockaddr_in from[BATCH];
    static uint8_t room[BATCH][SEND_MAX];
    int sock = socket(AF_INET, SOCK_DGRAM, 0), buffer = 8 << 20;
    struct mmsghdr msg[BATCH] = {0};
    struct iovec iov[BATCH];
    uint64_t got = 0;

    for (unsigned i = 0; i < BATCH; i++) {
        iov[i] = (struct iovec){.iov_base = room[i], .iov_len = sizeof(room[i])};
        msg[i].msg_hdr = (struct msghdr){.msg_iov = &iov[i], .msg_iovlen = 1};
    }
    if (setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) < 0)
        setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    if (bind(sock, (struct sockaddr *)&target, sizeof(target)) < 0) {
        perror("net: bind");
        return 1;
    }
    while (!stopping) {
        int n;

        for (unsigned i = 0; i < BATCH && answers; i++) {
            msg[i].msg_hdr.msg_name = &from[i];
            msg[i].msg_hdr.msg_namelen = sizeof(from[i]);
        }
        n = recvmmsg(sock, msg, BATCH, MSG_WAITFORONE, NULL);
        got += n > 0 ? (uint64_t)n : 0;
        for (int i = 0; i < n && answers; i++)
            (void)sendto(sock, room[i], ANSWER_BYTES, MSG_DONTWAIT, &from[i], sizeof(from[i]));
    }
    printf("net sink: %llu datagrams\n", (unsigned long long)got);
    return 0;
}

int main(int argc, char **argv)
{
    struct sockaddr_in self = {.sin_family = AF_INET};
    struct sigaction action = {.sa_handler = on_term};
    int sock = socket(AF_INET, SOCK_DGRAM, 0), buffer = 8 << 20;
    clockid_t attacked;
    bool connects;
    double took;

    connects = argc == 9 && strcmp(argv[1], "connect") == 0;
    if (!connects && (argc != 9 || strcmp(argv[1], "forge") != 0) &&
        (argc != 4 || (strcmp(argv[1], "sink") != 0 && strcmp(argv[1], "answer") != 0))) {
        fprintf(stderr,
                "usage: net forge ADDRESS PORT SECONDS PER_SECOND SEED VICTIM PID\n"
                "       net connect ADDRESS PORT SECONDS PER_SECOND SEED DISCRIMINATOR PID\n"
                "       net sink|answer ADDRESS PORT\n");
        return 2;
    }
    sigaction(SIGTERM, &action, NULL);
    target.sin_family = AF_INET;
    target.sin_port = htons((uint16_t)atoi(argv[3]));
    inet_pton(AF_INET, argv[2], &target.sin_addr);
    if (argc == 4)
        return sink(strcmp(argv[1], "answer") == 0);
    discriminator = connects ? argv[7] : "target";
    if (strlen(discriminator) > VIP_DISCRIMINATOR_BYTES_MAX) {
        fprintf(stderr, "net: a discriminator has at most %d bytes\n", VIP_DISCRIMINATOR_BYTES_MAX);
        return 2;
    }
    seed = strtoull(argv[6], NULL, 0);
    self.sin_addr.s_addr = htonl(connects ? INADDR_ANY : STRANGER);
    setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    if (bind(sock, (struct sockaddr *)&self, sizeof(self)) < 0) {
        perror("net: bind");
        return 1;
    }
    stranger.sock = sock;
    spoofed.sock = connects ? -1 : socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    if (!connects) {
        victim = ntohl(inet_addr(argv[7]));
        tap_begin();
    }
    if (atof(argv[5]) > 0) {
        if (clock_getcpuclockid(atoi(argv[8]), &attacked) != 0) {
            fprintf(stderr, "net: no process %s\n", argv[8]);
            return 2;
        }
        took = pour(sock, connects, atof(argv[4]), atof(argv[5]), attacked);
        usleep(100000); /* wait for the last answers */
    } else {
        took = pour_out(sock, connects, strtoull(argv[4], NULL, 0));
    }
    take_back(sock);
    printf("net %s: %llu packets, %llu bytes in %.1f s, %.0f per second; %llu recorded, %llu "
           "replayed, %llu resealed; back %llu packets, %llu bytes, %llu cookies\n",
           argv[1], (unsigned long long)sent, (unsigned long long)sent_bytes, took,
           (double)sent / took, (unsigned long long)(record_short.count + record_long.count),
           (unsigned long long)replayed, (unsigned long long)resealed, (unsigned long long)back,
           (unsigned long long)back_bytes, (unsigned long long)cookies);
    return back_bytes > sent_bytes;
}
