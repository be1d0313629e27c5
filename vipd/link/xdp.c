/* Frames that bypass the network stack: sockets, shared buffers, rings (vipd/link/xdp.h). */
#include "vipd/link/xdp.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/link/xdp_prog.h"

/* Bytes of a buffer: the kernel's headroom, then one frame. A page is the largest size. */
#define CHUNK_BYTES 4096u

/* Bytes of a buffer for the kernel: XDP_PACKET_HEADROOM before a frame, records after the frame. */
#define CHUNK_SPARE 640u
#define MTU_MAX     (CHUNK_BYTES - CHUNK_SPARE)

/* Buffers for receiving and for sending, together 8 MiB, which users may lock by default. */
#define RX_CHUNKS XDP_RX_BUFFERS
#define TX_CHUNKS 512u
#define CHUNKS    (RX_CHUNKS + TX_CHUNKS)

/* Entries of each ring: a power of two with room for every buffer. */
#define ENTRIES 2048u

/* Largest number of frames without a packet that one call of xdp_recv takes from one queue. */
#define BAD_MAX 64u

_Static_assert(RX_CHUNKS <= ENTRIES && TX_CHUNKS <= ENTRIES, "rings");

/* A ring in the kernel's layout. An index only grows; its entry is at index % ENTRIES. */
struct ring {
    uint32_t *producer, *consumer, *flags;
    void *entries; /* in rx and tx: struct xdp_desc; in fill and completion: uint64_t */
    void *map;
    size_t map_bytes;
    uint32_t own; /* our own index; publish() shows it to the kernel */
};

/* One receive queue of the card. The socket of the first queue owns the buffers and sends all
 * packets. */
struct queue {
    int sock;
    struct ring fill, completion, rx, tx;
    uint32_t out; /* number of receiving buffers of this queue that the NIC has */
};

struct xdp {
    struct xdp_prog prog;
    uint8_t *area; /* CHUNKS buffers: those for receiving, then those for sending */
    struct queue queue[XDP_QUEUES_MAX];
    unsigned queues;
    unsigned first;       /* queue with which the next xdp_recv begins */
    bool zero_copy;       /* the driver uses the buffers without copies */
    uint32_t packet_max;  /* largest packet that the MTU ever allowed since the link was opened */
    struct xdp_pool pool; /* distribution of the receiving buffers, by number */
    uint32_t tx_free[TX_CHUNKS]; /* numbers of the free sending buffers */
    uint32_t tx_free_count;
    bool held[RX_CHUNKS]; /* receiving buffers given to the NIC */
    struct link_addr from[RX_CHUNKS];
};

/* Returns the queue that has this receiving buffer, or had it last. */
static struct queue *queue_of(struct xdp *xdp, uint32_t chunk)
{
    return &xdp->queue[xdp->pool.queue[chunk]];
}

