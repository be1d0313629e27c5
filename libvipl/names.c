/*
 * The name service (spec 2.9): name to address, and address to name. First vipd's table of [names]
 * is searched, then the hosts on the medium if vipd can ask them (Ethernet), then the system's
 * resolver. The resolver runs in this process, so that a slow server never delays vipd.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "libvipl/call.h"
#include "libvipl/connect.h"
#include "libvipl/error.h"
#include "libvipl/session.h"

/* Bytes of a UDP NIC's host address: an IP address and a port, both in network order. */
#define IPV4_BYTES 4
#define IPV6_BYTES 16
#define PORT_BYTES 2

/* Longest name that is looked up, in bytes (NI_MAXHOST without the zero). */
#define NAME_BYTES_MAX 1024

/*
 * Limits, in ms, while vipd asks the hosts on a medium: the longest pause between two requests to
 * vipd, and the longest wait for the answer.
 */
#define AGAIN_MS_MAX 100
#define WAIT_MS_MAX  3000

VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipNSInit");
    VIP_RETURN rc = VIP_SUCCESS;

    (void)NSInitInfo; /* has no meaning here; programs pass NULL */
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    pthread_mutex_lock(&session->lock);
    session->names_ready = true;
    pthread_mutex_unlock(&session->lock);
    if (vipl__is_dead(session))
        rc = vipl__gone(session, "VipNSInit");
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE NicHandle)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipNSShutdown");
    bool was_ready;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    pthread_mutex_lock(&session->lock);
    was_ready = session->names_ready;
    session->names_ready = false;
    pthread_mutex_unlock(&session->lock);
    vipl__leave(session);
    if (!was_ready)
        return vipl__fail(VIP_ERROR_NAMESERVICE,
                          "VipNSShutdown: the name service is not initialised (VipNSInit)");
    return VIP_SUCCESS;
}

static VIP_RETURN check_ready(struct vipl__session *session, const char *call)
{
    bool ready;

    pthread_mutex_lock(&session->lock);
    ready = session->names_ready;
    pthread_mutex_unlock(&session->lock);
    if (ready)
        return VIP_SUCCESS;
    return vipl__fail(VIP_ERROR_NAMESERVICE,
                      "%s: the name service is not initialised; call VipNSInit first", call);
}

/* ---- name to address ---------------------------------------------------------------------- */

/*
 * Ask vipd until its answer does not say "again". ("Again" means that vipd still asks the hosts on
 * the medium.) Outcomes: VIP_SUCCESS and *ret_reply, which the caller frees; VIP_ERROR_NAMESERVICE:
 * unknown to vipd; other codes: vipd cannot answer.
 */
static VIP_RETURN ask_vipd(struct vipl__session *session, const char *call,
                           Vip__ResolveRequest *resolve, Vip__Reply **ret_reply)
{
    Vip__Request request = VIP__REQUEST__INIT;
    uint32_t waited_ms = 0, again_ms;

    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = resolve;
    for (;;) {
        VIP_RETURN rc = vipl__call(session, call, &request, NULL, 0, ret_reply);
        struct timespec pause = {0};

        if (rc != VIP_SUCCESS)
            return rc;
        if ((*ret_reply)->resolve == NULL || (*ret_reply)->resolve->again_ms == 0)
            return VIP_SUCCESS;
        again_ms = (*ret_reply)->resolve->again_ms;
        vipl__reply_free(*ret_reply);
        *ret_reply = NULL;
        if (waited_ms >= WAIT_MS_MAX)
            return vipl__outcome(VIP_ERROR_NAMESERVICE, "vipd still asks for it");
        if (again_ms > AGAIN_MS_MAX)
            again_ms = AGAIN_MS_MAX;
        waited_ms += again_ms;
        pause.tv_nsec = (long)again_ms * 1000000;
        nanosleep(&pause, NULL);
    }
}

/*
 * Ask vipd for the address of a name: its table, and the hosts on the medium if vipd can ask them.
 * Outcomes as ask_vipd, with *ret.
 */
