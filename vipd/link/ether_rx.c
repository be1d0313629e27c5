/*
 * Receiving: a ring of frames that the kernel fills and the link empties (PACKET_RX_RING, version
 * 2; man 7 packet). No system call; the bytes are read where the kernel wrote them.
 *
 * The kernel fills the frames in order and stops at one that has not been given back. So a packet
 * must not be kept in the ring: all packets are marked scarce, and vipd/nic copies one to keep it.
 *
 * Owns: the ring. Does not own: contents of a frame (ether_frame.c). Called from the engine's
 * thread.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/assert.h"
#include "vipd/link/xdp.h"

/* The kernel's part in front of the frame's bytes: its header, the sender's address, alignment. */
#define FRONT_BYTES                                                                                \
    (TPACKET_ALIGN(TPACKET2_HDRLEN) + TPACKET_ALIGN(ETHER_HEADS_MAX) + TPACKET_ALIGNMENT)

/* Frames begin at cache lines. */
#define CACHE_LINE 64u

/* Bytes of a block: the kernel allocates the ring in blocks. Large ones waste less at the end. */
#define BLOCK_BYTES (64u << 10)

/* Smallest number of frames in a ring. */
#define FRAMES_MIN 64u

/* Limit for dropped frames that are not ours in one recv call, per packet requested. */
#define BAD_PER_PACKET 2

_Static_assert(TPACKET_ALIGNMENT <= CACHE_LINE && CACHE_LINE % TPACKET_ALIGNMENT == 0, "frames");

