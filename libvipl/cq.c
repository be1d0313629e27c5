/* VipCreateCQ, VipDestroyCQ, VipResizeCQ (spec 2.7, 3.8). */
#include <stdlib.h>
#include <string.h>

#include "libvipl/call.h"
#include "libvipl/cq_fd.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/refused.h"
#include "libvipl/take.h"
#include "libvipl/sleep.h"

/* Send one of the three requests about a CQ. After success the caller calls vipl__call_kept. */
static VIP_RETURN ask_cq(struct vipl__session *session, const char *call,
                         Vip__Request__BodyCase body, uint32_t index, VIP_ULONG entries,
                         Vip__Reply **ret_reply)
{
    Vip__CqRequest cq = VIP__CQ_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    cq.has_cq = body != VIP__REQUEST__BODY_CREATE_CQ;
    cq.cq = index;
    cq.has_entries = body != VIP__REQUEST__BODY_DESTROY_CQ;
    cq.entries = entries;
    request.body_case = body;
    request.create_cq = &cq; /* the three requests share this union member */
    return vipl__call_keep(session, call, &request, NULL, 0, ret_reply);
}

static VIP_RETURN check_entries(const struct vipl__session *session, const char *call,
                                VIP_ULONG entries)
{
    if (entries == 0)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: EntryCount is 0", call);
    if (entries > session->nic.MaxCQEntries)
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "%s: %lu entries: at most %lu are possible "
                          "(VIP_NIC_ATTRIBUTES.MaxCQEntries)",
                          call, entries, session->nic.MaxCQEntries);
    return VIP_SUCCESS;
}

/* Make the object of a CQ that vipd has created. NULL: no memory, or a refused CQ still uses the
 * object. Under session->lock. */
static struct vipl__cq *install(struct vipl__session *session, const Vip__CreateCqReply *reply)
{
    struct vipl__cq *cq = session->cq[reply->cq];

    if (cq != NULL && __atomic_load_n(&cq->refused, __ATOMIC_ACQUIRE) != VIPL__TAKEN)
        return NULL;
    if (cq == NULL) {
        cq = calloc(1, sizeof(*cq));
        if (cq == NULL)
            return NULL;
        cq->session = session;
        cq->fd[0] = cq->fd[1] = -1;
        pthread_mutex_init(&cq->fd_lock, NULL);
        cq->index = (uint16_t)reply->cq;
        cq->ring = vip_vipd_cq_ring((void *)session->vipd, reply->cq);
        cq->prod = &vip_vipd_cq((void *)session->vipd, reply->cq)->prod;
        cq->app = vip_app_cq(session->app_base, reply->cq);
    }
    cq->uses++;
    vipl__spin_lock(&cq->done_lock);
    __atomic_store_n(&cq->position, reply->position, __ATOMIC_RELEASE);
    cq->flush_next = 0;
    vip_store32_release(&cq->app->cons, reply->position);
    vipl__spin_unlock(&cq->done_lock);
    __atomic_store_n(&cq->spin_ns, session->spin_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&session->cq[reply->cq], cq, __ATOMIC_RELEASE);
    __atomic_store_n(
        &cq->handle,
        vipl__handle_make(VIPL__KIND_CQ, session, (uint32_t)cq->uses << 16 | reply->cq),
        __ATOMIC_RELEASE);
    return cq;
}

static VIP_RETURN create_cq(struct vipl__session *session, VIP_ULONG entries,
                            VIP_CQ_HANDLE *ret_handle)
{
    Vip__Reply *reply = NULL;
    struct vipl__cq *cq = NULL;
    VIP_RETURN rc = check_entries(session, "VipCreateCQ", entries);

    if (rc == VIP_SUCCESS)
        rc = ask_cq(session, "VipCreateCQ", VIP__REQUEST__BODY_CREATE_CQ, 0, entries, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    if (reply->create_cq == NULL || reply->create_cq->cq >= VIP_CQ_MAX) {
        vipl__call_kept(session);
        vipl__reply_free(reply);
        return vipl__fail(VIP_ERROR_RESOURCE, "VipCreateCQ: vipd's reply makes no sense");
    }
    pthread_mutex_lock(&session->lock);
    if (__atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) == 0)
        cq = install(session, reply->create_cq);
    if (cq != NULL)
        *ret_handle = (VIP_CQ_HANDLE)(uintptr_t)cq->handle;
    pthread_mutex_unlock(&session->lock);
    vipl__call_kept(session);
    if (cq == NULL) {
        if (ask_cq(session, "VipCreateCQ", VIP__REQUEST__BODY_DESTROY_CQ, reply->create_cq->cq, 0,
                   NULL) == VIP_SUCCESS)
            vipl__call_kept(session);
        rc = vipl__fail(
            VIP_ERROR_RESOURCE,
            "VipCreateCQ: out of memory, the NIC is being closed, or vipd uses the number of "
            "a CQ again that it has refused: destroy that CQ first");
    }
    vipl__reply_free(reply);
    return rc;
}