static VIP_RETURN ask_vipd_host(struct vipl__session *session, const char *name, uint32_t index,
                                struct vip_addr *ret)
{
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    resolve.name = (char *)name;
    resolve.has_index = 1;
    resolve.index = index;
    rc = ask_vipd(session, "VipNSGetHostByName", &resolve, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    if (reply->resolve != NULL && reply->resolve->host.len > 0 &&
        reply->resolve->host.len <= VIP_HOST_ADDR_BYTES_MAX) {
        ret->host_len = (uint8_t)reply->resolve->host.len;
        memcpy(ret->host, reply->resolve->host.data, ret->host_len);
    } else {
        rc = vipl__outcome(VIP_ERROR_NAMESERVICE, "unknown to vipd");
    }
    vipl__reply_free(reply);
    return rc;
}

/*
 * Split "host:port" into "host" and the port; without a port `port` is unchanged. False if the port
 * is bad.
 */
static bool cut_port(char *host, uint8_t port[PORT_BYTES])
{
    char *colon = strchr(host, ':'), *end;
    unsigned long number;

    if (colon == NULL)
        return true;
    number = strtoul(colon + 1, &end, 10);
    if (end == colon + 1 || *end != '\0' || number == 0 || number > 65535)
        return false;
    *colon = '\0';
    port[0] = (uint8_t)(number >> 8);
    port[1] = (uint8_t)number;
    return true;
}

/* The bytes of an IP address; NULL if the address is not of this family. */
static const void *ip_bytes(const struct addrinfo *at, int family)
{
    if (at->ai_family != family)
        return NULL;
    if (family == AF_INET && at->ai_addrlen >= sizeof(struct sockaddr_in))
        return &((const struct sockaddr_in *)(const void *)at->ai_addr)->sin_addr;
    if (family == AF_INET6 && at->ai_addrlen >= sizeof(struct sockaddr_in6))
        return &((const struct sockaddr_in6 *)(const void *)at->ai_addr)->sin6_addr;
    return NULL;
}

/*
 * Ask the system's resolver for the index-th address of `name` in the NIC's family. The port is
 * that of our own NIC: other vipds use the same port unless their configuration says otherwise.
 * "host:port" names another port. (vipd itself reads numeric IPv6 addresses, which have colons of
 * their own.)
 */
static bool ask_resolver(struct vipl__session *session, const char *name, uint32_t index,
                         struct vip_addr *ret)
{
    bool six = session->nic.NicAddressLen == IPV6_BYTES + PORT_BYTES;
    struct addrinfo hints = {.ai_family = six ? AF_INET6 : AF_INET, .ai_socktype = SOCK_DGRAM};
    size_t ip_len = six ? IPV6_BYTES : IPV4_BYTES;
    char host[NAME_BYTES_MAX + 1];
    uint8_t port[PORT_BYTES];
    const void *ip = NULL;
    struct addrinfo *list, *at;

    if (!session->resolver || session->nic.NicAddressLen != ip_len + PORT_BYTES)
        return false;
    memcpy(port, session->address + ip_len, PORT_BYTES);
    snprintf(host, sizeof(host), "%s", name);
    if (!cut_port(host, port) || getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    for (at = list; at != NULL && index > 0; at = at->ai_next)
        index--;
    if (at != NULL)
        ip = ip_bytes(at, hints.ai_family);
    if (ip != NULL) {
        memcpy(ret->host, ip, ip_len);
        memcpy(ret->host + ip_len, port, PORT_BYTES);
        ret->host_len = (uint8_t)(ip_len + PORT_BYTES);
    }
    freeaddrinfo(list);
    return ip != NULL;
}

static VIP_RETURN by_name(struct vipl__session *session, const char *name, VIP_ULONG index,
                          struct vip_addr *ret)
{
    VIP_RETURN rc = check_ready(session, "VipNSGetHostByName");

    if (rc != VIP_SUCCESS)
        return rc;
    if (name[0] != '\0' && strnlen(name, NAME_BYTES_MAX + 1) <= NAME_BYTES_MAX &&
        index <= UINT32_MAX) {
        rc = ask_vipd_host(session, name, (uint32_t)index, ret);
        if (rc != VIP_ERROR_NAMESERVICE)
            return rc;
        if (ask_resolver(session, name, (uint32_t)index, ret))
            return VIP_SUCCESS;
    }
    return vipl__fail(VIP_ERROR_NAMESERVICE,
                      "VipNSGetHostByName: no address number %lu of \"%.64s\": neither in [names] "
                      "of vipd's configuration nor known to %s",
                      index, name,
                      session->resolver ? "the system's resolver" : "a host on this medium");
}

VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR *Name, VIP_NET_ADDRESS *Address,
                              VIP_ULONG NameIndex)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipNSGetHostByName");
    struct vip_addr found = {0};
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (Name == NULL || Address == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipNSGetHostByName: %s is NULL",
                        Name == NULL ? "Name" : "Address");
    else
        rc = by_name(session, Name, NameIndex, &found);
    if (rc == VIP_SUCCESS) {
        /* HostAddressLen is output only: do not read its old value as a limit (spec 2.9). */
        Address->HostAddressLen = found.host_len;
        memcpy(Address->HostAddress, found.host, found.host_len);
    }
    vipl__leave(session);
    return rc;
}

