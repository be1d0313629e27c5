/*
 * Hostile use of the control socket and of a session's objects: random bytes, unexpected
 * descriptors, sessions that are only half open, guessed handles, an unending stream of doorbells,
 * completions that are not taken, addresses that wrap.
 *
 * vipd may end such a session. vipd itself must not end, and no guess may succeed. control_fuzz.sh
 * checks vipd's state afterwards. usage: control_fuzz ROUNDS GUESSES SEED
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "hostile/raw.h"
#include "proto/status.h"

#define HALF_OPEN    400
#define STORM        200000
#define REGION_BYTES 65536

/* A guess is an RDMA Write with a guessed handle. REACH: its bytes. GUESSES_OPEN: most guesses
 * posted at once. GUESS_PARTS: parts of the test; each begins with writes with the right handle. */
#define REACH        64u
#define GUESSES_OPEN 512u
#define GUESS_PARTS  4u
#define BYTE_KEPT    0x5au /* content of the memory that must not change */
#define BYTE_SENT    0xeeu

static uint64_t seed, guesses;
static char path[108];

static uint64_t any(void)
{
    return raw_random(&seed);
}

static void fail(const char *what)
{
    fprintf(stderr, "control_fuzz: %s\n", what);
    exit(1);
}

/* ---- messages and descriptors ------------------------------------------------------------ */

/* A file descriptor of a kind that vipd does not expect. sock: the connection to vipd. */
static int strange_fd(int sock)
{
    int pair[2];

    switch (any() % 9) {
    case 0:
        return dup(sock);
    case 1:
        return open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    case 2:
        return open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    case 3:
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 4:
        if (pipe(pair) < 0)
            return -1;
        close(pair[1]);
        return pair[0];
    case 5:
        return raw_memfd(VIP_APP_BYTES, false); /* not sealed */
    case 6:
        return raw_memfd(any() % 8192, true);
    case 7:
        return epoll_create1(EPOLL_CLOEXEC);
    default:
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    }
}

