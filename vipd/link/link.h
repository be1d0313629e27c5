/*
 * Links: how packets leave this host and arrive at it. All kinds of links and the fault decorator
 * have the same small interface. A link does not look into packets.
 *
 * Owns: sockets, batching, segmentation offload, buffers of received packets.
 * Does not own: packet contents, checksums, retries. Only the thread that drives a NIC uses the
 * NIC's link.
 *
 * Packets between sessions of one NIC use the link only if the link has faults (vipd/nic/self.c).
 */
#ifndef VIPD_LINK_LINK_H
#define VIPD_LINK_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proto/limits.h"

/* The media. An address belongs to one medium: elsewhere the same bytes mean another host. */
enum link_kind {
#define LINK_KIND(number, row, help) number,
#include "vipd/link/kinds.def"
    LINK_KINDS /* number of kinds */
};
/* The name in the row of a kind (vipd/link/kinds.h), such as "udp" for both UDP kinds; static. */
const char *link_kind_name(enum link_kind kind);

/* Write "vipd: ..." and a line feed to stderr. If stderr cannot take the line at once, the line is
 * dropped (proto/line.h). Any thread. */
void link_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Host part of a VIPL address. udp: the address (4 bytes of IPv4 or 16 bytes of IPv6), then the
 * port (2 bytes), both in network order. The bytes do not contain the scope of a link-local address
 * (fe80::1%eth0), because each host numbers its interfaces itself. All link-local addresses of a
 * NIC are on the interface that has the NIC's own address.
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

/* One received packet. The caller may use its buffer until it calls link_class.release. */
struct link_rx {
    const struct link_addr *from; /* valid until the buffer is released */
    const uint8_t *bytes;
    uint32_t len;
    void *buffer; /* argument of link_class.release; several packets may share a buffer (GRO) */
    bool scarce;  /* few buffers are free: release this buffer at once, do not keep it */
};

/* Counters of a link; proto/stats.def has their meanings. A link fills the counters that it has. */
struct link_stats {
#define VIP_STAT_OF_LINK(member, name) uint64_t member;
#include "proto/stats.def"
};

struct link;

/* The paths of packets to one host. */
struct link_path_view {
    unsigned paths;    /* number of paths of the NIC; 1: the members below are 0 */
    unsigned path;     /* number of the path that packets take; the first path has number 1 */
    uint64_t since_ns; /* when packets began to take this path; 0: no packet was sent yet */
    unsigned answer;   /* bit i - 1: path i has answered, and is not silent now */
};

/* Bytes of the longest host name on a medium, with its terminating zero. */
#define LINK_NAME_BYTES 64

/* Called once for each host. Returns false to end the calls. */
typedef bool link_visit_fn(void *ctx, const struct link_addr *host);

/* Called with the address `addr` of `host` on a path other than 0. */
typedef void link_path_fn(void *ctx, const struct link_addr *host, unsigned path,
                          const struct link_addr *addr);

/* The functions of one implementation, whose first member is a `struct link`. */
struct link_class {
    const char *name; /* "udp", "ether", "loop", "fault", "paths" */
    /*
     * Send count packets, in order. Returns the number of packets taken: sent, or dropped by the
     * medium (loss is allowed, and counted). If below count, the medium is full: try again later.
     */
    unsigned (*send)(struct link *link, const struct link_tx *packets, unsigned count,
                     uint64_t now_ns);
    /*
     * Receive up to count packets without blocking. Returns their number. The caller gives each
     * packet back with release, in any order, possibly much later (held packets).
     */
    unsigned (*recv)(struct link *link, struct link_rx *packets, unsigned count, uint64_t now_ns);
    void (*release)(struct link *link, void *buffer);
    /* Descriptor that becomes readable when recv has something; -1 if none. */
    int (*fd)(const struct link *link);
    /* When to call recv or send although fd is not readable (delayed packets); UINT64_MAX: never */
    uint64_t (*deadline)(const struct link *link);
    void (*stats)(const struct link *link, struct link_stats *ret);
    /*
     * Ask the hosts on the medium for the address of a host by name; NULL: this link cannot ask.
     * Outcomes: 0 and *ret; -EAGAIN the question is under way, call again soon; -ENOENT no host has
     * answered; -EINVAL not a name; -EBUSY too many questions are under way; -ENETDOWN the link is
     * down; -EOPNOTSUPP the configuration forbids questions.
     */
    int (*find)(struct link *link, const char *name, uint64_t now_ns, struct link_addr *ret);
    /* Ask a host for its name by its address; NULL: this link cannot ask. Outcomes: 0 and ret; else
     * the outcomes of find (-EINVAL: not an address of this medium). */
    int (*name_of)(struct link *link, const struct link_addr *host, uint64_t now_ns,
                   char ret[LINK_NAME_BYTES]);
    /*
     * Call visit for each host with a valid answer to `find` or `name_of`, from index `from` on,
     * until visit returns false. The address is valid until the next call of the link. Returns the
     * index for the next call; UINT32_MAX: no more hosts. NULL: this link cannot ask.
     */
    uint32_t (*known)(const struct link *link, uint32_t from, uint64_t now_ns, link_visit_fn *visit,
                      void *ctx);
    /* Fill in *ret for a host. NULL: the link has one path. */
    void (*see_path)(const struct link *link, const struct link_addr *host,
                     struct link_path_view *ret);
    /* For the next vipd. visit_paths: call visit for each address that has answered on a path other
     * than 0. remember_path: learn such an address from an earlier vipd. NULL: one path. */
    void (*visit_paths)(const struct link *link, link_path_fn *visit, void *ctx);
    void (*remember_path)(struct link *link, const struct link_addr *host, unsigned path,
                          const struct link_addr *addr);
    void (*close)(struct link *link);
};

