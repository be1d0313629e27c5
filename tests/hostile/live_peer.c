/*
 * Two programs, a hostile one and a victim, with a connection between them. Both use libvipl.
 * scribble, kill: with a direct ring between them (proto/direct.h). The hostile program finds the
 * ring among its mappings. It writes random values into the ring, or is killed, while the victim
 * sends and receives.
 * lent: between two hosts. The connection is on loan to the hostile program. This program writes
 * random values into its memory for loans (proto/loan.h), and sends random packets by the socket of
 * its loan.
 * The victim's descriptors must come back in the order in which it posted them, with a status of
 * the specification. When the connection has ended, all its descriptors must come back in time. Its
 * memory outside of regions and between buffers must not change. The victim itself must not end.
 *
 * Run by tests/lib/two_vipd.sh with [engine] direct = yes, or with VIP_LOANS=eager.
 * usage: live_peer scribble|kill|lent ROUNDS SEED
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#include "proto/direct.h"
#include "proto/loan.h"
#include "proto/wire.h"

#define RECVS       32
#define SENDS       16
#define WINDOW      12   /* an end sends at most WINDOW messages more than it has received */
#define ROOM        4096 /* bytes of a receive buffer, and of the longest message */
#define FENCE       64   /* bytes between two buffers; these bytes must not change */
#define STRIDE      (ROOM + FENCE)
#define OUTSIDE     32768 /* bytes before, and bytes after, the registered memory */
#define DESC_BYTES  128
#define BUFFERS     ((RECVS + SENDS) * DESC_BYTES)
#define REGION      ((BUFFERS + (RECVS + SENDS) * STRIDE + 4095) & ~4095)
#define WARM_UP     300
#define PLAY_NS     250000000ull  /* length of the attack in mode scribble */
#define LIMIT_NS    5000000000ull /* longest wait for the ring or for descriptors */
#define TOLD_NS     2000000000ull /* limit for the victim to learn of the peer's death */
#define ROUND_LIMIT 30            /* seconds after which a process that hangs is ended */
#define PATTERN     0xA5

/* Memory that the processes of a round share. */
struct shared {
    uint64_t killed_ns; /* atomic; 0 while the peer is not killed */
    uint32_t warm;      /* atomic; 1 when the victim has exchanged WARM_UP messages */
    uint32_t ring_seen; /* rounds in which messages went through a ring, or by a loan */
    uint32_t lost;      /* rounds in which the victim lost its connection */
    uint64_t messages;  /* messages that the victims have received */
};

static struct shared *shared;
static const char *mode;
static bool lent; /* the mode is lent */

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, " (%s)\n", #condition);                                                \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define OK(call)                                                                                   \
    do {                                                                                           \
        VIP_RETURN ok_rc = (call);                                                                 \
        CHECK(ok_rc == VIP_SUCCESS, "%s: %d: %s", #call, (int)ok_rc, VipxLastError());             \
    } while (0)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static uint64_t rnd(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 20;
}

/* ---- one end ------------------------------------------------------------------------------ */

struct peer {
    uint64_t random;
    bool friendly; /* the other end breaks no rule, so contents must be correct */
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq; /* NULL = none */
    bool blocking;    /* may wait instead of polling */
    VIP_MEM_HANDLE handle;
    uint8_t *memory, *region;
    unsigned posted[2], done[2];
    unsigned sent, received; /* messages without an error */
    bool lost;               /* atomic; an error callback has reported the loss */
    bool failed;             /* a descriptor has come back with an error */
    uint64_t told_ns;        /* time at which lost or failed was first true */
};

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct peer *peer = context;

    if (error->ErrorCode == VIP_ERROR_CONN_LOST)
        __atomic_store_n(&peer->lost, true, __ATOMIC_RELEASE);
}

static VIP_DESCRIPTOR *desc_of(const struct peer *peer, bool recv, unsigned i)
{
    unsigned slot = recv ? i % RECVS : RECVS + i % SENDS;

    return (VIP_DESCRIPTOR *)(void *)(peer->region + slot * DESC_BYTES);
}

