/*
 * Questions to the kernel about interfaces: default route, interface of an address, state, MTU
 * (vipd/link/udp.h).
 *
 * Owns: reading /proc/net/route and getifaddrs. Called when a link is opened and after news of
 * interfaces.
 */
#include "vipd/link/udp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Find the interface that has the default route with the lowest metric. */
static int default_interface(char name[IF_NAMESIZE])
{
    FILE *routes = fopen("/proc/net/route", "re");
    unsigned best = UINT32_MAX;
    char line[256];
    int rc = -ENETUNREACH;

    if (!routes)
        return -ENETUNREACH;
    while (fgets(line, sizeof(line), routes)) {
        char iface[IF_NAMESIZE];
        unsigned destination, flags, metric, mask;

        _Static_assert(IF_NAMESIZE == 16, "the width in the format below");
        /* This skips the heading line, which does not match the format. */
        if (sscanf(line, "%15s %x %*x %x %*u %*u %u %x", iface, &destination, &flags, &metric,
                   &mask) != 5)
            continue;
        if (destination != 0 || mask != 0 || !(flags & RTF_UP) || metric >= best)
            continue;
        best = metric;
        memcpy(name, iface, sizeof(iface));
        rc = 0;
    }
    fclose(routes);
    return rc;
}

int udp_if_default_address(struct in_addr *ret)
{
    struct ifaddrs *all;
    char name[IF_NAMESIZE];
    int rc = default_interface(name);

    if (rc < 0)
        return rc;
    if (getifaddrs(&all) < 0)
        return -errno;
    rc = -ENETUNREACH;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || strcmp(i->ifa_name, name) != 0)
            continue;
        *ret = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
        rc = 0;
        break;
    }
    freeifaddrs(all);
    return rc;
}

/* Has the interface the link's own address? The loopback interface has its whole IPv4 subnet. */
static bool has4(const struct ifaddrs *i, const struct udp *udp)
{
    struct in_addr own, mask, wanted;

    memcpy(&wanted, udp->own.bytes, sizeof(wanted));
    own = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
    if (own.s_addr == wanted.s_addr)
        return true;
    if (!(i->ifa_flags & IFF_LOOPBACK) || !i->ifa_netmask)
        return false;
    mask = ((const struct sockaddr_in *)(const void *)i->ifa_netmask)->sin_addr;
    return (own.s_addr & mask.s_addr) == (wanted.s_addr & mask.s_addr);
}

static bool has6(const struct ifaddrs *i, const struct udp *udp)
{
    const struct sockaddr_in6 *own = (const struct sockaddr_in6 *)(const void *)i->ifa_addr;

    return memcmp(&own->sin6_addr, udp->own.bytes, sizeof(own->sin6_addr)) == 0 &&
           (udp->scope[0] == '\0' || strcmp(udp->scope, i->ifa_name) == 0);
}

static bool interface_has(const struct ifaddrs *i, const struct udp *udp)
{
    if (!i->ifa_addr)
        return false;
    if (udp->link.kind == LINK_UDP6)
        return i->ifa_addr->sa_family == AF_INET6 && has6(i, udp);
    return i->ifa_addr->sa_family == AF_INET && has4(i, udp);
}

/* The MTU of an interface. Outcomes: 0 and *ret; negative errno. */
static int interface_mtu(const char *name, uint32_t *ret)
{
    struct ifreq request = {0};
    int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int rc;

    if (sock < 0)
        return -errno;
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    rc = ioctl(sock, SIOCGIFMTU, &request) < 0 ? -errno : 0;
    close(sock);
    *ret = rc == 0 && request.ifr_mtu > 0 ? (uint32_t)request.ifr_mtu : 0;
    return rc;
}

/* Fill in *ret for this interface. Outcomes: 0; negative errno, also if the interface is gone. */
static int describe(const struct ifaddrs *i, struct udp_if *ret)
{
    ret->up = i->ifa_flags & IFF_UP;
    ret->running = i->ifa_flags & IFF_RUNNING;
    snprintf(ret->name, sizeof(ret->name), "%s", i->ifa_name);
    ret->index = if_nametoindex(i->ifa_name);
    return ret->index ? interface_mtu(i->ifa_name, &ret->mtu) : -errno;
}

int udp_if_find(const struct udp *udp, struct udp_if *ret)
{
    struct ifaddrs *all;
    int rc = 0;

    *ret = (struct udp_if){0};
    if (getifaddrs(&all) < 0)
        return -errno;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        if (!interface_has(i, udp))
            continue;
        rc = describe(i, ret);
        break;
    }
    freeifaddrs(all);
    return rc;
}
