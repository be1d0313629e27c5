/*
 * The Ethernet link follows its interface.
 *
 * Owns: the state of the link, its log messages.
 */
#include "vipd/link/ether.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vipd/link/kinds.h"
#include "vipd/link/news.h"
#include "vipd/link/xdp.h"

/* After ETHER_LOG_BURST messages: time in ns until one more log message. */
#define LOG_INTERVAL_NS 2000000000ull

static bool may_log(struct ether *ether, uint64_t now_ns)
{
    if (now_ns - ether->log_ns >= LOG_INTERVAL_NS) {
        ether->log_ns = now_ns;
        if (ether->log_tokens < ETHER_LOG_BURST)
            ether->log_tokens++;
    }
    if (ether->log_tokens == 0)
        return false;
    ether->log_tokens--;
    return true;
}

/* Set the link's state. why: the reason that the link is down; empty if it is up. */
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
    link_mac_format(&link->self, self, sizeof(self));
    if (down)
        link_say("ether %s: down (%s)", ether->interface, link->why_down);
    else
        link_say("ether %s: up, address %s, packets of at most %u bytes", ether->interface, self,
                 (unsigned)link->packet_bytes);
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

/* No interface has the configured name: accept no frames from the interface that had the name. */
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

/* Bind the socket to the interface as it is now. false: this failed, for the reason in why. */
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
    /* If the interface came up while the kernel changed the ring, the socket is not active: bind it
     * again. A bind to the present protocol does nothing, so bind to another protocol first. */
    if (ether->rebind && ether->bound == now->index) {
        struct sockaddr_ll other = addr;

        other.sll_protocol = htons(ETH_P_LOOPBACK);
        bind(ether->sock, (const struct sockaddr *)&other, sizeof(other));
    }
    if (bind(ether->sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
        return reason(why, "cannot be bound: %s", strerror(errno));
    if (ether->bound != now->index && want.vlan == 0 && !ether->in_use &&
        ether_if_shared(ether->sock, now->index, want.ethertype))
        link_say(
            "ether %s: another program takes frames of EtherType %04x there, too. If it is "
            "a vipd, give one of both another ethertype: they answer each other's packets, and "
            "connections end",
            ether->interface, want.ethertype);
    ether->want = want;
    ether->bound = now->index;
    ether->rebind = false;
    ether->link.self.len = ETHER_MAC_BYTES;
    memcpy(ether->link.self.bytes, now->mac, ETHER_MAC_BYTES);
    return true;
}

/* Set the sizes that follow from the MTU. false: the link cannot be up, for the reason in why. */
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

/* Look at the interface. Returns whether the link can be up; if not, why has the reason. */
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

void ether_update(struct ether *ether, uint64_t now_ns)
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

/* Count frames for which the kernel had no room. Reading the kernel's counter resets it. */
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
    /* Read a pending error, because the descriptor stays readable until the error is read. */
    if (getsockopt(ether->sock, SOL_SOCKET, SO_ERROR, &err, &len) == 0 && err)
        ether->look = true;
    if (!link_news_read(ether->watch) && !ether->look)
        return;
    ether->look = false;
    ether_update(ether, now_ns);
}