/* Bytes of the longest reason why a link is down or lacks a feature, with its terminating zero. */
#define LINK_WHY_BYTES     96
#define LINK_WITHOUT_BYTES (LINK_WHY_BYTES + 8)

/* The part of a link that its NIC may read. recv and send may change this part. */
struct link {
    const struct link_class *class;
    enum link_kind kind;
    struct link_addr self; /* own address; len 0: not known yet */
    uint32_t packet_bytes; /* bytes of the largest packet to be sent or received */
    uint32_t window_bytes; /* bytes from one peer that may be under way to this host without loss */
    bool down;             /* packets sent now are usually lost */
    bool behind;           /* the last recv may have left packets; not counted in `changes` */
    char why_down[LINK_WHY_BYTES]; /* the reason: "no such interface"; empty if not down */
    const char *how;               /* "xdp", static; NULL: packets go the usual way of this kind */
    /* "xdp (reason)": configured but not available; empty: nothing is missing */
    char without[LINK_WITHOUT_BYTES];
    uint32_t changes; /* number of changes of the fields above since the link was opened */
};

/* Fill in *ret for a host, for any link. */
static inline void link_see_path(const struct link *link, const struct link_addr *host,
                                 struct link_path_view *ret)
{
    *ret = (struct link_path_view){.paths = 1};
    if (link->class->see_path)
        link->class->see_path(link, host, ret);
}

/* Configuration of a UDP link; strings as in vipd's configuration. */
struct link_udp_config {
    const char
        *address;  /* "192.0.2.1", "2001:db8::1", "fe80::1%eth0" (a link-local address needs its
                            interface); NULL = IPv4 address of the default route's interface */
    uint16_t port; /* UDP port, 1..65535 */
    uint32_t mtu;  /* interface MTU to assume, 0 = ask the interface of the address */
    uint32_t buffer_bytes; /* wanted SO_RCVBUF/SO_SNDBUF; a smaller receive buffer is logged */
    bool gso, gro;         /* use UDP_SEGMENT / UDP_GRO where the kernel has them */
    int inherited;         /* socket of an earlier vipd, which the link then owns; 0 = none */
    /* Called with each socket that the link binds. Called with -1 when the link closes such a
     * socket, or an inherited socket that does not fit. May be NULL. */
    void (*opened)(void *ctx, int sock);
    void *opened_ctx;
};

/*
 * Open a UDP link. While no interface has the address, the link is open and down; this is no
 * failure. Outcomes: 0 and *ret; negative errno with a sentence for people in err (-ENETUNREACH:
 * address NULL and no default route; -EADDRINUSE: the port is in use).
 */
int link_udp_open(const struct link_udp_config *config, struct link **ret, char *err,
                  size_t err_bytes);

