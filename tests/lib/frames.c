/*
 * Watches an interface and sends frames to it, without vipd, for tests/system/ether.sh and xdp.sh.
 *
 *   frames watch INTERFACE        count frames until SIGTERM; then print "ETHERTYPE FRAMES" lines
 *   frames bad INTERFACE MAC KIND...  send one frame of each KIND; vipd must drop all these frames
 *   frames ask INTERFACE NAME N   ask N times for the host NAME; send two questions that vipd drops
 *   frames gro INTERFACE on|off   switch the kernel's merging of received frames (GRO) on or off
 *   frames take ADDRESS PORT      receive bytes of one TCP connection, check them, print how many
 *   frames give ADDRESS PORT N    send N bytes over TCP; print the number of retransmitted segments
 *
 * watch, bad and ask need CAP_NET_RAW; gro needs CAP_NET_ADMIN. Exit code 0: no error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define TYPE_ALL   0x0003
#define TYPE_OURS  0x88b5
#define CHUNK      65536
#define BUFFER     (64 << 20)
#define FRAME_HEAD 14

static volatile sig_atomic_t stop;

static void on_term(int number)
{
    (void)number;
    stop = 1;
}

static int fail(const char *what)
{
    fprintf(stderr, "frames: %s: %s\n", what, strerror(errno));
    return 1;
}

static int open_packet(const char *interface, uint16_t type)
{
    struct sockaddr_ll addr = {.sll_family = AF_PACKET,
                               .sll_protocol = htons(type),
                               .sll_ifindex = (int)if_nametoindex(interface)};
    int sock = socket(AF_PACKET, SOCK_RAW, 0);

    if (sock < 0 || addr.sll_ifindex == 0 ||
        bind(sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -1;
    return sock;
}

/* ---- watch --------------------------------------------------------------------------------- */

static int watch(const char *interface)
{
    static uint64_t seen[65536];
    struct sigaction action = {.sa_handler = on_term};
    int sock = open_packet(interface, TYPE_ALL), bytes = BUFFER;
    uint8_t head[FRAME_HEAD];

    if (sock < 0)
        return fail(interface);
    setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
    sigaction(SIGTERM, &action, NULL);
    puts("watching");
    fflush(stdout);
    while (!stop)
        if (recv(sock, head, sizeof(head), 0) == (ssize_t)sizeof(head))
            seen[head[12] << 8 | head[13]]++;
    for (unsigned type = 0; type < 65536; type++)
        if (seen[type])
            printf("%04x %llu\n", type, (unsigned long long)seen[type]);
    return 0;
}

/* ---- bad ----------------------------------------------------------------------------------- */

