/*
 * Questions to the kernel about the interface (vipd/link/ether.h).
 *
 * Owns: ioctls, the list of packet sockets, the hint about a missing capability. No privilege is
 * needed.
 */
#include "vipd/link/ether.h"

#include <errno.h>
#include <limits.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

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

bool ether_if_shared(int sock, int index, uint16_t ethertype)
{
    FILE *sockets = fopen("/proc/net/packet", "re");
    struct stat own;
    char line[256];
    bool shared = false;

    if (!sockets)
        return false;
    /* Columns: sk RefCnt Type Proto Iface R Rmem User Inode. The format excludes the headings. */
    while (fstat(sock, &own) == 0 && !shared && fgets(line, sizeof(line), sockets)) {
        unsigned protocol;
        unsigned long long inode;
        int interface;

        shared = sscanf(line, "%*s %*d %*d %x %d %*d %*u %*u %llu", &protocol, &interface,
                        &inode) == 3 &&
                 protocol == ethertype && interface == index && inode != own.st_ino;
    }
    fclose(sockets);
    return shared;
}

void ether_if_explain(const char *name)
{
    char path[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);

    path[len > 0 ? len : 0] = '\0';
    link_say(
        "ether %s: vipd lacks the capability CAP_NET_RAW, which raw Ethernet frames need. "
        "Grant it with \"setcap cap_net_raw+ep %s\", or with AmbientCapabilities=CAP_NET_RAW in "
        "vipd's systemd service, or start vipd as root; then start it again",
        name, len > 0 ? path : "/path/to/vipd");
}
