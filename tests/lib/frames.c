/*
 * A second pair of eyes and hands on an interface, for tests/system/ether.sh.
 *
 *   frames watch INTERFACE        until SIGTERM; then one line "ETHERTYPE FRAMES" for each one seen
 *   frames bad INTERFACE MAC      send one frame of each kind that vipd must drop, with type 88b5
 *   frames ask INTERFACE NAME N   ask N times who is called so, and in ways that vipd must drop
 *   frames gro INTERFACE on|off   let the kernel merge received frames of protocols that it knows
 *   frames take ADDRESS PORT      receive one TCP connection's bytes, check them, say how many
 *   frames give ADDRESS PORT N    send N bytes over TCP, say how many segments were retransmitted
 *
 * watch and bad need CAP_NET_RAW, gro CAP_NET_ADMIN. Exit code 0 if all went well.
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

struct bad_frame {
    const char *what;
    uint8_t after[24]; /* after the EtherType */
    unsigned len;
};

static const struct bad_frame bad_frames[] = {
    {"shorter than our header", {0x56, 0x11, 1}, 3},
    {"another magic", {0x57, 0x11, 4, 0, 1, 2, 3, 4}, 8},
    {"another version", {0x56, 0x21, 4, 0, 1, 2, 3, 4}, 8},
    {"no bytes", {0x56, 0x11, 0, 0, 1, 2, 3, 4}, 8},
    {"more bytes than there are", {0x56, 0x11, 0xff, 0xff, 1, 2, 3, 4}, 8},
    {"shorter than a packet's header", {0x56, 0x11, 4, 0, 1, 2, 3, 4}, 8},
};

static int bad(const char *interface, const char *mac_text)
{
    uint8_t frame[FRAME_HEAD + 4000] = {0};
    unsigned mac[6];
    int sock = open_packet(interface, TYPE_OURS);

    if (sock < 0)
        return fail(interface);
    if (sscanf(mac_text, "%x:%x:%x:%x:%x:%x", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
               &mac[5]) != 6)
        return fail(mac_text);
    for (unsigned i = 0; i < 6; i++)
        frame[i] = (uint8_t)mac[i];
    memcpy(frame + 6, "\2\0\0\0\0\7\x88\xb5", 8);
    for (unsigned i = 0; i < sizeof(bad_frames) / sizeof(bad_frames[0]); i++) {
        memcpy(frame + FRAME_HEAD, bad_frames[i].after, bad_frames[i].len);
        if (send(sock, frame, FRAME_HEAD + bad_frames[i].len, 0) < 0)
            return fail(bad_frames[i].what);
    }
    /* A long packet of zeros with a wrong checksum. */
    memset(frame + FRAME_HEAD, 0, sizeof(frame) - FRAME_HEAD);
    memcpy(frame + FRAME_HEAD, "\x56\x11\xe8\x03", 4);
    if (send(sock, frame, FRAME_HEAD + 4 + 1000, 0) < 0)
        return fail("wrong checksum");
    /* From a group of cards. */
    frame[6] |= 1;
    if (send(sock, frame, FRAME_HEAD + 4 + 1000, 0) < 0)
        return fail("from a group");
    frame[6] &= 0xfe;
    /* Of a foreign VLAN, and with a foreign EtherType: the kernel's filter drops them. */
    memcpy(frame + 12, "\x81\0\0\5\x88\xb5\x56\x11\4\0", 10);
    if (send(sock, frame, 60, 0) < 0)
        return fail("VLAN");
    memcpy(frame + 12, "\x88\xb6\x56\x11\4\0", 6);
    if (send(sock, frame, 60, 0) < 0)
        return fail("EtherType");
    /* Longer than what vipd has buffers for, if the wire takes it at all. */
    memcpy(frame + 12, "\x88\xb5\x56\x11\x9c\x0f", 6);
    if (send(sock, frame, sizeof(frame), 0) < 0 && errno != EMSGSIZE)
        return fail("longer than the MTU");
    return 0;
}

/* ---- ask ----------------------------------------------------------------------------------- */

/* CRC32C, bit by bit: the other end has its own. */
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

/* One message about a name (doc/wire.md, "Finding peers on Ethernet"), with this much added to its CRC. */
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
    if (strcmp(what, "bad") == 0 && argc == 4)
        return bad(argv[2], argv[3]);
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
