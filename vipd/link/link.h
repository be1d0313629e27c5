/*
 * Links: how packets leave and reach this host. One small interface with udp, ether, loop and the
 * fault decorator behind it. A link moves opaque packets; it does not look into them.
 *
 * Owns: sockets, batching, segmentation offload, buffers of received packets.
 * Does not own: what is in a packet, checksums, retries. One thread at a time uses a link: its NIC's.
 *
 * Traffic between sessions of one vipd does not pass a link: vipd/nic loops it (link/loop.h).
 */
#ifndef VIPD_LINK_LINK_H
#define VIPD_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proto/limits.h"

/* The media. Addresses of different media do not mix, even where they are equally long. */
enum link_kind {
    LINK_UDP = 0, /* over IPv4 */
    LINK_ETHER,
    LINK_LOOP,
    LINK_UDP6, /* over IPv6 */
};
/* "udp" (of either kind), "ether", "loop"; static. */
const char *link_kind_name(enum link_kind kind);
/* How many leading bytes of a host's address name who counts as one where hosts have shares: the address
 * without its port, of IPv6 the network (/64). */
uint8_t link_kind_source_bytes(enum link_kind kind);
/* Bytes of an interface's MTU that are no part of our packets; 0 on loop, which has no interface. */
uint32_t link_kind_overhead(enum link_kind kind);

/*
 * Host part of a VIPL address. udp over IPv4: 4 bytes address and 2 bytes port, network order; over
 * IPv6: 16 and 2. The scope of a link-local address (fe80::1%eth0) is no part of it: it has another
 * number on each host, and for one NIC it is always the interface that has the NIC's own address.
 * ether: the 6 bytes of the MAC address. loop: always 00:00:00:00:00:01.
 */
struct link_addr {
    uint8_t len;
    uint8_t bytes[VIP_HOST_ADDR_BYTES_MAX];
};

/* One packet to send: gathered from iov; bytes = sum of iov lengths. */
struct link_tx {
    const struct link_addr *to;
    const struct iovec *iov;
    unsigned iov_count;
    uint32_t bytes;
};

/* One received packet. The buffer belongs to the link until link_rx_release. */
struct link_rx {
    const struct link_addr *from; /* valid as long as the buffer */
    const uint8_t *bytes;
    uint32_t len;
    void *buffer; /* the link's reference; several packets may share one (GRO) */
    bool scarce;  /* few buffers are left: release this one at once, do not keep it for later */
};

struct link_stats {
    uint64_t tx_packets, tx_bytes, tx_syscalls, tx_again, tx_errors;
    uint64_t rx_packets, rx_bytes, rx_syscalls, rx_truncated, rx_errors;
    uint64_t tx_down; /* packets lost because the link was down */
    /* ether: frames that were not ours after all, by reason, and those that found the ring full */
    uint64_t drop_frame_short, drop_frame_mac, drop_frame_vlan, drop_frame_ethertype;
    uint64_t drop_frame_header, drop_frame_length, drop_ring_full;
    /* ether: finding peers; messages, and those that were dropped, by reason */
    uint64_t tx_solicits, tx_announces, rx_solicits, rx_announces;
    uint64_t drop_peer_length, drop_peer_crc, drop_peer_proof, drop_peer_field;
    uint64_t drop_peer_unasked, drop_peer_rate, drop_peer_dispute;
    uint64_t xdp_tx, xdp_rx; /* ether: packets that passed by XDP, part of those above */
    uint64_t state_changes;  /* ether: up, down, another address or MTU */
    uint64_t rx_spare_bytes; /* udp: of this moment, free buffers kept for the next packets */
    /* fault decorator */
    uint64_t fault_lost, fault_duplicated, fault_reordered, fault_delayed, fault_corrupted;
};

struct link;

/* Longest name of a host that a medium knows, with its terminating zero. */
#define LINK_NAME_BYTES 64

/* One host of several; false: that is enough. */
typedef bool link_visit_fn(void *ctx, const struct link_addr *host);