struct link_ether_config {
    const char *interface; /* "eth1" */
    uint16_t ethertype;    /* EtherType of our frames */
    uint16_t vlan;         /* 802.1Q VLAN to be in, 1..4094; 0 = untagged frames */
    uint32_t mtu;          /* upper limit for the interface's MTU; 0 = none */
    uint32_t buffer_bytes; /* wanted size of the receive ring and of the send buffer */
    bool xdp;              /* bypass the network stack if the kernel allows it */
    const char *host_name; /* name of this host for peers; NULL = neither ask peers nor answer */
    bool in_use;           /* the vipd from which this one takes over still uses the interface */
    unsigned host_rank;    /* number of earlier NICs of this host with the same name */
    uint64_t seed;         /* random number, for questions to peers */
};

/*
 * Open a link of raw Ethernet frames. If XDP is configured but not available, the link works
 * without it, slower, and logs the reason. Without the interface, or without CAP_NET_RAW, the link
 * is open and down; this is no failure. Outcomes: 0 and *ret; negative errno with a sentence for
 * people in err.
 */
int link_ether_open(const struct link_ether_config *config, struct link **ret, char *err,
                    size_t err_bytes);

/*
 * Open a link that reaches only itself: for programs of one host without any network.
 * Outcomes: 0 and *ret; -ENOMEM.
 */
int link_loop_open(struct link **ret);

/* Planted errors, in the configuration "loss=1%,dup=0.1%,reorder=0.5%,delay=50us,seed=42". */
struct link_faults {
    double loss, dup, reorder, corrupt; /* probabilities 0..1 per packet sent */
    uint64_t delay_ns;                  /* delay of every packet */
    uint64_t jitter_ns;                 /* largest random time to add to the delay */
    bool blackhole;                     /* all packets sent are lost */
    uint64_t seed;
};
/* Parse the text of faults. Outcomes: 0; -EINVAL with a sentence in err that names the bad word. */
int link_faults_parse(const char *text, struct link_faults *ret, char *err, size_t err_bytes);

/* Put the fault decorator in front of `inner`; the decorator then owns `inner`. 0 or -ENOMEM. */
int link_fault_wrap(struct link *inner, const struct link_faults *faults, struct link **ret);

/*
 * Convert the text of a udp address ("127.0.0.1:4794") to bytes, and bytes to text. An IPv6 address
 * becomes "[::1]:4794", which only link_addr_parse_as parses. Parse: 0 or -EINVAL; default_port is
 * used if the text has no port.
 */
int link_addr_parse(const char *text, uint16_t default_port, struct link_addr *ret);
void link_addr_format(const struct link_addr *addr, char *buf, size_t buf_bytes);
bool link_addr_equal(const struct link_addr *a, const struct link_addr *b);

/* Do both names mean one host: are they equal (in any case), or is one the other without domain? */
bool link_host_match(const char *a, const char *b);

/* Bytes of an interface's name with its terminating zero; the kernel's IF_NAMESIZE. */
#define LINK_SCOPE_BYTES 16

/* Room for an IPv6 address with brackets, port and scope, as text with its terminating zero. */
#define LINK_TEXT_BYTES 80

/*
 * Divide "fe80::1%eth0" or "[fe80::1%eth0]:4794" into the address and the interface after the
 * percent sign; without a percent sign ret_scope is empty. Outcomes: 0; -EINVAL the text is too
 * long, or has no interface after the sign.
 */
int link_addr_scope(const char *text, char ret_text[LINK_TEXT_BYTES],
                    char ret_scope[LINK_SCOPE_BYTES]);

/*
 * The own address of a udp link as configured, without port: "192.0.2.1", "2001:db8::1",
 * "fe80::1%eth0". It must be the address of one host. A link-local address must have an interface,
 * any other address must not. Outcomes: 0; -EINVAL.
 */
int link_addr_parse_own(const char *text, uint16_t port, enum link_kind *ret_kind,
                        struct link_addr *ret, char ret_scope[LINK_SCOPE_BYTES]);

/* Is addr an IPv6 address that is valid on one interface only (fe80::/10)? */
bool link_addr_is_local(const struct link_addr *addr);

/*
 * As link_addr_parse and link_addr_format, for an address of any kind of link. udp over IPv6:
 * "2001:db8::1" or "[2001:db8::1]:4794", of one host (not ::, no group, no mapped IPv4 address),
 * without scope. ether and loop: "aa:bb:cc:dd:ee:ff", of one card (not broadcast, not multicast).
 * Parse: 0 or -EINVAL.
 */
int link_addr_parse_as(enum link_kind kind, const char *text, uint16_t default_port,
                       struct link_addr *ret);
void link_addr_format_as(enum link_kind kind, const struct link_addr *addr, char *buf,
                         size_t buf_bytes);

#endif