/* ---- address to name ----------------------------------------------------------------------- */

static VIP_RETURN ask_vipd_name(struct vipl__session *session, struct vip_addr *host, char *name,
                                size_t name_bytes)
{
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    resolve.has_host = 1;
    resolve.host.data = host->host;
    resolve.host.len = host->host_len;
    rc = ask_vipd(session, "VipNSGetHostByAddr", &resolve, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    if (reply->resolve != NULL && reply->resolve->name != NULL)
        snprintf(name, name_bytes, "%s", reply->resolve->name);
    else
        rc = vipl__outcome(VIP_ERROR_NAMESERVICE, "unknown to vipd");
    vipl__reply_free(reply);
    return rc;
}

/* Ask the system's resolver for the name of an address. */
static bool ask_resolver_name(const struct vip_addr *host, char *name, size_t name_bytes)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    const struct sockaddr *addr = (const struct sockaddr *)&in4;
    socklen_t len = sizeof(in4);

    if (host->host_len == IPV4_BYTES + PORT_BYTES) {
        memcpy(&in4.sin_addr, host->host, IPV4_BYTES);
    } else if (host->host_len == IPV6_BYTES + PORT_BYTES) {
        memcpy(&in6.sin6_addr, host->host, IPV6_BYTES);
        addr = (const struct sockaddr *)&in6;
        len = sizeof(in6);
    } else {
        return false;
    }
    return getnameinfo(addr, len, name, (socklen_t)name_bytes, NULL, 0, NI_NAMEREQD | NI_DGRAM) ==
           0;
}

static VIP_RETURN by_address(struct vipl__session *session, struct vip_addr *host, char *name,
                             size_t name_bytes)
{
    VIP_RETURN rc = check_ready(session, "VipNSGetHostByAddr");

    if (rc != VIP_SUCCESS)
        return rc;
    rc = ask_vipd_name(session, host, name, name_bytes);
    if (rc != VIP_ERROR_NAMESERVICE)
        return rc;
    if (session->resolver && ask_resolver_name(host, name, name_bytes))
        return VIP_SUCCESS;
    return vipl__fail(
        VIP_ERROR_NAMESERVICE,
        "VipNSGetHostByAddr: this address is not in [names] of vipd's configuration, and "
        "%s does not know a name for it",
        session->resolver ? "the system's resolver" : "the host that has it");
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *Address, VIP_CHAR *Name,
                              VIP_ULONG *NameLen)
{
    static const char call[] = "VipNSGetHostByAddr";
    struct vipl__session *session = vipl__nic_enter(NicHandle, call);
    char name[NAME_BYTES_MAX + 1] = "";
    struct vip_addr host = {0};
    VIP_RETURN rc = VIP_SUCCESS;
    size_t len;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (Address == NULL || Name == NULL || NameLen == NULL ||
        Address->HostAddressLen > VIP_HOST_ADDR_BYTES_MAX) {
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "%s: a pointer is NULL, or HostAddressLen is impossible", call);
    } else {
        host.host_len = (uint8_t)Address->HostAddressLen;
        memcpy(host.host, Address->HostAddress, host.host_len);
        rc = by_address(session, &host, name, sizeof(name));
    }
    vipl__leave(session);
    if (rc != VIP_SUCCESS)
        return rc;
    len = strlen(name);
    if (len >= *NameLen) {
        rc = vipl__fail(VIP_ERROR_RESOURCE, "%s: the name has %zu bytes and a zero, the buffer %lu",
                        call, len, *NameLen);
    } else {
        memcpy(Name, name, len + 1);
    }
    *NameLen = (VIP_ULONG)(rc == VIP_SUCCESS ? len : len + 1);
    return rc;
}
