/*
 * The Ethernet link: opening, following its interface, closing (vipd/link/link.h; inside:
 * vipd/link/ether.h).
 *
 * Owns: the packet socket, the state of the link, its log messages. The socket is opened once, with
 * CAP_NET_RAW; all later actions need no privilege, so vipd may drop it.
 */
#include "vipd/link/ether.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "vipd/link/news.h"
#include "vipd/link/xdp.h"

/* Bytes of the ring and of the send buffer if the configuration sets none. */
#define DEFAULT_BUFFER_BYTES (4u << 20)

/* Limit for log messages of an interface that flaps: this many at once, then one per interval. */
#define LOG_BURST       30
#define LOG_INTERVAL_NS 2000000000ull

/* ---- class ------------------------------------------------------------------------------- */

static int ether_fd(const struct link *link)
{
    return ((const struct ether *)link)->epoll;
}

static uint64_t ether_deadline(const struct link *link)
{
    const struct ether *ether = (const struct ether *)link;

    uint64_t due_ns = ether->peers ? ether_peers_deadline(ether->peers) : UINT64_MAX;

    if (!link->down && ether->xdp_kick_ns < due_ns)
        due_ns = ether->xdp_kick_ns;
    /* A send error sets `look`: check the interface soon. */
    return ether->look && ether->next_ns < due_ns ? ether->next_ns : due_ns;
}

static void ether_stats(const struct link *link, struct link_stats *ret)
{
    const struct ether *ether = (const struct ether *)link;

    *ret = ether->stats;
    if (ether->xdp)
        ret->drop_ring_full += xdp_losses(ether->xdp);
}

static void ether_close(struct link *link)
{
    struct ether *ether = (struct ether *)link;

    ether_xdp_stop(ether);
    if (ether->sock >= 0)
        ether_ring_close(ether);
    if (ether->epoll >= 0)
        close(ether->epoll);
    if (ether->watch >= 0)
        close(ether->watch);
    if (ether->sock >= 0)
        close(ether->sock);
    free(ether->peers);
    free(ether);
}

static const struct link_class ether_class = {
    .name = "ether",
    .send = ether_send,
    .recv = ether_recv,
    .release = ether_release,
    .fd = ether_fd,
    .deadline = ether_deadline,
    .stats = ether_stats,
    .find = ether_find,
    .name_of = ether_name_of,
    .known = ether_known,
    .close = ether_close,
};

/* ---- state ------------------------------------------------------------------------------- */

static bool may_log(struct ether *ether, uint64_t now_ns)
{
    if (now_ns - ether->log_ns >= LOG_INTERVAL_NS) {
        ether->log_ns = now_ns;
        if (ether->log_tokens < LOG_BURST)
            ether->log_tokens++;
    }
    if (ether->log_tokens == 0)
        return false;
    ether->log_tokens--;
    return true;
}

/* Set the link's state from the result of a look; an empty reason means up. */
static void set_state(struct ether *ether, uint64_t now_ns, const char *why)
{
    struct link *link = &ether->link;
    bool down = why[0] != '\0';
    char self[64];

    link->changes++;
    ether->stats.state_changes++;
    link->down = down;
    snprintf(link->why_down, sizeof(link->why_down), "%s", why);
    if (!may_log(ether, now_ns))
        return;
    link_addr_format_as(link->kind, &link->self, self, sizeof(self));
    if (down)
        fprintf(stderr, "vipd: ether %s: down (%s)\n", ether->interface, link->why_down);
    else
        fprintf(stderr, "vipd: ether %s: up, address %s, packets of at most %u bytes\n",
                ether->interface, self, (unsigned)link->packet_bytes);
}

__attribute__((format(printf, 2, 3))) static bool reason(char why[LINK_WHY_BYTES],
                                                         const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, LINK_WHY_BYTES, format, args);
    va_end(args);
    return false;
}

/* No interface has the configured name: take no frames from the one that had it. */
static void leave(struct ether *ether, char why[LINK_WHY_BYTES])
{
    char name[IF_NAMESIZE], ignored[LINK_WHY_BYTES];

    if (ether->bound)
        ether->left = ether->bound;
    if (ether->left && ether_if_name(ether->sock, ether->left, name))
        reason(why, "no such interface: %s is called %s now", ether->interface, name);
    else
        reason(why, "no such interface");
    ether_filter(ether->sock, NULL, ignored, sizeof(ignored));
    if (!ether_xdp_stop(ether))
        ether->look = true;
    ether->bound = 0;
}

