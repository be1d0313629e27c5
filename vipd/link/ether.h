/*
 * Inside of the Ethernet link, shared by ether.c (open, close), ether_follow.c (state), the other
 * ether_*.c and xdp*.c. Tests include this header, too.
 *
 * The link has one packet socket, which vipd opens once. Binding the socket to an interface needs
 * no privilege. So the link follows its interface (by name) through down and up, removal and
 * return, even after vipd has dropped CAP_NET_RAW. Frames arrive in a ring shared with the kernel,
 * without a system call; sendmmsg sends frames.
 */
#ifndef VIPD_LINK_ETHER_H
#define VIPD_LINK_ETHER_H

#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include "vipd/link/ether_peer.h"
#include "vipd/link/link.h"

#define ETHER_MAC_BYTES 6

/* ---- frames (ether_frame.c): doc/wire.md, section "On Ethernet" --------------------------- */

#define ETHER_HEAD_BYTES 4  /* our header: magic, version and kind, length (doc/wire.md) */
#define ETHER_HEADS_MAX  22 /* the Ethernet header with a VLAN tag, and our header */
#define ETHER_MAGIC      0x56
#define ETHER_VERSION    0x10 /* upper 4 bits of our second byte; the lower 4 bits are the kind */
#define ETHER_KIND       1    /* kind of a frame with a packet; other kinds: enum ether_peer_kind */

/* The frames that the link accepts. */
struct ether_want {
    uint8_t mac[ETHER_MAC_BYTES];
    uint16_t ethertype;
    uint16_t vlan; /* 0 = untagged */
    bool peers;    /* accept messages that find peers, too (ether_peer.h) */
};

/* A frame as received. If the kernel has removed the VLAN tag from the bytes, `tag` has it. */
struct ether_frame {
    const uint8_t *bytes;
    uint32_t len;
    bool tagged;
    uint16_t tag; /* the 16 bits after 0x8100; the lower 12 bits are the VLAN */
    bool foreign; /* the kernel has removed the tag of a VLAN that this host is not in */
};

/* Result of the check of a frame. Each reason for a drop has a counter in struct link_stats. */
enum ether_verdict {
    ETHER_OK = 0,
    ETHER_PEER, /* a message of enum ether_peer_kind, which is not dropped */
    ETHER_SHORT,
    ETHER_MAC,
    ETHER_VLAN,
    ETHER_ETHERTYPE,
    ETHER_HEADER,
    ETHER_LENGTH,
};

/* Write the headers of a frame with `bytes` bytes of contents. Returns the size of the headers. */
unsigned ether_frame_put(uint8_t out[ETHER_HEADS_MAX], const struct ether_want *own,
                         const uint8_t to[ETHER_MAC_BYTES], uint8_t kind, uint32_t bytes);

/* The contents of a frame; `bytes` points into the frame. */
struct ether_content {
    const uint8_t *bytes;
    uint32_t len;
    uint8_t kind;
};

/* Outcomes: ETHER_OK: *ret is a packet; ETHER_PEER: *ret is another message; else: why the frame
 * must be dropped. */
enum ether_verdict ether_frame_get(const struct ether_want *want, const struct ether_frame *frame,
                                   struct ether_content *ret);

void ether_frame_count(struct link_stats *stats, enum ether_verdict verdict);

/* ---- filter (ether_filter.c) -------------------------------------------------------------- */

/*
 * Set the filter of the socket: the kernel drops frames that are not for this link; if `want` is
 * NULL, it drops all frames. Outcomes: 0; negative errno with a sentence in why.
 */
int ether_filter(int sock, const struct ether_want *want, char *why, size_t why_bytes);

/* ---- the interface (ether_if.c) ----------------------------------------------------------- */

struct ether_if {
    int index; /* 0: there is no such interface */
    bool ethernet, up, running;
    uint8_t mac[ETHER_MAC_BYTES];
    uint32_t mtu;
};

/* Ask the kernel about the interface, through any socket. */
void ether_if_look(int sock, const char *name, struct ether_if *ret);
/* The present name of an interface; false if the interface is gone. */
bool ether_if_name(int sock, int index, char ret[IF_NAMESIZE]);
/* Has another program a socket for frames of this EtherType on the interface? The result is also
 * false if the kernel does not list sockets. */
bool ether_if_shared(int sock, int index, uint16_t ethertype);
/* Log which capability is missing and how to give it to vipd. */
void ether_if_explain(const char *name);

/* ---- the link ----------------------------------------------------------------------------- */

/* Largest number of frames in one sendmmsg call. */
#define ETHER_TX_BATCH 64

/* Largest number of gather (iovec) entries in one batch, headers included. */
#define ETHER_TX_IOVS 2048

/* Interval between checks for news of interfaces and for errors of the socket. */
#define ETHER_CHECK_NS 1000000u

/* Time to wait while the device is full. Then drop frames: perhaps nothing empties the device. */
#define ETHER_FULL_NS 10000000u

