/*
 * The UDP link over IPv4 and IPv6: opening and closing (vipd/link/link.h; inside: vipd/link/udp.h).
 */
#include "vipd/link/udp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "vipd/link/kinds.h"
#include "vipd/link/news.h"

/* Bytes of a socket buffer if the configuration sets no size. */
#define DEFAULT_BUFFER_BYTES (4u << 20)

#define FALLBACK_ADDRESS "127.0.0.1" /* address of a host without a network */

static int udp_fd(const struct link *link)
{
    return ((const struct udp *)link)->epoll;
}

static uint64_t udp_deadline(const struct link *link)
{
    const struct udp *udp = (const struct udp *)link;

    /* Packets that are already in memory need recv now, but do not make the descriptor readable. */
    return udp_rx_pending(udp) ? 0 : udp->look_ns;
}

static void udp_stats(const struct link *link, struct link_stats *ret)
{
    const struct udp *udp = (const struct udp *)link;

    *ret = udp->stats;
    ret->rx_spare_bytes = udp_pool_spare_bytes(&udp->small) + udp_pool_spare_bytes(&udp->large);
}

static void udp_close(struct link *link)
{
    struct udp *udp = (struct udp *)link;

    udp_rx_drain(udp);
    udp_sock_close(udp);
    if (udp->inherited >= 0)
        close(udp->inherited);
    if (udp->epoll >= 0)
        close(udp->epoll);
    if (udp->news >= 0)
        close(udp->news);
    free(udp);
}

static const struct link_class udp_class = {
    .name = "udp",
    .send = udp_send,
    .recv = udp_recv,
    .release = udp_release,
    .fd = udp_fd,
    .deadline = udp_deadline,
    .stats = udp_stats,
    .close = udp_close,
};

/* ---- opening ------------------------------------------------------------------------------ */

/* Write into err why opening failed; returns rc. */
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

/* Use the address of the default route's interface: the configuration has no address. */
static int choose_default(struct udp *udp, uint16_t port, char *err, size_t err_bytes)
{
    struct in_addr in;

    if (udp_if_default_address(&in) < 0)
        return failed(-ENETUNREACH, err, err_bytes,
                      "there is no default route to take the address of; set one with "
                      "\"address = ...\"");
    udp->own.len = sizeof(in) + sizeof(port);
    memcpy(udp->own.bytes, &in, sizeof(in));
    udp->own.bytes[4] = (uint8_t)(port >> 8);
    udp->own.bytes[5] = (uint8_t)port;
    return 0;
}

/* Set the link's own address from the configuration or from the default route. */
static int choose_address(struct udp *udp, const struct link_udp_config *config, char *err,
                          size_t err_bytes)
{
    if (config->port == 0)
        return failed(-EINVAL, err, err_bytes, "the UDP port is missing");
    if (!config->address)
        return choose_default(udp, config->port, err, err_bytes);
    if (link_addr_parse_own(config->address, config->port, &udp->link.kind, &udp->own, udp->scope) <
        0)
        return failed(
            -EINVAL, err, err_bytes,
            "\"%s\" is not the IP address of one host (a link-local one is written with its "
            "interface, such as fe80::1%%eth0, and no other is)",
            config->address);
    return 0;
}

static struct udp *udp_new(const struct link_udp_config *config)
{
    struct udp *udp = calloc(1, sizeof(*udp));

    if (!udp)
        return NULL;
    udp->link.class = &udp_class;
    udp->rx_used = UDP_RX_BATCH;
    udp->small = (struct udp_pool){.max = UDP_SMALL_MAX};
    udp->large = (struct udp_pool){.max = UDP_LARGE_MAX, .large = true};
    udp->mtu = config->mtu;
    udp->buffer_bytes = config->buffer_bytes ? config->buffer_bytes : DEFAULT_BUFFER_BYTES;
    udp->want_gso = config->gso;
    udp->want_gro = config->gro;
    udp->look_ns = UINT64_MAX;
    udp->sock = udp->news = udp->epoll = -1;
    udp->inherited = config->inherited > 0 ? config->inherited : -1;
    udp->opened = config->opened;
    udp->opened_ctx = config->opened_ctx;
    return udp;
}

static int watch(struct udp *udp)
{
    struct epoll_event event = {.events = EPOLLIN};

    udp->news = link_news_open(true);
    if (udp->news < 0)
        return udp->news;
    udp->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (udp->epoll < 0 || epoll_ctl(udp->epoll, EPOLL_CTL_ADD, udp->news, &event) < 0)
        return -errno;
    return 0;
}