VIP_RETURN VipCreateCQ(VIP_NIC_HANDLE NicHandle, VIP_ULONG EntryCount, VIP_CQ_HANDLE *CQHandle)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipCreateCQ");
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (CQHandle == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipCreateCQ: CQHandle is NULL");
    else
        rc = create_cq(session, EntryCount, CQHandle);
    vipl__leave(session);
    return rc;
}

static bool is_refused(const struct vipl__cq *cq)
{
    return __atomic_load_n(&cq->refused, __ATOMIC_ACQUIRE) != VIPL__TAKEN;
}

/* Fails if a VI is bound to this refused CQ. vipd does not know the CQ, so libvipl checks this. */
static VIP_RETURN refused_unbound(const struct vipl__cq *cq)
{
    for (unsigned i = 0; i < VIP_VI_MAX; i++) {
        const struct vipl__vi *vi = __atomic_load_n(&cq->session->vi[i], __ATOMIC_ACQUIRE);

        for (unsigned q = 0; vi != NULL && q < 2; q++)
            if (__atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0 &&
                __atomic_load_n(&vi->queue[q].cq, __ATOMIC_RELAXED) == cq)
                return vipl__fail(VIP_ERROR_RESOURCE,
                                  "VipDestroyCQ: a VI is bound to completion queue %u", cq->index);
    }
    return VIP_SUCCESS;
}

VIP_RETURN VipDestroyCQ(VIP_CQ_HANDLE CQHandle)
{
    struct vipl__cq *cq = vipl__cq_enter(CQHandle, "VipDestroyCQ");
    uint64_t handle = (uint64_t)(uintptr_t)CQHandle;
    VIP_RETURN rc;
    bool refused;

    if (cq == NULL)
        return VIP_INVALID_PARAMETER;
    refused = is_refused(cq);
    rc = refused ? refused_unbound(cq)
                 : ask_cq(cq->session, "VipDestroyCQ", VIP__REQUEST__BODY_DESTROY_CQ, cq->index, 0,
                          NULL);
    if (rc == VIP_INVALID_PARAMETER && is_refused(cq) &&
        __atomic_load_n(&cq->handle, __ATOMIC_ACQUIRE) == handle) {
        refused = true; /* the next vipd has refused the CQ meanwhile */
        rc = refused_unbound(cq);
    }
    if (rc == VIP_SUCCESS) {
        vipl__spin_lock(&cq->done_lock);
        __atomic_compare_exchange_n(&cq->handle, &handle, 0, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
        vipl__refused_over(cq->session, &cq->refused);
        vipl__spin_unlock(&cq->done_lock);
        if (!refused)
            vipl__call_kept(cq->session);
        vipl__wake_all(cq->session); /* a waiting thread then finds the CQ gone */
        vipl__notify_cancel_cq(cq, (uint64_t)(uintptr_t)CQHandle);
        vipl__cq_fd_close(cq);
    }
    vipl__leave(cq->session);
    return rc;
}

VIP_RETURN VipResizeCQ(VIP_CQ_HANDLE CQHandle, VIP_ULONG EntryCount)
{
    struct vipl__cq *cq = vipl__cq_enter(CQHandle, "VipResizeCQ");
    VIP_RETURN rc;

    if (cq == NULL)
        return VIP_INVALID_PARAMETER;
    rc = check_entries(cq->session, "VipResizeCQ", EntryCount);
    if (rc == VIP_SUCCESS)
        rc = ask_cq(cq->session, "VipResizeCQ", VIP__REQUEST__BODY_RESIZE_CQ, cq->index, EntryCount,
                    NULL);
    if (rc == VIP_SUCCESS)
        vipl__call_kept(cq->session);
    vipl__leave(cq->session);
    return rc;
}
