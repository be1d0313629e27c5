/*
 * The Ethernet link: opening and closing (vipd/link/link.h; inside: vipd/link/ether.h).
 *
 * Owns: the packet socket. vipd opens the socket once, with CAP_NET_RAW. All later actions on the
 * socket need no privilege, so vipd may drop the capability.
 */
#include "vipd/link/ether.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <linux/if_ether.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "vipd/link/kinds.h"
#include "vipd/link/news.h"
#include "vipd/link/xdp.h"

/* Size in bytes of the ring, and of the send buffer, if the configuration sets no size. */
#define DEFAULT_BUFFER_BYTES (4u << 20)

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
    /* With a VLAN the socket gets all frames; exclude the frames that this host sends. */
    setsockopt(ether->sock, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
    if (setsockopt(ether->sock, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)) < 0)
        setsockopt(ether->sock, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

/* Prepare for questions to peers and for questions from peers. Returns 0 or -ENOMEM. */
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

/* Open the packet socket. Outcomes: 0 (sock is -1 if the capability is missing); negative errno. */
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
    ether->in_use = config->in_use;
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
        ether_update(ether, 0); /* logs nothing, because log_tokens is 0; the caller logs */
    ether->in_use = false;
    ether->log_tokens = ETHER_LOG_BURST;
    *ret = &ether->link;
    return 0;
}

/* ---- the row of the table ------------------------------------------------------------------ */

static const char *const known_keys[] = {"paths",     "mtu",      "buffer", "interface",
                                         "ethertype", "announce", "vlan",   NULL};

/* Set the interface of one path to `word`. false: the kernel allows no interface with this name. */
static bool path(const char *word, struct link_keys *ret)
{
    size_t len = strlen(word);

    if (len == 0 || len >= sizeof(ret->interface) || strcmp(word, ".") == 0 ||
        strcmp(word, "..") == 0 || strpbrk(word, "/: \t"))
        return false;
    snprintf(ret->interface, sizeof(ret->interface), "%s", word);
    return true;
}

static const char *lacks(const struct link_keys *keys)
{
    return keys->interface[0] == '\0' ? "interface = NAME" : NULL;
}

static const char *clash(const struct link_keys *a, const struct link_keys *b)
{
    return a->ethertype == b->ethertype && a->vlan == b->vlan &&
                   strcmp(a->interface, b->interface) == 0
               ? "the same interface, EtherType and VLAN"
               : NULL;
}

/* Can both NICs answer the same question for a name? Such rivals answer in a fixed order, so that
 * peers, which use the first answer, always find the same NIC. */
static bool rivals(const struct link_keys *a, const struct link_keys *b)
{
    return a->ethertype == b->ethertype && a->vlan == b->vlan &&
           strcasecmp(a->announce, b->announce) == 0;
}

/* Returns the name to which this NIC answers; NULL: it answers to no name. */
static const char *announced(const struct link_wish *wish, char own[HOST_NAME_MAX + 1])
{
    char line[256];

    if (strcmp(wish->keys->announce, "none") == 0)
        return NULL;
    if (wish->keys->announce[0] != '\0')
        return wish->keys->announce;
    own[0] = '\0';
    if (gethostname(own, HOST_NAME_MAX) < 0) {
        snprintf(line, sizeof(line), "%s: this host's name is unknown: %s", wish->nic,
                 strerror(errno));
        wish->warn(line);
    }
    own[HOST_NAME_MAX] = '\0';
    return own;
}

static int open_wish(const struct link_wish *wish, struct link **ret, char *err, size_t err_bytes)
{
    const struct link_keys *keys = wish->keys;
    char own[HOST_NAME_MAX + 1];
    struct link_ether_config config = {
        .interface = keys->interface,
        .ethertype = (uint16_t)keys->ethertype,
        .vlan = (uint16_t)keys->vlan,
        .mtu = (uint32_t)keys->mtu,
        .buffer_bytes = (uint32_t)keys->buffer_bytes,
        .xdp = keys->variant,
        .host_name = announced(wish, own),
        .in_use = wish->in_use,
        .host_rank = wish->rank,
    };

    if (!wish->random(&config.seed))
        return failed(-EIO, err, err_bytes, "the kernel gives no random numbers");
    return link_ether_open(&config, ret, err, err_bytes);
}

const struct link_kind_row link_ether_row = {
    .name = "ether",
    /* xdp is the same medium: hosts with ether and hosts with xdp reach each other. */
    .variant = "xdp",
    .keys = known_keys,
    .path = path,
    .path_key = "interface",
    .sample = "A second NIC, on raw Ethernet. Addresses of hosts are those of the cards (MAC).",
    .lacks = lacks,
    .clash = clash,
    .rivals = rivals,
    .open = open_wish,
    .overhead = ETHER_HEAD_BYTES, /* an MTU does not count the Ethernet header */
    .source_bytes = LINK_MAC_BYTES,
    .parse = link_mac_parse,
    .format = link_mac_format,
    .sends_to_self = false, /* a frame to the host's own card does not come back */
};
