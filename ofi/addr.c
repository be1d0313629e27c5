/*
 * Addresses of endpoints are IP socket addresses, because ofi_rxm and both MPI libraries use these.
 * An address consists of the IPv4 address of the host's NIC, and a port, which is part of the
 * discriminator. vipd's UDP port is not part of the address, because it is the same on all hosts. A
 * NIC without a medium (loop) has the address 127.0.0.1.
 */
#include <string.h>

#include "ofi/calls.h"

/* The host address of a NIC with link = loop. */
static const uint8_t loop_host[6] = {0, 0, 0, 0, 0, 1};

void via_addr_from_host(const uint8_t *host, struct sockaddr_in *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->sin_family = AF_INET;
    if (memcmp(host, loop_host, sizeof(loop_host)) == 0)
        ret->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        memcpy(&ret->sin_addr, host, sizeof(ret->sin_addr));
}

/* The reverse of via_addr_from_host. A host address contains vipd's UDP port; take this port from
 * the address of our NIC, `own`. */
static void addr_to_host(const struct sockaddr_in *addr, const VIP_NIC_ATTRIBUTES *own,
                         uint8_t *host)
{
    memcpy(host, own->LocalNicAddress, 6);
    if (memcmp(host, loop_host, sizeof(loop_host)) != 0)
        memcpy(host, &addr->sin_addr, sizeof(addr->sin_addr));
}

static int copy_out(const void *from, size_t size, void *addr, size_t *bytes)
{
    size_t room = *bytes;

    *bytes = size;
    /* If *bytes is 0, the caller only asks for the length, and addr may be NULL. */
    if (room > 0)
        memcpy(addr, from, room < size ? room : size);
    return room < size ? -FI_ETOOSMALL : 0;
}

int via_addr_copy(const struct sockaddr_in *name, void *addr, size_t *bytes)
{
    return copy_out(name, sizeof(*name), addr, bytes);
}

int via_name_copy(const struct via_domain *domain, const struct via_name *name, void *addr,
                  size_t *bytes)
{
    return copy_out(name, domain->keyed ? sizeof(*name) : sizeof(name->at), addr, bytes);
}

/* Our discriminators consist of these four bytes and the port. */
static const uint8_t disc_mark[4] = {'o', 'f', 'i', 0};

void via_net_address(const struct sockaddr_in *addr, const VIP_NIC_ATTRIBUTES *own,
                     union via_net_address *ret)
{
    uint8_t *at = ret->net.HostAddress;

    memset(ret, 0, sizeof(*ret));
    ret->net.HostAddressLen = own->NicAddressLen;
    ret->net.DiscriminatorLen = sizeof(disc_mark) + sizeof(addr->sin_port);
    addr_to_host(addr, own, at);
    memcpy(at + own->NicAddressLen, disc_mark, sizeof(disc_mark));
    memcpy(at + own->NicAddressLen + sizeof(disc_mark), &addr->sin_port, sizeof(addr->sin_port));
}

void via_net_address_read(const VIP_NET_ADDRESS *net, struct sockaddr_in *ret)
{
    const uint8_t *disc = net->HostAddress + net->HostAddressLen;

    via_addr_from_host(net->HostAddress, ret);
    if (net->DiscriminatorLen == sizeof(disc_mark) + sizeof(ret->sin_port) &&
        memcmp(disc, disc_mark, sizeof(disc_mark)) == 0)
        memcpy(&ret->sin_port, disc + sizeof(disc_mark), sizeof(ret->sin_port));
}
