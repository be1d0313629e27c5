/*
 * Uses XDP in addition to the packet socket of an Ethernet link (vipd/link/xdp.h does the work).
 * Called from the engine's thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "vipd/link/xdp.h"

/* Time until the next call of xdp_kick if the kernel did not take all frames. */
#define KICK_NS 20000u

/* Must XDP be opened (again)? Yes if the interface or its MAC address has changed. If XDP is open:
 * yes if the MTU does not fit the buffers. If XDP was refused: yes if the MTU has changed. */
static bool another(const struct ether *ether, const struct ether_if *now)
{
    const struct ether_if *on = &ether->xdp_on;

    if (on->index != now->index || memcmp(on->mac, now->mac, sizeof(on->mac)) != 0)
        return true;
    return ether->xdp ? !xdp_resize(ether->xdp, ether, now->mtu) : on->mtu != now->mtu;
}

/* Add the sockets of XDP to the link's epoll descriptor, or remove them. 0 or negative errno. */
static int watch(struct ether *ether, int op)
{
    struct epoll_event event = {.events = EPOLLIN};
    int fds[XDP_QUEUES_MAX];
    unsigned count = xdp_fds(ether->xdp, fds);

    for (unsigned i = 0; i < count; i++)
        if (epoll_ctl(ether->epoll, op, fds[i], &event) < 0)
            return -errno;
    return 0;
}

bool ether_xdp_stop(struct ether *ether)
{
    if (!ether->xdp)
        return true;
    if (xdp_out(ether->xdp) > 0)
        return false;
    watch(ether, EPOLL_CTL_DEL);
    ether->stats.drop_ring_full += xdp_losses(ether->xdp);
    xdp_close(ether->xdp);
    ether->xdp = NULL;
    ether->xdp_kick_ns = UINT64_MAX;
    ether->xdp_on = (struct ether_if){0};
    ether->link.how = NULL;
    return true;
}

bool ether_xdp_follow(struct ether *ether, const struct ether_if *now)
{
    char why[LINK_WHY_BYTES] = "";
    int r, fds[XDP_QUEUES_MAX];

    if (!ether->want_xdp || !another(ether, now))
        return true;
    if (!ether_xdp_stop(ether))
        return false;
    ether->xdp_on = *now;
    r = xdp_open(ether, now, &ether->xdp, why);
    if (r == 0 && (r = watch(ether, EPOLL_CTL_ADD)) < 0) {
        snprintf(why, sizeof(why), "%s", strerror(-r));
        xdp_close(ether->xdp);
        ether->xdp = NULL;
    }
    if (!ether->xdp) {
        snprintf(ether->link.without, sizeof(ether->link.without), "xdp (%s)", why);
        link_say("ether %s: without %s", ether->interface, ether->link.without);
        return true;
    }
    ether->link.without[0] = '\0';
    ether->link.how = "xdp";
    link_say("ether %s: with xdp, %s, receive queues: %u", ether->interface, xdp_mode(ether->xdp),
             xdp_fds(ether->xdp, fds));
    return true;
}

unsigned ether_xdp_send(struct ether *ether, const struct link_tx *packets, unsigned count,
                        uint64_t now_ns)
{
    unsigned n = 0;

    if (!ether->xdp || count > XDP_TX_BATCH)
        return 0;
    while (n < count && ether_sendable(ether, &packets[n]) &&
           xdp_send(ether->xdp, ether, &packets[n]))
        n++;
    if (n > 0)
        ether->xdp_kick_ns = xdp_kick(ether->xdp, ether) ? now_ns + KICK_NS : UINT64_MAX;
    return n;
}

void ether_xdp_run(struct ether *ether, uint64_t now_ns)
{
    /* Frames that wait while the interface is down are sent when the interface is up again. */
    if (ether->xdp && !ether->link.down && ether->xdp_kick_ns <= now_ns)
        ether->xdp_kick_ns = xdp_kick(ether->xdp, ether) ? now_ns + KICK_NS : UINT64_MAX;
}