/* Compute CRC32C bit by bit, without vipd's own code. */
static uint32_t crc32c(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

/* The fields in which the bad frames differ. */
struct bad_frame {
    const char *kind;
    uint8_t from;          /* first byte of the source address: 2 for a card, 3 for a group */
    const char *types;     /* EtherType, or a VLAN tag and an EtherType */
    unsigned types_bytes;  /* length of `types` in bytes: 2 or 6 */
    uint8_t after[4];      /* vipd's header: magic number, version, packet length */
    unsigned content;      /* number of bytes after the header: zeros; 64: put_stranger's packet */
    unsigned header_bytes; /* how many bytes of `after` are sent: 4, or fewer */
};

#define OURS "\x88\xb5"

static const struct bad_frame bad_frames[] = {
    {"short", 2, OURS, 2, {0x56, 0x11, 1}, 0, 3},          /* the frame ends within our header */
    {"magic", 2, OURS, 2, {0x57, 0x11, 4, 0}, 46, 4},      /* the magic number is wrong */
    {"version", 2, OURS, 2, {0x56, 0x21, 4, 0}, 46, 4},    /* the version is unknown */
    {"empty", 2, OURS, 2, {0x56, 0x11, 0, 0}, 46, 4},      /* the packet length is 0 */
    {"longer", 2, OURS, 2, {0x56, 0x11, 0xff, 0}, 46, 4},  /* the packet length is too large */
    {"runt", 2, OURS, 2, {0x56, 0x11, 4, 0}, 46, 4},       /* the packet ends within its header */
    {"crc", 2, OURS, 2, {0x56, 0x11, 0xe8, 3}, 1000, 4},   /* the CRC is wrong: all zeros */
    {"stranger", 2, OURS, 2, {0x56, 0x11, 64, 0}, 64, 4},  /* the packet of put_stranger */
    {"group", 3, OURS, 2, {0x56, 0x11, 0xe8, 3}, 1000, 4}, /* the source is a group address */
    {"vlan", 2, "\x81\0\0\5" OURS, 6, {0x56, 0x11, 64, 0}, 64, 4},
    {"ethertype", 2, "\x88\xb6", 2, {0x56, 0x11, 64, 0}, 64, 4},
    {"oversized", 2, OURS, 2, {0x56, 0x11, 0x9c, 0xf}, 3996, 4}, /* needs jumbo frames */
};

#define BAD_KINDS (sizeof(bad_frames) / sizeof(*bad_frames))

/* Write a correct data packet (doc/wire.md) of a connection that no host has. */
static void put_stranger(uint8_t packet[64])
{
    uint32_t crc;

    packet[0] = 0x11;             /* version and kind */
    memset(packet + 8, 0xee, 24); /* id of the connection, epochs of both hosts */
    packet[32] = 1;               /* packet number */
    crc = crc32c(packet, 64);
    for (unsigned i = 0; i < 4; i++)
        packet[4 + i] = (uint8_t)(crc >> 8 * i);
}

static int send_bad(int sock, const unsigned mac[6], const struct bad_frame *bad)
{
    uint8_t frame[FRAME_HEAD + 4096] = {0}, *at = frame;

    for (unsigned i = 0; i < 6; i++)
        *at++ = (uint8_t)mac[i];
    memcpy(at, "\0\0\0\0\0\7", 6);
    at[0] = bad->from;
    at += 6;
    memcpy(at, bad->types, bad->types_bytes);
    at += bad->types_bytes;
    memcpy(at, bad->after, bad->header_bytes);
    at += bad->header_bytes;
    if (bad->content == 64)
        put_stranger(at);
    at += bad->content;
    return send(sock, frame, (size_t)(at - frame), 0) < 0 ? fail(bad->kind) : 0;
}

static int bad(const char *interface, const char *mac_text, char **kinds, int count)
{
    int sock = open_packet(interface, TYPE_OURS), r = 0;
    unsigned mac[6];

    if (sock < 0)
        return fail(interface);
    if (sscanf(mac_text, "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
               &mac[5]) != 6)
        return fail(mac_text);
    for (int i = 0; i < count && r == 0; i++) {
        const struct bad_frame *found = NULL;

        for (unsigned k = 0; k < BAD_KINDS; k++)
            if (strcmp(bad_frames[k].kind, kinds[i]) == 0)
                found = &bad_frames[k];
        errno = EINVAL;
        r = found ? send_bad(sock, mac, found) : fail(kinds[i]);
    }
    return r;
}

/* ---- ask ----------------------------------------------------------------------------------- */

/* Send a message about a name (see doc/wire.md). `wrong` is added to the message's CRC. */
static int tell(int sock, uint8_t kind, const char *name, uint32_t wrong)
{
    uint8_t frame[128] = {0}, *head = frame + FRAME_HEAD, *body = head + 4;
    size_t len = 16 + strlen(name);
    uint32_t crc;

    memset(frame, 0xff, 6);
    memcpy(frame + 6, "\2\0\0\0\0\x9\x88\xb5", 8);
    head[0] = 0x56;
    head[1] = kind;
    head[2] = (uint8_t)len;
    body[5] = (uint8_t)strlen(name);
    memcpy(body + 8, "question", 8);
    memcpy(body + 16, name, strlen(name));
    crc = crc32c(body, len) + wrong;
    for (unsigned i = 0; i < 4; i++)
        body[i] = (uint8_t)(crc >> 8 * i);
    return send(sock, frame, 60, 0) < 0 ? fail("send") : 0;
}

static int ask(const char *interface, const char *name, const char *count)
{
    int sock = open_packet(interface, TYPE_OURS), r = 0;

    if (sock < 0)
        return fail(interface);
    for (int i = 0; r == 0 && i < atoi(count); i++)
        r = tell(sock, 0x13, name, 0);
    if (r == 0)
        r = tell(sock, 0x13, name, 1);
    if (r == 0)
        r = tell(sock, 0x13, "", 0);
    return r;
}

/* ---- gro ------------------------------------------------------------------------------------- */

static int gro(const char *interface, const char *on)
{
    struct ethtool_value value = {.cmd = ETHTOOL_SGRO, .data = strcmp(on, "on") == 0};
    struct ifreq request = {.ifr_data = (void *)&value};
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
    return ioctl(sock, SIOCETHTOOL, &request) < 0 ? fail("SIOCETHTOOL") : 0;
}

/* ---- TCP beside ------------------------------------------------------------------------------ */

static uint8_t pattern(uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 13));
}

