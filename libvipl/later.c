/*
 * Functions of VIPL 1.0 that this version does not offer: the
 * Notify calls (2.6, 2.7) and system management (2.8). Arguments are checked as always; the answer
 * is VIP_ERROR_NOT_SUPPORTED, and nothing is done.
 */
#include "libvipl/error.h"
#include "libvipl/session.h"

static VIP_RETURN not_supported(const char *call, const char *instead)
{
    return vipl__fail(VIP_ERROR_NOT_SUPPORTED, "%s: not offered by this version of libvipl; %s",
                      call, instead);
}

static VIP_RETURN notify(const char *call, VIP_VI_HANDLE vi_handle, bool handler_given,
                         const char *instead)
{
    if (vipl__vi_find(vi_handle) == NULL)
        return vipl__bad_vi(call, vi_handle);
    if (!handler_given)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: Handler is NULL", call);
    return not_supported(call, instead);
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context,
                         void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                         VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr))
{
    return notify("VipSendNotify", ViHandle, Handler != NULL,
                  "use VipSendWait in a thread of your own");
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context,
                         void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                         VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr))
{
    return notify("VipRecvNotify", ViHandle, Handler != NULL,
                  "use VipRecvWait in a thread of your own");
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context,
                       void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                       VIP_VI_HANDLE ViHandle, VIP_BOOLEAN RecvQueue))
{
    if (vipl__cq_find(CQHandle) == NULL)
        return vipl__bad_cq("VipCQNotify", CQHandle);
    if (Handler == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipCQNotify: Handler is NULL");
    return not_supported("VipCQNotify", "use VipCQWait in a thread of your own");
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                        VIP_PVOID SysManInfo)
{
    static const char call[] = "VipQuerySystemManagementInfo";
    struct vipl__session *session = vipl__nic_enter(NicHandle, call);
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (InfoType != VIP_SMI_AUTODISCOVERY || SysManInfo == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "%s: InfoType %lu is not VIP_SMI_AUTODISCOVERY, or SysManInfo is NULL",
                        call, InfoType);
    else
        rc = not_supported(call, "list the hosts in [names] of vipd's configuration and look them "
                                 "up with VipNSGetHostByName");
    vipl__leave(session);
    return rc;
}
