/*
 * Receiving: a ring of frames that the kernel fills and the link empties (PACKET_RX_RING, version
 * 2; man 7 packet). Receiving needs no system call, and no copy from the kernel's buffers.
 *
 * The kernel fills the frames in order and stops at a frame that has not been given back. So a
 * packet must not be kept in the ring. All packets are marked scarce: to keep a packet, vipd/nic
 * copies it.
 *
 * Owns: the frames that are handed out. Does not own: the ring (ether_ring.c), contents of a frame
 * (ether_frame.c). Called from the engine's thread.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/assert.h"
#include "vipd/link/xdp.h"

/* For each packet it may return, ether_recv drops at most this many frames without a packet. */
#define BAD_PER_PACKET 2

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

/*
 * Is this frame of a VLAN that this host is not in? The kernel removes the tag, but still gives the
 * frame to sockets of its EtherType, marked as for another host. Here this mark can only mean a
 * foreign VLAN, because the filter has compared the frame's address with that of our card.
 */
static bool is_foreign(const struct ether *ether, const struct tpacket2_hdr *hdr)
{
    const struct sockaddr_ll *from =
        (const struct sockaddr_ll *)(const void *)((const uint8_t *)hdr +
                                                   TPACKET_ALIGN(sizeof(*hdr)));

    return ether->want.vlan == 0 && from->sll_pkttype == PACKET_OTHERHOST;
}

/* Process one filled frame. true: *ret is its packet; false: it has no packet, and is counted. */
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

        /* After a round of the ring, a frame that is still handed out looks like a new frame. */
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
