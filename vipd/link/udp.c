/*
 * The UDP link over IPv4 and IPv6: opening, following the interface that has its address, closing
 * (vipd/link/link.h; inside: vipd/link/udp.h).
 *
 * Owns: the state of the link. If the interface is down or has no carrier, the state shows it.
 * Packets are still given to the kernel, which may know another way.
 */
#include "vipd/link/udp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "vipd/link/news.h"

/* Bytes of the socket buffers if the configuration sets none. */
#define DEFAULT_BUFFER_BYTES (4u << 20)

static int udp_fd(const struct link *link)
{
    return ((const struct udp *)link)->epoll;
}

static uint64_t udp_deadline(const struct link *link)
{
    const struct udp *udp = (const struct udp *)link;

    /* Packets that are already in memory do not make the descriptor readable. */
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

/* ---- state ------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void reason(char why[LINK_WHY_BYTES],
                                                         const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, LINK_WHY_BYTES, format, args);
    va_end(args);
}

static void say_missing(const struct udp *udp, char why[LINK_WHY_BYTES])
{
    char own[LINK_TEXT_BYTES];

    link_addr_format(&udp->own, own, sizeof(own));
    if (udp->scope[0] == '\0')
        reason(why, "no interface has the address of %s", own);
    else if (if_nametoindex(udp->scope) == 0)
        reason(why, "no such interface: %s", udp->scope);
    else
        reason(why, "%s does not have the address of %s", udp->scope, own);
}

/* Open a socket that fits the interface. Outcomes: 0; negative errno with the reason in why. */
static int enter(struct udp *udp, const struct udp_if *now, char why[LINK_WHY_BYTES])
{
    bool local = link_addr_is_local(&udp->own);
    int r = 0;

    udp->if_index = now->index;
    /* The socket of a link-local address works on one interface only, and only while it exists. */
    if (udp->sock < 0 || (local && udp->sock_index != now->index))
        r = udp_sock_open(udp);
    if (r == -EADDRNOTAVAIL)
        reason(why, "the address on %s cannot be used yet", now->name);
    else if (r < 0)
        reason(why, "cannot be bound: %s", strerror(-r));
    if (r < 0)
        return r;
    if (!udp_sock_size(udp, udp->mtu ? udp->mtu : now->mtu)) {
        reason(why, "an MTU of %u is too small; at least %u is needed", (unsigned)now->mtu,
               (unsigned)(VIP_PACKET_BYTES_MIN + link_kind_overhead(udp->link.kind)));
        return -EINVAL;
    }
    udp->link.self = udp->own;
    return 0;
}

/* Look at the interface. why: empty if the link can be up. Outcomes as those of enter. */
static int look(struct udp *udp, char why[LINK_WHY_BYTES])
{
    struct udp_if now;
    int r = udp_if_find(udp, &now);

    if (r < 0) {
        reason(why, "interfaces cannot be looked at: %s", strerror(-r));
        return r;
    }
    if (now.index == 0) {
        say_missing(udp, why);
        return 0;
    }
    r = enter(udp, &now, why);
    if (r < 0)
        return r;
    if (!now.up)
        reason(why, "the interface %s is down", now.name);
    else if (!now.running)
        reason(why, "no carrier on %s", now.name);
    return 0;
}

/* Look at the interface, and set the state if anything is different. Outcomes as those of look. */
static int update(struct udp *udp, bool opening)
{
    struct link *link = &udp->link, before = udp->link;
    char why[LINK_WHY_BYTES] = "", own[LINK_TEXT_BYTES];
    int r = look(udp, why);

    if (strcmp(why, before.why_down) == 0 && before.packet_bytes == link->packet_bytes &&
        before.self.len == link->self.len)
        return r;
    link->changes++;
    udp->stats.state_changes++;
    link->down = why[0] != '\0';
    snprintf(link->why_down, sizeof(link->why_down), "%s", why);
    if (opening)
        return r; /* the caller logs the first state; changes are logged here */
    link_addr_format(&udp->own, own, sizeof(own));
    if (link->down)
        fprintf(stderr, "vipd: udp %s: down (%s)\n", own, why);
    else
        fprintf(stderr, "vipd: udp %s: up, packets of at most %u bytes\n", own,
                (unsigned)link->packet_bytes);
    return r;
}

/* Is this outcome of a look final until news comes? If not, look again soon. */
static bool lasting(int r)
{
    return r == 0 || r == -EADDRNOTAVAIL || r == -EINVAL;
}

void udp_check(struct udp *udp, uint64_t now_ns)
{
    if (now_ns >= udp->next_ns) {
        udp->next_ns = now_ns + UDP_CHECK_NS;
        if (link_news_read(udp->news) && udp->look_ns == UINT64_MAX)
            udp->look_ns = now_ns + UDP_LOOK_NS;
    }
    if (now_ns < udp->look_ns)
        return;
    udp->look_ns = lasting(update(udp, false)) ? UINT64_MAX : now_ns + UDP_AGAIN_NS;
}

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

/* Use the address of the default route, without an address in the configuration. */
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

/* Own address from the configuration or from the default route. */
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
    if (udp->mtu && udp->mtu < VIP_PACKET_BYTES_MIN + link_kind_overhead(udp->link.kind)) {
        rc = failed(-EINVAL, err, err_bytes, "an MTU of %u is too small; at least %u is needed",
                    (unsigned)udp->mtu,
                    (unsigned)(VIP_PACKET_BYTES_MIN + link_kind_overhead(udp->link.kind)));
        goto fail;
    }
    rc = watch(udp);
    if (rc < 0) {
        failed(rc, err, err_bytes, "cannot watch interfaces: %s", strerror(-rc));
        goto fail;
    }
    rc = update(udp, true);
    if (!lasting(rc)) {
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