static uint8_t *buffer_of(const struct peer *peer, bool recv, unsigned i)
{
    unsigned slot = recv ? i % RECVS : RECVS + i % SENDS;

    return peer->region + BUFFERS + slot * STRIDE;
}

static uint8_t byte_of(unsigned message, size_t at)
{
    return (uint8_t)(message * 31 + at * 7);
}

static void post(struct peer *peer, bool recv)
{
    unsigned i = peer->posted[recv]++;
    VIP_DESCRIPTOR *desc = desc_of(peer, recv, i);
    size_t bytes = recv                     ? ROOM
                   : rnd(&peer->random) % 3 ? rnd(&peer->random) % 64
                                            : rnd(&peer->random) % (ROOM + 1);

    memset((void *)desc, 0, DESC_BYTES);
    desc->CS.SegCount = 1;
    desc->CS.Length = (VIP_ULONG)bytes;
    desc->DS[0].Local.Data.Address = buffer_of(peer, recv, i);
    desc->DS[0].Local.Handle = peer->handle;
    desc->DS[0].Local.Length = (VIP_ULONG)bytes;
    if (recv) {
        OK(VipPostRecv(peer->vi, desc, peer->handle));
        return;
    }
    for (size_t at = 0; at < bytes; at++)
        buffer_of(peer, false, i)[at] = byte_of(i, at);
    desc->CS.Control = VIP_CONTROL_IMMEDIATE;
    desc->CS.ImmediateData = i;
    OK(VipPostSend(peer->vi, desc, peer->handle));
}

static void open_end(struct peer *peer, uint64_t seed)
{
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 65536, NULL, NULL, VIP_FALSE, VIP_FALSE};

    memset(peer, 0, sizeof(*peer));
    peer->random = 0x9E3779B97F4A7C15ull * (seed + 1);
    peer->memory = mmap(NULL, REGION + 2 * OUTSIDE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(peer->memory != MAP_FAILED, "no memory");
    memset(peer->memory, PATTERN, REGION + 2 * OUTSIDE);
    peer->region = peer->memory + OUTSIDE;
    /* Both ends of a round must choose the same level. */
    if (seed / 2 % 4 == 3)
        attrs.ReliabilityLevel = lent ? VIP_SERVICE_RELIABLE_RECEPTION : VIP_SERVICE_UNRELIABLE;
    OK(VipOpenNic("vip0", &peer->nic));
    OK(VipErrorCallback(peer->nic, peer, on_error));
    OK(VipNSInit(peer->nic, NULL));
    OK(VipRegisterMem(peer->nic, peer->region, REGION, &mem, &peer->handle));
    if (seed / 2 % 3 == 1)
        OK(VipCreateCQ(peer->nic, 4 * RECVS, &peer->cq));
    peer->blocking = seed / 2 % 5 >= 3;
    OK(VipCreateVi(peer->nic, &attrs, peer->cq, peer->cq, &peer->vi));
    for (unsigned i = 0; i < RECVS; i++)
        post(peer, true);
}

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

/* In mode lent, the victim is on host A, and the hostile program on host B. `victims`: the address
 * of the victim's host. */
static void address(const struct peer *peer, union address *ret, unsigned disc, bool victims)
{
    const char *name = lent && !victims ? "VIP_ADDRESS_B" : "VIP_ADDRESS_A";

    memset(ret, 0, sizeof(*ret));
    OK(VipNSGetHostByName(peer->nic, (VIP_CHAR *)getenv(name), &ret->net, 0));
    ret->net.DiscriminatorLen = sizeof(disc);
    memcpy(ret->bytes + 4 + ret->net.HostAddressLen, &disc, sizeof(disc));
}

static void serve(const struct peer *peer, unsigned disc, bool is_victim)
{
    union address local, from;
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request;

    address(peer, &local, disc, is_victim);
    OK(VipConnectWait(peer->nic, &local.net, 10000, &from.net, &attrs, &request));
    OK(VipConnectAccept(request, peer->vi));
}