struct xdp; /* vipd/link/xdp.h */

/* The receive ring (ether_ring.c, ether_rx.c). */
struct ether_ring {
    uint8_t *map; /* NULL: none */
    size_t map_bytes;
    uint32_t block_bytes, frame_bytes, frames_per_block, frames;
    uint32_t next;          /* index of the frame that the link reads next */
    uint32_t out;           /* number of frames handed out and not released */
    bool *held;             /* for each frame: is it handed out? */
    struct link_addr *from; /* for each frame: its sender */
};

struct ether {
    struct link link;
    char interface[IF_NAMESIZE];
    uint32_t mtu_max;      /* configured upper limit of the MTU; 0 = none */
    uint32_t buffer_bytes; /* wanted size of the ring */
    struct ether_want want;
    int sock;         /* packet socket; -1: the capability is missing */
    int watch;        /* socket with news of interfaces (news.h) */
    int epoll;        /* epoll descriptor of all sockets of the link, for the event loop */
    int bound;        /* index of the interface that sock is bound to; 0 = none */
    int left;         /* index of the interface to which sock was bound last; 0 = none */
    bool rebind;      /* the ring was changed, so sock must be bound again */
    uint64_t next_ns; /* time of the next check of `watch` and of errors */
    bool look;        /* look at the interface at the next check, even without news */
    uint64_t full_ns; /* since when the device has refused all frames; 0 = it takes frames */
    uint64_t log_ns;  /* when log_tokens was last counted up */
    unsigned log_tokens;
    bool oversize_logged;
    struct link_stats stats;
    struct ether_peers *peers; /* NULL: the link neither asks peers nor answers them */
    bool in_use;               /* as in link_ether_config; false once the link is open */
    bool want_xdp;
    struct xdp *xdp;        /* NULL: XDP is not in use */
    struct ether_if xdp_on; /* interface for which xdp was opened or refused */
    uint64_t xdp_kick_ns;   /* when to kick xdp for waiting frames; UINT64_MAX = no frame waits */

    struct ether_ring ring;
    struct mmsghdr tx_msgs[ETHER_TX_BATCH];
    uint8_t tx_heads[ETHER_TX_BATCH][ETHER_HEADS_MAX];
    struct iovec tx_iovs[ETHER_TX_IOVS];
};

/* ether_ring.c. Remove an old ring, and make a ring for frames of this MTU. Returns 0 or -errno. */
int ether_ring_open(struct ether *ether, uint32_t mtu);
void ether_ring_close(struct ether *ether);
bool ether_ring_fits(const struct ether *ether, uint32_t mtu);
/* Bytes that one peer may have under way to the ring, in packets of this size. */
uint32_t ether_ring_window(const struct ether *ether, uint32_t packet_bytes);

/* ether_rx.c */
unsigned ether_recv(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns);
void ether_release(struct link *link, void *buffer);

/* ether_tx.c */
unsigned ether_send(struct link *link, const struct link_tx *packets, unsigned count,
                    uint64_t now_ns);

/* ether_find.c. rx: process a message from a peer; run: send messages that are due. */
void ether_find_rx(struct ether *ether, const uint8_t *frame, const struct ether_content *content,
                   uint64_t now_ns);
void ether_find_run(struct ether *ether, uint64_t now_ns);
int ether_find(struct link *link, const char *name, uint64_t now_ns, struct link_addr *ret);
int ether_name_of(struct link *link, const struct link_addr *host, uint64_t now_ns,
                  char ret[LINK_NAME_BYTES]);
uint32_t ether_known(const struct link *link, uint32_t from, uint64_t now_ns, link_visit_fn *visit,
                     void *ctx);

/*
 * ether_xdp.c. Open XDP, or open it again, for the interface in its present state; a refusal is
 * logged. false: XDP buffers are still handed out, so call this again soon.
 */
bool ether_xdp_follow(struct ether *ether, const struct ether_if *now);
/* Close XDP. false: XDP buffers are still handed out, so call this again soon. */
bool ether_xdp_stop(struct ether *ether);
/* Send the first packets of a short batch by XDP. Returns the number of packets sent. */
unsigned ether_xdp_send(struct ether *ether, const struct link_tx *packets, unsigned count,
                        uint64_t now_ns);
/* If the time xdp_kick_ns has come, kick xdp for frames that wait. */
void ether_xdp_run(struct ether *ether, uint64_t now_ns);

/* ether_frame.c: can the link carry this packet? */
bool ether_sendable(const struct ether *ether, const struct link_tx *packet);

/* Largest number of log messages about an interface at once; then at most one message in 2 s. */
#define ETHER_LOG_BURST 30
/* ether_follow.c: look at the interface, and set the link's state if anything has changed. */
void ether_update(struct ether *ether, uint64_t now_ns);
/* Every ETHER_CHECK_NS: call ether_update if there is news of interfaces or `look` is set. */
void ether_check(struct ether *ether, uint64_t now_ns);

#endif
