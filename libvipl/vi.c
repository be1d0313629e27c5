/* VipCreateVi, VipDestroyVi, VipQueryVi, VipSetViAttributes (spec 2.2), and Giganet's user data. */
#include <stdlib.h>
#include <string.h>

#include "libvipl/connect.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/refused.h"
#include "libvipl/session.h"
#include "libvipl/take.h"

/* Is `level` exactly one of the levels that the NIC supports? */
static bool one_level(const struct vipl__session *session, VIP_RELIABILITY_LEVEL level)
{
    return level != 0 && (level & (level - 1)) == 0 &&
           (level & session->nic.ReliabilityLevelSupport) != 0;
}

/* Check the attributes as far as the library can. vipd checks them again, and the tag and QoS. */
static VIP_RETURN check_attrs(const struct vipl__session *session, const char *call,
                              const VIP_VI_ATTRIBUTES *attrs, uint32_t *ret_ptag)
{
    const VIP_NIC_ATTRIBUTES *nic = &session->nic;

    if (attrs == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: ViAttribs is NULL", call);
    if (!one_level(session, attrs->ReliabilityLevel))
        return vipl__fail(VIP_INVALID_RELIABILITY_LEVEL,
                          "%s: ReliabilityLevel 0x%x: exactly one bit of 0x%x "
                          "(VIP_NIC_ATTRIBUTES.ReliabilityLevelSupport) must be set",
                          call, attrs->ReliabilityLevel, nic->ReliabilityLevelSupport);
    if (attrs->MaxTransferSize == 0 || attrs->MaxTransferSize > nic->MaxTransferSize)
        return vipl__fail(VIP_INVALID_MTU,
                          "%s: MaxTransferSize %lu: 1 to %lu is possible "
                          "(VIP_NIC_ATTRIBUTES.MaxTransferSize)",
                          call, attrs->MaxTransferSize, nic->MaxTransferSize);
    if (attrs->EnableRdmaRead && (nic->RDMAReadSupport & attrs->ReliabilityLevel) == 0)
        return vipl__fail(VIP_INVALID_RDMAREAD,
                          "%s: EnableRdmaRead is set, and this NIC has no RDMA Read at that "
                          "reliability level (VIP_NIC_ATTRIBUTES.RDMAReadSupport is 0x%x)",
                          call, nic->RDMAReadSupport);
    if (!vipl__ptag_number(session, attrs->Ptag, ret_ptag))
        return vipl__fail(VIP_INVALID_PTAG, "%s: %p is not a protection tag of this NIC handle",
                          call, attrs->Ptag);
    return VIP_SUCCESS;
}

static void init_queue(struct vipl__session *session, struct vipl__vi *vi, enum vip_queue which,
                       uint32_t position, struct vipl__cq *cq)
{
    struct vipl__queue *queue = &vi->queue[which];

    vip_comps_open(&queue->comps, session->vipd, vi->index, which);
    __atomic_store_n(&queue->prod, &vip_vipd_vi((void *)session->vipd, vi->index)->prod[which],
                     __ATOMIC_RELAXED);
    __atomic_store_n(&queue->waiters, &vip_app_vi(session->app_base, vi->index)->waiters[which],
                     __ATOMIC_RELAXED);
    queue->position = queue->first = position;
    queue->reported = 0;
    queue->via = position;
    queue->conts = queue->conts_used = 0;
    queue->direct_reported = 0;
    __atomic_store_n(&queue->direct_done, 0, __ATOMIC_RELAXED);
    if (queue->ahead != NULL)
        memset(queue->ahead, 0, sizeof(*queue->ahead));
    if (session->watched)
        __atomic_or_fetch(queue->waiters, VIP_APP_WAITERS_NOTIFY, __ATOMIC_SEQ_CST);
    __atomic_store_n(&queue->cq, cq, __ATOMIC_RELAXED);
    __atomic_store_n(&queue->posted, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&queue->reaped, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&queue->spin_ns, session->spin_ns, __ATOMIC_RELAXED);
}

/* The checked arguments of one VipCreateVi. */
struct create {
    VIP_VI_ATTRIBUTES attrs;
    uint32_t ptag;
    struct vipl__cq *cq[2]; /* indexed by enum vip_queue */
};

/*
 * Make the `ahead` objects (take.h) for a session with VIPL_STATUS_IN_MEMORY. Like the VI object
 * they are never freed. False: no memory.
 */
static bool ahead_made(struct vipl__vi *vi)
{
    struct vipl__ahead *ahead;

    if (vi->queue[0].ahead != NULL)
        return true;
    ahead = calloc(2, sizeof(*ahead));
    for (unsigned q = 0; ahead != NULL && q < 2; q++)
        vi->queue[q].ahead = &ahead[q];
    return ahead != NULL;
}

/* The VI with this object is destroyed. Under session->lock. */
static void end(struct vipl__vi *vi)
{
    vipl__spin_lock(&vi->session->post_lock);
    __atomic_store_n(&vi->handle, 0, __ATOMIC_SEQ_CST);
    vipl__attempt_close_fd(vi);
    vipl__refused_over(vi->session, &vi->refused);
    vipl__spin_unlock(&vi->session->post_lock);
    vipl__direct_destroy(vi);
    vipl__lent_reset(vi);
}

/* Make the object of a VI that vipd has created. NULL: no memory, or a refused VI still uses the
 * object. Under session->lock. */
static struct vipl__vi *install(struct vipl__session *session, const struct create *create,
                                const Vip__CreateViReply *reply)
{
    struct vipl__vi *vi = session->vi[reply->vi];

    if (vi != NULL && __atomic_load_n(&vi->refused, __ATOMIC_ACQUIRE) != VIPL__TAKEN)
        return NULL;
    if (vi == NULL) {
        vi = aligned_alloc(64, (sizeof(*vi) + 63) / 64 * 64);
        if (vi == NULL)
            return NULL;
        memset(vi, 0, sizeof(*vi));
        vi->session = session;
        vi->index = (uint16_t)reply->vi;
        vi->attempt_fd = -1;
    }
    if (session->watched && !ahead_made(vi)) {
        if (session->vi[reply->vi] == NULL)
            free(vi);
        return NULL;
    }
    /* vipd has destroyed the VI with this number, and the thread that asked for it does not yet know. */
    if (__atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0)
        end(vi);
    vi->uses++;
    __atomic_store_n(&vi->generation, reply->generation, __ATOMIC_RELAXED);
    vi->attrs = create->attrs;
    vi->attempt = VIPL__ATTEMPT_NONE;
    vi->attempt_async = false;
    vi->ticket_len = 0;
    vipl__lent_reset(vi);
    __atomic_store_n(&vi->user_data, NULL, __ATOMIC_RELAXED);
    for (unsigned q = 0; q < 2; q++) {
        struct vipl__queue *queue = &vi->queue[q];

        /* Take both spin locks, because a call with a stale handle may read these members now. */
        vipl__spin_lock(&session->post_lock);
        vipl__spin_lock(&queue->done_lock);
        vi->ptag = create->ptag;
        vi->rdma_posted = false;
        init_queue(session, vi, (enum vip_queue)q,
                   q == VIP_Q_SEND ? reply->send_position : reply->recv_position, create->cq[q]);
        vipl__spin_unlock(&queue->done_lock);
        vipl__spin_unlock(&session->post_lock);
    }
    vipl__direct_create(vi);
    __atomic_store_n(&session->vi[reply->vi], vi, __ATOMIC_RELEASE);
    __atomic_store_n(
        &vi->handle,
        vipl__handle_make(VIPL__KIND_VI, session, (uint32_t)vi->uses << 16 | reply->vi),
        __ATOMIC_RELEASE);
    return vi;
}

/* Ask vipd to destroy a VI. After success the caller must call vipl__call_kept. */
static VIP_RETURN ask_destroy(struct vipl__session *session, uint32_t index)
{
    Vip__ViRequest destroy = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    destroy.has_vi = 1;
    destroy.vi = index;
    request.body_case = VIP__REQUEST__BODY_DESTROY_VI;
    request.destroy_vi = &destroy;
    return vipl__call_keep(session, "VipDestroyVi", &request, NULL, 0, NULL);
}

static VIP_RETURN create_vi(struct vipl__session *session, const struct create *create,
                            VIP_VI_HANDLE *ret_handle)
{
    Vip__ViAttributes attributes;
    Vip__CreateViRequest vi = VIP__CREATE_VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    struct vipl__vi *made = NULL;
    VIP_RETURN rc;

    vipl__vi_attrs_put(&attributes, &create->attrs, create->ptag);
    vi.attributes = &attributes;
    vi.has_send_cq = create->cq[VIP_Q_SEND] != NULL;
    vi.send_cq = vi.has_send_cq ? create->cq[VIP_Q_SEND]->index : 0;
    vi.has_recv_cq = create->cq[VIP_Q_RECV] != NULL;
    vi.recv_cq = vi.has_recv_cq ? create->cq[VIP_Q_RECV]->index : 0;
    request.body_case = VIP__REQUEST__BODY_CREATE_VI;
    request.create_vi = &vi;
    rc = vipl__call_keep(session, "VipCreateVi", &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    if (reply->create_vi == NULL || reply->create_vi->vi >= VIP_VI_MAX) {
        vipl__call_kept(session);
        vipl__reply_free(reply);
        return vipl__fail(VIP_ERROR_RESOURCE, "VipCreateVi: vipd's reply makes no sense");
    }
    pthread_mutex_lock(&session->lock);
    if (__atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) == 0)
        made = install(session, create, reply->create_vi);
    if (made != NULL)
        *ret_handle = (VIP_VI_HANDLE)(uintptr_t)made->handle;
    pthread_mutex_unlock(&session->lock);
    vipl__call_kept(session);
    if (made == NULL) {
        if (ask_destroy(session, reply->create_vi->vi) == VIP_SUCCESS)
            vipl__call_kept(session);
        rc = vipl__fail(
            VIP_ERROR_RESOURCE,
            "VipCreateVi: out of memory, the NIC is being closed, or vipd uses the number of "
            "a VI again that it has refused: destroy that VI first");
    }
    vipl__reply_free(reply);
    return rc;
}

/* Find the CQ of a handle of this session. The handle NULL means: no CQ. */
static VIP_RETURN check_cq(struct vipl__session *session, VIP_CQ_HANDLE handle,
                           struct vipl__cq **ret_cq)
{
    *ret_cq = NULL;
    if (handle == NULL)
        return VIP_SUCCESS;
    *ret_cq = vipl__cq_find(handle);
    if (*ret_cq == NULL)
        return vipl__bad_cq("VipCreateVi", handle);
    if ((*ret_cq)->session != session)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipCreateVi: completion queue %p belongs to another NIC handle", handle);
    return VIP_SUCCESS;
}

VIP_RETURN VipCreateVi(VIP_NIC_HANDLE NicHandle, VIP_VI_ATTRIBUTES *ViAttribs,
                       VIP_CQ_HANDLE SendCQHandle, VIP_CQ_HANDLE RecvCQHandle,
                       VIP_VI_HANDLE *ViHandle)
{
    struct vipl__session *session = vipl__nic_enter(NicHandle, "VipCreateVi");
    struct create create = {0};
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (ViHandle == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER, "VipCreateVi: ViHandle is NULL");
    else
        rc = check_attrs(session, "VipCreateVi", ViAttribs, &create.ptag);
    if (rc == VIP_SUCCESS)
        rc = check_cq(session, SendCQHandle, &create.cq[VIP_Q_SEND]);
    if (rc == VIP_SUCCESS)
        rc = check_cq(session, RecvCQHandle, &create.cq[VIP_Q_RECV]);
    if (rc == VIP_SUCCESS) {
        create.attrs = *ViAttribs;
        rc = create_vi(session, &create, ViHandle);
    }
    vipl__leave(session);
    return rc;
}

static bool queue_empty(const struct vipl__queue *queue)
{
    return __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) ==
           __atomic_load_n(&queue->reaped, __ATOMIC_ACQUIRE);
}

