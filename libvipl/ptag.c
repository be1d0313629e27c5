/* VipCreatePtag, VipDestroyPtag (spec 2.3). A tag's handle contains vipd's number of the tag. */
#include <stdlib.h>

#include "libvipl/call.h"
#include "libvipl/error.h"
#include "libvipl/session.h"

/*
 * Remove a tag from the list. The present vipd has refused the tag and so does not know it
 * (refused.h). False: the list does not have the tag, or must not change because vipd is away.
 */
static bool forget_refused(struct vipl__session *session, uint32_t number)
{
    bool found = false;

    pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; i < session->ptag_count && !found && !vipl__is_gone(session); i++) {
        found = session->ptags[i] == number;
        if (found)
            session->ptags[i] = session->ptags[--session->ptag_count];
    }
    pthread_mutex_unlock(&session->lock);
    return found;
}

/* Add a tag to the list that the next vipd needs. False: no memory. */
static bool remember(struct vipl__session *session, uint32_t number)
{
    uint32_t *ptags;

    pthread_mutex_lock(&session->lock);
    ptags = realloc(session->ptags, (session->ptag_count + 1) * sizeof(*ptags));
    if (ptags != NULL) {
        ptags[session->ptag_count++] = number;
        session->ptags = ptags;
    }
    pthread_mutex_unlock(&session->lock);
    return ptags != NULL;
}

static void forget(struct vipl__session *session, uint32_t number)
{
    pthread_mutex_lock(&session->lock);
    for (uint32_t i = 0; i < session->ptag_count; i++)
        if (session->ptags[i] == number) {
            session->ptags[i] = session->ptags[--session->ptag_count];
            break;
        }
    pthread_mutex_unlock(&session->lock);
}

static VIP_RETURN ask_destroy(struct vipl__session *session, uint32_t number)
{
    Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc;

    ptag.has_ptag = 1;
    ptag.ptag = number;
    request.body_case = VIP__REQUEST__BODY_DESTROY_PTAG;
    request.destroy_ptag = &ptag;
    rc = vipl__call_keep(session, "VipDestroyPtag", &request, NULL, 0, NULL);
    if (rc == VIP_SUCCESS) {
        forget(session, number);
        vipl__call_kept(session);
    }
    if (rc == VIP_INVALID_PARAMETER && forget_refused(session, number))
        rc = VIP_SUCCESS;
    return rc;
}

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
    rc = vipl__call_keep(session, "VipCreatePtag", &request, NULL, 0, &reply);
    if (rc == VIP_SUCCESS) {
        bool noted = remember(session, reply->number);

        vipl__call_kept(session);
        *ProtectionTag = (VIP_PROTECTION_HANDLE)(uintptr_t)vipl__handle_make(
            VIPL__KIND_PTAG, session, reply->number);
        if (!noted) {
            ask_destroy(session, reply->number);
            rc = vipl__fail(VIP_ERROR_RESOURCE, "VipCreatePtag: out of memory");
        }
    }
    vipl__reply_free(reply);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipDestroyPtag(VIP_NIC_HANDLE NicHandle, VIP_PROTECTION_HANDLE ProtectionTag)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipDestroyPtag");
    uint32_t number;
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (ProtectionTag == NULL || !vipl__ptag_number(session, ProtectionTag, &number)) {
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "VipDestroyPtag: %p is not a protection tag of this NIC handle",
                        ProtectionTag);
    } else {
        rc = ask_destroy(session, number);
    }
    vipl__leave(session);
    return rc;
}