/* Bind to the interface as it is now. */
static bool enter(struct ether *ether, const struct ether_if *now, char why[LINK_WHY_BYTES])
{
    struct sockaddr_ll addr = {
        .sll_family = AF_PACKET,
        /* A socket for one EtherType costs other traffic nothing, but does not show the VLAN of its
         * frames. So with a VLAN the socket gets all frames, and the filter selects. */
        .sll_protocol = htons(ether->want.vlan ? ETH_P_ALL : ether->want.ethertype),
        .sll_ifindex = now->index};
    struct ether_want want = ether->want;

    memcpy(want.mac, now->mac, sizeof(want.mac));
    if (ether_filter(ether->sock, &want, why, LINK_WHY_BYTES) < 0)
        return false;
    /* While the kernel changed the ring it missed an interface that came up. A bind to the present
     * protocol and interface does nothing, so bind to another protocol first. */
    if (ether->rebind && ether->bound == now->index) {
        struct sockaddr_ll other = addr;

        other.sll_protocol = htons(ETH_P_LOOPBACK);
        bind(ether->sock, (const struct sockaddr *)&other, sizeof(other));
    }
    if (bind(ether->sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return reason(why, "cannot be bound: %s", strerror(errno));
    if (ether->bound != now->index && want.vlan == 0 &&
        ether_if_shared(ether->sock, now->index, want.ethertype))
        fprintf(
            stderr,
            "vipd: ether %s: another program takes frames of EtherType %04x there, too. If it is "
            "a vipd, give one of both another ethertype: they answer each other's packets, and "
            "connections end\n",
            ether->interface, want.ethertype);
    ether->want = want;
    ether->bound = now->index;
    ether->rebind = false;
    ether->link.self.len = ETHER_MAC_BYTES;
    memcpy(ether->link.self.bytes, now->mac, ETHER_MAC_BYTES);
    return true;
}

/* Set the sizes that follow from the MTU. */
static bool size(struct ether *ether, uint32_t mtu, char why[LINK_WHY_BYTES])
{
    uint32_t packet_bytes;
    int r;

    if (ether->mtu_max && mtu > ether->mtu_max)
        mtu = ether->mtu_max;
    if (mtu < VIP_PACKET_BYTES_MIN + ETHER_HEAD_BYTES)
        return reason(why, "an MTU of %u is too small; at least %u is needed", (unsigned)mtu,
                      (unsigned)(VIP_PACKET_BYTES_MIN + ETHER_HEAD_BYTES));
    packet_bytes = mtu - ETHER_HEAD_BYTES;
    if (packet_bytes > VIP_PACKET_BYTES_MAX)
        packet_bytes = VIP_PACKET_BYTES_MAX;
    if (!ether_ring_fits(ether, mtu)) {
        /* Packets of the old ring are still handed out: try again soon. */
        if (ether->ring.out > 0) {
            ether->look = true;
            return true;
        }
        r = ether_ring_open(ether, mtu);
        ether->rebind = true;
        if (r < 0)
            return reason(why, "no receive ring: %s", strerror(-r));
    }
    ether->link.packet_bytes = packet_bytes;
    ether->link.window_bytes = ether_ring_window(ether, packet_bytes);
    return true;
}

/* Look at the interface. Whether the link can be up; else why not. */
static bool look(struct ether *ether, char why[LINK_WHY_BYTES])
{
    struct ether_if now;

    ether_if_look(ether->sock, ether->interface, &now);
    if (now.index == 0) {
        leave(ether, why);
        return false;
    }
    if (!now.ethernet)
        return reason(why, "not an Ethernet device");
    if (!size(ether, now.mtu, why))
        return false;
    if ((now.index != ether->bound || ether->rebind ||
         memcmp(now.mac, ether->want.mac, ETHER_MAC_BYTES) != 0) &&
        !enter(ether, &now, why))
        return false;
    if (!ether_xdp_follow(ether, &now))
        ether->look = true;
    if (ether->xdp &&
        ether->link.window_bytes > xdp_window_packets(ether->xdp) * ether->link.packet_bytes)
        ether->link.window_bytes = xdp_window_packets(ether->xdp) * ether->link.packet_bytes;
    if (!now.up)
        return reason(why, "the interface is down");
    if (!now.running)
        return reason(why, "no carrier");
    return true;
}

/* Look at the interface, and set the state if anything is different. */
static void update(struct ether *ether, uint64_t now_ns)
{
    struct link before = ether->link;
    char why[LINK_WHY_BYTES] = "";

    look(ether, why);
    if (strcmp(why, before.why_down) != 0 || before.how != ether->link.how ||
        strcmp(before.without, ether->link.without) != 0 ||
        before.packet_bytes != ether->link.packet_bytes ||
        !link_addr_equal(&before.self, &ether->link.self))
        set_state(ether, now_ns, why);
}

/* Count frames that the kernel had no room for; reading its counter resets it. */
static void count_losses(struct ether *ether)
{
    struct tpacket_stats losses;
    socklen_t len = sizeof(losses);

    if (getsockopt(ether->sock, SOL_PACKET, PACKET_STATISTICS, &losses, &len) == 0)
        ether->stats.drop_ring_full += losses.tp_drops;
}

void ether_check(struct ether *ether, uint64_t now_ns)
{
    socklen_t len = sizeof(int);
    int err = 0;

    if (ether->sock < 0 || now_ns < ether->next_ns)
        return;
    ether->next_ns = now_ns + ETHER_CHECK_NS;
    count_losses(ether);
    /* A pending error would keep the descriptor readable. */
    if (getsockopt(ether->sock, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err)
        ether->look = true;
    if (!link_news_read(ether->watch) && !ether->look)
        return;
    ether->look = false;
    update(ether, now_ns);
}

/* ---- opening ------------------------------------------------------------------------------ */

__attribute__((format(printf, 4, 5))) static int failed(int rc, char *err, size_t err_bytes,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (err && err_bytes > 0)
        vsnprintf(err, err_bytes, format, args);
    va_end(args);
    return rc;
}

static int watch_both(struct ether *ether)
{
    struct epoll_event event = {.events = EPOLLIN};

    ether->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (ether->epoll < 0 || epoll_ctl(ether->epoll, EPOLL_CTL_ADD, ether->sock, &event) < 0 ||
        epoll_ctl(ether->epoll, EPOLL_CTL_ADD, ether->watch, &event) < 0)
        return -errno;
    return 0;
}

static void set_options(struct ether *ether)
{
    int version = TPACKET_V2, one = 1;
    int bytes = ether->buffer_bytes < 1u << 30 ? (int)ether->buffer_bytes : 1 << 30;

    setsockopt(ether->sock, SOL_PACKET, PACKET_VERSION, &version, sizeof(version));
    /* With a VLAN the socket gets all frames; exclude those that this host sends. */
    setsockopt(ether->sock, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
    if (setsockopt(ether->sock, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
        setsockopt(ether->sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* Set up questions to peers and answers to them. 0 or -ENOMEM. */
static int use_peers(struct ether *ether, const struct link_ether_config *config)
{
    if (!config->host_name)
        return 0;
    ether->peers = malloc(sizeof(*ether->peers));
    if (!ether->peers)
        return -ENOMEM;
    ether_peers_init(ether->peers, config->host_name, NULL, &ether->stats, config->seed);
    ether->peers->rank = config->host_rank;
    ether->want.peers = true;
    return 0;
}

/* Open the packet socket. Outcomes: 0, sock is -1 if the capability is missing; negative errno. */
static int open_socket(struct ether *ether, char *err, size_t err_bytes)
{
    ether->sock = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (ether->sock < 0 && errno != EPERM && errno != EACCES)
        return failed(-errno, err, err_bytes, "cannot make a packet socket: %s", strerror(errno));
    if (ether->sock < 0) {
        ether->link.down = true;
        snprintf(ether->link.why_down, sizeof(ether->link.why_down), "CAP_NET_RAW is missing");
        ether_if_explain(ether->interface);
        return 0;
    }
    set_options(ether);
    ether->watch = link_news_open(false);
    if (ether->watch < 0)
        return failed(ether->watch, err, err_bytes, "cannot watch interfaces: %s",
                      strerror(-ether->watch));
    if (watch_both(ether) < 0)
        return failed(-errno, err, err_bytes, "cannot watch sockets: %s", strerror(errno));
    return 0;
}

int link_ether_open(const struct link_ether_config *config, struct link **ret, char *err,
                    size_t err_bytes)
{
    struct ether *ether;
    int rc;

    if (config->vlan > 4094 || config->ethertype < 0x0600)
        return failed(-EINVAL, err, err_bytes,
                      "an EtherType begins at 0x0600, a VLAN is 1 to 4094");
    if (config->interface[0] == '\0' || strlen(config->interface) >= IF_NAMESIZE)
        return failed(-EINVAL, err, err_bytes, "\"%s\" is not the name of an interface",
                      config->interface);
    ether = calloc(1, sizeof(*ether));
    if (!ether)
        return failed(-ENOMEM, err, err_bytes, "out of memory");
    ether->link.class = &ether_class;
    ether->link.kind = LINK_ETHER;
    snprintf(ether->interface, sizeof(ether->interface), "%s", config->interface);
    ether->want.ethertype = config->ethertype;
    ether->want.vlan = config->vlan;
    ether->mtu_max = config->mtu;
    ether->buffer_bytes = config->buffer_bytes ? config->buffer_bytes : DEFAULT_BUFFER_BYTES;
    ether->want_xdp = config->xdp;
    ether->xdp_kick_ns = UINT64_MAX;
    ether->sock = ether->watch = ether->epoll = -1;
    rc = use_peers(ether, config);
    if (rc < 0)
        failed(rc, err, err_bytes, "out of memory");
    else
        rc = open_socket(ether, err, err_bytes);
    if (rc < 0) {
        ether_close(&ether->link);
        return rc;
    }
    if (ether->sock >= 0)
        update(ether, 0); /* the caller logs the first state; changes are logged here */
    ether->log_tokens = LOG_BURST;
    *ret = &ether->link;
    return 0;
}
