/*
 * Questions to the kernel about the interface, and news of it (vipd/link/ether.h).
 *
 * Owns: ioctls, the netlink socket that tells of changes, and what to say when vipd may not. All of it
 * works without privilege.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Messages taken at once; more stay for the next look. */
#define NEWS_MAX 64

static bool ask(int sock, unsigned long what, const char *name, struct ifreq *ret)
{
    *ret = (struct ifreq){0};
    snprintf(ret->ifr_name, sizeof(ret->ifr_name), "%s", name);
    return ioctl(sock, what, ret) == 0;
}

void ether_if_look(int sock, const char *name, struct ether_if *ret)
{
    struct ifreq request;

    *ret = (struct ether_if){0};
    if (!ask(sock, SIOCGIFINDEX, name, &request))
        return;
    ret->index = request.ifr_ifindex;
    if (ask(sock, SIOCGIFFLAGS, name, &request)) {
        ret->up = request.ifr_flags & IFF_UP;
        ret->running = request.ifr_flags & IFF_RUNNING;
    }
    if (ask(sock, SIOCGIFHWADDR, name, &request)) {
        ret->ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER;
        memcpy(ret->mac, request.ifr_hwaddr.sa_data, sizeof(ret->mac));
    }
    if (ask(sock, SIOCGIFMTU, name, &request) && request.ifr_mtu > 0)
        ret->mtu = (uint32_t)request.ifr_mtu;
}

bool ether_if_name(int sock, int index, char ret[IF_NAMESIZE])
{
    struct ifreq request = {.ifr_ifindex = index};

    if (ioctl(sock, SIOCGIFNAME, &request) < 0)
        return false;
    snprintf(ret, IF_NAMESIZE, "%s", request.ifr_name);
    return true;
}

int ether_if_watch(void)
{
    struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    int sock = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

    if (sock < 0)
        return -errno;
    if (bind(sock, (const struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int r = -errno;

        close(sock);
        return r;
    }
    return sock;
}

bool ether_if_changed(int watch)
{
    bool changed = false;
    char byte;

    /* What it says does not matter: the interface itself is asked. Neither do lost messages. */
    for (unsigned i = 0; i < NEWS_MAX; i++) {
        if (recv(watch, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0 && errno != ENOBUFS)
            break;
        changed = true;
    }
    return changed;
}

void ether_if_explain(const char *name)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[len > 0 ? len : 0] = '\0';
    fprintf(
        stderr,
        "vipd: ether %s: vipd lacks the capability CAP_NET_RAW, which raw Ethernet frames need. "
        "Grant it with \"setcap cap_net_raw+ep %s\", or with AmbientCapabilities=CAP_NET_RAW in "
        "vipd's systemd service, or start vipd as root; then start it again\n",
        name, len > 0 ? path : "/path/to/vipd");
}