static uint32_t load(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void publish(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* Put a receiving buffer into the queue's fill ring, which has an entry for each buffer. */
static void put(struct queue *queue, uint32_t chunk)
{
    ((uint64_t *)queue->fill.entries)[queue->fill.own++ % ENTRIES] = (uint64_t)chunk * CHUNK_BYTES;
}

/* Give up to `count` more buffers to a queue. */
static void lend(struct xdp *xdp, unsigned n, uint32_t count)
{
    struct queue *queue = &xdp->queue[n];
    uint32_t chunk;

    while (count-- > 0 && xdp_pool_take(&xdp->pool, n, &chunk))
        put(queue, chunk);
    publish(queue->fill.producer, queue->fill.own);
}

/* ---- making ------------------------------------------------------------------------------ */

static int say(char why[LINK_WHY_BYTES], const char *what)
{
    int err = errno;

    snprintf(why, LINK_WHY_BYTES, "%s: %s", what, strerror(err));
    return -err;
}

static int map_ring(int sock, struct ring *ring, const struct xdp_ring_offset *at, size_t entry,
                    off_t where)
{
    uint8_t *base;

    ring->map_bytes = at->desc + ENTRIES * entry;
    base =
        mmap(NULL, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, sock, where);
    if (base == MAP_FAILED)
        return -1;
    ring->map = base;
    ring->producer = (uint32_t *)(void *)(base + at->producer);
    ring->consumer = (uint32_t *)(void *)(base + at->consumer);
    ring->flags = (uint32_t *)(void *)(base + at->flags);
    ring->entries = base + at->desc;
    return 0;
}

static int set_rings(int sock)
{
    static const int names[] = {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING,
                                XDP_TX_RING};
    int entries = ENTRIES;

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (setsockopt(sock, SOL_XDP, names[i], &entries, sizeof(entries)) < 0)
            return -1;
    return 0;
}

static int map_rings(struct queue *queue)
{
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof(at);
    int sock = queue->sock;

    if (getsockopt(sock, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len) < 0 || len != sizeof(at))
        return -1;
    if (map_ring(sock, &queue->fill, &at.fr, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING) < 0 ||
        map_ring(sock, &queue->completion, &at.cr, sizeof(uint64_t),
                 (off_t)XDP_UMEM_PGOFF_COMPLETION_RING) < 0 ||
        map_ring(sock, &queue->rx, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING) < 0 ||
        map_ring(sock, &queue->tx, &at.tx, sizeof(struct xdp_desc), (off_t)XDP_PGOFF_TX_RING) < 0)
        return -1;
    return 0;
}

/* Make the buffers and register them with the first socket. Outcomes: 0; negative errno with the
 * reason in why. */
static int make_buffers(struct xdp *xdp, char why[LINK_WHY_BYTES])
{
    struct xdp_umem_reg reg = {.len = (uint64_t)CHUNKS * CHUNK_BYTES, .chunk_size = CHUNK_BYTES};

    xdp->area = mmap(NULL, reg.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (xdp->area == MAP_FAILED) {
        xdp->area = NULL;
        return say(why, "no memory for its buffers");
    }
    reg.addr = (uintptr_t)xdp->area;
    if (setsockopt(xdp->queue[0].sock, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) < 0)
        return say(why, "its buffers, 8 MiB of locked memory, are refused");
    for (uint32_t i = 0; i < TX_CHUNKS; i++)
        xdp->tx_free[i] = CHUNKS - 1 - i;
    xdp->tx_free_count = TX_CHUNKS;
    return 0;
}

/* Make the socket and the rings of a queue; lend it its first buffers. Outcomes as make_buffers. */
static int make_queue(struct xdp *xdp, unsigned n, char why[LINK_WHY_BYTES])
{
    struct queue *queue = &xdp->queue[n];
    int r;

    queue->sock = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (queue->sock < 0)
        return say(why, "no XDP socket");
    if (n == 0) {
        r = make_buffers(xdp, why);
        if (r < 0)
            return r;
    }
    if (set_rings(queue->sock) < 0 || map_rings(queue) < 0)
        return say(why, "no rings");
    lend(xdp, n, xdp_pool_first(&xdp->pool));
    return 0;
}

static int bind_queue(struct xdp *xdp, unsigned n, const struct ether_if *interface,
                      char why[LINK_WHY_BYTES])
{
    struct sockaddr_xdp addr = {.sxdp_family = AF_XDP,
                                .sxdp_ifindex = (uint32_t)interface->index,
                                .sxdp_queue_id = n,
                                .sxdp_flags = XDP_USE_NEED_WAKEUP};

    /* Other queues share the buffers and the mode of the first queue. */
    if (n > 0) {
        addr.sxdp_flags = XDP_SHARED_UMEM;
        addr.sxdp_shared_umem_fd = (uint32_t)xdp->queue[0].sock;
    }
    if (bind(xdp->queue[n].sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return say(why, "cannot be bound");
    return xdp_prog_add(&xdp->prog, n, xdp->queue[n].sock, why);
}

/* Returns how many receive queues get a socket; 1 if the card does not report its queues. */
static unsigned count_queues(const struct ether *ether)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
    struct ifreq request = {.ifr_data = (void *)&channels};
    uint32_t count;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", ether->interface);
    if (ioctl(ether->sock, SIOCETHTOOL, &request) < 0)
        return 1;
    count = channels.rx_count + channels.combined_count;
    if (count > XDP_QUEUES_MAX)
        link_say("ether %s: %u receive queues; only the first %u of them with xdp",
                 ether->interface, (unsigned)count, XDP_QUEUES_MAX);
    return count == 0 ? 1 : count > XDP_QUEUES_MAX ? XDP_QUEUES_MAX : count;
}

/* Does the driver use our buffers? If not, the kernel copies the frames. */
static bool asks_no_copies(const struct xdp *xdp)
{
    struct xdp_options options = {0};
    socklen_t len = sizeof(options);

    return getsockopt(xdp->queue[0].sock, SOL_XDP, XDP_OPTIONS, &options, &len) == 0 &&
           options.flags & XDP_OPTIONS_ZEROCOPY;
}

/* Make everything that xdp_close removes. Outcomes as make_buffers. */
static int make(struct xdp *xdp, const struct ether_want *want, const struct ether_if *interface,
                char why[LINK_WHY_BYTES])
{
    int r = xdp_prog_load(&xdp->prog, want, why);

    for (unsigned n = 0; r == 0 && n < xdp->queues; n++)
        r = make_queue(xdp, n, why);
    if (r == 0)
        r = xdp_prog_attach(&xdp->prog, (unsigned)interface->index, why);
    for (unsigned n = 0; r == 0 && n < xdp->queues; n++)
        r = bind_queue(xdp, n, interface, why);
    xdp->zero_copy = r == 0 && asks_no_copies(xdp);
    return r;
}

int xdp_open(const struct ether *ether, const struct ether_if *interface, struct xdp **ret,
             char why[LINK_WHY_BYTES])
{
    struct ether_want want = ether->want;
    struct xdp *xdp;
    int r;

    if (interface->mtu > MTU_MAX) {
        snprintf(why, LINK_WHY_BYTES, "an MTU of %u is too large; at most %u",
                 (unsigned)interface->mtu, MTU_MAX);
        return -EINVAL;
    }
    xdp = calloc(1, sizeof(*xdp));
    if (!xdp) {
        snprintf(why, LINK_WHY_BYTES, "out of memory");
        return -ENOMEM;
    }
    xdp->prog = XDP_PROG_NONE;
    xdp->queues = count_queues(ether);
    xdp_pool_init(&xdp->pool, xdp->queues);
    xdp_resize(xdp, ether, interface->mtu);
    for (unsigned n = 0; n < XDP_QUEUES_MAX; n++)
        xdp->queue[n].sock = -1;
    memcpy(want.mac, interface->mac, sizeof(want.mac));
    r = make(xdp, &want, interface, why);
    if (r < 0) {
        xdp_close(xdp);
        return r;
    }
    *ret = xdp;
    return 0;
}

static void unmap(struct ring *ring)
{
    if (ring->map)
        munmap(ring->map, ring->map_bytes);
}

void xdp_close(struct xdp *xdp)
{
    if (!xdp)
        return;
    VIP_ASSERT(xdp_out(xdp) == 0);
    xdp_prog_close(&xdp->prog);
    /* Close the first queue, which owns the buffers, last. */
    for (unsigned n = xdp->queues; n-- > 0;) {
        struct queue *queue = &xdp->queue[n];

        unmap(&queue->fill);
        unmap(&queue->completion);
        unmap(&queue->rx);
        unmap(&queue->tx);
        if (queue->sock >= 0)
            close(queue->sock);
    }
    if (xdp->area)
        munmap(xdp->area, (size_t)CHUNKS * CHUNK_BYTES);
    free(xdp);
}

unsigned xdp_fds(const struct xdp *xdp, int ret[XDP_QUEUES_MAX])
{
    for (unsigned n = 0; n < xdp->queues; n++)
        ret[n] = xdp->queue[n].sock;
    return xdp->queues;
}

bool xdp_resize(struct xdp *xdp, const struct ether *ether, uint32_t mtu)
{
    uint32_t packet_max = ether->mtu_max && mtu > ether->mtu_max ? ether->mtu_max : mtu;

    if (mtu > MTU_MAX)
        return false;
    packet_max = packet_max > ETHER_HEAD_BYTES ? packet_max - ETHER_HEAD_BYTES : 0;
    /* packet_max never becomes smaller: packets from before a smaller MTU may still arrive. */
    if (packet_max > xdp->packet_max)
        xdp->packet_max = packet_max;
    return true;
}

/* Use three quarters of the buffers that a queue can have; the rest is for acknowledgements. */
uint32_t xdp_window_packets(const struct xdp *xdp)
{
    return xdp_pool_most(&xdp->pool) * 3 / 4;
}

uint64_t xdp_losses(const struct xdp *xdp)
{
    uint64_t losses = 0;

    for (unsigned n = 0; n < xdp->queues; n++) {
        struct xdp_statistics of = {0};
        socklen_t len = sizeof(of);

        if (getsockopt(xdp->queue[n].sock, SOL_XDP, XDP_STATISTICS, &of, &len) == 0)
            losses += of.rx_dropped + of.rx_ring_full;
    }
    return losses;
}

const char *xdp_mode(const struct xdp *xdp)
{
    if (xdp->prog.native)
        return xdp->zero_copy ? "native without copies" : "native with copies";
    return "generic with copies";
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Give a buffer back to its queue's fill ring, or to the free buffers. */
static void give_back(struct xdp *xdp, uint32_t chunk)
{
    struct queue *queue = queue_of(xdp, chunk);

    if (!xdp_pool_keep(&xdp->pool, chunk))
        return;
    put(queue, chunk);
    publish(queue->fill.producer, queue->fill.own);
}

/* Take one frame. true: the frame has a packet, which is in *ret. false: it has no packet. Then it
 * is counted, and its buffer is given back. */
static bool take(struct xdp *xdp, struct ether *ether, const struct xdp_desc *desc,
                 struct link_rx *ret)
{
    uint32_t chunk = (uint32_t)(desc->addr / CHUNK_BYTES);
    struct ether_frame frame = {.bytes = xdp->area + desc->addr, .len = desc->len};
    struct ether_content content;
    enum ether_verdict verdict = ether_frame_get(&ether->want, &frame, &content);
    struct queue *queue;

    VIP_ASSERT(chunk < RX_CHUNKS && !xdp->held[chunk]);
    queue = queue_of(xdp, chunk);
    if (verdict != ETHER_OK || content.len > xdp->packet_max) {
        /* A message among hosts counts as a bad header: it must come by the packet socket. */
        if (verdict == ETHER_OK)
            ether->stats.rx_truncated++;
        else
            ether_frame_count(&ether->stats, verdict == ETHER_PEER ? ETHER_HEADER : verdict);
        give_back(xdp, chunk);
        return false;
    }
    xdp->from[chunk].len = ETHER_MAC_BYTES;
    memcpy(xdp->from[chunk].bytes, frame.bytes + ETHER_MAC_BYTES, ETHER_MAC_BYTES);
    xdp->held[chunk] = true;
    queue->out++;
    *ret = (struct link_rx){.from = &xdp->from[chunk],
                            .bytes = content.bytes,
                            .len = content.len,
                            .buffer = xdp->area + (size_t)chunk * CHUNK_BYTES,
                            /* The NIC may keep packets in half of the queue's buffers. */
                            .scarce = queue->out > xdp->pool.lent[xdp->pool.queue[chunk]] / 2};
    ether->stats.rx_packets++;
    ether->stats.rx_bytes += content.len;
    ether->stats.xdp_rx++;
    return true;
}

static unsigned recv_queue(struct xdp *xdp, unsigned which, struct ether *ether,
                           struct link_rx *packets, unsigned count)
{
    struct queue *queue = &xdp->queue[which];
    const struct xdp_desc *entries = queue->rx.entries;
    uint32_t filled = load(queue->rx.producer);
    unsigned n = 0, bad = 0;

    while (n < count && bad < BAD_MAX && queue->rx.own != filled) {
        struct xdp_desc desc = entries[queue->rx.own % ENTRIES];

        queue->rx.own++;
        if (take(xdp, ether, &desc, &packets[n]))
            n++;
        else
            bad++;
    }
    /* If buffers are free, a busy queue gets twice as many buffers as it has just filled. */
    if (n + bad > 0) {
        publish(queue->rx.consumer, queue->rx.own);
        lend(xdp, which, 2 * (n + bad));
    } else if (load(queue->fill.flags) & XDP_RING_NEED_WAKEUP) {
        recv(queue->sock, NULL, 0, MSG_DONTWAIT);
    }
    return n;
}

unsigned xdp_recv(struct xdp *xdp, struct ether *ether, struct link_rx *packets, unsigned count)
{
    unsigned n = 0;

    for (unsigned i = 0; i < xdp->queues && n < count; i++)
        n += recv_queue(xdp, (xdp->first + i) % xdp->queues, ether, packets + n, count - n);
    /* Each call begins with the next queue, so that a busy queue does not delay the others. */
    xdp->first = (xdp->first + 1) % xdp->queues;
    return n;
}

bool xdp_owns(const struct xdp *xdp, const void *buffer)
{
    const uint8_t *at = buffer;

    return at >= xdp->area && at < xdp->area + (size_t)RX_CHUNKS * CHUNK_BYTES;
}

void xdp_release(struct xdp *xdp, void *buffer)
{
    uint32_t chunk = (uint32_t)((size_t)((uint8_t *)buffer - xdp->area) / CHUNK_BYTES);
    struct queue *queue = queue_of(xdp, chunk);

    VIP_ASSERT(chunk < RX_CHUNKS && xdp->held[chunk] && queue->out > 0);
    xdp->held[chunk] = false;
    queue->out--;
    give_back(xdp, chunk);
}

uint32_t xdp_out(const struct xdp *xdp)
{
    uint32_t out = 0;

    for (unsigned n = 0; n < xdp->queues; n++)
        out += xdp->queue[n].out;
    return out;
}

/* ---- sending ------------------------------------------------------------------------------- */

/* Take back the buffers of frames that the kernel has sent. */
static void reclaim(struct xdp *xdp)
{
    struct ring *completion = &xdp->queue[0].completion;
    const uint64_t *entries = completion->entries;
    uint32_t filled = load(completion->producer);

    if (completion->own == filled)
        return;
    while (completion->own != filled) {
        uint64_t addr = entries[completion->own++ % ENTRIES];

        VIP_ASSERT(xdp->tx_free_count < TX_CHUNKS && addr / CHUNK_BYTES >= RX_CHUNKS);
        xdp->tx_free[xdp->tx_free_count++] = (uint32_t)(addr / CHUNK_BYTES);
    }
    publish(completion->consumer, completion->own);
}

bool xdp_send(struct xdp *xdp, struct ether *ether, const struct link_tx *packet)
{
    struct ring *tx = &xdp->queue[0].tx;
    struct xdp_desc *entries = tx->entries;
    uint32_t chunk, len;
    uint8_t *frame;

    /* If the MTU grew while the NIC had buffers, a packet may be too large for a buffer. */
    if (packet->bytes > xdp->packet_max)
        return false;
    if (xdp->tx_free_count == 0)
        reclaim(xdp);
    if (xdp->tx_free_count == 0)
        return false;
    chunk = xdp->tx_free[--xdp->tx_free_count];
    frame = xdp->area + (size_t)chunk * CHUNK_BYTES;
    len = ether_frame_put(frame, &ether->want, packet->to->bytes, ETHER_KIND, packet->bytes);
    for (unsigned i = 0; i < packet->iov_count; i++) {
        VIP_ASSERT(packet->iov[i].iov_len <= CHUNK_BYTES - len);
        if (packet->iov[i].iov_len > 0)
            memcpy(frame + len, packet->iov[i].iov_base, packet->iov[i].iov_len);
        len += (uint32_t)packet->iov[i].iov_len;
    }
    entries[tx->own % ENTRIES] =
        (struct xdp_desc){.addr = (uint64_t)chunk * CHUNK_BYTES, .len = len};
    publish(tx->producer, ++tx->own);
    ether->stats.tx_packets++;
    ether->stats.tx_bytes += packet->bytes;
    ether->stats.xdp_tx++;
    return true;
}

bool xdp_kick(struct xdp *xdp, struct ether *ether)
{
    const struct ring *tx = &xdp->queue[0].tx;

    if (load(tx->consumer) != tx->own) {
        ether->stats.tx_syscalls++;
        /* An error means that the device is full or down. The caller calls xdp_kick again later. */
        if (sendto(xdp->queue[0].sock, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0) {
            ether->stats.tx_again++;
            if (errno == ENETDOWN || errno == ENXIO)
                ether->look = true;
        }
    }
    reclaim(xdp);
    return load(tx->consumer) != tx->own;
}