static void ask(const struct peer *peer, unsigned disc, bool is_victim)
{
    uint64_t end_ns = now_ns() + LIMIT_NS;
    union address local, to;
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN rc;

    do {
        address(peer, &local, disc, is_victim);
        address(peer, &to, disc, !is_victim);
        rc = VipConnectRequest(peer->vi, &local.net, &to.net, 10000, &attrs);
        if (rc == VIP_NO_MATCH)
            usleep(1000);
    } while (rc == VIP_NO_MATCH && now_ns() < end_ns);
    CHECK(rc == VIP_SUCCESS, "VipConnectRequest: %d: %s", (int)rc, VipxLastError());
}

/* Find shared memory of this name among this process's mappings; NULL if there is none. */
static void *find_shared(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    void *found = NULL;
    char line[512];
    unsigned long from;

    CHECK(maps, "/proc/self/maps");
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, name) && strstr(line, "rw-s") && sscanf(line, "%lx-", &from) == 1)
            found = (void *)from;
    fclose(maps);
    return found;
}

static struct vip_direct *find_ring(void)
{
    return find_shared("memfd:via-ring");
}

/* A hole in the ring would stop the peer. If this process can make a file immutable, vipd can, too:
 * then a try to punch a hole must fail. */
static void check_no_holes(struct vip_direct *ring)
{
    int fd = memfd_create("probe", MFD_CLOEXEC), flags = FS_IMMUTABLE_FL;

    CHECK(fd >= 0, "memfd_create");
    if (ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0)
        CHECK(madvise(ring, sizeof(*ring), MADV_REMOVE) < 0 && errno == EPERM,
              "the ring takes a hole");
    close(fd);
}

/* ---- descriptors that come back ------------------------------------------------------------ */

static void told(struct peer *peer)
{
    if (!peer->told_ns)
        peer->told_ns = now_ns();
}

static void check_fence(const struct peer *peer, bool recv, unsigned i)
{
    const uint8_t *fence = buffer_of(peer, recv, i) + ROOM;

    for (unsigned at = 0; at < FENCE; at++)
        CHECK(fence[at] == PATTERN, "byte %u behind a buffer was written", at);
}

static void check_message(const struct peer *peer, const VIP_DESCRIPTOR *desc, unsigned i)
{
    const uint8_t *bytes = buffer_of(peer, true, i);

    CHECK(desc->CS.Status & VIP_STATUS_IMMEDIATE, "message %u has lost its immediate data",
          peer->received);
    CHECK(desc->CS.ImmediateData == peer->received, "message %u came as number %u",
          desc->CS.ImmediateData, peer->received);
    for (size_t at = 0; at < desc->CS.Length; at++)
        CHECK(bytes[at] == byte_of(peer->received, at), "message %u: byte %zu", peer->received, at);
}

/* Check a descriptor that has come back. */
static void taken(struct peer *peer, bool recv, const VIP_DESCRIPTOR *desc)
{
    const uint32_t known =
        VIP_STATUS_DONE | VIP_STATUS_ERROR_MASK | VIP_STATUS_OP_MASK | VIP_STATUS_IMMEDIATE;
    unsigned i = peer->done[recv]++;
    uint32_t status = desc->CS.Status;

    CHECK(desc == desc_of(peer, recv, i), "%s %u is not the next", recv ? "receive" : "send", i);
    CHECK((status & VIP_STATUS_DONE) && !(status & ~known), "status 0x%x", status);
    check_fence(peer, recv, i);
    if (status & VIP_STATUS_ERROR_MASK) {
        peer->failed = true;
        told(peer);
    } else if (recv) {
        CHECK(desc->CS.Length <= ROOM, "length %u", desc->CS.Length);
        if (peer->friendly)
            check_message(peer, desc, i);
        peer->received++;
    } else {
        peer->sent++;
    }
}