int link_udp_open(const struct link_udp_config *config, struct link **ret, char *err,
                  size_t err_bytes)
{
    struct udp *udp = udp_new(config);
    char own[LINK_TEXT_BYTES];
    int rc;

    if (!udp)
        return failed(-ENOMEM, err, err_bytes, "out of memory");
    rc = choose_address(udp, config, err, err_bytes);
    if (rc < 0)
        goto fail;
    if (udp->mtu && udp->mtu < VIP_PACKET_BYTES_MIN + udp_overhead(udp)) {
        rc = failed(-EINVAL, err, err_bytes, "an MTU of %u is too small; at least %u is needed",
                    (unsigned)udp->mtu, (unsigned)(VIP_PACKET_BYTES_MIN + udp_overhead(udp)));
        goto fail;
    }
    rc = watch(udp);
    if (rc < 0) {
        failed(rc, err, err_bytes, "cannot watch interfaces: %s", strerror(-rc));
        goto fail;
    }
    rc = udp_update(udp, true);
    if (!udp_lasting(rc)) {
        link_addr_format(&udp->own, own, sizeof(own));
        failed(rc, err, err_bytes, "%s %s", own, udp->link.why_down);
        goto fail;
    }
    *ret = &udp->link;
    return 0;
fail:
    udp_close(&udp->link);
    return rc;
}

/* ---- the rows of the table ----------------------------------------------------------------- */

static const char *const known_keys[] = {"address", "paths", "port", "mtu",
                                         "buffer",  "gso",   "gro",  NULL};

static enum link_kind settle(const struct link_keys *keys)
{
    return strchr(keys->address, ':') ? LINK_UDP6 : LINK_UDP;
}

static bool path(const char *word, struct link_keys *ret)
{
    char scope[LINK_SCOPE_BYTES];
    struct link_addr addr;
    enum link_kind kind;

    if (strlen(word) >= sizeof(ret->address) ||
        link_addr_parse_own(word, (uint16_t)ret->port, &kind, &addr, scope) < 0)
        return false;
    snprintf(ret->address, sizeof(ret->address), "%s", word);
    return true;
}

static const char *clash(const struct link_keys *a, const struct link_keys *b)
{
    return a->port == b->port && strcmp(a->address, b->address) == 0 ? "the same address and port"
                                                                     : NULL;
}

static int open_wish(const struct link_wish *wish, struct link **ret, char *err, size_t err_bytes)
{
    const struct link_keys *keys = wish->keys;
    struct link_udp_config config = {
        .address = keys->address[0] != '\0' ? keys->address : NULL,
        .port = (uint16_t)keys->port,
        .mtu = (uint32_t)keys->mtu,
        .buffer_bytes = (uint32_t)keys->buffer_bytes,
        .gso = keys->gso,
        .gro = keys->gro,
        .inherited = wish->inherited,
        .opened = wish->opened,
        .opened_ctx = wish->opened_ctx,
    };
    char line[512];
    int r = link_udp_open(&config, ret, err, err_bytes);

    if (r == -ENETUNREACH && !config.address) {
        snprintf(line, sizeof(line),
                 "%s: %s; using " FALLBACK_ADDRESS ", which only this host reaches", wish->nic,
                 err);
        wish->warn(line);
        config.inherited = 0; /* the failed link_udp_open has closed the inherited socket */
        config.address = FALLBACK_ADDRESS;
        r = link_udp_open(&config, ret, err, err_bytes);
    }
    return r;
}

const struct link_kind_row link_udp4_row = {
    .name = "udp",
    .overhead = UDP4_OVERHEAD,
    .source_bytes = 4,
    .port_bytes = sizeof(uint16_t),
    .sends_to_self = true,
    .ip_version = 4,
    .settle = settle,
    .path = path,
    .path_key = "address",
    .keys = known_keys,
    .clash = clash,
    .keeps_socket = true,
    .open = open_wish,
    .local = 127,
    .parse = link_addr_parse,
    .format = link_addr_format,
};

const struct link_kind_row link_udp6_row = {
    .name = "udp",
    .overhead = UDP6_OVERHEAD,
    .source_bytes = 16,
    .network_bytes = 8, /* a host may use any address of its /64 */
    .port_bytes = sizeof(uint16_t),
    .sends_to_self = true,
    .ip_version = 6,
    .settle = settle,
    .path = path,
    .path_key = "address",
    .keys = known_keys,
    .clash = clash,
    .keeps_socket = true,
    .open = open_wish,
    .local = 0, /* IPv6 has no range of loopback addresses, only ::1 */
    .parse = link_udp6_parse,
    .format = link_addr_format,
};
