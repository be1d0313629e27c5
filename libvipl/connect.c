/*
 * VipConnectWait, VipConnectAccept, VipConnectReject, VipConnectRequest, VipDisconnect (spec 2.4),
 * accept and reject with private data, VipxConnectUser.
 *
 * vipd answers every control request at once. A result that takes longer comes as an event: the
 * provider thread stores it in the session (events.c), and the caller waits for it here. A
 * connection request that vipd has given to a wait is never lost: a wait that times out asks vipd
 * whether a request is on its way.
 */
#include <stdlib.h>
#include <string.h>

#include "libvipl/connect.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/listen.h"
#include "libvipl/refused.h"
#include "libvipl/sleep.h"
#include "proto/ring.h"
#include "libvipl/vipl_ext.h"

/* The index in a connection handle has 16 bits. */
#define CONNS_MAX 65536u

/* Used instead of vipd's number of a request if the vipd that got the request has ended. */
#define NO_REQUEST UINT64_MAX

/* ---- connection handles -------------------------------------------------------------------- */

/*
 * Make a connection handle. Returns 0 if there is no memory, or there are CONNS_MAX handles. Under
 * session->lock.
 */
static uint64_t conn_add(struct vipl__session *session, const struct vipl__incoming *incoming)
{
    struct vipl__conn *conns;
    uint32_t i, slots;

    for (i = 0; i < session->conn_slots && session->conns[i].handle != 0; i++)
        continue;
    if (i == session->conn_slots) {
        slots = session->conn_slots == 0 ? 16 : 2 * session->conn_slots;
        if (slots > CONNS_MAX)
            return 0;
        conns = realloc(session->conns, slots * sizeof(*conns));
        if (conns == NULL)
            return 0;
        memset(conns + session->conn_slots, 0, (slots - session->conn_slots) * sizeof(*conns));
        session->conns = conns;
        session->conn_slots = slots;
    }
    session->conns[i].uses++;
    /* If vipd has ended since it sent the request, no vipd knows the request's number any more. */
    session->conns[i].conn_handle =
        incoming->tells == session->tells ? incoming->conn_handle : NO_REQUEST;
    session->conns[i].handle =
        vipl__handle_make(VIPL__KIND_CONN, session, (uint32_t)session->conns[i].uses << 16 | i);
    return session->conns[i].handle;
}

/* Find the pending request of a handle; NULL if there is none (any more). Under session->lock. */
static struct vipl__conn *conn_find(struct vipl__session *session, uint64_t handle)
{
    uint32_t i = handle & 0xFFFF;

    if (i >= session->conn_slots || session->conns[i].handle != handle)
        return NULL;
    return &session->conns[i];
}

/*
 * Enter the session of a connection handle and look up vipd's number of the request. NULL with the
 * reason set if the handle is not a pending request.
 */
static struct vipl__session *conn_enter(VIP_CONN_HANDLE conn_handle, const char *call,
                                        uint64_t *ret_number)
{
    uint64_t handle = (uint64_t)(uintptr_t)conn_handle;
    struct vipl__session *session = vipl__handle_session(handle, VIPL__KIND_CONN);
    struct vipl__conn *conn = NULL;

    if (session != NULL) {
        __atomic_add_fetch(&session->users, 1, __ATOMIC_SEQ_CST);
        pthread_mutex_lock(&session->lock);
        if (__atomic_load_n(&session->handle, __ATOMIC_SEQ_CST) != 0)
            conn = conn_find(session, handle);
        if (conn != NULL)
            *ret_number = conn->conn_handle;
        pthread_mutex_unlock(&session->lock);
        if (conn != NULL)
            return session;
        vipl__leave(session);
    }
    vipl__fail(VIP_INVALID_PARAMETER,
               "%s: %p is not a pending connection request (accepted or rejected already, given up "
               "by the client, or its NIC is closed)",
               call, conn_handle);
    return NULL;
}

static void conn_forget(struct vipl__session *session, VIP_CONN_HANDLE conn_handle)
{
    struct vipl__conn *conn;

    pthread_mutex_lock(&session->lock);
    conn = conn_find(session, (uint64_t)(uintptr_t)conn_handle);
    if (conn != NULL)
        conn->handle = 0;
    pthread_mutex_unlock(&session->lock);
}

