/* The fast way of frames past the network stack: socket, shared buffers, rings (vipd/link/xdp.h). */
#include "vipd/link/xdp.h"

#include <errno.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/assert.h"
#include "vipd/link/xdp_prog.h"

/* A buffer holds one frame behind the kernel's headroom; a page is the largest there is. */
#define CHUNK_BYTES 4096u

/* Room in front of a frame for the kernel (XDP_PACKET_HEADROOM), and behind it for its own records. */
#define CHUNK_SPARE 640u

/* Buffers for receiving and for sending. Together 8 MiB, which is what users may lock by default. */
#define RX_CHUNKS 1536u
#define TX_CHUNKS 512u
#define CHUNKS    (RX_CHUNKS + TX_CHUNKS)

/* Entries of each ring: a power of two with room for every buffer. */
#define ENTRIES 2048u

/* Of the receiving buffers, how many may be kept before each is said to be scarce. */
#define KEPT_MAX (RX_CHUNKS / 2)

/* Frames that are not ours after all, of one call. */
#define BAD_MAX 64u

_Static_assert(XDP_WINDOW_PACKETS <= RX_CHUNKS * 3 / 4, "window");
_Static_assert(RX_CHUNKS <= ENTRIES && TX_CHUNKS <= ENTRIES, "rings");

/* A ring as the kernel lays it out. Indices run on and are masked when used. */
struct ring {
    uint32_t *producer, *consumer, *flags;
    void *entries; /* struct xdp_desc of rx and tx, uint64_t of fill and completion */
    void *map;
    size_t map_bytes;
    uint32_t own; /* our end of it; the kernel only reads what is published */
};

struct xdp {
    int sock;
    struct xdp_prog prog;
    uint8_t *area; /* CHUNKS buffers: receiving, then sending */
    struct ring fill, completion, rx, tx;
    uint32_t tx_free[TX_CHUNKS]; /* numbers of sending buffers */
    uint32_t tx_free_count;
    uint32_t out;         /* receiving buffers given to the NIC */
    bool held[RX_CHUNKS]; /* which */
    struct link_addr from[RX_CHUNKS];
};

