/*
 * The ring of frames that the kernel fills (PACKET_RX_RING, version 2; man 7 packet).
 *
 * Owns: making and removing the ring, and its size. Does not own: reading its frames (ether_rx.c).
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/assert.h"

/* The kernel's part in front of the frame's bytes: a header, the sender's address, alignment. */
#define FRONT_BYTES                                                                                \
    (TPACKET_ALIGN(TPACKET2_HDRLEN) + TPACKET_ALIGN(ETHER_HEADS_MAX) + TPACKET_ALIGNMENT)

/* Bytes of a cache line. Each frame begins at a cache line. */
#define CACHE_LINE 64u

/* Bytes of a block: the kernel allocates the ring in blocks. Large blocks waste less memory. */
#define BLOCK_BYTES (64u << 10)

/* Smallest number of frames in a ring. */
#define FRAMES_MIN 64u

_Static_assert(TPACKET_ALIGNMENT <= CACHE_LINE && CACHE_LINE % TPACKET_ALIGNMENT == 0, "frames");

static uint32_t frame_bytes(uint32_t mtu)
{
    return (FRONT_BYTES + mtu + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

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
    /* A quarter of the ring stays free for acknowledgements and for other peers' first packets. */
    uint64_t bytes = (uint64_t)ether->ring.frames * 3 / 4 * packet_bytes;

    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}