static uint32_t frame_bytes(uint32_t mtu)
{
    return (FRONT_BYTES + mtu + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

static struct tpacket2_hdr *frame_at(const struct ether_ring *ring, uint32_t i)
{
    return (
        struct tpacket2_hdr *)(void *)(ring->map +
                                       (size_t)(i / ring->frames_per_block) * ring->block_bytes +
                                       (size_t)(i % ring->frames_per_block) * ring->frame_bytes);
}

static uint32_t frame_index(const struct ether_ring *ring, const void *frame)
{
    size_t at = (size_t)((const uint8_t *)frame - ring->map);

    return (uint32_t)(at / ring->block_bytes * ring->frames_per_block +
                      at % ring->block_bytes / ring->frame_bytes);
}

static void give_back(struct tpacket2_hdr *frame)
{
    __atomic_store_n(&frame->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

/* ---- making and removing ------------------------------------------------------------------- */

int ether_ring_open(struct ether *ether, uint32_t mtu)
{
    struct ether_ring *ring = &ether->ring;
    struct tpacket_req request = {0};
    uint32_t blocks;

    ether_ring_close(ether);
    ring->frame_bytes = frame_bytes(mtu);
    ring->block_bytes = BLOCK_BYTES;
    while (ring->block_bytes < ring->frame_bytes)
        ring->block_bytes *= 2;
    ring->frames_per_block = ring->block_bytes / ring->frame_bytes;
    blocks = ether->buffer_bytes / ring->block_bytes;
    if (blocks * ring->frames_per_block < FRAMES_MIN)
        blocks = (FRAMES_MIN + ring->frames_per_block - 1) / ring->frames_per_block;
    ring->frames = blocks * ring->frames_per_block;
    request.tp_block_size = ring->block_bytes;
    request.tp_block_nr = blocks;
    request.tp_frame_size = ring->frame_bytes;
    request.tp_frame_nr = ring->frames;
    if (setsockopt(ether->sock, SOL_PACKET, PACKET_RX_RING, &request, sizeof(request)) < 0)
        return -errno;
    ring->map_bytes = (size_t)blocks * ring->block_bytes;
    ring->map = mmap(NULL, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ether->sock, 0);
    if (ring->map == MAP_FAILED) {
        int r = -errno;

        ring->map = NULL;
        ether_ring_close(ether);
        return r;
    }
    ring->held = calloc(ring->frames, sizeof(*ring->held));
    ring->from = calloc(ring->frames, sizeof(*ring->from));
    if (!ring->held || !ring->from) {
        ether_ring_close(ether);
        return -ENOMEM;
    }
    ring->next = 0;
    return 0;
}

void ether_ring_close(struct ether *ether)
{
    struct ether_ring *ring = &ether->ring;
    struct tpacket_req none = {0};

    VIP_ASSERT(ring->out == 0);
    if (ring->map)
        munmap(ring->map, ring->map_bytes);
    setsockopt(ether->sock, SOL_PACKET, PACKET_RX_RING, &none, sizeof(none));
    free(ring->held);
    free(ring->from);
    *ring = (struct ether_ring){0};
}

bool ether_ring_fits(const struct ether *ether, uint32_t mtu)
{
    return ether->ring.map && frame_bytes(mtu) <= ether->ring.frame_bytes;
}

uint32_t ether_ring_window(const struct ether *ether, uint32_t packet_bytes)
{
    /* A quarter stays free for acknowledgements and for other peers' first packets. */
    uint64_t bytes = (uint64_t)ether->ring.frames * 3 / 4 * packet_bytes;

    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* ---- receiving ------------------------------------------------------------------------------ */

/*
 * Is the frame of a VLAN that this host is not in? The kernel removes its tag, but still gives the
 * frame to sockets of its EtherType, marked as for another host. This mark means a foreign VLAN
 * here, because the filter has compared the address with that of our card.
 */
static bool is_foreign(const struct ether *ether, const struct tpacket2_hdr *hdr)
{
    const struct sockaddr_ll *from =
        (const struct sockaddr_ll *)(const void *)((const uint8_t *)hdr +
                                                   TPACKET_ALIGN(sizeof(*hdr)));

    return ether->want.vlan == 0 && from->sll_pkttype == PACKET_OTHERHOST;
}

/* Process one filled frame. Whether it holds a packet; if not, it has been counted. */
static bool frame_take(struct ether *ether, struct tpacket2_hdr *hdr, uint32_t status,
                       uint64_t now_ns, struct link_rx *ret)
{
    struct ether_ring *ring = &ether->ring;
    uint32_t i = frame_index(ring, hdr);
    struct ether_frame frame = {.bytes = (const uint8_t *)hdr + hdr->tp_mac,
                                .len = hdr->tp_snaplen,
                                .tagged = status & TP_STATUS_VLAN_VALID,
                                .tag = hdr->tp_vlan_tci,
                                .foreign = is_foreign(ether, hdr)};
    struct ether_content content;
    enum ether_verdict verdict = ether_frame_get(&ether->want, &frame, &content);

    if (hdr->tp_snaplen < hdr->tp_len && verdict != ETHER_VLAN) {
        ether->stats.rx_truncated++;
        return false;
    }
    if (verdict == ETHER_PEER)
        ether_find_rx(ether, frame.bytes, &content, now_ns);
    if (verdict != ETHER_OK) {
        ether_frame_count(&ether->stats, verdict);
        return false;
    }
    ring->from[i].len = ETHER_MAC_BYTES;
    memcpy(ring->from[i].bytes, frame.bytes + ETHER_MAC_BYTES, ETHER_MAC_BYTES);
    ring->held[i] = true;
    ring->out++;
    *ret = (struct link_rx){.from = &ring->from[i],
                            .bytes = content.bytes,
                            .len = content.len,
                            .buffer = hdr,
                            .scarce = true};
    ether->stats.rx_packets++;
    ether->stats.rx_bytes += content.len;
    return true;
}

unsigned ether_recv(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns)
{
    struct ether *ether = (struct ether *)link;
    struct ether_ring *ring = &ether->ring;
    unsigned n = 0, bad = 0;

    ether_check(ether, now_ns);
    ether_find_run(ether, now_ns);
    ether_xdp_run(ether, now_ns);
    if (ether->xdp)
        n = xdp_recv(ether->xdp, ether, packets, count);
    link->behind = n == count;
    if (!ring->map)
        return n;
    while (n < count && bad < BAD_PER_PACKET * count) {
        struct tpacket2_hdr *hdr = frame_at(ring, ring->next);
        uint32_t status = __atomic_load_n(&hdr->tp_status, __ATOMIC_ACQUIRE);

        /* After a whole round, a frame that is still held looks like one filled again. */
        if (!(status & TP_STATUS_USER) || ring->held[ring->next])
            break;
        ring->next = ring->next + 1 < ring->frames ? ring->next + 1 : 0;
        if (frame_take(ether, hdr, status, now_ns, &packets[n])) {
            n++;
        } else {
            give_back(hdr);
            bad++;
        }
    }
    link->behind = n == count || bad == BAD_PER_PACKET * count;
    return n;
}

void ether_release(struct link *link, void *buffer)
{
    struct ether *ether = (struct ether *)link;
    struct ether_ring *ring = &ether->ring;
    uint32_t i;

    if (ether->xdp && xdp_owns(ether->xdp, buffer)) {
        xdp_release(ether->xdp, buffer);
        return;
    }
    i = frame_index(ring, buffer);
    VIP_ASSERT(i < ring->frames && ring->held[i] && ring->out > 0);
    ring->held[i] = false;
    ring->out--;
    give_back(buffer);
}