/* Look once at a queue, or at the CQ. True if a descriptor came back. `wait`: wait up to 20 ms. */
static bool look(struct peer *peer, bool recv, bool wait)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_VI_HANDLE vi = NULL;
    VIP_BOOLEAN is_recv;
    VIP_RETURN rc;
    bool by_cq = peer->cq != NULL;

    if (by_cq) {
        rc = wait ? VipCQWait(peer->cq, 20, &vi, &is_recv) : VipCQDone(peer->cq, &vi, &is_recv);
        if (rc == VIP_NOT_DONE || rc == VIP_TIMEOUT)
            return false;
        CHECK(rc == VIP_SUCCESS && vi == peer->vi, "CQ: %d: %s", (int)rc, VipxLastError());
        recv = is_recv;
        wait = false;
    }
    if (recv)
        rc = wait ? VipRecvWait(peer->vi, 20, &desc) : VipRecvDone(peer->vi, &desc);
    else
        rc = wait ? VipSendWait(peer->vi, 20, &desc) : VipSendDone(peer->vi, &desc);
    if (desc == NULL) {
        /* If the peer lies about its messages, a CQ may have an entry without a descriptor. */
        CHECK((!by_cq && (rc == VIP_NOT_DONE || rc == VIP_TIMEOUT)) ||
                  (rc == VIP_DESCRIPTOR_ERROR && peer->posted[recv] == peer->done[recv] &&
                   !(by_cq && peer->friendly)),
              "%s: %d, %u of %u back", recv ? "receive" : "send", (int)rc, peer->done[recv],
              peer->posted[recv]);
        return false;
    }
    CHECK(rc == VIP_SUCCESS || rc == VIP_DESCRIPTOR_ERROR, "%d: %s", (int)rc, VipxLastError());
    taken(peer, recv, desc);
    return true;
}

static bool over(struct peer *peer)
{
    if (__atomic_load_n(&peer->lost, __ATOMIC_ACQUIRE))
        told(peer);
    return peer->told_ns != 0;
}

/* True if the other end has a receive for one more message. Except in mode kill, it is sometimes
 * also true if the other end has none. */
static bool may_send(struct peer *peer)
{
    return peer->posted[0] < peer->received + WINDOW ||
           (strcmp(mode, "kill") != 0 && peer->received > WARM_UP && rnd(&peer->random) % 256 == 0);
}

/* Send and receive, until the time is up or the connection has ended. */
static void play(struct peer *peer, uint64_t end_ns, unsigned messages)
{
    unsigned until = peer->received + messages;

    while (!over(peer) && now_ns() < end_ns && peer->received < until) {
        bool wait = peer->blocking && rnd(&peer->random) % 4 == 0;

        if (peer->posted[0] - peer->done[0] < SENDS && may_send(peer))
            post(peer, false);
        if (!look(peer, true, wait) && rnd(&peer->random) % 8 == 0)
            sched_yield();
        (void)look(peer, false, false);
        while (!over(peer) && peer->posted[1] - peer->done[1] < RECVS)
            post(peer, true);
    }
}

/* The connection has ended: every posted descriptor must come back. */
static void drain(struct peer *peer)
{
    uint64_t end_ns = now_ns() + LIMIT_NS;

    while (peer->done[0] != peer->posted[0] || peer->done[1] != peer->posted[1]) {
        CHECK(now_ns() < end_ns, "%u of %u receives, %u of %u sends have not come back",
              peer->posted[1] - peer->done[1], peer->posted[1], peer->posted[0] - peer->done[0],
              peer->posted[0]);
        for (unsigned recv = 0; recv < 2; recv++)
            if (peer->cq != NULL || peer->done[recv] != peer->posted[recv])
                (void)look(peer, recv, peer->blocking);
    }
}

static void check_outside(const struct peer *peer)
{
    for (unsigned i = 0; i < OUTSIDE; i++) {
        CHECK(peer->memory[i] == PATTERN, "byte %u before the region was written", i);
        CHECK(peer->region[REGION + i] == PATTERN, "byte %u behind the region was written", i);
    }
}

/* Wait for the ring: vipd makes the ring after the two programs have begun to exchange messages. */
static const struct vip_direct *await_ring(struct peer *peer)
{
    uint64_t end_ns = now_ns() + LIMIT_NS;
    const struct vip_direct *ring;

    while ((ring = find_ring()) == NULL && !over(peer) && now_ns() < end_ns)
        play(peer, now_ns() + 1000000, 8);
    CHECK(ring != NULL, "no ring between the two: %u messages, %s", peer->received,
          over(peer) ? "the connection is lost" : "connected");
    return ring;
}