static struct sockaddr_in tcp_address(const char *address, const char *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};

    inet_pton(AF_INET, address, &addr.sin_addr);
    return addr;
}

static int take(const char *address, const char *port)
{
    static uint8_t chunk[CHUNK];
    struct sockaddr_in addr = tcp_address(address, port);
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, sock;
    uint64_t at = 0;
    ssize_t n;

    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (const struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(listener, 1) < 0)
        return fail("listen");
    puts("listening");
    fflush(stdout);
    sock = accept(listener, NULL, NULL);
    while ((n = recv(sock, chunk, sizeof(chunk), 0)) > 0)
        for (ssize_t i = 0; i < n; i++, at++)
            if (chunk[i] != pattern(at)) {
                fprintf(stderr, "frames: byte %llu is wrong\n", (unsigned long long)at);
                return 1;
            }
    printf("%llu bytes\n", (unsigned long long)at);
    return n < 0 ? fail("recv") : 0;
}

static int give(const char *address, const char *port, const char *amount)
{
    static uint8_t chunk[CHUNK];
    struct sockaddr_in addr = tcp_address(address, port);
    uint64_t at = 0, bytes = strtoull(amount, NULL, 10);
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    int sock = socket(AF_INET, SOCK_STREAM, 0);

    if (connect(sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return fail("connect");
    while (at < bytes) {
        size_t room = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;
        ssize_t n;

        for (size_t i = 0; i < room; i++)
            chunk[i] = pattern(at + i);
        n = send(sock, chunk, room, MSG_NOSIGNAL);
        if (n < 0)
            return fail("send");
        at += (uint64_t)n;
    }
    shutdown(sock, SHUT_WR);
    while (recv(sock, chunk, 1, 0) > 0)
        continue;
    getsockopt(sock, IPPROTO_TCP, TCP_INFO, &info, &len);
    printf("%u retransmitted\n", info.tcpi_total_retrans);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "watch") == 0 && argc == 3)
        return watch(argv[2]);
    if (strcmp(what, "bad") == 0 && argc > 4)
        return bad(argv[2], argv[3], argv + 4, argc - 4);
    if (strcmp(what, "ask") == 0 && argc == 5)
        return ask(argv[2], argv[3], argv[4]);
    if (strcmp(what, "gro") == 0 && argc == 4)
        return gro(argv[2], argv[3]);
    if (strcmp(what, "take") == 0 && argc == 4)
        return take(argv[2], argv[3]);
    if (strcmp(what, "give") == 0 && argc == 5)
        return give(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: frames watch|bad|ask|gro|take|give ...; see tests/lib/frames.c\n");
    return 2;
}
