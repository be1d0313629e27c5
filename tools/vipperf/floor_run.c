/*
 * Runs the processes of a floor measurement: forks, enters namespaces, watches and reaps; counts
 * and sets phases (tools/vipperf/floor_inside.h).
 *
 * Owns: child processes and shared memory of a run. No child outlives floor_execute: it kills all
 * children when one fails, when there is no progress, and on SIGINT, SIGTERM and SIGHUP. If the
 * parent is killed, the kernel kills the children.
 */
#include "tools/vipperf/floor_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/vipperf/pace.h"

/* Seconds without progress after which a run has failed. */
#define STALL_S 3

/* Size of a socket buffer to request, in bytes; without privileges, the system may allow less. */
#define BUFFER_BYTES (4 << 20)

/* If nothing has arrived when the duration is over, the run goes on for at most this many ns. */
#define FIRST_NS 10000000000ull

/*
 * The warm-up is not measured. In a stream it takes 1/WARM_UP_PART of the duration. In lat it takes
 * one tenth of the pings, but at most WARM_UP_PINGS_MAX.
 */
#define WARM_UP_PART      10
#define WARM_UP_PINGS_MAX 1000

int floor_failed(int err, const char *format, ...)
{
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "vipperf: floor: %s%s%s\n", text, err ? ": " : "", err ? strerror(err) : "");
    return 1;
}

/* ---- processes ------------------------------------------------------------------------- */

/* Enter the network namespace of /run/netns/NAME. Outcomes: 0; 1 with an error message. */
static int enter_netns(const char *name)
{
    char path[128];
    int fd, rc;

    if ((size_t)snprintf(path, sizeof(path), "/run/netns/%s", name) >= sizeof(path))
        return floor_failed(ENAMETOOLONG, "network namespace %s", name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return floor_failed(errno, "cannot open %s", path);
    rc = setns(fd, CLONE_NEWNET) < 0 ? floor_failed(errno, "cannot enter %s", path) : 0;
    close(fd);
    return rc;
}

_Noreturn static void child(struct floor_run *run, const struct floor_member *member,
                            const sigset_t *old_mask, pid_t parent)
{
    const char *netns = run->opts->netns[member->side];
    int rc;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_SETMASK, old_mask, NULL);
    signal(SIGPIPE, SIG_IGN);
    /* End this process if its parent ended before prctl: the kernel then sends no signal. */
    if (getppid() != parent)
        _exit(1);
    rc = netns ? enter_netns(netns) : 0;
    if (rc == 0)
        rc = member->role(run);
    if (rc == 0)
        floor_finish(run);
    _exit(rc);
}

/* Reap ended children. Returns the number of running children; sets *failed if a child failed. */
static unsigned reap(pid_t *pids, unsigned count, bool *failed)
{
    unsigned left = 0;

    for (unsigned i = 0; i < count; i++) {
        int status;

        if (pids[i] <= 0)
            continue;
        if (waitpid(pids[i], &status, WNOHANG) != pids[i]) {
            left++;
            continue;
        }
        pids[i] = 0;
        if (WIFSIGNALED(status))
            floor_failed(0, "a process ended by signal %d (%s)", WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
        if (status != 0)
            *failed = true;
    }
    return left;
}

static void kill_all(pid_t *pids, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (pids[i] > 0)
            kill(pids[i], SIGKILL);
    for (unsigned i = 0; i < count; i++)
        if (pids[i] > 0)
            while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
                continue;
}

/* Wait until all children end. Outcomes: 0; 1: failure, stall or signal; all are killed. */
static int watch(struct floor_run *run, pid_t *pids, unsigned count, const sigset_t *signals)
{
    uint64_t progress = 0, moved_ns = floor_now_ns();
    bool failed = false;

    while (reap(pids, count, &failed) > 0 && !failed) {
        struct timespec tick = {.tv_nsec = FLOOR_CHECK_MS * 1000000L};
        int sig = sigtimedwait(signals, NULL, &tick);
        uint64_t now = __atomic_load_n(&run->shared->progress, __ATOMIC_RELAXED);

        if (sig > 0 && sig != SIGCHLD) {
            failed = true;
            floor_failed(0, "stopped by signal %d (%s)", sig, strsignal(sig));
            break;
        }
        if (now != progress) {
            progress = now;
            moved_ns = floor_now_ns();
        } else if (floor_now_ns() - moved_ns > STALL_S * 1000000000ull) {
            failed = true;
            floor_failed(0, "nothing has moved for %d s%s", STALL_S,
                         run->opts->kind == FLOOR_TCP
                             ? ""
                             : "; a datagram was lost (is net.core.rmem_max smaller than this "
                               "message size needs?)");
        }
    }
    if (failed)
        kill_all(pids, count);
    return failed;
}

int floor_execute(struct floor_run *run, const struct floor_member *members, unsigned count)
{
    pid_t pids[FLOOR_ROLES_MAX] = {0}, self = getpid();
    sigset_t signals, old_mask;
    int rc = 0;

    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &old_mask);
    fflush(NULL);
    for (unsigned i = 0; i < count && rc == 0; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            child(run, &members[i], &old_mask, self);
        if (pids[i] < 0)
            rc = floor_failed(errno, "cannot fork");
    }
    if (rc == 0)
        rc = watch(run, pids, count, &signals);
    else
        kill_all(pids, count);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
    return rc;
}

