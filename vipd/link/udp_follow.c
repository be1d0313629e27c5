/*
 * The UDP link follows the interface that has its address.
 *
 * Owns: the state of the link. If the interface is down or has no carrier, the state shows this.
 * The link still gives packets to the kernel, because the kernel may have another route.
 */
#include "vipd/link/udp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vipd/link/news.h"

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

/* Make the socket and the sizes fit the interface. Outcomes: 0; negative errno, reason in why. */
static int enter(struct udp *udp, const struct udp_if *now, char why[LINK_WHY_BYTES])
{
    bool local = link_addr_is_local(&udp->own);
    int r = 0;

    udp->if_index = now->index;
    /* The socket of a link-local address works only on the interface with this index. */
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
               (unsigned)(VIP_PACKET_BYTES_MIN + udp_overhead(udp)));
        return -EINVAL;
    }
    udp->link.self = udp->own;
    return 0;
}

/* Read the state of the interface. Sets why to the reason why the link is down; if the link is up,
 * to an empty string. Returns the same values as enter(). */
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

int udp_update(struct udp *udp, bool opening)
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
        return r; /* the caller logs the first state */
    link_addr_format(&udp->own, own, sizeof(own));
    if (link->down)
        link_say("udp %s: down (%s)", own, why);
    else
        link_say("udp %s: up, packets of at most %u bytes", own, (unsigned)link->packet_bytes);
    return r;
}

bool udp_lasting(int r)
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
    udp->look_ns = udp_lasting(udp_update(udp, false)) ? UINT64_MAX : now_ns + UDP_AGAIN_NS;
}