/* Implementation table; `struct link` is the first member of each implementation. */
struct link_class {
    const char *name; /* "udp", "ether", "loop", "fault" */
    /*
     * Send count packets, in order. Returns how many were taken (sent, or dropped by the medium:
     * loss is allowed, and counted); fewer than count means the medium is full: try again later.
     */
    unsigned (*send)(struct link *link, const struct link_tx *packets, unsigned count,
                     uint64_t now_ns);
    /*
     * Receive up to count packets without blocking. Returns how many (0 = nothing there). Every
     * packet is given back with release, in any order, possibly much later (held packets).
     */
    unsigned (*recv)(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns);
    void (*release)(struct link *link, void *buffer);
    /* Descriptor that becomes readable when recv has something; -1 if none. */
    int (*fd)(const struct link *link);
    /* When recv or send should be called although fd is silent (delayed packets); UINT64_MAX never */
    uint64_t (*deadline)(const struct link *link);
    void (*stats)(const struct link *link, struct link_stats *ret);
    /*
     * The address of a host by name, asked of the hosts on the medium; NULL: this link cannot ask.
     * Outcomes: 0 and *ret; -EAGAIN it is being asked for, come again soon; -ENOENT nobody has
     * answered; -EINVAL not a name; -EBUSY too many are being asked for; -ENETDOWN the link is down;
     * -EOPNOTSUPP it was told not to ask.
     */
    int (*find)(struct link *link, const char *name, uint64_t now_ns, struct link_addr *ret);
    /* The other way round: the name of a host, asked of itself; NULL as above. Outcomes as those of find
     * (-EINVAL: not an address of this medium), 0 and ret. */
    int (*name_of)(struct link *link, const struct link_addr *host, uint64_t now_ns,
                   char ret[LINK_NAME_BYTES]);
    /*
     * Calls back for each host that has answered a question of `find` or `name_of` lately, from place
     * `from` on, until visit says false; the address is good until the next call of the link. The place to
     * go on with; UINT32_MAX: that was all. NULL: this link cannot ask.
     */
    uint32_t (*known)(const struct link *link, uint32_t from, uint64_t now_ns, link_visit_fn *visit,
                      void *ctx);
    void (*close)(struct link *link);
};

/* Longest reason why a link is down, or does without something, with its terminating zero. */
#define LINK_WHY_BYTES     96
#define LINK_WITHOUT_BYTES (LINK_WHY_BYTES + 8)

/* What everybody may read. recv and send may change it; they count that in `changes`. */
struct link {
    const struct link_class *class;
    enum link_kind kind;
    struct link_addr self; /* own address; len 0 as long as it is not known */
    uint32_t packet_bytes; /* largest packet to be sent or received */
    uint32_t window_bytes; /* what one peer may have under way towards us without overrun */
    bool down;             /* what is sent now is lost */
    bool behind;           /* the last recv may have left packets there; not counted in changes */
    char why_down[LINK_WHY_BYTES]; /* "no such interface"; empty if not down */
    const char *how;               /* "xdp"; static; NULL: as its kind says */
    /* "xdp (reason)": was wanted and cannot be had; empty: nothing is missing */
    char without[LINK_WITHOUT_BYTES];
    uint32_t changes; /* of any field above since the link was opened */
};

/* What to open. Strings come from the configuration. */
struct link_udp_config {
    const char
        *address;  /* "192.0.2.1", "2001:db8::1", "fe80::1%eth0" (a link-local address needs its
                            interface); NULL = IPv4 address of the default route's interface */
    uint16_t port; /* UDP port, 1..65535 */
    uint32_t mtu;  /* interface MTU to assume, 0 = ask the interface of the address */
    uint32_t buffer_bytes; /* wanted SO_RCVBUF/SO_SNDBUF; less is logged */
    bool gso, gro;         /* use UDP_SEGMENT / UDP_GRO where the kernel has them */
    int inherited; /* a socket that may be bound to the address already; 0 = none. The link's now */
    /* Each socket that the link has bound, or NULL. */
    void (*opened)(void *ctx, int sock);
    void *opened_ctx;
};

/*
 * Open a UDP link. What may be repaired from outside is no failure: while no interface has the
 * address, the link is open and down. Outcomes: 0 and *ret; negative errno with a sentence for people
 * in err (-ENETUNREACH: address NULL and no default route; -EADDRINUSE: the port is taken).
 */
int link_udp_open(const struct link_udp_config *config, struct link **ret, char *err,
                  size_t err_bytes);