/* ---- phases and counting --------------------------------------------------------------- */

uint64_t floor_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

enum floor_phase floor_phase(const struct floor_run *run)
{
    return (enum floor_phase)__atomic_load_n(&run->shared->phase, __ATOMIC_ACQUIRE);
}

void floor_set_phase(struct floor_run *run, enum floor_phase phase)
{
    __atomic_store_n(&run->shared->phase, (uint32_t)phase, __ATOMIC_RELEASE);
}

bool floor_goes_on(struct floor_run *run)
{
    enum floor_phase phase = floor_phase(run);

    if (phase != FLOOR_WARM_UP && !run->cpu_started) {
        run->cpu_started = true;
        run->cpu_from = cpu_ns();
    }
    return phase != FLOOR_STOP;
}

void floor_finish(struct floor_run *run)
{
    if (run->cpu_started)
        __atomic_fetch_add(&run->shared->cpu_ns, cpu_ns() - run->cpu_from, __ATOMIC_RELAXED);
}

/* State of the client's stream. A process has at most one client. */
static struct {
    uint64_t warm_ns, end_ns; /* start and end of measuring */
    uint64_t warm_bytes;      /* bytes that the server had received at warm_ns */
    uint64_t warm_back_bytes; /* bytes that the client had received at warm_ns (both ways) */
} stream;

bool floor_send_more(struct floor_run *run, uint64_t sent)
{
    const struct floor_opts *opts = run->opts;
    uint64_t now, total_ns = (uint64_t)(opts->duration_s * 1e9);

    if (sent == 0) {
        stream.warm_ns = floor_now_ns() + (opts->iters ? 0 : total_ns / WARM_UP_PART);
    }
    if (opts->iters && sent >= opts->iters)
        return false;
    __atomic_store_n(&run->shared->progress, sent + 1, __ATOMIC_RELAXED);
    /* Read the clock only at every 16th small message: a read for each message costs too much. */
    if (run->size < 4096 && sent % 16 != 0)
        return true;
    now = floor_now_ns();
    if (floor_phase(run) == FLOOR_WARM_UP && now >= stream.warm_ns) {
        stream.warm_ns = now;
        stream.warm_bytes = __atomic_load_n(&run->shared->rx_bytes, __ATOMIC_RELAXED);
        stream.warm_back_bytes = run->shared->back_bytes;
        floor_set_phase(run, FLOOR_MEASURE);
        floor_goes_on(run);
    }
    /* The duration counts from the real start of measuring: late on a busy processor. */
    if (opts->iters || floor_phase(run) == FLOOR_WARM_UP || now - stream.warm_ns < total_ns)
        return true;
    /* On a busy machine the receiver may not have run yet. There would be no rate, so go on. */
    if (now - stream.warm_ns < total_ns + FIRST_NS &&
        __atomic_load_n(&run->shared->rx_bytes, __ATOMIC_RELAXED) == stream.warm_bytes)
        return true;
    stream.end_ns = now;
    return false;
}