/* ---- VipConnectWait ------------------------------------------------------------------------ */

void vipl__requests_forget(struct vipl__session *session)
{
    struct vipl__incoming *incoming;

    while ((incoming = session->incoming) != NULL) {
        session->incoming = incoming->next;
        free(incoming);
    }
    for (uint32_t i = 0; i < session->conn_slots; i++)
        session->conns[i].conn_handle = NO_REQUEST;
}

/* A wait that vipd has accepted. */
struct wait {
    uint64_t id;
    uint32_t life; /* the session's `lives` at the start of the wait */
};

static bool life_over(const struct vipl__session *session, const struct wait *wait)
{
    return __atomic_load_n(&session->lives, __ATOMIC_ACQUIRE) != wait->life;
}

/* Wait for the connection request that vipd sends for *wait. NULL: the time is over, vipd died, the
 * next vipd has come, or the session closes. */
static struct vipl__incoming *await_incoming(struct vipl__session *session, const struct wait *wait,
                                             uint64_t deadline_ns)
{
    struct vipl__incoming *incoming = NULL, **at;
    bool in_time = true;

    pthread_mutex_lock(&session->lock);
    for (;;) {
        for (at = &session->incoming; *at != NULL; at = &(*at)->next)
            if ((*at)->wait_id == wait->id && !life_over(session, wait)) {
                incoming = *at;
                *at = incoming->next;
                break;
            }
        if (incoming != NULL || !in_time || vipl__is_dead(session) || vipl__closing(session) ||
            life_over(session, wait))
            break;
        in_time = vipl__await_change(session, deadline_ns);
    }
    pthread_mutex_unlock(&session->lock);
    return incoming;
}