struct link_ether_config {
    const char *interface; /* "eth1" */
    uint16_t ethertype;    /* of our frames */
    uint16_t vlan;         /* 802.1Q VLAN to be in, 1..4094; 0 = untagged frames */
    uint32_t mtu;          /* use no more than this of the interface's MTU; 0 = all of it */
    uint32_t buffer_bytes; /* wanted size of the receive ring and of the send buffer */
    bool xdp;              /* past the network stack where the kernel lets us */
    const char *host_name; /* that it answers to when peers ask; NULL = neither asks nor answers */
    unsigned host_rank;    /* NICs of this host before it that have the same name */
    uint64_t seed;         /* random, for its questions */
};

/*
 * Open a link of raw Ethernet frames. Without XDP, if it was wanted, the link is the same but slower, and
 * the reason is logged. What may be repaired from outside is no failure: without the
 * interface, or without CAP_NET_RAW, the link is open and down. Outcomes: 0 and *ret; negative errno
 * with a sentence for people in err.
 */
int link_ether_open(const struct link_ether_config *config, struct link **ret, char *err,
                    size_t err_bytes);

/*
 * Open a link that reaches nobody but itself: for programs of one host without any network.
 * Outcomes: 0 and *ret; -ENOMEM.
 */
int link_loop_open(struct link **ret);

/* Faults as written in the configuration: "loss=1%,dup=0.1%,reorder=0.5%,delay=50us,seed=42". */
struct link_faults {
    double loss, dup, reorder, corrupt; /* probabilities 0..1 per packet sent */
    uint64_t delay_ns;                  /* every packet is delayed by so much */
    uint64_t jitter_ns;                 /* plus 0..jitter */
    bool blackhole;                     /* everything sent disappears */
    uint64_t seed;
};
/* Parse; outcomes: 0; -EINVAL with a sentence in err that names the bad word. */
int link_faults_parse(const char *text, struct link_faults *ret, char *err, size_t err_bytes);

/* Put the fault decorator in front of `inner` (which it then owns). 0 or -ENOMEM. */
int link_fault_wrap(struct link *inner, const struct link_faults *faults, struct link **ret);

/*
 * udp: "127.0.0.1:4794" <-> bytes; of IPv6 addresses "[::1]:4794" is written, and parsed by
 * link_addr_parse_as alone. Parse: 0 or -EINVAL; default_port is used where none is written.
 */
int link_addr_parse(const char *text, uint16_t default_port, struct link_addr *ret);
void link_addr_format(const struct link_addr *addr, char *buf, size_t buf_bytes);
bool link_addr_equal(const struct link_addr *a, const struct link_addr *b);

/* Are these names of one host: equal but for upper and lower case, or one without its domain? */
bool link_host_match(const char *a, const char *b);

/* Bytes of an interface's name with its terminating zero; the kernel's IF_NAMESIZE. */
#define LINK_SCOPE_BYTES 16

/* Room for an IPv6 address with brackets, port and scope, as text with its terminating zero. */
#define LINK_TEXT_BYTES 80

/*
 * Divide "fe80::1%eth0" or "[fe80::1%eth0]:4794" into the address and the interface behind the
 * percent sign; without one ret_scope is empty. Outcomes: 0; -EINVAL too long, or nothing behind the
 * sign.
 */
int link_addr_scope(const char *text, char ret_text[LINK_TEXT_BYTES],
                    char ret_scope[LINK_SCOPE_BYTES]);

/*
 * The own address of a udp link as configured, without port: "192.0.2.1", "2001:db8::1",
 * "fe80::1%eth0". It must be one host's; a link-local one, and no other, has its interface. Outcomes: 0;
 * -EINVAL.
 */
int link_addr_parse_own(const char *text, uint16_t port, enum link_kind *ret_kind,
                        struct link_addr *ret, char ret_scope[LINK_SCOPE_BYTES]);

/* Is it an IPv6 address that has a meaning on one interface only (fe80::/10)? */
bool link_addr_is_local(const struct link_addr *addr);

/*
 * The same for an address of any medium: "2001:db8::1" or "[2001:db8::1]:4794" for udp over IPv6 (of
 * one host: not ::, not a group, no IPv4 address in disguise; without scope), "aa:bb:cc:dd:ee:ff" for
 * ether (of one card: not broadcast, not multicast) and loop (its only address). Parse: 0 or -EINVAL.
 */
int link_addr_parse_as(enum link_kind kind, const char *text, uint16_t default_port,
                       struct link_addr *ret);
void link_addr_format_as(enum link_kind kind, const struct link_addr *addr, char *buf,
                         size_t buf_bytes);

#endif
