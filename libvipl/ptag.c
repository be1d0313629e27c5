/* VipCreatePtag, VipDestroyPtag (spec 2.3). A tag's handle contains vipd's number of the tag. */
#include "libvipl/call.h"
#include "libvipl/error.h"
#include "libvipl/session.h"

VIP_RETURN VipCreatePtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE *ProtectionTag)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vipl__session *session;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    if (ProtectionTag == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipCreatePtag: ProtectionTag is NULL");
    session = vipl__nic_enter(NicHandle, "VipCreatePtag");
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
    request.create_ptag = &ptag;
    rc = vipl__call(session, "VipCreatePtag", &request, NULL, 0, &reply);
    if (rc == VIP_SUCCESS)
        *ProtectionTag = (VIP_PROTECTION_HANDLE)(uintptr_t)vipl__handle_make(
            VIPL__KIND_PTAG, session, reply->number);
    vipl__reply_free(reply);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE ProtectionTag)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipDestroyPtag");
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (ProtectionTag == NULL || !vipl__ptag_number(session, ProtectionTag, &ptag.ptag)) {
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "VipDestroyPtag: %p is not a protection tag of this NIC handle",
                        ProtectionTag);
    } else {
        ptag.has_ptag = 1;
        request.body_case = VIP__REQUEST__BODY_DESTROY_PTAG;
        request.destroy_ptag = &ptag;
        rc = vipl__call(session, "VipDestroyPtag", &request, NULL, 0, NULL);
    }
    vipl__leave(session);
    return rc;
}