void floor_take_stream(struct floor_run *run, uint64_t sent)
{
    struct floor_shared *shared = run->shared;
    uint64_t end_ns = stream.end_ns, bytes, deadline_ns;
    uint64_t back_bytes = shared->back_bytes - stream.warm_back_bytes;

    bytes = __atomic_load_n(&shared->rx_bytes, __ATOMIC_RELAXED) - stream.warm_bytes;
    if (run->opts->iters) {
        /* Wait for all bytes, but at most 200 ms for the next byte: datagrams may be lost. */
        deadline_ns = floor_now_ns() + 200000000ull;
        while (bytes < sent * run->size && floor_now_ns() < deadline_ns) {
            uint64_t now;

            usleep(200);
            now = __atomic_load_n(&shared->rx_bytes, __ATOMIC_RELAXED) - stream.warm_bytes;
            if (now != bytes)
                deadline_ns = floor_now_ns() + 200000000ull;
            bytes = now;
        }
        end_ns = __atomic_load_n(&shared->rx_last_ns, __ATOMIC_RELAXED);
    }
    if (run->size > 0) {
        shared->messages_back = back_bytes / run->size;
        shared->messages = bytes / run->size + shared->messages_back;
    }
    shared->bytes = bytes + back_bytes;
    shared->elapsed_ns = end_ns > stream.warm_ns ? end_ns - stream.warm_ns : 0;
}

int floor_ping(struct floor_run *run, int (*round_trip)(void *ctx), void *ctx)
{
    const struct floor_opts *opts = run->opts;
    struct floor_shared *shared = run->shared;
    uint64_t want = opts->iters ? opts->iters : FLOOR_SAMPLES_MAX;
    uint64_t warm = want / 10 < WARM_UP_PINGS_MAX ? want / 10 : WARM_UP_PINGS_MAX;
    uint64_t start, from, to, limit_ns = (uint64_t)(opts->duration_s * 1e9);
    struct pace pace = {.every_ms = opts->every_ms};

    for (uint64_t i = 0; i < warm; i++) {
        if (round_trip(ctx) != 0)
            return 1;
        __atomic_store_n(&shared->progress, i + 1, __ATOMIC_RELAXED);
    }
    floor_set_phase(run, FLOOR_MEASURE);
    floor_goes_on(run);
    start = from = floor_now_ns();
    while (shared->sample_count < want && (limit_ns == 0 || from - start < limit_ns)) {
        if (opts->every_ms > 0) {
            pace_wait(&pace);
            from = floor_now_ns();
        }
        if (round_trip(ctx) != 0)
            return 1;
        to = floor_now_ns();
        shared->samples[shared->sample_count++] = (to - from) / 2;
        from = to;
        __atomic_store_n(&shared->progress, warm + shared->sample_count, __ATOMIC_RELAXED);
    }
    shared->elapsed_ns = from - start;
    shared->messages = shared->sample_count;
    shared->bytes = shared->sample_count * run->size;
    floor_set_phase(run, FLOOR_STOP);
    return 0;
}

/* ---- sockets --------------------------------------------------------------------------- */

uint64_t floor_datagrams(uint64_t size)
{
    return size == 0 ? 1 : (size + FLOOR_DATAGRAM_BYTES_MAX - 1) / FLOOR_DATAGRAM_BYTES_MAX;
}

uint32_t floor_datagram_bytes(uint64_t size, uint64_t i)
{
    uint64_t left = size - i * FLOOR_DATAGRAM_BYTES_MAX;

    return left < FLOOR_DATAGRAM_BYTES_MAX ? (uint32_t)left : FLOOR_DATAGRAM_BYTES_MAX;
}

uint16_t floor_wait_port(struct floor_run *run, unsigned side)
{
    uint32_t port;

    for (unsigned ms = 0; ms < STALL_S * 1000; ms++) {
        port = __atomic_load_n(&run->shared->port[side], __ATOMIC_ACQUIRE);
        if (port != 0)
            return (uint16_t)port;
        usleep(1000);
    }
    return 0;
}

static void large_buffers(int sock)
{
    int bytes = BUFFER_BYTES;

    if (setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) < 0)
        setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    if (setsockopt(sock, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
        setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

int floor_udp_socket(struct floor_run *run, unsigned side)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = run->opts->address[side]};
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr = run->opts->address[!side]};
    struct timeval wait = {.tv_usec = FLOOR_CHECK_MS * 1000};
    socklen_t len = sizeof(own);
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (sock < 0 || bind(sock, (const struct sockaddr *)&own, sizeof(own)) < 0 ||
        getsockname(sock, (struct sockaddr *)&own, &len) < 0) {
        floor_failed(errno, "cannot open a UDP socket on side %u", side);
        return -1;
    }
    large_buffers(sock);
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    __atomic_store_n(&run->shared->port[side], ntohs(own.sin_port), __ATOMIC_RELEASE);
    peer.sin_port = htons(floor_wait_port(run, !side));
    if (peer.sin_port == 0 || connect(sock, (const struct sockaddr *)&peer, sizeof(peer)) < 0) {
        floor_failed(errno, "the sides did not meet");
        return -1;
    }
    return sock;
}