static void send_raw(int sock, const uint8_t *bytes, size_t len, const int *fds, unsigned count)
{
    union {
        char bytes[CMSG_SPACE(253 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count) {
        struct cmsghdr *head;

        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
        head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    (void)sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A well-formed message of any type; the caller may flip some bits of it. */
static size_t some_message(uint8_t *out)
{
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__PingRequest ping = VIP__PING_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    open.has_abi = mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    mem.address = raw_odd_number(&seed);
    mem.bytes = raw_odd_number(&seed);
    mem.offset = raw_odd_number(&seed);
    mem.kind = (Vip__MemKind)(1 + any() % 4);
    show.has_what = show.has_cursor = true;
    show.what = (Vip__ShowRequest__What)(1 + any() % 16);
    show.cursor = raw_odd_number(&seed);
    ping.peer = (char *)"127.0.0.1";
    ping.has_number = any() % 2;
    ping.number = raw_odd_number(&seed);
    switch (any() % 4) {
    case 0:
        request.body_case = VIP__REQUEST__BODY_OPEN;
        request.open = &open;
        break;
    case 1:
        request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
        request.register_mem = &mem;
        break;
    case 2:
        request.body_case = VIP__REQUEST__BODY_PING;
        request.ping = &ping;
        break;
    default:
        request.body_case = VIP__REQUEST__BODY_SHOW;
        request.show = &show;
        break;
    }
    return vip__request__pack(&request, out);
}

static void one_connection(void)
{
    static uint8_t bytes[70000];
    int sock = vip_control_connect(path), fds[253];

    if (sock < 0)
        return;
    for (unsigned n = 0; n < 4; n++) {
        size_t len = any() % 4 ? some_message(bytes) : any() % (any() % 8 ? 200 : sizeof(bytes));
        unsigned count = any() % 3 ? (unsigned)(any() % 4) : (unsigned)(any() % 254), got = 0;

        for (unsigned i = any() % 3; len && i; i--)
            bytes[any() % len] ^= (uint8_t)(1u << any() % 8);
        while (got < count && (fds[got] = strange_fd(sock)) >= 0)
            got++;
        send_raw(sock, bytes, len, fds, got);
        while (got)
            close(fds[--got]);
    }
    close(sock);
}

static void half_open(void)
{
    static int socks[HALF_OPEN];

    for (unsigned i = 0; i < HALF_OPEN; i++)
        socks[i] = vip_control_connect(path);
    for (unsigned i = 0; i < HALF_OPEN; i++)
        if (socks[i] >= 0)
            close(socks[i]);
    usleep(100000);
}

/* ---- sessions ---------------------------------------------------------------------------- */

struct two {
    struct raw a, b;
    int va, vb;
};

static void two_open(struct two *t, unsigned level)
{
    for (unsigned try = 0; raw_open(&t->a) < 0; try++) {
        if (try == 50)
            fail("no session: vipd does not answer any more");
        usleep(20000);
    }
    if (raw_open(&t->b) < 0)
        fail("no second session");
    t->va = raw_vi(&t->a, level, -1);
    t->vb = raw_vi(&t->b, level, -1);
    if (t->va < 0 || t->vb < 0 || raw_connect(&t->a, t->va, &t->b, t->vb) < 0 ||
        raw_region(&t->a, 0, VIP__MEM_KIND__MEM_SHARED, REGION_BYTES) < 0 ||
        raw_region(&t->b, 0, VIP__MEM_KIND__MEM_SHARED, REGION_BYTES) < 0 ||
        raw_region(&t->b, 1, VIP__MEM_KIND__MEM_STAGED, REGION_BYTES) < 0)
        fail("a session cannot be set up");
}

static void two_close(struct two *t)
{
    raw_close(&t->a);
    raw_close(&t->b);
}

/* Session a posts an RDMA Write of REACH bytes to an address of session b. */
static void write_to(struct two *t, uint64_t addr, uint32_t handle)
{
    struct vip_shm_seg segs[2] = {
        {.addr = addr, .handle = handle},
        {.addr = t->a.region[0].addr, .handle = t->a.region[0].handle, .len = REACH}};

    raw_post(&t->a, t->va, VIP_SQ_SEND, VIP_CTL_OP_RDMAWRITE, segs, 2);
}

/* A handle that an attacker would try: an early generation of an early slot, or a generation or
 * slot near the handle of session b or of the attacker's session a. */
static uint32_t likely(const struct two *t)
{
    uint32_t known = any() % 2 ? t->b.region[0].handle : t->a.region[0].handle;

    switch (any() % 4) {
    case 0:
        return (1 + (uint32_t)any() % 4) << 16 | (uint32_t)any() % 16;
    case 1:
        return known + ((1 + (uint32_t)any() % 8) << 16);
    case 2:
        return known - ((1 + (uint32_t)any() % 8) << 16);
    default:
        return (known & 0xffff0000u) | (uint32_t)any() % 64;
    }
}

/* Write with a wrong handle (random or likely). Or write with the right handle, where the written
 * range is partly outside of the region or wraps around. */
static void guess(struct two *t)
{
    const struct raw_region *right = &t->b.region[0];
    uint64_t addr = right->addr + any() % (REGION_BYTES - REACH);
    uint32_t handle;

    if (any() % 4 == 0) {
        handle = right->handle;
        addr = any() % 2 ? right->addr + REGION_BYTES - any() % REACH : ~0ull - any() % (2 * REACH);
    } else {
        do
            handle = any() % 2 ? likely(t) : (uint32_t)any();
        while (handle == right->handle || handle == t->b.region[1].handle);
    }
    write_to(t, addr, handle);
}

/* Read the new completions of session a; add their number to *done. */
static void reap(struct two *t, uint64_t *done)
{
    struct vip_comp comp;

    raw_ring(&t->a);
    while (raw_reap(&t->a, t->va, VIP_Q_SEND, &comp))
        (*done)++;
}

static bool holds(const struct two *t, uint8_t value, uint32_t bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        if (t->b.region[0].at[i] != value)
            return false;
    return true;
}

/* A check of the test itself: with the right handle the same write reaches the peer's memory. The
 * level is unreliable, so a write may be lost. But at least one of 1000 writes must arrive. */
static void right_handle(struct two *t)
{
    for (unsigned try = 0; !holds(t, BYTE_SENT, REACH); try++) {
        uint64_t done = 0;

        if (try == 1000 || raw_ended(&t->a))
            fail("a write with the right handle does not arrive: the guesses prove nothing");
        if (raw_room(&t->a, 1))
            write_to(t, t->b.region[0].addr, t->b.region[0].handle);
        for (unsigned wait = 0; !done && wait < 1000; wait++) {
            reap(t, &done);
            usleep(100);
        }
    }
    /* All writes have completed, so no late copy can change the memory after this line. */
    memset(t->b.region[0].at, BYTE_KEPT, REACH);
}

static void guess_some(struct two *t, uint64_t count)
{
    uint64_t done = 0, posted = 0;

    while (done < count) {
        while (posted < count && posted - done < GUESSES_OPEN && raw_room(&t->a, 1)) {
            guess(t);
            posted++;
        }
        reap(t, &done);
        if (raw_ended(&t->a))
            fail("the session that guesses was ended");
    }
}

/* Writes with guessed handles must not change the peer's memory; the right handle must work. */
static void guess_handles(void)
{
    struct two t;

    two_open(&t, VIP_LVL_UNRELIABLE);
    memset(t.b.region[0].at, BYTE_KEPT, REGION_BYTES);
    memset(t.a.region[0].at, BYTE_SENT, REGION_BYTES);
    for (unsigned part = 0; part < GUESS_PARTS; part++) {
        right_handle(&t);
        guess_some(&t, guesses / GUESS_PARTS);
        usleep(50000);
        if (!holds(&t, BYTE_KEPT, REGION_BYTES))
            fail("a guessed handle wrote to memory");
    }
    right_handle(&t);
    two_close(&t);
}

/* Read no completions and no events, post to a full queue, punch holes into shared memory. */
static void never_reap(void)
{
    struct two t;

    two_open(&t, VIP_LVL_DELIVERY);
    for (unsigned i = 0; i < 20000; i++) {
        struct vip_shm_seg seg = {
            .addr = t.b.region[0].addr, .handle = t.b.region[0].handle, .len = 8};

        if (!raw_room(&t.b, 1) || raw_ended(&t.b))
            break;
        raw_post(&t.b, t.vb, VIP_SQ_RECV, VIP_CTL_OP_SENDRECV, &seg, 1);
        raw_ring(&t.b);
        if (i % 1000 == 0)
            (void)fallocate(t.b.region[any() % 2].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                            REGION_BYTES);
    }
    (void)fallocate(t.b.arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    (off_t)VIP_ARENA_BYTES);
    two_close(&t);
}

static void storm(void)
{
    uint64_t one = 1;
    struct two t;

    two_open(&t, VIP_LVL_DELIVERY);
    for (unsigned i = 0; i < STORM; i++)
        (void)!write(t.a.doorbell, &one, sizeof(one));
    one = ~0ull - 1;
    (void)fcntl(t.a.doorbell, F_SETFL, O_RDWR | O_NONBLOCK);
    (void)!write(t.a.doorbell, &one, sizeof(one));
    two_close(&t);
}

int main(int argc, char **argv)
{
    unsigned rounds;

    if (argc != 4 || vip_control_socket_path(path, sizeof(path)) < 0) {
        fprintf(stderr, "usage: control_fuzz ROUNDS GUESSES SEED\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    rounds = (unsigned)strtoul(argv[1], NULL, 0);
    guesses = strtoull(argv[2], NULL, 0);
    seed = strtoull(argv[3], NULL, 0);
    for (unsigned i = 0; i < rounds; i++)
        one_connection();
    half_open();
    storm();
    never_reap();
    guess_handles();
    printf(
        "control_fuzz: %u connections of garbage, %u half open, %llu guesses, none hit; %u writes "
        "with the right handle between them, each arrived\n",
        rounds, HALF_OPEN, (unsigned long long)guesses, GUESS_PARTS + 1);
    return 0;
}
