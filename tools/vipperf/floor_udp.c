/*
 * Measures plain UDP: two processes, two connected sockets, one datagram per system call
 * (tools/vipperf/floor_inside.h). A message longer than a datagram takes several datagrams.
 *
 * bw and rate count only bytes that arrive. UDP has no flow control, so it drops data for which the
 * receiver's buffer has no room.
 */
#include "tools/vipperf/floor_inside.h"

#include <errno.h>
#include <sched.h>
#include <sys/socket.h>

static uint8_t bytes[FLOOR_DATAGRAM_BYTES_MAX];

/* Receive one datagram. Outcomes: its length; -1: the run has ended or failed (see *ret_rc). */
static ssize_t receive(struct floor_run *run, int sock, int *ret_rc)
{
    int flags = run->opts->poll ? MSG_DONTWAIT : 0;

    *ret_rc = 0;
    while (floor_goes_on(run)) {
        ssize_t n = recv(sock, bytes, sizeof(bytes), flags);

        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED) {
            *ret_rc = floor_failed(errno, "cannot receive");
            return -1;
        }
        if (run->opts->poll)
            sched_yield();
    }
    return -1;
}

/* Send all datagrams of one message. Outcomes: 0; 1 with an error message. */
static int send_message(struct floor_run *run, int sock)
{
    uint64_t count = floor_datagrams(run->size);

    for (uint64_t i = 0; i < count; i++) {
        uint32_t len = floor_datagram_bytes(run->size, i);

        while (send(sock, bytes, len, 0) < 0) {
            /* ECONNREFUSED: an earlier datagram found the other side not ready. Try again. */
            if (errno != EINTR && errno != ENOBUFS && errno != ECONNREFUSED)
                return floor_failed(errno, "cannot send a datagram of %u bytes", (unsigned)len);
        }
    }
    return 0;
}

struct pinger {
    struct floor_run *run;
    int sock;
};

static int round_trip(void *ctx)
{
    struct pinger *pinger = ctx;
    uint64_t count = floor_datagrams(pinger->run->size);
    int rc;

    if (send_message(pinger->run, pinger->sock) != 0)
        return 1;
    /* If a datagram is lost, this loop waits for it until the parent ends the run (STALL_S). */
    for (uint64_t i = 0; i < count; i++)
        if (receive(pinger->run, pinger->sock, &rc) < 0)
            return 1;
    return 0;
}

static int client(struct floor_run *run)
{
    struct pinger pinger = {run, floor_udp_socket(run, 0)};
    uint64_t sent = 0;

    if (pinger.sock < 0)
        return 1;
    if (run->opts->what == FLOOR_LAT)
        return floor_ping(run, round_trip, &pinger);
    for (; floor_send_more(run, sent); sent++)
        if (send_message(run, pinger.sock) != 0)
            return 1;
    floor_take_stream(run, sent);
    floor_set_phase(run, FLOOR_STOP);
    return 0;
}

static int server(struct floor_run *run)
{
    int sock = floor_udp_socket(run, 1), rc;
    bool echo = run->opts->what == FLOOR_LAT, stamp = run->opts->iters > 0;
    uint64_t count = floor_datagrams(run->size), arrived = 0, total = 0;
    ssize_t n;

    if (sock < 0)
        return 1;
    while ((n = receive(run, sock, &rc)) >= 0) {
        total += (uint64_t)n;
        __atomic_store_n(&run->shared->rx_bytes, total, __ATOMIC_RELAXED);
        if (stamp && !echo)
            __atomic_store_n(&run->shared->rx_last_ns, floor_now_ns(), __ATOMIC_RELAXED);
        if (echo && ++arrived % count == 0 && send_message(run, sock) != 0)
            return 1;
    }
    return rc;
}

int floor_udp(struct floor_run *run)
{
    static const struct floor_member members[] = {{server, 1}, {client, 0}};

    return floor_execute(run, members, 2);
}
