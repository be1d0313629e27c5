/*
 * Measures a relay without a protocol: two applications, each with a relay process that it reaches
 * through shared memory. The relays exchange UDP datagrams (tools/vipperf/floor_inside.h). The
 * time beyond that of plain UDP is the cost of a daemon.
 *
 * Each side has two rings, each with one writer and one reader: application -> relay, and relay ->
 * application. The relay sends datagrams directly from one ring and receives them into the other.
 * An eventfd wakes a sleeping relay, and a futex wakes a sleeping application, but only if the
 * sleeper has set its flag.
 */
#include "tools/vipperf/floor_inside.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_SLOTS 64u

/* Largest number of datagrams under way in a stream. Lost datagrams are not sent again, so this
 * number must be small: no receive buffer may overflow. */
#define STREAM_WINDOW 32u

/* The receiving application acknowledges after this many datagrams. */
#define ACK_EVERY 8u

struct slot {
    uint32_t len;
    uint8_t bytes[65536 - 4];
};

struct ring {
    _Alignas(64) uint32_t head;   /* number of slots written; also the futex word */
    _Alignas(64) uint32_t tail;   /* number of slots that the reader has taken */
    _Alignas(64) uint32_t asleep; /* 1 = the reader sleeps, and the writer must wake it */
    _Alignas(64) struct slot slot[RING_SLOTS];
};

struct relay_side {
    struct ring out, in; /* out: from the application to the relay */
    int bell;            /* eventfd of the relay */
};

