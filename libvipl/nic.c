/* VipOpenNic, VipCloseNic, VipQueryNic, VipErrorCallback (spec 2.1, 2.8). */
#include <string.h>

#include "libvipl/callback.h"
#include "libvipl/error.h"
#include "libvipl/session.h"

/* Longest device name, in bytes, that is sent to vipd; every name of a configuration is shorter. */
#define DEVICE_BYTES_MAX 255

VIP_RETURN VipOpenNic(const VIP_CHAR *DeviceName, VIP_NIC_HANDLE *NicHandle)
{
    struct vipl__session *session;
    VIP_RETURN rc;

    if (DeviceName == NULL || NicHandle == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipOpenNic: %s is NULL",
                          DeviceName == NULL ? "DeviceName" : "NicHandle");
    if (strnlen(DeviceName, DEVICE_BYTES_MAX + 1) > DEVICE_BYTES_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipOpenNic: the device name is longer than %u bytes",
                          (unsigned)DEVICE_BYTES_MAX);
    rc = vipl__session_open(DeviceName, &session);
    if (rc != VIP_SUCCESS)
        return rc;
    *NicHandle = (VIP_NIC_HANDLE)(uintptr_t)session->handle;
    return VIP_SUCCESS;
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipCloseNic");
    uint64_t handle = (uint64_t)(uintptr_t)NicHandle;
    bool mine;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    /* If two threads close the same handle, only one of them goes on. */
    mine = __atomic_compare_exchange_n(&session->handle, &handle, 0, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
    vipl__leave(session);
    if (!mine)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipCloseNic: another thread is closing this NIC handle");
    vipl__session_close(session);
    return VIP_SUCCESS;
}

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES *NicAttribs)
{
    struct vipl__session *session;

    if (NicAttribs == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipQueryNic: NicAttribs is NULL");
    session = vipl__nic_enter(NicHandle, "VipQueryNic");
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    *NicAttribs = session->nic;
    vipl__leave(session);
    return VIP_SUCCESS;
}

VIP_RETURN VipErrorCallback(VIP_NIC_HANDLE NicHandle, VIP_PVOID Context,
                            void (*Handler)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc))
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipErrorCallback");

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    vipl__callbacks_set(session->callbacks, Handler, Context);
    vipl__leave(session);
    return VIP_SUCCESS;
}
