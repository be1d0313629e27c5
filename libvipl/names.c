/*
 * The name service (spec 2.9): vipd's table of [names] first, then the system's resolver, asked in
 * this process, so that a slow server never holds up vipd.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "libvipl/call.h"
#include "libvipl/error.h"
#include "libvipl/session.h"

/* Host address of a NIC on UDP over IPv4: address and port in network order. */
#define UDP4_BYTES 6
#define IPV4_BYTES 4

/* Longest name that is looked up (NI_MAXHOST without the zero). */
#define NAME_BYTES_MAX 1024

VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID NSInitInfo)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipNSInit");

    (void)NSInitInfo; /* every program passes NULL */
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    pthread_mutex_lock(&session->lock);
    session->names_ready = true;
    pthread_mutex_unlock(&session->lock);
    vipl__leave(session);
    return VIP_SUCCESS;
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

/* vipd's table. SUCCESS; ERROR_NAMESERVICE unknown there; other codes if vipd cannot answer. */
static VIP_RETURN ask_vipd(struct vipl__session *session, const char *name, uint32_t index,
                           struct vip_addr *ret)
{
    Vip__ResolveRequest resolve = VIP__RESOLVE_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    resolve.name = (char *)name;
    resolve.has_index = 1;
    resolve.index = index;
    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = &resolve;
    rc = vipl__call(session, "VipNSGetHostByName", &request, NULL, 0, &reply);
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
 * The system's resolver: the index-th IPv4 address of `name`, with the port of our own NIC, which is
 * what other vipd use unless their configuration says otherwise. "host:port" names another port.
 */
static bool ask_resolver(struct vipl__session *session, const char *name, uint32_t index,
                         struct vip_addr *ret)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM}, *list, *at;
    char host[NAME_BYTES_MAX + 1];
    uint8_t port[2] = {session->address[4], session->address[5]};
    char *colon, *end;
    bool found = false;

    if (!session->resolver || session->nic.NicAddressLen != UDP4_BYTES)
        return false;
    snprintf(host, sizeof(host), "%s", name);
    colon = strchr(host, ':');
    if (colon != NULL) {
        unsigned long number = strtoul(colon + 1, &end, 10);

        if (end == colon + 1 || *end != '\0' || number == 0 || number > 65535)
            return false;
        *colon = '\0';
        port[0] = (uint8_t)(number >> 8);
        port[1] = (uint8_t)number;
    }
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    for (at = list; at != NULL && index > 0; at = at->ai_next)
        index--;
    if (at != NULL && at->ai_family == AF_INET && at->ai_addrlen >= sizeof(struct sockaddr_in)) {
        memcpy(ret->host, &((const struct sockaddr_in *)(const void *)at->ai_addr)->sin_addr,
               IPV4_BYTES);
        memcpy(ret->host + IPV4_BYTES, port, sizeof(port));
        ret->host_len = UDP4_BYTES;
        found = true;
    }
    freeaddrinfo(list);
    return found;
}

static VIP_RETURN by_name(struct vipl__session *session, const char *name, VIP_ULONG index,
                          struct vip_addr *ret)
{
    VIP_RETURN rc = check_ready(session, "VipNSGetHostByName");

    if (rc != VIP_SUCCESS)
        return rc;
    if (name[0] != '\0' && strnlen(name, NAME_BYTES_MAX + 1) <= NAME_BYTES_MAX &&
        index <= UINT32_MAX) {
        rc = ask_vipd(session, name, (uint32_t)index, ret);
        if (rc != VIP_ERROR_NAMESERVICE)
            return rc;
        if (ask_resolver(session, name, (uint32_t)index, ret))
            return VIP_SUCCESS;
    }
    return vipl__fail(VIP_ERROR_NAMESERVICE,
                      "VipNSGetHostByName: no address number %lu of \"%.64s\": neither in [names] "
                      "of vipd's configuration nor known to the system's resolver",
                      index, name);
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
        /* Output only: what HostAddressLen was before means nothing (spec 2.9). */
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
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    resolve.has_host = 1;
    resolve.host.data = host->host;
    resolve.host.len = host->host_len;
    request.body_case = VIP__REQUEST__BODY_RESOLVE;
    request.resolve = &resolve;
    rc = vipl__call(session, "VipNSGetHostByAddr", &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    if (reply->resolve != NULL && reply->resolve->name != NULL)
        snprintf(name, name_bytes, "%s", reply->resolve->name);
    else
        rc = vipl__outcome(VIP_ERROR_NAMESERVICE, "unknown to vipd");
    vipl__reply_free(reply);
    return rc;
}

static VIP_RETURN by_address(struct vipl__session *session, struct vip_addr *host, char *name,
                             size_t name_bytes)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    VIP_RETURN rc = check_ready(session, "VipNSGetHostByAddr");

    if (rc != VIP_SUCCESS)
        return rc;
    rc = ask_vipd_name(session, host, name, name_bytes);
    if (rc != VIP_ERROR_NAMESERVICE)
        return rc;
    if (session->resolver && host->host_len == UDP4_BYTES) {
        memcpy(&in.sin_addr, host->host, IPV4_BYTES);
        if (getnameinfo((const struct sockaddr *)&in, sizeof(in), name, (socklen_t)name_bytes, NULL,
                        0, NI_NAMEREQD | NI_DGRAM) == 0)
            return VIP_SUCCESS;
    }
    return vipl__fail(VIP_ERROR_NAMESERVICE,
                      "VipNSGetHostByAddr: this address is neither in [names] of vipd's "
                      "configuration nor known to the system's resolver");
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
    *NameLen = (VIP_ULONG)len;
    return rc;
}