static VIP_RETURN ask_wait(struct vipl__session *session, struct vip_addr *local, bool immediate,
                           uint64_t until_ns, struct wait *ret, bool *ret_found)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__NetAddress address;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    vipl__put_address(&address, local);
    wait.local = &address;
    wait.has_immediate = 1;
    wait.immediate = immediate;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    rc = vipl__call_keep_until(session, "VipConnectWait", &request, until_ns, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    ret->life = __atomic_load_n(&session->lives, __ATOMIC_ACQUIRE);
    vipl__call_kept(session);
    ret->id = reply->connect_wait == NULL ? 0 : reply->connect_wait->wait_id;
    *ret_found = reply->connect_wait != NULL && reply->connect_wait->found;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

/* Cancel a wait. *ret_found: vipd has already sent a connection request for this wait. */
static VIP_RETURN ask_cancel(struct vipl__session *session, uint64_t wait_id, bool *ret_found)
{
    Vip__ConnectWaitCancel cancel = VIP__CONNECT_WAIT_CANCEL__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    cancel.has_wait_id = 1;
    cancel.wait_id = wait_id;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL;
    request.connect_wait_cancel = &cancel;
    rc = vipl__call(session, "VipConnectWait", &request, NULL, 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    *ret_found = reply->connect_wait != NULL && reply->connect_wait->found;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

/* Wait for a connection request for a local address, within the time limit. */
static VIP_RETURN wait_incoming(struct vipl__session *session, struct vip_addr *local,
                                VIP_ULONG timeout_ms, struct vipl__incoming **ret)
{
    bool immediate = timeout_ms == 0, found = false;
    uint64_t deadline_ns = vipl__deadline(timeout_ms);
    struct wait wait;
    VIP_RETURN rc;

    do {
        rc = ask_wait(session, local, immediate, deadline_ns, &wait, &found);
        if (rc != VIP_SUCCESS)
            return rc;
        *ret = NULL;
        if (!immediate)
            *ret = await_incoming(session, &wait, deadline_ns);
        /* Repeat this if the next vipd has come: it does not know the wait. */
    } while (*ret == NULL && !immediate && life_over(session, &wait) && !vipl__is_dead(session) &&
             !vipl__closing(session) && vipl__now_ns() < deadline_ns);
    if (*ret == NULL && !immediate && !vipl__is_dead(session) && !vipl__closing(session) &&
        !life_over(session, &wait)) {
        rc = ask_cancel(session, wait.id, &found);
        if (rc != VIP_SUCCESS)
            return rc;
    }
    if (*ret == NULL && found)
        *ret = await_incoming(session, &wait, VIPL__NEVER);
    if (*ret != NULL)
        return VIP_SUCCESS;
    if (vipl__is_dead(session) || vipl__closing(session))
        return vipl__gone(session, "VipConnectWait");
    return vipl__fail(VIP_TIMEOUT,
                      "VipConnectWait: no connection request came within the time limit");
}

void vipl__reject_quietly(struct vipl__session *session, const char *call, uint64_t conn_handle)
{
    Vip__RejectRequest reject = VIP__REJECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    reject.has_conn_handle = 1;
    reject.conn_handle = conn_handle;
    request.body_case = VIP__REQUEST__BODY_REJECT;
    request.reject = &reject;
    vipl__call(session, call, &request, NULL, 0, NULL);
}

VIP_RETURN vipl__incoming_take(struct vipl__session *session, const char *call,
                               struct vipl__incoming *incoming, VIP_NET_ADDRESS *ret_remote,
                               VIP_VI_ATTRIBUTES *ret_attrs, VIPX_PRIVATE_DATA *ret_data,
                               VIP_CONN_HANDLE *ret_handle)
{
    uint64_t handle;

    pthread_mutex_lock(&session->lock);
    handle = conn_add(session, incoming);
    pthread_mutex_unlock(&session->lock);
    if (handle == 0) {
        vipl__reject_quietly(session, call, incoming->conn_handle);
        free(incoming);
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "%s: out of memory, or more than %u requests are pending; a request was "
                          "rejected",
                          call, CONNS_MAX);
    }
    if (ret_remote != NULL)
        vipl__write_address(ret_remote, &incoming->remote);
    if (ret_attrs != NULL)
        *ret_attrs = incoming->attrs;
    if (ret_data != NULL)
        vipl__write_private(ret_data, &incoming->data);
    *ret_handle = (VIP_CONN_HANDLE)(uintptr_t)handle;
    free(incoming);
    return VIP_SUCCESS;
}

static VIP_RETURN connect_wait(struct vipl__session *session, struct vip_addr *local,
                               VIP_ULONG timeout_ms, VIP_NET_ADDRESS *ret_remote,
                               VIP_VI_ATTRIBUTES *ret_attrs, VIP_CONN_HANDLE *ret_handle)
{
    struct vipl__incoming *incoming;
    VIP_RETURN rc = wait_incoming(session, local, timeout_ms, &incoming);

    if (rc != VIP_SUCCESS)
        return rc;
    return vipl__incoming_take(session, "VipConnectWait", incoming, ret_remote, ret_attrs, NULL,
                               ret_handle);
}

VIP_RETURN VipConnectWait(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS *LocalAddr, VIP_ULONG Timeout,
                          VIP_NET_ADDRESS *RemoteAddr, VIP_VI_ATTRIBUTES *RemoteViAttribs,
                          VIP_CONN_HANDLE *ConnHandle)
{
    struct vipl__session *session;
    struct vip_addr local;
    VIP_RETURN rc;

    if (ConnHandle == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "VipConnectWait: ConnHandle is NULL");
    session = vipl__nic_enter(NicHandle, "VipConnectWait");
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    rc = vipl__read_local(session, "VipConnectWait", LocalAddr, &local);
    if (rc == VIP_SUCCESS)
        rc = connect_wait(session, &local, Timeout, RemoteAddr, RemoteViAttribs, ConnHandle);
    vipl__leave(session);
    return rc;
}

/* ---- accept, reject, request ------------------------------------------------------------- */

static VIP_RETURN accept_on(struct vipl__session *session, const char *call, uint64_t number,
                            VIP_CONN_HANDLE conn_handle, struct vipl__vi *vi,
                            struct vip_private *data)
{
    Vip__AcceptRequest accept = VIP__ACCEPT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc;

    if (number == NO_REQUEST) {
        conn_forget(session, conn_handle);
        return vipl__fail(VIP_TIMEOUT,
                          "%s: the request came before vipd began anew; the client asks "
                          "again, if it still wants to",
                          call);
    }
    rc = vipl__attempt_begin(vi, VIPL__ATTEMPT_ACCEPT, call);
    if (rc != VIP_SUCCESS)
        return rc;
    accept.has_conn_handle = accept.has_vi = 1;
    accept.conn_handle = number;
    accept.vi = vi->index;
    accept.has_private_data = data->len > 0;
    accept.private_data.data = data->bytes;
    accept.private_data.len = data->len;
    request.body_case = VIP__REQUEST__BODY_ACCEPT;
    request.accept = &accept;
    rc = vipl__call_keep(session, call, &request, NULL, 0, NULL);
    if (rc == VIP_SUCCESS) {
        vipl__attempt_sent(vi);
        vipl__call_kept(session);
    } else {
        vipl__attempt_end(vi);
    }
    /* Spec 2.4: after a conflict of attributes the connection handle stays valid. The handle
     * becomes invalid after success, and if the client has given up (VIP_TIMEOUT). */
    if (rc == VIP_SUCCESS || rc == VIP_TIMEOUT)
        conn_forget(session, conn_handle);
    return rc == VIP_SUCCESS ? vipl__attempt_result(vi, call, NULL, NULL) : rc;
}

static VIP_RETURN accept_request(const char *call, VIP_CONN_HANDLE conn_handle,
                                 VIP_VI_HANDLE vi_handle, const VIPX_PRIVATE_DATA *given)
{
    uint64_t number = 0;
    struct vipl__session *session = conn_enter(conn_handle, call, &number);
    struct vip_private data;
    struct vipl__vi *vi;
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    vi = vipl__vi_find(vi_handle);
    rc = vipl__read_private(call, given, &data);
    if (vi == NULL)
        rc = vipl__bad_vi(call, vi_handle);
    else if (vi->session != session)
        rc =
            vipl__fail(VIP_INVALID_PARAMETER,
                       "%s: VI %p belongs to another NIC handle than the request", call, vi_handle);
    else if (rc == VIP_SUCCESS)
        rc = accept_on(session, call, number, conn_handle, vi, &data);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle)
{
    return accept_request("VipConnectAccept", ConnHandle, ViHandle, NULL);
}

VIP_RETURN VipxConnectAccept(VIP_CONN_HANDLE ConnHandle, VIP_VI_HANDLE ViHandle,
                             const VIPX_PRIVATE_DATA *Data)
{
    return accept_request("VipxConnectAccept", ConnHandle, ViHandle, Data);
}

static VIP_RETURN reject_request(const char *call, VIP_CONN_HANDLE conn_handle,
                                 const VIPX_PRIVATE_DATA *given)
{
    Vip__RejectRequest reject = VIP__REJECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vipl__session *session;
    struct vip_private data;
    VIP_RETURN rc = vipl__read_private(call, given, &data);

    if (rc != VIP_SUCCESS)
        return rc;
    session = conn_enter(conn_handle, call, &reject.conn_handle);
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    reject.has_conn_handle = 1;
    reject.has_private_data = data.len > 0;
    reject.private_data.data = data.bytes;
    reject.private_data.len = data.len;
    request.body_case = VIP__REQUEST__BODY_REJECT;
    request.reject = &reject;
    rc = reject.conn_handle == NO_REQUEST ? VIP_SUCCESS
                                          : vipl__call(session, call, &request, NULL, 0, NULL);
    conn_forget(session, conn_handle);
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipxConnectUser(VIP_CONN_HANDLE ConnHandle, VIP_UINT32 *Uid)
{
    static const char call[] = "VipxConnectUser";
    Vip__ConnUserRequest body = VIP__CONN_USER_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vipl__session *session;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    if (Uid == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: Uid is NULL", call);
    session = conn_enter(ConnHandle, call, &body.conn_handle);
    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    body.has_conn_handle = 1;
    request.body_case = VIP__REQUEST__BODY_CONN_USER;
    request.conn_user = &body;
    rc = vipl__call(session, call, &request, NULL, 0, &reply);
    if (rc == VIP_SUCCESS) {
        *Uid = (VIP_UINT32)reply->number64;
        vipl__reply_free(reply);
    }
    vipl__leave(session);
    return rc;
}

VIP_RETURN VipConnectReject(VIP_CONN_HANDLE ConnHandle)
{
    return reject_request("VipConnectReject", ConnHandle, NULL);
}

VIP_RETURN VipxConnectReject(VIP_CONN_HANDLE ConnHandle, const VIPX_PRIVATE_DATA *Data)
{
    return reject_request("VipxConnectReject", ConnHandle, Data);
}

VIP_RETURN VipConnectRequest(VIP_VI_HANDLE ViHandle, VIP_NET_ADDRESS *LocalAddr,
                             VIP_NET_ADDRESS *RemoteAddr, VIP_ULONG Timeout,
                             VIP_VI_ATTRIBUTES *RemoteViAttribs)
{
    static const char call[] = "VipConnectRequest";
    struct vipl__vi *vi = vipl__vi_enter(ViHandle, call);
    struct vipl__connect connect = {.timeout_ms = Timeout};
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    rc = vipl__connect_read(vi, call, LocalAddr, RemoteAddr, &connect);
    if (rc == VIP_SUCCESS)
        rc = vipl__connect_start(vi, call, &connect, false);
    if (rc == VIP_SUCCESS)
        rc = vipl__attempt_result(vi, call, RemoteViAttribs, NULL);
    vipl__leave(vi->session);
    return rc;
}

/*
 * Have all sends up to number *wait->ret[0] completed, even if with errors? VIP_SUCCESS: yes,
 * or vipd or the VI is gone. VIP_NOT_DONE: no.
 */
static VIP_RETURN attempt_linger(struct vipl__sleeper *wait)
{
    struct vipl__vi *vi = wait->object;
    const uint32_t *via = wait->ret[0];

    vipl__lent_poll(vi);
    return (int32_t)(*via - vipl__sends_completed(vi)) <= 0 || vipl__vi_is_dead(vi) ||
                   !vipl__vi_is(vi, wait->handle)
               ? VIP_SUCCESS
               : VIP_NOT_DONE;
}

static void lingerers_changed(struct vipl__sleeper *wait)
{
    struct vipl__vi *vi = wait->object;

    vipl__lent_sleep(vi->session, &vi->asks.sleeps);
}

/*
 * Wait until all earlier sends have completed. At the reliable levels a completion of vipd says
 * that the peer has processed the operation, or that the connection is over. A message that went by
 * a ring is already with the peer. vipd publishes the time limit of the wait. The thread waits as
 * in VipSendWait and holds no lock, so calls of other threads do not wait.
 */
static void linger(struct vipl__vi *vi, uint64_t handle)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];
    uint32_t via = __atomic_load_n(&queue->via, __ATOMIC_RELAXED);
    uint32_t linger_ms = vip_load32(&vi->session->vipd->linger_ms);
    struct vipl__sleeper wait = {.prod = queue->prod,
                                 .waiters = queue->waiters,
                                 .spin_ns = &queue->spin_ns,
                                 .attempt = attempt_linger,
                                 .sleepers_changed = lingerers_changed,
                                 .object = vi,
                                 .handle = handle,
                                 .ret = {&via}};

    if (linger_ms > 0 && vi->attrs.ReliabilityLevel != VIP_SERVICE_UNRELIABLE)
        (void)vipl__sleep(vi->session, &wait, linger_ms);
}

VIP_RETURN VipDisconnect(VIP_VI_HANDLE ViHandle)
{
    struct vipl__vi *vi = vipl__vi_enter(ViHandle, "VipDisconnect");
    Vip__ViRequest disconnect = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    linger(vi, (uint64_t)(uintptr_t)ViHandle);
    vipl__lent_stop(vi);
    if (!vipl__vi_is(vi, (uint64_t)(uintptr_t)ViHandle)) {
        vipl__leave(vi->session);
        return vipl__bad_vi("VipDisconnect", ViHandle); /* another thread has destroyed the VI */
    }
    /* If another thread waits for an attempt on this VI, vipd ends the attempt, and that thread
     * gets the result. */
    disconnect.has_vi = 1;
    disconnect.vi = vi->index;
    request.body_case = VIP__REQUEST__BODY_DISCONNECT;
    request.disconnect = &disconnect;
    rc = vipl__refused_disconnect(vi)
             ? VIP_SUCCESS
             : vipl__call(vi->session, "VipDisconnect", &request, NULL, 0, NULL);
    if (rc == VIP_INVALID_PARAMETER && vipl__refused_disconnect(vi)) /* vipd has refused the VI */
        rc = VIP_SUCCESS;
    if (rc == VIP_SUCCESS)
        vipl__attempt_cancelled(vi);
    vipl__leave(vi->session);
    return rc;
}