static bool is_refused(const struct vipl__vi *vi)
{
    return __atomic_load_n(&vi->refused, __ATOMIC_ACQUIRE) != VIPL__TAKEN;
}

/* Destroy an Idle VI with empty queues; leave any other VI as it is (spec 3.1). */
static VIP_RETURN destroy_vi(struct vipl__vi *vi, uint64_t handle)
{
    struct vipl__session *session = vi->session;
    enum vip_vi_state state = vipl__vi_state(vi);
    VIP_RETURN rc = VIP_SUCCESS;
    bool refused;

    if (vipl__is_dead(session))
        return ask_destroy(session, vi->index); /* fails and sets the reason */
    if (state != VIP_VIST_IDLE)
        return vipl__fail(VIP_INVALID_STATE,
                          "VipDestroyVi: the VI is in state %s, only an Idle VI can be destroyed; "
                          "call VipDisconnect first",
                          vip_vi_state_name(state));
    if (!queue_empty(&vi->queue[VIP_Q_SEND]) || !queue_empty(&vi->queue[VIP_Q_RECV]))
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "VipDestroyVi: descriptors are on the %s queue; take them back with "
                          "VipSendDone and VipRecvDone (VipDisconnect completes them as flushed)",
                          queue_empty(&vi->queue[VIP_Q_SEND]) ? "receive" : "send");
    refused = is_refused(vi);
    if (!refused)
        rc = ask_destroy(session, vi->index);
    if (rc == VIP_INVALID_PARAMETER && vipl__vi_is(vi, handle) && is_refused(vi)) {
        refused = true; /* the next vipd has refused the VI meanwhile */
        rc = VIP_SUCCESS;
    }
    if (rc != VIP_SUCCESS)
        return rc;
    pthread_mutex_lock(&session->lock);
    /* Another thread may have created a VI with the same number since vipd's reply. */
    if (vipl__vi_is(vi, handle))
        end(vi);
    pthread_mutex_unlock(&session->lock);
    if (!refused)
        vipl__call_kept(session);
    vipl__notify_cancel_vi(vi, handle);
    return VIP_SUCCESS;
}