/* ---- the victim ------------------------------------------------------------------------------ */

static int victim(uint64_t seed, unsigned disc)
{
    bool killing = strcmp(mode, "kill") == 0;
    const struct vip_direct *ring;
    struct peer peer;
    uint64_t killed_ns;

    alarm(ROUND_LIMIT);
    open_end(&peer, seed);
    peer.friendly = killing && seed / 2 % 4 != 3;
    seed % 2 ? serve(&peer, disc, true) : ask(&peer, disc, true);
    play(&peer, now_ns() + LIMIT_NS, WARM_UP);
    if (!lent) {
        ring = await_ring(&peer);
        if (vip_load64(&ring->way[0].sent) && vip_load64(&ring->way[1].sent))
            shared->ring_seen++;
    }
    __atomic_add_fetch(&shared->warm, 1, __ATOMIC_RELEASE);
    play(&peer, now_ns() + (killing ? 2 * LIMIT_NS : PLAY_NS), ~0u >> 1);
    killed_ns = __atomic_load_n(&shared->killed_ns, __ATOMIC_ACQUIRE);
    if (killing)
        CHECK(peer.told_ns != 0 && killed_ns != 0 && peer.told_ns < killed_ns + TOLD_NS,
              "the death of the peer was told %lld us after it",
              (long long)(peer.told_ns - killed_ns) / 1000);
    if (over(&peer))
        shared->lost++;
    else
        (void)VipDisconnect(peer.vi); /* fails if the connection is lost at this moment */
    drain(&peer);
    check_outside(&peer);
    shared->messages += peer.received;
    OK(VipCloseNic(peer.nic));
    return 0;
}

/* ---- the hostile program --------------------------------------------------------------------- */

/* A value that may do harm: near `now`, a small number, or any number. */
static uint32_t odd(uint64_t *random, uint32_t now)
{
    switch (rnd(random) % 4) {
    case 0:
        return now + (uint32_t)(rnd(random) % 5) - 2;
    case 1:
        return (uint32_t)(rnd(random) % 5000);
    case 2:
        return 0;
    default:
        return (uint32_t)rnd(random);
    }
}

static void scribble_once(struct vip_direct *ring, unsigned kind, uint64_t *random)
{
    struct vip_direct_way *way = &ring->way[rnd(random) % 2];
    uint32_t near = (uint32_t)way->sent + (uint32_t)(rnd(random) % 8) - 4;
    struct vip_direct_slot *slot = &way->slot[near & VIP_DIRECT_MASK];
    uint32_t *word = (uint32_t *)(void *)ring;

    switch (kind) {
    case 0: /* indices */
        way->sent = odd(random, (uint32_t)way->sent);
        way->taken = odd(random, way->taken);
        way->asleep = (uint32_t)(rnd(random) % 2);
        break;
    case 1: /* numbers and lengths of lent receives */
        way->lend[near & VIP_DIRECT_MASK] = (uint64_t)(near + 1) << 32 | odd(random, ROOM);
        break;
    case 2: /* lengths, flags and lines of messages */
        slot->len = (uint16_t)odd(random, slot->len);
        slot->flags = (uint8_t)odd(random, slot->flags);
        slot->line = odd(random, slot->line);
        break;
    case 3: /* stamps, so that messages appear and vanish */
        __atomic_store_n(&slot->stamp, rnd(random) % 2 ? near + 1 : odd(random, slot->stamp),
                         __ATOMIC_RELEASE);
        break;
    case 4: /* anything */
        word += rnd(random) % (sizeof(*ring) / 4);
        *word = odd(random, *word);
        break;
    default: /* one of the kinds above, at random */
        scribble_once(ring, (unsigned)(rnd(random) % 5), random);
        break;
    }
}

