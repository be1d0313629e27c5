/*
 * Measures plain TCP with TCP_NODELAY: two processes, one connection
 * (tools/vipperf/floor_inside.h). For bw and rate each write has --size bytes; the receiver reads
 * all bytes that have arrived. With --both-ways each side writes and reads.
 */
#include "tools/vipperf/floor_inside.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* In bw and rate, the receiver asks for at least this many bytes in each read. */
#define READ_BYTES_MIN 262144u

struct side {
    struct floor_run *run;
    int sock;
    uint8_t *bytes;
    size_t room;
};

/*
 * Write messages and read the other side's messages; neither waits for the other. Count received
 * bytes in *total. The client stops when it has sent enough, the server stops at FLOOR_STOP.
 * Outcomes: 0; 1 with an error message.
 */
static int go_both_ways(struct side *side, bool client, uint64_t *total)
{
    struct floor_run *run = side->run;
    uint64_t sent = 0, got = 0;
    size_t left = run->size;
    bool more = true;

    while (more && floor_goes_on(run)) {
        ssize_t out = send(side->sock, side->bytes, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        ssize_t in;

        if (out < 0 && errno != EAGAIN && errno != EINTR)
            break;
        in = recv(side->sock, side->bytes, side->room, MSG_DONTWAIT);
        if (in == 0 || (in < 0 && errno != EAGAIN && errno != EINTR))
            break;
        if (in > 0) {
            got += (uint64_t)in;
            __atomic_store_n(total, got, __ATOMIC_RELEASE);
        }
        if (out > 0) {
            left -= (size_t)out;
            if (left == 0) {
                left = run->size;
                sent++;
                more = !client || floor_send_more(run, sent);
            }
        } else if (in < 0 && run->opts->poll) {
            sched_yield();
        } else if (in < 0) {
            struct pollfd wait = {.fd = side->sock, .events = POLLIN | POLLOUT};

            poll(&wait, 1, FLOOR_CHECK_MS);
        }
    }
    if (more && floor_goes_on(run))
        return floor_failed(errno, "the other side has closed");
    if (client) {
        floor_take_stream(run, sent);
        floor_set_phase(run, FLOOR_STOP);
    }
    return 0;
}

/* Set a connected socket's options, allocate its buffer. Outcomes: 0; 1 with an error message. */
static int prepare(struct side *side)
{
    struct timeval wait = {.tv_usec = FLOOR_CHECK_MS * 1000};
    int one = 1;

    setsockopt(side->sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(side->sock, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    side->room = side->run->size > READ_BYTES_MIN ? side->run->size : READ_BYTES_MIN;
    side->bytes = calloc(1, side->room);
    return side->bytes ? 0 : floor_failed(ENOMEM, "no buffer");
}

/* Read once. Returns the number of bytes; 0: closed or run ended; -1 with an error message. */
static ssize_t read_some(struct side *side, size_t want)
{
    int flags = side->run->opts->poll ? MSG_DONTWAIT : 0;

    while (floor_goes_on(side->run)) {
        ssize_t n = recv(side->sock, side->bytes, want, flags);

        if (n >= 0)
            return n;
        if (errno != EAGAIN && errno != EINTR) {
            floor_failed(errno, "cannot read");
            return -1;
        }
        if (side->run->opts->poll)
            sched_yield();
    }
    return 0;
}

/* Read a whole message. Outcomes: 1; 0: closed, or the run has ended; -1 with an error message. */
static int read_message(struct side *side)
{
    for (size_t left = side->run->size; left > 0;) {
        ssize_t n = read_some(side, left);

        if (n <= 0)
            return (int)n;
        left -= (size_t)n;
    }
    return 1;
}

/* Write a whole message. Outcomes: 0; 1 with an error message. */
static int write_message(struct side *side)
{
    for (size_t left = side->run->size; left > 0;) {
        ssize_t n = send(side->sock, side->bytes, left, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            return floor_failed(errno, "cannot write");
        if (n > 0)
            left -= (size_t)n;
    }
    return 0;
}

static int round_trip(void *ctx)
{
    return write_message(ctx) != 0 || read_message(ctx) <= 0;
}

static int client(struct floor_run *run)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = run->opts->address[0]};
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr = run->opts->address[1]};
    struct side side = {.run = run, .sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    uint64_t sent = 0;

    peer.sin_port = htons(floor_wait_port(run, 1));
    if (peer.sin_port == 0)
        return floor_failed(0, "the sides did not meet");
    if (side.sock < 0 || bind(side.sock, (const struct sockaddr *)&own, sizeof(own)) < 0 ||
        connect(side.sock, (const struct sockaddr *)&peer, sizeof(peer)) < 0)
        return floor_failed(errno, "cannot connect");
    if (prepare(&side) != 0)
        return 1;
    if (run->opts->what == FLOOR_LAT)
        return floor_ping(run, round_trip, &side);
    if (run->opts->both_ways)
        return floor_send_more(run, 0) ? go_both_ways(&side, true, &run->shared->back_bytes) : 1;
    for (; floor_send_more(run, sent); sent++)
        if (write_message(&side) != 0)
            return 1;
    floor_take_stream(run, sent);
    floor_set_phase(run, FLOOR_STOP);
    return 0;
}

/* Listen, publish the port, accept one connection. Returns the socket; -1 with an error message. */
static int accept_client(struct floor_run *run)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = run->opts->address[1]};
    socklen_t len = sizeof(own);
    int sock, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (const struct sockaddr *)&own, sizeof(own)) < 0 ||
        listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&own, &len) < 0) {
        floor_failed(errno, "cannot listen");
        return -1;
    }
    __atomic_store_n(&run->shared->port[1], ntohs(own.sin_port), __ATOMIC_RELEASE);
    sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0)
        floor_failed(errno, "cannot accept");
    close(listener);
    return sock;
}

static int serve_echo(struct side *side)
{
    int rc;

    while ((rc = read_message(side)) > 0)
        if (write_message(side) != 0)
            return 1;
    return rc < 0;
}

static int serve_stream(struct side *side)
{
    struct floor_shared *shared = side->run->shared;
    uint64_t total = 0;
    ssize_t n;

    while ((n = read_some(side, side->room)) > 0) {
        total += (uint64_t)n;
        if (side->run->opts->iters > 0)
            __atomic_store_n(&shared->rx_last_ns, floor_now_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&shared->rx_bytes, total, __ATOMIC_RELEASE);
    }
    return n < 0;
}

static int server(struct floor_run *run)
{
    struct side side = {.run = run, .sock = accept_client(run)};

    if (side.sock < 0 || prepare(&side) != 0)
        return 1;
    if (run->opts->both_ways)
        return go_both_ways(&side, false, &run->shared->rx_bytes);
    return run->opts->what == FLOOR_LAT ? serve_echo(&side) : serve_stream(&side);
}

int floor_tcp(struct floor_run *run)
{
    static const struct floor_member members[] = {{server, 1}, {client, 0}};

    return floor_execute(run, members, 2);
}
