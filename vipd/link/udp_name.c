/*
 * Conversion between addresses of the link and of socket calls, IPv4 and IPv6 (vipd/link/udp.h).
 *
 * Pure functions, called from the engine's thread.
 */
#include "vipd/link/udp.h"

#include <string.h>

#define IPV4_BYTES 4
#define IPV6_BYTES 16
#define PORT_BYTES 2

socklen_t udp_name_put(const struct udp *udp, const struct link_addr *addr, union udp_name *ret)
{
    if (addr->len != udp->own.len)
        return 0;
    if (udp->link.kind == LINK_UDP) {
        ret->in4 = (struct sockaddr_in){.sin_family = AF_INET};
        memcpy(&ret->in4.sin_addr, addr->bytes, IPV4_BYTES);
        memcpy(&ret->in4.sin_port, addr->bytes + IPV4_BYTES, PORT_BYTES);
        return sizeof(ret->in4);
    }
    ret->in6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
    memcpy(&ret->in6.sin6_addr, addr->bytes, IPV6_BYTES);
    memcpy(&ret->in6.sin6_port, addr->bytes + IPV6_BYTES, PORT_BYTES);
    if (link_addr_is_local(addr))
        ret->in6.sin6_scope_id = udp->if_index;
    return sizeof(ret->in6);
}

bool udp_name_get(const struct udp *udp, const union udp_name *name, socklen_t len,
                  struct link_addr *ret)
{
    if (udp->link.kind == LINK_UDP) {
        if (len < sizeof(name->in4) || name->any.sa_family != AF_INET)
            return false;
        ret->len = IPV4_BYTES + PORT_BYTES;
        memcpy(ret->bytes, &name->in4.sin_addr, IPV4_BYTES);
        memcpy(ret->bytes + IPV4_BYTES, &name->in4.sin_port, PORT_BYTES);
        return true;
    }
    if (len < sizeof(name->in6) || name->any.sa_family != AF_INET6)
        return false;
    ret->len = IPV6_BYTES + PORT_BYTES;
    memcpy(ret->bytes, &name->in6.sin6_addr, IPV6_BYTES);
    memcpy(ret->bytes + IPV6_BYTES, &name->in6.sin6_port, PORT_BYTES);
    return true;
}
