/*
 * For test programs that try to connect where a server must reject them. call() makes one attempt
 * through VIPL alone; rejected() checks its result.
 */
#ifndef TESTS_LIB_STRANGER_H
#define TESTS_LIB_STRANGER_H

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vipl.h"
#include "vipl_ext.h"

#define CHECK(call)                                                                                \
    if ((call) != VIP_SUCCESS)                                                                     \
    printf("stranger: %s: %s\n", #call, VipxLastError()), exit(2)

/* Time limit of an attempt to connect, so long that even a busy server answers in time. */
#define CALL_MS 60000

union address {
    VIP_NET_ADDRESS net;
    char room[256];
};

/* The VI attributes of the server's VIs. With other attributes the attempt would fail for another
 * reason than a rejection. */
static VIP_VI_ATTRIBUTES like_theirs;

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attrs;
static int taken, calls;

static const struct {
    VIP_RELIABILITY_LEVEL level;
    const char *name;
} levels[] = {{VIP_SERVICE_RELIABLE_DELIVERY, "Reliable Delivery"},
              {VIP_SERVICE_UNRELIABLE, "Unreliable"},
              {VIP_SERVICE_RELIABLE_RECEPTION, "Reliable Reception"}};

static inline void open_nic(void)
{
    CHECK(VipOpenNic("", &nic));
    CHECK(VipQueryNic(nic, &nic_attrs));
}

static inline void set_address(union address *to, const void *host, size_t host_len,
                               const void *number, size_t bytes)
{
    to->net.HostAddressLen = (VIP_UINT16)host_len;
    to->net.DiscriminatorLen = (VIP_UINT16)bytes;
    memcpy(to->net.HostAddress, host, host_len);
    memcpy(to->net.HostAddress + host_len, number, bytes);
}

static inline void set_own(union address *to, const void *number, size_t bytes)
{
    set_address(to, nic_attrs.LocalNicAddress, nic_attrs.NicAddressLen, number, bytes);
}

/* Try once to connect, and return the result. If the server accepts, disconnect again. */
static inline VIP_RETURN call(VIP_RELIABILITY_LEVEL level, union address *from, union address *to,
                              const void *said, size_t bytes)
{
    VIP_VI_ATTRIBUTES attrs = like_theirs;
    VIPX_PRIVATE_DATA data = {.Length = (VIP_ULONG)bytes};
    struct pollfd wait = {.events = POLLIN};
    VIP_VI_HANDLE vi;
    VIP_RETURN code;

    if (bytes > 0)
        memcpy(data.Data, said, bytes);
    attrs.ReliabilityLevel = level;
    CHECK(VipCreateVi(nic, &attrs, NULL, NULL, &vi));
    CHECK(VipxConnectStart(vi, &from->net, &to->net, CALL_MS, 0, &data));
    CHECK(VipxConnectGetFd(vi, &wait.fd));
    while ((code = VipxConnectFinish(vi, NULL, NULL)) == VIP_NOT_DONE)
        (void)poll(&wait, 1, -1);
    if (code == VIP_SUCCESS)
        VipDisconnect(vi);
    CHECK(VipDestroyVi(vi));
    calls++;
    return code;
}

static inline void rejected(const char *how, VIP_RETURN code)
{
    if (code == VIP_REJECT)
        return;
    printf("stranger: %s: %s instead of a rejection\n", how,
           code == VIP_SUCCESS    ? "taken in"
           : code == VIP_NO_MATCH ? "nothing listens"
                                  : "an error");
    taken++;
}

#endif
