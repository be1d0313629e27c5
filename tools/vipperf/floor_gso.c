/*
 * Measures UDP with segmentation offload (GSO). One system call gives the kernel up to 64 datagrams
 * of equal size in one buffer (UDP_SEGMENT), and one call receives many datagrams (UDP_GRO). This
 * is the cheapest way through the kernel for a protocol over UDP (tools/vipperf/floor_inside.h).
 *
 * Only for bw and rate. A datagram has as much payload as fits into an Ethernet frame; for smaller
 * messages, it has less. The result counts the bytes that arrived, as for plain UDP.
 */
#include "tools/vipperf/floor_inside.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Payload bytes of a datagram in a frame of 1500 bytes. */
#define SEGMENT_BYTES_MAX 1472u

/* Largest number of datagrams and of bytes that every kernel with the offload accepts per call. */
#define SEGMENTS_MAX    64u
#define BURST_BYTES_MAX 65000u

static uint8_t bytes[FLOOR_DATAGRAM_BYTES_MAX];

/* The division of a message, or of many small messages, into bursts. */
struct burst {
    uint32_t segment_bytes;
    uint32_t bytes;       /* bytes of a full burst */
    uint32_t messages;    /* messages in a full burst; 1 if a message is larger than a datagram */
    uint64_t round_bytes; /* total bytes of `messages` messages */
};

static struct burst burst_of(uint64_t size)
{
    struct burst burst = {.messages = 1, .round_bytes = size};
    uint32_t count;

    burst.segment_bytes = size < SEGMENT_BYTES_MAX ? (uint32_t)size : SEGMENT_BYTES_MAX;
    count = BURST_BYTES_MAX / burst.segment_bytes;
    if (count > SEGMENTS_MAX)
        count = SEGMENTS_MAX;
    burst.bytes = count * burst.segment_bytes;
    if (size <= SEGMENT_BYTES_MAX) {
        burst.messages = count;
        burst.round_bytes = burst.bytes;
    }
    return burst;
}

static int send_burst(int sock, uint32_t len)
{
    while (send(sock, bytes, len, 0) < 0) {
        /* ECONNREFUSED: the other side was not ready for an earlier datagram. Try again. */
        if (errno != EINTR && errno != ENOBUFS && errno != ECONNREFUSED)
            return floor_failed(errno, "cannot send %u bytes with segmentation offload",
                                (unsigned)len);
    }
    return 0;
}

static int client(struct floor_run *run)
{
    struct burst burst = burst_of(run->size);
    int sock = floor_udp_socket(run, 0), segment = (int)burst.segment_bytes;
    uint64_t sent = 0;

    if (sock < 0)
        return 1;
    if (setsockopt(sock, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) < 0)
        return floor_failed(errno, "this kernel has no UDP_SEGMENT");
    for (; floor_send_more(run, sent); sent += burst.messages) {
        uint64_t left = burst.round_bytes;

        while (left > 0) {
            uint32_t len = left < burst.bytes ? (uint32_t)left : burst.bytes;

            if (send_burst(sock, len) != 0)
                return 1;
            left -= len;
        }
    }
    floor_take_stream(run, sent);
    floor_set_phase(run, FLOOR_STOP);
    return 0;
}

static int server(struct floor_run *run)
{
    int sock = floor_udp_socket(run, 1), on = 1;
    int flags = run->opts->poll ? MSG_DONTWAIT : 0;
    uint64_t total = 0;

    if (sock < 0)
        return 1;
    if (setsockopt(sock, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) < 0)
        return floor_failed(errno, "this kernel has no UDP_GRO");
    while (floor_goes_on(run)) {
        ssize_t n = recv(sock, bytes, sizeof(bytes), flags);

        if (n >= 0) {
            total += (uint64_t)n;
            __atomic_store_n(&run->shared->rx_bytes, total, __ATOMIC_RELAXED);
            if (run->opts->iters > 0)
                __atomic_store_n(&run->shared->rx_last_ns, floor_now_ns(), __ATOMIC_RELAXED);
            continue;
        }
        if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
            return floor_failed(errno, "cannot receive");
        if (run->opts->poll)
            sched_yield();
    }
    return 0;
}

int floor_gso(struct floor_run *run)
{
    static const struct floor_member members[] = {{server, 1}, {client, 0}};

    return floor_execute(run, members, 2);
}