static void lent_scribble_once(struct vip_loan_part *part, unsigned kind, uint64_t *random)
{
    uint32_t near = part->posted + (uint32_t)(rnd(random) % 8) - 4;
    struct vip_sq_slot *slot = &part->slot[near & (VIP_DESC_PER_QUEUE_MAX - 1)];
    uint32_t *word = (uint32_t *)(void *)&part->owner;

    switch (kind) {
    case 0: /* one of the words of the owner */
        word += rnd(random) % (sizeof(part->owner) / 4);
        *word = odd(random, *word);
        break;
    case 1: /* always inside, or never */
        part->owner.inside = rnd(random) % 2 ? part->owner.number : 0;
        break;
    case 2: /* always alive */
        part->owner.beat++;
        part->owner.timer_ns = 0;
        part->owner.asleep = (uint32_t)(rnd(random) % 2);
        break;
    case 3: /* the table of sends */
        word = (uint32_t *)(void *)slot + rnd(random) % (sizeof(*slot) / 4);
        *word = odd(random, *word);
        part->posted = rnd(random) % 16 ? part->posted : odd(random, part->posted);
        break;
    case 4: /* the checkpoint: one more, or one less */
        word = (uint32_t *)(void *)&part->owner.checkpoint + rnd(random) % 3;
        *word += (uint32_t)(rnd(random) % 3) - 1;
        break;
    default: /* one of the kinds above, at random */
        lent_scribble_once(part, (unsigned)(rnd(random) % 5), random);
        break;
    }
}

/* A UDP socket of this process; -1: there is none. */
static int lent_socket(void)
{
    for (int fd = 3; fd < 256; fd++) {
        int type = 0, domain = 0;
        socklen_t len = sizeof(type);

        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_DGRAM &&
            getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET)
            return fd;
    }
    return -1;
}

/* Take a packet that has come, change some bytes, and send it back with or without a good checksum;
 * keep the socket, and use it when the loan is over, too. */
