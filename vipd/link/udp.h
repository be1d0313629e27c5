/*
 * Inside of the UDP link, shared by udp.c (open, close), udp_follow.c (state) and the other
 * udp_*.c. No other file includes this header.
 *
 * The link has one address, IPv4 or IPv6, and follows the interface that has it. While no interface
 * has the address, the link is down. The socket is made when an interface first has the address.
 *
 * Receiving: recvmmsg writes the first 2 KiB of a message to a small buffer, and the rest to a
 * large one. A message that fits the small buffer stays there, so a held packet needs only 2 KiB.
 * The first 2 KiB of a longer message are copied in front of the rest, so that its bytes are
 * contiguous.
 */
#ifndef VIPD_LINK_UDP_H
#define VIPD_LINK_UDP_H

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "vipd/link/link.h"

/* Messages of one recvmmsg call: enough to share the cost of the call, few enough for the cache. */
#define UDP_RX_BATCH 32

/* Messages of one sendmmsg call. */
#define UDP_TX_BATCH 64

/* Most packets of one UDP_SEGMENT message. Every kernel with this option accepts this number. */
#define UDP_GSO_SEGMENTS_MAX 64

/* Most gather entries of all coalesced messages of one batch together. */
#define UDP_TX_IOVS 2048

/* Most gather entries of one message (the kernel's UIO_MAXIOV). */
#define UDP_MSG_IOVS_MAX 1024

/* Bytes of a small buffer: a packet of the usual Ethernet MTU fits. */
#define UDP_SMALL_BYTES 2048u

/* Bytes of a large buffer after its first UDP_SMALL_BYTES: the largest UDP datagram fits. */
#define UDP_LARGE_BYTES 65536u

/* Most buffers of each pool: 64 MiB. A packet without a buffer is dropped and counted. */
#define UDP_LARGE_MAX 1024u
#define UDP_SMALL_MAX 32768u

/* Packets in the last buffers of a pool are marked scarce. Otherwise packets ahead of their turn
 * could keep all buffers, and missing packets would find none. These are buffers for two batches,
 * because the next recvmmsg call holds one batch. */
#define UDP_SCARCE (2 * UDP_RX_BATCH)

/* Most free buffers that a pool keeps; others go back to the allocator. */
#define UDP_FREE_KEEP 128u

/* Interval between looks for news of interfaces. */
#define UDP_CHECK_NS 1000000u

/* Time from the first news to the look at the interfaces, because news come in groups. */
#define UDP_LOOK_NS 10000000u

/* Time from a failed look (for lack of memory or descriptors) to the next look. */
#define UDP_AGAIN_NS 1000000000u

/* Bytes of the headers in front of a packet: the IPv4 or IPv6 header, and the UDP header. */
#define UDP4_OVERHEAD (20u + 8u)
#define UDP6_OVERHEAD (40u + 8u)

_Static_assert(LINK_SCOPE_BYTES == IF_NAMESIZE, "names of interfaces");

/* An address in the form of the socket calls. */
union udp_name {
    struct sockaddr any;
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;
};

/* The bytes of a received message. References are counted, because coalesced packets share it. */
struct udp_buf {
    struct udp_buf *next; /* in the free list */
    uint32_t refs; /* packets given out and not released, plus 1 while the message is in `ready` */
    bool large;
    struct link_addr from;
    uint8_t bytes[]; /* UDP_SMALL_BYTES; in a large buffer UDP_LARGE_BYTES more */
};

struct udp_pool {
    struct udp_buf *free;
    uint32_t free_count, count, max;
    bool large;
};

/* A received message that still has packets to hand out. */
struct udp_msg {
    struct udp_buf *buf;
    const uint8_t *at;
    uint32_t left;    /* bytes that are not handed out yet */
    uint32_t segment; /* bytes of each packet; the last packet may be shorter */
};

/* The interface that has the link's address. */
struct udp_if {
    char name[IF_NAMESIZE];
    unsigned index; /* 0: no interface has the address */
    bool up, running;
    uint32_t mtu;
};

struct udp {
    struct link link;
    struct link_addr own;         /* becomes link.self when an interface has this address */
    char scope[LINK_SCOPE_BYTES]; /* the interface of a link-local address; empty for others */
    uint32_t mtu;                 /* configured MTU; 0 = use the interface's MTU */
    uint32_t buffer_bytes;        /* wanted size of the socket buffers */
    bool want_gso, want_gro;      /* configured */
    unsigned if_index;            /* interface that had the address when last found */
    int sock;                     /* -1: no socket is bound */
    int inherited;                /* socket to use if it is bound to the address, or -1 */
    void (*opened)(void *ctx, int sock); /* as in link_udp_config */
    void *opened_ctx;
    unsigned sock_index; /* if_index when sock was bound */
    int news;            /* socket with news of interfaces and addresses (vipd/link/news.h) */
    int epoll;           /* watches sock and news; the event loop waits for it */
    uint64_t next_ns;    /* time of the next look for news */
    uint64_t look_ns;    /* time of the next look at the interfaces; UINT64_MAX = none is due */
    bool gso, gro;       /* in use */
    int gso_doubt;       /* errno of a refusal that joined packets may have caused; 0 = none */
    bool oversize_logged, buffer_logged;
    struct link_stats stats;