static struct relay_side *side_of(struct floor_run *run, unsigned side)
{
    return (struct relay_side *)run->relay + side;
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- applications ---------------------------------------------------------------------- */

/* Sleep until the ring has an entry, at most FLOOR_CHECK_MS. */
static void app_sleep(struct ring *ring, uint32_t seen)
{
    struct timespec wait = {.tv_nsec = FLOOR_CHECK_MS * 1000000L};

    __atomic_store_n(&ring->asleep, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (load(&ring->head) == seen)
        syscall(SYS_futex, &ring->head, FUTEX_WAIT, seen, &wait, NULL, 0);
    __atomic_store_n(&ring->asleep, 0, __ATOMIC_RELAXED);
}

/* Wait for the next datagram. Returns its slot; NULL: the run has ended. */
static const struct slot *app_wait(struct floor_run *run, struct ring *in)
{
    uint32_t tail = in->tail;

    while (load(&in->head) == tail) {
        if (!floor_goes_on(run))
            return NULL;
        if (run->opts->poll)
            sched_yield();
        else
            app_sleep(in, tail);
    }
    return &in->slot[tail % RING_SLOTS];
}

static void app_take(struct ring *in)
{
    __atomic_store_n(&in->tail, in->tail + 1, __ATOMIC_RELEASE);
}

/* Give one datagram to the relay. Outcomes: 0; 1: the run has ended, or failed with a message. */
static int app_post(struct floor_run *run, struct relay_side *side, uint32_t len)
{
    struct ring *out = &side->out;
    uint32_t head = out->head;

    while (head - load(&out->tail) >= RING_SLOTS) {
        if (!floor_goes_on(run))
            return 1;
        sched_yield();
    }
    out->slot[head % RING_SLOTS].len = len;
    __atomic_store_n(&out->head, head + 1, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (load(&out->asleep)) {
        uint64_t one = 1;

        if (write(side->bell, &one, sizeof(one)) < 0)
            return floor_failed(errno, "cannot ring the bell");
    }
    return 0;
}

static int post_message(struct floor_run *run, struct relay_side *side)
{
    uint64_t count = floor_datagrams(run->size);

    for (uint64_t i = 0; i < count; i++)
        if (app_post(run, side, floor_datagram_bytes(run->size, i)) != 0)
            return 1;
    return 0;
}

struct pinger {
    struct floor_run *run;
    struct relay_side *side;
};

static int wait_message(struct pinger *pinger)
{
    uint64_t count = floor_datagrams(pinger->run->size);

    for (uint64_t i = 0; i < count; i++) {
        if (!app_wait(pinger->run, &pinger->side->in))
            return 1;
        app_take(&pinger->side->in);
    }
    return 0;
}

static int round_trip(void *ctx)
{
    struct pinger *pinger = ctx;

    return post_message(pinger->run, pinger->side) != 0 || wait_message(pinger) != 0;
}

/* bw and rate: send datagrams. An acknowledgement comes after every ACK_EVERY datagrams. */
static int stream_out(struct pinger *pinger)
{
    struct floor_run *run = pinger->run;
    uint64_t sent = 0, posted = 0, acknowledged = 0, count = floor_datagrams(run->size);

    for (; floor_send_more(run, sent); sent++) {
        for (uint64_t i = 0; i < count; i++, posted++) {
            while (posted - acknowledged >= STREAM_WINDOW) {
                if (!app_wait(run, &pinger->side->in))
                    return 1;
                app_take(&pinger->side->in);
                acknowledged += ACK_EVERY;
            }
            if (app_post(run, pinger->side, floor_datagram_bytes(run->size, i)) != 0)
                return 1;
        }
    }
    floor_take_stream(run, sent);
    floor_set_phase(run, FLOOR_STOP);
    return 0;
}

static int app_client(struct floor_run *run)
{
    struct pinger pinger = {run, side_of(run, 0)};

    /* When both ports are published, datagrams can reach both relays. */
    if (!floor_wait_port(run, 0) || !floor_wait_port(run, 1))
        return floor_failed(0, "the relays did not meet");
    return run->opts->what == FLOOR_LAT ? floor_ping(run, round_trip, &pinger)
                                        : stream_out(&pinger);
}

static int app_server(struct floor_run *run)
{
    struct pinger pinger = {run, side_of(run, 1)};
    uint64_t total = 0, taken = 0;
    const struct slot *slot;

    if (run->opts->what == FLOOR_LAT) {
        while (wait_message(&pinger) == 0)
            if (post_message(run, pinger.side) != 0)
                break;
        return 0;
    }
    while ((slot = app_wait(run, &pinger.side->in)) != NULL) {
        total += slot->len;
        app_take(&pinger.side->in);
        if (run->opts->iters > 0)
            __atomic_store_n(&run->shared->rx_last_ns, floor_now_ns(), __ATOMIC_RELAXED);
        __atomic_store_n(&run->shared->rx_bytes, total, __ATOMIC_RELEASE);
        if (++taken % ACK_EVERY == 0 && app_post(run, pinger.side, 8) != 0)
            break;
    }
    return 0;
}

/* ---- relays ---------------------------------------------------------------------------- */

/* Send the application's datagrams. Returns their number; -1: failed, with a message. */
static int relay_out(struct ring *out, int sock)
{
    uint32_t tail = out->tail;
    int moved = 0;

    while (load(&out->head) != tail) {
        const struct slot *slot = &out->slot[tail % RING_SLOTS];

        if (send(sock, slot->bytes, slot->len, MSG_DONTWAIT) < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
                break;
            if (errno != ECONNREFUSED) {
                floor_failed(errno, "the relay cannot send");
                return -1;
            }
            /* The error is about an earlier datagram; the loop sends this datagram again. */
            continue;
        }
        __atomic_store_n(&out->tail, ++tail, __ATOMIC_RELEASE);
        moved++;
    }
    return moved;
}

/* Receive datagrams into the application's ring. Returns their number; -1 with a message. */
static int relay_in(struct ring *in, int sock)
{
    uint32_t head = in->head;
    int moved = 0;

    while (head - load(&in->tail) < RING_SLOTS) {
        struct slot *slot = &in->slot[head % RING_SLOTS];
        ssize_t n = recv(sock, slot->bytes, sizeof(slot->bytes), MSG_DONTWAIT);

        if (n < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED)
                break;
            floor_failed(errno, "the relay cannot receive");
            return -1;
        }
        slot->len = (uint32_t)n;
        __atomic_store_n(&in->head, ++head, __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (load(&in->asleep))
            syscall(SYS_futex, &in->head, FUTEX_WAKE, 1, NULL, NULL, 0);
        moved++;
    }
    return moved;
}

static void relay_sleep(struct relay_side *side, int sock)
{
    struct pollfd fds[2] = {{.fd = side->bell, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
    uint64_t rings;

    __atomic_store_n(&side->out.asleep, 1, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (load(&side->out.head) == side->out.tail)
        poll(fds, 2, FLOOR_CHECK_MS);
    __atomic_store_n(&side->out.asleep, 0, __ATOMIC_RELAXED);
    /* The read resets the eventfd and does not block; its result does not matter. */
    if (fds[0].revents && read(side->bell, &rings, sizeof(rings)) < 0)
        return;
}

static int relay(struct floor_run *run, unsigned which)
{
    struct relay_side *side = side_of(run, which);
    int sock = floor_udp_socket(run, which);

    if (sock < 0)
        return 1;
    while (floor_goes_on(run)) {
        int sent = relay_out(&side->out, sock);
        int got = relay_in(&side->in, sock);

        if (sent < 0 || got < 0)
            return 1;
        if (sent > 0 || got > 0)
            continue;
        if (run->opts->poll)
            sched_yield();
        else
            relay_sleep(side, sock);
    }
    return 0;
}

static int relay_client(struct floor_run *run)
{
    return relay(run, 0);
}

static int relay_server(struct floor_run *run)
{
    return relay(run, 1);
}

int floor_relay(struct floor_run *run)
{
    static const struct floor_member members[] = {
        {relay_client, 0}, {relay_server, 1}, {app_server, 1}, {app_client, 0}};
    size_t bytes = 2 * sizeof(struct relay_side);
    int rc = 1;

    run->relay = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run->relay == MAP_FAILED)
        return floor_failed(errno, "no shared memory");
    side_of(run, 0)->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    side_of(run, 1)->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (side_of(run, 0)->bell < 0 || side_of(run, 1)->bell < 0)
        floor_failed(errno, "no eventfd");
    else
        rc = floor_execute(run, members, 4);
    for (unsigned i = 0; i < 2; i++)
        if (side_of(run, i)->bell >= 0)
            close(side_of(run, i)->bell);
    munmap(run->relay, bytes);
    run->relay = NULL;
    return rc;
}