VIP_RETURN VipDestroyVi(VIP_VI_HANDLE ViHandle)
{
    struct vipl__vi *vi = vipl__vi_enter(ViHandle, "VipDestroyVi");
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    rc = destroy_vi(vi, (uint64_t)(uintptr_t)ViHandle);
    vipl__leave(vi->session);
    return rc;
}

VIP_RETURN VipQueryVi(VIP_VI_HANDLE ViHandle, VIP_VI_STATE *State, VIP_VI_ATTRIBUTES *ViAttribs,
                      VIP_BOOLEAN *ViSendQEmpty, VIP_BOOLEAN *ViRecvQEmpty)
{
    struct vipl__vi *vi;

    if (State == NULL || ViAttribs == NULL || ViSendQEmpty == NULL || ViRecvQEmpty == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipQueryVi: an output pointer is NULL");
    vi = vipl__vi_enter(ViHandle, "VipQueryVi");
    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    *State = (VIP_VI_STATE)vipl__vi_state(vi);
    pthread_mutex_lock(&vi->session->lock);
    *ViAttribs = vi->attrs;
    pthread_mutex_unlock(&vi->session->lock);
    *ViSendQEmpty = queue_empty(&vi->queue[VIP_Q_SEND]) ? VIP_TRUE : VIP_FALSE;
    *ViRecvQEmpty = queue_empty(&vi->queue[VIP_Q_RECV]) ? VIP_TRUE : VIP_FALSE;
    vipl__leave(vi->session);
    return VIP_SUCCESS;
}

static VIP_RETURN set_attributes(struct vipl__vi *vi, const VIP_VI_ATTRIBUTES *attrs, uint32_t ptag)
{
    struct vipl__session *session = vi->session;
    Vip__ViAttributes attributes;
    Vip__ViRequest set = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc;

    vipl__vi_attrs_put(&attributes, attrs, ptag);
    set.has_vi = 1;
    set.vi = vi->index;
    set.attributes = &attributes;
    request.body_case = VIP__REQUEST__BODY_SET_VI_ATTRIBUTES;
    request.set_vi_attributes = &set;
    rc = vipl__call_keep(session, "VipSetViAttributes", &request, NULL, 0, NULL);
    if (rc != VIP_SUCCESS)
        return rc;
    pthread_mutex_lock(&session->lock);
    vi->attrs = *attrs;
    pthread_mutex_unlock(&session->lock);
    vipl__spin_lock(&session->post_lock);
    vi->ptag = ptag;
    vipl__spin_unlock(&session->post_lock);
    vipl__call_kept(session);
    return VIP_SUCCESS;
}

VIP_RETURN VipSetViAttributes(VIP_VI_HANDLE ViHandle, VIP_VI_ATTRIBUTES *ViAttribs)
{
    struct vipl__vi *vi = vipl__vi_enter(ViHandle, "VipSetViAttributes");
    uint32_t ptag = 0;
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    rc = check_attrs(vi->session, "VipSetViAttributes", ViAttribs, &ptag);
    if (rc == VIP_SUCCESS)
        rc = set_attributes(vi, ViAttribs, ptag);
    vipl__leave(vi->session);
    return rc;
}

VIP_PVOID VipGetUserData(VIP_VI_HANDLE ViHandle)
{
    struct vipl__vi *vi = vipl__vi_find(ViHandle);

    if (vi == NULL) {
        vipl__bad_vi("VipGetUserData", ViHandle);
        return NULL;
    }
    return __atomic_load_n(&vi->user_data, __ATOMIC_ACQUIRE);
}

void VipSetUserData(VIP_VI_HANDLE ViHandle, VIP_PVOID UserData)
{
    struct vipl__vi *vi = vipl__vi_find(ViHandle);

    if (vi == NULL)
        vipl__bad_vi("VipSetUserData", ViHandle);
    else
        __atomic_store_n(&vi->user_data, UserData, __ATOMIC_RELEASE);
}