    struct udp_pool small, large;
    struct udp_buf *rx_small[UDP_RX_BATCH]; /* attached to the messages of the next batch */
    struct udp_buf *rx_large[UDP_RX_BATCH];
    unsigned rx_used; /* messages 0..rx_used-1 must get buffers before the next batch */
    struct mmsghdr rx_msgs[UDP_RX_BATCH];
    struct iovec rx_iovs[UDP_RX_BATCH][2];
    union udp_name rx_names[UDP_RX_BATCH];
    char rx_control[UDP_RX_BATCH][CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct udp_msg ready[UDP_RX_BATCH]; /* received, not yet handed out */
    unsigned ready_at, ready_count;

    struct mmsghdr tx_msgs[UDP_TX_BATCH];
    unsigned tx_packets[UDP_TX_BATCH]; /* number of packets in each message */
    union udp_name tx_names[UDP_TX_BATCH];
    struct iovec tx_iovs[UDP_TX_IOVS];
    char tx_control[UDP_TX_BATCH][CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
};

static inline uint32_t udp_overhead(const struct udp *udp)
{
    return udp->link.kind == LINK_UDP6 ? UDP6_OVERHEAD : UDP4_OVERHEAD;
}

/* udp_tx.c, udp_rx.c: functions of struct link_class. */
unsigned udp_send(struct link *link, const struct link_tx *packets, unsigned count,
                  uint64_t now_ns);
unsigned udp_recv(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns);
void udp_release(struct link *link, void *buffer);

/* Does memory hold received packets, which recv returns without a system call? */
bool udp_rx_pending(const struct udp *udp);
/* Free every buffer that has not been handed out. */
void udp_rx_drain(struct udp *udp);

/* udp_buf.c. udp_buf_take returns NULL if the pool has reached its bound or memory is short. */
struct udp_buf *udp_buf_take(struct udp_pool *pool);
void udp_buf_give(struct udp_pool *pool, struct udp_buf *buf);
/* Can the pool give out at most UDP_SCARCE more buffers? */
bool udp_pool_scarce(const struct udp_pool *pool);
void udp_pool_drain(struct udp_pool *pool);
/* Bytes of the pool's free buffers. */
uint64_t udp_pool_spare_bytes(const struct udp_pool *pool);

/*
 * udp_follow.c. Look at the interface, and set the link's state if anything has changed. opening:
 * the caller logs the state, not udp_update. Outcomes: 0; negative errno, reason in why_down.
 */
int udp_update(struct udp *udp, bool opening);
/* Does this outcome of udp_update last until news comes? If not, look again soon. */
bool udp_lasting(int r);
/* Every UDP_CHECK_NS: look for news of interfaces. At look_ns: look at the interfaces. */
void udp_check(struct udp *udp, uint64_t now_ns);

/*
 * udp_sock.c. Put a socket bound to the own address into udp->sock; close an older socket.
 * Outcomes: 0; negative errno of the failed system call, and udp->sock is -1.
 */
int udp_sock_open(struct udp *udp);
void udp_sock_close(struct udp *udp);
/* Set the link's packet_bytes and window_bytes for this MTU. false: the MTU is too small; nothing
 * has changed. */
bool udp_sock_size(struct udp *udp, uint32_t mtu);

/*
 * udp_name.c. Convert an address for socket calls; a link-local address gets the link's interface.
 * Outcomes: length of *ret in bytes; 0: the address is not of this link's kind.
 */
socklen_t udp_name_put(const struct udp *udp, const struct link_addr *addr, union udp_name *ret);
/* Convert the address of a sender. false: the address is not of this link's kind. */
bool udp_name_get(const struct udp *udp, const union udp_name *name, socklen_t len,
                  struct link_addr *ret);

/* udp_if.c. IPv4 address of the default route's interface. Outcomes: 0; -ENETUNREACH: there is no
 * such address; negative errno of getifaddrs. */
int udp_if_default_address(struct in_addr *ret);
/* Find the interface that has the own address; ret->index is 0 if there is none. Outcomes: 0;
 * negative errno: the kernel's answers leave the interface unknown. */
int udp_if_find(const struct udp *udp, struct udp_if *ret);

#endif
