/*
 * Inside of the UDP link: what udp.c (open, close), udp_tx.c, udp_rx.c, udp_buf.c and udp_if.c share.
 * Nobody else includes this.
 *
 * Receiving: each message of a recvmmsg batch lands in a small buffer followed by a large one. A
 * lone packet that fits the small buffer stays there, so that holding it pins 2 KiB; anything longer
 * has its first 2 KiB copied into the headroom of the large buffer, whose bytes are then contiguous.
 */
#ifndef VIPD_LINK_UDP_H
#define VIPD_LINK_UDP_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "vipd/link/link.h"

/* Messages of one recvmmsg call; enough to spread the call's cost, few enough to stay in cache. */
#define UDP_RX_BATCH 32

/* Messages of one sendmmsg call. */
#define UDP_TX_BATCH 64

/* Packets of one UDP_SEGMENT message: what every kernel with the option takes. */
#define UDP_GSO_SEGMENTS_MAX 64

/* Gather entries that one batch of coalesced messages may use together. */
#define UDP_TX_IOVS 2048

/* Gather entries of one message (the kernel's UIO_MAXIOV). */
#define UDP_MSG_IOVS_MAX 1024

/* Bytes of a small buffer: a packet of the usual Ethernet MTU fits. */
#define UDP_SMALL_BYTES 2048u

/* Bytes of a large buffer: with the small part before it, the largest UDP datagram. */
#define UDP_LARGE_BYTES 65536u

/* Bounds of the pools: 64 MiB each. Beyond them packets are dropped and counted. */
#define UDP_LARGE_MAX 1024u
#define UDP_SMALL_MAX 32768u

/* The last buffers of a pool are marked scarce: if all were kept for packets ahead of their turn, the
 * ones they wait for could not be received. Twice a batch, for a batch is always attached. */
#define UDP_SCARCE (2 * UDP_RX_BATCH)

/* Free buffers that are kept; others go back to the allocator. */
#define UDP_FREE_KEEP 128u

/* IPv4 and UDP headers in front of a packet. */
#define UDP_HEADERS_BYTES 28u

/* A received message's bytes. Reference-counted: coalesced packets share one. */
struct udp_buf {
    struct udp_buf *next; /* in the free list */
    uint32_t refs;        /* packets given out and not released */
    bool large;
    struct link_addr from;
    uint8_t bytes[]; /* UDP_SMALL_BYTES, or as much headroom and UDP_LARGE_BYTES */
};

struct udp_pool {
    struct udp_buf *free;
    uint32_t free_count, count, max;
    bool large;
};

/* A received message whose packets have not all been handed out. */
struct udp_msg {
    struct udp_buf *buf;
    const uint8_t *at;
    uint32_t left;    /* bytes */
    uint32_t segment; /* bytes of each packet but the last */
};

struct udp {
    struct link link;
    int sock;
    bool gso, gro;
    bool oversize_logged;
    struct link_stats stats;

    struct udp_pool small, large;
    struct udp_buf *rx_small[UDP_RX_BATCH]; /* attached to the messages of the next batch */
    struct udp_buf *rx_large[UDP_RX_BATCH];
    unsigned rx_used; /* messages 0..rx_used-1 must get buffers before the next batch */
    struct mmsghdr rx_msgs[UDP_RX_BATCH];
    struct iovec rx_iovs[UDP_RX_BATCH][2];
    struct sockaddr_in rx_names[UDP_RX_BATCH];
    char rx_control[UDP_RX_BATCH][CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct udp_msg ready[UDP_RX_BATCH]; /* received, not yet handed out */
    unsigned ready_at, ready_count;

    struct mmsghdr tx_msgs[UDP_TX_BATCH];
    unsigned tx_packets[UDP_TX_BATCH]; /* packets in each message */
    struct sockaddr_in tx_names[UDP_TX_BATCH];
    struct iovec tx_iovs[UDP_TX_IOVS];
    char tx_control[UDP_TX_BATCH][CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
};

/* udp_tx.c, udp_rx.c: entries of the class. */
unsigned udp_send(struct link *link, const struct link_tx *packets, unsigned count,
                  uint64_t now_ns);
unsigned udp_recv(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns);
void udp_release(struct link *link, void *buffer);

/* Is there something that recv would give without asking the kernel? */
bool udp_rx_pending(const struct udp *udp);
/* Free every buffer that has not been handed out. */
void udp_rx_drain(struct udp *udp);

/* udp_buf.c. take: NULL if the pool's bound or memory is reached. */
struct udp_buf *udp_buf_take(struct udp_pool *pool);
void udp_buf_give(struct udp_pool *pool, struct udp_buf *buf);
/* Are nearly all buffers that the pool may have in use? */
bool udp_pool_scarce(const struct udp_pool *pool);
void udp_pool_drain(struct udp_pool *pool);

/*
 * udp_if.c. Address of the interface of the default route. Outcomes: 0; -ENETUNREACH none.
 */
int udp_if_default_address(struct in_addr *ret);
/* MTU of the interface that has the address. Outcomes: 0; -EADDRNOTAVAIL no interface has it. */
int udp_if_mtu(struct in_addr address, uint32_t *ret_mtu);

#endif