static uint32_t load(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static void publish(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
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

static int map_rings(struct xdp *xdp)
{
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof(at);

    if (getsockopt(xdp->sock, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len) < 0 || len != sizeof(at))
        return -1;
    if (map_ring(xdp->sock, &xdp->fill, &at.fr, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING) < 0 ||
        map_ring(xdp->sock, &xdp->completion, &at.cr, sizeof(uint64_t),
                 (off_t)XDP_UMEM_PGOFF_COMPLETION_RING) < 0 ||
        map_ring(xdp->sock, &xdp->rx, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING) < 0 ||
        map_ring(xdp->sock, &xdp->tx, &at.tx, sizeof(struct xdp_desc), (off_t)XDP_PGOFF_TX_RING) <
            0)
        return -1;
    return 0;
}

/* Socket, buffers, rings, and what is in them at first. Outcomes: 0; negative errno with the reason. */
static int make_buffers(struct xdp *xdp, char why[LINK_WHY_BYTES])
{
    struct xdp_umem_reg reg = {.len = (uint64_t)CHUNKS * CHUNK_BYTES, .chunk_size = CHUNK_BYTES};

    xdp->sock = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (xdp->sock < 0)
        return say(why, "no XDP socket");
    xdp->area = mmap(NULL, reg.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (xdp->area == MAP_FAILED) {
        xdp->area = NULL;
        return say(why, "no memory for its buffers");
    }
    reg.addr = (uintptr_t)xdp->area;
    if (setsockopt(xdp->sock, SOL_XDP, XDP_UMEM_REG, &reg, sizeof(reg)) < 0)
        return say(why, "its buffers, 8 MiB of locked memory, are refused");
    if (set_rings(xdp->sock) < 0 || map_rings(xdp) < 0)
        return say(why, "no rings");
    for (uint32_t i = 0; i < RX_CHUNKS; i++)
        ((uint64_t *)xdp->fill.entries)[i] = (uint64_t)i * CHUNK_BYTES;
    for (uint32_t i = 0; i < TX_CHUNKS; i++)
        xdp->tx_free[i] = CHUNKS - 1 - i;
    xdp->fill.own = RX_CHUNKS;
    publish(xdp->fill.producer, RX_CHUNKS);
    xdp->tx_free_count = TX_CHUNKS;
    return 0;
}

static int join(struct xdp *xdp, const struct ether_if *interface, char why[LINK_WHY_BYTES])
{
    struct sockaddr_xdp addr = {.sxdp_family = AF_XDP,
                                .sxdp_ifindex = (uint32_t)interface->index,
                                .sxdp_flags = XDP_USE_NEED_WAKEUP};
    int r = xdp_prog_attach(&xdp->prog, (unsigned)interface->index, why);

    if (r < 0)
        return r;
    if (bind(xdp->sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return say(why, "cannot be bound");
    return xdp_prog_add(&xdp->prog, 0, xdp->sock, why);
}

int xdp_open(const struct ether *ether, const struct ether_if *interface, struct xdp **ret,
             char why[LINK_WHY_BYTES])
{
    struct ether_want want = ether->want;
    struct xdp *xdp;
    int r;

    if (ether->want.vlan) {
        snprintf(why, LINK_WHY_BYTES, "not with vlan: cards take the tag off before or after it");
        return -EINVAL;
    }
    if (interface->mtu > CHUNK_BYTES - CHUNK_SPARE) {
        snprintf(why, LINK_WHY_BYTES, "an MTU of %u is too large; at most %u",
                 (unsigned)interface->mtu, CHUNK_BYTES - CHUNK_SPARE);
        return -EINVAL;
    }
    xdp = calloc(1, sizeof(*xdp));
    if (!xdp) {
        snprintf(why, LINK_WHY_BYTES, "out of memory");
        return -ENOMEM;
    }
    xdp->prog = XDP_PROG_NONE;
    xdp->sock = -1;
    memcpy(want.mac, interface->mac, sizeof(want.mac));
    r = xdp_prog_load(&xdp->prog, &want, why);
    if (r == 0)
        r = make_buffers(xdp, why);
    if (r == 0)
        r = join(xdp, interface, why);
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
    VIP_ASSERT(xdp->out == 0);
    xdp_prog_close(&xdp->prog);
    unmap(&xdp->fill);
    unmap(&xdp->completion);
    unmap(&xdp->rx);
    unmap(&xdp->tx);
    if (xdp->sock >= 0)
        close(xdp->sock);
    if (xdp->area)
        munmap(xdp->area, (size_t)CHUNKS * CHUNK_BYTES);
    free(xdp);
}

int xdp_fd(const struct xdp *xdp)
{
    return xdp->sock;
}

const char *xdp_mode(const struct xdp *xdp)
{
    return xdp->prog.native ? "native" : "generic";
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* Back to the kernel. The ring has an entry for each buffer, so there is always room. */
static void give_back(struct xdp *xdp, uint32_t chunk)
{
    ((uint64_t *)xdp->fill.entries)[xdp->fill.own % ENTRIES] = (uint64_t)chunk * CHUNK_BYTES;
    publish(xdp->fill.producer, ++xdp->fill.own);
}

/* One frame. Whether it holds a packet; if not, it has been counted and given back. */
static bool take(struct xdp *xdp, struct ether *ether, const struct xdp_desc *desc,
                 struct link_rx *ret)
{
    uint32_t chunk = (uint32_t)(desc->addr / CHUNK_BYTES);
    struct ether_frame frame = {.bytes = xdp->area + desc->addr, .len = desc->len};
    struct ether_content content;
    enum ether_verdict verdict = ether_frame_get(&ether->want, &frame, &content);

    VIP_ASSERT(chunk < RX_CHUNKS && !xdp->held[chunk]);
    if (verdict != ETHER_OK) {
        /* Messages among hosts come by the packet socket. */
        ether_frame_count(&ether->stats, verdict == ETHER_PEER ? ETHER_HEADER : verdict);
        give_back(xdp, chunk);
        return false;
    }
    xdp->from[chunk].len = ETHER_MAC_BYTES;
    memcpy(xdp->from[chunk].bytes, frame.bytes + ETHER_MAC_BYTES, ETHER_MAC_BYTES);
    xdp->held[chunk] = true;
    xdp->out++;
    *ret = (struct link_rx){.from = &xdp->from[chunk],
                            .bytes = content.bytes,
                            .len = content.len,
                            .buffer = xdp->area + (size_t)chunk * CHUNK_BYTES,
                            .scarce = xdp->out > KEPT_MAX};
    ether->stats.rx_packets++;
    ether->stats.rx_bytes += content.len;
    ether->stats.xdp_rx++;
    return true;
}

unsigned xdp_recv(struct xdp *xdp, struct ether *ether, struct link_rx *packets, unsigned count)
{
    const struct xdp_desc *entries = xdp->rx.entries;
    uint32_t filled = load(xdp->rx.producer);
    unsigned n = 0, bad = 0;

    while (n < count && bad < BAD_MAX && xdp->rx.own != filled) {
        struct xdp_desc desc = entries[xdp->rx.own % ENTRIES];

        xdp->rx.own++;
        if (take(xdp, ether, &desc, &packets[n]))
            n++;
        else
            bad++;
    }
    if (n + bad > 0)
        publish(xdp->rx.consumer, xdp->rx.own);
    else if (load(xdp->fill.flags) & XDP_RING_NEED_WAKEUP)
        recv(xdp->sock, NULL, 0, MSG_DONTWAIT);
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

    VIP_ASSERT(chunk < RX_CHUNKS && xdp->held[chunk] && xdp->out > 0);
    xdp->held[chunk] = false;
    xdp->out--;
    give_back(xdp, chunk);
}

uint32_t xdp_out(const struct xdp *xdp)
{
    return xdp->out;
}

/* ---- sending ------------------------------------------------------------------------------- */

/* Buffers whose frames have left. */
static void reclaim(struct xdp *xdp)
{
    const uint64_t *entries = xdp->completion.entries;
    uint32_t filled = load(xdp->completion.producer);

    if (xdp->completion.own == filled)
        return;
    while (xdp->completion.own != filled) {
        uint64_t addr = entries[xdp->completion.own++ % ENTRIES];

        VIP_ASSERT(xdp->tx_free_count < TX_CHUNKS && addr / CHUNK_BYTES >= RX_CHUNKS);
        xdp->tx_free[xdp->tx_free_count++] = (uint32_t)(addr / CHUNK_BYTES);
    }
    publish(xdp->completion.consumer, xdp->completion.own);
}

bool xdp_send(struct xdp *xdp, struct ether *ether, const struct link_tx *packet)
{
    struct xdp_desc *entries = xdp->tx.entries;
    uint32_t chunk, len;
    uint8_t *frame;

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
    entries[xdp->tx.own % ENTRIES] =
        (struct xdp_desc){.addr = (uint64_t)chunk * CHUNK_BYTES, .len = len};
    publish(xdp->tx.producer, ++xdp->tx.own);
    ether->stats.tx_packets++;
    ether->stats.tx_bytes += packet->bytes;
    ether->stats.xdp_tx++;
    return true;
}

bool xdp_kick(struct xdp *xdp, struct ether *ether)
{
    if (load(xdp->tx.consumer) != xdp->tx.own) {
        ether->stats.tx_syscalls++;
        /* Full for the moment, or down: what has not left is kicked again. */
        if (sendto(xdp->sock, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0)
            ether->stats.tx_again++;
    }
    reclaim(xdp);
    return load(xdp->tx.consumer) != xdp->tx.own;
}