static void lent_send_once(uint64_t *random)
{
    static int kept = -1;
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    struct iovec iov = {.iov_base = bytes};
    ssize_t len;

    if (kept < 0 || rnd(random) % 1000 == 0) {
        int sock = lent_socket();

        if (sock < 0)
            return;
        if (kept >= 0)
            close(kept);
        kept = dup(sock);
    }
    len = recv(kept, bytes, sizeof(bytes), MSG_DONTWAIT | (rnd(random) % 8 ? MSG_PEEK : 0));
    if (len < 64)
        return;
    for (unsigned i = 0; i < rnd(random) % 4; i++)
        bytes[rnd(random) % (size_t)len] = (uint8_t)rnd(random);
    iov.iov_len = (size_t)len;
    if (rnd(random) % 4)
        vip_wire_seal(&iov, 1);
    (void)send(kept, bytes, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

struct scribbler {
    struct vip_direct *ring;    /* NULL: none */
    struct vip_loan_part *part; /* NULL: none */
    uint64_t random;
    unsigned kind;
};

static void *scribble(void *arg)
{
    struct scribbler *scribbler = arg;

    for (;;) {
        for (unsigned i = 0; i < 50; i++) {
            if (scribbler->ring != NULL)
                scribble_once(scribbler->ring, scribbler->kind, &scribbler->random);
            else if (scribbler->kind == 0 || rnd(&scribbler->random) % 4)
                lent_scribble_once(scribbler->part, scribbler->kind, &scribbler->random);
            else
                lent_send_once(&scribbler->random);
        }
        if (rnd(&scribbler->random) % 2)
            usleep((unsigned)(rnd(&scribbler->random) % 300));
        else
            sched_yield();
    }
    return NULL;
}

/* Wait for a loan. Returns the session's first part; NULL: there was no loan in time. */
static struct vip_loan_part *await_lent(struct peer *peer)
{
    uint64_t end_ns = now_ns() + LIMIT_NS;
    struct vip_loan_part *part = NULL;

    while (!over(peer) && now_ns() < end_ns) {
        part = find_shared("memfd:vipl-loans");
        if (part != NULL && part->owner.number != 0) {
            shared->ring_seen++;
            return part;
        }
        play(peer, now_ns() + 1000000, 8);
    }
    return NULL;
}

/* The hostile program. Its own libvipl uses the damaged ring, too, so it may fail in any way. */
static _Noreturn void other(uint64_t seed, unsigned disc)
{
    struct scribbler scribbler = {.random = seed + 77, .kind = seed / 2 % 6};
    struct peer peer;
    pthread_t thread;

    alarm(ROUND_LIMIT);
    if (lent)
        setenv("VIPD_RUNTIME_DIR", getenv("VIPD_RUNTIME_DIR_B"), 1);
    open_end(&peer, seed);
    seed % 2 ? ask(&peer, disc, false) : serve(&peer, disc, false);
    play(&peer, now_ns() + LIMIT_NS, WARM_UP);
    while (!__atomic_load_n(&shared->warm, __ATOMIC_ACQUIRE))
        play(&peer, now_ns() + 1000000, 8);
    scribbler.ring = lent ? NULL : find_ring();
    scribbler.part = lent ? await_lent(&peer) : NULL;
    if (scribbler.ring != NULL)
        check_no_holes(scribbler.ring);
    if (strcmp(mode, "kill") != 0 && (scribbler.ring != NULL || scribbler.part != NULL))
        pthread_create(&thread, NULL, scribble, &scribbler);
    play(&peer, now_ns() + 20 * LIMIT_NS, ~0u >> 1);
    for (;;)
        pause();
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Run one round. Returns 0 if the victim has passed, otherwise 1. */
static int run_round(uint64_t seed, unsigned disc)
{
    uint64_t random = seed + 12345, started;
    pid_t watched, peer;
    int status;

    shared->killed_ns = 0;
    shared->warm = 0;
    fflush(NULL);
    watched = fork();
    CHECK(watched >= 0, "fork");
    if (watched == 0)
        _exit(victim(seed, disc));
    peer = fork();
    CHECK(peer >= 0, "fork");
    if (peer == 0) {
        CHECK(freopen("/dev/null", "w", stderr), "/dev/null");
        other(seed, disc);
    }
    if (strcmp(mode, "kill") == 0) {
        started = now_ns();
        while (!__atomic_load_n(&shared->warm, __ATOMIC_ACQUIRE) && now_ns() - started < LIMIT_NS)
            usleep(1000);
        usleep((unsigned)(rnd(&random) % 30000));
        __atomic_store_n(&shared->killed_ns, now_ns(), __ATOMIC_RELEASE);
        kill(peer, SIGKILL);
    }
    CHECK(waitpid(watched, &status, 0) == watched, "waitpid");
    kill(peer, SIGKILL);
    CHECK(waitpid(peer, NULL, 0) == peer, "waitpid");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFSIGNALED(status))
        fprintf(stderr, "seed %llu: ended by signal %d%s\n", (unsigned long long)seed,
                WTERMSIG(status), WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    else
        fprintf(stderr, "seed %llu: exit status %d\n", (unsigned long long)seed,
                WEXITSTATUS(status));
    return 1;
}

int main(int argc, char **argv)
{
    unsigned rounds, bad = 0;
    uint64_t seed;

    if (argc != 4) {
        fprintf(stderr, "usage: live_peer scribble|kill|lent ROUNDS SEED\n");
        return 2;
    }
    mode = argv[1];
    lent = strcmp(mode, "lent") == 0;
    rounds = (unsigned)atoi(argv[2]);
    seed = strtoull(argv[3], NULL, 0);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no memory");
    for (unsigned i = 0; i < rounds && bad < 5; i++)
        bad += (unsigned)run_round(seed + i, 5000 + i);
    printf("%s: %u rounds from seed %llu, %u bad; %u by a ring or loan, %u lost before their time, "
           "%llu "
           "messages\n",
           mode, rounds, (unsigned long long)seed, bad, shared->ring_seen, shared->lost,
           (unsigned long long)shared->messages);
    /* A program that waits at a CQ gives its loans back, so fewer rounds have loans. */
    if (shared->ring_seen < rounds / (lent ? 4 : 2)) {
        fprintf(stderr, "too few rounds have used a ring or loan\n");
        bad++;
    }
    return bad ? 1 : 0;
}
